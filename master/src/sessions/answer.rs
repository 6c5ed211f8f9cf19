//! An answer on its way to a client, sent piece by piece as the client reads it. It is given up
//! when the client reads nothing for too long.

use std::time::Duration;

use common::wire::Refusal;
use common::wire::client::Reply;
use link::{FrameSender, LinkError};
use tokio::sync::mpsc;

/// An answer to one request. One that is dropped before its end is broken off, so that nobody takes
/// what has come for all of it.
pub(super) struct Response {
    to: AnswerReader,
    ended: bool,
    /// The time a client may take to read one piece.
    patience: Duration,
}

/// The one who reads an answer.
enum AnswerReader {
    /// A client, over its connection.
    Far(FrameSender),
    /// This program's own API, with what was pushed since the last flush.
    Near(mpsc::Sender<Result<Reply, Refusal>>, Vec<Reply>),
}

impl Response {
    pub(super) fn new(tx: FrameSender, patience: Duration) -> Self {
        Self {
            to: AnswerReader::Far(tx),
            ended: false,
            patience,
        }
    }

    /// An answer to this program's own API.
    pub(super) fn near(tx: mpsc::Sender<Result<Reply, Refusal>>, patience: Duration) -> Self {
        Self {
            to: AnswerReader::Near(tx, Vec::new()),
            ended: false,
            patience,
        }
    }

    /// Keeps a reply for the next flush, unless it is too long for one message; returns whether it was
    /// kept.
    pub(super) fn push_if_fits(&mut self, reply: &Reply) -> Result<bool, LinkError> {
        match &mut self.to {
            AnswerReader::Far(tx) => tx.push_if_fits(reply),
            AnswerReader::Near(_, replies) => {
                replies.push(reply.clone());
                Ok(true)
            }
        }
    }

    /// The bytes pushed since the last flush. Of what goes to this program itself each reply counts
    /// as very long: so it is sent at once.
    pub(super) fn pending(&self) -> usize {
        match &self.to {
            AnswerReader::Far(tx) => tx.pending(),
            AnswerReader::Near(_, replies) if replies.is_empty() => 0,
            AnswerReader::Near(..) => usize::MAX,
        }
    }

    /// Sends what was pushed, as fast as the client reads it.
    ///
    /// # Errors
    /// Returns `LinkError::Unread` if the client does not read it, and fails if the stream is gone.
    pub(super) async fn flush(&mut self) -> Result<(), LinkError> {
        let sent = async {
            match &mut self.to {
                AnswerReader::Far(tx) => tx.flush().await,
                AnswerReader::Near(tx, replies) => {
                    for reply in replies.drain(..) {
                        let reply = match reply {
                            Reply::Refused(refusal) => Err(refusal),
                            reply => Ok(reply),
                        };
                        tx.send(reply).await.map_err(|_| nobody())?;
                    }
                    Ok(())
                }
            }
        };

        tokio::time::timeout(self.patience, sent)
            .await
            .unwrap_or(Err(LinkError::Unread))
    }

    /// Ends the answer, and waits until the client has read all of it. That may take twice as long
    /// as one piece: several pieces lie between flow control and the reader.
    ///
    /// # Errors
    /// Returns `LinkError::Unread` if the client does not read it.
    pub(super) async fn end(&mut self) -> Result<(), LinkError> {
        let AnswerReader::Far(tx) = &mut self.to else {
            return Ok(());
        };
        tx.finish();
        self.ended = true;
        let taken = tokio::time::timeout(self.patience.saturating_mul(2), tx.delivered()).await;
        taken.map_err(|_| LinkError::Unread)
    }

    /// Resolves once the client has closed or lost the stream.
    pub(super) async fn gone(&mut self) {
        match &mut self.to {
            AnswerReader::Far(tx) => tx.delivered().await,
            AnswerReader::Near(tx, _) => tx.closed().await,
        }
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        if let AnswerReader::Far(tx) = &mut self.to
            && !self.ended
        {
            tx.reset();
        }
    }
}

fn nobody() -> LinkError {
    LinkError::Closed("nobody reads the answer any more".to_owned())
}
