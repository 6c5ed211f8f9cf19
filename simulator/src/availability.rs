//! Synthetic availability of desktop PCs over a weekday, calibrated to what Kondo et al. 2004 say
//! of their traces, and other models to test policies on. What is not here: clocks (`platform`),
//! and the comparison with the paper (`stats`).
//!
//! A host is up and down in turns. Both are drawn from two kinds each: many short, some long. While
//! it is up its owner comes and goes: spells in which tasks have the processor alternate with
//! suspensions. Hosts differ for good, host-days and days differ among themselves, and some hosts
//! stay off for the day.

mod course;
mod parameters;
pub(crate) mod stream;

use course::Course;
use parameters::Parameters;
use stream::Stream;

use crate::trace::{LEAST_CPU, Segment, Trace};

/// When business hours begin, in seconds from a day's start: a day's trace starts at 05:00.
pub const DAY_STARTS_S: f64 = 14_400.0;
/// How long the business hours of the paper are, in seconds: 09:00 to 17:00.
pub const BUSINESS_S: f64 = 28_800.0;
/// When a day's trace ends: 24 hours after business hours began.
pub const DAY_ENDS_S: f64 = 100_800.0;

/// A model of availability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    name: &'static str,
    parameters: Parameters,
}

impl Model {
    /// The names that `named` knows: the calibrated model first, then those that are unlike it.
    pub const NAMES: [&'static str; 6] = [
        "default",
        "other-seed",
        "memoryless",
        "heavy-suspension",
        "heavy-failure",
        "quiet",
    ];

    /// The model of this name.
    pub fn named(name: &str) -> Option<Self> {
        let name = *Self::NAMES.iter().find(|known| **known == name)?;
        let parameters = match name {
            "default" => parameters::DEFAULT,
            "other-seed" => parameters::OTHER_SEED,
            "memoryless" => parameters::MEMORYLESS,
            "heavy-suspension" => parameters::HEAVY_SUSPENSION,
            "heavy-failure" => parameters::HEAVY_FAILURE,
            _ => parameters::QUIET,
        };
        Some(Model { name, parameters })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The segments of so many hosts on a day, from 0 to `DAY_ENDS_S`. A host keeps its nature from
    /// day to day; all else is drawn anew. Any day can be made without the others, and any host's
    /// segments are the same whatever the number of hosts.
    pub fn day(&self, seed: u64, day: u32, hosts: usize) -> Vec<Vec<Segment>> {
        let seed = seed ^ self.parameters.seed;
        let mut shared = Stream::new("day", seed, day, 0);
        let scale = self.parameters.day_spread(&mut shared);
        let off = self.parameters.off_today(&mut shared);
        let host = |host| Course::new(&self.parameters, seed, day, host).segments(scale, off);
        (0..hosts).map(host).collect()
    }

    /// The same with clocks, in MHz, as a trace.
    pub fn trace(&self, seed: u64, day: u32, clocks_mhz: Vec<f64>) -> Trace {
        let segments = self.day(seed, day, clocks_mhz.len());
        Trace::from_parts(clocks_mhz, segments)
    }
}

/// A segment in which the host is up, and its tasks have this part of the processor; less than a
/// hundredth is none.
fn up(start_s: f64, end_s: f64, cpu: f64) -> Segment {
    Segment {
        start_s,
        end_s,
        up: true,
        cpu: if cpu < LEAST_CPU { 0.0 } else { cpu },
    }
}

/// A segment in which the host is down.
fn down(start_s: f64, end_s: f64) -> Segment {
    Segment {
        start_s,
        end_s,
        up: false,
        cpu: 0.0,
    }
}
