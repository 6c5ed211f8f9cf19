//! The intervals in which a host is up, or down, whatever its owner does.

use crate::trace::{Segment, Trace};

/// The intervals within the window, in order. Two intervals stay apart if the host was in the other
/// state in between, even for no time at all: some formats record restarts that way.
pub(super) fn stretches(
    segments: &[Segment],
    up: bool,
    (from_s, to_s): (f64, f64),
) -> Vec<(f64, f64)> {
    let mut found: Vec<(f64, f64)> = Vec::new();
    let mut unbroken = false;
    for segment in segments {
        let start_s = segment.start_s.max(from_s);
        let end_s = segment.end_s.min(to_s);
        let inside = start_s < end_s || start_s <= end_s && segment.length_s() <= 0.0;
        let alike = segment.up == up;
        match found.last_mut() {
            _ if !alike || !inside => {}
            Some(last) if unbroken && last.1 >= start_s => last.1 = end_s,
            _ => found.push((start_s, end_s)),
        }
        unbroken = alike;
    }

    found
}

/// The lengths of these intervals, in seconds.
pub(super) fn lengths_s(segments: &[Segment], up: bool, window: (f64, f64)) -> Vec<f64> {
    stretches(segments, up, window)
        .into_iter()
        .map(|(start_s, end_s)| end_s - start_s)
        .collect()
}

/// The lengths of these intervals of all hosts of a trace, in seconds.
pub(super) fn all_lengths_s(trace: &Trace, up: bool) -> Vec<f64> {
    let window = (0.0, trace.end_s());
    let hosts = trace.hosts.iter();
    hosts
        .flat_map(|host| lengths_s(&host.segments, up, window))
        .collect()
}
