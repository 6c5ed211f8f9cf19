//! The inits that have served an attempt and can serve another one: kept for a moment, since to make
//! one costs more than most short commands.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::net::UnixStream;

use super::init::InitSpec;

/// The idle inits of a `Launcher`. An init ends when its socket is closed.
#[derive(Debug, Default)]
pub(super) struct IdleInits(Mutex<Resting>);

#[derive(Debug, Default)]
struct Resting {
    inits: Vec<IdleInit>,
    /// Whether a task removes those whose time is over.
    swept: bool,
    closed: bool,
}

#[derive(Debug)]
struct IdleInit {
    spec: InitSpec,
    control: UnixStream,
    until: Instant,
}

impl IdleInits {
    /// Takes one with this [`InitSpec`]. Where there is none, the one that has been idle for longest
    /// makes room: so there are never more inits than there were attempts at a time.
    pub(super) fn take(&self, spec: &InitSpec) -> Option<UnixStream> {
        let mut shelf = self.lock();
        shelf.expire();
        let at = shelf.inits.iter().rposition(|idle| idle.spec == *spec);
        let given_up = at.is_none() && !shelf.inits.is_empty();
        if given_up {
            shelf.inits.remove(0);
        }
        at.map(|at| shelf.inits.remove(at).control)
    }

    /// Keeps one until this time.
    pub(super) fn put(self: &Arc<Self>, spec: InitSpec, control: UnixStream, until: Instant) {
        let mut shelf = self.lock();
        if shelf.closed {
            return;
        }
        shelf.inits.push(IdleInit {
            spec,
            control,
            until,
        });
        if !std::mem::replace(&mut shelf.swept, true) {
            tokio::spawn(Arc::clone(self).sweep());
        }
    }

    /// Ends all of them, and all that would be kept.
    pub(super) fn close(&self) {
        let mut shelf = self.lock();
        shelf.closed = true;
        shelf.inits.clear();
    }

    /// Removes those whose time is over until none is left.
    async fn sweep(self: Arc<Self>) {
        loop {
            let next = {
                let mut shelf = self.lock();
                shelf.expire();
                let next = shelf.inits.iter().map(|idle| idle.until).min();
                shelf.swept = next.is_some();
                next
            };
            match next {
                Some(next) => tokio::time::sleep_until(next.into()).await,
                None => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Resting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resting {
    fn expire(&mut self) {
        let now = Instant::now();
        self.inits.retain(|idle| idle.until > now);
    }
}
