//! The book of hosts that pass content on to others: who has what, who fetches what from whom, which
//! source the next one is sent to ([`Sources::choose`]), and who is to look again, and only that one,
//! when something has changed ([`Sources::take_woken`]). Pure: no clock, no connections.
//! `sessions::share` has both.
//!
//! A host is sent only to a source of its own network. While there is one, or is about to be one,
//! the master itself sends a content to one host of that network at a time.
//!
//! A grid has thousands of hosts that want one content at once. So neither a look nor the end of a
//! transfer goes over all holders, transfers or waiters: only over those that a failure keeps apart.

mod lines;
mod shelves;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use common::content::BlobHash;
use common::wire::peer::{KeyHash, MAX_LISTED, PeerFailure, PeerReport, PeerTicket, SharingOffer};
use common::{BlobRef, HostId, Span, Time};

use self::lines::{Waiter, WaitingLine, WaitingLines, WakeCause};
use self::shelves::{ContentShelves, NearContent, NetworkId};
use crate::core::SessionId;

/// A transfer from the master without a byte for so long does not keep others waiting, nor does a waiter
/// that has not looked for so long since it was woken.
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
    /// The latest time that it was told.
    now: Time,
    hosts: BTreeMap<HostId, ListedHost>,
    shelves: ContentShelves,
    lines: WaitingLines,
    transfers: BTreeMap<u64, Transfer>,
    /// The ends of the transfers that the master does not watch.
    ends: BTreeSet<(Time, u64)>,
    /// The waiters for whom a place is kept, each until a time.
    kept: BTreeSet<(Time, u64)>,
    /// Pairs of a fetcher and a source that failed it, each until a time.
    avoided: BTreeMap<(HostId, HostId), Time>,
    avoided_until: BTreeSet<(Time, (HostId, HostId))>,
    /// The sources that are named to nobody until a time.
    out: BTreeSet<(Time, HostId)>,
    /// The sources, waiters and lines that were looked at.
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
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
    /// Its content, each with the number behind which this host stands on the shelf: not more than its
    /// places that are taken. Only who meets it there puts it behind the right one.
    holds: BTreeMap<BlobHash, u32>,
    /// Those of `holds` with another number than 0.
    raised: BTreeSet<(u32, BlobHash)>,
    /// The transfers from it.
    serves: BTreeSet<u64>,
    /// The transfers to it: one at a time of a content.
    fetches: BTreeMap<BlobHash, u64>,
    /// Its own waiters.
    waits: BTreeSet<u64>,
    /// The waiters that were woken for a place here, which is kept until they look.
    offered: BTreeSet<u64>,
    /// The hosts that it failed since it last served one well.
    failed: BTreeSet<HostId>,
    /// The time until which it is named to nobody, if it is not named.
    out_until: Option<Time>,
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
    /// None yet. Look again when woken ([`Sources::take_woken`]), or at this time.
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

/// The network of an address: hosts whose addresses begin alike are taken to be near each other.
fn network(address: IpAddr) -> NetworkId {
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

/// Removes the first that is due.
fn due<T: Copy + Ord>(times: &mut BTreeSet<(Time, T)>, now: Time) -> Option<T> {
    if times.first()?.0 > now {
        return None;
    }
    times.pop_first().map(|(_, due)| due)
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
            now: Time(0),
            hosts: BTreeMap::new(),
            shelves: ContentShelves::default(),
            lines: WaitingLines::default(),
            transfers: BTreeMap::new(),
            ends: BTreeSet::new(),
            kept: BTreeSet::new(),
            avoided: BTreeMap::new(),
            avoided_until: BTreeSet::new(),
            out: BTreeSet::new(),
            #[cfg(test)]
            looks: std::cell::Cell::new(0),
        }
    }

    /// Counts a look, for tests of how the work grows.
    fn looked(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
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
            holds: BTreeMap::new(),
            raised: BTreeSet::new(),
            serves: BTreeSet::new(),
            fetches: BTreeMap::new(),
            waits: BTreeSet::new(),
            offered: BTreeSet::new(),
            failed: BTreeSet::new(),
            out_until: None,
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
        let Some(member) = self.hosts.get(&host) else {
            return Vec::new();
        };
        for number in &member.waits {
            self.lines.wake(*number, WakeCause::Doubt);
        }

        let over = member.serves.iter().chain(member.fetches.values());
        let over: BTreeSet<u64> = over.copied().collect();
        let ended = over.into_iter().filter_map(|number| {
            let transfer = self.end(number)?;
            let source = transfer.source.filter(|source| *source != host)?;
            Some((source, number))
        });
        let tickets = ended.collect();

        let member = self.hosts.remove(&host);
        if let Some(until) = member.and_then(|member| member.out_until) {
            self.out.remove(&(until, host));
        }
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
        let Some(offer) = sharing else {
            return;
        };

        if let Some(member) = self.hosts.get_mut(&host) {
            let holds = offer.holds.into_iter().take(MAX_LISTED);
            member.offer = Some((offer.port, offer.address));
            member.holds = holds.map(|hash| (hash, 0)).collect();
        }
        self.put_up(host);
    }

    /// Notes that a host passes nothing on.
    pub(crate) fn withdraw(&mut self, host: HostId) {
        self.take_down(host);
        if let Some(member) = self.hosts.get_mut(&host) {
            member.offer = None;
            member.holds.clear();
        }
    }

    /// Puts a host on the shelves, with what comes to it, if it can be named.
    fn put_up(&mut self, host: HostId) {
        let Some(member) = self.hosts.get(&host).filter(|of| of.passes_on()) else {
            return;
        };
        for hash in member.holds.keys() {
            self.shelves.put((member.network(), *hash), (0, host));
        }

        let fetches: Vec<u64> = member.fetches.values().copied().collect();
        for number in fetches {
            self.list(number);
        }
        self.offer(host);
    }

    /// Takes a host from all shelves, with what comes to it.
    fn take_down(&mut self, host: HostId) {
        let member = self.hosts.get_mut(&host);
        let Some(member) = member.filter(|of| of.passes_on()) else {
            return;
        };
        let network = member.network();
        member.raised.clear();
        for (hash, behind) in &mut member.holds {
            let source = (std::mem::take(behind), host);
            self.shelves.take((network, *hash), source);
            self.lines.doubt((network, *hash));
        }

        for (hash, number) in &member.fetches {
            let transfer = self.transfers.get(number);
            let Some(until) = transfer.map(Transfer::good_until) else {
                continue;
            };
            self.shelves.take_coming((network, *hash), (until, *number));
            self.lines.doubt((network, *hash));
        }
    }

    fn forget(&mut self, host: HostId, hash: BlobHash) {
        let Some(member) = self.hosts.get_mut(&host) else {
            return;
        };
        let Some(behind) = member.holds.remove(&hash) else {
            return;
        };

        member.raised.remove(&(behind, hash));
        let of = (member.network(), hash);
        self.shelves.take(of, (behind, host));
        self.lines.doubt(of);
    }

    fn hold(&mut self, host: HostId, hash: BlobHash) {
        let member = self.hosts.get_mut(&host);
        let Some(member) = member.filter(|of| of.offer.is_some()) else {
            return;
        };
        if member.holds.contains_key(&hash) {
            return;
        }

        member.holds.insert(hash, 0);
        if member.passes_on() {
            self.shelves.put((member.network(), hash), (0, host));
        }
        let too_many = member.holds.len() > MAX_LISTED;
        let other = member.holds.keys().find(|other| **other != hash).copied();
        if let Some(other) = other.filter(|_| too_many) {
            self.forget(host, other);
        }
    }

    /// Puts a source behind another number on the shelf of a content that it holds.
    fn move_behind(&mut self, source: HostId, hash: BlobHash, number: u32) {
        let Some(member) = self.hosts.get_mut(&source) else {
            return;
        };
        let of = (member.network(), hash);
        let Some(behind) = member.holds.get_mut(&hash) else {
            return;
        };
        let before = std::mem::replace(behind, number);

        member.raised.remove(&(before, hash));
        if number > 0 {
            member.raised.insert((number, hash));
        }
        self.shelves.take(of, (before, source));
        self.shelves.put(of, (number, source));
    }

    /// Puts a source with fewer taken places than before in front where it was seen with more.
    fn lower(&mut self, source: HostId) {
        let Some(member) = self.hosts.get(&source) else {
            return;
        };
        let taken = member.taken();
        let least = (taken + 1, BlobHash([0; 32]));
        let above = member.raised.range(least..).map(|(_, hash)| *hash);
        let above: Vec<BlobHash> = above.collect();

        for hash in above {
            self.looked();
            self.move_behind(source, hash, taken);
        }
    }

    /// The time after which a host that asked for so many bytes at `since` waits no more.
    fn patience(since: Time, bytes: u64) -> Time {
        since + longest(bytes)
    }

    /// Chooses the source of a content for a host that has wanted it since then. The transfer has
    /// begun, under this number, unless the host is to wait: then it waits under this number until it asks
    /// again, or [`quit`](Self::quit)s.
    pub(crate) fn choose(
        &mut self,
        now: Time,
        (fetcher, blob): (HostId, BlobRef),
        since: Time,
        number: u64,
    ) -> SourceChoice {
        self.advance(now);
        // A host that asks again has not got it by the way that it was sent.
        self.end_of(fetcher, blob.hash);
        let waited = self.settle(number);

        let place = waited.as_ref().and_then(Waiter::place);
        let place = place.map(|(source, _)| source);
        let choice = self.look((fetcher, blob), since, number, place);
        self.hand_on(waited);
        choice
    }

    /// Looks for a source, where a `place` was kept there first.
    fn look(
        &mut self,
        (fetcher, blob): (HostId, BlobRef),
        since: Time,
        number: u64,
        place: Option<HostId>,
    ) -> SourceChoice {
        let Some(here) = self.hosts.get(&fetcher) else {
            return SourceChoice::Master;
        };
        let key = here.key;
        let seen = here.seen;
        let of = (here.network(), blob.hash);

        let place = place.filter(|source| self.has_place(fetcher, *source, blob.hash));
        if let Some(source) = place.or_else(|| self.free_source(fetcher, of)) {
            self.begin(number, (fetcher, blob), Some(source));
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
        match self.hope(fetcher, of) {
            Some(until) if self.now < patience => {
                let until = self.wait((fetcher, of), since, number, until);
                SourceChoice::Wait(until.unwrap_or(patience).min(patience))
            }
            _ => {
                self.begin(number, (fetcher, blob), None);
                SourceChoice::Master
            }
        }
    }

    /// Lets a host wait while there is reason to, `until` then. Returns the time at which it has to look by
    /// itself; `None` if somebody looks for it.
    fn wait(
        &mut self,
        (fetcher, of): (HostId, NearContent),
        since: Time,
        number: u64,
        until: Time,
    ) -> Option<Time> {
        let waiter = Waiter {
            fetcher,
            of,
            since,
            woken: None,
        };
        let looks_out = self.lines.join(number, waiter);
        if let Some(member) = self.hosts.get_mut(&fetcher) {
            member.waits.insert(number);
        }

        // The lookout hears when the reason to wait is gone. Who cannot go by that looks now and then.
        let apart = self.is_apart(fetcher, of.1);
        match (looks_out, apart) {
            (true, _) => Some(until),
            (false, true) => Some(until.min(self.now + STALL)),
            (false, false) => None,
        }
    }

    /// Whether the sources of a content are not the same for a host as for others of its network.
    fn is_apart(&self, fetcher: HostId, hash: BlobHash) -> bool {
        let pairs = (fetcher, HostId(0))..=(fetcher, HostId(u32::MAX));
        let member = self.hosts.get(&fetcher);
        let holds = member.is_some_and(|member| member.holds.contains_key(&hash));
        holds || self.avoided.range(pairs).next().is_some()
    }

    /// Removes a waiter: what it was woken for is another's.
    pub(crate) fn quit(&mut self, number: u64) {
        let waited = self.settle(number);
        self.hand_on(waited);
    }

    /// Removes a `Waiter`, woken or not.
    fn settle(&mut self, number: u64) -> Option<Waiter> {
        let waiter = self.lines.leave(number)?;
        if let Some(member) = self.hosts.get_mut(&waiter.fetcher) {
            member.waits.remove(&number);
        }
        if let Some((source, until)) = waiter.place() {
            self.kept.remove(&(until, number));
            self.free(source, number);
        }
        Some(waiter)
    }

    /// Keeps a source's place for a `Waiter` no more.
    fn free(&mut self, source: HostId, number: u64) {
        if let Some(member) = self.hosts.get_mut(&source) {
            member.offered.remove(&number);
        }
        self.lower(source);
    }

    /// Gives to others what a `Waiter` had to see to and what it was woken for, unless it has used it.
    fn hand_on(&mut self, waited: Option<Waiter>) {
        let Some(waiter) = waited else { return };
        self.lines.watch(waiter.of);
        if let Some((source, _)) = waiter.place() {
            self.offer(source);
        }
    }

    /// Takes the numbers of those waiters that are to look again now. One that does not look has to
    /// [`quit`](Self::quit).
    pub(crate) fn take_woken(&mut self) -> Vec<u64> {
        self.lines.take_woken()
    }

    /// Wakes as many waiters as a source can serve more, those first who have waited for longest.
    fn offer(&mut self, source: HostId) {
        let until = self.now + STALL;
        while let Some(number) = self.next_for(source) {
            self.looked();
            self.lines.wake(number, WakeCause::Place(source, until));
            self.kept.insert((until, number));
            if let Some(member) = self.hosts.get_mut(&source) {
                member.offered.insert(number);
            }
        }
    }

    /// The waiter that a source can serve next: of all its content, of which there are `MAX_LISTED` at most.
    fn next_for(&self, source: HostId) -> Option<u64> {
        let member = self.hosts.get(&source)?;
        if !member.passes_on() || member.taken() >= self.fan_out {
            return None;
        }

        let lines = self.lines.near(member.network())?;
        let first = if lines.len() < member.holds.len() {
            let of_it = lines.iter().filter(|(hash, _)| {
                self.looked();
                member.holds.contains_key(*hash)
            });
            let firsts = of_it.filter_map(|(_, line)| self.first_of(line, source));
            firsts.min()
        } else {
            let of_it = member.holds.keys().filter_map(|hash| {
                self.looked();
                lines.get(hash)
            });
            let firsts = of_it.filter_map(|line| self.first_of(line, source));
            firsts.min()
        };
        first.map(|(_, number)| number)
    }

    /// The first of a line whom a source suits: since when, and its number.
    fn first_of(&self, line: &WaitingLine, source: HostId) -> Option<(Time, u64)> {
        let mut waiters = line.waiters();
        let first = waiters.find(|(_, _, fetcher)| self.suits(*fetcher, source));
        first.map(|(since, number, _)| (since, number))
    }

    /// Begins a `Transfer` from the master, whatever else could be done.
    pub(crate) fn send_directly(&mut self, now: Time, fetcher: HostId, blob: BlobRef, number: u64) {
        self.now = self.now.max(now);
        self.end_of(fetcher, blob.hash);
        if self.hosts.contains_key(&fetcher) {
            self.begin(number, (fetcher, blob), None);
        }
    }

    fn begin(&mut self, number: u64, (fetcher, blob): (HostId, BlobRef), source: Option<HostId>) {
        if let Some(member) = source.and_then(|source| self.hosts.get_mut(&source)) {
            member.serves.insert(number);
        }
        if let Some(member) = self.hosts.get_mut(&fetcher) {
            member.fetches.insert(blob.hash, number);
        }

        let transfer = Transfer {
            blob,
            fetcher,
            source,
            begun: self.now,
            sent: (0, self.now),
            all_sent: None,
        };
        self.transfers.insert(number, transfer);
        self.list(number);
    }

    /// Ends a transfer that has not arrived whole, unless [`unlist`](Self::unlist) went before.
    fn end(&mut self, number: u64) -> Option<Transfer> {
        let was_coming = self.unlist(number);
        let transfer = self.transfers.remove(&number)?;
        let hash = transfer.blob.hash;
        if let Some(source) = transfer.source {
            if let Some(member) = self.hosts.get_mut(&source) {
                member.serves.remove(&number);
            }
            self.lower(source);
            self.offer(source);
        }

        if let Some(member) = self.hosts.get_mut(&transfer.fetcher) {
            member.fetches.remove(&hash);
            if was_coming {
                self.lines.doubt((member.network(), hash));
            }
        }
        Some(transfer)
    }

    /// Enters the times of a `Transfer`.
    fn list(&mut self, number: u64) {
        let Some(transfer) = self.transfers.get(&number) else {
            return;
        };
        let until = transfer.good_until();
        if transfer.is_unwatched() {
            self.ends.insert((until, number));
        }
        let member = self.hosts.get(&transfer.fetcher);
        if let Some(member) = member.filter(|of| of.passes_on()) {
            let of = (member.network(), transfer.blob.hash);
            self.shelves.put_coming(of, (until, number));
        }
    }

    /// Removes the times of a `Transfer`. Returns whether its fetcher would have become a source.
    fn unlist(&mut self, number: u64) -> bool {
        let Some(transfer) = self.transfers.get(&number) else {
            return false;
        };
        let until = transfer.good_until();
        self.ends.remove(&(until, number));
        self.hosts.get(&transfer.fetcher).is_some_and(|member| {
            let of = (member.network(), transfer.blob.hash);
            self.shelves.take_coming(of, (until, number))
        })
    }

    /// Ends the `Transfer` of a content to a host, as when it asks anew: it has one at a time. Returns
    /// its ticket, with its source.
    pub(crate) fn end_of(&mut self, fetcher: HostId, hash: BlobHash) -> Option<(HostId, u64)> {
        let number = *self.hosts.get(&fetcher)?.fetches.get(&hash)?;
        Some((self.end(number)?.source?, number))
    }

    /// Returns the contents that come to a host from others, each with its ticket.
    pub(crate) fn coming_to(&self, fetcher: HostId) -> Vec<(BlobHash, u64)> {
        let member = self.hosts.get(&fetcher);
        let mut fetches = member.map_or_else(BTreeMap::new, |of| of.fetches.clone());
        fetches.retain(|_, number| {
            let transfer = self.transfers.get(&*number);
            transfer.is_some_and(|transfer| transfer.source.is_some())
        });
        fetches.into_iter().collect()
    }

    /// Takes note of the time: ends transfers that have taken too long and of which nobody has said how
    /// they went, keeps places no more for who does not look, and names sources again that were not to be
    /// named until now.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(number) = due(&mut self.ends, self.now) {
            self.end(number);
        }

        while let Some(number) = due(&mut self.kept, self.now) {
            if let Some(source) = self.lines.lapse(number) {
                self.free(source, number);
                self.offer(source);
            }
        }
        while let Some(pair) = due(&mut self.avoided_until, self.now) {
            self.avoided.remove(&pair);
            self.offer(pair.1);
        }
        while let Some(source) = due(&mut self.out, self.now) {
            if let Some(member) = self.hosts.get_mut(&source) {
                member.out_until = None;
            }
            self.put_up(source);
        }
    }

    /// Whether a host could fetch from this one, now or once that has what it takes.
    fn suits(&self, fetcher: HostId, source: HostId) -> bool {
        self.looked();
        let (Some(here), Some(there)) = (self.hosts.get(&fetcher), self.hosts.get(&source)) else {
            return false;
        };
        fetcher != source
            && there.passes_on()
            && here.network() == there.network()
            && !self.avoided.contains_key(&(fetcher, source))
    }

    /// Whether a source has a content, and a place that is not taken.
    fn has_place(&self, fetcher: HostId, source: HostId, hash: BlobHash) -> bool {
        let member = self.hosts.get(&source);
        let free = member.is_some_and(|member| {
            member.taken() < self.fan_out && member.holds.contains_key(&hash)
        });
        free && self.suits(fetcher, source)
    }

    /// The source that serves the fewest, of those that serve fewer than `fan_out`. Passes by those only
    /// that have failed this host, and by each once that serves more than when it was last met here.
    fn free_source(&mut self, fetcher: HostId, of: NearContent) -> Option<HostId> {
        let mut other = None;
        loop {
            let (behind, source) = self.shelves.source_after(of, other)?;
            self.looked();
            if behind >= self.fan_out {
                return None;
            }

            let taken = self.hosts.get(&source).map_or(0, ListedHost::taken);
            if behind < taken {
                self.move_behind(source, of.1, taken);
            } else if self.suits(fetcher, source) {
                return Some(source);
            } else {
                other = Some((behind, source));
            }
        }
    }

    /// The time until which there is reason to wait (`SourceChoice::Wait`) for a source: one is busy, or is about to have
    /// the content.
    fn hope(&self, fetcher: HostId, of: NearContent) -> Option<Time> {
        let mut sources = self.shelves.sources(of);
        let is_busy = sources.any(|source| self.suits(fetcher, source));
        let ends = [self.ends.first(), self.kept.first()];
        let first_end = ends.into_iter().flatten().map(|(end, _)| *end).min();
        let busy = is_busy.then_some(first_end.unwrap_or(Time(u64::MAX)).max(self.now));

        let coming = self.shelves.coming(of);
        let mut good = coming.take_while(|(until, _)| *until > self.now);
        let best = good.find(|(_, number)| {
            let transfer = self.transfers.get(number);
            transfer.is_some_and(|transfer| self.suits(fetcher, transfer.fetcher))
        });
        busy.max(best.map(|(until, _)| until))
    }

    /// Gives up a transfer that was only just begun, or is of no use any more. Returns its ticket, with its
    /// source, if a host was to send it.
    pub(crate) fn give_up(&mut self, number: u64) -> Option<(HostId, u64)> {
        let transfer = self.end(number)?;
        Some((transfer.source?, number))
    }

    /// Changes a `Transfer`, and so the time until which it is good.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Transfer)) {
        self.unlist(number);
        if let Some(transfer) = self.transfers.get_mut(&number) {
            change(transfer);
        }
        self.list(number);
    }

    /// Notes the bytes that the master has sent of a `Transfer`.
    pub(crate) fn sent(&mut self, now: Time, number: u64, bytes: u64) {
        self.change(number, |transfer| {
            if bytes > transfer.sent.0 {
                transfer.sent = (bytes, now);
            }
        });
    }

    /// Notes that the master sends no more of a transfer: all of it has arrived, or not.
    pub(crate) fn over(&mut self, now: Time, number: u64, all: bool) {
        self.now = self.now.max(now);
        if all {
            self.change(number, |transfer| transfer.all_sent = Some(now));
        } else {
            self.end(number);
        }
    }

    /// Notes that a host has a content whole, of which a ticket's source gave it the last bytes.
    /// Returns the bytes that came from a host.
    pub(crate) fn fetched(
        &mut self,
        fetcher: HostId,
        hash: BlobHash,
        ticket: Option<u64>,
        bytes: u64,
    ) -> Option<u64> {
        let transfer = ticket
            .and_then(|number| self.transfers.get(&number))
            .filter(|transfer| transfer.fetcher == fetcher && transfer.blob.hash == hash);
        let source = transfer.and_then(|transfer| Some((transfer.source?, transfer.blob.size)));
        let number = self
            .hosts
            .get(&fetcher)
            .and_then(|of| of.fetches.get(&hash));
        if let Some(number) = number.copied() {
            // Nobody has to look elsewhere: it is a source now.
            self.unlist(number);
            self.end(number);
        }
        self.hold(fetcher, hash);
        self.offer(fetcher);

        let (source, size) = source?;
        if let Some(member) = self.hosts.get_mut(&source) {
            member.failed.clear();
            member.outs = 0;
        }
        Some(bytes.min(size))
    }

    /// Notes by a `PeerReport` that a source has failed a host that had its ticket.
    pub(crate) fn failed(
        &mut self,
        now: Time,
        fetcher: HostId,
        report: PeerReport,
    ) -> Option<FailedSource> {
        self.now = self.now.max(now);
        let PeerReport { ticket, failure } = report;
        let transfer = self.transfers.get(&ticket);
        let (source, blob) = transfer
            .filter(|transfer| transfer.fetcher == fetcher)
            .and_then(|transfer| Some((transfer.source?, transfer.blob)))?;

        if failure == PeerFailure::Refused {
            self.forget(source, blob.hash);
        } else {
            self.avoid(fetcher, source);
        }
        self.end(ticket);
        Some(FailedSource {
            source,
            blob,
            failure,
        })
    }

    /// Keeps a host for `AVOIDED` from a source that has failed it. One that has failed several is named to
    /// nobody for a while: one host alone cannot bring that about.
    fn avoid(&mut self, fetcher: HostId, source: HostId) {
        let pair = (fetcher, source);
        if let Some(before) = self.avoided.remove(&pair) {
            self.avoided_until.remove(&(before, pair));
        }
        if self.avoided.len() < MOST_AVOIDED {
            let until = self.now + AVOIDED;
            self.avoided.insert(pair, until);
            self.avoided_until.insert((until, pair));
        }
        // It may wait for that source with another content.
        let waits = self.hosts.get(&fetcher).map(|of| &of.waits);
        for number in waits.into_iter().flatten() {
            self.lines.wake(*number, WakeCause::Doubt);
        }

        let Some(member) = self.hosts.get_mut(&source) else {
            return;
        };
        member.failed.insert(fetcher);
        if member.failed.len() >= WITNESSES {
            self.put_out(source);
        }
    }

    /// Names a source to nobody for a while.
    fn put_out(&mut self, source: HostId) {
        self.take_down(source);
        let Some(member) = self.hosts.get_mut(&source) else {
            return;
        };
        let until = self.now + Span(OUT.0 << member.outs.min(TWICE));
        member.failed.clear();
        member.outs += 1;

        if let Some(before) = member.out_until.replace(until) {
            self.out.remove(&(before, source));
        }
        self.out.insert((until, source));
    }
}

impl ListedHost {
    fn network(&self) -> NetworkId {
        network(self.seen)
    }

    /// The number of places that are taken, or kept for somebody.
    fn taken(&self) -> u32 {
        (self.serves.len() + self.offered.len()) as u32
    }

    /// Whether it can be named to others.
    fn passes_on(&self) -> bool {
        self.offer.is_some() && self.out_until.is_none()
    }

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
