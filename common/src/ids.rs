//! Newtype ids. Each one prints the way people type it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A job: a bag of tasks. Given out by the master, from 1, never used twice. Prints as `7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u32);

/// A task, named by its job and its index within that job. Prints as `7.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The bag that the task belongs to.
    pub job: JobId,
    /// The index that the submitter gave (or 1, 2, ... for lists).
    pub index: u32,
}

/// The number of times that the master has been started on its store, from 1. It fences off
/// messages from before a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u32);

/// One execution of a task on one host. Prints as `7.3#2`; the incarnation is shown only by
/// `Debug`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttemptId {
    /// The task that is executed.
    pub task: TaskId,
    /// The attempt's number within its task, from 1; copies count too.
    pub number: u32,
    /// The master's incarnation that started the attempt.
    pub incarnation: Incarnation,
}

/// A host (a PC that runs a worker), numbered by the master when it enrols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u32);

/// An id that the client chooses for one submission: the same id and body give the same job,
/// however often they are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub uuid::Uuid);

impl TaskId {
    /// The task `index` of `job`.
    pub fn new(job: JobId, index: u32) -> Self {
        Self { job, index }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.index)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.task, self.number)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host-{}", self.0)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The error for a string that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {expected}")]
pub struct BadId {
    given: String,
    expected: &'static str,
}

fn bad(given: &str, expected: &'static str) -> BadId {
    BadId {
        given: given.to_owned(),
        expected,
    }
}

impl FromStr for JobId {
    type Err = BadId;
    fn from_str(s: &str) -> Result<Self, BadId> {
        s.parse()
            .ok()
            .filter(|n| *n > 0)
            .map(JobId)
            .ok_or_else(|| bad(s, "a job number such as 7"))
    }
}

impl FromStr for TaskId {
    type Err = BadId;
    fn from_str(s: &str) -> Result<Self, BadId> {
        let parse = || {
            let (job, index) = s.split_once('.')?;
            Some(TaskId::new(job.parse().ok()?, index.parse().ok()?))
        };
        parse().ok_or_else(|| bad(s, "a task such as 7.3 (JOB.TASK)"))
    }
}

impl FromStr for RequestId {
    type Err = BadId;
    fn from_str(s: &str) -> Result<Self, BadId> {
        s.parse()
            .map(RequestId)
            .map_err(|_| bad(s, "a UUID such as 0b9c2e4e-5a0a-4f0c-9a55-3f1f6b1c2d3e"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_their_own_text() {
        let task = TaskId::new(JobId(7), 3);
        assert_eq!(task.to_string().parse::<TaskId>().unwrap(), task);
        assert_eq!("7".parse::<JobId>().unwrap(), JobId(7));
        for wrong in ["", "0", "x", "-1", "7.3"] {
            assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
        }
        assert_eq!(
            "7".parse::<TaskId>().unwrap_err().to_string(),
            "`7` is not a task such as 7.3 (JOB.TASK)"
        );
    }
}
