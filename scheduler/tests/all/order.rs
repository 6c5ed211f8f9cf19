//! Order between jobs, and jobs that stay open.

use common::needs::Needs;
use common::view::{JobState, TaskState};
use common::{After, EndCondition, HostId, IdSet, JobId, Ranks, Time};
use scheduler::effect::{CancelReason, Refused};
use scheduler::event::Bag;
use scheduler::{Effect, Event};

use crate::events;
use crate::world::{World, job_settled, s, starts};

fn after(job: JobId, how: EndCondition) -> After {
    After { job, how }
}

fn cancelled(effects: &[Effect]) -> Vec<(JobId, CancelReason)> {
    let cancel = |effect: &Effect| match effect {
        Effect::TasksCancelled { job, why, .. } => Some((*job, *why)),
        _ => None,
    };
    effects.iter().filter_map(cancel).collect()
}

fn added(job: JobId, first: u32, last: u32) -> Event {
    Event::TasksAdded {
        job,
        tasks: IdSet::from_range(first, last),
    }
}

/// A job with a task that has failed for good.
fn failed(w: &mut World) -> JobId {
    let job = w.job(1).submit();
    let host = w.host(9).joins();
    let attempt = w.attempt_on(host);
    w.fails(host, attempt);
    assert_eq!(w.job_state(job), JobState::Failed);
    job
}

#[test]
fn a_job_starts_once_the_one_before_it_has_succeeded() {
    let mut w = World::new();
    let first = w.job(2).submit();
    let second = w.job(1).after(after(first, EndCondition::Ok)).submit();
    let host = w.host(1).slots(3).joins();
    let running = w.books(host);
    assert!(running.iter().all(|attempt| attempt.task.job == first));
    assert_eq!(w.task_state(second, 1), TaskState::Waiting);
    let why = w.scheduler.explain(second).unwrap();
    let one = IdSet::from_range(1, 1);
    let words = format!("waits for job {first}, of which 2 tasks are left");
    assert_eq!(why.tasks, [(words, one)]);
    let told = &why.hosts[0].1;
    assert!(told.contains("wait for other jobs"), "{told}");
    let told = w.scheduler.explain_host_at(host, second, w.now);
    let words =
        format!("ready: 1 of 3 slots free; waits for job {first}, of which 2 tasks are left");
    assert_eq!(told, Some(words));
    assert_eq!(w.scheduler.explain_host_at(HostId(9), second, w.now), None);

    let effects = w.succeeds(host, running[0]);
    assert!(starts(&effects).is_empty());
    let effects = w.succeeds(host, running[1]);
    assert_eq!(job_settled(&effects), Some(JobState::Finished));
    assert_eq!(starts(&effects)[0].1.task.job, second, "in the same step");
    w.work_off();
    assert_eq!(w.job_state(second), JobState::Finished);
}

#[test]
fn a_host_that_lacks_the_needs_of_a_job_says_so_while_the_job_waits_for_another() {
    let mut w = World::new();
    let first = w.job(1).submit();
    let host = w.host(1).slots(2).joins();
    let needs = Needs::parse(["label=fast"]).unwrap();
    let held = w
        .job(1)
        .after(after(first, EndCondition::Ok))
        .needs(needs)
        .submit();
    let told = w.scheduler.explain_host_at(host, held, w.now);
    assert_eq!(
        told.as_deref(),
        Some("passed over: it does not have the label `fast`")
    );
}

#[test]
fn a_failure_cancels_all_that_come_after_it_but_those_that_do_not_mind() {
    let mut w = World::new();
    let first = w.job(1).submit();
    let second = w.job(1).after(after(first, EndCondition::Ok)).submit();
    let third = w.job(3).after(after(second, EndCondition::Ok)).submit();
    let anyway = w.job(1).after(after(third, EndCondition::Any)).submit();
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);

    let effects = w.fails(host, attempt);
    let expected = [
        (second, CancelReason::After(first)),
        (third, CancelReason::After(second)),
    ];
    assert_eq!(cancelled(&effects), expected);
    assert_eq!(w.job_state(third), JobState::Cancelled);
    assert_eq!(starts(&effects)[0].1.task.job, anyway);
    let words = CancelReason::After(first).to_string();
    assert_eq!(
        words,
        format!("it was to start after job {first}, which did not succeed")
    );
}

#[test]
fn a_job_after_one_that_has_ended_starts_or_is_cancelled_at_once() {
    let mut w = World::new();
    let before = failed(&mut w);
    let (job, effects) = w.job(2).after(after(before, EndCondition::Ok)).asks();
    assert_eq!(cancelled(&effects), [(job, CancelReason::After(before))]);
    let (job, effects) = w.job(1).after(after(before, EndCondition::Any)).asks();
    assert_eq!(starts(&effects)[0].1.task.job, job);
    let (job, effects) = w.job(1).after(after(JobId(999), EndCondition::Ok)).asks();
    assert_eq!(
        effects,
        [Effect::JobAdmitted { job }],
        "it is forgotten, so it has ended"
    );
}

#[test]
fn what_a_job_waits_for_outlives_a_restart_in_whatever_order_jobs_come_back() {
    let mut w = World::new();
    let first = w.job(1).submit();
    let second = w.job(1).after(after(first, EndCondition::Ok)).submit();
    w.restart();
    let host = w.host(1).slots(2).joins();
    assert_eq!(w.attempt_on(host).task.job, first);
    w.work_off();
    assert_eq!(w.job_state(second), JobState::Finished);

    let bag = |after: Vec<After>| Bag {
        after,
        ..Bag::new(IdSet::from_range(1, 1), common::job::Rules::default())
    };
    let restored = |job, bag| Event::JobRestored {
        job: JobId(job),
        bag: Box::new(bag),
        progress: Box::default(),
    };
    let mut w = World::new();
    w.send(restored(8, bag(vec![after(JobId(7), EndCondition::Ok)])));
    w.send(restored(7, bag(Vec::new())));
    let host = w.host(1).slots(2).joins();
    assert_eq!(w.attempt_on(host).task.job, JobId(7), "8 waits for it");
}

#[test]
fn a_job_that_waits_for_several_waits_for_the_last() {
    let mut w = World::new();
    let first = w.job(1).submit();
    let second = w.job(1).submit();
    let last = w
        .job(1)
        .after(after(first, EndCondition::Ok))
        .after(after(second, EndCondition::Any))
        .submit();
    let words = w.scheduler.why_held(last).unwrap();
    assert_eq!(
        words,
        format!("waits for job {first}, of which 1 task is left, and for 1 more job")
    );
    let host = w.host(1).joins();
    let attempt = w.attempt_on(host);
    let effects = w.succeeds(host, attempt);
    assert_eq!(starts(&effects)[0].1.task.job, second);
    w.work_off();
    assert_eq!(w.job_state(last), JobState::Finished);
}

#[test]
fn a_gang_holds_no_host_while_it_waits_for_a_job() {
    let mut w = World::new();
    let first = w.job(1).submit();
    let ranks = Ranks::new(2, Some(2));
    let rules = common::job::Rules {
        policy: common::job::RANKS_POLICY.to_owned(),
        ..common::job::Rules::default()
    };
    let gang = JobId(50);
    let bag = Bag {
        ranks: Some(ranks),
        after: vec![after(first, EndCondition::Ok)],
        ..Bag::new(Ranks::tasks(2), rules)
    };
    let mut effects = Vec::new();
    let mut step = |scheduler: &mut scheduler::Scheduler, event| {
        scheduler.step(Time(2_000_000), event, &mut effects);
        std::mem::take(&mut effects)
    };
    let scheduler = &mut w.scheduler;
    step(scheduler, events::submitted(gang, bag));
    let mut joined = Vec::new();
    for host in 1..=3 {
        joined.extend(step(scheduler, events::joined(common::HostId(host), 1)));
    }
    let started = starts(&joined);
    assert_eq!(started.len(), 1, "two hosts stay free: {started:?}");
    let (host, attempt, _) = started[0].clone();
    let ended = step(
        scheduler,
        events::ended(host, attempt, common::Outcome::Succeeded, s(9)),
    );
    let ranks = starts(&ended);
    assert!(ranks.len() == 2 && ranks.iter().all(|(_, attempt, _)| attempt.task.job == gang));
}

#[test]
fn a_deadline_is_not_promised_to_a_job_that_waits_for_another() {
    let mut w = World::new();
    w.host(1).slots(1).joins();
    let first = w.job(1).submit();
    let promise = |w: &mut World| {
        let draft = w.job(1).policy("PROMISE").estimate(s(60)).deadline(86_400);
        draft.after(after(first, EndCondition::Ok)).asks()
    };
    let (job, effects) = promise(&mut w);
    let why = Refused::Waits(first);
    assert_eq!(effects, [Effect::JobRefused { job, why }]);

    w.work_off();
    let (job, effects) = promise(&mut w);
    assert_eq!(effects[0], Effect::JobAdmitted { job }, "it has ended");
}

#[test]
fn a_waiting_job_is_predicted_to_end_after_those_before_it_have_ended() {
    let mut w = World::new();
    let first = w.job(4).estimate(s(600)).submit();
    let second = w
        .job(1)
        .estimate(s(600))
        .after(after(first, EndCondition::Ok))
        .submit();
    let third = w
        .job(1)
        .estimate(s(600))
        .after(after(second, EndCondition::Any))
        .submit();
    let open = w.job(1).estimate(s(600)).open().submit();
    let behind = w
        .job(1)
        .estimate(s(600))
        .after(after(open, EndCondition::Any))
        .submit();
    w.host(1).joins();

    let ends = |job| w.scheduler.predict(job, w.now);
    let [one, two, three] = [first, second, third].map(|job| ends(job).expect("it is known"));
    assert!(two.finish >= one.finish + s(600), "{one:?} {two:?}");
    assert!(three.finish >= two.finish + s(600), "{two:?} {three:?}");
    assert!(two.low <= two.finish && two.finish <= two.high);
    assert!(ends(open).is_some(), "of the tasks that it has");
    assert_eq!(
        ends(behind),
        None,
        "nobody knows when the open one is closed"
    );
    assert!(w.scheduler.predict_start(second, w.now).is_none());
}

#[test]
fn a_job_is_predicted_before_it_is_submitted_as_it_is_after() {
    let mut w = World::new();
    w.host(1).joins();
    let first = w.job(4).estimate(s(600)).submit();
    let held = after(first, EndCondition::Ok);
    let bags = [
        (w.job(3).estimate(s(60)).bag(), true),
        (w.job(2).estimate(s(60)).after(held).bag(), true),
        (w.job(2).bag(), false),
    ];
    for (number, (bag, known)) in (100..).zip(bags) {
        let before = w.scheduler.predict_submitted(bag.clone(), w.now);
        let job = JobId(number);
        let bag = Box::new(bag);
        let tested = None;
        w.send(Event::JobSubmitted { job, bag, tested });
        assert_eq!(before, w.scheduler.predict(job, w.now), "{job}");
        assert_eq!(before.is_some(), known, "{job}");
    }
}

#[test]
fn an_open_job_takes_tasks_until_it_is_closed() {
    let mut w = World::new();
    let job = w.job(2).open().submit();
    let host = w.host(1).slots(2).joins();
    w.work_off();
    assert_eq!(w.job_state(job), JobState::Running);
    assert_eq!(
        w.scheduler.predict(job, w.now),
        None,
        "nothing is left to predict"
    );

    let effects = w.send(added(job, 2, 4));
    assert_eq!(starts(&effects).len(), 2, "task 2 was there");
    assert_eq!(w.scheduler.job_counts(job).unwrap().total, 4);
    assert!(job_settled(&w.send(Event::JobClosed { job })).is_none());
    assert_eq!(w.books(host).len(), 2);
    w.send(added(job, 9, 9));
    w.work_off();
    assert_eq!(w.job_state(job), JobState::Finished);
    assert_eq!(w.scheduler.job_counts(job).unwrap().total, 4);

    let idle = w.job(1).open().submit();
    w.work_off();
    let effects = w.send(Event::JobClosed { job: idle });
    assert_eq!(job_settled(&effects), Some(JobState::Finished));
    assert!(w.send(Event::JobClosed { job: idle }).is_empty());
}

#[test]
fn whoever_cancels_an_open_job_closes_it() {
    let mut w = World::new();
    w.host(1).slots(2).joins();
    let job = w.job(1).open().submit();
    let some = |tasks| Event::JobCancelled { job, tasks };
    let effects = w.send(some(Some(IdSet::from_range(1, 1))));
    assert!(job_settled(&effects).is_none());
    let effects = w.send(some(None));
    assert_eq!(job_settled(&effects), Some(JobState::Cancelled));

    let done = w.job(1).open().submit();
    w.work_off();
    let cancel = Event::JobCancelled {
        job: done,
        tasks: None,
    };
    assert_eq!(job_settled(&w.send(cancel)), Some(JobState::Finished));
}

#[test]
fn too_many_failures_close_an_open_job() {
    let mut w = World::new();
    let host = w.host(1).joins();
    let job = w.job(1).max_fails(0).open().submit();
    let attempt = w.attempt_on(host);
    let effects = w.fails(host, attempt);
    assert_eq!(job_settled(&effects), Some(JobState::Failed));
    assert_eq!(w.job_state(job), JobState::Failed);
}

#[test]
fn tasks_added_to_a_job_that_waits_for_another_wait_too() {
    let mut w = World::new();
    let first = w.job(1).submit();
    let second = w
        .job(1)
        .after(after(first, EndCondition::Ok))
        .open()
        .submit();
    w.send(added(second, 5, 6));
    let host = w.host(1).slots(4).joins();
    assert_eq!(w.attempt_on(host).task.job, first);
    let attempt = w.attempt_on(host);
    let effects = w.succeeds(host, attempt);
    assert_eq!(starts(&effects).len(), 3);
    w.work_off();
    w.send(Event::JobClosed { job: second });
    assert_eq!(w.job_state(second), JobState::Finished);
}

#[test]
fn an_open_job_is_open_after_a_restart() {
    let mut w = World::new();
    let job = w.job(1).open().submit();
    w.send(added(job, 2, 3));
    w.restart();
    w.host(1).joins();
    w.work_off();
    assert_eq!(w.job_state(job), JobState::Running);
    w.send(added(job, 4, 4));
    w.work_off();
    w.send(Event::JobClosed { job });
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn an_open_job_without_a_task_left_tells_those_that_wait_what_to_do() {
    let mut w = World::new();
    let open = w.job(1).open().submit();
    let behind = w.job(1).after(after(open, EndCondition::Ok)).submit();
    w.host(1).joins();
    let words = w.scheduler.why_held(behind).unwrap();
    assert_eq!(
        words,
        format!("waits for job {open}, which is open, with 1 task left")
    );
    w.work_off();
    let words = w.scheduler.why_held(behind).unwrap();
    let close = format!("deskgrid job close {open}");
    assert!(
        words.contains("without a task left") && words.contains(&close),
        "{words}"
    );
}

#[test]
fn a_long_chain_of_jobs_is_cancelled_without_end_of_the_stack() {
    let mut w = World::new();
    let first = w.job(1).submit();
    let mut before = first;
    for _ in 0..300 {
        before = w.job(1).after(after(before, EndCondition::Ok)).submit();
    }
    let effects = w.send(events::cancelled(first, None));
    assert_eq!(cancelled(&effects).len(), 301);
    assert_eq!(w.job_state(before), JobState::Cancelled);
    assert_eq!(w.scheduler.predict(before, w.now), None);
}

#[test]
fn a_job_that_ends_when_its_last_attempt_makes_room_lets_others_go() {
    let mut w = World::new();
    let before = w.job(1).policy("FCFSxFCFS").disclosed().submit();
    let silent = w.host(1).joins();
    w.pass(s(100));

    // Its replacement fails for good while it is silent; then it is heard of again.
    let other = w.host(2).joins();
    w.pass(s(50));
    let replacement = w.attempt_on(other);
    assert_eq!(replacement.task.job, before);
    let next = w.job(1).after(after(before, EndCondition::Any)).submit();
    w.fails(other, replacement);
    w.beats(silent);
    assert_eq!(w.attempt_on(silent).task.job, before);

    w.job(2).policy("FCFS").submit();
    assert_eq!(w.job_state(before), JobState::Failed);
    assert_eq!(w.scheduler.why_held(next), None);
}
