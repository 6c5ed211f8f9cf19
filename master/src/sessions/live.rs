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
    by: BTreeMap<Uuid, BTreeMap<u64, Connection>>,
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

    /// Counts a connection in, unless that makes too many of this identity.
    pub(crate) fn enter(&self, id: Uuid, connection: &Connection, most: usize, beyond: Beyond) -> Option<Present> {
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        let of_it = open.by.entry(id).or_default();
        if of_it.len() >= most {
            match beyond {
                Beyond::NewGoes => return None,
                Beyond::OldestGoes => {
                    if let Some((_, oldest)) = of_it.pop_first() {
                        oldest.close(VarInt::from_u32(2), b"too many connections of one identity");
                    }
                }
            }
        }
        of_it.insert(number, connection.clone());
        Some(Present { live: self.clone(), id, number })
    }

    /// Closes every connection of an identity, and says how many those were.
    pub(crate) fn close(&self, id: Uuid, why: &str) -> usize {
        let open = self.open();
        let connections = open.by.get(&id).into_iter().flat_map(BTreeMap::values);
        connections.map(|connection| connection.close(link::error::NOT_LET_IN, why.as_bytes())).count()
    }

    /// How many connections an identity has.
    pub(crate) fn count(&self, id: Uuid) -> u32 {
        self.open().by.get(&id).map_or(0, |connections| u32::try_from(connections.len()).unwrap_or(u32::MAX))
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
