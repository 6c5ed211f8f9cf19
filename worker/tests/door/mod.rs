//! The door of tests with a whole worker: a master without any will of its own, over real QUIC.
//! What it says and when is the tests' business. Each program that uses this says in `config()` how
//! its workers are set.
#![allow(dead_code)] // Not every program uses all of it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use common::attempt::{Completion, HeldAttempt, Phase};
use common::host::{HostFacts, Status};
use common::needs::Demand;
use common::token::Role;
use common::wire::stream::Open;
use common::wire::worker::{Assignment, Command, Errand, ToMaster, ToWorker};
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, HostId, Incarnation, JobId, Span, TaskId};
use link::content::SendPace;
use link::identity::LinkInfo;
use link::{BlobStore, Channel, Identity, Purpose, listener, tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use worker::{Config, WorkerEnd, WorkerError};

mod waiting;

pub(crate) use waiting::*;

/// The door: a master without any will of its own.
pub(crate) struct Master {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) identity: Identity,
    pub(crate) blobs: BlobStore,
    /// The number of further fetches that are answered as by a master whose storage is away.
    pub(crate) away: Arc<AtomicU32>,
    pub(crate) sessions: mpsc::UnboundedReceiver<(quinn::Connection, Channel)>,
}

/// A worker that has said hello.
pub(crate) struct Worker {
    pub(crate) connection: quinn::Connection,
    pub(crate) control: Channel,
    pub(crate) held: Vec<HeldAttempt>,
    pub(crate) status: Status,
    pub(crate) facts: HostFacts,
}

impl Master {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (ca, issuer) = authority();
        let (server, server_key) = leaf(&issuer, tls::MASTER_NAME);
        let (certificate, key) = leaf(&issuer, "worker");
        let chain = tls::ServerChain {
            certificate: server,
            key: PrivateKeyDer::Pkcs8(server_key),
            ca: ca.clone(),
        };
        let config = tls::server_config(vec![chain], &[Purpose::Worker.alpn()]);

        let at: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = listener::listen(at, config.unwrap(), [7; 32]).unwrap();
        let endpoint = listener.endpoint().clone();
        let master = endpoint.local_addr().unwrap().to_string();
        let link = LinkInfo {
            master,
            name: "w".to_owned(),
            role: Role::Worker,
        };
        let blobs = BlobStore::open(&dir.path().join("blobs")).unwrap();
        let (tell, sessions) = mpsc::unbounded_channel();
        let away = Arc::new(AtomicU32::new(0));
        tokio::spawn(accept(endpoint, (blobs.clone(), away.clone()), tell));

        Self {
            dir,
            identity: Identity {
                certificate,
                key,
                ca,
                link,
                home: None,
                update_key: None,
            },
            blobs,
            away,
            sessions,
        }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("worker")
    }

    pub(crate) fn start(
        &self,
    ) -> (
        oneshot::Sender<()>,
        JoinHandle<Result<WorkerEnd, WorkerError>>,
    ) {
        self.start_as(crate::config())
    }

    pub(crate) fn start_as(
        &self,
        config: Config,
    ) -> (
        oneshot::Sender<()>,
        JoinHandle<Result<WorkerEnd, WorkerError>>,
    ) {
        let (stop, stopped) = oneshot::channel::<()>();
        let run = worker::run(self.home(), config, clone(&self.identity), async {
            drop(stopped.await);
        });
        (stop, tokio::spawn(run))
    }

    /// The next worker that says hello, before it is answered.
    pub(crate) async fn greeted(&mut self) -> Worker {
        let (connection, mut control) = within(self.sessions.recv()).await.unwrap();
        let ToMaster::Hello {
            held,
            status,
            facts,
            ..
        } = within(control.rx.expect()).await.unwrap()
        else {
            panic!("no hello")
        };

        Worker {
            connection,
            control,
            held,
            status,
            facts: *facts,
        }
    }

    pub(crate) async fn welcome(&mut self, abandon: Vec<AttemptId>) -> Worker {
        self.welcome_with(abandon, Span::from_millis(50)).await
    }

    pub(crate) async fn welcome_with(
        &mut self,
        abandon: Vec<AttemptId>,
        heartbeat: Span,
    ) -> Worker {
        let version = common::wire::WIRE_VERSION;
        self.welcome_at(version, abandon, heartbeat).await
    }

    /// A master of another message version.
    pub(crate) async fn welcome_as(&mut self, version: u16) -> Worker {
        let heartbeat = Span::from_millis(50);
        self.welcome_at(version, Vec::new(), heartbeat).await
    }

    async fn welcome_at(
        &mut self,
        version: u16,
        abandon: Vec<AttemptId>,
        heartbeat: Span,
    ) -> Worker {
        let mut worker = self.greeted().await;
        let welcome = ToWorker::Welcome {
            version,
            host: HostId(1),
            name: "w".to_owned(),
            incarnation: Incarnation(1),
            heartbeat,
            abandon,
        };
        worker.tell(welcome).await;
        worker
    }
}

/// A worker that a new master has welcomed. It ends when the sender is dropped.
pub(crate) async fn welcomed() -> (Master, oneshot::Sender<()>, Worker) {
    welcomed_as(crate::config()).await
}

/// The same, where the worker is set like this.
pub(crate) async fn welcomed_as(config: Config) -> (Master, oneshot::Sender<()>, Worker) {
    let mut master = Master::new();
    let (stop, _) = master.start_as(config);
    let worker = master.welcome(Vec::new()).await;
    (master, stop, worker)
}

impl Worker {
    pub(crate) async fn tell(&mut self, message: ToWorker) {
        within(self.control.tx.send(&message)).await.unwrap();
    }

    pub(crate) async fn assign(&mut self, work: Vec<Assignment>) {
        self.tell(ToWorker::Assign(work)).await;
    }

    pub(crate) async fn acknowledge(&mut self, attempts: Vec<AttemptId>) {
        self.tell(ToWorker::Acknowledged(attempts)).await;
    }

    pub(crate) async fn stop(&mut self, attempt: AttemptId) {
        self.tell(ToWorker::Stop {
            attempts: vec![attempt],
            why: "test".to_owned(),
        })
        .await;
    }

    /// The first message for which `found` gives something; others are passed over.
    pub(crate) async fn until<T>(&mut self, mut found: impl FnMut(ToMaster) -> Option<T>) -> T {
        within(async {
            loop {
                if let Some(found) = found(self.control.rx.expect().await.unwrap()) {
                    return found;
                }
            }
        })
        .await
    }

    pub(crate) async fn delivered(&mut self) -> Vec<Completion> {
        self.until(|message| match message {
            ToMaster::Delivered(all) => Some(all.into_iter().map(|d| d.completion).collect()),
            _ => None,
        })
        .await
    }

    /// Waits until a heartbeat lists these, and only these; what is staged first is listed first.
    pub(crate) async fn holds(&mut self, expected: &[(AttemptId, Phase)]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut held: Vec<_> = self
                .until(|message| match message {
                    ToMaster::Heartbeat { held, .. } => {
                        Some(held.into_iter().map(|h| (h.attempt, h.phase)).collect())
                    }
                    _ => None,
                })
                .await;
            held.sort_by_key(|(attempt, _)| *attempt);
            if held == expected {
                return;
            }

            assert!(
                Instant::now() < deadline,
                "for a minute it held not {expected:?} but {held:?}"
            );
        }
    }
}

pub(crate) async fn accept(
    endpoint: quinn::Endpoint,
    (blobs, away): (BlobStore, Arc<AtomicU32>),
    tell: mpsc::UnboundedSender<(quinn::Connection, Channel)>,
) {
    while let Some(incoming) = endpoint.accept().await {
        let blobs = blobs.clone();
        let away = away.clone();
        let tell = tell.clone();
        tokio::spawn(async move {
            let connection = incoming.await.unwrap();
            while let Ok((tx, rx)) = connection.accept_bi().await {
                let mut channel = Channel::new(tx, rx);
                let blobs = blobs.clone();
                let away = away.clone();
                let tell = tell.clone();
                let connection = connection.clone();
                tokio::spawn(async move {
                    match channel.rx.expect().await {
                        Ok(Open::Control) => drop(tell.send((connection, channel))),
                        Ok(Open::Get { .. }) if is_away(&away) => {
                            let what = "the storage does not answer";
                            let refusal = Refusal::new(RefusalCode::Unavailable, what, "");
                            link::content::refuse_get(channel.tx, refusal)
                                .await
                                .unwrap();
                        }
                        Ok(Open::Get { hash, offset, .. }) => {
                            link::content::serve_get(
                                &blobs,
                                channel.tx,
                                hash,
                                offset,
                                &SendPace::default(),
                            )
                            .await
                            .unwrap();
                        }
                        Ok(Open::Put(blob)) => {
                            if !blobs.has(&blob) {
                                let turn = blobs.turn(blob.hash, "worker").await;
                                link::content::receive_put(&blobs, &mut channel, blob, &turn)
                                    .await
                                    .unwrap();
                            }
                            link::content::answer_stored(channel).await.unwrap();
                        }
                        other => panic!("{other:?}"),
                    }
                });
            }
        });
    }
}

/// Whether one more fetch is answered as by a master whose storage is away.
fn is_away(away: &AtomicU32) -> bool {
    let fewer = |left: u32| left.checked_sub(1);
    away.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer)
        .is_ok()
}

pub(crate) fn authority() -> (CertificateDer<'static>, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate.der().clone(), Issuer::new(params, key))
}

pub(crate) fn leaf(
    issuer: &Issuer<'static, KeyPair>,
    name: &str,
) -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    (
        certificate.der().clone(),
        PrivatePkcs8KeyDer::from(key.serialize_der()),
    )
}

pub(crate) fn clone(identity: &Identity) -> Identity {
    Identity {
        certificate: identity.certificate.clone(),
        key: identity.key.clone_key(),
        ca: identity.ca.clone(),
        link: identity.link.clone(),
        home: identity.home.clone(),
        update_key: None,
    }
}

pub(crate) fn id(index: u32) -> AttemptId {
    AttemptId {
        task: TaskId::new(JobId(1), index),
        number: 1,
        incarnation: Incarnation(1),
    }
}

pub(crate) fn sh(index: u32, script: &str) -> Assignment {
    let command = Command {
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: vec![("DESKGRID_TASK_ID".to_owned(), index.to_string())],
        inputs: vec![],
        outputs: vec![],
        stdin: None,
        keep_stdout: true,
        keep_stderr: true,
        checkpoint: None,
        confinement: None,
        network: false,
        takes: Demand::PLAIN,
    };

    Assignment {
        attempt: id(index),
        limit: None,
        report_every: None,
        work: Errand::Command(Box::new(command)),
    }
}

pub(crate) fn command(assignment: &mut Assignment) -> &mut Command {
    match &mut assignment.work {
        Errand::Command(command) => command,
        Errand::Noop => panic!("no command"),
    }
}

/// What `/proc` says of a process: its state, if it is there and not only to be reaped.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..]
        .chars()
        .next()
        .filter(|state| *state != 'Z')
}

/// Whether no attempt has left anything; an empty directory may wait for the next one.
pub(crate) fn no_attempt_left(home: &Path) -> bool {
    let mut places = fs::read_dir(home.join("attempts")).unwrap().flatten();
    places.all(|place| fs::read_dir(place.path()).is_ok_and(|mut left| left.next().is_none()))
}
