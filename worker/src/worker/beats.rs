//! The times of heartbeats. Their content is the engine's affair.

use std::time::Duration;

use common::Span;
use tokio::time::{Instant, sleep_until};

use crate::session::Uplink;

/// The interval of heartbeats and the time of the next one.
pub(crate) struct Beats {
    usual: Duration,
    every: Duration,
    next: Instant,
}

/// Waits until a heartbeat is due over this connection; for ever while there is none.
pub(crate) async fn next_beat(uplink: &mut Option<(Uplink, Beats)>) {
    match uplink {
        Some((_, beats)) => {
            sleep_until(beats.next).await;
            beats.next = Instant::now() + beats.every;
        }
        None => std::future::pending().await,
    }
}

impl Beats {
    /// Makes those of a connection whose master wants one in this interval; the first is due now.
    pub(crate) fn of(heartbeat: Span) -> Self {
        let usual = Duration::from(heartbeat).max(Duration::from_millis(10));
        Self {
            usual,
            every: usual,
            next: Instant::now(),
        }
    }

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
