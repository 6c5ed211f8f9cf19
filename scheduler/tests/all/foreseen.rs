//! The knowledge of tasks on which predictions and the calendar rest: by earlier jobs of the user and program, by
//! reported progress, and of programs that mostly wait.

use common::attempt::{Outcome, Phase};
use common::host::{OwnerState, Status};
use common::job::Rules;
use common::{HostId, IdSet, JobId, Span, TaskId};
use scheduler::Event;
use scheduler::event::{Bag, EarlierRun, RestoredProgress};
use scheduler::experience::JobStage;

use super::world::{World, s};

/// A host of this speed on which a user's program was run so often, for so long each time, computing
/// for this part of it.
fn taught(w: &mut World, speed: f64, runs: u32, ran: Span, computing: f64) -> HostId {
    let job = w.job(runs).submit();
    let host = w.host(1).speed(speed).joins();
    for run in 0..runs {
        let ran = ran + Span(ran.0 / 100 * u64::from(run % 5));
        let attempt = w.attempt_on(host);
        w.moves(host, Phase::Running);
        w.pass(ran);
        let cpu = Span::from_secs_f64(computing * ran.secs());
        w.send(Event::AttemptUsed { host, attempt, cpu });
        w.ends(host, attempt, Outcome::Succeeded, ran);
    }
    assert!(w.scheduler.live_attempts(job).next().is_none());
    host
}

#[test]
fn what_finished_tasks_took_before_a_restart_tells_when_their_job_is_done() {
    for known in [true, false] {
        let mut w = World::new();
        let host = w.host(1).speed(2.0).joins();
        let run = |task| EarlierRun {
            task,
            host,
            ran: s(50),
            cpu: s(50),
        };
        let progress = RestoredProgress {
            finished: IdSet::from_range(1, 5),
            attempts: 5,
            runs: (1..=5).filter(|_| known).map(run).collect(),
            ..RestoredProgress::default()
        };
        let job = JobId(1);
        let restored = Event::JobRestored {
            job,
            bag: Box::new(Bag::new(IdSet::from_range(1, 10), Rules::default())),
            progress: Box::new(progress),
        };
        w.scheduler.step(w.now, restored, &mut Vec::new());

        let finish = w.scheduler.predict_finish(job, w.now);
        assert_eq!(finish.is_some(), known);
        if let Some(finish) = finish {
            let left_s = finish.since(w.now).secs();
            assert!((240.0..350.0).contains(&left_s), "{left_s}");
        }
    }
}

fn finish_s(w: &World, job: JobId) -> f64 {
    let finish = w.scheduler.predict_finish(job, w.now);
    finish.expect("its work is known").since(w.now).secs()
}

fn start_s(w: &World, job: JobId) -> f64 {
    let found = w.scheduler.predict_start(job, w.now);
    found.expect("it waits").start.since(w.now).secs()
}

#[track_caller]
fn assert_about(found_s: f64, truth_s: f64) {
    let right = (found_s / truth_s).ln().abs() < 1.35_f64.ln();
    assert!(right, "{found_s} s, not about {truth_s} s");
}

#[test]
fn programs_that_wait_take_as_long_on_fast_hosts() {
    let mut w = World::new();
    let host = taught(&mut w, 4.0, 30, s(60), 0.01);

    let first = w.job(1).submit();
    w.moves(host, Phase::Running);
    let second = w.job(1).submit();
    assert_about(finish_s(&w, first), 60.0);
    assert_about(start_s(&w, second), 60.0);
    assert_about(finish_s(&w, second), 120.0);
}

#[test]
fn a_job_starts_after_the_one_ahead_whose_work_earlier_jobs_or_its_progress_tell() {
    let mut w = World::new();
    taught(&mut w, 1.0, 8, s(30), 1.0);
    w.job(1).submit();
    w.job(4).submit();
    let last = w.job(1).user("bob").estimate(s(10)).submit();
    assert_about(start_s(&w, last), 150.0);

    let mut w = World::new();
    let ahead = w.job(3).submit();
    let host = w.host(1).joins();
    w.pass(s(50));
    let mut held = w.held(host);
    held[0].phase = Phase::Running;
    held[0].ran = s(50);
    held[0].progress = Some(0.5);
    w.heard(host, held);
    let last = w.job(1).user("bob").estimate(s(10)).submit();
    assert_about(finish_s(&w, ahead), 250.0);
    assert_about(start_s(&w, last), 250.0);
}

#[test]
fn hosts_are_expected_to_be_free_when_estimated_tasks_end() {
    let mut w = World::new();
    let host = w.host(1).joins();
    w.job(1).estimate(s(40)).submit();
    w.moves(host, Phase::Running);
    let wait = w.scheduler.predict_hosts(1, w.now);
    assert_about(wait.median_s.expect("it gets free"), 40.0);
}

#[test]
fn a_deadline_is_promised_behind_tasks_whose_work_earlier_jobs_tell() {
    let mut w = World::new();
    let host = taught(&mut w, 1.0, 30, s(20), 1.0);
    w.job(1).submit();
    w.moves(host, Phase::Running);

    let bag = w
        .job(1)
        .policy("CALENDAR")
        .estimate(s(20))
        .deadline(80)
        .bag();
    let finish = w.offer(&bag).finish;
    assert_about(finish.since(w.now).secs(), 40.0);
}

#[test]
fn a_task_that_takes_a_little_longer_than_usual_is_expected_to_end_soon() {
    let mut w = World::new();
    let host = taught(&mut w, 1.0, 30, s(20), 1.0);
    w.job(1).submit();
    w.moves(host, Phase::Running);
    w.pass(s(24));

    let bag = w
        .job(1)
        .policy("CALENDAR")
        .estimate(s(20))
        .deadline(60)
        .bag();
    let finish = w.offer(&bag).finish;
    assert_about(finish.since(w.now).secs(), 23.0);
}

#[test]
fn estimates_are_corrected_by_how_earlier_ones_turned_out() {
    let mut w = World::new();
    let host = w.host(1).joins();
    w.job(100).estimate(s(10)).submit();
    for _ in 0..100 {
        let attempt = w.attempt_on(host);
        w.moves(host, Phase::Running);
        w.pass(s(5));
        w.ends(host, attempt, Outcome::Succeeded, s(5));
    }

    let next = w.job(1).estimate(s(40)).submit();
    assert_about(finish_s(&w, next), 20.0);
    let others = w.job(1).user("bob").estimate(s(40)).submit();
    let told = w.scheduler.predict(others, w.now).expect("it is estimated");
    let low_s = told.low.since(w.now).secs() - 20.0;
    assert!(low_s < 32.0, "an estimate is uncertain: {low_s} s at least");
}

#[test]
fn what_earlier_tasks_took_is_looked_up_again_for_jobs_that_wait() {
    let mut w = World::new();
    let ahead = w.job(5).submit();
    let waiting = w.job(1).submit();
    let host = w.host(1).joins();
    assert_eq!(w.scheduler.predict_finish(waiting, w.now), None);
    for _ in 0..5 {
        let attempt = w.attempt_on(host);
        assert_eq!(attempt.task.job, ahead);
        w.moves(host, Phase::Running);
        w.pass(s(30));
        w.ends(host, attempt, Outcome::Succeeded, s(30));
    }
    assert_about(finish_s(&w, waiting), 30.0);
}

#[test]
fn a_checkpoint_holds_nothing_of_the_time_in_which_its_host_was_silent() {
    let mut w = World::new();
    let job = w.job(1).keeps_state().estimate(s(1_000)).submit();
    let host = w.host(1).joins();
    for _ in 0..10 {
        w.pass(s(10));
        let ran = w.now.since(common::Time(1_000_000));
        let mut held = w.held(host);
        held[0].phase = Phase::Running;
        held[0].ran = ran;
        w.heard(host, held);
    }

    // The PC is pulled from the wall, and nobody knows until its lease ends.
    w.pass(s(600));
    w.parts(host);
    w.pass(s(86_400));
    w.host(2).joins();
    assert_eq!(w.scheduler.task_attempts(TaskId::new(job, 1)).len(), 1);
    assert_about(finish_s(&w, job), 900.0);
}

#[test]
fn the_share_of_a_processor_is_counted_over_the_comings_of_its_owner() {
    let mut w = World::new();
    let host = w.host(1).joins();
    w.pass(s(100));
    w.job(20).estimate(s(100)).submit();
    let attempt = w.attempt_on(host);
    w.owner_comes(host);
    w.pass(s(50));
    w.owner_goes(host);
    let status = Status {
        cpu: 0.2,
        ..OwnerState::Away.into()
    };
    let held = w.held(host);
    w.send(Event::HostHeard { host, status, held });
    w.pass(s(110));
    w.ends(host, attempt, Outcome::Succeeded, s(110));

    let (_, quality) = w
        .scheduler
        .estimates()
        .quality()
        .next()
        .expect("one source");
    let (ratio, ..) = quality.ratio.expect("it was estimated");
    assert!(
        (ratio - 0.22).abs() < 0.01,
        "a fifth of 110 s for 100 s: {ratio}"
    );
}

#[test]
fn a_checkpoint_holds_nothing_of_the_time_in_which_its_host_was_off() {
    let mut w = World::new();
    let job = w.job(1).keeps_state().estimate(s(1_000)).submit();
    let host = w.host(1).joins();
    for ran in [50, 100] {
        w.pass(s(50));
        let mut held = w.held(host);
        held[0].phase = Phase::Running;
        held[0].ran = s(ran);
        w.heard(host, held);
    }

    // It is switched off, and comes back within its lease without the attempt.
    w.dies(host);
    w.pass(s(60));
    w.host(1).joins();
    assert_eq!(w.books(host).len(), 1, "it starts again there");
    assert_about(finish_s(&w, job), 920.0);
    assert!(finish_s(&w, job) > 890.0, "{}", finish_s(&w, job));
}

#[test]
fn what_goes_on_from_a_checkpoint_teaches_nothing_of_whole_tasks() {
    let mut w = World::new();
    w.job(30).keeps_state().estimate(s(100)).submit();
    let host = w.host(1).joins();
    for _ in 0..30 {
        // Nine tenths are done when it is preempted for nobody, and the rest by another attempt.
        let mut held = w.held(host);
        held[0].phase = Phase::Running;
        held[0].ran = s(90);
        held[0].progress = Some(0.9);
        w.pass(s(90));
        w.heard(host, held);
        w.heard(host, Vec::new());
        w.heard(host, Vec::new());
        w.pass(s(60));
        w.heard(host, Vec::new());
        let attempt = w.attempt_on(host);
        w.ends(host, attempt, Outcome::Succeeded, s(10));
    }
    let next = w.job(1).estimate(s(100)).submit();
    assert_about(finish_s(&w, next), 100.0);
}

#[test]
fn a_host_of_several_slots_is_free_when_the_first_of_its_tasks_ends() {
    let mut w = World::new();
    taught(&mut w, 1.0, 30, s(20), 1.0);
    let host = w.host(2).slots(2).joins();
    w.job(1).submit();
    w.job(1).submit();
    w.job(1).user("bob").estimate(s(36_000)).submit();
    w.moves(HostId(1), Phase::Running);
    w.moves(host, Phase::Running);
    let wait = w.scheduler.predict_hosts(2, w.now);
    let median_s = wait.median_s.expect("they get free");
    assert!(median_s < 60.0, "{median_s} s for a program of 20 s");
}

#[test]
fn a_finish_is_predicted_by_the_estimates_of_single_tasks() {
    let mut w = World::new();
    w.host(1).joins();
    let job = w.job(3).estimates(&[100, 200, 300]).submit();
    assert_about(finish_s(&w, job), 600.0);
}

#[test]
fn a_job_of_a_program_whose_runs_differ_is_predicted_with_less_certainty() {
    let width = |works: [u64; 2]| {
        let mut w = World::new();
        let host = w.host(1).joins();
        w.job(40).submit();
        for run in 0..40 {
            let ran = s(works[run % 2]);
            let attempt = w.attempt_on(host);
            w.moves(host, Phase::Running);
            w.pass(ran);
            w.ends(host, attempt, Outcome::Succeeded, ran);
        }
        let next = w.job(1).submit();
        let told = w.scheduler.predict(next, w.now).expect("runs are known");
        told.high.since(w.now).secs() / told.low.since(w.now).secs()
    };
    assert!(width([2, 200]) > 3.0 * width([100, 102]));
}

#[test]
fn all_hosts_are_waited_for_although_one_may_always_be_away() {
    let mut w = World::new();
    let hosts = [1, 2, 3].map(|host| w.host(host).joins());
    w.job(3).estimate(s(20)).submit();
    for host in hosts {
        w.moves(host, Phase::Running);
    }

    let wait = w.scheduler.predict_hosts(3, w.now);
    let used_s = wait.wait.used_s.expect("they will be free");
    assert_about(used_s, 24.0);
    assert_about(used_s, wait.median_s.expect("also by the law"));
}

#[test]
fn the_upper_end_of_an_interval_stays_near_while_the_predicted_end_comes_close() {
    let mut w = World::new();
    let host = taught(&mut w, 1.0, 30, s(20), 1.0);
    let job = w.job(1).submit();
    w.moves(host, Phase::Running);

    for _ in 0..240 {
        w.pass(Span::from_secs_f64(0.1));
        let found = w.scheduler.predict(job, w.now).expect("its work is known");
        let left_s = found.finish.since(w.now).secs();
        let high_s = found.high.since(w.now).secs();
        assert!(
            high_s < 5.0 + 3.0 * left_s,
            "{left_s} s, at most {high_s} s"
        );
    }
}

#[test]
fn one_job_is_expected_to_take_the_geometric_mean_of_earlier_ones_of_its_program() {
    let mut w = World::new();
    let host = w.host(1).joins();
    for run in 0..20 {
        let ran = s([2, 128][run % 2]);
        w.job(1).submit();
        let attempt = w.attempt_on(host);
        w.moves(host, Phase::Running);
        w.pass(ran);
        w.ends(host, attempt, Outcome::Succeeded, ran);
    }
    let next = w.job(1).submit();
    assert_about(finish_s(&w, next), 16.0);
}

#[test]
fn the_end_of_a_job_is_as_uncertain_as_the_work_before_it() {
    let mut w = World::new();
    let host = taught(&mut w, 1.0, 30, s(60), 1.0);
    w.job(1).user("bob").estimate(s(60)).submit();
    w.moves(host, Phase::Running);
    let own = w.job(1).policy("FCFS").estimate(s(1)).submit();
    let told = w.scheduler.predict(own, w.now).expect("its work is told");
    let [low_s, high_s] = [told.low, told.high].map(|end| end.since(w.now).secs());
    assert!(high_s > 3.0 * low_s, "{low_s} to {high_s} s");
}

/// Lets `span` pass with a heartbeat each minute, in which the host reports this processor share.
fn reports_share(w: &mut World, host: HostId, cpu: f32, span: Span) {
    let until = w.now + span;
    while w.now < until {
        w.pass(s(60));
        let status = Status {
            cpu,
            ..OwnerState::Away.into()
        };
        let held = w.held(host);
        w.send(Event::HostHeard { host, status, held });
    }
}

/// Reports how long the host's first attempt ran, of the seconds that its whole task takes, with this
/// processor share.
fn reports_progress(w: &mut World, host: HostId, (ran, whole_s): (u64, f32), cpu: f32) {
    let mut held = w.held(host);
    held[0].phase = Phase::Running;
    held[0].ran = s(ran);
    held[0].progress = Some(ran as f32 / whole_s);
    let status = Status {
        cpu,
        ..OwnerState::Away.into()
    };
    w.send(Event::HostHeard { host, status, held });
}

#[test]
fn one_report_of_a_busy_processor_makes_predictions_hardly_later() {
    let mut w = World::new();
    let host = w.host(1).joins();
    reports_share(&mut w, host, 1.0, s(3_600));
    reports_share(&mut w, host, 0.05, s(60));
    let first = w.job(10).estimate(s(100)).submit();
    let second = w.job(1).estimate(s(100)).submit();
    assert_about(finish_s(&w, first), 1_000.0);
    assert_about(start_s(&w, second), 1_000.0);
}

#[test]
fn a_report_stands_for_no_more_than_two_minutes_of_silence() {
    let mut w = World::new();
    let host = w.host(1).joins();
    reports_share(&mut w, host, 1.0, s(3_600));
    reports_share(&mut w, host, 0.05, s(60));

    // The master sleeps for a night.
    w.now = w.now + s(8 * 3_600);
    let span = s(8 * 3_600);
    w.send(Event::MasterPaused { span });
    reports_share(&mut w, host, 1.0, s(60));
    let job = w.job(10).estimate(s(100)).submit();
    assert_about(finish_s(&w, job), 1_000.0);
}

#[test]
fn the_work_of_an_attempt_is_not_less_because_the_master_slept() {
    let mut w = World::new();
    let host = w.host(1).joins();
    let job = w.job(3).submit();
    let report = |w: &mut World, ran, cpu| reports_progress(w, host, (ran, 7_200.0), cpu);
    for minute in 1..=60 {
        w.pass(s(60));
        report(&mut w, 60 * minute, if minute < 60 { 1.0 } else { 0.05 });
    }

    let span = s(8 * 3_600);
    w.now = w.now + span;
    w.send(Event::MasterPaused { span });
    w.pass(s(60));
    report(&mut w, 3_660, 1.0);
    assert_about(finish_s(&w, job), 2.5 * 7_200.0);
}

#[test]
fn a_host_that_is_always_busy_is_predicted_as_busy() {
    let mut w = World::new();
    let host = w.host(1).joins();
    reports_share(&mut w, host, 0.25, s(3_600));
    reports_share(&mut w, host, 1.0, s(60));
    let job = w.job(10).estimate(s(100)).submit();
    assert_about(finish_s(&w, job), 4_000.0);
}

#[test]
fn the_time_left_by_reported_progress_shrinks_between_two_heartbeats() {
    let mut w = World::new();
    let host = w.host(1).joins();
    let job = w.job(2).submit();
    let reports = |w: &mut World, ran, cpu| reports_progress(w, host, (ran, 1_000.0), cpu);
    for ran in [60, 120, 180] {
        w.pass(s(60));
        reports(&mut w, ran, 1.0);
    }
    w.pass(s(60));
    reports(&mut w, 240, 0.05);

    let at_first_s = finish_s(&w, job);
    w.pass(s(50));
    let later_s = finish_s(&w, job);
    assert!(
        (at_first_s - 60.0..at_first_s - 40.0).contains(&later_s),
        "{at_first_s} s, and {later_s} s 50 s later"
    );
}

/// The number of predictions of jobs' ends, early on, whose outcome was noted.
fn judged(w: &World) -> usize {
    let errors = w.scheduler.experience().errors;
    errors.of("deskgrid", JobStage::Early).len()
}

/// The host does what it has in its ten seconds.
fn does_one(w: &mut World, host: HostId) {
    let attempt = w.attempt_on(host);
    w.moves(host, Phase::Running);
    w.pass(s(10));
    w.ends(host, attempt, Outcome::Succeeded, s(10));
}

#[test]
fn predictions_for_tasks_that_were_cancelled_or_retried_by_hand_teach_nothing() {
    let ten = |changes: &[Event]| {
        let mut w = World::new();
        let host = w.host(1).joins();
        let job = w.job(10).estimate(s(10)).submit();
        assert_eq!(job, JobId(1));
        does_one(&mut w, host);
        w.fails(host, w.attempt_on(host));
        for event in changes {
            w.send(event.clone());
        }
        while !w.books(host).is_empty() {
            does_one(&mut w, host);
        }
        assert!(w.job_state(job).settled());
        judged(&w)
    };
    let job = JobId(1);
    let cancelled = Event::JobCancelled {
        job,
        tasks: Some(IdSet::from_range(5, 10)),
    };
    let retried = Event::JobRetried {
        job,
        tasks: IdSet::from_range(2, 2),
    };
    assert_eq!(ten(&[]), 1);
    assert_eq!(ten(&[cancelled]), 0);
    assert_eq!(ten(&[retried]), 0);
}

#[test]
fn what_was_predicted_of_a_job_is_judged_once_although_results_are_lost_later() {
    let mut w = World::new();
    let host = w.host(1).joins();
    let job = w.job(4).estimate(s(10)).submit();
    while !w.books(host).is_empty() {
        does_one(&mut w, host);
    }
    assert_eq!(judged(&w), 1);

    let tasks = vec![(1, 1)];
    w.send(Event::ResultsGone { job, tasks });
    does_one(&mut w, host);
    assert!(w.job_state(job).settled());
    assert_eq!(judged(&w), 1);
}
