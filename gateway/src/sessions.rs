//! The open sessions of workers: found by their number, and bounded for each identity.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::door::OF_A_WORKER;
use link::error::NOT_NOW;
use quinn::Connection;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::ELSEWHERE;

/// A worker's connection, as it is found by its number.
#[derive(Clone)]
pub(crate) struct OpenSession {
    pub(crate) connection: Connection,
    /// Notified once the worker has all that the master has said to it.
    pub(crate) said: Arc<Notify>,
    /// Whether the master has answered on its control stream.
    answered: bool,
}

/// The table of all open sessions. Cloning gives another handle.
#[derive(Clone, Default)]
pub(crate) struct WorkerSessions(Arc<Mutex<SessionTable>>);

#[derive(Default)]
struct SessionTable {
    last: u64,
    open: BTreeMap<u64, OpenSession>,
    of: BTreeMap<Uuid, BTreeSet<u64>>,
}

/// The entry of a session, until it is dropped.
pub(crate) struct SessionPlace {
    sessions: WorkerSessions,
    pub(crate) number: u64,
    peer: Uuid,
}

impl WorkerSessions {
    fn table(&self) -> MutexGuard<'_, SessionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a worker's connection. If it has [`OF_A_WORKER`] already, the oldest of those is closed that the master has not
    /// answered, since anybody may open them who has ever had its certificate; if it has answered all, the oldest.
    pub(crate) fn enter(
        &self,
        peer: Uuid,
        connection: &Connection,
        said: &Arc<Notify>,
    ) -> SessionPlace {
        let mut table = self.table();
        table.last += 1;
        let number = table.last;
        let oldest = table.oldest_beyond(&peer);
        if let Some(session) = oldest.and_then(|oldest| table.take(&peer, oldest)) {
            let why = b"too many connections of one identity";
            session.connection.close(NOT_NOW, why);
        }
        table.of.entry(peer).or_default().insert(number);
        let open = OpenSession {
            connection: connection.clone(),
            said: said.clone(),
            answered: false,
        };
        table.open.insert(number, open);
        SessionPlace {
            sessions: self.clone(),
            number,
            peer,
        }
    }

    /// Notes that the master has answered the session of this number.
    pub(crate) fn answered(&self, number: u64) {
        if let Some(open) = self.table().open.get_mut(&number) {
            open.answered = true;
        }
    }

    /// The session of this number, if it is open.
    pub(crate) fn find(&self, number: u64) -> Option<OpenSession> {
        self.table().open.get(&number).cloned()
    }

    /// Ends every session, so that the workers go elsewhere.
    pub(crate) fn send_away(&self, why: &str) {
        for session in self.table().open.values() {
            session.connection.close(ELSEWHERE, why.as_bytes());
        }
    }
}

impl SessionTable {
    /// The session that makes room for another one of this worker, if one has to.
    fn oldest_beyond(&self, peer: &Uuid) -> Option<u64> {
        let of_it = self
            .of
            .get(peer)
            .filter(|of_it| of_it.len() >= OF_A_WORKER)?;
        let unanswered = |number: &&u64| self.open.get(*number).is_some_and(|open| !open.answered);
        of_it
            .iter()
            .find(unanswered)
            .or_else(|| of_it.first())
            .copied()
    }

    /// Takes a session out.
    fn take(&mut self, peer: &Uuid, number: u64) -> Option<OpenSession> {
        if let Some(of_it) = self.of.get_mut(peer) {
            of_it.remove(&number);
            if of_it.is_empty() {
                self.of.remove(peer);
            }
        }
        self.open.remove(&number)
    }
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        self.sessions.table().take(&self.peer, self.number);
    }
}
