//! The book of hosts that pass content on to others: who has what, who fetches what from whom, and
//! which source the next one is sent to ([`Sources::choose`]). Pure: no clock, no connections.
//! `sessions::share` has both.
//!
//! A host is sent only to a source of its own network. While there is one, or is about to be one,
//! the master itself sends a content to one host of that network at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use common::content::BlobHash;
use common::wire::peer::{KeyHash, MAX_LISTED, PeerFailure, PeerReport, PeerTicket, SharingOffer};
use common::{BlobRef, HostId, Span, Time};

use crate::core::SessionId;

/// A transfer from the master without a byte for so long does not keep others waiting.
const STALL: Span = Span::from_secs(5);
/// Nor does any transfer that, after this time, is slower on average than `FLOOR` bytes a second.
const GRACE: Span = Span::from_secs(5);
const FLOOR: u64 = 512 * 1024;
/// The time that a host may take to check and keep what the master has sent, before others wait for
/// it no more.
const SETTLES: Span = Span::from_secs(30);
/// The time for which a host is not sent again to a source that failed it.
const AVOIDED: Span = Span::from_secs(10 * 60);
/// The time for which a source is named to nobody after it has failed `WITNESSES` hosts. It doubles
/// each time, up to `TWICE` times.
const OUT: Span = Span::from_secs(5 * 60);
const TWICE: u32 = 6;
const WITNESSES: usize = 2;
/// The most pairs of hosts that are kept apart.
const MOST_AVOIDED: usize = 10_000;

/// The book.
#[derive(Debug)]
pub(crate) struct Sources {
    /// The most hosts that one source serves at a time.
    fan_out: u32,
    hosts: BTreeMap<HostId, ListedHost>,
    holders: BTreeMap<BlobHash, BTreeSet<HostId>>,
    transfers: BTreeMap<u64, Transfer>,
    by_blob: BTreeMap<BlobHash, BTreeSet<u64>>,
    /// Pairs of a fetcher and a source that failed it, each until a time.
    avoided: BTreeMap<(HostId, HostId), Time>,
    /// The earliest end of a transfer that the master does not watch.
    next_end: Time,
}

/// A connected host.
#[derive(Debug)]
struct ListedHost {
    session: SessionId,
    /// Its address as the master sees it.
    seen: IpAddr,
    key: KeyHash,
    /// Its port and its own address, if it passes content on.
    offer: Option<(u16, IpAddr)>,
    holds: BTreeSet<BlobHash>,
    /// The number of hosts that fetch from it.
    serving: u32,
    /// The hosts that it failed since it last served one well.
    failed: BTreeSet<HostId>,
    out_until: Time,
    outs: u32,
}

/// Content on its way to a host.
#[derive(Debug)]
struct Transfer {
    blob: BlobRef,
    fetcher: HostId,
    /// The host that sends it; `None`: the master.
    source: Option<HostId>,
    begun: Time,
    /// The bytes that the master has sent, and when they last grew.
    sent: (u64, Time),
    /// The time at which the master had sent all.
    all_sent: Option<Time>,
}

/// The source of the next transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceChoice {
    /// The master itself.
    Master,
    /// Another host, which is to be sent the ticket.
    Host(Box<Chosen>),
    /// None yet. Look again when something has changed, or at this time.
    Wait(Time),
}

/// A host that is a source, with the `PeerTicket` for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) host: HostId,
    pub(crate) key: KeyHash,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) ticket: PeerTicket,
}

/// A failure that a fetcher has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailedSource {
    pub(crate) source: HostId,
    pub(crate) blob: BlobRef,
    pub(crate) failure: PeerFailure,
}

/// The networks of addresses: hosts whose addresses begin alike are taken to be near each other.
fn network(address: IpAddr) -> (bool, u64) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (false, u64::from(v4.to_bits() >> 16)),
        IpAddr::V6(v6) => (true, (v6.to_bits() >> 80) as u64),
    }
}

/// Whether an address is one that only a network of its own knows.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_private() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_loopback(),
    }
}

/// The longest time that a transfer of so many bytes keeps others waiting: `FLOOR` after `GRACE`.
fn longest(bytes: u64) -> Span {
    GRACE + Span::from_secs(bytes / FLOOR)
}

impl Transfer {
    /// The time until which others may wait for this `Transfer`.
    fn good_until(&self) -> Time {
        let (sent, moved) = self.sent;
        match (self.source, self.all_sent) {
            (Some(_), _) => self.begun + longest(self.blob.size),
            (None, Some(at)) => at + SETTLES,
            (None, None) => (moved + STALL).min(self.begun + longest(sent)),
        }
    }

    /// Whether nobody but the fetcher says that it is over.
    fn is_unwatched(&self) -> bool {
        self.source.is_some() || self.all_sent.is_some()
    }
}

impl Sources {
    /// An empty `Sources`, with the most hosts that one source serves at a time.
    pub(crate) fn new(fan_out: u32) -> Self {
        Self {
            fan_out,
            hosts: BTreeMap::new(),
            holders: BTreeMap::new(),
            transfers: BTreeMap::new(),
            by_blob: BTreeMap::new(),
            avoided: BTreeMap::new(),
            next_end: Time(u64::MAX),
        }
    }

    /// Enters a `ListedHost` that has connected with this key. Returns the tickets, each with its source,
    /// of an earlier session of it.
    pub(crate) fn enter(
        &mut self,
        host: HostId,
        session: SessionId,
        seen: IpAddr,
        key: KeyHash,
    ) -> Vec<(HostId, u64)> {
        let before = self.remove(host);

        let member = ListedHost {
            session,
            seen,
            key,
            offer: None,
            holds: BTreeSet::new(),
            serving: 0,
            failed: BTreeSet::new(),
            out_until: Time(0),
            outs: 0,
        };
        self.hosts.insert(host, member);
        before
    }

    /// Removes a host whose session has ended. Returns the tickets that it had, each with its
    /// source.
    pub(crate) fn leave(&mut self, host: HostId, session: SessionId) -> Vec<(HostId, u64)> {
        match self.hosts.get(&host) {
            Some(member) if member.session == session => self.remove(host),
            _ => Vec::new(),
        }
    }

    fn remove(&mut self, host: HostId) -> Vec<(HostId, u64)> {
        self.withdraw(host);
        let of_it = |(_, transfer): &(&u64, &Transfer)| {
            transfer.fetcher == host || transfer.source == Some(host)
        };
        let over: Vec<u64> = self
            .transfers
            .iter()
            .filter(of_it)
            .map(|(n, _)| *n)
            .collect();
        let ended = over.into_iter().filter_map(|number| {
            let transfer = self.end(number)?;
            let source = transfer.source.filter(|source| *source != host)?;
            Some((source, number))
        });
        let tickets = ended.collect();

        self.hosts.remove(&host);
        tickets
    }

    /// Notes by a `SharingOffer` that a host passes on what it lists, or (`None`) nothing any more.
    pub(crate) fn shares(
        &mut self,
        host: HostId,
        session: SessionId,
        sharing: Option<SharingOffer>,
    ) {
        if self.hosts.get(&host).is_none_or(|of| of.session != session) {
            return;
        }
        self.withdraw(host);
        let Some(SharingOffer {
            port,
            address,
            holds,
        }) = sharing
        else {
            return;
        };

        if let Some(member) = self.hosts.get_mut(&host) {
            member.offer = Some((port, address));
        }
        for hash in holds.into_iter().take(MAX_LISTED) {
            self.hold(host, hash);
        }
    }

    /// Notes that a host passes nothing on.
    pub(crate) fn withdraw(&mut self, host: HostId) {
        let Some(member) = self.hosts.get_mut(&host) else {
            return;
        };
        member.offer = None;
        for hash in std::mem::take(&mut member.holds) {
            self.forget(host, hash);
        }
    }

    fn forget(&mut self, host: HostId, hash: BlobHash) {
        if let Some(holders) = self.holders.get_mut(&hash) {
            holders.remove(&host);
            if holders.is_empty() {
                self.holders.remove(&hash);
            }
        }
    }

    fn hold(&mut self, host: HostId, hash: BlobHash) {
        let Some(member) = self.hosts.get_mut(&host) else {
            return;
        };
        let more = member.offer.is_some() && member.holds.insert(hash);
        let too_many = member.holds.len() > MAX_LISTED;
        let other = member.holds.iter().find(|other| **other != hash).copied();

        if more {
            self.holders.entry(hash).or_default().insert(host);
        }
        if let Some(other) = other.filter(|_| too_many) {
            self.hosts.get_mut(&host).map(|of| of.holds.remove(&other));
            self.forget(host, other);
        }
    }

    /// The time after which a host that asked for so many bytes at `since` waits no more.
    fn patience(since: Time, bytes: u64) -> Time {
        since + longest(bytes)
    }

    /// Chooses the source of a content for a host that has wanted it since then. The transfer has
    /// begun, under this number, unless the host is to wait.
    pub(crate) fn choose(
        &mut self,
        now: Time,
        (fetcher, blob): (HostId, BlobRef),
        since: Time,
        number: u64,
    ) -> SourceChoice {
        self.end_the_late(now);
        // A host that asks again has not got it by the way that it was sent.
        self.end_of(fetcher, blob.hash);
        let Some(here) = self.hosts.get(&fetcher) else {
            return SourceChoice::Master;
        };

        let key = here.key;
        let seen = here.seen;
        if let Some(source) = self.free_source(now, fetcher, blob.hash) {
            self.begin(now, number, (fetcher, blob), Some(source));
            return match self.hosts.get(&source) {
                Some(member) => SourceChoice::Host(Box::new(Chosen {
                    host: source,
                    key: member.key,
                    addresses: member.addresses_from(seen),
                    ticket: PeerTicket {
                        number,
                        blob,
                        fetcher: key,
                        life: longest(blob.size),
                    },
                })),
                None => SourceChoice::Master,
            };
        }

        let patience = Self::patience(since, blob.size);
        match self.hope(now, fetcher, blob.hash) {
            Some(until) if now < patience => SourceChoice::Wait(until.min(patience)),
            _ => {
                self.begin(now, number, (fetcher, blob), None);
                SourceChoice::Master
            }
        }
    }

    /// Begins a `Transfer` from the master, whatever else could be done.
    pub(crate) fn send_directly(&mut self, now: Time, fetcher: HostId, blob: BlobRef, number: u64) {
        self.end_of(fetcher, blob.hash);
        if self.hosts.contains_key(&fetcher) {
            self.begin(now, number, (fetcher, blob), None);
        }
    }

    fn begin(
        &mut self,
        now: Time,
        number: u64,
        (fetcher, blob): (HostId, BlobRef),
        source: Option<HostId>,
    ) {
        if let Some(member) = source.and_then(|source| self.hosts.get_mut(&source)) {
            member.serving += 1;
        }
        let transfer = Transfer {
            blob,
            fetcher,
            source,
            begun: now,
            sent: (0, now),
            all_sent: None,
        };

        if source.is_some() {
            self.next_end = self.next_end.min(transfer.good_until());
        }
        self.by_blob.entry(blob.hash).or_default().insert(number);
        self.transfers.insert(number, transfer);
    }

    fn end(&mut self, number: u64) -> Option<Transfer> {
        let transfer = self.transfers.remove(&number)?;
        if let Some(numbers) = self.by_blob.get_mut(&transfer.blob.hash) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_blob.remove(&transfer.blob.hash);
            }
        }

        if let Some(source) = transfer.source
            && let Some(member) = self.hosts.get_mut(&source)
        {
            member.serving = member.serving.saturating_sub(1);
        }
        Some(transfer)
    }

    /// Ends each `Transfer` of a content to a host, as when it asks anew: it has one at a time. Returns
    /// the tickets, each with its source.
    pub(crate) fn end_of(&mut self, fetcher: HostId, hash: BlobHash) -> Vec<(HostId, u64)> {
        let numbers = self.by_blob.get(&hash).into_iter().flatten();
        let of_it = |number: &&u64| {
            let transfer = self.transfers.get(number);
            transfer.is_some_and(|transfer| transfer.fetcher == fetcher)
        };
        let over: Vec<u64> = numbers.filter(of_it).copied().collect();
        let ended = over
            .into_iter()
            .filter_map(|number| Some((self.end(number)?.source?, number)));
        ended.collect()
    }

    /// Ends transfers that have taken too long and of which nobody has said how they went.
    fn end_the_late(&mut self, now: Time) {
        if now < self.next_end {
            return;
        }
        let (late, good): (Vec<_>, Vec<_>) = self
            .transfers
            .iter()
            .filter(|(_, transfer)| transfer.is_unwatched())
            .map(|(number, transfer)| (transfer.good_until(), *number))
            .partition(|(until, _)| *until <= now);

        self.next_end = good
            .into_iter()
            .map(|(until, _)| until)
            .min()
            .unwrap_or(Time(u64::MAX));
        for (_, number) in late {
            self.end(number);
        }
    }

    /// Whether a host could fetch from this one, now or once that has what it takes.
    fn suits(&self, now: Time, fetcher: HostId, source: HostId) -> bool {
        let (Some(here), Some(there)) = (self.hosts.get(&fetcher), self.hosts.get(&source)) else {
            return false;
        };
        fetcher != source
            && there.offer.is_some()
            && there.out_until <= now
            && network(here.seen) == network(there.seen)
            && self
                .avoided
                .get(&(fetcher, source))
                .is_none_or(|until| *until <= now)
    }

    /// The source that serves the fewest, of those that serve fewer than `fan_out`.
    fn free_source(&self, now: Time, fetcher: HostId, hash: BlobHash) -> Option<HostId> {
        let holders = self.holders.get(&hash)?.iter().copied();
        let free = holders
            .filter(|source| self.suits(now, fetcher, *source))
            .map(|source| (self.hosts.get(&source).map_or(0, |of| of.serving), source))
            .filter(|(serving, _)| *serving < self.fan_out);
        free.min().map(|(_, source)| source)
    }

    /// The time until which there is reason to wait (`SourceChoice::Wait`) for a source: one is busy, or is about to have
    /// the content.
    fn hope(&self, now: Time, fetcher: HostId, hash: BlobHash) -> Option<Time> {
        let holders = self.holders.get(&hash).into_iter().flatten();
        let busy = holders.filter(|source| self.suits(now, fetcher, **source));
        let busy = busy.map(|_| self.next_end.max(now));

        let numbers = self.by_blob.get(&hash).into_iter().flatten();
        let coming = numbers
            .filter_map(|number| self.transfers.get(number))
            .filter(|transfer| self.suits(now, fetcher, transfer.fetcher))
            .map(Transfer::good_until)
            .filter(|until| *until > now);
        busy.chain(coming).max()
    }

    /// Gives up a transfer that was only just begun. Returns its ticket, with its source, if a host was
    /// to send it.
    pub(crate) fn give_up(&mut self, number: u64) -> Option<(HostId, u64)> {
        let transfer = self.end(number)?;
        Some((transfer.source?, number))
    }

    /// Notes the bytes that the master has sent of a `Transfer`.
    pub(crate) fn sent(&mut self, now: Time, number: u64, bytes: u64) {
        if let Some(transfer) = self.transfers.get_mut(&number)
            && bytes > transfer.sent.0
        {
            transfer.sent = (bytes, now);
        }
    }

    /// Notes that the master sends no more of a transfer: all of it has arrived, or not.
    pub(crate) fn over(&mut self, now: Time, number: u64, all: bool) {
        match self.transfers.get_mut(&number) {
            Some(transfer) if all => {
                transfer.all_sent = Some(now);
                self.next_end = self.next_end.min(transfer.good_until());
            }
            _ => drop(self.end(number)),
        }
    }

    /// Notes that a host has a content whole, of which a ticket's source gave it the last bytes.
    /// Returns the bytes that came from a host, and that host, which can serve another now.
    pub(crate) fn fetched(
        &mut self,
        fetcher: HostId,
        hash: BlobHash,
        ticket: Option<u64>,
        bytes: u64,
    ) -> Option<(u64, HostId)> {
        let transfer = ticket
            .and_then(|number| self.transfers.get(&number))
            .filter(|transfer| transfer.fetcher == fetcher && transfer.blob.hash == hash);
        let source = transfer.and_then(|transfer| Some((transfer.source?, transfer.blob.size)));
        self.end_of(fetcher, hash);
        self.hold(fetcher, hash);

        let (source, size) = source?;
        if let Some(member) = self.hosts.get_mut(&source) {
            member.failed.clear();
            member.outs = 0;
        }
        Some((bytes.min(size), source))
    }

    /// Returns the content that a host passes on.
    pub(crate) fn holds(&self, host: HostId) -> BTreeSet<BlobHash> {
        let member = self.hosts.get(&host);
        member.map_or_else(BTreeSet::new, |member| member.holds.clone())
    }

    /// Notes by a `PeerReport` that a source has failed a host that had its ticket.
    pub(crate) fn failed(
        &mut self,
        now: Time,
        fetcher: HostId,
        report: PeerReport,
    ) -> Option<FailedSource> {
        let PeerReport { ticket, failure } = report;
        let transfer = self.transfers.get(&ticket);
        let (source, blob) = transfer
            .filter(|transfer| transfer.fetcher == fetcher)
            .and_then(|transfer| Some((transfer.source?, transfer.blob)))?;
        self.end(ticket);

        if failure == PeerFailure::Refused {
            if let Some(member) = self.hosts.get_mut(&source) {
                member.holds.remove(&blob.hash);
            }
            self.forget(source, blob.hash);
        } else {
            self.avoid(now, fetcher, source);
        }
        Some(FailedSource {
            source,
            blob,
            failure,
        })
    }

    /// Keeps a host for `AVOIDED` from a source that has failed it. One that has failed several is named to
    /// nobody for a while: one host alone cannot bring that about.
    fn avoid(&mut self, now: Time, fetcher: HostId, source: HostId) {
        if self.avoided.len() >= MOST_AVOIDED {
            self.avoided.retain(|_, until| *until > now);
        }
        if self.avoided.len() < MOST_AVOIDED {
            self.avoided.insert((fetcher, source), now + AVOIDED);
        }

        if let Some(member) = self.hosts.get_mut(&source) {
            member.failed.insert(fetcher);
            if member.failed.len() >= WITNESSES {
                member.failed.clear();
                member.out_until = now + Span(OUT.0 << member.outs.min(TWICE));
                member.outs += 1;
            }
        }
    }
}

impl ListedHost {
    /// Its addresses for a host that is seen there: its own address counts where both are behind
    /// the same one, and only if no other network knows it.
    fn addresses_from(&self, seen: IpAddr) -> Vec<SocketAddr> {
        let Some((port, own)) = self.offer else {
            return Vec::new();
        };
        let within = seen == self.seen && own != self.seen && is_private(own);
        let own = within.then_some(own);
        own.into_iter()
            .chain([self.seen])
            .map(|address| SocketAddr::new(address, port))
            .collect()
    }
}

#[cfg(test)]
mod tests;
