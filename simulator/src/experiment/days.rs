//! Where days come from: generated from a platform and an availability model, or one trace that is
//! every day. What is not here: how they are generated.

use super::grid::{Contender, GridError, Job, Source, SourceError};
use super::history::Knowledge;
use crate::availability::Model;
use crate::platform::Platform;
use crate::trace::Trace;
use crate::world::World;

/// How many hosts each platform of Kondo et al. 2004 has (section 3.2).
pub const HOSTS: usize = 220;
/// From how many days schedulers learn: the first ones. None of them is reported.
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
    /// Days of a platform; none where there is no platform or no model of this name.
    pub fn named(platform: &str, model: &str, seed: u64, hosts: usize) -> Option<Self> {
        Self::of(
            Platform::named(platform)?.clocks_mhz(seed, hosts),
            model,
            seed,
        )
    }

    /// Days of hosts with these clock rates, in MHz; none where there is no model of this name.
    pub fn of(clocks_mhz: Vec<f64>, model: &str, seed: u64) -> Option<Self> {
        Some(Self {
            clocks_mhz,
            model: Model::named(model)?,
            seed,
        })
    }

    /// What schedulers know that have watched so many training days of this site, and of these
    /// contenders what they know that have run such jobs on them. Nothing of what is reported is
    /// known to any.
    ///
    /// # Errors
    /// If a day cannot be had, or a job cannot be run.
    pub fn knowledge(
        &self,
        days: u32,
        jobs: &[Job],
        contenders: &[Contender],
        threads: usize,
    ) -> Result<Knowledge, GridError> {
        let named = |day, why| GridError::Source {
            day,
            site: "training".to_owned(),
            why,
        };
        let day = |day| {
            Ok((
                day,
                World::new(&self.day(day).map_err(|why| named(day, why))?),
            ))
        };
        let days: Vec<(u32, World)> = (1..=days).map(day).collect::<Result<_, _>>()?;

        Knowledge::gained(&days, jobs, contenders, self.seed, threads)
    }
}

impl Source for Generated {
    fn day(&self, day: u32) -> Result<Trace, SourceError> {
        let segments = self.model.day(self.seed, day, self.clocks_mhz.len());
        Ok(Trace::from_parts(self.clocks_mhz.clone(), segments))
    }
}

/// One trace, whatever the day.
#[derive(Debug, Clone)]
pub struct Recorded(pub Trace);

impl Source for Recorded {
    fn day(&self, _: u32) -> Result<Trace, SourceError> {
        Ok(self.0.clone())
    }
}
