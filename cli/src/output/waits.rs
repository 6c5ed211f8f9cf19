//! The answers about predicted waits, which come from the master or from a file: as JSON and as
//! text.

use std::fmt::Write;

pub use api::json::{PredictedWait, WaitInterval};
use common::Span;
use common::ranks::Parallelism;
use common::text::plural;
use scheduler::malleable::{Malleable, Speedup};
use serde::Serialize;
use simulator::batch::{HELD, MethodQuality};

use crate::args::predict::WorkArgs;
use crate::failure::Failure;
use crate::output::OutputForm;
use crate::output::table::Rows;

/// The quality of one predictor of waits, in seconds.
#[derive(Debug, Serialize)]
pub struct PredictorQuality {
    /// The name of the predictor.
    pub name: &'static str,
    /// The median of the errors.
    pub median_error_s: f64,
    /// The mean of the errors.
    pub mean_error_s: f64,
    /// The probability that an interval should hold.
    pub held: f64,
    /// The part of the intervals that held.
    pub coverage: f64,
    /// The median width of the intervals.
    pub median_width_s: f64,
    /// The slope of the line through predicted and actual waits.
    pub slope: f64,
    /// The intercept of that line.
    pub intercept: f64,
    /// The correlation of predicted and actual waits.
    pub correlation: f64,
    /// The median of actual by predicted waits.
    pub median_ratio: f64,
    /// The pairs of a predicted and an actual wait, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scatter: Option<Vec<(f64, f64)>>,
}

impl PredictorQuality {
    /// Formats the predictor's name and its median error.
    pub fn line(&self) -> String {
        format!("{} {:.0}", self.name, self.median_error_s)
    }

    /// Measures a predictor; with `scatter` keeps every pair.
    pub fn of(way: MethodQuality, scatter: bool) -> Self {
        let accuracy = way.accuracy;
        PredictorQuality {
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

/// Prints a prediction, with the run time of the work that follows, if one is given.
///
/// # Errors
/// If standard output cannot be written.
pub fn show_wait(
    mut wait: PredictedWait,
    out: &OutputForm,
    work: &WorkArgs,
) -> Result<(), Failure> {
    wait.run_s = work
        .work
        .and_then(|time| run_s(time.0.as_secs_f64(), work.parallelism, wait.width.max(1)));
    wait.total_s = wait
        .used
        .zip(wait.run_s)
        .map(|(wait_s, run_s)| wait_s + run_s);

    out.show(&wait, || wait_text(&wait), || vec![seconds(wait.used)])
}

/// Returns the run time of `work_s` on so many hosts, in seconds.
fn run_s(work_s: f64, parallelism: Option<Parallelism>, hosts: u32) -> Option<f64> {
    let Some(Parallelism(parallelism, sigma)) = parallelism else {
        return Some(work_s / f64::from(hosts));
    };
    Some(
        Malleable {
            work_s,
            speedup: Speedup::new(parallelism, sigma.unwrap_or(1.0))?,
        }
        .run_s(hosts),
    )
}

fn seconds(time_s: Option<f64>) -> String {
    time_s.map_or_else(|| "never".to_owned(), |time_s| format!("{time_s:.1}"))
}

fn wait_text(answer: &PredictedWait) -> String {
    let said = |time_s: Option<f64>| {
        time_s.map_or_else(
            || "never".to_owned(),
            |time_s| Span::from_secs_f64(time_s).to_string(),
        )
    };
    let about = |time_s: Option<f64>| match time_s {
        Some(time_s) if time_s > 0.0 => format!("in about {}", said(Some(time_s))),
        Some(_) => "now".to_owned(),
        None => "never, as things are".to_owned(),
    };
    let WaitInterval {
        low, median, high, ..
    } = answer.interval;
    let interval = match (low, high) {
        (None, None) => String::new(),
        _ => format!(
            "{:.0} % likely in {} to {}, median {}\n",
            100.0 * answer.interval.held,
            said(low),
            said(high),
            said(median)
        ),
    };
    let alone = match answer.benefactors {
        0 => "no job could free enough alone".to_owned(),
        some => format!("median of {some} that could free enough alone"),
    };
    let mut out = format!(
        "{} ({} of {} are free): {}\n{interval}\
         A ({alone}): {}\nB (when enough are free on average): {}\n",
        plural(u64::from(answer.width), "host"),
        answer.free,
        answer.hosts,
        about(answer.used),
        said(answer.median_s),
        said(answer.mean_s),
    );
    if let Some(run_s) = answer.run_s {
        let done = answer.total_s.map_or_else(String::new, |total_s| {
            format!(": done in about {}", said(Some(total_s)))
        });
        let _ = writeln!(out, "then {} of work{done}", said(Some(run_s)));
    }

    out
}

/// Returns a table with a row for each predictor.
pub fn table(predictors: &[PredictorQuality], color: bool) -> String {
    let row = |way: &PredictorQuality| {
        let held = format!("{:.1} % of {:.0} %", 100.0 * way.coverage, 100.0 * way.held);
        let correlation = match way.correlation.is_finite() {
            true => format!("{:.2}", way.correlation),
            false => "-".to_owned(),
        };
        [
            ("PREDICTOR", way.name.to_owned()),
            ("MEDIAN ERROR", format!("{:.0} s", way.median_error_s)),
            ("MEAN ERROR", format!("{:.0} s", way.mean_error_s)),
            ("HELD", held),
            ("WIDTH", format!("{:.0} s", way.median_width_s)),
            ("CORRELATION", correlation),
        ]
    };

    Rows::of(predictors.iter().map(row), color).text("nothing to judge")
}
