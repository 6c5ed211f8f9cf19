//! Starts a master in a directory, and stops it in order.

use std::fs::{self, File, TryLockError};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::token::Role;
use link::identity::LinkInfo;
use link::{BlobStore, Identity, LinkError, Purpose, endpoint, files, tls};
use metrics_exporter_prometheus::PrometheusHandle;
use uuid::Uuid;

use crate::authority::Authority;
use crate::clock::Clock;
use crate::core::{self, Handle};
use crate::room::Room;
use crate::store::{Reader, Writer};
use crate::{Config, MasterError, http, sessions, sweep};

/// How long the word that the master goes may take to leave this machine.
const GOODBYE: Duration = Duration::from_millis(500);

/// What every session needs.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) core: Handle,
    pub(crate) reader: Reader,
    pub(crate) blobs: BlobStore,
    pub(crate) room: Arc<Room>,
    pub(crate) authority: Authority,
    pub(crate) ca_key_hash: [u8; 32],
    pub(crate) metrics: PrometheusHandle,
}

/// Runs a master in `dir/master` until `shutdown` resolves. At the first start it makes the grid's CA; whenever there is
/// no identity in `dir/client` it puts an admin's there. The address that it is reached by lies in `dir/master/address`.
///
/// # Errors
/// If another master runs there, the store or a port cannot be opened, or the store fails later.
pub async fn run(dir: PathBuf, config: Config, shutdown: impl Future<Output = ()>) -> Result<(), MasterError> {
    let home = dir.join("master");
    files::private_dir(&home).map_err(LinkError::file("cannot make", &home))?;
    let _lock = lock(&home)?;
    let clock = Clock::start();
    let room = Arc::new(Room::open(&home, config.reserve_bytes)?);
    let mut store = Writer::open(&home)?;
    let grid = Uuid::from_bytes(store.meta("grid", rand::random)?);
    let seed: [u8; 32] = store.meta("quic seed", rand::random)?;
    let authority = Authority::open(&home, grid)?;
    let server = authority.server()?;
    let alpns = Purpose::ALL.map(Purpose::alpn);
    let tls = tls::server_config(server.chain, server.key.into(), authority.certificate(), &alpns)?;
    let endpoint = endpoint::listen(config.listen, tls, seed)?;
    let listener = match config.http {
        Some(address) => Some(http::bind(address).await?),
        None => None,
    };
    let bound = endpoint.local_addr().map_err(LinkError::file("cannot listen on", config.listen.to_string()))?;
    let address = config.advertise.clone().unwrap_or_else(|| reachable(bound).to_string());
    admit_local_admin(&dir.join("client"), &authority, &mut store, clock, &address)?;
    let blobs = BlobStore::open(&home.join("content"))?;
    let metrics = http::recorder();
    let (core, incarnation, thread) = core::start(clock, store, &config, blobs.clone(), room.clone())?;
    let (ca_key_hash, reader) = (authority.key_hash()?, Reader::new(&home));
    let state = Arc::new(State { config, core, reader, blobs, room, authority, ca_key_hash, metrics });
    write_addresses(&home, &address, listener.as_ref())?;
    tracing::info!(%bound, address, %incarnation, "master is up");
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(sessions::serve(state.clone(), endpoint.clone()));
    tasks.spawn(sweep::serve(state.clone()));
    if let Some(listener) = listener {
        tasks.spawn(http::serve(listener, state.clone()));
    }
    let core_end = tokio::task::spawn_blocking(move || thread.join());
    tokio::pin!(shutdown);
    tokio::select! {
        () = &mut shutdown => {
            tracing::info!("shutting down");
            // A core that has stopped has said so where its end is looked at.
            let _ = state.core.ask(crate::core::Core::write_experience).await;
            endpoint.close(quinn::VarInt::from_u32(0), b"the master shuts down");
            tasks.shutdown().await;
            let _ = tokio::time::timeout(GOODBYE, endpoint.wait_idle()).await;
            Ok(())
        }
        ended = core_end => core_result(ended),
    }
}

fn core_result(
    ended: Result<std::thread::Result<Result<(), crate::StoreError>>, tokio::task::JoinError>,
) -> Result<(), MasterError> {
    match ended {
        Ok(Ok(result)) => result.map_err(MasterError::from),
        _ => Err(MasterError::Core("it panicked; the log says where. Nothing acknowledged is lost".to_owned())),
    }
}

/// Holds the directory for this process; the system lets go of it with the process.
fn lock(home: &Path) -> Result<File, MasterError> {
    let path = home.join("lock");
    let file = File::create(&path).map_err(LinkError::file("cannot make", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(MasterError::Running { dir: home.to_owned() }),
        Err(TryLockError::Error(e)) => Err(LinkError::file("cannot lock", &path)(e).into()),
    }
}

/// Where somebody on this machine reaches a socket that is bound there.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = if bound.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bound.ip() };
    SocketAddr::new(ip, bound.port())
}

fn write_addresses(home: &Path, address: &str, http: Option<&tokio::net::TcpListener>) -> Result<(), MasterError> {
    let write = |name: &str, text: String| {
        let path = home.join(name);
        files::write_whole(&path, text.as_bytes(), 0o644).map_err(LinkError::file("cannot write", path))
    };
    match http.and_then(|listener| listener.local_addr().ok()) {
        Some(http) => write("http-address", format!("{http}\n"))?,
        None => drop(fs::remove_file(home.join("http-address"))),
    }
    // Comes last: who waits for it finds everything else.
    Ok(write("address", format!("{address}\n"))?)
}

/// Sees to it that whoever may read the master's directory can administer it.
fn admit_local_admin(
    dir: &Path,
    authority: &Authority,
    store: &mut Writer,
    clock: Clock,
    address: &str,
) -> Result<(), MasterError> {
    let link = LinkInfo { master: address.to_owned(), name: "admin".to_owned(), role: Role::Admin };
    let identity = match Identity::load(dir) {
        Ok(known) if known.ca != *authority.certificate() => return Ok(()),
        Ok(known) if known.link.role == Role::Admin && known.link.master != address => {
            Identity { link: LinkInfo { master: address.to_owned(), ..known.link.clone() }, ..known }
        }
        Ok(_) => return Ok(()),
        Err(LinkError::NoIdentity { .. }) => {
            let enter = |key_hash| {
                let peer = store.add_peer(Role::Admin, "admin", key_hash, clock.now())?;
                store.commit()?;
                Ok(peer.id)
            };
            authority.local_identity(link, enter)?
        }
        Err(other) => return Err(other.into()),
    };
    Ok(identity.save(dir)?)
}
