//! What all hosts together deliver over time. What is not here: who uses it.

use crate::trace::{Segment, Trace};

/// The work, in MHz times seconds, that all hosts could do in each step of the window. A last step that is cut off does
/// not count.
pub(super) fn per_step(trace: &Trace, (from_s, to_s): (f64, f64), step_s: f64) -> Vec<f64> {
    let steps = ((to_s - from_s) / step_s).floor().max(0.0) as usize;
    let mut power = vec![0.0; steps];
    for host in &trace.hosts {
        for segment in host.segments.iter().filter(|segment| segment.ready()) {
            let place = |at_s: f64| ((at_s - from_s) / step_s).max(0.0);
            let (first, last) = (place(segment.start_s) as usize, place(segment.end_s).ceil() as usize);
            for (at, sum) in power.iter_mut().enumerate().take(last).skip(first) {
                let from = from_s + at as f64 * step_s;
                *sum += host.clock_mhz * overlap_s(segment, from, from + step_s) * segment.cpu;
            }
        }
    }
    power
}

/// The seconds of processor time that a segment has between two moments.
pub(super) fn cpu_s(segments: &[Segment], (from_s, to_s): (f64, f64)) -> f64 {
    segments.iter().filter(|segment| segment.ready()).map(|s| overlap_s(s, from_s, to_s) * s.cpu).sum()
}

fn overlap_s(segment: &Segment, from_s: f64, to_s: f64) -> f64 {
    (segment.end_s.min(to_s) - segment.start_s.max(from_s)).max(0.0)
}

/// Standard deviation over mean; 0 where there is nothing.
pub(super) fn variation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}
