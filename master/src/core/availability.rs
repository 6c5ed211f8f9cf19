//! Stores the availability intervals that workers record, for a configured time. `windows` derives
//! the lengths of idle windows from them.

use common::availability::AvailabilityInterval;
use common::wire::worker::MAX_STRETCHES;
use common::{HostId, Span, Time};

use super::Core;
use crate::store::StoreResult;

/// The time ahead of now up to which an interval may end: a later end comes from a wrong clock.
const AHEAD: Span = Span::from_secs(3_600);
/// The most rows for one host, whatever its worker sends: three months of a change every ten
/// seconds.
const MOST_ROWS: u32 = 800_000;
const DAY: Span = Span::from_secs(86_400);

impl Core {
    /// Stores a worker's recorded availability, and acknowledges it once it is durable. Records
    /// that are left out, as known or impossible, are acknowledged too: the worker need not send
    /// them again.
    pub(super) fn on_recorded(
        &mut self,
        host: HostId,
        last: u64,
        stretches: &[AvailabilityInterval],
    ) -> StoreResult<()> {
        if let Some(span) = self.availability_kept {
            let oldest = if self.believes_clock() {
                self.now - span
            } else {
                Time(0)
            };
            let newest = self.now + AHEAD;
            let sound =
                |s: &&AvailabilityInterval| s.is_sound() && s.end <= newest && s.end > oldest;
            let taken: Vec<&AvailabilityInterval> =
                stretches.iter().take(MAX_STRETCHES).filter(sound).collect();
            if taken.len() < stretches.len() {
                let left = stretches.len() - taken.len();
                tracing::warn!(%host, left, "recorded availability that cannot be, or is too old, is left out");
            }
            self.store.add_availability(host, &taken)?;
        }

        self.mail(host).kept = Some(last);
        Ok(())
    }

    /// Removes a host's records that are older than the retention.
    pub(super) fn trim_availability(&mut self, host: HostId) -> StoreResult<()> {
        let oldest = match self.availability_kept {
            _ if !self.believes_clock() => Time(0),
            Some(span) => self.now - span,
            None => self.now + AHEAD,
        };

        let mut most = None;
        if let Some(of) = self.hosts.get_mut(&host)
            && of.rows_counted.is_none_or(|at| self.now.since(at) >= DAY)
        {
            of.rows_counted = Some(self.now);
            most = Some(MOST_ROWS);
        }
        self.store.trim_availability(host, oldest, most)
    }
}
