//! A comparison ([`PolicyGrid`]): sites, jobs, policies and days, and the running of it on several
//! threads. Every run is a function of the grid and of its own place in it, so the rows are the
//! same on any number of threads.

use std::ops::Range;

use common::Span;
use common::needs::{Capacity, Needs};
use common::units::BadSpeed;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use scheduler::experience::TrackRecord;
use scheduler::predict::makespan;

use super::history::{Knowledge, track_records};
use super::threads::in_parallel;
use crate::oracle::Oracle;
use crate::platform::sizes::OFFICE;
use crate::trace::Trace;
use crate::world::{MakespanPrediction, PreparedTrace, Run, RunError, Simulator};

/// The cost of starting a task, in seconds (Kondo et al. 2004, section 3.1).
const START_COST_S: f64 = 40.0;
/// The earliest and latest start of a job, in seconds of a day's trace: 09:00 and 15:00, after a
/// warm-up of four hours.
pub const STARTS_S: (f64, f64) = (4.0 * 3_600.0, 10.0 * 3_600.0);

/// The sizes of jobs in Kondo et al. 2004, section 3.3.
pub const KONDO_JOBS: [JobSize; 9] = {
    let tasks = [100, 200, 400];
    let minutes = [5.0, 15.0, 35.0];
    let mut jobs = [JobSize {
        tasks: 0,
        work_s: 0.0,
    }; 9];

    let mut at = 0;
    while at < 9 {
        jobs[at] = JobSize {
            tasks: tasks[at / 3],
            work_s: minutes[at % 3] * 60.0,
        };
        at += 1;
    }

    jobs
};

/// The size of a job.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct JobSize {
    /// The number of tasks.
    pub tasks: u32,
    /// The work of each task, in seconds on a dedicated host of speed 1.
    pub work_s: f64,
}

/// A policy in a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    /// The name in results.
    pub label: String,
    /// The policy, with parameters where it has some; empty for the optimum.
    pub policy: String,
    /// Whether tasks checkpoint.
    pub checkpoint: bool,
}

impl Contender {
    /// Creates a contender that is labelled with its policy.
    pub fn named(policy: &str) -> Self {
        Contender {
            label: policy.to_owned(),
            policy: policy.to_owned(),
            checkpoint: false,
        }
    }
}

/// A source of a site's days.
pub trait DaySource: Sync {
    /// Returns the trace of this day.
    ///
    /// # Errors
    /// If there is none.
    fn day(&self, day: u32) -> Result<Trace, SourceError>;
}

/// The error of a day that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

impl<F: Fn(u32) -> Result<Trace, SourceError> + Sync> DaySource for F {
    fn day(&self, day: u32) -> Result<Trace, SourceError> {
        self(day)
    }
}

/// A set of hosts with their availability, and the knowledge from earlier days there.
pub struct Site<'a> {
    /// The platform's name.
    pub platform: String,
    /// The name of the availability model or of the trace.
    pub model: String,
    /// The days on which jobs run there.
    pub source: &'a dyn DaySource,
    /// The knowledge of schedulers from earlier days, if any.
    pub knowledge: Option<&'a Knowledge>,
}

/// The sites, jobs, contenders and days that are compared.
pub struct PolicyGrid<'a> {
    /// The sites with their hosts.
    pub sites: Vec<Site<'a>>,
    /// The sizes of jobs.
    pub jobs: Vec<JobSize>,
    /// The policies.
    pub contenders: Vec<Contender>,
    /// The days with the starts of jobs.
    pub days: Vec<Day>,
    /// The needs of each task, on hosts of [`OFFICE`] sizes with as many slots as processors;
    /// `None`: hosts with one slot, and tasks that need nothing else.
    pub needs: Option<Needs>,
    /// Whether rows contain the scheduler's predictions ([`RunRow::foretold`]).
    pub foretell: bool,
    /// The seed of everything random.
    pub seed: u64,
    /// The number of threads.
    pub threads: usize,
}

/// The starts of jobs on a day, the same for every site, job and policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Day {
    /// The number of the day. PRI-HISTORY knows its eve.
    pub day: u32,
    /// The starts, in seconds since the trace's start.
    pub starts_s: Vec<f64>,
}

/// The results of one run; a row of [`PolicyGrid::rows`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunRow {
    /// The place of its site in [`PolicyGrid::sites`].
    pub site: usize,
    /// The place of its job in [`PolicyGrid::jobs`].
    pub job: usize,
    /// The place of its contender in [`PolicyGrid::contenders`].
    pub contender: usize,
    /// The day.
    pub day: u32,
    /// The time at which it started, in seconds since the trace's start.
    pub start_s: f64,
    /// The time at which its last task was done, in seconds since its start; `None` if that was not
    /// before the trace's end.
    pub makespan_s: Option<f64>,
    /// The time from its start to the trace's end, in seconds.
    pub horizon_s: f64,
    /// The least possible makespan of tasks that do not checkpoint; `None` if the trace ends before
    /// it.
    pub optimal_s: Option<f64>,
    /// The makespan that the predictor of Kondo et al. 2004, section 5.2, expects: of the hosts
    /// that are ready at the start, at the mean rate that hosts had while they were up on the eve;
    /// `None` without an eve.
    pub predicted_s: Option<f64>,
    /// The scheduler's predictions during the run (see [`crate::world::RunOutcome::foretold`]).
    pub foretold: [Option<MakespanPrediction>; 3],
    /// The number of attempts started.
    pub launches: u32,
    /// The number of attempts that were started while another attempt of their task was live.
    pub replicas: u32,
    /// Processor seconds of all attempts.
    pub cpu_s: f64,
    /// Processor seconds of attempts that did not deliver their task.
    pub wasted_cpu_s: f64,
}

impl RunRow {
    /// The makespan divided by the least possible one; `None` if either is unknown.
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

/// The reasons why a grid has no rows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GridError {
    /// A trace cannot be had.
    #[error("no trace for day {day} of {site}: {why}")]
    Source {
        /// The number of the day.
        day: u32,
        /// The platform of the site.
        site: String,
        /// The cause.
        why: SourceError,
    },
    /// A trace has a host that cannot be simulated.
    #[error("a clock rate of the trace cannot be simulated: {0}")]
    Clock(BadSpeed),
    /// The scheduler refused the job.
    #[error("{policy}: {why}")]
    Run {
        /// The policy of the run.
        policy: String,
        /// The cause.
        why: RunError,
    },
}

/// The unit of work of a thread: a day of a site, or a part of its starts.
#[derive(Debug, PartialEq)]
struct Portion<'a> {
    site: usize,
    day: &'a Day,
    /// The places of its starts among those of the day.
    starts: Range<usize>,
}

/// Cuts the days of so many sites into portions, in the order of the rows. Days are cut only where
/// they are fewer than the threads: each portion prepares its trace.
fn portions(sites: usize, days: &[Day], threads: usize) -> Vec<Portion<'_>> {
    let parts = threads.div_ceil((sites * days.len()).max(1)).max(1);
    let mut portions = Vec::new();

    for site in 0..sites {
        for day in days {
            let all = day.starts_s.len();
            let length = all.div_ceil(parts).max(1);
            let cut = |from: usize| Portion {
                site,
                day,
                starts: from..all.min(from + length),
            };
            portions.extend((0..all.max(1)).step_by(length).map(cut));
        }
    }

    portions
}

impl PolicyGrid<'_> {
    /// Runs everything and returns the rows by site, day, start, job and contender.
    ///
    /// # Errors
    /// If a trace cannot be had, or a policy does not exist.
    pub fn rows(&self) -> Result<Vec<RunRow>, GridError> {
        let portions = portions(self.sites.len(), &self.days, self.threads);
        let done = in_parallel(self.threads, &portions, |portion| {
            self.portion(&mut Simulator::default(), portion)
        });
        let mut rows = Vec::new();
        for portion in done {
            rows.extend(portion?);
        }
        Ok(rows)
    }

    /// Runs one day of one site, or a part of it.
    fn portion(
        &self,
        simulator: &mut Simulator,
        portion: &Portion<'_>,
    ) -> Result<Vec<RunRow>, GridError> {
        let site = &self.sites[portion.site];
        let day = portion.day.day;
        let trace = self.trace(site, day)?;
        let eve = day
            .checked_sub(1)
            .map(|eve| self.trace(site, eve))
            .transpose()?;
        let eve = eve.map(|eve| prepared(&eve)).transpose()?;
        let records = eve.as_ref().map(track_records);
        let world = prepared(&trace)?;
        let sizes = (self.needs.as_ref()).map(|_| OFFICE.draw(self.seed, trace.hosts.len()));
        let places = self.places(trace, sizes.as_deref());
        let slots = sizes.as_ref().map(|_| prepared(&places)).transpose()?;
        let slots = slots.as_ref().unwrap_or(&world);

        let rate = records.as_deref().and_then(mean_rate);
        let watches: Vec<bool> = self
            .contenders
            .iter()
            .map(|who| reports(&who.policy))
            .collect();
        let mut rows = Vec::new();

        let of = &portion.starts;
        let starts = portion.day.starts_s.iter().copied().enumerate();
        for (number, start_s) in starts.take(of.end).skip(of.start) {
            for (job, size) in self.jobs.iter().enumerate() {
                let optimal_s = Oracle::new(&places, start_s, size.work_s, START_COST_S, 1)
                    .makespan_s(size.tasks);
                let predicted_s = rate.and_then(|rate| predicted(slots, start_s, *size, rate));
                for (contender, who) in self.contenders.iter().enumerate() {
                    let shuffle = self.seed ^ (u64::from(day) << 32 | number as u64);
                    let run = Run {
                        shuffle: Some(shuffle),
                        checkpoint: who.checkpoint,
                        watch: watches[contender],
                        foretell: self.foretell,
                        experience: site.knowledge.map(|known| known.of(who)),
                        records: records.as_deref(),
                        sizes: sizes.as_deref(),
                        needs: self.needs.as_ref(),
                        ..Run::new(start_s, size.tasks, size.work_s, &who.policy)
                    };

                    let place = RunRow {
                        site: portion.site,
                        job,
                        contender,
                        day,
                        start_s,
                        horizon_s: (world.end_s() - start_s).max(0.0),
                        optimal_s,
                        predicted_s,
                        ..RunRow::default()
                    };
                    rows.push(one(simulator, &world, &run, place)?);
                }
            }
        }

        Ok(rows)
    }

    /// Returns the trace with each host as often as tasks fit on it at a time.
    fn places(&self, trace: Trace, sizes: Option<&[Capacity]>) -> Trace {
        let (Some(sizes), Some(needs)) = (sizes, &self.needs) else {
            return trace;
        };

        let fit = |size: &Capacity| size.holds(needs.takes) as usize;
        let hosts = trace.hosts.into_iter().zip(sizes);
        let hosts = hosts
            .flat_map(|(host, size)| std::iter::repeat_n(host, fit(size)))
            .collect();
        Trace { hosts, ..trace }
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
    /// Spreads `runs` random starts in business hours over as many days as needed, `per_day` on
    /// each from day `first` on; the last day may have fewer.
    pub fn spread(seed: u64, first: u32, runs: usize, per_day: usize) -> Vec<Day> {
        let per_day = per_day.max(1);
        let share = |at: usize| per_day.min(runs - at * per_day);
        let day = |(at, day)| Day::random(seed, day, share(at), STARTS_S);
        (0..runs.div_ceil(per_day)).zip(first..).map(day).collect()
    }

    /// Draws `runs` random starts between two times. Each day has a stream of its own.
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

fn prepared(trace: &Trace) -> Result<PreparedTrace, GridError> {
    PreparedTrace::new(trace).map_err(GridError::Clock)
}

/// The mean rate of the hosts that were up at all.
fn mean_rate(records: &[Option<TrackRecord>]) -> Option<f64> {
    let rates: Vec<f64> = records.iter().flatten().map(|record| record.rate).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

fn predicted(world: &PreparedTrace, start_s: f64, job: JobSize, rate: f64) -> Option<f64> {
    let ready = world.ready_hosts(start_s) as u64;
    let cost = Span::from_secs_f64(START_COST_S);
    makespan(u64::from(job.tasks), ready, job.work_s, rate, cost).map(Span::secs)
}

/// Whether a policy uses the hosts' reports of their processors.
pub(super) fn reports(policy: &str) -> bool {
    scheduler::policy::parse(policy).is_ok_and(|policy| policy.reports().is_some())
}

/// Runs one cell; a contender without a policy is the optimum itself.
fn one(
    simulator: &mut Simulator,
    world: &PreparedTrace,
    run: &Run<'_>,
    place: RunRow,
) -> Result<RunRow, GridError> {
    if run.policy.is_empty() {
        return Ok(RunRow {
            makespan_s: place.optimal_s,
            ..place
        });
    }

    let failed = |why| GridError::Run {
        policy: run.policy.to_owned(),
        why,
    };
    let outcome = simulator.run(world, run).map_err(failed)?;

    Ok(RunRow {
        makespan_s: outcome.makespan_s,
        foretold: outcome.foretold,
        launches: outcome.launches,
        replicas: outcome.replicas,
        cpu_s: outcome.cpu_s,
        wasted_cpu_s: outcome.wasted_cpu_s,
        ..place
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_cut_where_there_are_fewer_of_them_than_threads() {
        let day = |starts: u32| Day {
            day: 0,
            starts_s: (0..starts).map(f64::from).collect(),
        };
        let cut = |days: &[Day], threads: usize| -> Vec<(usize, usize)> {
            let portions = portions(1, days, threads).into_iter();
            let starts = portions.map(|portion| portion.starts);
            starts.map(|starts| (starts.start, starts.end)).collect()
        };

        assert_eq!(cut(&[day(10)], 1), [(0, 10)]);
        assert_eq!(cut(&[day(10)], 4), [(0, 3), (3, 6), (6, 9), (9, 10)]);
        assert_eq!(cut(&[day(2)], 16), [(0, 1), (1, 2)]);
        assert_eq!(cut(&[day(2), day(2)], 2), [(0, 2), (0, 2)]);
        assert_eq!(cut(&[day(2), day(1)], 3), [(0, 1), (1, 2), (0, 1)]);
        assert_eq!(cut(&[day(0)], 4), [(0, 0)]);
        assert_eq!(portions(3, &[day(10)], 6).len(), 6);
    }
}
