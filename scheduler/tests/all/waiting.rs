//! Tasks that wait, for the network or in a sleep, beside tasks that compute: what busy processors
//! and slow ones mean for their predicted ends.

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::{OwnerState, Status};
use common::{HostId, JobId, Span};
use scheduler::{Event, Settings};

use crate::world::{JobDraft, World, s};

const HOSTS: u32 = 4;

/// A kind of tasks, and the hosts that run them.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// The part of a task's time on a host of speed 1 in which it computes.
    computing: f64,
    /// The speed of each host, and the part of its processors that is left for tasks: in the first
    /// round of tasks, and later.
    speed: f64,
    share: f32,
    later: f32,
    estimate: bool,
    /// Whether the workers say how much processor time their tasks took.
    told: bool,
}

const ALONE_S: f64 = 100.0;

impl Case {
    /// The processor time of a task, and its run time where this part of the processor is left.
    fn times_s(self, share: f32) -> (f64, f64) {
        let cpu_s = self.computing * ALONE_S / self.speed;
        let waits_s = (1.0 - self.computing) * ALONE_S;
        (cpu_s, waits_s + cpu_s / f64::from(share))
    }

    /// Runs the first round of a job of sixteen tasks on the four hosts, then asks when the rest
    /// will be done. Returns the predicted time over the true one.
    fn predicted(self) -> f64 {
        let mut w = World::new();
        for host in 1..=HOSTS {
            w.host(host).speed(self.speed).joins();
        }
        (1..=HOSTS).for_each(|host| self.beats(&mut w, HostId(host), self.share));
        let job = w.job(4 * HOSTS);
        let job = match self.estimate {
            true => job.estimate(Span::from_secs_f64(ALONE_S)).submit(),
            false => job.submit(),
        };

        let (cpu_s, ran_s) = self.times_s(self.share);
        (1..=HOSTS).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
        self.runs(&mut w, ran_s);
        for host in (1..=HOSTS).map(HostId) {
            self.ends(&mut w, host, cpu_s, ran_s);
        }
        self.settles(&mut w);
        (1..=HOSTS).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));

        let end = w.scheduler.predict_finish(job, w.now).expect("known now");
        assert_eq!(unfinished(&w, job), 3 * u64::from(HOSTS));
        end.since(w.now).secs() / (3.0 * self.times_s(self.later).1)
    }

    /// Lets the time of a run pass, with a heartbeat of each host ten times.
    fn runs(self, w: &mut World, ran_s: f64) {
        for _ in 0..10 {
            w.pass(Span::from_secs_f64(ran_s / 10.0));
            (1..=HOSTS).for_each(|host| self.beats(w, HostId(host), self.share));
        }
    }

    /// Lets the later share become usual, while the next tasks fetch their inputs.
    fn settles(self, w: &mut World) {
        (1..=HOSTS).for_each(|host| drop(w.moves(HostId(host), Phase::Staging)));
        for _ in 0..120 {
            (1..=HOSTS).for_each(|host| self.beats(w, HostId(host), self.later));
            w.pass(s(60));
        }
    }

    fn beats(self, w: &mut World, host: HostId, share: f32) {
        let held: Vec<HeldAttempt> = w.held(host);
        let status = Status {
            cpu: share,
            ..Status::from(OwnerState::Away)
        };
        w.send(Event::HostHeard { host, status, held });
    }

    fn ends(self, w: &mut World, host: HostId, cpu_s: f64, ran_s: f64) {
        let attempt = w.attempt_on(host);
        if self.told {
            let cpu = Span::from_secs_f64(cpu_s);
            let nothing = w.send(Event::AttemptUsed { host, attempt, cpu });
            assert_eq!(nothing, [], "its end alone has consequences");
        }
        w.ends(
            host,
            attempt,
            Outcome::Succeeded,
            Span::from_secs_f64(ran_s),
        );
    }
}

fn unfinished(w: &World, job: JobId) -> u64 {
    let counts = w.scheduler.job_counts(job).expect("the job is there");
    counts.total - counts.finished
}

#[test]
fn the_end_of_tasks_that_wait_is_predicted_on_busy_and_slow_hosts() {
    let shares = [0.06, 0.4, 1.0];
    for computing in [0.0, 0.01, 0.3, 0.7, 1.0] {
        for (share, later) in shares.iter().flat_map(|s| shares.map(|later| (*s, later))) {
            for (speed, estimate) in [(0.5, false), (1.0, true), (2.0, false), (2.0, true)] {
                let case = Case {
                    computing,
                    speed,
                    share,
                    later,
                    estimate,
                    told: true,
                };
                let ratio = case.predicted();
                assert!(
                    (0.7..1.15).contains(&ratio),
                    "{ratio:.2} times the true time: {case:?}"
                );
            }
        }
    }
}

#[test]
fn a_task_of_which_no_processor_time_is_known_counts_as_computing() {
    let computing = Case {
        computing: 1.0,
        speed: 1.0,
        share: 1.0,
        later: 0.06,
        estimate: false,
        told: false,
    };
    let right = computing.predicted();
    assert!(
        (0.7..1.15).contains(&right),
        "{right:.2} times the true time"
    );

    let waiting = Case {
        computing: 0.0,
        ..computing
    };
    let late = waiting.predicted();
    assert!(
        late > 10.0,
        "{late:.2} times the true time, as if it computed"
    );
}

#[test]
fn the_processor_time_of_an_attempt_that_is_not_there_changes_nothing() {
    let mut w = World::new();
    w.host(1).joins();
    w.job(1).submit();
    let attempt = w.attempt_on(HostId(1));
    let cpu = s(1);

    for host in [HostId(2), HostId(1)] {
        let effects = w.send(Event::AttemptUsed { host, attempt, cpu });
        assert_eq!(effects, []);
    }
    w.succeeds(HostId(1), attempt);
    let host = HostId(1);
    assert_eq!(w.send(Event::AttemptUsed { host, attempt, cpu }), []);
}

/// A host of speed 2 on which 30 tasks were seen that waited for four seconds each, with this policy.
fn taught_to_wait(w: &mut World, policy: &str) -> HostId {
    let host = w.host(1).speed(2.0).joins();
    w.job(30)
        .policy(policy)
        .estimate(s(4))
        .user("anna")
        .submit();
    for _ in 0..30 {
        waits(w, host);
    }
    host
}

/// Has the host's attempt run for four seconds.
fn waits(w: &mut World, host: HostId) {
    w.pass(s(4));
    has_waited(w, host);
}

/// Ends the host's attempt, which has run for four seconds and computed nothing.
fn has_waited(w: &mut World, host: HostId) {
    let attempt = w.attempt_on(host);
    let cpu = Span::ZERO;
    w.send(Event::AttemptUsed { host, attempt, cpu });
    w.ends(host, attempt, Outcome::Succeeded, s(4));
}

const PROMISE: &str = "PROMISE:inflated=no";

/// Ten more tasks of that program with a deadline.
fn ten(w: &mut World, estimated: bool) -> JobDraft<'_> {
    let draft = w.job(10).policy(PROMISE).user("anna").deadline(60);
    if estimated {
        draft.estimates(&[4; 10])
    } else {
        draft
    }
}

#[test]
fn a_promise_to_tasks_that_wait_is_as_long_on_fast_hosts() {
    for estimated in [true, false] {
        let mut w = World::new();
        let host = taught_to_wait(&mut w, PROMISE);
        let bag = ten(&mut w, estimated).bag();
        let found_s = w.offer(&bag).finish.since(w.now).secs();
        assert!(
            (38.0..=44.0).contains(&found_s),
            "{found_s} s for ten times 4 s"
        );

        let job = ten(&mut w, estimated).submit();
        for left in (1..=10).rev() {
            w.moves(host, Phase::Running);
            w.pass(Span::from_millis(3_900));
            let keeping = w.scheduler.keeping(job, w.now).expect("it was promised");
            let expected_s = keeping.expected.expect("it is known").since(w.now).secs();
            let left_s = 4.0 * f64::from(left) - 3.9;
            assert!(
                (expected_s - left_s).abs() < 4.5,
                "{expected_s} s for {left_s} s"
            );
            assert_eq!(keeping.overdue, 0, "none is beyond its estimate");
            has_waited(&mut w, host);
        }
    }
}

#[test]
fn the_end_of_a_new_job_is_predicted_by_how_much_its_program_computed_before() {
    let mut w = World::new();
    taught_to_wait(&mut w, "FCFS");
    let job = w
        .job(10)
        .policy("FCFS")
        .estimate(s(4))
        .user("anna")
        .submit();
    let end = w.scheduler.predict_finish(job, w.now).expect("known");
    let found_s = end.since(w.now).secs();
    assert!(
        (36.0..46.0).contains(&found_s),
        "{found_s} s for ten times 4 s"
    );
}

#[test]
fn short_tasks_that_wait_at_their_hosts_are_predicted_to_follow_each_other_at_once() {
    let mut world = World::with(Settings {
        start_cost: s(1),
        ..Settings::default()
    });
    let hosts: Vec<HostId> = (1..=2).map(|host| world.host(host).joins()).collect();
    let job = world.job(2_000).submit();
    for _ in 0..100 {
        world.now = world.now + Span::from_millis(10);
        for host in &hosts {
            let attempt = world.books(*host)[0];
            world.ends(*host, attempt, Outcome::Succeeded, Span::from_millis(2));
        }
    }

    let left = world.scheduler.predict_finish(job, world.now).unwrap();
    let left_s = left.since(world.now).secs();
    assert!((7.0..14.0).contains(&left_s), "900 times 10 ms: {left_s} s");
}
