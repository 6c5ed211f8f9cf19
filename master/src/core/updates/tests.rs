//! The standings of hosts that may follow one another, and what becomes of hosts that go away.

use common::BlobRef;
use common::update::{ProgramVersion, RolloutPace, SignedUpdate};

use super::super::retention::tests::{core, restored};
use super::*;

const AT: Time = Time(1_000_000_000);

fn every() -> [HostProgress; 6] {
    [
        HostProgress::Offered,
        HostProgress::Ready,
        HostProgress::Runs(0),
        HostProgress::Refused("no".into()),
        HostProgress::Unwanted("no".into()),
        HostProgress::Failed("it ended".into()),
    ]
}

#[test]
fn a_host_that_takes_its_word_back_again_and_again_is_written_down_twice_a_minute_at_most() {
    let mut now = AT;
    let mut standing = (HostProgress::Offered, now);
    let mut written = 0;
    for _ in 0..600 {
        for next in every().into_iter().rev().chain(every()) {
            if may_follow(&standing, &next, now) {
                standing = (next, now);
                written += 1;
            }
        }
        now = now + Span::from_secs(1);
    }
    assert!((2..=20).contains(&written), "{written}");
}

#[test]
fn a_host_that_has_come_to_an_end_is_not_ready_again_and_one_that_runs_it_may_still_fail() {
    let later = AT + Span::from_secs(3_600);
    for end in &every()[2..] {
        let standing = (end.clone(), AT);
        assert!(!may_follow(&standing, &HostProgress::Ready, later));
        assert!(!may_follow(&standing, &HostProgress::Offered, later));
    }

    let runs = (HostProgress::Runs(0), AT);
    assert!(may_follow(
        &runs,
        &HostProgress::Failed("it ended".into()),
        AT
    ));
    let missing = (HostProgress::Failed("it was away".into()), AT);
    assert!(may_follow(&missing, &HostProgress::Runs(0), later));
}

/// A rollout in its last stage, of a downgrade or not.
fn rollout(back: bool, state: RolloutState) -> Rollout {
    let statement = UpdateStatement {
        platform: "linux-x86_64".parse().unwrap(),
        version: ProgramVersion(1, 0, 0),
        blob: BlobRef {
            hash: BlobHash([1; 32]),
            size: 1,
        },
        downgrade: back.then_some(ProgramVersion(2, 0, 0)),
    };

    let stored = StoredRollout {
        update: SignedUpdate {
            statement: statement.text(),
            signature: Vec::new(),
        },
        pace: RolloutPace {
            settle: Span::ZERO,
            settle_tasks: 0,
            patience: Span::ZERO,
        },
        by: "ann".into(),
        at: AT,
        stage: 2,
        state,
    };
    Rollout::new(stored, statement)
}

/// The platform of hosts that have said nothing of themselves.
const PLATFORM: &str = "";

/// A master with so many hosts of this version that have the program and are not connected any more, which it has not seen yet.
fn core_of_ready(dir: &std::path::Path, hosts: u32, version: u16) -> Core {
    let mut core = core(dir, Time(1_700_000_000_000_000), true);
    let mut rollout = rollout(false, RolloutState::Done);
    for id in (1..=hosts).map(HostId) {
        core.restore_host(restored(id, &format!("pc-{id}")))
            .unwrap();

        let presence = HostPresence::Here {
            since: core.now,
            finished: 0,
        };
        let sighting = Sighting { version, presence };
        core.updates.sightings.insert(id, sighting);
        rollout.hosts.insert(id, (HostProgress::Ready, core.now));
    }
    core.updates.rollouts.insert(PLATFORM.to_owned(), rollout);
    core
}

/// The progress of the program on a host, which memory and the store have alike.
fn progress_of(core: &Core, id: HostId) -> HostProgress {
    let progress = core.updates.rollouts[PLATFORM].hosts[&id].clone();
    let rows = core.store.rollout_hosts().unwrap();
    let mut rows = rows.into_iter().filter(|(_, host, _)| *host == id);
    assert!(rows.next().is_none_or(|(_, _, stored)| stored == progress));
    progress.0
}

#[test]
fn a_host_that_goes_while_tasks_hold_it_is_offered_it_again_and_one_that_left_for_it_is_waited_for()
{
    let dir = tempfile::tempdir().unwrap();
    let mut core = core_of_ready(dir.path(), 2, WEIGHING_VERSION);
    core.updates.leaving.insert(HostId(2));
    core.look_at_hosts().unwrap();
    assert_eq!(progress_of(&core, HostId(1)), HostProgress::Offered);
    assert_eq!(progress_of(&core, HostId(2)), HostProgress::Ready);

    // Patience is over at once here: only the second one is missed.
    core.roll_on().unwrap();
    assert_eq!(progress_of(&core, HostId(1)), HostProgress::Offered);
    let missed = progress_of(&core, HostId(2));
    assert!(matches!(missed, HostProgress::Failed(_)), "{missed:?}");
}

#[test]
fn a_host_of_an_earlier_version_leaves_for_a_program_from_its_first_word_on() {
    for (version, missed) in [(WEIGHING_VERSION - 1, true), (WEIGHING_VERSION, false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut core = core_of_ready(dir.path(), 1, version);
        let id = HostId(1);
        core.updates.says(id, &UpdateStanding::Ready);
        core.updates.closes(id);

        // Patience is over at once here.
        core.roll_on().unwrap();
        let progress = progress_of(&core, id);
        let failed = matches!(progress, HostProgress::Failed(_));
        assert_eq!(failed, missed, "version {version}: {progress:?}");
        assert!(failed || progress == HostProgress::Offered, "{progress:?}");
    }
}

#[test]
fn a_program_that_ends_between_its_connection_and_its_word_that_it_runs_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let mut core = core_of_ready(dir.path(), 2, WEIGHING_VERSION);
    for id in [HostId(1), HostId(2)] {
        core.updates.says(id, &UpdateStanding::Ready);
        core.greet_update(id, WEIGHING_VERSION);
    }
    // This one waits for its tasks still.
    core.updates.closes(HostId(2));

    core.roll_on().unwrap();
    let progress = progress_of(&core, HostId(1));
    assert!(matches!(progress, HostProgress::Failed(_)), "{progress:?}");
    assert_eq!(progress_of(&core, HostId(2)), HostProgress::Offered);
}

#[test]
fn a_host_that_connects_to_a_master_that_has_just_started_may_be_on_its_way_to_the_program() {
    for version in [WEIGHING_VERSION - 1, WEIGHING_VERSION] {
        let dir = tempfile::tempdir().unwrap();
        let mut core = core_of_ready(dir.path(), 1, version);
        let id = HostId(1);
        core.greet_update(id, version);
        core.roll_on().unwrap();
        let progress = progress_of(&core, id);
        assert!(matches!(progress, HostProgress::Failed(_)), "{progress:?}");
    }
}

#[test]
fn a_host_that_was_switched_off_while_no_master_was_there_is_not_missed_and_one_that_had_left_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut core = core_of_ready(dir.path(), 2, WEIGHING_VERSION);
    // The master that they said it to has ended.
    core.updates.sightings.clear();
    core.hosts.get_mut(&HostId(2)).unwrap().attendance = Attendance::Left;

    core.roll_on().unwrap();
    assert_eq!(progress_of(&core, HostId(1)), HostProgress::Offered);
    let missed = progress_of(&core, HostId(2));
    assert!(matches!(missed, HostProgress::Failed(_)), "{missed:?}");
}

#[test]
fn a_host_that_was_missed_and_is_back_counts_as_one_that_runs_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut core = core_of_ready(dir.path(), 1, WEIGHING_VERSION);
    let id = HostId(1);
    let says = |core: &mut Core, progress| {
        core.progressed(PLATFORM, id, progress).unwrap();
        progress_of(core, id)
    };
    core.roll_host(PLATFORM, id, &RolloutStep::Missing(id))
        .unwrap();
    assert!(matches!(progress_of(&core, id), HostProgress::Failed(_)));
    assert_eq!(
        says(&mut core, HostProgress::Runs(0)),
        HostProgress::Runs(0)
    );

    // Its own word it takes back seldom.
    let failed = HostProgress::Failed("it ended".into());
    assert_eq!(says(&mut core, failed.clone()), failed);
    assert_eq!(says(&mut core, HostProgress::Runs(0)), failed);
}

#[test]
fn a_host_that_was_missed_and_is_back_after_a_restart_of_the_master_takes_the_program_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = core_of_ready(dir.path(), 2, WEIGHING_VERSION);
    let missed = HostId(1);
    let ended = HostId(2);
    let stored = &before.updates.rollouts[PLATFORM].stored;
    before.store.set_rollout(PLATFORM, stored).unwrap();
    before
        .roll_host(PLATFORM, missed, &RolloutStep::Missing(missed))
        .unwrap();
    let failed = HostProgress::Failed("it ended".into());
    before.progressed(PLATFORM, ended, failed.clone()).unwrap();
    before.finish_group().unwrap();
    drop(before);

    let mut core = core(dir.path(), Time(1_700_000_000_000_000), true);
    let mut back = |id: HostId| {
        core.restore_host(restored(id, &format!("pc-{id}")))
            .unwrap();
        core.greet_update(id, WEIGHING_VERSION);
        let runs = HostProgress::Runs(0);
        core.progressed(PLATFORM, id, runs).unwrap();
        (core.mail(id).update.is_some(), progress_of(&core, id))
    };
    assert_eq!(back(missed), (true, HostProgress::Runs(0)));
    // That is its own word, which it takes back seldom.
    assert_eq!(back(ended), (false, failed));
}

#[test]
fn what_is_done_goes_on_to_hosts_that_come_later_unless_it_is_a_downgrade_or_was_stopped() {
    assert!(rollout(false, RolloutState::Done).is_due(AT));
    assert!(!rollout(true, RolloutState::Done).is_due(AT));
    assert!(rollout(true, RolloutState::Running).is_due(AT));
    assert!(!rollout(false, RolloutState::Stopped("no".into())).is_due(AT));

    let mut quiet = rollout(false, RolloutState::Done);
    quiet.looked = AT;
    quiet.stirred = false;
    assert!(!quiet.is_due(AT) && quiet.is_due(AT + LATE_EVERY));
}
