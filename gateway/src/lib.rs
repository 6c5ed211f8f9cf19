//! A gateway: it ends the connections of many workers, and passes their streams on to the active master
//! over one connection of its own. It serves inputs from a cache that it fills once from the master.
//!
//! Nothing that it has matters: its workers are at another gateway or at the master soon after it dies,
//! and say there what they hold. It decides nothing that the master decides, and runs no tasks.

mod cache;
mod control;
mod door;
mod error;
mod session;
mod sessions;
mod upstream;

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use link::alive::WorkerCount;
use link::door::ConnectionDoor;
use link::identity::read_certificate;
use link::tls::{self, ServerChain};
use link::{Identity, LinkError, Listener, Purpose, files, listener};
use quinn::VarInt;
use rustls::pki_types::PrivateKeyDer;
use tokio::sync::watch;
use uuid::Uuid;

use cache::ContentCache;
pub use error::GatewayError;
use sessions::WorkerSessions;
use upstream::Upstream;

/// The code with which connections end whose workers may go elsewhere at once, unlike [`NOT_LET_IN`](link::error::NOT_LET_IN).
const ELSEWHERE: VarInt = VarInt::from_u32(0);
/// The time that the last packets to workers may take to leave this machine.
const GOODBYE: Duration = Duration::from_millis(500);

/// The interval at which the cache is tidied.
const TIDY_EVERY: Duration = Duration::from_secs(300);

/// The settings of a gateway.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address at which workers come, over UDP.
    pub listen: SocketAddr,
    /// The most bytes of inputs that are kept.
    pub cache_bytes: u64,
    /// The most workers at a time.
    pub most_workers: usize,
}

/// The state that every [`session`] shares.
struct GatewayState {
    grid: Uuid,
    upstream: watch::Sender<Option<Upstream>>,
    cache: ContentCache,
    workers: WorkerCount,
    door: ConnectionDoor,
    sessions: WorkerSessions,
}

/// Runs a gateway in `dir`, with its identity in `dir/identity`, until `shutdown` resolves.
///
/// # Errors
/// If another gateway runs there, the port or the cache cannot be opened, or the master does not let the
/// gateway in any more.
pub async fn run(
    dir: PathBuf,
    config: Config,
    identity: Identity,
    shutdown: impl Future<Output = ()>,
) -> Result<(), GatewayError> {
    files::private_dir(&dir).map_err(LinkError::file("cannot make", &dir))?;
    let _lock = lock(&dir)?;

    let (name, _) = read_certificate(&identity.certificate)?;
    let seed = seed(&dir)?;
    let listener = listener::listen(config.listen, serving(&identity)?, seed)?;
    let bound = listener.endpoint().local_addr();
    let bound = bound.map_err(LinkError::file(
        "cannot listen on",
        config.listen.to_string(),
    ))?;
    let gateway = Arc::new(GatewayState {
        cache: ContentCache::open(&dir.join("cache"), config.cache_bytes)?,
        grid: name.grid,
        upstream: watch::Sender::new(None),
        workers: WorkerCount::default(),
        // The one that asks is not counted yet.
        door: ConnectionDoor::new(config.most_workers.saturating_sub(1)),
        sessions: WorkerSessions::default(),
    });
    tracing::info!(
        name = identity.link.name,
        "gateway listens at {bound}, and connects to its master"
    );

    let ended = tokio::select! {
        () = shutdown => Ok(()),
        ended = upstream::keep(&gateway, identity, dir.join("identity"), listener.clone()) => ended,
        () = door::serve(&gateway, &listener) => Ok(()),
        () = tidy(&gateway) => Ok(()),
    };
    gateway.sessions.send_away("the gateway ends");
    let endpoint = listener.endpoint();
    endpoint.close(ELSEWHERE, b"the gateway ends");
    let _ = tokio::time::timeout(GOODBYE, endpoint.wait_idle()).await;
    ended
}

/// Tidies the cache now and then, for ever.
async fn tidy(gateway: &Arc<GatewayState>) {
    loop {
        tokio::time::sleep(TIDY_EVERY).await;
        let gateway = gateway.clone();
        let _ = tokio::task::spawn_blocking(move || gateway.cache.tidy()).await;
    }
}

/// The right to use this directory, `gateway.lock` in it, until the file is dropped.
fn lock(dir: &Path) -> Result<File, GatewayError> {
    let path = dir.join("gateway.lock");
    let file = File::create(&path).map_err(LinkError::file("cannot make", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(GatewayError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(LinkError::file("cannot lock", &path)(error).into()),
    }
}

/// The seed of this gateway's connections, kept in the file `seed` over restarts: workers of the process before are told
/// at once that their connections are gone.
fn seed(dir: &Path) -> Result<[u8; 32], LinkError> {
    let path = dir.join("seed");
    if let Ok(seed) = std::fs::read(&path).map_or(Err(()), |bytes| bytes.try_into().map_err(drop)) {
        return Ok(seed);
    }
    let seed: [u8; 32] = rand::random();
    files::write_whole(&path, &seed, 0o600).map_err(LinkError::file("cannot write", &path))?;
    Ok(seed)
}

/// The TLS settings towards workers, who are shown the gateway's certificate with its [`GATEWAY_NAME`](tls::GATEWAY_NAME).
fn serving(identity: &Identity) -> Result<rustls::ServerConfig, LinkError> {
    let chain = ServerChain {
        certificate: identity.certificate.clone(),
        key: PrivateKeyDer::Pkcs8(identity.key.clone_key()),
        ca: identity.ca.clone(),
    };
    let alpns = [Purpose::Enrol, Purpose::Worker, Purpose::Client].map(Purpose::alpn);
    tls::server_config(vec![chain], &alpns)
}

/// From now on shows workers this [`Identity`].
fn show(listener: &Listener, identity: &Identity) {
    let shown = serving(identity).and_then(|tls| listener.answer_with(tls));
    if let Err(error) = shown {
        tracing::error!(%error, "the new certificate cannot be shown to workers");
    }
}
