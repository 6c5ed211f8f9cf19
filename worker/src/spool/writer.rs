//! The one thread that writes the spool: whatever has come in while it synced shares the next sync.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::wire::worker::Delivery;
use common::{AttemptId, Completion, Span};
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
pub(crate) enum Request {
    /// Make these durable; answered by [`Spooled::Durable`]. They may wait a little for others where more work is queued
    /// here: then nobody waits for these alone.
    Append { completions: Vec<Completion>, more: bool },
    /// These are durable elsewhere.
    Forget(Vec<AttemptId>),
    /// Read those that are there; answered by [`Spooled::Read`].
    Read(Vec<AttemptId>),
}

/// What the thread answers.
#[derive(Debug)]
pub(crate) enum Spooled {
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
        let say = |answer: Spooled| answers.send(answer.into()).is_ok();
        let mut desk = Desk { spool, now, crowd: None };
        while let Ok(first) = inbox.recv() {
            if let Some(early) = desk.crowd.and_then(|at| GAP.checked_sub(at.elapsed())) {
                thread::sleep(early);
            }
            match desk.serve(first, &inbox, &say) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    say(Spooled::Broken(error));
                    return;
                }
            }
        }
    })?;
    Ok((requests, thread))
}

struct Desk {
    spool: Spool,
    now: fn() -> Moment,
    /// When completions were last synced, if more were to be expected soon.
    crowd: Option<Instant>,
}

impl Desk {
    /// Serves all that has come in; false if nobody listens any more.
    fn serve(
        &mut self,
        first: Request,
        inbox: &mpsc::Receiver<Request>,
        say: &dyn Fn(Spooled) -> bool,
    ) -> std::io::Result<bool> {
        let (mut new, mut gone, mut wanted, mut crowded) = (Vec::new(), Vec::new(), Vec::new(), false);
        for request in std::iter::once(first).chain(inbox.try_iter()) {
            match request {
                Request::Append { mut completions, more } => {
                    new.append(&mut completions);
                    crowded |= more;
                }
                Request::Forget(attempts) => gone.extend(attempts),
                Request::Read(attempts) => wanted.push(attempts),
            }
        }
        if !new.is_empty() {
            self.crowd = (crowded || new.len() >= CROWD).then(Instant::now);
            self.append(&new)?;
            let durable = new.into_iter().map(|completion| Delivery { completion, ago: Span::ZERO }).collect();
            if !say(Spooled::Durable(durable)) {
                return Ok(false);
            }
        }
        if !gone.is_empty() {
            self.spool.forget(&gone)?;
        }
        for attempts in wanted {
            if !say(Spooled::Read(self.spool.read(&attempts, (self.now)())?)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A full disk is waited for: the completions are nowhere else.
    fn append(&mut self, completions: &[Completion]) -> std::io::Result<()> {
        loop {
            match self.spool.append(completions, (self.now)()) {
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                    tracing::error!(%error, waiting = completions.len(), "the disk is full: finished results cannot be kept");
                    thread::sleep(DISK_PATIENCE);
                }
                done => return done,
            }
        }
    }
}
