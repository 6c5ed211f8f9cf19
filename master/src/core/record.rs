//! Records every event that the scheduler is given, and its effects, so that the run can be
//! replayed. It records only if the configuration names a file; the file is not synced, and an
//! error ends the recording, not the master.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::journal::{BadEntry, PREFIX};
use common::{Incarnation, Time};
use scheduler::record::{self, MAGIC};
use scheduler::{Effect, Event, Settings};

/// The bytes that collect before they are written.
const ROOM: usize = 256 * 1024;

/// A recording in progress.
pub(super) struct Recorder {
    path: PathBuf,
    /// The file; `None` once writing has failed.
    file: Option<File>,
    buffer: Vec<u8>,
}

impl Recorder {
    /// Opens or creates the file, and continues behind its last whole entry.
    pub(super) fn open(
        path: &Path,
        settings: &Settings,
        incarnation: Incarnation,
    ) -> io::Result<Self> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let end = whole_length(&file)?;
        file.set_len(end)?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(end))?;

        let mut recorder = Self {
            path: path.to_owned(),
            file: Some(file),
            buffer: Vec::new(),
        };
        if end == 0 {
            recorder.buffer.extend_from_slice(MAGIC);
        }

        recorder.note(|out| record::begin(settings, incarnation, out));
        Ok(recorder)
    }

    /// Records an event; [`Recorder::effects`] follows.
    pub(super) fn event(&mut self, at: Time, event: &Event) {
        self.note(|out| record::event(at, event, out));
    }

    /// Records the effects of the event.
    pub(super) fn effects(&mut self, effects: &[Effect]) {
        self.note(|out| record::effects(effects, out));
        if self.buffer.len() >= ROOM {
            self.flush();
        }
    }

    fn note(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), BadEntry>) {
        if self.file.is_some()
            && let Err(error) = write(&mut self.buffer)
        {
            self.give_up(&error);
        }
    }

    /// Writes the collected bytes to the file.
    pub(super) fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write_all(&self.buffer) {
            self.give_up(&error);
        }
        self.buffer.clear();
    }

    /// Ends the recording: one with a gap would be worse than one that ends.
    fn give_up(&mut self, error: &dyn std::fmt::Display) {
        tracing::error!(path = %self.path.display(), %error, "recording ends: it cannot be written");
        self.file = None;
    }
}

/// The length of the file in bytes up to the end of its last whole entry.
fn whole_length(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(0);
    }

    let mut magic = [0; MAGIC.len()];
    if file.read_exact_at(&mut magic, 0).is_err() || magic != *MAGIC {
        return Err(io::Error::other(
            "it is there already, and is not a recording of this version: move it away, or name another file",
        ));
    }

    let mut at = MAGIC.len() as u64;
    loop {
        let mut prefix = [0; PREFIX];
        if at + PREFIX as u64 > length {
            return Ok(at);
        }
        file.read_exact_at(&mut prefix, at)?;
        let next = at + PREFIX as u64 + u64::from(u32::from_le_bytes(prefix));
        if next > length {
            return Ok(at);
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_goes_on_behind_its_last_whole_entry() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        let run = |incarnation| {
            let mut recorder =
                Recorder::open(&path, &Settings::default(), Incarnation(incarnation)).unwrap();
            for n in 0..5 {
                recorder.event(Time(n), &Event::Tick);
                recorder.effects(&[]);
            }
            recorder.flush();
        };
        run(1);

        let whole = std::fs::metadata(&path).unwrap().len();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(whole - 1)
            .unwrap();

        run(2);
        let runs = record::read(&std::fs::read(&path).unwrap()).unwrap();
        let shape: Vec<_> = runs
            .iter()
            .map(|run| (run.incarnation.0, run.steps.len()))
            .collect();
        assert_eq!(shape, [(1, 4), (2, 5)]);
    }

    #[test]
    fn a_file_that_is_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("letter");
        std::fs::write(&path, "Dear reader, this is no recording.").unwrap();
        let refused = Recorder::open(&path, &Settings::default(), Incarnation(1))
            .err()
            .unwrap();
        assert!(refused.to_string().contains("not a recording"), "{refused}");
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "Dear reader, this is no recording."
        );
    }
}
