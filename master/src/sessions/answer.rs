//! An answer on its way to a client, sent piece by piece as the client reads it. It is given up
//! when the client reads nothing for too long.

use std::time::Duration;

use common::wire::client::Reply;
use link::{FrameSender, LinkError};

/// An answer to one request.
pub(super) struct Response {
    tx: FrameSender,
    /// The time a client may take to read one piece.
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

    /// The bytes pushed since the last flush.
    pub(super) fn pending(&self) -> usize {
        self.tx.pending()
    }

    /// Sends what was pushed, as fast as the client reads it.
    ///
    /// # Errors
    /// Returns `LinkError::Unread` if the client does not read it, and fails if the stream is gone.
    pub(super) async fn flush(&mut self) -> Result<(), LinkError> {
        tokio::time::timeout(self.patience, self.tx.flush())
            .await
            .unwrap_or(Err(LinkError::Unread))
    }

    /// Ends the answer, and waits until the client has read all of it. That may take twice as long
    /// as one piece: several pieces lie between flow control and the reader.
    ///
    /// # Errors
    /// Returns `LinkError::Unread` if the client does not read it.
    pub(super) async fn end(&mut self) -> Result<(), LinkError> {
        self.tx.finish();
        let taken =
            tokio::time::timeout(self.patience.saturating_mul(2), self.tx.delivered()).await;
        taken.map_err(|_| LinkError::Unread)
    }

    /// Resolves once the client has closed or lost the stream.
    pub(super) async fn gone(&mut self) {
        self.tx.delivered().await;
    }
}
