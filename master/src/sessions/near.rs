//! The door of the master's own API: requests over HTTP are answered in this process as those over
//! QUIC are, by the same rights, in the same turns, within the same limits.

use std::sync::Arc;

use api::{Coming, Door, FoundContent, Pieces, Replies, Who};
use bytes::Bytes;
use common::BlobRef;
use common::content::BlobHash;
use common::wire::client::Request;
use common::wire::{Refusal, RefusalCode};
use link::LinkError;
use link::content::{FilePieces, not_here, receive_whole, refusal_of};
use tokio::sync::mpsc;

use super::answer::Response;
use super::bearers::lapsed;
use super::client::{NOT_READ, carry_out};
use super::content;
use crate::run::SessionContext;
use crate::store::Peer;

/// The replies, or pieces of content, that wait for a slow reader.
const AHEAD: usize = 4;

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

impl Door for NearDoor {
    fn ask(&self, who: &Who, request: Request) -> Replies {
        let (tx, rx) = mpsc::channel(AHEAD);
        let state = self.0.clone();
        let peer = peer(who);
        let token = who.token;
        tokio::spawn(async move {
            let patience = state.config.limits.answer_patience.0;
            let mut response = Response::near(tx.clone(), patience);
            let asked = super::client::name(&request);
            let told = tokio::select! {
                told = carry_out(&state, &peer, request, &mut response) => told,
                refusal = lapsed(&state, token) => {
                    state.refused(&peer.name, "read", &asked, &refusal.message);
                    let _ = tx.send(Err(refusal)).await;
                    return;
                }
            };
            let Err(error) = told else { return };
            match &error {
                LinkError::Unread => state.refused(&peer.name, "read", &asked, NOT_READ),
                error => tracing::debug!(user = peer.name, %error, "answer ended"),
            }
            // Nobody takes what has come for all of it.
            let _ = tx.send(Err(unavailable(&error))).await;
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
        let who = who.clone();
        Box::pin(async move {
            let state = &self.0;
            let may = content::may_fetch(state, &peer, hash).await;
            may.map_err(|error| unavailable(&error))??;

            // Each content on its way takes one of the master's files.
            let turn = state.counters.contents.enter(peer.id).await;
            let held = state.blobs.bring(&state.core, hash).await?;
            let opened = FilePieces::open(state.blobs.local().path_of(&hash), from).await;
            let (file, size) = opened.map_err(|_| not_here(hash))?;

            let (tx, pieces) = mpsc::channel(AHEAD);
            let (state, token) = (Arc::clone(state), who.token);
            tokio::spawn(async move {
                let _kept = (turn, held);
                tokio::select! {
                    () = pass_on(file, &tx) => {}
                    refusal = lapsed(&state, token) => drop(tx.send(Err(refusal)).await),
                }
            });
            Ok(FoundContent { size, pieces })
        })
    }

    fn put(
        &self,
        who: &Who,
        blob: BlobRef,
        mut content: Pieces,
    ) -> Coming<'_, Result<(), Refusal>> {
        let peer = peer(who);
        let token = who.token;
        Box::pin(async move {
            let state = &self.0;
            let failed = |error: LinkError| match error {
                LinkError::Refused(refusal) => refusal,
                error => unavailable(&error),
            };
            let _turn = state.counters.contents.enter(peer.id).await;
            let from = peer.id.simple().to_string();
            let local = state.blobs.local();
            let arriving = local.turn(blob.hash, &from).await;

            // It counts as under way until it counts as unused.
            let mut _begun = None;
            let there = content::is_here_for(state, &peer, blob).await;
            if !there.map_err(failed)? {
                let refused = content::refuse(state, &peer, &from, blob).await;
                _begun = refused.map_err(failed)??;
                state.blobs.make_room(&blob);
                tokio::select! {
                    taken = receive_whole(local, &mut content, blob, &arriving) => {
                        taken.map_err(not_whole)?;
                    }
                    refusal = lapsed(state, token) => return Err(refusal),
                }
                state.blobs.keep(&state.for_people, blob).await?;
            }
            content::note(state, &peer, blob).await.map_err(failed)
        })
    }
}

/// Passes a file on, as fast as it is taken.
async fn pass_on(mut file: FilePieces, to: &mpsc::Sender<Result<Bytes, Refusal>>) {
    loop {
        let piece = match file.next().await {
            Ok(None) => return,
            Ok(Some((rest, piece))) => {
                file = rest;
                piece
            }
            Err(error) => return drop(to.send(Err(unavailable(&error))).await),
        };
        if to.send(Ok(piece)).await.is_err() {
            return;
        }
    }
}

/// Returns the refusal of content that did not arrive whole.
fn not_whole(error: LinkError) -> Refusal {
    match error {
        LinkError::Refused(refusal) => refusal,
        error => refusal_of(&error).unwrap_or_else(|| {
            let hint = "send it again, and all of it";
            Refusal::new(RefusalCode::Invalid, error.to_string(), hint)
        }),
    }
}
