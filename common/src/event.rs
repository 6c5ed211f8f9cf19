//! The events of a grid: what happened to jobs, tasks and hosts, as followers are told of it and as
//! the master's store keeps it. The scheduler's own events are others.

use serde::{Deserialize, Serialize};

use crate::content::BlobHash;
use crate::ids::{AttemptId, HostId, JobId, TaskId};
use crate::idset::IdSet;
use crate::time::Time;
use crate::view::{AttemptState, HostState, JobState, OutputView};

/// The most bytes that a result may have to travel with its event.
pub const MAX_RESULT: u64 = 64 * 1024;
/// The most ranges of tasks in one event; a change of more is told in several.
pub const MAX_RANGES: usize = 4_000;

/// A change of a job, a task or a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GridEvent {
    /// A job was taken.
    JobSubmitted {
        /// The job.
        job: JobId,
        /// The user who submitted it.
        user: String,
        /// The number of its tasks.
        tasks: u64,
    },
    /// The first attempt of a job was assigned, just before its `TaskAssigned`.
    JobStarted {
        /// The job.
        job: JobId,
    },
    /// Every task of a job is settled, or the job was refused (`JobState::Refused`).
    JobSettled {
        /// The job.
        job: JobId,
        /// Its state now.
        state: JobState,
    },
    /// A settled job was removed with its results.
    JobForgotten {
        /// The job.
        job: JobId,
        /// The user who had submitted it.
        user: String,
    },
    /// An attempt was assigned to a host.
    TaskAssigned {
        /// The attempt.
        attempt: AttemptId,
        /// Its host.
        host: HostId,
    },
    /// The command of an attempt was started. Very short ones end before that is told.
    TaskRunning {
        /// The attempt.
        attempt: AttemptId,
        /// Its host.
        host: HostId,
    },
    /// The command of an attempt was frozen (`Phase::Suspended` or `Phase::Held`).
    TaskSuspended {
        /// The attempt.
        attempt: AttemptId,
        /// Its host.
        host: HostId,
        /// The reason.
        why: String,
    },
    /// The command of an attempt goes on (`Phase::Running`).
    TaskResumed {
        /// The attempt.
        attempt: AttemptId,
        /// Its host.
        host: HostId,
    },
    /// An attempt ended without success; its task may get another one.
    AttemptEnded {
        /// The attempt.
        attempt: AttemptId,
        /// Its host.
        host: HostId,
        /// Its state now.
        state: AttemptState,
        /// The reason.
        why: String,
    },
    /// A task finished (`TaskState::Finished`).
    TaskFinished {
        /// The attempt whose result is the task's.
        attempt: AttemptId,
        /// The host of that attempt.
        host: HostId,
    },
    /// A task failed: its retries (`Rules::retries`) are used up.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// The reason.
        why: String,
    },
    /// Tasks of a job were cancelled (`TaskState::Cancelled`).
    TasksCancelled {
        /// The job.
        job: JobId,
        /// The tasks; one change of more than [`MAX_RANGES`] ranges is several events.
        tasks: IdSet,
        /// The reason.
        why: String,
    },
    /// Settled tasks of a job wait again (`TaskState::Waiting`).
    TasksReopened {
        /// The job.
        job: JobId,
        /// The tasks, as in `TasksCancelled`.
        tasks: IdSet,
    },
    /// Tasks were added to an open job (`TaskState::Waiting`).
    TasksAdded {
        /// The job.
        job: JobId,
        /// The tasks, as in `TasksCancelled`.
        tasks: IdSet,
    },
    /// An open job was closed: it is settled once its tasks are.
    JobClosed {
        /// The job.
        job: JobId,
    },
    /// The state of a host changed. Whether its slots are taken is not told.
    HostChanged {
        /// The host.
        host: HostId,
        /// Its state now; [`HostState::Ready`] also where all its slots are taken.
        state: HostState,
        /// The owner's reason, if the owner is the cause.
        why: Option<String>,
    },
    /// A master was started on a copy of its store, such as a backup: what happened after the copy
    /// was made is not known here.
    Restored,
}

impl GridEvent {
    /// Returns the kind of the event, as scripts read it: `task-finished`.
    pub fn name(&self) -> &'static str {
        match self {
            GridEvent::JobSubmitted { .. } => "job-submitted",
            GridEvent::JobStarted { .. } => "job-started",
            GridEvent::JobSettled { .. } => "job-settled",
            GridEvent::JobForgotten { .. } => "job-forgotten",
            GridEvent::TaskAssigned { .. } => "task-assigned",
            GridEvent::TaskRunning { .. } => "task-running",
            GridEvent::TaskSuspended { .. } => "task-suspended",
            GridEvent::TaskResumed { .. } => "task-resumed",
            GridEvent::AttemptEnded { .. } => "attempt-ended",
            GridEvent::TaskFinished { .. } => "task-finished",
            GridEvent::TaskFailed { .. } => "task-failed",
            GridEvent::TasksCancelled { .. } => "tasks-cancelled",
            GridEvent::TasksReopened { .. } => "tasks-reopened",
            GridEvent::TasksAdded { .. } => "tasks-added",
            GridEvent::JobClosed { .. } => "job-closed",
            GridEvent::HostChanged { .. } => "host-changed",
            GridEvent::Restored => "restored",
        }
    }

    /// Returns the `JobId` that it concerns, if there is one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            GridEvent::JobSubmitted { job, .. }
            | GridEvent::JobStarted { job }
            | GridEvent::JobSettled { job, .. }
            | GridEvent::JobForgotten { job, .. }
            | GridEvent::TasksCancelled { job, .. }
            | GridEvent::TasksReopened { job, .. }
            | GridEvent::TasksAdded { job, .. }
            | GridEvent::JobClosed { job } => Some(*job),
            GridEvent::TaskFailed { task, .. } => Some(task.job),
            GridEvent::HostChanged { .. } | GridEvent::Restored => None,
            _ => self.attempt().map(|attempt| attempt.task.job),
        }
    }

    /// Returns the `TaskId` that it concerns, if there is exactly one.
    pub fn task(&self) -> Option<TaskId> {
        match self {
            GridEvent::TaskFailed { task, .. } => Some(*task),
            _ => self.attempt().map(|attempt| attempt.task),
        }
    }

    /// Returns the `AttemptId` that it concerns, if there is one.
    pub fn attempt(&self) -> Option<AttemptId> {
        match self {
            GridEvent::TaskAssigned { attempt, .. }
            | GridEvent::TaskRunning { attempt, .. }
            | GridEvent::TaskSuspended { attempt, .. }
            | GridEvent::TaskResumed { attempt, .. }
            | GridEvent::AttemptEnded { attempt, .. }
            | GridEvent::TaskFinished { attempt, .. } => Some(*attempt),
            _ => None,
        }
    }

    /// Returns the `HostId` that it concerns, if there is one.
    pub fn host(&self) -> Option<HostId> {
        match self {
            GridEvent::TaskAssigned { host, .. }
            | GridEvent::TaskRunning { host, .. }
            | GridEvent::TaskSuspended { host, .. }
            | GridEvent::TaskResumed { host, .. }
            | GridEvent::AttemptEnded { host, .. }
            | GridEvent::TaskFinished { host, .. }
            | GridEvent::HostChanged { host, .. } => Some(*host),
            _ => None,
        }
    }

    /// Returns the reason (`why`) that it carries, if there is one.
    pub fn why(&self) -> Option<&str> {
        match self {
            GridEvent::TaskSuspended { why, .. }
            | GridEvent::AttemptEnded { why, .. }
            | GridEvent::TaskFailed { why, .. }
            | GridEvent::TasksCancelled { why, .. } => Some(why),
            GridEvent::HostChanged { why, .. } => why.as_deref(),
            _ => None,
        }
    }

    /// Whether it settles a task that may have left a result.
    pub fn has_result(&self) -> bool {
        matches!(
            self,
            GridEvent::TaskFinished { .. } | GridEvent::TaskFailed { .. }
        )
    }
}

/// A [`GridEvent`] as a follower gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventView {
    /// Its sequence number: rises by one from event to event, over restarts of the master too.
    pub seq: u64,
    /// The time of the change, by the master's clock.
    pub at: Time,
    /// The change.
    pub event: GridEvent,
    /// The result that it brings, if that was asked for and there is one.
    pub result: Option<Box<ResultView>>,
}

/// A result that travels with the [`EventView`] of its task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultView {
    /// The output of the attempt.
    pub output: OutputView,
    /// The content that the output refers to, all of it or (beyond [`MAX_RESULT`]) nothing.
    pub contents: Vec<(BlobHash, Vec<u8>)>,
}

/// Some [`EventView`]s, in their order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EventPage {
    /// The events that were asked for.
    pub events: Vec<EventView>,
    /// The names of hosts that the events on this stream mention for the first time.
    pub hosts: Vec<(HostId, String)>,
    /// The number up to which nothing more is to come: a follower that comes back goes on after it.
    pub upto: u64,
}

/// The events that a follower asks for with `Request::Follow`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Following {
    /// The jobs; `None`: any, and hosts too if an admin asks.
    pub jobs: Option<crate::selector::Selector>,
    /// The hosts, by name or `host-N`; empty: any.
    pub hosts: Vec<String>,
    /// The number of the last event that the follower knows; `None`: only what happens from now on.
    pub after: Option<u64>,
    /// Whether results of at most [`MAX_RESULT`] come with the events of their tasks.
    pub results: bool,
    /// Whether to go on with what happens later; else the answer ends with the newest event.
    pub wait: bool,
}

/// Splits tasks into parts of at most [`MAX_RANGES`] ranges, each small enough for an event.
pub fn in_parts(tasks: &IdSet) -> Vec<IdSet> {
    let ranges: Vec<(u32, u32)> = tasks.ranges().collect();
    ranges
        .chunks(MAX_RANGES)
        .map(|part| IdSet::from_ranges(part.to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Incarnation;

    #[test]
    fn an_event_of_a_short_task_is_small() {
        let attempt = AttemptId {
            task: TaskId::new(JobId(10_000), 1_000_000),
            number: 1,
            incarnation: Incarnation(220_000_000),
        };
        let host = HostId(2_000);
        let bytes = |event: &GridEvent| postcard::to_stdvec(event).unwrap().len();
        assert!(bytes(&GridEvent::TaskFinished { attempt, host }) <= 16);
        let view = EventView {
            seq: 1 << 40,
            at: Time(1_800_000_000_000_000),
            event: GridEvent::TaskAssigned { attempt, host },
            result: None,
        };
        assert!(postcard::to_stdvec(&view).unwrap().len() <= 32);
    }

    #[test]
    fn many_ranges_are_told_in_parts_that_together_are_all() {
        let odd: IdSet = (0..10_000).map(|n| 2 * n + 1).collect();
        let parts = in_parts(&odd);
        assert_eq!(parts.len(), 3);
        let mut all = IdSet::new();
        for part in &parts {
            assert!(part.ranges().count() <= MAX_RANGES);
            all.union_with(part);
        }
        assert_eq!(all, odd);
        assert!(in_parts(&IdSet::new()).is_empty());
    }
}
