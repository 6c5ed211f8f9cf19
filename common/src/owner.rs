//! The report of a worker to the owner of its host: its state, and the day so far. Every value is plain
//! and has its unit in its name; the names are stable. No message to a master has any of it.

use serde::{Deserialize, Serialize};

use crate::site::SiteReport;
use crate::time::Time;
use crate::update::UpdateReport;

/// The state of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// The host's name in its identity.
    pub host: String,
    /// The master's address.
    pub master: String,
    /// Whether it is connected to the master.
    pub connected: bool,
    /// The time that it has, or has not, been connected, in seconds.
    pub connected_for_s: f64,
    /// The time for which nothing has come from the master over the connection, in seconds; 0 while
    /// it answers.
    #[serde(default)]
    pub silent_for_s: f64,
    /// The reason why it is not connected, if that is known.
    pub not_connected_because: Option<String>,
    /// The reason why the master gives it no new tasks, or only one at a time: it is drained or benched. None from
    /// a master that does not say.
    #[serde(default)]
    pub out_of_service: Option<String>,
    /// The decision on what tasks may do: `run`, `yield` (in some slots), `freeze`, `evict`.
    pub decision: String,
    /// The reason why tasks may not use everything, if so: a word of `YieldReason`.
    pub reason: Option<String>,
    /// The time since the last change of the decision, in seconds.
    pub decided_for_s: f64,
    /// The end of the owner's pause, if there is one that ends by itself.
    #[serde(default, with = "iso::option")]
    pub paused_until: Option<Time>,
    /// Every reason that holds, with a sentence; the first one is decisive.
    pub why: Vec<Why>,
    /// The sensors with their last sights.
    pub sensors: Vec<SensorReport>,
    /// The attempts that it holds, including finished ones whose results are on their way.
    pub attempts: Vec<AttemptReport>,
    /// The number of tasks that it runs at a time.
    pub slots: u32,
    /// The number of slots that the owner lets tasks use now.
    pub slots_usable: u32,
    /// The level at which every task is confined.
    pub confinement: String,
    /// Whether it passes inputs on to other hosts: `yes`, or the reason why not.
    #[serde(default)]
    pub shares_inputs: String,
    /// The bytes of inputs that it has sent to other hosts since its start.
    #[serde(default)]
    pub inputs_sent_bytes: u64,
    /// The bytes of inputs that came from other hosts since its start.
    #[serde(default)]
    pub inputs_from_hosts_bytes: u64,
    /// The day so far; none from a worker that keeps no [`DayReport`].
    #[serde(default)]
    pub today: Option<DayReport>,
    /// The settings from the master; none from a worker that knows of none.
    #[serde(default)]
    pub site: Option<SiteReport>,
    /// New programs from the master; none from a worker that knows of none.
    #[serde(default)]
    pub update: Option<UpdateReport>,
    /// The program's version.
    pub version: String,
}

/// A reason for closing slots, as in [`StatusReport::why`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The reason, as a word of `YieldReason`.
    pub reason: String,
    /// A sentence with the sensor, its value, and the condition under which tasks are thawed.
    pub says: String,
}

/// A sensor and its last sight, as in [`StatusReport::sensors`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SensorReport {
    /// Its name.
    pub sensor: String,
    /// The topic that it looks at.
    pub topic: String,
    /// `seen`, `absent`, `unknown`, or `waiting` before its first look.
    pub state: String,
    /// Its last sight, in words.
    pub sees: String,
    /// The time since it last reported something new, in seconds.
    pub ago_s: Option<f64>,
}

/// An attempt, as in [`StatusReport::attempts`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptReport {
    /// The attempt.
    pub attempt: String,
    /// `queued`, `staging`, `running`, `suspended`, `ended`.
    pub phase: String,
    /// The reason of its suspension, if it is suspended.
    pub reason: Option<String>,
    /// The time that it has run, without suspensions, in seconds.
    pub run_s: f64,
    /// The length of its present suspension, in seconds.
    pub suspended_s: f64,
    /// The part done, if its program reports it.
    pub progress: Option<f32>,
}

/// The day of a worker so far ([`StatusReport::today`]), by the clock and time zone of its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DayReport {
    /// The midnight with which the day began.
    #[serde(with = "iso")]
    pub began: Time,
    /// The time of this report.
    #[serde(with = "iso")]
    pub now: Time,
    /// The lead of the host's time zone over UTC, in seconds.
    pub utc_offset_s: i32,
    /// The processor time of the worker and its tasks, in seconds.
    pub processor_s: f64,
    /// The time that tasks ran, without suspensions, in seconds.
    pub ran_s: f64,
    /// The time that tasks were suspended, in seconds.
    pub suspended_s: f64,
    /// The number of tasks that succeeded.
    pub tasks_done: u64,
    /// The number of tasks that were given back, for the owner's sake or since the worker ended.
    pub tasks_given_back: u64,
    /// The number of tasks that ended in any other way.
    pub tasks_failed: u64,
    /// The rules that held, one after the other, the oldest first.
    pub rules: Vec<RuleSpan>,
    /// The tasks that ended last, the newest first, perhaps before today.
    pub last_tasks: Vec<EndedTask>,
}

/// A time in which the same rule of the owner held, as in [`DayReport::rules`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSpan {
    /// The start.
    #[serde(with = "iso")]
    pub from: Time,
    /// The end; none while the rule holds.
    #[serde(with = "iso::option")]
    pub to: Option<Time>,
    /// The decisive reason, as a word of `YieldReason`; none while tasks could use every slot.
    pub reason: Option<String>,
    /// The number of slots that tasks could use.
    pub slots: u32,
}

/// A task that has ended on this host, as in [`DayReport::last_tasks`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedTask {
    /// The attempt, as `AttemptId` prints it: names of jobs are their users' affair.
    pub attempt: String,
    /// The time of its end.
    #[serde(with = "iso")]
    pub ended: Time,
    /// The manner of its end.
    pub how: TaskEnd,
    /// The time that it ran, without suspensions, in seconds.
    pub ran_s: f64,
    /// The time that it was suspended, in seconds.
    pub suspended_s: f64,
}

/// The manner of a task's end, as its host's owner may know it: without names of files or programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskEnd {
    /// It succeeded (`Outcome::Succeeded`).
    Succeeded,
    /// Its program ended with an error, or left no result.
    Failed,
    /// It ran longer than it may (`Outcome::TimedOut`).
    TimedOut,
    /// It exceeded a limit that the owner sets (`Outcome::OverLimit`).
    OverLimit,
    /// It could not be started here, or there was no room for it.
    NotStarted,
    /// The master stopped it (`Outcome::Stopped`).
    Stopped,
    /// It was given back to the master (`ToMaster::Spent`), to run elsewhere.
    GivenBack,
}

impl TaskEnd {
    /// Returns the end in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Succeeded => "done",
            Self::Failed => "failed",
            Self::TimedOut => "ended at its time limit",
            Self::OverLimit => "ended at a limit of this PC",
            Self::NotStarted => "could not be started here",
            Self::Stopped => "stopped by the master",
            Self::GivenBack => "given back, to run elsewhere",
        }
    }
}

impl From<&crate::Outcome> for TaskEnd {
    fn from(outcome: &crate::Outcome) -> Self {
        use crate::Outcome;
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Exited(_)
            | Outcome::Signalled(_)
            | Outcome::MissingOutput(_)
            | Outcome::BadOutput(_)
            | Outcome::ResultLost(_) => Self::Failed,
            Outcome::TimedOut(_) => Self::TimedOut,
            Outcome::OverLimit(_) => Self::OverLimit,
            Outcome::NotStarted(_) | Outcome::NoRoom(_) => Self::NotStarted,
            Outcome::Stopped => Self::Stopped,
        }
    }
}

/// Times of the wall clock as text in ISO 8601.
pub(crate) mod iso {
    use std::time::UNIX_EPOCH;

    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::time::{Span, Time, iso};

    pub(crate) fn serialize<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&iso(*time))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        read(&String::deserialize(from)?)
    }

    fn read<E: de::Error>(text: &str) -> Result<Time, E> {
        let time = humantime::parse_rfc3339(text).ok();
        time.and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .map(|since| Time(Span::from(since).0))
            .ok_or_else(|| E::custom(format!("`{text}` is no time")))
    }

    /// The same for a time that may be missing.
    pub(super) mod option {
        use serde::Serialize;

        use super::{Deserialize, Deserializer, Serializer, Time, iso, read};

        pub(in super::super) fn serialize<S: Serializer>(
            time: &Option<Time>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            time.map(iso).serialize(serializer)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Time>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            text.map(|text| read(&text)).transpose()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    #[test]
    fn an_owner_is_told_no_names_of_files_and_programs() {
        let secret = || "their-secret.dat".to_owned();
        for outcome in [
            Outcome::MissingOutput(secret()),
            Outcome::BadOutput(secret()),
            Outcome::NotStarted(secret()),
            Outcome::OverLimit(secret()),
            Outcome::NoRoom(secret()),
            Outcome::ResultLost(secret()),
        ] {
            let end = TaskEnd::from(&outcome);
            assert_ne!(end, TaskEnd::Succeeded);
            assert!(!end.words().contains("secret"), "{outcome:?}");
        }
    }
}
