//! A PC of the simulated world: around the worker's real engine and spool its disk, its clock, its
//! tasks, its owner and its connection. What is not here: any decision of the worker's.

use std::collections::{BTreeMap, BTreeSet};

use ::worker::engine::{
    Action, AttemptEnding, Decision, Engine, EngineInput, EngineOutput, HostMoment, MachineEvent,
    Medium, Shelf, SpoolRequest, Spooled,
};
use common::host::{Confinement, HostFacts, Status, YieldReason};
use common::needs::Capacity;
use common::token::JoinToken;
use common::wire::worker::{Delivery, ToMaster, ToWorker};
use common::{AttemptId, BlobRef, Span, Speed, Time};
use uuid::Uuid;

use super::chance::Chance;
use super::contents::Shelves;
use super::disk;
use super::net::{self, End, Frame, Packet};
use super::tasks::{Next, Task};
use super::world::{What, World};

/// How long the master may take to answer a greeting.
const WELCOME: Span = Span::from_secs(10);
/// What the spool's log is called on the disk.
const LOG: &str = "log";

/// Who the worker is to the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    id: Uuid,
    key: [u8; 32],
}

/// A PC.
#[derive(Debug)]
pub(super) struct Node {
    /// Its disk's name.
    disk: String,
    contents: Shelves,
    /// With which it connects, once it has one.
    pub(super) identity: Option<Identity>,
    /// Whether it lies.
    pub(super) liar: bool,
    facts: HostFacts,
    /// The running worker.
    pub(super) process: Option<Process>,
    /// Counts the worker's runs: what was planned for an earlier one is void.
    pub(super) run: u64,
    /// Until when it sleeps, and for how long it has.
    pub(super) asleep: Time,
    slept: Span,
    boot: u64,
    owner: Decision,
}

/// A running worker.
#[derive(Debug)]
pub(super) struct Process {
    engine: Engine,
    shelf: Shelf<Shelves>,
    /// The connection that it has, or makes, and whether it was let in.
    connection: Option<(u64, bool)>,
    tasks: BTreeMap<AttemptId, Task>,
    uploads: Vec<(Delivery, BTreeSet<BlobRef>)>,
    backoff: Span,
    working: bool,
    wakeup: Option<Time>,
    leaving: bool,
}

/// The spool's log on a simulated disk.
#[derive(Debug)]
struct Log(String);

impl Log {
    fn done(result: Result<(), disk::Refused>) -> std::io::Result<()> {
        result.map_err(disk::Refused::error)
    }
}

impl Medium for Log {
    fn read(&self) -> std::io::Result<Vec<u8>> {
        disk::on(&self.0, |disk| {
            Self::done(disk.create(LOG))?;
            Ok(disk.bytes(LOG).unwrap_or_default().to_vec())
        })
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        disk::on(&self.0, |disk| {
            let there = disk
                .bytes(LOG)
                .and_then(|all| all.get(offset as usize..)?.get(..bytes.len()));
            bytes.copy_from_slice(there.ok_or(std::io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        Self::done(disk::on(&self.0, |disk| {
            disk.write(LOG, offset as usize, bytes)
        }))
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        Self::done(disk::on(&self.0, |disk| disk.cut(LOG, length as usize)))
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Self::done(disk::on(&self.0, |disk| disk.sync(LOG)))
    }

    fn replace(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        Self::done(disk::on(&self.0, |disk| disk.replace(LOG, bytes)))
    }
}

impl Node {
    /// A PC on which no worker runs yet.
    pub(super) fn new(number: usize, liar: bool, chance: &mut Chance) -> Self {
        let facts = HostFacts {
            name: format!("worker-{number}"),
            slots: chance.between(1, 3) as u32,
            speed: Speed::REFERENCE,
            clock_mhz: 1_500,
            cores: 4,
            memory_mib: 4_096,
            confinement: Confinement::Process,
            confinement_most: Confinement::Process,
            network: true,
            lends: Capacity {
                cores: 4,
                memory_mib: 4_096,
                gpus: 1,
            },
            task_memory_mib: 4_096,
            ..HostFacts::unknown(String::new())
        };

        let disk = format!("worker-{number}");
        disk::insert(&disk);
        Self {
            disk,
            contents: Shelves::default(),
            identity: None,
            liar,
            facts,
            process: None,
            run: 0,
            asleep: Time(0),
            slept: Span::ZERO,
            boot: 1,
            owner: Decision::Run,
        }
    }

    /// The name of its disk.
    pub(super) fn disk(&self) -> &str {
        &self.disk
    }

    /// Its clock, which stands still while it sleeps.
    fn clock(&self, now: Time) -> Time {
        Time(now.max(self.asleep).0 - self.slept.0)
    }

    fn moment(&self, now: Time) -> HostMoment {
        HostMoment {
            boot: Some(Uuid::from_u128(u128::from(self.boot))),
            at: now,
        }
    }

    fn status(&self) -> Status {
        self.owner.owner(self.facts.slots).into()
    }

    /// Its connection, if the master has let it in.
    pub(super) fn welcome(&self) -> Option<u64> {
        self.process
            .as_ref()?
            .connection
            .filter(|(_, welcome)| *welcome)
            .map(|(number, _)| number)
    }

    /// Whether nothing waits here to be acknowledged.
    pub(super) fn has_delivered_all(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| process.engine.ended().next().is_none())
    }

    /// Whether nothing runs or stands still here.
    pub(super) fn is_idle(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| process.tasks.is_empty())
    }

    /// Why it runs more than it has slots for, if it does.
    fn overfull(&self) -> Option<String> {
        let running = self
            .process
            .iter()
            .flat_map(|process| &process.tasks)
            .filter(|(_, task)| task.runs());
        let running: Vec<String> = running.map(|(id, _)| id.to_string()).collect();
        let full = running.len() > self.facts.slots as usize;

        full.then(|| {
            format!(
                "{} has {} slots, and runs {}",
                self.facts.name,
                self.facts.slots,
                running.join(", ")
            )
        })
    }

    /// It sleeps for so long.
    pub(super) fn sleep(&mut self, now: Time, span: Span) {
        self.asleep = self.asleep.max(now) + span;
        self.slept = self.slept + span;
    }
}

impl World {
    /// Starts the worker on what its disk has.
    pub(super) fn start_worker(&mut self, w: usize) -> Result<(), String> {
        let laws = self.laws.worker;
        let node = &mut self.workers[w];
        if node.process.is_some() {
            return Ok(());
        }

        node.run += 1;
        disk::on(&node.disk, disk::Disk::revive);

        let shelf = match Shelf::open(Box::new(Log(node.disk.clone())), node.contents.clone()) {
            Ok(shelf) => shelf,
            Err(error) => {
                self.story.tell(
                    self.now,
                    format_args!("worker-{w}"),
                    format_args!("does not start: {error}"),
                );
                self.later(Span::from_secs(5), What::StartWorker(w));
                return Ok(());
            }
        };

        let patience = self
            .chance
            .one_in(3)
            .then(|| Span::from_secs(self.chance.between(20, 300)));
        let engine = Engine::new(
            node.facts.slots as usize,
            Span::from_secs(5),
            patience,
            shelf.ids().iter().copied(),
            laws,
        )
        .lending(node.facts.lends);

        let spooled = shelf.ids().len();
        node.process = Some(Process {
            engine,
            shelf,
            connection: None,
            tasks: BTreeMap::new(),
            uploads: Vec::new(),
            backoff: Span::from_millis(200),
            working: false,
            wakeup: None,
            leaving: false,
        });

        let owner = node.owner;
        self.story.tell(
            self.now,
            format_args!("worker-{w}"),
            format_args!("starts with {spooled} completions"),
        );
        self.tell_worker(w, EngineInput::Happened(MachineEvent::Decided(owner)))?;
        self.dial(w);

        Ok(())
    }

    /// The worker's process is gone, or its machine.
    pub(super) fn end_worker(&mut self, w: usize, power: bool, why: &str) {
        let node = &mut self.workers[w];
        let Some(process) = node.process.take() else {
            return;
        };
        node.run += 1;
        if self.audit.on_worker_gone(w) {
            self.story.count("delivered results lost with a full disk");
        }
        disk::on(&node.disk, disk::Disk::kill);

        if power {
            node.boot += 1;
            disk::on(&node.disk, |disk| disk.lose_power(&mut self.chance));
        }

        if let Some((connection, _)) = process.connection {
            self.net.close(connection, End::Worker);
        }

        self.story.count(if power {
            "workers without power"
        } else {
            "workers killed"
        });
        self.story.tell(
            self.now,
            format_args!("worker-{w}"),
            format_args!("is gone ({why}, power lost: {power})"),
        );

        let pause = Span::from_millis(self.chance.between(100, 90_000));
        self.later(pause, What::StartWorker(w));
    }

    /// Begins a connection.
    pub(super) fn dial(&mut self, w: usize) {
        let now = self.now;
        let node = &mut self.workers[w];
        let (Some(process), run) = (&mut node.process, node.run) else {
            return;
        };
        if process.connection.is_some() || process.leaving {
            return;
        }

        let Some(identity) = node.identity.clone() else {
            return self.later(Span::from_secs(2), What::Dial(w, run));
        };
        let connection = self.net.connect(w, now);
        process.connection = Some((connection, false));

        let clock = Time(now.max(node.asleep).0 - node.slept.0);
        let hello = process.engine.hello(
            clock,
            node.facts.clone(),
            node.owner.owner(node.facts.slots).into(),
        );
        let held = if let ToMaster::Hello { held, .. } = &hello {
            held.len()
        } else {
            0
        };
        self.story.tell(
            now,
            format_args!("worker-{w}"),
            format_args!("connects as #{connection}, holding {held}"),
        );
        self.push(
            connection,
            End::Master,
            Frame::Open(identity.id, identity.key),
        );
        self.say(w, &hello);

        self.later(WELCOME, What::NoWelcome(w, connection));
    }

    /// The connection is gone.
    pub(super) fn hang_up(&mut self, w: usize, why: &str) -> Result<(), String> {
        let Some(process) = &mut self.workers[w].process else {
            return Ok(());
        };
        let Some((connection, welcome)) = process.connection.take() else {
            return Ok(());
        };
        process.uploads.clear();

        let wait = Span(self.chance.below(process.backoff.0) + 1_000);
        process.backoff = (process.backoff + process.backoff).min(Span::from_secs(20));
        if welcome {
            process.backoff = Span::from_millis(200);
        }

        let run = self.workers[w].run;
        self.push(connection, End::Master, Frame::Close(false));
        self.net.close(connection, End::Worker);
        self.story.tell(
            self.now,
            format_args!("worker-{w}"),
            format_args!("has lost #{connection}: {why}"),
        );
        self.later(wait, What::Dial(w, run));

        if welcome {
            self.tell_worker(w, EngineInput::Down)
        } else {
            Ok(())
        }
    }

    /// A greeting was not answered in time.
    pub(super) fn on_no_welcome(&mut self, w: usize, connection: u64) -> Result<(), String> {
        let process = self.workers[w].process.as_ref();
        match process.and_then(|process| process.connection) {
            Some((present, false)) if present == connection => self.hang_up(w, "no welcome"),
            _ => Ok(()),
        }
    }

    /// Says something to the master on the present connection.
    fn say(&mut self, w: usize, message: &ToMaster) {
        let connection = self.workers[w]
            .process
            .as_ref()
            .and_then(|process| process.connection);
        let Some((connection, _)) = connection else {
            return;
        };
        if let Err(why) = self.audit.on_said(w, message) {
            self.broken.get_or_insert(why);
        }
        self.push(connection, End::Master, net::to_master(message));
    }

    /// Frames have arrived at the worker.
    pub(super) fn on_worker_frames(
        &mut self,
        w: usize,
        connection: u64,
        frames: Vec<Frame>,
    ) -> Result<(), String> {
        for frame in frames {
            let present = self.workers[w]
                .process
                .as_ref()
                .and_then(|process| process.connection);
            if present.is_none_or(|(number, _)| number != connection) {
                return Ok(());
            }

            match frame {
                Frame::Open(..) => {}
                Frame::Close(refused) => {
                    if refused {
                        self.story.tell(
                            self.now,
                            format_args!("worker-{w}"),
                            format_args!("is not let in any more"),
                        );
                        self.workers[w].identity = None;
                        self.later(Span::from_secs(3), What::WantToken(w));
                    }
                    self.hang_up(w, "closed by the master")?;
                }
                Frame::Word(bytes) => {
                    let message: ToWorker = net::read(&bytes)?;
                    self.on_worker_hears(w, connection, message)?;
                }
            }
        }

        Ok(())
    }

    fn on_worker_hears(
        &mut self,
        w: usize,
        connection: u64,
        message: ToWorker,
    ) -> Result<(), String> {
        self.audit.on_told(w, &message);
        if let ToWorker::Welcome { heartbeat, .. } = &message {
            let run = self.workers[w].run;
            if let Some(process) = &mut self.workers[w].process {
                process.connection = Some((connection, true));
            }
            self.later(*heartbeat, What::Beat(w, run, connection, *heartbeat));
            self.tell_worker(w, EngineInput::Up)?;
        }

        self.tell_worker(w, EngineInput::Said(message))
    }

    /// It is time for a heartbeat.
    pub(super) fn beat(&mut self, w: usize, connection: u64, every: Span) {
        let node = &mut self.workers[w];
        if node.welcome() != Some(connection) {
            return;
        }
        let clock = node.clock(self.now);
        let status = node.status();
        let Some(process) = &mut node.process else {
            return;
        };
        let message = process.engine.heartbeat(clock, status);
        self.say(w, &message);
        self.later(every, What::Beat(w, self.workers[w].run, connection, every));
    }

    /// Gives the worker an input, and has done what comes of it.
    pub(super) fn tell_worker(&mut self, w: usize, input: EngineInput) -> Result<(), String> {
        let clock = self.workers[w].clock(self.now);
        let Some(process) = &mut self.workers[w].process else {
            return Ok(());
        };
        let mut outputs = Vec::new();
        process.engine.step(clock, input, &mut outputs);

        let mut finished = Vec::new();
        for output in outputs {
            match output {
                EngineOutput::Act(action) => self.act(w, &action),
                EngineOutput::Say(message) => {
                    if self.workers[w].welcome().is_some() {
                        self.say(w, &message);
                    }
                }
                EngineOutput::Keep(completion) => finished.push(completion),
                EngineOutput::Deliver(deliveries) => self.deliver(w, deliveries),
                EngineOutput::Forget(attempts) => {
                    self.audit.on_dropped(w, &attempts);
                    self.keep(w, &mut finished);
                    self.ask_spool(w, SpoolRequest::Forget(attempts));
                }
                EngineOutput::Read(attempts) => self.ask_spool(w, SpoolRequest::Read(attempts)),
            }
        }

        self.keep(w, &mut finished);
        self.plan_wakeup(w);
        self.workers[w].overfull().map_or(Ok(()), Err)
    }

    fn keep(&mut self, w: usize, finished: &mut Vec<common::Completion>) {
        if !finished.is_empty() {
            self.ask_spool(
                w,
                SpoolRequest::Append {
                    completions: std::mem::take(finished),
                    more: false,
                },
            );
        }
    }

    fn plan_wakeup(&mut self, w: usize) {
        let now = self.now;
        let node = &mut self.workers[w];
        let slept = node.slept;
        let run = node.run;
        let Some(process) = &mut node.process else {
            return;
        };

        let next = process
            .engine
            .next_wakeup()
            .map(|at| (at + slept).max(now + Span(1_000)));
        if next.is_some() && next != process.wakeup {
            process.wakeup = next;
            let wait = next.map_or(Span::ZERO, |at| at.since(now));
            self.later(wait, What::WorkerTick(w, run));
        }
    }

    /// The time has come that the machine named, or it was another one by now.
    pub(super) fn on_worker_tick(&mut self, w: usize) -> Result<(), String> {
        if let Some(process) = &mut self.workers[w].process {
            process.wakeup = None;
        }
        self.tell_worker(w, EngineInput::Happened(MachineEvent::Tick))
    }

    fn ask_spool(&mut self, w: usize, request: SpoolRequest) {
        let run = self.workers[w].run;
        let Some(process) = &mut self.workers[w].process else {
            return;
        };
        process.shelf.take(request);
        if !std::mem::replace(&mut process.working, true) {
            let takes = Span::from_millis(self.chance.between(1, 30));
            self.later(takes, What::Spool(w, run));
        }
    }

    /// The spool does what it was asked.
    pub(super) fn work_spool(&mut self, w: usize) -> Result<(), String> {
        let node = &mut self.workers[w];
        let moment = node.moment(self.now);
        let run = node.run;
        let Some(process) = &mut node.process else {
            return Ok(());
        };
        process.working = false;

        let mut said: Vec<Spooled> = Vec::new();
        let done = process
            .shelf
            .work(moment, &mut |spooled| said.push(spooled));
        if process.shelf.waiting() {
            process.working = true;
            self.story.count("full disks of workers");
            self.later(Span::from_secs(1), What::Spool(w, run));
        } else if done.is_ok() {
            self.audit.on_saved(w);
        }

        if let Err(error) = done {
            let power =
                disk::on(&self.workers[w].disk, |disk| disk.is_dead()) && self.chance.one_in(2);
            self.end_worker(w, power, &format!("its spool: {error}"));
            return Ok(());
        }

        for spooled in said {
            match &spooled {
                Spooled::Durable(deliveries) => self.audit.on_spooled(w, deliveries),
                Spooled::Unsaved(deliveries) => self.audit.on_unsaved(w, deliveries),
                _ => {}
            }
            self.tell_worker(w, EngineInput::Spooled(spooled))?;
        }

        Ok(())
    }

    /// Sends completions, those with content after it.
    fn deliver(&mut self, w: usize, deliveries: Vec<Delivery>) {
        let Some(connection) = self.workers[w].welcome() else {
            return;
        };
        let (heavy, light): (Vec<_>, Vec<_>) = deliveries
            .into_iter()
            .partition(|delivery| delivery.completion.blobs().next().is_some());
        if !light.is_empty() {
            self.story.tell(
                self.now,
                format_args!("worker-{w}"),
                format_args!("delivers {}", named(&light)),
            );
            self.say(w, &ToMaster::Delivered(light));
        }

        for delivery in heavy {
            let missing: BTreeSet<BlobRef> = delivery.completion.blobs().collect();
            if let Some(process) = &mut self.workers[w].process {
                process.uploads.push((delivery, missing));
            }
        }

        self.upload(w, connection);
    }

    /// Sends the content that the master has not confirmed.
    pub(super) fn upload(&mut self, w: usize, connection: u64) {
        let node = &self.workers[w];
        if node.welcome() != Some(connection) {
            return;
        }

        let Some(process) = &node.process else { return };
        let missing: BTreeSet<BlobRef> = process
            .uploads
            .iter()
            .flat_map(|(_, blobs)| blobs.iter().copied())
            .collect();
        let here: Vec<BlobRef> = missing
            .iter()
            .filter(|blob| process.shelf.has(blob))
            .copied()
            .collect();
        for blob in &here {
            self.send(w, End::Master, &Packet::Put(connection, *blob));
        }
        if !here.is_empty() {
            self.later(Span::from_secs(2), What::Upload(w, connection));
        }
    }

    /// The master has some content.
    pub(super) fn on_stored(&mut self, w: usize, connection: u64, blob: BlobRef) {
        if self.workers[w].welcome() != Some(connection) {
            return;
        }

        let Some(process) = &mut self.workers[w].process else {
            return;
        };
        for (_, missing) in &mut process.uploads {
            missing.remove(&blob);
        }

        let whole: Vec<_> = process
            .uploads
            .extract_if(.., |(_, missing)| missing.is_empty())
            .collect();
        for (delivery, _) in whole {
            let delivered = vec![delivery];
            self.story.tell(
                self.now,
                format_args!("worker-{w}"),
                format_args!("delivers {}", named(&delivered)),
            );
            self.say(w, &ToMaster::Delivered(delivered));
        }
    }

    fn act(&mut self, w: usize, action: &Action) {
        let now = self.now;
        let node = &mut self.workers[w];
        let Some(process) = &mut node.process else {
            return;
        };
        let mut task = |id: &AttemptId, act: &mut dyn FnMut(&mut Task) -> Option<(Next, Span)>| {
            let planned = process.tasks.get_mut(id).and_then(|task| {
                task.plan += 1;
                let (next, wait) = act(task)?;
                Some((next, wait, task.plan))
            });
            planned.map(|(next, wait, plan)| (*id, next, wait, plan))
        };

        let soon = Span::from_millis(self.chance.between(1, 400));
        let planned = match action {
            Action::Stage(id, command) => {
                let task = Task::new(command, &mut self.chance);
                process.tasks.insert(*id, task);
                let next = if self.chance.one_in(25) {
                    Next::NotStaged
                } else {
                    Next::Staged
                };
                Some((*id, next, soon, 0))
            }
            Action::Start(id) => {
                self.story.tell(
                    now,
                    format_args!("worker-{w}"),
                    format_args!("starts {id} (incarnation {})", id.incarnation),
                );
                if let Err(why) = self.audit.on_started(w, *id) {
                    self.broken.get_or_insert(why);
                }
                task(id, &mut |task| {
                    task.started = true;
                    Some((Next::Exited, task.go(now)))
                })
            }
            Action::Freeze(id) => task(id, &mut |task| {
                task.halt(now);
                None
            }),
            Action::Thaw(id) => task(id, &mut |task| Some((Next::Exited, task.go(now)))),
            Action::Terminate(id) if self.chance.one_in(2) => task(id, &mut |task| {
                task.signal.get_or_insert(15);
                Some((Next::Exited, soon))
            }),
            Action::Kill(id) => task(id, &mut |task| {
                task.signal = Some(9);
                Some((Next::Exited, soon))
            }),
            Action::Drop(id) => task(id, &mut |task| {
                task.doomed = true;
                Some((Next::Gone, soon))
            }),
            Action::Discard(ending) => {
                process
                    .shelf
                    .release(ending.outputs.iter().map(|file| file.blob));
                None
            }
            Action::Left => {
                process.leaving = true;
                None
            }
            _ => None,
        };

        if let Some((id, next, wait, plan)) = planned {
            let run = self.workers[w].run;
            self.later(wait, What::Task(w, run, id, next, plan));
        }
    }

    /// What was planned for a task happens, unless something else was planned since.
    pub(super) fn on_task(
        &mut self,
        w: usize,
        id: AttemptId,
        next: Next,
        plan: u64,
    ) -> Result<(), String> {
        let now = self.now;
        let run = self.workers[w].run;
        let node = &mut self.workers[w];
        let liar = node.liar;
        let Some(process) = &mut node.process else {
            return Ok(());
        };
        let Some(task) = process.tasks.get_mut(&id).filter(|task| task.plan == plan) else {
            return Ok(());
        };

        let event = match next {
            Next::Staged => {
                self.audit.on_staged(id);
                MachineEvent::Staged(id)
            }
            Next::NotStaged => {
                process.tasks.remove(&id);
                let ending = AttemptEnding::bare(common::Outcome::NotStarted(
                    "its input is not to be had".to_owned(),
                ));
                MachineEvent::Ended(id, Box::new(ending))
            }
            Next::Exited => {
                task.halt(now);
                task.plan += 1;
                let wait = Span::from_millis(self.chance.between(1, 200));
                let plan = task.plan;
                self.later(wait, What::Task(w, run, id, Next::Collected, plan));
                MachineEvent::Exited(id)
            }
            Next::Collected => {
                let lies = liar && self.chance.one_in(2);
                let ending = task.ending(&mut self.chance, lies);
                process.tasks.remove(&id);

                for file in &ending.outputs {
                    node.contents.put(file.blob, now);
                    process.shelf.hold(&file.blob);
                }

                self.story.tell(
                    now,
                    format_args!("worker-{w}"),
                    format_args!("ends {id}: {}", ending.outcome),
                );
                MachineEvent::Ended(id, Box::new(ending))
            }
            Next::Gone => {
                process.tasks.remove(&id);
                MachineEvent::Ended(id, Box::new(AttemptEnding::bare(common::Outcome::Stopped)))
            }
        };

        self.tell_worker(w, EngineInput::Happened(event))
    }

    /// The owner comes, goes, or wants something else.
    pub(super) fn turn_owner(&mut self, w: usize, decision: Decision) -> Result<(), String> {
        self.workers[w].owner = decision;
        self.story.tell(
            self.now,
            format_args!("worker-{w}"),
            format_args!("its owner: {decision:?}"),
        );
        self.tell_worker(w, EngineInput::Happened(MachineEvent::Decided(decision)))
    }

    /// Its identity is gone, as when a disk is copied without it: it needs another.
    pub(super) fn lose_identity(&mut self, w: usize) {
        self.workers[w].identity = None;
        self.end_worker(w, false, "set up anew");
        self.later(Span::from_secs(1), What::WantToken(w));
    }

    /// Somebody has let the worker in.
    pub(super) fn let_in(&mut self, w: usize, admitted: &::master::engine::Peer, key: [u8; 32]) {
        self.story.tell(
            self.now,
            format_args!("worker-{w}"),
            format_args!("is {}", admitted.name),
        );
        self.audit.on_new_identity(w);
        self.workers[w].identity = Some(Identity {
            id: admitted.id,
            key,
        });
    }

    /// Somebody stands before the door with this token.
    pub(super) fn on_knock(&mut self, w: usize, token: &JoinToken) {
        if self.workers[w].identity.is_none() {
            self.knock(w, token);
        }
    }

    /// A liar says something that is not so.
    pub(super) fn lie(&mut self, w: usize) {
        let known = self.audit.attempts();
        let attempt = self.chance.pick(&known).copied();
        let Some(attempt) = attempt.filter(|_| self.workers[w].welcome().is_some()) else {
            return;
        };
        let attempt = match self.chance.below(4) {
            0 => AttemptId {
                number: attempt.number + 1,
                ..attempt
            },
            1 => AttemptId {
                incarnation: common::Incarnation(attempt.incarnation.0 + 1),
                ..attempt
            },
            _ => attempt,
        };

        let (stdout, outputs) = super::tasks::result("compute", "lies", attempt.task.index);
        let ending = AttemptEnding {
            stdout,
            outputs,
            ..AttemptEnding::bare(common::Outcome::Succeeded)
        };
        let completion = common::Completion {
            attempt,
            outcome: if self.chance.one_in(3) {
                common::Outcome::Exited(3)
            } else {
                ending.outcome
            },
            ran: Span::from_secs(1),
            suspended: Span::ZERO,
            cpu: Span::ZERO,
            stdout: ending.stdout,
            stderr: common::attempt::Stream::default(),
            outputs: ending.outputs,
            warnings: Vec::new(),
            confined: None,
        };

        let held = common::attempt::HeldAttempt {
            attempt,
            phase: common::attempt::Phase::Suspended(YieldReason::InUse),
            ran: Span::from_secs(9_999),
            frozen_for: Span(u64::MAX),
            progress: Some(f32::NAN),
        };

        let message = match self.chance.below(6) {
            0..2 => ToMaster::Delivered(vec![Delivery {
                completion,
                ago: Span(u64::MAX),
            }]),
            2 => ToMaster::Phases(vec![held]),
            3 => ToMaster::Returned {
                attempts: vec![attempt, attempt],
                why: "no".to_owned(),
            },
            4 => ToMaster::Heartbeat {
                status: self.workers[w].status(),
                held: vec![held],
            },
            _ => ToMaster::Leaving,
        };

        self.story.count("lies");
        self.story.tell(
            self.now,
            format_args!("worker-{w}"),
            format_args!("lies about {attempt}"),
        );
        self.say(w, &message);
    }
}

fn named(deliveries: &[Delivery]) -> String {
    let names: Vec<String> = deliveries
        .iter()
        .map(|delivery| delivery.completion.attempt.to_string())
        .collect();
    names.join(", ")
}
