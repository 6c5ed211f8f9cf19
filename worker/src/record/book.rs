//! The [`AvailabilityRecorder`] and its file together, behind a lock that only threads take which may wait for
//! a disk, never the worker's loop.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use common::availability::AvailabilityInterval;
use common::wire::worker::MAX_STRETCHES;
use common::{Span, Time};
use tokio::sync::mpsc::UnboundedSender;

use super::kept::UnsentIntervals;
use super::{AvailabilityRecorder, Look};

/// The file in the worker's directory.
const FILE: &str = "availability";

/// The next intervals for the master, with the number of the last one; `None` if it has them all.
#[derive(Debug)]
pub(crate) struct DueIntervals(pub(crate) Option<(u64, Vec<AvailabilityInterval>)>);

/// The record of the host's availability.
#[derive(Debug, Clone)]
pub(crate) struct Book(Option<Arc<Mutex<Pages>>>);

#[derive(Debug)]
struct Pages {
    recorder: AvailabilityRecorder,
    kept: UnsentIntervals,
}

impl Book {
    /// Opens the record in a worker's directory, for looks every `every`. If `limit` is 0, the
    /// existing record is removed.
    pub(crate) fn open(dir: &Path, every: Span, limit: u32) -> Self {
        let path: PathBuf = dir.join(FILE);
        if limit == 0 {
            let _ = std::fs::remove_file(path);
            return Self(None);
        }

        match UnsentIntervals::open(&path, limit as usize) {
            Ok(kept) => {
                let recorder = AvailabilityRecorder::new(every, kept.until());
                Self(Some(Arc::new(Mutex::new(Pages { recorder, kept }))))
            }
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "availability is not recorded");
                Self(None)
            }
        }
    }

    /// Returns the end of the time that was recorded by the last run of the worker.
    pub(crate) fn until(&self) -> Time {
        let pages = self.0.as_ref();
        pages.map_or(Time(0), |pages| {
            let pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
            pages.kept.until()
        })
    }

    /// Records a look, and then reports what is due.
    pub(crate) fn look<T: From<DueIntervals> + Send + 'static>(
        &self,
        look: Look,
        tell: &UnboundedSender<T>,
    ) {
        self.then_tell(tell, move |pages| pages.look(look));
    }

    /// Drops everything up to this number, which the master has; then reports what is due.
    pub(crate) fn acknowledged<T: From<DueIntervals> + Send + 'static>(
        &self,
        last: u64,
        tell: &UnboundedSender<T>,
    ) {
        self.then_tell(tell, move |pages| pages.kept.acknowledge(last));
    }

    /// Reports what is due.
    pub(crate) fn ask<T: From<DueIntervals> + Send + 'static>(&self, tell: &UnboundedSender<T>) {
        self.then_tell(tell, |_| Ok(()));
    }

    fn then_tell<T: From<DueIntervals> + Send + 'static>(
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
            let _ = tell.send(DueIntervals(pages.kept.batch(MAX_STRETCHES)).into());
        });
    }

    /// Keeps the interval that is not complete yet. May wait for a disk.
    pub(crate) fn close(&self) {
        let Some(pages) = &self.0 else { return };
        let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = pages.recorder.end() {
            // The worker ends: there is nobody left to be told.
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
