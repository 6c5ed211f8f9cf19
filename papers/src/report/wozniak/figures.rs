//! The paper's Figures 2 to 9 with our numbers, and some of our own. They are drawn in
//! `report::svg`.

use super::devices::Device;
use super::table::{Cell, TrialTable, UserGroup};
use super::trial::{Pressure, Trial};
use super::{
    CORRECTED, GRACES, HARD, HOSTS, MIDDLE, NEEDED, NONE, OURS, OURS_POLICED, PROBABILISTIC, grace,
};
use crate::report::Spread;
use simulator::figure::{Bar, Body, Figure, Points};

fn lines(number: u32, title: &str, lines: Vec<(String, Points)>) -> Figure {
    Figure::new(
        format!("figure-{number:02}"),
        title,
        "quality of estimate Q (%)",
        "ratio (bars: one standard deviation)",
        Body::Spread(lines),
    )
}

/// The points of `of` over Q, for the cells that `find` returns.
fn over<'a>(
    table: &'a TrialTable,
    find: impl Fn(f64) -> Option<&'a Cell>,
    of: impl Fn(&Cell) -> Spread,
) -> Points {
    let point = |qoe: &f64| {
        let found = of(find(*qoe)?);
        Some((100.0 * qoe, found.mean, found.sd))
    };
    table.qoes.iter().filter_map(point).collect()
}

/// The acceptance and guarantee ratios of one series.
fn pair<'a>(
    table: &'a TrialTable,
    name: &str,
    group: UserGroup,
    find: impl Fn(f64) -> Option<&'a Cell> + Copy,
) -> [(String, Points); 2] {
    [
        (
            format!("accepted, {name}"),
            over(table, find, |cell| cell.acceptance(group)),
        ),
        (
            format!("kept, {name}"),
            over(table, find, |cell| cell.guarantee(group)),
        ),
    ]
}

/// A figure of all numbers of hosts under one policy.
fn by_hosts(table: &TrialTable, number: u32, title: &str, device: Device, policy: &str) -> Figure {
    let of = |hosts: &usize| {
        pair(table, &format!("N = {hosts}"), UserGroup::A, |qoe| {
            table.usual(device, *hosts, qoe, policy)
        })
    };
    lines(number, title, HOSTS.iter().flat_map(of).collect())
}

/// All figures.
pub(super) fn figures(table: &TrialTable) -> Vec<Figure> {
    let poly = Device::Poly;
    let ns = Device::Ns;
    let mut all = vec![
        by_hosts(table, 2, "Figure 2: PolyDevice, no enforcement", poly, NONE),
        by_hosts(
            table,
            3,
            "Figure 3: PolyDevice, hard enforcement",
            poly,
            HARD,
        ),
        by_hosts(table, 4, "Figure 4: NS-Device, no enforcement", ns, NONE),
        by_hosts(table, 5, "Figure 5: NS-Device, hard enforcement", ns, HARD),
    ];

    let graces = GRACES.iter().flat_map(|part| {
        pair(table, &format!("K = {part}"), UserGroup::A, |qoe| {
            table.usual(poly, MIDDLE, qoe, &grace(part))
        })
    });
    all.push(lines(
        6,
        "Figure 6: PolyDevice, grace periods, N = 32",
        graces.collect(),
    ));
    all.push(by_hosts(
        table,
        7,
        "Figure 7: NS-Device, probabilistic enforcement",
        ns,
        PROBABILISTIC,
    ));

    all.push(groups(
        table,
        8,
        "Figure 8: NS-Device, probabilistic, groups A and B",
        PROBABILISTIC,
        Pressure::Usual,
    ));

    all.push(bars(table));
    all.push(ours(
        table,
        10,
        "Figure 10 (ours): PolyDevice, tight, nobody killed",
        poly,
    ));

    all.push(ours(
        table,
        11,
        "Figure 11 (ours): NS-Device, tight, nobody killed",
        ns,
    ));

    all.push(groups(
        table,
        12,
        "Figure 12 (ours): NS-Device, tight, groups A and B",
        OURS,
        Pressure::Tight,
    ));

    all
}

fn groups(
    table: &TrialTable,
    number: u32,
    title: &str,
    policy: &str,
    pressure: Pressure,
) -> Figure {
    let of = |(group, name)| {
        pair(table, name, group, |qoe| {
            table.groups(MIDDLE, qoe, policy, pressure)
        })
    };
    lines(
        number,
        title,
        [(UserGroup::A, "A"), (UserGroup::B, "B (too low)")]
            .into_iter()
            .flat_map(of)
            .collect(),
    )
}

/// Figure 9, the ways of enforcement at Q = 50 %.
fn bars(table: &TrialTable) -> Figure {
    let ways = [
        ("none", NONE),
        ("probabilistic", PROBABILISTIC),
        ("hard", HARD),
        ("hard, if needed (ours)", NEEDED),
        ("corrected (ours)", OURS),
    ];

    let qoe = table.near(0.5);
    let bar = |policy: &str| {
        let kept = table
            .usual(Device::Ns, MIDDLE, qoe, policy)
            .map(|cell| cell.guarantee(UserGroup::A));
        kept.map_or(
            Bar {
                value: f64::NAN,
                ci: None,
            },
            |kept| Bar {
                value: kept.mean,
                ci: Some(((kept.mean - kept.sd).max(0.0), kept.mean + kept.sd)),
            },
        )
    };

    Figure::new(
        "figure-09",
        format!("Figure 9: NS-Device, N = 32, Q = {:.0} %", 100.0 * qoe),
        "enforcement",
        "guarantee ratio (bars: one standard deviation)",
        Body::Bars {
            groups: ways.iter().map(|(name, _)| (*name).to_owned()).collect(),
            series: vec![(
                "kept".to_owned(),
                ways.iter().map(|(_, policy)| bar(policy)).collect(),
            )],
        },
    )
}

fn ours(table: &TrialTable, number: u32, title: &str, device: Device) -> Figure {
    let ways = [
        ("as they are", NONE),
        ("corrected", CORRECTED),
        ("PROMISE", OURS),
        ("PROMISE, policed", OURS_POLICED),
    ];

    let of = |(name, policy): &(&str, &str)| {
        pair(table, name, UserGroup::A, |qoe| {
            table.cell(&Trial {
                pressure: Pressure::Tight,
                ..Trial::usual(device, MIDDLE, qoe, policy)
            })
        })
    };
    lines(number, title, ways.iter().flat_map(of).collect())
}
