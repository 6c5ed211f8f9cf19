//! Keeps the scheduler's `Experience` of hosts over restarts of the master. Only the scheduler
//! interprets it.

use common::{Span, Time};
use scheduler::{Event, Experience};

use super::Core;
use crate::store::StoreError;

/// The key of the experience in the store.
const KEY: &str = "experience";
/// The least time between two writes: a crash may lose what was learned within the last minute.
const WRITE_EVERY: Span = Span::from_secs(60);

/// The time of the last write, and whether another one is due.
#[derive(Debug, Default)]
pub(super) struct Notebook {
    written: Time,
    due: bool,
}

impl Core {
    /// Gives the scheduler the stored `Experience`. A record of another version that cannot be
    /// decoded is skipped, and learned anew.
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

    /// Notes that there is new experience to write.
    pub(super) fn experience_gained(&mut self) {
        self.notebook.due = true;
    }

    /// Writes the experience if it is due and the last write is at least `WRITE_EVERY` ago.
    pub(crate) fn write_experience_if_due(&mut self) -> Result<(), StoreError> {
        let soon = self.now.since(self.notebook.written) < WRITE_EVERY;
        if self.notebook.due && !soon {
            self.write_experience()
        } else {
            Ok(())
        }
    }

    /// Writes the experience to the store.
    pub(super) fn write_experience(&mut self) -> Result<(), StoreError> {
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
    /// Records the present time as the last at which the master was up.
    pub(super) fn note_up(&mut self) -> Result<(), StoreError> {
        let now = self.now.0.to_le_bytes();
        self.store.set_meta("up", &now)
    }
}

/// Decodes the time that [`Core::note_up`] has written.
pub(crate) fn note_of(bytes: Vec<u8>) -> Option<Time> {
    bytes
        .try_into()
        .ok()
        .map(|bytes| Time(u64::from_le_bytes(bytes)))
}
