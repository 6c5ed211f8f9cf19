//! What earlier days say of hosts. What is not here: what policies make of it.

use scheduler::Experience;
use scheduler::experience::TrackRecord;

use crate::world::{Simulator, World};

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
