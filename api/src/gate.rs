//! Admits requests, a few at a time, each user in turn: a user with many waiting requests delays no
//! other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use uuid::Uuid;

type Ticket = u64;

/// The waiting tickets of each key, and the count of those being served. Pure: tickets go in,
/// admitted tickets come out.
#[derive(Debug)]
struct Lanes<K> {
    total: usize,
    each: usize,
    served: usize,
    lanes: BTreeMap<K, Lane>,
    /// The key that was admitted last: the search for the next one starts behind it.
    last: Option<K>,
}

#[derive(Debug, Default)]
struct Lane {
    served: usize,
    waiting: VecDeque<Ticket>,
}

impl<K: Ord + Clone> Lanes<K> {
    fn new(total: usize, each: usize) -> Self {
        Self {
            total,
            each,
            served: 0,
            lanes: BTreeMap::new(),
            last: None,
        }
    }

    fn enter(&mut self, key: K, ticket: Ticket) -> Vec<Ticket> {
        self.lanes.entry(key).or_default().waiting.push_back(ticket);
        self.admit()
    }

    /// Removes a ticket, served or waiting, and returns the tickets that are admitted now.
    fn leave(&mut self, key: &K, ticket: Ticket) -> Vec<Ticket> {
        let Some(lane) = self.lanes.get_mut(key) else {
            return Vec::new();
        };
        match lane.waiting.iter().position(|waiting| *waiting == ticket) {
            Some(place) => drop(lane.waiting.remove(place)),
            None => {
                lane.served -= 1;
                self.served -= 1;
            }
        }

        if lane.served == 0 && lane.waiting.is_empty() {
            self.lanes.remove(key);
        }

        self.admit()
    }

    fn admit(&mut self) -> Vec<Ticket> {
        let mut admitted = Vec::new();
        while self.served < self.total
            && let Some(key) = self.next()
            && let Some(lane) = self.lanes.get_mut(&key)
            && let Some(ticket) = lane.waiting.pop_front()
        {
            lane.served += 1;
            self.served += 1;
            self.last = Some(key);
            admitted.push(ticket);
        }

        admitted
    }

    /// The next key, after `last`, that has a waiting ticket and is below its own limit.
    fn next(&self) -> Option<K> {
        let may = |(_, lane): &(&K, &Lane)| !lane.waiting.is_empty() && lane.served < self.each;
        let after = self.last.as_ref().and_then(|last| {
            self.lanes
                .range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded))
                .find(may)
        });
        after
            .or_else(|| self.lanes.iter().find(may))
            .map(|(key, _)| key.clone())
    }
}

/// A gate that admits a few at a time, each user in turn.
#[derive(Clone)]
pub struct Gate(Arc<Mutex<GateState>>);

struct GateState {
    lanes: Lanes<Uuid>,
    next: Ticket,
    waiting: BTreeMap<Ticket, oneshot::Sender<()>>,
}

/// A place in the queue, and then the right to be served, until it is dropped.
pub struct Turn {
    gate: Gate,
    key: Uuid,
    ticket: Ticket,
}

impl Gate {
    /// Creates a gate for `total` at a time, at most `each` of them of one user.
    pub fn new(total: usize, each: usize) -> Self {
        Self(Arc::new(Mutex::new(GateState {
            lanes: Lanes::new(total, each),
            next: 0,
            waiting: BTreeMap::new(),
        })))
    }

    /// Waits for this user's turn.
    pub async fn enter(&self, key: Uuid) -> Turn {
        let (tx, rx) = oneshot::channel();
        let turn = {
            let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let ticket = inner.next;
            inner.next += 1;
            inner.waiting.insert(ticket, tx);
            let admitted = inner.lanes.enter(key, ticket);
            inner.call(&admitted);
            Turn {
                gate: self.clone(),
                key,
                ticket,
            }
        };

        // The sender is dropped only after it has sent, or with the turn itself.
        let _ = rx.await;
        turn
    }
}

impl GateState {
    fn call(&mut self, tickets: &[Ticket]) {
        for ticket in tickets {
            if let Some(tx) = self.waiting.remove(ticket) {
                // A receiver that is gone gives its place back with the turn.
                let _ = tx.send(());
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut inner = self.gate.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.waiting.remove(&self.ticket);
        let admitted = inner.lanes.leave(&self.key, self.ticket);
        inner.call(&admitted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_flood_of_one_lets_every_other_through_after_at_most_one_of_its_own() {
        let mut lanes = Lanes::new(2, 2);
        let mut served: VecDeque<Ticket> = VecDeque::new();
        for ticket in 0..1_000 {
            served.extend(lanes.enter("flood", ticket));
        }

        assert_eq!(served, [0, 1], "the gate is full");
        for (user, ticket) in [("ann", 5_000), ("bob", 6_000), ("cid", 7_000)] {
            assert!(lanes.enter(user, ticket).is_empty());
        }

        let owner = |ticket: Ticket| match ticket {
            5_000 => "ann",
            6_000 => "bob",
            7_000 => "cid",
            _ => "flood",
        };

        let mut order = Vec::new();
        for _ in 0..8 {
            let done = served.pop_front().unwrap();
            for ticket in lanes.leave(&owner(done), done) {
                order.push(owner(ticket));
                served.push_back(ticket);
            }
        }

        let waited = |user| order.iter().position(|o| *o == user).unwrap();
        assert!(
            waited("ann") < 4 && waited("bob") < 4 && waited("cid") < 4,
            "{order:?}"
        );
        assert_eq!(
            order.iter().filter(|o| **o == "flood").count(),
            5,
            "and the flood goes on"
        );
    }

    proptest! {
        #[test]
        fn never_too_many_at_a_time_and_nobody_waits_for_nothing(steps in prop::collection::vec((0u8..5, 0u8..3), 1..300)) {
            let total = 3;
            let each = 2;
            let mut lanes = Lanes::new(total, each);
            let mut served: Vec<(u8, Ticket)> = Vec::new();
            let mut waiting: Vec<(u8, Ticket)> = Vec::new();

            for (ticket, (user, what)) in (0..).zip(steps) {
                let admitted = match what {
                    0 if !served.is_empty() => {
                        let (user, gone) = served.remove(usize::from(user) % served.len());
                        lanes.leave(&user, gone)
                    }
                    1 if !waiting.is_empty() => {
                        let (user, gone) = waiting.remove(usize::from(user) % waiting.len());
                        lanes.leave(&user, gone)
                    }
                    _ => {
                        waiting.push((user, ticket));
                        lanes.enter(user, ticket)
                    }
                };

                for ticket in admitted {
                    let place = waiting.iter().position(|(_, t)| *t == ticket).unwrap();
                    served.push(waiting.remove(place));
                }

                let of = |user| served.iter().filter(|(u, _)| *u == user).count();
                prop_assert!(served.len() <= total && (0..5).all(|user| of(user) <= each));

                let could = waiting.iter().any(|(user, _)| of(*user) < each);
                prop_assert!(served.len() == total || !could, "{served:?} served, {waiting:?} wait");
            }
        }
    }

    #[tokio::test]
    async fn a_cancelled_wait_gives_its_place_back() {
        let gate = Gate::new(1, 1);
        let user = Uuid::from_u128;
        let first = gate.enter(user(1)).await;
        let mut second = Box::pin(gate.enter(user(2)));
        assert!(futures_pending(second.as_mut()).await);
        drop(second);
        drop(first);
        let _third = gate.enter(user(3)).await;
    }

    async fn futures_pending<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        let mut future = Some(future);
        std::future::poll_fn(|cx| {
            let pending = future
                .take()
                .is_some_and(|future| future.poll(cx).is_pending());
            std::task::Poll::Ready(pending)
        })
        .await
    }
}
