//! The JSON of jobs of several ranks: their widths, and the ways to run them.

use common::view::{ScalingView, WayView, WidthView};
use serde::Serialize;

use super::iso;

/// The width of a job, held or predicted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Width {
    least: u32,
    most: u32,
    ranks: Option<u32>,
    held_since: Option<String>,
    begun: Option<String>,
    free: u32,
    hosts: u32,
    behind: u32,
    scaling: Option<Scaling>,
    chosen: Option<Way>,
    ways: Vec<Way>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The assumed speedup of the job: its work and its average parallelism.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Scaling {
    work_s: f64,
    parallelism: f64,
    sigma: f64,
    runs: u64,
}

/// A width with its predicted start and end.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Way {
    hosts: u32,
    start: String,
    finish: Option<String>,
}

impl From<&WidthView> for Width {
    fn from(view: &WidthView) -> Self {
        let scaling = |scaling: ScalingView| Scaling {
            work_s: scaling.work.secs(),
            parallelism: scaling.parallelism,
            sigma: scaling.sigma,
            runs: scaling.runs,
        };

        let way = |way: &WayView| Way {
            hosts: way.hosts,
            start: iso(way.start),
            finish: way.finish.map(iso),
        };
        Width {
            least: view.least,
            most: view.most,
            ranks: view.ranks,
            held_since: view.formed.map(iso),
            begun: view.begun.map(iso),
            free: view.free,
            hosts: view.hosts,
            behind: view.behind,
            scaling: view.scaling.map(scaling),
            chosen: view.chosen.as_ref().map(way),
            ways: view.ways.iter().map(way).collect(),
            why: view.why.clone(),
        }
    }
}
