//! Inputs that hosts pass on to each other: fetches from those that the master names, and serves
//! those that the master's tickets name, at low priority and while the owner lets tasks run.
//!
//! Only whole content of the cache is served, and only to the key that its ticket names. What comes
//! from a host counts once the whole has the right hash.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use common::wire::peer::{
    KeyHash, LEAST_SHARED, MAX_LISTED, PeerFailure, PeerGet, PeerReport, PeerSource, PeerTicket,
    SharingOffer,
};
use common::wire::worker::ToMaster;
use link::content::{Fetching, SendPace, serve_host};
use link::peer::{
    PeerDoor, PeerGuest, PeerHost, PeerKnock, PeerPapers, PeerQuestion, refuse, withdraw,
};
use link::{Carrier, Channel, Connection, Identity, LinkError};
use tokio::sync::mpsc::WeakUnboundedSender;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;

use crate::cache::Cache;
use crate::config::Config;
use crate::os;

/// The number of hosts that may fail to give a content before the master gives it.
const TRIES: usize = 2;
/// The number of large contents that are fetched at a time: one that waits holds a stream.
const LARGE: usize = 8;
/// The longest time until a ticket arrives whose holder has come already.
const TICKET: Duration = Duration::from_secs(3);
/// The longest time for which a guest asks nothing and is sent nothing.
const IDLE: Duration = Duration::from_secs(30);
/// The most guests, and the most tickets and connections that are kept.
const GUESTS: usize = 32;
const TICKETS: usize = 256;
const HOSTS: usize = 32;

/// The answer to whoever has no right here, whatever the reason.
const NO_TICKET: &str = "no ticket of the master's is for this key, this content and this time";

/// The inputs that this worker passes on, and those that others pass on to it.
#[derive(Debug)]
pub(crate) struct InputPeers {
    /// Whether the owner lets this worker serve, and the port (0: any).
    share: bool,
    port: u16,
    pace: SendPace,
    received: AtomicU64,
    large: Semaphore,
    cache: OnceLock<Weak<Cache>>,
    inner: Mutex<PeerBooks>,
    /// Tells of tickets that came or were taken back, and of the owner's decisions.
    news: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct PeerBooks {
    session: Option<PeerSession>,
    door: Option<PeerDoor>,
    /// The reason why there is no door, if it could not be opened.
    shut: Option<String>,
    /// Whether the owner lets tasks run.
    lent: bool,
    tickets: BTreeMap<u64, HeldTicket>,
    /// The tickets for which something is being sent.
    running: BTreeSet<u64>,
    hosts: BTreeMap<KeyHash, PeerHost>,
}

#[derive(Debug)]
struct HeldTicket {
    ticket: PeerTicket,
    until: Instant,
}

/// The present connection to the master.
struct PeerSession {
    papers: PeerPapers,
    outbox: WeakUnboundedSender<ToMaster>,
    /// This host's address towards the master, unless the connection goes over TCP.
    own: Option<IpAddr>,
}

impl std::fmt::Debug for PeerSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerSession")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

impl InputPeers {
    /// Nobody is served or asked before the master is there.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            share: config.share_inputs,
            port: config.share_port,
            pace: SendPace::of(config.share_bytes_per_s),
            received: AtomicU64::new(0),
            large: Semaphore::new(LARGE),
            cache: OnceLock::new(),
            inner: Mutex::default(),
            news: watch::Sender::new(()),
        }
    }

    /// Gives it the cache whose content it passes on.
    pub(crate) fn serve_from(&self, cache: &Arc<Cache>) {
        let _ = self.cache.set(Arc::downgrade(cache));
    }

    fn lock(&self) -> MutexGuard<'_, PeerBooks> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection that was made to the master with this identity, and offers to serve.
    pub(crate) async fn connected(
        self: &Arc<Self>,
        connection: &Connection,
        identity: &Identity,
        outbox: WeakUnboundedSender<ToMaster>,
    ) {
        // An identity of tests may be no worker's: then nothing is passed on.
        let Ok(papers) = PeerPapers::of(identity) else {
            return;
        };
        let own = connection.own_address();
        let own = own.filter(|_| connection.way() == Carrier::Udp);
        let open = {
            let mut inner = self.lock();
            inner.session = Some(PeerSession {
                papers: papers.clone(),
                outbox,
                own,
            });
            inner.hosts.clear();
            let renewed = inner.door.as_ref().map(|door| door.renew(&papers));
            if let Some(Err(error)) = renewed {
                tracing::warn!(%error, "inputs are not passed on");
                inner.door = None;
            }
            own.filter(|_| self.share && inner.door.is_none())
        };

        if let Some(own) = open {
            let (door, shut) = match open_door(self, own, papers).await {
                Ok(door) => (Some(door), None),
                Err(error) => {
                    tracing::warn!(%error, "inputs are not passed on");
                    (None, Some(error.to_string()))
                }
            };
            let mut inner = self.lock();
            inner.door = door;
            inner.shut = shut;
        }
        self.offer();
    }

    /// Says to the master with [`ToMaster::Shares`] what this host passes on, or that it does not.
    fn offer(&self) {
        let lent = {
            let inner = self.lock();
            inner.lent && inner.listens().is_some()
        };
        let cache = self.cache.get().and_then(Weak::upgrade).filter(|_| lent);
        let holds = cache.map_or_else(Vec::new, |cache| cache.large(LEAST_SHARED, MAX_LISTED));

        let inner = self.lock();
        let Some((port, own)) = inner.listens() else {
            return;
        };
        if inner.lent != lent {
            // Whoever has changed that just now offers anew.
            return;
        }
        let sharing = lent.then_some(SharingOffer {
            port,
            address: own,
            holds,
        });
        inner.say(ToMaster::Shares(sharing));
    }

    /// Notes whether the owner lets tasks run. If not, nothing is served.
    pub(crate) fn lend(&self, lent: bool) {
        if std::mem::replace(&mut self.lock().lent, lent) != lent {
            self.news.send_replace(());
            self.offer();
        }
    }

    /// Takes a [`PeerTicket`] from the master.
    pub(crate) fn expect(&self, ticket: PeerTicket) {
        let now = Instant::now();
        let mut inner = self.lock();
        inner.tickets.retain(|_, held| held.until > now);
        if inner.tickets.len() < TICKETS {
            let until = now + Duration::from(ticket.life);
            inner
                .tickets
                .insert(ticket.number, HeldTicket { ticket, until });
        }
        drop(inner);
        self.news.send_replace(());
    }

    /// Forgets tickets that the master takes back, and ends what is being sent for them.
    pub(crate) fn take_back(&self, numbers: &[u64]) {
        let mut inner = self.lock();
        for number in numbers {
            inner.tickets.remove(number);
            inner.running.remove(number);
        }
        drop(inner);
        self.news.send_replace(());
    }

    /// Forgets the tickets of a session that has ended, which the master can take back no more. What is being sent goes on,
    /// for as long as its ticket gives it: where another master takes over, no transfer of the fleet breaks off.
    pub(crate) fn forget_tickets(&self) {
        self.lock().tickets.clear();
    }

    /// Returns, for the owner, whether inputs are passed on, or the reason why not.
    pub(crate) fn state(&self) -> String {
        let inner = self.lock();
        match (&inner.shut, &inner.session) {
            _ if !self.share => "no: share_inputs is false".to_owned(),
            (Some(why), _) => format!("no: {why}"),
            (None, None) => "no: there is no connection to the master yet".to_owned(),
            (None, Some(session)) if session.own.is_none() => {
                "no: the master is reached over TCP".to_owned()
            }
            _ if !inner.lent => "not now: tasks may not run".to_owned(),
            _ => "yes".to_owned(),
        }
    }

    /// Returns the bytes that were sent to hosts, and those that came from some.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.pace.sent(), self.received.load(Ordering::Relaxed))
    }

    /// Brings content here from the master, or from hosts that it names.
    pub(crate) async fn fetch(
        &self,
        master: &Connection,
        fetching: Fetching,
    ) -> Result<(), LinkError> {
        // Never closed.
        let _place = self.large.acquire().await;
        let hash = fetching.blob().hash;
        let mut failed = Vec::new();
        let mut tries = 0;
        loop {
            let waits = |why: &str| tracing::info!(%hash, why, "an input has to wait");
            let reported = std::mem::take(&mut failed);
            let asked = fetching.ask(master, tries < TRIES, reported, waits);
            let Some(source) = asked.await? else {
                self.fetched(&fetching, None, fetching.blob().size);
                return Ok(());
            };

            let begun = fetching.begun().await;
            let failure = match self.take_from(&fetching, &source).await {
                Ok(bytes) => {
                    let from = source.addresses.first();
                    tracing::info!(%hash, bytes, ?from, "an input came from another host");
                    self.received.fetch_add(bytes, Ordering::Relaxed);
                    self.fetched(&fetching, Some(source.ticket), bytes);
                    return Ok(());
                }
                // The fault of this host.
                Err((_, error @ LinkError::File { .. })) => return Err(error),
                Err((failure, error)) => {
                    let from = source.addresses.first();
                    let why = in_words(&error);
                    tracing::warn!(%hash, ?from, why, "an input did not come from another host");
                    failure
                }
            };
            // Whose bytes are wrong is certain only if all are of one host; else the master gives
            // it anew.
            let mixed = failure == PeerFailure::Damaged && begun > 0;
            tries = if mixed { TRIES } else { tries + 1 };
            failed.push(PeerReport {
                ticket: source.ticket,
                failure: if mixed { PeerFailure::Stalled } else { failure },
            });
        }
    }

    fn fetched(&self, fetching: &Fetching, ticket: Option<u64>, bytes: u64) {
        self.lock().say(ToMaster::Fetched {
            hash: fetching.blob().hash,
            ticket,
            bytes,
        });
    }

    /// Takes the content from a [`PeerHost`].
    async fn take_from(
        &self,
        fetching: &Fetching,
        source: &PeerSource,
    ) -> Result<u64, (PeerFailure, LinkError)> {
        let known = self.lock().hosts.get(&source.key).cloned();
        if let Some(host) = known.filter(|host| !host.is_closed()) {
            let before = fetching.begun().await;
            let taken = fetching.take_from(&host, source.ticket).await;
            let gone = matches!(taken, Err(LinkError::Closed(_))) && host.is_closed();
            // It was gone before, and may be back. Where something has come, the ticket is used up.
            if !gone || fetching.begun().await > before {
                return taken.map_err(|error| (failure_of(&error), error));
            }
        }

        let papers = self.lock().session.as_ref().map(|of| of.papers.clone());
        let called = match papers {
            Some(papers) => papers.call(source).await,
            None => Err(LinkError::Closed("there is no master".to_owned())),
        };
        let host = called.map_err(|error| (PeerFailure::Unreachable, error))?;
        {
            let mut inner = self.lock();
            inner.hosts.retain(|_, host| !host.is_closed());
            if inner.hosts.len() < HOSTS {
                inner.hosts.insert(source.key, host.clone());
            }
        }
        let taken = fetching.take_from(&host, source.ticket).await;
        taken.map_err(|error| (failure_of(&error), error))
    }

    /// Answers a guest's [`PeerGet`].
    async fn answer(&self, guest: KeyHash, question: PeerQuestion) -> Result<(), LinkError> {
        let (PeerGet { ticket, offset }, mut channel) = question.read().await?;
        let Some(ticket) = self.redeem(guest, ticket).await else {
            return refuse(channel, NO_TICKET).await;
        };
        let number = ticket.number;
        // Who is slower than its ticket lives has gone to somebody else by then.
        let longest = Duration::from(ticket.life) + IDLE;
        let sending = self.send(&mut channel, &ticket, offset);
        let sent = tokio::time::timeout(longest, sending).await;
        self.lock().running.remove(&number);

        match sent {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => refuse(channel, "this host does not have it").await,
            Ok(Err(error)) => Err(error),
            Err(_) => {
                withdraw(&mut channel);
                Ok(())
            }
        }
    }

    /// Takes the [`HeldTicket`] of this number if it is for this key, and waits a little for it.
    async fn redeem(&self, guest: KeyHash, number: u64) -> Option<PeerTicket> {
        let mut news = self.news.subscribe();

        let coming = async {
            loop {
                {
                    let mut inner = self.lock();
                    if let Some(held) = inner.tickets.get(&number) {
                        let good = held.ticket.fetcher == guest && held.until > Instant::now();
                        if !good || !inner.lent {
                            return None;
                        }
                        inner.running.insert(number);
                        return inner.tickets.remove(&number).map(|held| held.ticket);
                    }
                }
                news.changed().await.ok()?;
            }
        };
        tokio::time::timeout(TICKET, coming).await.ok().flatten()
    }

    /// Sends the content of a ticket; false if it is not here.
    async fn send(
        &self,
        channel: &mut Channel,
        ticket: &PeerTicket,
        offset: u64,
    ) -> Result<bool, LinkError> {
        let Some(cache) = self.cache.get().and_then(Weak::upgrade) else {
            return Ok(false);
        };
        let Some(content) = cache.whole(ticket.blob).await else {
            return Ok(false);
        };
        let path = content.path();
        if offset > ticket.blob.size {
            return Ok(false);
        }

        let mut news = self.news.subscribe();
        let withdrawn = async {
            while self.lock().may_send(ticket.number) {
                let _ = news.changed().await;
            }
        };
        tokio::select! {
            sent = serve_host(channel, &path, ticket.blob.size, offset, &self.pace) => {
                return sent.map(|()| true);
            }
            () = withdrawn => {}
        }
        withdraw(channel);
        Ok(true)
    }
}

impl PeerBooks {
    /// Returns the port on which this host is reached, and its address towards the master.
    fn listens(&self) -> Option<(u16, IpAddr)> {
        let at = self.door.as_ref()?.address()?;
        let own = self.session.as_ref()?.own?;
        (own.is_ipv4() == at.is_ipv4()).then_some((at.port(), own))
    }

    fn may_send(&self, number: u64) -> bool {
        self.lent && self.running.contains(&number)
    }

    fn say(&self, message: ToMaster) {
        let outbox = self.session.as_ref();
        if let Some(outbox) = outbox.and_then(|session| session.outbox.upgrade()) {
            // A connection that is gone is followed by another, which begins anew.
            let _ = outbox.send(message);
        }
    }
}

impl Drop for InputPeers {
    fn drop(&mut self) {
        if let Some(door) = &self.lock().door {
            door.close();
        }
    }
}

/// Returns the [`PeerFailure`] of a host that was reached.
fn failure_of(error: &LinkError) -> PeerFailure {
    match error {
        LinkError::Damaged { .. } => PeerFailure::Damaged,
        LinkError::Refused(_) => PeerFailure::Refused,
        _ => PeerFailure::Stalled,
    }
}

/// Describes an error between hosts.
fn in_words(error: &LinkError) -> String {
    match error {
        LinkError::Closed(why) => why.clone(),
        other => other.to_string(),
    }
}

/// Opens the [`PeerDoor`] on a thread of its own, which yields to everything else on this host.
async fn open_door(
    peers: &Arc<InputPeers>,
    own: IpAddr,
    papers: PeerPapers,
) -> Result<PeerDoor, LinkError> {
    let any: IpAddr = match own {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let address = SocketAddr::new(any, peers.port);
    let host = Arc::downgrade(peers);
    let (tell, told) = oneshot::channel();

    let serve = move || {
        os::yield_thread();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(tell.send(Err(LinkError::Closed(error.to_string())))),
        };
        runtime.block_on(async {
            let door = PeerDoor::open(address, &papers);
            let ours = door.as_ref().ok().cloned();
            if tell.send(door).is_ok()
                && let Some(door) = ours
            {
                receive(door, host).await;
            }
        });
        // What is still being sent ends with the worker.
        runtime.shutdown_background();
    };
    std::thread::Builder::new()
        .name("peers".to_owned())
        .spawn(serve)
        .map_err(|error| LinkError::Closed(error.to_string()))?;
    told.await
        .unwrap_or_else(|_| Err(LinkError::Closed("its thread has ended".to_owned())))
}

/// Receives guests until the [`PeerDoor`] is closed.
async fn receive(door: PeerDoor, peers: Weak<InputPeers>) {
    let places = Arc::new(Semaphore::new(GUESTS));

    while let Some(knock) = door.next().await {
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let peers = peers.clone();
                tokio::spawn(async move {
                    let _place = place;
                    if let Err(error) = welcome(knock, peers).await {
                        tracing::debug!(%error, "a host that came for inputs has gone");
                    }
                });
            }
            Err(_) => knock.refuse(),
        }
    }
}

/// Serves one [`PeerGuest`] until it asks no more and has what it asked for.
async fn welcome(knock: PeerKnock, peers: Weak<InputPeers>) -> Result<(), LinkError> {
    let guest: PeerGuest = knock.let_in().await?;
    let mut answers = JoinSet::new();

    let served = loop {
        let question = match next_of(guest.next(), &mut answers).await {
            Some(Ok(question)) => question,
            Some(Err(error)) => break Err(error),
            None => break Ok(()),
        };
        let key = guest.key;
        let Some(peers) = peers.upgrade() else {
            break Ok(());
        };
        answers.spawn(async move {
            if let Err(error) = peers.answer(key, question).await {
                tracing::debug!(%error, "an input was not passed on");
            }
        });
    };

    // Those that run yet find the connection gone, and tidy up.
    answers.detach_all();
    guest.close("it asked nothing any more");
    served
}

/// Waits for the next question of a guest; `None` once it has asked nothing for [`IDLE`] and no
/// answer ran in that time: one question may be for a content that takes minutes.
async fn next_of<Q>(question: impl Future<Output = Q>, answers: &mut JoinSet<()>) -> Option<Q> {
    tokio::pin!(question);

    loop {
        let idle = answers.is_empty();
        tokio::select! {
            asked = &mut question => return Some(asked),
            Some(_) = answers.join_next() => {}
            () = tokio::time::sleep(IDLE), if idle => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use common::content::BlobHash;
    use common::{BlobRef, Span};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_ticket_holds_no_longer_than_the_session_in_which_it_came() {
        let peers = InputPeers::new(&Config::default());
        peers.lend(true);
        let guest = [1; 32];
        let ticket = |number| PeerTicket {
            number,
            blob: BlobRef {
                hash: BlobHash([2; 32]),
                size: 9,
            },
            fetcher: guest,
            life: Span::from_secs(600),
        };

        peers.expect(ticket(1));
        peers.expect(ticket(2));
        assert_eq!(peers.redeem(guest, 1).await, Some(ticket(1)));
        peers.forget_tickets();
        assert_eq!(peers.redeem(guest, 2).await, None);
        assert!(peers.lock().may_send(1), "what is being sent goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_is_left_once_it_asks_nothing_and_has_what_it_asked_for() {
        let now = tokio::time::Instant::now;
        let mut answers = JoinSet::new();
        let from = now();
        assert_eq!(next_of(pending::<()>(), &mut answers).await, None);
        assert_eq!(from.elapsed(), IDLE);

        let long = 10 * IDLE;
        let from = now();
        answers.spawn(tokio::time::sleep(long));
        assert_eq!(next_of(pending::<()>(), &mut answers).await, None);
        assert_eq!(from.elapsed(), long + IDLE);

        let from = now();
        answers.spawn(tokio::time::sleep(long));
        let asks = async { tokio::time::sleep(2 * IDLE).await };
        assert_eq!(next_of(asks, &mut answers).await, Some(()));
        assert_eq!(from.elapsed(), 2 * IDLE);
    }
}
