//! What the machine promises, over random histories played against a small model of the world, and some short stories.

use std::collections::{BTreeMap, BTreeSet};

use common::host::YieldReason;
use common::{Incarnation, JobId, TaskId};
use proptest::prelude::*;

use super::*;

const GRACE: Span = Span::from_secs(5);
const PRESENT: OwnerState = OwnerState::Present(YieldReason::PausedByOwner);

fn id(index: u32) -> AttemptId {
    AttemptId { task: TaskId::new(JobId(1), index), number: 1, incarnation: Incarnation(1) }
}

fn command(index: u32, limit: Option<Span>) -> Assignment {
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
    };
    Assignment { attempt: id(index), limit, report_every: None, work: Errand::Command(Box::new(command)) }
}

fn noop(index: u32) -> Assignment {
    Assignment { attempt: id(index), limit: None, report_every: None, work: Errand::Noop }
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
    now: Time,
    places: BTreeMap<AttemptId, Place>,
    doomed: BTreeSet<AttemptId>,
    fates: BTreeMap<AttemptId, Fate>,
    assigned: BTreeSet<AttemptId>,
    outcomes: BTreeMap<AttemptId, Completion>,
    next: u32,
    left: bool,
}

impl World {
    fn new(slots: usize) -> Self {
        Self {
            machine: Machine::new(slots, GRACE, []),
            slots,
            now: Time(1),
            places: BTreeMap::new(),
            doomed: BTreeSet::new(),
            fates: BTreeMap::new(),
            assigned: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            next: 1,
            left: false,
        }
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.machine.step(self.now, event, &mut actions);
        actions.iter().for_each(|action| self.on_action(action));
        self.check();
        actions
    }

    fn on_action(&mut self, action: &Action) {
        match action {
            Action::Stage(id, _) => assert_eq!(self.places.insert(*id, Place::Staging), None, "{id} staged twice"),
            Action::Start(id) => {
                let before = self.places.insert(*id, Place::Running { frozen: false });
                assert_eq!(before, Some(Place::Staged), "{id} started");
            }
            Action::Freeze(id) => self.set_frozen(*id, true),
            Action::Thaw(id) => self.set_frozen(*id, false),
            Action::Terminate(id) => assert_eq!(self.places[id], Place::Running { frozen: false }, "{id} asked to end"),
            Action::Kill(id) | Action::Drop(id) => {
                self.doomed.insert(*id);
            }
            Action::Spool(completion) => {
                self.fate(completion.attempt, Fate::Delivered);
                self.outcomes.insert(completion.attempt, completion.clone());
            }
            Action::Return(ids, _) => ids.iter().for_each(|id| self.fate(*id, Fate::Returned)),
            Action::Left => self.left = true,
            Action::Save(id) => assert!(matches!(self.places[id], Place::Running { .. }), "{id} saved"),
            Action::Discard(_) | Action::Forget(_) | Action::Report(_) | Action::Owner(_) | Action::Saving(..) => {}
        }
    }

    fn set_frozen(&mut self, id: AttemptId, frozen: bool) {
        if let Some(place @ Place::Running { .. }) = self.places.get_mut(&id) {
            *place = Place::Running { frozen };
        }
    }

    fn fate(&mut self, id: AttemptId, fate: Fate) {
        assert!(self.assigned.contains(&id));
        assert_eq!(self.fates.insert(id, fate), None, "{id} leaves twice, now {fate:?}");
    }

    fn check(&self) {
        let running = self.places.iter().filter(|(_, place)| matches!(place, Place::Running { .. }));
        let running: Vec<_> = running.collect();
        assert!(running.len() <= self.slots, "{} run in {} slots", running.len(), self.slots);
        if self.machine.owner() != OwnerState::Away {
            for (id, place) in running {
                let quiet = *place == Place::Running { frozen: true } || self.doomed.contains(id);
                assert!(quiet, "{id} runs while the owner is there");
            }
        }
        // Everything assigned is held, or has left; nothing is held twice.
        let held: Vec<_> = self.machine.held(self.now).into_iter().map(|held| held.attempt).collect();
        let distinct: BTreeSet<_> = held.iter().copied().collect();
        assert_eq!(held.len(), distinct.len());
        for id in &self.assigned {
            assert!(distinct.contains(id) || self.fates.contains_key(id), "{id} is lost");
        }
    }

    fn pick(&self, which: usize, wanted: impl Fn(AttemptId, Place) -> bool) -> Option<AttemptId> {
        let fit: Vec<_> = self.places.iter().filter(|(id, place)| wanted(**id, **place)).collect();
        (!fit.is_empty()).then(|| *fit[which % fit.len()].0)
    }

    fn any(&self, which: usize) -> Option<AttemptId> {
        (!self.assigned.is_empty()).then(|| *self.assigned.iter().nth(which % self.assigned.len()).unwrap())
    }

    fn assign(&mut self, count: u32, limit: Option<Span>, noops: bool) {
        let range = self.next..self.next + count;
        self.next += count;
        self.assigned.extend(range.clone().map(id));
        let work = range.map(|i| if noops { noop(i) } else { command(i, limit) }).collect();
        self.tell(Event::Assigned(work));
    }

    fn end(&mut self, id: AttemptId) {
        if matches!(self.places.get(&id), Some(Place::Running { .. })) {
            self.places.insert(id, Place::Exited);
            self.tell(Event::Exited(id));
        }
        self.places.remove(&id);
        self.doomed.remove(&id);
        self.tell(Event::Ended(id, Box::new(Ending::bare(Outcome::Succeeded))));
    }

    fn play(&mut self, op: &Op) {
        match *op {
            Op::Assign { count, limit, noops } => self.assign(count, limit.map(Span::from_secs), noops),
            Op::Stage { which, fails } => {
                let found = self.pick(which, |id, place| place == Place::Staging && !self.doomed.contains(&id));
                match found {
                    Some(id) if fails => self.end(id),
                    Some(id) => {
                        self.places.insert(id, Place::Staged);
                        self.tell(Event::Staged(id));
                    }
                    None => {}
                }
            }
            Op::End(which) => {
                let found = self.pick(which, |id, place| {
                    self.doomed.contains(&id) || place == Place::Running { frozen: false } || place == Place::Exited
                });
                found.into_iter().for_each(|id| self.end(id));
            }
            Op::Exit(which) => {
                if let Some(id) = self.pick(which, |_, place| place == Place::Running { frozen: false }) {
                    self.places.insert(id, Place::Exited);
                    self.tell(Event::Exited(id));
                }
            }
            Op::Owner(present) => {
                self.tell(Event::Owner(if present { PRESENT } else { OwnerState::Away }));
            }
            Op::Stop(which) => self.any(which).into_iter().for_each(|id| drop(self.tell(Event::Stop(vec![id])))),
            Op::Abandon(which) => self.abandon(which),
            Op::Acknowledge(which) => {
                let ended: Vec<_> = self.machine.ended().iter().copied().collect();
                if !ended.is_empty() {
                    self.tell(Event::Acknowledged(vec![ended[which % ended.len()]]));
                }
            }
            Op::Pass(seconds) => {
                self.now = self.now + Span::from_secs(seconds);
                self.tell(Event::Tick);
            }
            Op::Shutdown => drop(self.tell(Event::Shutdown)),
        }
    }

    fn abandon(&mut self, which: usize) {
        let Some(id) = self.any(which) else { return };
        if self.machine.held(self.now).iter().any(|held| held.attempt == id) {
            self.fates.entry(id).or_insert(Fate::Abandoned);
            self.tell(Event::Abandon(vec![id]));
            assert!(!self.machine.held(self.now).iter().any(|held| held.attempt == id));
        }
    }

    /// Lets everything come to its end.
    fn settle(&mut self) {
        self.tell(Event::Owner(OwnerState::Away));
        while !self.places.is_empty() {
            let ids: Vec<_> = self.places.keys().copied().collect();
            for id in ids {
                if self.places.get(&id) == Some(&Place::Staging) && !self.doomed.contains(&id) {
                    self.places.insert(id, Place::Staged);
                    self.tell(Event::Staged(id));
                } else if self.places.get(&id) != Some(&Place::Staged) || self.doomed.contains(&id) {
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
    Assign { count: u32, limit: Option<u64>, noops: bool },
    Stage { which: usize, fails: bool },
    Exit(usize),
    End(usize),
    Owner(bool),
    Stop(usize),
    Abandon(usize),
    Acknowledge(usize),
    Pass(u64),
    Shutdown,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1u32..6, proptest::option::of(1u64..20), proptest::bool::weighted(0.2))
            .prop_map(|(count, limit, noops)| Op::Assign { count, limit, noops }),
        8 => (any::<usize>(), proptest::bool::weighted(0.1)).prop_map(|(which, fails)| Op::Stage { which, fails }),
        2 => any::<usize>().prop_map(Op::Exit),
        6 => any::<usize>().prop_map(Op::End),
        3 => any::<bool>().prop_map(Op::Owner),
        2 => any::<usize>().prop_map(Op::Stop),
        2 => any::<usize>().prop_map(Op::Abandon),
        3 => any::<usize>().prop_map(Op::Acknowledge),
        4 => (1u64..12).prop_map(Op::Pass),
    ]
}

proptest! {
    #[test]
    fn every_attempt_leaves_once_and_none_runs_beside_the_owner_or_the_slots(
        slots in 1usize..4,
        ops in proptest::collection::vec(op(), 0..120),
        shuts_down in any::<bool>(),
    ) {
        let mut world = World::new(slots);
        ops.iter().for_each(|op| world.play(op));
        if shuts_down {
            world.play(&Op::Shutdown);
        }
        world.settle();
        prop_assert_eq!(world.left, shuts_down);
    }

    #[test]
    fn the_named_wakeup_is_never_in_the_past_once_it_was_served(ops in proptest::collection::vec(op(), 0..80)) {
        let mut world = World::new(2);
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
    world.play(&Op::Stage { which: 0, fails: false });
    assert_eq!(world.places[&id(1)], Place::Running { frozen: false });
    world
}

#[test]
fn a_noop_ends_at_once_without_a_slot() {
    let mut world = running(None);
    let actions = world.tell(Event::Assigned(vec![]));
    assert_eq!(actions, []);
    world.assign(3, None, true);
    assert_eq!(world.machine.ended().len(), 3);
    assert!(world.outcomes.values().all(|c| c.outcome == Outcome::Succeeded));
}

#[test]
fn suspensions_do_not_count_against_the_limit() {
    let mut world = running(Some(Span::from_secs(10)));
    world.play(&Op::Pass(6));
    world.play(&Op::Owner(true));
    world.play(&Op::Pass(100));
    assert_eq!(world.machine.next_wakeup(), None);
    world.play(&Op::Owner(false));
    assert_eq!(world.machine.next_wakeup(), Some(world.now + Span::from_secs(4)));
    world.play(&Op::Pass(3));
    assert!(world.doomed.is_empty());
    world.now = world.now + Span::from_secs(1);
    assert_eq!(world.tell(Event::Tick), [Action::Terminate(id(1))]);
    world.now = world.now + GRACE;
    assert_eq!(world.tell(Event::Tick), [Action::Kill(id(1))]);
    world.end(id(1));
    let done = &world.outcomes[&id(1)];
    assert_eq!(done.outcome, Outcome::TimedOut(Span::from_secs(10)));
    assert_eq!((done.ran, done.suspended), (Span::from_secs(15), Span::from_secs(100)));
}

#[test]
fn a_stop_is_delivered_as_such_also_when_the_command_ends_well_after_it() {
    let mut world = running(None);
    assert_eq!(world.tell(Event::Stop(vec![id(1)])), [Action::Terminate(id(1))]);
    assert_eq!(world.tell(Event::Stop(vec![id(1)])), []);
    world.end(id(1));
    assert_eq!(world.outcomes[&id(1)].outcome, Outcome::Stopped);
}

#[test]
fn a_frozen_command_is_killed_where_it_would_be_asked() {
    let mut world = running(None);
    world.play(&Op::Owner(true));
    assert_eq!(world.tell(Event::Stop(vec![id(1)])), [Action::Kill(id(1))]);
    // And one that was asked before the owner came is not waited for.
    let mut world = running(None);
    world.play(&Op::Stop(0));
    assert!(world.tell(Event::Owner(PRESENT)).contains(&Action::Kill(id(1))));
}

#[test]
fn the_owner_gets_the_backlog_off_the_host_at_once_and_is_reported_first() {
    let mut world = running(None);
    world.assign(4, None, false);
    let actions = world.tell(Event::Owner(PRESENT));
    let returned: Vec<_> = actions.iter().filter(|a| matches!(a, Action::Return(ids, _) if ids.len() == 4)).collect();
    assert_eq!(returned.len(), 1);
    let reported = actions
        .iter()
        .any(|a| matches!(a, Action::Report(held) if held[0].phase == Phase::Suspended(YieldReason::PausedByOwner)));
    assert!(reported && actions.contains(&Action::Owner(PRESENT)), "{actions:?}");
    assert_eq!(world.machine.held(world.now).len(), 1);
    world.assign(1, None, false);
    assert_eq!(world.fates[&id(6)], Fate::Returned);
}

#[test]
fn a_start_is_reported_once_it_has_lasted_and_a_short_one_never() {
    let mut world = running(None);
    world.now = world.machine.next_wakeup().unwrap();
    let actions = world.tell(Event::Tick);
    assert!(matches!(&actions[..], [Action::Report(held)] if held[0].phase == Phase::Running), "{actions:?}");
    let mut world = running(None);
    world.end(id(1));
    world.now = world.now + Span::from_secs(1);
    assert_eq!(world.tell(Event::Tick), []);
}

#[test]
fn a_shutdown_gives_everything_back_and_then_says_so() {
    let mut world = running(None);
    world.assign(2, None, false);
    assert!(!world.tell(Event::Shutdown).contains(&Action::Left));
    world.settle();
    assert!(world.left);
    assert!(world.fates.values().all(|fate| *fate == Fate::Returned), "{:?}", world.fates);
}

#[test]
fn an_assignment_said_twice_is_made_once() {
    let mut world = World::new(2);
    world.assign(1, None, false);
    assert_eq!(world.tell(Event::Assigned(vec![command(1, None)])), []);
    world.settle();
    assert_eq!(world.outcomes.len(), 1);
}

#[test]
fn progress_is_listed_while_the_command_runs() {
    let mut world = running(None);
    world.tell(Event::Progress(vec![(id(1), 0.5), (id(9), 0.1)]));
    world.now = world.now + Span::from_secs(2);
    let held = world.machine.held(world.now);
    assert_eq!((held[0].progress, held[0].ran, held.len()), (Some(0.5), Span::from_secs(2), 1));
}

#[test]
fn the_host_reports_as_often_as_the_most_watched_attempt_wants_while_it_is_held() {
    let mut machine = Machine::new(1, GRACE, []);
    let mut after = |event| {
        machine.step(Time(1), event, &mut Vec::new());
        machine.report_every()
    };
    let watched = |index, every| Assignment { report_every: Some(Span::from_secs(every)), ..command(index, None) };
    let work = vec![watched(1, 30), watched(2, 5), command(3, None)];
    assert_eq!(after(Event::Assigned(work)), Some(Span::from_secs(5)));
    assert_eq!(after(Event::Stop(vec![id(2)])), Some(Span::from_secs(30)), "what was stopped needs no watching");
    assert_eq!(after(Event::Abandon(vec![id(1)])), None);
}

#[test]
fn the_owners_time_runs_from_coming_and_going_not_from_changes_of_mind() {
    let mut world = World::new(1);
    let later = |world: &mut World, s| world.now = world.now + Span::from_secs(s);
    later(&mut world, 9);
    world.tell(Event::Owner(PRESENT));
    later(&mut world, 4);
    world.tell(Event::Owner(OwnerState::Present(YieldReason::InUse)));
    later(&mut world, 3);
    assert_eq!(world.machine.owner_for(world.now), Span::from_secs(7));
    world.tell(Event::Owner(OwnerState::Away));
    assert_eq!(world.machine.owner_for(world.now), Span::ZERO);
}

#[test]
fn what_a_shutdown_ends_is_saved_before_and_what_the_master_stops_is_not() {
    let mut world = running(None);
    assert_eq!(world.tell(Event::Shutdown), [Action::Save(id(1)), Action::Terminate(id(1))]);
    let mut world = running(None);
    assert_eq!(world.tell(Event::Stop(vec![id(1)])), [Action::Terminate(id(1))]);
}
