//! Connections: who is there, what for, and the streams that they open.

mod answers;
mod checkpoint;
mod client;
mod enrol;
mod views;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use common::BlobRef;
use common::token::Role;
use common::wire::stream::Open;
use common::wire::{Refusal, RefusalCode};
use link::identity::read_certificate;
use link::{Channel, LinkError, Purpose, content};
use quinn::{Connection, Incoming, VarInt};
use rustls::pki_types::CertificateDer;

use crate::run::State;

/// How long a message may take to arrive once its stream is open.
const MESSAGE_DEADLINE: Duration = Duration::from_secs(30);
/// How many connections may be between their first packet and their certificate; beyond, addresses are verified first.
const PENDING: usize = 200;

/// Accepts connections until the endpoint closes.
pub(crate) async fn serve(state: Arc<State>, endpoint: quinn::Endpoint) {
    let pending = Arc::new(tokio::sync::Semaphore::new(PENDING));
    while let Some(incoming) = endpoint.accept().await {
        let permit = pending.clone().try_acquire_owned().ok();
        if permit.is_none() && !incoming.remote_address_validated() {
            // Fails only where the address is validated already.
            let _ = incoming.retry();
            continue;
        }
        let state = state.clone();
        tokio::spawn(async move {
            if let Err(error) = serve_connection(&state, incoming, permit).await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
}

async fn serve_connection(
    state: &Arc<State>,
    incoming: Incoming,
    pending: Option<tokio::sync::OwnedSemaphorePermit>,
) -> Result<(), LinkError> {
    let from = incoming.remote_address();
    let connection = incoming.await?;
    drop(pending);
    let (purpose, identity) = read_handshake(&connection)?;
    let refuse = |why: &str| {
        tracing::warn!(%from, ?purpose, why, "refused");
        connection.close(VarInt::from_u32(1), why.as_bytes());
        Ok(())
    };
    if purpose == Purpose::Enrol {
        return enrol::serve(state, &connection).await;
    }
    let Some((name, key_hash)) = identity else { return refuse("a certificate of the grid is needed") };
    if name.grid != state.authority.grid() {
        return refuse("this identity is of another grid");
    }
    let known = state.core.ask(move |core| core.authenticate(name.id, &key_hash)).await;
    let Some(peer) = known.map_err(stopped)? else { return refuse("this identity is not known here, or was revoked") };
    match (purpose, peer.role) {
        (Purpose::Worker, Role::Worker) => worker::serve(state, connection, peer).await,
        (Purpose::Client, Role::Client | Role::Admin) => client::serve(state, connection, peer).await,
        _ => refuse(&format!("an identity of role {} may not do this", peer.role)),
    }
}

fn stopped(_: crate::core::Stopped) -> LinkError {
    LinkError::Closed("the master is shutting down".to_owned())
}

type Certificate = (link::PeerName, [u8; 32]);

/// What TLS has verified: what the connection is for, and whose certificate was shown.
fn read_handshake(connection: &Connection) -> Result<(Purpose, Option<Certificate>), LinkError> {
    let data = connection.handshake_data().and_then(|d| d.downcast::<quinn::crypto::rustls::HandshakeData>().ok());
    let purpose = data.and_then(|d| d.protocol).and_then(|alpn| Purpose::of_alpn(&alpn));
    let purpose = purpose.ok_or_else(|| LinkError::Protocol("no ALPN of ours".to_owned()))?;
    let chain = connection.peer_identity().and_then(|id| id.downcast::<Vec<CertificateDer<'static>>>().ok());
    let identity = chain.as_deref().and_then(|chain| chain.first()).map(|der| read_certificate(der)).transpose()?;
    Ok((purpose, identity))
}

/// The next stream that the other end opens. What it is for is read by whoever serves it, so that no stream waits for
/// the first word of another.
async fn accept(connection: &Connection) -> Result<Channel, LinkError> {
    let (tx, rx) = connection.accept_bi().await?;
    Ok(Channel::new(tx, rx))
}

/// What a stream is for.
async fn read_open(channel: &mut Channel) -> Result<Open, LinkError> {
    within_deadline(channel.rx.expect()).await
}

/// Bounds the wait for one message.
async fn within_deadline<T>(message: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    tokio::time::timeout(MESSAGE_DEADLINE, message)
        .await
        .unwrap_or_else(|_| Err(LinkError::Protocol(format!("a message did not arrive within {MESSAGE_DEADLINE:?}"))))
}

/// What content is for: where room is scarce, results go before new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// A client's, for jobs to come.
    New,
    /// A worker's, of tasks that run or ran.
    Result,
}

/// Serves a stream that carries content.
async fn serve_content(
    state: &State,
    who: &str,
    what: Content,
    open: Open,
    mut channel: Channel,
) -> Result<(), LinkError> {
    match open {
        Open::Get { hash, offset } => content::serve_get(&state.blobs, channel.tx, hash, offset).await,
        Open::Put(blob) => match refuse_blob(state, what, &blob) {
            None => content::serve_put(&state.blobs, channel, blob).await,
            Some(refusal) => {
                tracing::warn!(who, size = blob.size, why = refusal.message, "content refused");
                content::refuse_put(&mut channel.tx, refusal).await
            }
        },
        Open::Control | Open::Request => Err(LinkError::Protocol("not a stream for content".to_owned())),
    }
}

/// Why a blob is not taken, if so: it is too large, or there is no room for it.
fn refuse_blob(state: &State, what: Content, blob: &BlobRef) -> Option<Refusal> {
    let most = state.config.max_blob_bytes;
    if blob.size > most {
        let what = format!("a file of {} bytes is larger than the {most} that this master takes", blob.size);
        let hint = "split the file, or ask the admin to raise max_blob_bytes";
        return Some(Refusal::new(RefusalCode::Invalid, what, hint));
    }
    match what {
        Content::New => state.room.refuse_new(blob.size),
        Content::Result => state.room.refuse_result(blob.size),
    }
}
