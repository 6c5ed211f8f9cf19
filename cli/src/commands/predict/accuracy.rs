//! Executes `deskgrid predict accuracy --log`: measures the quality of predicted waits on a log.
//! The replay of the log lives in `simulator::batch`.

use std::path::Path;

use serde::Serialize;
use simulator::batch::{Foretold, HELD, Log, Way, foretell};

use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::output::table::Rows;

#[derive(Serialize)]
struct Answer {
    log: String,
    processors: u32,
    taught: usize,
    judged: usize,
    predictors: Vec<WayJson>,
}

/// The quality of one predictor.
#[derive(Serialize)]
pub(super) struct WayJson {
    pub name: &'static str,
    pub median_error_s: f64,
    pub mean_error_s: f64,
    pub held: f64,
    pub coverage: f64,
    pub median_width_s: f64,
    pub slope: f64,
    pub intercept: f64,
    pub correlation: f64,
    pub median_ratio: f64,
    /// The pairs of a predicted and an actual wait, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scatter: Option<Vec<(f64, f64)>>,
}

impl WayJson {
    /// Formats the predictor's name and its median error.
    pub(super) fn line(&self) -> String {
        format!("{} {:.0}", self.name, self.median_error_s)
    }

    /// Measures a predictor; with `scatter` keeps every pair.
    pub(super) fn of(way: Way, scatter: bool) -> Self {
        let accuracy = way.accuracy;
        WayJson {
            name: way.name,
            median_error_s: accuracy.median_error_s,
            mean_error_s: way.mean_error_s,
            held: HELD,
            coverage: way.coverage,
            median_width_s: way.median_width_s,
            slope: accuracy.slope,
            intercept: accuracy.intercept,
            correlation: accuracy.correlation,
            median_ratio: accuracy.median_ratio,
            scatter: scatter.then_some(way.pairs),
        }
    }
}

/// Measures the predictors on a log.
pub(super) fn run(context: &Context, file: &Path, scatter: bool) -> Result<Exit, Failure> {
    let log = Log::read(file).map_err(|error| {
        let hint = "a log has a job on each line, 18 numbers, and comments behind `;` (Standard Workload Format)";
        Failure::usage("the log cannot be used", hint).because(error)
    })?;
    let Foretold {
        taught,
        judged,
        processors,
        ways,
    } = foretell(&log);

    let predictors = ways
        .into_iter()
        .map(|way| WayJson::of(way, scatter))
        .collect();
    let answer = Answer {
        log: file.display().to_string(),
        processors,
        taught,
        judged,
        predictors,
    };
    let ids = || answer.predictors.iter().map(WayJson::line).collect();
    context
        .out
        .show(&answer, || text(&answer, context.out.color()), ids)?;

    Ok(Exit::Well)
}

fn text(answer: &Answer, color: bool) -> String {
    let rows = table(&answer.predictors, color);
    format!(
        "{} jobs judged after {} that taught\n{rows}",
        answer.judged, answer.taught
    )
}

/// Returns a table with a row for each predictor.
pub(super) fn table(predictors: &[WayJson], color: bool) -> String {
    let mut rows = Rows::new(
        &[
            "PREDICTOR",
            "MEDIAN ERROR",
            "MEAN ERROR",
            "HELD",
            "WIDTH",
            "CORRELATION",
        ],
        color,
    );
    for way in predictors {
        rows.add([
            way.name.to_owned(),
            format!("{:.0} s", way.median_error_s),
            format!("{:.0} s", way.mean_error_s),
            format!("{:.1} % of {:.0} %", 100.0 * way.coverage, 100.0 * way.held),
            format!("{:.0} s", way.median_width_s),
            format!("{:.2}", way.correlation),
        ]);
    }

    rows.text("nothing to judge")
}
