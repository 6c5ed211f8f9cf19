//! The figures of a trace's statistics: interval lengths beside the fitted laws, failure rates of
//! tasks, and the hours of the day.

use super::{Durations, Hour, Stats, interval};
use crate::figure::{Bar, Body, Figure};
use crate::trace::Trace;

/// The largest number of points of a curve.
const POINTS: usize = 200;
/// The share of the intervals that a figure shows: the few longest would leave no room for the
/// others.
const SHOWN: f64 = 0.95;

/// Builds the figures of a trace from its statistics, as `stats` returns them.
pub fn figures(trace: &Trace, stats: &Stats) -> Vec<Figure> {
    let lasting = |up: bool, name: &str, title: &str, law: &Durations| {
        survival(name, title, interval::all_lengths_s(trace, up), law)
    };
    vec![
        lasting(
            true,
            "availability",
            "How long hosts stay up",
            &stats.availability,
        ),
        lasting(
            false,
            "unavailability",
            "How long hosts stay down",
            &stats.unavailability,
        ),
        failures(stats),
        hours(stats),
    ]
}

fn survival(name: &str, title: &str, mut lengths_s: Vec<f64>, law: &Durations) -> Figure {
    lengths_s.sort_by(f64::total_cmp);
    let count = lengths_s.len();
    let shown = ((count as f64 * SHOWN) as usize).min(count.saturating_sub(1));
    let most_s = lengths_s.get(shown).copied().unwrap_or(0.0);
    let step = shown.div_ceil(POINTS).max(1);
    let (unit_s, unit) = if most_s > 2.0 * 86_400.0 {
        (86_400.0, "days")
    } else {
        (3_600.0, "hours")
    };

    let seen = (0..=shown).step_by(step).filter(|at| *at < count);
    let seen = seen
        .map(|at| (lengths_s[at] / unit_s, 1.0 - at as f64 / count as f64))
        .collect();
    let curve = |survives: &dyn Fn(f64) -> f64| {
        let at = |point: usize| most_s * point as f64 / POINTS as f64;
        (0..=POINTS)
            .map(|point| (at(point) / unit_s, survives(at(point))))
            .collect()
    };

    let mut lines = vec![("seen".to_owned(), seen)];
    if let Some(weibull) = law.weibull {
        lines.push(("Weibull".to_owned(), curve(&|x| weibull.survival(x))));
    }
    if let Some(lognormal) = law.lognormal {
        lines.push(("lognormal".to_owned(), curve(&|x| lognormal.survival(x))));
    }

    let length = format!("length ({unit})");
    let part = "part that lasts longer";
    Figure::new(name, title, length, part, Body::Lines(lines))
}

fn failures(stats: &Stats) -> Figure {
    let told = stats
        .failure_by_task_s
        .iter()
        .filter_map(|(task_s, part)| Some((*task_s, (*part)?)));
    let (sizes, bars) = told
        .map(|(task_s, part)| {
            (
                format!("{} min", f64::from(task_s) / 60.0),
                Bar {
                    value: 100.0 * part,
                    ci: None,
                },
            )
        })
        .unzip();

    Figure::new(
        "failures",
        "Tasks that fail because their host goes down",
        "task on a dedicated host of speed 1",
        "tasks that fail (%)",
        Body::Bars {
            groups: sizes,
            series: vec![("fail".to_owned(), bars)],
        },
    )
}

fn hours(stats: &Stats) -> Figure {
    let line = |name: &str, of: fn(&Hour) -> Option<f64>| {
        let points: Vec<(f64, f64)> = stats
            .by_hour
            .iter()
            .filter_map(|hour| Some((f64::from(hour.hour), 100.0 * of(hour)?)))
            .collect();
        (!points.is_empty()).then(|| (name.to_owned(), points))
    };
    let lines = [
        line("hosts up", |hour| hour.available),
        line("processor for tasks", |hour| hour.cpu),
        line("owners active", |hour| hour.owner_active),
    ];

    Figure::new(
        "hours",
        "By hour of day",
        "hour (UTC, or since the trace's start)",
        "part of the known time (%)",
        Body::Lines(lines.into_iter().flatten().collect()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::Model;
    use crate::figure::draw;
    use crate::stats::stats;

    #[test]
    fn fitted_laws_are_close_to_the_samples() {
        let trace = Model::named("memoryless")
            .expect("a model")
            .trace(1, 0, vec![1_500.0; 220]);
        let figures = figures(&trace, &stats(&trace));
        assert_eq!(
            figures.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(),
            ["availability", "unavailability", "failures", "hours"]
        );

        let Body::Lines(lines) = &figures[0].body else {
            panic!("lines")
        };
        let [(_, seen), (_, weibull), _] = &lines[..] else {
            panic!("what was seen, and two laws")
        };
        for (x, part) in seen {
            let near = weibull
                .iter()
                .min_by(|(a, _), (b, _)| (a - x).abs().total_cmp(&(b - x).abs()))
                .expect("points");
            assert!(
                (near.1 - part).abs() < 0.12,
                "{x}: {part} against {}",
                near.1
            );
        }

        for figure in &figures {
            let drawn = draw(figure);
            assert!(
                drawn.ends_with("</svg>\n") && !drawn.contains("NaN"),
                "{}",
                figure.name
            );
        }
    }

    #[test]
    fn a_trace_without_anything_has_empty_figures() {
        let trace = Trace::default();
        for figure in figures(&trace, &stats(&trace)) {
            assert!(draw(&figure).ends_with("</svg>\n"));
        }
    }
}
