//! The views of jobs, tasks, attempts and hosts that the master shows. The command line prints them
//! for people and as JSON.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::attempt::{OutputFile, Stream};
use crate::availability::AvailabilityInterval;
use crate::checkpoint::Saved;
use crate::host::HostFacts;
use crate::ids::{AttemptId, HostId, JobId, TaskId};
use crate::idset::IdSet;
use crate::job::Rules;
use crate::needs::Label;
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
                match s { $($text => Ok($name::$variant),)+ other => Err(format!("`{other}` is not one of {}", [$($text),+].join(", "))) }
            }
        }
    };
}

mod account;
mod after;
mod explained;
mod masters;
mod promise;
mod starts;
mod width;

pub use account::{AccountView, ShareView, SpeculationView, SpreadView};
pub use after::AfterView;
pub use masters::{MastersView, StandbyView};
pub use promise::{EstimatesView, LimitsView, PromiseState, PromiseStatus};
pub use starts::{StartView, WaitView};
pub use width::{AccuracyView, ForetoldView, ScalingView, WayView, WidthView};

states! {
    /// State of a job.
    JobState {
        /// No task was started.
        Waiting = "waiting",
        /// Some task was started, and some task is not settled.
        Running = "running",
        /// Every task finished.
        Finished = "finished",
        /// Every task is settled, and some failed.
        Failed = "failed",
        /// Every task is settled, none failed, and some were cancelled.
        Cancelled = "cancelled",
        /// The job was refused and never started.
        Refused = "refused",
    }
}

states! {
    /// State of a task.
    TaskState {
        /// Disclosed: nobody waits for it yet, and it may be requested later.
        Disclosed = "disclosed",
        /// Requested, without a live attempt.
        Waiting = "waiting",
        /// Has a live attempt.
        Running = "running",
        /// Has live attempts, all suspended.
        Suspended = "suspended",
        /// An attempt succeeded.
        Finished = "finished",
        /// Failed, and its retries (`Rules::retries`) are used up.
        Failed = "failed",
        /// Cancelled by a person or a rule of the job.
        Cancelled = "cancelled",
    }
}

states! {
    /// State of an attempt.
    AttemptState {
        /// Assigned to a host; nothing was executed.
        Assigned = "assigned",
        /// Its inputs are being fetched.
        Staging = "staging",
        /// Its command runs.
        Running = "running",
        /// Its command is frozen, and will be thawed.
        Suspended = "suspended",
        /// It succeeded.
        Finished = "finished",
        /// It ended without success.
        Failed = "failed",
        /// Its host was silent for longer than the lease.
        Lost = "lost",
        /// The scheduler ended it; this is no failure of the task.
        Killed = "killed",
    }
}

states! {
    /// The credibility of an attempt's result, in a job that compares results (`Rules::quorum`).
    Belief {
        /// Not decided: too few results agree with it so far.
        Open = "open",
        /// Accepted without a comparison.
        Alone = "alone",
        /// Accepted: it agrees with the accepted result, or is that one.
        Agreed = "agreed",
        /// It differs from the accepted result.
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
        /// Its owner needs it, so its tasks are frozen.
        Suspended = "suspended",
        /// Heartbeats are missing, but its attempts still count as alive.
        Suspect = "suspect",
        /// Silent for longer than its lease.
        Lost = "lost",
        /// Draining: it gets no new attempts.
        Draining = "draining",
        /// Benched: tasks failed there that succeeded elsewhere, or its disk is full. It gets one
        /// attempt at a time, after pauses.
        Benched = "benched",
    }
}

impl JobState {
    /// Whether the job's state is final unless somebody acts.
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

/// The number of a job's tasks in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCounts {
    /// All tasks.
    pub total: u64,
    /// Disclosed tasks.
    pub disclosed: u64,
    /// Tasks with no live attempt, not settled.
    pub waiting: u64,
    /// Tasks with a live attempt that is not suspended.
    pub running: u64,
    /// Tasks whose live attempts are all suspended.
    pub suspended: u64,
    /// Tasks that are done.
    pub finished: u64,
    /// Tasks that were given up.
    pub failed: u64,
    /// Cancelled tasks.
    pub cancelled: u64,
}

impl TaskCounts {
    /// Returns the number of tasks in each [`TaskState`], in the order of [`TaskState::ALL`].
    pub fn by_state(&self) -> [(TaskState, u64); 7] {
        [
            (TaskState::Disclosed, self.disclosed),
            (TaskState::Waiting, self.waiting),
            (TaskState::Running, self.running),
            (TaskState::Suspended, self.suspended),
            (TaskState::Finished, self.finished),
            (TaskState::Failed, self.failed),
            (TaskState::Cancelled, self.cancelled),
        ]
    }

    /// Returns the number of settled tasks: finished, failed or cancelled.
    pub fn settled(&self) -> u64 {
        self.finished + self.failed + self.cancelled
    }
}

impl std::ops::Add for TaskCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            total: self.total + other.total,
            disclosed: self.disclosed + other.disclosed,
            waiting: self.waiting + other.waiting,
            running: self.running + other.running,
            suspended: self.suspended + other.suspended,
            finished: self.finished + other.finished,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
        }
    }
}

/// A job, as `job` commands show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// The job's number.
    pub job: JobId,
    /// The job's name.
    pub name: String,
    /// The user who submitted it.
    pub user: String,
    /// Its state.
    pub state: JobState,
    /// The name of its policy.
    pub policy: String,
    /// Its priority: higher goes first.
    pub priority: i32,
    /// The needs of its tasks, as `--needs` reads them; empty if they need nothing but a slot.
    pub needs: String,
    /// Its tasks, by state.
    pub tasks: TaskCounts,
    /// The number of attempts started so far.
    pub attempts: u64,
    /// The number of those that were copies: started while another attempt of the same task was
    /// alive.
    pub duplicates: u64,
    /// The time at which its submission was acknowledged.
    pub submitted: Time,
    /// The time at which its first attempt was assigned.
    pub started: Option<Time>,
    /// The time at which its last task was settled.
    pub finished: Option<Time>,
    /// The forecast of its end, until it is settled. Lists hold it only for the first 32 unsettled
    /// jobs; for the others ask `job predict`.
    pub predicted: Option<Forecast>,
    /// The makespan, from its submission, that was predicted at first: on submission, or as soon as
    /// that was possible.
    pub predicted_makespan: Option<Span>,
    /// The reason of its state, where there is more to say.
    pub reason: Option<String>,
    /// Its promise and the state of that. Lists hold it only for jobs with a forecast and for
    /// settled ones.
    pub promise: Option<PromiseStatus>,
    /// The learned run-time limits of its attempts, if it has any.
    pub limits: Option<LimitsView>,
    /// The forecast of its first start, until that happens. Lists hold it only for the first few
    /// such jobs.
    pub starts: Option<StartView>,
    /// The width of a gang that is not settled.
    pub width: Option<WidthView>,
    /// The part of an unsettled job that is done, between 0 and 1, if a running task reports
    /// progress. Lists hold it only for jobs with a forecast.
    pub progress: Option<f64>,
    /// The words that its user gave it.
    pub labels: BTreeSet<Label>,
    /// The jobs that it waits for, or has waited for.
    pub after: Vec<AfterView>,
    /// Whether tasks can be added to it: it is not settled before it is closed.
    pub open: bool,
}

/// A forecast of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// The most likely time.
    pub finish: Time,
    /// The earliest and the latest time of the 80 % prediction interval, where one can be given.
    pub interval: Option<(Time, Time)>,
}

/// The promise to a job with a deadline, as made when the job is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PromiseView {
    /// The time by which its last task must be done.
    pub deadline: Time,
    /// The time at which its last task should be done.
    pub finish: Time,
    /// The probability that the deadline is kept, learned from earlier promises.
    pub probability: f64,
    /// Whether the job is taken on probation, because nothing is known yet of the quality of its
    /// user's estimates.
    pub probation: bool,
    /// The quality of the user's estimates for this program, where some can be compared with run
    /// times.
    pub estimates: Option<QualityView>,
}

/// The quality of a user's estimates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QualityView {
    /// The number of tasks that were compared.
    pub tasks: u64,
    /// The ratio of run time to estimate: the median, and the ends of the middle 80 %.
    pub ratio: (f64, f64, f64),
    /// The smallest Q for which nine of ten tasks satisfy |estimate - time| / estimate <= Q.
    pub qoe: f64,
}

/// The refusal of a deadline, with the master's counter-offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterView {
    /// The reason of the refusal.
    pub why: String,
    /// The earliest deadline that could be promised now, if there is one: as a time, a whole second
    /// that leaves time to ask for it, and as a span from the moment it is asked for.
    pub earliest: Option<(Time, Span)>,
    /// The largest part of its tasks that could be done by its deadline without the others.
    pub fits: IdSet,
}

/// A task with its attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// The task.
    pub task: TaskId,
    /// Its item, if the job was made from a list.
    pub item: Option<String>,
    /// Its state.
    pub state: TaskState,
    /// The reason of its state, where there is more to say.
    pub reason: Option<String>,
    /// Its attempts, the oldest first.
    pub attempts: Vec<AttemptView>,
    /// Its times of disclosure, request and execution, if it was disclosed first.
    pub speculation: Option<SpeculationView>,
}

impl TaskView {
    /// Returns the attempt that shows how the task stands: of a finished task the one whose result
    /// counts, else the newest that is live, else the newest.
    pub fn main_attempt(&self) -> Option<&AttemptView> {
        let newest = |is: fn(&AttemptView) -> bool| self.attempts.iter().rev().find(|it| is(it));
        let counts = newest(AttemptView::counts).filter(|_| self.state == TaskState::Finished);
        counts
            .or_else(|| newest(|attempt| attempt.state.live()))
            .or(self.attempts.last())
    }

    /// Whether no result of it counts yet and its newest one has to agree with others first, or had
    /// to when it failed or was cancelled. An attempt that was lost or ended by the master has left none.
    pub fn is_unconfirmed(&self) -> bool {
        let left = |attempt: &AttemptView| attempt.exit_code.is_some() || attempt.belief.is_some();
        let mut attempts = self.attempts.iter();
        let newest = attempts.rfind(|attempt| !attempt.state.live() && left(attempt));
        self.state != TaskState::Finished
            && newest.is_some_and(|attempt| attempt.belief == Some(Belief::Open))
    }
}

impl AttemptView {
    /// Whether its result is that of its task, or was until the task ran again: it finished, and
    /// where results are compared it is the one that the others agree with.
    fn counts(&self) -> bool {
        let says_so = || self.reason.as_ref().is_some_and(|why| why.contains(COUNTS));
        let believed = match self.belief {
            None | Some(Belief::Alone) => true,
            Some(Belief::Agreed) => says_so(),
            Some(Belief::Open | Belief::Differed) => false,
        };
        self.state == AttemptState::Finished && believed
    }

    /// Returns the run time in words: an upper bound if it was started and ended and its host never told, and `None`
    /// if it was not started, as far as is known, or nothing was told yet.
    pub fn run_in_words(&self) -> Option<String> {
        match (self.ran, self.started, self.finished) {
            (Span::ZERO, None, _) | (Span::ZERO, _, None) => None,
            (Span::ZERO, Some(started), Some(finished)) if finished > started => {
                Some(format!("up to {}", finished.since(started)))
            }
            (ran, ..) => Some(ran.to_string()),
        }
    }
}

/// The words in the reason of an attempt whose result counts after a comparison.
pub const COUNTS: &str = "its result counts, as enough others agree with it";

/// An attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptView {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its host's name.
    pub host: String,
    /// Its state.
    pub state: AttemptState,
    /// Whether it is a copy: started while another attempt of its task was alive, and not to bring
    /// another result that is compared.
    pub duplicate: bool,
    /// The time at which it was assigned to its host.
    pub assigned: Time,
    /// The time at which its command was started, as far as is known.
    pub started: Option<Time>,
    /// The time at which it ended.
    pub finished: Option<Time>,
    /// Run time without suspensions.
    pub ran: Span,
    /// Processor time.
    pub cpu: Span,
    /// Time suspended, as far as its host has said.
    pub suspended: Span,
    /// The start of the present suspension, if it is suspended.
    pub suspended_since: Option<Time>,
    /// Its command's exit code.
    pub exit_code: Option<i32>,
    /// The reason why it was started (a retry, a copy) and why it ended as it did.
    pub reason: Option<String>,
    /// The checkpoint that it was given to start from.
    pub started_from: Option<Saved>,
    /// The newest checkpoint that it has saved. The task goes on from it only if it is further than
    /// those of other attempts.
    pub saved: Option<Saved>,
    /// The reason why a checkpoint was not saved, or not used.
    pub checkpoint_problem: Option<String>,
    /// The credibility of its result, if its job compares results.
    pub belief: Option<Belief>,
    /// The part done, between 0 and 1, while it is live and its program reports it.
    pub progress: Option<f32>,
    /// The words of the program about that, or why its report is ignored.
    pub words: Option<String>,
}

/// A result that waits for the user's program to compare it (`Compare::Program`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Undecided {
    /// The new result.
    pub result: OutputView,
    /// The earlier results, oldest first.
    pub others: Vec<OutputView>,
}

/// The output of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputView {
    /// The attempt: for a finished task the one that finished it, otherwise the latest one with
    /// output.
    pub attempt: AttemptId,
    /// Its host's name.
    pub host: String,
    /// Standard output, and the file name that the job gave it.
    pub stdout: (Stream, Option<String>),
    /// Standard error, and the file name that the job gave it.
    pub stderr: (Stream, Option<String>),
    /// Collected files.
    pub files: Vec<OutputFile>,
    /// The outputs that were not kept, or not as files by themselves, in words.
    pub warnings: Vec<String>,
    /// Whether all of it was removed, because nobody had requested it and it took too much room.
    pub removed: bool,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostView {
    /// The number that the master gave it.
    pub id: HostId,
    /// Its facts, as its worker reported them; the name is made unique.
    pub facts: HostFacts,
    /// Its state.
    pub state: HostState,
    /// The reason of its state, where there is more to say.
    pub reason: Option<String>,
    /// Whether it is not expected back: its identity was revoked, or it was not heard of for 30
    /// days.
    pub gone: bool,
    /// The time since which it has been in its state.
    pub since: Time,
    /// The time of its last message.
    pub heard: Option<Time>,
    /// The recent mean part of the processor that tasks could have, between 0 and 1, where
    /// measured.
    pub cpu_availability: Option<f64>,
    /// The probability that a task that begins there now runs for an hour undisturbed: that the host is not lost and its
    /// owner not back before. `None` while it is away, silent or its owner keeps tasks off.
    pub undisturbed_1h: Option<f64>,
    /// Whether the owner was active at the last message, where known.
    pub owner_active: Option<bool>,
    /// The number of its slots that its owner lets tasks use.
    pub slots_usable: u32,
    /// The attempts that it holds.
    pub attempts: Vec<AttemptId>,
    /// The number of attempts that it has finished since it enrolled.
    pub finished: u64,
    /// The number of attempts that were lost with it since it enrolled.
    pub lost: u64,
    /// The owner that an admin set with `Request::HostOwner`; `None`: it counts as an owner of its
    /// own.
    pub belongs_to: Option<String>,
    /// The number of its latest results in a row that agreed with others', among jobs that compare
    /// results.
    pub agreed: u32,
    /// The labels that admins gave it, beside those of its owner in `facts`.
    pub labels: BTreeSet<Label>,
}

/// A join token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenView {
    /// Its number.
    pub id: u32,
    /// The role of its holder.
    pub role: Role,
    /// The admin's name for it.
    pub name: String,
    /// The number of times that it may still be used.
    pub uses_left: u32,
    /// The time at which it expires.
    pub expires: Time,
    /// Whether an admin revoked it.
    pub revoked: bool,
    /// The user for whom it speaks over HTTP; `None`: machines join with it.
    pub speaks_for: Option<String>,
}

impl TokenView {
    /// Returns why nobody can use it any more, in a word or two; `None` while it can be used.
    pub fn ended(&self, now: Time) -> Option<&'static str> {
        // A token that speaks for somebody is not used up.
        let used_up = self.uses_left == 0 && self.speaks_for.is_none();
        match (self.revoked, used_up, self.expires <= now) {
            (true, ..) => Some("revoked"),
            (_, true, _) => Some("used up"),
            (.., true) => Some("expired"),
            (false, false, false) => None,
        }
    }
}

/// The reasons why a job's tasks wait, and why each host was passed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainView {
    /// The job.
    pub job: JobView,
    /// The reasons for waiting, each with the tasks that it holds back, as a selector. Where there are too
    /// many for a message, a reason says how many are not named.
    pub waiting: Vec<(String, String)>,
    /// The name of each host with the reason why it takes none of them. Where there are too many for a
    /// message, some rows count hosts instead ([`ExplainView::left_out`]).
    pub hosts: Vec<(String, String)>,
    /// The live attempts that are copies of other live ones.
    pub duplicates: Vec<DuplicateView>,
    /// The share of the job's user; `None` once the job is settled.
    pub share: Option<ShareView>,
}

/// The reasons why a host takes no more tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostExplainView {
    /// The host.
    pub host: HostView,
    /// The unfinished jobs, those with waiting tasks first.
    pub jobs: Vec<HostJobView>,
    /// The number of further unfinished jobs.
    pub more: u64,
}

/// The reason why a host takes no more tasks of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostJobView {
    /// The job.
    pub job: JobId,
    /// The number of its tasks that wait.
    pub waiting: u64,
    /// The reason why the host takes none of them, or where none waits no copy of a running one.
    pub why: String,
}

/// A live copy of a live attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DuplicateView {
    /// The copy.
    pub attempt: AttemptId,
    /// Its host's name.
    pub host: String,
    /// The reason why it was started.
    pub why: String,
}

/// A live attempt of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunningView {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its host's name.
    pub host: String,
    /// The time for which nothing has been heard of its host, where that is more than its host
    /// promised.
    pub silent: Option<Span>,
    /// The probability that it is gone.
    pub gone: f64,
    /// The time until it is copied if it goes on so and a host is idle then; `None` if it will not
    /// be.
    pub copied_in: Option<Span>,
}

/// The work of a job's tasks and the rules by which they run, as submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkView {
    /// Program and arguments, with placeholders; empty where tasks run nothing.
    pub command: Vec<String>,
    /// The variables of the environment, as `NAME=VALUE`.
    pub env: Vec<String>,
    /// The name of the input that is standard input.
    pub stdin: Option<String>,
    /// The names of the inputs; those of directories end in `/`.
    pub inputs: Vec<String>,
    /// The expected outputs, as globs.
    pub outputs: Vec<String>,
    /// The number of entries of these lists, and of long ones among them, that were cut.
    pub cut: u64,
    /// The interval between checkpoints of a running task.
    pub checkpoint: Option<Span>,
    /// The rules.
    pub rules: Rules,
}

impl WorkView {
    /// The most entries of each list; what is beyond is cut.
    pub const SHOWN: usize = 64;

    /// Returns that of tasks that run nothing, under these rules.
    pub fn empty(rules: Rules) -> Self {
        Self {
            command: Vec::new(),
            env: Vec::new(),
            stdin: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            cut: 0,
            checkpoint: None,
            rules,
        }
    }
}

/// The recorded availability of a host, or a part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AvailabilityView {
    /// The host's name.
    pub host: String,
    /// The speed of one of its slots.
    pub speed: Speed,
    /// The start of the recording, whatever was asked for; `None` if nothing was ever recorded.
    pub known_since: Option<Time>,
    /// Whether its worker is connected: records after the last interval may then be still on their
    /// way.
    pub connected: bool,
    /// The intervals, oldest first.
    pub stretches: Vec<AvailabilityInterval>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task in this state with attempts in these.
    fn task(state: TaskState, attempts: &[AttemptState]) -> TaskView {
        let attempt = |number: u32, state| AttemptView {
            attempt: AttemptId {
                task: TaskId::new(JobId(1), 1),
                number,
                incarnation: crate::Incarnation(1),
            },
            host: format!("h{number}"),
            state,
            duplicate: number > 1,
            assigned: Time(0),
            started: None,
            finished: Some(Time(u64::from(number))).filter(|_| !AttemptState::live(state)),
            ran: Span::ZERO,
            cpu: Span::ZERO,
            suspended: Span::ZERO,
            suspended_since: None,
            exit_code: None,
            reason: None,
            started_from: None,
            saved: None,
            checkpoint_problem: None,
            belief: None,
            progress: None,
            words: None,
        };
        TaskView {
            task: TaskId::new(JobId(1), 1),
            item: None,
            state,
            reason: None,
            attempts: (1..).zip(attempts).map(|(n, s)| attempt(n, *s)).collect(),
            speculation: None,
        }
    }

    #[test]
    fn an_attempt_that_left_nothing_does_not_make_an_open_result_one_that_counts() {
        use AttemptState::{Failed, Finished, Killed, Lost, Running};
        for after in [Lost, Killed, Running] {
            let mut task = task(TaskState::Waiting, &[Finished, after]);
            task.attempts[0].exit_code = Some(0);
            task.attempts[0].belief = Some(Belief::Open);
            assert!(task.is_unconfirmed(), "{after} after it");
        }

        let mut failed = task(TaskState::Failed, &[Finished, Failed]);
        failed.attempts[0].belief = Some(Belief::Open);
        failed.attempts[1].exit_code = Some(1);
        assert!(!failed.is_unconfirmed(), "the failure is what it left");
    }

    #[test]
    fn an_attempt_of_unknown_run_time_is_not_shown_as_zero() {
        let silent = AttemptView {
            started: Some(Time(1_000_000)),
            finished: Some(Time(13_000_000)),
            ..task(TaskState::Cancelled, &[AttemptState::Killed])
                .attempts
                .remove(0)
        };
        assert_eq!(silent.run_in_words().as_deref(), Some("up to 12.0s"));

        let said = AttemptView {
            ran: Span::from_secs(3),
            ..silent.clone()
        };
        assert_eq!(said.run_in_words().as_deref(), Some("3.0s"));

        // The master has restarted, and its host is not back.
        let untold = AttemptView {
            finished: None,
            ..silent.clone()
        };
        assert_eq!(untold.run_in_words(), None);
        let at_once = AttemptView {
            finished: silent.started,
            ..silent.clone()
        };
        assert_eq!(at_once.run_in_words().as_deref(), Some("0s"));

        // It is on its way to a host that is to confirm the result of another.
        let never_started = AttemptView {
            started: None,
            finished: None,
            ..silent
        };
        assert_eq!(never_started.run_in_words(), None);
    }

    #[test]
    fn the_main_attempt_of_a_task_whose_results_were_compared_is_the_one_that_counts() {
        use AttemptState::Finished;
        let mut task = task(TaskState::Finished, &[Finished; 4]);
        let said = [
            (Belief::Differed, "its result differs"),
            (Belief::Agreed, COUNTS),
            (Belief::Agreed, "its result agrees with that of attempt 2"),
            (Belief::Open, "its result waits"),
        ];
        for (attempt, (belief, why)) in task.attempts.iter_mut().zip(said) {
            attempt.belief = Some(belief);
            attempt.reason = Some(format!("first attempt; {why}"));
        }
        let main = task.main_attempt().map(|attempt| attempt.attempt.number);
        assert_eq!(main, Some(2));
    }

    #[test]
    fn the_main_attempt_of_a_finished_task_is_the_one_that_finished() {
        let main = |state, attempts: &[AttemptState]| {
            let task = task(state, attempts);
            task.main_attempt().map(|attempt| attempt.attempt.number)
        };

        use AttemptState::{Failed, Finished, Killed, Running};
        assert_eq!(main(TaskState::Finished, &[Finished, Killed]), Some(1));
        assert_eq!(main(TaskState::Finished, &[Failed, Finished]), Some(2));
        let recomputed = [Finished, Finished];
        assert_eq!(main(TaskState::Finished, &recomputed), Some(2));
        assert_eq!(main(TaskState::Running, &[Running, Failed]), Some(1));
        assert_eq!(main(TaskState::Running, &[Failed, Running]), Some(2));
        assert_eq!(main(TaskState::Failed, &[Failed, Failed]), Some(2));
        assert_eq!(main(TaskState::Waiting, &[]), None);
    }

    #[test]
    fn states_parse_their_own_text() {
        for state in AttemptState::ALL {
            assert_eq!(state.to_string().parse::<AttemptState>().unwrap(), *state);
        }
        assert!("gone".parse::<JobState>().is_err());
        assert!(AttemptState::Suspended.live() && !AttemptState::Finished.live());
    }
}
