//! The workers: real engines on hosts that know the addresses of all masters. They stay with a master that
//! answers, ask around where one does not, and serve none with a lower incarnation than they have seen.

use std::collections::{BTreeMap, BTreeSet};

use ::worker::engine::{
    Action, AttemptEnding, CrashRules, Decision, Engine, EngineInput, EngineOutput, Highest,
    MachineEvent, Spooled,
};
use common::attempt::OutputFile;
use common::content::BlobHash;
use common::host::{HostFacts, Status};
use common::wire::worker::{Delivery, ToMaster, ToWorker};
use common::{AttemptId, BlobRef, Completion, HostId, Incarnation, Outcome, Span, Time};
use link::content::hash_bytes;
use uuid::Uuid;

use super::process::Came;
use super::world::{What, World};

/// The time for which a worker waits for an answer before it asks the other masters.
const ANSWER: Span = Span::from_secs(5);
/// The silence after which either end gives a session up.
pub(super) const SILENCE: Span = Span::from_secs(45);
/// How often a host looks at what is due.
const TICK: Span = Span::from_secs(1);
const SLOTS: u32 = 2;

/// A host with its worker.
pub(super) struct Host {
    engine: Engine,
    highest: Highest,
    session: Option<Session>,
    /// The master that is tried next.
    next: usize,
    /// The durable completions that no master has acknowledged.
    kept: BTreeMap<AttemptId, (Completion, Time)>,
    /// The plan of each task's end; an earlier one is void.
    tasks: BTreeMap<AttemptId, u64>,
    plans: u64,
    /// Deliveries that wait for their content to be at the master.
    uploads: Vec<(BTreeSet<BlobHash>, Vec<Delivery>)>,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    number: u64,
    master: usize,
    incarnation: Option<Incarnation>,
    heard: Time,
    beat: Time,
    /// The first beat that was not answered.
    unanswered: Option<Time>,
}

impl Host {
    pub(super) fn new() -> Self {
        Self {
            engine: Engine::new(
                SLOTS as usize,
                Span::from_secs(5),
                None,
                [],
                CrashRules::KEPT,
            ),
            highest: Highest::read(Uuid::nil(), None),
            session: None,
            next: 0,
            kept: BTreeMap::new(),
            tasks: BTreeMap::new(),
            plans: 0,
            uploads: Vec::new(),
        }
    }

    /// The incarnation of the master that it serves, if it has nothing to deliver to it.
    pub(super) fn rests_with(&self) -> Option<Incarnation> {
        let session = self.session.filter(|_| self.kept.is_empty())?;
        session.incarnation
    }

    pub(super) fn is_on(&self, session: u64) -> bool {
        self.session.is_some_and(|own| own.number == session)
    }
}

fn status() -> Status {
    Status::from(Decision::Run.owner(SLOTS))
}

impl World {
    /// A host looks at what is due.
    pub(super) fn tick(&mut self, h: usize) {
        self.later(TICK, What::Tick(h));
        let now = self.now;
        if self.hosts[h]
            .engine
            .next_wakeup()
            .is_some_and(|at| at <= now)
        {
            self.tell_host(h, EngineInput::Happened(MachineEvent::Tick));
        }

        let Some(session) = self.hosts[h].session else {
            return self.dial(h);
        };
        let silent = now.since(session.heard);
        let Some(incarnation) = session.incarnation else {
            if silent >= ANSWER {
                self.leave(h, "no welcome");
            }
            return;
        };
        if silent >= SILENCE {
            return self.leave(h, "silence");
        }
        let asks = session.unanswered.is_some_and(|at| now.since(at) >= ANSWER);
        if asks && let Some(other) = self.another_active(h, session.master, incarnation) {
            self.hosts[h].next = other;
            return self.leave(h, "another master is active");
        }
        if now >= session.beat {
            self.beat(h, session);
        }
    }

    /// A master that answers this host and has a higher incarnation than the one that it serves.
    fn another_active(&self, h: usize, than: usize, incarnation: Incarnation) -> Option<usize> {
        let higher = |m: &usize| {
            let active = self.masters[*m].active;
            *m != than && !self.is_cut(*m, h) && active.is_some_and(|active| active > incarnation)
        };
        (0..self.masters.len()).find(higher)
    }

    fn beat(&mut self, h: usize, session: Session) {
        let host = &mut self.hosts[h];
        let every = host.engine.report_every();
        let every = every.map_or(Span::from_secs(10), |every| every.min(Span::from_secs(10)));
        let beat = host.engine.heartbeat(self.now, status());
        host.session = Some(Session {
            beat: self.now + every,
            unanswered: session.unanswered.or(Some(self.now)),
            ..session
        });
        self.say(h, beat);
    }

    fn dial(&mut self, h: usize) {
        self.sessions += 1;
        let number = self.sessions;
        let host = &mut self.hosts[h];
        let master = host.next;
        host.next = (master + 1) % self.masters.len();
        host.session = Some(Session {
            number,
            master,
            incarnation: None,
            heard: self.now,
            beat: self.now,
            unanswered: None,
        });
        let facts = HostFacts {
            name: format!("pc-{h}"),
            slots: SLOTS,
            cores: SLOTS,
            memory_mib: 4_096,
            ..HostFacts::unknown(String::new())
        };
        let hello = host.engine.hello(self.now, facts, status());
        let came = Came::Open(number, HostId(h as u32 + 1), Box::new(hello));
        self.send_to_master(master, h, came);
    }

    /// A host gives its session up.
    fn leave(&mut self, h: usize, why: &str) {
        let Some(session) = self.hosts[h].session.take() else {
            return;
        };
        self.tell(
            format_args!("pc-{h}"),
            format_args!("leaves m{}: {why}", session.master),
        );
        let came = Came::Closed(session.number, HostId(h as u32 + 1));
        self.send_to_master(session.master, h, came);
        self.host_is_down(h);
    }

    fn host_is_down(&mut self, h: usize) {
        self.hosts[h].uploads.clear();
        self.tell_host(h, EngineInput::Down);
    }

    /// A session was ended by the master, or it is no master's.
    pub(super) fn ended_at_host(&mut self, h: usize, session: u64) {
        if self.hosts[h].is_on(session) {
            self.hosts[h].session = None;
            self.host_is_down(h);
        }
    }

    fn say(&mut self, h: usize, message: ToMaster) {
        if let Some(session) = self.hosts[h].session {
            let came = Came::Word(session.number, HostId(h as u32 + 1), Box::new(message));
            self.send_to_master(session.master, h, came);
        }
    }

    /// A message of a master has come.
    pub(super) fn host_hears(&mut self, h: usize, number: u64, message: ToWorker) {
        let host = &mut self.hosts[h];
        let Some(session) = host.session.as_mut().filter(|own| own.number == number) else {
            return;
        };
        session.heard = self.now;
        session.unanswered = None;
        let master = session.master;
        if let ToWorker::Welcome { incarnation, .. } = &message {
            let incarnation = *incarnation;
            session.incarnation = Some(incarnation);
            if host.highest.serve(incarnation).is_err() {
                self.count("lower incarnations refused");
                return self.leave(h, "its incarnation is lower than one before");
            }
            self.tell(
                format_args!("pc-{h}"),
                format_args!("serves m{master}, incarnation {incarnation}"),
            );
            self.say(h, ToMaster::Instance(Uuid::from_u128(h as u128 + 1)));
            self.tell_host(h, EngineInput::Up);
        }
        self.tell_host(h, EngineInput::Said(message));
    }

    /// Gives a worker's engine an input, and does what it says.
    fn tell_host(&mut self, h: usize, input: EngineInput) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut outputs = Vec::new();
            self.hosts[h].engine.step(self.now, input, &mut outputs);
            for output in outputs {
                match output {
                    EngineOutput::Act(action) => self.act(h, &action),
                    EngineOutput::Say(message) => self.say_if_welcome(h, message),
                    EngineOutput::Deliver(deliveries) => self.deliver(h, deliveries),
                    EngineOutput::Keep(completion) => {
                        let kept = (completion.clone(), self.now);
                        self.hosts[h].kept.insert(completion.attempt, kept);
                        let ago = Span::ZERO;
                        let durable = vec![Delivery { completion, ago }];
                        inputs.push(EngineInput::Spooled(Spooled::Durable(durable)));
                    }
                    EngineOutput::Forget(attempts) => {
                        self.hosts[h].kept.retain(|id, _| !attempts.contains(id));
                    }
                    EngineOutput::Read(attempts) => {
                        let kept = self.hosts[h].kept.iter();
                        let kept = kept.filter(|(id, _)| attempts.contains(id));
                        let read = kept.map(|(_, (completion, at))| Delivery {
                            completion: completion.clone(),
                            ago: self.now.since(*at),
                        });
                        inputs.push(EngineInput::Spooled(Spooled::Read(read.collect())));
                    }
                }
            }
        }
    }

    /// Uploads the content of completions, then delivers them.
    fn deliver(&mut self, h: usize, deliveries: Vec<Delivery>) {
        let Some(session) = self.hosts[h].session else {
            return;
        };
        let completions = deliveries.iter().map(|delivery| &delivery.completion);
        let blobs: BTreeMap<BlobHash, BlobRef> = completions
            .flat_map(Completion::blobs)
            .map(|blob| (blob.hash, blob))
            .collect();
        if blobs.is_empty() {
            return self.say_if_welcome(h, ToMaster::Delivered(deliveries));
        }
        let hashes = blobs.keys().copied().collect();
        self.hosts[h].uploads.push((hashes, deliveries));
        for blob in blobs.into_values() {
            self.upload(session.master, h, session.number, blob);
        }
    }

    /// Content has come to the master, or does not count there.
    pub(super) fn on_stored(&mut self, h: usize, session: u64, blob: BlobRef, stored: bool) {
        if !self.hosts[h].is_on(session) {
            return;
        }
        if !stored {
            return self.leave(h, "its content was not taken");
        }
        let mut uploads = std::mem::take(&mut self.hosts[h].uploads);
        for (waits, _) in &mut uploads {
            waits.remove(&blob.hash);
        }
        for (waits, deliveries) in uploads {
            match waits.is_empty() {
                true => self.say_if_welcome(h, ToMaster::Delivered(deliveries)),
                false => self.hosts[h].uploads.push((waits, deliveries)),
            }
        }
    }

    fn say_if_welcome(&mut self, h: usize, message: ToMaster) {
        let session = self.hosts[h].session;
        if session.is_some_and(|session| session.incarnation.is_some()) {
            self.say(h, message);
        }
    }

    fn act(&mut self, h: usize, action: &Action) {
        match *action {
            Action::Stage(id, _) => self.later(Span::from_millis(10), What::Staged(h, id)),
            Action::Start(id) => {
                let takes = Span::from_millis(self.chance.between(300, 15_000));
                self.plan_end(h, id, takes, true);
            }
            Action::Terminate(id) | Action::Kill(id) | Action::Drop(id) => {
                self.plan_end(h, id, Span::from_millis(1), false);
            }
            _ => {}
        }
    }

    fn plan_end(&mut self, h: usize, id: AttemptId, takes: Span, well: bool) {
        let host = &mut self.hosts[h];
        host.plans += 1;
        let plan = host.plans;
        host.tasks.insert(id, plan);
        self.later(takes, What::Exited(h, id, plan, well));
    }

    /// A task's files are in place.
    pub(super) fn on_staged(&mut self, h: usize, id: AttemptId) {
        self.tell_host(h, EngineInput::Happened(MachineEvent::Staged(id)));
    }

    /// A task has ended, of itself or because it had to.
    pub(super) fn on_exited(&mut self, h: usize, id: AttemptId, plan: u64, well: bool) {
        if self.hosts[h].tasks.get(&id) != Some(&plan) {
            return;
        }
        self.hosts[h].tasks.remove(&id);
        let outcome = if well {
            self.ledger.on_done(id);
            self.tell_host(h, EngineInput::Happened(MachineEvent::Exited(id)));
            Outcome::Succeeded
        } else {
            Outcome::Stopped
        };
        let mut ending = AttemptEnding::bare(outcome);
        if well {
            // Jobs leave the same content: what one does not need any more, another may.
            let text = format!("{} {}", id.task.job.0 % 2, id.task.index);
            ending.outputs.push(OutputFile {
                path: "out".parse().expect("a path"),
                executable: false,
                blob: hash_bytes(text.as_bytes()),
            });
        }
        let ended = MachineEvent::Ended(id, Box::new(ending));
        self.tell_host(h, EngineInput::Happened(ended));
    }
}
