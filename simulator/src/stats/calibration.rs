//! The calibration table ([`Calibration`]): the statements of Kondo et al. 2004 about their traces
//! in business hours, beside an availability model on SDSC's clocks.

use serde::Serialize;

use super::{POWER_STEP_S, TASK_SIZES_S, failure, interval, power};
use crate::availability::{BUSINESS_HOURS_S, Model};
use crate::oracle::Oracle;
use crate::platform::{HOSTS, Platform};
use crate::trace::{Trace, TracedHost};

const WINDOW: (f64, f64) = BUSINESS_HOURS_S;

/// The statistics of a model beside the paper's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// The name of the availability model.
    pub model: &'static str,
    /// The number of generated days.
    pub days: u32,
    /// The rows of the table.
    pub rows: Vec<Statistic>,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Statistic {
    /// The name of the statistic, with its unit last.
    pub name: &'static str,
    /// The paper's value, where it states one.
    pub paper: Option<f64>,
    /// The value of an independent model that was fitted to the paper.
    pub reference: f64,
    /// The value of this model; `None` if the days do not determine it.
    pub ours: Option<f64>,
}

impl Calibration {
    /// This model's value of the statistic of this name.
    pub fn ours(&self, name: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.name == name)?.ours
    }
}

/// Computes the table for `days` days of 220 hosts with SDSC's clocks.
pub fn calibration(model: &Model, seed: u64, days: u32) -> Calibration {
    let clocks_mhz = Platform::named("sdsc")
        .map(|platform| platform.clocks_mhz(seed, HOSTS))
        .unwrap_or_default();
    let mut sums = DaySums::default();
    for day in 0..days {
        sums.add(&model.trace(seed, day, clocks_mhz.clone()));
    }
    Calibration {
        model: model.name(),
        days,
        rows: sums.rows(),
    }
}

/// Sums over days.
#[derive(Default)]
struct DaySums {
    failures: [failure::FailureCount; 4],
    power: Vec<f64>,
    ready: Vec<f64>,
    /// The mean work, in reference seconds, and the mean length of an availability interval, in
    /// seconds, of each host on the day before.
    yesterday: Vec<Option<(f64, f64)>>,
    work_errors: Vec<f64>,
    time_errors: Vec<f64>,
    up_s: f64,
    suspended_s: f64,
    partial_s: f64,
    lengths_s: Vec<f64>,
    optimal_s: Vec<f64>,
}

impl DaySums {
    fn add(&mut self, trace: &Trace) {
        for (count, task_s) in self.failures.iter_mut().zip(TASK_SIZES_S) {
            count.add(trace, WINDOW, f64::from(task_s));
        }

        self.power
            .extend(power::per_step(trace, WINDOW, POWER_STEP_S));
        let ready = |host: &&TracedHost| {
            host.segments
                .iter()
                .any(|s| s.ready() && s.start_s <= WINDOW.0 && WINDOW.0 < s.end_s)
        };
        self.ready
            .push(trace.hosts.iter().filter(ready).count() as f64);

        let today: Vec<_> = trace.hosts.iter().map(per_interval).collect();
        for pair in self.yesterday.iter().zip(&today) {
            if let (Some(before), Some(now)) = pair {
                self.work_errors.push((before.0 - now.0).abs());
                self.time_errors.push((before.1 - now.1).abs());
            }
        }

        self.yesterday = today;
        for host in &trace.hosts {
            self.lengths_s
                .extend(interval::lengths_s(&host.segments, true, WINDOW));
            self.add_states(host);
        }

        self.optimal_s
            .extend(Oracle::new(trace, WINDOW.0, 300.0, 40.0, 1).makespan_s(100));
    }

    fn add_states(&mut self, host: &TracedHost) {
        for segment in host.segments.iter().filter(|segment| segment.up) {
            let inside_s = (segment.end_s.min(WINDOW.1) - segment.start_s.max(WINDOW.0)).max(0.0);
            self.up_s += inside_s;
            if !segment.ready() {
                self.suspended_s += inside_s;
            } else if segment.cpu < 0.95 {
                self.partial_s += inside_s;
            }
        }
    }

    fn rows(&self) -> Vec<Statistic> {
        let row = |name, paper, reference, ours| Statistic {
            name,
            paper,
            reference,
            ours,
        };

        let percent = |count: failure::FailureCount| count.share().map(|share| 100.0 * share);
        let mean = |values: &[f64]| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let minutes = |values: &[f64]| mean(values).map(|mean| mean / 60.0);
        let of_up = |part_s: f64| (self.up_s > 0.0).then(|| 100.0 * part_s / self.up_s);

        vec![
            row(
                "failure_5min_percent",
                Some(6.33),
                5.3,
                percent(self.failures[0]),
            ),
            row(
                "failure_15min_percent",
                Some(11.6),
                12.0,
                percent(self.failures[1]),
            ),
            row(
                "failure_25min_percent",
                Some(16.8),
                17.5,
                percent(self.failures[2]),
            ),
            row(
                "failure_35min_percent",
                Some(22.0),
                22.3,
                percent(self.failures[3]),
            ),
            row(
                "power_cv_percent",
                Some(13.0),
                11.8,
                Some(100.0 * power::variation(&self.power)),
            ),
            row(
                "ready_at_start_hosts",
                Some(150.0),
                147.0,
                mean(&self.ready),
            ),
            row(
                "day_to_day_work_min",
                Some(110.0),
                119.0,
                minutes(&self.work_errors),
            ),
            row(
                "day_to_day_time_min",
                Some(108.0),
                162.0,
                minutes(&self.time_errors),
            ),
            row("suspended_percent", None, 6.0, of_up(self.suspended_s)),
            row("partly_loaded_percent", None, 11.0, of_up(self.partial_s)),
            row(
                "availability_interval_min",
                None,
                102.0,
                minutes(&self.lengths_s),
            ),
            row(
                "optimal_100x5min_min",
                Some(6.0),
                9.8,
                minutes(&self.optimal_s),
            ),
        ]
    }
}

/// A host's mean work, in seconds of a reference host, and mean length, in seconds, of its
/// availability intervals within the window.
fn per_interval(host: &TracedHost) -> Option<(f64, f64)> {
    let stretches = interval::stretches(&host.segments, true, WINDOW);
    let count = stretches.len() as f64;
    let speed = host.clock_mhz / common::units::REFERENCE_MHZ;
    let work_s: f64 = stretches
        .iter()
        .map(|stretch| power::cpu_s(&host.segments, *stretch) * speed)
        .sum();
    let time_s: f64 = stretches.iter().map(|(from_s, to_s)| to_s - from_s).sum();
    (count > 0.0).then(|| (work_s / count, time_s / count))
}
