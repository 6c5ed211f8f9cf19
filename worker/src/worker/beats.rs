//! The times of heartbeats. Their content is the engine's affair.

use std::time::Duration;

use tokio::time::Instant;

/// The interval of heartbeats and the time of the next one.
pub(super) struct Beats {
    pub(super) usual: Duration,
    pub(super) every: Duration,
    pub(super) next: Instant,
}

impl Beats {
    /// Sets the interval: as often as `wanted`, otherwise as usual; or at `idle_every`, if that is
    /// longer, while the worker holds no attempts.
    pub(super) fn keep(
        &mut self,
        wanted: Option<Duration>,
        idle_every: Option<Duration>,
        now: Instant,
    ) {
        let every = match (wanted, idle_every) {
            (Some(wanted), _) => wanted.min(self.usual),
            (None, Some(idle_every)) => idle_every.max(self.usual),
            (None, None) => self.usual,
        };
        if every != self.every {
            self.every = every;
            self.next = self.next.min(now + every);
        }
    }
}
