//! The text of the report, as Markdown: method, readings of the paper, and results. Every number in
//! it is computed.

use std::fmt::Write;

use super::Study;
use super::claims::{TOLERANCE, claims, means};
use super::points::{Axis, BilledScheduler, Factors, Measured, Measurements, SHOWN, WITH_OURS};
use crate::report::claim::{ClaimColumns, ClaimVerdict, count};
use crate::report::markdown::{Markdown, again, percent, pictures};
use simulator::figure::Figure;

/// The columns of the table of statements.
const STATEMENTS: ClaimColumns = ClaimColumns {
    heads: ["where", "the paper", "here", "holds"],
    paper_first: true,
    words: ["yes", "in part", "no"],
};

/// Writes the whole report.
pub(super) fn report(study: &Study, results: &Measurements, figures: &[Figure]) -> String {
    let mut out = String::new();
    head(&mut out, results);
    method(&mut out, study, results);
    tables(&mut out);
    factors(&mut out, results);
    sentences(&mut out, results);
    table_3(&mut out, results);
    billed(&mut out, results);

    ours(&mut out, study, results);
    servers(&mut out, results);
    out.line(include_str!("readings.md"));
    pictures(&mut out, figures);

    let quick = study.stride > 1;
    let runs = &study.repetitions;
    again(&mut out, "petrou", quick, study.seed, runs, None);
    out
}

/// The aims for the factor of ours over the paper's: for the mean (`AIM_MEAN`), and for the worst
/// point.
const AIM_MEAN: f64 = 1.35;
const AIM_WORST: f64 = 0.90;

fn head(out: &mut String, results: &Measurements) {
    out.line("# Requested before disclosed: Petrou, Ganger and Gibson again\n");

    let all = claims(results);
    let holds = count(&all, ClaimVerdict::Holds);
    let near = means(results).iter().filter(|mean| mean.near()).count();
    let gain = results.factors(BilledScheduler::SrptFcfs, BilledScheduler::SrptNeed);
    let [around, _] = results.gains();
    let _ = writeln!(
        out,
        "**In short.** {near} of the 4 mean improvements are within {TOLERANCE} of the reference, and {holds} of {} statements \
         hold. With disclosed tasks by predicted need (`SRPTxNEED`, ours) visible response times are {:.2} times better than \
         under SRPTxFCFS on average over the points around Table 3 (aim {AIM_MEAN}), {:.2} times at the worst one (aim \
         {AIM_WORST}); over the paper's points, at half of which there is nothing to be gained, {:.2} times on average, and {:.2} \
         times at the worst of those where a single run spoke most against it, run again.\n",
        all.len(),
        around.mean(),
        around.quantile(0.0),
        gain.mean(),
        results.again[0].quantile(0.0),
    );
}

fn method(out: &mut String, study: &Study, results: &Measurements) {
    out.line("## What was done\n");
    let _ = writeln!(
        out,
        "The scheduler that runs live was driven by simulated users and one server: every scheduler of the paper is a row of \
         its catalogue, and the simulator only does what it is told. {} points, seed {}; each point has users of its own, the \
         same for every scheduler. Each bar of Figures 7 to 13 is the mean of {} runs, with its 95 % confidence interval. Each \
         run has {} days, of which the first two do not count.\n",
        results.points.len(),
        study.seed,
        study.repetitions,
        study.days,
    );
}

fn tables(out: &mut String) {
    out.line("## Tables 1 to 3\n");
    out.heading(&["metric (Table 1)", "here"]);
    for (metric, here) in [
        (
            "visible response time",
            "from the request to the execution, 0 where that came first; mean over delivered results",
        ),
        ("visible slowdown", "the same over the task's service time"),
        ("task throughput", "results delivered in the fourteen days"),
        (
            "scaled billed resources",
            "what is billed over what was requested, of sets with which users were through",
        ),
        ("load", "the part of the time that the server was busy"),
    ] {
        out.row([metric, here]);
    }

    out.line("");
    out.heading(&["parameter", "Table 2", "points", "Table 3"]);
    for fields in [
        ["users", "4-16", "4, 8, 12, 16", "8"],
        [
            "most of the change probability (uniform from 0)",
            "0-0.4",
            "0, 0.2, 0.4",
            "0.2",
        ],
        [
            "most tasks in a set (uniform from 1)",
            "1-19",
            "1, 7, 13, 19",
            "15",
        ],
        [
            "mean service time (s, exponential)",
            "20-3,620",
            "20, 380, ... 3,620",
            "600",
        ],
        [
            "mean think time (s, exponential)",
            "20-18,020",
            "20, 3,620, ... 18,020",
            "6,000",
        ],
    ] {
        out.row(fields);
    }

    out.line(
        "\nThe points are reconstructed: 4 x 3 x 4 x 11 x 6 = 3,168, and the paper has 3,168.\n",
    );
}

fn factors(out: &mut String, results: &Measurements) {
    out.line("## Figures 4 and 5: mean improvement of visible response time\n");

    let of = [
        "",
        "paper",
        "reference",
        "here",
        "within",
        ">= 2",
        ">= 3",
        "by need (ours)",
    ];
    out.heading(&of);
    for mean in means(results) {
        out.row([
            mean.what.to_owned(),
            format!("{:.3}", mean.paper),
            format!("{:.3}", mean.reference),
            format!("{:.3}", mean.found.mean()),
            if mean.near() { "yes" } else { "no" }.to_owned(),
            percent(mean.found.at_least(2.0)),
            percent(mean.found.at_least(3.0)),
            format!("{:.3}", mean.with_need.mean()),
        ]);
    }

    let _ = writeln!(
        out,
        "\nThe reference is an independent small simulation of the same points. `within` says whether our mean is within \
         {TOLERANCE} of it: with other seeds the means move by a few hundredths.\n"
    );
}

fn sentences(out: &mut String, results: &Measurements) {
    out.line("## The paper's statements\n");
    STATEMENTS.table(out, claims(results));
}

fn table_3(out: &mut String, results: &Measurements) {
    out.line("## At the point of Table 3\n");
    let slice = results.slice(Axis::Users);
    let at = slice.at(8.0);

    out.heading(&[
        "scheduler",
        "visible response time (s)",
        "visible slowdown",
        "finished",
        "load",
    ]);

    for contender in SHOWN {
        let mean = |of: fn(&Measured) -> f64| slice.mean(at, contender, of);
        out.row([
            contender.policy().to_owned(),
            format!("{:.0}", mean(Measured::vresp_s)),
            format!("{:.2}", mean(Measured::vslow)),
            format!("{:.0}", mean(|run| run.finished() as f64)),
            format!("{:.3}", mean(Measured::load)),
        ]);
    }

    out.line(
        "\nThe reference has 1,349, 949 and 395 s for batch, interactive and batchactive; slowdowns 1.12, 1.30 and 0.58; 1,312, \
         1,388 and 1,515 finished; loads 0.868, 0.686 and 0.912.\n",
    );
}

fn billed(out: &mut String, results: &Measurements) {
    out.line("## Scaled billed resources (Figure 6), which do not reproduce as they are defined\n");

    let literal = results.billed(Measured::scaled_billed);
    let waited = results.billed(Measured::scaled_billed_waited);
    let one = results
        .points
        .iter()
        .filter(|(point, _)| point.change_max == 0.0 || point.tasks_max == 1)
        .count();

    out.heading(&["reading", "mean", "at least 4", "greatest"]);
    for (reading, factors) in [
        ("billed over requested (section 3.1)", &literal),
        (
            "billed over what was not yet executed when requested",
            &waited,
        ),
    ] {
        out.row([
            reading.to_owned(),
            format!("{:.3}", factors.mean()),
            percent(factors.at_least(4.0)),
            format!("{:.1}", factors.quantile(1.0)),
        ]);
    }

    let _ = writeln!(
        out,
        "\nThe paper has a mean of 3.647, and at least 4 in about 40 % of the runs. By its definition that cannot be: where \
         nobody drops anything or a set has one task, everything that is billed is requested, and the factor is 1; that is so \
         at {:.0} % of the points. Elsewhere it is at most the mean number of a set's tasks over that of its requested ones. \
         With the second reading, which leaves out of the denominator what was executed before it was requested, the numbers \
         come near the paper's. deskgrid bills by the definition.\n",
        100.0 * one as f64 / results.points.len() as f64
    );
}

fn ours(out: &mut String, study: &Study, results: &Measurements) {
    out.line("## Ours: disclosed tasks by predicted need\n");
    out.line(
        "FCFS takes disclosed tasks by the time at which their sets were disclosed, so that a long set disclosed early is \
         executed to its end before the second task of the next set. `SRPTxNEED` and `FCFSxNEED` take the one that is most \
         likely needed next: (1 - q)^(d + 1) / 2^d, where d tasks of its set come before it and after the last requested one, and \
         q is how often its user used to drop the rest, learned as (drops + 0.5) / (decisions + 5). Ranks change with each \
         request, and what runs makes room. No sizes are used. Visible response time of the paper's rule over ours:\n",
    );

    out.heading(&[
        "", "points", "mean", "median", "p90", "worst", "better", "worse",
    ]);

    let mut tell = |what: &str, factors: &Factors| {
        out.row([
            what.to_owned(),
            factors.len().to_string(),
            format!("{:.3}", factors.mean()),
            format!("{:.3}", factors.quantile(0.5)),
            format!("{:.3}", factors.quantile(0.9)),
            format!("{:.3}", factors.quantile(0.0)),
            percent(factors.at_least(1.02)),
            percent(1.0 - factors.at_least(0.98)),
        ]);
    };

    let [srpt, fcfs] = results.gains();
    tell("SRPTxNEED, around Table 3", &srpt);
    tell("FCFSxNEED, around Table 3", &fcfs);
    tell(
        "SRPTxNEED, the paper's points",
        &results.factors(BilledScheduler::SrptFcfs, BilledScheduler::SrptNeed),
    );
    tell(
        "FCFSxNEED, the paper's points",
        &results.factors(BilledScheduler::FcfsFcfs, BilledScheduler::FcfsNeed),
    );

    for ((_, policy), again) in WITH_OURS.iter().zip(&results.again) {
        tell(
            &format!("{}, its worst of those again", policy.policy()),
            again,
        );
    }

    let _ = writeln!(
        out,
        "\nA point has one run, and with long tasks only some hundred results in it: where ours did worst is mostly luck. So the \
         points at which it did have been run again, {} times each with other users.",
        study.repetitions
    );

    out.line(
        "\nAround Table 3: 4, 8, 12 and 16 users; change probabilities up to 0, 0.2 and 0.4; up to 7, 15, 31 and 63 tasks; 300, \
         600 and 1,200 s; 3,000, 6,000 and 12,000 s: 432 points. Where a server is idle most of the time, or busy with requests \
         all of the time, it does not matter in which order disclosed tasks go.\n",
    );
}

fn servers(out: &mut String, results: &Measurements) {
    out.line("## More servers\n");
    out.line(
        "Table 3 with eight users for each server: by what factor the batchactive scheduler is better.\n",
    );
    out.heading(&[
        "servers",
        "over interactive",
        "over batch",
        "by need (ours) over batchactive",
    ]);

    let slice = results.slice(Axis::Servers);
    for (at, (servers, ..)) in slice.values.iter().enumerate() {
        let mean = |contender| slice.mean(at, contender, Measured::vresp_s);
        let ours = mean(BilledScheduler::SrptFcfs);
        let over = |contender| format!("{:.2}", mean(contender) / ours);
        out.row([
            format!("{servers:.0}"),
            over(BilledScheduler::InteractiveSrpt),
            over(BilledScheduler::BatchSrpt),
            format!("{:.2}", ours / mean(BilledScheduler::SrptNeed)),
        ]);
    }

    out.line("");
}
