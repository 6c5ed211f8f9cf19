//! What a master asks of its core by itself: content, what is noted now and then, and its end.

use std::time::SystemTime;

use common::{BlobRef, Span};

use super::{Ask, CoreReply};
use crate::core::Core;
use crate::store::StoreError;

/// Something that a master does by itself.
#[derive(Debug, Clone)]
pub enum UpkeepAsk {
    /// Nothing but to be alive, which it is once the group is durable. Gives `Done`.
    Ping,
    /// The incarnation and the time. Gives `Present`.
    Present,
    /// The numbers of hosts and jobs that the metrics show. Gives `Counts`.
    Counts,
    /// A user has sent this content. Gives `Done`.
    ContentCame(String, BlobRef),
    /// The bytes that a user has sent and no job of that user's needs. Gives `Count`.
    UnusedOf(String),
    /// Removes those of these blobs, each with when somebody last counted on it, that no job needs.
    /// Gives `Count`.
    Sweep(Vec<(BlobRef, SystemTime)>),
    /// Forgets who sent content longer ago than this, if no job of the sender needs it. Gives
    /// `Done`.
    TrimContent(Span),
    /// Removes jobs that were settled long ago; whether there may be more. Gives `Whether`.
    Retire,
    /// Writes down what was learned. Gives `Done`.
    WriteExperience,
    /// Writes down that the master is up. Gives `Done`.
    NoteUp,
    /// Ends the core when what has come before this is durable. Gives `Done`.
    Stop,
}

impl From<UpkeepAsk> for Ask {
    fn from(ask: UpkeepAsk) -> Self {
        Ask::Upkeep(ask)
    }
}

impl Core {
    pub(super) fn handle_upkeep(&mut self, ask: UpkeepAsk) -> Result<CoreReply, StoreError> {
        Ok(match ask {
            UpkeepAsk::Ping => ().into(),
            UpkeepAsk::Present => (self.incarnation, self.now).into(),
            UpkeepAsk::Counts => (self.host_states(), self.open_jobs()).into(),
            UpkeepAsk::ContentCame(user, blob) => self.content_came(&user, blob)?.into(),
            UpkeepAsk::UnusedOf(user) => self.unused_of(&user).into(),
            UpkeepAsk::Sweep(old) => self.sweep(&old)?.into(),
            UpkeepAsk::TrimContent(grace) => self.trim_content_of(grace)?.into(),
            UpkeepAsk::Retire => self.retire()?.into(),
            UpkeepAsk::WriteExperience => self.write_experience()?.into(),
            UpkeepAsk::NoteUp => self.note_up()?.into(),
            UpkeepAsk::Stop => {
                self.stopping = true;
                ().into()
            }
        })
    }
}
