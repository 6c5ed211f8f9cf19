//! Jobs of ranks over restarts of the master, and beside work that nobody waits for. What is not
//! here: who gets hosts while the master runs (`together`).

use common::attempt::{Outcome, Phase};
use common::job::Rules;
use common::view::JobState;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Ranks, Span, TaskId};
use scheduler::effect::EndReason;
use scheduler::event::{Bag, RestoredProgress, Tried};
use scheduler::{Effect, Event, Scheduler, Settings};

use super::office::{Office, exactly};
use super::world::s;
use crate::events;

#[test]
fn running_ranks_keep_their_hosts_over_a_restart() {
    let mut o = Office::of(0);
    let attempt = |index, number| AttemptId {
        task: TaskId::new(JobId(1), index),
        number,
        incarnation: Incarnation(1),
    };
    let live = |index: u32| Tried {
        live: vec![(attempt(index, 1), HostId(index + 1), true)],
        ..events::tried(index, 1)
    };

    let rules = Rules {
        policy: "AVG".into(),
        ..Rules::default()
    };
    let bag = Bag {
        ranks: Some(Ranks::new(1, Some(3))),
        ..Bag::new(Ranks::tasks(2), rules)
    };
    let progress = RestoredProgress {
        tried: vec![live(0), live(1)],
        attempts: 2,
        ..RestoredProgress::default()
    };

    o.jobs = 1;
    o.formed.insert(JobId(1), 2);
    o.send(events::restored(JobId(1), bag.clone(), progress));

    for index in 0..2 {
        o.held
            .entry(HostId(index + 1))
            .or_default()
            .insert(attempt(index, 1), Phase::Running);
    }
    o.slots.insert(HostId(2), 1);
    o.joins(1);
    o.joins(3);

    // How long a rank has run is not known before its host is back.
    for _ in 0..12 {
        o.pass(s(10));
        o.beats_but(&[2]);
    }
    assert_eq!(o.places(JobId(1))[&1], (HostId(2), attempt(1, 1)));
    o.joins(2);
    assert_eq!(o.places(JobId(1)).len(), 2);
    o.ends(JobId(1), 0, Outcome::Succeeded);

    let other = o.submit(exactly(2), "AVG");
    assert!(
        o.places(other).is_empty(),
        "the host of the rank that is done is still held"
    );
    o.ends(JobId(1), 1, Outcome::Succeeded);
    assert_eq!(o.places(other).len(), 2);

    let mut fresh = Office::of(2);
    fresh.send(Event::JobRestored {
        job: JobId(1),
        bag: Box::new(bag),
        progress: Box::default(),
    });
    assert_eq!(fresh.places(JobId(1)).len(), 2);
}

#[test]
fn after_a_restart_hosts_of_ranks_that_are_done_are_held_again() {
    let rank = TaskId::new(JobId(1), 1);
    let host = HostId(2);
    let attempt = AttemptId {
        task: rank,
        number: 1,
        incarnation: Incarnation(1),
    };
    let live = Tried {
        live: vec![(attempt, host, true)],
        ..events::tried(1, 1)
    };

    let rules = Rules {
        policy: "AVG".into(),
        ..Rules::default()
    };
    let bag = Bag {
        ranks: Some(exactly(2)),
        ..Bag::new(Ranks::tasks(2), rules)
    };
    let progress = RestoredProgress {
        finished: IdSet::from_range(0, 0),
        tried: vec![live],
        attempts: 2,
        done_on: vec![HostId(1)],
        ..RestoredProgress::default()
    };
    let restored = |progress: &RestoredProgress| {
        let mut o = Office::of(0);
        o.jobs = 1;
        o.send(events::restored(JobId(1), bag.clone(), progress.clone()));
        o.held
            .entry(host)
            .or_default()
            .insert(attempt, Phase::Running);
        o.joins(host.0);

        o
    };
    let mut o = restored(&progress);
    o.joins(1);

    let other = o.bag(1, |_| ());
    assert!(
        o.places(other).is_empty(),
        "the host of the rank that is done is held"
    );
    o.ends(JobId(1), 1, Outcome::Succeeded);
    assert_eq!(
        (o.settled[&JobId(1)], o.places(other).len()),
        (JobState::Finished, 1)
    );

    // A rank that is lost then goes on there, before anything else.
    let mut o = restored(&progress);
    o.joins(1);

    let other = o.bag(1, |_| ());
    o.loses(host.0);
    assert_eq!(
        (o.places(JobId(1))[&1].0, o.places(other).len()),
        (HostId(1), 0)
    );

    // A host that does not come back is not held for ever, and nothing is held for who has no rank
    // left that runs.
    let mut o = restored(&progress);
    o.loses(1);
    o.joins(1);

    let other = o.bag(1, |_| ());
    assert_eq!(o.places(other).len(), 1);

    let mut o = restored(&RestoredProgress {
        tried: Vec::new(),
        ..progress
    });
    o.held.clear();
    o.joins(1);
    assert_eq!(
        o.places(JobId(1)).len(),
        1,
        "it waits for one host as any other"
    );
}

/// A disclosed job of so many tasks.
fn disclosed(o: &mut Office, tasks: u32) -> JobId {
    o.jobs += 1;
    let rules = Rules {
        policy: "FCFSxFCFS".into(),
        ..Rules::default()
    };
    let bag = Bag {
        disclosed: true,
        ..Bag::new(IdSet::from_range(1, tasks), rules)
    };
    o.send(events::submitted(JobId(o.jobs), bag));

    JobId(o.jobs)
}

#[test]
fn ranks_take_the_places_of_work_that_nobody_waits_for_and_no_more_than_they_need() {
    let mut o = Office::of(4);
    let explored = disclosed(&mut o, 3);
    assert_eq!(o.places(explored).len(), 3);

    let before = o.scheduler.job_attempts(explored);
    let too_wide = o.submit(exactly(5), "AVG");
    assert_eq!(
        (o.places(too_wide).len(), o.places(explored).len()),
        (0, 3),
        "there are not so many hosts"
    );
    o.send(events::cancelled(too_wide, None));
    o.jobs += 1;

    let job = JobId(o.jobs);
    let rules = Rules {
        policy: "AVG".into(),
        max_fails: Some(0),
        ..Rules::default()
    };
    let bag = Bag {
        ranks: Some(exactly(3)),
        ..Bag::new(Ranks::tasks(3), rules)
    };
    let effects = o.send(events::submitted(job, bag));

    assert_eq!(
        (o.places(job).len(), o.places(explored).len()),
        (3, 1),
        "one host was free"
    );

    let gone: Vec<TaskId> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Ended {
                why: EndReason::Preempted { by, kept: false },
                ..
            } => Some(*by),
            _ => None,
        })
        .collect();
    assert!(
        gone.len() == 2 && gone.iter().all(|by| by.job == job),
        "{effects:?}"
    );

    let why = o.scheduler.explain(explored).unwrap().tasks;
    assert!(
        why.iter()
            .any(|(why, _)| why.contains("made room for task")),
        "{why:?}"
    );
    assert_eq!(before.map(|(attempts, _)| attempts), Some(3));
    o.all_ready(job);
    o.all_succeed(job);
    assert_eq!(o.places(explored).len(), 3, "it has them back");
}

#[test]
fn attempts_frozen_by_a_gang_resume_after_its_last_rank() {
    let mut o = Office::new();
    for host in 1..=2 {
        let offers = common::needs::Offers {
            frozen: 1,
            ..common::needs::Offers::default()
        };
        o.send(events::offered(HostId(host), offers));
        o.joins(host);
    }

    let explored = disclosed(&mut o, 2);
    (1..=2).for_each(|host| drop(o.moves(HostId(host), explored, Phase::Running)));

    let job = o.submit(exactly(2), "AVG");
    assert_eq!((o.places(job).len(), o.frozen()), (2, 2));
    o.all_ready(job);
    o.ends(job, 0, Outcome::Succeeded);
    assert_eq!(o.frozen(), 2, "the host is held to the end");
    o.ends(job, 1, Outcome::Succeeded);
    assert_eq!((o.settled[&job], o.frozen()), (JobState::Finished, 0));
}

#[test]
fn a_rank_that_lost_its_host_waits_for_one_and_needed_work_stays_where_it_is() {
    let mut o = Office::of(2);
    let needed = o.bag(1, |_| ());
    let job = o.submit(exactly(2), "AVG");
    assert_eq!((o.places(job).len(), o.places(needed).len()), (0, 1));
}

#[test]
fn a_host_with_a_rank_gets_nothing_ahead_of_its_slots_and_so_no_rank_goes_back_with_that() {
    let eager = Settings {
        max_prefetch: 1_000,
        ..Settings::default()
    };
    let mut o = Office {
        scheduler: Scheduler::new(eager, Incarnation(1)),
        ..Office::new()
    };
    o.joins_with(1, 2);
    o.joins(2);

    let job = o.submit(exactly(2), "AVG");
    let short = o.bag(1_000, |_| ());
    for _ in 0..20 {
        o.now = o.now + Span::from_millis(1);
        let (host, attempt) = *o
            .places(short)
            .values()
            .next()
            .expect("one has the slot that is left");

        // The office itself demands that no host holds more than its slots.
        o.send(events::succeeded(host, attempt, Span::from_millis(1)));
    }

    let ranks = o.places(job);
    o.pass(s(60));
    assert_eq!(o.places(job), ranks, "they wait until all are ready");
    o.send(events::cancelled(short, None));
    o.all_ready(job);
    o.all_succeed(job);

    assert_eq!(o.settled[&job], JobState::Finished);
}
