//! Many simulated workers in one process: each has an identity, a connection and a task of its own,
//! and comes back when the connection is lost. The benchmark speaks with the process in lines of
//! text.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::attempt::{Completion, HeldAttempt, Outcome, Phase, Stream};
use common::host::{Confinement, HostFacts, OwnerState};
use common::token::JoinToken;
use common::wire::enrol::WantedRole;
use common::wire::stream::Open;
use common::wire::worker::{BUSY_EVERY, Delivery, ToMaster, ToWorker};
use common::wire::{ALPN_WORKER, Versions};
use common::{AttemptId, Incarnation, Span, Speed};
use link::error::spread_of;
use link::{Channel, Identity, LinkError, masters, tls};
use quinn::crypto::rustls::QuicClientConfig;
use tests::Grid;
use tokio::sync::watch;

/// So many workers share a socket. Each socket has an address of its own, as PCs do: the master
/// lets in only so many at a time from one address.
const OF_A_SOCKET: usize = 250;
/// So many join at a time: a first start is nothing that this measures.
const JOINING: usize = 16;
/// So often a worker tries to join.
const ATTEMPTS: usize = 20;
/// The longest time that the master may take to answer a greeting, as real workers have it.
const WELCOME: Duration = Duration::from_secs(10);
/// QUIC's own idle timeout, as real workers have it, in milliseconds: they find out sooner.
const IDLE: quinn::VarInt = quinn::VarInt::from_u32(400_000);

/// The process, as the benchmark sees it.
pub(super) struct Herd {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

/// Starts processes with so many workers altogether, which join the grid by way of these addresses: each
/// process by its own, in turn.
pub(super) fn start(grid: &Grid, ways: &[String], workers: u32, processes: u32) -> Vec<Herd> {
    let uses = workers.to_string();
    let words = [
        "--output", "quiet", "token", "create", "--role", "worker", "--uses", &uses,
    ];
    let token = grid.admin(words);
    let token = token.expect_code(0).stdout.trim().to_owned();
    let each = workers.div_ceil(processes);

    let herd = |n: u32| {
        let way = &ways[n as usize % ways.len()];
        Herd::start(way, &token, n, each.min(workers - n * each))
    };
    (0..processes).map(herd).collect()
}

impl Herd {
    /// Starts a process with so many workers.
    fn start(master: &str, token: &str, number: u32, workers: u32) -> Self {
        let own = std::env::current_exe().expect("this program");
        let mut command = Command::new(own);
        command.args([
            "herd",
            master,
            token,
            &number.to_string(),
            &workers.to_string(),
        ]);

        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let to = child.stdin.take().expect("a pipe");
        let from = child.stdout.take().expect("a pipe");

        Self {
            child,
            to,
            from: BufReader::new(from).lines(),
        }
    }

    /// Waits until the process says this.
    pub(super) fn wait_for(&mut self, word: &str) {
        let said = self
            .from
            .next()
            .expect("the process lives")
            .expect("a line");
        assert_eq!(said, word);
    }

    /// Tells the process something.
    pub(super) fn say(&mut self, word: &str) {
        writeln!(self.to, "{word}").expect("the process lives");
    }
}

impl Drop for Herd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many of the workers have come so far.
#[derive(Default)]
struct Counts {
    joined: AtomicU32,
    holding: AtomicU32,
    back: AtomicU32,
    done: AtomicU32,
}

/// The process: `MASTER TOKEN NUMBER WORKERS`.
pub(super) fn run(args: &[String]) {
    let [master, token, number, workers, ..] = args else {
        panic!("MASTER TOKEN NUMBER WORKERS")
    };
    let workers: u32 = workers.parse().expect("a number");
    let token: JoinToken = token.parse().expect("a token");
    let (master, own): (String, u8) = (master.clone(), number.parse().expect("a number"));
    super::runtime().block_on(async move {
        let counts = Arc::new(Counts::default());
        let (go, deliver) = watch::channel(false);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                go.send_replace(line == "deliver");
            }
        });

        let mut identities: Vec<Identity> = Vec::new();
        while identities.len() < workers as usize {
            let mut joining = tokio::task::JoinSet::new();
            for n in 0..JOINING.min(workers as usize - identities.len()) {
                let master = master.clone();
                let token = token.clone();
                let name = format!("pc-{own}-{}", identities.len() + n);
                joining.spawn(join(master, token, name));
            }
            identities.extend(joining.join_all().await);
        }

        let mut endpoint = None;
        for (n, identity) in identities.into_iter().enumerate() {
            if n % OF_A_SOCKET == 0 {
                let from = [127, 1 + own, (n / OF_A_SOCKET) as u8, 1];
                endpoint =
                    Some(quinn::Endpoint::client(SocketAddr::from((from, 0))).expect("a socket"));
            }
            let endpoint = endpoint.clone().expect("a socket");
            let (counts, deliver) = (counts.clone(), deliver.clone());
            tokio::spawn(work(endpoint, identity, counts, deliver));
        }

        for (count, word) in [
            (&counts.joined, "joined"),
            (&counts.holding, "holds"),
            (&counts.back, "back"),
            (&counts.done, "done"),
        ] {
            while count.load(Ordering::Relaxed) < workers {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            println!("{word}");
        }

        std::future::pending::<()>().await;
    });
}

/// Joins, however crowded the door is: all of these workers come from one address, which gets only
/// so many places.
async fn join(master: String, token: JoinToken, name: String) -> Identity {
    let mut backoff = link::retry::Backoff::default();
    let key = link::JoiningKey::make().expect("a key");
    for _ in 0..ATTEMPTS {
        match link::enrol_as(&master, &token, &key, &name, WantedRole::Worker).await {
            Ok(identity) => return identity,
            Err(error) if error.passing() => tokio::time::sleep(backoff.delay()).await,
            Err(error) => panic!("{name}: {error}"),
        }
    }
    panic!("{name} cannot join");
}

/// One worker, for ever.
async fn work(
    endpoint: quinn::Endpoint,
    identity: Identity,
    counts: Arc<Counts>,
    deliver: watch::Receiver<bool>,
) {
    let mut held: Option<AttemptId> = None;
    let mut backoff = link::retry::Backoff::default();
    let mut seen = SeenMasters::default();

    loop {
        let mut connection = None;
        if let Err(error) = session(
            (&endpoint, &mut connection),
            &identity,
            &counts,
            &mut held,
            &mut seen,
            deliver.clone(),
        )
        .await
            && !error.passing()
        {
            eprintln!("{}: {error}", identity.link.name);
        }
        let wanted = connection.and_then(|connection| connection.close_reason());
        let spread = wanted.map_or(Duration::ZERO, |end| spread_of(&end));
        tokio::time::sleep(backoff.delay() + link::retry::draw(spread)).await;
    }
}

/// Serves a master until the connection ends, which is left in `last`.
async fn session(
    (endpoint, last): (&quinn::Endpoint, &mut Option<quinn::Connection>),
    identity: &Identity,
    counts: &Counts,
    held: &mut Option<AttemptId>,
    seen: &mut SeenMasters,
    deliver: watch::Receiver<bool>,
) -> Result<(), LinkError> {
    let connection = last.insert(connect(endpoint, identity).await?).clone();
    let mut alive = AliveTicks::new(&connection, &identity.link.master);
    // Behind a gateway the master may change meanwhile: each is greeted on a stream of its own.
    loop {
        let (mut channel, every) = greet(&connection, identity, counts, held, seen).await?;
        let ticks = (&mut alive, heartbeats(every));
        serve(&mut channel, ticks, counts, held, deliver.clone()).await?;
    }
}

/// Opens a control stream, and is welcome on it. Returns the interval of its heartbeats as well.
async fn greet(
    connection: &quinn::Connection,
    identity: &Identity,
    counts: &Counts,
    held: &mut Option<AttemptId>,
    seen: &mut SeenMasters,
) -> Result<(Channel, Span), LinkError> {
    let (tx, rx) = connection.open_bi().await?;
    let mut channel = Channel::new(tx, rx);
    channel.tx.push(&Open::Control)?;
    channel.tx.send(&hello(&identity.link.name, *held)).await?;

    let welcome = tokio::time::timeout(WELCOME, channel.rx.expect()).await;
    let welcome: ToWorker =
        welcome.map_err(|_| LinkError::Closed("the master did not answer".to_owned()))??;
    let ToWorker::Welcome {
        abandon,
        incarnation,
        heartbeat,
        ..
    } = &welcome
    else {
        panic!("{welcome:?}")
    };
    if !abandon.is_empty() {
        let name = &identity.link.name;
        eprintln!("{name} lost its lease: another one has done {abandon:?}");
        *held = None;
        counts.done.fetch_add(1, Ordering::Relaxed);
    }
    seen.count(*incarnation, counts);
    Ok((channel, *heartbeat))
}

/// The times of heartbeats, the first of them after a whole interval.
fn heartbeats(every: Span) -> tokio::time::Interval {
    let first = tokio::time::Instant::now() + every.into();
    let mut beats = tokio::time::interval_at(first, every.into());
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    beats
}

/// Does what it is told until the gateway has another master.
async fn serve(
    channel: &mut Channel,
    (alive, mut heartbeats): (&mut AliveTicks<'_>, tokio::time::Interval),
    counts: &Counts,
    held: &mut Option<AttemptId>,
    mut deliver: watch::Receiver<bool>,
) -> Result<(), LinkError> {
    loop {
        tokio::select! {
            message = channel.rx.expect::<ToWorker>() => match message? {
                ToWorker::Assign(some) => {
                    *held = some.first().map(|assignment| assignment.attempt);
                    counts.holding.fetch_add(1, Ordering::Relaxed);
                }
                ToWorker::Acknowledged(_) => {
                    *held = None;
                    counts.done.fetch_add(1, Ordering::Relaxed);
                }
                ToWorker::Anew => return Ok(()),
                _ => {}
            },
            unanswered = alive.next() => {
                if unanswered {
                    alive.connection.close(0_u32.into(), b"no answer");
                    return Err(LinkError::Closed("the master does not answer".to_owned()));
                }
                channel.tx.send(&ToMaster::Alive(BUSY_EVERY)).await?;
            }
            _ = heartbeats.tick() => {
                let status = OwnerState::Away.into();
                let held = held.iter().copied().map(holds).collect();
                channel.tx.send(&ToMaster::Heartbeat { status, held }).await?;
            }
            () = told(&mut deliver), if held.is_some() => {
                if let Some(attempt) = held.take() {
                    channel.tx.send(&ToMaster::Delivered(vec![delivery(attempt)])).await?;
                }
            }
        }
    }
}

/// The masters that have let a worker in.
#[derive(Default)]
struct SeenMasters {
    first: Option<Incarnation>,
    is_back: bool,
}

impl SeenMasters {
    /// Counts the worker once when it has joined, and once when it has come back to another master.
    fn count(&mut self, master: Incarnation, counts: &Counts) {
        match self.first {
            None => {
                self.first = Some(master);
                counts.joined.fetch_add(1, Ordering::Relaxed);
            }
            Some(first) if first != master && !self.is_back => {
                self.is_back = true;
                counts.back.fetch_add(1, Ordering::Relaxed);
            }
            Some(_) => {}
        }
    }
}

/// The times at which a worker says that it is there, and whether anything has come since: as often, and
/// as patiently, as real workers that hold attempts.
struct AliveTicks<'a> {
    connection: &'a quinn::Connection,
    ticks: tokio::time::Interval,
    received: u64,
    unanswered: u32,
    most: u32,
}

impl<'a> AliveTicks<'a> {
    fn new(connection: &'a quinn::Connection, known: &str) -> Self {
        let mut ticks = tokio::time::interval(BUSY_EVERY.into());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Self {
            connection,
            ticks,
            received: 0,
            unanswered: 0,
            most: if masters::are_several(known) { 2 } else { 3 },
        }
    }

    /// Waits for the next time; returns whether the master has been silent for too long.
    async fn next(&mut self) -> bool {
        self.ticks.tick().await;
        let received = self.connection.stats().udp_rx.datagrams;
        self.unanswered = if received == self.received {
            self.unanswered + 1
        } else {
            0
        };
        self.received = received;
        self.unanswered >= self.most
    }
}

/// Waits for the word to deliver.
async fn told(deliver: &mut watch::Receiver<bool>) {
    let _ = deliver.wait_for(|go| *go).await;
}

async fn connect(
    endpoint: &quinn::Endpoint,
    identity: &Identity,
) -> Result<quinn::Connection, LinkError> {
    let crypto = QuicClientConfig::try_from(tls::client_config(
        identity,
        ALPN_WORKER,
        tls::TrustedEnds::MastersAndGateways,
    )?)
    .expect("settings for QUIC");
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    let mut transport = quinn::TransportConfig::default();
    transport.max_idle_timeout(Some(IDLE.into()));
    config.transport_config(Arc::new(transport));

    let known = &*identity.link.master;
    let mut tries: Vec<masters::Trying<'_, quinn::Connection>> = Vec::new();
    for master in masters::addresses(known) {
        tries.push(Box::pin(connect_to(endpoint, &config, identity, master)));
    }
    let errors = match masters::first(tries).await {
        Ok(connection) => return Ok(connection),
        Err(errors) => errors,
    };

    let why = errors.iter().map(ToString::to_string);
    Err(LinkError::Closed(why.collect::<Vec<_>>().join("; ")))
}

async fn connect_to(
    endpoint: &quinn::Endpoint,
    config: &quinn::ClientConfig,
    identity: &Identity,
    master: &str,
) -> Result<quinn::Connection, LinkError> {
    let to: SocketAddr = master.parse().expect("an address");
    let wanted = tls::wanted_name(&link::identity::key_hash(&identity.ca)?);
    let connecting = endpoint
        .connect_with(config.clone(), to, &wanted)
        .map_err(|e| LinkError::Closed(e.to_string()))?;
    let patience = Duration::from_secs(5);
    let connected = tokio::time::timeout(patience, connecting).await;

    Ok(connected.map_err(|_| LinkError::Closed("no answer within five seconds".to_owned()))??)
}

fn hello(name: &str, held: Option<AttemptId>) -> ToMaster {
    let facts = HostFacts {
        name: name.to_owned(),
        slots: 1,
        speed: Speed::REFERENCE,
        clock_mhz: 1_500,
        cores: 1,
        memory_mib: 1_024,
        confinement: Confinement::Process,
        confinement_most: Confinement::Process,
        network: false,
        ..HostFacts::unknown(String::new())
    };

    let held = held.map(holds).into_iter().collect();

    ToMaster::Hello {
        versions: Versions::ours(),
        facts: Box::new(facts),
        status: OwnerState::Away.into(),
        held,
    }
}

fn holds(attempt: AttemptId) -> HeldAttempt {
    HeldAttempt {
        attempt,
        phase: Phase::Running,
        ran: Span::ZERO,
        frozen_for: Span::ZERO,
        progress: None,
    }
}

fn delivery(attempt: AttemptId) -> Delivery {
    let completion = Completion {
        attempt,
        outcome: Outcome::Succeeded,
        ran: Span::from_millis(5),
        suspended: Span::ZERO,
        cpu: Span::from_millis(4),
        stdout: Stream::default(),
        stderr: Stream::default(),
        outputs: Vec::new(),
        warnings: Vec::new(),
        confined: None,
    };
    Delivery {
        completion,
        ago: Span::ZERO,
    }
}
