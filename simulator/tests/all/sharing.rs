//! How users share desktops in the simulated world: one of them floods the grid, another comes with
//! bags of some size in the midst of it.

use scheduler::Sharing;
use simulator::experiment::{DaySource, Generated};
use simulator::world::{
    PreparedTrace, Run, RunJob, RunOutcome, Simulator, UserRequest, UserRequestKind,
};

const HOSTS: usize = 60;
const POLICIES: [&str; 4] = ["deskgrid", "FCFS", "EXCL-PRED-TO", "SRPTxFCFS"];
const BEGIN_S: f64 = 10.0 * 3_600.0;
/// The time at which the second user comes.
const LATER_S: f64 = BEGIN_S + 3_600.0;

fn bag(tasks: u32, policy: &str) -> RunJob<'_> {
    RunJob {
        tasks,
        work_s: 300.0,
        policy,
        checkpoint: false,
        disclosed: false,
        ranks: None,
        needs: None,
        after: &[],
        user: "ben",
    }
}

fn ask(at_s: f64, tasks: u32, policy: &str) -> UserRequest<'_> {
    UserRequest {
        at_s,
        what: UserRequestKind::Submit(bag(tasks, policy)),
    }
}

fn days() -> impl Iterator<Item = PreparedTrace> {
    let source = Generated::named("sdsc", "default", 1, HOSTS).expect("a platform and a model");
    (100..103).map(move |day| {
        PreparedTrace::new(&source.day(day).expect("generated days are there"))
            .expect("clock rates that hosts have")
    })
}

/// A run in which somebody floods the grid with 2,000 tasks, and these requests follow.
fn flooded(
    world: &PreparedTrace,
    policy: &str,
    asks: &[UserRequest<'_>],
    sharing: Option<&Sharing>,
) -> RunOutcome {
    let run = Run {
        asks,
        sharing,
        story: true,
        ..Run::new(BEGIN_S, 2_000, 300.0, policy)
    };
    Simulator::default()
        .run(world, &run)
        .expect("the job is taken")
}

/// The seconds for which each of two users had hosts while both had tasks that wait: from ten
/// minutes after the second one came until most of the second job's tasks had been started.
fn held_s(outcome: &RunOutcome) -> [f64; 2] {
    let of = |job: u32| outcome.story.iter().filter(move |own| own.job == job);
    let from_s = LATER_S - BEGIN_S + 600.0;
    let to_s = of(2).nth(480).expect("as many attempts").began_s;
    [1, 2].map(|job| {
        let held = of(job).map(|own| own.ended_s.min(to_s) - own.began_s.max(from_s));
        held.map(|held_s| held_s.max(0.0)).sum()
    })
}

#[test]
fn a_user_who_comes_late_has_the_part_that_is_due_beside_one_who_floods_the_grid() {
    for (world, policy) in days().flat_map(|day| POLICIES.map(|policy| (day.clone(), policy))) {
        for weight in [1.0, 3.0] {
            let sharing = Sharing {
                weights: [("ben".to_owned(), weight)].into(),
                ..Sharing::default()
            };
            let asks = [ask(LATER_S, 600, policy)];
            let [ann_s, ben_s] = held_s(&flooded(&world, policy, &asks, Some(&sharing)));
            let ratio = ben_s / ann_s / weight;
            assert!(
                (0.85..=1.1).contains(&ratio),
                "{policy}, weight {weight}: {ratio}"
            );
        }
    }
}

#[test]
fn small_bags_beside_a_flood_take_less_than_three_times_as_long_as_alone() {
    let sharing = Sharing::default();
    for (world, policy) in days().flat_map(|day| POLICIES.map(|policy| (day.clone(), policy))) {
        let asks: Vec<UserRequest<'_>> = (0..6)
            .map(|bag| ask(LATER_S + 1_800.0 * f64::from(bag), 10, policy))
            .collect();
        let turnaround_s = |outcome: &RunOutcome| -> f64 {
            let bags = outcome.settled_s[1..].iter().zip(&asks);
            bags.map(|(settled_s, ask)| settled_s.expect("it ends") - (ask.at_s - BEGIN_S))
                .sum()
        };
        let [shared_s, in_line_s] = [Some(&sharing), None]
            .map(|sharing| turnaround_s(&flooded(&world, policy, &asks, sharing)));
        let alone = Run {
            asks: &asks,
            ..Run::new(BEGIN_S, 1, 1.0, policy)
        };
        let alone_s = turnaround_s(&Simulator::default().run(&world, &alone).expect("taken"));
        assert!(
            shared_s < 3.0 * alone_s,
            "{policy}: {shared_s} s, and alone {alone_s} s"
        );
        assert!(
            in_line_s > 8.0 * shared_s,
            "{policy}: {shared_s} s, and in line {in_line_s} s"
        );
    }
}
