//! The loop of a recorded day: what is planned, in the order of its time, until the job is settled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use ::master::engine::{
    CoreReply, Engine, JobAsk, Letter, PeerAsk, Redeemed, Redeeming, Submitting, TokenWish,
};
use ::master::{Config, SafetyRules};
use ::worker::engine::{Action, AttemptEnding, EngineInput, EngineOutput, MachineEvent, Spooled};
use common::job::{CommandSpec, Rules, Work};
use common::token::Role;
use common::wire::enrol::WantedRole;
use common::wire::worker::{Assignment, BUSY_EVERY, Delivery, ToMaster, ToWorker};
use common::{
    AttemptId, Completion, HostId, IdSet, JobId, JobSpec, Outcome, RequestId, Span, SubmitOptions,
    TaskSet, Time,
};
use scheduler::Parting;
use uuid::Uuid;

use super::super::contents::Shelves;
use super::super::{disk, vfs};
use super::host::{Host, Task};
use super::{LiveOutcome, LiveRun};

/// The way of every message.
const LATENCY: Span = Span::from_millis(1);
/// The silence after which the master ends the session of a host that promised to send every
/// [`BUSY_EVERY`].
const SILENCE: Span = Span::from_secs(8);
/// The time before the job at which the hosts connect.
const BEFORE: Span = Span::from_secs(60);
/// The job that they do a task of before.
const FIRST: JobId = JobId(1);
/// The work of that task, in seconds on a host of speed 1.
const FIRST_WORK_S: f64 = 1.0;
/// The wall clock at the trace's start, in microseconds.
const TODAY: u64 = 1_780_000_000_000_000;
/// The name of the master's disk.
const DISK: &str = "master";

/// What is planned.
#[derive(Debug)]
enum Plan {
    /// The next turn of a host.
    Turn(usize),
    /// A message of a host's session arrives at the master.
    ToMaster(usize, u64, Box<ToMaster>),
    /// A message arrives at the worker.
    ToWorker(usize, u64, Box<ToWorker>),
    /// The master has heard nothing for too long.
    Silent(usize, u64),
    /// What the master does unasked.
    Master,
    /// A heartbeat, of this run.
    Beat(usize, u64),
    /// The engine of this run asked to be woken.
    Wake(usize, u64),
    /// An attempt of this run has its inputs.
    Staged(usize, u64, AttemptId),
    /// A command of this run has ended, if this plan still holds.
    Exited(usize, u64, AttemptId, u64),
}

/// A day in progress.
pub(super) struct Day<'a> {
    run: &'a LiveRun<'a>,
    now: Time,
    start: Time,
    plans: BTreeMap<(Time, u64), Plan>,
    planned: u64,
    master: Engine,
    wakeup: Option<Time>,
    heartbeat: Span,
    hosts: Vec<Host>,
    sessions: u64,
    /// The latest job, and its tasks that are done.
    job: Option<JobId>,
    done: BTreeSet<u32>,
    outcome: LiveOutcome,
}

fn clock(at: Time) -> Time {
    Time(TODAY + at.0)
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("the master failed: {error}")
}

impl<'a> Day<'a> {
    /// Starts a master, enrols the hosts, connects those that are on, gives them a first task, and
    /// submits the job at its time.
    pub(super) fn begin(run: &'a LiveRun<'a>) -> Result<Self, String> {
        vfs::install();
        vfs::forget_memory(DISK);
        disk::clear();
        disk::insert(DISK);

        let start = Time::from_secs_f64(run.start_s);
        let first = Time(start.0.saturating_sub(BEFORE.0));
        let config = Config::default();
        let master = Engine::open(
            Path::new("/chaos/master"),
            clock(first),
            &config,
            Arc::new(Shelves::default()),
            &disk::Logs,
            SafetyRules::KEPT,
            None,
        )
        .map_err(failed)?;

        let mut day = Self {
            run,
            now: first,
            start: first + Span::from_millis(10),
            plans: BTreeMap::new(),
            planned: 0,
            master,
            wakeup: None,
            heartbeat: config.heartbeat.span(),
            hosts: Vec::new(),
            sessions: 0,
            job: None,
            done: BTreeSet::new(),
            outcome: LiveOutcome::default(),
        };
        day.enrol()?;
        day.connect()?;
        day.reach_start()?;
        // So that the grid knows what starting costs.
        day.submit(1, FIRST_WORK_S)?;
        day.start = start;
        day.reach_start()?;
        day.submit(run.tasks, run.work_s)?;
        Ok(day)
    }

    /// Asks the master something, and returns its reply.
    fn ask(&mut self, ask: impl Into<::master::engine::Ask>) -> Result<CoreReply, String> {
        self.master.ask(0, ask).map_err(failed)?;
        self.master.finish_group().map_err(failed)?;
        let reply = self.master.replies().pop();
        reply
            .map(|(_, reply)| reply)
            .ok_or_else(|| "the master gave no answer".to_owned())
    }

    /// Enrols all hosts in the order of the numbers that the simulator gives them.
    fn enrol(&mut self) -> Result<(), String> {
        let traced = &self.run.trace.hosts;
        let wish = TokenWish {
            by: "admin".to_owned(),
            role: Role::Worker,
            ttl: Span::from_secs(86_400),
            uses: traced.len() as u32,
            name: "token".to_owned(),
            approval: false,
            speaks_for: None,
            ca_key_hash: [0; 32],
        };
        let CoreReply::Token((token, _)) = self.ask(PeerAsk::CreateToken(wish))? else {
            return Err("there is no token".to_owned());
        };

        let numbers = simulator::world::numbers(traced.len(), Some(self.run.seed));
        let mut order: Vec<usize> = (0..traced.len()).collect();
        order.sort_by_key(|place| numbers[*place]);

        let mut numbers = vec![HostId(0); traced.len()];
        for place in order {
            let mut key_hash = [0; 32];
            key_hash[..8].copy_from_slice(&(place as u64 + 1).to_le_bytes());
            let redeeming = Redeeming {
                from: "somewhere".to_owned(),
                token: token.id,
                secret: token.secret,
                name: traced[place].name.clone(),
                key_hash,
                wanted: WantedRole::Any,
                expires: Time(u64::MAX >> 1),
            };
            let CoreReply::Redeemed(Redeemed::Peer(peer)) = self.ask(PeerAsk::Redeem(redeeming))?
            else {
                return Err(format!("{} was not enrolled", traced[place].name));
            };
            numbers[place] = peer.host.ok_or("an identity without a host")?;
        }

        self.hosts = traced
            .iter()
            .zip(numbers)
            .map(|(traced, number)| Host::new(traced, number))
            .collect();
        Ok(())
    }

    /// Connects the hosts that are on, in the order of their numbers, and plans the turns to come.
    fn connect(&mut self) -> Result<(), String> {
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        order.sort_by_key(|place| self.hosts[*place].host);
        for place in order {
            let host = &mut self.hosts[place];
            host.next = host.turns.partition_point(|turn| turn.at <= self.now);
            if let Some(next) = host.turns.get(host.next) {
                let at = next.at;
                self.plan(at, Plan::Turn(place));
            }
            let host = &self.hosts[place];
            let present = host.next.checked_sub(1).map(|at| host.turns[at]);
            if let Some(turn) = present.filter(|turn| turn.up) {
                self.switch_on(place, turn.cpu);
            }
        }

        Ok(())
    }

    /// Submits a job of this many tasks with the run's policy: from now on it is the one that counts.
    fn submit(&mut self, tasks: u32, work_s: f64) -> Result<(), String> {
        let argv = ["work", "%{TASK_ID}"].map(str::parse);
        let argv: Result<Vec<_>, _> = argv.into_iter().collect();
        let spec = JobSpec {
            name: "bag".to_owned(),
            tasks: TaskSet {
                ids: IdSet::from_range(1, tasks),
                items: Vec::new(),
            },
            work: Work::Command(CommandSpec::new(argv.map_err(failed)?)),
            rules: Rules {
                policy: self.run.policy.to_owned(),
                estimate: Some(Span::from_secs_f64(work_s)),
                max_losses: 1_000,
                ..Rules::default()
            },
        };
        let submitting = Submitting {
            request: RequestId(Uuid::from_u128(u128::from(tasks))),
            user: "somebody".to_owned(),
            content: spec.content(),
            spec,
            asked: SubmitOptions::default(),
            hidden: IdSet::new(),
            disclosed: false,
            dry_run: false,
        };

        self.master.look_at_clock(clock(self.now)).map_err(failed)?;
        let CoreReply::Submitted(taken) = self.ask(JobAsk::Submit(Box::new(submitting)))? else {
            return Err("the submission was not answered".to_owned());
        };
        let taken = taken.map_err(|refusal| format!("the job was refused: {refusal}"))?;
        self.job = taken.job;
        self.done.clear();
        self.outcome = LiveOutcome::default();
        self.master_speaks()
    }

    /// Does what is planned up to the start.
    fn reach_start(&mut self) -> Result<(), String> {
        while let Some(((at, _), _)) = self.plans.first_key_value()
            && *at <= self.start
        {
            self.go_on()?;
        }
        self.now = self.start;
        Ok(())
    }

    /// Lives until the job is settled, or the trace ends.
    pub(super) fn live(mut self) -> Result<LiveOutcome, String> {
        let end = Time(Span::from_secs_f64(self.run.trace.end_s()).0);
        while self.done.len() < self.run.tasks as usize {
            let due = self.plans.first_key_value();
            if due.is_none_or(|((at, _), _)| *at > end) {
                return Ok(self.outcome);
            }
            self.go_on()?;
        }

        self.outcome.makespan_s = Some(self.now.since(self.start).secs());
        disk::clear();
        Ok(self.outcome)
    }

    fn plan(&mut self, at: Time, plan: Plan) {
        self.planned += 1;
        self.plans.insert((at, self.planned), plan);
    }

    fn later(&mut self, wait: Span, plan: Plan) {
        self.plan(self.now + wait, plan);
    }

    /// Does what is planned next.
    fn go_on(&mut self) -> Result<(), String> {
        let Some(((at, _), plan)) = self.plans.pop_first() else {
            return Ok(());
        };
        self.now = at;

        match plan {
            Plan::Turn(place) => self.turn(place),
            Plan::ToMaster(place, session, message) => {
                return self.master_hears(place, session, *message);
            }
            Plan::ToWorker(place, session, message) => self.worker_hears(place, session, *message),
            Plan::Silent(place, session) => {
                self.master.look_at_clock(clock(self.now)).map_err(failed)?;
                let host = self.hosts[place].host;
                let how = Parting::Silent;
                self.master
                    .disconnected(host, session, how)
                    .map_err(failed)?;
                return self.master_speaks();
            }
            Plan::Master => {
                if self.wakeup == Some(at) {
                    self.wakeup = None;
                    self.master.look_at_clock(clock(self.now)).map_err(failed)?;
                    return self.master_speaks();
                }
            }
            Plan::Beat(place, run) => self.beat(place, run),
            Plan::Wake(place, run) => {
                if let Some(on) = self.running(place, run) {
                    on.wakeup = None;
                    self.tell(place, EngineInput::Happened(MachineEvent::Tick));
                }
            }
            Plan::Staged(place, run, id) => {
                if self.running(place, run).is_some() {
                    self.tell(place, EngineInput::Happened(MachineEvent::Staged(id)));
                }
            }
            Plan::Exited(place, run, id, plan) => self.exited(place, run, id, plan),
        }
        Ok(())
    }

    fn running(&mut self, place: usize, run: u64) -> Option<&mut super::host::Running> {
        let host = &mut self.hosts[place];
        host.on.as_mut().filter(|_| host.run == run)
    }

    /// A host is switched on or off, or its owner or its load changes.
    fn turn(&mut self, place: usize) {
        let now = self.now;
        let host = &mut self.hosts[place];
        let turn = host.turns[host.next];
        host.next += 1;
        if let Some(next) = host.turns.get(host.next) {
            let at = next.at;
            self.plan(at, Plan::Turn(place));
        }

        let host = &mut self.hosts[place];
        match (&mut host.on, turn.up) {
            (None, false) => {}
            (None, true) => self.switch_on(place, turn.cpu),
            (Some(on), false) => {
                // The host promised to send every three seconds from its greeting on.
                let said = Span(now.since(on.up_since).0 % BUSY_EVERY.0);
                let session = on.session;
                host.run += 1;
                host.on = None;
                self.later(Span(SILENCE.0 - said.0), Plan::Silent(place, session));
            }
            (Some(on), true) => {
                let before = on.cpu;
                for task in on.tasks.values_mut() {
                    task.count(now, before);
                }
                on.cpu = turn.cpu;
                if (before > 0.0) != (turn.cpu > 0.0) {
                    on.owner_since = now;
                    let decision = Host::decision(turn.cpu);
                    self.tell(
                        place,
                        EngineInput::Happened(MachineEvent::Decided(decision)),
                    );
                }
                self.plan_exits(place);
            }
        }
    }

    fn switch_on(&mut self, place: usize, cpu: f64) {
        self.sessions += 1;
        let session = self.sessions;
        self.hosts[place].switch_on(session, self.heartbeat, cpu);
        let decision = Host::decision(cpu);
        self.tell(
            place,
            EngineInput::Happened(MachineEvent::Decided(decision)),
        );

        let host = &mut self.hosts[place];
        let status = host.status(self.now);
        if let Some(on) = &mut host.on {
            let hello = on.engine.hello(self.now, host.facts.clone(), status);
            self.send(place, hello);
        }
    }

    /// Sends a message to the master.
    fn send(&mut self, place: usize, message: ToMaster) {
        if let Some(on) = &self.hosts[place].on {
            let plan = Plan::ToMaster(place, on.session, Box::new(message));
            self.later(LATENCY, plan);
        }
    }

    fn master_hears(
        &mut self,
        place: usize,
        session: u64,
        message: ToMaster,
    ) -> Result<(), String> {
        self.outcome.messages += 1;
        let delivered = matches!(message, ToMaster::Delivered(_));
        if let ToMaster::Delivered(deliveries) = &message {
            let done = deliveries.iter().map(|delivery| &delivery.completion);
            let done = done.filter(|completion| completion.outcome.success());
            let tasks = done.map(|completion| completion.attempt.task);
            let own = tasks.filter(|task| Some(task.job) == self.job);
            self.done.extend(own.map(|task| task.index));
        }

        self.master.look_at_clock(clock(self.now)).map_err(failed)?;
        let host = &self.hosts[place];
        if let ToMaster::Hello { .. } = message {
            let greeted = self
                .master
                .greet(host.host, &host.facts.name, session, message);
            greeted.map_err(failed)?.map_err(failed)?;
        } else {
            let heard = self.master.hear(host.host, session, message);
            heard.map_err(failed)??;
        }

        self.master_speaks()?;
        if delivered {
            self.foretell()?;
        }
        Ok(())
    }

    /// Notes the prediction where a tenth, half or nine tenths of the tasks are done.
    fn foretell(&mut self) -> Result<(), String> {
        let tenths = [1, 5, 9].map(|part| (self.run.tasks as usize * part).div_ceil(10));
        let at = tenths.iter().position(|tenth| *tenth == self.done.len());
        let Some(at) = at.filter(|at| self.outcome.intervals_s[*at].is_none()) else {
            return Ok(());
        };

        let views = JobAsk::Views {
            jobs: self.job.iter().map(|job| job.0).collect(),
            states: Vec::new(),
            forecasts: 1,
        };
        if let CoreReply::Jobs(jobs) = self.master.look(views).map_err(failed)? {
            let forecast = jobs.first().and_then(|job| job.predicted);
            let start = clock(self.start);
            self.outcome.intervals_s[at] = forecast
                .and_then(|forecast| forecast.interval)
                .map(|(low, high)| (low.since(start).secs(), high.since(start).secs()));
        }
        Ok(())
    }

    /// Makes the master's changes durable and sends what it says.
    fn master_speaks(&mut self) -> Result<(), String> {
        self.master.finish_group().map_err(failed)?;
        for (session, letter) in self.master.letters() {
            let holder = |host: &Host| host.on.as_ref().is_some_and(|on| on.session == session);
            if let Letter::Says(message) = letter
                && let Some(place) = self.hosts.iter().position(holder)
            {
                if let ToWorker::Assign(work) = &*message {
                    let own = |work: &&Assignment| Some(work.attempt.task.job) == self.job;
                    self.outcome.attempts += work.iter().filter(own).count() as u32;
                }
                self.later(LATENCY, Plan::ToWorker(place, session, message));
            }
        }

        let patience = self.master.patience(clock(self.now)).max(Span(1_000));
        let at = self.now + patience;
        if self
            .wakeup
            .is_none_or(|planned| at < planned || planned < self.now)
        {
            self.wakeup = Some(at);
            self.plan(at, Plan::Master);
        }
        Ok(())
    }

    fn worker_hears(&mut self, place: usize, session: u64, message: ToWorker) {
        let now = self.now;
        let host = &mut self.hosts[place];
        let run = host.run;
        let Some(on) = host.on.as_mut().filter(|on| on.session == session) else {
            return;
        };

        if let ToWorker::Welcome { heartbeat, .. } = &message {
            on.welcome = true;
            on.usual = *heartbeat;
            on.every = *heartbeat;
            on.beat_at = now;
            self.plan(now, Plan::Beat(place, run));
            let own = u128::from(session);
            self.send(place, ToMaster::Instance(Uuid::from_u128(own)));
            self.tell(place, EngineInput::Up);
        }
        self.tell(place, EngineInput::Said(message));
    }

    fn beat(&mut self, place: usize, run: u64) {
        let now = self.now;
        let status = self.hosts[place].status(now);
        let Some(on) = self.running(place, run).filter(|on| on.beat_at == now) else {
            return;
        };
        on.beat_at = now + on.every;
        let at = on.beat_at;
        let beat = on.engine.heartbeat(now, status);
        self.plan(at, Plan::Beat(place, run));
        self.send(place, beat);
    }

    /// Gives a worker's engine an input, and does what it says.
    fn tell(&mut self, place: usize, input: EngineInput) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut outputs = Vec::new();
            if let Some(on) = &mut self.hosts[place].on {
                on.engine.step(self.now, input, &mut outputs);
            }
            for output in outputs {
                match output {
                    EngineOutput::Act(action) => self.act(place, &action),
                    EngineOutput::Say(message) => {
                        let welcome = self.hosts[place].on.as_ref().is_some_and(|on| on.welcome);
                        if welcome {
                            self.send(place, message);
                        }
                    }
                    EngineOutput::Keep(completion) => inputs.push(self.keep(place, completion)),
                    EngineOutput::Deliver(deliveries) => {
                        self.send(place, ToMaster::Delivered(deliveries));
                    }
                    EngineOutput::Forget(attempts) => {
                        let kept = &mut self.hosts[place].kept;
                        attempts.iter().for_each(|id| drop(kept.remove(id)));
                    }
                    EngineOutput::Read(attempts) => inputs.push(self.read(place, &attempts)),
                }
            }
        }

        self.keep_time(place);
    }

    fn keep(&mut self, place: usize, completion: Completion) -> EngineInput {
        let kept = (completion.clone(), self.now);
        self.hosts[place].kept.insert(completion.attempt, kept);
        EngineInput::Spooled(Spooled::Durable(vec![Delivery {
            completion,
            ago: Span::ZERO,
        }]))
    }

    fn read(&self, place: usize, attempts: &[AttemptId]) -> EngineInput {
        let kept = &self.hosts[place].kept;
        let found = attempts.iter().filter_map(|id| kept.get(id));
        let found = found.map(|(completion, ended)| Delivery {
            completion: completion.clone(),
            ago: self.now.since(*ended),
        });
        EngineInput::Spooled(Spooled::Read(found.collect()))
    }

    /// Adapts the interval of heartbeats, and plans the engine's next tick.
    fn keep_time(&mut self, place: usize) {
        let now = self.now;
        let host = &mut self.hosts[place];
        let run = host.run;
        let Some(on) = &mut host.on else { return };

        let wakeup = on.engine.next_wakeup().map(|at| at.max(now + Span(1_000)));
        let wake = wakeup.filter(|_| wakeup != on.wakeup);
        on.wakeup = wakeup;

        let wanted = on.engine.report_every();
        let every = wanted.map_or(on.usual, |wanted| wanted.min(on.usual));
        let beat = (on.welcome && every != on.every).then(|| {
            on.every = every;
            on.beat_at = on.beat_at.min(now + every);
            on.beat_at
        });

        if let Some(at) = wake {
            self.plan(at, Plan::Wake(place, run));
        }
        if let Some(at) = beat {
            self.plan(at, Plan::Beat(place, run));
        }
    }

    fn act(&mut self, place: usize, action: &Action) {
        let now = self.now;
        let work_of = |id: AttemptId| match id.task.job {
            FIRST => FIRST_WORK_S,
            _ => self.run.work_s,
        };
        let host = &mut self.hosts[place];
        let run = host.run;
        let speed = host.facts.speed.factor();
        let Some(on) = &mut host.on else { return };
        let cpu = on.cpu;

        match *action {
            Action::Stage(id, _) => {
                let task = Task {
                    left_s: work_of(id) / speed,
                    since: None,
                    plan: 0,
                };
                on.tasks.insert(id, task);
                self.later(self.run.start_cost, Plan::Staged(place, run, id));
            }
            Action::Start(id) | Action::Thaw(id) => {
                if let Some(task) = on.tasks.get_mut(&id) {
                    task.since = Some(now);
                }
                self.plan_exits(place);
            }
            Action::Freeze(id) => {
                if let Some(task) = on.tasks.get_mut(&id) {
                    task.count(now, cpu);
                    task.since = None;
                    task.plan += 1;
                }
            }
            Action::Terminate(id) | Action::Kill(id) | Action::Drop(id) => {
                if let Some(task) = on.tasks.get_mut(&id) {
                    task.since = None;
                    task.left_s = f64::NAN;
                    task.plan += 1;
                    let plan = task.plan;
                    self.later(LATENCY, Plan::Exited(place, run, id, plan));
                }
            }
            _ => {}
        }
    }

    /// Plans when the running tasks of a host end, at its present share of the processor.
    fn plan_exits(&mut self, place: usize) {
        let now = self.now;
        let host = &mut self.hosts[place];
        let run = host.run;
        let Some(on) = &mut host.on else { return };
        if on.cpu == 0.0 {
            return;
        }

        let cpu = on.cpu;
        let mut ends = Vec::new();
        for (id, task) in on.tasks.iter_mut().filter(|(_, task)| task.since.is_some()) {
            task.count(now, cpu);
            task.plan += 1;
            let at = now + Span::from_secs_f64(task.left_s.max(0.0) / cpu);
            ends.push((at, *id, task.plan));
        }
        for (at, id, plan) in ends {
            self.plan(at, Plan::Exited(place, run, id, plan));
        }
    }

    fn exited(&mut self, place: usize, run: u64, id: AttemptId, plan: u64) {
        let speed = self.hosts[place].facts.speed.factor();
        let Some(on) = self.running(place, run) else {
            return;
        };
        if on.tasks.get(&id).is_none_or(|task| task.plan != plan) {
            return;
        }
        let ended = on.tasks.remove(&id);
        let stopped = ended.is_none_or(|task| task.left_s.is_nan());

        let mut ending = AttemptEnding::bare(Outcome::Succeeded);
        ending.cpu = Span::from_secs_f64(self.run.work_s / speed);
        if stopped {
            ending = AttemptEnding::bare(Outcome::Stopped);
        } else {
            self.tell(place, EngineInput::Happened(MachineEvent::Exited(id)));
        }
        let ended = MachineEvent::Ended(id, Box::new(ending));
        self.tell(place, EngineInput::Happened(ended));
    }
}
