//! What is given back for the owner's sake: after which time, and for which reason.

use super::*;

const PATIENCE: Span = Span::from_secs(600);

/// A world whose one command the master has held for longer than the owner's patience.
fn held_for_long() -> World {
    let mut world = busy(1, Some(PATIENCE));
    world.tell(MachineEvent::Hold(vec![id(1)], true));
    world.play(&Op::Pass(1_000));
    world
}

#[test]
fn an_attempt_that_was_held_for_long_goes_on_when_it_is_released() {
    let mut world = held_for_long();
    let actions = world.tell(MachineEvent::Hold(vec![id(1)], false));
    assert_eq!(actions[0], Action::Thaw(id(1)), "{actions:?}");
    assert!(world.doomed.is_empty());
}

#[test]
fn the_owners_patience_with_an_attempt_counts_from_its_release() {
    let mut world = held_for_long();
    world.tell(MachineEvent::Decided(PAUSED));
    world.play(&Op::Pass(1));
    assert_eq!(world.tell(MachineEvent::Hold(vec![id(1)], false)), []);
    world.play(&Op::Pass(599));
    assert!(
        world.doomed.is_empty(),
        "the owner has waited for a second less"
    );

    let due = world.now + Span::from_secs(1);
    assert_eq!(world.machine.next_wakeup(), Some(due));
    world.now = due;
    assert_eq!(
        world.tell(MachineEvent::Tick),
        [Action::Save(id(1)), Action::Kill(id(1))]
    );
}
