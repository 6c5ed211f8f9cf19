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

/// A mean over runs, with its standard deviation: 0 for a single one.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    mean: f64,
    sd: f64,
}

impl Spread {
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>();
        Spread {
            mean,
            sd: (squares / (n - 1.0).max(1.0)).sqrt(),
        }
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
