//! Availability of hosts over time: what is recorded, generated, imported, exported and replayed. What is not here: where
//! it comes from.

mod error;
mod read;
mod write;

pub use error::{Flaw, TraceError};
pub use read::read_clocks_mhz;

/// Below this part of the processor tasks are suspended (Kondo et al. 2004, section 3.1).
pub const LEAST_CPU: f64 = 0.01;

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

impl Segment {
    /// Whether a task makes progress in it: the host is up and its owner leaves at least a hundredth of the processor.
    pub fn ready(&self) -> bool {
        self.up && self.cpu >= LEAST_CPU
    }

    /// How long it is, in seconds.
    pub fn length_s(&self) -> f64 {
        self.end_s - self.start_s
    }
}

impl Trace {
    /// Hosts named `h000`, `h001` and so on, from their clocks in MHz and their segments. Where one list is longer than
    /// the other, its rest is left out.
    pub fn from_parts(clocks_mhz: Vec<f64>, segments: Vec<Vec<Segment>>) -> Self {
        let hosts = clocks_mhz.into_iter().zip(segments).enumerate();
        let host = |(n, (clock_mhz, segments))| TracedHost { name: format!("h{n:03}"), clock_mhz, segments };
        Trace { hosts: hosts.map(host).collect() }
    }

    /// When the last segment ends, in seconds since the trace's start. Nothing is known of any host beyond it.
    pub fn end_s(&self) -> f64 {
        let ends = self.hosts.iter().filter_map(|host| host.segments.last()).map(|segment| segment.end_s);
        ends.fold(0.0, f64::max)
    }
}
