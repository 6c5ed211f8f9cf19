//! The power of all hosts together over time.

use super::POWER_STEP_S;
use crate::trace::{Segment, Trace};

/// The largest number of steps of a window: 38 years of five minutes.
const MOST_STEPS: f64 = 4_000_000.0;

/// The length of the steps of a window, in seconds: [`POWER_STEP_S`], or a multiple of it that makes
/// no more than `MOST_STEPS`.
pub(super) fn step_s((from_s, to_s): (f64, f64)) -> f64 {
    let times = (to_s - from_s) / POWER_STEP_S / MOST_STEPS;
    POWER_STEP_S * times.ceil().max(1.0)
}

/// The work, in MHz times seconds, that all hosts could do in each step of the window. A last step
/// that is cut off does not count. Takes time for the segments plus the steps, not for their
/// product: traces may span years.
pub(super) fn per_step(trace: &Trace, (from_s, to_s): (f64, f64), step_s: f64) -> Vec<f64> {
    let steps = ((to_s - from_s) / step_s).floor().max(0.0) as usize;
    // `power` holds the corrections of single steps, `change` the changes of the rate where the
    // steps of a segment begin and end.
    let mut power = vec![0.0; steps];
    let mut change = vec![0.0; steps + 1];

    for host in &trace.hosts {
        for segment in host.segments.iter().filter(|segment| segment.ready()) {
            let rate = host.clock_mhz * segment.cpu;
            let place = |at_s: f64| ((at_s - from_s) / step_s).clamp(0.0, steps as f64);
            let start = place(segment.start_s);
            let end = place(segment.end_s);
            let first = start.floor() as usize;
            let last = end.floor() as usize;

            change[first] += rate;
            change[last] -= rate;

            // Takes off the part of the first step that lies before the segment, and adds the
            // segment's part of its last step.
            for (step, share) in [(first, first as f64 - start), (last, end - last as f64)] {
                if let Some(sum) = power.get_mut(step) {
                    *sum += rate * share * step_s;
                }
            }
        }
    }

    let mut rate = 0.0;
    for (sum, change) in power.iter_mut().zip(change) {
        rate += change;
        *sum += rate * step_s;
    }

    power
}

/// The processor seconds that the segments have between two times.
pub(super) fn cpu_s(segments: &[Segment], (from_s, to_s): (f64, f64)) -> f64 {
    segments
        .iter()
        .filter(|segment| segment.ready())
        .map(|s| overlap_s(s, from_s, to_s) * s.cpu)
        .sum()
}

fn overlap_s(segment: &Segment, from_s: f64, to_s: f64) -> f64 {
    (segment.end_s.min(to_s) - segment.start_s.max(from_s)).max(0.0)
}

/// The coefficient of variation: standard deviation over mean; 0 if there is nothing.
pub(super) fn variation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / count;
    if mean > 0.0 {
        variance.sqrt() / mean
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::Model;

    #[test]
    fn each_time_step_holds_the_power_of_its_hosts() {
        let model = Model::named("default").expect("a model");
        let trace = model.trace(3, 0, vec![700.0, 1_500.0, 3_000.0, 900.0, 1_000.0]);
        let window = (1_234.5, 50_000.0);
        let found = per_step(&trace, window, 300.0);
        assert_eq!(found.len(), 162);

        for (at, sum) in found.into_iter().enumerate() {
            let from_s = window.0 + 300.0 * at as f64;
            let of = |host: &crate::trace::TracedHost| {
                host.clock_mhz * cpu_s(&host.segments, (from_s, from_s + 300.0))
            };
            let expected: f64 = trace.hosts.iter().map(of).sum();
            assert!(
                (sum - expected).abs() < 1e-3,
                "{at}: {sum} against {expected}"
            );
        }
    }
}
