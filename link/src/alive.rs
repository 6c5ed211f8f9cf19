//! Whether a worker is still there: it promises when it will send next, and a session in which
//! nothing arrives for nearly three times as long ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use common::Span;
use common::wire::worker::{BUSY_EVERY, ToWorker};
use quinn::Connection;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Sender, WeakSender};
use tokio::time::Instant;

use crate::error::LinkError;

/// The looks in a promised interval, and the looks without a datagram after which the host is gone:
/// eight seconds for a host that promised three.
const LOOKS: u32 = 3;
const LOOKS_IN_VAIN: u32 = 8;
/// The bounds of what a worker may promise, and of what idle workers are asked for.
const LEAST: Span = Span::from_millis(100);
const MOST: Span = Span::from_secs(100);
/// The messages a second of all idle workers together; each makes two packets.
const IDLE_MESSAGES_PER_S: f64 = 1_000.0;
/// The promised interval, in milliseconds, from which answers without content are saved.
const FEW_MS: u64 = 30_000;
/// An idle worker is told a new interval when the present one is off by this factor.
const FAR_OFF: f64 = 1.25;

/// The number of connected workers, which decides how often idle ones send.
#[derive(Debug, Clone, Default)]
pub struct WorkerCount(Arc<AtomicUsize>);

/// One of the workers, until it is dropped.
#[derive(Debug)]
pub struct ConnectedWorker(WorkerCount);

impl WorkerCount {
    /// Counts one more worker, until the value is dropped.
    pub fn enter(&self) -> ConnectedWorker {
        self.0.fetch_add(1, Ordering::Relaxed);
        ConnectedWorker(self.clone())
    }

    /// Returns the interval at which idle workers should send.
    fn idle_every(&self) -> Span {
        idle_every(self.0.load(Ordering::Relaxed))
    }
}

impl Drop for ConnectedWorker {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn millis(span: Span) -> u64 {
    Duration::from(span).as_millis() as u64
}

fn idle_every(workers: usize) -> Span {
    let every_s = workers as f64 / IDLE_MESSAGES_PER_S;
    Span::from_secs_f64(every_s.clamp(BUSY_EVERY.secs(), MOST.secs()))
}

/// The promise of one worker.
#[derive(Debug)]
pub struct AliveWatch {
    worker: ConnectedWorker,
    /// The promised interval in milliseconds; 0 before the first promise.
    promised_ms: AtomicU64,
    /// Wakes the look-out when the interval becomes shorter.
    shorter: Notify,
    outbox: WeakSender<ToWorker>,
    /// The interval that the worker was told for idle times, in milliseconds.
    told_ms: AtomicU64,
}

impl AliveWatch {
    /// Of one worker, who is told other intervals through `outbox` ([`ToWorker::SendEvery`]).
    pub fn new(worker: ConnectedWorker, outbox: &Sender<ToWorker>) -> Self {
        Self {
            worker,
            promised_ms: AtomicU64::new(0),
            shorter: Notify::new(),
            outbox: outbox.downgrade(),
            told_ms: AtomicU64::new(millis(BUSY_EVERY)),
        }
    }

    /// Notes that the worker will send again within `next`.
    pub fn on_promise(&self, next: Span) {
        let next = millis(next.clamp(LEAST, MOST));
        let before = self.promised_ms.swap(next, Ordering::Relaxed);
        if before == 0 || next < before {
            self.shorter.notify_one();
        }
        self.adapt();
    }

    /// Tells the worker where idle workers should send more or less often than it was told.
    pub fn adapt(&self) {
        let every = self.worker.0.idle_every();
        let factor = millis(every) as f64 / self.told_ms.load(Ordering::Relaxed) as f64;
        if (1.0 / FAR_OFF..=FAR_OFF).contains(&factor) {
            return;
        }
        // A full queue has more urgent messages: it is told with its next promise.
        let sent = self
            .outbox
            .upgrade()
            .is_some_and(|outbox| outbox.try_send(ToWorker::SendEvery(every)).is_ok());
        if sent {
            self.told_ms.store(millis(every), Ordering::Relaxed);
        }
    }

    /// Notes that the worker is sent attempts: from now on it is to be heard soon.
    pub fn on_assigned(&self) {
        let busy = millis(BUSY_EVERY);
        if self.promised_ms.fetch_min(busy, Ordering::Relaxed) > busy {
            self.shorter.notify_one();
        }
    }

    /// Whether the worker is one of so many idle ones that a `Beat` without content is not sent.
    pub fn saves_answers(&self) -> bool {
        self.promised_ms.load(Ordering::Relaxed) > FEW_MS
    }

    /// Resolves once the worker has broken its promise.
    pub async fn broken(&self, connection: &Connection) -> LinkError {
        let received = || connection.stats().udp_rx.datagrams;
        let mut before = received();
        let mut in_vain = 0;
        let mut since = Instant::now();

        loop {
            let promised = Duration::from_millis(self.promised_ms.load(Ordering::Relaxed));
            if promised.is_zero() {
                self.shorter.notified().await;
                since = Instant::now();
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(promised / LOOKS) => in_vain += 1,
                // Looks at longer intervals do not count among the shorter ones.
                () = self.shorter.notified() => in_vain = 0,
            }

            let now = received();
            if now != before {
                before = now;
                in_vain = 0;
                since = Instant::now();
            } else if in_vain >= LOOKS_IN_VAIN {
                return LinkError::Closed(format!(
                    "nothing heard for {} s, though the worker sends at least every {} s",
                    since.elapsed().as_secs(),
                    promised.as_secs(),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_workers_send_a_thousand_messages_a_second_at_most() {
        for workers in [1, 100, 3_000, 10_000, 50_000, 100_000] {
            let per_s = workers as f64 / idle_every(workers).secs();
            assert!(per_s <= IDLE_MESSAGES_PER_S + 1e-6, "{workers}: {per_s}");
        }
        assert_eq!(idle_every(220), BUSY_EVERY);
        assert_eq!(idle_every(100_000), Span::from_secs(100));
    }
}
