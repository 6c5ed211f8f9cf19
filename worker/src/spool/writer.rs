//! The one thread that writes the spool: whatever has come in while it synced shares the next sync.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::wire::worker::Delivery;
use common::{AttemptId, Completion, Span};
use link::{BlobStore, Contents};
use tokio::sync::mpsc::UnboundedSender;

use super::{Moment, Spool};

/// The least time between two syncs while completions come in crowds, or more work is queued, so that more of them
/// share one.
const GAP: Duration = Duration::from_millis(4);
/// So many completions in one sync are a crowd. Fewer, and none of them waits for others.
const CROWD: usize = 8;
/// How long to wait for room on a disk that takes no more.
const DISK_PATIENCE: Duration = Duration::from_secs(1);

/// What the thread is asked to do.
#[derive(Debug)]
pub enum Request {
    /// Make these durable; answered by [`Spooled::Durable`]. They may wait a little for others where more work is queued
    /// here: then nobody waits for these alone.
    Append {
        /// Which.
        completions: Vec<Completion>,
        /// Whether more work is queued.
        more: bool,
    },
    /// These are durable elsewhere.
    Forget(Vec<AttemptId>),
    /// Read those that are there; answered by [`Spooled::Read`].
    Read(Vec<AttemptId>),
}

/// What the thread answers.
#[derive(Debug)]
pub enum Spooled {
    /// These are durable now.
    Durable(Vec<Delivery>),
    /// What was asked for.
    Read(Vec<Delivery>),
    /// The spool cannot be used any more.
    Broken(std::io::Error),
}

/// Starts the thread; it ends when the returned sender is gone and all that was sent is done.
pub(crate) fn start<T: From<Spooled> + Send + 'static>(
    spool: Spool,
    now: fn() -> Moment,
    answers: UnboundedSender<T>,
) -> std::io::Result<(mpsc::Sender<Request>, thread::JoinHandle<()>)> {
    let (requests, inbox) = mpsc::channel();
    let thread = thread::Builder::new().name("spool".to_owned()).stack_size(256 * 1024).spawn(move || {
        let mut desk = Desk::new(spool);
        let mut crowd: Option<Instant> = None;
        // What waits for room on the disk is tried again even if nothing more comes, also when nothing more can.
        while let Some(first) = next(&inbox, desk.waiting()) {
            if let Some(early) = crowd.and_then(|at| GAP.checked_sub(at.elapsed())) {
                thread::sleep(early);
            }
            first.into_iter().chain(inbox.try_iter()).for_each(|request| desk.take(request));
            if let Some(crowded) = desk.crowded() {
                crowd = crowded.then(Instant::now);
            }
            let mut heard = true;
            let worked = desk.work(now(), &mut |answer| heard &= answers.send(answer.into()).is_ok());
            if let Err(error) = worked {
                let _ = answers.send(Spooled::Broken(error).into());
                return;
            }
            if !heard {
                return;
            }
        }
    })?;
    Ok((requests, thread))
}

/// The next request, or none of them after a while where something waits; the end where nothing more can come and
/// nothing waits.
fn next(inbox: &mpsc::Receiver<Request>, waiting: bool) -> Option<Option<Request>> {
    if !waiting {
        return inbox.recv().ok().map(Some);
    }
    match inbox.recv_timeout(DISK_PATIENCE) {
        Ok(request) => Some(Some(request)),
        Err(mpsc::RecvTimeoutError::Timeout) => Some(None),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            thread::sleep(DISK_PATIENCE);
            Some(None)
        }
    }
}

/// What is asked of the spool, and in which order it is done: new completions first, in one sync.
#[derive(Debug)]
pub(crate) struct Desk<S = BlobStore> {
    spool: Spool<S>,
    new: Vec<Completion>,
    gone: Vec<AttemptId>,
    wanted: Vec<Vec<AttemptId>>,
    more: bool,
    full: bool,
}

impl<S: Contents> Desk<S> {
    /// Nothing is asked yet.
    pub(crate) fn new(spool: Spool<S>) -> Self {
        Self { spool, new: Vec::new(), gone: Vec::new(), wanted: Vec::new(), more: false, full: false }
    }

    /// Takes a request.
    pub(crate) fn take(&mut self, request: Request) {
        match request {
            Request::Append { mut completions, more } => {
                self.new.append(&mut completions);
                self.more |= more;
            }
            Request::Forget(attempts) => self.gone.extend(attempts),
            Request::Read(attempts) => self.wanted.push(attempts),
        }
    }

    /// Whether completions wait for room on the disk.
    pub(crate) fn waiting(&self) -> bool {
        self.full
    }

    /// Whether more completions are to be expected soon, if there are any.
    fn crowded(&self) -> Option<bool> {
        (!self.new.is_empty()).then_some(self.more || self.new.len() >= CROWD)
    }

    /// Does what was asked, so far as the disk has room: completions that find none wait here, for they are nowhere
    /// else. What is forgotten meanwhile may be what makes room.
    pub(crate) fn work(&mut self, now: Moment, say: &mut dyn FnMut(Spooled)) -> std::io::Result<()> {
        self.more = false;
        self.append(now, say)?;
        let gone = std::mem::take(&mut self.gone);
        if !gone.is_empty() {
            for unwanted in self.new.extract_if(.., |completion| gone.contains(&completion.attempt)) {
                self.spool.discard(&unwanted);
            }
            self.spool.forget(&gone)?;
        }
        for attempts in std::mem::take(&mut self.wanted) {
            say(Spooled::Read(self.spool.read(&attempts, now)?));
        }
        Ok(())
    }

    fn append(&mut self, now: Moment, say: &mut dyn FnMut(Spooled)) -> std::io::Result<()> {
        self.full = false;
        if self.new.is_empty() {
            return Ok(());
        }
        match self.spool.append(&self.new, now) {
            Ok(()) => {
                let new = std::mem::take(&mut self.new);
                let durable = new.into_iter().map(|completion| Delivery { completion, ago: Span::ZERO }).collect();
                say(Spooled::Durable(durable));
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                tracing::error!(%error, waiting = self.new.len(), "the disk is full: finished results cannot be kept");
                self.full = true;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
