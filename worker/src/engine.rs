//! The worker without threads, files and clock: `Machine`, plus the messages to the master and the
//! requests to the spool. `worker` drives it live; a simulation that orders events itself drives
//! the very same code.
//!
//! `session` carries the messages, `attempt` runs the attempts, and `owner` decides when tasks may
//! run.

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::{HeldAttempt, Phase, Spent};
use common::checkpoint::Saving;
use common::host::{HostFacts, Status};
use common::needs::Capacity;
use common::wire::worker::{Delivery, ToMaster, ToWorker};
use common::wire::{Versions, WEIGHING_VERSION};
use common::{AttemptId, Completion, Span, Time};

pub use crate::elsewhere::Highest;
use crate::given_back::UnheardReturns;
use crate::machine::Machine;
pub use crate::machine::{Action, AttemptEnding, MachineEvent};
pub use crate::owner::policy::Decision;
pub use crate::spool::HostMoment;
pub use crate::spool::medium::Medium;
pub use crate::spool::shelf::Shelf;
pub use crate::spool::writer::{SpoolRequest, Spooled};

/// The number of spooled completions that are read and sent at a time after a connection was made.
const BACKLOG: usize = 512;
/// The most attempts in a [`HeldAttempt`] list, so that the message stays within its bound.
const MAX_HELD: usize = 6_000;

/// The rules that make crashes of the worker harmless, by name. The program always keeps them all;
/// a simulation that drives an [`Engine`] can break one, to show that its absence would be noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashRules {
    /// A completion is durable in the spool before it is first sent.
    pub spool_before_send: bool,
    /// A completion leaves the spool only when the master has acknowledged or abandoned it.
    pub delete_after_acknowledgement: bool,
}

impl CrashRules {
    /// All rules kept.
    pub const KEPT: Self = Self {
        spool_before_send: true,
        delete_after_acknowledgement: true,
    };
}

/// An input of the engine.
#[derive(Debug)]
pub enum EngineInput {
    /// An event at the worker.
    Happened(MachineEvent),
    /// The master has accepted the worker.
    Up,
    /// A message from the master.
    Said(ToWorker),
    /// The connection is lost.
    Down,
    /// A result of the spool.
    Spooled(Spooled),
}

/// An output of the engine, to be carried out in order.
#[derive(Debug)]
pub enum EngineOutput {
    /// Act on an attempt, or on the worker: stage, start, freeze, thaw, end, save, drop, discard,
    /// leave. [`Action::Spent`] comes once for each attempt that ran and is given back, however often
    /// that is said.
    Act(Action),
    /// Tell the master, where there is a connection; else it is of no use any more, or is said again
    /// over the next one.
    Say(ToMaster),
    /// Make a completion durable.
    Keep(Completion),
    /// Deliver durable completions, each after its content, where there is a connection.
    Deliver(Vec<Delivery>),
    /// Drop durable completions from the spool.
    Forget(Vec<AttemptId>),
    /// Read durable completions from the spool.
    Read(Vec<AttemptId>),
}

/// The engine's state; one for each run of a worker.
#[derive(Debug)]
pub struct Engine {
    machine: Machine,
    laws: CrashRules,
    /// The result of the newest checkpoint of each attempt.
    saved: BTreeMap<AttemptId, (u32, Saving)>,
    /// The attempts that ran and were given back, and of which the master may not know.
    unheard: UnheardReturns,
    /// Spooled completions still to be read and sent over this connection.
    backlog: Vec<AttemptId>,
    /// The completions that the last greeting listed. No word of the master drops another one: it
    /// was said while the attempt still ran, as far as the master knew.
    greeted: BTreeSet<AttemptId>,
    connected: bool,
    /// Whether the master understands what attempts held that are given back for memory.
    weighs_for_master: bool,
    actions: Vec<Action>,
}

impl Engine {
    /// Makes the engine of a worker with `slots` slots. A command that was asked to end has `grace`
    /// until it is killed; a frozen one is given back after `patience`, and if there is no connection
    /// then, once there is one. `ended` are the completions that the spool holds from before.
    pub fn new(
        slots: usize,
        grace: Span,
        patience: Option<Span>,
        ended: impl IntoIterator<Item = AttemptId>,
        laws: CrashRules,
    ) -> Self {
        let mut machine = Machine::new(slots, grace, patience, ended);
        machine.be_heard(false);

        Self {
            machine,
            laws,
            saved: BTreeMap::new(),
            unheard: UnheardReturns::default(),
            backlog: Vec::new(),
            greeted: BTreeSet::new(),
            connected: false,
            weighs_for_master: false,
            actions: Vec::new(),
        }
    }

    /// Sets what the owner lends to all attempts together.
    #[must_use]
    pub fn lending(mut self, lends: Capacity) -> Self {
        self.machine.lend(lends);
        self
    }

    /// As [`Self::lending`], where [`Action::Measure`] is carried out: what holds more memory than is lent when
    /// that is short fails, and is not given back.
    #[must_use]
    pub(crate) fn weighing(mut self, lends: Capacity) -> Self {
        self.machine.weigh();
        self.lending(lends)
    }

    /// Begins nothing, not even the staging of inputs, before there is a slot for it.
    #[must_use]
    pub(crate) fn staging_in_slots(mut self) -> Self {
        self.machine.stage_in_slots();
        self
    }

    /// Goes on with what an earlier run gave back, of which the master may not know.
    #[must_use]
    pub(crate) fn owing(mut self, left: Vec<Spent>) -> Self {
        self.unheard = UnheardReturns::resumed(left);
        self
    }

    /// Returns what ran and was given back, and the master may not know of.
    pub(crate) fn owes(&self) -> Vec<Spent> {
        self.unheard.left()
    }

    /// Sets the time after which a frozen command is given back.
    pub(crate) fn be_patient(&mut self, patience: Option<Span>) {
        self.machine.be_patient(patience);
    }

    /// Returns the machine for reading.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the time at which [`MachineEvent::Tick`] is due, if nothing else happens before.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.machine.next_wakeup()
    }

    /// Returns the longest interval of heartbeats that the held attempts allow, if the master wants
    /// any of them reported more often than usual.
    pub fn report_every(&self) -> Option<Span> {
        self.machine.report_every()
    }

    /// Iterates over the completions that wait for their acknowledgement.
    pub fn ended(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.machine.ended().iter().copied()
    }

    /// Whether attempts wait for a slot here.
    pub fn has_queued(&self) -> bool {
        self.machine.has_queued()
    }

    /// Returns the first message of a connection, [`ToMaster::Hello`].
    pub fn hello(&mut self, now: Time, facts: HostFacts, status: Status) -> ToMaster {
        let held = self.machine.held(now);
        let ended = held.iter().filter(|held| held.phase == Phase::Ended);
        self.greeted = ended.map(|held| held.attempt).collect();

        // What ran and is not listed counts as lost: that it was given back would be heard too late.
        let held = held.into_iter().chain(self.unheard.held());
        ToMaster::Hello {
            versions: Versions::ours(),
            facts: Box::new(facts),
            status,
            held: bounded(held.collect()),
        }
    }

    /// Returns a heartbeat, to be sent at regular intervals.
    pub fn heartbeat(&mut self, now: Time, status: Status) -> ToMaster {
        self.unheard.beats();
        ToMaster::Heartbeat {
            status,
            held: bounded(self.machine.held(now)),
        }
    }

    /// Takes one input.
    pub fn step(&mut self, now: Time, input: EngineInput, out: &mut Vec<EngineOutput>) {
        match input {
            EngineInput::Happened(event) => self.happen(now, event, out),
            EngineInput::Up => {
                self.connected = true;
                self.machine.be_heard(true);
                // The last report over the connection before may not have arrived.
                let saved = self.saved.iter();
                out.extend(saved.map(|(id, (sequence, saving))| {
                    say_checkpoint(*id, *sequence, saving.clone())
                }));
                self.unheard.connects();
            }
            EngineInput::Down => {
                self.connected = false;
                self.machine.be_heard(false);
                self.backlog.clear();
            }
            EngineInput::Said(message) => self.on_message(now, message, out),
            EngineInput::Spooled(Spooled::Durable(deliveries) | Spooled::Unsaved(deliveries)) => {
                self.deliver(now, deliveries, out);
            }
            EngineInput::Spooled(Spooled::Read(deliveries)) => {
                self.deliver(now, deliveries, out);
                self.read_backlog(out);
            }
            EngineInput::Spooled(Spooled::Broken(_)) => {}
        }
    }

    fn on_message(&mut self, now: Time, message: ToWorker, out: &mut Vec<EngineOutput>) {
        let event = match message {
            ToWorker::Welcome {
                abandon, version, ..
            } => {
                self.weighs_for_master = version >= WEIGHING_VERSION;
                if self.machine.is_leaving() {
                    // A worker that joins counts as one that takes tasks.
                    out.push(EngineOutput::Say(ToMaster::Closing));
                }
                let again = self.unheard.said_again(self.weighs_for_master);
                out.extend(again.into_iter().map(EngineOutput::Say));
                self.abandon(now, abandon, out);
                self.backlog = self.machine.ended().iter().copied().collect();
                self.read_backlog(out);
                return;
            }
            ToWorker::Assign(work) => MachineEvent::Assigned(work),
            ToWorker::AssignTogether(work) => MachineEvent::AssignedTogether(work),
            ToWorker::Begin(attempts) => MachineEvent::Begin(attempts),
            ToWorker::Stop { attempts, why } => {
                tracing::info!(
                    count = attempts.len(),
                    first = attempts.first().map(tracing::field::display),
                    why,
                    "the master stops attempts"
                );
                MachineEvent::Stop(attempts)
            }
            ToWorker::Yield { attempts, why } => {
                tracing::info!(
                    count = attempts.len(),
                    why,
                    "the master stops attempts, their states saved"
                );
                MachineEvent::Yield(attempts)
            }
            ToWorker::Hold { attempts, frozen } => {
                tracing::info!(
                    count = attempts.len(),
                    frozen,
                    "the master freezes attempts, or lets them go on"
                );
                MachineEvent::Hold(attempts, frozen)
            }
            ToWorker::Acknowledged(attempts) => MachineEvent::Acknowledged(attempts),
            ToWorker::Beat { abandon } => {
                self.unheard.answered();
                return self.abandon(now, abandon, out);
            }
            ToWorker::Goodbye
            | ToWorker::Kept { .. }
            | ToWorker::SendEvery(_)
            | ToWorker::Tail(_)
            | ToWorker::Serve(_)
            | ToWorker::Unserve(_)
            | ToWorker::Update(_)
            | ToWorker::Site(_)
            | ToWorker::OutOfService(_)
            | ToWorker::Anew
            | ToWorker::Refused(_) => return,
        };

        self.happen(now, event, out);
    }

    /// Drops what the master does not need. A result that came about since it was said so is
    /// delivered all the same: it counts, and is acknowledged.
    fn abandon(&mut self, now: Time, mut attempts: Vec<AttemptId>, out: &mut Vec<EngineOutput>) {
        let ended = self.machine.ended();
        attempts.retain(|id| self.greeted.contains(id) || !ended.contains(id));
        self.happen(now, MachineEvent::Abandon(attempts), out);
    }

    /// Requests the next spooled completions.
    fn read_backlog(&mut self, out: &mut Vec<EngineOutput>) {
        let some = self
            .backlog
            .split_off(self.backlog.len().saturating_sub(BACKLOG));
        if self.connected && !some.is_empty() {
            out.push(EngineOutput::Read(some));
        }
    }

    fn deliver(&mut self, now: Time, deliveries: Vec<Delivery>, out: &mut Vec<EngineOutput>) {
        if !self.connected {
            return;
        }
        let attempts: Vec<AttemptId> = deliveries
            .iter()
            .map(|delivery| delivery.completion.attempt)
            .collect();
        out.push(EngineOutput::Deliver(deliveries));
        if !self.laws.delete_after_acknowledgement {
            self.happen(now, MachineEvent::Acknowledged(attempts), out);
        }
    }

    fn happen(&mut self, now: Time, event: MachineEvent, out: &mut Vec<EngineOutput>) {
        if let MachineEvent::Ended(id, _) = &event {
            self.saved.remove(id);
        }

        let mut actions = std::mem::take(&mut self.actions);
        self.machine.step(now, event, &mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Spool(completion) => self.keep(now, completion, out),
                Action::Forget(attempts) => out.push(EngineOutput::Forget(attempts)),
                Action::Saving(attempt, sequence, saving) => {
                    self.saved.insert(attempt, (sequence, saving.clone()));
                    out.push(say_checkpoint(attempt, sequence, saving));
                }
                Action::Return(attempts, why) => {
                    out.push(EngineOutput::Say(ToMaster::Returned { attempts, why }));
                }
                Action::Spent(spent) => {
                    self.unheard.returned(spent);
                    out.push(EngineOutput::Say(ToMaster::Spent(spent)));
                    out.push(EngineOutput::Act(Action::Spent(spent)));
                }
                Action::Weighed(attempt, bytes) => {
                    self.unheard.weighed(attempt, bytes);
                    if self.weighs_for_master {
                        out.push(EngineOutput::Say(ToMaster::Weighed { attempt, bytes }));
                    }
                }
                Action::Relieved(attempts) => {
                    tracing::warn!(
                        count = attempts.len(),
                        first = attempts.first().map(tracing::field::display),
                        "memory is short, and attempts that hold more of it than is lent to all are ended"
                    );
                    out.push(EngineOutput::Act(Action::Relieved(attempts)));
                }
                Action::Report(held) => out.push(EngineOutput::Say(ToMaster::Phases(held))),
                Action::Closing => out.push(EngineOutput::Say(ToMaster::Closing)),
                Action::Owner(owner) => out.push(EngineOutput::Say(ToMaster::Owner(owner))),
                action => out.push(EngineOutput::Act(action)),
            }
        }

        self.actions = actions;
    }

    fn keep(&mut self, now: Time, completion: Completion, out: &mut Vec<EngineOutput>) {
        if !self.laws.spool_before_send {
            self.deliver(
                now,
                vec![Delivery {
                    completion: completion.clone(),
                    ago: Span::ZERO,
                }],
                out,
            );
        }
        out.push(EngineOutput::Keep(completion));
    }
}

/// Tells the master how the saving of an attempt's state went.
fn say_checkpoint(attempt: AttemptId, sequence: u32, saving: Saving) -> EngineOutput {
    EngineOutput::Say(ToMaster::Checkpoint {
        attempt,
        sequence,
        saving,
    })
}

/// Cuts a list of held attempts to what a message takes.
fn bounded(mut held: Vec<HeldAttempt>) -> Vec<HeldAttempt> {
    if held.len() > MAX_HELD {
        tracing::warn!(
            held = held.len(),
            "more attempts are held than a message can list"
        );
        held.truncate(MAX_HELD);
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{command, id};
    use common::host::YieldReason;
    use common::{HostId, Incarnation, Outcome};

    fn welcome(abandon: &[AttemptId]) -> EngineInput {
        EngineInput::Said(ToWorker::Welcome {
            version: common::wire::WIRE_VERSION,
            host: HostId(1),
            name: "pc".to_owned(),
            incarnation: Incarnation(8),
            heartbeat: Span::from_secs(60),
            abandon: abandon.to_vec(),
        })
    }

    /// The welcome of a master that speaks this version.
    fn welcome_by(version: u16) -> EngineInput {
        let mut greeting = welcome(&[]);
        if let EngineInput::Said(ToWorker::Welcome { version: said, .. }) = &mut greeting {
            *said = version;
        }
        greeting
    }

    /// Returns what is said once a master that speaks this version has accepted the worker.
    fn connects(engine: &mut Engine, version: u16) -> Vec<ToMaster> {
        let mut out = Vec::new();
        for input in [EngineInput::Up, welcome_by(version)] {
            engine.step(Time(4), input, &mut out);
        }
        let said = out.into_iter().filter_map(|output| match output {
            EngineOutput::Say(message) => Some(message),
            _ => None,
        });
        said.collect()
    }

    /// An engine whose attempt was given, or runs.
    fn engine(runs: bool) -> Engine {
        let mut engine = Engine::new(1, Span::from_secs(5), None, [], CrashRules::KEPT);
        let given = ToWorker::Assign(vec![command(1, None)]);

        forgets(&mut engine, EngineInput::Said(given));
        if runs {
            happens(&mut engine, MachineEvent::Staged(id(1)));
        }
        engine
    }

    fn ends(engine: &mut Engine) {
        happens(engine, MachineEvent::Exited(id(1)));
        let ending = Box::new(AttemptEnding::bare(Outcome::Succeeded));
        happens(engine, MachineEvent::Ended(id(1), ending));
    }

    fn happens(engine: &mut Engine, event: MachineEvent) {
        assert!(!forgets(engine, EngineInput::Happened(event)));
    }

    /// Whether the engine drops the attempt's completion.
    fn forgets(engine: &mut Engine, input: EngineInput) -> bool {
        let mut out = Vec::new();
        engine.step(Time(3), input, &mut out);
        out.iter()
            .any(|output| matches!(output, EngineOutput::Forget(ids) if *ids == [id(1)]))
    }

    fn greets(engine: &mut Engine) -> Phase {
        let facts = crate::facts::measure("pc", 1);
        let status = common::host::OwnerState::Away.into();
        match engine.hello(Time(2), facts, status) {
            ToMaster::Hello { held, .. } => held[0].phase,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_completion_that_the_greeting_listed_is_dropped_when_it_is_of_no_use() {
        let mut engine = engine(true);
        ends(&mut engine);
        assert_eq!(greets(&mut engine), Phase::Ended);
        assert!(forgets(&mut engine, welcome(&[id(1)])));
        assert_eq!(engine.ended().count(), 0);
    }

    #[test]
    fn a_completion_since_the_greeting_is_delivered_whatever_the_master_says_of_its_attempt() {
        let beat = EngineInput::Said(ToWorker::Beat {
            abandon: vec![id(1)],
        });
        for answer in [welcome(&[id(1)]), beat] {
            let mut engine = engine(true);
            assert_eq!(greets(&mut engine), Phase::Running);
            ends(&mut engine);
            assert!(!forgets(&mut engine, answer));
            assert_eq!(engine.ended().collect::<Vec<_>>(), [id(1)]);
        }
    }

    #[test]
    fn an_attempt_that_has_not_ended_is_dropped_when_it_is_of_no_use() {
        for runs in [false, true] {
            let mut engine = engine(runs);
            greets(&mut engine);
            forgets(&mut engine, welcome(&[id(1)]));
            assert!(engine.machine.held(Time(4)).is_empty(), "runs: {runs}");
        }
    }

    /// Returns what the engine does so many seconds after its start.
    fn acts(engine: &mut Engine, at_s: u64, input: EngineInput) -> Vec<Action> {
        let mut out = Vec::new();
        engine.step(Time(0) + Span::from_secs(at_s), input, &mut out);
        let acts = out.into_iter().filter_map(|output| match output {
            EngineOutput::Act(action) => Some(action),
            _ => None,
        });
        acts.collect()
    }

    #[test]
    fn what_is_frozen_stays_so_while_its_state_could_reach_nobody() {
        let patience = Some(Span::from_secs(10));
        let mut engine = Engine::new(1, Span::from_secs(5), patience, [], CrashRules::KEPT);
        let given = ToWorker::Assign(vec![command(1, None)]);
        let came = MachineEvent::Decided(Decision::Freeze(YieldReason::InUse));
        for input in [
            EngineInput::Up,
            EngineInput::Said(given),
            EngineInput::Happened(MachineEvent::Staged(id(1))),
            EngineInput::Down,
            EngineInput::Happened(came),
        ] {
            acts(&mut engine, 0, input);
        }

        let tick = || EngineInput::Happened(MachineEvent::Tick);
        assert_eq!(acts(&mut engine, 100, tick()), []);
        assert_eq!(engine.next_wakeup(), None);
        acts(&mut engine, 200, EngineInput::Up);
        assert!(engine.next_wakeup().is_some());
        assert_eq!(
            acts(&mut engine, 200, tick()),
            [Action::Save(id(1)), Action::Kill(id(1))]
        );
    }

    #[test]
    fn what_is_given_back_unheard_is_listed_and_said_over_the_next_connection() {
        for greeted in [false, true] {
            let mut engine = engine(true);
            if greeted {
                assert_eq!(greets(&mut engine), Phase::Running);
            }
            let evicted = Decision::Evict(YieldReason::LowMemory);
            happens(&mut engine, MachineEvent::Decided(evicted));
            ends(&mut engine);
            assert!(engine.machine.holds_nothing());
            if !greeted {
                assert_eq!(greets(&mut engine), Phase::Ended);
            }

            let said = connects(&mut engine, WEIGHING_VERSION);
            let both = matches!(
                &said[..],
                [ToMaster::Returned { attempts, .. }, ToMaster::Spent(spent)]
                    if *attempts == [id(1)] && spent.attempt == id(1)
            );
            assert!(both, "{greeted}: {said:?}");
        }
    }

    #[test]
    fn what_an_attempt_held_that_is_given_back_unheard_is_said_over_the_next_connection() {
        for version in [WEIGHING_VERSION - 1, WEIGHING_VERSION] {
            let mut engine = engine(true).weighing(Capacity {
                cores: 1,
                memory_mib: 1 << 10,
                gpus: 0,
            });
            let evicted = Decision::Evict(YieldReason::LowMemory);
            happens(&mut engine, MachineEvent::Decided(evicted));
            happens(&mut engine, MachineEvent::Measured(id(1), Some(7)));
            happens(&mut engine, MachineEvent::Exited(id(1)));
            let ending = Box::new(AttemptEnding::bare(Outcome::Signalled(9)));
            happens(&mut engine, MachineEvent::Ended(id(1), ending));

            let said = connects(&mut engine, version);
            let weighed = ToMaster::Weighed {
                attempt: id(1),
                bytes: Some(7),
            };
            let understands = version == WEIGHING_VERSION;
            assert_eq!(said.first() == Some(&weighed), understands, "{said:?}");
            let rest = &said[usize::from(understands)..];
            let both = matches!(rest, [ToMaster::Returned { .. }, ToMaster::Spent(_)]);
            assert!(both, "{said:?}");
        }
    }

    #[test]
    fn only_a_master_that_understands_it_is_told_what_an_attempt_held() {
        for version in [WEIGHING_VERSION - 1, WEIGHING_VERSION] {
            let mut engine = engine(true).weighing(Capacity {
                cores: 1,
                memory_mib: 1 << 10,
                gpus: 0,
            });
            forgets(&mut engine, welcome_by(version));

            let evicted = Decision::Evict(YieldReason::LowMemory);
            happens(&mut engine, MachineEvent::Decided(evicted));
            happens(&mut engine, MachineEvent::Measured(id(1), Some(7)));
            happens(&mut engine, MachineEvent::Exited(id(1)));
            let ending = Box::new(AttemptEnding::bare(Outcome::Signalled(9)));
            let ended = EngineInput::Happened(MachineEvent::Ended(id(1), ending));
            let mut out = Vec::new();
            engine.step(Time(3), ended, &mut out);

            let told = out.iter().filter(|output| {
                matches!(
                    output,
                    EngineOutput::Say(ToMaster::Weighed { attempt, bytes: Some(7) }) if *attempt == id(1)
                )
            });
            let understands = version == WEIGHING_VERSION;
            assert_eq!(told.count(), usize::from(understands), "{out:?}");
        }
    }

    #[test]
    fn a_worker_that_shuts_down_says_so_over_each_connection() {
        let mut engine = engine(true);
        assert!(!connects(&mut engine, WEIGHING_VERSION).contains(&ToMaster::Closing));
        happens(&mut engine, MachineEvent::Shutdown);
        for _ in 0..2 {
            happens(&mut engine, MachineEvent::Tick);
            forgets(&mut engine, EngineInput::Down);
            let said = connects(&mut engine, WEIGHING_VERSION);
            assert_eq!(said.first(), Some(&ToMaster::Closing), "{said:?}");
        }
    }

    #[test]
    fn what_never_started_is_given_back_once() {
        let mut engine = engine(false);
        let mut out = Vec::new();
        let leaves = EngineInput::Happened(MachineEvent::Shutdown);
        engine.step(Time(4), leaves, &mut out);
        let back = |output: &EngineOutput| match output {
            EngineOutput::Say(ToMaster::Returned { attempts, .. }) => *attempts == [id(1)],
            _ => false,
        };
        assert!(out.iter().any(back), "{out:?}");
        assert!(engine.owes().is_empty());

        let said = connects(&mut engine, WEIGHING_VERSION);
        let back = |message: &ToMaster| matches!(message, ToMaster::Returned { .. });
        assert!(!said.iter().any(back), "{said:?}");
    }

    #[test]
    fn what_is_given_back_has_ended_once_however_often_that_is_said() {
        let mut engine = engine(true);
        let evicted = MachineEvent::Decided(Decision::Evict(YieldReason::LowMemory));
        let ending = Box::new(AttemptEnding::bare(Outcome::Succeeded));
        let done = [
            EngineInput::Happened(evicted),
            EngineInput::Happened(MachineEvent::Exited(id(1))),
            EngineInput::Happened(MachineEvent::Ended(id(1), ending)),
            EngineInput::Up,
            welcome(&[]),
            EngineInput::Down,
            EngineInput::Up,
            welcome(&[]),
        ]
        .map(|input| acts(&mut engine, 3, input))
        .concat();

        let spent = done.iter().filter(|act| matches!(act, Action::Spent(_)));
        assert_eq!(spent.count(), 1);
    }
}
