//! The text of the report, as Markdown: method, readings of the paper, and results. Every number in
//! it is computed.

use std::fmt::Write;

use super::claims::claims;
use super::scenarios::{LAWS, LESSONS, ScenarioResults, StrategyResults};
use super::{Real, Study, absent};
use crate::report::claim::{ClaimVerdict, NUMBERS, count};
use crate::report::markdown::{Markdown, again, left_out, pictures};
use simulator::experiment::requests::RunMean;
use simulator::figure::Figure;

/// Writes the whole report.
pub(super) fn report(study: &Study, found: &ScenarioResults, figures: &[Figure]) -> String {
    let mut out = String::new();
    head(&mut out, study, found);
    claimed(&mut out, found);
    ours(&mut out, found);
    table(&mut out, found);
    first(&mut out, found);
    pays(&mut out, found);
    absent::section(&mut out, &found.absent);

    lessons(&mut out, found);
    real(&mut out, found.real.as_ref());
    out.line(include_str!("readings.md"));
    pictures(&mut out, figures);

    let log = study.log.as_deref();
    let runs = &study.runs;
    again(&mut out, "gainaru", study.quick, study.seed, runs, log);

    out
}

fn share(mean: RunMean) -> String {
    mean.text(3)
}

fn hours(mean: RunMean) -> String {
    mean.text(1)
}

fn head(out: &mut String, study: &Study, found: &ScenarioResults) {
    out.line(
        "# Speculative scheduling for stochastic jobs: Gainaru, Pallez, Sun and Raghavan (ICPP 2019) again\n",
    );

    let all = claims(found);
    let _ = writeln!(
        out,
        "**In short.** Of {} claims {} are reproduced, {} in part, {} not. Where requests stay reserved to their end, \
         sequences of short requests beat long ones for every law; where processors are given back the moment a job ends, \
         they lose (see \"Where limits pay\").\n",
        all.len(),
        count(&all, ClaimVerdict::Holds),
        count(&all, ClaimVerdict::InPart),
        count(&all, ClaimVerdict::Not),
    );
    let _ = writeln!(
        out,
        "The sequences and the gain of a gap are functions of the scheduler (`scheduler::reservation`); the machine of many \
         processors, on which jobs hold several together, is the simulator's own. {} runs of each case, seed {}; the same \
         jobs whoever asks. Intervals are of 95 %. Times are in hours.\n",
        study.runs, study.seed,
    );
}

fn claimed(out: &mut String, found: &ScenarioResults) {
    out.line("## What the paper claims, and what we find\n");
    NUMBERS.table(out, claims(found));
    out.line("Verdicts are computed from the numbers beside them.\n");
}

fn ours(out: &mut String, found: &ScenarioResults) {
    out.line("## Ours\n");
    out.line(
        "Nobody knows a law. Neuroscience asks for the longest of 10 past runs; ours asks for the sequence that is cheapest \
         for what 10 past runs teach. Processors by Beta.\n",
    );
    out.heading(&[
        "law",
        "utilisation, by that of Neuroscience",
        "response, by that of Neuroscience",
    ]);

    for (law, _) in LAWS {
        let of = |who| found.cell(law, "Beta", who);
        let (Some(neuro), Some(ours)) = (of("Neuroscience"), of("Learned")) else {
            continue;
        };
        let used = ours.utilisation.value / neuro.utilisation.value;
        let response = ours.response.value / neuro.response.value;
        out.row([
            law.to_owned(),
            format!("x{used:.2}"),
            format!("x{response:.2}"),
        ]);
    }

    out.line("");
}

fn table(out: &mut String, found: &ScenarioResults) {
    out.line(
        "## Table 1\n\nTruncated normal law from 0 to 20 hours, mean 8, standard deviation 2.\n",
    );
    out.heading(&["algorithm", "requests, in hours", "expected cost, in hours"]);
    for (name, sequence) in &found.table {
        let limits: Vec<String> = sequence
            .limits
            .iter()
            .map(|limit| format!("{limit:.4}"))
            .collect();
        out.row([
            (*name).to_owned(),
            limits.join(", "),
            format!("{:.4}", sequence.cost),
        ]);
    }

    out.line("");
}

fn first(out: &mut String, found: &ScenarioResults) {
    out.line(
        "## Scenario 1: sequences at submission\n\n100 jobs on 100 processors, submitted together. `Learned` is ours: TOptimal \
         for what 10 past runs teach, as many as Neuroscience looks at, drawn anew for each job.\n",
    );
    out.heading(&["law", "processors", "who asks", "utilisation", "response"]);
    for (law, widths, cells) in &found.first {
        for cell in cells {
            out.row([
                *law,
                *widths,
                cell.who,
                &share(cell.utilisation),
                &hours(cell.response),
            ]);
        }
    }

    out.line(
        "\n## Scenario 2: speculative backfilling\n\n200 jobs; utilisation, and response in hours.\n",
    );
    by_step(
        out,
        "small jobs",
        found
            .second
            .iter()
            .map(|(percent, cells)| (format!("{percent} %"), cells)),
        both,
    );

    out.line(
        "## Scenario 3: a stream of small work\n\nUtilisation, and response of large jobs in hours.\n",
    );

    let large =
        |cell: &StrategyResults| format!("{}; {}", share(cell.utilisation), hours(cell.large));
    by_step(
        out,
        "rate",
        found
            .third
            .iter()
            .map(|(rate, cells)| (format!("{rate:.1}"), cells)),
        large,
    );

    out.line("## Scenario 4: two weeks on Intrepid\n\nUtilisation, and response in hours.\n");

    let ways = [
        ("together", &found.fourth),
        ("over two weeks", &found.spread),
    ];
    by_step(
        out,
        "submitted",
        ways.into_iter()
            .map(|(when, cells)| (when.to_owned(), cells)),
        both,
    );
}

fn both(cell: &StrategyResults) -> String {
    format!("{}; {}", share(cell.utilisation), hours(cell.response))
}

fn by_step<'a>(
    out: &mut String,
    step: &str,
    rows: impl Iterator<Item = (String, &'a Vec<StrategyResults>)>,
    show: fn(&StrategyResults) -> String,
) {
    for (number, (name, cells)) in rows.enumerate() {
        if number == 0 {
            let names = cells.iter().map(|cell| cell.who);
            out.heading(&std::iter::once(step).chain(names).collect::<Vec<_>>());
        }
        out.row(std::iter::once(name).chain(cells.iter().map(show)));
    }

    out.line("");
}

fn pays(out: &mut String, found: &ScenarioResults) {
    out.line("## Where limits pay\n");
    out.line(
        "The same jobs (processors by Beta) on the same machine, where requests stay reserved to their end, and where all \
         requests move up when a job ends early (conservative backfilling), as on a desktop grid, where a host is given \
         back the moment its task ends. Utilisation.\n",
    );

    out.heading(&[
        "law",
        "reserved: HPC",
        "reserved: TOptimal",
        "given back: HPC",
        "given back: TOptimal",
    ]);

    for (law, cells) in &found.moving {
        let used = |cell: Option<&StrategyResults>| {
            cell.map_or_else(String::new, |cell| share(cell.utilisation))
        };
        let reserved = |who| used(found.cell(law, "Beta", who));
        let moved = |who| used(StrategyResults::of(cells, who));
        out.row([
            (*law).to_owned(),
            reserved("HPC"),
            reserved("TOptimal"),
            moved("HPC"),
            moved("TOptimal"),
        ]);
    }

    out.line("\nThe jobs of scenario 4 where requests move up:\n");
    by_step(
        out,
        "calendar",
        std::iter::once(("moved up".to_owned(), &found.moving_fourth)),
        both,
    );

    out.line(
        "So deskgrid gives limits to tasks only where what they do not need of a reservation is lost; elsewhere a task has \
         no limit, and what takes long is copied.\n",
    );
}

fn lessons(out: &mut String, found: &ScenarioResults) {
    out.line("## What past runs teach\n");
    out.line(
        "The least expected cost by that of a sequence learned from so many runs (product-limit estimate, evenly spread \
         between runs; where runs are alike some room beyond the longest; limits double after the last).\n",
    );

    let names: Vec<String> = LESSONS.iter().map(|runs| format!("{runs} runs")).collect();
    out.heading(
        &std::iter::once("law".to_owned())
            .chain(names)
            .collect::<Vec<_>>(),
    );

    for (law, lessons) in &found.lessons {
        let parts = lessons.iter().map(|(_, mean)| share(*mean));
        out.row(std::iter::once((*law).to_owned()).chain(parts));
    }

    out.line("");
}

fn real(out: &mut String, real: Option<&Real>) {
    out.line("## A real log\n");
    let Some(real) = real else {
        out.line(
            "Not done: no log was given. `--log FILE` takes the KTH-SP2 log in the Standard Workload Format.\n",
        );
        return;
    };
    let _ = writeln!(
        out,
        "{} jobs on {} processors, with users' estimates as requests and runs that end at them{}.\n",
        real.jobs,
        real.processors,
        left_out(real.left_out)
    );

    out.heading(&[
        "backfilling",
        "average flow time, s",
        "average slowdown, bounded at 10 s",
    ]);

    for (name, (flow, slowdown)) in [
        ("FCFS, EASY", real.easy),
        ("conservative", real.conservative),
    ] {
        out.row([
            name.to_owned(),
            format!("{flow:.0}"),
            format!("{slowdown:.1}"),
        ]);
    }

    out.line("\nKnown for EASY on the KTH-SP2 log: 15,695 s and 92.6.\n");
}
