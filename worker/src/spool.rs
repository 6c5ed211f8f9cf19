//! The spool: completions on their way to the master, durable before they are first sent, gone once
//! they are acknowledged.
//!
//! It is an append-only log of records, each with its length and checksum; a torn tail is ignored,
//! and a damaged record before valid ones costs only itself. The first one says how the others are
//! laid out: those of another version of the program are put aside.
//! The blobs that a record names were durable before the record ([`blobs`]). Many completions share
//! one write and one sync ([`writer`]). Acknowledgements are not recorded: the master discards a
//! completion that is delivered twice after a crash.

pub(crate) mod blobs;
pub(crate) mod medium;
pub(crate) mod shelf;
pub(crate) mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use common::content::BlobHash;
use common::wire::worker::Delivery;
use common::{AttemptId, Completion, Outcome, Span, Time};
use link::{BlobStore, Contents};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use blobs::Blobs;
use medium::{LOG, LogFile, Medium};

use crate::error::WorkerError;

/// The first record, with the version of the layout of the others: each change of that layout raises it. Logs from
/// before there was such a record are of version 1.
const MARK: &[u8] = b"deskgrid spool 1";
/// The size of a record's head in bytes: its length and its checksum.
const HEAD: usize = 4 + 8;
/// The longest record, in bytes; a longer one is not the spool's.
const MAX_RECORD: usize = common::wire::MAX_FRAME;
/// An empty log is cut once it is longer than this, in bytes.
const CUT_ABOVE: u64 = 64 * 1024;
/// A log longer than this, in bytes, is rewritten once it is mostly of no use.
const COMPACT_ABOVE: u64 = 1024 * 1024;

/// A moment that is distinct from those of other runs of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMoment {
    /// The run of the host, or that of the worker where the system does not report it.
    pub boot: Option<Uuid>,
    /// The time since that run began.
    pub at: Time,
}

impl HostMoment {
    /// Returns the time since `earlier`; zero if that cannot be known.
    fn since(self, earlier: HostMoment) -> Span {
        if self.boot.is_some() && self.boot == earlier.boot {
            self.at.since(earlier.at)
        } else {
            Span::ZERO
        }
    }
}

#[derive(Serialize, Deserialize)]
struct SpoolRecord {
    ended: HostMoment,
    completion: Completion,
}

#[derive(Debug)]
struct SpoolEntry {
    offset: u64,
    length: u32,
    blobs: Box<[BlobHash]>,
}

/// The log and the index of its live records.
#[derive(Debug)]
pub(crate) struct Spool<S = BlobStore> {
    log: Box<dyn Medium>,
    length: u64,
    live: BTreeMap<AttemptId, SpoolEntry>,
    live_bytes: u64,
    blobs: Arc<Blobs<S>>,
}

impl Spool {
    /// Opens the log in `dir` and the blobs beside it, or begins them. Removes blobs that no record names.
    pub(crate) fn open(dir: &Path) -> Result<Self, WorkerError> {
        put_aside_unknown(dir).map_err(WorkerError::Spool)?;
        let blobs = Arc::new(Blobs::open(&dir.join("blobs"))?);
        let log = LogFile::open(dir).map_err(WorkerError::Spool)?;
        Self::on(Box::new(log), blobs).map_err(WorkerError::Spool)
    }

    /// Returns the store of its blobs.
    pub(crate) fn blobs(&self) -> Arc<Blobs> {
        Arc::clone(&self.blobs)
    }
}

impl<S: Contents> Spool<S> {
    /// As [`Spool::open`], on any medium for the log and any store for the blobs.
    pub(crate) fn on(log: Box<dyn Medium>, blobs: Arc<Blobs<S>>) -> io::Result<Self> {
        let mut spool = Self {
            log,
            length: 0,
            live: BTreeMap::new(),
            live_bytes: 0,
            blobs,
        };
        spool.replay()?;
        spool.rewrite()?;
        spool.blobs.sweep()?;
        Ok(spool)
    }

    /// Iterates over the completions that wait for their acknowledgement.
    pub(crate) fn ids(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.live.keys().copied()
    }

    /// Makes completions durable, each with the moment at which it ended: one write, one sync.
    /// After an error none of them is in the log.
    pub(crate) fn append<'a>(
        &mut self,
        new: impl Iterator<Item = (&'a Completion, HostMoment)>,
    ) -> io::Result<()> {
        let mut bytes = if self.length == 0 { mark() } else { Vec::new() };
        let mut entries = Vec::new();
        for (completion, ended) in new {
            let start = bytes.len();
            bytes = encode(completion, ended, bytes)?;

            let offset = self.length + start as u64;
            let length = (bytes.len() - start) as u32;
            let blobs = completion.blobs().map(|blob| blob.hash).collect();
            entries.push((
                completion.attempt,
                SpoolEntry {
                    offset,
                    length,
                    blobs,
                },
            ));
        }

        let written = self
            .log
            .write_at(&bytes, self.length)
            .and_then(|()| self.log.sync());
        if let Err(error) = written {
            let _ = self.log.cut(self.length);
            return Err(error);
        }

        self.length += bytes.len() as u64;
        for (attempt, entry) in entries {
            self.insert(attempt, entry);
        }

        Ok(())
    }

    /// Drops completions that are durable at the master, and their blobs.
    pub(crate) fn forget(&mut self, attempts: &[AttemptId]) -> io::Result<()> {
        for attempt in attempts {
            if let Some(entry) = self.live.remove(attempt) {
                self.live_bytes -= u64::from(entry.length);
                self.blobs.release(&entry.blobs);
            }
        }

        if self.live.is_empty() && self.length > CUT_ABOVE {
            self.log.cut(0)?;
            self.length = 0;
        } else if self.length > COMPACT_ABOVE && self.live_bytes < self.length / 4 {
            match self.compact() {
                // There is no space for another log now, and this one is still whole.
                Err(error) if link::is_full(&error) => {
                    tracing::debug!(%error, "the log of finished results is not shortened yet");
                }
                done => done?,
            }
        }

        Ok(())
    }

    /// Returns those of the completions that are here, to be sent at `now`. In place of one that is
    /// damaged goes one that says that it is lost.
    pub(crate) fn read(&self, attempts: &[AttemptId], now: HostMoment) -> Vec<Delivery> {
        let entries = attempts.iter().filter_map(|attempt| {
            let entry = self.live.get(attempt)?;
            Some((*attempt, entry))
        });

        entries
            .map(|(attempt, entry)| match self.record_of(entry) {
                Ok(record) => Delivery {
                    ago: now.since(record.ended),
                    completion: record.completion,
                },
                Err(error) => {
                    tracing::error!(%attempt, %error, "a result is lost: see this host's disk");
                    Delivery {
                        ago: Span::ZERO,
                        completion: lost(attempt, &error),
                    }
                }
            })
            .collect()
    }

    fn record_of(&self, entry: &SpoolEntry) -> io::Result<SpoolRecord> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its record is damaged");
        let (record, _) = first_record(&self.bytes_of(entry)?).ok_or_else(damaged)?;
        Ok(record)
    }

    fn bytes_of(&self, entry: &SpoolEntry) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; entry.length as usize];
        self.log.read_at(&mut bytes, entry.offset)?;
        Ok(bytes)
    }

    fn insert(&mut self, attempt: AttemptId, entry: SpoolEntry) {
        self.live_bytes += u64::from(entry.length);
        if let Some(old) = self.live.insert(attempt, entry) {
            self.live_bytes -= u64::from(old.length);
            self.blobs.release(&old.blobs);
        }
    }

    /// Reads the log. What is not whole at its end was never acknowledged to anybody, and is cut
    /// off; a damaged record before valid ones is passed over.
    fn replay(&mut self) -> io::Result<()> {
        let bytes = self.log.read()?;
        if first_payload(&bytes) == Some(MARK) {
            self.length = (HEAD + MARK.len()) as u64;
        }

        loop {
            let rest = &bytes[self.length as usize..];
            if let Some((record, length)) = first_record(rest) {
                self.take_in(&record.completion, length as u32);
                self.length += length as u64;
            } else if let Some(damaged) = damaged_before_next(rest) {
                tracing::error!(
                    offset = self.length,
                    bytes = damaged,
                    "finished results are damaged and lost: see this host's disk"
                );
                self.length += damaged as u64;
            } else {
                return self.log.cut(self.length);
            }
        }
    }

    /// Notes the record that lies at the end of what was read, and is this long.
    fn take_in(&mut self, completion: &Completion, length: u32) {
        let blobs: Vec<_> = completion.blobs().collect();
        // A blob is removed only after its completion was acknowledged.
        if !blobs.iter().all(|blob| self.blobs.has(blob)) {
            return;
        }

        let blobs: Box<[BlobHash]> = blobs.into_iter().map(|blob| blob.hash).collect();
        self.blobs.hold(&blobs);
        let entry = SpoolEntry {
            offset: self.length,
            length,
            blobs,
        };
        self.insert(completion.attempt, entry);
    }

    /// Makes the log durable. An earlier run may have written it without a sync, or with a failed
    /// one: then it lies in the system's memory, can be read, and might never reach the disk.
    fn rewrite(&mut self) -> io::Result<()> {
        if self.length == 0 {
            return Ok(());
        }
        match self.compact() {
            // There is no space for another log. This one is as durable as it can be made.
            Err(error) if link::is_full(&error) => self.log.sync(),
            done => done,
        }
    }

    /// Writes the live records into a new log, which replaces the old one.
    fn compact(&mut self) -> io::Result<()> {
        let none = self.live.is_empty();
        let mut bytes = if none { Vec::new() } else { mark() };
        let mut offsets = Vec::with_capacity(self.live.len());
        for entry in self.live.values() {
            offsets.push(bytes.len() as u64);
            bytes.extend_from_slice(&self.bytes_of(entry)?);
        }
        self.log.replace(&bytes)?;
        for (entry, offset) in self.live.values_mut().zip(offsets) {
            entry.offset = offset;
        }
        self.length = bytes.len() as u64;
        Ok(())
    }

    /// Releases the blobs of a completion that never came into the log.
    pub(crate) fn discard(&self, completion: &Completion) {
        let hashes: Vec<BlobHash> = completion.blobs().map(|blob| blob.hash).collect();
        self.blobs.release(&hashes);
    }
}

fn checksum(payload: &[u8]) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(payload).as_bytes();
    [a, b, c, d, e, f, g, h]
}

/// Appends a record to `bytes`.
fn encode(completion: &Completion, ended: HostMoment, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    /// As [`SpoolRecord`], without owning the completion.
    #[derive(Serialize)]
    struct Borrowed<'a> {
        ended: HostMoment,
        completion: &'a Completion,
    }

    let start = bytes.len();
    bytes.extend_from_slice(&[0; HEAD]);

    let bytes =
        postcard::to_extend(&Borrowed { ended, completion }, bytes).map_err(io::Error::other)?;
    Ok(seal(bytes, start))
}

/// Makes the first record of a log.
fn mark() -> Vec<u8> {
    seal([&[0; HEAD][..], MARK].concat(), 0)
}

/// Fills in the head of the record that goes from `start` to the end of `bytes`.
fn seal(mut bytes: Vec<u8>, start: usize) -> Vec<u8> {
    let payload = &bytes[start + HEAD..];
    let length = (payload.len() as u32).to_le_bytes();
    let sum = checksum(payload);

    bytes[start..start + 4].copy_from_slice(&length);
    bytes[start + 4..start + HEAD].copy_from_slice(&sum);
    bytes
}

/// Decodes the record at the beginning of `bytes`, and returns it with its length.
fn first_record(bytes: &[u8]) -> Option<(SpoolRecord, usize)> {
    let payload = first_payload(bytes)?;
    let record = postcard::from_bytes(payload).ok()?;
    Some((record, HEAD + payload.len()))
}

/// Returns the payload of the record at the beginning of `bytes`, if it is whole.
fn first_payload(bytes: &[u8]) -> Option<&[u8]> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    if length > MAX_RECORD {
        return None;
    }
    let payload = bytes.get(HEAD..HEAD + length)?;
    (bytes.get(4..HEAD)? == checksum(payload)).then_some(payload)
}

/// Returns the length of the damaged records at the beginning of `bytes`, if a valid one follows
/// them. Only their own lengths lead there: a task could write what looks like a record into its
/// output.
fn damaged_before_next(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
        // Lost bytes read as zeros.
        if length == 0 || length > rest.len() {
            return None;
        }
        at += HEAD + length;
        if first_record(bytes.get(at..)?).is_some() {
            return Some(at);
        }
    }
}

/// Makes what is delivered in place of a completion that cannot be read.
fn lost(attempt: AttemptId, error: &io::Error) -> Completion {
    let why = format!("its record in the worker's spool: {error}");
    Completion::bare(attempt, Outcome::ResultLost(why))
}

/// Puts `dir` aside if its log begins with a whole record that this program cannot read: another version of it has left
/// results there.
fn put_aside_unknown(dir: &Path) -> io::Result<()> {
    // One that cannot be read at all is an error of whoever opens it.
    let mut log = Vec::new();
    let longest = (HEAD + MAX_RECORD) as u64;
    let read = File::open(dir.join(LOG)).and_then(|file| file.take(longest).read_to_end(&mut log));
    if read.is_err() {
        return Ok(());
    }

    let first = first_payload(&log);
    if first.is_none_or(|first| first == MARK || first_record(&log).is_some()) {
        return Ok(());
    }

    let mut places = (1..).map(|number: u32| dir.with_extension(format!("unknown-{number}")));
    let free = places.find(|place| !place.exists());
    let aside = free.ok_or(io::ErrorKind::AlreadyExists)?;
    std::fs::rename(dir, &aside)?;

    tracing::error!(
        dir = %dir.display(),
        aside = %aside.display(),
        "another version of the program has kept finished results that this one cannot read: they were put aside. To have \
         them delivered, stop the worker, exchange the two directories, and run that version"
    );
    Ok(())
}

#[cfg(test)]
mod tests;
