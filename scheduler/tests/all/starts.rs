//! When waiting jobs should start, and when hosts should be free together.

use common::attempt::{Outcome, Phase};
use common::{HostId, JobId};

use super::world::{World, s};
use crate::events;

/// A grid of one host that has seen tasks of a program take about 100 s.
fn taught(w: &mut World) -> HostId {
    w.job(40).submit();
    let host = w.host(1).joins();
    for task in 0..40 {
        let attempt = w.attempt_on(host);
        w.moves(host, Phase::Running);
        w.pass(s(90 + task % 20));
        w.ends(host, attempt, Outcome::Succeeded, s(90 + task % 20));
    }
    host
}

/// When the job should start, and the ends of the interval, in seconds from now.
fn start_s(w: &World, job: JobId) -> Option<[f64; 3]> {
    let found = w.scheduler.predict_start(job, w.now)?;
    Some([found.start, found.low, found.high].map(|at| at.since(w.now).secs()))
}

#[test]
fn a_waiting_job_is_predicted_to_start_when_running_work_ends() {
    let mut w = World::new();
    let host = taught(&mut w);
    let first = w.job(1).submit();

    w.moves(host, Phase::Running);
    let second = w.job(1).estimate(s(100)).submit();
    let third = w.job(1).estimate(s(100)).submit();

    assert_eq!(start_s(&w, first), None, "it has started");
    let [start, low, high] = start_s(&w, second).expect("it waits");
    assert!(
        low <= start && start <= high && (60.0..140.0).contains(&start),
        "{low} {start} {high}"
    );

    let [later, ..] = start_s(&w, third).expect("it waits");
    assert!(
        later > start + 50.0,
        "behind one more task: {later}, not {start}"
    );
    w.pass(s(80));

    let [sooner, ..] = start_s(&w, second).expect("it waits still");
    assert!(
        sooner < 0.6 * start,
        "the longer it has run, the sooner it ends: {sooner} after {start}"
    );
}

#[test]
fn no_job_of_a_long_line_is_predicted_to_start_before_those_ahead() {
    let mut w = World::new();
    taught(&mut w);
    for host in 2..=8 {
        w.host(host).joins();
    }

    w.job(8).submit();
    let line: Vec<JobId> = (0..300)
        .map(|number| {
            w.job(1 + number % 3)
                .estimate(s(60 + u64::from(number % 90)))
                .submit()
        })
        .collect();
    let starts = w.scheduler.predict_starts(&line, w.now);
    let mut last_s = 0.0;

    for (place, job) in line.iter().enumerate() {
        let left_s = starts[job].start.since(w.now).secs();
        assert!(
            last_s - 1.0 <= left_s,
            "{place}: {left_s} s after {last_s} s"
        );
        last_s = left_s;
        if place % 15 > 0 {
            continue;
        }

        let [alone_s, low_s, high_s] = start_s(&w, *job).expect("it waits");
        assert!(
            (left_s - alone_s).abs() <= 0.1 * alone_s + 5.0,
            "{place}: {left_s} s in a list, {alone_s} s alone"
        );
        assert!(
            low_s <= alone_s && alone_s <= high_s,
            "{place}: {low_s} {alone_s} {high_s}"
        );

        let finish_s = w
            .scheduler
            .predict_finish(*job, w.now)
            .expect("hosts work")
            .since(w.now)
            .secs();

        // Both are exact to about a task.
        assert!(
            alone_s < finish_s + 100.0,
            "{place}: it starts in {alone_s} s and ends in {finish_s} s"
        );
    }

    assert!(
        (2_000.0..20_000.0).contains(&last_s),
        "600 tasks of 105 s on eight hosts: {last_s}"
    );
    for job in &line[..250] {
        w.send(events::cancelled(*job, None));
    }

    w.pass(s(2));
    let [left_s, ..] = start_s(&w, line[299]).expect("it waits");
    assert!(
        left_s < 0.4 * last_s,
        "with a sixth of them ahead: {left_s} s after {last_s} s"
    );
}

#[test]
fn a_start_behind_unknown_tasks_is_predicted_with_less_certainty() {
    let mut w = World::new();
    w.host(1).joins();
    let line = [w.job(1).submit(), w.job(5).submit(), w.job(1).submit()];
    let [_, _, last] = line;
    let [start, low, high] = start_s(&w, last).expect("there is a host");
    assert!(
        low < start / 10.0 && start * 10.0 < high,
        "{low} {start} {high}"
    );
}

#[test]
fn work_ahead_of_a_job_is_predicted_by_its_own_run_times() {
    let mut w = World::new();
    let host = w.host(1).joins();
    w.job(1).estimate(s(1_000)).submit();
    w.moves(host, Phase::Running);

    let short = w.job(2).estimate(s(10)).submit();
    let finish_s = w
        .scheduler
        .predict_finish(short, w.now)
        .expect("a host works")
        .since(w.now)
        .secs();
    assert!(
        (1_000.0..2_000.0).contains(&finish_s),
        "behind 1,000 s on the only host: {finish_s}"
    );
}

#[test]
fn owners_at_their_hosts_are_expected_to_leave() {
    let mut w = World::new();
    let host = taught(&mut w);
    w.owner_comes(host);

    let job = w.job(1).submit();
    let [start, low, high] = start_s(&w, job).expect("the owner will leave");
    assert!(
        0.0 < low && low <= start && start <= high,
        "{low} {start} {high}"
    );

    let last = w.job(20).estimate(s(100)).submit();
    let [later, ..] = start_s(&w, last).expect("behind the other as well");
    assert!(later > start, "{later} after {start}");

    let finish = w
        .scheduler
        .predict_finish(last, w.now)
        .expect("when the owner has left")
        .since(w.now)
        .secs();
    assert!(
        finish > later + 1_500.0,
        "20 tasks of 100 s after {later}: {finish}"
    );

    let mut empty = World::new();
    let alone = empty.job(1).submit();
    assert_eq!(start_s(&empty, alone), None, "there is no host");
}

#[test]
fn hosts_are_free_together_when_enough_are_done() {
    let mut w = World::new();
    let first = taught(&mut w);
    for host in 2..=4 {
        w.host(host).joins();
    }

    w.job(2).submit();
    let found = |w: &World, hosts| w.scheduler.predict_hosts(hosts, w.now);
    let now = found(&w, 2);
    assert_eq!(
        (now.free, now.hosts, now.wait.used_s),
        (2, 4, Some(0.0)),
        "{first:?} and another one are busy"
    );

    let three = found(&w, 3);
    assert_eq!(three.wait.benefactors, 2);

    let median_s = three.median_s.expect("one of two ends");
    assert!((20.0..200.0).contains(&median_s), "{median_s}");
    assert_eq!(found(&w, 5).wait.used_s, None);
}
