//! The connections that are there now, by whose they are: so that they can be counted, and closed at once when somebody
//! is let in no more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use quinn::{Connection, VarInt};
use uuid::Uuid;

/// What happens when somebody has too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// The new one is turned away.
    NewGoes,
    /// The oldest is closed.
    OldestGoes,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by: BTreeMap<Uuid, BTreeMap<u64, One>>,
}

#[derive(Debug)]
struct One {
    connection: Connection,
    /// Whether it has turned out to be let in: only then does it count against others of the same identity.
    admitted: bool,
}

/// All of them. Cloning gives another handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live(Arc<Mutex<Open>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Present {
    live: Live,
    id: Uuid,
    number: u64,
}

impl Live {
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection whose certificate names this identity.
    pub(crate) fn enter(&self, id: Uuid, connection: &Connection) -> Present {
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.by.entry(id).or_default().insert(number, One { connection: connection.clone(), admitted: false });
        Present { live: self.clone(), id, number }
    }

    /// Closes every connection of an identity, and says how many those were.
    pub(crate) fn close(&self, id: Uuid, why: &str) -> usize {
        let open = self.open();
        let connections = open.by.get(&id).into_iter().flat_map(BTreeMap::values);
        connections.map(|one| one.connection.close(link::error::NOT_LET_IN, why.as_bytes())).count()
    }

    /// How many connections an identity has.
    pub(crate) fn count(&self, id: Uuid) -> u32 {
        let open = self.open();
        let admitted = open.by.get(&id).into_iter().flat_map(BTreeMap::values).filter(|one| one.admitted);
        u32::try_from(admitted.count()).unwrap_or(u32::MAX)
    }
}

impl Present {
    /// The connection is let in, unless that makes too many of its identity: then it, or the oldest, has to go.
    pub(crate) fn admit(&self, most: usize, beyond: Beyond) -> bool {
        let mut open = self.live.open();
        let Some(of_it) = open.by.get_mut(&self.id) else { return false };
        let mut admitted = of_it.values().filter(|one| one.admitted);
        if admitted.clone().count() >= most {
            match beyond {
                Beyond::NewGoes => return false,
                Beyond::OldestGoes => {
                    if let Some(oldest) = admitted.next() {
                        oldest.connection.close(VarInt::from_u32(2), b"too many connections of one identity");
                    }
                }
            }
        }
        if let Some(one) = of_it.get_mut(&self.number) {
            one.admitted = true;
        }
        true
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut open = self.live.open();
        if let Some(of_it) = open.by.get_mut(&self.id) {
            of_it.remove(&self.number);
            if of_it.is_empty() {
                open.by.remove(&self.id);
            }
        }
    }
}
