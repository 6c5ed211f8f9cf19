//! Failures that are a host's: where retries go, when a host gets no more of a job, and when nothing at all.

use common::attempt::Outcome;
use common::view::{HostState, JobState, TaskState};
use common::{AttemptId, HostId, JobId, Span};

use crate::world::{World, s, settled, starts};

/// Everything on the books of these hosts ends, by the verdict of `fails`, until nothing is live; how many attempts of
/// each kind ended on each host.
fn work_off(world: &mut World, fails: impl Fn(HostId) -> Option<Outcome>) -> Vec<(HostId, u64, u64)> {
    let hosts: Vec<HostId> = world.scheduler.hosts().collect();
    let mut counts: Vec<(HostId, u64, u64)> = hosts.iter().map(|host| (*host, 0, 0)).collect();
    for _ in 0..10_000 {
        let mut any = false;
        for count in &mut counts {
            // What fails does so at once, ten times while another host is done with one.
            let times = if fails(count.0).is_some() { 10 } else { 1 };
            for _ in 0..times {
                let Some(attempt) = world.books(count.0).first().copied() else { break };
                any = true;
                match fails(count.0) {
                    Some(outcome) => {
                        count.1 += 1;
                        world.ends(count.0, attempt, outcome, Span(1_000));
                    }
                    None => {
                        count.2 += 1;
                        world.pass(Span(200_000));
                        world.ends(count.0, attempt, Outcome::Succeeded, Span(200_000));
                    }
                }
            }
        }
        if !any {
            return counts;
        }
    }
    panic!("the work never ends");
}

fn broken(host: u32) -> impl Fn(HostId) -> Option<Outcome> {
    move |id| (id == HostId(host)).then_some(Outcome::Exited(1))
}

#[test]
fn a_retry_goes_to_another_host_while_there_is_one() {
    let mut w = World::new();
    let (fast, slow) = (w.host(1).speed(2.0).joins(), w.host(2).joins());
    let other = w.job(1).policy("FCFS").submit();
    let job = w.job(1).retries(3).policy("PRI-CR").submit();
    assert_eq!((w.attempt_on(fast).task.job, w.attempt_on(slow).task.job), (other, job));
    // The other host is busy, and takes work: the task waits for it.
    let failed = w.attempt_on(slow);
    assert_eq!(starts(&w.fails(slow, failed)), [], "not on the host on which it failed");
    let done = w.attempt_on(fast);
    let began = starts(&w.succeeds(fast, done));
    assert_eq!(began.iter().map(|(host, attempt, _)| (*host, attempt.task.job)).collect::<Vec<_>>(), [(fast, job)]);
}

#[test]
fn a_retry_stays_where_it_failed_if_no_other_host_takes_work() {
    let mut w = World::new();
    let (here, away) = (w.host(1).joins(), w.host(2).joins());
    w.owner_comes(away);
    let job = w.job(1).retries(1).submit();
    let first = w.attempt_on(here);
    w.fails(here, first);
    let second = w.attempt_on(here);
    assert_eq!(second.number, 2);
    w.fails(here, second);
    assert_eq!(w.job_state(job), JobState::Failed);
}

#[test]
fn a_task_waits_ten_minutes_at_most_for_another_host() {
    let mut w = World::new();
    let (here, busy) = (w.host(1).joins(), w.host(2).joins());
    w.job(1).policy("FCFS").submit();
    w.job(1).retries(1).policy("FCFS").submit();
    let held = w.attempt_on(busy);
    assert_eq!(held.task.job, JobId(2));
    let failing = w.attempt_on(here);
    // Which host has which does not matter: the second job's task fails where it is.
    w.fails(busy, held);
    assert!(w.books(busy).is_empty());
    for _ in 0..11 {
        w.pass(s(60));
        w.beats(here);
        w.beats(busy);
    }
    assert_eq!(w.books(busy).len(), 1, "it is tried there again");
    assert_eq!(w.attempt_on(here), failing);
}

#[test]
fn a_black_hole_gets_a_few_tasks_and_the_others_finish_elsewhere() {
    for (retries, policy) in [(0, "deskgrid"), (0, "FCFS"), (3, "deskgrid"), (3, "PRI-CR"), (10, "EXCL-PRED-TO")] {
        let mut w = World::new();
        w.host(1).speed(2.0).joins();
        w.host(2).joins();
        let job = w.job(300).retries(retries).policy(policy).submit();
        let counts = work_off(&mut w, broken(1));
        let failures = counts[0].1;
        assert!(failures <= 12, "{policy}, {retries} retries: {failures} tasks failed on the broken host");
        let expected = if retries == 0 { JobState::Failed } else { JobState::Finished };
        assert_eq!(w.job_state(job), expected, "{policy}, {retries} retries");
        assert!(counts[1].2 >= 300 - failures, "{policy}: the good host did {} tasks", counts[1].2);
    }
}

#[test]
fn what_cannot_be_started_costs_a_task_nothing_while_other_hosts_can_try() {
    let mut w = World::new();
    w.host(1).speed(2.0).joins();
    w.host(2).joins();
    let job = w.job(300).submit();
    let missing = |host| (host == HostId(1)).then(|| Outcome::NotStarted("no such program".to_owned()));
    work_off(&mut w, missing);
    assert_eq!(w.job_state(job), JobState::Finished, "though it has no retries");
}

#[test]
fn a_program_that_no_host_can_start_fails_at_once() {
    for hosts in [1, 2, 3, 8] {
        let mut w = World::new();
        for host in 1..=hosts {
            w.host(host).joins();
        }
        let job = w.job(1).submit();
        let counts = work_off(&mut w, |_| Some(Outcome::NotStarted("no such program".to_owned())));
        assert_eq!(w.task_state(job, 1), TaskState::Failed);
        let tries: u64 = counts.iter().map(|count| count.1).sum();
        assert_eq!(tries, u64::from(hosts.min(3)), "{hosts} hosts");
    }
}

#[test]
fn a_job_that_fails_everywhere_fails_and_puts_no_host_aside() {
    let mut w = World::new();
    let hosts: Vec<HostId> = (1..=3).map(|host| w.host(host).joins()).collect();
    for _ in 0..5 {
        let job = w.job(30).submit();
        work_off(&mut w, |_| Some(Outcome::Exited(2)));
        assert_eq!(w.job_state(job), JobState::Failed);
    }
    assert!(hosts.iter().all(|host| w.host_state(*host) == HostState::Ready));
}

#[test]
fn a_host_that_several_jobs_put_aside_is_quarantined_until_it_proves_itself() {
    let mut w = World::new();
    let (bad, good) = (w.host(1).speed(2.0).joins(), w.host(2).joins());
    for _ in 0..3 {
        w.job(60).retries(3).submit();
        work_off(&mut w, broken(1));
    }
    assert_eq!(w.host_state(bad), HostState::Quarantined);
    let job = w.job(40).retries(3).submit();
    assert!(w.books(bad).is_empty(), "it gets nothing");
    let told = w.scheduler.explain(job).expect("a job");
    let why = &told.hosts.iter().find(|(host, _)| *host == bad).expect("the host").1;
    assert!(why.starts_with("quarantined: tasks of several jobs failed here"), "{why}");

    // It is tried with one task, and fails again: the next pause is longer.
    let wait = |w: &mut World, secs: u64| {
        for _ in 0..secs {
            w.pass(s(1));
            w.beats(bad);
            w.beats(good);
            if !w.books(bad).is_empty() {
                return true;
            }
        }
        false
    };
    assert!(wait(&mut w, 31), "tried after half a minute");
    let attempt = w.attempt_on(bad);
    w.fails(bad, attempt);
    assert_eq!(w.host_state(bad), HostState::Quarantined);
    assert!(!wait(&mut w, 58), "not before a minute is over");
    assert!(wait(&mut w, 5));
    let attempt = w.attempt_on(bad);
    w.succeeds(bad, attempt);
    assert_eq!(w.host_state(bad), HostState::Busy, "it is a host as any other again");
}

#[test]
fn an_admin_ends_a_quarantine() {
    let mut w = World::new();
    let bad = w.host(1).speed(2.0).joins();
    w.host(2).joins();
    for _ in 0..3 {
        w.job(60).retries(3).submit();
        work_off(&mut w, broken(1));
    }
    assert_eq!(w.host_state(bad), HostState::Quarantined);
    w.send(scheduler::Event::HostUndrained { host: bad });
    assert_eq!(w.host_state(bad), HostState::Ready);
}

#[test]
fn a_job_tries_a_host_again_that_it_put_aside() {
    let mut w = World::new();
    let (bad, good) = (w.host(1).speed(2.0).joins(), w.host(2).joins());
    w.job(4_000).retries(9).policy("PRI-CR").submit();
    for _ in 0..10 {
        if let Some(attempt) = w.books(bad).first().copied() {
            w.fails(bad, attempt);
        }
        let attempt = w.attempt_on(good);
        w.succeeds(good, attempt);
    }
    assert!(w.books(bad).is_empty());
    let ends = |w: &mut World, host: HostId, attempt: AttemptId| drop(w.succeeds(host, attempt));
    for _ in 0..40 {
        w.pass(s(1));
        let attempt = w.attempt_on(good);
        ends(&mut w, good, attempt);
        w.beats(bad);
    }
    let attempt = w.attempt_on(bad);
    ends(&mut w, bad, attempt);
    assert_eq!(w.books(bad).len(), 1, "after a success it gets tasks as before");
}

#[test]
fn a_task_that_fails_on_every_host_fails_with_its_last_reason() {
    let mut w = World::new();
    let hosts: Vec<HostId> = (1..=2).map(|host| w.host(host).joins()).collect();
    let job = w.job(1).retries(2).submit();
    let mut last = Vec::new();
    for _ in 0..3 {
        let host = *hosts.iter().find(|host| !w.books(**host).is_empty()).expect("it runs somewhere");
        let attempt = w.attempt_on(host);
        last = settled(&w.fails(host, attempt));
    }
    assert_eq!(last.len(), 1);
    assert_eq!(w.job_state(job), JobState::Failed);
}
