//! Gang jobs: a command that runs as several ranks at once, each on its own host, and the user's
//! statement of its speedup (Downey 1997, section 2.1). The choice of the number of hosts is made
//! by the scheduler.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::idset::IdSet;
use crate::job::{BadJob, CommandSpec, InputSource, JobSpec};
use crate::time::Span;

/// The most hosts that one gang may have at a time.
pub const MAX_RANKS: u32 = 4_096;

/// The number of hosts that a user wants for a job at once: `8`, `4..16`, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Widths {
    /// No fewer hosts than the first number and no more than the second.
    Between(u32, u32),
    /// The number of hosts that is predicted to end the job soonest.
    Auto,
}

/// An average parallelism, optionally with its variance: `12` or `12:0.5`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Parallelism(pub f64, pub Option<f64>);

/// The error for a text that is no [`Widths`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no number of hosts such as 8, 4..16 or auto")]
pub struct BadWidths(String);

/// The error for a text that is no [`Parallelism`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no average parallelism (at least 1) such as 12, or with its variance 12:0.5")]
pub struct BadParallelism(String);

impl FromStr for Widths {
    type Err = BadWidths;

    fn from_str(given: &str) -> Result<Self, BadWidths> {
        let text = given.trim();
        if text == "auto" {
            return Ok(Widths::Auto);
        }
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        match (least.trim().parse::<u32>(), most.trim().parse::<u32>()) {
            (Ok(least), Ok(most)) if 0 < least && least <= most => Ok(Widths::Between(least, most)),
            _ => Err(BadWidths(given.to_owned())),
        }
    }
}

impl FromStr for Parallelism {
    type Err = BadParallelism;

    fn from_str(given: &str) -> Result<Self, BadParallelism> {
        let number = |text: &str| {
            let number = text.trim().parse::<f64>().ok();
            number.filter(|number| number.is_finite())
        };
        let (parallelism, sigma) = match given.split_once(':') {
            Some((parallelism, sigma)) => (parallelism, Some(sigma)),
            None => (given, None),
        };

        let sigma = sigma.map(|text| number(text).filter(|sigma| *sigma >= 0.0).ok_or(()));
        match (number(parallelism).filter(|a| *a >= 1.0), sigma.transpose()) {
            (Some(parallelism), Ok(sigma)) => Ok(Parallelism(parallelism, sigma)),
            _ => Err(BadParallelism(given.to_owned())),
        }
    }
}

impl TryFrom<String> for Widths {
    type Error = BadWidths;

    fn try_from(text: String) -> Result<Self, BadWidths> {
        text.parse()
    }
}

impl TryFrom<String> for Parallelism {
    type Error = BadParallelism;

    fn try_from(text: String) -> Result<Self, BadParallelism> {
        text.parse()
    }
}

/// The number of hosts that a gang may run on, and its speedup. The job's tasks are its ranks,
/// counted from 0: there are `least` of them until the ranks start, which fixes their number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// The fewest hosts.
    pub least: u32,
    /// The most hosts; `None`: as many as there are.
    pub most: Option<u32>,
    /// The work of the whole job as a run time on one host of speed 1, if the user states it.
    pub work: Option<Span>,
    /// The average parallelism, if the user states it: the upper bound of the speedup on any number
    /// of hosts.
    pub parallelism: Option<f64>,
    /// The variance of the parallelism, if the user states it.
    pub sigma: Option<f64>,
}

/// The error for [`Ranks`] that make no sense, alone or with the rest of their job.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BadRanks {
    /// The widths are zero, above [`MAX_RANKS`], or `least` exceeds `most`.
    #[error(
        "a job runs on 1 to {MAX_RANKS} hosts at once, on no more at least than at most: not on {0} to {1}"
    )]
    Width(u32, u32),
    /// The parallelism is not finite, or less than 1.
    #[error("{0} is no average parallelism: it is a number of at least 1")]
    Parallelism(f64),
    /// The variance is not finite, or negative.
    #[error("{0} is no variance of a parallelism: it is a number of at least 0")]
    Sigma(f64),
    /// The work is zero.
    #[error("work of nothing is no work: say what all of it takes on one host of speed 1")]
    Work,
    /// The job's tasks are not exactly its ranks, or have items.
    #[error("a job with a width has no tasks but its ranks, and no list of items")]
    Tasks,
    /// An input has a separate file for each task.
    #[error(
        "the ranks of a job all read the same files: their number is not known before they start"
    )]
    Files,
    /// The job asks for something that a gang cannot have, such as a quorum or a deadline.
    #[error("a job with a width cannot have {0} as well")]
    With(&'static str),
}

impl Ranks {
    /// Makes ranks for at least and at most this many hosts, with no statement of speedup.
    pub fn new(least: u32, most: Option<u32>) -> Self {
        Self {
            least,
            most,
            work: None,
            parallelism: None,
            sigma: None,
        }
    }

    /// Makes the ranks of a job for which a user wants these widths.
    pub fn of(widths: Widths, work: Option<Span>, parallelism: Option<Parallelism>) -> Self {
        let (least, most) = match widths {
            Widths::Between(least, most) => (least, Some(most)),
            Widths::Auto => (1, None),
        };
        Self {
            least,
            most,
            work,
            parallelism: parallelism.map(|Parallelism(average, _)| average),
            sigma: parallelism.and_then(|Parallelism(_, sigma)| sigma),
        }
    }

    /// Returns the task indices of a gang of `ranks` ranks: `0..ranks`.
    pub fn tasks(ranks: u32) -> IdSet {
        ranks
            .checked_sub(1)
            .map_or_else(IdSet::new, |last| IdSet::from_range(0, last))
    }

    /// Checks the ranks against their job.
    ///
    /// # Errors
    /// Names the first thing that makes no sense.
    pub(crate) fn check(&self, job: &JobSpec, command: &CommandSpec) -> Result<(), BadJob> {
        let most = self.most.unwrap_or(MAX_RANKS);
        if self.least == 0 || self.least > most || most > MAX_RANKS {
            return Err(BadRanks::Width(self.least, most).into());
        }
        if let Some(bad) = self.parallelism.filter(|a| !(a.is_finite() && *a >= 1.0)) {
            return Err(BadRanks::Parallelism(bad).into());
        }
        if let Some(bad) = self
            .sigma
            .filter(|sigma| !(sigma.is_finite() && *sigma >= 0.0))
        {
            return Err(BadRanks::Sigma(bad).into());
        }
        if self.work == Some(Span::ZERO) {
            return Err(BadRanks::Work.into());
        }

        let there = job.tasks.ids.len();
        let fits = (u64::from(self.least)..=u64::from(most)).contains(&there);
        if !fits || !job.tasks.items.is_empty() || job.tasks.ids != Self::tasks(there as u32) {
            return Err(BadRanks::Tasks.into());
        }

        if command
            .inputs
            .iter()
            .any(|input| matches!(input.source, InputSource::PerTask(_)))
        {
            return Err(BadRanks::Files.into());
        }
        if job.rules.quorum.compares() {
            return Err(BadRanks::With("a quorum").into());
        }
        if job.rules.deadline.is_some() {
            return Err(BadRanks::With("a deadline").into());
        }

        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Quorum, Rules, TaskSet, Work};

    fn job(ranks: Ranks) -> JobSpec {
        let tasks = TaskSet {
            ids: Ranks::tasks(ranks.least),
            items: Vec::new(),
        };
        let command = CommandSpec::new(vec!["solve".parse().unwrap()]);
        JobSpec {
            name: "solve".into(),
            tasks,
            work: Work::Ranks(command, ranks),
            rules: Rules::default(),
        }
    }

    #[test]
    fn widths_that_make_sense_are_taken_and_others_say_why_not() {
        for (least, most) in [(1, None), (4, Some(4)), (2, Some(16)), (1, Some(MAX_RANKS))] {
            assert_eq!(
                job(Ranks::new(least, most)).check(),
                Ok(()),
                "{least} {most:?}"
            );
        }

        for (least, most) in [
            (0, None),
            (5, Some(4)),
            (1, Some(MAX_RANKS + 1)),
            (MAX_RANKS + 1, None),
        ] {
            let mut bad = job(Ranks::new(least, most));
            bad.tasks.ids = Ranks::tasks(1);
            assert!(
                matches!(bad.check(), Err(BadJob::Ranks(BadRanks::Width(..)))),
                "{least} {most:?}"
            );
        }

        let with = |change: fn(&mut Ranks)| {
            let mut ranks = Ranks::new(2, None);
            change(&mut ranks);
            job(ranks).check()
        };
        assert_eq!(
            with(|ranks| ranks.parallelism = Some(0.5)),
            Err(BadRanks::Parallelism(0.5).into())
        );
        assert_eq!(
            with(|ranks| ranks.sigma = Some(-1.0)),
            Err(BadRanks::Sigma(-1.0).into())
        );
        assert!(with(|ranks| ranks.sigma = Some(f64::NAN)).is_err());
        assert_eq!(
            with(|ranks| ranks.work = Some(Span::ZERO)),
            Err(BadRanks::Work.into())
        );
    }

    #[test]
    fn widths_are_numbers_of_hosts() {
        assert_eq!("8".parse(), Ok(Widths::Between(8, 8)));
        assert_eq!("4..16".parse(), Ok(Widths::Between(4, 16)));
        assert_eq!("auto".parse(), Ok(Widths::Auto));
        for wrong in ["0", "5..4", "..4", "4..", "-1", "many"] {
            let error = wrong.parse::<Widths>().unwrap_err().to_string();
            assert!(error.contains("4..16"), "{wrong}");
        }

        assert_eq!("12:0.5".parse(), Ok(Parallelism(12.0, Some(0.5))));
        assert_eq!("12".parse(), Ok(Parallelism(12.0, None)));
        for wrong in ["0.5", "12:", "12:-1", "nan", "x:1"] {
            assert!(wrong.parse::<Parallelism>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranks_are_the_tasks_and_go_with_no_quorum_and_no_deadline() {
        let good = job(Ranks::new(3, Some(5)));
        assert_eq!(good.tasks.ids.to_string(), "0-2");
        for (tasks, fits) in [(2, false), (3, true), (5, true), (6, false)] {
            let tasks = TaskSet {
                ids: Ranks::tasks(tasks),
                items: Vec::new(),
            };
            assert_eq!(
                JobSpec {
                    tasks,
                    ..good.clone()
                }
                .check()
                .is_ok(),
                fits
            );
        }

        let tasks = TaskSet {
            ids: IdSet::from_range(1, 3),
            items: Vec::new(),
        };
        assert_eq!(
            JobSpec {
                tasks,
                ..good.clone()
            }
            .check(),
            Err(BadRanks::Tasks.into())
        );

        let quorum = Quorum {
            size: 2,
            ..Quorum::default()
        };
        let mut bad = JobSpec {
            rules: Rules {
                quorum,
                ..Rules::default()
            },
            ..good.clone()
        };
        assert_eq!(bad.check(), Err(BadRanks::With("a quorum").into()));
        bad.rules = Rules {
            deadline: Some(Span::from_secs(9)),
            ..Rules::default()
        };
        assert_eq!(bad.check(), Err(BadRanks::With("a deadline").into()));
    }
}
