//! The door of a gateway: asks the master over connections of this machine's user, and connects
//! again where one is lost.

use std::sync::Arc;

use api::{Coming, Door, FoundContent, Pieces, Replies, Who};
use common::BlobRef;
use common::content::BlobHash;
use common::wire::client::{Reply, Request};
use common::wire::{Refusal, RefusalCode};
use link::{Client, LinkError};
use tokio::sync::mpsc;

use super::pool::{ConnectionPool, RequestTurn};
use crate::failure::{Failure, NAME_FEWER};
use crate::session::{self, Session};
use crate::state::StateDir;

/// The replies that wait for a slow reader.
const AHEAD: usize = 4;

/// The way to the master.
pub(super) struct LinkDoor {
    state: StateDir,
    connections: ConnectionPool<Client>,
    /// Keeps the identity fresh, whoever asks or does not ask meanwhile.
    _session: Session,
}

impl LinkDoor {
    /// Connects, and returns the door with the one whom the master takes this machine for.
    pub(super) async fn open(state: &StateDir) -> Result<(Arc<Self>, Who), Failure> {
        let session = Session::open(state).await?;
        let client = session.client().clone();
        let who = Who {
            user: client.user().to_owned(),
            role: client.role(),
            id: uuid::Uuid::nil(),
            token: None,
        };
        let door = Self {
            state: state.clone(),
            connections: ConnectionPool::new(client, is_open),
            _session: session,
        };
        Ok((Arc::new(door), who))
    }

    /// Returns a client with room for one more request.
    async fn turn(&self) -> Result<RequestTurn<Client>, Refusal> {
        let connect = async {
            let entered = session::enter(&self.state).await;
            let (client, _) = entered.map_err(|error| refusal_of(error.into()))?;
            Ok(client)
        };
        self.connections.turn(connect).await
    }

    async fn pass(
        &self,
        request: Request,
        tx: &mpsc::Sender<Result<Reply, Refusal>>,
    ) -> Result<(), Refusal> {
        let turn = self.turn().await?;
        let mut replies = turn.client.stream(&request).await.map_err(refused)?;
        while let Some(reply) = replies.next().await.map_err(refused)? {
            if tx.send(Ok(reply)).await.is_err() {
                return Ok(());
            }
        }

        Ok(())
    }
}

fn is_open(client: &Client) -> bool {
    client.connection().quic().close_reason().is_none()
}

/// The way to the master, as the API takes it.
pub(super) struct Gateway(pub(super) Arc<LinkDoor>);

impl Door for Gateway {
    fn ask(&self, _: &Who, request: Request) -> Replies {
        let (tx, rx) = mpsc::channel(AHEAD);
        let door = self.0.clone();
        tokio::spawn(async move {
            let passed = tokio::select! {
                passed = door.pass(request, &tx) => passed,
                () = tx.closed() => return,
            };
            if let Err(refusal) = passed {
                let _ = tx.send(Err(refusal)).await;
            }
        });
        rx
    }

    fn get(&self, _: &Who, hash: BlobHash, from: u64) -> Coming<'_, Result<FoundContent, Refusal>> {
        Box::pin(async move {
            let turn = self.0.turn().await?;
            let content = turn.client.content(hash, from).await;
            let mut content = content.map_err(refused)?;
            let size = content.size();
            let (tx, pieces) = mpsc::channel(AHEAD);
            tokio::spawn(async move {
                let _turn = turn;
                loop {
                    let piece = match content.next().await {
                        Ok(Some(piece)) => Ok(piece.into()),
                        Ok(None) => return,
                        Err(error) => Err(refused(error)),
                    };
                    let over = piece.is_err();
                    if tx.send(piece).await.is_err() || over {
                        return;
                    }
                }
            });
            Ok(FoundContent { size, pieces })
        })
    }

    fn put(&self, _: &Who, blob: BlobRef, mut content: Pieces) -> Coming<'_, Result<(), Refusal>> {
        Box::pin(async move {
            // The master wants to know how much it is spared: so the whole is here first.
            let file = tempfile::NamedTempFile::new().map_err(|error| here(&error))?;
            let mut to = tokio::fs::File::from_std(file.reopen().map_err(|error| here(&error))?);
            let mut left = blob.size;
            while let Some(piece) = content.recv().await {
                let piece = piece?;
                left = left.checked_sub(piece.len() as u64).ok_or_else(longer)?;
                let written = tokio::io::AsyncWriteExt::write_all(&mut to, &piece).await;
                written.map_err(|error| here(&error))?;
            }
            let flushed = tokio::io::AsyncWriteExt::flush(&mut to).await;
            flushed.map_err(|error| here(&error))?;

            let turn = self.0.turn().await?;
            let put = link::content::put(turn.client.connection(), file.path(), blob).await;
            put.map_err(refused)
        })
    }
}

fn longer() -> Refusal {
    let hint = "send exactly as many bytes as were announced";
    Refusal::new(
        RefusalCode::Invalid,
        "the content is longer than it was said to be",
        hint,
    )
}

fn here(error: &std::io::Error) -> Refusal {
    let what = format!("the gateway cannot keep the content: {error}");
    Refusal::new(
        RefusalCode::Unavailable,
        what,
        "see the disk of this machine",
    )
}

/// A failed request in the words of a refusal.
fn refused(error: LinkError) -> Refusal {
    match error {
        LinkError::Refused(refusal) => refusal,
        LinkError::NotAccepted(_) => {
            let hint = "deskgrid doctor says what to do";
            Refusal::new(RefusalCode::NotAuthorised, error.to_string(), hint)
        }
        LinkError::TooLong => Refusal::new(RefusalCode::Invalid, error.to_string(), NAME_FEWER),
        _ => {
            let hint = "try again; deskgrid doctor looks for the cause";
            Refusal::new(RefusalCode::Unavailable, error.to_string(), hint)
        }
    }
}

fn refusal_of(failure: Failure) -> Refusal {
    let code = match failure.exit {
        crate::failure::Exit::NotAuthorised => RefusalCode::NotAuthorised,
        _ => RefusalCode::Unavailable,
    };
    Refusal::new(code, failure.line(), failure.hint)
}
