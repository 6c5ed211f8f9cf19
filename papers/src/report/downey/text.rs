//! The text of the report, as Markdown: method, readings of the paper, and results. Every number in
//! it is computed.

use std::fmt::Write;

use super::Study;
use super::claims::{NumberFormat, claims};
use super::figures::PRICES;
use super::found::DrawResults;
use super::trial::{LOAD, OURS, PROCESSORS};
use crate::report::markdown::{Markdown, again, left_out, pictures};
use simulator::batch::{ForetoldLog, HELD};
use simulator::figure::Figure;

/// Writes the whole report.
pub(super) fn report(study: &Study, found: &DrawResults, figures: &[Figure]) -> String {
    let mut out = String::new();
    head(&mut out, study, found);
    claimed(&mut out, found);
    asked(&mut out, found);
    followed(&mut out, found);
    ours(&mut out, found);
    predictions(&mut out, found);
    real(&mut out, found.real.as_ref());

    out.line(include_str!("readings.md"));
    pictures(&mut out, figures);

    let log = study.log.as_deref();
    let runs = &study.runs;
    again(&mut out, "downey", study.quick, study.seed, runs, log);

    out
}

fn head(out: &mut String, study: &Study, found: &DrawResults) {
    out.line("# Using queue time predictions for processor allocation: Downey (1997) again\n");

    let all = claims(found);
    let judged: Vec<bool> = all
        .iter()
        .filter_map(super::claims::PaperNumber::near)
        .collect();
    let near = judged.iter().filter(|near| **near).count();
    let change = |label: &str| {
        found.followed(label).map_or_else(String::new, |line| {
            format!(
                "turnaround {}, utilisation {}",
                NumberFormat::Change.write(line.slower.mean),
                NumberFormat::Change.write(line.utilised.mean)
            )
        })
    };

    let _ = writeln!(
        out,
        "**In short.** {near} of {} numbers are within the spread of an independent simulation of the same model. Against AVG: \
         PRED has {}; ours, which prices waiting for those behind (`{}`), has {}.\n",
        judged.len(),
        change("PRED"),
        OURS.policy,
        change(OURS.label),
    );
    let _ = writeln!(
        out,
        "The rules and the predictors are the live scheduler's (`scheduler::policy::width`, `scheduler::malleable`); the machine \
         of {PROCESSORS} processors is the simulator's. Draws of the workload: {}, each of {} days that begin with an empty machine \
         and have their jobs in their first half, load {LOAD}; about {} jobs in a draw; seeds from {}. Spreads are standard deviations over \
         draws. Every draw's numbers are in `runs.csv`.\n",
        study.runs, study.days, found.jobs, study.seed,
    );
}

fn claimed(out: &mut String, found: &DrawResults) {
    out.line("## What the paper says, and what we find\n");
    out.line(
        "The third column is an independent simulation of the same model, over five draws of 120 days. `within`: as near to it as \
         draws are to each other (two standard deviations, the larger of both).\n",
    );
    out.heading(&["number", "paper", "independent", "here", "verdict"]);

    for claim in claims(found) {
        let reference = claim.reference.map_or_else(String::new, |(mean, sd)| {
            let sd = sd.map_or_else(String::new, |sd| match claim.unit {
                NumberFormat::Percent | NumberFormat::Change => format!(" ± {:.1}", 100.0 * sd),
                _ => format!(" ± {sd}"),
            });
            format!("{}{sd}", claim.unit.write(mean))
        });

        out.row([
            claim.claim.as_str(),
            claim.paper,
            &reference,
            &claim.unit.spread(claim.ours),
            claim.verdict(),
        ]);
    }

    out.line("");
}

fn asked(out: &mut String, found: &DrawResults) {
    out.line("## Table 1: what holding out would bring to each\n");
    out.line("All jobs run under AVG; the rule is asked what one job would have had by itself.\n");
    out.heading(&[
        "rule",
        "hold out",
        "minutes saved per job",
        "of them lose",
        "median saving",
        "mean saving",
    ]);

    for one in &found.asked {
        let fields = [
            one.label.to_owned(),
            NumberFormat::Percent.spread(one.rebels),
            NumberFormat::Plain.spread(one.minutes),
            NumberFormat::Percent.spread(one.lose),
            NumberFormat::Seconds.spread(one.median_s),
            NumberFormat::Seconds.spread(one.mean_s),
        ];
        out.row(fields);
    }

    out.line("");
}

fn followed(out: &mut String, found: &DrawResults) {
    out.line("## Table 2: what it does to all\n");
    out.heading(&[
        "rule",
        "row of the catalogue",
        "turnaround",
        "against AVG",
        "utilisation",
        "against AVG",
    ]);

    for one in &found.followed {
        let fields = [
            one.label.to_owned(),
            format!(
                "`{}`{}",
                one.policy,
                if one.label == "OPT" {
                    " and the truth"
                } else {
                    ""
                }
            ),
            NumberFormat::Seconds.spread(one.turnaround_s),
            NumberFormat::Change.spread(one.slower),
            NumberFormat::Percent.spread(one.utilisation),
            NumberFormat::Change.spread(one.utilised),
        ];
        out.row(fields);
    }

    out.line("");
}

fn ours(out: &mut String, found: &DrawResults) {
    out.line("## Ours: the price of waiting\n");
    out.line(
        "The paper names, but does not try, to let a job minimise q Q + R, where q counts the jobs in the queue: its waiting then \
         costs what it costs all behind it. Here a second of waiting costs 1 + g q, with q jobs behind. Whoever does not want \
         to wait for others asks for `price=0`, which is PRED.\n",
    );

    out.heading(&["g", "turnaround against AVG", "utilisation against AVG"]);
    for (price, label) in PRICES {
        let Some(one) = found.followed(label) else {
            continue;
        };
        out.row([
            price.to_string(),
            NumberFormat::Change.spread(one.slower),
            NumberFormat::Change.spread(one.utilised),
        ]);
    }

    if let Some(one) = found.followed(OURS.label) {
        let faster = one.slower.mean <= -0.08;
        let used = one.utilised.mean >= 0.0;
        let word = |reached: bool| if reached { "reached" } else { "not reached" };
        let _ = writeln!(
            out,
            "\nAim: turnaround at most -8 %, {}; utilisation not below AVG, {}.\n",
            word(faster),
            word(used)
        );
    }
}

fn predictions(out: &mut String, found: &DrawResults) {
    out.line("## How good predictions were\n");
    out.line(
        "Of predictions by which jobs held out: the line of ln actual over ln predicted, their correlation, and the line by \
         which self-fitted rules corrected in the end. A perfect predictor has slope 1 and intercept 0.\n",
    );
    out.heading(&[
        "rule",
        "slope",
        "intercept",
        "correlation",
        "learned slope",
        "learned intercept",
    ]);

    for one in found
        .followed
        .iter()
        .filter(|one| !matches!(one.label, "OPT" | "HEUR"))
    {
        let Some(trend) = one.trend else { continue };
        let [slope, intercept, correlation] =
            trend.map(|spread| NumberFormat::Plain.spread(spread));
        let learned = one.learned.map(|spread| NumberFormat::Plain.spread(spread));
        let [learned_slope, learned_intercept] = &learned;
        out.row([
            one.label,
            &slope,
            &intercept,
            &correlation,
            learned_slope,
            learned_intercept,
        ]);
    }

    out.line("");
}

fn real(out: &mut String, real: Option<&ForetoldLog>) {
    out.line("## A real log\n");
    let Some(real) = real else {
        out.line(
            "Not done: no log was given. `--log FILE` takes the KTH-SP2 log in the Standard Workload Format.\n",
        );
        return;
    };

    let _ = writeln!(
        out,
        "Each job's wait on {} processors was predicted when it was submitted, from what had started and ended by then. {} jobs \
         only taught, {} after them were judged{}. Ours: lifetimes by user (Kaplan and Meier, within the limit that was asked \
         for), starts first come, first served, and the median of what came of such predictions. Intervals are to hold \
         {:.0} %, and are learned alike for all three.\n",
        real.processors,
        real.taught,
        real.judged,
        left_out(real.left_out),
        100.0 * HELD,
    );

    out.heading(&[
        "predictor",
        "median error",
        "mean error",
        "held by its interval",
        "median width of it",
        "correlation of logarithms",
    ]);

    for way in &real.ways {
        let fields = [
            way.name.to_owned(),
            NumberFormat::Seconds.write(way.accuracy.median_error_s),
            NumberFormat::Seconds.write(way.mean_error_s),
            NumberFormat::Percent.write(way.coverage),
            NumberFormat::Seconds.write(way.median_width_s),
            NumberFormat::Plain.write(way.accuracy.correlation),
        ];
        out.row(fields);
    }

    out.line("");
}
