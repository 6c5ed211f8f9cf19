//! One run: what is planned, in the order of its time, until everything that was begun has ended,
//! or until something has happened that must not. First comes a time of trouble, then everything is
//! mended, and then all must come to an end.

use std::collections::{BTreeMap, BTreeSet};

use common::token::JoinToken;
use common::{AttemptId, JobId, Span, Time};

use super::Laws;
use super::audit::Audit;
use super::chance::Chance;
use super::faults::Trouble;
use super::net::{self, End, Frame, Net, Packet, Way};
use super::people::{Ask, Question, some_time};
use super::story::Story;
use super::tasks::Next;
use super::{disk, master, vfs, worker};

/// How long trouble lasts.
const TROUBLE: Time = Time(1_500 * 1_000_000);
/// By when everything must have ended.
const DEADLINE: Time = Time(TROUBLE.0 + 3 * 3_600 * 1_000_000);
/// How often it is looked whether everything has ended, and whether connections are silent.
const LOOK: Span = Span::from_secs(5);

/// What is planned.
#[derive(Debug)]
pub(super) enum What {
    /// A packet arrives at this end of a way.
    Arrive(usize, End, Packet),
    /// A lane is sent again.
    Again(u64, End),
    /// Somebody asks again.
    AskAgain(u64),
    /// A client wants something.
    Wish(Ask),
    /// A client submits a job.
    Submit(usize),
    /// A worker needs a token; it has one.
    WantToken(usize),
    Knock(usize, JoinToken),
    /// The master does a group.
    Master(u64),
    StartMaster,
    Sweep,
    StartWorker(usize),
    Dial(usize, u64),
    NoWelcome(usize, u64),
    Beat(usize, u64, u64, Span),
    Upload(usize, u64),
    WorkerTick(usize, u64),
    Spool(usize, u64),
    Task(usize, u64, AttemptId, Next, u64),
    Lie(usize),
    /// Something goes wrong.
    Trouble(Trouble),
    /// Everything is mended.
    Heal,
    /// A look around.
    Look,
}

/// The state of everything.
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) now: Time,
    pub(super) chance: Chance,
    pub(super) laws: Laws,
    pub(super) story: Story,
    pub(super) audit: Audit,
    pub(super) net: Net,
    pub(super) master: master::Node,
    pub(super) workers: Vec<worker::Node>,
    pub(super) questions: BTreeMap<u64, Question>,
    pub(super) next_question: u64,
    /// The jobs that were ever acknowledged.
    pub(super) submitted: BTreeSet<JobId>,
    /// Whether a copy of the store is made and put in its place: then clocks are not set back.
    pub(super) copies: bool,
    /// What was found to be wrong where it could not be said at once.
    pub(super) broken: Option<String>,
    plans: BTreeMap<(Time, u64), What>,
    planned: u64,
    resending: BTreeSet<(u64, End)>,
}

impl World {
    /// The world of a seed, before anything has happened.
    pub(super) fn new(seed: u64, laws: Laws) -> Self {
        vfs::install();
        disk::clear();

        let mut chance = Chance::new(seed, 0);
        let count = chance.between(2, 4) as usize;
        let master = master::Node::new(&mut chance);
        let mut workers = Vec::new();
        let mut audit = Audit::default();

        for number in 0..count {
            let liar = number > 1 && chance.one_in(3);
            if liar {
                audit.liars.insert(number);
            }
            workers.push(worker::Node::new(number, liar, &mut chance));
        }

        let calm = Way {
            loss: 1,
            doubles: 1,
            slowest_ms: 40,
            ..Way::default()
        };
        let net = Net::new(vec![calm; count + 1]);

        Self {
            seed,
            now: Time(0),
            chance,
            laws,
            story: Story::default(),
            audit,
            net,
            master,
            workers,
            questions: BTreeMap::new(),
            next_question: 0,
            submitted: BTreeSet::new(),
            copies: false,
            broken: None,
            plans: BTreeMap::new(),
            planned: 0,
            resending: std::collections::BTreeSet::new(),
        }
    }

    /// What happened.
    pub(super) fn into_story(self) -> (String, BTreeMap<&'static str, u64>) {
        self.story.into_parts()
    }

    /// Whether trouble is over.
    pub(super) fn healed(&self) -> bool {
        self.now >= TROUBLE
    }

    /// The way between clients and the master.
    pub(super) fn people_way(&self) -> usize {
        self.workers.len()
    }

    /// Plans something.
    pub(super) fn later(&mut self, wait: Span, what: What) {
        self.plan(self.now + wait, what);
    }

    fn plan(&mut self, at: Time, what: What) {
        self.planned += 1;
        self.plans.insert((at, self.planned), what);
    }

    /// Sends a packet; it may arrive.
    pub(super) fn send(&mut self, way: usize, to: End, packet: &Packet) {
        for at in self.net.arrivals(way, to, self.now, &mut self.chance) {
            self.plan(at, What::Arrive(way, to, packet.clone()));
        }
    }

    /// Sends a frame in order with those before it.
    pub(super) fn push(&mut self, connection: u64, to: End, frame: Frame) {
        let Some(number) = self.net.push(connection, to, frame.clone()) else {
            return;
        };
        let Some(way) = self
            .net
            .connections
            .get(&connection)
            .map(|there| there.worker)
        else {
            return;
        };
        self.send(way, to, &Packet::Frame(connection, to, number, frame));
        if self.resending.insert((connection, to)) {
            self.later(net::AGAIN, What::Again(connection, to));
        }
    }

    /// Lives until everything has ended.
    ///
    /// # Errors
    /// Says what has happened that must not, or what has not ended.
    pub(super) fn live(&mut self) -> Result<(), String> {
        self.begin();
        while let Some(((at, _), what)) = self.plans.pop_first() {
            self.now = at;
            if at > DEADLINE {
                return Err(self.unfinished());
            }
            if matches!(what, What::Look) && self.healed() && self.has_ended() {
                self.look(true)?;
                return self.compare_counts();
            }
            self.happen(what)?;
            if let Some(why) = self.broken.take() {
                return Err(why);
            }
        }

        Err("nothing is planned any more".to_owned())
    }

    fn begin(&mut self) {
        self.plan(Time(0), What::StartMaster);
        for worker in 0..self.workers.len() {
            self.plan(Time(1_000), What::StartWorker(worker));
            self.plan(Time(2_000), What::WantToken(worker));
            if self.workers[worker].liar {
                self.plan(Time(10_000_000), What::Lie(worker));
            }
        }

        for client in 0..self.chance.between(2, 4) as usize {
            for _ in 0..self.chance.between(1, 3) {
                let at = some_time(&mut self.chance, TROUBLE);
                self.plan(at, What::Submit(client));
            }
        }

        self.plan_trouble(TROUBLE);
        self.plan(TROUBLE, What::Heal);
        self.plan(Time(3_000), What::Look);
        self.plan(Time(60_000_000), What::Sweep);
    }

    fn happen(&mut self, what: What) -> Result<(), String> {
        if let Some(awake) = self.sleeps(&what) {
            self.plan(awake, what);
            return Ok(());
        }

        match what {
            What::Arrive(way, to, packet) => return self.arrive(way, to, packet),
            What::Again(connection, to) => self.again(connection, to),
            What::AskAgain(number) => self.ask_again(number),
            What::Wish(ask) => self.ask(super::people::Who::Client(0), ask),
            What::Submit(client) => self.submit(client),
            What::WantToken(worker) => self.want_token(worker),
            What::Knock(worker, token) => self.on_knock(worker, &token),
            What::Master(run) if run == self.master.run => return self.master_group(),
            What::Master(_) => {}
            What::StartMaster => return self.start_master(),
            What::Sweep => {
                self.sweep();
                self.later(Span::from_secs(60), What::Sweep);
            }
            What::StartWorker(worker) => return self.start_worker(worker),
            What::NoWelcome(worker, connection) => return self.on_no_welcome(worker, connection),
            What::Upload(worker, connection) => self.upload(worker, connection),
            What::Lie(worker) => {
                if !self.healed() {
                    self.lie(worker);
                    let wait = Span::from_millis(self.chance.between(500, 60_000));
                    self.later(wait, What::Lie(worker));
                }
            }
            What::Trouble(trouble) => return self.strike(trouble),
            What::Heal => return self.heal(),
            What::Look => return self.look_around(),
            of_a_run => return self.happen_in_run(&of_a_run),
        }

        Ok(())
    }

    /// What was planned by a worker's run happens only in that run.
    fn happen_in_run(&mut self, what: &What) -> Result<(), String> {
        match *what {
            What::Dial(w, run) if run == self.workers[w].run => self.dial(w),
            What::Beat(w, run, connection, every) if run == self.workers[w].run => {
                self.beat(w, connection, every);
            }
            What::WorkerTick(w, run) if run == self.workers[w].run => {
                return self.on_worker_tick(w);
            }
            What::Spool(w, run) if run == self.workers[w].run => return self.work_spool(w),
            What::Task(w, run, id, next, plan) if run == self.workers[w].run => {
                return self.on_task(w, id, next, plan);
            }
            _ => {}
        }

        Ok(())
    }

    /// Until when whoever this is for sleeps, if so.
    fn sleeps(&self, what: &What) -> Option<Time> {
        let until = match what {
            What::Master(_) | What::Arrive(_, End::Master, _) | What::Again(_, End::Worker) => {
                self.master.asleep
            }
            What::Arrive(w, End::Worker, _) if *w < self.workers.len() => self.workers[*w].asleep,
            What::Dial(w, _)
            | What::NoWelcome(w, _)
            | What::Beat(w, ..)
            | What::Upload(w, _)
            | What::WorkerTick(w, _)
            | What::Spool(w, _)
            | What::Task(w, ..)
            | What::Lie(w) => self.workers[*w].asleep,
            _ => return None,
        };

        (until > self.now).then_some(until)
    }

    fn again(&mut self, connection: u64, to: End) {
        let unconfirmed = self.net.unconfirmed(connection, to);
        if unconfirmed.is_empty() {
            self.resending.remove(&(connection, to));
            return;
        }

        if let Some(way) = self
            .net
            .connections
            .get(&connection)
            .map(|there| there.worker)
        {
            for (number, frame) in unconfirmed {
                self.send(way, to, &Packet::Frame(connection, to, number, frame));
            }
        }
        self.later(net::AGAIN, What::Again(connection, to));
    }

    fn arrive(&mut self, way: usize, to: End, packet: Packet) -> Result<(), String> {
        let now = self.now;
        match packet {
            Packet::Frame(connection, end, number, frame) => {
                if end == End::Master {
                    if self.master.engine().is_none() {
                        return Ok(());
                    }
                    if self.net.is_new(connection) {
                        self.net.accept(connection, now);
                    }
                }

                if !self.net.is_open(connection, end) {
                    self.send(way, end.other(), &Packet::Unknown(connection, end.other()));
                    return Ok(());
                }

                let (frames, before) = self.net.arrive(connection, end, number, frame, now);
                self.send(way, end.other(), &Packet::Confirm(connection, end, before));
                match end {
                    End::Master => self.on_master_frames(connection, frames),
                    End::Worker => self.on_worker_frames(way, connection, frames),
                }
            }
            Packet::Confirm(connection, end, before) => {
                if self.net.is_open(connection, to) {
                    self.net.confirm(connection, end, before, now);
                }
                Ok(())
            }
            Packet::Unknown(connection, End::Master) => {
                if self.net.is_open(connection, End::Master) {
                    self.close_at_master(connection);
                }
                Ok(())
            }
            Packet::Unknown(connection, End::Worker) => {
                self.lost_at_worker(connection, "the master knows it no more")
            }
            Packet::Put(connection, blob) => {
                self.on_put(connection, blob);
                Ok(())
            }
            Packet::Stored(connection, blob) => {
                self.on_stored(way, connection, blob);
                Ok(())
            }
            Packet::Ask(number, ask) => {
                self.on_ask(number, *ask);
                Ok(())
            }
            Packet::Answer(number, told) => self.on_answer(number, *told),
        }
    }

    fn lost_at_worker(&mut self, connection: u64, why: &str) -> Result<(), String> {
        let Some(worker) = self
            .net
            .connections
            .get(&connection)
            .map(|there| there.worker)
        else {
            return Ok(());
        };
        if !self.net.is_open(connection, End::Worker) {
            return Ok(());
        }
        self.hang_up(worker, why)
    }

    /// Ends connections that are silent.
    fn look_around(&mut self) -> Result<(), String> {
        let connections: Vec<u64> = self.net.connections.keys().copied().collect();
        for connection in connections {
            if self.master.asleep <= self.now && self.net.is_idle(connection, End::Master, self.now)
            {
                self.close_at_master(connection);
            }

            let worker = self
                .net
                .connections
                .get(&connection)
                .map(|there| there.worker);
            let awake = worker.is_some_and(|worker| self.workers[worker].asleep <= self.now);
            if awake && self.net.is_idle(connection, End::Worker, self.now) {
                self.lost_at_worker(connection, "silence")?;
            }
        }

        self.later(LOOK, What::Look);
        Ok(())
    }

    /// Whether everything that was begun has ended.
    fn has_ended(&self) -> bool {
        let Some(engine) = self.master.engine() else {
            return false;
        };
        self.questions.is_empty()
            && self
                .workers
                .iter()
                .all(|worker| worker.welcome().is_some() && worker.has_delivered_all())
            && self
                .workers
                .iter()
                .all(|worker| worker.liar || worker.is_idle())
            && self.audit.unsettled(engine).is_empty()
    }

    /// What has not ended.
    fn unfinished(&self) -> String {
        let jobs = self
            .master
            .engine()
            .map(|engine| self.audit.unsettled(engine));
        let asking: Vec<String> = self
            .questions
            .values()
            .map(|question| super::people::words(&question.ask))
            .collect();
        let workers: Vec<String> = (0..self.workers.len())
            .map(|w| {
                let worker = &self.workers[w];
                let connected = worker.welcome().is_some();
                let delivered = worker.has_delivered_all();
                format!(
                    "worker-{w} connected: {connected}, delivered all: {delivered}, idle: {}",
                    worker.is_idle()
                )
            })
            .collect();
        format!(
            "hours after the end of all trouble not everything has ended: jobs {jobs:?}, questions {asking:?}, {workers:?}"
        )
    }
}
