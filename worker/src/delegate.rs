//! A worker without a PC: an [`Executor`] has its attempts run elsewhere. Session, machine, spool and
//! cache are those of every worker. There is no owner and no process, and nothing is measured.

mod shell;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::attempt::Spent;
use common::content::BlobHash;
use common::host::HostFacts;
use common::wire::worker::Assignment;
use common::{AttemptId, BlobRef, Span};
use link::{Connection, Identity, LinkError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::cache::{Cache, Pinned};
use crate::config::Config;
use crate::engine::{CrashRules, Engine, Spooled};
use crate::error::WorkerError;
use crate::given_back::GivenBackFile;
use crate::lock;
use crate::machine::{AttemptEnding, MachineEvent};
use crate::peers::InputPeers;
use crate::session::{self, SessionEvent};
use crate::spool::blobs::Blobs;
use crate::spool::{Spool, writer};
use crate::worker::moment;
use shell::DelegateShell;

/// The number of times that a damaged input is fetched again.
const DAMAGED: u32 = 3;

/// Runs attempts elsewhere. What becomes of each is told to a [`Desk`].
pub trait Executor {
    /// Begins an attempt, or finds it again if it was begun before. Answered by [`Report::Ended`].
    fn begin(&mut self, assignment: Assignment);
    /// Ends an attempt that was begun. Answered by [`Report::Ended`] once it has ended.
    fn end(&mut self, attempt: AttemptId);
    /// An attempt that has ended is of no use any more: its result is durable here, or not wanted.
    fn forget(&mut self, attempt: AttemptId);
}

/// News of an [`Executor`].
#[derive(Debug)]
pub enum Report {
    /// The command of an attempt runs.
    Started(AttemptId),
    /// A saved state cannot be used, for this reason: the attempt starts from scratch.
    FromScratch(AttemptId, String),
    /// An attempt has ended ([`AttemptEnding`]).
    Ended(AttemptId, Box<AttemptEnding>),
    /// Nothing more can be begun, for this reason; or (`None`) it can again.
    Away(Option<String>),
}

/// An input of the [`DelegateShell`].
#[derive(Debug)]
enum DelegateInput {
    Machine(MachineEvent),
    Session(SessionEvent),
    Spool(Spooled),
    Told(Report),
}

impl From<SessionEvent> for DelegateInput {
    fn from(session: SessionEvent) -> Self {
        DelegateInput::Session(session)
    }
}

impl From<Spooled> for DelegateInput {
    fn from(spooled: Spooled) -> Self {
        DelegateInput::Spool(spooled)
    }
}

/// The files and the ear of a [`Delegate`], for its [`Executor`]. Cloning gives another handle.
#[derive(Debug, Clone)]
pub struct Desk {
    cache: Arc<Cache>,
    blobs: Arc<Blobs>,
    tell: UnboundedSender<DelegateInput>,
}

/// An input that stays here as long as this value.
#[derive(Debug)]
pub struct InputFile(Pinned);

impl InputFile {
    /// Returns the path of its content.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }
}

impl Desk {
    /// Tells the delegate.
    pub fn report(&self, report: Report) {
        // A delegate that is gone needs no news.
        let _ = self.tell.send(DelegateInput::Told(report));
    }

    /// Returns an input, verified, and fetches it first if it is not here.
    ///
    /// # Errors
    /// If the master does not have it, or this disk has no room.
    pub async fn input(&self, blob: BlobRef) -> Result<InputFile, LinkError> {
        for _ in 0..DAMAGED {
            let fetched = self.cache.fetch(blob).await?;
            if let Some(whole) = self.cache.whole(blob).await {
                drop(fetched);
                return Ok(InputFile(whole));
            }
        }
        Err(LinkError::Damaged {
            expected: blob.hash.to_string(),
            found: "something else, time and again: see this host's disk".to_owned(),
        })
    }

    /// Copies a file of a result to where it waits for the master, durably.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn keep(&self, file: &mut File) -> io::Result<BlobRef> {
        self.blobs.add(file)
    }

    /// Removes files of a result that were [kept](Self::keep) and are of no use, each once for each time.
    pub fn release(&self, hashes: &[BlobHash]) {
        self.blobs.release(hashes);
    }
}

/// A worker whose attempts an [`Executor`] runs elsewhere, before it has begun.
pub struct Delegate {
    lock: File,
    dir: PathBuf,
    identity: Identity,
    spool: Spool,
    peers: Arc<InputPeers>,
    current: watch::Sender<Option<Connection>>,
    desk: Desk,
    inputs: UnboundedReceiver<DelegateInput>,
}

impl Delegate {
    /// Opens what lies in `dir`; inputs may take so many bytes of it.
    ///
    /// # Errors
    /// If the directory is in use or unusable.
    pub async fn open(
        dir: &Path,
        identity: Identity,
        cache_bytes: u64,
    ) -> Result<(Self, Desk), WorkerError> {
        let lock = lock::take(dir).await?;
        let (tell, inputs) = unbounded_channel();
        let (current, master) = watch::channel(None);
        let spool = Spool::open(&dir.join("spool"))?;
        let blobs = spool.blobs();

        let peers = Arc::new(InputPeers::new(&Config {
            share_inputs: false,
            ..Config::default()
        }));
        let places = (dir.join("cache"), dir.join("trees"));
        let cache = Cache::open(
            (&places.0, &places.1),
            cache_bytes,
            master,
            Arc::clone(&peers),
        )?;
        let cache = Arc::new(cache);
        peers.serve_from(&cache);

        let desk = Desk { cache, blobs, tell };
        let delegate = Self {
            lock,
            dir: dir.to_owned(),
            identity,
            spool,
            peers,
            current,
            desk: desk.clone(),
            inputs,
        };
        Ok((delegate, desk))
    }

    /// Takes attempts of the master until `shutdown` resolves; then those that have not ended are
    /// given back. `begun` are those that an earlier run has begun and not forgotten.
    ///
    /// # Errors
    /// If finished results can no longer be kept.
    pub async fn run(
        self,
        facts: HostFacts,
        begun: Vec<Assignment>,
        executor: impl Executor,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), WorkerError> {
        let Self {
            lock,
            dir,
            identity,
            spool,
            peers,
            current,
            desk,
            inputs,
        } = self;
        let given_back = GivenBackFile::below(&dir);
        let engine = Engine::new(
            facts.slots as usize,
            Span::ZERO,
            None,
            spool.ids(),
            CrashRules::KEPT,
        )
        .lending(facts.lends)
        .staging_in_slots()
        .owing(still_given_back(given_back.take(), &begun));
        let (spool, spooling) =
            writer::start(spool, moment, desk.tell.clone()).map_err(WorkerError::Spool)?;

        let mut shell = DelegateShell::new(
            (engine, facts),
            executor,
            (spool, spooling),
            (desk.clone(), given_back),
        );
        shell.resume(begun);

        let session = session::keep(
            identity,
            dir.join("identity"),
            Config::default().again(),
            Arc::clone(&desk.blobs),
            desk.tell.clone(),
            (current, peers),
        );
        let session = tokio::spawn(session);
        let result = shell.run(inputs, session, shutdown).await;
        drop(lock);
        result
    }
}

/// Returns what stays given back where the attempts of `begun` go on: the machine lists those.
fn still_given_back(mut left: Vec<Spent>, begun: &[Assignment]) -> Vec<Spent> {
    left.retain(|spent| begun.iter().all(|work| work.attempt != spent.attempt));
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{command, id};

    #[test]
    fn what_goes_on_elsewhere_is_not_given_back_at_the_next_start() {
        let left = [1, 2].map(|index| Spent {
            attempt: id(index),
            ran: Span::from_secs(1),
            suspended: Span::ZERO,
            cpu: Span::ZERO,
        });
        let begun = [command(1, None), command(3, None)];
        assert_eq!(still_given_back(left.to_vec(), &begun), left[1..]);
    }
}
