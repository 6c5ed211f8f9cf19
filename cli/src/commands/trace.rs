//! `deskgrid trace`: what availability traces are like. What is not here: the statistics.

use serde::Serialize;
use simulator::availability::Model;
use simulator::experiment::{FIRST_DAY, HOSTS};
use simulator::platform::Platform;
use simulator::stats::{Calibration, Durations, Stats, calibration, stats as stats_of};
use simulator::trace::{Trace, TraceError};

use super::Context;
use crate::args::research::{StatsArgs, TraceFormat};
use crate::failure::{Exit, Failure};
use crate::output::table::{Rows, facts};

/// Days over which a model is compared with the paper.
const CALIBRATION_DAYS: u32 = 20;

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    stats: &'a Stats,
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<&'a Calibration>,
}

/// Says what a trace is like.
pub(super) fn stats(context: &Context, args: &StatsArgs) -> Result<Exit, Failure> {
    let (trace, table) = match &args.path {
        Some(path) => {
            let TraceFormat::Csv = args.format;
            (Trace::read(path).map_err(|why| unusable(&why))?, None)
        }
        None => generated(args)?,
    };
    let stats = stats_of(&trace);
    let answer = Answer { stats: &stats, calibration: table.as_ref() };
    let text = || text(&stats, table.as_ref(), context.out.color());
    context.out.show(&answer, text, || vec![stats.hosts.to_string()])?;
    Ok(Exit::Well)
}

/// A trace that is refused, with what a good one looks like.
pub(super) fn unusable(why: &TraceError) -> Failure {
    let hint = "a trace is a directory with hosts.csv (host,clock_mhz) and availability.csv \
                (host,start_s,end_s,host_available,cpu_fraction), without gaps";
    Failure::usage("the trace cannot be used", hint).because(why)
}

fn generated(args: &StatsArgs) -> Result<(Trace, Option<Calibration>), Failure> {
    let unknown = |what: &str, name: &str, names: &[&str]| {
        Failure::usage(format!("there is no {what} `{name}`"), format!("one of {}", names.join(", ")))
    };
    let platform =
        Platform::named(&args.platform).ok_or_else(|| unknown("platform", &args.platform, &Platform::NAMES))?;
    let model = Model::named(&args.model).ok_or_else(|| unknown("availability model", &args.model, &Model::NAMES))?;
    let trace = model.trace(args.seed, FIRST_DAY, platform.clocks_mhz(args.seed, HOSTS));
    Ok((trace, Some(calibration(&model, args.seed, CALIBRATION_DAYS))))
}

fn text(stats: &Stats, table: Option<&Calibration>, color: bool) -> String {
    let span = |s: f64| format!("{:.1} min", s / 60.0);
    let stretch =
        |what: &Durations| format!("{} times, mean {}, median {}", what.count, span(what.mean_s), span(what.median_s));
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    let failures = stats.failure_by_task_s.iter();
    let failures: Vec<String> =
        failures.map(|(task_s, part)| format!("{} of {}", share(*part), span(f64::from(*task_s)))).collect();
    let mut out = facts(&[
        ("hosts", Some(stats.hosts.to_string())),
        ("segments", Some(stats.segments.to_string())),
        ("up", Some(stretch(&stats.availability))),
        ("down", Some(stretch(&stats.unavailability))),
        ("tasks that fail", Some(failures.join(", "))),
        ("power varies by", Some(format!("{:.1} % from five minutes to five minutes", 100.0 * stats.power_cv))),
    ]);
    if let Some(table) = table {
        let mut rows = Rows::new(&["STATISTIC", "PAPER", "REFERENCE", "THIS MODEL"], color);
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        for row in &table.rows {
            rows.add([row.name.to_owned(), number(row.paper), number(Some(row.reference)), number(row.ours)]);
        }
        out += &format!("\nThe model {} over {} days, beside the paper:\n{}", table.model, table.days, rows.text(""));
    }
    out
}
