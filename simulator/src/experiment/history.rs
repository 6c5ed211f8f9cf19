//! What earlier days say of hosts. What is not here: what policies make of it.

use scheduler::Experience;
use scheduler::experience::TrackRecord;

use super::grid::{Contender, Day, GridError, KONDO_JOBS, STARTS_S, reports};
use crate::world::{Run, Simulator, World};

/// From 09:00 to 17:00, in seconds of a day's trace, which begins with a warm-up of four hours.
pub const BUSINESS_HOURS_S: (f64, f64) = (4.0 * 3_600.0, 12.0 * 3_600.0);

/// How each host was available in a day's business hours (Kondo et al. 2004, section 4: the work of a mean availability
/// interval "using the previous weekday's trace"). Intervals that reach beyond those hours count with their part in
/// them.
pub fn track_records(day: &World) -> Vec<TrackRecord> {
    let (from_s, to_s) = BUSINESS_HOURS_S;
    let record = |host| {
        let (mut work_s, mut up_s, mut intervals) = (0.0, 0.0, 0_u32);
        for interval in day.intervals(host, from_s, to_s) {
            work_s += interval.work_s;
            up_s += interval.end_s - interval.start_s;
            intervals += 1;
        }
        let part = |of: f64| if of > 0.0 { work_s / of } else { 0.0 };
        TrackRecord { interval_work_s: part(f64::from(intervals)), rate: part(up_s) }
    };
    (0..day.hosts()).map(record).collect()
}

/// What a scheduler has learned that watched these days' business hours, one after the other.
pub fn experience_of<'a>(days: impl IntoIterator<Item = &'a World>) -> Experience {
    let (mut simulator, (from_s, to_s)) = (Simulator::default(), BUSINESS_HOURS_S);
    let learn = |before: Option<Experience>, day| Some(simulator.watch(day, from_s, to_s, before.as_ref()));
    days.into_iter().fold(None, learn).unwrap_or_default()
}

/// Runs jobs of every size on these days, one after the other, each with what was learned from those before it, and
/// keeps what they teach of predictions and of copies. What the hosts are like is known already.
pub(super) fn practise(
    experience: &mut Experience,
    days: &[(u32, World)],
    contenders: &[Contender],
    seed: u64,
) -> Result<(), GridError> {
    let mut simulator = Simulator::default();
    let mut known: Vec<(&str, bool)> = contenders.iter().map(|who| (&*who.policy, who.checkpoint)).collect();
    known.sort_unstable();
    known.dedup();
    for (day, world) in days {
        let starts = Day::random(seed, *day, KONDO_JOBS.len(), STARTS_S).starts_s;
        for (policy, checkpoint) in known.iter().filter(|(policy, _)| !policy.is_empty()) {
            for (job, start_s) in KONDO_JOBS.iter().zip(&starts) {
                let run = Run {
                    checkpoint: *checkpoint,
                    watch: reports(policy),
                    learn: true,
                    experience: Some(experience),
                    shuffle: Some(u64::from(*day)),
                    ..Run::new(*start_s, job.tasks, job.work_s, policy)
                };
                let failed = |why| GridError::Run { policy: (*policy).to_owned(), why };
                let outcome = simulator.run(world, &run).map_err(failed)?;
                if let Some(learned) = outcome.learned {
                    (experience.prices, experience.errors) = (learned.prices, learned.errors);
                }
            }
        }
    }
    Ok(())
}
