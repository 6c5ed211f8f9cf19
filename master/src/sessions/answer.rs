//! An answer on its way to a client: sent piece by piece as the client takes it, and given up when
//! it takes nothing.

use std::time::Duration;

use common::wire::client::Reply;
use link::{FrameSender, LinkError};

/// An answer to one request.
pub(super) struct Response {
    tx: FrameSender,
    /// How long a piece may take to be read.
    patience: Duration,
}

impl Response {
    pub(super) fn new(tx: FrameSender, patience: Duration) -> Self {
        Self { tx, patience }
    }

    /// Keeps a reply for the next flush.
    pub(super) fn push(&mut self, reply: &Reply) -> Result<(), LinkError> {
        self.tx.push(reply)
    }

    /// How many bytes wait for a flush.
    pub(super) fn pending(&self) -> usize {
        self.tx.pending()
    }

    /// Sends what was pushed, as fast as it is taken.
    ///
    /// # Errors
    /// `Unread` if it is not taken, and if the stream is gone.
    pub(super) async fn flush(&mut self) -> Result<(), LinkError> {
        tokio::time::timeout(self.patience, self.tx.flush())
            .await
            .unwrap_or(Err(LinkError::Unread))
    }

    /// Ends the answer, and waits until all of it has been taken: what lies between flow control
    /// and reader is some pieces.
    ///
    /// # Errors
    /// `Unread` if it is not taken.
    pub(super) async fn end(&mut self) -> Result<(), LinkError> {
        self.tx.finish();
        let taken =
            tokio::time::timeout(self.patience.saturating_mul(2), self.tx.delivered()).await;
        taken.map_err(|_| LinkError::Unread)
    }

    /// Resolves once nobody is there to take it.
    pub(super) async fn gone(&mut self) {
        self.tx.delivered().await;
    }
}
