//! The text of the report, as Markdown: method, readings of the paper, and results. Every number in
//! it is computed.

use std::fmt::Write;

use super::claims::{claims, targets};
use super::devices::Device;
use super::table::{Cell, TrialTable, UserGroup};
use super::trial::{Pressure, Trial};
use super::{
    CORRECTED, HARD, HOSTS, MIDDLE, NEEDED, NONE, OURS, OURS_POLICED, PROBABILISTIC, Study,
};
use crate::report::claim::{ClaimColumns, ClaimVerdict, count};
use crate::report::markdown::{Markdown, again, images, words};
use simulator::figure::Figure;

/// The columns of the table of sentences.
const SENTENCES: ClaimColumns = ClaimColumns {
    heads: ["section", "the paper says", "here", "verdict"],
    paper_first: true,
    words: ["holds", "in part", "does not hold"],
};

/// Writes the whole report.
pub(super) fn report(study: &Study, table: &TrialTable, figures: &[Figure]) -> String {
    let mut out = String::new();
    head(&mut out, table);
    method(&mut out, study);
    devices(&mut out);
    sentences(&mut out, table);
    numbers(&mut out, table);
    ours(&mut out, table);
    gaming(&mut out, table);

    out.line(include_str!("readings.md"));
    pictures(&mut out, figures);

    let runs = &study.repetitions;
    again(&mut out, "wozniak", study.quick, study.seed, runs, None);

    out
}

/// The acceptance and guarantee ratios of a cell, as text.
fn both(cell: Option<&Cell>, group: UserGroup) -> String {
    cell.map_or_else(String::new, |cell| {
        format!(
            "{:.2} / {:.2}",
            cell.acceptance(group).mean,
            cell.guarantee(group).mean
        )
    })
}

fn head(out: &mut String, table: &TrialTable) {
    out.line("# Bad estimates and policed deadlines: Wozniak, Jiang and Striegel again\n");

    let all = claims(table);
    let _ = writeln!(
        out,
        "**In short.** Of {} sentences of section 5 about results, {} hold here, {} in part, {} do not. With corrected \
         estimates and the longest tasks first (`PROMISE`), at Q = {:.0} % and tighter deadlines than in the other trials:",
        all.len(),
        count(&all, ClaimVerdict::Holds),
        count(&all, ClaimVerdict::InPart),
        count(&all, ClaimVerdict::Not),
        100.0 * table.near(0.5),
    );

    for (what, found, wanted) in targets(table) {
        let verdict = if found >= wanted {
            "reached"
        } else {
            "not reached"
        };
        let _ = writeln!(
            out,
            "- {what}: {found:.3}, the aim being {wanted:.2}: {verdict}"
        );
    }

    out.line("");
}

fn method(out: &mut String, study: &Study) {
    out.line("## What was done\n");
    let _ = writeln!(
        out,
        "The scheduler that runs live was driven by a simulated cluster: its catalogue's rows with a calendar are the \
         paper's scheduler. Seed {}, {} bags in each test. The sentences of section 5 about how it was done:\n",
        study.seed, study.bags
    );

    out.heading(&["paper", "here"]);
    let tests = format!(
        "{} tests of each setting, averaged; bars are standard deviations",
        study.repetitions
    );
    let rows = [
        (
            "a simulator corresponds to the model of section 4",
            "the live scheduler's rows CALENDAR, CALENDAR-HARD, CALENDAR-GRACE and CALENDAR-PROB; the simulator only does what it is told",
        ),
        (
            "run times from devices (Table 1); the experimental ones from a Condor system",
            "invented within Table 1, see below",
        ),
        (
            "varying QoE, by equation 1; 10 tests for each, averaged, standard deviations as bars",
            &tests,
        ),
        (
            "the estimate is randomly selected from those that satisfy equation 1",
            "uniform over [c / (1 + Q), c / (1 - Q)]",
        ),
        (
            "batches of fixed size arrive between random, uniformly distributed intervals around a mean",
            "uniform over (0, 2 I), where I is such that the load is 0.95",
        ),
        ("inputs are uniform over the valid ones", "likewise"),
        (
            "N homogeneous hosts; the batch size grows with their number",
            "8, 32 and 128; 2 N tasks in a bag",
        ),
        (
            "deadlines (not told)",
            "1.5 times the device's longest run time and 2 mean ones after arrival",
        ),
    ];
    for (paper, here) in rows {
        out.row([paper.to_owned(), here.to_owned()]);
    }

    out.line("");
}

fn devices(out: &mut String) {
    out.line("## Table 1\n");
    out.line(
        "The four figures are the paper's. What is drawn is ours, invented within them: a sum of five inputs from 0 to 9; \
         804 (0.2801 u + 0.7199 u^5.75) for an input u between 0 and 1, since no polynomial with whole coefficients was \
         found that has the four figures; and tables of 201 run times, exact in all four.\n",
    );

    out.heading(&["device", "median", "mean", "min", "max"]);
    for device in Device::ALL {
        let told = device.table_1();
        let figures = [told.median_s, told.mean_s, told.min_s, told.max_s]
            .map(|figure| format!("{figure:.0}"));
        out.row(std::iter::once(device.name().to_owned()).chain(figures));
    }

    out.line("");
}

fn sentences(out: &mut String, table: &TrialTable) {
    out.line("## Section 5, sentence by sentence\n");
    SENTENCES.table(out, claims(table));
    out.line(
        "Verdicts are computed from the numbers beside them; a difference counts from 0.04 on.\n",
    );
}

/// Appends a table over Q: for each row the cells that `find` returns, as accepted / kept.
fn over<'a>(
    out: &mut String,
    table: &'a TrialTable,
    rows: &[(String, UserGroup)],
    find: impl Fn(usize, f64) -> Option<&'a Cell>,
) {
    let mut fields = words(["accepted / kept at Q ="]);
    fields.extend(table.qoes.iter().map(|qoe| format!("{:.0} %", 100.0 * qoe)));
    out.heading(&fields);

    for (at, (name, group)) in rows.iter().enumerate() {
        let cells = table.qoes.iter().map(|qoe| both(find(at, *qoe), *group));
        out.row(std::iter::once(name.clone()).chain(cells));
    }

    out.line("");
}

fn numbers(out: &mut String, table: &TrialTable) {
    out.line("## Figures 2 to 5 and 7 as numbers\n");
    let mut settings = Vec::new();
    for (figure, device, policy) in [
        ("2", Device::Poly, NONE),
        ("3", Device::Poly, HARD),
        ("4", Device::Ns, NONE),
        ("5", Device::Ns, HARD),
        ("7", Device::Ns, PROBABILISTIC),
    ] {
        settings.extend(HOSTS.map(|hosts| {
            (
                format!("Fig. {figure}: {}, {policy}, N = {hosts}", device.name()),
                device,
                hosts,
                policy,
            )
        }));
    }

    settings.push((
        format!("NS-Device, {NEEDED}, N = {MIDDLE}"),
        Device::Ns,
        MIDDLE,
        NEEDED,
    ));

    let names: Vec<_> = settings
        .iter()
        .map(|(name, ..)| (name.clone(), UserGroup::A))
        .collect();
    over(out, table, &names, |at, qoe| {
        let (_, device, hosts, policy) = &settings[at];
        table.usual(*device, *hosts, qoe, policy)
    });
    out.line(
        "The last row kills, of those that hard enforcement would kill, only as many as a bag needs that would be refused \
         otherwise: the default occasion of our policing. On the paper's calendar that is nobody: what is beyond its \
         estimate is expected to end at once, so that killing it lets no bag in that would be refused.\n",
    );
}

fn ours(out: &mut String, table: &TrialTable) {
    out.line("## Our correction beside it\n");
    out.line(
        "Load 1, deadlines of 1.1 times the longest run time and 2 mean ones, N = 32. Nobody is killed but in the last row. \
         `CORRECTED` takes what each user's finished tasks usually took by what was estimated (the 57 % quantile), and \
         multiplies new estimates with it, never far beyond the longest task ever seen; PROMISE stacks the longest tasks first besides, and \
         takes a first bag of an unknown user on probation.\n",
    );

    let ways = [
        ("as they are", NONE),
        ("CORRECTED", CORRECTED),
        ("PROMISE", OURS),
        ("PROMISE, probabilistic if needed", OURS_POLICED),
    ];

    let mut settings = Vec::new();
    for device in [Device::Poly, Device::Ns] {
        settings.extend(
            ways.map(|(name, policy)| (format!("{}, {name}", device.name()), device, policy)),
        );
    }

    let names: Vec<_> = settings
        .iter()
        .map(|(name, ..)| (name.clone(), UserGroup::A))
        .collect();
    over(out, table, &names, |at, qoe| {
        let (_, device, policy) = settings[at];
        table.cell(&Trial {
            pressure: Pressure::Tight,
            ..Trial::usual(device, MIDDLE, qoe, policy)
        })
    });

    out.line("The same under the load and the deadlines of the other trials:\n");

    let settings = [Device::Poly, Device::Ns]
        .map(|device| [(device, NONE), (device, OURS)])
        .concat();
    let names: Vec<_> = settings
        .iter()
        .map(|(device, policy)| (format!("{}, {policy}", device.name()), UserGroup::A))
        .collect();
    over(out, table, &names, |at, qoe| {
        table.usual(settings[at].0, MIDDLE, qoe, settings[at].1)
    });
}

fn gaming(out: &mut String, table: &TrialTable) {
    out.line("## Does it pay to estimate too low?\n");
    out.line(
        "NS-Device, N = 32, as many bags of group A (honest) as of group B (always too low).\n",
    );

    let settings = [
        ("Fig. 8: CALENDAR-PROB", PROBABILISTIC, Pressure::Usual),
        ("nobody killed", NONE, Pressure::Usual),
        ("PROMISE", OURS, Pressure::Usual),
        ("tight, nobody killed", NONE, Pressure::Tight),
        ("tight, PROMISE", OURS, Pressure::Tight),
    ];
    let names: Vec<_> = settings
        .iter()
        .flat_map(|(name, ..)| {
            [
                (format!("{name}: A"), UserGroup::A),
                (format!("{name}: B"), UserGroup::B),
            ]
        })
        .collect();
    over(out, table, &names, |at, qoe| {
        let (_, policy, pressure) = settings[at / 2];
        table.groups(MIDDLE, qoe, policy, pressure)
    });
}

fn pictures(out: &mut String, figures: &[Figure]) {
    out.line("## Figures\n");
    images(out, figures);
    out.line("Each one's numbers lie beside it as CSV; every setting is a line of `points.csv`.\n");
}
