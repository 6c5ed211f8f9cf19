//! Starts a master in a directory, and stops it in order.

use std::fs::{self, File, TryLockError};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use common::Time;
use common::token::Role;
use link::alive::WorkerCount;
use link::identity::{LinkInfo, read_certificate};
use link::{Identity, LinkError, Purpose, TunnelLimits, Validity, listener, tls};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::authority::Authority;
use crate::away::Away;
use crate::clock::Clock;
use crate::content_place::ContentPlace;
use crate::content_place::ContentSetting;
use crate::core::ask::{HostAsk, PeerAsk, UpkeepAsk};
use crate::core::{self, CoreHandle};
use crate::database::WantedStore;
use crate::limits::{Attempted, Counters, FileTransfers};
use crate::room::DiskRoom;
use crate::sessions::QuicEntrance;
use crate::sessions::live::LiveSessions;
use crate::sessions::share::SharedContent;
use crate::standby::{Candidate, TakenStore};
use crate::store::{PeerStatus, PgError, Reader, StoreError, StoreFacts, Writer};
use crate::tails::Tails;
use crate::uploads::Uploads;
use crate::{Config, MasterError, compare, content_place, database, http, sessions, sweep, whole};

/// The time that the last packets to peers may take to leave this machine.
const GOODBYE: Duration = Duration::from_millis(500);

/// The minutes between two notes that the master is up (`UpkeepAsk::NoteUp`).
const UP_MINUTES: u64 = 10;

/// The longest time between two looks at the clock for the end of a CA's overlap.
const OVERLAP_LOOK: Duration = Duration::from_secs(3_600);

/// The ports that are tried where the system chooses.
const PORT_CHOICES: u32 = 8;

/// The state that all sessions share.
pub(crate) struct SessionContext {
    pub(crate) home: PathBuf,
    pub(crate) config: Config,
    pub(crate) core: CoreHandle,
    /// The same for asks of people, who are told when the store keeps them waiting for long.
    pub(crate) for_people: CoreHandle,
    pub(crate) reader: Reader,
    pub(crate) blobs: ContentPlace,
    pub(crate) room: Arc<DiskRoom>,
    pub(crate) authority: Authority,
    pub(crate) ca_key_hash: [u8; 32],
    /// The address of this master for people on other machines.
    pub(crate) known_as: String,
    /// The URL of its HTTP server for programs; empty where it serves no HTTP.
    pub(crate) http_url: String,
    /// The time from which this master has had the store.
    pub(crate) since: Time,
    /// The place of the store, in words.
    pub(crate) store_name: String,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) clock: Clock,
    pub(crate) counters: Counters,
    pub(crate) uploads: Uploads,
    pub(crate) live: LiveSessions,
    pub(crate) workers: WorkerCount,
    pub(crate) away: Away,
    /// Those who wait for the output of running tasks.
    pub(crate) tails: Tails,
    /// The hosts that pass content on.
    pub(crate) shared: SharedContent,
}

impl SessionContext {
    /// Writes a refusal into the audit log; repeated ones are counted.
    pub(crate) fn refused(&self, who: &str, what: &'static str, subject: &str, why: &str) {
        tracing::warn!(who, what, subject, why, "refused");
        let attempted = Attempted {
            who: who.to_owned(),
            what,
            subject: subject.to_owned(),
            why: why.to_owned(),
        };
        let entries = self.counters.note(self.clock.now(), attempted);
        if !entries.is_empty() {
            self.core.tell(PeerAsk::Audit(entries));
        }
    }
}

/// Runs a master in `dir/master` until `shutdown` resolves. At the first start it makes the grid's
/// CA; whenever there is no identity in `dir/client` it puts an admin's there. The address that it
/// is reached by lies in `dir/master/address`. With its store in a database it stands by while another
/// master has that, and again after another one has taken it.
///
/// # Errors
/// If another master runs there, the store or a port cannot be opened, or the store fails later.
pub async fn run(
    dir: PathBuf,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), MasterError> {
    let home = dir.join("master");
    link::files::private_dir(&home).map_err(LinkError::file("cannot make", &home))?;

    let _lock = lock(&home)?;
    tokio::pin!(shutdown);
    let mut before = None;
    loop {
        before = match be_master(&dir, config.clone(), before, shutdown.as_mut()).await? {
            None => return Ok(()),
            before => before,
        };
    }
}

/// The rest of the time in which this process had the store.
pub(crate) struct StoreLoss {
    /// Whether it was asked to give it to another master; else one took it.
    pub(crate) handed_over: bool,
    /// The sockets at which it goes on answering, if it had come so far.
    pub(crate) listening: Option<Listening>,
}

/// Has the store, and serves it, once no other master has it. `before` is what is left of the last time.
/// `None` if it ends since it was asked to.
async fn be_master(
    dir: &Path,
    config: Config,
    before: Option<StoreLoss>,
    mut shutdown: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<StoreLoss>, MasterError> {
    let home = dir.join("master");
    let clock = Clock::start();
    let files = FileTransfers::raise();
    let room = DiskRoom::open(&home, config.reserve_bytes)?;
    config.check_http()?;
    let content = config.content_in(&home)?;
    let place = database::place(&config)?;
    let is_shared = place.is_some();
    let wanted = place.map(|place| WantedStore {
        home: home.clone(),
        content: content.clone(),
        place,
        clock,
        accept: config.accept,
    });
    let taken = match wanted {
        Some(wanted) => {
            let candidate = Candidate {
                wanted,
                config: &config,
                files,
                before,
            };
            Box::pin(candidate.take(shutdown.as_mut())).await?
        }
        None => Some(open_file(&home, &content, clock, &config)?),
    };
    let Some(TakenStore { store, listening }) = taken else {
        return Ok(None);
    };
    let beginning = begin(dir, store, clock, config, files, room, listening);
    let begun = match Box::pin(beginning).await {
        Ok(begun) => begun,
        Err(error) => return lost_early(&home, error).map(Some),
    };
    let StartingMaster {
        grid,
        state,
        listening: Listening { bound, entrances },
        listener,
        address,
        files,
        to_compare,
        incarnation,
        thread,
    } = begun;

    let written = write_addresses(&home, &address, listener.as_ref());
    if written.is_ok() {
        tell_addresses(&address, listener.as_ref(), &state.config);
        tracing::debug!(%bound, %incarnation, "listening");
    }

    let mut tasks = receive(&state, &entrances);
    keep_up(&state, &mut tasks);
    tasks.spawn(compare::serve(state.clone(), to_compare));
    if let Some(listener) = listener {
        tasks.spawn(http::serve(listener, state.clone(), files));
    }

    let mut core_end = tokio::task::spawn_blocking(move || thread.join());
    // A master whose addresses cannot be written ends in order, too.
    let found = written.is_ok();
    let shutdown = async move {
        if found {
            shutdown.await;
        }
    };
    tokio::pin!(shutdown);
    tokio::select! {
        () = &mut shutdown => {
            end(&state, &entrances, tasks).await;
            core_result(core_end.await)?;
        }
        () = panicked(&mut tasks) => {
            end(&state, &entrances, tasks).await;
            core_result(core_end.await)?;
            let why = "one of its tasks panicked; the log says where. Nothing acknowledged is lost";
            return Err(MasterError::Core(why.to_owned()));
        }
        ended = &mut core_end => {
            let ended = core_result(ended);
            if !is_shared {
                return ended.map(|()| None);
            }
            let handed_over = was_handed_over(ended)?;
            // Whoever is connected finds the master that has the store now, and so does who comes until no more are let in.
            let why = "another master has the store";
            state.live.close_all(why);
            tasks.shutdown().await;
            state.live.close_all(why);
            let listening = Some(Listening { bound, entrances });
            return Ok(Some(StoreLoss { handed_over, listening }));
        }
    }

    drop(state);
    whole::note_end(&home, grid);
    written.map(|()| None)
}

/// Logs where the master is reached.
fn tell_addresses(address: &str, http: Option<&http::HttpPlace>, config: &Config) {
    tracing::info!("master is up at {address}");
    if let Some(http) = http.and_then(|http| http.local_addr().ok()) {
        let scheme = match config.http_certificate {
            Some(_) => "https",
            None => "http",
        };
        tracing::info!("dashboard, API and metrics are at {scheme}://{http}/");
    }
}

/// Opens the store in a file in `home`.
fn open_file(
    home: &Path,
    content: &ContentSetting,
    clock: Clock,
    config: &Config,
) -> Result<TakenStore, MasterError> {
    // Where its content cannot be no grid begins.
    if !home.join(whole::STORE).exists() && whole::look(home)?.is_none() {
        content_place::check_in_home(home, content, None, config.accept)?;
    }

    let store = whole::open(home, clock, config.accept)?;
    let facts = StoreFacts::of(store.db())?;
    content_place::check_in_home(home, content, Some(&facts), config.accept)?;
    let listening = None;
    Ok(TakenStore { store, listening })
}

/// The rest of a start that has failed since another master took the store; else why it failed.
fn lost_early(home: &Path, error: MasterError) -> Result<StoreLoss, MasterError> {
    whole::note_refusal(home, &error);
    let handed_over = was_handed_over(Err(error))?;
    let listening = None;
    Ok(StoreLoss {
        handed_over,
        listening,
    })
}

/// Whether the core, which has ended, gave the store to another master; else one took it.
fn was_handed_over(ended: Result<(), MasterError>) -> Result<bool, MasterError> {
    match ended {
        Ok(()) => {
            tracing::info!("the store is handed over; this master stands by");
            Ok(true)
        }
        Err(MasterError::Store(StoreError::Postgres(error @ PgError::TakenOver(_)))) => {
            tracing::error!("{error}. It ends its sessions and stands by");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// A master that is ready to accept connections.
struct StartingMaster {
    grid: Uuid,
    state: Arc<SessionContext>,
    listening: Listening,
    listener: Option<http::HttpPlace>,
    address: String,
    files: FileTransfers,
    to_compare: tokio::sync::mpsc::UnboundedReceiver<compare::Comparison>,
    incarnation: common::Incarnation,
    thread: core::Thread,
}

/// The sockets at which a master answers, and their address.
pub(crate) struct Listening {
    pub(crate) bound: SocketAddr,
    pub(crate) entrances: Vec<QuicEntrance>,
}

/// Does everything that may keep a master from starting, on an open store, and starts its core
/// last. If it fails, the store is closed.
async fn begin(
    dir: &Path,
    mut store: Writer,
    clock: Clock,
    config: Config,
    files: FileTransfers,
    room: DiskRoom,
    listening: Option<Listening>,
) -> Result<StartingMaster, MasterError> {
    let home = dir.join("master");
    let (grid, seed) = name(&home, &mut store)?;
    let authority = Authority::open(&home, grid, config.certificate_life.0)?;
    let away = Away::read(&store, clock, config.renewal_grace.span())?;

    let tls = tls::server_config(authority.server()?, &Purpose::ALL.map(Purpose::alpn))?;
    let listening = match listening {
        // Until now these said that this master stands by.
        Some(listening) => {
            answer_with(&listening.entrances, &tls)?;
            listening
        }
        None => listen(config.listen, &tls, seed, files.tunnels).await?,
    };
    let bound = listening.bound;
    let listener = match config.http {
        Some(address) => Some(http::bind(&config, address).await?),
        None => None,
    };

    let address = config
        .advertise
        .clone()
        .unwrap_or_else(|| reachable(bound).to_string());
    let known_as = config.advertise.clone().unwrap_or_else(|| known_as(bound));
    let http_url = listener
        .as_ref()
        .and_then(|place| place.url(&config, &known_as).ok())
        .unwrap_or_default();
    admit_local_admin(&dir.join("client"), &authority, &mut store, clock, &address)?;

    let place = content_place::open((&home, &config), grid, &mut store, clock);
    let blobs = Box::pin(place).await?;
    let room = Arc::new(room.with_content(blobs.local().root())?);
    let metrics = http::recorder();
    let reader = store.reader(&home);
    let ca_key_hash = authority.key_hash()?;
    let (compare, to_compare) = tokio::sync::mpsc::unbounded_channel();
    let (core, incarnation, thread) =
        core::start(clock, store, &config, blobs.clone(), compare, room.clone())?;

    let place = database::place(&config)?;
    let store_name = place.as_ref().map_or_else(
        || format!("the file {}", home.join(whole::STORE).display()),
        |place| format!("PostgreSQL at {}", place.name()),
    );
    let counters = Counters::new(&config.limits, &files);
    let live = LiveSessions::default();
    let shared = SharedContent::new(config.peer_fan_out);
    let state = SessionContext {
        home,
        config,
        for_people: core.of_people(),
        core,
        reader,
        blobs,
        room,
        authority,
        ca_key_hash,
        known_as,
        http_url,
        since: clock.now(),
        store_name,
        metrics,
        clock,
        counters,
        uploads: Uploads::default(),
        live,
        workers: WorkerCount::default(),
        away,
        tails: Tails::default(),
        shared,
    };

    Ok(StartingMaster {
        grid,
        state: Arc::new(state),
        listening,
        listener,
        address,
        files,
        to_compare,
        incarnation,
        thread,
    })
}

/// Accepts connections at every entrance, and ends there the overlap of two CAs.
fn receive(state: &Arc<SessionContext>, entrances: &[QuicEntrance]) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for entrance in entrances {
        tasks.spawn(sessions::serve(state.clone(), entrance.clone()));
        if let Some(tunnels) = &entrance.tunnels {
            tasks.spawn(sessions::note_cuts(state.clone(), tunnels.clone()));
        }
    }
    tasks.spawn(end_overlap(state.clone(), entrances.to_vec()));
    tasks
}

/// Waits until the CA before the present one is trusted no more, if there is one, and drops it.
/// Connections that stand go on.
async fn end_overlap(state: Arc<SessionContext>, entrances: Vec<QuicEntrance>) {
    while let Some(left) = state.authority.overlap() {
        if !left.is_zero() {
            tokio::time::sleep(left.min(OVERLAP_LOOK)).await;
            continue;
        }

        let ended = state.authority.end_overlap(&state.home, |chains| {
            let tls = tls::server_config(chains, &Purpose::ALL.map(Purpose::alpn))?;
            answer_with(&entrances, &tls)
        });
        match ended {
            Ok(()) => tracing::info!("the CA before the present one is trusted no more"),
            Err(error) => {
                tracing::error!(%error, "the CA before the present one is not removed: start the master again");
            }
        }
    }
}

/// Begins what is done regularly.
fn keep_up(state: &Arc<SessionContext>, tasks: &mut JoinSet<()>) {
    tasks.spawn(sweep::serve(state.clone()));
    tasks.spawn(minutely(state.clone()));
    tasks.spawn(hold_room(state.clone()));
    tasks.spawn(take_back(state.clone()));
    tasks.spawn(roll_on(state.clone()));
}

/// The grid's number, and the seed of its connections; made at the first start. The store is
/// committed before a CA is made, so that a CA implies a store that knows its grid, even after a
/// crash.
fn name(home: &Path, store: &mut Writer) -> Result<(Uuid, [u8; 32]), MasterError> {
    let grid = Uuid::from_bytes(store.meta("grid", rand::random)?);
    let seed = store.meta("quic seed", rand::random)?;
    store.commit()?;
    whole::watch(home, store, grid)?;
    Ok((grid, seed))
}

/// Waits for the first of the master's tasks that panics. A master goes on without one that has ended,
/// but not without one that should still run.
async fn panicked(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if ended.is_err_and(|error| error.is_panic()) {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Ends in order: writes the last notes, tells the connected peers, and has the core close its
/// store.
async fn end(state: &SessionContext, entrances: &[QuicEntrance], mut tasks: JoinSet<()>) {
    tracing::info!("shutting down");
    write_the_last(state).await;
    state.live.close_all("the master shuts down");
    for entrance in entrances {
        entrance
            .listener
            .endpoint()
            .close(quinn::VarInt::from_u32(0), b"the master shuts down");
    }
    tasks.shutdown().await;
    farewell(entrances).await;
    // Sessions that are still running hold handles that would keep the core alive. A core that
    // failed meanwhile needs no message.
    let _ = state.core.ask::<()>(UpkeepAsk::Stop).await;
}

/// Writes the last notes of an orderly end.
async fn write_the_last(state: &SessionContext) {
    // The end of the core's thread reports its failure.
    let repeats = state.counters.repeats(state.clock.now());
    let _ = state.core.ask::<()>(PeerAsk::Audit(repeats)).await;
    let _ = state.core.ask::<()>(UpkeepAsk::WriteExperience).await;
    let _ = state.core.ask::<()>(UpkeepAsk::NoteUp).await;
}

/// Gives the last packets time to leave.
async fn farewell(entrances: &[QuicEntrance]) {
    for entrance in entrances {
        let _ = tokio::time::timeout(GOODBYE, entrance.listener.endpoint().wait_idle()).await;
    }
}

/// Has sockets that listen already answer with these settings.
pub(crate) fn answer_with(
    entrances: &[QuicEntrance],
    tls: &rustls::ServerConfig,
) -> Result<(), MasterError> {
    for entrance in entrances {
        entrance.listener.answer_with(tls.clone())?;
    }
    Ok(())
}

/// Listens on UDP, and on the same port on TCP for peers that UDP does not reach. Without TCP the
/// master goes on: most peers do without. Where the system chooses the port, it chooses again if
/// that port is taken on TCP.
pub(crate) async fn listen(
    address: SocketAddr,
    tls: &rustls::ServerConfig,
    seed: [u8; 32],
    limits: TunnelLimits,
) -> Result<Listening, MasterError> {
    let mut choices = if address.port() == 0 { PORT_CHOICES } else { 1 };
    loop {
        choices -= 1;
        let listener = listener::listen(address, tls.clone(), seed)?;
        let bound = listener
            .endpoint()
            .local_addr()
            .map_err(LinkError::file("cannot listen on", address.to_string()))?;
        let over_udp = QuicEntrance {
            listener,
            tunnels: None,
        };

        match listener::listen_tcp(bound, tls.clone(), seed, limits).await {
            Ok((listener, tunnels)) => {
                let over_tcp = QuicEntrance {
                    listener,
                    tunnels: Some(Arc::new(tunnels)),
                };
                let entrances = vec![over_udp, over_tcp];
                return Ok(Listening { bound, entrances });
            }
            Err(_) if choices > 0 => {}
            Err(error) => {
                tracing::warn!(%error, "whoever cannot use UDP cannot reach this master");
                let entrances = vec![over_udp];
                return Ok(Listening { bound, entrances });
            }
        }
    }
}

/// Writes the periodic notes: repeated refusals each minute, and that the master is up.
async fn minutely(state: Arc<SessionContext>) {
    let mut minutes = tokio::time::interval(Duration::from_secs(60));
    minutes.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for minute in 0u64.. {
        minutes.tick().await;
        let repeats = state.counters.repeats(state.clock.now());
        if !repeats.is_empty() {
            state.core.tell(PeerAsk::Audit(repeats));
        }
        if minute % UP_MINUTES == 0 {
            state.core.tell(UpkeepAsk::NoteUp);
        }
    }
}

/// Has room held for content again each minute. A network file system may keep this waiting, and nothing
/// else.
async fn hold_room(state: Arc<SessionContext>) {
    let mut minutes = tokio::time::interval(Duration::from_secs(60));
    minutes.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        minutes.tick().await;
        let room = state.room.clone();
        // What fails is in the log.
        let _ = tokio::task::spawn_blocking(move || room.tend_content()).await;
    }
}

/// Asks the core regularly to take back attempts that hosts do not begin within `begin_within`.
async fn take_back(state: Arc<SessionContext>) {
    let within = state.config.begin_within;
    let mut looks = tokio::time::interval(
        (within.0 / 4).clamp(Duration::from_millis(100), Duration::from_secs(60)),
    );
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        state.core.tell(HostAsk::TakeBack(within.span()));
    }
}

/// Asks the core regularly to go on with rollouts of new programs.
async fn roll_on(state: Arc<SessionContext>) {
    let mut looks = tokio::time::interval(Duration::from_secs(1));
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        state.core.tell(HostAsk::RollOn);
    }
}

fn core_result(
    ended: Result<std::thread::Result<Result<(), crate::StoreError>>, tokio::task::JoinError>,
) -> Result<(), MasterError> {
    match ended {
        Ok(Ok(result)) => result.map_err(MasterError::from),
        _ => Err(MasterError::Core(
            "it panicked; the log says where. Nothing acknowledged is lost".to_owned(),
        )),
    }
}

/// Locks the file `lock` in the directory; the lock ends with the process.
pub(crate) fn lock(home: &Path) -> Result<File, MasterError> {
    let path = home.join("lock");
    let file = File::create(&path).map_err(LinkError::file("cannot make", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(MasterError::Running {
            dir: home.to_owned(),
        }),
        Err(TryLockError::Error(e)) => Err(LinkError::file("cannot lock", &path)(e).into()),
    }
}

/// The address at which this machine itself reaches a bound socket.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = if bound.ip().is_unspecified() {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    } else {
        bound.ip()
    };
    SocketAddr::new(ip, bound.port())
}

/// The address at which other machines reach this one: its address on the way out, or its name if
/// there is none.
fn known_as(bound: SocketAddr) -> String {
    if !bound.ip().is_unspecified() {
        return bound.to_string();
    }

    // Nothing is sent: the system only tells the address that it would send from.
    let way_out = || {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), bound.port()))?;
        socket.local_addr()
    };
    let own = way_out()
        .ok()
        .map(|own| own.ip())
        .filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
    own.map_or_else(
        || format!("{}:{}", node(), bound.port()),
        |ip| SocketAddr::new(ip, bound.port()).to_string(),
    )
}

/// The address at which other machines will reach a master with these settings.
pub(crate) fn known_before(config: &Config) -> String {
    let advertised = config.advertise.clone();
    advertised.unwrap_or_else(|| known_as(config.listen))
}

/// The name of this machine.
pub(crate) fn node() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

fn write_addresses(
    home: &Path,
    address: &str,
    http: Option<&http::HttpPlace>,
) -> Result<(), MasterError> {
    let write = |name: &str, text: String| {
        let path = home.join(name);
        link::files::write_whole(&path, text.as_bytes(), 0o644)
            .map_err(LinkError::file("cannot write", path))
    };
    match http.and_then(|listener| listener.local_addr().ok()) {
        Some(http) => write("http-address", format!("{http}\n"))?,
        None => drop(fs::remove_file(home.join("http-address"))),
    }

    // This file is written last: a process that waits for it finds everything else.
    Ok(write("address", format!("{address}\n"))?)
}

/// Makes sure that a user who may read the master's directory can administer it, even if the
/// identity there has expired unused or comes from a CA that is being replaced. An identity of
/// another grid is left alone, and so is a revoked one.
fn admit_local_admin(
    dir: &Path,
    authority: &Authority,
    store: &mut Writer,
    clock: Clock,
    address: &str,
) -> Result<(), MasterError> {
    let known = match Identity::load(dir) {
        Ok(known) => known,
        Err(LinkError::NoIdentity { .. }) => {
            let enter = |key_hash| {
                let peer = store.add_peer(Role::Admin, "admin", key_hash, clock.now())?;
                store.peer_expires(peer.id, authority.expiry())?;
                store.commit()?;
                Ok((peer.id, peer.name))
            };
            let link = LinkInfo {
                master: address.to_owned(),
                name: "admin".to_owned(),
                role: Role::Admin,
            };
            return Ok(authority.local_identity(link, enter)?.save(dir)?);
        }
        Err(other) => return Err(other.into()),
    };

    let (name, key_hash) = read_certificate(&known.certificate)?;
    if name.grid != authority.grid() || known.link.role != Role::Admin {
        return Ok(());
    }

    // It may name the other masters of this grid, too.
    let names_it = link::masters::addresses(&known.link.master).any(|master| master == address);
    let link = match names_it {
        true => known.link.clone(),
        false => LinkInfo {
            master: address.to_owned(),
            ..known.link.clone()
        },
    };
    let validity = Validity::of(&known.certificate)?;
    let now_s = link::renewal::now_s();

    // A certificate from the future was made while the clock was wrong.
    let due = validity.is_due(now_s) || now_s < validity.from_s;
    if (due || known.ca != *authority.certificate())
        && matches!(store.standing(name.id, key_hash)?, PeerStatus::In(_))
    {
        let enter = |key_hash| {
            store.renew_peer(name.id, key_hash, authority.expiry(), clock.now())?;
            store.commit()?;
            Ok((name.id, known.link.name.clone()))
        };
        return Ok(authority.local_identity(link, enter)?.replace(dir)?);
    }

    if !names_it {
        Identity { link, ..known }.replace(dir)?;
    }

    Ok(())
}

/// Makes a new CA for the grid in `dir/master`, whose master must not run. It issues every
/// certificate from the next start on; the present one stays trusted for `overlap`.
///
/// # Errors
/// If a master runs there, there is no grid, or the CA was rotated before and the one before that
/// is still trusted.
pub fn rotate_ca(dir: &Path, overlap: Duration) -> Result<(), MasterError> {
    let home = dir.join("master");
    if !home.join("ca.der").exists() && !home.join("ca.toml").exists() {
        return Err(MasterError::Authority(format!(
            "there is no CA in {}",
            home.display()
        )));
    }

    let _lock = lock(&home)?;
    let hint = "the authority of such a grid cannot be rotated yet: docs/operations.md says what there is for it";
    database::in_a_file(&home, hint)?;
    let clock = Clock::start();
    let store = whole::open(&home, clock, crate::Accept::default())?;
    let rotated = rotate_with(&home, store, clock.now(), overlap);
    let grid = rotated.inspect_err(|error| whole::note_refusal(&home, error))?;
    whole::note_end(&home, grid);
    Ok(())
}

/// Rotates the CA with the store open, closes the store, and returns the grid's number.
fn rotate_with(
    home: &Path,
    mut store: Writer,
    now: common::Time,
    overlap: Duration,
) -> Result<Uuid, MasterError> {
    let grid = Uuid::from_bytes(store.meta("grid", rand::random)?);
    whole::watch(home, &mut store, grid)?;
    crate::authority::rotate(home, grid, overlap)?;

    store.add_audit(&crate::store::AuditEntry {
        at: now,
        who: "this machine".to_owned(),
        what: "rotate-ca",
        subject: "the CA".to_owned(),
        allowed: true,
        why: format!(
            "the one before is trusted for {} more",
            humantime::format_duration(overlap)
        ),
        count: 1,
    })?;

    store.commit()?;
    store.finish()?;
    Ok(grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_listens_on_all_addresses_names_one_that_others_can_use() {
        let own = known_as(SocketAddr::from(([0, 0, 0, 0], 7_411)));
        let (host, port) = own.rsplit_once(':').expect("HOST:PORT");
        assert_eq!(port, "7411");
        assert!(!host.starts_with("127.") && host != "0.0.0.0" && !host.is_empty());

        let listen = SocketAddr::from(([127, 0, 0, 1], 7_411));
        assert_eq!(known_as(listen), "127.0.0.1:7411");
        let config = Config {
            listen: SocketAddr::from(([0, 0, 0, 0], 7_411)),
            advertise: Some("grid.example:7411".to_owned()),
            ..Config::default()
        };
        assert_eq!(known_before(&config), "grid.example:7411");
    }

    #[tokio::test]
    async fn a_task_that_panics_is_noticed_after_others_have_ended() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async {});
        tasks.spawn(std::future::pending());
        let noticed = tokio::time::timeout(Duration::from_millis(50), panicked(&mut tasks));
        assert!(
            noticed.await.is_err(),
            "one that ended in order is no panic"
        );

        tasks.spawn(async { panic!("on purpose") });
        panicked(&mut tasks).await;
    }
}
