//! Availability of hosts over time: what is recorded, generated, imported, exported and replayed.

/// How a set of hosts was available.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// The hosts.
    pub hosts: Vec<TracedHost>,
}

/// A host with its availability.
#[derive(Debug, Clone, PartialEq)]
pub struct TracedHost {
    /// Its name.
    pub name: String,
    /// Clock rate of its processor, in MHz.
    pub clock_mhz: f64,
    /// In order and without gaps: each begins where the one before ends.
    pub segments: Vec<Segment>,
}

/// A stretch of time in which nothing changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Seconds since the trace's start.
    pub start_s: f64,
    /// Seconds since the trace's start.
    pub end_s: f64,
    /// Whether the host is up.
    pub up: bool,
    /// The part of its processor that tasks can have, between 0 and 1; below 0.01 tasks are suspended.
    pub cpu: f64,
}
