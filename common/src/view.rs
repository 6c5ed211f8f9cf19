//! What the master shows of its jobs, tasks, attempts and hosts. The command line prints these for
//! people and as JSON.

use serde::{Deserialize, Serialize};

use crate::attempt::Stream;
use crate::availability::Stretch;
use crate::checkpoint::Saved;
use crate::content::BlobRef;
use crate::host::HostFacts;
use crate::ids::{AttemptId, HostId, JobId, TaskId};
use crate::idset::IdSet;
use crate::path::PortablePath;
use crate::time::{Span, Time};
use crate::token::Role;
use crate::units::Speed;

macro_rules! states {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vmeta])* $variant),+ }
        impl $name {
            /// Every state, in the order in which lists show them.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $($name::$variant => $text),+ })
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(s: &str) -> Result<Self, String> {
                match s { $($text => Ok($name::$variant),)+ other => Err(format!("`{other}` is not one of {:?}", [$($text),+])) }
            }
        }
    };
}

mod account;
mod promise;
mod starts;
mod width;

pub use account::{AccountView, SpeculationView, SpreadView};
pub use promise::{EstimatesView, LimitsView, PromiseState, PromiseStatus};
pub use starts::{StartView, WaitView};
pub use width::{AccuracyView, ForetoldView, ScalingView, WayView, WidthView};

states! {
    /// State of a job.
    JobState {
        /// No task of it has been started.
        Waiting = "waiting",
        /// Some task was started and some task is not settled.
        Running = "running",
        /// Every task finished.
        Finished = "finished",
        /// Every task is settled, and some failed.
        Failed = "failed",
        /// Every task is settled, none failed, and some were cancelled.
        Cancelled = "cancelled",
        /// It was never let in.
        Refused = "refused",
    }
}

states! {
    /// State of a task.
    TaskState {
        /// Speculative: may be asked for later.
        Disclosed = "disclosed",
        /// Has no live attempt and wants one.
        Waiting = "waiting",
        /// Has a live attempt.
        Running = "running",
        /// Has live attempts, all suspended.
        Suspended = "suspended",
        /// An attempt succeeded.
        Finished = "finished",
        /// Its retries are used up.
        Failed = "failed",
        /// Somebody, or a rule of the job, cancelled it.
        Cancelled = "cancelled",
    }
}

states! {
    /// State of an attempt.
    AttemptState {
        /// Given to a host; nothing was executed.
        Assigned = "assigned",
        /// Its inputs are being fetched.
        Staging = "staging",
        /// Its command runs.
        Running = "running",
        /// Its command is frozen, and will go on.
        Suspended = "suspended",
        /// It succeeded.
        Finished = "finished",
        /// It ended without success.
        Failed = "failed",
        /// Its host was not heard of beyond its lease.
        Lost = "lost",
        /// The scheduler ended it; not the task's fault.
        Killed = "killed",
    }
}

states! {
    /// How far the result of an attempt is believed, of a job that compares results.
    Belief {
        /// It waits for others to agree with it.
        Open = "open",
        /// It counts without a comparison.
        Alone = "alone",
        /// It agrees with the one that counts, or is that one.
        Agreed = "agreed",
        /// It differs from the one that counts.
        Differed = "differed",
    }
}

states! {
    /// State of a host.
    HostState {
        /// Connected, with a free slot.
        Ready = "ready",
        /// Connected, every slot taken.
        Busy = "busy",
        /// Its owner needs it: tasks there are frozen.
        Suspended = "suspended",
        /// Heartbeats are missing; its attempts still count as alive.
        Suspect = "suspect",
        /// Not heard of beyond its lease.
        Lost = "lost",
        /// Gets no new work.
        Draining = "draining",
        /// Tasks failed there that succeeded elsewhere, or it has no room: it gets one at a time,
        /// after pauses.
        Benched = "benched",
    }
}

impl JobState {
    /// Whether nothing more will happen by itself.
    pub fn settled(self) -> bool {
        !matches!(self, JobState::Waiting | JobState::Running)
    }
}

impl AttemptState {
    /// Whether the attempt may still end with a result.
    pub fn live(self) -> bool {
        self <= AttemptState::Suspended
    }
}

/// How many tasks of a job are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCounts {
    /// All of them.
    pub total: u64,
    /// Speculative ones.
    pub disclosed: u64,
    /// With no live attempt, not settled.
    pub waiting: u64,
    /// With a live attempt that is not suspended.
    pub running: u64,
    /// With live attempts, all suspended.
    pub suspended: u64,
    /// Done.
    pub finished: u64,
    /// Given up.
    pub failed: u64,
    /// Cancelled.
    pub cancelled: u64,
}

impl TaskCounts {
    /// Tasks that are settled one way or the other.
    pub fn settled(&self) -> u64 {
        self.finished + self.failed + self.cancelled
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// Its number.
    pub job: JobId,
    /// What people call it.
    pub name: String,
    /// Who submitted it.
    pub user: String,
    /// Its state.
    pub state: JobState,
    /// Its policy.
    pub policy: String,
    /// Higher goes first.
    pub priority: i32,
    /// Its tasks, by state.
    pub tasks: TaskCounts,
    /// Attempts started so far.
    pub attempts: u64,
    /// Those of them that were started while another of the same task lived.
    pub duplicates: u64,
    /// When its submission was acknowledged.
    pub submitted: Time,
    /// When its first attempt was assigned.
    pub started: Option<Time>,
    /// When its last task was settled.
    pub finished: Option<Time>,
    /// When it is expected to be finished, while it is not. In a list only of the first 32 jobs
    /// that are not settled: where it is missing in a long list, ask `job predict`.
    pub predicted: Option<Forecast>,
    /// The makespan that was predicted when its first attempt was assigned, or as soon as a
    /// prediction was possible.
    pub predicted_makespan: Option<Span>,
    /// Why it is in its state, where that needs saying.
    pub reason: Option<String>,
    /// What it was promised, and what becomes of that. In a list only of those with a forecast, and
    /// of settled ones.
    pub promise: Option<PromiseStatus>,
    /// The limits of its attempts, where they are learned.
    pub limits: Option<LimitsView>,
    /// When its first task should start, while none has. In a list only of the first few such jobs.
    pub starts: Option<StartView>,
    /// On how many hosts at once it runs, of a job of several ranks that is not settled.
    pub width: Option<WidthView>,
}

/// When something is expected to be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// The best guess.
    pub finish: Time,
    /// The earliest and the latest time between which it lies with a chance of 80 %, where that can
    /// be said.
    pub interval: Option<(Time, Time)>,
}

/// What a job with a deadline is promised when it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PromiseView {
    /// When its last task is to be done.
    pub deadline: Time,
    /// When it should be done.
    pub finish: Time,
    /// The probability that the deadline is kept, by how earlier promises were.
    pub probability: f64,
    /// Whether nothing is known yet of how good its user's estimates are, so that it is taken to
    /// find out.
    pub probation: bool,
    /// How good they were, for this program, where some can be compared with what tasks took.
    pub estimates: Option<QualityView>,
}

/// How good a user's estimates were.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QualityView {
    /// Tasks that were compared.
    pub tasks: u64,
    /// What tasks took by what was estimated: the median, and the ends of the middle 80 %.
    pub ratio: (f64, f64, f64),
    /// The smallest Q for which nine of ten tasks satisfy |estimate - time| / estimate <= Q.
    pub qoe: f64,
}

/// Why a job with a deadline is not taken, and what would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterView {
    /// Why not.
    pub why: String,
    /// The earliest deadline that could be promised now, where there is one: as a time, a whole
    /// second that leaves time to ask for it, and as a span from when it is asked for.
    pub earliest: Option<(Time, Span)>,
    /// The most of its tasks that could be done by its deadline without the others.
    pub fits: IdSet,
}

/// A task with its attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// Which one.
    pub task: TaskId,
    /// Its item, where the job was made from a list.
    pub item: Option<String>,
    /// Its state.
    pub state: TaskState,
    /// Why it is in its state, where that needs saying.
    pub reason: Option<String>,
    /// Oldest first.
    pub attempts: Vec<AttemptView>,
    /// Its life, if it was only disclosed at first.
    pub speculation: Option<SpeculationView>,
}

/// An attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptView {
    /// Which one.
    pub attempt: AttemptId,
    /// Its host's name.
    pub host: String,
    /// Its state.
    pub state: AttemptState,
    /// Whether it was started while another attempt of its task lived.
    pub duplicate: bool,
    /// When it was assigned to its host.
    pub assigned: Time,
    /// When its command was started, as far as is known.
    pub started: Option<Time>,
    /// When it ended.
    pub finished: Option<Time>,
    /// Run time without suspensions.
    pub ran: Span,
    /// Processor time.
    pub cpu: Span,
    /// Time suspended, as far as its host has said.
    pub suspended: Span,
    /// Since when it has been suspended, if it is.
    pub suspended_since: Option<Time>,
    /// Its command's exit code.
    pub exit_code: Option<i32>,
    /// Why it was started (a retry, a duplicate) and why it ended as it did.
    pub reason: Option<String>,
    /// The saved state that it was given to start from.
    pub started_from: Option<Saved>,
    /// The newest state that it has saved. The task goes on from it only if it has more in it than
    /// what others saved.
    pub saved: Option<Saved>,
    /// What was wrong with a state: not saved, or not used.
    pub checkpoint_problem: Option<String>,
    /// How far its result is believed, where results are compared.
    pub belief: Option<Belief>,
}

/// A result that waits for a program of the user's to say with which others it agrees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Undecided {
    /// What is new.
    pub result: OutputView,
    /// What was there before it, oldest first.
    pub others: Vec<OutputView>,
}

/// What an attempt left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputView {
    /// Which attempt: of a finished task the one that finished it, of any other its latest with
    /// output.
    pub attempt: AttemptId,
    /// Its host's name.
    pub host: String,
    /// Standard output, and the file name that the job gave it.
    pub stdout: (Stream, Option<String>),
    /// Standard error, and the file name that the job gave it.
    pub stderr: (Stream, Option<String>),
    /// Collected files.
    pub files: Vec<FileView>,
    /// Whether all that was removed, since nobody had requested it and it took too much room.
    pub removed: bool,
}

/// A collected output file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileView {
    /// Its path below the attempt's directory.
    pub path: PortablePath,
    /// Its content.
    pub blob: BlobRef,
    /// Whether it may be executed.
    pub executable: bool,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostView {
    /// The master's number for it.
    pub id: HostId,
    /// What its worker said of it; its name is unique.
    pub facts: HostFacts,
    /// Its state.
    pub state: HostState,
    /// Why it is in its state, where that needs saying.
    pub reason: Option<String>,
    /// Since when it has been in its state.
    pub since: Time,
    /// When it was last heard of.
    pub heard: Option<Time>,
    /// Part of the processor that tasks could have had lately, between 0 and 1, where measured.
    pub cpu_availability: Option<f64>,
    /// Whether the owner was active when last heard of, where known.
    pub owner_active: Option<bool>,
    /// How many of its slots its owner lets tasks use.
    pub slots_usable: u32,
    /// Attempts that it holds.
    pub attempts: Vec<AttemptId>,
    /// Attempts that it has finished since it enrolled.
    pub finished: u64,
    /// Attempts that were lost with it since it enrolled.
    pub lost: u64,
    /// Whose it is, as an admin said; nobody's but its own where nothing was said.
    pub belongs_to: Option<String>,
    /// How many of its results in a row agreed with others', of jobs that compare results.
    pub agreed: u32,
}

/// A join token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenView {
    /// Its number.
    pub id: u32,
    /// What its holder becomes.
    pub role: Role,
    /// What the admin called it.
    pub name: String,
    /// How often it may still be used.
    pub uses_left: u32,
    /// When it stops working.
    pub expires: Time,
    /// Whether an admin revoked it.
    pub revoked: bool,
}

/// Why a job's tasks wait, and why each host was passed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainView {
    /// The job.
    pub job: JobView,
    /// Each reason with the tasks that it holds back, as a selector.
    pub waiting: Vec<(String, String)>,
    /// Each host's name with why it takes none of them.
    pub hosts: Vec<(String, String)>,
    /// Live attempts that are copies of other live ones.
    pub duplicates: Vec<DuplicateView>,
}

/// A live copy of a live attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DuplicateView {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Its host's name.
    pub host: String,
    /// Why it was started.
    pub why: String,
}

/// Some of what is recorded of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AvailabilityView {
    /// The host's name.
    pub host: String,
    /// How fast it is.
    pub speed: Speed,
    /// Since when it is recorded, whatever was asked for; nothing where it never was.
    pub known_since: Option<Time>,
    /// Whether its worker is connected: then what comes after the last stretch may just not have
    /// arrived.
    pub connected: bool,
    /// The oldest first.
    pub stretches: Vec<Stretch>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_read_back_what_they_print() {
        for state in AttemptState::ALL {
            assert_eq!(state.to_string().parse::<AttemptState>().unwrap(), *state);
        }
        assert!("gone".parse::<JobState>().is_err());
        assert!(AttemptState::Suspended.live() && !AttemptState::Finished.live());
    }
}
