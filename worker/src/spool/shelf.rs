//! The spool as a whole on any medium ([`Shelf`]), for a simulation that orders disk operations
//! itself. The running worker uses the thread in `writer`.

use std::io;
use std::sync::Arc;

use common::{AttemptId, BlobRef};
use link::Contents;

use super::blobs::Blobs;
use super::medium::Medium;
use super::writer::{PendingRequests, SpoolRequest, Spooled};
use super::{HostMoment, Spool};

/// A spool with its pending requests.
#[derive(Debug)]
pub struct Shelf<S> {
    desk: PendingRequests<S>,
    blobs: Arc<Blobs<S>>,
    ids: Vec<AttemptId>,
}

impl<S: Contents> Shelf<S> {
    /// Reads what an earlier run has left.
    ///
    /// # Errors
    /// If the log cannot be read or repaired.
    pub fn open(log: Box<dyn Medium>, blobs: S) -> io::Result<Self> {
        let blobs = Arc::new(Blobs::over(blobs));
        let spool = Spool::on(log, Arc::clone(&blobs))?;
        let ids = spool.ids().collect();
        Ok(Self {
            desk: PendingRequests::new(spool),
            blobs,
            ids,
        })
    }

    /// Returns the completions that were there at the beginning.
    pub fn ids(&self) -> &[AttemptId] {
        &self.ids
    }

    /// Adds a holder to content that a completion is going to name.
    pub fn hold(&self, blob: &BlobRef) {
        self.blobs.hold(&[blob.hash]);
    }

    /// Removes one holder from each blob.
    pub fn release(&self, blobs: impl Iterator<Item = BlobRef>) {
        let hashes: Vec<_> = blobs.map(|blob| blob.hash).collect();
        self.blobs.release(&hashes);
    }

    /// Whether the store has the content.
    pub fn has(&self, blob: &BlobRef) -> bool {
        self.blobs.has(blob)
    }

    /// Takes a request.
    pub fn take(&mut self, request: SpoolRequest) {
        self.desk.take(request);
    }

    /// Carries out the requests, as far as the disk has space.
    ///
    /// # Errors
    /// If the disk fails for another reason: the worker ends then.
    pub fn work(&mut self, now: HostMoment, say: &mut dyn FnMut(Spooled)) -> io::Result<()> {
        self.desk.work(now, say)
    }

    /// Whether completions wait for space on the disk.
    pub fn waiting(&self) -> bool {
        self.desk.waiting()
    }
}
