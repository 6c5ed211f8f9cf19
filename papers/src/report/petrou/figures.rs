//! The paper's Figures 4 to 13 with our numbers, and two of our own. They are drawn in
//! `report::svg`.

use super::points::{Axis, BilledScheduler, Factors, Measured, Measurements, SHOWN, Slice};
use simulator::experiment::half_width;
use simulator::figure::{Bar, Body, Figure};

/// All figures.
pub(super) fn figures(results: &Measurements) -> Vec<Figure> {
    let users = results.slice(Axis::Users);
    let mut all = factors(results);
    all.extend([
        bars(
            7,
            "Figure 7: users",
            users,
            "mean visible response time (s)",
            Measured::vresp_s,
        ),
        bars(
            8,
            "Figure 8: users",
            users,
            "mean visible slowdown",
            Measured::vslow,
        ),
        bars(
            9,
            "Figure 9: users",
            users,
            "finished tasks in two weeks",
            |run| run.finished() as f64,
        ),
        bars(10, "Figure 10: users", users, "load", Measured::load),
        bars(
            11,
            "Figure 11: how likely the rest is dropped",
            results.slice(Axis::Change),
            "mean visible response time (s)",
            Measured::vresp_s,
        ),
        log(bars(
            12,
            "Figure 12: tasks in a set",
            results.slice(Axis::Tasks),
            "mean visible slowdown",
            Measured::vslow,
        )),
        bars(
            13,
            "Figure 13: service time",
            results.slice(Axis::Service),
            "mean visible response time (s)",
            Measured::vresp_s,
        ),
        bars(
            14,
            "Think time (in the paper without a figure)",
            results.slice(Axis::Think),
            "mean visible response time (s)",
            Measured::vresp_s,
        ),
        bars(
            15,
            "Servers, eight users for each (ours)",
            results.slice(Axis::Servers),
            "mean visible response time (s)",
            Measured::vresp_s,
        ),
    ]);

    all
}

/// Figures 4 to 6, and the same for our policies.
fn factors(results: &Measurements) -> Vec<Figure> {
    use BilledScheduler::{
        BatchFcfs, BatchSrpt, FcfsFcfs, FcfsNeed, InteractiveFcfs, InteractiveSrpt, SrptFcfs,
        SrptNeed,
    };

    let against = |worse, better| results.factors(worse, better);
    vec![
        cumulative(
            4,
            "Figure 4: visible response time, SRPTxFCFS over SRPT",
            &[
                ("over interactive", against(InteractiveSrpt, SrptFcfs)),
                ("over batch", against(BatchSrpt, SrptFcfs)),
                (
                    "by need (ours) over interactive",
                    against(InteractiveSrpt, SrptNeed),
                ),
                ("by need (ours) over batch", against(BatchSrpt, SrptNeed)),
            ],
        ),
        cumulative(
            5,
            "Figure 5: visible response time, FCFSxFCFS over FCFS",
            &[
                ("over interactive", against(InteractiveFcfs, FcfsFcfs)),
                ("over batch", against(BatchFcfs, FcfsFcfs)),
                (
                    "by need (ours) over interactive",
                    against(InteractiveFcfs, FcfsNeed),
                ),
                ("by need (ours) over batch", against(BatchFcfs, FcfsNeed)),
            ],
        ),
        cumulative(
            6,
            "Figure 6: scaled billed resources, SRPTxFCFS over batch FCFS",
            &[
                (
                    "of what was requested",
                    results.billed(Measured::scaled_billed),
                ),
                (
                    "of what was waited for",
                    results.billed(Measured::scaled_billed_waited),
                ),
            ],
        ),
        cumulative(
            16,
            "Disclosed tasks by need (ours): visible response time",
            &[
                ("SRPTxNEED over SRPTxFCFS", against(SrptFcfs, SrptNeed)),
                ("FCFSxNEED over FCFSxFCFS", against(FcfsFcfs, FcfsNeed)),
            ],
        ),
    ]
}

/// A figure of the part of the points at which the factor is at least a given value.
fn cumulative(number: u32, title: &str, lines: &[(&str, Factors)]) -> Figure {
    let line = |(name, factors): &(&str, Factors)| {
        let points = (0..=60)
            .map(|tenth| f64::from(tenth) / 10.0)
            .map(|x| (x, factors.at_least(x)))
            .collect();
        (format!("{name} (mean {:.3})", factors.mean()), points)
    };

    Figure::new(
        format!("figure-{number:02}"),
        title,
        "factor",
        "part of the points at which it is at least so great",
        Body::Lines(lines.iter().map(line).collect()),
    )
}

fn bars(
    number: u32,
    title: &str,
    slice: &Slice,
    y: &str,
    of: impl Fn(&Measured) -> f64 + Copy,
) -> Figure {
    let x = match slice.axis {
        Axis::Users => "users",
        Axis::Change => "mean probability that the rest is dropped after a result",
        Axis::Tasks => "mean tasks in a set",
        Axis::Service => "mean service time (s)",
        Axis::Think => "mean think time (s)",
        Axis::Servers => "servers",
    };

    let bar = |value: usize, contender: BilledScheduler| {
        let mean = slice.mean(value, contender, of);
        let half = half_width(slice.bar(value, contender).iter().map(of));
        Bar {
            value: mean,
            ci: half.map(|half| ((mean - half).max(0.0), mean + half)),
        }
    };

    let values = || 0..slice.values.len();
    let body = Body::Bars {
        groups: values()
            .map(|value| simulator::figure::number(slice.values[value].0))
            .collect(),
        series: SHOWN
            .iter()
            .map(|contender| {
                (
                    contender.name().to_owned(),
                    values().map(|value| bar(value, *contender)).collect(),
                )
            })
            .collect(),
    };
    Figure::new(format!("figure-{number:02}"), title, x, y, body)
}

fn log(figure: Figure) -> Figure {
    Figure {
        log: true,
        ..figure
    }
}
