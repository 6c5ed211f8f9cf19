//! What is compared with what, and the running of it on several threads. Every run is a function of
//! the grid and of its own place in it, so the rows are the same on any number of threads.

use common::Span;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use scheduler::experience::TrackRecord;
use scheduler::predict::makespan;

use super::history::{Knowledge, track_records};
use super::threads::in_parallel;
use crate::oracle::Oracle;
use crate::trace::Trace;
use crate::world::{Foretold, Run, RunError, Simulator, World};

/// Seconds that starting a task costs (Kondo et al. 2004, section 3.1).
const START_COST_S: f64 = 40.0;
/// Between which seconds of a day's trace jobs start: 09:00 and 15:00, after a warm-up of four
/// hours.
pub(super) const STARTS_S: (f64, f64) = (4.0 * 3_600.0, 10.0 * 3_600.0);

/// The sizes of jobs in Kondo et al. 2004, section 3.3.
pub const KONDO_JOBS: [Job; 9] = {
    let tasks = [100, 200, 400];
    let minutes = [5.0, 15.0, 35.0];
    let mut jobs = [Job {
        tasks: 0,
        work_s: 0.0,
    }; 9];

    let mut at = 0;
    while at < 9 {
        jobs[at] = Job {
            tasks: tasks[at / 3],
            work_s: minutes[at % 3] * 60.0,
        };
        at += 1;
    }

    jobs
};

/// The size of a job.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Job {
    /// How many tasks it has.
    pub tasks: u32,
    /// Work of each, in seconds on a dedicated host of speed 1.
    pub work_s: f64,
}

/// A policy in a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    /// What results call it.
    pub label: String,
    /// The policy, with parameters where it has some; none for the optimum.
    pub policy: String,
    /// Whether tasks keep their state.
    pub checkpoint: bool,
}

impl Contender {
    /// The policy of this name, under this name.
    pub fn named(policy: &str) -> Self {
        Contender {
            label: policy.to_owned(),
            policy: policy.to_owned(),
            checkpoint: false,
        }
    }
}

/// Where a site's days come from.
pub trait Source: Sync {
    /// The trace of this day.
    ///
    /// # Errors
    /// If there is none.
    fn day(&self, day: u32) -> Result<Trace, SourceError>;
}

/// A day that is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

impl<F: Fn(u32) -> Result<Trace, SourceError> + Sync> Source for F {
    fn day(&self, day: u32) -> Result<Trace, SourceError> {
        self(day)
    }
}

/// A set of hosts with their availability, and what was learned there earlier.
pub struct Site<'a> {
    /// The platform's name.
    pub platform: String,
    /// The availability model's name, or the trace's.
    pub model: String,
    /// Its days.
    pub source: &'a dyn Source,
    /// What schedulers know from earlier days, if anything.
    pub knowledge: Option<&'a Knowledge>,
}

/// What is compared with what.
pub struct Grid<'a> {
    /// On which hosts.
    pub sites: Vec<Site<'a>>,
    /// Which jobs.
    pub jobs: Vec<Job>,
    /// Under which policies.
    pub contenders: Vec<Contender>,
    /// When.
    pub days: Vec<Day>,
    /// Whether rows are to say what the scheduler predicted.
    pub foretell: bool,
    /// Of everything that is random.
    pub seed: u64,
    /// On how many threads.
    pub threads: usize,
}

/// When jobs start on a day: the same for every site, job and policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Day {
    /// Which day. Its eve is what PRI-HISTORY knows.
    pub day: u32,
    /// Seconds since the trace's start.
    pub starts_s: Vec<f64>,
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The place of its site, job and contender in the grid.
    pub site: usize,
    /// See [`Row::site`].
    pub job: usize,
    /// See [`Row::site`].
    pub contender: usize,
    /// The day.
    pub day: u32,
    /// When it started, in seconds since the trace's start.
    pub start_s: f64,
    /// When its last task was done, in seconds since its start; none where that was not before the
    /// trace's end.
    pub makespan_s: Option<f64>,
    /// The time from its start to the trace's end, in seconds.
    pub horizon_s: f64,
    /// The least possible makespan; none where the trace ends before it.
    pub optimal_s: Option<f64>,
    /// The makespan that the predictor of Kondo et al. 2004, section 5.2, expects: of the hosts
    /// that are ready at the start, at the mean rate that hosts had while they were up on the eve;
    /// none without an eve.
    pub predicted_s: Option<f64>,
    /// What the scheduler predicted on the way (see [`crate::world::Outcome::foretold`]).
    pub foretold: [Option<Foretold>; 3],
    /// Attempts started.
    pub launches: u32,
    /// Those of them that were started while another attempt of their task was live.
    pub replicas: u32,
    /// Processor seconds of all attempts.
    pub cpu_s: f64,
    /// Processor seconds of attempts that did not deliver their task.
    pub wasted_cpu_s: f64,
}

impl Row {
    /// Its makespan by the least possible one; none where either is not known.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.makespan_s? / self.optimal_s?)
    }

    /// The part of its processor time that did not deliver a task.
    pub fn cpu_waste(&self) -> f64 {
        if self.cpu_s > 0.0 {
            self.wasted_cpu_s / self.cpu_s
        } else {
            0.0
        }
    }
}

/// Why a grid has no rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// A trace is not there.
    #[error("no trace for day {day} of {site}: {why}")]
    Source {
        /// Which day.
        day: u32,
        /// Of which site.
        site: String,
        /// Why.
        why: SourceError,
    },
    /// The scheduler does not take the job.
    #[error("{policy}: {why}")]
    Run {
        /// Under which policy.
        policy: String,
        /// Why.
        why: RunError,
    },
}

/// What one thread takes at a time: a day of a site.
struct Portion<'a> {
    site: usize,
    day: &'a Day,
}

impl Grid<'_> {
    /// All runs, by site, day, start, job and contender.
    ///
    /// # Errors
    /// If a trace is not there, or a policy is not.
    pub fn rows(&self) -> Result<Vec<Row>, GridError> {
        let days = self.days.iter();
        let of_site = |site| days.clone().map(move |day| Portion { site, day });
        let portions: Vec<Portion<'_>> = (0..self.sites.len()).flat_map(of_site).collect();
        let done = in_parallel(self.threads, &portions, |portion| {
            self.portion(&mut Simulator::default(), portion)
        });
        let mut rows = Vec::new();
        for portion in done {
            rows.extend(portion?);
        }
        Ok(rows)
    }

    /// One day of one site.
    fn portion(
        &self,
        simulator: &mut Simulator,
        portion: &Portion<'_>,
    ) -> Result<Vec<Row>, GridError> {
        let site = &self.sites[portion.site];
        let day = portion.day.day;
        let trace = self.trace(site, day)?;
        let eve = day
            .checked_sub(1)
            .map(|eve| self.trace(site, eve))
            .transpose()?;
        let records = eve.map(|eve| track_records(&World::new(&eve)));
        let world = World::new(&trace);

        let rate = records.as_deref().and_then(mean_rate);
        let watches: Vec<bool> = self
            .contenders
            .iter()
            .map(|who| reports(&who.policy))
            .collect();
        let mut rows = Vec::new();

        for (number, start_s) in portion.day.starts_s.iter().copied().enumerate() {
            for (job, size) in self.jobs.iter().enumerate() {
                let optimal_s = Oracle::new(&trace, start_s, size.work_s, START_COST_S, 1)
                    .makespan_s(size.tasks);
                let predicted_s = rate.and_then(|rate| predicted(&world, start_s, *size, rate));
                for (contender, who) in self.contenders.iter().enumerate() {
                    let shuffle = self.seed ^ (u64::from(day) << 32 | number as u64);
                    let run = Run {
                        shuffle: Some(shuffle),
                        checkpoint: who.checkpoint,
                        watch: watches[contender],
                        foretell: self.foretell,
                        experience: site.knowledge.map(|known| known.of(who)),
                        records: records.as_deref(),
                        ..Run::new(start_s, size.tasks, size.work_s, &who.policy)
                    };

                    let place = Row {
                        site: portion.site,
                        job,
                        contender,
                        day,
                        start_s,
                        makespan_s: None,
                        horizon_s: world.end_s() - start_s,
                        optimal_s,
                        predicted_s,
                        foretold: [None; 3],
                        launches: 0,
                        replicas: 0,
                        cpu_s: 0.0,
                        wasted_cpu_s: 0.0,
                    };
                    rows.push(one(simulator, &world, &run, place)?);
                }
            }
        }

        Ok(rows)
    }

    fn trace(&self, site: &Site<'_>, day: u32) -> Result<Trace, GridError> {
        let named = |why| GridError::Source {
            day,
            site: format!("{} ({})", site.platform, site.model),
            why,
        };
        site.source.day(day).map_err(named)
    }
}

impl Day {
    /// So many starts in business hours, over as many days as it takes, from day `first` on, the
    /// last of which may have fewer.
    pub fn spread(seed: u64, first: u32, runs: usize, per_day: usize) -> Vec<Day> {
        let per_day = per_day.max(1);
        let share = |at: usize| per_day.min(runs - at * per_day);
        let day = |(at, day)| Day::random(seed, day, share(at), STARTS_S);
        (0..runs.div_ceil(per_day)).zip(first..).map(day).collect()
    }

    /// So many random starts between two times. Each day has a stream of its own.
    pub fn random(seed: u64, day: u32, runs: usize, (from_s, to_s): (f64, f64)) -> Day {
        let mut stream =
            ChaCha8Rng::seed_from_u64(seed ^ 0x7374_6172_7473 ^ (u64::from(day) << 40));
        let mut unit = || (stream.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut starts_s: Vec<f64> = (0..runs)
            .map(|_| (from_s + (to_s - from_s) * unit()).round())
            .collect();
        starts_s.sort_by(f64::total_cmp);
        Day { day, starts_s }
    }
}

/// Mean rate of the hosts that were up at all.
fn mean_rate(records: &[Option<TrackRecord>]) -> Option<f64> {
    let rates: Vec<f64> = records.iter().flatten().map(|record| record.rate).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

fn predicted(world: &World, start_s: f64, job: Job, rate: f64) -> Option<f64> {
    let ready = world.ready_hosts(start_s) as u64;
    let cost = Span::from_secs_f64(START_COST_S);
    makespan(u64::from(job.tasks), ready, job.work_s, rate, cost).map(Span::secs)
}

/// Whether a policy looks at what hosts say of their processors.
pub(super) fn reports(policy: &str) -> bool {
    scheduler::policy::parse(policy).is_ok_and(|policy| policy.reports().is_some())
}

/// One run; the optimum itself is a contender without a policy.
fn one(
    simulator: &mut Simulator,
    world: &World,
    run: &Run<'_>,
    place: Row,
) -> Result<Row, GridError> {
    if run.policy.is_empty() {
        return Ok(Row {
            makespan_s: place.optimal_s,
            ..place
        });
    }

    let failed = |why| GridError::Run {
        policy: run.policy.to_owned(),
        why,
    };
    let outcome = simulator.run(world, run).map_err(failed)?;

    Ok(Row {
        makespan_s: outcome.makespan_s,
        foretold: outcome.foretold,
        launches: outcome.launches,
        replicas: outcome.replicas,
        cpu_s: outcome.cpu_s,
        wasted_cpu_s: outcome.wasted_cpu_s,
        ..place
    })
}
