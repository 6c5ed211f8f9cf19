//! The reports of the papers, as Markdown, CSV and SVG.

mod claim;
pub mod downey;
pub mod gainaru;
pub mod kondo;
mod markdown;
pub mod petrou;
pub mod wozniak;

use std::path::PathBuf;

use simulator::figure::{Figure, draw};

/// The options of a report.
#[derive(Debug, Clone, Default)]
pub struct Brief {
    /// The seed of everything random.
    pub seed: u64,
    /// The number of threads; the report is the same on any number.
    pub threads: usize,
    /// Whether fewer runs suffice.
    pub quick: bool,
    /// The number of runs of each experiment, if it differs from the report's own.
    pub runs: Option<u32>,
    /// The path of the KTH-SP2 log in the Standard Workload Format, if it is available.
    pub log: Option<PathBuf>,
}

impl Brief {
    /// Returns the `full` study, or the `quick` one if fewer runs suffice.
    fn study<S>(&self, quick: fn(u64, usize) -> S, full: fn(u64, usize) -> S) -> S {
        let study = if self.quick { quick } else { full };
        study(self.seed, self.threads)
    }
}

/// A file of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The name of the file.
    pub name: String,
    /// The contents of the file.
    pub text: String,
}

impl File {
    /// Creates a file.
    pub fn new(name: impl Into<String>, text: String) -> Self {
        let name = name.into();
        File { name, text }
    }
}

/// Returns the SVG file and the CSV file of each figure.
fn drawn(figures: &[Figure]) -> impl Iterator<Item = File> {
    figures.iter().flat_map(|figure| {
        [
            File::new(format!("{}.svg", figure.name), draw(figure)),
            File::new(format!("{}.csv", figure.name), figure.csv()),
        ]
    })
}
