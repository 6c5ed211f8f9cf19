//! Stores the availability intervals that workers record, for a configured time. `windows` derives
//! the lengths of idle windows from them.

use common::availability::AvailabilityInterval;
use common::wire::worker::MAX_STRETCHES;
use common::{HostId, Span, Time};

use super::Core;
use crate::store::StoreResult;

/// The time ahead of now up to which an interval may end: a later end comes from a wrong clock.
const AHEAD: Span = Span::from_secs(3_600);
/// The most rows for one host that are left when they are counted, once a day: three months of a
/// change every ten seconds.
const MOST_ROWS: u32 = 800_000;
/// The most rows that a host adds between two counts: a day of a change every second, and as many
/// that were recorded while it was away.
const MOST_ADDED: usize = 200_000;
/// The most rows that one turn removes, so that other asks do not wait long.
const PORTION: u32 = 10_000;
const DAY: Span = Span::from_secs(86_400);

impl Core {
    /// Stores a worker's recorded availability, and acknowledges it once it is durable. Records
    /// that are left out, as known, impossible or too many, are acknowledged too: the worker need not
    /// send them again.
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
            let mut taken: Vec<&AvailabilityInterval> =
                stretches.iter().take(MAX_STRETCHES).filter(sound).collect();
            if taken.len() < stretches.len() {
                let left = stretches.len() - taken.len();
                tracing::warn!(%host, left, "recorded availability that cannot be, or is too old, is left out");
            }

            let before = self.hosts.get(&host).map_or(0, |of| of.rows_added);
            taken.truncate(MOST_ADDED.saturating_sub(before));
            let added = self.store.add_availability(host, &taken)?;
            if let Some(of) = self.hosts.get_mut(&host) {
                of.rows_added = before + added;
                if added > 0 && of.rows_added >= MOST_ADDED {
                    tracing::warn!(%host, "its worker records more availability than a day has: for up to a day the rest is left out");
                }
            }
        }

        self.mail(host).kept = Some(last);
        Ok(())
    }

    /// Removes a portion of a host's records that are older than the retention, or too many. Returns
    /// whether there may be more.
    pub(super) fn trim_availability(&mut self, host: HostId) -> StoreResult<bool> {
        let oldest = match self.availability_kept {
            _ if !self.believes_clock() => Time(0),
            Some(span) => self.now - span,
            None => self.now + AHEAD,
        };

        let now = self.now;
        let of = self.hosts.get_mut(&host);
        let counts = of
            .as_ref()
            .and_then(|of| of.rows_counted)
            .is_none_or(|at| now.since(at) >= DAY);
        let most = counts.then_some(MOST_ROWS);
        let more = self.store.trim_availability(host, oldest, most, PORTION)?;
        if counts
            && !more
            && let Some(of) = of
        {
            of.rows_counted = Some(now);
            of.rows_added = 0;
        }
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use common::host::{OwnerState, YieldReason};

    use super::super::retention::tests::{core, restored};
    use super::*;

    #[test]
    fn a_host_adds_so_many_rows_until_its_rows_are_counted_and_is_answered_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let start = Time(1_700_000_000_000_000);
        let mut core = core(dir.path(), start, true);
        let host = HostId(1);
        core.restore_host(restored(host, "pc")).unwrap();
        assert!(!core.trim_availability(host).unwrap());
        core.hosts.get_mut(&host).unwrap().rows_added = MOST_ADDED - 10;

        // Intervals of a microsecond each, of which no two that follow one another are alike.
        let stretch = |n: u64| {
            let owner = match n % 2 {
                0 => OwnerState::Away,
                _ => OwnerState::Present(YieldReason::InUse),
            };
            AvailabilityInterval::of(start + Span(n), start + Span(n + 1), owner, 1.0)
        };
        let rows = |core: &mut Core, portion: u64| {
            let all: Vec<_> = (0..30).map(|n| stretch(portion * 30 + n)).collect();
            core.on_recorded(host, portion, &all).unwrap();
            assert_eq!(core.mail(host).kept, Some(portion));
            core.store.recorded(host, Time(0), 1_000).unwrap().len()
        };
        assert_eq!([rows(&mut core, 1), rows(&mut core, 2)], [10, 10]);

        core.now = core.now + Span::from_secs(3_600);
        assert!(!core.trim_availability(host).unwrap());
        assert_eq!(rows(&mut core, 3), 10, "they are counted once a day");
        core.now = core.now + DAY;
        assert!(!core.trim_availability(host).unwrap());
        assert_eq!(rows(&mut core, 4), 40);
    }
}
