//! Downey, "Using Queue Time Predictions for Processor Allocation" (1997), again: when malleable
//! jobs should hold out for more processors, what that does to each of them and to all, and how
//! good the predictions behind it are; on the paper's workload, and predictions of waits on a real
//! log. What is not here: the machine (`batch`) and the rules (`scheduler::policy::width`).

mod claims;
mod figures;
mod found;
mod text;
mod trial;

use std::path::PathBuf;

use found::Found;

use super::figure::Figure;
use super::kondo::File;
use super::svg::draw;
use crate::batch::{Foretold, Log, foretell};
use crate::trace::TraceError;

/// How thorough a report is.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// Of everything that is random: the first of the draws' seeds.
    pub seed: u64,
    /// On how many threads; the report is the same on any number.
    pub threads: usize,
    /// Draws of the workload.
    pub runs: u32,
    /// Days of each.
    pub days: u32,
    /// The KTH-SP2 log in the Standard Workload Format, where it is to be had.
    pub log: Option<PathBuf>,
    /// Whether it is a first look only.
    pub quick: bool,
}

impl Study {
    /// Five draws of 120 days.
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

    /// A first look.
    pub fn quick(seed: u64, threads: usize) -> Self {
        Study {
            runs: 2,
            days: 30,
            quick: true,
            ..Study::full(seed, threads)
        }
    }
}

/// Makes the report's files. `say` hears what is done next.
///
/// # Errors
/// If there is a log and it cannot be read.
pub fn reproduce(study: &Study, say: &mut dyn FnMut(&str)) -> Result<Vec<File>, TraceError> {
    let real: Option<Foretold> = match &study.log {
        Some(file) => {
            say("the log");
            Some(foretell(&Log::read(file)?))
        }
        None => None,
    };
    let found = Found::new(study, real, say);
    let figures = figures::all(&found);
    let mut files = vec![
        File {
            name: "report.md".into(),
            text: text::report(study, &found, &figures),
        },
        File {
            name: "runs.csv".into(),
            text: found.csv(),
        },
    ];
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
