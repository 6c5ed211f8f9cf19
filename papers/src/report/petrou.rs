//! Reproduces Petrou, Ganger and Gibson, "Cluster Scheduling for Explicitly-Speculative Tasks":
//! users who disclose, request and cancel tasks, under every scheduler of the paper and this
//! project's. The simulation lives in `simulator::users`.

mod claims;
mod figures;
mod points;
mod text;

use common::Time;

use super::{Brief, File};
use points::{BilledScheduler, CONTENDERS, Factors, Measurements, PAIRS, Slice, WITH_OURS};
pub use points::{Measured, grid};
use simulator::experiment::in_parallel;
use simulator::users::{Random, StudyPoint};

/// The size of a report: [`Study::full`] or [`Study::quick`].
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The seed of everything random.
    pub seed: u64,
    /// The number of threads; the report is the same on any number.
    pub threads: usize,
    /// The stride through the grid's 3,168 points: only every `stride`-th one is run.
    pub stride: usize,
    /// The stride through the values of each parameter in Figures 7 to 13.
    pub value_stride: usize,
    /// The number of runs of each bar of Figures 7 to 13.
    pub repetitions: u32,
    /// The number of simulated days, of which the first two do not count; the paper has 16.
    pub days: u64,
}

impl Study {
    /// Returns the study of this size.
    pub fn of(brief: &Brief) -> Self {
        let study = brief.study(Study::quick, Study::full);
        Study {
            repetitions: brief.runs.unwrap_or(study.repetitions),
            ..study
        }
    }

    /// The full report, with every point.
    pub fn full(seed: u64, threads: usize) -> Self {
        Study {
            seed,
            threads,
            stride: 1,
            value_stride: 1,
            repetitions: 12,
            days: 16,
        }
    }

    /// A shortened report: one point in thirteen, which includes some of every value.
    pub fn quick(seed: u64, threads: usize) -> Self {
        Study {
            stride: 13,
            repetitions: 3,
            ..Study::full(seed, threads)
        }
    }
}

/// The largest stride through the points around Table 3, of which there are fewer than in the grid.
const FEWEST: usize = 108;

/// Runs users of this seed under this policy.
fn simulate(
    seed: u64,
    parameters: StudyPoint,
    contender: BilledScheduler,
    servers: usize,
    days: u64,
) -> Measured {
    let end = Time(days * 86_400 * 1_000_000);
    let mut measured = Measured::new(servers, end);
    simulator::users::run(
        &Random::new(seed, parameters),
        contender.policy(),
        servers,
        end,
        &mut measured,
    );

    measured
}

/// A seed for run `number` of the experiment `what`.
fn seed(study: &Study, what: u64, number: u64) -> u64 {
    study.seed.wrapping_mul(1_000_003) ^ what << 48 ^ number
}

/// Runs users of every `stride`-th of these points under each contender, as the experiment `what`,
/// and returns the runs of each such point.
fn every(
    study: &Study,
    what: u64,
    points: Vec<StudyPoint>,
    stride: usize,
    contenders: &[BilledScheduler],
) -> Vec<(StudyPoint, Vec<Measured>)> {
    let points: Vec<(u64, StudyPoint)> =
        (0..).zip(points).skip(stride / 2).step_by(stride).collect();
    let runs: Vec<(u64, StudyPoint, BilledScheduler)> = points
        .iter()
        .flat_map(|(at, point)| contenders.iter().map(|contender| (*at, *point, *contender)))
        .collect();

    let measured = in_parallel(study.threads, &runs, |(at, point, contender)| {
        simulate(seed(study, what, *at), *point, *contender, 1, study.days)
    });
    let measured = measured.chunks(contenders.len()).map(<[_]>::to_vec);
    points
        .into_iter()
        .map(|(_, point)| point)
        .zip(measured)
        .collect()
}

/// Runs everything that the report needs.
fn results(study: &Study, say: &mut dyn FnMut(&str)) -> Measurements {
    say("the grid");
    let points = every(study, 1, grid(), study.stride, &CONTENDERS);
    say("one parameter at a time");

    let slices = Slice::all(study.value_stride);
    let mut bars = Vec::new();
    for (slice, of) in slices.iter().enumerate() {
        for value in 0..of.values.len() {
            for (place, _) in points::SHOWN.iter().enumerate() {
                bars.extend(
                    (0..study.repetitions).map(|repetition| (slice, value, place, repetition)),
                );
            }
        }
    }

    let shown = in_parallel(study.threads, &bars, |(slice, value, place, repetition)| {
        let (_, parameters, servers) = slices[*slice].values[*value];
        simulate(
            seed(study, 2, u64::from(*repetition)),
            parameters,
            points::SHOWN[*place],
            servers,
            study.days,
        )
    });

    say("ours around Table 3");
    let stride = study.stride.min(FEWEST);
    let around = every(study, 3, points::around(), stride, &PAIRS);
    let mut found = Measurements {
        points,
        slices,
        around: around.into_iter().map(|(_, runs)| runs).collect(),
        again: Vec::new(),
    };

    say("where ours did worst, with other users");
    found.again = WITH_OURS
        .map(|(paper, ours)| again(study, &found.worst(paper, ours), paper, ours))
        .into();
    for ((slice, value, place, _), measured) in bars.into_iter().zip(shown) {
        found.slices[slice].note(value, place, measured);
    }

    found
}

/// The factors by which `ours` is better than `paper` at these points with other users, each of
/// means over several runs.
fn again(
    study: &Study,
    points: &[StudyPoint],
    paper: BilledScheduler,
    ours: BilledScheduler,
) -> Factors {
    let runs: Vec<(u64, StudyPoint, BilledScheduler)> = (0..u64::from(study.repetitions))
        .flat_map(|repetition| points.iter().map(move |point| (repetition, *point)))
        .flat_map(|(repetition, point)| [(repetition, point, paper), (repetition, point, ours)])
        .collect();
    let waits = in_parallel(study.threads, &runs, |(repetition, point, contender)| {
        simulate(
            seed(study, 4, *repetition),
            *point,
            *contender,
            1,
            study.days,
        )
        .vresp_s()
    });
    let sum = |of: usize| waits.iter().skip(of).step_by(2 * points.len()).sum::<f64>();

    Factors::of((0..points.len()).map(|at| sum(2 * at) / sum(2 * at + 1)))
}

/// Makes the report's files. `say` hears the name of each step.
pub fn reproduce(study: &Study, say: &mut dyn FnMut(&str)) -> Vec<File> {
    let results = results(study, say);
    say("figures");

    let drawn = figures::figures(&results);
    let mut files = vec![
        File::new("report.md", text::report(study, &results, &drawn)),
        File::new("points.csv", results.csv()),
    ];
    files.extend(super::drawn(&drawn));

    files
}
