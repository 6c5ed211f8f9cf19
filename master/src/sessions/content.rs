//! Streams that carry content: the rights to read it and to name it. Knowing a hash gives no right.
//! Users read content that their jobs, and jobs shared with them, need or left; workers read
//! content that their attempts need. A peer that names content uploads it, unless it is that peer's
//! already.

use std::collections::BTreeSet;
use std::time::Duration;

use common::content::BlobHash;
use common::token::Role;
use common::units::Bytes;
use common::wire::peer::PeerReport;
use common::wire::stream::{GetReply, Open};
use common::wire::worker::ToMaster;
use common::wire::{Refusal, RefusalCode};
use common::{BlobRef, Completion, HostId, Span};
use link::content::SendPace;
use link::{Channel, Contents, FrameSender, LinkError, content};

use super::{share, stopped};
use crate::core::ask::{HostAsk, UpkeepAsk};
use crate::core::{ContentNeed, CoreHandle};
use crate::run::SessionContext;
use crate::store::{Peer, counted};

/// The time after which one who waits for content is told that it is on its way.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Serves a stream of `Open::Get` or `Open::Put`.
pub(super) async fn serve(
    state: &SessionContext,
    peer: &Peer,
    open: Open,
    channel: Channel,
) -> Result<(), LinkError> {
    match open {
        Open::Get {
            hash,
            offset,
            peers,
            failed,
        } => give(state, peer, (hash, offset), (peers, failed), channel.tx).await,
        Open::Put(blob) => take(state, peer, blob, channel).await,
        Open::Control
        | Open::Request
        | Open::Renew { .. }
        | Open::RenewProved { .. }
        | Open::Tail { .. } => Err(LinkError::Protocol("not a stream for content".to_owned())),
    }
}

/// The content that the completions of a message name.
pub(super) fn named_by(message: &ToMaster) -> Vec<BlobRef> {
    let ToMaster::Delivered(deliveries) = message else {
        return Vec::new();
    };
    let of = deliveries.iter().map(|delivery| &delivery.completion);
    of.flat_map(Completion::blobs).collect()
}

async fn give(
    state: &SessionContext,
    peer: &Peer,
    (hash, offset): (BlobHash, u64),
    peers: (bool, Vec<PeerReport>),
    tx: FrameSender,
) -> Result<(), LinkError> {
    match (may_fetch(state, peer, hash).await?, peer.host) {
        (Ok(()), Some(host)) => {
            share::give(state, (host, &peer.name), (hash, offset), peers, tx).await
        }
        (Ok(()), None) => send(state, tx, (hash, offset), &SendPace::default()).await,
        (Err(refusal), _) => content::refuse_get(tx, refusal).await,
    }
}

/// Whether this peer may have this content; else the refusal, which is in the audit log.
pub(super) async fn may_fetch(
    state: &SessionContext,
    peer: &Peer,
    hash: BlobHash,
) -> Result<Result<(), Refusal>, LinkError> {
    let refusal = match (peer.role, peer.host) {
        (Role::Admin, _) => None,
        (Role::Worker, Some(host)) => (!needs_at_a_pace(state, host, hash).await?)
            .then_some("no attempt that it was given needs this content"),
        _ => (!may_read(state, &peer.name, hash).await?)
            .then_some("no job that it may see needs this content"),
    };

    Ok(match refusal {
        None => Ok(()),
        Some(why) => {
            state.refused(&peer.name, "read", &format!("content {hash}"), why);
            Err(content::not_here(hash))
        }
    })
}

/// The same as `needs`, for a host that has to wait once it has asked for much that it does not need: each
/// such question costs the core a look at all its attempts.
async fn needs_at_a_pace(
    state: &SessionContext,
    host: HostId,
    hash: BlobHash,
) -> Result<bool, LinkError> {
    let wait = state.counters.may_ask_for_content(host, state.clock.now());
    if wait > Span::ZERO {
        tokio::time::sleep(wait.into()).await;
    }

    let needed = needs(state, host, hash).await?;
    if !needed {
        state.counters.asked_in_vain(host, state.clock.now());
    }
    Ok(needed)
}

/// Whether an attempt that the host has now needs this content: as an input, or in the checkpoint
/// that it starts from.
pub(super) async fn needs(
    state: &SessionContext,
    host: HostId,
    hash: BlobHash,
) -> Result<bool, LinkError> {
    let lists = match state
        .core
        .ask(HostAsk::Needs(host, hash))
        .await
        .map_err(stopped)?
    {
        ContentNeed::This => return Ok(true),
        ContentNeed::FilesOf(lists) if lists.is_empty() => return Ok(false),
        ContentNeed::FilesOf(lists) => lists,
    };

    // A list that cannot be brought cannot be read either. Storage may take its time: a turn that
    // waited for it would keep other hosts waiting.
    let mut held = Vec::new();
    for list in &lists {
        held.extend(state.blobs.bring(&state.core, list.hash).await.ok());
    }
    // Each attempt of the host can have a list, and each list four megabytes.
    let turn = state.counters.lists_turn(host).await;
    let blobs = state.blobs.clone();
    let looked = tokio::task::spawn_blocking(move || {
        // Reading goes on where the host is gone.
        let _kept = (held, turn);
        lists.iter().any(|list| {
            let files = super::checkpoint::read_list(&blobs, *list);
            files.is_ok_and(|files| files.files.iter().any(|file| file.blob.hash == hash))
        })
    });
    looked.await.map_err(|e| LinkError::Closed(e.to_string()))
}

async fn may_read(state: &SessionContext, user: &str, hash: BlobHash) -> Result<bool, LinkError> {
    let reader = state.reader.clone();
    let user = user.to_owned();
    let looked = tokio::task::spawn_blocking(move || reader.may_read(&user, &hash)).await;
    looked
        .map_err(|e| LinkError::Closed(e.to_string()))?
        .map_err(|e| LinkError::Closed(e.to_string()))
}

/// Takes an upload, unless the content is here and this peer has uploaded it before or may see it
/// anyway. The answer does not depend on whether other peers have it.
async fn take(
    state: &SessionContext,
    peer: &Peer,
    blob: BlobRef,
    mut channel: Channel,
) -> Result<(), LinkError> {
    let taken = take_into(state, peer, blob, &mut channel).await;
    let Err(LinkError::Refused(refusal)) = taken else {
        taken?;
        return content::answer_stored(channel).await;
    };

    tracing::warn!(
        who = peer.name,
        size = blob.size,
        why = refusal.message,
        "content is not taken"
    );
    content::refuse_put(&mut channel.tx, refusal).await
}

async fn take_into(
    state: &SessionContext,
    peer: &Peer,
    blob: BlobRef,
    channel: &mut Channel,
) -> Result<(), LinkError> {
    let from = peer.id.simple().to_string();
    let local = state.blobs.local();
    let turn = local.turn(blob.hash, &from).await;
    // It counts as under way until it counts as unused.
    let mut _begun = None;
    if !is_here_for(state, peer, blob).await? {
        _begun = refuse(state, peer, &from, blob).await??;
        state.blobs.make_room(&blob);
        content::receive_put(local, channel, blob, &turn).await?;
        state.blobs.keep(core_for(state, peer), blob).await?;
    }

    note(state, peer, blob).await
}

/// The core as this peer asks it: a host's content waits for the store for as long as it takes.
pub(super) fn core_for<'a>(state: &'a SessionContext, peer: &Peer) -> &'a CoreHandle {
    match peer.host {
        Some(_) => &state.core,
        None => &state.for_people,
    }
}

/// Whether the content is here, and this peer may name it without uploading it. Then it counts as
/// used now.
pub(super) async fn is_here_for(
    state: &SessionContext,
    peer: &Peer,
    blob: BlobRef,
) -> Result<bool, LinkError> {
    if !state.blobs.has(&blob) || !may_name(state, peer, blob).await? {
        return Ok(false);
    }
    let counted = state.blobs.count_on(core_for(state, peer), &blob).await;
    counted.map_err(stopped)
}

/// Counts on these blobs up to the first one that is not here, and returns them. A sweep that has found them
/// old leaves them from now on, though the core has still to hear what names them.
pub(super) async fn count_on(
    state: &SessionContext,
    blobs: &[BlobRef],
) -> Result<BTreeSet<BlobRef>, LinkError> {
    let mut here = BTreeSet::new();
    for blob in blobs.iter().copied().collect::<BTreeSet<_>>() {
        if !state.blobs.has(&blob) {
            break;
        }
        let counted = state.blobs.count_on(&state.core, &blob).await;
        if counted.map_err(stopped)? {
            here.insert(blob);
        }
    }

    Ok(here)
}

/// Sends content from this byte on, once it is among the files here.
pub(super) async fn send(
    state: &SessionContext,
    mut tx: FrameSender,
    (hash, offset): (BlobHash, u64),
    pace: &SendPace,
) -> Result<(), LinkError> {
    let bringing = state.blobs.bring(&state.core, hash);
    tokio::pin!(bringing);
    let held = loop {
        tokio::select! {
            held = &mut bringing => break held,
            () = tokio::time::sleep(TELL_EVERY) => {
                let why = "the master fetches it from its storage".to_owned();
                tx.send(&GetReply::Waits(why)).await?;
            }
        }
    };

    match held {
        Ok(_held) => content::serve_get(state.blobs.local(), tx, hash, offset, pace).await,
        Err(refusal) => content::refuse_get(tx, refusal).await,
    }
}

/// Whether this peer may name this content without uploading it.
pub(super) async fn may_name(
    state: &SessionContext,
    peer: &Peer,
    blob: BlobRef,
) -> Result<bool, LinkError> {
    match (peer.role, peer.host) {
        (Role::Admin, _) => Ok(true),
        (_, Some(host)) => {
            Ok(state.uploads.brought(host, &blob) || needs(state, host, blob.hash).await?)
        }
        (_, None) => {
            let reader = state.reader.clone();
            let user = peer.name.clone();
            let looked =
                tokio::task::spawn_blocking(move || reader.may_name(&user, &blob.hash)).await;
            looked
                .map_err(|e| LinkError::Closed(e.to_string()))?
                .map_err(|e| LinkError::Closed(e.to_string()))
        }
    }
}

/// Notes that this peer has uploaded this content: durably for a user, in memory for a host, since
/// its worker uploads everything again to the next master process.
pub(super) async fn note(
    state: &SessionContext,
    peer: &Peer,
    blob: BlobRef,
) -> Result<(), LinkError> {
    match peer.host {
        Some(host) => {
            state.uploads.note(host, blob);
            Ok(())
        }
        None => {
            let came = UpkeepAsk::ContentCame(peer.name.clone(), blob);
            state.for_people.ask(came).await.map_err(stopped)
        }
    }
}

/// Decides whether a blob is refused: it is too large, there is no room for it, or its user has
/// uploaded too much that no job needs. Returns the started upload otherwise.
pub(super) async fn refuse<'a>(
    state: &'a SessionContext,
    peer: &Peer,
    from: &str,
    blob: BlobRef,
) -> Result<Result<Option<crate::uploads::BegunUpload<'a>>, Refusal>, LinkError> {
    let most = state.config.max_blob_bytes;
    if blob.size > most {
        let what = format!(
            "a file of {} is larger than the {} that this master takes",
            Bytes(blob.size),
            Bytes(most)
        );
        let hint = "split the file, or ask the admin to raise max_blob_bytes";
        return Ok(Err(Refusal::new(RefusalCode::Invalid, what, hint)));
    }

    if peer.role == Role::Worker {
        return Ok(state.room.refuse_result(blob.size).map_or(Ok(None), Err));
    }
    if let Some(refusal) = state.room.refuse_new(blob.size) {
        return Ok(Err(refusal));
    }

    let unused = UpkeepAsk::UnusedOf(peer.name.clone());
    let unused: u64 = state.for_people.ask(unused).await.map_err(stopped)?;
    let blobs = state.blobs.local().clone();
    let from = from.to_owned();
    let parts = tokio::task::spawn_blocking(move || blobs.begun(&from)).await;
    // If the parts cannot be counted, they do not count.
    let mut parts = parts
        .map_err(|e| LinkError::Closed(e.to_string()))?
        .unwrap_or_default();
    for part in parts.values_mut() {
        *part = counted(*part);
    }

    // What has come of files that are under way lies on the disk as well.
    let now = parts
        .values()
        .fold(unused, |sum, part| sum.saturating_add(*part));
    let most = state.config.limits.unused_bytes_per_user;
    let room = state.room.for_unused(now, most);
    let asked = (blob.hash, counted(blob.size));
    match state.uploads.begin(peer.id, asked, (unused, &parts), room) {
        Ok(begun) => Ok(Ok(Some(begun))),
        Err(refusal) => {
            state.refused(
                &peer.name,
                "put",
                "content that no job needs",
                &refusal.message,
            );
            Ok(Err(refusal))
        }
    }
}
