//! What an attempt's end is charged to, and which of several results counts.

use common::attempt::{Outcome, Phase};
use common::view::{JobState, TaskState};
use common::{AttemptId, HostId, Span};
use scheduler::effect::{EndReason, Settled, StartReason, Verdict};
use scheduler::{Effect, Event};

use crate::events;
use crate::world::{World, ended, s, settled, starts, stopped, verdict};

#[test]
fn every_kind_of_failure_uses_up_a_retry() {
    let outcomes = [
        Outcome::Exited(3),
        Outcome::Signalled(11),
        Outcome::TimedOut(s(5)),
        Outcome::MissingOutput("out".into()),
        Outcome::BadOutput("out is a directory".into()),
        Outcome::NotStarted("no such program".into()),
    ];
    for outcome in outcomes {
        let mut w = World::new();
        let job = w.job(1).timeout(s(5)).retries(1).submit();
        let host = w.host(1).joins();
        let effects = w.ends(host, w.attempt_on(host), outcome.clone(), s(1));
        assert_eq!(starts(&effects)[0].2, StartReason::Retry(1), "{outcome}");
        let last = w.attempt_on(host);
        let effects = w.ends(host, last, outcome.clone(), s(1));
        assert_eq!(
            settled(&effects),
            [(1, Settled::Failed(last, EndReason::Delivered(outcome)))]
        );
        assert_eq!(w.job_state(job), JobState::Failed);
    }
}

#[test]
fn a_task_that_is_killed_at_a_learned_limit_goes_on_with_the_next_and_has_not_failed() {
    let mut w = World::new();
    let job = w.job(7).policy("TOPTIMAL").submit();
    let host = w.host(1).speed(2.0).joins();

    // Five runs of about 100 s of work teach a limit; half of that here.
    for run in [48, 49, 50, 51, 52] {
        w.ends(host, w.attempt_on(host), Outcome::Succeeded, s(run));
    }

    let limit = |w: &World| {
        let started = w
            .history
            .iter()
            .rev()
            .flat_map(|(_, _, effects)| effects.iter().rev());
        let limits = started.filter_map(|effect| match effect {
            Effect::Start { limit, .. } => Some(*limit),
            _ => None,
        });
        limits.into_iter().next().expect("something was started")
    };

    // The sixth was started when five were known.
    let first = limit(&w).expect("five runs are enough");
    assert!((52..70).contains(&(first.0 / 1_000_000)), "{first}");

    let sixth = w.attempt_on(host);
    let effects = w.ends(host, sixth, Outcome::TimedOut(first), first);
    assert_eq!(
        settled(&effects),
        [],
        "it may be tried again, though the job has no retries"
    );
    assert_eq!(starts(&effects)[0].1.task, sixth.task);
    assert_eq!(starts(&effects)[0].2, StartReason::NextLimit(1));

    let second = limit(&w).expect("the next one of the sequence");
    assert!(second > first, "{second} after {first}");
    w.ends(host, w.attempt_on(host), Outcome::Succeeded, s(65));
    assert_eq!(w.task_state(job, 6), TaskState::Finished);
    w.ends(host, w.attempt_on(host), Outcome::Succeeded, s(50));
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn the_jobs_own_timeout_is_a_failure_under_learned_limits_too() {
    let mut w = World::new();
    let job = w.job(1).policy("ATOPTIMAL").timeout(s(5)).submit();
    let host = w.host(1).joins();
    w.ends(host, w.attempt_on(host), Outcome::TimedOut(s(5)), s(5));
    assert_eq!(w.job_state(job), JobState::Failed);
}

#[test]
fn only_executing_attempts_are_charged_for_a_lost_host() {
    let mut w = World::new();
    let job = w.job(1).max_losses(0).submit();
    for phase in [Phase::Queued, Phase::Staging] {
        let host = w.host(1).joins();
        w.moves(host, phase);
        w.host(1).joins();
        assert_eq!(
            w.task_state(job, 1),
            TaskState::Running,
            "{phase:?} costs nothing"
        );
    }

    w.moves(HostId(1), Phase::Running);
    let (_, effects) = w.host(1).joins_with();
    assert_eq!(settled(&effects), [(1, Settled::LostTooOften(1))]);
}

#[test]
fn a_task_may_be_lost_as_often_as_the_job_says() {
    let mut w = World::new();
    let job = w.job(1).max_losses(2).submit();
    w.host(1).joins();
    for _ in 0..2 {
        w.moves(HostId(1), Phase::Running);
        w.host(1).joins();
        assert_eq!(w.task_state(job, 1), TaskState::Running);
    }
    w.moves(HostId(1), Phase::Running);
    w.host(1).joins();
    assert_eq!(w.job_state(job), JobState::Failed);
}

#[test]
fn returned_attempts_are_not_charged_and_requeued_first() {
    let mut w = World::new();
    let job = w.job(3).max_losses(0).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);

    w.send(Event::HostDrained { host });
    let effects = w.send(events::returned(host, vec![attempt]));
    assert_eq!(ended(&effects), [(attempt, EndReason::Returned)]);
    assert_eq!(w.task_state(job, 1), TaskState::Waiting);

    let (_, effects) = w.host(2).joins_with();
    let [(_, next, why)] = &starts(&effects)[..] else {
        panic!()
    };
    assert_eq!((next.task.index, why), (1, &StartReason::Requeued(1)));
}

/// One task with two live attempts: number 1 suspended on host 1, its copy, number 2, on host 2.
fn with_a_copy(w: &mut World) -> (AttemptId, AttemptId) {
    let first = w.host(1).joins();
    w.moves(first, Phase::Running);
    w.owner_comes(first);
    let second = w.host(2).joins();
    (w.attempt_on(first), w.attempt_on(second))
}

#[test]
fn the_first_success_wins_and_the_others_are_stopped() {
    let mut w = World::new();
    w.job(1).submit();

    let (original, copy) = with_a_copy(&mut w);
    let effects = w.succeeds(HostId(2), copy);
    assert_eq!(stopped(&effects), [(HostId(1), original)]);
    assert!(ended(&effects).contains(&(original, EndReason::Outrun(2))));
    assert_eq!(settled(&effects), [(1, Settled::Finished(copy))]);

    let late = w.ends(HostId(1), original, Outcome::Stopped, s(1));
    assert_eq!(
        late,
        [Effect::Acknowledge {
            host: HostId(1),
            attempt: original,
            verdict: Verdict::Late
        }]
    );
}

#[test]
fn a_failed_copy_leaves_the_task_to_its_sibling() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let (original, copy) = with_a_copy(&mut w);
    let effects = w.fails(HostId(2), copy);
    assert_eq!(settled(&effects), []);
    w.owner_goes(HostId(1));
    w.succeeds(HostId(1), original);
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn once_the_last_sibling_is_gone_the_failures_count() {
    let mut w = World::new();
    w.job(1).submit();
    let (_, copy) = with_a_copy(&mut w);
    w.send(Event::HostDrained { host: HostId(2) });
    w.fails(HostId(2), copy);
    let effects = w.send(Event::HostLeft { host: HostId(1) });
    assert_eq!(
        settled(&effects),
        [(1, Settled::FailedTooOften(1))],
        "that its host left would have cost nothing"
    );
}

#[test]
fn a_late_result_of_a_lost_attempt_counts_while_the_task_is_open() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let lost = w.host(1).joins();
    let attempt = w.attempt_on(lost);

    w.parts(lost);
    w.pass(s(1_000));

    let second = w.host(2).joins();
    let rerun = w.attempt_on(second);
    assert_eq!(rerun.number, 2);

    let effects = w.succeeds(lost, attempt);
    assert_eq!(verdict(&effects), Verdict::Taken);
    assert_eq!(stopped(&effects), [(second, rerun)]);
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn a_late_failure_of_a_lost_attempt_changes_nothing() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);
    w.pass(s(1_000));
    let effects = w.fails(host, attempt);
    assert_eq!(verdict(&effects), Verdict::Late);
    assert_eq!(
        w.task_state(job, 1),
        TaskState::Running,
        "it runs again on the host that came back"
    );
}

#[test]
fn a_completion_that_is_delivered_twice_counts_once() {
    let mut w = World::new();
    let job = w.job(2).retries(1).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);
    assert_eq!(verdict(&w.fails(host, attempt)), Verdict::Taken);
    assert_eq!(verdict(&w.fails(host, attempt)), Verdict::Late);
    assert_eq!(
        verdict(&w.succeeds(host, attempt)),
        Verdict::Late,
        "not even if it now claims success"
    );
    assert_eq!(w.job_state(job), JobState::Running);
}

#[test]
fn results_of_attempts_that_the_host_never_had_are_not_taken() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let host = w.host(1).joins();
    let other = w.host(2).joins();
    let attempt = w.attempt_on(host);
    assert_eq!(
        verdict(&w.succeeds(other, attempt)),
        Verdict::Unknown,
        "another host's"
    );

    let made_up = AttemptId {
        number: 9,
        ..attempt
    };
    assert_eq!(
        verdict(&w.succeeds(host, made_up)),
        Verdict::Unknown,
        "made up"
    );
    assert_eq!(
        verdict(&w.succeeds(HostId(99), attempt)),
        Verdict::Unknown,
        "from nowhere"
    );
    assert_eq!(w.task_state(job, 1), TaskState::Running);
}

#[test]
fn a_worker_that_stops_an_attempt_unasked_costs_no_retry() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let host = w.host(1).joins();
    let effects = w.ends(host, w.attempt_on(host), Outcome::Stopped, Span::ZERO);
    assert_eq!(starts(&effects)[0].2, StartReason::Requeued(1));
    assert_eq!(w.job_state(job), JobState::Running);
}

#[test]
fn the_timeout_of_the_job_is_the_limit_of_every_attempt() {
    let mut w = World::new();
    w.job(1).timeout(s(90)).submit();

    let (_, effects) = w.host(1).joins_with();
    let limits: Vec<_> = effects
        .iter()
        .filter_map(|e| {
            if let Effect::Start { limit, .. } = e {
                *limit
            } else {
                None
            }
        })
        .collect();
    assert_eq!(limits, [s(90)]);
}
