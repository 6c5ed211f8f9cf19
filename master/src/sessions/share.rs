//! Sends content to workers so that large inputs do not cost the master's line once for each: from
//! the master to one host of a network at a time, and from there to the others. The book of sources
//! decides ([`Sources`]); here are the clock, the streams and the waits.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::content::BlobHash;
use common::wire::peer::{
    KeyHash, LEAST_SHARED, MAX_REPORTED, PeerFailure, PeerReport, PeerSource,
};
use common::wire::stream::GetReply;
use common::wire::worker::{ToMaster, ToWorker};
use common::{BlobRef, HostId, Time};
use link::content::{SendPace, not_here, refuse_get};
use link::{FrameSender, LinkError};
use tokio::sync::mpsc::WeakSender;
use tokio::sync::watch;

use super::content::{self, needs};
use crate::core::SessionId;
use crate::numbers;
use crate::run::SessionContext;
use crate::sources::{Chosen, SourceChoice, Sources};

/// The interval at which the book is told how far a transfer of the master's is.
const LOOK: Duration = Duration::from_secs(1);

/// The book of sources, with the ways to the hosts.
#[derive(Debug)]
pub(crate) struct SharedContent {
    inner: Mutex<SharedBook>,
}

#[derive(Debug)]
struct SharedBook {
    book: Sources,
    outboxes: BTreeMap<HostId, WeakSender<ToWorker>>,
    /// Those who wait for a content.
    waiting: BTreeMap<BlobHash, watch::Sender<()>>,
}

/// A connected host in the [`Sources`], until it is dropped: then all its tickets are taken back.
pub(super) struct EnteredHost<'a> {
    shared: &'a SharedContent,
    host: HostId,
    session: SessionId,
}

/// A transfer from the master in the book, until it is dropped.
struct OwnTransfer<'a> {
    state: &'a SessionContext,
    number: u64,
    blob: BlobRef,
    all: bool,
}

/// Somebody who wants content.
struct Wanted<'a> {
    state: &'a SessionContext,
    host: HostId,
    name: &'a str,
    blob: BlobRef,
    offset: u64,
}

impl SharedContent {
    /// An empty book, with the most hosts that one source serves at a time.
    pub(crate) fn new(fan_out: u32) -> Self {
        Self {
            inner: Mutex::new(SharedBook {
                book: Sources::new(fan_out),
                outboxes: BTreeMap::new(),
                waiting: BTreeMap::new(),
            }),
        }
    }

    fn open(&self) -> MutexGuard<'_, SharedBook> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a host that has connected from this address with this key.
    pub(super) fn enter(
        &self,
        (host, session): (HostId, SessionId),
        seen: IpAddr,
        key: KeyHash,
        outbox: WeakSender<ToWorker>,
    ) -> EnteredHost<'_> {
        let mut inner = self.open();
        let over = inner.book.enter(host, session, seen, key);
        inner.outboxes.insert(host, outbox);
        inner.take_back(over);

        EnteredHost {
            shared: self,
            host,
            session,
        }
    }
}

impl SharedBook {
    /// Sends a [`ToWorker`]; false if the host is gone, or does not read.
    fn say(&self, host: HostId, message: ToWorker) -> bool {
        let outbox = self.outboxes.get(&host).and_then(WeakSender::upgrade);
        outbox.is_some_and(|outbox| outbox.try_send(message).is_ok())
    }

    /// Tells sources with [`ToWorker::Unserve`] that these tickets hold no more.
    fn take_back(&self, tickets: Vec<(HostId, u64)>) {
        for (source, number) in tickets {
            self.say(source, ToWorker::Unserve(vec![number]));
        }
    }

    /// Wakes those who wait for this content.
    fn wake(&mut self, hash: BlobHash) {
        if let Some(waiting) = self.waiting.get(&hash)
            && waiting.send(()).is_err()
        {
            self.waiting.remove(&hash);
        }
    }

    /// Wakes those who wait for anything that this host has.
    fn wake_for(&mut self, source: HostId) {
        for hash in self.book.holds(source) {
            self.wake(hash);
        }
    }

    fn wake_all(&mut self) {
        self.waiting.retain(|_, waiting| waiting.send(()).is_ok());
    }
}

impl Drop for EnteredHost<'_> {
    fn drop(&mut self) {
        let mut inner = self.shared.open();
        let over = inner.book.leave(self.host, self.session);
        inner.take_back(over);
        inner.wake_all();
    }
}

impl Drop for OwnTransfer<'_> {
    fn drop(&mut self) {
        let mut inner = self.state.shared.open();
        inner
            .book
            .over(self.state.clock.now(), self.number, self.all);
        inner.wake(self.blob.hash);
    }
}

/// Takes `Shares` and `Fetched`, a worker's word about the content that it has; returns any other message.
pub(super) fn hear(
    state: &SessionContext,
    (host, session): (HostId, SessionId),
    message: ToMaster,
) -> Option<ToMaster> {
    match message {
        ToMaster::Shares(sharing) => {
            let mut inner = state.shared.open();
            inner.book.shares(host, session, sharing);
            inner.wake_all();
        }
        ToMaster::Fetched {
            hash,
            ticket,
            bytes,
        } => {
            let mut inner = state.shared.open();
            let passed_on = inner.book.fetched(host, hash, ticket, bytes);
            inner.wake(hash);
            if let Some((bytes, source)) = passed_on {
                inner.wake_for(source);
                drop(inner);
                sent(bytes, "hosts");
            }
        }
        other => return Some(other),
    }

    None
}

/// Counts bytes of content that workers were sent.
fn sent(bytes: u64, by: &'static str) {
    metrics::counter!(numbers::SENT, "by" => by).increment(bytes);
}

/// Gives a worker content that it may have: from here, or by naming another host.
pub(super) async fn give(
    state: &SessionContext,
    (host, name): (HostId, &str),
    (hash, offset): (BlobHash, u64),
    (peers, failed): (bool, Vec<PeerReport>),
    mut tx: FrameSender,
) -> Result<(), LinkError> {
    let size = state.blobs.size_of(&hash).await.unwrap_or(0);
    let wanted = Wanted {
        state,
        host,
        name,
        blob: BlobRef { hash, size },
        offset,
    };
    wanted.note_failures(failed);
    if size < LEAST_SHARED || !state.config.peer_transfer {
        return wanted.send(tx, &SendPace::default()).await;
    }

    let number = rand::random();
    if peers {
        match wanted.choose(number, &mut tx).await? {
            Way::Master => {}
            Way::Host(source) => {
                tx.send(&GetReply::At(source)).await?;
                tx.finish();
                tx.delivered().await;
                return Ok(());
            }
            Way::Gone => return Ok(()),
            Way::NoRight => return refuse_get(tx, not_here(hash)).await,
        }
    } else {
        let mut inner = state.shared.open();
        inner
            .book
            .send_directly(state.clock.now(), host, wanted.blob, number);
    }
    wanted.send_watched(number, tx).await
}

/// The way to somebody who wants content.
enum Way {
    Master,
    Host(PeerSource),
    /// It does not want it any more.
    Gone,
    /// It may not have it any more.
    NoRight,
}

impl Wanted<'_> {
    /// Enters what did not come from hosts, with a word on those that matter.
    fn note_failures(&self, failed: Vec<PeerReport>) {
        for report in failed.into_iter().take(MAX_REPORTED) {
            let now = self.state.clock.now();
            let mut inner = self.state.shared.open();
            let Some(failed) = inner.book.failed(now, self.host, report) else {
                continue;
            };
            inner.wake(failed.blob.hash);
            inner.wake_for(failed.source);
            drop(inner);

            let to = self.name;
            let source = failed.source;
            let hash = failed.blob.hash;
            match failed.failure {
                PeerFailure::Damaged => tracing::warn!(
                    %source, to, %hash,
                    "a host has passed on wrong bytes, which were thrown away: see its disk, or revoke it"
                ),
                failure => {
                    tracing::info!(%source, to, %hash, ?failure, "content did not come from a host");
                }
            }
        }
    }

    /// Waits until there is a source, or another [`Way`].
    async fn choose(&self, number: u64, tx: &mut FrameSender) -> Result<Way, LinkError> {
        let clock = self.state.clock;
        let since = clock.now();
        let mut told = false;
        loop {
            let (until, mut news) = match self.look(since, number) {
                SourceLook::Go(_) if told && !self.may_still().await? => {
                    let mut inner = self.state.shared.open();
                    let over = inner.book.give_up(number);
                    inner.take_back(over.into_iter().collect());
                    inner.wake(self.blob.hash);
                    return Ok(Way::NoRight);
                }
                SourceLook::Go(way) => return Ok(way),
                SourceLook::Wait(until, news) => (until, news),
            };
            if !std::mem::replace(&mut told, true) {
                let why = "another host of this network is getting it, or is busy giving it";
                tx.send(&GetReply::Waits(why.to_owned())).await?;
            }

            let pause = Duration::from(until.since(clock.now())).max(Duration::from_millis(10));
            tokio::select! {
                _ = news.changed() => {}
                () = tokio::time::sleep(pause) => {}
                () = tx.delivered() => return Ok(Way::Gone),
            }
        }
    }

    /// Whether it may have the content after it has waited.
    async fn may_still(&self) -> Result<bool, LinkError> {
        needs(self.state, self.host, self.blob.hash).await
    }

    /// Looks for a source once, in the [`Sources`].
    fn look(&self, since: Time, number: u64) -> SourceLook {
        let mut inner = self.state.shared.open();
        let over = inner.book.end_of(self.host, self.blob.hash);
        inner.take_back(over);

        loop {
            let now = self.state.clock.now();
            let of = (self.host, self.blob);
            match inner.book.choose(now, of, since, number) {
                SourceChoice::Master => return SourceLook::Go(Way::Master),
                SourceChoice::Wait(until) => {
                    let waiting = inner.waiting.entry(self.blob.hash);
                    let waiting = waiting.or_insert_with(|| watch::Sender::new(()));
                    return SourceLook::Wait(until, waiting.subscribe());
                }
                SourceChoice::Host(chosen) => {
                    let Chosen {
                        host,
                        key,
                        addresses,
                        ticket,
                    } = *chosen;

                    if inner.say(host, ToWorker::Serve(ticket)) {
                        return SourceLook::Go(Way::Host(PeerSource {
                            addresses,
                            key,
                            ticket: number,
                        }));
                    }
                    // It does not read what it is told.
                    inner.book.withdraw(host);
                }
            }
        }
    }

    /// Sends it from here, and tells the [`Sources`] how far it is, each `LOOK`.
    async fn send_watched(&self, number: u64, tx: FrameSender) -> Result<(), LinkError> {
        let mut own = OwnTransfer {
            state: self.state,
            number,
            blob: self.blob,
            all: false,
        };

        let pace = SendPace::default();
        let sending = self.send(tx, &pace);
        tokio::pin!(sending);
        loop {
            tokio::select! {
                done = &mut sending => {
                    own.all = done.is_ok() && pace.sent() + self.offset >= self.blob.size;
                    return done;
                }
                () = tokio::time::sleep(LOOK) => {
                    let mut inner = self.state.shared.open();
                    inner.book.sent(self.state.clock.now(), number, pace.sent());
                }
            }
        }
    }

    async fn send(&self, tx: FrameSender, pace: &SendPace) -> Result<(), LinkError> {
        let done = content::send(self.state, tx, (self.blob.hash, self.offset), pace).await;
        sent(pace.sent(), "master");
        done
    }
}

/// The result of one look for a source.
enum SourceLook {
    Go(Way),
    Wait(Time, watch::Receiver<()>),
}
