//! Gainaru, Pallez, Sun and Raghavan, "Speculative Scheduling for Stochastic HPC Applications"
//! (ICPP 2019), again: sequences of requests, in rounds on a machine of many processors, with and
//! without backfilling; and what a few past runs teach. What is not here: the machine.

mod absent;
mod claims;
mod figures;
mod scenarios;
mod text;

use std::path::PathBuf;

use scenarios::Found;

use super::figure::Figure;
use super::kondo::File;
use super::svg::draw;
use crate::batch::{Job, Log, Outcome, conservative, easy};
use crate::trace::TraceError;
use scheduler::reservation::BadLaw;

/// How thorough a report is.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// Of everything that is random.
    pub seed: u64,
    /// On how many threads; the report is the same on any number.
    pub threads: usize,
    /// Runs of each case.
    pub runs: usize,
    /// The KTH-SP2 log in the Standard Workload Format, where it is to be had.
    pub log: Option<PathBuf>,
    /// Whether it is a first look only.
    pub quick: bool,
}

impl Study {
    /// Fifty runs of each case, as the paper has.
    pub fn full(seed: u64, threads: usize) -> Self {
        Study {
            seed,
            threads,
            runs: 50,
            log: None,
            quick: false,
        }
    }

    /// A first look.
    pub fn quick(seed: u64, threads: usize) -> Self {
        Study {
            runs: 10,
            quick: true,
            ..Study::full(seed, threads)
        }
    }
}

/// A real log under both ways of backfilling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Real {
    /// How many jobs were taken.
    pub jobs: usize,
    /// On how many processors.
    pub processors: u32,
    /// FCFS with EASY backfilling: average flow time in seconds, and average slowdown bounded at 10
    /// s.
    pub easy: (f64, f64),
    /// Conservative backfilling: the same.
    pub conservative: (f64, f64),
}

/// Processors of a log whose head does not say: those of the KTH-SP2.
const PROCESSORS: u32 = 100;
/// Runs shorter than this many seconds count as that long in a slowdown.
const BOUND_S: f64 = 10.0;

impl Real {
    /// Runs a log again.
    pub fn of(log: &Log) -> Self {
        let processors = log.processors.unwrap_or(PROCESSORS);
        let jobs = log.jobs(processors);
        let measures = |outcome: &Outcome, jobs: &[Job]| {
            (
                outcome.response(jobs),
                outcome.bounded_slowdown(jobs, BOUND_S),
            )
        };
        Real {
            jobs: jobs.len(),
            processors,
            easy: measures(&easy(&jobs, processors), &jobs),
            conservative: measures(&conservative(&jobs, processors), &jobs),
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum GainaruError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] TraceError),
    /// A law of the paper's makes no sense.
    #[error(transparent)]
    Law(#[from] BadLaw),
}

/// Makes the report's files. `say` hears what is done next.
///
/// # Errors
/// If there is a log and it cannot be read.
pub fn reproduce(study: &Study, say: &mut dyn FnMut(&str)) -> Result<Vec<File>, GainaruError> {
    let real = match &study.log {
        Some(file) => {
            say("the log");
            Some(Real::of(&Log::read(file)?))
        }
        None => None,
    };
    let found = Found::new(study, real, say)?;
    let figures = figures::all(&found);
    let mut files = vec![File {
        name: "report.md".into(),
        text: text::report(study, &found, &figures),
    }];
    files.extend(figures.iter().flat_map(both));

    Ok(files)
}

/// A figure's picture and its numbers.
fn both(figure: &Figure) -> [File; 2] {
    let file = |ending, text| File {
        name: format!("{}.{ending}", figure.name),
        text,
    };
    [file("svg", draw(figure)), file("csv", figure.csv())]
}
