//! The running worker: one loop that takes inputs, passes them to the `Engine`, and carries out its
//! outputs.
//!
//! Everything slow is outside the loop: attempts are async tasks, the spool and the sensors have
//! threads, the session is an async task.

pub(crate) mod beats;
mod day;
mod input;
mod loan;
mod report;
mod site;
mod update;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc as threads};
use std::task::Poll;
use std::time::Duration;

use common::host::{HostFacts, Status};
use common::progress::ProgressReport;
use common::wire::worker::{BUSY_EVERY, TailOrder, ToMaster, ToWorker};
use common::{AttemptId, Completion, Span, Time};
use link::Identity;
use link::identity::LinkInfo;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::attempt::live::{self, LOOKERS, LiveOutput};
use crate::attempt::{AttemptOrder, Workshop, read_progress};
use crate::cache::Cache;
use crate::config::{Config, mebibytes};
use crate::confinement::InForce;
use crate::control::{self, ControlQuestion};
use crate::engine::{CrashRules, Engine, EngineInput as Told, EngineOutput};
use crate::error::WorkerError;
use crate::given_back::GivenBackFile;
use crate::machine::{Action, MachineEvent};
use crate::os::{self, Accounts, ProcessOrder, files};
use crate::owner::guard::Guard;
use crate::owner::rules::HostSize;
use crate::owner::sensors::{self, Sighted};
use crate::owner::{self, hour};
use crate::peers::InputPeers;
use crate::record::Look;
use crate::record::book::{Book, DueIntervals};
use crate::session::{self, SessionEvent, Uplink};
use crate::share::{Gauge, UpTime};
use crate::spool::writer::{self, SpoolRequest, SpoolThread, Spooled};
use crate::spool::{HostMoment, Spool};
use crate::{facts, lock};
use beats::{Beats, next_beat};
use day::OwnerDay;
use input::LoopInput;
use link::wall_clock;
use loan::ReportedLoan;
use site::SiteKeeper;
use update::UpdateDesk;

/// The most inputs that are taken before their outputs are carried out.
const BATCH: usize = 1_024;
/// The time that a leaving worker waits for the master to take finished results.
pub(crate) const LAST_DELIVERY: Duration = Duration::from_secs(2);
/// The shortest interval between heartbeats, however often the master wants them.
const SHORTEST_BEAT: Duration = Duration::from_secs(1);
/// The time after which little of the code that a start has run is used again.
const START_USED: Duration = Duration::from_mins(1);
/// The interval at which code of tasks and rare events is given back.
const GIVE_BACK_EVERY: Duration = Duration::from_mins(10);
/// The number of the sensor of the switch in the worker's own directory.
const OWN_SWITCH: usize = 0;

/// The directory of the attempts' directories, below the worker's.
const ATTEMPTS: &str = "attempts";
/// The directory of unpacked trees, below the worker's.
const TREES: &str = "trees";

/// Restores the worker's rights on the files in its directory, which a task of the same account
/// could take away where no namespace prevents it. Must be called before its identity is read.
pub fn repair(dir: &Path) {
    // Attempts are removed in any case, and nobody needs to look into them.
    let repaired = files::repair(dir, &[dir.join(ATTEMPTS), dir.join(TREES)]);
    if repaired > 0 {
        tracing::warn!(files = repaired, dir = %dir.display(), "a task has locked this worker out of its directory: repaired");
    }
}

/// The reason why a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEnd {
    /// It was asked to.
    Asked,
    /// Another program is to be started in its place.
    NewProgram,
}

/// Runs the worker for the identity's master until `shutdown` resolves, with `dir` as its own
/// directory. Then running tasks are ended and given back, and none of their processes is left.
///
/// The program must call [`crate::spawner::main_if_asked`] first thing in its `main`.
///
/// # Errors
/// If the directory is in use or unusable, if the master refuses this worker for good, or if
/// finished results can no longer be kept.
pub async fn run(
    dir: PathBuf,
    own: Config,
    identity: Identity,
    shutdown: impl Future<Output = ()>,
) -> Result<WorkerEnd, WorkerError> {
    let _lock = lock::take(&dir).await?;
    // Attempts run elsewhere: their paths must not depend on where the worker was started.
    let dir = os::whole_path(&dir).map_err(WorkerError::file("cannot find", &dir))?;
    let (tell, inputs) = unbounded_channel();
    let (current, master) = watch::channel(None);
    let (force, launcher, traces) = InForce::settle(&dir, &own).await?;
    force.announce();

    let spool = Spool::open(&dir.join("spool"))?;
    let blobs = spool.blobs();
    let (mut facts, room) = facts::of_host(&identity.link.name, &own).await;
    let mut site = SiteKeeper::open(&dir, &own, room, &tell);
    let (config, cache_bytes) = site.bound(&dir, &mut facts);
    let peers = Arc::new(InputPeers::new(&config));
    let cache = Arc::new(Cache::open(
        (&dir.join("cache"), &dir.join(TREES)),
        cache_bytes,
        master.clone(),
        Arc::clone(&peers),
    )?);
    peers.serve_from(&cache);
    force.describe(&mut facts);

    let gpus = (!facts.gpus.is_empty()).then_some(facts.lends.gpus);
    let shop = Workshop::open(
        dir.join(ATTEMPTS),
        launcher,
        cache,
        Arc::clone(&blobs),
        master,
        (config.clone(), gpus),
        force,
    );
    let shop = shop.map_err(WorkerError::file("cannot use", dir.join(ATTEMPTS)))?;
    facts.task_disk_mib = mebibytes(config.disk_limit_bytes);
    announce(&facts);

    let gauge = Gauge::new(facts.slots, facts.cores);
    let engine = Engine::new(
        facts.slots as usize,
        config.grace.span(),
        site.patience(),
        spool.ids(),
        CrashRules::KEPT,
    )
    .weighing(facts.lends)
    .owing(GivenBackFile::below(&dir).take());

    let policy = watch_owner(&mut site, &dir, &room, &tell)?;

    // Without the control socket the worker still works, and its switches still hold.
    if let Err(error) = control::serve(dir.clone(), tell.clone()) {
        tracing::warn!(%error, "`deskgrid worker status` will not find this worker");
    }

    let link = identity.link.clone();
    let update = UpdateDesk::open(&dir, &own, identity.update_key);
    let (spool, spooling) =
        writer::start(spool, moment, tell.clone()).map_err(WorkerError::Spool)?;

    // Ended with this function.
    let mut beside = JoinSet::new();
    beside.spawn(give_back_code());
    beside.spawn(session::keep(
        identity,
        dir.join("identity"),
        config.again(),
        blobs,
        tell.clone(),
        (current, Arc::clone(&peers)),
    ));
    let look_every = config.look_every();
    let book = Book::open(&dir, look_every.into(), config.record_limit);
    let shell = Shell {
        engine,
        policy,
        site,
        update,
        link,
        turned: Time(0),
        out: None,
        out_of_service: None,
        facts,
        shop: Arc::new(shop),
        peers,
        spool,
        spooling,
        given_back: GivenBackFile::below(&dir),
        tell,
        attempts: BTreeMap::new(),
        lookers: Arc::new(Semaphore::new(LOOKERS)),
        uplink: None,
        gauge,
        accounts: Arc::default(),
        up: UpTime::new(os::since_boot(), os::awake()),
        look_every,
        look_at: Instant::now(),
        day: OwnerDay::open(&dir, &config.notify, book.until()),
        book,
        awaited: OwedAnswer::NoMaster,
        lent: ReportedLoan::NoMaster,
        origin: os::awake(),
        left: None,
    };
    let result = Box::pin(shell.run(inputs, shutdown)).await;

    drop(traces);
    result
}

/// Gives back the memory of code that a start or a task has used, a minute after the start and then every ten.
async fn give_back_code() {
    tokio::time::sleep(START_USED).await;
    loop {
        os::give_back_code();
        tokio::time::sleep(GIVE_BACK_EVERY).await;
    }
}

/// Logs what this host is.
fn announce(facts: &HostFacts) {
    tracing::info!(
        name = facts.name,
        platform = %facts.platform,
        slots = facts.slots,
        processors = facts.cores,
        gpus = facts.gpus.len(),
        speed = %facts.speed,
        memory_mib = facts.memory_mib,
        "this host"
    );
}

/// Starts the sensors that watch for the owner, and the policy that decides on what they see.
fn watch_owner(
    site: &mut SiteKeeper,
    dir: &Path,
    room: &HostSize,
    tell: &UnboundedSender<LoopInput>,
) -> Result<Guard, WorkerError> {
    let config = site.own();
    let mut eyes = owner::eyes(config, dir);
    let named = eyes
        .iter()
        .map(|sensor| (sensor.name().to_owned(), sensor.topic()));
    let mut policy = Guard::new(config.owner.clone(), room, site.slots(), named, Time(0));

    // The switch in its own directory is read at once: where no other rule counts, this is the
    // decision that the master hears first.
    policy.saw(Time(0), OWN_SWITCH, eyes[OWN_SWITCH].sense());
    sensors::watch(0, eyes, site.timeouts(), tell)
        .map_err(WorkerError::file("cannot watch", dir))?;
    site.restrict(&mut policy, Time(0));

    Ok(policy)
}

/// Bounds the disk space of each of `slots` tasks; returns the bytes that the cache may take.
fn share_disk(config: &mut Config, dir: &Path, slots: u32) -> u64 {
    let disk = facts::disk_bytes(dir);
    let cache_bytes = config.owner.cache_bytes(config.cache_limit_bytes, disk);
    config.disk_limit_bytes = config
        .owner
        .task_bytes(config.disk_limit_bytes, disk, slots);
    tracing::info!(
        cache_bytes,
        task_bytes = config.disk_limit_bytes,
        "disk that the cache and each task may take"
    );
    cache_bytes
}

pub(crate) fn moment() -> HostMoment {
    static BOOT: std::sync::OnceLock<uuid::Uuid> = std::sync::OnceLock::new();
    // Where the system names no run of its own, moments of one run of the worker can be compared.
    let named = || os::boot_id().unwrap_or_else(link::identity::draw_run);
    HostMoment {
        boot: Some(*BOOT.get_or_init(named)),
        at: os::since_boot(),
    }
}

/// The answer that the master owes for recorded availability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwedAnswer {
    /// There is no master, or it does not know of records.
    NoMaster,
    /// No answer: more may be sent.
    Nothing,
    /// The answer `Kept` for the last batch.
    Kept,
}

/// The most words about progress in one message.
const WORDS: usize = 256;

/// A running attempt.
struct AttemptHandle {
    orders: UnboundedSender<AttemptOrder>,
    dir: PathBuf,
    live: Arc<LiveOutput>,
    /// The words of its program about its progress, as the master knows them.
    words: String,
}

struct Shell {
    engine: Engine,
    policy: Guard,
    site: SiteKeeper,
    /// The new program from the master, if there is one.
    update: UpdateDesk,
    link: LinkInfo,
    /// The time at which the connection was last made or lost.
    turned: Time,
    /// The reason why there is no connection, if known.
    out: Option<String>,
    /// The reason why the master gives it no new tasks, as last said over this connection.
    out_of_service: Option<String>,
    facts: HostFacts,
    shop: Arc<Workshop>,
    peers: Arc<InputPeers>,
    spool: threads::Sender<SpoolRequest>,
    spooling: SpoolThread,
    given_back: GivenBackFile,
    tell: UnboundedSender<LoopInput>,
    attempts: BTreeMap<AttemptId, AttemptHandle>,
    /// The turns of those who look at the output of attempts.
    lookers: Arc<Semaphore>,
    uplink: Option<(Uplink, Beats)>,
    gauge: Gauge,
    accounts: Arc<Mutex<Accounts>>,
    up: UpTime,
    /// The interval between looks at the load of the processors, over which it is averaged.
    look_every: Duration,
    /// The time of the next look.
    look_at: Instant,
    /// The recorded availability of the host.
    book: Book,
    /// The day for the owner.
    day: OwnerDay,
    /// Whether the master can be sent records.
    awaited: OwedAnswer,
    /// The end of the loan that the master was told.
    lent: ReportedLoan,
    /// The time that the host had been awake at the worker's start.
    origin: Span,
    /// The time since which nothing runs any more.
    left: Option<Instant>,
}

impl Shell {
    async fn run(
        mut self,
        mut inputs: UnboundedReceiver<LoopInput>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<WorkerEnd, WorkerError> {
        tokio::pin!(shutdown);
        let mut batch = Vec::new();
        let mut outputs = Vec::new();
        // The first poll takes the system's signals over: from then on an end is in order, and nobody finds this worker before.
        let mut asked = poll_fn(|cx| Poll::Ready(shutdown.as_mut().poll(cx).is_ready())).await;
        let mut leaving = false;

        self.decide(&mut outputs);
        while !self.may_end() {
            let wakeup = self.next_wakeup();
            tokio::select! {
                _ = inputs.recv_many(&mut batch, BATCH) => {}
                () = sleep_until(wakeup) => batch.push(MachineEvent::Tick.into()),
                () = &mut shutdown, if !asked => asked = true,
                () = next_beat(&mut self.uplink) => self.gather_progress(),
                () = sleep_until(Some(self.look_at)) => self.look_at_load(),
            }

            for input in batch.drain(..) {
                match input {
                    LoopInput::Spool(Spooled::Broken(error)) => {
                        return Err(WorkerError::Spool(error));
                    }
                    input => self.on_input(input, &mut outputs),
                }
            }

            self.decide(&mut outputs);
            if !leaving && (asked || self.makes_way()) {
                leaving = true;
                self.happen(MachineEvent::Shutdown, &mut outputs);
            }
            self.carry_out(&mut outputs);
            self.keep_time();
        }

        // Whoever asks while it leaves for a new program does not mean that program to start.
        let leaves = self.leaves_for_program(asked);
        let leave = self.leave();
        tokio::pin!(leave);
        tokio::select! {
            () = &mut leave => {}
            () = &mut shutdown, if !asked => {
                asked = true;
                leave.await;
            }
        }
        Ok(match leaves && !asked {
            true => WorkerEnd::NewProgram,
            false => WorkerEnd::Asked,
        })
    }

    /// Returns the time that this host was awake since the worker's start: tasks do not run while it
    /// sleeps, and the clocks of some systems go on.
    fn now(&self) -> Time {
        Time(os::awake().0.saturating_sub(self.origin.0))
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let next = self
            .engine
            .next_wakeup()
            .into_iter()
            .chain(self.policy.next_wakeup())
            .min();
        let next = next.map(|at| Instant::now() + Duration::from(at.since(self.now())));
        next.into_iter()
            .chain(self.left.map(|left| left + LAST_DELIVERY))
            .chain(self.update.wakeup())
            .min()
    }

    /// Whether nothing runs any more, and finished results are delivered, or cannot be for now.
    fn may_end(&self) -> bool {
        let patient = |left: Instant| left.elapsed() < LAST_DELIVERY;
        self.left.is_some_and(|left| {
            self.uplink.is_none() || self.engine.ended().next().is_none() || !patient(left)
        })
    }

    async fn leave(self) {
        if let Some((uplink, _)) = &self.uplink {
            uplink.say(ToMaster::Leaving);
            let _ = tokio::time::timeout(LAST_DELIVERY, uplink.closed()).await;
            uplink.close().await;
        }

        let book = self.book.clone();
        let day = self.day;
        let owes = self.engine.owes();
        let given_back = self.given_back;
        let _ = tokio::time::timeout(
            LAST_DELIVERY,
            tokio::task::spawn_blocking(move || {
                given_back.write(&owes);
                book.close();
                day.close();
            }),
        )
        .await;

        drop(self.spool);
        self.spooling.finish().await;

        tracing::info!("the worker has left; nothing of its tasks is left");
    }

    fn on_input(&mut self, input: LoopInput, outputs: &mut Vec<EngineOutput>) {
        match input {
            LoopInput::Machine(event) => self.happen(event, outputs),
            LoopInput::Session(session) => self.on_session(session, outputs),
            LoopInput::Spool(spooled) => self.tell(Told::Spooled(spooled), outputs),
            LoopInput::Sighted(Sighted { sensor, sight }) => {
                self.policy.saw(self.now(), sensor, sight);
                // Later inputs must find the new decision: a task is not started between two key
                // presses.
                self.decide(outputs);
            }
            LoopInput::Asked(ControlQuestion { switch, answer }) => {
                if let Some(sight) = switch {
                    self.policy.saw(self.now(), OWN_SWITCH, sight);
                    self.decide(outputs);
                }
                // The asker may have gone.
                let _ = answer.send(Ok(self.report()));
            }
            LoopInput::Load(load) => {
                load.into_iter().for_each(|load| self.gauge.look(load));
                self.day.looked(load, self.look_every);
                let owner = self.engine.machine().owner();
                let slots = self.facts.slots;
                let usable = owner.slots(slots) as f32 / slots.max(1) as f32;
                let look = Look {
                    at: wall_clock(),
                    owner,
                    cpu: usable * self.gauge.share(),
                };
                self.book.look(look, &self.tell);
            }
            LoopInput::SiteKept(kept) => self.answer_site(kept),
            LoopInput::Program(news) => self.on_program(news),
            LoopInput::Recorded(DueIntervals(due)) => {
                if let (Some((last, stretches)), OwedAnswer::Nothing) = (due, self.awaited) {
                    self.awaited = OwedAnswer::Kept;
                    self.say(ToMaster::Recorded { last, stretches });
                }
            }
            LoopInput::Beat(progress) => {
                let parts = progress.iter().filter_map(|(id, of)| Some((*id, of.part?)));
                self.happen(MachineEvent::Progress(parts.collect()), outputs);
                self.beat();
                self.pass_words_on(progress);
            }
        }
    }

    fn happen(&mut self, event: MachineEvent, outputs: &mut Vec<EngineOutput>) {
        if let MachineEvent::Ended(id, _) = &event {
            self.attempts.remove(id);
        }
        self.tell(Told::Happened(event), outputs);
    }

    fn tell(&mut self, told: Told, outputs: &mut Vec<EngineOutput>) {
        self.engine.step(self.now(), told, outputs);
    }

    /// Applies the owner's policy to the tasks.
    fn decide(&mut self, outputs: &mut Vec<EngineOutput>) {
        let now = self.now();
        let decision = self.policy.decide(now, hour::now());
        self.day.decided(decision, self.facts.slots);
        // The master must know of the loan before anything may start here.
        self.lend(now);
        if decision != self.engine.machine().decision() {
            tracing::info!(
                why = self.policy.why().first().map(|finding| &*finding.says),
                "{decision}"
            );
            self.happen(MachineEvent::Decided(decision), outputs);
        }
        self.peers.lend(decision.slots(self.facts.slots) > 0);
    }

    fn on_session(&mut self, session: SessionEvent, outputs: &mut Vec<EngineOutput>) {
        match session {
            SessionEvent::Greet(answer) => {
                let status = self.status();
                let _ = answer.send(self.engine.hello(self.now(), self.facts.clone(), status));
            }
            SessionEvent::Up(uplink, heartbeat) => {
                // Earlier outputs are not for this connection.
                self.carry_out(outputs);
                self.turned = self.now();
                self.out = None;
                self.shop.keep_farewell(uplink.farewell());
                self.uplink = Some((uplink, Beats::of(heartbeat)));

                for handle in self.attempts.values_mut() {
                    handle.words.clear();
                }
                self.tell(Told::Up, outputs);
            }
            SessionEvent::Said(message) => self.on_message(message, outputs),
            SessionEvent::Settings(settings, looked) => {
                self.take_site(settings);
                drop(looked);
            }
            SessionEvent::Down => {
                self.turned = self.now();
                self.uplink = None;
                self.out_of_service = None;
                self.awaited = OwedAnswer::NoMaster;
                self.lent = ReportedLoan::NoMaster;
                self.peers.forget_tickets();
                self.tell(Told::Down, outputs);
            }
            SessionEvent::Out(why) => self.out = Some(why),
        }
    }

    fn on_message(&mut self, message: ToWorker, outputs: &mut Vec<EngineOutput>) {
        match &message {
            ToWorker::Welcome { version, .. } => {
                self.say_site(*version);
                self.has_come_up(*version);
                self.lent = ReportedLoan::Untold;
                self.awaited = OwedAnswer::Nothing;
                self.book.ask(&self.tell);
            }
            ToWorker::Goodbye => tracing::info!("the master goes away for a while"),
            ToWorker::Kept { last } => {
                self.awaited = OwedAnswer::Nothing;
                self.book.acknowledged(*last, &self.tell);
            }
            ToWorker::Tail(order) => return self.show(*order),
            ToWorker::OutOfService(why) => {
                match why {
                    Some(why) => tracing::info!(%why, "the master gives this host no new tasks"),
                    None => tracing::info!("the master gives this host tasks again"),
                }
                self.out_of_service = why.clone();
            }
            ToWorker::Update(update) => return self.offered((**update).clone()),
            ToWorker::Serve(ticket) => return self.peers.expect(ticket.clone()),
            ToWorker::Unserve(numbers) => return self.peers.take_back(numbers),
            _ => {}
        }

        self.tell(Told::Said(message), outputs);
    }

    /// Shows the output of an attempt to whoever looks at it. An attempt that is not here any more
    /// has delivered, or is about to.
    fn show(&self, order: TailOrder) {
        let TailOrder {
            attempt,
            stream,
            from,
            ticket,
        } = order;
        let Some((uplink, _)) = &self.uplink else {
            return;
        };

        let connection = uplink.connection().clone();
        let live = self.attempts.get(&attempt).map(|of| of.live.stream(stream));
        let lookers = Arc::clone(&self.lookers);
        tokio::spawn(async move {
            let shown = live::show(live, &lookers, connection, (ticket, from));
            if let Err(error) = shown.await {
                tracing::debug!(%attempt, %error, "its output cannot be shown");
            }
        });
    }

    fn ask_spool(&self, request: SpoolRequest) {
        // A spool that is gone has said so: the loop is about to end.
        let _ = self.spool.send(request);
    }

    fn say(&self, message: ToMaster) {
        if let Some((uplink, _)) = &self.uplink {
            uplink.say(message);
        }
    }

    fn carry_out(&mut self, outputs: &mut Vec<EngineOutput>) {
        let mut finished = Vec::new();
        for output in outputs.drain(..) {
            self.day.on_output(&output);
            match output {
                EngineOutput::Act(action) => self.act(action),
                EngineOutput::Say(message) => self.say(message),
                EngineOutput::Keep(completion) => finished.push(completion),
                EngineOutput::Deliver(deliveries) => {
                    if let Some((uplink, _)) = &self.uplink {
                        uplink.deliver(deliveries);
                    }
                }
                EngineOutput::Forget(attempts) => {
                    // These completions may be among those that have just finished.
                    self.keep(&mut finished);
                    self.ask_spool(SpoolRequest::Forget(attempts));
                }
                EngineOutput::Read(attempts) => self.ask_spool(SpoolRequest::Read(attempts)),
            }
        }

        self.keep(&mut finished);
    }

    /// Requests that completions are made durable.
    fn keep(&self, finished: &mut Vec<Completion>) {
        if !finished.is_empty() {
            let completions = std::mem::take(finished);
            self.ask_spool(SpoolRequest::Append {
                completions,
                more: self.engine.has_queued(),
            });
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Stage(id, command) => {
                let (orders, inbox) = unbounded_channel();
                let dir = self.shop.next_dir(id);
                let live = Arc::new(LiveOutput::of(&dir));
                self.attempts.insert(
                    id,
                    AttemptHandle {
                        orders,
                        dir: dir.clone(),
                        live: Arc::clone(&live),
                        words: String::new(),
                    },
                );

                let shop = Arc::clone(&self.shop);
                let tell = self.tell.clone();
                tokio::spawn(shop.attempt(id, command, dir, live, inbox, tell));
            }
            Action::Start(id) => self.order(id, AttemptOrder::Start),
            Action::Freeze(id) => self.order(id, AttemptOrder::Tree(ProcessOrder::Freeze)),
            Action::Thaw(id) => self.order(id, AttemptOrder::Tree(ProcessOrder::Thaw)),
            Action::Terminate(id) => self.order(id, AttemptOrder::Tree(ProcessOrder::Terminate)),
            Action::Kill(id) => self.order(id, AttemptOrder::Tree(ProcessOrder::Kill)),
            Action::Save(id) => self.order(id, AttemptOrder::Save),
            Action::Measure(id) => self.order(id, AttemptOrder::Measure),
            Action::Relieved(_) => {
                self.policy.relieve(self.now());
                // This turn of the loop has decided already: the next one comes at once.
                let _ = self.tell.send(MachineEvent::Tick.into());
            }
            Action::Drop(id) => self.order(id, AttemptOrder::Drop),
            Action::Discard(ending) => self.shop.discard(&ending),
            Action::Left => {
                self.left.get_or_insert_with(Instant::now);
            }
            // The engine turns these into `EngineOutput::Say`, `EngineOutput::Keep` and `EngineOutput::Forget`;
            // `Action::Spent` comes here as well, for the day.
            Action::Spool(_) | Action::Forget(_) | Action::Saving(..) => {}
            Action::Return(..)
            | Action::Spent(_)
            | Action::Weighed(..)
            | Action::Report(_)
            | Action::Owner(_)
            | Action::Closing => {}
        }
    }

    fn order(&self, id: AttemptId, order: AttemptOrder) {
        if let Some(handle) = self.attempts.get(&id) {
            // An attempt that has just ended takes no orders; its last event is on its way.
            let _ = handle.orders.send(order);
        }
    }

    /// Reads the progress of the running programs, then sends a heartbeat.
    fn gather_progress(&mut self) {
        let dirs: Vec<(AttemptId, PathBuf)> = self
            .engine
            .machine()
            .running()
            .filter_map(|id| Some((id, self.attempts.get(&id)?.dir.clone())))
            .collect();
        if dirs.is_empty() {
            return self.beat();
        }

        let tell = self.tell.clone();
        tokio::task::spawn_blocking(move || {
            let progress = dirs
                .into_iter()
                .filter_map(|(id, dir)| Some((id, read_progress(&dir)?)))
                .collect();
            let _ = tell.send(LoopInput::Beat(progress));
        });
    }

    /// Tells the master what programs say of their progress, where that has changed.
    fn pass_words_on(&mut self, progress: Vec<(AttemptId, ProgressReport)>) {
        let mut news = Vec::new();
        for (id, ProgressReport { words, .. }) in progress {
            let Some(handle) = self.attempts.get_mut(&id) else {
                continue;
            };
            if handle.words != words {
                handle.words.clone_from(&words);
                news.push((id, words));
            }
        }
        for some in news.chunks(WORDS) {
            self.say(ToMaster::Words(some.to_vec()));
        }
    }

    fn beat(&mut self) {
        self.open_eyes();
        if let Some((uplink, _)) = &self.uplink {
            // A connection that has moved to another address has other tokens.
            self.shop.keep_farewell(uplink.farewell());
        }
        let status = self.status();
        let beat = self.engine.heartbeat(self.now(), status);
        self.say(beat);
    }

    /// Returns the present status of the host.
    fn status(&mut self) -> Status {
        let up_for = self.up.look(os::since_boot(), os::awake());
        let machine = self.engine.machine();
        let owner = machine.owner();
        let owner_for = machine.owner_for(self.now());
        Status {
            owner,
            cpu: self.gauge.share(),
            up_for,
            owner_for,
        }
    }

    /// Adapts the interval of heartbeats to the held attempts, and counts those for the owner.
    fn keep_time(&mut self) {
        let counts = self.engine.machine().running_and_suspended();
        self.day.count(self.now(), counts);
        let wanted = self
            .engine
            .report_every()
            .map(|every| Duration::from(every).max(SHORTEST_BEAT));
        if let Some((uplink, beats)) = &mut self.uplink {
            let idle = self.engine.machine().holds_nothing();
            uplink.alive.set_busy(!idle);
            // Only a wish of the master's makes heartbeats rarer than it configured them.
            let idle_every = Some(uplink.alive.every())
                .filter(|every| idle && *every > Duration::from(BUSY_EVERY));
            beats.keep(wanted, idle_every, Instant::now());
        }
    }

    /// Reads the load of the processors on another thread.
    fn look_at_load(&mut self) {
        self.look_at = Instant::now() + self.look_every;
        let tell = self.tell.clone();
        let accounts = Arc::clone(&self.accounts);
        tokio::task::spawn_blocking(move || {
            let load = accounts
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .look();
            drop(tell.send(LoopInput::Load(load)));
        });
    }
}

pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
