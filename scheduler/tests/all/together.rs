//! Jobs that run as several ranks at once: they get all their hosts together or none, hold them to
//! the end, and hold up nobody for ever.

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::{OwnerState, YieldReason};
use common::job::Rules;
use common::needs::{Needs, Offers};
use common::view::{HostState, JobState, TaskState};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Ranks, Span, TaskId};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use scheduler::effect::EndReason;
use scheduler::event::Bag;
use scheduler::policy::width::WidthChoice;
use scheduler::{Effect, Event, Parting, Scheduler, Settings, Sharing};

use super::office::{Office, begun, exactly};
use super::world::{s, starts};
use crate::events;

/// A job of so much work, whose ranks help each other up to so many.
fn known(least: u32, most: u32, work: u64, parallelism: f64) -> Ranks {
    let work = Some(s(work));
    let parallelism = Some(parallelism);
    Ranks {
        work,
        parallelism,
        sigma: Some(0.0),
        ..Ranks::new(least, Some(most))
    }
}

#[test]
fn ranks_start_together_once_there_are_enough_hosts_and_no_earlier() {
    let mut o = Office::of(2);
    let job = o.submit(exactly(3), "AVG");
    assert!(o.places(job).is_empty(), "two hosts are not three");
    assert_eq!(o.scheduler.job_state(job), Some(JobState::Waiting));
    o.joins(3);
    assert_eq!(o.places(job).len(), 3);
    assert_eq!(
        (o.formed[&job], o.scheduler.job_counts(job).unwrap().total),
        (3, 3)
    );
}

#[test]
fn a_range_of_widths_takes_the_free_hosts() {
    let mut o = Office::of(5);
    let job = o.submit(Ranks::new(2, Some(4)), "AVG");
    assert_eq!(
        o.places(job).keys().copied().collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );

    let other = o.submit(Ranks::new(1, None), "AVG");
    assert_eq!(
        (
            o.formed[&other],
            o.scheduler.job_counts(other).unwrap().total
        ),
        (1, 1)
    );
}

#[test]
fn commands_begin_when_the_last_rank_is_ready() {
    let mut o = Office::of(3);
    let job = o.submit(exactly(3), "AVG");
    let hosts: Vec<HostId> = o.places(job).values().map(|(host, _)| *host).collect();
    assert_eq!(begun(&o.moves(hosts[0], job, Phase::Ready)), []);
    o.moves(hosts[1], job, Phase::Staging);
    assert_eq!(begun(&o.moves(hosts[1], job, Phase::Ready)), []);
    assert_eq!(begun(&o.moves(hosts[2], job, Phase::Ready)).len(), 3);
    assert!(o.scheduler.together(job, o.now).unwrap().begun.is_some());
}

#[test]
fn a_rank_that_ends_before_it_could_begin_is_not_taken_for_ready() {
    let mut o = Office::of(2);
    let rules = Rules {
        policy: "AVG".into(),
        retries: 1,
        ..Rules::default()
    };
    o.jobs += 1;

    let job = JobId(o.jobs);
    let bag = Bag {
        ranks: Some(exactly(2)),
        ..Bag::new(Ranks::tasks(2), rules)
    };
    o.send(events::submitted(job, bag));

    let hosts: Vec<HostId> = o.places(job).values().map(|(host, _)| *host).collect();
    o.moves(hosts[0], job, Phase::Ended);
    assert_eq!(begun(&o.moves(hosts[1], job, Phase::Ready)), []);

    let effects = o.ends(job, 0, Outcome::NotStarted("its input is not there".into()));
    assert_eq!(
        (starts(&effects).len(), begun(&effects)),
        (1, vec![]),
        "it is tried again first"
    );
    assert_eq!(begun(&o.moves(hosts[0], job, Phase::Ready)).len(), 2);
}

#[test]
fn a_full_disk_fails_no_rank_and_its_host_is_benched_until_one_succeeds_there() {
    let mut o = Office::new();
    let settings = Settings {
        max_prefetch: 0,
        benching: true,
        ..Settings::default()
    };
    o.scheduler = Scheduler::new(settings, Incarnation(1));
    (1..=3).for_each(|host| drop(o.joins(host)));

    let job = o.submit(exactly(2), "AVG");
    let (full, _) = o.places(job)[&0];
    o.ends(job, 0, Outcome::NoRoom("its disk is full".into()));
    let (host, again) = o.places(job)[&0];
    assert!(host != full && again.number == 2, "{again} on {host}");
    let state = |o: &Office| o.scheduler.host(full).unwrap().state;
    assert_eq!(state(&o), HostState::Benched);
    assert_eq!(o.all_ready(job), 2);
    o.all_succeed(job);
    assert_eq!(o.settled[&job], JobState::Finished);

    let next = o.submit(exactly(2), "AVG");
    let places = o.places(next);
    assert_eq!(places.len(), 2);
    assert!(places.values().all(|(host, _)| *host != full));
    o.all_ready(next);
    o.all_succeed(next);

    o.pass(s(16));
    let last = o.submit(exactly(3), "AVG");
    assert_eq!(o.places(last).len(), 3, "it is tried again after a pause");
    o.all_ready(last);
    o.all_succeed(last);
    assert_ne!(state(&o), HostState::Benched);
}

#[test]
fn a_rank_that_was_told_to_begin_and_did_not_hear_it_is_told_again() {
    let mut o = Office::of(2);
    let job = o.submit(exactly(2), "AVG");
    assert_eq!(o.all_ready(job), 2);
    let (host, attempt) = o.places(job)[&0];
    o.held.get_mut(&host).unwrap().insert(attempt, Phase::Ready);
    assert_eq!(begun(&o.joins(host.0)), [attempt]);
}

#[test]
fn hosts_are_held_until_the_last_rank_is_done() {
    let mut o = Office::of(2);
    let job = o.submit(exactly(2), "AVG");
    let bag = o.bag(1, |_| ());

    o.all_ready(job);
    o.ends(job, 0, Outcome::Succeeded);
    assert!(o.places(bag).is_empty(), "its host is still held");

    let why = o.scheduler.explain(bag).unwrap();
    assert!(
        why.hosts
            .iter()
            .any(|(_, why)| why.contains("held for jobs of several ranks")),
        "{why:?}"
    );

    o.ends(job, 1, Outcome::Succeeded);
    assert_eq!(o.settled[&job], JobState::Finished);
    assert_eq!(o.places(bag).len(), 1);
}

#[test]
fn a_lost_rank_starts_elsewhere_before_anything_else_and_disturbs_no_other() {
    let mut o = Office::of(3);
    let job = o.submit(exactly(3), "AVG");
    o.all_ready(job);

    let before = o.places(job);
    o.bag(5, |rules| rules.priority = 9);

    let lost = before[&1].0;
    o.loses(lost.0);
    assert_eq!(
        o.scheduler.task_state(TaskId::new(job, 1)),
        Some(TaskState::Waiting)
    );

    let why = o.scheduler.explain(job).unwrap();
    assert!(
        why.tasks
            .iter()
            .any(|(why, _)| why.contains("has lost its host")),
        "{why:?}"
    );

    let effects = o.joins(9);
    let started = starts(&effects);
    assert_eq!(started.len(), 1, "{started:?}");
    assert_eq!(
        (started[0].0, started[0].1.task, started[0].1.number),
        (HostId(9), TaskId::new(job, 1), 2)
    );
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Stop { .. } | Effect::Ended { .. }))
    );

    // The others run already: it begins as soon as it is ready.
    assert_eq!(begun(&o.moves(HostId(9), job, Phase::Ready)).len(), 1);
    let after = o.places(job);
    assert_eq!((after[&0], after[&2]), (before[&0], before[&2]));
    o.all_succeed(job);
    assert_eq!(o.settled[&job], JobState::Finished);
}

/// The seconds after which a rank that has run for so long starts elsewhere, once its host's connection is
/// lost, with one host idle; `None` where it has not begun again within 880 s, nearly a lease.
fn starts_elsewhere_after(ran: Span, spare: bool) -> Option<u64> {
    let mut o = Office::new();
    (1..=2 + u32::from(spare)).for_each(|host| drop(o.joins(host)));
    let job = o.submit(exactly(2), "AVG");
    o.all_ready(job);

    // Nobody is silent meanwhile: it is the master that hears nothing.
    o.now = o.now + ran;
    o.send(Event::MasterPaused { span: ran });
    let (lost, attempt) = o.places(job)[&1];
    let held = HeldAttempt {
        attempt,
        phase: Phase::Running,
        ran,
        frozen_for: Span::ZERO,
        progress: None,
    };
    o.send(events::heard(lost, OwnerState::Away.into(), vec![held]));
    let how = Parting::Silent;
    o.send(Event::HostDisconnected { host: lost, how });
    let passed = (1..880).find(|_| {
        o.pass(s(1));
        o.beats_but(&[lost.0]);
        o.places(job).get(&1).is_none_or(|(host, _)| *host != lost)
    })?;
    assert!(
        o.places(job).contains_key(&1),
        "it has another host at once"
    );
    Some(passed)
}

#[test]
fn a_rank_of_a_silent_host_starts_elsewhere_once_that_costs_less_than_to_wait() {
    let young = starts_elsewhere_after(s(60), true).expect("it has little to lose");
    assert!(young <= 10, "after {young} s");
    let old = starts_elsewhere_after(s(3_600), true).expect("its host is gone by all experience");
    assert!((young + 1..=150).contains(&old), "after {old} s");
    // It would lose more than ten days of work, and may be back.
    assert_eq!(starts_elsewhere_after(s(1_000_000), true), None);
    assert_eq!(
        starts_elsewhere_after(s(60), false),
        None,
        "there is no other host"
    );
}

/// An office in which a rank of a silent host has started elsewhere, with that host, and its attempt there.
fn given_up(change: impl FnOnce(&mut Rules)) -> (Office, JobId, HostId, AttemptId) {
    let mut o = Office::of(3);
    let job = o.submit_with(exactly(2), change);
    o.all_ready(job);
    o.beats_but(&[]);

    let (lost, attempt) = o.places(job)[&1];
    let how = Parting::Silent;
    o.send(Event::HostDisconnected { host: lost, how });
    for _ in 0..60 {
        o.pass(s(1));
        o.beats_but(&[lost.0]);
    }
    (o, job, lost, attempt)
}

#[test]
fn a_host_that_is_back_after_its_rank_started_elsewhere_is_free_for_others() {
    let (mut o, job, lost, _) = given_up(|_| ());
    assert_ne!(o.places(job)[&1].0, lost);

    o.joins(lost.0);
    let other = o.bag(1, |_| ());
    assert_eq!(o.places(other)[&1].0, lost);
}

#[test]
fn a_rank_that_is_found_again_too_late_is_no_loss() {
    let (mut o, job, lost, attempt) = given_up(|rules| rules.max_losses = 1);
    let (place, _) = o.places(job)[&1];
    let ranks = o.held.entry(lost).or_default();
    ranks.insert(attempt, Phase::Running);
    o.formed.clear();
    o.joins(lost.0);

    o.moves(place, job, Phase::Running);
    o.loses(place.0);
    assert_eq!(o.settled.get(&job), None, "it was lost once");
}

#[test]
fn a_rank_that_may_not_be_lost_waits_for_its_host() {
    let (o, job, lost, _) = given_up(|rules| rules.max_losses = 0);
    assert_eq!(o.places(job)[&1].0, lost);
}

#[test]
fn no_more_ranks_are_given_up_than_there_are_other_hosts() {
    let mut o = Office::of(4);
    let job = o.submit(exactly(3), "AVG");
    o.all_ready(job);
    let places = o.places(job);
    let silent = [places[&1].0, places[&2].0];
    for host in silent {
        let how = Parting::Silent;
        o.send(Event::HostDisconnected { host, how });
    }
    for _ in 0..60 {
        o.pass(s(1));
        o.beats_but(&silent.map(|host| host.0));
    }

    let now = o.places(job);
    assert_eq!(now.len(), 3, "one waits where it was: {now:?}");
    let moved = now.iter().filter(|(rank, place)| places[rank].0 != place.0);
    assert_eq!(moved.count(), 1, "{now:?}");
}

#[test]
fn ranks_that_are_all_lost_at_one_time_begin_together_again() {
    let mut o = Office::of(4);
    let job = o.submit(exactly(2), "AVG");
    o.all_ready(job);

    let lost: Vec<u32> = o.places(job).values().map(|(host, _)| host.0).collect();
    for _ in 0..20 {
        o.pass(s(60));
        o.beats_but(&lost);
    }

    let hosts: Vec<HostId> = o.places(job).values().map(|(host, _)| *host).collect();
    assert!(
        hosts.len() == 2 && hosts.iter().all(|host| !lost.contains(&host.0)),
        "{hosts:?}"
    );
    assert_eq!(
        begun(&o.moves(hosts[0], job, Phase::Ready)),
        [],
        "the other one is not ready"
    );
    assert_eq!(begun(&o.moves(hosts[1], job, Phase::Ready)).len(), 2);
}

#[test]
fn a_rank_that_failed_starts_again_where_it_was_while_it_has_retries() {
    let mut o = Office::of(3);
    let job = o.submit_with(exactly(2), |rules| rules.retries = 1);
    o.all_ready(job);

    let (host, _) = o.places(job)[&0];
    o.ends(job, 0, Outcome::Exited(1));
    assert_eq!(o.places(job)[&0].0, host);

    let effects = o.ends(job, 0, Outcome::Exited(1));
    assert_eq!(o.settled[&job], JobState::Failed);
    assert_eq!(
        effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Stop { .. }))
            .count(),
        1,
        "the other one goes too"
    );

    assert_eq!(o.submit(exactly(3), "AVG"), JobId(2));
    assert_eq!(o.places(JobId(2)).len(), 3, "every host is free again");
}

#[test]
fn a_returned_rank_takes_another_host_or_waits_for_one() {
    let mut o = Office::of(2);
    let job = o.submit(exactly(2), "AVG");
    let (host, attempt) = o.places(job)[&0];
    o.send(events::owner(host, OwnerState::Present(YieldReason::InUse)));
    o.send(events::returned(host, vec![attempt]));
    assert_eq!(o.places(job).len(), 1);

    o.joins(3);
    assert_eq!(o.places(job)[&0].0, HostId(3));
    assert_eq!(o.all_ready(job), 2, "none of them had begun");
}

/// An office of three PCs, with a gang of two ranks on the first two, and a task of another job on
/// the second slot of the first one.
fn beside_another_job() -> (Office, JobId) {
    let mut o = Office::new();
    o.joins_with(1, 2);
    let other = o.bag(1, |_| ());
    assert_eq!(o.places(other)[&1].0, HostId(1));
    o.joins(2);
    let job = o.submit(exactly(2), "AVG");
    assert_eq!(o.places(job).len(), 2);
    o.joins(3);
    (o, job)
}

/// The rank of this job on the host, with its attempt.
fn rank_on(o: &Office, job: JobId, host: u32) -> (u32, AttemptId) {
    let places = o.places(job);
    let mut there = places.iter().filter(|(_, place)| place.0 == HostId(host));
    let (rank, place) = there.next().expect("a rank is there");
    (*rank, place.1)
}

/// The owner of the host lends so many slots from now on; `None`: nothing.
fn lends(o: &mut Office, host: u32, slots: Option<u32>) {
    let reason = YieldReason::InUse;
    let owner = match slots {
        Some(slots) => OwnerState::Sharing(reason, slots),
        None => OwnerState::Present(reason),
    };
    let host = HostId(host);
    o.send(Event::OwnerChanged { host, owner });
}

#[test]
fn a_returned_rank_does_not_wait_for_a_host_that_its_owner_lends_to_another_job_only() {
    let (mut o, job) = beside_another_job();
    let (rank, attempt) = rank_on(&o, job, 1);
    lends(&mut o, 1, Some(1));
    o.send(events::returned(HostId(1), vec![attempt]));
    assert_eq!(o.places(job)[&rank].0, HostId(3));

    lends(&mut o, 1, Some(2));
    let bag = o.bag(1, |_| ());
    assert_eq!(o.places(bag)[&1].0, HostId(1), "the gang has another host");
}

#[test]
fn a_returned_rank_does_not_wait_for_a_held_host_that_lends_less_since() {
    let (mut o, job) = beside_another_job();
    let (done, _) = rank_on(&o, job, 1);
    let (rank, attempt) = rank_on(&o, job, 2);
    o.all_ready(job);
    o.ends(job, done, Outcome::Succeeded);

    lends(&mut o, 1, Some(1));
    lends(&mut o, 2, None);
    o.send(events::returned(HostId(2), vec![attempt]));
    assert_eq!(o.places(job)[&rank].0, HostId(3));
}

#[test]
fn cancelling_any_rank_cancels_the_job_and_frees_its_hosts() {
    let mut o = Office::of(2);
    let job = o.submit(exactly(2), "AVG");
    o.all_ready(job);
    o.send(events::cancelled(job, Some(IdSet::from_range(1, 1))));
    assert_eq!(o.settled[&job], JobState::Cancelled);

    let waiting = o.submit(exactly(3), "AVG");
    o.send(events::cancelled(waiting, None));
    assert_eq!(o.settled[&waiting], JobState::Cancelled);

    let bag = o.bag(2, |_| ());
    assert_eq!(o.places(bag).len(), 2, "nothing is kept for who is gone");
}

#[test]
fn the_next_gang_keeps_free_hosts_from_those_behind() {
    let mut o = Office::of(3);
    let first = o.bag(2, |_| ());
    let job = o.submit(exactly(3), "AVG");
    let behind = o.bag(4, |_| ());
    assert!(
        o.places(job).is_empty() && o.places(behind).is_empty(),
        "the third host is kept"
    );

    let (host, attempt) = o.places(first)[&1];
    o.pass(s(5));
    o.send(events::succeeded(host, attempt, s(5)));

    assert!(
        o.places(job).is_empty() && o.places(behind).is_empty(),
        "so is the second"
    );

    let (host, attempt) = o.places(first)[&2];
    o.send(events::succeeded(host, attempt, s(5)));

    assert_eq!((o.places(job).len(), o.places(behind).len()), (3, 0));
    o.all_succeed(job);
    assert_eq!(o.places(behind).len(), 3);
}

#[test]
fn a_higher_priority_job_is_not_held_up_by_a_waiting_gang() {
    let mut o = Office::of(2);
    o.bag(1, |_| ());
    let job = o.submit(exactly(2), "AVG");
    let urgent = o.bag(1, |rules| rules.priority = 5);
    assert_eq!((o.places(urgent).len(), o.places(job).len()), (1, 0));
}

#[test]
fn short_tasks_backfill_before_a_waiting_gang() {
    let mut o = Office::of(3);
    // What runs is known to take a thousand seconds.
    let teacher = o.bag(60, |rules| rules.policy = "FCFS".into());
    for _ in 0..58 {
        let (host, attempt) = *o.places(teacher).values().next().unwrap();
        o.send(events::succeeded(host, attempt, s(1_000)));
    }

    assert_eq!(o.places(teacher).len(), 2);
    let job = o.submit(exactly(3), "AVG");
    assert!(matches!(
        o.scheduler
            .together(job, o.now)
            .unwrap()
            .offer
            .unwrap()
            .choice,
        Some(WidthChoice::Hold(_))
    ));

    let long = o.bag(1, |rules| rules.estimate = Some(s(50_000)));
    let short = o.bag(1, |rules| rules.estimate = Some(s(5)));
    assert_eq!((o.places(long).len(), o.places(short).len()), (0, 1));
}

#[test]
fn a_job_for_more_hosts_than_there_are_holds_up_nobody_and_says_so() {
    let mut o = Office::of(2);
    let job = o.submit(exactly(3), "AVG");
    let bag = o.bag(3, |_| ());
    assert_eq!((o.places(job).len(), o.places(bag).len()), (0, 2));

    let why = o.scheduler.explain(job).unwrap();
    assert!(
        why.tasks
            .iter()
            .any(|(why, _)| why.contains("3 hosts at once")),
        "{why:?}"
    );

    assert!(
        o.scheduler
            .together(job, o.now)
            .unwrap()
            .offer
            .unwrap()
            .choice
            .is_none()
    );
}

#[test]
fn two_jobs_that_cannot_both_have_their_hosts_have_them_one_after_the_other() {
    let mut o = Office::of(4);
    let first = o.submit(exactly(3), "AVG");
    let second = o.submit(exactly(3), "AVG");
    assert_eq!((o.places(first).len(), o.places(second).len()), (3, 0));
    o.all_ready(first);
    o.all_succeed(first);
    assert_eq!(o.places(second).len(), 3);
}

/// Two jobs of two ranks each on four hosts, each of which then loses one host for good.
fn a_later_gang_yields(mut o: Office, needs: &Needs) {
    let submit = |o: &mut Office| {
        let needs = needs.clone();
        o.submit_with(exactly(2), |rules| rules.needs = needs)
    };
    let first = submit(&mut o);
    let second = submit(&mut o);

    o.all_ready(first);
    o.all_ready(second);

    let gone = [o.places(first)[&0].0, o.places(second)[&0].0];
    for host in gone {
        o.send(Event::HostLeft { host });
        o.held.remove(&host);
        o.slots.remove(&host);
    }

    let mut ended = Vec::new();
    for _ in 0..40 {
        o.now = o.now + s(60);
        ended.extend(o.send(Event::Tick));
        o.beats_but(&[gone[0].0, gone[1].0]);
    }

    let second_up = |effect: &Effect| match effect {
        Effect::Ended {
            why: EndReason::Disbanded,
            attempt,
            ..
        } => attempt.task.job == second,
        _ => false,
    };
    let disbanded = ended.iter().any(second_up);
    assert!(disbanded, "{ended:?}");
    assert_eq!((o.places(first).len(), o.places(second).len()), (2, 0));
    o.all_ready(first);
    o.all_succeed(first);

    assert_eq!(
        (o.settled[&first], o.places(second).len()),
        (JobState::Finished, 2)
    );
    assert_eq!(o.all_ready(second), 2, "all of it starts again, together");
    o.all_succeed(second);
    assert_eq!(o.settled[&second], JobState::Finished);
}

#[test]
fn a_later_gang_yields_its_hosts_to_an_earlier_one_after_losses() {
    a_later_gang_yields(Office::of(4), &Needs::default());
}

#[test]
fn a_later_gang_yields_the_last_hosts_that_suit_both_however_many_others_there_are() {
    let mut o = Office::new();
    for host in 1..=4 {
        let labels = ["gpu".parse().expect("a label")].into();
        o.send(events::offered(
            HostId(host),
            Offers {
                labels,
                ..Offers::default()
            },
        ));
        o.joins(host);
    }
    (5..=20).for_each(|host| drop(o.joins(host)));
    a_later_gang_yields(o, &Needs::parse(["label=gpu"]).expect("needs"));
}

#[test]
fn a_rank_that_is_found_again_after_its_job_gave_up_its_hosts_does_not_go_on_alone() {
    let mut o = Office::of(3);
    let job = o.submit(exactly(3), "AVG");
    o.all_ready(job);

    let (host, attempt) = o.places(job)[&0];
    o.loses(host.0);

    // There are not so many hosts any more: after a lease's time the job gives up those that it
    // has.
    for _ in 0..30 {
        o.pass(s(60));
        o.beats_but(&[host.0]);
    }

    assert!(o.places(job).is_empty(), "{:?}", o.places(job));
    o.held
        .entry(host)
        .or_default()
        .insert(attempt, Phase::Running);

    let effects = o.joins(host.0);
    assert!(effects.iter().any(
        |effect| matches!(effect, Effect::Abandon { attempts, .. } if *attempts == [attempt])
    ));
    assert_eq!(
        (starts(&effects).len(), o.all_ready(job)),
        (3, 3),
        "they start again together"
    );
}

#[test]
fn a_job_holds_out_for_more_hosts_when_that_should_end_it_sooner() {
    let mut o = Office::of(4);
    let teacher = o.bag(63, |_| ());
    for _ in 0..60 {
        let (host, attempt) = *o.places(teacher).values().next().unwrap();
        o.send(events::succeeded(host, attempt, s(10)));
    }

    assert_eq!(
        o.places(teacher).len(),
        3,
        "one host is free, the others are for about ten seconds"
    );

    // An hour on one host, a quarter of that on four.
    let job = o.submit(known(1, 4, 3_600, 4.0), "PRED");
    let offer = o.scheduler.together(job, o.now).unwrap().offer.unwrap();
    let Some(WidthChoice::Hold(held)) = offer.choice else {
        panic!("{offer:?}")
    };

    assert_eq!((held.hosts, o.foretold.len()), (4, 1));
    assert_eq!(
        offer.ways.iter().map(|way| way.hosts).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    assert!(offer.ways[3].total_s() < offer.ways[0].total_s());

    let hasty = o.submit(known(1, 4, 3_600, 4.0), "AVG");
    assert!(
        o.places(hasty).is_empty(),
        "who is behind takes nothing of what is kept"
    );
    o.pass(s(8));

    for (host, attempt) in o.places(teacher).into_values() {
        o.send(events::succeeded(host, attempt, s(10)));
    }

    assert_eq!((o.formed[&job], o.places(job).len()), (4, 4));
}

#[test]
fn the_next_run_uses_what_earlier_runs_learned() {
    let mut o = Office::of(4);
    for (ranks, seconds) in [(1, 400), (2, 200), (4, 100), (4, 100)] {
        let job = o.submit(exactly(ranks), "AVG");
        o.all_ready(job);
        o.pass(s(seconds));
        o.beats_but(&[]);
        o.all_succeed(job);
        assert_eq!(o.settled[&job], JobState::Finished);
    }

    let rules = Rules {
        policy: "PRICED".into(),
        ..Rules::default()
    };
    let bag = Bag {
        ranks: Some(Ranks::new(1, None)),
        ..Bag::new(Ranks::tasks(1), rules)
    };
    let offer = o.scheduler.width_offered(&bag, o.now).unwrap();
    let scaling = offer.scaling.expect("four runs teach something");

    assert_eq!((offer.runs, offer.choice), (4, Some(WidthChoice::Start(4))));
    for (hosts, seconds) in [(1, 400.0), (2, 200.0), (4, 100.0)] {
        let run_s = scaling.run_s(hosts);
        assert!((run_s / seconds).ln().abs() < 0.1, "{run_s} s on {hosts}");
    }

    // What a user says of a job counts more than what earlier ones took.
    let offer = o
        .scheduler
        .width_offered(
            &Bag {
                ranks: Some(known(1, 4, 9_000, 2.0)),
                ..bag
            },
            o.now,
        )
        .unwrap();
    assert_eq!(
        offer
            .scaling
            .map(|scaling| (scaling.work_s, scaling.speedup.parallelism())),
        Some((9_000.0, 2.0))
    );

    assert_eq!(offer.most, 2);
}

#[test]
fn a_waiting_gang_is_predicted_to_start_after_those_ahead_of_it() {
    let mut o = Office::of(3);
    let first = o.submit(known(2, 2, 200, 2.0), "AVG");
    o.all_ready(first);
    let second = o.submit(known(3, 3, 300, 3.0), "AVG");
    let third = o.submit(known(3, 3, 300, 3.0), "AVG");

    for passed in [0, 50] {
        let left = |whole: f64| whole - f64::from(passed);
        let starts = o.scheduler.predict_starts(&[second, third], o.now);
        for (job, start_s) in [(second, left(100.0)), (third, left(200.0))] {
            let found = starts[&job];
            let found_s = found.start.since(o.now).secs();
            assert!(
                (found_s / start_s).ln().abs() < 0.25,
                "{found_s}, not {start_s} s"
            );
            assert!(
                found.low <= found.start && found.start <= found.high,
                "{found:?}"
            );

            let finish = o
                .scheduler
                .predict_finish(job, o.now)
                .expect("its work is known");
            let after_s = finish.since(found.start).secs();
            assert!((after_s - 100.0).abs() < 1.0, "{after_s} s after its start");
        }
        o.pass(s(50));
        o.beats_but(&[]);
    }

    // One that takes longer than its user said is not done at once for ever.
    o.pass(s(50));
    o.beats_but(&[]);
    let late = o.scheduler.predict_start(second, o.now).expect("it waits");
    assert!(late.start.since(o.now) >= s(5), "{late:?}");
}

#[test]
fn ranks_have_limits_that_runs_on_as_many_hosts_teach_and_go_on_with_the_next() {
    let mut o = Office::of(2);
    let limits = |effects: &[Effect]| -> Vec<Option<Span>> {
        effects
            .iter()
            .filter_map(|effect| {
                if let Effect::Start { limit, .. } = effect {
                    Some(*limit)
                } else {
                    None
                }
            })
            .collect()
    };
    for seconds in [90, 95, 100, 105, 110, 300] {
        let job = o.submit(exactly(2), "AVG:limits=learned");
        o.all_ready(job);
        for (rank, (host, attempt)) in o.places(job) {
            let ran = s(seconds + u64::from(rank));
            o.send(events::succeeded(host, attempt, ran));
        }
    }

    let rules = Rules {
        policy: "AVG:limits=learned".into(),
        max_fails: Some(0),
        ..Rules::default()
    };
    let bag = Bag {
        ranks: Some(exactly(2)),
        ..Bag::new(Ranks::tasks(2), rules)
    };
    assert_eq!(
        o.scheduler.limits_offered(&bag).map(|limits| limits.runs),
        Some(6),
        "one run for each job"
    );
    o.jobs += 1;

    let job = JobId(o.jobs);
    let first = limits(&o.send(events::submitted(job, bag)));
    let limit = first[0].expect("a limit is learned");
    assert!(
        first.len() == 2 && (s(110)..s(300)).contains(&limit),
        "{first:?}"
    );
    o.all_ready(job);

    let again: Vec<Option<Span>> = (0..2)
        .flat_map(|rank| limits(&o.ends(job, rank, Outcome::TimedOut(limit))))
        .collect();
    assert!(
        again.len() == 2
            && again
                .iter()
                .all(|next| next.is_some_and(|next| next > limit)),
        "{again:?}"
    );

    o.all_succeed(job);
    assert_eq!(
        o.settled[&job],
        JobState::Finished,
        "who was killed at a limit has not failed"
    );

    let other = o.submit(exactly(1), "AVG:limits=learned");
    assert!(
        o.scheduler
            .learned_limits(other)
            .unwrap()
            .sequence
            .is_none(),
        "one host teaches nothing of two"
    );
}

/// Something that happens; what exactly follows from the state that it meets.
type Op = (u8, u16, u16);

/// Anything happens to a small office with jobs of ranks and bags in it.
fn happens(o: &mut Office, (kind, a, b): Op) {
    let hosts: Vec<HostId> = o.slots.keys().copied().collect();
    let host = hosts
        .get(a as usize % hosts.len().max(1))
        .copied()
        .unwrap_or(HostId(1));
    let held: Vec<AttemptId> = o
        .held
        .get(&host)
        .into_iter()
        .flat_map(|held| held.keys().copied())
        .collect();

    let attempt = held.get(b as usize % held.len().max(1)).copied();
    match (kind, attempt) {
        (0, _) if o.jobs < 12 => {
            let least = u32::from(a % 3) + 1;
            let policy = ["AVG", "PRED", "PRICED", "HEUR"][b as usize % 4];
            o.submit(known(least, least + u32::from(b % 3), 600, 3.0), policy);
        }
        (1, _) if o.jobs < 12 => drop(o.bag(u32::from(a % 4) + 1, |rules| {
            rules.priority = i32::from(b % 3) - 1;
        })),
        (2..=5, Some(attempt)) => {
            let phase = [Phase::Staging, Phase::Ready, Phase::Running][b as usize % 3];
            let ranks = o.formed.contains_key(&attempt.task.job);
            let begins = phase == Phase::Running && ranks;
            let there = o
                .held
                .get_mut(&host)
                .and_then(|held| held.get_mut(&attempt));
            if let Some(there) = there.filter(|there| !begins && **there != Phase::Running) {
                *there = if ranks { phase } else { Phase::Running };
            }
            let held = o.list(host);
            o.send(Event::AttemptsMoved { host, held });
        }
        (6..=8, Some(attempt)) => {
            let outcome = if b % 5 == 0 {
                Outcome::Exited(1)
            } else {
                Outcome::Succeeded
            };
            o.send(events::ended(host, attempt, outcome, s(9)));
        }
        (9, Some(attempt)) => drop(o.send(events::returned(host, vec![attempt]))),
        (10, _) => {
            o.send(Event::HostLeft { host });
            o.held.remove(&host);
            o.joins(host.0);
        }
        (11, _) => {
            let owner = if b.is_multiple_of(2) {
                OwnerState::Away
            } else {
                OwnerState::Present(YieldReason::Busy)
            };
            o.send(Event::OwnerChanged { host, owner });
        }
        (12, _) => drop(o.send(events::cancelled(JobId(u32::from(a % 12)), None))),
        (13, _) => {
            o.pass(s(u64::from(b % 90)));
            o.beats_but(&[]);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// The office's own checks hold after each step; and in the end, with every owner away, every
    /// job is settled: nothing that waits for hosts is left without, and nothing holds what it does
    /// not need.
    #[test]
    fn ranks_stay_together_and_every_job_ends(
        ops in proptest::collection::vec((0..14_u8, any::<u16>(), any::<u16>()), 1..150)
    ) {
        let mut o = Office::new();
        (1..=5).for_each(|host| drop(o.joins_with(host, 1 + host % 2)));
        ops.into_iter().for_each(|op| happens(&mut o, op));
        for host in 1..=5 {
            o.send(Event::OwnerChanged { host: HostId(host), owner: OwnerState::Away });
        }

        for _ in 0..200 {
            let open: Vec<JobId> = (1..=o.jobs).map(JobId).filter(|job| !o.settled.contains_key(job)).collect();
            if open.is_empty() {
                break;
            }
            for job in open {
                o.all_ready(job);
                o.all_succeed(job);
            }
            o.pass(s(30));
            o.beats_but(&[]);
        }

        for job in (1..=o.jobs).map(JobId) {
            let state = o.scheduler.job_state(job);
            let why = o.scheduler.explain(job);
            prop_assert!(o.settled.contains_key(&job), "job {} is {:?}: {:?}", job, state, why);
        }

        let idle = o.bag(20, |_| ());
        let slots: u32 = o.slots.values().sum();
        prop_assert_eq!(o.scheduler.live_attempts(idle).count() as u32, slots, "every slot is free again");
    }
}

#[test]
fn no_more_ranks_run_than_their_user_may_have_tasks() {
    let sharing = Sharing {
        most_running_each: Some(3),
        ..Sharing::default()
    };
    let settings = Settings {
        sharing: Some(sharing),
        ..Settings::default()
    };
    let mut o = Office::new();
    o.scheduler = Scheduler::new(settings, Incarnation(1));
    (1..=6).for_each(|host| drop(o.joins(host)));
    let first = o.submit(exactly(2), "AVG");
    let second = o.submit(exactly(2), "AVG");
    let many = o.submit(exactly(4), "AVG");
    let any = o.submit(Ranks::new(1, None), "AVG");
    let ranks = |o: &Office| [first, second, many, any].map(|job| o.places(job).len());
    assert_eq!(ranks(&o), [2, 0, 0, 1]);

    let why = o.scheduler.explain(many).expect("it waits").tasks;
    let told = "3 of your tasks run, this job starts 4 together, and the admin lets you run 3 at";
    assert!(why.iter().any(|(why, _)| why.contains(told)), "{why:?}");

    assert_eq!(o.all_ready(first), 2);
    o.all_succeed(first);
    o.pass(s(5));
    assert_eq!(ranks(&o), [0, 2, 0, 1]);
}
