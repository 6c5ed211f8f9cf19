//! Keeps the master sure that this worker is there: an `Alive` message at a promised interval, short while
//! the worker holds attempts. Notices by the missing answers that the master is gone.

use std::time::Duration;

use common::Span;
use common::wire::worker::{BUSY_EVERY, ToMaster};
use link::{Connection, LinkError};
use tokio::sync::mpsc::WeakUnboundedSender;
use tokio::sync::watch;
use tokio::time::Instant;

/// The number of messages in a row without an answer, not even QUIC's, after which the master is
/// gone.
const UNANSWERED: u32 = 3;
/// The same where there are other masters, one of which may have taken over; and the longest interval
/// there: workers are to be back within half a minute.
const UNANSWERED_OF_SEVERAL: u32 = 2;
const EVERY_OF_SEVERAL: Duration = Duration::from_secs(5);

/// The state that decides the intervals. Cloning gives another handle.
#[derive(Debug, Clone)]
pub(crate) struct AliveSender {
    /// Whether the worker holds attempts.
    busy: watch::Sender<bool>,
    /// The interval that the master wants of a worker that holds none.
    idle_every: watch::Sender<Span>,
    /// The count of datagrams from the master when they were last counted, and the time at which
    /// that count was new.
    counted: watch::Sender<Option<(u64, Instant)>>,
    /// Whether the grid has several masters.
    several: bool,
}

impl Default for AliveSender {
    fn default() -> Self {
        Self {
            busy: watch::Sender::new(true),
            idle_every: watch::Sender::new(BUSY_EVERY),
            counted: watch::Sender::new(None),
            several: false,
        }
    }
}

impl AliveSender {
    /// For a grid with several masters, or one.
    pub(crate) fn of_masters(several: bool) -> Self {
        Self {
            several,
            ..Self::default()
        }
    }

    /// Notes whether the worker holds attempts.
    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy
            .send_if_modified(|before| std::mem::replace(before, busy) != busy);
    }

    /// Notes the interval that the master wants of a worker that holds no attempts.
    pub(crate) fn set_idle_every(&self, every: Span) {
        self.idle_every.send_replace(every.max(BUSY_EVERY));
    }

    /// Returns the interval between messages at present.
    pub(crate) fn every(&self) -> Duration {
        let every = if *self.busy.borrow() {
            BUSY_EVERY
        } else {
            *self.idle_every.borrow()
        };
        let every = Duration::from(every);
        if self.several {
            every.min(EVERY_OF_SEVERAL)
        } else {
            every
        }
    }

    /// Returns for how long nothing at all has come from the master over this connection, counted
    /// from the last message that it should have answered.
    pub(crate) fn silent_for(&self, connection: &Connection) -> Duration {
        match *self.counted.borrow() {
            Some((count, at)) if connection.received() == count => at.elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// Counts the datagrams that have come so far. Returns whether some are new.
    fn count(&self, received: u64) -> bool {
        self.counted.send_if_modified(|counted| {
            let new = counted.is_none_or(|(count, _)| count != received);
            if new {
                *counted = Some((received, Instant::now()));
            }
            new
        })
    }

    /// Sends at the promised intervals. Resolves once the master is gone.
    pub(crate) async fn keep(
        &self,
        connection: &Connection,
        outbox: &WeakUnboundedSender<ToMaster>,
    ) -> LinkError {
        let mut busy = self.busy.subscribe();
        self.count(connection.received());
        let mut sent = connection.sent();
        let mut promised = None;
        let mut unanswered = 0;

        let most = if self.several {
            UNANSWERED_OF_SEVERAL
        } else {
            UNANSWERED
        };
        while unanswered < most {
            let every = self.every();
            // Of many idle workers, heartbeats and records are enough.
            let enough = promised == Some(every)
                && every > Duration::from(BUSY_EVERY)
                && connection.sent() > sent;
            // Nothing is sent any more where the worker ends.
            if let Some(outbox) = outbox.upgrade().filter(|_| !enough) {
                let _ = outbox.send(ToMaster::Alive(every.into()));
                promised = Some(every);
            }
            // The promise itself leaves a moment later, in one datagram.
            sent = connection.sent() + u64::from(!enough);
            let was_busy = *busy.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                // What was promised of an idle worker is too late for a busy one.
                () = becomes_true(&mut busy), if !was_busy => continue,
            }

            unanswered = if self.count(connection.received()) {
                0
            } else {
                unanswered + 1
            };
        }

        LinkError::Closed("the master does not answer any more".to_owned())
    }
}

/// Resolves once the value is true.
async fn becomes_true(value: &mut watch::Receiver<bool>) {
    if value.wait_for(|value| *value).await.is_err() {
        std::future::pending::<()>().await;
    }
}
