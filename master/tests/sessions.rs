//! A real master on loopback, spoken to by scripted workers and clients over real QUIC: who is let
//! in, what is kept over a restart, and what is answered to those who misbehave.

#![allow(clippy::unwrap_used)] // A test's panic is its message.

#[path = "sessions/availability.rs"]
mod availability;
#[path = "sessions/content.rs"]
mod content;
#[path = "sessions/database.rs"]
mod database;
#[path = "sessions/events.rs"]
mod events;
#[path = "sessions/farewell.rs"]
mod farewell;
#[path = "sessions/gateway.rs"]
mod gateway;
#[path = "sessions/identity.rs"]
mod identity;
#[path = "sessions/limits.rs"]
mod limits;
#[path = "sessions/lists.rs"]
mod lists;
#[path = "sessions/promises.rs"]
mod promises;
#[path = "sessions/requests.rs"]
mod requests;
#[path = "sessions/service.rs"]
mod service;
#[path = "sessions/shelf.rs"]
mod shelf;
#[path = "sessions/site.rs"]
mod site;
#[path = "sessions/tail.rs"]
mod tail;

use std::path::PathBuf;
use std::time::Duration;

use common::attempt::{Completion, HeldAttempt, Outcome, OutputFile, Phase, Stream};
use common::checkpoint::{Saved, Saving};
use common::host::{Confinement, HostFacts, OwnerState};
use common::job::{CommandSpec, Input, InputKind, InputSource, Rules, Work};
use common::manifest::{ListedFile, Manifest};
use common::selector::Selector;
use common::settings::ConfigDuration;
use common::token::{JoinToken, Role};
use common::view::{AccountView, ExplainView, HostState, HostView, JobState, JobView, TaskView};
use common::wire::client::{Reply, Request, Submission};
use common::wire::stream::Open;
use common::wire::worker::{Assignment, Delivery, Errand, ToMaster, ToWorker};
use common::wire::{Refusal, RefusalCode, Versions};
use common::{AttemptId, BlobRef, Content, IdSet, JobId, JobSpec, RequestId, Span, Speed, TaskSet};
use link::{Channel, Client, Connection, Identity, LinkError, Purpose};
use master::Config;
use scheduler::Event;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(20);

/// The door: a master in a directory of its own.
struct Master {
    dir: tempfile::TempDir,
    content_grace: Duration,
    record: Option<PathBuf>,
    /// The database of its store, where the tests run on one.
    store: Option<String>,
    /// What is set otherwise than usual.
    settings: fn(&mut Config),
    running: Option<Running>,
}

type Running = (
    oneshot::Sender<()>,
    JoinHandle<Result<(), master::MasterError>>,
);

impl Master {
    async fn start() -> Self {
        let mut master = Self {
            dir: tempfile::tempdir().unwrap(),
            content_grace: Duration::from_secs(3_600),
            record: None,
            store: database::new().await,
            settings: |_| (),
            running: None,
        };
        master.again().await;
        master
    }

    /// The same, with other settings. The first start was with the usual ones.
    async fn with(settings: fn(&mut Config)) -> Self {
        let mut master = Self::start().await;
        master.restart_with(settings).await;
        master
    }

    async fn restart_with(&mut self, settings: fn(&mut Config)) {
        self.settings = settings;
        self.restart().await;
    }

    async fn restart(&mut self) {
        self.stop().await;
        self.again().await;
    }

    /// Starts it on what lies in its directory.
    async fn again(&mut self) {
        let interval = ConfigDuration::from_millis;
        let mut config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            http: None,
            heartbeat: interval(200),
            suspect_after: interval(60_000),
            lease: interval(120_000),
            content_grace: ConfigDuration(self.content_grace),
            record: self.record.clone(),
            store: self.store.clone(),
            ..Config::default()
        };
        (self.settings)(&mut config);

        let address = self.dir.path().join("master/address");
        let _ = std::fs::remove_file(&address);
        let (stop, stopped) = oneshot::channel::<()>();
        let dir = self.dir.path().to_owned();
        let run =
            tokio::spawn(
                async move { master::run(dir, config, async { drop(stopped.await) }).await },
            );

        self.running = Some((stop, run));
        let ended = || self.running.as_ref().unwrap().1.is_finished();
        eventually(async || address.exists() || ended()).await;

        if !address.exists() {
            let (_, run) = self.running.take().unwrap();
            panic!("the master ended: {:?}", run.await);
        }
    }

    async fn stop(&mut self) {
        let (stop, run) = self.running.take().unwrap();
        drop(stop);
        within(run).await.unwrap().unwrap();
    }

    fn address(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("master/address"))
            .unwrap()
            .trim()
            .to_owned()
    }

    async fn admin(&self) -> Client {
        Client::connect(&Identity::load(&self.dir.path().join("client")).unwrap())
            .await
            .unwrap()
    }

    async fn token(&self, role: Role, uses: u32) -> JoinToken {
        let request = Request::TokenCreate {
            role,
            ttl: Span::from_secs(60),
            uses,
            name: "t".into(),
            approval: false,
            speaks_for: None,
        };
        match self.admin().await.ask(&request).await.unwrap().remove(0) {
            Reply::Token(token, ..) => token,
            other => panic!("{other:?}"),
        }
    }

    async fn enrol(&self, role: Role, name: &str) -> Identity {
        link::enrol(&self.address(), &self.token(role, 1).await, name)
            .await
            .unwrap()
    }

    /// A user of this name.
    async fn user(&self, name: &str) -> Client {
        Client::connect(&self.enrol(Role::Client, name).await)
            .await
            .unwrap()
    }

    /// A new worker of this name, which holds nothing.
    async fn host(&self, name: &str) -> Worker {
        let identity = self.enrol(Role::Worker, name).await;
        self.worker(&identity, Vec::new()).await
    }

    /// The steps that were recorded of its newest run.
    fn steps(&self) -> Vec<scheduler::record::Step> {
        let bytes = std::fs::read(self.record.as_ref().unwrap()).unwrap();
        let run = scheduler::record::read(&bytes).unwrap().pop();
        run.unwrap().steps
    }

    /// The content that lies at the master.
    fn content(&self) -> link::BlobStore {
        link::BlobStore::open(&self.dir.path().join("master/content")).unwrap()
    }

    /// The file of its store.
    fn store_file(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.dir.path().join("master/store.sqlite")).unwrap()
    }

    /// A worker of two slots, welcome.
    async fn worker(&self, identity: &Identity, held: Vec<HeldAttempt>) -> Worker {
        self.worker_with(identity, &hello(held)).await
    }

    /// A worker that greets the master so, welcome.
    async fn worker_with(&self, identity: &Identity, hello: &ToMaster) -> Worker {
        let worker = within(Box::pin(self.greeted(identity, hello)))
            .await
            .unwrap();
        let welcome = &worker.welcome;
        assert!(matches!(welcome, ToWorker::Welcome { .. }), "{welcome:?}");
        worker
    }

    /// A worker that greets the master so, and has its answer.
    async fn greeted(&self, identity: &Identity, hello: &ToMaster) -> Result<Worker, LinkError> {
        let connection = link::connect(&towards(self, identity), Purpose::Worker).await?;
        let mut control = connection.open(&Open::Control).await?;
        control.tx.send(hello).await?;
        let welcome = control.rx.expect().await?;
        Ok(Worker {
            connection,
            control,
            welcome,
            waiting: Vec::new(),
            stdout: Content::default(),
            outputs: Vec::new(),
        })
    }
}

/// The same identity, towards where the master is now.
fn towards(master: &Master, identity: &Identity) -> Identity {
    let mut moved = Identity {
        certificate: identity.certificate.clone(),
        key: identity.key.clone_key(),
        ca: identity.ca.clone(),
        link: identity.link.clone(),
        home: None,
        update_key: None,
    };
    moved.link.master = master.address();
    moved
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what)
        .await
        .expect("nothing happened for twenty seconds")
}

/// Waits until this holds.
async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    within(async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// The properties of a worker of two slots.
fn facts() -> HostFacts {
    HostFacts {
        name: "w".into(),
        slots: 2,
        speed: Speed::REFERENCE,
        clock_mhz: 1_500,
        cores: 2,
        memory_mib: 1_024,
        confinement: Confinement::Process,
        confinement_most: Confinement::Process,
        network: true,
        ..HostFacts::unknown(String::new())
    }
}

fn hello(held: Vec<HeldAttempt>) -> ToMaster {
    greeting(Versions::ours(), facts(), held)
}

/// The greeting of a worker of the version before this one.
fn hello_before(version: u16) -> ToMaster {
    let versions = Versions {
        max: version - 1,
        ..Versions::ours()
    };
    greeting(versions, facts(), Vec::new())
}

fn greeting(versions: Versions, facts: HostFacts, held: Vec<HeldAttempt>) -> ToMaster {
    ToMaster::Hello {
        versions,
        facts: Box::new(facts),
        status: OwnerState::Away.into(),
        held,
    }
}

fn heartbeat(held: Vec<HeldAttempt>) -> ToMaster {
    let status = OwnerState::Away.into();
    ToMaster::Heartbeat { status, held }
}

struct Worker {
    connection: Connection,
    control: Channel,
    welcome: ToWorker,
    waiting: Vec<Assignment>,
    /// What its attempts print.
    stdout: Content,
    /// The files that they leave.
    outputs: Vec<OutputFile>,
}

impl Worker {
    async fn next(&mut self) -> ToWorker {
        let message = within(self.control.rx.expect()).await.unwrap();
        if let ToWorker::Assign(some) = &message {
            self.waiting.extend(some.iter().cloned());
        }
        message
    }

    async fn assignments(&mut self, count: usize) -> Vec<Assignment> {
        while self.waiting.len() < count {
            self.next().await;
        }
        self.waiting.drain(..count).collect()
    }

    async fn tell(&mut self, message: ToMaster) {
        self.control.tx.send(&message).await.unwrap();
    }

    /// Delivers a result, and waits until that is acknowledged.
    async fn finish(&mut self, attempt: AttemptId) {
        self.deliver(attempt).await;
        self.acknowledged(attempt).await;
    }

    async fn deliver(&mut self, attempt: AttemptId) {
        self.deliver_as(attempt, Outcome::Succeeded).await;
    }

    async fn deliver_as(&mut self, attempt: AttemptId, outcome: Outcome) {
        let completion = Completion {
            ran: Span::from_millis(5),
            cpu: Span::from_millis(4),
            stdout: Stream {
                content: self.stdout.clone(),
                dropped: 0,
            },
            outputs: self.outputs.clone(),
            ..Completion::bare(attempt, outcome)
        };
        self.deliver_this(completion).await;
    }

    async fn deliver_this(&mut self, completion: Completion) {
        let ago = Span::ZERO;
        self.tell(ToMaster::Delivered(vec![Delivery { completion, ago }]))
            .await;
    }

    async fn acknowledged(&mut self, attempt: AttemptId) {
        loop {
            if let ToWorker::Acknowledged(ids) = self.next().await
                && ids.contains(&attempt)
            {
                return;
            }
        }
    }
}

fn noops(count: u32) -> JobSpec {
    let tasks = TaskSet {
        ids: IdSet::from_range(1, count),
        items: Vec::new(),
    };
    JobSpec {
        name: "bag".into(),
        tasks,
        work: Work::Noop,
        rules: Rules::default(),
    }
}

fn submission(id: u128, spec: impl Into<Submission>) -> Request {
    Request::Submit {
        id: RequestId(uuid::Uuid::from_u128(id)),
        spec: spec.into(),
        disclosed: false,
        dry_run: false,
    }
}

async fn submit(client: &Client, id: u128, spec: &JobSpec) -> Result<(JobId, bool), LinkError> {
    submitted(client, &submission(id, spec.clone())).await
}

/// Submits; returns the job's number, and whether this had been asked for before.
async fn submitted(client: &Client, request: &Request) -> Result<(JobId, bool), LinkError> {
    match client.ask(request).await?.remove(0) {
        Reply::Submitted {
            job: Some(job),
            again,
            ..
        } => Ok((job, again)),
        other => panic!("{other:?}"),
    }
}

fn one(job: JobId) -> Selector {
    Selector::Ids(IdSet::from_range(job.0, job.0))
}

/// The jobs of this selection in these states, as the client sees them.
async fn job_views(client: &Client, jobs: Selector, states: Vec<JobState>) -> Vec<JobView> {
    let asked = Request::Jobs { jobs, states };
    let replies = within(client.ask(&asked)).await.unwrap();
    let views = replies.into_iter().flat_map(|reply| match reply {
        Reply::Jobs(views) => views,
        other => panic!("{other:?}"),
    });
    views.collect()
}

async fn state(client: &Client, job: JobId) -> JobState {
    job_views(client, one(job), Vec::new()).await[0].state
}

/// The hosts of these names, or all of them where none is given.
async fn host_views(client: &Client, names: Vec<String>) -> Vec<HostView> {
    let replies = within(client.ask(&Request::Hosts { names })).await.unwrap();
    let views = replies.into_iter().flat_map(|reply| match reply {
        Reply::Hosts(views) => views,
        other => panic!("{other:?}"),
    });
    views.collect()
}

/// Asks for a change; returns of how many tasks of which jobs something was changed.
async fn changed(client: &Client, request: &Request) -> Vec<(JobId, u64)> {
    match &within(client.ask(request)).await.unwrap()[..] {
        [Reply::Changed(changed)] => changed.clone(),
        other => panic!("{other:?}"),
    }
}

async fn cancel(client: &Client, jobs: Selector) -> Vec<(JobId, u64)> {
    let tasks = None;
    changed(client, &Request::Cancel { jobs, tasks }).await
}

/// Shares jobs with another user, or ends that.
async fn share(client: &Client, jobs: Selector, user: &str, on: bool) -> Vec<(JobId, u64)> {
    let user = user.to_owned();
    changed(client, &Request::Share { jobs, user, on }).await
}

/// Drains a host, or ends that.
async fn drain(admin: &Client, host: &str, drains: bool) {
    let host = host.to_owned();
    let request = match drains {
        true => Request::Drain { host },
        false => Request::Undrain { host },
    };
    within(admin.ask(&request)).await.unwrap();
}

/// The account of a user who has one.
async fn account(client: &Client) -> AccountView {
    let asked = Request::Account {
        user: None,
        jobs: false,
    };
    match within(client.ask(&asked)).await.unwrap().remove(0) {
        Reply::Accounts(mut accounts) => accounts.remove(0),
        other => panic!("{other:?}"),
    }
}

async fn explain(client: &Client, job: JobId) -> ExplainView {
    let asked = Request::Explain { job };
    match within(client.ask(&asked)).await.unwrap().remove(0) {
        Reply::Explained(view) => *view,
        other => panic!("{other:?}"),
    }
}

/// Asks for something that is refused; returns the answer.
async fn refusal(client: &Client, request: &Request) -> LinkError {
    within(client.ask(request)).await.err().unwrap()
}

/// Tries to join as `pc` with this token, which is refused.
async fn refused_join(master: &Master, token: &JoinToken) -> LinkError {
    let joined = link::enrol(&master.address(), token, "pc").await;
    joined.err().unwrap()
}

fn code(error: &LinkError) -> RefusalCode {
    match error {
        LinkError::Refused(refusal) => refusal.code,
        other => panic!("{other:?}"),
    }
}

fn held(attempt: AttemptId) -> HeldAttempt {
    HeldAttempt {
        attempt,
        phase: Phase::Running,
        ran: Span::ZERO,
        frozen_for: Span::ZERO,
        progress: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bag_is_computed_and_each_completion_is_acknowledged() {
    let master = Master::start().await;
    let client = master.user("ann").await;
    assert_eq!((client.user(), client.role()), ("ann", Role::Client));

    let (job, _) = submit(&client, 1, &noops(3)).await.unwrap();
    let mut worker = master.host("pc").await;
    for _ in 0..3 {
        let assignment = worker.assignments(1).await.remove(0);
        worker.deliver(assignment.attempt).await;
    }

    let watch = Request::Watch {
        jobs: Selector::Last,
        quiet: true,
        timeout: None,
    };
    let last = within(client.ask(&watch)).await.unwrap().pop();
    assert!(
        matches!(last, Some(Reply::Jobs(views)) if views[0].job == job && views[0].state == JobState::Finished)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_lets_in_as_often_as_it_says_and_only_with_the_right_secret_and_ca() {
    let master = Master::start().await;
    let token = master.token(Role::Worker, 1).await;
    let guessed = JoinToken {
        secret: [1; 16],
        ..token.clone()
    };
    let not_guessed = refused_join(&master, &guessed).await;
    assert_eq!(code(&not_guessed), RefusalCode::NotAuthorised);

    let elsewhere = JoinToken {
        ca_key_hash: [9; 32],
        ..token.clone()
    };
    assert!(matches!(
        link::enrol(&master.address(), &elsewhere, "pc").await,
        Err(LinkError::WrongMaster { .. })
    ));

    let bad_name = link::enrol(&master.address(), &token, "../x")
        .await
        .err()
        .unwrap();
    assert_eq!(code(&bad_name), RefusalCode::Invalid);

    let first = link::enrol(&master.address(), &token, "pc").await.unwrap();
    assert_eq!(
        (first.link.name.as_str(), first.link.role),
        ("pc", Role::Worker)
    );
    let used_up = refused_join(&master, &token).await;
    assert_eq!(code(&used_up), RefusalCode::NotAuthorised);

    let revoked = master.token(Role::Worker, 5).await;
    master
        .admin()
        .await
        .ask(&Request::TokenRevoke { id: revoked.id })
        .await
        .unwrap();

    let not_valid = refused_join(&master, &revoked).await;
    assert_eq!(code(&not_valid), RefusalCode::NotAuthorised);
    assert_eq!(master.enrol(Role::Worker, "pc").await.link.name, "pc-2");
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_two_racing_redeemers_wins() {
    let master = Master::start().await;
    for _ in 0..5 {
        let token = master.token(Role::Worker, 1).await;
        let address = master.address();
        let (a, b) = tokio::join!(
            link::enrol(&address, &token, "a"),
            link::enrol(&address, &token, "b")
        );
        assert_eq!(u32::from(a.is_ok()) + u32::from(b.is_ok()), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_gets_only_its_own_requests() {
    let master = Master::start().await;
    let worker = master.enrol(Role::Worker, "pc").await;
    let ann = master.enrol(Role::Client, "ann").await;

    assert!(
        Client::connect(&worker).await.is_err(),
        "a worker asked as a client"
    );

    let connection = link::connect(&ann, Purpose::Worker).await.unwrap();
    let error = within(connection.closed()).await.to_string();
    assert!(error.contains("role client may not"), "{error}");

    let ann = Client::connect(&ann).await.unwrap();
    for forbidden in [
        Request::TokenList,
        Request::TokenCreate {
            role: Role::Admin,
            ttl: Span::from_secs(9),
            uses: 1,
            name: String::new(),
            approval: false,
            speaks_for: None,
        },
        Request::Drain { host: "pc".into() },
    ] {
        let refused = refusal(&ann, &forbidden).await;
        assert_eq!(code(&refused), RefusalCode::NotAuthorised, "{forbidden:?}");
    }

    let (job, _) = submit(&master.admin().await, 1, &noops(1)).await.unwrap();
    let look = Request::Jobs {
        jobs: one(job),
        states: Vec::new(),
    };
    let touch = Request::Cancel {
        jobs: one(job),
        tasks: None,
    };
    for request in [look, touch] {
        let refused = refusal(&ann, &request).await;
        assert_eq!(code(&refused), RefusalCode::NotFound, "{request:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_of_another_grid_is_refused() {
    let here = Master::start().await;
    let there = Master::start().await;
    let mut stranger = there.enrol(Role::Client, "eve").await;
    stranger.link.master = here.address();
    assert!(matches!(
        Client::connect(&stranger).await,
        Err(LinkError::WrongMaster { .. })
    ));
    // Even one that trusts this master's CA, but has its certificate from the other.
    stranger.ca = here.enrol(Role::Client, "ann").await.ca;
    assert!(Client::connect(&stranger).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_gives_the_same_job_also_after_a_restart() {
    let mut master = Master::start().await;
    let first = submit(&master.admin().await, 7, &noops(2)).await.unwrap();
    assert!(!first.1);
    assert_eq!(
        submit(&master.admin().await, 7, &noops(2)).await.unwrap(),
        (first.0, true)
    );
    let another = submit(&master.admin().await, 7, &noops(3)).await;
    assert_eq!(code(&another.err().unwrap()), RefusalCode::Conflict);

    master.restart().await;
    assert_eq!(
        submit(&master.admin().await, 7, &noops(2)).await.unwrap(),
        (first.0, true)
    );
    assert_eq!(
        submit(&master.admin().await, 8, &noops(2)).await.unwrap().0,
        JobId(first.0.0 + 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_master_knows_running_attempts_and_takes_finished_ones() {
    let mut master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let (job, _) = submit(&master.admin().await, 1, &noops(3)).await.unwrap();
    let mut worker = master.worker(&pc, Vec::new()).await;
    let given = worker.assignments(2).await;
    worker.finish(given[0].attempt).await;
    master.stop().await;

    assert!(matches!(
        within(worker.connection.closed()).await,
        LinkError::Closed(_)
    ));
    master.again().await;

    let rest: Vec<Assignment> = given[1..].to_vec();
    let mut worker = master
        .worker(&pc, rest.iter().map(|a| held(a.attempt)).collect())
        .await;
    assert!(
        matches!(&worker.welcome, ToWorker::Welcome { abandon, incarnation, .. } if abandon.is_empty() && *incarnation > given[0].attempt.incarnation)
    );
    worker.deliver(rest[0].attempt).await;

    // The third task is all that is left to be given out, unless it was given out before the
    // restart.
    let third = worker.assignments(1).await.remove(0);
    assert_eq!(third.attempt.task.index, 3);
    worker.finish(third.attempt).await;
    assert_eq!(state(&master.admin().await, job).await, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_that_were_never_asked_for_change_nothing_and_are_answered() {
    let master = Master::start().await;
    let mut worker = master.host("pc").await;
    let mut other = master.host("pc").await;
    let (job, _) = submit(&master.admin().await, 1, &noops(1)).await.unwrap();
    let (given, thief) = tokio::select! {
        given = worker.assignments(1) => (given[0].attempt, false),
        given = other.assignments(1) => (given[0].attempt, true),
    };
    let (owner, thief) = if thief {
        (&mut other, &mut worker)
    } else {
        (&mut worker, &mut other)
    };

    let never = AttemptId {
        number: 99,
        ..given
    };
    for wrong in [given, never] {
        thief.finish(wrong).await;
    }

    assert_eq!(state(&master.admin().await, job).await, JobState::Running);
    for _ in 0..2 {
        owner.finish(given).await;
    }

    assert_eq!(state(&master.admin().await, job).await, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_task_that_is_retried_gets_a_new_attempt_number() {
    let master = Master::start().await;
    let client = master.admin().await;
    let mut worker = master.host("pc").await;
    let (job, _) = submit(&client, 1, &noops(1)).await.unwrap();
    let first = worker.assignments(1).await.remove(0).attempt;
    worker.deliver_as(first, Outcome::Exited(1)).await;

    worker.acknowledged(first).await;
    assert_eq!(state(&client, job).await, JobState::Failed);
    client
        .ask(&Request::Retry {
            job,
            tasks: Selector::All,
            only_failed: true,
        })
        .await
        .unwrap();

    let second = worker.assignments(1).await.remove(0).attempt;
    assert_eq!((second.task, second.number), (first.task, 2));
    worker.finish(second).await;
    assert_eq!(state(&client, job).await, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_without_its_content_is_not_taken_until_it_comes_with_it() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let mut worker = master.worker(&pc, Vec::new()).await;
    let (job, _) = submit(&master.admin().await, 1, &noops(1)).await.unwrap();
    let attempt = worker.assignments(1).await.remove(0).attempt;
    let bytes = vec![7; 10_000];
    worker.stdout = Content::Blob(link::content::hash_bytes(&bytes));
    worker.deliver(attempt).await;

    within(worker.connection.closed()).await;
    assert_eq!(state(&master.admin().await, job).await, JobState::Running);

    let stdout = worker.stdout;
    let mut worker = master.worker(&pc, vec![held(attempt)]).await;
    link::content::put_bytes(
        &worker.connection,
        &bytes,
        link::content::hash_bytes(&bytes),
    )
    .await
    .unwrap();

    worker.stdout = stdout;
    worker.finish(attempt).await;
    assert_eq!(state(&master.admin().await, job).await, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_no_job_needs_is_removed_once_it_is_old() {
    let mut master = Master::start().await;
    let client = master.admin().await;
    let needed = client.put_bytes(b"needed").await.unwrap();
    let useless = client.put_bytes(b"useless").await.unwrap();
    let mut spec = noops(1);
    let mut command = CommandSpec::new(vec!["true".parse().unwrap()]);
    command.inputs.push(Input {
        name: "in".parse().unwrap(),
        kind: InputKind::File,
        source: InputSource::Shared(needed),
    });

    spec.work = Work::Command(command);
    submit(&client, 1, &spec).await.unwrap();
    master.stop().await;
    master.content_grace = Duration::from_secs(1);
    master.again().await;

    let store = master.content();
    eventually(async || !store.has(&useless)).await;
    assert!(store.has(&needed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_host_stays_drained_over_a_restart() {
    let mut master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    drain(&master.admin().await, "pc", true).await;

    master.restart().await;
    submit(&master.admin().await, 1, &noops(1)).await.unwrap();

    let mut worker = master.worker(&pc, Vec::new()).await;
    // The answer to a heartbeat comes after whatever the join led to: so nothing was assigned
    // before it.
    let told = worker.before_next_beat().await;
    assert!(
        matches!(told[..], [ToWorker::OutOfService(Some(_))]),
        "{told:?}"
    );
    assert!(worker.waiting.is_empty());
    drain(&master.admin().await, "pc", false).await;

    assert_eq!(worker.assignments(1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_session_of_a_host_takes_over_from_the_older_one() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let mut older = master.worker(&pc, Vec::new()).await;

    submit(&master.admin().await, 1, &noops(1)).await.unwrap();
    let attempt = older.assignments(1).await.remove(0).attempt;
    let mut newer = master.worker(&pc, vec![held(attempt)]).await;

    within(older.connection.closed()).await;
    newer.finish(attempt).await;

    let hosts = host_views(&master.admin().await, Vec::new()).await;
    assert_eq!(
        (hosts.len(), hosts[0].state, hosts[0].finished),
        (1, HostState::Ready, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_send_when_it_promised_to_is_disconnected() {
    let master = Master::start().await;
    let mut worker = master.host("pc").await;
    let often = Duration::from_millis(300);

    let before = worker.connection.received();
    for _ in 0..20 {
        worker.tell(ToMaster::Alive(often.into())).await;
        tokio::time::sleep(often / 3).await;
    }
    let answers = worker.connection.received() - before;
    assert!(
        answers <= 30,
        "a promise is answered by a packet, not {answers} for 20"
    );

    let ended = tokio::time::timeout(Duration::ZERO, worker.connection.closed()).await;
    assert!(ended.is_err(), "it kept its promises: {ended:?}");

    let end = within(worker.connection.closed()).await.to_string();
    assert!(end.contains("nothing heard for"), "{end}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_promised_little_is_heard_soon_once_it_has_work() {
    let master = Master::start().await;
    let mut worker = master.host("pc").await;
    worker.tell(ToMaster::Alive(Span::from_secs(100))).await;

    submit(&master.admin().await, 1, &noops(1)).await.unwrap();
    worker.assignments(1).await;
    // This waits for less time than the worker had promised.
    within(worker.connection.closed()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_says_nothing_or_ends_early_holds_up_no_other() {
    let master = Master::start().await;
    let worker = master.host("pc").await;
    let mut empty = worker.connection.open_bare().await.unwrap();
    empty.tx.finish();
    let mut silent = worker.connection.open_bare().await.unwrap();
    silent.tx.raw().write_all(&[9]).await.unwrap();
    let blob = link::content::hash_bytes(b"x");
    within(link::content::put_bytes(&worker.connection, b"x", blob))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missed_stop_is_repeated_with_the_next_heartbeat_or_hello() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let admin = master.admin().await;

    for (id, over_hello) in [(1, false), (2, true)] {
        let (job, _) = submit(&admin, id, &noops(1)).await.unwrap();
        let mut worker = master.worker(&pc, Vec::new()).await;
        let attempt = worker.assignments(1).await.remove(0).attempt;
        let held = vec![held(attempt)];

        if over_hello {
            worker.connection.close("away").await;
            cancel(&admin, one(job)).await;
            let worker = master.worker(&pc, held).await;
            assert!(
                matches!(&worker.welcome, ToWorker::Welcome { abandon, .. } if *abandon == [attempt])
            );
        } else {
            cancel(&admin, one(job)).await;

            assert!(
                matches!(worker.next().await, ToWorker::Stop { attempts, .. } if attempts == [attempt]),
                "at once"
            );

            // As if it had not arrived.
            worker.tell(heartbeat(held)).await;

            assert!(
                matches!(worker.next().await, ToWorker::Beat { abandon } if abandon == [attempt])
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_reports_as_often_as_its_policy_needs() {
    let master = Master::start().await;
    let mut worker = master.host("pc").await;
    for (id, row) in (1..).zip(scheduler::catalogue()) {
        // Others of the catalogue wait for more hosts first.
        if !matches!(row.name, "deskgrid" | "FCFS" | "PRI-CR") {
            continue;
        }

        let rules = Rules {
            policy: row.name.to_owned(),
            ..Rules::default()
        };
        submit(&master.admin().await, id, &JobSpec { rules, ..noops(1) })
            .await
            .unwrap();

        let assignment = worker.assignments(1).await.remove(0);
        assert_eq!(assignment.report_every, row.reports(), "{}", row.name);
        worker.finish(assignment.attempt).await;
    }
}

/// A job of one task that keeps its state.
fn saving_job() -> JobSpec {
    let mut command = CommandSpec::new(vec!["work".parse().unwrap()]);
    command.checkpoint = Some(Span::from_secs(30));
    let rules = Rules {
        checkpoint: true,
        ..Rules::default()
    };
    JobSpec {
        work: Work::Command(command),
        rules,
        ..noops(1)
    }
}

/// The list of a state of this one file.
fn list_of(blob: BlobRef) -> Vec<u8> {
    let file = ListedFile::new("step".parse().unwrap(), blob);
    Manifest::from(vec![file]).to_bytes().unwrap()
}

/// From which state the assignment starts.
fn from(assignment: &Assignment) -> Option<Saved> {
    match &assignment.work {
        Errand::Command(command) => command.checkpoint.expect("it is to save").from,
        Errand::Noop => panic!("no command"),
    }
}

impl Worker {
    async fn saved(&mut self, attempt: AttemptId, sequence: u32, saving: Saving) {
        self.tell(ToMaster::Checkpoint {
            attempt,
            sequence,
            saving,
        })
        .await;
    }

    async fn put(&self, bytes: &[u8]) -> BlobRef {
        let blob = link::content::hash_bytes(bytes);
        within(link::content::put_bytes(&self.connection, bytes, blob))
            .await
            .unwrap();
        blob
    }

    /// Gives the attempt back, and takes the next one of its task.
    async fn again(&mut self, attempt: AttemptId) -> Assignment {
        self.tell(ToMaster::Returned {
            attempts: vec![attempt],
            why: "test".into(),
        })
        .await;
        self.assignments(1).await.remove(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_attempt_starts_from_the_newest_state_that_is_whole() {
    let mut master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let (job, _) = submit(&master.admin().await, 1, &saving_job())
        .await
        .unwrap();
    let mut worker = master.worker(&pc, Vec::new()).await;
    let first = worker.assignments(1).await.remove(0);
    assert_eq!(from(&first), None);

    // A list without its file, a list that is none, and one that is not there count for nothing.
    let partial = worker
        .put(&list_of(link::content::hash_bytes(b"never sent")))
        .await;
    let broken = worker.put(b"\x05").await;
    for (sequence, manifest) in [
        (1, partial),
        (2, broken),
        (3, link::content::hash_bytes(b"nor this")),
    ] {
        worker
            .saved(first.attempt, sequence, Saving::Complete(manifest))
            .await;
    }

    let second = worker.again(first.attempt).await;
    assert_eq!(from(&second), None);

    let content = worker.put(b"half way").await;
    let whole = worker.put(&list_of(content)).await;
    worker
        .saved(second.attempt, 4, Saving::Complete(whole))
        .await;

    // Late words of an earlier attempt, and of one that was never given out, change nothing.
    worker
        .saved(
            first.attempt,
            9,
            Saving::Complete(worker.put(&list_of(worker.put(b"older").await)).await),
        )
        .await;

    let stranger = AttemptId {
        number: 9,
        ..first.attempt
    };
    worker
        .saved(
            stranger,
            1,
            Saving::Complete(worker.put(&list_of(worker.put(b"strange").await)).await),
        )
        .await;

    let third = worker.again(second.attempt).await;
    let saved = from(&third).expect("a whole state");
    assert_eq!(
        (
            saved.number,
            saved.sequence,
            saved.files,
            saved.bytes,
            saved.manifest
        ),
        (2, 4, 1, 8, whole)
    );

    // Also after a restart; and with the end of the task it goes.
    master.restart().await;

    let mut worker = master.worker(&pc, vec![held(third.attempt)]).await;
    let fourth = worker.again(third.attempt).await;
    assert_eq!(from(&fourth), Some(saved));
    worker
        .saved(fourth.attempt, 0, Saving::FromScratch("test".into()))
        .await;
    worker.finish(fourth.attempt).await;

    let view = task(&master.admin().await, job).await;
    let last = &view.attempts[3];
    assert!(
        last.started_from.is_none()
            && last
                .reason
                .as_ref()
                .is_some_and(|r| r.contains("from scratch")),
        "{last:?}"
    );

    assert_eq!(
        (view.attempts[2].started_from, view.attempts[1].saved),
        (Some(saved), Some(saved))
    );

    if database::is_used() {
        return; // There is no file to look into.
    }
    let store = master.store_file();
    let left = "SELECT (SELECT COUNT(*) FROM checkpoint) + (SELECT COUNT(*) FROM checkpoint_blob)";
    assert_eq!(
        store
            .query_row(left, [], |row| row.get::<_, i64>(0))
            .unwrap(),
        0
    );
}

async fn tasks(client: &Client, job: JobId) -> Vec<TaskView> {
    let request = Request::Tasks {
        job,
        tasks: Selector::All,
        states: Vec::new(),
    };
    match within(client.ask(&request)).await.unwrap().remove(0) {
        Reply::Tasks(tasks) => tasks,
        other => panic!("{other:?}"),
    }
}

async fn task(client: &Client, job: JobId) -> TaskView {
    tasks(client, job).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn learned_host_facts_survive_a_restart_unless_unreadable() {
    if database::is_used() {
        return; // There is no file to damage.
    }
    let mut master = Master::start().await;
    let worker = master.host("pc").await;
    worker.connection.close("away").await;

    let begins = |master: &Master| {
        let kind = |event: &Event| match event {
            Event::Learned(_) => "learned",
            Event::HostKnown { .. } => "known",
            Event::HostOffers { .. } => "offers",
            _ => "other",
        };
        let steps = master.steps();
        steps
            .iter()
            .map(|step| kind(&step.event))
            .collect::<Vec<_>>()
    };

    for (name, expected) in [
        ("first", vec!["learned", "known", "offers"]),
        ("second", vec!["known", "offers"]),
    ] {
        master.stop().await;
        if name == "second" {
            let damage = "UPDATE meta SET value = x'FF' WHERE key = 'experience'";
            assert_eq!(master.store_file().execute(damage, []).unwrap(), 1);
            // The master would notice that somebody has changed it.
            master.settings = |config| config.accept.store = true;
        }

        master.record = Some(master.dir.path().join(name));
        master.again().await;
        assert_eq!(begins(&master), expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outdated_program_is_told_to_upgrade() {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let versions = Versions {
        min: 0,
        max: 0,
        program: "0.0.9".into(),
    };
    let hello = greeting(versions, facts(), Vec::new());
    let greeted = within(Box::pin(master.greeted(&pc, &hello))).await;
    let answer = greeted.unwrap().welcome;
    assert!(
        matches!(&answer, ToWorker::Refused(r) if r.code == RefusalCode::Version && r.hint.contains("0.0.9")),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_verified_kept_once_and_given_back() {
    let master = Master::start().await;
    let client = master.admin().await;
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 % 251) as u8).collect();
    let blob = client.put_bytes(&bytes).await.unwrap();
    assert_eq!(client.put_bytes(&bytes).await.unwrap(), blob);

    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("back");
    client.fetch(blob, &target).await.unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), bytes);

    // A transfer that broke off goes on where it was.
    let other = dir.path().join("other");
    std::fs::write(
        dir.path().join(format!("other.{}.part", blob.hash)),
        &bytes[..1_000_000],
    )
    .unwrap();
    client.fetch(blob, &other).await.unwrap();
    assert_eq!(std::fs::read(&other).unwrap(), bytes);

    let lie = async |bytes: &[u8]| {
        let named = common::BlobRef { size: 5, ..blob };
        let lie = link::content::put_bytes(client.connection(), bytes, named).await;
        code(&lie.err().unwrap())
    };

    // Not for good: the sender may send it again.
    assert_eq!(lie(b"other").await, RefusalCode::Conflict);
    // The reason comes although the sending is stopped long before its end.
    assert_eq!(lie(&vec![0; 32 << 20]).await, RefusalCode::Conflict);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_master_on_the_same_directory_is_refused() {
    let master = Master::start().await;
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        http: None,
        ..Config::default()
    };
    let second = within(master::run(
        master.dir.path().to_owned(),
        config,
        std::future::pending(),
    ))
    .await;
    assert!(matches!(second, Err(master::MasterError::Running { .. })));
}
