//! Keeps the scheduler's `Experience` of hosts over restarts of the master. Only the scheduler
//! interprets it.

use common::wire::frame::BadFrame;
use common::{Span, Time};
use scheduler::experience::Told;
use scheduler::{Event, Experience};

use super::Core;
use crate::store::StoreResult;

/// The key of the experience in the store.
const KEY: &str = "experience";
/// The key of its last part (`Told`), which masters of version 0.1 neither write nor read.
const TOLD: &str = "experience of partings";
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
    pub(super) fn recall_experience(&mut self) -> StoreResult<()> {
        let Some(bytes) = self.store.note(KEY)? else {
            return Ok(());
        };
        match joined(bytes, self.store.note(TOLD)?) {
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
    pub(crate) fn write_experience_if_due(&mut self) -> StoreResult<()> {
        let soon = self.now.since(self.notebook.written) < WRITE_EVERY;
        if self.notebook.due && !soon {
            self.write_experience()
        } else {
            Ok(())
        }
    }

    /// Writes the experience to the store.
    pub(super) fn write_experience(&mut self) -> StoreResult<()> {
        self.notebook = Notebook {
            written: self.now,
            due: false,
        };
        match parts(&self.scheduler.experience()) {
            Ok((bytes, told)) => {
                self.store.set_meta(KEY, &bytes)?;
                self.store.set_meta(TOLD, &told)
            }
            Err(error) => {
                tracing::warn!(%error, "what was learned of hosts cannot be written");
                Ok(())
            }
        }
    }
}

/// Returns the bytes of the experience without those of `Told` at their end, and those.
fn parts(experience: &Experience) -> Result<(Vec<u8>, Vec<u8>), postcard::Error> {
    let mut bytes = postcard::to_stdvec(experience)?;
    let told = postcard::to_stdvec(&experience.silences.told)?;
    bytes.truncate(bytes.len() - told.len());
    Ok((bytes, told))
}

/// Returns the experience of which these are the [`parts`].
fn joined(mut bytes: Vec<u8>, told: Option<Vec<u8>>) -> Result<Experience, BadFrame> {
    let told = told.map_or_else(|| postcard::to_stdvec(&Told::default()), Ok);
    bytes.extend(told.map_err(BadFrame::Malformed)?);
    common::wire::decode(&bytes)
}

impl Core {
    /// Records the present time as the last at which the master was up.
    pub(super) fn note_up(&mut self) -> StoreResult<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experience_is_read_with_its_partings_and_without_those_that_an_older_master_never_wrote() {
        let mut experience = Experience::default();
        experience.shares.insert("ada".into(), 2.5);
        experience.cpu = (7.0, 5.0);
        let (bytes, told) = parts(&experience).unwrap();
        assert!(!bytes.is_empty() && !told.is_empty());

        assert_eq!(
            joined(bytes.clone(), Some(told.clone())).as_ref(),
            Ok(&experience)
        );
        assert_eq!(joined(bytes.clone(), None).as_ref(), Ok(&experience));
        assert!(joined(bytes, Some(told[1..].to_vec())).is_err());
    }

    /// A store of a master that knew silences alone and together only, each of ten numbers of eight bytes, ends with those.
    #[test]
    fn the_experience_without_its_partings_has_the_layout_of_version_0_1() {
        let (bytes, _) = parts(&Experience::default()).unwrap();
        let prior = |first: usize, gone: f64, back: f64| {
            let mut numbers = [0.0; 10];
            numbers[0] = gone;
            numbers[first..first + 4].fill(back);
            numbers
        };
        let silences = [prior(2, 2.0, 0.125), prior(3, 0.5, 0.5)];
        assert!(bytes.ends_with(&postcard::to_stdvec(&silences).unwrap()));
    }
}
