//! The returns for the owner's sake: after which time, and for which reason.

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

/// Returns the reason that is told for what is given back.
fn why(actions: &[Action]) -> &str {
    let told = actions.iter().find_map(|action| match action {
        Action::Return(_, why) => Some(why.as_str()),
        _ => None,
    });
    told.expect("something is given back")
}

/// Ends the command that was killed, and returns what comes of it.
fn dies(world: &mut World) -> Vec<Action> {
    world.places.remove(&id(1));
    assert!(world.doomed.remove(&id(1)), "it was killed");
    let ending = Box::new(AttemptEnding::bare(Outcome::Signalled(9)));
    world.tell(MachineEvent::Ended(id(1), ending))
}

#[test]
fn the_reason_that_is_told_is_the_one_for_which_an_attempt_was_ended() {
    let battery = MachineEvent::Decided(Decision::Freeze(YieldReason::OnBattery));
    let mut world = busy(1, Some(PATIENCE));
    world.tell(battery.clone());
    // The owner has paused it, too.
    world.tell(MachineEvent::Decided(Decision::Evict(
        YieldReason::PausedByOwner,
    )));
    world.tell(battery.clone());
    let actions = dies(&mut world);
    assert_eq!(why(&actions), "the owner's programs need the memory");

    let mut world = busy(1, Some(PATIENCE));
    world.tell(battery);
    world.play(&Op::Pass(600));
    world.tell(MachineEvent::Shutdown);
    let actions = dies(&mut world);
    assert_eq!(why(&actions), "the owner wants the host: on-battery");
}

#[test]
fn a_long_grace_is_cut_short_when_the_worker_shuts_down() {
    for asked_before in [false, true] {
        let mut world = running(None);
        world.machine.grace = Span::from_secs(120);
        if asked_before {
            world.tell(MachineEvent::Stop(vec![id(1)]));
        }
        world.tell(MachineEvent::Shutdown);

        world.play(&Op::Pass(14));
        assert!(world.doomed.is_empty(), "{asked_before}: a second is left");
        world.play(&Op::Pass(1));
        assert!(world.doomed.contains(&id(1)), "{asked_before}");
    }
}
