//! What traces are like: how long hosts are up and down, how often tasks fail on them, how even the
//! power of all hosts is, and how a generated model compares with what Kondo et al. 2004 say of
//! their traces. What is not here: printing.

mod calibration;
mod failure;
mod figures;
mod fit;
mod hours;
mod interval;
mod power;

pub use calibration::{Calibration, Statistic, calibration};
pub use figures::figures;
pub use fit::{Lognormal, Weibull};
pub use hours::Hour;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::trace::Trace;

/// The task sizes of which `Stats` says how often they fail, in seconds on a dedicated host of
/// speed 1: the paper's.
pub const TASK_SIZES_S: [u32; 4] = [300, 900, 1_500, 2_100];
/// Over how long power is summed up, in seconds (Kondo et al. 2004, section 5.2).
pub const POWER_STEP_S: f64 = 300.0;

/// What a trace is like.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// How many hosts there are.
    pub hosts: usize,
    /// How many segments they have.
    pub segments: usize,
    /// How long hosts are up at a stretch.
    pub availability: Durations,
    /// How long they are down at a stretch.
    pub unavailability: Durations,
    /// How often a task of this size fails because its host goes down, if it starts at any moment
    /// at which a host could take it.
    ///
    /// By the size in seconds on a dedicated host of speed 1: the part that fails, between 0 and 1;
    /// none where no task could start early enough to tell.
    pub failure_by_task_s: BTreeMap<u32, Option<f64>>,
    /// Mean power of all hosts together, over stretches of five minutes, in hosts of speed 1; none
    /// of a shorter trace.
    pub power_mean: Option<f64>,
    /// Its coefficient of variation.
    pub power_cv: Option<f64>,
    /// How it differs between the hours of a day: in UTC, or from the trace's start where nobody
    /// knows when that was.
    pub by_hour: Vec<Hour>,
}

/// How long something lasts. Stretches that the trace's ends cut off count as they are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Durations {
    /// How many there are.
    pub count: usize,
    /// Their mean in seconds; 0 where there are none.
    pub mean_s: f64,
    /// Their median in seconds; 0 where there are none.
    pub median_s: f64,
    /// The likeliest Weibull law; none where all are equally long, or there are fewer than two.
    pub weibull: Option<Weibull>,
    /// The likeliest lognormal law; likewise.
    pub lognormal: Option<Lognormal>,
}

/// What this trace is like between its start and its end.
pub fn stats(trace: &Trace) -> Stats {
    let window = (0.0, trace.end_s());
    let of = |up| {
        let lengths = trace
            .hosts
            .iter()
            .flat_map(|host| interval::lengths_s(&host.segments, up, window));
        Durations::of(lengths.collect())
    };

    let failures = TASK_SIZES_S.map(|task_s| {
        let mut count = failure::Count::default();
        count.add(trace, window, f64::from(task_s));
        (task_s, count.share())
    });
    let power = power::per_step(trace, window, POWER_STEP_S);
    let known = !power.is_empty();
    let mean_mhz_s = power.iter().sum::<f64>() / power.len() as f64;

    Stats {
        hosts: trace.hosts.len(),
        segments: trace.hosts.iter().map(|host| host.segments.len()).sum(),
        availability: of(true),
        unavailability: of(false),
        failure_by_task_s: failures.into(),
        power_mean: known.then_some(mean_mhz_s / POWER_STEP_S / common::units::REFERENCE_MHZ),
        power_cv: known.then(|| power::variation(&power)),
        by_hour: hours::by_hour(trace),
    }
}

impl Durations {
    /// What these lengths in seconds are like.
    fn of(mut lengths_s: Vec<f64>) -> Self {
        lengths_s.sort_by(f64::total_cmp);
        let count = lengths_s.len();
        let middle = |at: usize| lengths_s.get(at).copied().unwrap_or_default();
        Durations {
            count,
            mean_s: lengths_s.iter().sum::<f64>() / count.max(1) as f64,
            median_s: (middle(count / 2) + middle(count.saturating_sub(1) / 2)) / 2.0,
            weibull: Weibull::fit(&lengths_s),
            lognormal: Lognormal::fit(&lengths_s),
        }
    }
}
