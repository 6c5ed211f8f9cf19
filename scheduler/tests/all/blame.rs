//! Hosts that fail what succeeds elsewhere: where retries go, what is charged to a task, and when a
//! host gets nothing.

use common::attempt::{Outcome, Phase};
use common::host::{OwnerState, Status, YieldReason};
use common::job::Rules;
use common::view::{HostState, JobState};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, Time};
use scheduler::effect::StartReason;
use scheduler::event::Bag;
use scheduler::{Effect, Event, Parting, Scheduler, Settings};

use crate::events;
use crate::speculation::request;
use crate::world::World;

const GOOD: HostId = HostId(1);
const BAD: HostId = HostId(2);

/// A scheduler that holds hosts responsible, and what runs where.
struct Grid {
    scheduler: Scheduler,
    now: Time,
    live: Vec<(HostId, AttemptId, StartReason)>,
    started: Vec<(HostId, AttemptId)>,
}

impl Grid {
    fn new(hosts: &[HostId]) -> Self {
        Self::with(hosts, false)
    }

    fn with(hosts: &[HostId], stops_when_reported: bool) -> Self {
        let settings = Settings {
            stops_when_reported,
            ..settings()
        };
        let scheduler = Scheduler::new(settings, Incarnation(1));
        let mut grid = Self {
            scheduler,
            now: Time(1_000_000),
            live: Vec::new(),
            started: Vec::new(),
        };
        hosts.iter().for_each(|host| grid.joins(*host));

        grid
    }

    fn send(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Start {
                    host, attempt, why, ..
                } => {
                    self.live.push((host, attempt, why));
                    self.started.push((host, attempt));
                }
                Effect::Ended { attempt, .. } => self.live.retain(|(_, live, _)| *live != attempt),
                _ => {}
            }
        }
    }

    fn joins(&mut self, host: HostId) {
        self.joins_with(host, 1);
    }

    fn joins_with(&mut self, host: HostId, slots: u32) {
        let speed = Speed::REFERENCE;
        self.send(Event::HostJoined {
            host,
            slots,
            speed,
            status: status(),
            held: Vec::new(),
        });
    }

    fn submit(&mut self, job: u32, tasks: u32, retries: u32) -> JobId {
        let rules = Rules {
            retries,
            ..Rules::default()
        };
        self.submit_bag(job, Bag::new(IdSet::from_range(1, tasks), rules))
    }

    fn submit_bag(&mut self, job: u32, bag: Bag) -> JobId {
        self.send(events::submitted(JobId(job), bag));
        JobId(job)
    }

    /// A bag with a deadline that is far away.
    fn promises(&mut self, job: u32, tasks: u32, retries: u32, policy: &str) -> JobId {
        let rules = Rules {
            retries,
            policy: policy.to_owned(),
            estimate: Some(Span::from_secs(1)),
            ..Rules::default()
        };
        let mut bag = Bag::new(IdSet::from_range(1, tasks), rules);
        bag.terms.deadline = Some(self.now + Span::from_secs(100_000));
        self.submit_bag(job, bag)
    }

    fn on(&self, host: HostId) -> Option<AttemptId> {
        self.live
            .iter()
            .find(|(on, ..)| *on == host)
            .map(|(_, attempt, _)| *attempt)
    }

    fn all_on(&self, host: HostId) -> Vec<AttemptId> {
        let there = self.live.iter().filter(|(on, ..)| *on == host);
        there.map(|(_, attempt, _)| *attempt).collect()
    }

    /// What runs on this host ends like this, after so long.
    fn ends(&mut self, host: HostId, outcome: Outcome, millis: u64) {
        let attempt = self.on(host).expect("something runs there");
        self.pass(millis);
        self.send(events::ended(
            host,
            attempt,
            outcome,
            Span::from_millis(millis),
        ));
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now + Span::from_millis(millis);
    }

    /// The bad host fails everything at once, the good one is done with a task each time the other
    /// has failed `fast` times or has nothing; until all is settled. How many attempts the bad host
    /// had.
    fn work_off(&mut self, job: JobId, fast: u32, bad: &Outcome) -> usize {
        for _ in 0..10_000 {
            for _ in 0..fast {
                if self.on(BAD).is_some() {
                    self.ends(BAD, bad.clone(), 1);
                }
            }
            if self.on(GOOD).is_some() {
                self.ends(GOOD, Outcome::Succeeded, 200);
            }
            if self.state(job) != JobState::Running {
                break;
            }
        }

        self.started
            .iter()
            .filter(|(host, attempt)| *host == BAD && attempt.task.job == job)
            .count()
    }

    fn state(&self, job: JobId) -> JobState {
        self.scheduler.job_state(job).expect("it is there")
    }

    fn finished(&self, job: JobId) -> u64 {
        self.scheduler
            .job_counts(job)
            .expect("it is there")
            .finished
    }

    fn host_state(&self, host: HostId) -> HostState {
        self.scheduler.host(host).expect("it is there").state
    }
}

fn settings() -> Settings {
    Settings {
        benching: true,
        lease: Span::from_secs(1_000_000),
        suspect_after: Span::from_secs(1_000_000),
        ..Settings::default()
    }
}

fn status() -> Status {
    Status {
        owner: OwnerState::Away,
        cpu: 1.0,
        up_for: Span::ZERO,
        owner_for: Span::ZERO,
    }
}

fn unstarted() -> Outcome {
    Outcome::NotStarted("no such program".into())
}

#[test]
fn a_host_that_can_start_nothing_does_not_eat_a_bag_without_retries() {
    let mut grid = Grid::new(&[GOOD, BAD]);
    let job = grid.submit(1, 300, 0);
    let tried = grid.work_off(job, 20, &unstarted());
    assert_eq!(
        (grid.finished(job), grid.state(job)),
        (300, JobState::Finished)
    );
    assert!(
        tried <= 10,
        "{tried} attempts went to the host that can start nothing"
    );
}

#[test]
fn a_host_on_which_every_command_fails_costs_a_bag_without_retries_only_a_few_tasks() {
    let mut grid = Grid::new(&[GOOD, BAD]);
    let job = grid.submit(1, 300, 0);
    let tried = grid.work_off(job, 20, &Outcome::Exited(127));
    assert!(tried <= 8, "{tried} attempts failed");
    assert_eq!(grid.finished(job), 300 - tried as u64);
}

#[test]
fn with_retries_a_bag_loses_nothing_to_a_host_on_which_every_command_fails() {
    for retries in [1, 3, 10] {
        let mut grid = Grid::new(&[GOOD, BAD]);
        let job = grid.submit(1, 300, retries);
        grid.work_off(job, 20, &Outcome::Exited(127));
        assert_eq!(grid.finished(job), 300, "with {retries} retries");
    }
}

#[test]
fn a_bag_with_a_promise_is_not_eaten_either() {
    for policy in ["CALENDAR", "PROMISE:policing=off"] {
        let mut grid = Grid::new(&[GOOD, BAD]);
        let job = grid.promises(1, 300, 0, policy);
        let tried = grid.work_off(job, 20, &unstarted());
        assert_eq!(grid.finished(job), 300, "{policy}");
        assert!(tried <= 10, "{policy}: {tried} attempts");

        let mut grid = Grid::new(&[GOOD, BAD]);
        let job = grid.promises(1, 300, 1, policy);
        let tried = grid.work_off(job, 20, &Outcome::Exited(127));
        assert_eq!(grid.finished(job), 300, "{policy}");
        assert!(tried <= 10, "{policy}: {tried} attempts");
    }
}

#[test]
fn a_retry_waits_for_a_busy_host_rather_than_going_back_to_the_one_that_failed() {
    let mut grid = Grid::new(&[GOOD, BAD]);
    let job = grid.submit(1, 2, 1);
    grid.ends(BAD, Outcome::Exited(1), 10);
    assert_eq!(grid.on(BAD), None, "the other host is to try it");
    let words = grid.scheduler.explain(job).expect("it is there").hosts;
    let (_, why) = words
        .iter()
        .find(|(host, _)| *host == BAD)
        .expect("it is there");
    assert!(why.contains("failed here"), "{why}");
    grid.ends(GOOD, Outcome::Succeeded, 200);
    assert!(grid.on(GOOD).is_some());
}

#[test]
fn a_retry_uses_the_same_host_if_there_is_no_other() {
    let mut grid = Grid::new(&[BAD]);
    let job = grid.submit(1, 1, 1);
    grid.ends(BAD, Outcome::Exited(1), 10);
    grid.ends(BAD, Outcome::Succeeded, 10);
    assert_eq!(grid.state(job), JobState::Finished);
}

#[test]
fn an_unstartable_program_fails_its_job_despite_retries_left() {
    for hosts in [1, 2, 3, 7] {
        let ids: Vec<HostId> = (1..=hosts).map(HostId).collect();
        let mut grid = Grid::new(&ids);
        let job = grid.submit(1, 1, 10);
        let mut tried = 0;
        while let Some((host, ..)) = grid.live.first().cloned() {
            grid.ends(host, unstarted(), 10);
            tried += 1;
        }
        assert_eq!(grid.state(job), JobState::Failed, "on {hosts} hosts");
        assert_eq!(tried, hosts.min(3), "on {hosts} hosts");
    }
}

#[test]
fn an_unstartable_program_is_not_kept_waiting_for_hosts_that_are_not_there() {
    let mut grid = Grid::new(&[GOOD, BAD]);
    let away = HostId(3);
    grid.joins(away);
    let status = Status {
        owner: OwnerState::Present(YieldReason::InUse),
        ..status()
    };
    grid.send(events::heard(away, status, Vec::new()));

    let job = grid.submit(1, 1, 10);
    while let Some((host, ..)) = grid.live.first().cloned() {
        grid.ends(host, unstarted(), 10);
    }
    assert_eq!(grid.state(job), JobState::Failed);
}

#[test]
fn a_task_with_a_promise_that_waits_for_another_host_holds_up_no_other_task() {
    for policy in ["CALENDAR", "PROMISE:policing=off"] {
        let mut grid = Grid::new(&[GOOD, BAD]);
        let status = Status {
            owner: OwnerState::Present(YieldReason::InUse),
            ..status()
        };
        grid.send(events::heard(GOOD, status, Vec::new()));

        grid.promises(1, 3, 0, policy);
        let first = grid.on(BAD).expect("it runs").task;
        grid.ends(BAD, unstarted(), 10);
        let next = grid.on(BAD).map(|attempt| attempt.task);
        assert!(next.is_some_and(|next| next != first), "{policy}: {next:?}");
    }
}

#[test]
fn a_task_is_kept_from_a_host_only_for_a_while_though_others_go_on_failing() {
    let mut grid = Grid::new(&[GOOD, BAD]);
    grid.submit(1, 1, 0);
    let (busy, ..) = grid.live.first().cloned().expect("it runs");
    let fails = if busy == GOOD { BAD } else { GOOD };
    grid.submit(2, 200, 1_000);
    let first = grid.on(fails).expect("one of them runs").task;

    let mut tried = 0;
    for _ in 0..100 {
        let runs = grid.on(fails).expect("one of them runs");
        tried += u32::from(runs.task == first);
        grid.ends(fails, Outcome::Exited(1), 10_000);
        grid.send(Event::Tick);
    }
    assert_eq!(tried, 2, "at once, and after ten minutes");
}

#[test]
fn a_program_that_is_broken_everywhere_benches_no_host() {
    let mut grid = Grid::new(&[GOOD, BAD, HostId(3)]);
    for job in 1..=20 {
        let job = grid.submit(job, 30, 2);
        for _ in 0..1_000 {
            let Some((host, ..)) = grid.live.first().cloned() else {
                break;
            };
            grid.ends(host, Outcome::Exited(1), 10);
        }
        assert_eq!(grid.state(job), JobState::Failed);
    }

    for host in [GOOD, BAD, HostId(3)] {
        assert_eq!(grid.host_state(host), HostState::Ready);
    }
}

#[test]
fn tasks_that_fail_now_and_then_everywhere_bar_no_host() {
    let mut grid = Grid::new(&[GOOD, BAD]);
    let job = grid.submit(1, 2_000, 0);
    let mut seed = 7u64;

    while let Some((host, ..)) = grid.live.first().cloned() {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);

        let fails = (seed >> 33).is_multiple_of(5);
        grid.ends(
            host,
            if fails {
                Outcome::Exited(1)
            } else {
                Outcome::Succeeded
            },
            10,
        );
    }

    assert_eq!(grid.state(job), JobState::Failed);
    let on = |host| grid.started.iter().filter(|(on, _)| *on == host).count();
    assert!(
        on(GOOD) > 800 && on(BAD) > 800,
        "{} and {}",
        on(GOOD),
        on(BAD)
    );
}

/// A grid whose bad host was blamed by three jobs.
fn benched() -> Grid {
    let mut grid = Grid::new(&[GOOD, BAD]);
    for job in 1..=3 {
        assert_ne!(grid.host_state(BAD), HostState::Benched);
        let job = grid.submit(job, 50, 5);
        grid.work_off(job, 5, &Outcome::Exited(127));
    }
    assert_eq!(grid.host_state(BAD), HostState::Benched);
    grid
}

#[test]
fn after_several_jobs_a_host_gets_one_task_at_a_time_with_growing_pauses_until_one_succeeds() {
    let mut grid = benched();
    grid.submit(4, 50, 5);
    assert_eq!(grid.on(BAD), None, "it gets nothing");

    // It was benched while the third job was under way, some seconds ago.
    for (early, pause) in [(20, 60), (1, 120), (1, 240)] {
        grid.pass(1_000 * (pause - early));
        grid.send(Event::Tick);
        assert_eq!(grid.on(BAD), None, "before {pause} s are over");
        assert!(
            grid.scheduler
                .next_wakeup()
                .is_some_and(|at| at <= grid.now + Span::from_secs(early))
        );
        grid.pass(1_000 * early);
        grid.joins_again();

        grid.send(Event::Tick);
        assert!(grid.on(BAD).is_some(), "one task after {pause} s");
        if pause < 240 {
            grid.ends(BAD, Outcome::Exited(127), 0);
        }
    }

    grid.ends(BAD, Outcome::Succeeded, 10);
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn tasks_that_need_more_than_a_host_lends_bench_it_not_though_they_succeed_elsewhere() {
    let mut grid = Grid::new(&[GOOD, BAD]);
    for job in 1..=5 {
        let job = grid.submit(job, 50, 5);
        let over = Outcome::OverLimit("it held 9 GiB, and 4 GiB are lent".into());
        let tried = grid.work_off(job, 5, &over);
        assert!(tried >= 3, "{tried} attempts went there");
        assert_ne!(grid.host_state(BAD), HostState::Benched);
    }
}

#[test]
fn an_admin_lets_a_benched_host_go_on() {
    let mut grid = benched();
    grid.send(Event::HostUndrained { host: BAD });
    grid.submit(4, 50, 5);
    assert!(grid.on(BAD).is_some());
}

#[test]
fn a_full_disk_under_many_tasks_benches_its_host_once() {
    let mut grid = Grid::new(&[]);
    grid.submit(1, 20, 0);
    grid.joins_with(BAD, 8);
    while grid.on(BAD).is_some() {
        grid.ends(BAD, Outcome::NoRoom("its disk is full".into()), 1);
    }
    assert_eq!(grid.host_state(BAD), HostState::Benched);

    grid.pass(15_000);
    grid.send(Event::Tick);
    assert!(grid.on(BAD).is_some(), "{:?}", grid.host_state(BAD));
}

#[test]
fn a_host_without_room_gives_its_task_to_another_and_is_tried_again_later() {
    let mut grid = Grid::new(&[BAD]);
    let job = grid.submit(1, 1, 0);
    grid.ends(
        BAD,
        Outcome::NoRoom("its input cannot be placed".into()),
        10,
    );
    assert_eq!(
        (grid.state(job), grid.host_state(BAD)),
        (JobState::Running, HostState::Benched)
    );

    let reason = grid
        .scheduler
        .host(BAD)
        .expect("it is there")
        .reason
        .unwrap_or_default();
    assert!(reason.contains("no room"), "{reason}");
    grid.joins(GOOD);
    grid.ends(GOOD, Outcome::Succeeded, 10);
    assert_eq!(grid.state(job), JobState::Finished);
    grid.submit(2, 2, 0);

    assert_eq!(grid.on(BAD), None);
    grid.pass(15_000);
    grid.send(Event::Tick);
    assert!(grid.on(BAD).is_some());
}

#[test]
fn a_host_that_gives_everything_back_at_once_is_benched_with_growing_pauses() {
    let mut grid = Grid::new(&[]);
    grid.submit(1, 100, 0);
    grid.joins(BAD);
    for _ in 0..20 {
        grid.gives_back();
    }
    assert_eq!(grid.host_state(BAD), HostState::Benched);
    assert_eq!(
        grid.started.len(),
        3,
        "it does not get them again and again"
    );
    let reason = grid.scheduler.host(BAD).expect("it is there").reason;
    let reason = reason.unwrap_or_default();
    assert!(reason.contains("gives tasks back"), "{reason}");

    for pause in [15, 30, 60] {
        grid.pass(1_000 * pause - 1);
        grid.send(Event::Tick);
        assert_eq!(grid.on(BAD), None, "before {pause} s are over");
        grid.pass(1);
        grid.send(Event::Tick);
        assert!(grid.on(BAD).is_some(), "one task after {pause} s");
        if pause < 60 {
            grid.gives_back();
        }
    }

    grid.ends(BAD, Outcome::Succeeded, 10);
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn a_host_that_stops_what_it_was_not_told_to_stop_is_benched() {
    let mut grid = Grid::new(&[]);
    let job = grid.submit(1, 100, 0);
    grid.joins(BAD);
    for _ in 0..3 {
        assert_ne!(grid.host_state(BAD), HostState::Benched);
        grid.ends(BAD, Outcome::Stopped, 1);
    }
    assert_eq!(grid.host_state(BAD), HostState::Benched);
    assert_eq!(grid.state(job), JobState::Running);
}

#[test]
fn a_host_that_loses_what_it_got_each_time_that_it_connects_anew_is_benched() {
    let mut grid = Grid::new(&[]);
    let job = grid.submit(1, 100, 0);
    grid.joins(BAD);
    for _ in 0..3 {
        assert_ne!(grid.host_state(BAD), HostState::Benched);
        grid.connects_anew(Parting::Closed, 10_000);
    }
    assert_eq!(grid.host_state(BAD), HostState::Benched);
    assert_eq!(
        (grid.started.len(), grid.state(job)),
        (3, JobState::Running)
    );
    let reason = grid.scheduler.host(BAD).expect("it is there").reason;
    let reason = reason.unwrap_or_default();
    assert!(reason.contains("connects anew without"), "{reason}");

    // The probe after the pause fails as well, and the next pause is longer.
    grid.pass(15_000);
    grid.send(Event::Tick);
    assert!(grid.on(BAD).is_some());
    grid.connects_anew(Parting::Closed, 10_000);
    assert_eq!(grid.on(BAD), None);
}

#[test]
fn a_host_that_is_switched_off_and_on_is_not_benched() {
    for how in [Parting::Silent, Parting::Closed] {
        let mut grid = Grid::new(&[BAD]);
        grid.submit(1, 100, 0);
        for _ in 0..5 {
            assert!(grid.on(BAD).is_some(), "it gets more");
            grid.connects_anew(how, 0);
        }
        assert_ne!(grid.host_state(BAD), HostState::Benched, "{how:?}");
    }
}

#[test]
fn a_host_whose_worker_dies_each_time_soon_after_it_got_a_task_is_benched_until_one_succeeds() {
    let mut grid = Grid::new(&[BAD]);
    let job = grid.submit(1, 100, 0);
    for _ in 0..5 {
        grid.pass(61_000);
        grid.connects_anew(Parting::Reset, 0);
    }
    assert_ne!(grid.host_state(BAD), HostState::Benched, "it had them long");

    let before = grid.started.len();
    for _ in 0..3 {
        assert_ne!(grid.host_state(BAD), HostState::Benched);
        grid.connects_anew(Parting::Reset, 0);
    }
    assert_eq!(grid.host_state(BAD), HostState::Benched);
    assert_eq!((grid.started.len(), grid.on(BAD)), (before + 2, None));
    assert_eq!(grid.state(job), JobState::Running);
    let reason = grid.scheduler.host(BAD).expect("it is there").reason;
    let reason = reason.unwrap_or_default();
    assert!(reason.contains("process dies soon after"), "{reason}");

    grid.pass(15_000);
    grid.send(Event::Tick);
    grid.ends(BAD, Outcome::Succeeded, 1_000);
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn a_host_is_benched_with_each_way_in_which_it_gave_tasks_back() {
    let mut grid = Grid::new(&[BAD]);
    grid.submit(1, 100, 0);
    grid.gives_back();
    grid.gives_back();
    grid.connects_anew(Parting::Reset, 0);
    assert_eq!(grid.host_state(BAD), HostState::Benched);
    let reason = grid.scheduler.host(BAD).expect("it is there").reason;
    let reason = reason.unwrap_or_default();
    let ways = ["gives tasks back", "process dies soon after"];
    assert!(ways.iter().all(|way| reason.contains(way)), "{reason}");
}

#[test]
fn a_sound_host_whose_assignments_cross_breaks_on_their_way_is_benched_for_a_moment_at_most() {
    let mut grid = Grid::new(&[BAD]);
    grid.submit(1, 100, 0);
    for _ in 0..5 {
        grid.connects_anew(Parting::Reset, 10_000);
        grid.ends(BAD, Outcome::Succeeded, 1_000);
    }
    assert_ne!(grid.host_state(BAD), HostState::Benched);

    // No task ends between these.
    for _ in 0..3 {
        assert_ne!(grid.host_state(BAD), HostState::Benched);
        grid.connects_anew(Parting::Reset, 10_000);
    }
    assert_eq!(grid.host_state(BAD), HostState::Benched);
    grid.pass(15_000);
    grid.send(Event::Tick);
    grid.ends(BAD, Outcome::Succeeded, 1_000);
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn a_host_that_loses_what_it_has_had_for_long_is_not_benched() {
    let mut grid = Grid::new(&[BAD]);
    grid.submit(1, 100, 0);
    for _ in 0..5 {
        assert!(grid.on(BAD).is_some(), "it gets more");
        grid.pass(61_000);
        grid.connects_anew(Parting::Silent, 10_000);
    }
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn a_host_that_ends_tasks_at_limits_that_they_cannot_have_reached_is_benched() {
    for timeout in [None, Some(Span::from_secs(60))] {
        let mut grid = Grid::new(&[]);
        let rules = Rules {
            timeout,
            retries: 100,
            ..Rules::default()
        };
        let bag = Bag::new(IdSet::from_range(1, 100), rules);
        grid.submit_bag(1, bag);
        grid.joins(BAD);
        for _ in 0..3 {
            assert_ne!(grid.host_state(BAD), HostState::Benched);
            grid.ends(BAD, Outcome::TimedOut(Span::from_secs(60)), 1);
        }
        assert_eq!(grid.host_state(BAD), HostState::Benched, "{timeout:?}");
        let reason = grid.scheduler.host(BAD).expect("it is there").reason;
        let reason = reason.unwrap_or_default();
        assert!(reason.contains("limits"), "{reason}");
    }
}

#[test]
fn tasks_that_reach_their_limits_bench_nobody() {
    let mut grid = Grid::new(&[]);
    let limit = Span::from_secs(60);
    let rules = Rules {
        timeout: Some(limit),
        retries: 100,
        ..Rules::default()
    };
    grid.submit_bag(1, Bag::new(IdSet::from_range(1, 100), rules));
    grid.joins(BAD);
    for _ in 0..5 {
        grid.ends(BAD, Outcome::TimedOut(limit), 60_000);
    }
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn returns_for_the_owner_or_after_a_while_bench_nobody() {
    let mut grid = Grid::new(&[BAD]);
    grid.submit(1, 100, 0);
    for _ in 0..5 {
        let attempt = grid.on(BAD).expect("it gets more");
        for (owner, attempts) in [
            (OwnerState::Present(YieldReason::InUse), vec![attempt]),
            (OwnerState::Away, Vec::new()),
        ] {
            grid.send(Event::OwnerChanged { host: BAD, owner });
            grid.send(events::returned(BAD, attempts));
        }
    }
    for _ in 0..5 {
        grid.pass(61_000);
        grid.gives_back();
    }
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn returns_for_an_owner_who_leaves_some_slots_to_tasks_bench_nobody() {
    let mut grid = Grid::new(&[]);
    grid.submit(1, 100, 0);
    grid.joins_with(BAD, 4);
    for _ in 0..5 {
        let owner = OwnerState::Sharing(YieldReason::InUse, 1);
        let attempts: Vec<AttemptId> = grid.all_on(BAD).into_iter().skip(1).collect();
        assert_eq!(attempts.len(), 3, "it gets more");
        grid.send(Event::OwnerChanged { host: BAD, owner });
        grid.send(events::returned(BAD, attempts));
        let owner = OwnerState::Away;
        grid.send(Event::OwnerChanged { host: BAD, owner });
    }
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn returns_of_a_worker_that_shuts_down_bench_nobody() {
    let mut grid = Grid::new(&[]);
    grid.submit(1, 100, 0);
    for _ in 0..5 {
        grid.joins(BAD);
        assert!(grid.on(BAD).is_some(), "it gets more");
        grid.send(Event::HostClosing { host: BAD });
        grid.gives_back();
    }
    grid.joins(BAD);
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn returns_of_a_drained_host_bench_nobody() {
    for is_drained in [false, true] {
        let mut grid = Grid::new(&[]);
        grid.submit(1, 100, 0);
        grid.joins_with(BAD, 5);
        let attempts = grid.all_on(BAD);
        assert_eq!(attempts.len(), 5);
        if is_drained {
            grid.send(Event::HostDrained { host: BAD });
        }
        for attempt in attempts {
            grid.send(events::returned(BAD, vec![attempt]));
        }

        // A drained host is shown as such, and who lets it go on pardons it: only the pause would tell.
        let soon = grid.now + Span::from_secs(60);
        let has_pause = grid.scheduler.next_wakeup().is_some_and(|at| at <= soon);
        assert_eq!(has_pause, !is_drained);
    }
}

#[test]
fn returns_of_what_was_told_to_stop_bench_nobody() {
    let mut grid = Grid::with(&[BAD], true);
    for job in 1..=5 {
        let job = grid.submit(job, 1, 0);
        let attempt = grid.on(BAD).expect("it gets more");
        grid.send(Event::JobCancelled { job, tasks: None });
        grid.send(events::returned(BAD, vec![attempt]));
    }
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn returns_of_what_made_room_bench_nobody() {
    let mut world = World::with(settings());
    let job = world.job(10).policy("FCFSxFCFS").disclosed().submit();
    let host = world.host(2).slots(5).holds_frozen(5).joins();
    world.moves(host, Phase::Running);
    world.pass(Span::from_secs(20));
    let first = world.books(host);
    request(&mut world, job, 6..=10);
    assert_eq!(world.books(host).len(), 10, "all stay");

    for attempt in first {
        world.send(events::returned(host, vec![attempt]));
    }
    assert_eq!(world.books(host).len(), 5);
    assert_ne!(world.host_state(host), HostState::Benched);
}

#[test]
fn only_returns_within_an_hour_bench_a_host() {
    let mut grid = Grid::new(&[BAD]);
    grid.submit(1, 100, 0);
    for _ in 0..6 {
        grid.gives_back();
        assert!(grid.on(BAD).is_some(), "{:?}", grid.host_state(BAD));
        // What it has had for so long does not count.
        grid.pass(40 * 60_000);
        grid.gives_back();
    }
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

#[test]
fn a_pause_of_the_master_does_not_make_old_attempts_new() {
    let mut grid = Grid::new(&[BAD]);
    grid.submit(1, 100, 0);
    let span = Span::from_secs(600);
    for _ in 0..5 {
        grid.pass(600_000);
        grid.send(Event::MasterPaused { span });
        grid.gives_back();
    }
    assert_ne!(grid.host_state(BAD), HostState::Benched);
}

impl Grid {
    /// The bad host gives back what it has.
    fn gives_back(&mut self) {
        let attempts = self.on(BAD).into_iter().collect();
        self.send(events::returned(BAD, attempts));
    }

    /// The bad host's connection ends like this, and a second later it is back with nothing; it has been up for so
    /// many seconds.
    fn connects_anew(&mut self, how: Parting, up_s: u64) {
        self.send(Event::HostDisconnected { host: BAD, how });
        self.pass(1_000);
        self.send(Event::HostJoined {
            host: BAD,
            slots: 1,
            speed: Speed::REFERENCE,
            status: Status {
                up_for: Span::from_secs(up_s),
                ..status()
            },
            held: Vec::new(),
        });
    }

    /// Both hosts are heard of, so that neither is lost while time passes.
    fn joins_again(&mut self) {
        for host in [GOOD, BAD] {
            let held: Vec<_> = self
                .live
                .iter()
                .filter(|(on, ..)| *on == host)
                .map(|(_, a, _)| held(*a))
                .collect();
            self.send(events::heard(host, status(), held));
        }
    }
}

fn held(attempt: AttemptId) -> common::attempt::HeldAttempt {
    let phase = common::attempt::Phase::Running;
    common::attempt::HeldAttempt {
        attempt,
        phase,
        ran: Span::ZERO,
        frozen_for: Span::ZERO,
        progress: None,
    }
}
