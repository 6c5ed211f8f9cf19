//! `deskgrid predict accuracy`: how good predictions of waits are, on a log. What is not here: the predictor.

use serde::Serialize;
use simulator::batch::{Foretold, HELD, Log, Way, foretell};

use crate::args::predict::AccuracyArgs;
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

#[derive(Serialize)]
struct WayJson {
    name: &'static str,
    median_error_s: f64,
    mean_error_s: f64,
    held: f64,
    coverage: f64,
    median_width_s: f64,
    slope: f64,
    intercept: f64,
    correlation: f64,
    median_ratio: f64,
    /// What was predicted and what came, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    scatter: Option<Vec<(f64, f64)>>,
}

impl WayJson {
    fn of(way: Way, scatter: bool) -> Self {
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

/// Does what was asked for.
pub(super) fn run(context: &Context, args: &AccuracyArgs) -> Result<Exit, Failure> {
    let log = Log::read(&args.log).map_err(|error| {
        let hint = "a log has a job on each line, 18 numbers, and comments behind `;` (Standard Workload Format)";
        Failure::usage("the log cannot be used", hint).because(error)
    })?;
    let Foretold { taught, judged, processors, ways } = foretell(&log);
    let predictors = ways.into_iter().map(|way| WayJson::of(way, args.scatter)).collect();
    let answer = Answer { log: args.log.display().to_string(), processors, taught, judged, predictors };
    let ids = || answer.predictors.iter().map(|way| format!("{} {:.0}", way.name, way.median_error_s)).collect();
    context.out.show(&answer, || text(&answer, context.out.color()), ids)?;
    Ok(Exit::Well)
}

fn text(answer: &Answer, color: bool) -> String {
    let mut rows = Rows::new(&["PREDICTOR", "MEDIAN ERROR", "MEAN ERROR", "HELD", "WIDTH", "CORRELATION"], color);
    for way in &answer.predictors {
        rows.add([
            way.name.to_owned(),
            format!("{:.0} s", way.median_error_s),
            format!("{:.0} s", way.mean_error_s),
            format!("{:.1} % of {:.0} %", 100.0 * way.coverage, 100.0 * way.held),
            format!("{:.0} s", way.median_width_s),
            format!("{:.2}", way.correlation),
        ]);
    }
    format!("{} jobs judged after {} that taught\n{}", answer.judged, answer.taught, rows.text("no jobs to judge"))
}
