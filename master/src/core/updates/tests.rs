//! The standings of hosts that may follow one another.

use common::BlobRef;
use common::update::{ProgramVersion, RolloutPace, SignedUpdate};

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

#[test]
fn what_is_done_goes_on_to_hosts_that_come_later_unless_it_is_a_downgrade_or_was_stopped() {
    let rollout = |back: bool, state| {
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
    };

    assert!(rollout(false, RolloutState::Done).is_due(AT));
    assert!(!rollout(true, RolloutState::Done).is_due(AT));
    assert!(rollout(true, RolloutState::Running).is_due(AT));
    assert!(!rollout(false, RolloutState::Stopped("no".into())).is_due(AT));

    let mut quiet = rollout(false, RolloutState::Done);
    quiet.looked = AT;
    quiet.stirred = false;
    assert!(!quiet.is_due(AT) && quiet.is_due(AT + LATE_EVERY));
}
