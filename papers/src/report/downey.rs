//! Reproduces Downey, "Using Queue Time Predictions for Processor Allocation" (1997): when
//! malleable jobs should hold out for more processors, the effect on each of them and on all, and
//! the accuracy of the predictions behind it; on the paper's workload, and for predictions of waits
//! on a real log. The machine lives in `batch`, the rules in `scheduler::policy::width`.

mod claims;
mod figures;
mod found;
mod text;
mod trial;

use std::path::PathBuf;

use found::DrawResults;

use super::{Brief, File};
use simulator::batch::{ForetoldLog, SwfLog, foretell};
use simulator::trace::TraceError;

/// The size of a report: [`Study::full`] or [`Study::quick`].
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The seed of everything random: the first of the draws' seeds.
    pub seed: u64,
    /// The number of threads; the report is the same on any number.
    pub threads: usize,
    /// The number of draws of the workload.
    pub runs: u32,
    /// The number of days of each draw.
    pub days: u32,
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
            runs: brief.runs.unwrap_or(study.runs),
            log: brief.log.clone(),
            ..study
        }
    }

    /// The full report: five draws of 120 days.
    pub fn full(seed: u64, threads: usize) -> Self {
        Study {
            seed,
            threads,
            runs: 5,
            days: 120,
            log: None,
            quick: false,
        }
    }

    /// A shortened report.
    pub fn quick(seed: u64, threads: usize) -> Self {
        Study {
            runs: 2,
            days: 30,
            quick: true,
            ..Study::full(seed, threads)
        }
    }
}

/// Makes the report's files. `say` hears the name of each step.
///
/// # Errors
/// If there is a log and it cannot be read.
pub fn reproduce(study: &Study, say: &mut dyn FnMut(&str)) -> Result<Vec<File>, TraceError> {
    let real: Option<ForetoldLog> = match &study.log {
        Some(file) => {
            say("the log");
            Some(foretell(&SwfLog::read(file)?))
        }
        None => None,
    };
    let found = DrawResults::new(study, real, say);
    let figures = figures::all(&found);
    let mut files = vec![
        File::new("report.md", text::report(study, &found, &figures)),
        File::new("runs.csv", found.csv()),
    ];
    files.extend(super::drawn(&figures));

    Ok(files)
}
