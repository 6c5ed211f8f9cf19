//! Hosts that take work and do not begin it, while others have nothing to do: what they hold is
//! taken back, and they get no more until an admin says so. A heartbeat alone keeps nothing. What
//! is not here: attempts that run and do not end.

use std::collections::BTreeMap;

use common::attempt::Phase;
use common::host::OwnerState;
use common::view::HostState;
use common::{AttemptId, HostId, Span};
use scheduler::Event;

use super::Core;
use crate::store::StoreError;

/// Fetching inputs may take so many times as long as waiting for a slot.
const STAGING: u64 = 4;

impl Core {
    /// Takes back what was given to a host so long ago, was not begun, and need not have waited
    /// there: nothing runs on the host and its owner lets tasks run. Only where another host is
    /// ready for it.
    pub(crate) fn take_back(&mut self, within: Span) -> Result<(), StoreError> {
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
                "it began none of {count} tasks within {within}: `deskgrid host undrain {name}` lets it have more"
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

    /// What each host has not begun in time, of those on which nothing runs although it could.
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
                // Who is ready waits for others; and what runs, or has run, was begun.
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
