//! The connections that are there now, by whose they are: so that they can be counted, and closed
//! at once when somebody is let in no more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use quinn::{Connection, VarInt};
use uuid::Uuid;

/// So many hold what marks a connection as busy where it is asked nothing.
const IDLE: usize = 3;

/// What happens when somebody has too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// The oldest of those that ask nothing is closed; where each asks something the new one is
    /// turned away.
    OldestIdleGoes,
    /// The oldest is closed.
    OldestGoes,
}

#[derive(Debug, Default)]
struct OpenSessions {
    next: u64,
    by: BTreeMap<Uuid, BTreeMap<u64, OneSession>>,
}

#[derive(Debug)]
struct OneSession {
    connection: Connection,
    /// Whether it has turned out to be let in: only then does it count against others of the same
    /// identity.
    admitted: bool,
    /// Held by each request that is being answered.
    busy: Busy,
}

/// Held for as long as a connection is asked something.
pub(crate) type Busy = Arc<()>;

/// All of them. Cloning gives another handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveSessions(Arc<Mutex<OpenSessions>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Present {
    live: LiveSessions,
    id: Uuid,
    number: u64,
    busy: Busy,
}

impl LiveSessions {
    fn open(&self) -> std::sync::MutexGuard<'_, OpenSessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection whose certificate names this identity.
    pub(crate) fn enter(&self, id: Uuid, connection: &Connection) -> Present {
        let busy = Busy::default();
        let mut open = self.open();
        let number = open.next;

        open.next += 1;
        open.by.entry(id).or_default().insert(
            number,
            OneSession {
                connection: connection.clone(),
                admitted: false,
                busy: busy.clone(),
            },
        );

        Present {
            live: self.clone(),
            id,
            number,
            busy,
        }
    }

    /// Closes every connection of an identity, and says how many those were.
    pub(crate) fn close(&self, id: Uuid, why: &str) -> usize {
        let open = self.open();
        let connections = open.by.get(&id).into_iter().flat_map(BTreeMap::values);
        connections
            .map(|one| {
                one.connection
                    .close(link::error::NOT_LET_IN, why.as_bytes());
            })
            .count()
    }

    /// How many connections an identity has.
    pub(crate) fn count(&self, id: Uuid) -> u32 {
        let open = self.open();
        let admitted = open
            .by
            .get(&id)
            .into_iter()
            .flat_map(BTreeMap::values)
            .filter(|one| one.admitted);
        u32::try_from(admitted.count()).unwrap_or(u32::MAX)
    }
}

impl Present {
    /// What each request of this connection is to hold while it is answered.
    pub(crate) fn busy(&self) -> Busy {
        self.busy.clone()
    }

    /// The connection is let in, unless that makes too many of its identity: then it, or the
    /// oldest, has to go.
    pub(crate) fn admit(&self, most: usize, beyond: Beyond) -> bool {
        let mut open = self.live.open();
        let Some(of_it) = open.by.get_mut(&self.id) else {
            return false;
        };
        let admitted = || of_it.iter().filter(|(_, one)| one.admitted);

        if admitted().count() >= most {
            let idle = |one: &OneSession| Arc::strong_count(&one.busy) <= IDLE;
            let (goes, why): (_, &[u8]) = match beyond {
                Beyond::OldestIdleGoes => {
                    let goes = admitted()
                        .find(|(_, one)| idle(one))
                        .map(|(number, _)| *number);
                    if goes.is_none() {
                        return false;
                    }
                    (
                        goes,
                        b"too many connections of one identity, and this one asked nothing",
                    )
                }
                Beyond::OldestGoes => (
                    admitted().next().map(|(number, _)| *number),
                    b"too many connections of one identity",
                ),
            };

            if let Some(one) = goes.and_then(|number| of_it.get_mut(&number)) {
                one.connection.close(VarInt::from_u32(2), why);
                // It counts no more, however long its end takes.
                one.admitted = false;
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
