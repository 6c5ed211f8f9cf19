//! Synthetic availability of desktop PCs over a weekday, calibrated to the statements of Kondo et
//! al. 2004 about their traces, and other models to test policies on. Clock rates live in
//! `platform`, the comparison with the paper in `stats`.
//!
//! A host is up and down in turns. The lengths of both are drawn from two kinds each: many short,
//! some long. While it is up its owner comes and goes: spells in which tasks have the processor
//! alternate with suspensions. Hosts differ for good, host-days and days differ among themselves,
//! and some hosts stay off for the day.

mod course;
mod parameters;
pub mod stream;

use course::HostDay;
use parameters::ModelParameters;
use stream::RandomStream;

use crate::trace::{LEAST_CPU, Segment, Trace};

/// The paper's business hours from 09:00 to 17:00, in seconds of a day's trace, which starts at
/// 05:00.
pub const BUSINESS_HOURS_S: (f64, f64) = (4.0 * 3_600.0, 12.0 * 3_600.0);
/// The end of a day's trace in seconds: 24 hours after business hours began.
pub const DAY_ENDS_S: f64 = 100_800.0;

/// A model of availability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    name: &'static str,
    parameters: ModelParameters,
}

impl Model {
    /// The names that [`Model::named`] knows: the calibrated model first, then those that are
    /// unlike it.
    pub const NAMES: [&'static str; 6] = [
        "default",
        "other-seed",
        "memoryless",
        "heavy-suspension",
        "heavy-failure",
        "quiet",
    ];

    /// Returns the model of this name.
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

    /// The name by which [`Model::named`] finds it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Draws the segments of `hosts` hosts on a day, from 0 to [`DAY_ENDS_S`]. A host keeps its
    /// nature from day to day; all else is drawn anew. Any day can be made without the others, and
    /// a host's segments do not depend on the number of hosts.
    pub fn day(&self, seed: u64, day: u32, hosts: usize) -> Vec<Vec<Segment>> {
        let seed = seed ^ self.parameters.seed;
        let mut shared = RandomStream::new("day", seed, day, 0);
        let scale = self.parameters.day_spread(&mut shared);
        let off = self.parameters.off_today(&mut shared);
        let host = |host| HostDay::new(&self.parameters, seed, day, host).segments(scale, off);
        (0..hosts).map(host).collect()
    }

    /// Like `day`, but as a trace of hosts with these clocks, in MHz.
    pub fn trace(&self, seed: u64, day: u32, clocks_mhz: Vec<f64>) -> Trace {
        let segments = self.day(seed, day, clocks_mhz.len());
        Trace::from_parts(clocks_mhz, segments)
    }
}

/// A segment in which the host is up and tasks have the part `cpu` of the processor; less than a
/// hundredth counts as none.
fn up(start_s: f64, end_s: f64, cpu: f64) -> Segment {
    Segment {
        start_s,
        end_s,
        up: true,
        cpu: if cpu < LEAST_CPU { 0.0 } else { cpu },
    }
}
