//! Requests of the master to its own core: content, periodic notes, and the end.

use std::collections::BTreeSet;

use common::content::BlobHash;
use common::{BlobRef, Span, Time};

use super::{Ask, CoreReply};
use crate::core::{Core, OldBlob};
use crate::numbers::GridNumbers;
use crate::store::{ObjectName, StoreResult};

/// A request about the master's upkeep.
#[derive(Debug, Clone)]
pub enum UpkeepAsk {
    /// Nothing. The reply shows that the core lives and can commit. Gives `Done`.
    Ping,
    /// The incarnation and the time. Gives `Present`.
    Present,
    /// The grid in numbers, as the metrics show it. Gives `Numbers`.
    Numbers,
    /// A user has uploaded this content. Gives `Done`.
    ContentCame(String, BlobRef),
    /// The bytes that a user has uploaded and that no job of that user needs. Gives `Count`.
    UnusedOf(String),
    /// Removes the blobs of these that no job needs. Each comes with its last time of use; one that
    /// was used since stays. Gives `Count`, in bytes.
    Sweep(Vec<OldBlob>),
    /// This content was uploaded to the bucket. The reply says whether it counts: an upload that began
    /// too long ago does not. Gives `Whether`.
    ContentStored {
        /// The content.
        blob: BlobRef,
        /// The number in its object's name.
        generation: i64,
        /// The time at which the upload began.
        begun: Time,
    },
    /// Somebody counts on content of the bucket. The reply says whether it is there. Gives `Whether`.
    ContentCounts(BlobHash),
    /// This object of the bucket is missing or damaged: it does not count any more. Gives `Done`.
    ContentLost(ObjectName),
    /// The bucket has these objects, which the store does not know: they never will count. Gives `Done`.
    CondemnUnknown(Vec<ObjectName>),
    /// These condemned objects were deleted. Gives `Done`.
    ObjectsDeleted(Vec<ObjectName>),
    /// Forgets uploads of this content, longer ago than this, that no job of the sender needs. Gives `Done`.
    TrimContent(Span, Vec<BlobHash>),
    /// Removes a portion of the jobs that settled long ago; the reply says whether there may be
    /// more. Gives `Whether`.
    Retire,
    /// Stores the scheduler's experience of hosts. Gives `Done`.
    WriteExperience,
    /// Stores the present time as the last at which the master was up. Gives `Done`.
    NoteUp,
    /// Ends the core like `Stop`, since this admin wants another master to have the store. Gives `Done`.
    HandOver(String),
    /// Ends the core once all earlier requests are durable. Gives `Done`.
    Stop,
}

impl From<UpkeepAsk> for Ask {
    fn from(ask: UpkeepAsk) -> Self {
        Ask::Upkeep(ask)
    }
}

impl Core {
    pub(super) fn handle_upkeep(&mut self, ask: UpkeepAsk) -> StoreResult<CoreReply> {
        Ok(match ask {
            UpkeepAsk::Ping => ().into(),
            UpkeepAsk::Present => (self.incarnation, self.now).into(),
            UpkeepAsk::Numbers => self.numbers().into(),
            UpkeepAsk::ContentCame(user, blob) => self.content_came(&user, blob)?.into(),
            UpkeepAsk::UnusedOf(user) => self.unused_of(&user).into(),
            UpkeepAsk::Sweep(old) => self.sweep(&old)?.into(),
            UpkeepAsk::ContentStored {
                blob,
                generation,
                begun,
            } => self.content_stored(blob, generation, begun)?.into(),
            UpkeepAsk::ContentCounts(hash) => self.content_counts(&hash)?.into(),
            UpkeepAsk::ContentLost(name) => self.content_lost(name)?.into(),
            UpkeepAsk::CondemnUnknown(names) => self.condemn_unknown(&names)?.into(),
            UpkeepAsk::ObjectsDeleted(names) => self.store.forget_objects(&names)?.into(),
            UpkeepAsk::TrimContent(grace, old) => self.trim_content_of(grace, &old)?.into(),
            UpkeepAsk::Retire => self.retire()?.into(),
            UpkeepAsk::WriteExperience => self.write_experience()?.into(),
            UpkeepAsk::NoteUp => self.note_up()?.into(),
            UpkeepAsk::HandOver(who) => {
                self.write_experience()?;
                self.note_up()?;
                self.audit(&who, "hand-over", "the store", Ok(""))?;
                self.stopping = true;
                ().into()
            }
            UpkeepAsk::Stop => {
                self.stopping = true;
                ().into()
            }
        })
    }
}

impl Core {
    /// The grid in numbers.
    fn numbers(&self) -> Box<GridNumbers> {
        let mut numbers = Box::default();
        self.count_hosts(&mut numbers);
        self.count_jobs(&mut numbers);
        numbers
    }

    /// Counts the jobs that are not settled, and their tasks, for the metrics.
    fn count_jobs(&self, numbers: &mut GridNumbers) {
        let mut users = BTreeSet::new();
        for (id, job) in &self.jobs {
            users.insert(&job.view.user);
            if let Some(state) = self.scheduler.job_state(*id) {
                *numbers.jobs.entry(state).or_default() += 1;
            }
            if let Some(counts) = self.scheduler.job_counts(*id) {
                numbers.tasks = numbers.tasks + counts;
            }
        }
        numbers.users = users.len() as u64;
    }
}
