//! The spool as a whole, wherever its log and its blobs lie: for a driver that decides itself when
//! the disk does what. What is not here: the thread that the running worker has for it.

use std::io;
use std::sync::Arc;

use common::{AttemptId, BlobRef};
use link::Contents;

use super::blobs::Blobs;
use super::medium::Medium;
use super::writer::{Desk, Request, Spooled};
use super::{Moment, Spool};

/// A spool with what is asked of it.
#[derive(Debug)]
pub struct Shelf<S> {
    desk: Desk<S>,
    blobs: Arc<Blobs<S>>,
    ids: Vec<AttemptId>,
}

impl<S: Contents> Shelf<S> {
    /// Reads what a run before has left.
    ///
    /// # Errors
    /// If the log cannot be read or made whole.
    pub fn open(log: Box<dyn Medium>, blobs: S) -> io::Result<Self> {
        let blobs = Arc::new(Blobs::over(blobs));
        let spool = Spool::on(log, Arc::clone(&blobs))?;
        let ids = spool.ids().collect();
        Ok(Self {
            desk: Desk::new(spool),
            blobs,
            ids,
        })
    }

    /// The completions that were there at the beginning.
    pub fn ids(&self) -> &[AttemptId] {
        &self.ids
    }

    /// One more holder for content that a completion is going to name.
    pub fn hold(&self, blob: &BlobRef) {
        self.blobs.hold(&[blob.hash]);
    }

    /// One holder less for each.
    pub fn release(&self, blobs: impl Iterator<Item = BlobRef>) {
        let hashes: Vec<_> = blobs.map(|blob| blob.hash).collect();
        self.blobs.release(&hashes);
    }

    /// Whether content is there.
    pub fn has(&self, blob: &BlobRef) -> bool {
        self.blobs.has(blob)
    }

    /// Takes a request.
    pub fn take(&mut self, request: Request) {
        self.desk.take(request);
    }

    /// Does what was asked, so far as the disk has room.
    ///
    /// # Errors
    /// If the disk fails otherwise: the worker ends then.
    pub fn work(&mut self, now: Moment, say: &mut dyn FnMut(Spooled)) -> io::Result<()> {
        self.desk.work(now, say)
    }

    /// Whether completions wait for room on the disk.
    pub fn waiting(&self) -> bool {
        self.desk.waiting()
    }
}
