//! A master that waits for the store of a database, which another one has: it watches that one's turns,
//! tells everybody who asks where the active master is, and takes over when that one is gone.
//!
//! When it takes over is decided in [`crate::duty`], how in [`crate::store`].

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::{Coming, Entrance, Who};
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use common::wire::Versions;
use common::wire::enrol::{Enrol, EnrolReply};
use common::{Incarnation, Time};
use link::{Channel, LinkError, Purpose, tls};
use quinn::Incoming;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::authority::Authority;
use crate::database::WantedStore;
use crate::duty::{LeaseDecision, LeaseDuty};
use crate::limits::FileTransfers;
use crate::run::{Listening, StoreLoss};
use crate::store::{
    LeaseContender, LeaseSeen, Mark, Marked, MasterMember, PgError, StoreError, Writer,
};
use crate::{Config, MasterError, database, http, run};

/// The time between two `LeaseWatcher::look`s.
const LOOK: Duration = Duration::from_millis(100);
/// The looks after which it says again to the other masters that it stands by.
const SAYS_EVERY: u32 = 10;
/// The most connections that are answered at a time, and the time for each.
const ANSWERED: usize = 256;
const ANSWER: Duration = Duration::from_secs(5);

/// The knowledge of a master that stands by.
#[derive(Debug, Clone, Default)]
struct StandbyKnowledge {
    /// The grid, and the seed of its connections.
    grid: Option<(Uuid, [u8; 32])>,
    /// The active master, as it was last seen.
    active: Option<LeaseSeen>,
    /// The reason why the database does not answer, if it does not.
    trouble: Option<String>,
}

/// The store that [`Candidate::take`] has taken, with the sockets of the time before, if it was not had at once.
pub(crate) struct TakenStore {
    pub(crate) store: Writer,
    pub(crate) listening: Option<Listening>,
}

/// A master that wants the store in a database.
pub(crate) struct Candidate<'a> {
    pub(crate) wanted: WantedStore,
    pub(crate) config: &'a Config,
    pub(crate) files: FileTransfers,
    /// The rest of the time in which this process had the store, if it had it.
    pub(crate) before: Option<StoreLoss>,
}

impl Candidate<'_> {
    /// Takes the store as soon as no other master has it; until then stands by. `None` if `shutdown`
    /// comes first.
    ///
    /// # Errors
    /// If the database does not answer at the start, or this master can never take the store over.
    pub(crate) async fn take(
        mut self,
        shutdown: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<TakenStore>, MasterError> {
        database::not_in_a_file(&self.wanted.home)?;
        let id = database::member(&self.wanted.home)?;
        let handed_over = self
            .before
            .as_ref()
            .is_some_and(|before| before.handed_over);
        let mut sockets = self.before.take().and_then(|before| before.listening);
        let address = run::known_before(self.config);
        let (tell, mut known) = watch::channel(StandbyKnowledge::default());
        let stop = Arc::new(AtomicBool::new(false));
        let watcher = LeaseWatcher {
            wanted: self.wanted.clone(),
            contender: LeaseContender::new(
                &self.wanted.place,
                MasterMember::here(id.clone(), address.clone()),
            ),
            duty: LeaseDuty::new(
                id,
                self.config.takeover_after.span(),
                self.wanted.clock.now(),
                handed_over,
            ),
            stop: stop.clone(),
            tell,
            mark: None,
        };
        let mut watched = watcher.begin()?;

        let mut answers = JoinSet::new();
        let mut listening = None;
        let answer = async {
            // The watcher ends first, and says why.
            while known.changed().await.is_ok() {
                let Some((grid, seed)) = known.borrow_and_update().grid else {
                    continue;
                };
                let sockets = sockets.take();
                let answering = self.answer((grid, seed), sockets, &known, &mut answers);
                listening = Some(answering.await?);
                break;
            }
            std::future::pending::<Result<(), MasterError>>().await
        };
        let taken = tokio::select! {
            taken = &mut watched => taken,
            failed = answer => { failed?; return Ok(None) }
            () = shutdown => {
                stop.store(true, Ordering::Relaxed);
                return Ok(None);
            }
        };

        answers.shutdown().await;
        let lost = || MasterError::Core("the thread that watches the lease panicked".to_owned());
        let taken = taken.map_err(|_| lost())??;
        let listening = listening.or(sockets);
        Ok(taken.map(|store| TakenStore { store, listening }))
    }

    /// Begins to answer at this master's addresses, with [`reply`] and [`routes`].
    async fn answer(
        &self,
        (grid, seed): (Uuid, [u8; 32]),
        sockets: Option<Listening>,
        known: &watch::Receiver<StandbyKnowledge>,
        answers: &mut JoinSet<()>,
    ) -> Result<Listening, MasterError> {
        let authority = Authority::open(&self.wanted.home, grid, self.config.certificate_life.0)?;
        let tls = tls::server_config(authority.server()?, &[Purpose::Enrol.alpn()])?;
        let listening = match sockets {
            Some(listening) => {
                run::answer_with(&listening.entrances, &tls)?;
                listening
            }
            None => run::listen(self.config.listen, &tls, seed, self.files.tunnels).await?,
        };

        for entrance in &listening.entrances {
            let endpoint = entrance.listener.endpoint().clone();
            let known = known.clone();
            let clock = self.wanted.clock;
            // The endpoint also counts connections that have ended lately: a thousand of workers, after a hand-over.
            let permits = Arc::new(Semaphore::new(ANSWERED));
            answers.spawn(async move {
                while let Some(incoming) = endpoint.accept().await {
                    let Ok(permit) = permits.clone().try_acquire_owned() else {
                        incoming.refuse();
                        continue;
                    };
                    let reply = reply(&known.borrow(), clock.now());
                    tokio::spawn(async move {
                        let _ = tokio::time::timeout(ANSWER, say(incoming, reply)).await;
                        drop(permit);
                    });
                }
            });
        }

        if let Some(at) = self.config.http {
            let place = http::bind(self.config, at).await?;
            let entrance = Arc::new(StandbyEntrance(self.config.clone()));
            answers.spawn(http::serve_routes(
                place,
                api::guarded(routes(known.clone()), entrance),
                self.files,
                self.config,
            ));
        }
        Ok(listening)
    }
}

/// Answers one connection: with that this master stands by, whatever it wants.
async fn say(incoming: Incoming, reply: EnrolReply) -> Result<(), LinkError> {
    let connection = incoming.await?;
    let (tx, rx) = connection.accept_bi().await?;
    let mut channel = Channel::new(tx, rx);
    channel.rx.expect::<Enrol>().await?;
    channel.tx.send(&reply).await?;
    channel.tx.finish();
    channel.tx.delivered().await;
    connection.close(link::error::NOT_NOW, b"this master stands by");
    Ok(())
}

fn reply(known: &StandbyKnowledge, now: Time) -> EnrolReply {
    let incarnation = known.active.as_ref().map_or(0, |active| active.token);
    EnrolReply::StandsBy {
        versions: Versions::ours(),
        now,
        active: known.active.as_ref().map(|active| active.address.clone()),
        incarnation: Incarnation(u32::try_from(incarnation).unwrap_or(u32::MAX)),
        trouble: known.trouble.clone(),
    }
}

/// The entrance meanwhile: it knows the names of this master, and lets nobody in.
struct StandbyEntrance(Config);

impl Entrance for StandbyEntrance {
    fn is_ours(&self, host: &str) -> bool {
        http::is_ours(host, &self.0)
    }

    fn admit<'a>(&'a self, _: &'a HeaderMap) -> Coming<'a, Option<Who>> {
        Box::pin(async { None })
    }

    fn way_in(&self) -> &'static str {
        "ask the active master"
    }
}

/// The pages that are served over HTTP meanwhile: at `/healthz` the health of a master that stands by, and where the other one
/// is.
fn routes(known: watch::Receiver<StandbyKnowledge>) -> Router {
    let words = |known: &StandbyKnowledge| match (&known.trouble, &known.active) {
        (Some(why), _) => format!("stands by, and could not take over: {why}\n"),
        (None, Some(active)) => format!("stands by: the active master is at {}\n", active.address),
        (None, None) => "stands by\n".to_owned(),
    };

    let elsewhere = {
        let known = known.clone();
        move || {
            let text = words(&known.borrow());
            async { (StatusCode::SERVICE_UNAVAILABLE, text) }
        }
    };
    let health = move || {
        let known = known.borrow();
        let status = match known.trouble {
            Some(_) => StatusCode::SERVICE_UNAVAILABLE,
            None => StatusCode::OK,
        };
        let text = words(&known);
        async move { (status, text) }
    };
    Router::new()
        .route("/healthz", get(health))
        .fallback(elsewhere)
}

/// The thread that looks at the lease: the store's connections are waited for.
struct LeaseWatcher {
    wanted: WantedStore,
    contender: LeaseContender,
    duty: LeaseDuty,
    stop: Arc<AtomicBool>,
    tell: watch::Sender<StandbyKnowledge>,
    /// How far the store was seen to get, so that an older one is not taken over.
    mark: Option<(Mark, u64)>,
}

/// The outcome of watching.
type LeaseWatched = Result<Option<Writer>, MasterError>;

impl LeaseWatcher {
    /// Starts the thread, which ends with [`Self::watch`].
    fn begin(mut self) -> Result<oneshot::Receiver<LeaseWatched>, MasterError> {
        let (done, watched) = oneshot::channel();
        std::thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || {
                let ended = self.watch();
                let _ = done.send(ended);
            })
            .map_err(|error| MasterError::Core(error.to_string()))?;
        Ok(watched)
    }

    /// Looks until the store is taken, or nobody wants to know any more.
    fn watch(&mut self) -> LeaseWatched {
        for look in 0u32.. {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            match self.look(look % SAYS_EVERY == 0) {
                Ok(Some(store)) => return Ok(Some(store)),
                Ok(None) => {}
                // Once it stands by it waits for a database that is away.
                Err(MasterError::Store(StoreError::Postgres(error)))
                    if self.tell.borrow().active.is_some() && error.may_pass() =>
                {
                    self.duty.saw_nothing();
                    self.has_trouble(Some(error.to_string()));
                }
                // Another one has taken it before this one had read it.
                Err(MasterError::Store(StoreError::Postgres(error @ PgError::TakenOver(_)))) => {
                    tracing::error!("{error}. It stands by");
                    self.duty.saw_nothing();
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    /// Looks at the lease once. Returns the `Writer` of the store if it could be taken.
    fn look(&mut self, say: bool) -> LeaseWatched {
        let seen = self.contender.look()?;
        self.has_trouble(None);

        if self.duty.saw(self.wanted.clock.now(), &seen) == LeaseDecision::Take {
            let found = (&mut self.contender, &seen);
            let taken = database::take(&self.wanted, found)?;
            if taken.is_some() && !seen.member.is_empty() {
                tracing::warn!(
                    from = seen.holder,
                    token = seen.token,
                    "took the store over"
                );
            }
            return Ok(taken);
        }

        self.stand_by(&seen)?;
        if say {
            self.contender.note()?;
        }
        Ok(None)
    }

    /// Notes that another master has the store, and how far it got.
    fn stand_by(&mut self, seen: &LeaseSeen) -> Result<(), MasterError> {
        let mut known = self.tell.borrow().clone();
        let before = known.active.as_ref().map(|active| active.token);
        if before != Some(seen.token) {
            tracing::info!(
                active = seen.address,
                holder = seen.holder,
                since = %humantime::format_rfc3339_seconds(
                    std::time::UNIX_EPOCH + Duration::from_micros(seen.taken.0)
                ),
                "stands by: another master has the store"
            );
        }

        if known.grid.is_none() {
            known.grid = database::grid_beside(&self.wanted)?;
            if let Some((grid, _)) = known.grid {
                // What an admin accepts to be missing is still missing when the store is taken.
                let before = Mark::read(&self.wanted.home).ok().flatten();
                let before = before.filter(|mark| mark.grid == grid);
                let marked = Marked {
                    grid,
                    commits: before.map_or(0, |mark| mark.commits).max(seen.reached()),
                    whole: None,
                };
                let mark = Mark::write(&self.wanted.home, marked);
                let path = self.wanted.home.join("mark");
                let mark = mark.map_err(LinkError::file("cannot write", path))?;
                self.mark = Some((mark, marked.commits));
            }
        }
        if let Some((mark, reached)) = &mut self.mark
            && *reached < seen.reached()
        {
            *reached = seen.reached();
            mark.note(*reached);
        }
        known.active = Some(seen.clone());
        self.tell.send_replace(known);
        Ok(())
    }

    /// Notes whether the database answers (`StandbyKnowledge::trouble`); a change is logged.
    fn has_trouble(&self, trouble: Option<String>) {
        self.tell.send_if_modified(|known| {
            let changed = known.trouble.is_some() != trouble.is_some();
            match &trouble {
                Some(error) if changed => {
                    tracing::warn!(error, "stands by, and its database does not answer");
                }
                None if changed => tracing::info!("its database answers again"),
                _ => {}
            }
            known.trouble = trouble;
            changed
        });
    }
}
