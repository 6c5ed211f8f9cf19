//! Sources of days for experiments: [`Generated`] from a platform and an availability model, or
//! [`Recorded`], one trace that is used for every day.

use super::grid::{Contender, DaySource, GridError, JobSize, SourceError};
use super::history::Knowledge;
use crate::availability::Model;
use crate::platform::Platform;
use crate::trace::Trace;
use crate::world::PreparedTrace;

/// The number of training days, from which schedulers learn: the first ones. None of them is
/// reported.
pub const TRAINING_DAYS: u32 = 20;
/// The first day that is reported; its eve is not a training day either.
pub const FIRST_DAY: u32 = 101;

/// Days of hosts under an availability model.
#[derive(Debug, Clone)]
pub struct Generated {
    clocks_mhz: Vec<f64>,
    model: Model,
    seed: u64,
}

impl Generated {
    /// Creates the days of a platform; `None` if there is no platform or no model of this name.
    pub fn named(platform: &str, model: &str, seed: u64, hosts: usize) -> Option<Self> {
        Self::of(
            Platform::named(platform)?.clocks_mhz(seed, hosts),
            model,
            seed,
        )
    }

    /// Creates the days of hosts with these clock rates, in MHz; `None` if there is no model of
    /// this name.
    pub fn of(clocks_mhz: Vec<f64>, model: &str, seed: u64) -> Option<Self> {
        Some(Self {
            clocks_mhz,
            model: Model::named(model)?,
            seed,
        })
    }

    /// Lets schedulers learn from `days` training days of this site: from watching its hosts, and
    /// for each of `contenders` also from running `jobs` on them. None of these days is reported.
    ///
    /// # Errors
    /// If a day cannot be had, or a job cannot be run.
    pub fn knowledge(
        &self,
        days: u32,
        jobs: &[JobSize],
        contenders: &[Contender],
        threads: usize,
    ) -> Result<Knowledge, GridError> {
        let named = |day, why| GridError::Source {
            day,
            site: "training".to_owned(),
            why,
        };
        let day = |day| {
            let trace = self.day(day).map_err(|why| named(day, why))?;
            let world = PreparedTrace::new(&trace).map_err(GridError::Clock)?;
            Ok((day, world))
        };
        let days: Vec<(u32, PreparedTrace)> = (1..=days).map(day).collect::<Result<_, _>>()?;

        Knowledge::gained(&days, jobs, contenders, self.seed, threads)
    }
}

impl DaySource for Generated {
    fn day(&self, day: u32) -> Result<Trace, SourceError> {
        Ok(self.model.trace(self.seed, day, self.clocks_mhz.clone()))
    }
}

/// One trace that is used for every day.
#[derive(Debug, Clone)]
pub struct Recorded(pub Trace);

impl DaySource for Recorded {
    fn day(&self, _: u32) -> Result<Trace, SourceError> {
        Ok(self.0.clone())
    }
}
