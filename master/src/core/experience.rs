//! What the scheduler has learned of hosts, kept over restarts of the master. What it means is the
//! scheduler's affair.

use common::{Span, Time};
use scheduler::{Event, Experience};

use super::Core;
use crate::store::StoreError;

/// Under which key the store has it.
const KEY: &str = "experience";
/// So often it is written at most: what was learned within the last minute may be lost with a
/// crash.
const WRITE_EVERY: Span = Span::from_secs(60);

/// When it was last written, and whether there is a reason to write it again.
#[derive(Debug, Default)]
pub(super) struct Notebook {
    written: Time,
    due: bool,
}

impl Core {
    /// Gives the scheduler what earlier days have taught. What another version wrote and this one
    /// cannot read is left out: it is learned anew.
    pub(super) fn recall_experience(&mut self) -> Result<(), StoreError> {
        let Some(bytes) = self.store.note(KEY)? else {
            return Ok(());
        };
        match common::wire::decode::<Experience>(&bytes) {
            Ok(experience) => self.step(Event::Learned(Box::new(experience))),
            Err(error) => {
                tracing::warn!(%error, "what was learned of hosts was written by another version, and is learned anew");
                Ok(())
            }
        }
    }

    /// A host has gone: something was learned.
    pub(super) fn experience_gained(&mut self) {
        self.notebook.due = true;
    }

    /// Writes it down if there is a reason and it is not too soon.
    pub(crate) fn write_experience_if_due(&mut self) -> Result<(), StoreError> {
        let soon = self.now.since(self.notebook.written) < WRITE_EVERY;
        if self.notebook.due && !soon {
            self.write_experience()
        } else {
            Ok(())
        }
    }

    /// Writes it down.
    pub(crate) fn write_experience(&mut self) -> Result<(), StoreError> {
        self.notebook = Notebook {
            written: self.now,
            due: false,
        };
        match postcard::to_stdvec(&self.scheduler.experience()) {
            Ok(bytes) => self.store.set_meta(KEY, &bytes),
            Err(error) => {
                tracing::warn!(%error, "what was learned of hosts cannot be written");
                Ok(())
            }
        }
    }
}

impl Core {
    /// Writes down that the master is up.
    pub(crate) fn note_up(&mut self) -> Result<(), StoreError> {
        let now = self.now.0.to_le_bytes();
        self.store.set_meta("up", &now)
    }
}

/// What [`Core::note_up`] has written.
pub(crate) fn note_of(bytes: Vec<u8>) -> Option<Time> {
    bytes
        .try_into()
        .ok()
        .map(|bytes| Time(u64::from_le_bytes(bytes)))
}
