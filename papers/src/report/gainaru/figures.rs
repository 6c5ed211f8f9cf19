//! The paper's figures, and one of ours. They are drawn in `report::svg`.

use super::scenarios::{LAWS, LESSONS, ScenarioResults, StrategyResults};
use simulator::experiment::requests::RunMean;
use simulator::figure::{Bar, Body, Figure};

/// Every figure, in the paper's order.
pub(super) fn all(found: &ScenarioResults) -> Vec<Figure> {
    let mut all = vec![
        second(
            found,
            "figure-2-utilisation",
            "Figure 2: system utilisation",
            "utilisation",
            |cell| cell.utilisation,
        ),
        second(
            found,
            "figure-2-response",
            "Figure 2: average response time",
            "hours",
            |cell| cell.response,
        ),
        third(found),
        fourth(found, "figure-4-utilisation", "utilisation", |cell| {
            cell.utilisation
        }),
        fourth(found, "figure-4-response", "hours", |cell| cell.response),
    ];
    all.extend([
        fifth(found, "figure-5-utilisation", "utilisation", |cell| {
            cell.utilisation
        }),
        fifth(found, "figure-5-response", "hours", |cell| cell.response),
        by_rate(
            found,
            "figure-6-utilisation",
            "Figure 6: system utilisation",
            "utilisation",
            |cell| cell.utilisation,
        ),
        by_rate(
            found,
            "figure-6-response",
            "Figure 6: response time of all jobs",
            "hours",
            |cell| cell.response,
        ),
        by_rate(
            found,
            "figure-7",
            "Figure 7: response time of large jobs",
            "hours",
            |cell| cell.large,
        ),
        eighth(found, "figure-8-utilisation", "utilisation", |cell| {
            cell.utilisation
        }),
        eighth(found, "figure-8-response", "hours", |cell| cell.response),
        learning(found),
    ]);

    all
}

type Of = fn(&StrategyResults) -> RunMean;

fn bar(mean: RunMean) -> Bar {
    Bar {
        value: mean.value,
        ci: mean.half.map(|half| (mean.value - half, mean.value + half)),
    }
}

/// The bars of each way of asking, over groups of cells.
fn bars(groups: Vec<(String, Vec<StrategyResults>)>, of: Of) -> Body {
    let names: Vec<&str> = groups
        .first()
        .map(|(_, cells)| cells.iter().map(|cell| cell.who).collect())
        .unwrap_or_default();
    let series = names.iter().enumerate().map(|(at, name)| {
        let heights = groups
            .iter()
            .map(|(_, cells)| bar(of(&cells[at])))
            .collect();
        (String::from(*name), heights)
    });
    let series = series.collect();

    Body::Bars {
        groups: groups.into_iter().map(|(name, _)| name).collect(),
        series,
    }
}

/// The lines of each way of asking, over numbers.
fn lines(points: &[(f64, Vec<StrategyResults>)], of: Of) -> Body {
    let names: Vec<&str> = points
        .first()
        .map(|(_, cells)| cells.iter().map(|cell| cell.who).collect())
        .unwrap_or_default();
    let line = |(at, name): (usize, &&str)| {
        (
            String::from(*name),
            points
                .iter()
                .map(|(x, cells)| (*x, of(&cells[at]).value))
                .collect(),
        )
    };
    Body::Lines(names.iter().enumerate().map(line).collect())
}

fn second(found: &ScenarioResults, name: &str, title: &str, y: &str, of: Of) -> Figure {
    let wanted = found
        .first
        .iter()
        .filter(|(_, widths, _)| ["Full", "Beta"].contains(widths));
    let groups =
        wanted.map(|(law, widths, cells)| (format!("{} {widths}", short(law)), cells.clone()));

    Figure::new(
        name,
        title,
        "law of run times, and processors",
        y,
        bars(groups.collect(), of),
    )
}

fn short(law: &str) -> &str {
    match law {
        "TruncN[0,20]" => "TN20",
        "TruncN[6,16]" => "TN16",
        other => other.split('[').next().unwrap_or(other),
    }
}

fn third(found: &ScenarioResults) -> Figure {
    let group = |(law, widths, cells): &(&str, &str, Vec<StrategyResults>)| {
        let wanted = cells
            .iter()
            .filter(|cell| ["HPC", "TOptimal"].contains(&cell.who))
            .cloned()
            .collect();
        (format!("{} {widths}", short(law)), wanted)
    };

    let groups = found
        .first
        .iter()
        .filter(|(law, ..)| *law != LAWS[0].0)
        .map(group)
        .collect();

    let title = "Figure 3: utilisation by laws of run times and processors";
    Figure::new(
        "figure-3",
        title,
        "law of run times, and processors",
        "utilisation",
        bars(groups, |cell| cell.utilisation),
    )
}

fn fourth(found: &ScenarioResults, name: &str, y: &str, of: Of) -> Figure {
    let line = found
        .histories
        .iter()
        .map(|(runs, cell)| (f64::from(*runs), of(cell).value))
        .collect();
    let mut all = vec![("Neuroscience".to_owned(), line)];
    let ends = found.histories.first().zip(found.histories.last());

    if let Some(((from, _), (to, _))) = ends {
        let flat = |cell: &StrategyResults| {
            [*from, *to]
                .map(|runs| (f64::from(runs), of(cell).value))
                .to_vec()
        };
        all.extend(
            found
                .history_peers
                .iter()
                .map(|cell| (cell.who.to_owned(), flat(cell))),
        );
    }

    Figure::new(
        name,
        "Figure 4: what Neuroscience looks back at",
        "past runs",
        y,
        Body::Lines(all),
    )
}

fn fifth(found: &ScenarioResults, name: &str, y: &str, of: Of) -> Figure {
    let points: Vec<_> = found
        .second
        .iter()
        .map(|(percent, cells)| (f64::from(*percent), cells.clone()))
        .collect();
    Figure::new(
        name,
        "Figure 5: speculative backfilling",
        "small jobs, in percent",
        y,
        lines(&points, of),
    )
}

fn by_rate(found: &ScenarioResults, name: &str, title: &str, y: &str, of: Of) -> Figure {
    Figure::new(
        name,
        title,
        "rate of small work, by processor",
        y,
        lines(&found.third, of),
    )
}

fn eighth(found: &ScenarioResults, name: &str, y: &str, of: Of) -> Figure {
    let groups = vec![("Intrepid".to_owned(), found.fourth.clone())];
    Figure::new(
        name,
        "Figure 8: two weeks on Intrepid",
        "requests, and backfilling",
        y,
        bars(groups, of),
    )
}

fn learning(found: &ScenarioResults) -> Figure {
    let groups = LESSONS.iter().map(|runs| format!("{runs} runs")).collect();
    let series = found.lessons.iter().map(|(law, lessons)| {
        (
            String::from(*law),
            lessons.iter().map(|(_, mean)| bar(*mean)).collect(),
        )
    });
    let body = Body::Bars {
        groups,
        series: series.collect(),
    };

    Figure::new(
        "learning",
        "Sequences learned from past runs",
        "runs",
        "least cost by cost",
        body,
    )
}
