//! How hosts were available: what workers record, kept for a while. What is not here: what is made
//! of it.

use common::availability::AvailabilityInterval;
use common::wire::worker::MAX_STRETCHES;
use common::{HostId, Span, Time};

use super::{Core, SessionId};
use crate::Config;
use crate::store::StoreError;

/// What is said to end later than this from now comes from a clock that is wrong.
const AHEAD: Span = Span::from_secs(3_600);
/// The most rows for one host, whatever its worker sends: three months of a change every ten
/// seconds.
const MOST_ROWS: u32 = 800_000;
const DAY: Span = Span::from_secs(86_400);

/// For how long it is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retention(Option<Span>);

impl Retention {
    pub(super) fn of(config: &Config) -> Self {
        let days = u64::from(config.availability_days);
        Self((days > 0).then_some(Span(DAY.0.saturating_mul(days))))
    }
}

impl Core {
    /// A worker says how its host was available. It is told once that is durable; what is not
    /// taken, because it was said before or cannot be, it need not say again either.
    pub(super) fn on_recorded(
        &mut self,
        host: HostId,
        session: SessionId,
        last: u64,
        stretches: &[AvailabilityInterval],
    ) -> Result<(), StoreError> {
        if !self.is_current(host, session) {
            return Ok(());
        }

        if let Retention(Some(span)) = self.availability {
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

    /// Removes what is recorded of a host and older than it is to be kept.
    pub(super) fn trim_availability(&mut self, host: HostId) -> Result<(), StoreError> {
        let oldest = match self.availability {
            _ if !self.believes_clock() => Time(0),
            Retention(Some(span)) => self.now - span,
            Retention(None) => self.now + AHEAD,
        };
        self.store.trim_availability(host, oldest, MOST_ROWS)
    }
}
