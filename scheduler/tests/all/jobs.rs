//! Jobs: let in, settled, cancelled, retried, forgotten.

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::OwnerState;
use common::job::Rules;
use common::view::{JobState, TaskState};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId};
use scheduler::effect::{CancelReason, EndReason, Refused, Settled, StartReason, Verdict};
use scheduler::event::Bag;
use scheduler::{Effect, Event};

use crate::events;
use crate::world::{World, ended, job_settled, settled, starts, stopped, verdict};

fn submit(job: u32, tasks: IdSet, policy: &str) -> Event {
    let rules = Rules {
        policy: policy.to_owned(),
        ..Rules::default()
    };
    Event::JobSubmitted {
        job: JobId(job),
        bag: Box::new(Bag::new(tasks, rules)),
        tested: None,
    }
}

#[test]
fn a_bag_is_worked_off_and_settles_once() {
    let mut w = World::new();
    let job = w.job(5).submit();
    assert_eq!(w.job_state(job), JobState::Waiting);
    w.host(1).slots(2).joins();
    assert_eq!(w.job_state(job), JobState::Running);
    w.work_off();
    assert_eq!(w.job_state(job), JobState::Finished);

    let settlements = w
        .history
        .iter()
        .filter(|(_, _, effects)| job_settled(effects).is_some())
        .count();
    assert_eq!(settlements, 1);
    assert_eq!(w.scheduler.job_attempts(job), Some((5, 0)));
}

#[test]
fn jobs_that_make_no_sense_are_refused_with_a_reason() {
    let mut w = World::new();
    let refusal = |effects: Vec<Effect>| match &effects[..] {
        [Effect::JobRefused { why, .. }] => why.clone(),
        other => panic!("{other:?}"),
    };
    let first = w.send(submit(1, IdSet::new(), "FCFS"));
    assert_eq!(refusal(first), Refused::Empty);
    let second = w.send(submit(1, IdSet::from_range(1, 2), "LUCK"));
    assert_eq!(refusal(second), Refused::UnknownPolicy("LUCK".into()));
    w.job(1).submit();
    let third = w.send(submit(1, IdSet::from_range(1, 2), "FCFS"));
    assert_eq!(refusal(third), Refused::NumberTaken);
}

#[test]
fn the_largest_task_index_is_a_task_like_any_other() {
    let mut w = World::new();
    w.send(submit(1, IdSet::from_range(u32::MAX - 1, u32::MAX), "FCFS"));
    w.host(1).joins();
    w.work_off();
    assert_eq!(w.job_state(JobId(1)), JobState::Finished);
}

#[test]
fn a_cancelled_job_stops_its_attempts_and_is_settled() {
    let mut w = World::new();
    let job = w.job(3).submit();
    let host = w.host(1).joins();
    let running = w.attempt_on(host);
    let effects = w.send(Event::JobCancelled { job, tasks: None });
    assert_eq!(stopped(&effects), [(host, running)]);
    assert_eq!(
        ended(&effects),
        [(running, EndReason::Cancelled(CancelReason::Asked))]
    );

    let tasks = IdSet::from_range(1, 3);
    let why = CancelReason::Asked;
    assert!(effects.contains(&Effect::TasksCancelled { job, tasks, why }));
    assert_eq!(job_settled(&effects), Some(JobState::Cancelled));
    assert_eq!(verdict(&w.succeeds(host, running)), Verdict::Late);
}

#[test]
fn some_tasks_can_be_cancelled_while_others_go_on() {
    let mut w = World::new();
    let job = w.job(4).submit();
    let host = w.host(1).slots(2).joins();
    let effects = w.send(events::cancelled(job, Some(IdSet::from_iter([2, 4, 9]))));
    assert!(job_settled(&effects).is_none());

    let started: Vec<u32> = starts(&effects)
        .iter()
        .map(|(_, attempt, _)| attempt.task.index)
        .collect();
    assert_eq!(started, [3], "the freed slot goes to the next task");
    assert_eq!(w.books(host).len(), 2);
    w.work_off();
    assert_eq!(w.job_state(job), JobState::Cancelled);
    assert_eq!(w.task_state(job, 3), TaskState::Finished);
}

#[test]
fn cancellation_of_settled_or_unknown_jobs_has_no_effect() {
    let mut w = World::new();
    let job = w.job(1).submit();
    w.host(1).joins();
    w.work_off();
    assert_eq!(w.send(Event::JobCancelled { job, tasks: None }), []);
    assert_eq!(w.send(events::cancelled(JobId(77), None)), []);
}

#[test]
fn more_failed_tasks_than_allowed_cancel_the_rest() {
    let mut w = World::new();
    let job = w.job(5).max_fails(1).submit();
    let host = w.host(1).slots(2).joins();
    let [first, second] = w.books(host)[..] else {
        panic!()
    };
    w.fails(host, first);
    assert_eq!(w.job_state(job), JobState::Running);

    let effects = w.fails(host, second);
    let rest = IdSet::from_range(3, 5);
    let why = CancelReason::TooManyFailures(1);

    assert!(
        effects.contains(&Effect::TasksCancelled {
            job,
            tasks: rest,
            why
        }),
        "{effects:?}"
    );

    assert_eq!(job_settled(&effects), Some(JobState::Failed));
    assert_eq!(stopped(&effects).len(), 1, "the third task was running");
}

#[test]
fn a_retried_job_is_open_again_and_counts_its_attempts_on() {
    let mut w = World::new();
    let job = w.job(2).submit();
    let host = w.host(1).joins();
    w.fails(host, w.attempt_on(host));
    w.succeeds(host, w.attempt_on(host));
    assert_eq!(w.job_state(job), JobState::Failed);

    let effects = w.send(events::retried(job, IdSet::from_range(1, 2)));
    assert!(effects.contains(&Effect::TasksReopened {
        job,
        tasks: IdSet::from_range(1, 1)
    }));

    let again = w.attempt_on(host);
    assert_eq!((again.task.index, again.number), (1, 2));
    assert_eq!(starts(&effects)[0].2, StartReason::Retry(1));

    let effects = w.succeeds(host, again);
    assert_eq!(job_settled(&effects), Some(JobState::Finished));
}

#[test]
fn a_retry_renews_the_retries() {
    let mut w = World::new();
    let job = w.job(1).retries(1).submit();
    let host = w.host(1).joins();
    for _ in 0..2 {
        w.fails(host, w.attempt_on(host));
    }

    assert_eq!(w.job_state(job), JobState::Failed);
    w.send(events::retried(job, IdSet::from_range(1, 1)));
    w.fails(host, w.attempt_on(host));
    assert_eq!(w.task_state(job, 1), TaskState::Running);

    let effects = w.fails(host, w.attempt_on(host));
    assert!(matches!(
        settled(&effects)[..],
        [(1, Settled::Failed(AttemptId { number: 4, .. }, _))]
    ));
}

#[test]
fn cancelled_tasks_can_be_retried_tried_or_not() {
    let mut w = World::new();
    let job = w.job(3).submit();
    let host = w.host(1).joins();

    w.send(Event::JobCancelled { job, tasks: None });
    let effects = w.send(events::retried(job, IdSet::from_range(1, 3)));
    assert_eq!(starts(&effects)[0].2, StartReason::Requeued(1));

    let effects = w.succeeds(host, w.attempt_on(host));
    assert_eq!(starts(&effects)[0].2, StartReason::First);
    w.work_off();
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn a_result_from_before_a_retry_comes_too_late() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let host = w.host(1).joins();
    let old = w.attempt_on(host);
    w.send(Event::JobCancelled { job, tasks: None });
    w.send(events::retried(job, IdSet::from_range(1, 1)));
    assert_eq!(verdict(&w.succeeds(host, old)), Verdict::Late);
    assert_eq!(w.task_state(job, 1), TaskState::Running);
}

#[test]
fn only_settled_jobs_are_forgotten() {
    let mut w = World::new();
    let job = w.job(1).submit();
    let host = w.host(1).joins();
    w.send(Event::JobForgotten { job });
    assert_eq!(w.job_state(job), JobState::Running);
    let attempt = w.attempt_on(host);
    w.succeeds(host, attempt);
    w.send(Event::JobForgotten { job });
    assert_eq!(w.scheduler.job_state(job), None);
    assert_eq!(verdict(&w.succeeds(host, attempt)), Verdict::Unknown);
}

#[test]
fn higher_priority_goes_first_and_then_the_earlier_job() {
    let mut w = World::new();
    let early = w.job(1).submit();
    let late = w.job(1).submit();
    let urgent = w.job(1).priority(5).submit();
    w.host(1).slots(3).joins();
    let order: Vec<JobId> = starts(&w.history[3].2)
        .iter()
        .map(|(_, attempt, _)| attempt.task.job)
        .collect();
    assert_eq!(order, [urgent, early, late]);
}

#[test]
fn a_job_comes_back_from_the_store_as_it_was() {
    let mut w = World::new();
    let job = w.job(6).retries(1).submit();
    let host = w.host(1).slots(2).joins();
    w.succeeds(host, w.books(host)[0]);
    w.fails(host, w.books(host)[0]);
    w.fails(host, w.books(host)[0]);

    let held = w.books(host);
    w.restart();
    assert_eq!(w.books(host), held, "live attempts stay with their host");
    assert_eq!(w.task_state(job, 1), TaskState::Finished);

    let mut draft = w.host(1).slots(2);
    for attempt in &held {
        draft = draft.holding(*attempt, common::attempt::Phase::Running);
    }

    let (_, effects) = draft.joins_with();
    assert_eq!(ended(&effects), []);

    let effects = w.succeeds(host, held[0]);
    assert_eq!(
        verdict(&effects),
        Verdict::Taken,
        "an attempt of an earlier incarnation still counts"
    );

    let next = starts(&effects)[0].1;
    assert_eq!(next.incarnation, Incarnation(2));
    w.work_off();
    assert!(matches!(
        w.job_state(job),
        JobState::Finished | JobState::Failed
    ));
}

/// A job of one task, restored with an attempt on host 1 that was lost or told to end.
fn restored(lost: bool) -> (World, AttemptId) {
    let mut w = World::new();
    let task = TaskId::new(JobId(1), 1);
    let host = HostId(1);
    let attempt = AttemptId {
        task,
        number: 1,
        incarnation: Incarnation(0),
    };
    let tried = scheduler::event::Tried {
        losses: u32::from(lost),
        lost: lost.then_some((attempt, host, true)).into_iter().collect(),
        ended: (!lost).then_some((attempt, host)).into_iter().collect(),
        ..events::tried(1, 1)
    };
    let progress = Box::new(scheduler::event::RestoredProgress {
        tried: vec![tried],
        attempts: 1,
        ..Default::default()
    });

    let bag = Bag::new(IdSet::from_range(1, 1), Rules::default());
    w.scheduler.step(
        w.now,
        Event::JobRestored {
            job: JobId(1),
            bag: Box::new(bag),
            progress,
        },
        &mut Vec::new(),
    );

    assert_eq!(w.task_state(JobId(1), 1), TaskState::Waiting);
    (w, attempt)
}

#[test]
fn a_result_of_an_attempt_that_was_lost_or_told_to_end_before_a_restart_still_counts() {
    for lost in [true, false] {
        let (mut w, attempt) = restored(lost);
        let outcome = Outcome::Succeeded;
        let ran = Span::from_secs(1);
        let mut effects = Vec::new();

        w.scheduler.step(
            w.now,
            events::ended(HostId(1), attempt, outcome, ran),
            &mut effects,
        );

        assert_eq!(verdict(&effects), Verdict::Taken);
        assert_eq!(w.task_state(JobId(1), 1), TaskState::Finished);
    }
}

#[test]
fn a_restart_lets_lost_attempts_continue_and_abandons_stopped_ones() {
    for (lost, phase, goes_on) in [
        (true, Phase::Running, true),
        (false, Phase::Running, false),
        // What it has a result of is to be delivered in any case.
        (true, Phase::Ended, true),
        (false, Phase::Ended, true),
    ] {
        let (mut w, attempt) = restored(lost);
        let held = vec![HeldAttempt {
            attempt,
            phase,
            ran: Span::from_secs(1),
            frozen_for: Span::ZERO,
            progress: None,
        }];

        let host = HostId(1);
        let status = OwnerState::Away.into();
        let joined = Event::HostJoined {
            host,
            slots: 1,
            speed: Speed::REFERENCE,
            status,
            held,
        };

        let mut effects = Vec::new();
        w.scheduler.step(w.now, joined, &mut effects);

        let abandoned = effects.iter().any(
            |effect| matches!(effect, Effect::Abandon { attempts, .. } if attempts == &[attempt]),
        );
        assert_eq!(abandoned, !goes_on, "{lost} {phase:?}: {effects:?}");
    }
}

#[test]
fn a_store_that_contradicts_itself_does_not_stop_the_scheduler() {
    let mut w = World::new();
    let task = TaskId::new(JobId(1), 1);
    let attempt = |number| AttemptId {
        task,
        number,
        incarnation: Incarnation(0),
    };
    let tried = scheduler::event::Tried {
        task: 1,
        attempts: u32::MAX,
        failures: u32::MAX,
        losses: u32::MAX,
        live: vec![
            (attempt(u32::MAX), HostId(1), true),
            (attempt(7), HostId(1), true),
            (attempt(7), HostId(2), true),
        ],
        lost: vec![
            (attempt(7), HostId(1), true),
            (attempt(6), HostId(1), true),
            (attempt(6), HostId(2), true),
        ],
        ended: vec![
            (attempt(6), HostId(1)),
            (attempt(7), HostId(1)),
            (attempt(5), HostId(1)),
        ],
        outlived: vec![(HostId(9), Span(u64::MAX))],
        policed: common::Span::ZERO,
    };
    let progress = scheduler::event::RestoredProgress {
        finished: IdSet::from_range(2, 9),
        failed: IdSet::from_range(2, 3),
        tried: vec![tried.clone(), tried],
        ..Default::default()
    };

    let bag = Bag::new(
        IdSet::from_range(1, 3),
        Rules {
            policy: "GONE".into(),
            ..Rules::default()
        },
    );

    let mut effects = Vec::new();
    let event = Event::JobRestored {
        job: JobId(1),
        bag: Box::new(bag),
        progress: Box::new(progress),
    };
    w.scheduler.step(w.now, event, &mut effects);
    assert_eq!(w.books(HostId(1)), [attempt(7)]);
    assert_eq!(w.task_state(JobId(1), 3), TaskState::Finished);
}
