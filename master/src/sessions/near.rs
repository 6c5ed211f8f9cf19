//! The door of the master's own API: requests over HTTP are answered in this process as those over
//! QUIC are, by the same rights, in the same turns, within the same limits.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use api::{Coming, Door, Entrance, FoundContent, Pieces, Replies, Who};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use common::BlobRef;
use common::content::BlobHash;
use common::token::{JoinToken, Role};
use common::wire::client::Request;
use common::wire::{Refusal, RefusalCode};
use link::LinkError;
use tokio::sync::mpsc;

use super::answer::Response;
use super::client::{NOT_READ, carry_out};
use super::content;
use crate::run::SessionContext;
use crate::store::Peer;

/// The replies, or pieces of content, that wait for a slow reader.
const AHEAD: usize = 4;
/// The bytes of content that are read at a time.
const PIECE: usize = 128 * 1024;

/// The master, as the API asks it.
pub(crate) struct NearDoor(pub(crate) Arc<SessionContext>);

/// Returns the identity behind the one who asks. Its key is of no use here: the one who asks was
/// let in by a token.
fn peer(who: &Who) -> Peer {
    Peer {
        id: who.id,
        role: who.role,
        name: who.user.clone(),
        key_hash: [0; 32],
        host: None,
    }
}

fn unavailable(error: &impl std::fmt::Display) -> Refusal {
    let hint = "try again; the master's log says more";
    Refusal::new(RefusalCode::Unavailable, error.to_string(), hint)
}

fn missing(hash: BlobHash) -> Refusal {
    let hint = "it may have been forgotten; ask for the job's outputs again";
    let what = format!("content {hash} is not here");
    Refusal::new(RefusalCode::NotFound, what, hint)
}

impl Door for NearDoor {
    fn ask(&self, who: &Who, request: Request) -> Replies {
        let (tx, rx) = mpsc::channel(AHEAD);
        let state = self.0.clone();
        let peer = peer(who);
        tokio::spawn(async move {
            let patience = state.config.limits.answer_patience.0;
            let mut response = Response::near(tx, patience);
            let asked = super::client::name(&request);
            let told = carry_out(&state, &peer, request, &mut response).await;
            match told {
                Err(LinkError::Unread) => state.refused(&peer.name, "read", &asked, NOT_READ),
                Err(error) => tracing::debug!(user = peer.name, %error, "answer ended"),
                Ok(()) => {}
            }
        });

        rx
    }

    fn get(
        &self,
        who: &Who,
        hash: BlobHash,
        from: u64,
    ) -> Coming<'_, Result<FoundContent, Refusal>> {
        let peer = peer(who);
        Box::pin(async move {
            let state = &self.0;
            let may = match peer.role {
                Role::Admin => true,
                _ => {
                    let may = content::may_read(state, &peer.name, hash).await;
                    may.map_err(|error| unavailable(&error))?
                }
            };
            if !may {
                let why = "no job that it may see needs this content";
                state.refused(&peer.name, "read", &format!("content {hash}"), why);
                return Err(missing(hash));
            }

            // Each content on its way takes one of the master's files.
            let turn = state.counters.contents.enter(peer.id).await;
            let path = state.blobs.path_of(&hash);
            let opened = tokio::task::spawn_blocking(move || {
                let mut file = std::fs::File::open(path)?;
                let size = file.metadata()?.len();
                file.seek(SeekFrom::Start(from))?;
                Ok::<_, std::io::Error>((file, size))
            });
            let opened = opened.await.map_err(|error| unavailable(&error))?;
            let (mut file, size) = opened.map_err(|_| missing(hash))?;

            let (tx, pieces) = mpsc::channel(AHEAD);
            tokio::task::spawn_blocking(move || {
                let _turn = turn;
                let mut piece = vec![0; PIECE];
                loop {
                    let read = match file.read(&mut piece) {
                        Ok(0) => return,
                        Ok(count) => Ok(Bytes::copy_from_slice(&piece[..count])),
                        Err(error) => Err(unavailable(&error)),
                    };
                    let over = read.is_err();
                    if tx.blocking_send(read).is_err() || over {
                        return;
                    }
                }
            });
            Ok(FoundContent { size, pieces })
        })
    }

    fn put(&self, who: &Who, blob: BlobRef, content: Pieces) -> Coming<'_, Result<(), Refusal>> {
        let peer = peer(who);
        Box::pin(async move {
            let state = &self.0;
            let failed = |error: LinkError| unavailable(&error);
            let _turn = state.counters.contents.enter(peer.id).await;
            let from = peer.id.simple().to_string();
            let _arriving = state.blobs.turn(blob.hash, &from).await;

            let there = state.blobs.has(&blob);
            if there
                && content::may_name(state, &peer, blob)
                    .await
                    .map_err(failed)?
            {
                state.blobs.touch(&blob);
            } else {
                let refused = content::refuse(state, &peer, &from, blob).await;
                let begun = refused.map_err(failed)??;
                let taken = take(state, blob, content).await?;
                drop(begun);
                if taken != blob {
                    // It is the sender's all the same: it counts until it is swept.
                    content::note(state, &peer, taken).await.map_err(failed)?;
                    let what = format!("the content is {}, not {}", taken.hash, blob.hash);
                    let hint = "send it again; was the file changed meanwhile?";
                    return Err(Refusal::new(RefusalCode::Conflict, what, hint));
                }
            }
            content::note(state, &peer, blob).await.map_err(failed)
        })
    }
}

/// Takes content into the store, and returns what it is.
async fn take(state: &SessionContext, blob: BlobRef, content: Pieces) -> Result<BlobRef, Refusal> {
    let blobs = state.blobs.clone();
    let arriving = PiecesRead {
        content,
        piece: Bytes::new(),
        left: blob.size,
        refusal: None,
    };
    let added = tokio::task::spawn_blocking(move || {
        let mut arriving = arriving;
        let added = blobs.add_reader(&mut arriving);
        match (added, arriving.refusal.take()) {
            (_, Some(refusal)) => Err(refusal),
            (Ok(found), None) => Ok(found),
            (Err(error), None) => Err(unavailable(&error)),
        }
    });

    added.await.map_err(|error| unavailable(&error))?
}

/// Content that comes piece by piece, as a file that is read.
struct PiecesRead {
    content: Pieces,
    piece: Bytes,
    left: u64,
    refusal: Option<Refusal>,
}

impl Read for PiecesRead {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let stop = || Err(std::io::ErrorKind::Other.into());
        while self.piece.is_empty() {
            match self.content.blocking_recv() {
                None => return Ok(0),
                Some(Ok(piece)) if piece.len() as u64 <= self.left => {
                    self.left -= piece.len() as u64;
                    self.piece = piece;
                }
                Some(Ok(_)) => {
                    let what = "the content is longer than it was said to be";
                    let hint = "send exactly as many bytes as were announced";
                    self.refusal = Some(Refusal::new(RefusalCode::Invalid, what, hint));
                    return stop();
                }
                Some(Err(refusal)) => {
                    self.refusal = Some(refusal);
                    return stop();
                }
            }
        }

        let count = self.piece.len().min(into.len());
        let head = self.piece.split_to(count);
        into[..count].copy_from_slice(&head);
        Ok(count)
    }
}

/// The entrance of the master's API: bearer tokens.
pub(crate) struct Bearers(pub(crate) Arc<SessionContext>);

impl Entrance for Bearers {
    fn is_ours(&self, host: &str) -> bool {
        crate::http::is_ours(host, &self.0)
    }

    fn admit<'a>(&'a self, headers: &'a HeaderMap) -> Coming<'a, Option<Who>> {
        Box::pin(async move {
            let shown = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
            let (scheme, token) = shown.split_once(' ')?;
            if !scheme.eq_ignore_ascii_case("bearer") {
                return None;
            }
            let token: JoinToken = token.parse().ok()?;
            let hash = *blake3::hash(&token.secret).as_bytes();
            let now = self.0.clock.now();

            let reader = self.0.reader.clone();
            let found = tokio::task::spawn_blocking(move || reader.spoken_for(token.id, hash, now));
            let peer = match found.await.ok()? {
                Ok(peer) => peer,
                Err(error) => {
                    tracing::error!(%error, "the store could not be read");
                    None
                }
            };
            let Some(peer) = peer else {
                let subject = format!("token {}", token.id);
                let why = "the token does not count, or not any more";
                self.0.refused("somebody over HTTP", "ask", &subject, why);
                return None;
            };
            Some(Who {
                user: peer.name,
                role: peer.role,
                id: peer.id,
            })
        })
    }

    fn takes_tokens(&self) -> bool {
        true
    }

    fn is_encrypted(&self) -> bool {
        self.0.config.http_certificate.is_some() || self.0.config.http_behind_proxy
    }

    fn way_in(&self) -> &'static str {
        "send Authorization: Bearer TOKEN; an admin makes one with deskgrid token create --http --role client --for USER"
    }
}
