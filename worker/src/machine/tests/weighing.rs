//! Evictions for memory where it can be told how much each attempt holds: what holds too much fails.

use super::*;

const GIB: u64 = 1 << 30;
const SHORT: Decision = Decision::Freeze(YieldReason::LowMemory);
const EVICTED: Decision = Decision::Evict(YieldReason::LowMemory);

/// The actions that end attempts after a checkpoint.
fn ends(indices: &[u32]) -> Vec<Action> {
    indices
        .iter()
        .flat_map(|n| [Action::Save(id(*n)), Action::Kill(id(*n))])
        .collect()
}

/// A world of three frozen commands, on a host where memory has been short for too long.
fn evicted() -> World {
    let mut world = busy(3, None);
    world.weigh();
    world.tell(MachineEvent::Decided(SHORT));
    asks(&mut world, &[1, 2, 3]);
    world
}

/// Memory has been short for too long: these are measured, and nothing is ended yet.
fn asks(world: &mut World, indices: &[u32]) {
    let asked: Vec<_> = indices.iter().map(|n| Action::Measure(id(*n))).collect();
    assert_eq!(world.tell(MachineEvent::Decided(EVICTED)), asked);
}

fn holds(world: &mut World, index: u32, bytes: Option<u64>) -> Vec<Action> {
    world.tell(MachineEvent::Measured(id(index), bytes))
}

/// A world in which the second command held too much, and has ended for it.
fn relieved() -> World {
    let mut world = evicted();
    assert_eq!(holds(&mut world, 1, Some(GIB)), []);
    assert_eq!(holds(&mut world, 2, Some(6 * GIB + GIB / 10)), []);
    let relief = [ends(&[2]), vec![Action::Relieved(vec![id(2)])]].concat();
    assert_eq!(
        holds(&mut world, 3, Some(3 * GIB)),
        relief,
        "as much is lent"
    );
    world.end(id(2));
    world
}

#[test]
fn an_attempt_that_holds_more_than_is_lent_fails_and_the_others_stay() {
    let mut world = relieved();
    let Outcome::OverLimit(why) = &world.outcomes[&id(2)].outcome else {
        panic!("{:?}", world.outcomes)
    };
    for words in ["held 6.1 GiB", "4 GiB are lent", "--needs mem=7G"] {
        assert!(why.contains(words), "{words}: {why}");
    }

    world.tell(MachineEvent::Decided(SHORT));
    world.play(&Op::Pass(1_000));
    assert!(world.doomed.is_empty());
    world.tell(MachineEvent::Decided(Decision::Run));
    for index in [1, 3] {
        assert_eq!(world.places[&id(index)], Place::Running { frozen: false });
    }
}

#[test]
fn the_others_are_given_back_where_memory_stays_short_without_it() {
    let mut world = relieved();
    world.tell(MachineEvent::Decided(SHORT));
    asks(&mut world, &[1, 3]);
    assert_eq!(holds(&mut world, 1, Some(GIB)), []);
    assert_eq!(holds(&mut world, 3, Some(GIB)), ends(&[1, 3]));
    world.settle();
    for index in [1, 3] {
        assert_eq!(world.fates[&id(index)], Fate::Returned);
    }
}

#[test]
fn the_others_do_not_stay_where_they_hold_more_than_is_lent_or_nobody_can_tell() {
    for third in [Some(3 * GIB + 1), Some(4 * GIB), None] {
        let mut world = evicted();
        assert_eq!(holds(&mut world, 1, Some(GIB)), []);
        assert_eq!(holds(&mut world, 2, Some(6 * GIB)), []);
        assert_eq!(holds(&mut world, 3, third), ends(&[2, 1, 3]), "{third:?}");

        world.settle();
        for index in [1, 3] {
            assert_eq!(world.fates[&id(index)], Fate::Returned);
        }
    }
}

#[test]
fn another_reason_for_an_eviction_is_no_other_eviction() {
    let mut world = relieved();
    let paused = Decision::Evict(YieldReason::PausedByOwner);
    world.tell(MachineEvent::Decided(paused));
    assert!(world.doomed.is_empty());
}

#[test]
fn attempts_that_hold_what_nobody_can_tell_are_given_back() {
    let mut world = evicted();
    assert_eq!(holds(&mut world, 1, None), []);
    assert_eq!(holds(&mut world, 2, Some(GIB)), []);
    assert_eq!(holds(&mut world, 3, None), ends(&[1, 2, 3]));

    // Where the memory of the host is unknown, nothing is measured.
    let mut world = busy(2, None);
    world.machine.weigh();
    world.tell(MachineEvent::Decided(SHORT));
    let actions = world.tell(MachineEvent::Decided(EVICTED));
    assert_eq!(actions, ends(&[1, 2]));
}

#[test]
fn an_answer_is_not_waited_for_long_nor_one_of_what_has_ended() {
    for bytes in [GIB, 5 * GIB] {
        let mut world = evicted();
        assert_eq!(holds(&mut world, 1, Some(bytes)), []);
        world.now = world.machine.next_wakeup().unwrap();
        assert_eq!(world.tell(MachineEvent::Tick), ends(&[1, 2, 3]));
        assert_eq!(holds(&mut world, 2, Some(9 * GIB)), [], "too late");
    }

    let mut world = evicted();
    for index in [1, 2] {
        world.end(id(index));
    }
    assert_eq!(holds(&mut world, 3, Some(GIB)), ends(&[3]));
}

#[test]
fn memory_that_comes_back_while_it_is_measured_ends_nothing() {
    let mut world = evicted();
    world.tell(MachineEvent::Decided(SHORT));
    for index in 1..=3 {
        assert_eq!(holds(&mut world, index, Some(9 * GIB)), []);
    }
    assert_eq!(world.machine.next_wakeup(), None);
}

/// Ends a command that was killed, and returns what the master is told of that.
fn dies(world: &mut World, index: u32) -> Vec<Action> {
    world.places.remove(&id(index));
    assert!(world.doomed.remove(&id(index)), "it was killed");
    let ending = Box::new(AttemptEnding::bare(Outcome::Signalled(9)));
    let mut said = world.tell(MachineEvent::Ended(id(index), ending));
    said.retain(|action| matches!(action, Action::Weighed(..) | Action::Return(..)));
    said
}

/// The actions that tell the master of an attempt which is given back for memory.
fn given_back(index: u32, held: Option<u64>) -> [Action; 2] {
    let why = "the owner's programs need the memory".to_owned();
    [
        Action::Weighed(id(index), held),
        Action::Return(vec![id(index)], why),
    ]
}

#[test]
fn what_attempts_held_is_told_just_before_they_are_given_back_for_memory() {
    let mut world = evicted();
    let known = [(1, Some(GIB)), (2, Some(3 * GIB)), (3, None)];
    for (index, bytes) in known {
        holds(&mut world, index, bytes);
    }
    for (index, bytes) in known {
        assert_eq!(dies(&mut world, index), given_back(index, bytes));
    }

    // The memory of the host is unknown.
    let mut world = busy(1, None);
    world.machine.weigh();
    world.tell(MachineEvent::Decided(EVICTED));
    assert_eq!(dies(&mut world, 1), given_back(1, None));
}

#[test]
fn nothing_is_told_of_memory_that_did_not_cause_the_return() {
    let mut world = busy(1, Some(Span::from_secs(600)));
    world.weigh();
    world.tell(MachineEvent::Decided(Decision::Freeze(YieldReason::InUse)));
    world.play(&Op::Pass(600));
    let said = dies(&mut world, 1);
    assert!(matches!(said[..], [Action::Return(..)]), "{said:?}");
}
