//! Executes `deskgrid trace stats`: describes traces. The statistics live in `simulator::stats`.

use serde::Serialize;
use simulator::availability::Model;
use simulator::experiment::{FIRST_DAY, HOSTS};
use simulator::figure::draw;
use simulator::platform::Platform;
use simulator::stats::{Calibration, Durations, Stats, calibration, figures, stats as stats_of};
use simulator::trace::Trace;

use super::super::Context;
use super::{part, read, recorded, unknown};
use crate::args::trace::StatsArgs;
use crate::commands::simulate::write;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::output::figures::amount;
use crate::output::table::{Rows, facts};

/// The number of days over which a model is compared with the paper.
const CALIBRATION_DAYS: u32 = 20;

#[derive(Serialize)]
struct StatsAnswer<'a> {
    #[serde(flatten)]
    stats: &'a Stats,
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<&'a Calibration>,
}

/// Prints the statistics of a trace.
pub(super) async fn run(context: &Context, args: &StatsArgs) -> Result<Exit, Failure> {
    let (trace, table) = match &args.path {
        Some(path) => (part(read(args.format, path)?, &args.part)?, None),
        None if args.platform.is_some() || args.model.is_some() => generated(args)?,
        None => (recorded::trace(context, &args.part).await?, None),
    };
    let stats = stats_of(&trace);
    let answer = StatsAnswer {
        stats: &stats,
        calibration: table.as_ref(),
    };
    let text = || text(&stats, table.as_ref(), context.out.color());
    let shown = context.show(&answer, text, || vec![stats.hosts.to_string()]);

    // Only now: where the figures cannot be written, the rest is not lost with them.
    if let Some(dir) = &args.svg {
        files::write_into(dir, args.force, |dir| {
            figures(&trace, &stats).iter().try_for_each(|figure| {
                write(&dir.join(format!("{}.svg", figure.name)), &draw(figure))
            })
        })?;
    }
    shown
}

fn generated(args: &StatsArgs) -> Result<(Trace, Option<Calibration>), Failure> {
    let platform = args.platform.as_deref().unwrap_or("sdsc");
    let model = args.model.as_deref().unwrap_or("default");
    let hosts =
        Platform::named(platform).ok_or_else(|| unknown("platform", platform, &Platform::NAMES))?;
    let model =
        Model::named(model).ok_or_else(|| unknown("availability model", model, &Model::NAMES))?;

    let trace = model.trace(args.seed, FIRST_DAY, hosts.clocks_mhz(args.seed, HOSTS));
    Ok((
        trace,
        Some(calibration(&model, args.seed, CALIBRATION_DAYS)),
    ))
}

/// Formats a time in seconds for people.
fn span(s: f64) -> String {
    match s {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3.0 * 3_600.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.2} h", s / 3_600.0),
    }
}

/// Formats a part in per cent.
fn share(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| amount(100.0 * part, " %"))
}

fn text(stats: &Stats, table: Option<&Calibration>, color: bool) -> String {
    let stretch = |what: &Durations| {
        if what.count == 0 {
            return "never".to_owned();
        }
        format!(
            "{} times, mean {}, median {}",
            what.count,
            span(what.mean_s),
            span(what.median_s)
        )
    };

    let failures = stats.failure_by_task_s.iter();
    let failures: Vec<String> = failures
        .map(|(task_s, part)| format!("{} of {}", share(*part), span(f64::from(*task_s))))
        .collect();
    let power = stats
        .power_mean
        .map(|power| format!("{power:.1} hosts of speed 1"));
    let varies = stats
        .power_cv
        .map(|part| format!("{:.1} % from five minutes to five minutes", 100.0 * part));
    let mut out = facts(&[
        ("hosts", Some(stats.hosts.to_string())),
        ("segments", Some(stats.segments.to_string())),
        ("up", Some(stretch(&stats.availability))),
        ("up, fitted", laws(&stats.availability)),
        ("down", Some(stretch(&stats.unavailability))),
        ("down, fitted", laws(&stats.unavailability)),
        ("tasks that fail", Some(failures.join(", "))),
        ("power", power),
        ("power varies by", varies),
    ]);
    out += &format!("\n{}", hours(stats, color));

    if let Some(table) = table {
        let mut rows = Rows::new(&["STATISTIC", "PAPER", "REFERENCE", "THIS MODEL"], color);
        let number = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
        };
        for row in &table.rows {
            rows.add([
                row.name.to_owned(),
                number(row.paper),
                number(Some(row.reference)),
                number(row.ours),
            ]);
        }

        out += &format!(
            "\nThe model {} over {} days, beside the paper:\n{}",
            table.model,
            table.days,
            rows.text("")
        );
    }

    out
}

/// Describes the fitted distributions, with their times in hours as in the literature.
fn laws(what: &Durations) -> Option<String> {
    let weibull = what.weibull?;
    let lognormal = what.lognormal?;
    let shape = weibull.shape;
    let scale = weibull.scale / 3_600.0;
    let mu = lognormal.mu - 3_600_f64.ln();
    let sigma = lognormal.sigma;
    Some(format!(
        "Weibull of shape {shape:.2} and scale {scale:.2} h, lognormal of mu {mu:.2} (of hours) and sigma {sigma:.2}"
    ))
}

fn hours(stats: &Stats, color: bool) -> String {
    let rows = stats.by_hour.iter().map(|hour| {
        let power = hour.power.map(|power| format!("{power:.1}"));
        [
            ("HOUR", format!("{:02}", hour.hour)),
            ("UP", share(hour.available)),
            ("PROCESSOR", share(hour.cpu)),
            ("OWNERS ACTIVE", share(hour.owner_active)),
            ("POWER", power.unwrap_or_else(|| "-".to_owned())),
            ("VARIES BY", share(hour.power_cv)),
        ]
    });
    Rows::of(rows, color).text("")
}
