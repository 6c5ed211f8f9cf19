//! The knowledge that earlier days give of hosts: track records for PRI-HISTORY, and [`Knowledge`]
//! of schedulers that learn.

use std::collections::BTreeMap;

use scheduler::Experience;
use scheduler::experience::TrackRecord;

use super::grid::{Contender, Day, GridError, JobSize, STARTS_S, reports};
use super::threads::in_parallel;
use crate::availability::BUSINESS_HOURS_S;
use crate::world::{PreparedTrace, Run, Simulator};

/// The track record of each host in a day's business hours (Kondo et al. 2004, section 4: the work
/// of a mean availability interval "using the previous weekday's trace"). Intervals that reach
/// beyond those hours count with their part in them; nothing is known of a host that was not up.
pub(super) fn track_records(day: &PreparedTrace) -> Vec<Option<TrackRecord>> {
    let (from_s, to_s) = BUSINESS_HOURS_S;
    let record = |host| {
        let mut work_s = 0.0;
        let mut up_s = 0.0;
        let mut intervals = 0_u32;

        for interval in day.intervals(host, from_s, to_s) {
            work_s += interval.work_s;
            up_s += interval.end_s - interval.start_s;
            intervals += 1;
        }

        let known = intervals > 0 && up_s > 0.0;
        known.then(|| TrackRecord {
            interval_work_s: work_s / f64::from(intervals),
            rate: work_s / up_s,
        })
    };
    (0..day.hosts()).map(record).collect()
}

/// The experience of a scheduler that watched these days' business hours, one after the other.
fn experience_of<'a>(days: impl IntoIterator<Item = &'a PreparedTrace>) -> Experience {
    let (mut simulator, (from_s, to_s)) = (Simulator::default(), BUSINESS_HOURS_S);
    let learn =
        |before: Option<Experience>, day| Some(simulator.watch(day, from_s, to_s, before.as_ref()));
    days.into_iter().fold(None, learn).unwrap_or_default()
}

/// The knowledge from earlier days: of hosts in general, and of each policy its own past.
#[derive(Debug, Clone, Default)]
pub struct Knowledge {
    hosts: Experience,
    own: BTreeMap<(String, bool), Experience>,
}

impl Knowledge {
    /// The experience that this contender starts with.
    pub fn of(&self, who: &Contender) -> &Experience {
        self.own
            .get(&(who.policy.clone(), who.checkpoint))
            .unwrap_or(&self.hosts)
    }

    /// Gains knowledge by watching the hosts on these days, and by running jobs on them under each
    /// of `contenders`.
    ///
    /// # Errors
    /// If the scheduler refuses a job.
    pub(super) fn gained(
        days: &[(u32, PreparedTrace)],
        jobs: &[JobSize],
        contenders: &[Contender],
        seed: u64,
        threads: usize,
    ) -> Result<Self, GridError> {
        let hosts = experience_of(days.iter().map(|(_, world)| world));
        let mut open: Vec<&Contender> = contenders
            .iter()
            .filter(|who| !who.policy.is_empty())
            .collect();
        open.sort_by_key(|who| (&who.policy, who.checkpoint));
        open.dedup_by_key(|who| (&who.policy, who.checkpoint));

        let own = in_parallel(threads, &open, |who| {
            practise(hosts.clone(), (days, jobs), who, seed)
        });
        let key = |who: &Contender| (who.policy.clone(), who.checkpoint);
        let own = open
            .iter()
            .zip(own)
            .map(|(who, learned)| Ok((key(who), learned?)));

        Ok(Knowledge {
            own: own.collect::<Result<_, _>>()?,
            hosts,
        })
    }
}

/// The number of jobs of each size on each day of practice.
const ROUNDS: usize = 3;

/// Runs jobs of every size on each of these days, one after the other, each with the experience of
/// those before it. Keeps what they teach of predictions and of copies; the hosts themselves are
/// already known.
fn practise(
    mut known: Experience,
    (days, jobs): (&[(u32, PreparedTrace)], &[JobSize]),
    who: &Contender,
    seed: u64,
) -> Result<Experience, GridError> {
    let mut simulator = Simulator::default();
    for (day, world) in days {
        let starts = Day::random(seed, *day, ROUNDS * jobs.len(), STARTS_S).starts_s;
        for (job, start_s) in jobs.iter().cycle().zip(&starts) {
            let run = Run {
                checkpoint: who.checkpoint,
                watch: reports(&who.policy),
                learn: true,
                experience: Some(&known),
                shuffle: Some(u64::from(*day)),
                ..Run::new(*start_s, job.tasks, job.work_s, &who.policy)
            };

            let failed = |why| GridError::Run {
                policy: who.policy.clone(),
                why,
            };
            let outcome = simulator.run(world, &run).map_err(failed)?;
            if let Some(learned) = outcome.learned {
                known.prices = learned.prices;
                known.errors = learned.errors;
            }
        }
    }

    Ok(known)
}
