//! The order between jobs: a job can wait until others have ended.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::view::JobState;

/// The most jobs that one job can wait for.
pub const MAX_AFTER: usize = 1_000;

/// A job that has to end before another one starts, and the way in which it has to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct After {
    /// The job that goes first.
    pub job: JobId,
    /// The way in which it has to end.
    pub how: EndCondition,
}

/// The way in which a job has to end before one that waits for it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EndCondition {
    /// Every task of it succeeded. If one did not, the job that waits is cancelled.
    #[default]
    Ok,
    /// Every task of it is settled, in whatever way.
    Any,
}

impl EndCondition {
    /// Whether a settled job in this state has ended in this way.
    pub fn is_met_by(self, state: JobState) -> bool {
        match self {
            EndCondition::Ok => state == JobState::Finished,
            EndCondition::Any => true,
        }
    }
}

impl fmt::Display for EndCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            EndCondition::Ok => "ok",
            EndCondition::Any => "any",
        })
    }
}

impl FromStr for EndCondition {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ok" => Ok(EndCondition::Ok),
            "any" => Ok(EndCondition::Any),
            other => Err(format!(
                "`{}` is no way in which a job ends: write `ok` (all its tasks succeeded) or `any`",
                other.escape_debug()
            )),
        }
    }
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.job, self.how)
    }
}

impl FromStr for After {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (job, how) = match text.split_once(':') {
            Some((job, how)) => (job, how.parse()?),
            None => (text, EndCondition::default()),
        };
        let job = job.parse().map_err(|why| format!("{why}"))?;
        Ok(Self { job, how })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_job_whose_tasks_all_succeeded_has_ended_well() {
        for state in JobState::ALL.iter().filter(|state| state.settled()) {
            assert!(EndCondition::Any.is_met_by(*state));
            assert_eq!(
                EndCondition::Ok.is_met_by(*state),
                *state == JobState::Finished
            );
        }
    }

    #[test]
    fn a_job_that_goes_first_reads_as_documented() {
        let after = |job, how| {
            Ok(After {
                job: JobId(job),
                how,
            })
        };
        assert_eq!("7".parse(), after(7, EndCondition::Ok));
        assert_eq!("7:ok".parse(), after(7, EndCondition::Ok));
        assert_eq!("7:any".parse(), after(7, EndCondition::Any));

        for wrong in [
            "",
            "x",
            "7:",
            "7:maybe",
            ":ok",
            "-1",
            "7:ok:any",
            "4294967296",
        ] {
            assert!(wrong.parse::<After>().is_err(), "{wrong}");
        }
        let shown = "7:a\u{1b}[2J".parse::<After>().unwrap_err();
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
}
