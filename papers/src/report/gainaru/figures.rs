//! The paper's figures, and one of ours. They are drawn in `report::svg`.

use super::scenarios::{LAWS, LESSONS, ScenarioResults, StrategyResults};
use simulator::experiment::requests::RunMean;
use simulator::figure::{Bar, Body, Figure};

/// Every figure, in the paper's order.
pub(super) fn all(found: &ScenarioResults) -> Vec<Figure> {
    vec![
        second(
            found,
            "figure-2-utilisation",
            "Figure 2: system utilisation",
            "utilisation",
            USED,
        ),
        second(
            found,
            "figure-2-response",
            "Figure 2: average response time",
            "hours",
            RESPONSE,
        ),
        third(found),
        fourth(found, "figure-4-utilisation", "utilisation", USED),
        fourth(found, "figure-4-response", "hours", RESPONSE),
        fifth(found, "figure-5-utilisation", "utilisation", USED),
        fifth(found, "figure-5-response", "hours", RESPONSE),
        by_rate(
            found,
            "figure-6-utilisation",
            "Figure 6: system utilisation",
            "utilisation",
            USED,
        ),
        by_rate(
            found,
            "figure-6-response",
            "Figure 6: response time of all jobs",
            "hours",
            RESPONSE,
        ),
        by_rate(
            found,
            "figure-7",
            "Figure 7: response time of large jobs",
            "hours",
            |cell| cell.large,
        ),
        eighth(found, "figure-8-utilisation", "utilisation", USED),
        eighth(found, "figure-8-response", "hours", RESPONSE),
        learning(found),
    ]
}

type Of = fn(&StrategyResults) -> RunMean;

const USED: Of = |cell| cell.utilisation;
const RESPONSE: Of = |cell| cell.response;

fn bar(mean: RunMean) -> Bar {
    Bar {
        value: mean.value,
        ci: mean.half.map(|half| (mean.value - half, mean.value + half)),
    }
}

/// The series of each way of asking: what `of` makes of each place and its results there.
fn series<X, T>(
    places: &[(X, Vec<StrategyResults>)],
    of: impl Fn(&X, &StrategyResults) -> T,
) -> Vec<(String, Vec<T>)> {
    let ways = places.first().into_iter().flat_map(|(_, cells)| cells);
    ways.enumerate()
        .map(|(at, way)| {
            let each = places.iter().map(|(x, cells)| of(x, &cells[at]));
            (way.who.to_owned(), each.collect())
        })
        .collect()
}

/// The bars of each way of asking, over groups of cells.
fn bars(groups: Vec<(String, Vec<StrategyResults>)>, of: Of) -> Body {
    Body::Bars {
        series: series(&groups, |_, cell| bar(of(cell))),
        groups: groups.into_iter().map(|(name, _)| name).collect(),
    }
}

/// The lines of each way of asking, over numbers.
fn lines<X: Copy + Into<f64>>(points: &[(X, Vec<StrategyResults>)], of: Of) -> Body {
    Body::Lines(series(points, |x, cell| ((*x).into(), of(cell).value)))
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
        bars(groups, USED),
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
    Figure::new(
        name,
        "Figure 5: speculative backfilling",
        "small jobs, in percent",
        y,
        lines(&found.second, of),
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
