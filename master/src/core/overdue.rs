//! Takes attempts back from hosts that accept work and do not begin it while another host is ready,
//! and drains such hosts until an admin resumes them, few in an hour. Heartbeats alone do not
//! protect a host. Attempts that run and do not end are not looked at here.

use std::collections::BTreeMap;

use common::attempt::Phase;
use common::host::OwnerState;
use common::view::HostState;
use common::{AttemptId, HostId, Span, Time};
use scheduler::{Event, HostStatus};

use super::Core;
use crate::store::StoreResult;

/// The factor by which fetching inputs may take longer than waiting for a slot.
const STAGING: u64 = 4;
/// The time in which at most one in `PART` of the connected hosts is drained; one may be in any case.
const WINDOW: Span = Span::from_secs(3_600);
const PART: usize = 10;

/// The hosts that begin nothing. A few are broken, or hostile; many have rather one cause, such as
/// content that the master cannot send, and would all be lost to it.
#[derive(Debug, Default)]
pub(super) struct StuckHosts {
    /// The times at which one was drained within the last `WINDOW`.
    drained: Vec<Time>,
    /// Whether the log has the present ones.
    told: bool,
}

/// The work that a host should have begun.
struct UnbegunWork {
    /// The time at which it got the first of it.
    since: Time,
    attempts: Vec<AttemptId>,
}

impl StuckHosts {
    /// Returns how many of so many are drained now, where so many are connected. More than `PART` allows, and
    /// than two, are none; that is logged once.
    fn drains(&mut self, now: Time, stuck: usize, connected: usize) -> usize {
        self.drained.retain(|at| now.since(*at) < WINDOW);
        let most = (connected / PART).max(1);
        let together = stuck > most.max(2);

        let told = std::mem::replace(&mut self.told, together);
        if together && !told {
            tracing::warn!(
                stuck,
                most,
                "more hosts begin none of their tasks than are drained in an hour, which hardly is the fault of each: they keep their tasks. Is the storage of content away, or the line to them slow?"
            );
        }

        let more = if together {
            0
        } else {
            stuck.min(most.saturating_sub(self.drained.len()))
        };
        self.drained.extend(std::iter::repeat_n(now, more));
        more
    }
}

impl Core {
    /// Takes back the attempts that a host did not begin within `within` although nothing runs on
    /// it and its owner lets tasks run, and drains the host. Does so only where another host is
    /// ready, and as often as [`StuckHosts`] lets it.
    pub(super) fn take_back(&mut self, within: Span) -> StoreResult<()> {
        let known = self.hosts.keys();
        let known = known.filter_map(|id| Some((*id, self.scheduler.host(*id)?)));
        let connected: Vec<(HostId, HostStatus)> =
            known.filter(|(_, status)| status.connected).collect();
        let ready: Vec<HostId> = connected
            .iter()
            .filter(|(_, status)| status.state == HostState::Ready && !status.draining)
            .map(|(id, _)| *id)
            .collect();
        if ready.is_empty() {
            return Ok(());
        }

        let mut overdue: Vec<(HostId, UnbegunWork)> = self.overdue(within).into_iter().collect();
        overdue.retain(|(host, _)| ready.iter().any(|other| other != host));
        overdue.sort_by_key(|(_, overdue)| overdue.since);
        let drained = self.stuck.drains(self.now, overdue.len(), connected.len());

        for (host, UnbegunWork { attempts, .. }) in overdue.into_iter().take(drained) {
            let name = self
                .hosts
                .get(&host)
                .map(|host| host.name.clone())
                .unwrap_or_default();
            let count = attempts.len();
            tracing::warn!(host = name, count, %within, "it began none of its tasks: they run elsewhere, and it gets no more");

            let why = format!(
                "it began none of {count} tasks within {within}: `deskgrid host resume {name}` lets it have more"
            );
            self.audit("the master", "drain", &name, Ok(&why))?;
            self.drain(host, true)?;
            self.step(Event::AttemptsReturned { host, attempts })?;
        }

        Ok(())
    }

    /// The overdue attempts by host, of connected hosts on which nothing runs although it could.
    fn overdue(&self, within: Span) -> BTreeMap<HostId, UnbegunWork> {
        let mut overdue: BTreeMap<HostId, UnbegunWork> = BTreeMap::new();
        let mut works: BTreeMap<HostId, bool> = BTreeMap::new();
        for live in self
            .scheduler
            .jobs()
            .flat_map(|job| self.scheduler.live_attempts(job))
        {
            let late = match live.phase {
                Phase::Queued => within,
                Phase::Staging => Span(within.0.saturating_mul(STAGING)),
                // A ready attempt waits for other ranks; an attempt in any other phase has begun.
                _ => {
                    works.insert(live.host, true);
                    continue;
                }
            };

            if self.now.since(live.assigned) >= late {
                let of_host = overdue.entry(live.host).or_insert(UnbegunWork {
                    since: live.assigned,
                    attempts: Vec::new(),
                });
                of_host.since = of_host.since.min(live.assigned);
                of_host.attempts.push(live.attempt);
            }
        }

        overdue.retain(|host, _| {
            let could = |status: HostStatus| {
                status.connected && status.owner == OwnerState::Away && status.usable_slots > 0
            };
            !works.contains_key(host) && self.scheduler.host(*host).is_some_and(could)
        });

        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_ten_hosts_is_drained_in_an_hour_and_of_many_at_once_none() {
        let at = |minutes: u64| Time(0) + Span::from_secs(60 * minutes);
        let mut hosts = StuckHosts::default();
        assert_eq!(hosts.drains(at(0), 2, 30), 2);
        assert_eq!(hosts.drains(at(1), 2, 30), 1, "three in an hour");
        assert_eq!(hosts.drains(at(59), 1, 30), 0);
        assert_eq!(hosts.drains(at(62), 3, 30), 3, "the hour is over");
        assert!(!hosts.told);

        assert_eq!(hosts.drains(at(200), 4, 30), 0);
        assert!(hosts.told);
        assert_eq!(hosts.drains(at(201), 0, 30), 0);
        assert!(!hosts.told);

        let mut few = StuckHosts::default();
        assert_eq!(few.drains(at(0), 2, 12), 1, "one in any case");
        assert_eq!(few.drains(at(30), 1, 12), 0);
        assert_eq!(few.drains(at(60), 1, 12), 1, "the other one an hour later");
        assert_eq!(few.drains(at(200), 3, 12), 0);
    }
}
