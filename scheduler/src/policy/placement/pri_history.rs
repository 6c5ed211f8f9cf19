//! PRI-HISTORY (Kondo et al. 2004, section 4): two queues. The first holds hosts whose mean work per availability
//! interval on the day before was at least a task's work.
//!
//! Reading: the paper ranks within a queue by "operations per interval divided by operations per second", which is a
//! time, "in this way according to their speed". We rank by operations per second. A host without a record of the
//! day before is judged by what was seen of it since; one of which nothing is known counts as one that stays for long
//! enough, with its speed.

use common::HostId;

use super::Scene;
use crate::host::Host;

pub(super) fn propose(scene: &Scene<'_>, fit: impl Fn(HostId) -> bool) -> Option<HostId> {
    let work_s = scene.work_s.unwrap_or(0.0);
    let rank = |host: &Host| match host.record {
        Some(record) => (record.interval_work_s >= work_s, record.rate),
        None => lately(host).map_or((true, host.speed.factor()), |(work, rate)| (work >= work_s, rate)),
    };
    let ready = scene.hosts.index.ready.by_speed().map(|(_, host)| host).filter(|host| fit(*host));
    let ranked = ready.filter_map(|id| Some((rank(scene.hosts.table.get(&id)?), id)));
    // Of equals the first one, which is the fastest by its clock: `max_by` would take the last.
    let best = ranked.reduce(|best, other| {
        let order = best.0.0.cmp(&other.0.0).then(best.0.1.total_cmp(&other.0.1));
        if order.is_lt() { other } else { best }
    });
    best.map(|(_, host)| host)
}

/// Mean work per availability interval, and per second, of a host that has been watched for a while.
fn lately(host: &Host) -> Option<(f64, f64)> {
    let habit = &host.habit;
    let rate = host.speed.factor() * habit.away_s / habit.up_s;
    (habit.failures >= 1.0 && habit.up_s > 0.0).then(|| (rate * habit.up_s / habit.failures, rate))
}
