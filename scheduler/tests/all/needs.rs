//! The needs of tasks beside a slot: processors, memory and graphics processors that are
//! counted, platforms and labels. What is not here: confinement and network (`explaining`).

use common::attempt::{Outcome, Phase};
use common::host::{OwnerState, YieldReason};
use common::job::Quorum;
use common::needs::{Capacity, Needs, Offers};
use common::platform::HostPlatform;
use common::view::{HostState, JobState};
use common::{AttemptId, HostId, IdSet, JobId, Ranks, Span};
use scheduler::effect::Refused;
use scheduler::event::Bag;
use scheduler::policy::catalogue;
use scheduler::{Effect, Event, GONE_AFTER};

use super::office::Office;
use super::world::{World, s, starts};
use crate::events;

/// The first attempt of this job on the host.
pub(super) fn first_of(w: &World, host: HostId, job: JobId) -> AttemptId {
    let books = w.books(host);
    let own = books.iter().find(|attempt| attempt.task.job == job);
    *own.expect("it runs")
}

fn needs(text: &str) -> Needs {
    Needs::parse([text]).expect("needs")
}

/// A PC with Linux that lends so many processors, so much memory and so many GPUs.
fn pc(cores: u32, memory_mib: u32, gpus: u32) -> Offers {
    Offers {
        platform: Some(HostPlatform::new("linux", "x86_64", "gnu 2.36")),
        capacity: Capacity {
            cores,
            memory_mib,
            gpus,
        },
        ..Offers::default()
    }
}

fn labelled(labels: &[&str], offers: Offers) -> Offers {
    let labels = labels.iter().map(|label| label.parse().expect("a label"));
    Offers {
        labels: labels.collect(),
        ..offers
    }
}

fn offers(w: &mut World, host: u32, offers: Offers) -> Vec<Effect> {
    w.send(events::offered(HostId(host), offers))
}

fn joins(w: &mut World, host: u32, slots: u32, lends: Offers) -> HostId {
    offers(w, host, lends);
    w.host(host).slots(slots).joins()
}

#[test]
fn short_tasks_are_prefetched_although_a_job_before_them_waits_for_another_host() {
    let mut w = World::new();
    let large = joins(&mut w, 1, 1, pc(1, 65_536, 0));
    let before = w.job(2).needs(needs("mem=32G")).submit();
    let small = joins(&mut w, 2, 1, pc(1, 4_096, 0));
    w.job(1_000).submit();
    let attempt = w.attempt_on(small);
    w.ends(small, attempt, Outcome::Succeeded, Span::from_millis(10));
    let held = w.books(small).len();
    assert!((9..=11).contains(&held), "100 ms of such tasks, not {held}");

    // It is still the first for the host for which it waits.
    let attempt = first_of(&w, large, before);
    w.ends(large, attempt, Outcome::Succeeded, s(60));
    assert_eq!(first_of(&w, large, before).task.index, 2);
}

#[test]
fn many_jobs_that_wait_for_large_hosts_have_room_saved_in_their_order() {
    for order in [[1, 1, 2, 2], [1, 2, 1, 2]] {
        let mut w = World::new();
        for host in [1, 2] {
            joins(&mut w, host, 2, pc(2, 8_192, 0));
        }
        let small = w.job(4).submit();
        let large: Vec<JobId> = (0..40)
            .map(|_| w.job(1).needs(needs("cpus=2")).submit())
            .collect();
        let later = w.job(40).submit();

        // One slot after the other gets free; what comes later takes none of them.
        for host in order.map(HostId) {
            let attempt = first_of(&w, host, small);
            w.ends(host, attempt, Outcome::Succeeded, s(60));
        }
        let run = [1, 2].map(|host| w.attempt_on(HostId(host)).task.job);
        assert_eq!(run, large[..2], "{order:?}");
        let counts = w.scheduler.job_counts(later).expect("it is there");
        assert_eq!(counts.waiting, 40, "{order:?}");
    }
}

#[test]
fn a_host_runs_as_many_tasks_as_fit_and_not_only_as_many_as_it_has_slots() {
    for (asked, fit) in [
        ("cpus=1", 4),
        ("cpus=2", 2),
        ("cpus=3", 1),
        ("mem=3G", 2),
        ("mem=2G,cpus=2", 2),
        ("gpu=1", 3),
        ("gpu=2", 1),
    ] {
        let mut w = World::new();
        let host = joins(&mut w, 1, 4, pc(4, 8_192, 3));
        let job = w.job(9).needs(needs(asked)).submit();
        assert_eq!(w.books(host).len(), fit, "{asked}");
        w.work_off();
        assert_eq!(w.job_state(job), JobState::Finished);
    }
}

#[test]
fn tasks_of_several_jobs_share_what_a_host_lends() {
    let mut w = World::new();
    let host = joins(&mut w, 1, 4, pc(4, 8_192, 0));
    let large = w.job(1).needs(needs("cpus=2,mem=6G")).submit();
    let other = w.job(1).needs(needs("mem=4G")).submit();
    let small = w.job(5).submit();

    // The second one waits for memory; small tasks have the two processors that are left.
    let held = |w: &World, job| w.books(host).iter().filter(|a| a.task.job == job).count();
    assert_eq!((held(&w, large), held(&w, other)), (1, 0));
    assert_eq!(w.host_state(host), HostState::Busy);

    let first = first_of(&w, host, large);
    w.succeeds(host, first);
    assert_eq!(held(&w, other), 1, "the memory is free again");
    w.work_off();
    assert_eq!(w.job_state(small), JobState::Finished);
}

#[test]
fn a_task_that_needs_several_processors_is_not_starved_by_smaller_ones() {
    let mut w = World::new();
    let host = joins(&mut w, 1, 4, pc(4, 8_192, 0));
    w.job(4).submit();
    let large = w.job(1).needs(needs("cpus=4")).submit();
    let small = w.job(100).submit();

    for _ in 0..4 {
        assert_eq!(w.job_state(large), JobState::Waiting);
        let attempt = w.books(host)[0];
        w.succeeds(host, attempt);
        let smaller = w.books(host).iter().any(|a| a.task.job == small);
        assert!(
            !smaller,
            "nothing smaller takes a processor that is saved for it"
        );
    }

    assert_eq!(w.attempt_on(host).task.job, large);
    w.work_off();
    assert_eq!(w.job_state(small), JobState::Finished);
}

#[test]
fn a_task_that_needs_several_processors_is_not_starved_where_many_pcs_idle_that_do_not_suit_it() {
    let mut w = World::new();
    for host in 2..=100 {
        joins(&mut w, host, 1, pc(1, 1_024, 0));
    }
    w.pass(s(3_600));
    let host = joins(&mut w, 1, 4, pc(4, 8_192, 0));
    w.job(4).needs(needs("mem=2G")).submit();
    let large = w.job(1).needs(needs("cpus=4")).submit();
    let small = w.job(100).needs(needs("mem=2G")).submit();

    for _ in 0..4 {
        let attempt = w.books(host)[0];
        w.succeeds(host, attempt);
        let smaller = w.books(host).iter().any(|a| a.task.job == small);
        assert!(!smaller, "its room is saved");
    }
    assert_eq!(w.attempt_on(host).task.job, large);
}

#[test]
fn a_task_that_waits_for_memory_leaves_the_processors_to_others() {
    let mut w = World::new();
    let host = joins(&mut w, 1, 4, pc(4, 8_192, 0));
    let large = w.job(3).needs(needs("mem=4G")).submit();
    assert_eq!(w.books(host).len(), 2, "the third one waits for memory");
    let small = w.job(1).submit();
    assert_eq!(w.books(host).len(), 3, "it takes none");
    let rival = w.job(1).needs(needs("mem=100M")).submit();

    let first = first_of(&w, host, large);
    w.succeeds(host, first);
    assert_eq!(w.job_state(rival), JobState::Waiting, "it comes behind");
    w.work_off();
    for job in [large, small, rival] {
        assert_eq!(w.job_state(job), JobState::Finished);
    }
}

#[test]
fn room_is_not_saved_where_the_task_never_fits_nor_longer_than_it_waits() {
    let mut w = World::new();
    let host = joins(&mut w, 1, 2, pc(2, 8_192, 0));
    w.job(1).submit();
    let large = w.job(1).needs(needs("cpus=4")).submit();
    w.job(10).submit();
    assert_eq!(w.books(host).len(), 2, "it never fits there");

    let other = joins(&mut w, 2, 4, pc(4, 8_192, 0));
    assert_eq!(w.attempt_on(other).task.job, large);
}

#[test]
fn hosts_without_the_platform_or_the_label_are_passed_over_until_one_has_it() {
    let mut w = World::new();
    let bare = joins(&mut w, 1, 4, pc(4, 8_192, 0));
    let job = w.job(1).needs(needs("os=linux,label=lab3")).submit();
    let windows = w.job(1).needs(needs("os=windows")).submit();
    let told = |w: &World, job| w.scheduler.explain(job).expect("it is there");

    assert_eq!(
        told(&w, job).tasks[0].0,
        "no host qualifies; 1 host: it does not have the label `lab3`"
    );
    assert_eq!(
        told(&w, windows).hosts[0].1,
        "passed over: its operating system is `linux`, and the job needs `windows`"
    );

    let effects = offers(&mut w, 1, labelled(&["lab3"], pc(4, 8_192, 0)));
    assert!(
        starts(&effects).is_empty(),
        "a host that joins says first what it offers"
    );
    let effects = w.send(Event::Tick);
    assert_eq!(starts(&effects).len(), 1);
    assert_eq!(w.attempt_on(bare).task.job, job);
}

#[test]
fn a_job_is_told_what_its_tasks_lack_on_each_host() {
    let mut w = World::new();
    joins(&mut w, 1, 4, pc(4, 8_192, 0));
    joins(&mut w, 2, 2, pc(2, 4_096, 0));
    w.job(3).submit();
    w.job(1).needs(needs("mem=6G")).submit();
    let large = w.job(1).needs(needs("cpus=2,mem=5G")).submit();

    let told = w.scheduler.explain(large).expect("it is there").hosts;
    assert!(
        told[0].1.contains("a task needs") && told[0].1.contains("5120 MiB of memory, of which"),
        "{told:?}"
    );
    assert_eq!(
        told[1].1,
        "passed over: it lends 4 GiB of memory, and a task needs 5 GiB"
    );
}

#[test]
fn why_no_host_could_ever_run_a_task_is_told_by_reason() {
    let mut w = World::new();
    let asked = needs("mem=16G,label=lab3");
    let one = Quorum::default();
    assert_eq!(
        w.scheduler.why_nowhere(&asked, one),
        None,
        "no host is known"
    );

    for host in 1..=3 {
        joins(&mut w, host, 4, pc(4, 8_192, 0));
    }
    joins(&mut w, 4, 4, labelled(&["lab3"], pc(4, 8_192, 0)));
    assert_eq!(
        w.scheduler.why_nowhere(&asked, one).as_deref(),
        Some(
            "no host qualifies; 3 hosts: it does not have the label `lab3`; it lends 8 GiB of memory, and a task needs 16 GiB; \
             1 host: it lends 8 GiB of memory, and a task needs 16 GiB"
        )
    );
    assert_eq!(w.scheduler.why_nowhere(&needs("mem=8G"), one), None);
}

#[test]
fn hosts_that_never_come_back_or_lack_what_a_task_needs_count_for_no_owner() {
    let lacks = |w: &World, asked: Needs| {
        let quorum = Quorum {
            size: 3,
            ..Quorum::default()
        };
        let why = w.scheduler.why_nowhere(&asked, quorum);
        why.is_some_and(|why| why.contains("all hosts that qualify belong to 2 owners"))
    };
    let mut w = World::new();
    for (host, gpus) in [(1, 1), (2, 1), (3, 0)] {
        joins(&mut w, host, 4, pc(4, 8_192, gpus));
    }
    assert!(lacks(&w, needs("gpu=1")) && !lacks(&w, Needs::default()));

    let third = HostId(3);
    w.send(Event::HostLeft { host: third });
    assert!(!lacks(&w, Needs::default()), "it may be switched on again");
    w.pass(GONE_AFTER + s(1));
    for host in [1, 2] {
        w.host(host).slots(4).joins();
    }
    assert!(lacks(&w, Needs::default()), "it was away for very long");

    w.host(3).slots(4).joins();
    assert!(!lacks(&w, Needs::default()));
    w.send(Event::HostRevoked { host: third });
    assert!(lacks(&w, Needs::default()));
}

#[test]
fn a_host_that_was_revoked_is_not_one_that_qualifies() {
    let mut w = World::new();
    joins(&mut w, 1, 4, pc(4, 8_192, 0));
    let only = joins(&mut w, 2, 4, pc(4, 8_192, 1));
    let why = |w: &World| w.scheduler.why_nowhere(&needs("gpu=1"), Quorum::default());
    assert_eq!(why(&w), None);

    w.send(Event::HostRevoked { host: only });
    let told = why(&w).expect("the other one has none");
    assert!(told.starts_with("no host qualifies; 1 host: "), "{told}");
}

#[test]
fn while_its_owner_shares_a_host_tasks_have_the_same_part_of_its_processors() {
    let mut w = World::new();
    offers(&mut w, 1, pc(8, 8_192, 0));
    let host = w
        .host(1)
        .slots(4)
        .owner(OwnerState::Sharing(YieldReason::InUse, 1))
        .joins();
    let large = w.job(1).needs(needs("cpus=3")).submit();
    assert_eq!(w.books(host), [], "two of eight processors are for tasks");

    let fits = w.job(1).needs(needs("cpus=2")).submit();
    assert_eq!(w.attempt_on(host).task.job, fits);
    w.owner_goes(host);
    assert_eq!(w.books(host).len(), 2);
    assert_eq!(w.job_state(large), JobState::Running);
}

#[test]
fn every_policy_keeps_to_what_hosts_lend_and_finishes_what_fits_somewhere() {
    for row in catalogue() {
        let mut w = World::new();
        let hosts = [
            joins(&mut w, 1, 4, pc(4, 2_048, 0)),
            joins(&mut w, 2, 2, labelled(&["lab3"], pc(4, 8_192, 1))),
            joins(&mut w, 3, 8, pc(8, 16_384, 0)),
        ];
        let draft = w.job(12).policy(row.name).estimate(s(60));
        let job = draft.needs(needs("cpus=3,mem=3G,os=linux")).submit();
        let small = w.job(20).submit();

        for _ in 0..400 {
            for host in hosts {
                let fits = [0, 1, 2][host.0 as usize - 1];
                let held = w.books(host);
                let large = held.iter().filter(|a| a.task.job == job).count();
                assert!(large <= fits, "{}: {large} on {host}", row.name);
                if let Some(attempt) = held.first() {
                    w.succeeds(host, *attempt);
                }
                w.beats(host);
            }
            w.pass(s(5));
        }

        assert_eq!(w.job_state(job), JobState::Finished, "{}", row.name);
        assert_eq!(w.job_state(small), JobState::Finished, "{}", row.name);
    }
}

#[test]
fn a_promise_counts_with_what_a_host_runs_at_a_time() {
    let mut w = World::new();
    joins(&mut w, 1, 4, pc(4, 8_192, 0));
    let draft = |w: &mut World, asked: &str, deadline| {
        let job = w.job(4).policy("PROMISE").estimate(s(100));
        job.deadline(deadline).needs(needs(asked)).asks().1
    };

    // One after the other takes 400 s, two at a time 200 s.
    let effects = draft(&mut w, "cpus=4", 300);
    let refused = effects.iter().any(|effect| {
        matches!(effect, Effect::JobRefused { why: Refused::TooLate { fits, .. }, .. } if fits.len() == 2)
    });
    assert!(refused, "{effects:?}");
    let effects = draft(&mut w, "mem=5G,gpu=1", 10_000);
    let nowhere = |effect: &Effect| {
        matches!(
            effect,
            Effect::JobRefused {
                why: Refused::NoHost,
                ..
            }
        )
    };
    assert!(effects.iter().any(nowhere), "{effects:?}");

    let effects = draft(&mut w, "cpus=2", 300);
    assert!(effects.contains(&Effect::JobAdmitted {
        job: common::JobId(3)
    }));
    assert_eq!(w.books(HostId(1)).len(), 2, "two at a time");
    let later = draft(&mut w, "cpus=2", 300);
    assert!(
        later.iter().any(|e| matches!(e, Effect::JobRefused { .. })),
        "the processors are promised: {later:?}"
    );
}

#[test]
fn a_requested_task_preempts_only_where_that_makes_room_enough() {
    let mut w = World::new();
    let small = joins(&mut w, 1, 2, pc(2, 4_096, 0));
    let large = joins(&mut w, 2, 2, pc(2, 8_192, 0));
    let ahead = w
        .job(4)
        .policy("FCFSxNEED")
        .disclosed()
        .needs(needs("mem=2G"))
        .submit();
    for host in [small, large] {
        w.moves(host, Phase::Running);
        assert_eq!(w.books(host).len(), 2);
    }

    // On the first host two would have to go; on the other one 4 of 8 GiB are free.
    let job = w.job(1).policy("FCFSxNEED").needs(needs("mem=5G")).submit();
    assert_eq!(w.books(small).len(), 2, "nothing is preempted in vain");
    let on_large = w.books(large);
    assert!(on_large.iter().any(|a| a.task.job == job), "{on_large:?}");
    assert!(on_large.iter().any(|a| a.task.job == ahead), "{on_large:?}");
}

#[test]
fn a_frozen_attempt_keeps_its_memory_and_leaves_its_processors() {
    let mut w = World::new();
    let lends = Offers {
        frozen: 1,
        ..pc(1, 4_096, 0)
    };
    let host = joins(&mut w, 1, 1, lends);
    let ahead = |w: &mut World| {
        let job = w.job(1).policy("FCFSxNEED").disclosed();
        job.needs(needs("mem=3G")).submit()
    };
    let first = ahead(&mut w);
    w.moves(host, Phase::Running);

    let little = w.job(1).policy("FCFSxNEED").needs(needs("mem=1G")).submit();
    let held = w.books(host);
    assert!(
        held.len() == 2 && held.iter().any(|a| a.task.job == little),
        "it is frozen, and a gigabyte is left: {held:?}"
    );
    let done = *held.iter().find(|a| a.task.job == little).expect("it runs");
    w.succeeds(host, done);
    w.moves(host, Phase::Running);

    // Frozen, it would be in the way: it ends.
    let much = w.job(1).policy("FCFSxNEED").needs(needs("mem=2G")).submit();
    assert_eq!(w.attempt_on(host).task.job, much);
    assert_eq!(w.job_state(first), JobState::Running);
}

#[test]
fn ranks_start_only_where_each_has_its_processors() {
    let mut o = Office::of(0);
    for host in 1..=3 {
        o.send(events::offered(
            HostId(host),
            pc(if host == 2 { 1 } else { 2 }, 4_096, 0),
        ));
        o.joins(host);
    }
    let bag = |ranks| {
        let mut rules = common::job::Rules {
            policy: "AVG".into(),
            ..Default::default()
        };
        rules.needs = needs("cpus=2");
        Bag {
            ranks: Some(Ranks::new(ranks, Some(ranks))),
            ..Bag::new(Ranks::tasks(ranks), rules)
        }
    };

    o.jobs = 2;
    let effects = o.send(events::submitted(common::JobId(1), bag(3)));
    assert!(starts(&effects).is_empty(), "only two hosts suit");
    let effects = o.send(events::submitted(common::JobId(2), bag(2)));
    let on: Vec<HostId> = starts(&effects).iter().map(|(host, ..)| *host).collect();
    assert_eq!(on, [HostId(1), HostId(3)]);
}

#[test]
fn a_restarted_master_counts_what_its_hosts_still_hold() {
    let mut w = World::new();
    let host = joins(&mut w, 1, 4, pc(4, 8_192, 0));
    let job = w.job(4).needs(needs("mem=4G")).submit();
    w.moves(host, Phase::Running);
    let held = w.held(host);
    assert_eq!(held.len(), 2);

    w.restart();
    offers(&mut w, 1, pc(4, 8_192, 0));
    let mut again = w.host(1).slots(4);
    for held in &held {
        again = again.holding(held.attempt, Phase::Running);
    }
    again.joins();
    assert_eq!(w.books(host).len(), 2, "8 GiB are taken");
    w.work_off();
    assert_eq!(w.job_state(job), JobState::Finished);
}

#[test]
fn a_host_that_lends_less_than_before_keeps_what_it_holds_and_gets_nothing_more() {
    let mut w = World::new();
    let host = joins(&mut w, 1, 4, pc(4, 8_192, 0));
    w.job(4).needs(needs("mem=2G")).submit();
    assert_eq!(w.books(host).len(), 4);

    offers(&mut w, 1, pc(4, 4_096, 0));
    w.send(Event::Tick);
    assert_eq!(w.books(host).len(), 4);
    let next = w.job(4).needs(needs("mem=2G")).submit();
    for _ in 0..3 {
        let attempt = w.books(host)[0];
        w.succeeds(host, attempt);
    }
    assert_eq!(w.books(host).len(), 2, "4 GiB at a time");
    let cancelled = IdSet::from_range(1, 4);
    w.send(events::cancelled(next, Some(cancelled)));
    assert_eq!(w.job_state(next), JobState::Cancelled);
}

#[test]
fn a_job_that_no_host_could_run_starts_once_one_comes_that_could() {
    let mut w = World::new();
    let host = w.host(1).joins();
    let job = w.job(2).needs(needs("label=lab3")).submit();
    w.job(3).submit();
    w.pass(s(60));
    assert!(w.books(host).iter().all(|attempt| attempt.task.job != job));

    let told = w.scheduler.explain(job).expect("a job");
    assert!(told.tasks[0].0.contains("no host qualifies"), "{told:?}");

    // Another host that does not, one that does, and the label for the first one.
    w.host(2).joins();
    let offers = Offers {
        labels: ["lab3".parse().expect("a label")].into(),
        ..Offers::default()
    };
    let own = |effects: &[Effect]| {
        starts(effects)
            .iter()
            .any(|(_, attempt, _)| attempt.task.job == job)
    };
    for id in [HostId(3), host] {
        w.send(events::offered(id, offers.clone()));
        if id == host {
            w.work_off();
        } else {
            let (_, effects) = w.host(3).joins_with();
            assert!(own(&effects), "{effects:?}");
        }
    }
    assert_eq!(w.job_state(job), JobState::Finished);
}
