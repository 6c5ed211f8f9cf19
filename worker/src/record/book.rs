//! Recorder and file together, behind a lock that only threads take which may wait for a disk:
//! never the worker's loop.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use common::Span;
use common::availability::Stretch;
use common::wire::worker::MAX_STRETCHES;
use tokio::sync::mpsc::UnboundedSender;

use super::kept::Kept;
use super::{Look, Recorder};

/// In a worker's directory.
const FILE: &str = "availability";

/// What is to be sent to the master next, with the number of the last of it; nothing where it has
/// everything.
#[derive(Debug)]
pub(crate) struct Due(pub(crate) Option<(u64, Vec<Stretch>)>);

/// Records how the host is available.
#[derive(Debug, Clone)]
pub(crate) struct Book(Option<Arc<Mutex<Pages>>>);

#[derive(Debug)]
struct Pages {
    recorder: Recorder,
    kept: Kept,
}

impl Book {
    /// Of looks that come so often, in a worker's directory. Where nothing is to be recorded, or
    /// nothing can be, what was is removed.
    pub(crate) fn open(dir: &Path, every: Span, limit: u32) -> Self {
        let path: PathBuf = dir.join(FILE);
        if limit == 0 {
            let _ = std::fs::remove_file(path);
            return Self(None);
        }

        match Kept::open(&path, limit as usize) {
            Ok(kept) => {
                let recorder = Recorder::new(every, kept.until());
                Self(Some(Arc::new(Mutex::new(Pages { recorder, kept }))))
            }
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "availability is not recorded");
                Self(None)
            }
        }
    }

    /// Notes a look, and tells what is due then.
    pub(crate) fn look<T: From<Due> + Send + 'static>(
        &self,
        look: Look,
        tell: &UnboundedSender<T>,
    ) {
        self.then_tell(tell, move |pages| pages.look(look));
    }

    /// The master has everything up to this number; tells what is due then.
    pub(crate) fn acknowledged<T: From<Due> + Send + 'static>(
        &self,
        last: u64,
        tell: &UnboundedSender<T>,
    ) {
        self.then_tell(tell, move |pages| pages.kept.acknowledge(last));
    }

    /// Tells what is due.
    pub(crate) fn ask<T: From<Due> + Send + 'static>(&self, tell: &UnboundedSender<T>) {
        self.then_tell(tell, |_| Ok(()));
    }

    fn then_tell<T: From<Due> + Send + 'static>(
        &self,
        tell: &UnboundedSender<T>,
        act: impl FnOnce(&mut Pages) -> std::io::Result<()> + Send + 'static,
    ) {
        let Some(pages) = self.0.clone() else { return };
        let tell = tell.clone();
        tokio::task::spawn_blocking(move || {
            let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = act(&mut pages) {
                tracing::warn!(%error, "recorded availability could not be written down");
            }
            let _ = tell.send(Due(pages.kept.batch(MAX_STRETCHES)).into());
        });
    }

    /// Keeps what is not over yet. May wait for a disk.
    pub(crate) fn close(&self) {
        let Some(pages) = &self.0 else { return };
        let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = pages.recorder.end() {
            // The worker ends: there is nobody left to tell.
            let _ = pages.kept.add(run);
        }
    }
}

impl Pages {
    fn look(&mut self, look: Look) -> std::io::Result<()> {
        let news = self.recorder.look(look);
        if let Some(time) = news.forget_after {
            self.kept.forget_after(time)?;
        }
        news.over
            .into_iter()
            .try_for_each(|stretch| self.kept.add(stretch))
    }
}
