//! The connections of a gateway to its master: each has room for some requests, and another one is made
//! where none has. Not here: how one is made.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::wire::{Refusal, RefusalCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The requests that one connection takes at a time; the master allows a few more.
const OF_ONE: usize = 12;
/// The most connections.
const CONNECTIONS: usize = 32;

/// The connections, each a `C`.
pub(super) struct ConnectionPool<C> {
    is_open: fn(&C) -> bool,
    connections: Mutex<Vec<OpenConnection<C>>>,
    /// Locked while a connection is made.
    making: tokio::sync::Mutex<()>,
    failed: Mutex<FailedAttempts>,
}

/// One connection, with room for some requests.
struct OpenConnection<C> {
    client: C,
    room: Arc<Semaphore>,
}

/// The attempts to connect that have failed.
#[derive(Default)]
struct FailedAttempts {
    count: u64,
    /// The failure of the last one.
    last: Option<Refusal>,
}

/// A connection with room for one request, until this is dropped.
pub(super) struct RequestTurn<C> {
    /// The connection.
    pub(super) client: C,
    _room: OwnedSemaphorePermit,
}

impl<C: Clone> ConnectionPool<C> {
    /// Makes a pool with one connection; `is_open` says whether one still lasts.
    pub(super) fn new(client: C, is_open: fn(&C) -> bool) -> Self {
        Self {
            is_open,
            connections: Mutex::new(vec![OpenConnection::new(client)]),
            making: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Returns a connection with room for one more request; where none has, one that is made by `connect`.
    /// One attempt is for all who wait meanwhile: they share its failure, and none tries after the other.
    pub(super) async fn turn(
        &self,
        connect: impl Future<Output = Result<C, Refusal>>,
    ) -> Result<RequestTurn<C>, Refusal> {
        let before = locked(&self.failed).count;
        if let Some(turn) = self.free()? {
            return Ok(turn);
        }

        let _making = self.making.lock().await;
        if let Some(turn) = self.free()? {
            return Ok(turn);
        }
        if let Some(refusal) = self.failed_since(before) {
            return Err(refusal);
        }

        match connect.await {
            Ok(client) => self.add(client),
            Err(refusal) => {
                let mut failed = locked(&self.failed);
                failed.count += 1;
                failed.last = Some(refusal.clone());
                Err(refusal)
            }
        }
    }

    /// The failure of an attempt that ended after there had been so many.
    fn failed_since(&self, before: u64) -> Option<Refusal> {
        let failed = locked(&self.failed);
        failed.last.clone().filter(|_| failed.count > before)
    }

    /// A connection that has room, if one does. Refused if none does and there can be no other.
    fn free(&self) -> Result<Option<RequestTurn<C>>, Refusal> {
        let mut connections = locked(&self.connections);
        connections.retain(|connection| (self.is_open)(&connection.client));

        let turn = connections.iter().find_map(OpenConnection::turn);
        if turn.is_none() && connections.len() >= CONNECTIONS {
            let what = format!("{} requests are under way", CONNECTIONS * OF_ONE);
            let hint = "try again once some are over; close pages that nobody looks at";
            return Err(Refusal::new(RefusalCode::Unavailable, what, hint));
        }
        Ok(turn)
    }

    fn add(&self, client: C) -> Result<RequestTurn<C>, Refusal> {
        let connection = OpenConnection::new(client);
        let turn = connection.turn().ok_or_else(|| {
            let what = "a new connection has no room for a request";
            Refusal::new(RefusalCode::Unavailable, what, "try again")
        });

        locked(&self.connections).push(connection);
        turn
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Clone> OpenConnection<C> {
    fn new(client: C) -> Self {
        Self {
            client,
            room: Arc::new(Semaphore::new(OF_ONE)),
        }
    }

    fn turn(&self) -> Option<RequestTurn<C>> {
        let room = self.room.clone().try_acquire_owned().ok()?;
        Some(RequestTurn {
            client: self.client.clone(),
            _room: room,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinHandle;

    use super::*;

    /// A pool whose only connection is lost, with attempts that end once `done` has a permit for them.
    struct Lost {
        pool: Arc<ConnectionPool<u32>>,
        attempts: Arc<AtomicUsize>,
        done: Arc<Semaphore>,
    }

    impl Lost {
        fn new() -> Self {
            Self {
                pool: Arc::new(ConnectionPool::new(0, |client| *client > 0)),
                attempts: Arc::default(),
                done: Arc::new(Semaphore::new(0)),
            }
        }

        /// Asks for a turn, and gives it back.
        fn ask(&self) -> JoinHandle<Result<u32, Refusal>> {
            let pool = Arc::clone(&self.pool);
            let attempts = Arc::clone(&self.attempts);
            let done = Arc::clone(&self.done);
            tokio::spawn(async move {
                let connect = async {
                    attempts.fetch_add(1, Ordering::SeqCst);
                    done.acquire().await.expect("it is open").forget();
                    let what = "the master is away";
                    Err(Refusal::new(RefusalCode::Unavailable, what, ""))
                };
                pool.turn(connect).await.map(|turn| turn.client)
            })
        }

        fn attempts(&self) -> usize {
            self.attempts.load(Ordering::SeqCst)
        }
    }

    /// Lets every task come as far as it can: all are in one thread.
    async fn settle() {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_attempt_to_reach_the_master_is_for_all_who_wait_for_it() {
        let lost = Lost::new();
        let waiting: Vec<_> = (0..60).map(|_| lost.ask()).collect();
        settle().await;
        lost.done.add_permits(1);
        for asked in waiting {
            assert!(asked.await.expect("it did not panic").is_err());
        }
        assert_eq!(lost.attempts(), 1);

        // Who comes afterwards tries anew.
        lost.done.add_permits(1);
        assert!(lost.ask().await.expect("it did not panic").is_err());
        assert_eq!(lost.attempts(), 2);
    }

    #[tokio::test]
    async fn an_attempt_holds_up_nobody_for_whom_a_connection_has_room() {
        let pool = Arc::new(ConnectionPool::new(1, |_| true));
        let mut turns = Vec::new();
        for _ in 0..OF_ONE {
            let none = std::future::pending();
            turns.push(pool.turn(none).await.expect("there is room"));
        }
        let other = Arc::clone(&pool);
        let attempt = tokio::spawn(async move { other.turn(std::future::pending()).await.is_ok() });
        settle().await;

        turns.pop();
        let turn = pool.turn(std::future::pending()).await;
        assert_eq!(turn.expect("there is room").client, 1);
        attempt.abort();
    }
}
