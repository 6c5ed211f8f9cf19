//! PRI-HISTORY (Kondo et al. 2004, section 4): two queues. The first holds hosts whose mean work
//! per availability interval on the day before was at least a task's work.
//!
//! Reading: the paper ranks within a queue by "operations per interval divided by operations per
//! second", which is a time, "in this way according to their speed". We rank by operations per
//! second. A host without a `TrackRecord` of the day before is judged by its `Habit` since; an
//! unknown one counts as one that stays for long enough, with its speed.

use common::HostId;

use super::{Answer, HostPast, PlacementView};
use crate::policy::plan::JobPlan;

#[derive(Debug, Clone, Copy)]
pub(super) struct PriHistory;

impl Answer for PriHistory {
    fn describe(self) -> &'static str {
        "first hosts whose availability intervals used to hold a whole task, then the others, by the work that they \
         did per second"
    }

    fn candidates(self, view: &impl PlacementView, _: &JobPlan) -> impl Iterator<Item = HostId> {
        order(view).into_iter()
    }

    fn order(self, view: &impl PlacementView) -> Option<Vec<HostId>> {
        Some(order(view))
    }
}

/// Returns the free slots, the best one first.
fn order(view: &impl PlacementView) -> Vec<HostId> {
    let work_s = view.work_s().unwrap_or(0.0);
    let rank = |past: &HostPast| match past.record {
        Some(record) => (record.interval_work_s >= work_s, record.rate),
        None => lately(past).map_or((true, past.speed.factor()), |(work, rate)| {
            (work >= work_s, rate)
        }),
    };

    let ready = view.ready_by_speed();
    let mut ranked: Vec<_> = ready
        .filter_map(|(_, host)| Some((host, view.past(host)?)))
        .map(|(host, past)| (rank(&past), host, past.free_slots))
        .collect();

    // A stable sort: among equals the faster one by its clock, and then the one that has been ready
    // for longer.
    ranked.sort_by(|(a, ..), (b, ..)| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
    ranked
        .into_iter()
        .flat_map(|(_, host, free)| std::iter::repeat_n(host, free))
        .collect()
}

/// Returns the mean work per availability interval, and per second, of a host by its `Habit`; none
/// before its first failure.
fn lately(past: &HostPast) -> Option<(f64, f64)> {
    let habit = &past.habit;
    let rate = past.speed.factor() * habit.away_s / habit.up_s;
    (habit.failures >= 1.0 && habit.up_s > 0.0).then(|| (rate * habit.up_s / habit.failures, rate))
}
