//! The statistics of a trace by the hour of the day ([`Hour`]), in UTC.

use common::units::REFERENCE_MHZ;
use serde::Serialize;

use super::power;
use crate::trace::{Segment, Trace};

const HOUR_S: f64 = 3_600.0;
const DAY_S: f64 = 24.0 * HOUR_S;

/// The statistics of an hour of the day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Hour {
    /// The hour, from 0 to 23.
    pub hour: u8,
    /// The part of the known time in which hosts are up; `None` if nothing is known.
    pub available: Option<f64>,
    /// The mean part of their processors that tasks can have in the known time; `None` if nothing
    /// is known.
    pub cpu: Option<f64>,
    /// The part of the time in which owners use their hosts, among the time for which that is
    /// known; `None` if it is never known.
    pub owner_active: Option<f64>,
    /// The mean power of all hosts together over intervals of five minutes, in hosts of speed 1.
    pub power: Option<f64>,
    /// The coefficient of variation of that power.
    pub power_cv: Option<f64>,
}

/// Sums over the same hour of all days, in seconds.
#[derive(Default, Clone, Copy)]
struct HourSums {
    known_s: f64,
    up_s: f64,
    cpu_s: f64,
    watched_s: f64,
    active_s: f64,
}

/// Computes the statistics of all hours of the day.
pub(super) fn by_hour(trace: &Trace) -> Vec<Hour> {
    let first_s = (trace.origin_s.rem_euclid(DAY_S as i64)) as f64;
    let mut sums = [HourSums::default(); 24];
    for host in &trace.hosts {
        for (segment, note) in host.noted() {
            let cpu = if segment.ready() { segment.cpu } else { 0.0 };
            for (sum, part_s) in sums.iter_mut().zip(parts_s(&segment, first_s)) {
                sum.known_s += part_s;
                sum.up_s += if segment.up { part_s } else { 0.0 };
                sum.cpu_s += cpu * part_s;
                if let Some(active) = note.owner_active {
                    sum.watched_s += part_s;
                    sum.active_s += if active { part_s } else { 0.0 };
                }
            }
        }
    }

    let mut powers = vec![Vec::new(); 24];
    let window = (0.0, trace.end_s());
    let step_s = power::step_s(window);
    let steps = power::per_step(trace, window, step_s);
    for (step, work) in steps.into_iter().enumerate() {
        let at_s = first_s + (step as f64 + 0.5) * step_s;
        powers[(at_s.rem_euclid(DAY_S) / HOUR_S) as usize % 24].push(work / step_s / REFERENCE_MHZ);
    }

    (0..)
        .zip(sums.iter().zip(&powers))
        .map(|(hour, (sums, powers))| told(hour, sums, powers))
        .collect()
}

fn told(hour: u8, sums: &HourSums, powers: &[f64]) -> Hour {
    let part = |of: f64, all: f64| (all > 0.0).then(|| of / all);
    Hour {
        hour,
        available: part(sums.up_s, sums.known_s),
        cpu: part(sums.cpu_s, sums.known_s),
        owner_active: part(sums.active_s, sums.watched_s),
        power: part(powers.iter().sum(), powers.len() as f64),
        power_cv: (!powers.is_empty()).then(|| power::variation(powers)),
    }
}

/// The part of a segment in each hour of the day, in seconds. Takes the same time however many days
/// the segment spans.
fn parts_s(segment: &Segment, first_s: f64) -> [f64; 24] {
    let days = (segment.length_s() / DAY_S).floor();
    let mut parts = [days * HOUR_S; 24];
    let mut at_s = first_s + segment.start_s + days * DAY_S;
    let end_s = first_s + segment.end_s;
    while at_s < end_s {
        let next_s = (((at_s / HOUR_S).floor() + 1.0) * HOUR_S).min(end_s);
        parts[(at_s.rem_euclid(DAY_S) / HOUR_S) as usize % 24] += next_s - at_s;
        at_s = next_s;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Note, TracedHost};

    #[test]
    fn hours_count_in_utc_over_all_days() {
        // From 22:30 on for 27 hours: up until 01:00 two days later, then down for half an hour.
        let up = Segment {
            start_s: 0.0,
            end_s: 26.5 * HOUR_S,
            up: true,
            cpu: 0.5,
        };
        let down = Segment {
            start_s: 26.5 * HOUR_S,
            end_s: 27.0 * HOUR_S,
            up: false,
            cpu: 0.0,
        };
        let mut host = TracedHost::new("a", 3_000.0, vec![up, down]);
        host.notes = vec![Note {
            owner_active: Some(true),
            reason: None,
        }];

        let trace = Trace {
            origin_s: 1_700_000_000 / 86_400 * 86_400 + 81_000,
            hosts: vec![host],
        };
        let hours = by_hour(&trace);
        let known = |hour: usize| {
            (
                hours[hour].available,
                hours[hour].cpu,
                hours[hour].owner_active,
            )
        };
        assert_eq!(known(22), (Some(1.0), Some(0.5), Some(1.0)));
        assert_eq!(known(0), (Some(1.0), Some(0.5), Some(1.0)));

        // One whole hour up, and half an hour down.
        assert_eq!(known(1).0.map(|part| (part * 1e6).round()), Some(666_667.0));
        assert_eq!((hours[3].power, hours[3].power_cv), (Some(1.0), Some(0.0)));
    }

    #[test]
    fn the_hours_of_a_segment_add_up_to_it() {
        for (start_s, end_s) in [
            (0.0, 10.0),
            (3_599.0, 3_601.0),
            (5.5, 500_000.25),
            (86_399.0, 172_801.0),
        ] {
            let segment = Segment {
                start_s,
                end_s,
                up: true,
                cpu: 1.0,
            };
            let sum: f64 = parts_s(&segment, 12_345.0).iter().sum();
            assert!((sum - (end_s - start_s)).abs() < 1e-6, "{sum}");
        }
    }
}
