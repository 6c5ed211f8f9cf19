//! What the machine promises, over random histories played against a small model of the world, and
//! some short stories.

mod giving_back;
mod weighing;

use std::collections::{BTreeMap, BTreeSet};

use common::host::YieldReason;
use common::{Incarnation, JobId, TaskId};
use proptest::prelude::*;

use super::*;

const GRACE: Span = Span::from_secs(5);
const PAUSED: Decision = Decision::Freeze(YieldReason::PausedByOwner);
const PRESENT: OwnerState = OwnerState::Present(YieldReason::PausedByOwner);

pub(crate) fn id(index: u32) -> AttemptId {
    AttemptId {
        task: TaskId::new(JobId(1), index),
        number: 1,
        incarnation: Incarnation(1),
    }
}

pub(crate) fn command(index: u32, limit: Option<Span>) -> Assignment {
    let command = Command {
        argv: vec!["x".to_owned()],
        env: vec![],
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
        limit,
        report_every: None,
        work: Errand::Command(Box::new(command)),
    }
}

fn noop(index: u32) -> Assignment {
    Assignment {
        attempt: id(index),
        limit: None,
        report_every: None,
        work: Errand::Noop,
    }
}

/// Where the world has an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Staging,
    Staged,
    Running { frozen: bool },
    Exited,
}

/// How an attempt left the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Delivered,
    Returned,
    Abandoned,
}

/// The shell and the world around a machine; checks each action against what is so.
struct World {
    machine: Machine,
    slots: usize,
    patience: Option<Span>,
    now: Time,
    places: BTreeMap<AttemptId, Place>,
    doomed: BTreeSet<AttemptId>,
    fates: BTreeMap<AttemptId, Fate>,
    assigned: BTreeSet<AttemptId>,
    outcomes: BTreeMap<AttemptId, Completion>,
    next: u32,
    /// How often the master let something go on, which it may have done while the slot was taken
    /// again.
    released: usize,
    left: bool,
}

impl World {
    fn new(slots: usize) -> Self {
        Self::patient(slots, None)
    }

    fn patient(slots: usize, patience: Option<Span>) -> Self {
        Self {
            machine: Machine::new(slots, GRACE, patience, []),
            slots,
            patience,
            now: Time(1),
            places: BTreeMap::new(),
            doomed: BTreeSet::new(),
            fates: BTreeMap::new(),
            assigned: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            next: 1,
            released: 0,
            left: false,
        }
    }

    /// Has 4 GiB lent to all attempts, and frozen ones measured.
    fn weigh(&mut self) {
        self.machine.weigh();
        self.machine.lend(Capacity {
            cores: 1,
            memory_mib: 4 << 10,
            gpus: 0,
        });
    }

    fn tell(&mut self, event: MachineEvent) -> Vec<Action> {
        let mut actions = Vec::new();
        self.machine.step(self.now, event, &mut actions);
        actions.iter().for_each(|action| self.on_action(action));
        self.check();
        actions
    }

    fn on_action(&mut self, action: &Action) {
        match action {
            Action::Stage(id, _) => assert_eq!(
                self.places.insert(*id, Place::Staging),
                None,
                "{id} staged twice"
            ),
            Action::Start(id) => {
                let before = self.places.insert(*id, Place::Running { frozen: false });
                assert_eq!(before, Some(Place::Staged), "{id} started");
            }
            Action::Freeze(id) => self.set_frozen(*id, true),
            Action::Thaw(id) => self.set_frozen(*id, false),
            Action::Terminate(id) => assert_eq!(
                self.places[id],
                Place::Running { frozen: false },
                "{id} asked to end"
            ),
            Action::Kill(id) | Action::Drop(id) => {
                self.doomed.insert(*id);
            }
            Action::Spool(completion) => {
                self.fate(completion.attempt, Fate::Delivered);
                self.outcomes.insert(completion.attempt, completion.clone());
            }
            Action::Return(ids, _) => ids.iter().for_each(|id| self.fate(*id, Fate::Returned)),
            Action::Left => self.left = true,
            Action::Save(id) => assert!(
                matches!(self.places[id], Place::Running { .. }),
                "{id} saved"
            ),
            Action::Spent(spent) => assert_eq!(self.fates[&spent.attempt], Fate::Returned),
            Action::Weighed(id, _) => assert!(!self.fates.contains_key(id), "{id} has left"),
            Action::Measure(id) => assert_eq!(
                self.places[id],
                Place::Running { frozen: true },
                "{id} measured"
            ),
            Action::Relieved(ids) => assert!(ids.iter().all(|id| self.doomed.contains(id))),
            Action::Discard(_)
            | Action::Forget(_)
            | Action::Report(_)
            | Action::Owner(_)
            | Action::Saving(..)
            | Action::Closing => {}
        }
    }

    fn set_frozen(&mut self, id: AttemptId, frozen: bool) {
        if let Some(place @ Place::Running { .. }) = self.places.get_mut(&id) {
            *place = Place::Running { frozen };
        }
    }

    fn fate(&mut self, id: AttemptId, fate: Fate) {
        assert!(self.assigned.contains(&id));
        assert_eq!(
            self.fates.insert(id, fate),
            None,
            "{id} leaves twice, now {fate:?}"
        );
    }

    fn check(&self) {
        let held = |id: &AttemptId| {
            self.machine
                .running
                .get(id)
                .is_some_and(RunningCommand::held)
        };
        let running = self
            .places
            .iter()
            .filter(|(_, place)| matches!(place, Place::Running { .. }));
        let (still, running): (Vec<_>, Vec<_>) = running.partition(|(id, _)| held(id));

        for (id, place) in still {
            assert!(
                *place == Place::Running { frozen: true } || self.doomed.contains(id),
                "{id} is held, and runs"
            );
        }

        // What was killed where it stood executes no more: it may be dying beside those that run.
        let dying = |(id, place): &&(&AttemptId, &Place)| {
            **place == Place::Running { frozen: true } && self.doomed.contains(*id)
        };
        let in_slots = running.iter().filter(|run| !dying(run)).count();
        assert!(
            in_slots <= self.slots + self.released,
            "{in_slots} run in {} slots",
            self.slots
        );

        let active = |(id, place): &&(&AttemptId, &Place)| {
            **place == Place::Running { frozen: false } && !self.doomed.contains(*id)
        };
        let active = running.iter().filter(active).count();
        let allowed = self.machine.decision().slots(self.slots as u32);
        assert!(
            active <= allowed as usize,
            "{active} run, and the owner allows {allowed}"
        );

        let living: Vec<_> = running
            .iter()
            .filter(|(id, _)| !self.doomed.contains(*id))
            .collect();
        let frozen = living
            .iter()
            .any(|(_, place)| **place == Place::Running { frozen: true });
        assert!(
            !frozen || running.len() > allowed as usize,
            "something is frozen though the owner allows {allowed}"
        );

        if let Some(patience) = self.patience {
            for (id, run) in &self.machine.running {
                let late = run.yields_for(self.now) >= Some(patience);
                assert!(
                    !late || self.doomed.contains(id),
                    "{id} is suspended for longer than the owner's patience"
                );
            }
        }

        // Everything assigned is held, or has left; nothing is held twice.
        let held: Vec<_> = self
            .machine
            .held(self.now)
            .into_iter()
            .map(|held| held.attempt)
            .collect();
        let distinct: BTreeSet<_> = held.iter().copied().collect();
        assert_eq!(held.len(), distinct.len());

        for id in &self.assigned {
            assert!(
                distinct.contains(id) || self.fates.contains_key(id),
                "{id} is lost"
            );
        }
    }

    fn pick(&self, which: usize, wanted: impl Fn(AttemptId, Place) -> bool) -> Option<AttemptId> {
        let fit: Vec<_> = self
            .places
            .iter()
            .filter(|(id, place)| wanted(**id, **place))
            .collect();
        (!fit.is_empty()).then(|| *fit[which % fit.len()].0)
    }

    fn any(&self, which: usize) -> Option<AttemptId> {
        (!self.assigned.is_empty()).then(|| {
            *self
                .assigned
                .iter()
                .nth(which % self.assigned.len())
                .unwrap()
        })
    }

    fn assign(&mut self, count: u32, limit: Option<Span>, noops: bool) {
        let range = self.next..self.next + count;
        self.next += count;
        self.assigned.extend(range.clone().map(id));
        let work = range
            .map(|i| if noops { noop(i) } else { command(i, limit) })
            .collect();
        self.tell(MachineEvent::Assigned(work));
    }

    fn end(&mut self, id: AttemptId) {
        if matches!(self.places.get(&id), Some(Place::Running { .. })) {
            self.places.insert(id, Place::Exited);
            self.tell(MachineEvent::Exited(id));
        }
        self.places.remove(&id);
        self.doomed.remove(&id);
        self.tell(MachineEvent::Ended(
            id,
            Box::new(AttemptEnding::bare(Outcome::Succeeded)),
        ));
    }

    fn play(&mut self, op: &Op) {
        match *op {
            Op::Assign {
                count,
                limit,
                noops,
            } => self.assign(count, limit.map(Span::from_secs), noops),
            Op::Stage { which, fails } => {
                let found = self.pick(which, |id, place| {
                    place == Place::Staging && !self.doomed.contains(&id)
                });
                match found {
                    Some(id) if fails => self.end(id),
                    Some(id) => {
                        self.places.insert(id, Place::Staged);
                        self.tell(MachineEvent::Staged(id));
                    }
                    None => {}
                }
            }
            Op::End(which) => {
                let found = self.pick(which, |id, place| {
                    self.doomed.contains(&id)
                        || place == Place::Running { frozen: false }
                        || place == Place::Exited
                });
                found.into_iter().for_each(|id| self.end(id));
            }
            Op::Exit(which) => {
                if let Some(id) =
                    self.pick(which, |_, place| place == Place::Running { frozen: false })
                {
                    self.places.insert(id, Place::Exited);
                    self.tell(MachineEvent::Exited(id));
                }
            }
            Op::Owner(decision) => drop(self.tell(MachineEvent::Decided(decision))),
            Op::Stop(which) => self
                .any(which)
                .into_iter()
                .for_each(|id| drop(self.tell(MachineEvent::Stop(vec![id])))),
            Op::Yield(which) => self
                .any(which)
                .into_iter()
                .for_each(|id| drop(self.tell(MachineEvent::Yield(vec![id])))),
            Op::Hold(which, held) => {
                self.released += usize::from(!held);
                self.any(which)
                    .into_iter()
                    .for_each(|id| drop(self.tell(MachineEvent::Hold(vec![id], held))));
            }
            Op::Measure(which, bytes) => {
                let frozen = self.pick(which, |_, place| place == Place::Running { frozen: true });
                frozen
                    .into_iter()
                    .for_each(|id| drop(self.tell(MachineEvent::Measured(id, bytes))));
            }
            Op::Abandon(which) => self.abandon(which),
            Op::Acknowledge(which) => {
                let ended: Vec<_> = self.machine.ended().iter().copied().collect();
                if !ended.is_empty() {
                    self.tell(MachineEvent::Acknowledged(vec![ended[which % ended.len()]]));
                }
            }
            Op::Pass(seconds) => {
                self.now = self.now + Span::from_secs(seconds);
                self.tell(MachineEvent::Tick);
            }
            Op::Shutdown => drop(self.tell(MachineEvent::Shutdown)),
        }
    }

    fn abandon(&mut self, which: usize) {
        let Some(id) = self.any(which) else { return };
        if self
            .machine
            .held(self.now)
            .iter()
            .any(|held| held.attempt == id)
        {
            let run = self
                .machine
                .running
                .get(&id)
                .or(self.machine.collecting.get(&id));
            if run.is_some_and(|run| run.verdict == EndCause::Stopped) {
                // It is still to say what it took.
                self.tell(MachineEvent::Abandon(vec![id]));
                return;
            }

            self.fates.entry(id).or_insert(Fate::Abandoned);
            self.tell(MachineEvent::Abandon(vec![id]));
            assert!(
                !self
                    .machine
                    .held(self.now)
                    .iter()
                    .any(|held| held.attempt == id)
            );
        }
    }

    /// Lets everything come to its end.
    fn settle(&mut self) {
        self.tell(MachineEvent::Decided(Decision::Run));
        while !self.places.is_empty() {
            let ids: Vec<_> = self.places.keys().copied().collect();
            for id in ids {
                if self.places.get(&id) == Some(&Place::Staging) && !self.doomed.contains(&id) {
                    self.places.insert(id, Place::Staged);
                    self.tell(MachineEvent::Staged(id));
                } else if self.places.get(&id) != Some(&Place::Staged) || self.doomed.contains(&id)
                {
                    self.end(id);
                }
            }
        }

        for id in &self.assigned {
            assert!(self.fates.contains_key(id), "{id} never came to an end");
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Assign {
        count: u32,
        limit: Option<u64>,
        noops: bool,
    },
    Stage {
        which: usize,
        fails: bool,
    },
    Exit(usize),
    End(usize),
    Owner(Decision),
    Stop(usize),
    Yield(usize),
    Hold(usize, bool),
    Measure(usize, Option<u64>),
    Abandon(usize),
    Acknowledge(usize),
    Pass(u64),
    Shutdown,
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        3 => Just(Decision::Run),
        2 => Just(PAUSED),
        1 => Just(Decision::Freeze(YieldReason::InUse)),
        1 => Just(Decision::Evict(YieldReason::LowMemory)),
        3 => (0u32..5).prop_map(|slots| Decision::Yield(YieldReason::Busy, slots)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1u32..6, proptest::option::of(1u64..20), proptest::bool::weighted(0.2))
            .prop_map(|(count, limit, noops)| Op::Assign { count, limit, noops }),
        8 => (any::<usize>(), proptest::bool::weighted(0.1)).prop_map(|(which, fails)| Op::Stage { which, fails }),
        2 => any::<usize>().prop_map(Op::Exit),
        6 => any::<usize>().prop_map(Op::End),
        3 => decision().prop_map(Op::Owner),
        2 => any::<usize>().prop_map(Op::Stop),
        1 => any::<usize>().prop_map(Op::Yield),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, held)| Op::Hold(which, held)),
        3 => (any::<usize>(), proptest::option::of(0u64..16 << 30))
            .prop_map(|(which, bytes)| Op::Measure(which, bytes)),
        2 => any::<usize>().prop_map(Op::Abandon),
        3 => any::<usize>().prop_map(Op::Acknowledge),
        4 => (1u64..12).prop_map(Op::Pass),
    ]
}

proptest! {
    #[test]
    fn every_attempt_leaves_once_and_none_runs_beside_the_owner_or_the_slots(
        slots in 1usize..4,
        patience in proptest::option::of((1u64..20).prop_map(Span::from_secs)),
        ops in proptest::collection::vec(op(), 0..120),
        shuts_down in any::<bool>(),
        weighs in any::<bool>(),
    ) {
        let mut world = World::patient(slots, patience);
        if weighs {
            world.weigh();
        }
        ops.iter().for_each(|op| world.play(op));
        if shuts_down {
            world.play(&Op::Shutdown);
        }
        world.settle();
        prop_assert_eq!(world.left, shuts_down);
    }

    #[test]
    fn the_named_wakeup_is_never_in_the_past_once_it_was_served(ops in proptest::collection::vec(op(), 0..80)) {
        let mut world = World::patient(2, Some(Span::from_secs(15)));
        world.weigh();
        for op in &ops {
            world.play(op);
            prop_assert!(world.machine.next_wakeup().is_none_or(|at| at > world.now), "after {op:?}");
        }
    }
}

/// A world of one slot with this command running.
fn running(limit: Option<Span>) -> World {
    let mut world = World::new(1);
    world.assign(1, limit, false);
    world.play(&Op::Stage {
        which: 0,
        fails: false,
    });
    assert_eq!(world.places[&id(1)], Place::Running { frozen: false });
    world
}

#[test]
fn a_noop_ends_at_once_without_a_slot() {
    let mut world = running(None);
    let actions = world.tell(MachineEvent::Assigned(vec![]));
    assert_eq!(actions, []);
    world.assign(3, None, true);
    assert_eq!(world.machine.ended().len(), 3);
    assert!(
        world
            .outcomes
            .values()
            .all(|c| c.outcome == Outcome::Succeeded)
    );
}

#[test]
fn suspensions_do_not_count_against_the_limit() {
    let mut world = running(Some(Span::from_secs(10)));
    world.play(&Op::Pass(6));
    world.play(&Op::Owner(PAUSED));
    world.play(&Op::Pass(100));
    assert_eq!(world.machine.next_wakeup(), None);
    world.play(&Op::Owner(Decision::Run));
    assert_eq!(
        world.machine.next_wakeup(),
        Some(world.now + Span::from_secs(4))
    );

    world.play(&Op::Pass(3));
    assert!(world.doomed.is_empty());
    world.now = world.now + Span::from_secs(1);
    assert_eq!(world.tell(MachineEvent::Tick), [Action::Terminate(id(1))]);
    world.now = world.now + GRACE;
    assert_eq!(world.tell(MachineEvent::Tick), [Action::Kill(id(1))]);
    world.end(id(1));

    let done = &world.outcomes[&id(1)];
    assert_eq!(done.outcome, Outcome::TimedOut(Span::from_secs(10)));
    assert_eq!(
        (done.ran, done.suspended),
        (Span::from_secs(15), Span::from_secs(100))
    );
}

#[test]
fn a_stop_is_delivered_as_such_also_when_the_command_ends_well_after_it() {
    let mut world = running(None);
    assert_eq!(
        world.tell(MachineEvent::Stop(vec![id(1)])),
        [Action::Terminate(id(1))]
    );
    assert_eq!(world.tell(MachineEvent::Stop(vec![id(1)])), []);
    world.end(id(1));
    assert_eq!(world.outcomes[&id(1)].outcome, Outcome::Stopped);
}

#[test]
fn a_frozen_command_is_killed_where_it_would_be_asked() {
    let mut world = running(None);
    world.play(&Op::Owner(PAUSED));
    assert_eq!(
        world.tell(MachineEvent::Stop(vec![id(1)])),
        [Action::Kill(id(1))]
    );
    // And one that was asked before the owner came is not waited for.
    let mut world = running(None);
    world.play(&Op::Stop(0));
    assert!(
        world
            .tell(MachineEvent::Decided(PAUSED))
            .contains(&Action::Kill(id(1)))
    );
}

#[test]
fn the_owner_gets_the_backlog_off_the_host_at_once_and_is_reported_first() {
    let mut world = running(None);
    world.assign(4, None, false);

    let actions = world.tell(MachineEvent::Decided(PAUSED));
    let returned: Vec<_> = actions
        .iter()
        .filter(|a| matches!(a, Action::Return(ids, _) if ids.len() == 4))
        .collect();
    assert_eq!(returned.len(), 1);

    let reported = actions
        .iter()
        .any(|a| matches!(a, Action::Report(held) if held[0].phase == Phase::Suspended(YieldReason::PausedByOwner)));
    assert!(
        reported && actions.contains(&Action::Owner(PRESENT)),
        "{actions:?}"
    );
    assert_eq!(world.machine.held(world.now).len(), 1);
    world.assign(1, None, false);
    assert_eq!(world.fates[&id(6)], Fate::Returned);
}

#[test]
fn a_held_attempt_is_frozen_and_frees_its_slot() {
    let mut world = running(None);
    world.play(&Op::Pass(6));

    let actions = world.tell(MachineEvent::Hold(vec![id(1)], true));
    assert_eq!(actions[0], Action::Freeze(id(1)));
    assert!(
        matches!(&actions[1..], [Action::Report(held)] if held[0].phase == Phase::Held),
        "{actions:?}"
    );
    assert_eq!(world.tell(MachineEvent::Hold(vec![id(1)], true)), []);
    world.assign(1, None, false);
    world.play(&Op::Stage {
        which: 0,
        fails: false,
    });

    assert_eq!(world.places[&id(2)], Place::Running { frozen: false });
    world.play(&Op::Pass(50));

    // The owner comes and goes: what is held stays so.
    let actions = world.tell(MachineEvent::Decided(PAUSED));
    assert!(
        actions.contains(&Action::Freeze(id(2))) && !actions.contains(&Action::Freeze(id(1))),
        "{actions:?}"
    );

    let actions = world.tell(MachineEvent::Decided(Decision::Run));
    assert!(
        actions.contains(&Action::Thaw(id(2))) && !actions.contains(&Action::Thaw(id(1))),
        "{actions:?}"
    );

    // Let go on while its slot is taken, it waits for that; also for the owner.
    world.tell(MachineEvent::Decided(PAUSED));
    world.released += 1;
    assert!(
        !world
            .tell(MachineEvent::Hold(vec![id(1)], false))
            .contains(&Action::Thaw(id(1)))
    );
    assert!(
        world
            .tell(MachineEvent::Decided(Decision::Run))
            .contains(&Action::Thaw(id(1))),
        "it was started first"
    );

    assert_eq!(world.places[&id(2)], Place::Running { frozen: true });
    world.end(id(1));
    assert_eq!(world.places[&id(2)], Place::Running { frozen: false });

    let done = &world.outcomes[&id(1)];
    assert_eq!(
        (done.ran, done.suspended),
        (Span::from_secs(6), Span::from_secs(50))
    );
}

#[test]
fn a_useless_held_attempt_is_killed_beside_those_in_its_slot() {
    let mut world = running(None);
    world.tell(MachineEvent::Hold(vec![id(1)], true));
    world.assign(2, None, false);
    world.play(&Op::Stage {
        which: 0,
        fails: false,
    });
    assert_eq!(world.places[&id(2)], Place::Running { frozen: false });
    world.abandon(0);

    assert!(world.doomed.contains(&id(1)));
    assert_eq!(world.places[&id(2)], Place::Running { frozen: false });
    world.end(id(2));
    world.play(&Op::Stage {
        which: 0,
        fails: false,
    });
    assert_eq!(
        world.places[&id(3)],
        Place::Staged,
        "it waits until nothing of the other is left"
    );
    world.end(id(1));

    assert_eq!(world.places[&id(3)], Place::Running { frozen: false });
}

#[test]
fn a_held_attempt_is_killed_on_order_or_for_memory_but_not_for_its_age() {
    let mut world = World::patient(1, Some(Span::from_secs(10)));
    world.assign(1, None, false);
    world.play(&Op::Stage {
        which: 0,
        fails: false,
    });
    world.tell(MachineEvent::Hold(vec![id(1)], true));
    world.play(&Op::Pass(1_000));
    assert!(world.doomed.is_empty() && world.machine.next_wakeup().is_none());

    let actions = world.tell(MachineEvent::Decided(Decision::Evict(
        YieldReason::LowMemory,
    )));
    assert!(
        actions.contains(&Action::Save(id(1))) && actions.contains(&Action::Kill(id(1))),
        "{actions:?}"
    );
    world.end(id(1));
    assert_eq!(world.fates[&id(1)], Fate::Returned);

    let mut world = running(None);
    world.tell(MachineEvent::Hold(vec![id(1)], true));
    assert_eq!(
        world.tell(MachineEvent::Stop(vec![id(1)])),
        [Action::Kill(id(1))]
    );
}

#[test]
fn an_evicted_attempt_saves_its_state_and_reports_its_cost() {
    let mut world = running(None);
    assert_eq!(
        world.tell(MachineEvent::Yield(vec![id(1)])),
        [Action::Save(id(1)), Action::Terminate(id(1))]
    );
    assert_eq!(world.tell(MachineEvent::Yield(vec![id(1)])), []);
    assert_eq!(world.tell(MachineEvent::Abandon(vec![id(1)])), []);
    world.end(id(1));
    assert_eq!(world.outcomes[&id(1)].outcome, Outcome::Stopped);
}

#[test]
fn an_attempt_returned_after_its_start_reports_its_cost() {
    let mut world = running(None);
    world.play(&Op::Pass(7));
    world.tell(MachineEvent::Shutdown);
    world.places.insert(id(1), Place::Exited);
    world.tell(MachineEvent::Exited(id(1)));
    world.places.remove(&id(1));

    let ending = AttemptEnding {
        cpu: Span::from_secs(3),
        ..AttemptEnding::bare(Outcome::Signalled(15))
    };
    let actions = world.tell(MachineEvent::Ended(id(1), Box::new(ending)));
    let spent = Spent {
        attempt: id(1),
        ran: Span::from_secs(7),
        suspended: Span::ZERO,
        cpu: Span::from_secs(3),
    };
    assert!(actions.contains(&Action::Spent(spent)), "{actions:?}");
}

#[test]
fn a_start_is_reported_once_it_has_lasted_and_a_short_one_never() {
    let mut world = running(None);
    world.now = world.machine.next_wakeup().unwrap();
    let actions = world.tell(MachineEvent::Tick);
    assert!(
        matches!(&actions[..], [Action::Report(held)] if held[0].phase == Phase::Running),
        "{actions:?}"
    );
    let mut world = running(None);
    world.end(id(1));
    world.now = world.now + Span::from_secs(1);
    assert_eq!(world.tell(MachineEvent::Tick), []);
}

#[test]
fn a_shutdown_gives_everything_back_and_then_says_so() {
    let mut world = running(None);
    world.assign(2, None, false);
    assert!(!world.tell(MachineEvent::Shutdown).contains(&Action::Left));
    world.settle();
    assert!(world.left);
    assert!(
        world.fates.values().all(|fate| *fate == Fate::Returned),
        "{:?}",
        world.fates
    );
}

#[test]
fn an_assignment_said_twice_is_made_once() {
    let mut world = World::new(2);
    world.assign(1, None, false);
    assert_eq!(
        world.tell(MachineEvent::Assigned(vec![command(1, None)])),
        []
    );
    world.settle();
    assert_eq!(world.outcomes.len(), 1);
}

#[test]
fn an_attempt_with_a_common_start_waits_for_the_order() {
    let mut world = World::new(2);
    world.assigned.insert(id(1));
    world.tell(MachineEvent::AssignedTogether(vec![command(1, None)]));
    world.play(&Op::Stage {
        which: 0,
        fails: false,
    });

    let phases = |world: &World| {
        world
            .machine
            .held(world.now)
            .iter()
            .map(|h| (h.attempt, h.phase))
            .collect::<Vec<_>>()
    };
    assert_eq!(phases(&world), [(id(1), Phase::Ready)]);

    // Others pass it.
    world.assigned.insert(id(2));
    world.tell(MachineEvent::Assigned(vec![command(2, None)]));
    world.play(&Op::Stage {
        which: 0,
        fails: false,
    });
    assert_eq!(
        phases(&world),
        [(id(2), Phase::Running), (id(1), Phase::Ready)]
    );
    assert!(
        world
            .tell(MachineEvent::Begin(vec![id(1)]))
            .contains(&Action::Start(id(1)))
    );

    // Said again, it is neither made again nor held back.
    assert_eq!(
        world.tell(MachineEvent::AssignedTogether(vec![command(1, None)])),
        []
    );
    assert_eq!(
        phases(&world),
        [(id(1), Phase::Running), (id(2), Phase::Running)]
    );
    world.settle();
    assert_eq!(world.outcomes.len(), 2);
}

#[test]
fn a_rank_reports_ready_at_once_and_returns_to_an_owner() {
    let mut world = World::new(1);
    world.assigned.insert(id(1));
    world.tell(MachineEvent::AssignedTogether(vec![command(1, None)]));
    world.places.insert(id(1), Place::Staged);

    let told = world.tell(MachineEvent::Staged(id(1)));
    let ready = HeldAttempt {
        attempt: id(1),
        phase: Phase::Ready,
        ran: Span::ZERO,
        frozen_for: Span::ZERO,
        progress: None,
    };
    assert_eq!(told, [Action::Report(vec![ready])]);
    world.tell(MachineEvent::Decided(PAUSED));
    assert_eq!(world.fates.get(&id(1)), Some(&Fate::Returned));
    assert_eq!(
        world.tell(MachineEvent::Begin(vec![id(1)])),
        [],
        "the word comes too late"
    );
}

#[test]
fn progress_is_listed_while_the_command_runs() {
    let mut world = running(None);
    world.tell(MachineEvent::Progress(vec![(id(1), 0.5), (id(9), 0.1)]));
    world.now = world.now + Span::from_secs(2);
    let held = world.machine.held(world.now);
    assert_eq!(
        (held[0].progress, held[0].ran, held.len()),
        (Some(0.5), Span::from_secs(2), 1)
    );
}

#[test]
fn the_host_reports_as_often_as_the_most_watched_attempt_wants_while_it_is_held() {
    let mut machine = Machine::new(1, GRACE, None, []);
    let mut after = |event| {
        machine.step(Time(1), event, &mut Vec::new());
        machine.report_every()
    };
    let watched = |index, every| Assignment {
        report_every: Some(Span::from_secs(every)),
        ..command(index, None)
    };
    let work = vec![watched(1, 30), watched(2, 5), command(3, None)];
    assert_eq!(
        after(MachineEvent::Assigned(work)),
        Some(Span::from_secs(5))
    );
    assert_eq!(
        after(MachineEvent::Stop(vec![id(2)])),
        Some(Span::from_secs(30)),
        "what was stopped needs no watching"
    );

    assert_eq!(after(MachineEvent::Abandon(vec![id(1)])), None);
}

#[test]
fn the_owners_time_runs_from_coming_and_going_not_from_changes_of_mind() {
    let mut world = World::new(1);
    let later = |world: &mut World, s| world.now = world.now + Span::from_secs(s);
    later(&mut world, 9);
    world.tell(MachineEvent::Decided(PAUSED));
    later(&mut world, 4);
    world.tell(MachineEvent::Decided(Decision::Freeze(YieldReason::InUse)));
    later(&mut world, 3);
    assert_eq!(world.machine.owner_for(world.now), Span::from_secs(7));
    world.tell(MachineEvent::Decided(Decision::Run));
    assert_eq!(world.machine.owner_for(world.now), Span::ZERO);
}

#[test]
fn an_attempt_ended_by_a_shutdown_is_saved_and_a_stopped_one_is_not() {
    let mut world = running(None);
    assert_eq!(
        world.tell(MachineEvent::Shutdown),
        [
            Action::Closing,
            Action::Save(id(1)),
            Action::Terminate(id(1))
        ]
    );

    let mut world = running(None);
    assert_eq!(
        world.tell(MachineEvent::Stop(vec![id(1)])),
        [Action::Terminate(id(1))]
    );
}

/// A world of so many slots, each with a command that runs, the first one started first.
fn busy(slots: usize, patience: Option<Span>) -> World {
    let mut world = World::patient(slots, patience);
    // Numbers and starts are in opposite order, so that neither can stand for the other.
    world.next = 10;
    for index in (1..=slots as u32).rev() {
        world.assigned.insert(id(index));
        world.tell(MachineEvent::Assigned(vec![command(index, None)]));
        world.play(&Op::Stage {
            which: 0,
            fails: false,
        });
    }
    world
}

fn frozen(world: &World) -> Vec<u32> {
    let frozen = world
        .places
        .iter()
        .filter(|(_, place)| **place == Place::Running { frozen: true });
    frozen.map(|(id, _)| id.task.index).collect()
}

#[test]
fn a_sharing_owner_freezes_the_latest_starts_first() {
    let mut world = busy(4, None);
    world.assign(2, None, false);

    let actions = world.tell(MachineEvent::Decided(Decision::Yield(YieldReason::Busy, 2)));
    assert_eq!(frozen(&world), [1, 2], "4 and 3 were started first");

    let owner = OwnerState::Sharing(YieldReason::Busy, 2);
    assert!(
        actions.contains(&Action::Owner(owner)) && world.machine.owner() == owner,
        "{actions:?}"
    );
    assert!(
        actions
            .iter()
            .any(|a| matches!(a, Action::Return(ids, _) if ids.len() == 2)),
        "what was not started goes"
    );

    let told = actions.iter().find_map(|a| match a {
        Action::Report(held) => Some(
            held.iter()
                .map(|h| (h.attempt.task.index, h.phase))
                .collect::<Vec<_>>(),
        ),
        _ => None,
    });

    let suspended = Phase::Suspended(YieldReason::Busy);
    assert_eq!(told.unwrap()[..2], [(1, suspended), (2, suspended)]);

    // What comes now has crossed the news on its way.
    world.assign(1, None, false);
    assert_eq!(world.fates[&id(12)], Fate::Returned);
    world.now = world.now + Span::from_secs(9);

    let held = world.machine.held(world.now);
    assert_eq!(held[0].frozen_for, Span::from_secs(9));
    world.end(id(4));
    assert_eq!(frozen(&world), [1], "3 and 2 run");
    world.tell(MachineEvent::Decided(Decision::Freeze(YieldReason::InUse)));
    assert_eq!(frozen(&world), [1, 2, 3]);
    world.tell(MachineEvent::Decided(Decision::Yield(YieldReason::Busy, 1)));
    assert_eq!(frozen(&world), [1, 2]);

    world.tell(MachineEvent::Decided(Decision::Run));
    assert!(frozen(&world).is_empty());
}

#[test]
fn a_sharing_owner_bounds_the_number_of_starts() {
    let mut world = World::new(4);
    world.tell(MachineEvent::Decided(Decision::Yield(
        YieldReason::InUse,
        2,
    )));
    world.assign(5, None, false);

    for _ in 0..5 {
        world.play(&Op::Stage {
            which: 0,
            fails: false,
        });
    }

    let running = world
        .places
        .values()
        .filter(|place| matches!(place, Place::Running { .. }))
        .count();
    assert_eq!(running, 2);
    world.settle();
}

#[test]
fn an_attempt_suspended_too_long_is_saved_and_returned() {
    let mut world = busy(2, Some(Span::from_secs(600)));
    world.tell(MachineEvent::Decided(Decision::Yield(
        YieldReason::InUse,
        1,
    )));
    assert_eq!(
        world.machine.next_wakeup(),
        Some(world.now + Span::from_secs(600))
    );
    world.play(&Op::Pass(599));
    assert!(world.doomed.is_empty());
    world.now = world.now + Span::from_secs(1);

    assert_eq!(
        world.tell(MachineEvent::Tick),
        [Action::Save(id(1)), Action::Kill(id(1))]
    );
    assert_eq!(world.tell(MachineEvent::Tick), [], "once");
    world.end(id(1));
    assert_eq!(
        world.fates[&id(1)],
        Fate::Returned,
        "and not charged: it is given back, not lost"
    );
    assert_eq!(world.places[&id(2)], Place::Running { frozen: false });
}

#[test]
fn an_eviction_ends_suspended_attempts_at_once() {
    let mut world = busy(2, None);
    world.tell(MachineEvent::Decided(Decision::Freeze(
        YieldReason::LowMemory,
    )));
    assert!(world.doomed.is_empty());

    let actions = world.tell(MachineEvent::Decided(Decision::Evict(
        YieldReason::LowMemory,
    )));
    assert_eq!(
        actions,
        [1, 2]
            .map(|i| [Action::Save(id(i)), Action::Kill(id(i))])
            .concat(),
        "nobody needs to be told"
    );

    // A frozen process cannot be asked, and one that is given back is not given back twice.
    assert_eq!(world.tell(MachineEvent::Shutdown), [Action::Closing]);
    world.settle();
    assert!(world.left && world.fates.values().all(|fate| *fate == Fate::Returned));
}

#[test]
fn a_change_of_the_reason_is_reported_for_everything_that_is_suspended() {
    let mut world = busy(1, None);
    world.tell(MachineEvent::Decided(Decision::Freeze(YieldReason::InUse)));
    let actions = world.tell(MachineEvent::Decided(Decision::Freeze(
        YieldReason::OnBattery,
    )));
    let owner = OwnerState::Present(YieldReason::OnBattery);
    assert_eq!(actions[0], Action::Owner(owner));
    assert!(
        matches!(&actions[1..], [Action::Report(held)] if held[0].phase == Phase::Suspended(YieldReason::OnBattery))
    );
}

/// A command that takes more than a slot.
fn taking(index: u32, cores: u32, memory_mib: u32) -> Assignment {
    let mut assignment = command(index, None);
    if let Errand::Command(command) = &mut assignment.work {
        command.takes = Demand {
            cores,
            memory_mib,
            gpus: 0,
        };
    }
    assignment
}

/// Returns the commands that a machine starts, freezes and thaws after an event.
fn turns(machine: &mut Machine, at: u64, event: MachineEvent) -> Vec<Action> {
    let mut actions = Vec::new();
    machine.step(Time(at), event, &mut actions);
    actions.retain(|action| {
        matches!(
            action,
            Action::Start(_) | Action::Freeze(_) | Action::Thaw(_)
        )
    });
    actions
}

#[test]
fn commands_start_only_where_what_they_take_is_left() {
    let mut machine = Machine::new(4, GRACE, None, []);
    machine.lend(Capacity {
        cores: 4,
        memory_mib: 1_000,
        gpus: 0,
    });
    let work = vec![
        taking(1, 3, 600),
        taking(2, 1, 500),
        command(3, None),
        command(4, None),
    ];
    turns(&mut machine, 1, MachineEvent::Assigned(work));
    let staged: Vec<Action> = (1..=4)
        .flat_map(|n| turns(&mut machine, 2, MachineEvent::Staged(id(n))))
        .collect();
    assert_eq!(
        staged,
        [Action::Start(id(1)), Action::Start(id(3))],
        "the second lacks memory, the fourth a processor"
    );

    let ended = Box::new(AttemptEnding::bare(Outcome::Succeeded));
    let next = turns(&mut machine, 3, MachineEvent::Ended(id(1), ended));
    assert_eq!(next, [Action::Start(id(2)), Action::Start(id(4))]);
}

#[test]
fn while_the_owner_shares_commands_have_the_same_part_of_the_processors_as_of_the_slots() {
    let mut machine = Machine::new(4, GRACE, None, []);
    machine.lend(Capacity {
        cores: 8,
        memory_mib: 1_000,
        gpus: 0,
    });
    let work = vec![taking(1, 6, 0), command(2, None)];
    turns(&mut machine, 1, MachineEvent::Assigned(work));
    for n in 1..=2 {
        turns(&mut machine, 2, MachineEvent::Staged(id(n)));
    }

    let shared = Decision::Yield(YieldReason::InUse, 2);
    assert_eq!(
        turns(&mut machine, 3, MachineEvent::Decided(shared)),
        [Action::Freeze(id(1))],
        "six of the four that are left"
    );
    assert_eq!(
        turns(&mut machine, 4, MachineEvent::Decided(Decision::Run)),
        [Action::Thaw(id(1))]
    );
}
