//! Sends content to workers so that large inputs do not cost the master's line once for each: from
//! the master to one host of a network at a time, and from there to the others. The book of sources
//! decides ([`Sources`]); here are the clock, the streams and the waits.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::content::BlobHash;
use common::wire::peer::{
    KeyHash, LEAST_SHARED, MAX_REPORTED, PeerFailure, PeerReport, PeerSource,
};
use common::wire::stream::GetReply;
use common::wire::worker::{ToMaster, ToWorker};
use common::{BlobRef, HostId, Span, Time};
use link::content::{SendPace, not_here, refuse_get};
use link::{FrameSender, LinkError};
use tokio::sync::Notify;
use tokio::sync::mpsc::WeakSender;

use super::content::{self, needs};
use crate::core::SessionId;
use crate::locked;
use crate::numbers;
use crate::run::SessionContext;
use crate::sources::{SourceChoice, Sources};

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
    /// The bells of those who wait for a source, by the numbers under which the book has them.
    bells: BTreeMap<u64, Arc<Notify>>,
}

/// A connected host in the [`Sources`], until it is dropped: then all its tickets are taken back.
pub(super) struct EnteredHost<'a> {
    shared: &'a SharedContent,
    host: HostId,
    session: SessionId,
}

/// Somebody who waits for a source, or was given one, until it is dropped: then what it was woken for or
/// given is another's, unless it was `taken`.
struct SourceTurn<'a> {
    shared: &'a SharedContent,
    number: u64,
    bell: Arc<Notify>,
    taken: bool,
}

/// A transfer from the master in the book, until it is dropped.
struct OwnTransfer<'a> {
    state: &'a SessionContext,
    number: u64,
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
                bells: BTreeMap::new(),
            }),
        }
    }

    /// Changes the book, and wakes those who are to look again for it.
    fn change<T>(&self, change: impl FnOnce(&mut SharedBook) -> T) -> T {
        let mut inner = locked(&self.inner);
        let changed = change(&mut inner);
        inner.ring();
        changed
    }

    /// Makes a [`SourceTurn`] for a transfer of this number.
    fn turn(&self, number: u64) -> SourceTurn<'_> {
        let bell = Arc::new(Notify::new());
        self.change(|inner| inner.bells.insert(number, bell.clone()));
        SourceTurn {
            shared: self,
            number,
            bell,
            taken: false,
        }
    }

    /// Enters a host that has connected from this address with this key.
    pub(super) fn enter(
        &self,
        (host, session): (HostId, SessionId),
        seen: IpAddr,
        key: KeyHash,
        outbox: WeakSender<ToWorker>,
    ) -> EnteredHost<'_> {
        self.change(|inner| {
            let over = inner.book.enter(host, session, seen, key);
            inner.outboxes.insert(host, outbox);
            inner.take_back(over);
        });

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
    fn take_back(&self, tickets: impl IntoIterator<Item = (HostId, u64)>) {
        for (source, number) in tickets {
            self.say(source, ToWorker::Unserve(vec![number]));
        }
    }

    /// Wakes those who are to look again. Who has not begun to wait yet hears it then.
    fn ring(&mut self) {
        for number in self.book.take_woken() {
            if let Some(bell) = self.bells.get(&number) {
                bell.notify_one();
            }
        }
    }
}

impl Drop for EnteredHost<'_> {
    fn drop(&mut self) {
        self.shared.change(|inner| {
            let over = inner.book.leave(self.host, self.session);
            inner.take_back(over);
        });
    }
}

impl Drop for SourceTurn<'_> {
    fn drop(&mut self) {
        self.shared.change(|inner| {
            inner.bells.remove(&self.number);
            inner.book.quit(self.number);
            if !self.taken {
                let over = inner.book.give_up(self.number);
                inner.take_back(over);
            }
        });
    }
}

impl Drop for OwnTransfer<'_> {
    fn drop(&mut self) {
        let now = self.state.clock.now();
        let shared = &self.state.shared;
        shared.change(|inner| inner.book.over(now, self.number, self.all));
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
            let shared = &state.shared;
            shared.change(|inner| inner.book.shares(host, session, sharing));
        }
        ToMaster::Fetched {
            hash,
            ticket,
            bytes,
        } => {
            let shared = &state.shared;
            let passed_on = shared.change(|inner| inner.book.fetched(host, hash, ticket, bytes));
            if let Some(bytes) = passed_on {
                sent(bytes, "hosts");
            }
        }
        other => return Some(other),
    }

    None
}

/// Whether attempts end with this message whose host may still have been fetching what they need: those that ran had it.
pub(super) fn may_break_off(message: &ToMaster) -> bool {
    match message {
        ToMaster::Delivered(all) => all.iter().any(|one| one.completion.ran == Span::ZERO),
        message => matches!(message, ToMaster::Returned { .. }),
    }
}

/// Frees the places of transfers from other hosts that no attempt of this host needs any more: the host breaks them off
/// and does not say so.
pub(super) async fn free_places(state: &SessionContext, host: HostId) -> Result<(), LinkError> {
    let coming = state.shared.change(|inner| inner.book.coming_to(host));
    for (hash, number) in coming {
        if !needs(state, host, hash).await? {
            state.shared.change(|inner| {
                let over = inner.book.give_up(number);
                inner.take_back(over);
            });
        }
    }
    Ok(())
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
            Way::Told => {
                tx.finish();
                tx.delivered().await;
                return Ok(());
            }
            Way::Gone => return Ok(()),
            Way::NoRight => return refuse_get(tx, not_here(hash)).await,
        }
    } else {
        let now = state.clock.now();
        let shared = &state.shared;
        shared.change(|inner| inner.book.send_directly(now, host, wanted.blob, number));
    }
    wanted.send_watched(number, tx).await
}

/// The way to somebody who wants content.
enum Way {
    Master,
    /// It was told of another host.
    Told,
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
            let shared = &self.state.shared;
            let failed = shared.change(|inner| inner.book.failed(now, self.host, report));
            let Some(failed) = failed else {
                continue;
            };

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

    /// Waits until there is a source, and names it, or another [`Way`].
    async fn choose(&self, number: u64, tx: &mut FrameSender) -> Result<Way, LinkError> {
        let clock = self.state.clock;
        let since = clock.now();
        let mut turn = self.state.shared.turn(number);
        let mut told = false;
        loop {
            let until = match self.look(since, number) {
                SourceLook::Wait(until) => until,
                _ if told && !self.may_still().await? => return Ok(Way::NoRight),
                SourceLook::Master => {
                    turn.taken = true;
                    return Ok(Way::Master);
                }
                SourceLook::Host(source) => {
                    tx.send(&GetReply::At(source)).await?;
                    turn.taken = true;
                    return Ok(Way::Told);
                }
            };
            if !std::mem::replace(&mut told, true) {
                let why = "another host of this network is getting it, or is busy giving it";
                tx.send(&GetReply::Waits(why.to_owned())).await?;
            }

            let pause = Duration::from(until.since(clock.now())).max(Duration::from_millis(10));
            tokio::select! {
                () = turn.bell.notified() => {}
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
        let shared = &self.state.shared;
        shared.change(|inner| self.look_in(inner, since, number))
    }

    fn look_in(&self, inner: &mut SharedBook, since: Time, number: u64) -> SourceLook {
        let over = inner.book.end_of(self.host, self.blob.hash);
        inner.take_back(over);

        loop {
            let now = self.state.clock.now();
            let of = (self.host, self.blob);
            match inner.book.choose(now, of, since, number) {
                SourceChoice::Master => return SourceLook::Master,
                SourceChoice::Wait(until) => return SourceLook::Wait(until),
                SourceChoice::Host(chosen) => {
                    if inner.say(chosen.host, ToWorker::Serve(chosen.ticket)) {
                        return SourceLook::Host(PeerSource {
                            addresses: chosen.addresses,
                            key: chosen.key,
                            ticket: number,
                        });
                    }
                    // It does not read what it is told.
                    inner.book.withdraw(chosen.host);
                }
            }
        }
    }

    /// Sends it from here, and tells the [`Sources`] how far it is, each `LOOK`.
    async fn send_watched(&self, number: u64, tx: FrameSender) -> Result<(), LinkError> {
        let mut own = OwnTransfer {
            state: self.state,
            number,
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
                    let now = self.state.clock.now();
                    let shared = &self.state.shared;
                    shared.change(|inner| inner.book.sent(now, number, pace.sent()));
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
    Master,
    Host(PeerSource),
    /// Not yet: look again when the bell rings, or at this time.
    Wait(Time),
}

#[cfg(test)]
mod tests {
    use common::wire::peer::SharingOffer;
    use common::wire::worker::Delivery;
    use common::{AttemptId, Completion, Incarnation, JobId, Outcome, TaskId};

    use super::*;

    const BLOB: BlobRef = BlobRef {
        hash: BlobHash([1; 32]),
        size: LEAST_SHARED,
    };

    fn rang(turn: &SourceTurn<'_>) -> bool {
        std::pin::pin!(turn.bell.notified()).enable()
    }

    fn look(shared: &SharedContent, host: u32, number: u64) -> SourceChoice {
        let of = (HostId(host), BLOB);
        shared.change(|inner| inner.book.choose(Time(0), of, Time(0), number))
    }

    #[test]
    fn results_of_attempts_that_ran_break_no_transfer_off() {
        let attempt = AttemptId {
            task: TaskId::new(JobId(1), 1),
            number: 1,
            incarnation: Incarnation(1),
        };
        let delivered = |ran| {
            let completion = Completion {
                ran,
                ..Completion::bare(attempt, Outcome::Stopped)
            };
            let ago = Span::ZERO;
            ToMaster::Delivered(vec![Delivery { completion, ago }])
        };
        let returned = ToMaster::Returned {
            attempts: vec![attempt],
            why: String::new(),
        };
        assert!(!may_break_off(&delivered(Span(1))));
        assert!(may_break_off(&delivered(Span::ZERO)));
        assert!(may_break_off(&returned));
    }

    #[test]
    fn a_place_rings_for_one_and_for_the_next_when_that_one_is_dropped() {
        let shared = SharedContent::new(1);
        shared.change(|inner| {
            for n in 1..=4_u8 {
                let host = HostId(u32::from(n));
                let seen = IpAddr::from([10, 1, 0, n]);
                inner.book.enter(host, SessionId(1), seen, [n; 32]);
            }
            let sharing = SharingOffer {
                port: 40_000,
                address: IpAddr::from([10, 1, 0, 1]),
                holds: vec![BLOB.hash],
            };
            inner.book.shares(HostId(1), SessionId(1), Some(sharing));
        });
        let given = shared.turn(2);
        assert!(matches!(look(&shared, 2, 2), SourceChoice::Host(_)));
        let third = shared.turn(3);
        assert!(matches!(look(&shared, 3, 3), SourceChoice::Wait(_)));
        let fourth = shared.turn(4);
        assert!(matches!(look(&shared, 4, 4), SourceChoice::Wait(_)));
        assert!(!rang(&third) && !rang(&fourth));

        // The host could not be told of its source.
        drop(given);
        assert!(rang(&third) && !rang(&fourth));
        // It was woken, and is gone before it looks.
        drop(third);
        assert!(rang(&fourth));
        assert!(matches!(look(&shared, 4, 4), SourceChoice::Host(_)));
        assert_eq!(shared.change(|inner| inner.bells.len()), 1);
    }
}
