//! Predictions of jobs behind other jobs: of the same user and of others, of other lengths and
//! needs. The grid is exact, so that each prediction can be compared with what comes.

use std::collections::BTreeMap;

use common::attempt::{Outcome, Phase};
use common::host::{OwnerState, YieldReason};
use common::job::{Quorum, Rules};
use common::needs::{Capacity, Demand, Needs, Offers};
use common::{
    After, AttemptId, EndCondition, HostId, IdSet, Incarnation, JobId, Span, Speed, Time,
};
use scheduler::event::Bag;

use scheduler::{Effect, Event, Scheduler, Settings, Sharing};

use crate::events;
use crate::world::{World, s, steady_report};

const BEAT_S: u64 = 5;

/// A job whose tasks all take the same time.
#[derive(Clone)]
struct Kind {
    user: &'static str,
    tasks: u32,
    /// The time of a task on a host of speed 1, and the part of it in which it computes.
    length_s: f64,
    computing: f64,
    estimated: bool,
    /// The number of results of a task that must agree.
    results: u32,
}

impl Kind {
    fn of(user: &'static str, tasks: u32, length_s: f64) -> Self {
        Self {
            user,
            tasks,
            length_s,
            computing: 1.0,
            estimated: true,
            results: 1,
        }
    }

    fn waiting(self) -> Self {
        Self {
            computing: 0.0,
            ..self
        }
    }

    fn unknown(self) -> Self {
        Self {
            estimated: false,
            ..self
        }
    }

    fn runs_s(&self, speed: f64) -> f64 {
        self.length_s * (1.0 - self.computing + self.computing / speed)
    }
}

/// A prediction of a job at a time: the median of its start and of its end.
#[derive(Debug)]
struct Foretold {
    at: Time,
    job: JobId,
    start: Option<Time>,
    finish: Option<Time>,
}

/// Hosts that are always there, and jobs that were all submitted at once.
struct Lab {
    scheduler: Scheduler,
    begun: Time,
    now: Time,
    speed: f64,
    hosts: u32,
    kinds: BTreeMap<JobId, Kind>,
    running: BTreeMap<AttemptId, (HostId, Time)>,
    first: BTreeMap<JobId, Time>,
    last: BTreeMap<JobId, Time>,
    foretold: Vec<Foretold>,
}

impl Lab {
    fn new(hosts: u32, speed: f64, kinds: &[Kind]) -> Self {
        Self::with(Settings::default(), hosts, speed, kinds)
    }

    fn with(settings: Settings, hosts: u32, speed: f64, kinds: &[Kind]) -> Self {
        let begun = Time(1_000_000);
        let mut lab = Self {
            scheduler: Scheduler::new(settings, Incarnation(1)),
            begun,
            now: begun,
            speed,
            hosts,
            kinds: BTreeMap::new(),
            running: BTreeMap::new(),
            first: BTreeMap::new(),
            last: BTreeMap::new(),
            foretold: Vec::new(),
        };
        for host in (1..=hosts).map(HostId) {
            lab.send(Event::HostJoined {
                host,
                slots: 1,
                speed: Speed::new(speed).expect("a speed"),
                status: OwnerState::Away.into(),
                held: Vec::new(),
            });
        }
        for kind in kinds {
            let job = JobId(1 + lab.kinds.len() as u32);
            let estimate = Span::from_secs_f64(kind.length_s);
            let rules = Rules {
                estimate: kind.estimated.then_some(estimate),
                quorum: Quorum {
                    size: kind.results,
                    ..Quorum::default()
                },
                ..Rules::default()
            };
            let mut bag = Bag::new(IdSet::from_range(1, kind.tasks), rules);
            bag.terms.estimator.user = kind.user.to_owned();
            bag.terms.estimator.program = format!("program-{}", job.0);
            lab.kinds.insert(job, kind.clone());
            lab.send(events::submitted(job, bag));
        }
        lab
    }

    fn send(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Start { host, attempt, .. } => {
                    self.running.insert(attempt, (host, self.now));
                    self.first.entry(attempt.task.job).or_insert(self.now);
                }
                Effect::Stop { attempt, .. } => {
                    self.running.remove(&attempt);
                }
                _ => {}
            }
        }
    }

    /// Lets all jobs end, and predicts each of those left after each step.
    fn run(mut self, step: Span) -> Self {
        let mut beat = self.now + s(BEAT_S);
        let mut look = self.now + Span(1);
        while !self.running.is_empty() {
            let ends = self.running.iter().map(|(attempt, (host, since))| {
                let runs_s = self.kinds[&attempt.task.job].runs_s(self.speed);
                (*since + Span::from_secs_f64(runs_s), *attempt, *host)
            });
            let (end, attempt, host) = ends.min().expect("some run");
            let tick = self.scheduler.next_wakeup().unwrap_or(Time(u64::MAX));
            self.now = self.now.max(end.min(beat).min(tick).min(look));
            if tick <= self.now {
                self.send(Event::Tick);
            } else if beat <= self.now {
                (1..=self.hosts)
                    .map(HostId)
                    .for_each(|host| self.beats(host));
                beat = beat + s(BEAT_S);
            } else if look <= self.now {
                self.foretell();
                look = look + step;
            } else {
                self.ends(attempt, host);
            }
        }
        self
    }

    fn ends(&mut self, attempt: AttemptId, host: HostId) {
        let (_, since) = self.running.remove(&attempt).expect("it runs");
        let kind = &self.kinds[&attempt.task.job];
        let cpu = Span::from_secs_f64(kind.length_s * kind.computing / self.speed);
        self.last.insert(attempt.task.job, self.now);
        self.send(Event::AttemptUsed { host, attempt, cpu });
        self.send(events::succeeded(host, attempt, self.now.since(since)));
    }

    fn beats(&mut self, host: HostId) {
        self.send(steady_report(host, &self.running, self.now));
    }

    fn foretell(&mut self) {
        let jobs: Vec<JobId> = self.kinds.keys().copied().collect();
        let starts = self.scheduler.predict_starts(&jobs, self.now);
        self.foretold.extend(jobs.iter().map(|job| Foretold {
            at: self.now,
            job: *job,
            start: starts.get(job).map(|found| found.start),
            finish: self.scheduler.predict_finish(*job, self.now),
        }));
    }

    /// Checks these predictions of jobs that had at least `least_s` left: ends may be off by this factor.
    fn assert_near<'a>(&self, told: impl Iterator<Item = &'a Foretold>, least_s: f64, near: f64) {
        let off = |at: Time, told: Option<Time>, is: Time| {
            let left_s = is.since(at).secs();
            if left_s < least_s {
                return 1.0;
            }
            let told = told.expect("it is predicted");
            let told_s = told.since(at).secs();
            (told_s / left_s).max(left_s / told_s)
        };
        for told in told {
            let start = off(told.at, told.start, self.first[&told.job]);
            let finish = off(told.at, told.finish, self.last[&told.job]);
            assert!(
                start < NEAR_START && finish < near,
                "{start} {finish} {told:?}"
            );
        }
    }
}

/// The factor by which predictions of ends and of starts may be off. They add what owners usually take,
/// and the first of several slots is free somewhat before each of them should be.
const NEAR: f64 = 1.25;
const NEAR_START: f64 = 1.6;

#[test]
fn a_job_behind_another_is_predicted_by_the_others_tasks_whether_they_compute_or_wait() {
    let computing = Kind::of("ann", 15, 400.0);
    for front in [computing.clone(), computing.waiting().unknown()] {
        let lab = Lab::new(3, 2.0, &[front, Kind::of("ann", 30, 100.0)]).run(s(101));
        // Nothing is known of the tasks in front while the first of them run.
        let told = lab
            .foretold
            .iter()
            .filter(|told| told.at > lab.begun + s(450));
        lab.assert_near(told, 60.0, NEAR);
    }
}

#[test]
fn a_job_behind_a_few_long_tasks_is_predicted_for_the_slots_that_they_leave() {
    let kinds = [Kind::of("ann", 4, 4_000.0), Kind::of("ann", 30, 100.0)];
    let lab = Lab::new(3, 1.0, &kinds).run(s(301));
    lab.assert_near(lab.foretold.iter(), 60.0, NEAR);
}

#[test]
fn jobs_of_users_who_share_are_predicted_by_what_falls_to_each() {
    let sharing = Sharing {
        weights: [("eve".to_owned(), 3.0)].into(),
        ..Sharing::default()
    };
    let settings = Settings {
        sharing: Some(sharing),
        ..Settings::default()
    };
    for third in ["ann", "bob", "eve"] {
        let kinds = [
            Kind::of("ann", 40, 500.0),
            Kind::of("bob", 20, 500.0),
            Kind::of(third, 40, 200.0),
        ];
        let lab = Lab::with(settings.clone(), 8, 1.0, &kinds).run(s(301));
        // Whose task gets the last slots is drawn too roughly for the last round.
        lab.assert_near(lab.foretold.iter(), 600.0, 1.35);
    }
}

#[test]
fn a_job_is_not_predicted_to_wait_for_tasks_that_none_of_its_hosts_suits() {
    let mut w = World::new();
    for host in 1..=3 {
        w.host(host).joins();
    }
    let gpu = Needs {
        takes: Demand {
            gpus: 1,
            ..Demand::PLAIN
        },
        ..Needs::default()
    };
    offers_no_gpu(&mut w, 3);
    w.job(3).estimate(s(100)).submit();
    w.job(1_000).estimate(s(1_000)).needs(gpu).submit();
    let job = w.job(3).estimate(s(100)).submit();

    let left_s = |at: Option<Time>| at.expect("hosts work").since(w.now).secs();
    let start = w
        .scheduler
        .predict_start(job, w.now)
        .map(|found| found.start);
    assert!(left_s(start) < 150.0, "it starts in {} s", left_s(start));
    let finish = w.scheduler.predict_finish(job, w.now);
    assert!(left_s(finish) < 250.0, "it ends in {} s", left_s(finish));
}

/// Has these hosts say that they have no graphics processors.
fn offers_no_gpu(w: &mut World, hosts: u32) {
    for host in (1..=hosts).map(HostId) {
        let offers = Offers {
            capacity: Capacity {
                cores: 1,
                memory_mib: 1_024,
                gpus: 0,
            },
            ..Offers::default()
        };
        w.send(events::offered(host, offers));
    }
}

#[test]
fn a_job_behind_tasks_of_unknown_length_ends_after_it_starts() {
    let mut w = World::new();
    let host = w.host(1).joins();
    w.job(5).submit();
    w.moves(host, Phase::Running);
    let job = w.job(2).estimate(s(10)).submit();

    let start = w.scheduler.predict_start(job, w.now).expect("it waits");
    let found = w
        .scheduler
        .predict(job, w.now)
        .expect("its own work is known");
    assert!(start.start < found.finish, "{start:?} {found:?}");
    assert!(
        found.low < start.start && start.start < found.high,
        "{start:?} {found:?}"
    );
}

#[test]
fn a_job_without_estimate_is_predicted_by_earlier_jobs_of_its_program() {
    let mut w = World::new();
    w.host(1).joins();
    w.job(20).submit();
    for _ in 0..20 {
        w.moves(HostId(1), Phase::Running);
        w.pass(s(100));
        let attempt = w.attempt_on(HostId(1));
        w.ends(HostId(1), attempt, Outcome::Succeeded, s(100));
    }

    let job = w.job(10).submit();
    let found = w
        .scheduler
        .predict(job, w.now)
        .expect("its program is known");
    let left_s = found.finish.since(w.now).secs();
    assert!((900.0..1_400.0).contains(&left_s), "{left_s}");
    let high_s = found.high.since(w.now).secs();
    assert!(high_s > 1.5 * left_s, "{left_s} {high_s}");
}

/// The seconds from now of a predicted time.
fn left_s(w: &World, at: Option<Time>) -> f64 {
    at.expect("it is predicted").since(w.now).secs()
}

#[test]
fn a_job_after_another_is_predicted_on_the_slots_that_the_other_has_left() {
    let mut w = World::new();
    let host = w.host(1).joins();
    let first = w.job(1).estimate(s(36_000)).submit();
    w.moves(host, Phase::Running);
    let chain = (0..3).fold(vec![first], |mut chain, _| {
        let after = After {
            job: *chain.last().expect("one"),
            how: EndCondition::Ok,
        };
        chain.push(w.job(1).estimate(s(60)).after(after).submit());
        chain
    });

    let first_s = left_s(&w, w.scheduler.predict_finish(first, w.now));
    let last_s = left_s(&w, w.scheduler.predict_finish(chain[3], w.now));
    assert!(
        (first_s + 180.0..first_s + 260.0).contains(&last_s),
        "three of a minute after {first_s} s: {last_s} s"
    );
}

#[test]
fn a_job_of_a_user_who_may_run_no_more_is_predicted_after_the_users_running_tasks() {
    let sharing = Sharing {
        most_running_each: Some(2),
        ..Sharing::default()
    };
    let mut w = World::with(Settings {
        sharing: Some(sharing),
        ..Settings::default()
    });
    for host in 1..=20 {
        w.host(host).joins();
    }
    w.job(2).user("ada").estimate(s(10_000)).submit();
    let job = w.job(4).user("ada").estimate(s(100)).submit();
    let other = w.job(4).user("ben").estimate(s(100)).submit();

    let start = w.scheduler.predict_start(job, w.now);
    let start_s = left_s(&w, start.map(|found| found.start));
    let finish_s = left_s(&w, w.scheduler.predict_finish(job, w.now));
    assert!((9_900.0..12_000.0).contains(&start_s), "{start_s}");
    assert!(
        (start_s + 150.0..start_s + 500.0).contains(&finish_s),
        "{start_s} {finish_s}"
    );
    let other_s = left_s(&w, w.scheduler.predict_finish(other, w.now));
    assert!(
        (190.0..260.0).contains(&other_s),
        "two at a time: {other_s}"
    );
}

#[test]
fn suspended_tasks_are_not_waited_for_where_a_user_may_run_only_so_many() {
    let sharing = Sharing {
        most_running_each: Some(1),
        ..Sharing::default()
    };
    let mut w = World::with(Settings {
        sharing: Some(sharing),
        lease: s(1_000_000),
        suspect_after: s(1_000_000),
        ..Settings::default()
    });
    let kept = w.host(1).joins();
    let draft = w.job(1).policy("FCFS").user("ada").estimate(s(100));
    draft.submit();
    w.moves(kept, Phase::Running);
    w.owner_comes(kept);
    w.pass(s(10_000));

    let other = w.host(2).joins();
    let draft = w.job(1).policy("FCFS").user("ben").estimate(s(100));
    draft.submit();
    w.moves(other, Phase::Running);
    let draft = w.job(1).policy("FCFS").user("ada").estimate(s(50));
    let job = draft.submit();
    let start = w.scheduler.predict_start(job, w.now);
    let start_s = left_s(&w, start.map(|found| found.start));
    assert!((50.0..500.0).contains(&start_s), "{start_s}");
}

#[test]
fn an_end_counts_on_hosts_whose_owners_will_leave() {
    let mut w = World::new();
    w.host(1).joins();
    for host in 2..=100 {
        w.host(host)
            .owner(OwnerState::Present(YieldReason::InUse))
            .joins();
    }
    w.job(1).estimate(s(36_000)).submit();
    w.pass(s(60));
    let job = w.job(1).estimate(s(60)).submit();

    let start = w.scheduler.predict_start(job, w.now);
    let start_s = left_s(&w, start.map(|found| found.start));
    let finish_s = left_s(&w, w.scheduler.predict_finish(job, w.now));
    assert!(
        start_s < 18_000.0 && finish_s < 18_000.0,
        "{start_s} {finish_s}"
    );
}

#[test]
fn results_that_must_agree_are_predicted_and_waited_for() {
    let checked = Kind {
        results: 3,
        ..Kind::of("ann", 100, 60.0)
    };
    let mut lab = Lab::new(10, 1.0, &[checked, Kind::of("ann", 10, 60.0)]);
    lab.foretell();
    for told in &lab.foretold {
        let left_s = told.finish.expect("it is predicted").since(told.at).secs();
        assert!(
            (1_700.0..2_400.0).contains(&left_s),
            "300 results of a minute: {told:?}"
        );
    }
}

#[test]
fn tasks_that_nobody_requested_are_not_waited_for() {
    let mut w = World::new();
    for host in 1..=10 {
        w.host(host).joins();
    }
    let job = w
        .job(1_000)
        .policy("INTERACTIVE-FCFS")
        .estimate(s(600))
        .disclosed()
        .submit();
    w.send(Event::TasksRequested {
        job,
        tasks: Some(IdSet::from_range(1, 20)),
    });
    let behind = w.job(10).estimate(s(600)).submit();

    let asked_s = left_s(&w, w.scheduler.predict_finish(job, w.now));
    assert!(
        (1_100.0..1_700.0).contains(&asked_s),
        "20 of 600 s: {asked_s}"
    );
    let behind_s = left_s(&w, w.scheduler.predict_finish(behind, w.now));
    assert!((1_700.0..2_400.0).contains(&behind_s), "{behind_s}");
}
