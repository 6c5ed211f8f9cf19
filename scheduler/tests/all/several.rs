//! Several tasks for which nobody waits make room for one that needs more of a host than any one of
//! them has. What is not here: one that makes room for one (`speculation`, `needs`).

use common::attempt::Phase;
use common::needs::{Capacity, Demand, Needs, Offers};
use common::view::JobState;
use common::{AttemptId, HostId, JobId};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use scheduler::Effect;
use scheduler::effect::EndReason;

use super::world::{World, s};
use crate::events;

fn takes(cores: u32, memory_mib: u32) -> Needs {
    let takes = Demand {
        cores,
        memory_mib,
        ..Demand::PLAIN
    };
    Needs {
        takes,
        ..Needs::default()
    }
}

/// A host with a slot for each processor that can hold so many frozen attempts.
fn joins(w: &mut World, id: u32, (cores, memory_mib): (u32, u32), frozen: u32) -> HostId {
    let capacity = Capacity {
        cores,
        memory_mib,
        gpus: 0,
    };
    let offers = Offers {
        frozen,
        capacity,
        ..Offers::default()
    };
    w.send(events::offered(HostId(id), offers));
    w.host(id).slots(cores).joins()
}

/// A disclosed job whose tasks run on all hosts where they fit.
fn explores(w: &mut World, tasks: u32, needs: Needs) -> JobId {
    let draft = w.job(tasks).policy("FCFSxNEED").disclosed();
    draft.needs(needs).submit()
}

/// A task for which somebody waits.
fn asks(w: &mut World, needs: Needs) -> (JobId, Vec<Effect>) {
    w.job(1).policy("FCFSxNEED").needs(needs).asks()
}

/// The attempts that were ended, and those that were frozen, to make room.
fn gave_way(effects: &[Effect]) -> (Vec<AttemptId>, Vec<AttemptId>) {
    let ended = effects.iter().filter_map(|effect| match effect {
        Effect::Stop {
            attempt,
            why: EndReason::Preempted { .. },
            ..
        } => Some(*attempt),
        _ => None,
    });
    let frozen = effects.iter().filter_map(|effect| match effect {
        Effect::Freeze { attempt, .. } => Some(*attempt),
        _ => None,
    });
    (ended.collect(), frozen.collect())
}

#[test]
fn as_many_small_tasks_make_room_as_a_large_one_needs_and_no_more() {
    let mut w = World::new();
    let host = joins(&mut w, 1, (4, 8_192), 0);
    let small = explores(&mut w, 4, Needs::default());
    w.moves(host, Phase::Running);

    let (large, effects) = asks(&mut w, takes(3, 0));
    assert_eq!(w.job_state(large), JobState::Running);
    let (ended, frozen) = gave_way(&effects);
    assert_eq!((ended.len(), frozen.len()), (3, 0), "{effects:?}");
    let left = w.books(host).into_iter();
    assert_eq!(left.filter(|a| a.task.job == small).count(), 1);
    w.work_off();
    assert_eq!(w.job_state(large), JobState::Finished);
}

#[test]
fn the_room_that_a_host_has_left_counts_with_that_of_small_tasks() {
    let mut w = World::new();
    let host = joins(&mut w, 1, (4, 8_192), 0);
    explores(&mut w, 3, Needs::default());
    w.moves(host, Phase::Running);

    let (large, effects) = asks(&mut w, takes(3, 0));
    assert_eq!(gave_way(&effects).0.len(), 2);
    assert_eq!(w.job_state(large), JobState::Running);
}

#[test]
fn small_tasks_are_frozen_and_go_on_after_the_large_one() {
    let mut w = World::new();
    let host = joins(&mut w, 1, (4, 8_192), 4);
    let small = explores(&mut w, 4, Needs::default());
    w.moves(host, Phase::Running);

    let (large, effects) = asks(&mut w, takes(4, 0));
    let (ended, frozen) = gave_way(&effects);
    assert_eq!((ended.len(), frozen.len()), (0, 4), "{effects:?}");
    let told = w.scheduler.explain(small).expect("a job").tasks;
    assert!(told[0].0.contains("made room for task"), "{told:?}");

    let books = w.books(host);
    let running = books.iter().find(|a| a.task.job == large).expect("it runs");
    let effects = w.succeeds(host, *running);
    let thawed = |effect: &&Effect| matches!(effect, Effect::Thaw { .. });
    assert_eq!(effects.iter().filter(thawed).count(), 4, "{effects:?}");
}

#[test]
fn what_would_stay_in_memory_is_ended_and_only_as_much_of_it_as_must_be() {
    let mut w = World::new();
    let host = joins(&mut w, 1, (4, 8_192), 4);
    explores(&mut w, 4, takes(1, 1_024));
    w.moves(host, Phase::Running);

    // All must leave their processors; two gibibytes can stay.
    let (large, effects) = asks(&mut w, takes(4, 6_144));
    let (ended, frozen) = gave_way(&effects);
    assert_eq!((ended.len(), frozen.len()), (2, 2), "{effects:?}");
    assert_eq!(w.job_state(large), JobState::Running);
}

#[test]
fn the_small_tasks_with_the_least_to_lose_make_room_for_a_large_one() {
    let mut w = World::new();
    let old = joins(&mut w, 1, (2, 8_192), 0);
    explores(&mut w, 2, Needs::default());
    w.moves(old, Phase::Running);
    w.pass(s(600));
    w.beats(old);
    let new = joins(&mut w, 2, (4, 8_192), 0);
    explores(&mut w, 4, Needs::default());
    w.moves(new, Phase::Running);
    w.pass(s(5));

    let (large, _) = asks(&mut w, takes(2, 0));
    assert!(w.books(new).iter().any(|a| a.task.job == large));
    assert_eq!(w.books(old).len(), 2);
}

#[test]
fn a_promised_task_gets_the_room_of_several() {
    let mut w = World::new();
    let host = joins(&mut w, 1, (4, 8_192), 0);
    explores(&mut w, 4, Needs::default());
    w.moves(host, Phase::Running);

    let draft = w.job(1).policy("PROMISE").estimate(s(100)).deadline(150);
    let (large, effects) = draft.needs(takes(4, 0)).asks();
    assert!(
        effects.contains(&Effect::JobAdmitted { job: large }),
        "{effects:?}"
    );
    assert_eq!(gave_way(&effects).0.len(), 4);
    assert_eq!(w.attempt_on(host).task.job, large);
}

/// Slots, processors and memory, taken by attempts or lent by a host.
type Sum = (u32, u32, u32);

fn fits(sum: Sum, lent: Sum) -> bool {
    sum.0 <= lent.0 && sum.1 <= lent.1 && sum.2 <= lent.2
}

/// The sum of what these take, and of what stays in memory of those that are frozen.
fn sum(of: impl Iterator<Item = (Demand, bool)>) -> Sum {
    of.fold((0, 0, 0), |(slots, cores, memory), (takes, frozen)| {
        let in_slot = u32::from(!frozen);
        (
            slots + in_slot,
            cores + in_slot * takes.cores,
            memory + takes.memory_mib,
        )
    })
}

type Size = (u32, u32);

fn sizes(cores: u32, half_gibs: u32) -> impl Strategy<Value = Size> {
    (1..=cores, 0..=half_gibs).prop_map(|(cores, half)| (cores, half * 512))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(2020),
        ..ProptestConfig::default()
    })]

    /// A task starts at once if it fits on some host without what nobody waits for, and then none
    /// has made room in vain.
    #[test]
    fn disclosed_tasks_make_room_for_any_task_that_fits_and_none_in_vain(
        lent in prop::collection::vec((sizes(6, 16), 0_u32..4), 1..4),
        jobs in prop::collection::vec((1_u32..6, sizes(3, 5)), 1..5),
        large in sizes(6, 16),
    ) {
        let mut w = World::new();
        let hosts: Vec<(HostId, Sum)> = (1..)
            .zip(&lent)
            .map(|(id, (size, frozen))| (joins(&mut w, id, *size, *frozen), (size.0, size.0, size.1)))
            .collect();
        let explored: Vec<(JobId, Demand)> = jobs
            .iter()
            .map(|(tasks, size)| {
                let needs = takes(size.0, size.1);
                (explores(&mut w, *tasks, needs.clone()), needs.takes)
            })
            .collect();
        let takes_of = |attempt: &AttemptId| {
            explored.iter().find(|(job, _)| *job == attempt.task.job).expect("a small task").1
        };
        for (host, _) in &hosts {
            w.moves(*host, Phase::Running);
        }

        let before: Vec<Vec<AttemptId>> = hosts.iter().map(|(host, _)| w.books(*host)).collect();
        let wanted = takes(large.0, large.1).takes;
        let beside = |attempts: &[AttemptId], frozen: &[AttemptId]| {
            let others = attempts.iter().map(|a| (takes_of(a), frozen.contains(a)));
            sum(others.chain([(wanted, false)]))
        };
        let idle = hosts.iter().zip(&before).any(|((_, lent), held)| fits(beside(held, &[]), *lent));
        let ever = hosts.iter().any(|(_, lent)| fits(beside(&[], &[]), *lent));

        let (job, effects) = asks(&mut w, takes(large.0, large.1));
        let (ended, frozen) = gave_way(&effects);
        let gone: Vec<AttemptId> = ended.iter().chain(&frozen).copied().collect();
        prop_assert_eq!(w.job_state(job) == JobState::Running, ever);
        prop_assert_eq!(gone.is_empty(), idle || !ever, "{:?}", effects);

        for ((_, lent), held) in hosts.iter().zip(&before) {
            let here: Vec<AttemptId> = gone.iter().filter(|a| held.contains(a)).copied().collect();
            prop_assert!(here.is_empty() || here.len() == gone.len(), "on one host: {:?}", gone);
            for needless in &here {
                let stay: Vec<AttemptId> =
                    held.iter().filter(|a| *a == needless || !here.contains(a)).copied().collect();
                prop_assert!(!fits(beside(&stay, &[]), *lent), "{needless} was in nobody's way");
            }
            if !here.is_empty() {
                let stay: Vec<AttemptId> = held.iter().filter(|a| !ended.contains(a)).copied().collect();
                prop_assert!(fits(beside(&stay, &frozen), *lent), "there is room for all");
            }
        }
    }
}
