//! PRI-HISTORY (Kondo et al. 2004, section 4): two queues. The first holds hosts whose mean work
//! per availability interval on the day before was at least a task's work.
//!
//! Reading: the paper ranks within a queue by "operations per interval divided by operations per
//! second", which is a time, "in this way according to their speed". We rank by operations per
//! second. A host without a record of the day before is judged by what was seen of it since; one of
//! which nothing is known counts as one that stays for long enough, with its speed.

use common::HostId;

use super::Scene;
use crate::host::Host;

pub(super) fn propose(scene: &Scene<'_>, fit: impl Fn(HostId) -> bool) -> Option<HostId> {
    order(scene).into_iter().find(|host| fit(*host))
}

/// The free slots, the best one first.
pub(super) fn order(scene: &Scene<'_>) -> Vec<HostId> {
    let work_s = scene.work_s().unwrap_or(0.0);
    let rank = |host: &Host| match host.record {
        Some(record) => (record.interval_work_s >= work_s, record.rate),
        None => lately(host).map_or((true, host.speed.factor()), |(work, rate)| {
            (work >= work_s, rate)
        }),
    };

    let ready = scene
        .ready_by_speed()
        .filter_map(|(_, id)| scene.hosts.table.get(&id));
    let mut ranked: Vec<_> = ready
        .map(|host| (rank(host), host.id, host.free_slots()))
        .collect();

    // Stable: of equals the faster one by its clock, and then the one that has been ready for
    // longer.
    ranked.sort_by(|(a, ..), (b, ..)| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
    ranked
        .into_iter()
        .flat_map(|(_, host, free)| std::iter::repeat_n(host, free))
        .collect()
}

/// Mean work per availability interval, and per second, of a host that has been watched for a
/// while.
fn lately(host: &Host) -> Option<(f64, f64)> {
    let habit = &host.habit;
    let rate = host.speed.factor() * habit.away_s / habit.up_s;
    (habit.failures >= 1.0 && habit.up_s > 0.0).then(|| (rate * habit.up_s / habit.failures, rate))
}
