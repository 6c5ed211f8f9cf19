//! A blob on its way into a store, from the master or from hosts that it names ([`Fetching`]), and
//! how fast content may go ([`SendPace`]).

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use common::BlobRef;
use common::content::BlobHash;
use common::wire::peer::{PeerGet, PeerReport, PeerSource};
use common::wire::stream::{GetReply, Open};
use quinn::VarInt;
use tokio::time::Instant;

use super::pieces::{Incoming, Patience, send_file};
use super::{Arriving, BlobStore, ByteCount, IncomingBlob, other_size};
use crate::channel::Channel;
use crate::endpoint::Connection;
use crate::error::LinkError;
use crate::peer::PeerHost;

/// The code with which a host breaks off what it sends: its owner needs the PC, or the master has
/// taken the ticket back.
pub(crate) const WITHDRAWN: VarInt = VarInt::from_u32(3);

/// The patience with a host: it is not the only one that has the content.
const WITH_HOSTS: Patience = Patience {
    stall: Duration::from_secs(5),
    floor: Some((Duration::from_secs(5), 512 * 1024)),
};
/// The longest time until a host has answered a request.
const ANSWER: Duration = Duration::from_secs(6);

/// The bytes that were sent, and the most in a second.
#[derive(Debug, Default)]
pub struct SendPace {
    sent: ByteCount,
    /// 0: any number.
    per_s: u64,
    free_at: Mutex<Option<Instant>>,
}

impl SendPace {
    /// At most this many bytes a second, all that share it together; 0: any number.
    pub fn of(per_s: u64) -> Self {
        Self {
            per_s,
            ..Self::default()
        }
    }

    /// At any pace, with the bytes counted where others count theirs.
    pub(super) fn counting(count: &ByteCount) -> Self {
        Self {
            sent: count.clone(),
            ..Self::default()
        }
    }

    /// Returns the bytes that were sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.moved()
    }

    pub(super) fn note(&self, bytes: u64) {
        self.sent.add(bytes);
    }

    /// Waits until this many bytes may go.
    pub(super) async fn turn(&self, bytes: u64) {
        if self.per_s == 0 {
            return;
        }
        let at = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let at = free_at.map_or(now, |free| free.max(now));
            *free_at = Some(at + Duration::from_secs_f64(bytes as f64 / self.per_s as f64));
            at
        };
        tokio::time::sleep_until(at).await;
    }
}

/// A blob that is to come into a store, for whoever wants it there: they share the transfer.
#[derive(Debug)]
pub struct Fetching {
    store: BlobStore,
    blob: BlobRef,
    turn: Arriving,
}

/// The sender in the names of the parts of all that is fetched.
const MASTER: &str = "master";

impl BlobStore {
    /// Begins to bring a blob in; `None` if it is here, perhaps since somebody else has.
    pub async fn fetching(&self, blob: BlobRef) -> Option<Fetching> {
        let turn = self.turn(blob.hash, MASTER).await;
        (!self.has(&blob)).then(|| Fetching {
            store: self.clone(),
            blob,
            turn,
        })
    }

    /// Returns the path at which [`Self::fetching`] keeps what has come of a blob until it is whole.
    pub fn fetched_part(&self, hash: &BlobHash) -> PathBuf {
        self.part_path(&IncomingBlob {
            hash: *hash,
            from: MASTER.to_owned(),
        })
    }

    /// Lists what has come of blobs that are not whole, each with its bytes and the time at which some of it came last.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn fetched_parts(&self) -> io::Result<Vec<(BlobHash, u64, SystemTime)>> {
        let mut all = Vec::new();
        for part in fs::read_dir(self.root.join("incoming"))? {
            let part = part?;
            let name = part.file_name();
            let hash = name.to_str().and_then(|name| {
                let name = name.strip_prefix(MASTER)?.strip_prefix('.')?;
                name.strip_suffix(".part")?.parse().ok()
            });

            if let Some(hash) = hash {
                let meta = part.metadata()?;
                all.push((hash, meta.len(), meta.modified()?));
            }
        }
        Ok(all)
    }
}

impl Fetching {
    /// The content.
    pub fn blob(&self) -> BlobRef {
        self.blob
    }

    /// Returns the number of bytes that have come so far.
    pub async fn begun(&self) -> u64 {
        let part = self.store.part_path(&self.turn.arrival);
        tokio::fs::metadata(part).await.map_or(0, |meta| meta.len())
    }

    async fn resume(&self) -> Result<Incoming, LinkError> {
        Incoming::resume(self.store.part_path(&self.turn.arrival), self.blob.size).await
    }

    /// Fetches the rest from the master, or (with `peers`) from a host that the master names and
    /// this returns. `failed` are hosts that did not give it. `waits` is told what the master waits
    /// for.
    ///
    /// # Errors
    /// As [`super::get`].
    pub async fn ask(
        &self,
        master: &Connection,
        peers: bool,
        failed: Vec<PeerReport>,
        waits: impl Fn(&str) + Send,
    ) -> Result<Option<PeerSource>, LinkError> {
        let channel = master.open_bare().await?;
        Box::pin(self.ask_on(channel, peers, failed, waits)).await
    }

    /// The same on a stream that is open.
    ///
    /// # Errors
    /// As [`super::get`].
    pub async fn ask_on(
        &self,
        mut channel: Channel,
        peers: bool,
        failed: Vec<PeerReport>,
        waits: impl Fn(&str) + Send,
    ) -> Result<Option<PeerSource>, LinkError> {
        let incoming = self.resume().await?;
        let get = Open::Get {
            hash: self.blob.hash,
            offset: incoming.have,
            peers,
            failed,
        };
        channel.tx.send(&get).await?;
        channel.tx.finish();

        loop {
            match channel.rx.expect().await? {
                GetReply::Waits(why) => waits(&why),
                GetReply::At(source) if peers => return Ok(Some(source)),
                reply => {
                    let patience = Patience::WITH_MASTER;
                    self.receive(incoming, reply, channel, patience).await?;
                    return Ok(None);
                }
            }
        }
    }

    /// Fetches the rest from this host. Returns the number of bytes.
    ///
    /// # Errors
    /// If it does not give it, is slow or silent, or gives something else; or if the disk refuses.
    pub async fn take_from(&self, host: &PeerHost, ticket: u64) -> Result<u64, LinkError> {
        let incoming = self.resume().await?;
        let offset = incoming.have;
        let answered = async {
            let mut channel = host.ask(&PeerGet { ticket, offset }).await?;
            let reply = channel.rx.expect().await?;
            Ok::<_, LinkError>((channel, reply))
        };
        let (channel, reply) = tokio::time::timeout(ANSWER, answered)
            .await
            .map_err(|_| LinkError::Closed("the host did not answer".to_owned()))??;
        self.receive(incoming, reply, channel, WITH_HOSTS).await?;
        Ok(self.blob.size - offset)
    }

    async fn receive(
        &self,
        incoming: Incoming,
        reply: GetReply,
        mut channel: Channel,
        patience: Patience,
    ) -> Result<(), LinkError> {
        let blob = self.blob;
        match reply {
            GetReply::Found(size) if size == blob.size => {}
            GetReply::Found(size) => return Err(other_size(&blob, size)),
            GetReply::Refused(refusal) => return Err(refusal.into()),
            GetReply::Waits(_) | GetReply::At(_) => return Err(LinkError::other_answer()),
        }

        let part = incoming
            .receive_within(&mut channel.rx, &blob, patience)
            .await?;
        self.store.keep_async(part, blob).await
    }
}

/// Sends content of a host to another one, from this byte on.
///
/// # Errors
/// If the connection is gone or the file cannot be read.
pub async fn serve_host(
    channel: &mut Channel,
    path: &std::path::Path,
    size: u64,
    offset: u64,
    pace: &SendPace,
) -> Result<(), LinkError> {
    channel.tx.send(&GetReply::Found(size)).await?;
    send_file(&mut channel.tx, path, offset, false, pace).await?;
    channel.tx.finish();
    channel.tx.delivered().await;
    Ok(())
}
