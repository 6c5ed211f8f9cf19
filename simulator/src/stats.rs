//! Statistics of traces ([`Stats`]): how long hosts are up and down, how often tasks fail on them,
//! how even the power of all hosts is, and how a generated model compares with the statements of
//! Kondo et al. 2004 about their traces.

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

/// The task sizes for which `Stats` has failure rates, in seconds on a dedicated host of speed 1:
/// the paper's.
pub const TASK_SIZES_S: [u32; 4] = [300, 900, 1_500, 2_100];
/// The length of the intervals over which power is summed, in seconds (Kondo et al. 2004, section
/// 5.2); a multiple of it where a trace has more of them than can be kept.
pub const POWER_STEP_S: f64 = 300.0;

/// The statistics of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// The number of hosts.
    pub hosts: usize,
    /// The number of segments of all hosts.
    pub segments: usize,
    /// The lengths of the intervals in which hosts are up.
    pub availability: Durations,
    /// The lengths of the intervals in which hosts are down.
    pub unavailability: Durations,
    /// The probability that a task of each size fails because its host goes down, if it starts at
    /// any time at which a host could take it.
    ///
    /// The key is the size in seconds on a dedicated host of speed 1; the value lies between 0 and
    /// 1, and is `None` if no task could start early enough to tell.
    pub failure_by_task_s: BTreeMap<u32, Option<f64>>,
    /// The mean power of all hosts together, over intervals of five minutes (longer ones in a trace
    /// of more than 38 years), in hosts of speed 1; `None` for a shorter trace.
    pub power_mean: Option<f64>,
    /// The coefficient of variation of that power.
    pub power_cv: Option<f64>,
    /// The statistics of each hour of the day: in UTC, or from the trace's start if its origin is
    /// unknown.
    pub by_hour: Vec<Hour>,
}

/// Statistics of interval lengths. An interval that is cut off by an end of the trace counts with
/// its known length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Durations {
    /// The number of intervals.
    pub count: usize,
    /// The mean in seconds; 0 if there are none.
    pub mean_s: f64,
    /// The median in seconds; 0 if there are none.
    pub median_s: f64,
    /// The most likely Weibull law; `None` if all lengths are equal, or there are fewer than two.
    pub weibull: Option<Weibull>,
    /// The most likely lognormal law; `None` as for `weibull`.
    pub lognormal: Option<Lognormal>,
}

/// Computes the statistics of a trace between its start and its end.
pub fn stats(trace: &Trace) -> Stats {
    let window = (0.0, trace.end_s());
    let failures = TASK_SIZES_S.map(|task_s| {
        let mut count = failure::FailureCount::default();
        count.add(trace, window, f64::from(task_s));
        (task_s, count.share())
    });
    let step_s = power::step_s(window);
    let power = power::per_step(trace, window, step_s);
    let known = !power.is_empty();
    let mean_mhz_s = power.iter().sum::<f64>() / power.len() as f64;

    Stats {
        hosts: trace.hosts.len(),
        segments: trace.hosts.iter().map(|host| host.segments.len()).sum(),
        availability: Durations::of(interval::all_lengths_s(trace, true)),
        unavailability: Durations::of(interval::all_lengths_s(trace, false)),
        failure_by_task_s: failures.into(),
        power_mean: known.then_some(mean_mhz_s / step_s / common::units::REFERENCE_MHZ),
        power_cv: known.then(|| power::variation(&power)),
        by_hour: hours::by_hour(trace),
    }
}

impl Durations {
    /// Computes the statistics of these lengths in seconds.
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
