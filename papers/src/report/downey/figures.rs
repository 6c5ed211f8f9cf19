//! The paper's figures, and two of ours. They are drawn in `report::svg`.

use scheduler::malleable::{Bias, Malleable, Speedup, UniformLog};
use scheduler::policy::width::{Soonest, Width};

use super::found::DrawResults;
use super::trial::{LN_WORK, PROCESSORS};
use simulator::batch::{
    Arrival, Elastic, ElasticStay, ForetoldLog, HoldOut, MethodQuality, Ruled, WaitSource,
};
use simulator::figure::{Bar, Body, Figure, PlotLine};

/// The largest number of points of a scatterplot.
const DOTS: usize = 2_000;
/// The number of columns of a scatterplot that have a mean and a median.
const COLUMNS: usize = 24;

/// Every figure, in the paper's order.
pub(super) fn all(found: &DrawResults) -> Vec<Figure> {
    let mut all = vec![
        speedups(),
        times(found),
        widths(found),
        scatter(
            "figure-5a",
            "Figure 5a: predicted and actual waits under PRED",
            &found.scatter[0],
        ),
        scatter(
            "figure-5b",
            "Figure 5b: the same under self-fitted BIAS",
            &found.scatter[1],
        ),
        schedule("figure-6a", "Figure 6: two jobs under AVG", Width::Average),
        schedule(
            "figure-6b",
            "Figure 6: the same two when the second holds out",
            Width::Soonest(Soonest::PLAIN),
        ),
        tables(found),
        prices(found),
    ];
    all.extend(found.real.iter().map(errors));

    all
}

fn speedups() -> Figure {
    const A: f64 = 64.0;
    let over = |name: &str, of: &dyn Fn(u32) -> f64| -> PlotLine {
        (
            name.to_owned(),
            (1..=256)
                .map(|hosts| (f64::from(hosts), of(hosts)))
                .collect(),
        )
    };

    let mut lines: Vec<PlotLine> = [0.0, 0.5, 1.0, 2.0]
        .into_iter()
        .filter_map(|sigma| {
            let speedup = Speedup::new(A, sigma)?;
            Some(over(&format!("sigma = {sigma}"), &|hosts| {
                speedup.on(hosts)
            }))
        })
        .collect();
    lines.push(over("lower bound", &|hosts| {
        A * f64::from(hosts) / (A + f64::from(hosts) - 1.0)
    }));

    Figure::new(
        "figure-2",
        "Figure 2: speedup, A = 64",
        "processors",
        "speedup",
        Body::Lines(lines),
    )
}

/// The distribution function of the values at a hundred of them, over their natural logarithms.
fn share(name: &str, mut values: Vec<f64>, of: fn(f64) -> f64) -> PlotLine {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let at = |percent: usize| (of(values[last * percent / 100]), percent as f64 / 100.0);
    let points = if values.is_empty() {
        Vec::new()
    } else {
        (0..=100).map(at).collect()
    };
    (name.to_owned(), points)
}

fn times(found: &DrawResults) -> Figure {
    let jobs = &found.seen.jobs;
    let straight = |(low, high): (f64, f64)| vec![(0.0, 0.0), (low, 0.0), (high, 1.0), (16.0, 1.0)];
    let patient = (2.0, UniformLog::PATIENT.most_s().ln());
    let lines = vec![
        share(
            "allocated time",
            jobs.iter().map(|job| f64::from(job.0) * job.1).collect(),
            f64::ln,
        ),
        share("work", jobs.iter().map(|job| job.2).collect(), f64::ln),
        share("run time", jobs.iter().map(|job| job.1).collect(), f64::ln),
        ("model of work".to_owned(), straight(LN_WORK)),
        ("model of predictions".to_owned(), straight(patient)),
    ];

    let title = "Figure 3: times of jobs under AVG";
    Figure::new(
        "figure-3",
        title,
        "ln of seconds",
        "part of jobs",
        Body::Lines(lines),
    )
}

fn widths(found: &DrawResults) -> Figure {
    let jobs = &found.seen.jobs;
    let lines = vec![
        share(
            "processors had",
            jobs.iter().map(|job| f64::from(job.0)).collect(),
            f64::log2,
        ),
        share(
            "average parallelism",
            jobs.iter().map(|job| job.3).collect(),
            f64::log2,
        ),
        (
            "model".to_owned(),
            vec![(0.0, 0.0), (f64::from(PROCESSORS).log2(), 1.0)],
        ),
    ];

    let title = "Figure 4: processors of jobs under AVG";
    Figure::new(
        "figure-4",
        title,
        "binary logarithm of processors",
        "part of jobs",
        Body::Lines(lines),
    )
}

fn scatter(name: &str, title: &str, told: &[HoldOut]) -> Figure {
    let logs: Vec<(f64, f64)> = told
        .iter()
        .filter(|one| one.came_s > 0.0)
        .map(|one| (one.expected_s.ln(), one.came_s.ln()))
        .collect();
    let each = logs.len().div_ceil(DOTS).max(1);
    let points = logs.iter().copied().step_by(each).collect();
    let most = logs.iter().map(|(x, y)| x.max(*y)).fold(1.0, f64::max);
    let mut means = Vec::new();
    let mut medians = Vec::new();

    for column in 0..COLUMNS {
        let at = |edge: usize| most * edge as f64 / COLUMNS as f64;
        let mut inside: Vec<f64> = logs
            .iter()
            .filter(|(x, _)| (at(column)..at(column + 1)).contains(x))
            .map(|(_, y)| *y)
            .collect();

        // Too few points give no useful mean.
        if inside.len() >= 10 {
            inside.sort_by(f64::total_cmp);
            let x = (at(column) + at(column + 1)) / 2.0;
            means.push((x, inside.iter().sum::<f64>() / inside.len() as f64));
            medians.push((x, inside[inside.len() / 2]));
        }
    }

    let lines = vec![
        ("perfect".to_owned(), vec![(0.0, 0.0), (most, most)]),
        ("mean".to_owned(), means),
        ("median".to_owned(), medians),
    ];
    Figure::new(
        name,
        title,
        "ln of predicted seconds",
        "ln of actual seconds",
        Body::Cloud { points, lines },
    )
}

/// A figure of the processors of each job over time, as the outline of a box; the first job is the
/// lowest.
fn schedule(name: &str, title: &str, width: Width) -> Figure {
    let job = |submit_s, work_s| {
        let speedup = Speedup::new(100.0, 0.0)?;
        Some(Arrival {
            submit_s,
            job: Malleable { work_s, speedup },
        })
    };
    let jobs: Vec<Arrival> = [job(0.0, 60_000.0), job(60.0, 90_000.0)]
        .into_iter()
        .flatten()
        .collect();
    let ruled = Ruled {
        width,
        waits: WaitSource::Known,
    };
    let kept =
        Elastic::new(&jobs, PROCESSORS).run(&ruled, &mut Bias::default(), &mut |_| (), &mut |_| ());
    let base = |stay: &ElasticStay| {
        let with = |other: &&ElasticStay| other.job < stay.job && other.to_s > stay.from_s;
        kept.iter()
            .filter(with)
            .map(|other| other.hosts)
            .sum::<u32>()
    };
    let outline = |stay: &ElasticStay| {
        let low = f64::from(base(stay));
        let high = f64::from(base(stay) + stay.hosts);
        let corners = [
            (stay.from_s, low),
            (stay.to_s, low),
            (stay.to_s, high),
            (stay.from_s, high),
            (stay.from_s, low),
        ];
        (
            format!("job {}", stay.job + 1),
            corners.map(|(at_s, hosts)| (at_s / 60.0, hosts)).to_vec(),
        )
    };
    let mut lines: Vec<PlotLine> = kept.iter().map(outline).collect();

    // Equalizes the axes of both pictures.
    lines.push((
        "all processors".to_owned(),
        vec![(0.0, f64::from(PROCESSORS)), (60.0, f64::from(PROCESSORS))],
    ));
    Figure::new(name, title, "minutes", "processors", Body::Lines(lines))
}

fn tables(found: &DrawResults) -> Figure {
    let bar = |value: f64, sd: f64| Bar {
        value,
        ci: Some((value - sd, value + sd)),
    };
    let lines: Vec<_> = found
        .followed
        .iter()
        .filter(|line| line.label != "AVG" && !line.label.contains("price"))
        .collect();
    let of = |of: &dyn Fn(&super::found::Followed) -> Bar| {
        lines.iter().map(|line| of(line)).collect::<Vec<_>>()
    };
    let series = vec![
        (
            "turnaround / AVG".to_owned(),
            of(&|line| bar(1.0 + line.slower.mean, line.slower.sd)),
        ),
        (
            "utilisation / AVG".to_owned(),
            of(&|line| bar(1.0 + line.utilised.mean, line.utilised.sd)),
        ),
    ];

    let groups = lines.iter().map(|line| short(line.label)).collect();
    let x = "rule (B: by the paper's line; own: self-fitted)";
    Figure::new(
        "table-2",
        "Table 2: every rule against AVG",
        x,
        "by that of AVG",
        Body::Bars { groups, series },
    )
}

fn short(label: &str) -> String {
    let words = [
        ("BIAS, self-fitted", "own"),
        ("BIAS", "B"),
        ("lock-in", "lock"),
        ("risk 20 %", "risk"),
        (", ", "+"),
    ];
    words.iter().fold(label.to_owned(), |label, (long, short)| {
        label.replace(long, short)
    })
}

/// The prices of waiting, with the rules that have them.
pub(super) const PRICES: [(f64, &str); 5] = [
    (0.0, "PRED"),
    (0.1, "price 0.1"),
    (0.3, "price 0.3"),
    (1.0, "PRICED"),
    (3.0, "price 3"),
];

fn prices(found: &DrawResults) -> Figure {
    let line = |of: fn(&super::found::Followed) -> (f64, f64)| {
        let points = PRICES
            .iter()
            .filter_map(|(price, label)| Some((*price, of(found.followed(label)?))));
        points
            .map(|(price, (value, sd))| (price, 100.0 * value, 100.0 * sd))
            .collect()
    };
    let lines = vec![
        (
            "turnaround".to_owned(),
            line(|followed| (followed.slower.mean, followed.slower.sd)),
        ),
        (
            "utilisation".to_owned(),
            line(|followed| (followed.utilised.mean, followed.utilised.sd)),
        ),
    ];

    let title = "What waiting costs who waits behind";
    Figure::new(
        "prices",
        title,
        "price of a second for each job behind",
        "change against AVG, percent",
        Body::Spread(lines),
    )
}

/// The distribution of the errors of a log's predictions.
fn errors(real: &ForetoldLog) -> Figure {
    let line = |way: &MethodQuality| {
        let errors = way
            .pairs
            .iter()
            .map(|(predicted, came)| (came - predicted).abs().max(1.0));
        share(way.name, errors.collect(), f64::log10)
    };

    let title = "A real log: how far predicted waits were off";
    let lines = real.ways.iter().map(line).collect();
    Figure::new(
        "log-errors",
        title,
        "decimal logarithm of seconds",
        "part of jobs",
        Body::Lines(lines),
    )
}
