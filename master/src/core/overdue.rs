//! Takes attempts back from hosts that accept work and do not begin it while another host is ready,
//! and drains such hosts until an admin resumes them. Heartbeats alone do not protect a host.
//! Attempts that run and do not end are not looked at here.

use std::collections::BTreeMap;

use common::attempt::Phase;
use common::host::OwnerState;
use common::view::HostState;
use common::{AttemptId, HostId, Span};
use scheduler::Event;

use super::Core;
use crate::store::StoreError;

/// The factor by which fetching inputs may take longer than waiting for a slot.
const STAGING: u64 = 4;

impl Core {
    /// Takes back the attempts that a host did not begin within `within` although nothing runs on
    /// it and its owner lets tasks run. Does so only where another host is ready, and drains the
    /// host.
    pub(super) fn take_back(&mut self, within: Span) -> Result<(), StoreError> {
        let ready = self
            .hosts
            .keys()
            .filter(|id| self.status_is(**id, HostState::Ready))
            .copied()
            .collect::<Vec<_>>();
        if ready.is_empty() {
            return Ok(());
        }

        for (host, attempts) in self.overdue(within) {
            if ready.iter().all(|other| *other == host) {
                continue;
            }

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

    fn status_is(&self, id: HostId, state: HostState) -> bool {
        self.scheduler
            .host(id)
            .is_some_and(|status| status.state == state && status.connected && !status.draining)
    }

    /// The overdue attempts by host, of connected hosts on which nothing runs although it could.
    fn overdue(&self, within: Span) -> BTreeMap<HostId, Vec<AttemptId>> {
        let mut overdue: BTreeMap<HostId, Vec<AttemptId>> = BTreeMap::new();
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
                overdue.entry(live.host).or_default().push(live.attempt);
            }
        }

        overdue.retain(|host, _| {
            let could = |status: scheduler::HostStatus| {
                status.connected && status.owner == OwnerState::Away && status.usable_slots > 0
            };
            !works.contains_key(host) && self.scheduler.host(*host).is_some_and(could)
        });

        overdue
    }
}
