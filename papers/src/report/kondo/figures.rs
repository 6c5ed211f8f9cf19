//! The paper's figures with our numbers, and some of our own. They are drawn in `report::svg`.

use super::reference::{ENTERPRISE, EQUAL, OURS, OURS_KEPT, PLATFORMS, TIMEOUT};
use super::table::{ComparisonTable, size};
use simulator::experiment::Measurement;
use simulator::figure::{Bar, Body, Figure};
use simulator::platform::{HOSTS, Platform};
use simulator::world::{AttemptFate, AttemptStory, PreparedTrace, RunOutcome};

/// The number of points of a curve over time.
const POINTS: u32 = 240;

fn figure(name: &str, title: &str, (x, y): (&str, &str), body: Body) -> Figure {
    let log = matches!(body, Body::Bars { .. });
    Figure {
        log,
        ..Figure::new(name, title, x, y, body)
    }
}

/// Figure 1: completions of FCFS over time, one curve for each number of tasks.
pub(super) fn completions(runs: &[(u32, RunOutcome)]) -> Figure {
    let curve = |(tasks, outcome): &(u32, RunOutcome)| {
        let points = outcome
            .completions_s
            .iter()
            .zip(1..)
            .map(|(at_s, done)| (at_s / 60.0, f64::from(done)));
        (
            format!("T = {tasks}"),
            [(0.0, 0.0)].into_iter().chain(points).collect(),
        )
    };

    let title = "Figure 1: tasks done over time, FCFS, 15-minute tasks, SDSC-like";
    figure(
        "figure-01",
        title,
        ("minutes", "tasks done"),
        Body::Lines(runs.iter().map(curve).collect()),
    )
}

/// Figure 2: the clock rates of the platforms.
pub(super) fn clocks(seed: u64) -> Figure {
    let curve = |name: &&str| {
        let mut mhz = Platform::named(name)
            .map(|platform| platform.clocks_mhz(seed, HOSTS))
            .unwrap_or_default();
        mhz.sort_by(f64::total_cmp);
        let hosts = mhz.len() as f64;
        (
            String::from(*name),
            mhz.iter()
                .zip(1..)
                .map(|(mhz, n)| (mhz / 1e3, f64::from(n) / hosts))
                .collect(),
        )
    };
    let lines = PLATFORMS
        .iter()
        .chain(&super::reference::LATER_PLATFORMS)
        .map(curve)
        .collect();

    figure(
        "figure-02",
        "Figure 2: clock rates",
        ("GHz", "part of the hosts"),
        Body::Lines(lines),
    )
}

/// Figure 4: tasks that wait and hosts that are free over one run.
pub(super) fn queue(
    world: &PreparedTrace,
    start_s: f64,
    tasks: u32,
    outcome: &RunOutcome,
) -> Figure {
    let end_s = outcome
        .makespan_s
        .or(outcome.completions_s.last().copied())
        .unwrap_or(0.0);
    let at = |n: u32| end_s * f64::from(n) / f64::from(POINTS);
    let line = |of: &dyn Fn(f64) -> f64| (0..=POINTS).map(|n| (at(n) / 60.0, of(at(n)))).collect();
    let alive = |attempt: &&AttemptStory, s: f64| attempt.began_s <= s && s < attempt.ended_s;
    let done = |attempt: &&AttemptStory, s: f64| {
        attempt.fate == AttemptFate::Delivered && attempt.ended_s <= s
    };
    let waiting = |s: f64| {
        let mut with: Vec<u32> = outcome
            .story
            .iter()
            .filter(|a| alive(a, s) || done(a, s))
            .map(|attempt| attempt.task)
            .collect();
        with.sort_unstable();
        with.dedup();
        f64::from(tasks) - with.len() as f64
    };

    let free = |s: f64| {
        let busy: Vec<usize> = outcome
            .story
            .iter()
            .filter(|a| alive(a, s))
            .map(|a| a.host as usize)
            .collect();
        world
            .ready(start_s + s)
            .filter(|host| !busy.contains(host))
            .count() as f64
    };
    let lines = vec![
        ("tasks that wait".to_owned(), line(&waiting)),
        ("hosts available".to_owned(), line(&free)),
    ];
    let title =
        "Figure 4: tasks that wait and hosts available, PRI-CR, 400 15-minute tasks, SDSC-like";
    figure(
        "figure-04",
        title,
        ("minutes", "tasks, hosts"),
        Body::Lines(lines),
    )
}

fn bar(cell: Option<&Measurement>) -> Bar {
    let ci = cell
        .and_then(|cell| cell.ratio.ci)
        .map(|ci| (ci.low, ci.high));
    Bar {
        value: cell.map_or(f64::NAN, |cell| cell.ratio.value),
        ci,
    }
}

/// A figure of the ratios to the optimum of some contenders on one platform.
fn ratios(
    table: &ComparisonTable,
    name: &str,
    title: &str,
    platform: &str,
    labels: &[&str],
) -> Figure {
    let site = table.site(platform).unwrap_or_default();
    let series = labels.iter().map(|label| {
        let bars = (0..table.jobs.len())
            .map(|job| bar(table.reading(site, label, job)))
            .collect();
        (String::from(*label), bars)
    });

    let groups = table.jobs.iter().map(|job| size(*job)).collect();
    let body = Body::Bars {
        groups,
        series: series.collect(),
    };

    figure(
        name,
        title,
        ("tasks x minutes on a 1.5 GHz host", "times the optimum"),
        body,
    )
}

/// Figures 3 and 5 to 11, and one for each platform with ours.
pub(super) fn bars(table: &ComparisonTable, equal: &[Measurement]) -> Vec<Figure> {
    let common = ["FCFS", "PRI-CR", "EXCL-S.5", "EXCL-PRED"];
    let mut all = vec![
        ratios(
            table,
            "figure-03",
            "Figure 3: prioritisation, SDSC-like",
            "sdsc",
            &["FCFS", "PRI-CR", "PRI-CR-WAIT", "PRI-HISTORY"],
        ),
        ratios(
            table,
            "figure-05",
            "Figure 5: exclusion by clock rate, SDSC-like",
            "sdsc",
            &[
                "FCFS",
                "PRI-CR",
                "EXCL-S1.5",
                "EXCL-S1",
                "EXCL-S.5",
                "EXCL-S.25",
            ],
        ),
        ratios(
            table,
            "figure-06",
            "Figure 6: exclusion by prediction, SDSC-like",
            "sdsc",
            &common,
        ),
        ratios(
            table,
            "figure-07",
            "Figure 7: exclusion by prediction, Internet (GIMPS-like)",
            "gimps",
            &common,
        ),
        ratios(
            table,
            "figure-08",
            "Figure 8: exclusion by prediction, LRI-WISC",
            "lri-wisc",
            &common,
        ),
        ratios(
            table,
            "figure-09",
            "Figure 9: exclusion by prediction, homogeneous",
            "homogeneous",
            &common,
        ),
        ratios(
            table,
            "figure-10",
            "Figure 10: replication, SDSC-like",
            "sdsc",
            &["EXCL-S.5", "EXCL-PRED", "EXCL-PRED-DUP", TIMEOUT],
        ),
    ];
    all.push(replication(table, equal));

    for (number, platform) in (12..).zip(PLATFORMS) {
        let title = format!("Figure {number} (ours): {platform}");
        let labels = ["PRI-CR", TIMEOUT, OURS, OURS_KEPT];
        all.push(ratios(
            table,
            &format!("figure-{number}"),
            &title,
            platform,
            &labels,
        ));
    }

    all
}

/// Figure 11: the effect of the same number of copies, made in one way and in the other.
fn replication(table: &ComparisonTable, equal: &[Measurement]) -> Figure {
    let title = "Figure 11: replication at equal copies, SDSC-like";
    let mut figure = ratios(table, "figure-11", title, ENTERPRISE, &[TIMEOUT]);
    let site = table.site(ENTERPRISE).unwrap_or_default();
    let of_equal = |job| equal.iter().find(|cell| cell.job == job);
    let copies = |cell: Option<&Measurement>| Bar {
        value: cell.map_or(f64::NAN, |cell| cell.replicas),
        ci: None,
    };
    let jobs = || 0..table.jobs.len();

    if let Body::Bars { series, .. } = &mut figure.body {
        series.insert(
            0,
            (
                EQUAL.to_owned(),
                jobs().map(|job| bar(of_equal(job))).collect(),
            ),
        );

        series.push((
            format!("copies per task, {EQUAL}"),
            jobs().map(|job| copies(of_equal(job))).collect(),
        ));

        let timeouts = jobs().map(|job| copies(table.reading(site, TIMEOUT, job)));
        series.push((format!("copies per task, {TIMEOUT}"), timeouts.collect()));
    }

    figure.log = false;
    figure.y = "times the optimum; copies per task".to_owned();
    figure
}

/// Figure 16: the effect of each budget of copies.
pub(super) fn frontier(points: &[(f64, f64)]) -> Figure {
    let line = vec![(
        OURS.to_owned(),
        points
            .iter()
            .map(|(copies, geo)| (100.0 * copies, *geo))
            .collect(),
    )];

    let title = "Figure 16 (ours): copies and what they bring, all platforms";
    figure(
        "figure-16",
        title,
        ("copies per 100 tasks", "times the optimum (geometric mean)"),
        Body::Lines(line),
    )
}
