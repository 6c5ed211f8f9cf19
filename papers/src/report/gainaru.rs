//! Reproduces Gainaru, Pallez, Sun and Raghavan, "Speculative Scheduling for Stochastic HPC
//! Applications" (ICPP 2019): sequences of requests, in rounds on a machine of many processors,
//! with and without backfilling; and sequences learned from a few past runs. The machine lives in
//! `batch`.

mod absent;
mod claims;
mod figures;
mod scenarios;
mod text;

use std::path::PathBuf;

use scenarios::ScenarioResults;

use super::{Brief, File};
use scheduler::reservation::BadLaw;
use simulator::batch::{BatchJob, BatchOutcome, SwfLog, conservative, easy};
use simulator::trace::TraceError;

/// The size of a report: [`Study::full`] or [`Study::quick`].
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The seed of everything random.
    pub seed: u64,
    /// The number of threads; the report is the same on any number.
    pub threads: usize,
    /// The number of runs of each case.
    pub runs: usize,
    /// The path of the KTH-SP2 log in the Standard Workload Format, if it is available.
    pub log: Option<PathBuf>,
    /// Whether the report is shortened.
    pub quick: bool,
}

impl Study {
    /// Returns the study of this size.
    pub fn of(brief: &Brief) -> Self {
        let study = brief.study(Study::quick, Study::full);
        Study {
            runs: brief.runs.map_or(study.runs, |runs| runs as usize),
            log: brief.log.clone(),
            ..study
        }
    }

    /// The full report: fifty runs of each case, like the paper.
    pub fn full(seed: u64, threads: usize) -> Self {
        Study {
            seed,
            threads,
            runs: 50,
            log: None,
            quick: false,
        }
    }

    /// A shortened report.
    pub fn quick(seed: u64, threads: usize) -> Self {
        Study {
            runs: 10,
            quick: true,
            ..Study::full(seed, threads)
        }
    }
}

/// The results of a real log under EASY and conservative backfilling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Real {
    /// The number of jobs taken from the log.
    pub jobs: usize,
    /// The number of processors.
    pub processors: u32,
    /// The number of jobs that were left out because they are wider than the machine.
    pub left_out: usize,
    /// FCFS with EASY backfilling: average flow time in seconds, and average slowdown bounded at 10
    /// s.
    pub easy: (f64, f64),
    /// Conservative backfilling: the same two numbers as for `easy`.
    pub conservative: (f64, f64),
}

/// The run time, in seconds, below which slowdowns are bounded: shorter runs count as that long.
const BOUND_S: f64 = 10.0;

impl Real {
    /// Runs a log under both ways of backfilling.
    pub fn of(log: &SwfLog) -> Self {
        let processors = log.machine();
        let jobs = log.jobs(processors);
        let measures = |outcome: &BatchOutcome, jobs: &[BatchJob]| {
            (
                outcome.response(jobs),
                outcome.bounded_slowdown(jobs, BOUND_S),
            )
        };
        Real {
            jobs: jobs.len(),
            processors,
            left_out: log.jobs(u32::MAX).len() - jobs.len(),
            easy: measures(&easy(&jobs, processors), &jobs),
            conservative: measures(&conservative(&jobs, processors), &jobs),
        }
    }
}

/// The reasons why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum GainaruError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] TraceError),
    /// A law of the paper is invalid.
    #[error(transparent)]
    Law(#[from] BadLaw),
}

/// Makes the report's files. `say` hears the name of each step.
///
/// # Errors
/// If there is a log and it cannot be read.
pub fn reproduce(study: &Study, say: &mut dyn FnMut(&str)) -> Result<Vec<File>, GainaruError> {
    let real = match &study.log {
        Some(file) => {
            say("the log");
            Some(Real::of(&SwfLog::read(file)?))
        }
        None => None,
    };
    let found = ScenarioResults::new(study, real, say)?;
    let figures = figures::all(&found);
    let mut files = vec![File::new(
        "report.md",
        text::report(study, &found, &figures),
    )];
    files.extend(super::drawn(&figures));

    Ok(files)
}
