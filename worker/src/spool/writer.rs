//! The one thread that writes the spool: requests that arrive during a sync share the next sync.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::attempt::Stream;
use common::units::Bytes;
use common::wire::MAX_FRAME;
use common::wire::worker::Delivery;
use common::{AttemptId, Completion, Outcome};
use link::{BlobStore, Contents};
use tokio::sync::mpsc::UnboundedSender;

use super::{HostMoment, Spool};

/// The shortest time between two syncs while completions come in crowds, or more work is queued, so
/// that more of them share one.
const GAP: Duration = Duration::from_millis(4);
/// The number of completions in one sync that is a crowd. With fewer, none of them waits for
/// others.
const CROWD: usize = 8;
/// The longest time that a leaving worker waits for a slow disk, and for a full one.
const LAST_SYNC: Duration = Duration::from_secs(15);
const LAST_ROOM: Duration = Duration::from_secs(2);
/// The interval between looks, at the very end, whether everything is written.
const LOOK: Duration = Duration::from_millis(2);
/// The pause before a full disk is tried again.
const DISK_PATIENCE: Duration = Duration::from_secs(1);

/// The longest completion that is sent, in bytes: a message of it and a record of it have more.
const LONGEST: usize = MAX_FRAME - 1024;

/// A request to the thread.
#[derive(Debug)]
pub enum SpoolRequest {
    /// Make these durable; answered by [`Spooled::Durable`]. They may wait a little for others if
    /// more work is queued here: then nobody waits for these alone.
    Append {
        /// The completions.
        completions: Vec<Completion>,
        /// Whether more work is queued.
        more: bool,
    },
    /// Drop these: they are durable elsewhere.
    Forget(Vec<AttemptId>),
    /// Read those that are here; answered by [`Spooled::Read`].
    Read(Vec<AttemptId>),
}

/// An answer of the thread.
#[derive(Debug)]
pub enum Spooled {
    /// These are durable now.
    Durable(Vec<Delivery>),
    /// The disk has no space for these: they are lost if the worker ends before the master has
    /// them.
    Unsaved(Vec<Delivery>),
    /// The completions that were to be read.
    Read(Vec<Delivery>),
    /// The spool cannot be used any more.
    Broken(std::io::Error),
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct SpoolThread {
    thread: thread::JoinHandle<()>,
    /// Whether completions wait for space on the disk.
    full: Arc<AtomicBool>,
}

impl SpoolThread {
    /// Waits until every request is done, where no more can come: results that ended at the very
    /// last must be durable, too. A disk that takes them late is waited for longer than a full one.
    pub(crate) async fn finish(self) {
        let begun = Instant::now();
        while !self.thread.is_finished() {
            let full = self.full.load(Ordering::Relaxed);
            if begun.elapsed() >= if full { LAST_ROOM } else { LAST_SYNC } {
                tracing::warn!(
                    full,
                    "the disk has not taken the last results: those that the master does not have are lost"
                );
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Starts the thread; it ends when the returned sender is dropped and every request is done.
pub(crate) fn start<T: From<Spooled> + Send + 'static>(
    spool: Spool,
    now: fn() -> HostMoment,
    answers: UnboundedSender<T>,
) -> std::io::Result<(mpsc::Sender<SpoolRequest>, SpoolThread)> {
    let (requests, inbox) = mpsc::channel();
    let full = Arc::new(AtomicBool::new(false));
    let waits = Arc::clone(&full);
    let thread = thread::Builder::new()
        .name("spool".to_owned())
        .stack_size(256 * 1024)
        .spawn(move || {
            let mut desk = PendingRequests::new(spool);
            let mut crowd: Option<Instant> = None;

            // Completions that wait for disk space are tried again even if no more requests come,
            // or can come.
            while let Some(first) = next(&inbox, desk.waiting()) {
                if let Some(early) = crowd.and_then(|at| GAP.checked_sub(at.elapsed())) {
                    thread::sleep(early);
                }

                first
                    .into_iter()
                    .chain(inbox.try_iter())
                    .for_each(|request| desk.take(request));
                if let Some(crowded) = desk.crowded() {
                    crowd = crowded.then(Instant::now);
                }

                let mut heard = true;
                let worked = desk.work(now(), &mut |answer| {
                    heard &= answers.send(answer.into()).is_ok();
                });
                waits.store(desk.waiting(), Ordering::Relaxed);
                if let Err(error) = worked {
                    let _ = answers.send(Spooled::Broken(error).into());
                    return;
                }

                if !heard {
                    return;
                }
            }
        })?;
    Ok((requests, SpoolThread { thread, full }))
}

/// Returns the next request, or `Some(None)` after a while if completions wait for disk space.
/// Returns `None` if no more requests can come and nothing waits.
fn next(inbox: &mpsc::Receiver<SpoolRequest>, waiting: bool) -> Option<Option<SpoolRequest>> {
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

/// The pending requests of the spool, in the order of work: new completions first, in one sync.
#[derive(Debug)]
pub(crate) struct PendingRequests<S = BlobStore> {
    spool: Spool<S>,
    new: Vec<Completion>,
    /// Completions for which the disk had no space, and when they came.
    unsaved: Vec<(Completion, HostMoment)>,
    gone: Vec<AttemptId>,
    wanted: Vec<Vec<AttemptId>>,
    more: bool,
}

impl<S: Contents> PendingRequests<S> {
    /// Makes a desk without requests.
    pub(crate) fn new(spool: Spool<S>) -> Self {
        Self {
            spool,
            new: Vec::new(),
            unsaved: Vec::new(),
            gone: Vec::new(),
            wanted: Vec::new(),
            more: false,
        }
    }

    /// Takes a request.
    pub(crate) fn take(&mut self, request: SpoolRequest) {
        match request {
            SpoolRequest::Append { completions, more } => {
                let fitting = completions
                    .into_iter()
                    .map(|completion| self.fit(completion));
                let mut fitting: Vec<Completion> = fitting.collect();
                self.new.append(&mut fitting);
                self.more |= more;
            }
            SpoolRequest::Forget(attempts) => self.gone.extend(attempts),
            SpoolRequest::Read(attempts) => self.wanted.push(attempts),
        }
    }

    /// Returns the completion if a message can take it. One that is too long could never be
    /// delivered: in its place goes one that says so, without its outputs.
    fn fit(&self, completion: Completion) -> Completion {
        let size = postcard::experimental::serialized_size(&completion).unwrap_or(usize::MAX);
        if size <= LONGEST {
            return completion;
        }
        let why = format!(
            "the list of what it left takes {}, more than a message to the master",
            Bytes(size as u64)
        );

        tracing::error!(attempt = %completion.attempt, why, "a result is left out");
        self.spool.discard(&completion);

        let ended_itself = matches!(
            completion.outcome,
            Outcome::Exited(_) | Outcome::Signalled(_) | Outcome::TimedOut(_) | Outcome::Stopped
        );
        Completion {
            outcome: match completion.outcome {
                outcome if ended_itself => outcome,
                _ => Outcome::BadOutput(why.clone()),
            },
            stdout: Stream::default(),
            stderr: Stream::default(),
            outputs: Vec::new(),
            warnings: vec![why],
            ..completion
        }
    }

    /// Whether completions wait for space on the disk.
    pub(crate) fn waiting(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// Whether more completions are expected soon; `None` if there is none now.
    fn crowded(&self) -> Option<bool> {
        (!self.new.is_empty()).then_some(self.more || self.new.len() >= CROWD)
    }

    /// Carries out the requests. Completions for which the disk has no space are kept here, can be
    /// delivered, and are written as soon as there is space, unless they are forgotten before.
    pub(crate) fn work(
        &mut self,
        now: HostMoment,
        say: &mut dyn FnMut(Spooled),
    ) -> std::io::Result<()> {
        self.more = false;
        self.save(now)?;
        self.append(now, say)?;

        let gone = std::mem::take(&mut self.gone);
        if !gone.is_empty() {
            for (unwanted, _) in self
                .unsaved
                .extract_if(.., |(completion, _)| gone.contains(&completion.attempt))
            {
                self.spool.discard(&unwanted);
            }
            self.spool.forget(&gone)?;
        }

        for attempts in std::mem::take(&mut self.wanted) {
            let mut found = self.spool.read(&attempts, now);
            let unsaved = self
                .unsaved
                .iter()
                .filter(|(completion, _)| attempts.contains(&completion.attempt));
            found.extend(
                unsaved.map(|(completion, ended)| delivery(completion.clone(), *ended, now)),
            );
            say(Spooled::Read(found));
        }

        Ok(())
    }

    /// Tries again to write the completions that had no space before.
    fn save(&mut self, now: HostMoment) -> std::io::Result<()> {
        if self.unsaved.is_empty() {
            return Ok(());
        }

        match self.spool.append(
            self.unsaved
                .iter()
                .map(|(completion, ended)| (completion, *ended)),
        ) {
            Ok(()) => self.unsaved.clear(),
            Err(error) if link::is_full(&error) => {
                let longest = self
                    .unsaved
                    .iter()
                    .map(|(_, ended)| now.since(*ended))
                    .max();
                tracing::debug!(%error, waiting = self.unsaved.len(), ?longest, "the disk is still full");
            }
            Err(error) => return Err(error),
        }

        Ok(())
    }

    fn append(&mut self, now: HostMoment, say: &mut dyn FnMut(Spooled)) -> std::io::Result<()> {
        if self.new.is_empty() {
            return Ok(());
        }

        let new = std::mem::take(&mut self.new);
        match self
            .spool
            .append(new.iter().map(|completion| (completion, now)))
        {
            Ok(()) => {
                let durable = new
                    .into_iter()
                    .map(|completion| delivery(completion, now, now))
                    .collect();
                say(Spooled::Durable(durable));
                Ok(())
            }
            Err(error) if link::is_full(&error) => {
                tracing::error!(%error, count = new.len(), "the disk is full: results are in memory only until the master has them");
                say(Spooled::Unsaved(
                    new.iter()
                        .map(|completion| delivery(completion.clone(), now, now))
                        .collect(),
                ));
                self.unsaved
                    .extend(new.into_iter().map(|completion| (completion, now)));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// Makes the delivery of a completion that ended at `ended`.
fn delivery(completion: Completion, ended: HostMoment, now: HostMoment) -> Delivery {
    Delivery {
        ago: now.since(ended),
        completion,
    }
}
