//! The optimum: it is the reference's on the shared days, and what trying everything gives in small
//! worlds.

use proptest::prelude::*;
use simulator::oracle::Oracle;
use simulator::trace::{Segment, Trace};

use crate::trace::{shared, shared_day};

#[test]
fn the_optimum_is_the_reference_generators_to_a_millisecond() {
    for name in ["default-sdsc-0", "default-gimps-0"] {
        let Some(day) = shared_day(name) else { return };
        let text = std::fs::read_to_string(shared(name).join("optimal.csv")).expect("optimal.csv");
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(1)
            .map(|line| {
                line.split(',')
                    .map(|field| field.parse().expect("a number"))
                    .collect()
            })
            .collect();
        assert_eq!(rows.len(), 36, "{name}");

        for row in rows {
            let [start_s, tasks, work_s, cost_s, expected_s] = row[..] else {
                panic!("{row:?}")
            };
            let found_s = Oracle::new(&day, start_s, work_s, cost_s, 1)
                .makespan_s(tasks as u32)
                .expect("it ends");
            assert!(
                (found_s - expected_s).abs() < 1e-3,
                "{name} {row:?}: {found_s}"
            );
        }
    }
}

/// A host's stretches of whole seconds as (length, up, part of the processor).
type Pieces = Vec<(u32, bool, f64)>;

fn host(pieces: &Pieces) -> Vec<Segment> {
    let mut at_s = 0.0;
    let segment = |(length_s, up, cpu): &(u32, bool, f64)| {
        let start_s = at_s;
        at_s += f64::from(*length_s);
        Segment {
            start_s,
            end_s: at_s,
            up: *up,
            cpu: *cpu,
        }
    };
    pieces.iter().map(segment).collect()
}

/// When a task that starts at `at_s` is done, if it may start there and the host stays up.
fn attempt(segments: &[Segment], at_s: f64, cost_s: f64, cpu_s: f64) -> Option<f64> {
    segments
        .iter()
        .find(|s| s.start_s <= at_s && at_s < s.end_s && s.up && s.cpu >= 0.01)?;

    let mut left_s = cpu_s;
    let computes_s = at_s + cost_s;
    for segment in segments.iter().filter(|s| s.end_s > at_s) {
        if !segment.up {
            return None;
        }
        let from_s = segment.start_s.max(computes_s);
        let cpu = if segment.cpu < 0.01 { 0.0 } else { segment.cpu };
        if from_s < segment.end_s && left_s <= (segment.end_s - from_s) * cpu {
            return Some(from_s + if left_s > 0.0 { left_s / cpu } else { 0.0 });
        }
        left_s -= (segment.end_s - from_s).max(0.0) * cpu;
    }

    None
}

/// When one slot has done so many tasks at best, over every second at which it might start each of
/// them.
fn exhaustive(segments: &[Segment], from_s: f64, tasks: u32, cost_s: f64, cpu_s: f64) -> f64 {
    if tasks == 0 {
        return from_s;
    }
    let end_s = segments.last().map_or(0.0, |segment| segment.end_s);
    let seconds = (from_s.floor() as u32 + 1..end_s as u32).map(f64::from);
    let ends = std::iter::once(from_s)
        .chain(seconds)
        .filter_map(|at_s| attempt(segments, at_s, cost_s, cpu_s));
    ends.map(|done_s| exhaustive(segments, done_s, tasks - 1, cost_s, cpu_s))
        .fold(f64::INFINITY, f64::min)
}

/// The least time at which the slots have done all tasks between them, over every way to share the
/// tasks out.
fn shared_out(slots: &[(&[Segment], f64)], start_s: f64, tasks: u32, cost_s: f64) -> f64 {
    let Some(((segments, cpu_s), others)) = slots.split_first() else {
        return if tasks == 0 { start_s } else { f64::INFINITY };
    };
    let with = |mine| {
        let own_s = exhaustive(segments, start_s, mine, cost_s, *cpu_s);
        own_s.max(shared_out(others, start_s, tasks - mine, cost_s))
    };
    (0..=tasks).map(with).fold(f64::INFINITY, f64::min)
}

fn pieces() -> impl Strategy<Value = Pieces> {
    let piece = prop_oneof![
        4 => (1_u32..9, Just(true), Just(1.0)),
        2 => (1_u32..6, Just(true), Just(0.5)),
        2 => (1_u32..6, Just(true), prop_oneof![Just(0.0), Just(0.009)]),
        2 => (1_u32..6, Just(false), Just(0.0)),
    ];
    prop::collection::vec(piece, 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn trying_every_schedule_gives_the_optimum(
        worlds in prop::collection::vec((pieces(), prop_oneof![Just(1_500.0), Just(750.0), Just(3_000.0)]), 1..4),
        start in 0_u32..8, tasks in 1_u32..4, work in 1_u32..6, cost in 0_u32..4, slots in 1_u32..3,
    ) {
        let start_s = f64::from(start);
        let work_s = f64::from(work);
        let cost_s = f64::from(cost);
        let segments: Vec<_> = worlds.iter().map(|(pieces, _)| host(pieces)).collect();
        let clocks: Vec<f64> = worlds.iter().map(|(_, clock)| *clock).collect();
        let each = segments.iter().zip(&clocks).map(|(of, clock)| (&of[..], work_s * 1_500.0 / clock));
        let all: Vec<_> = each.flat_map(|slot| vec![slot; slots as usize]).collect();
        let expected_s = shared_out(&all, start_s, tasks, cost_s) - start_s;

        let trace = Trace::from_parts(clocks, segments.clone());
        let found_s = Oracle::new(&trace, start_s, work_s, cost_s, slots).makespan_s(tasks).unwrap_or(f64::INFINITY);
        prop_assert!(found_s == expected_s || (found_s - expected_s).abs() < 1e-9, "{found_s} against {expected_s}");
    }

    #[test]
    fn more_tasks_take_no_less_time(pieces in pieces(), work in 1_u32..4) {
        let trace = Trace::from_parts(vec![1_500.0, 700.0], vec![host(&pieces), host(&pieces)]);
        let oracle = Oracle::new(&trace, 0.0, f64::from(work), 1.0, 1);
        let times: Vec<_> = (0..8).map(|tasks| oracle.makespan_s(tasks).unwrap_or(f64::INFINITY)).collect();
        prop_assert!(times.is_sorted(), "{times:?}");
    }
}

#[test]
fn a_bag_longer_than_the_trace_has_no_optimum() {
    let short: Vec<_> = (0..20)
        .flat_map(|_| [(30, true, 1.0), (30, false, 0.0)])
        .collect();
    let trace = Trace::from_parts(
        vec![1_500.0; 2],
        vec![host(&short), host(&vec![(900, true, 0.005)])],
    );
    let optimum = |work_s, tasks| Oracle::new(&trace, 0.0, work_s, 10.0, 1).makespan_s(tasks);
    assert_eq!(optimum(20.0, 2), Some(90.0));
    assert_eq!(optimum(20.0, 20), Some(1_170.0));
    assert_eq!(optimum(20.0, 21), None);

    assert_eq!(optimum(20.5, 1), None);
    assert_eq!(
        Oracle::new(&trace, 5_000.0, 1.0, 0.0, 1).makespan_s(1),
        None,
        "after the trace's end"
    );
    assert_eq!(
        Oracle::new(&trace, 0.0, 1.0, 0.0, 0).makespan_s(1),
        None,
        "no slots"
    );
    assert_eq!(
        Oracle::new(&Trace::default(), 0.0, 1.0, 0.0, 1).makespan_s(1),
        None,
        "no hosts"
    );
    assert_eq!(optimum(1e12, 0), Some(0.0));
}

#[test]
fn a_task_pays_its_start_while_suspended_but_does_not_start_then() {
    // Suspended until 10; ready until 20; suspended until 100; ready.
    let pieces = vec![
        (10, true, 0.0),
        (10, true, 1.0),
        (80, true, 0.0),
        (100, true, 0.5),
    ];
    let trace = Trace::from_parts(vec![3_000.0], vec![host(&pieces)]);

    // From 10 to 50 it starts, at 100 it resumes, and a second of the processor takes two.
    assert_eq!(
        Oracle::new(&trace, 0.0, 2.0, 40.0, 1).makespan_s(1),
        Some(102.0)
    );

    // A second task starts where the first ended.
    assert_eq!(
        Oracle::new(&trace, 0.0, 2.0, 40.0, 1).makespan_s(2),
        Some(144.0)
    );
}

#[test]
fn no_task_starts_at_the_instant_of_a_suspension() {
    let trace = Trace::from_parts(
        vec![1_500.0],
        vec![host(&vec![
            (10, true, 1.0),
            (80, true, 0.0),
            (50, true, 1.0),
        ])],
    );
    let oracle = Oracle::new(&trace, 0.0, 5.0, 5.0, 1);
    assert_eq!(
        (oracle.makespan_s(1), oracle.makespan_s(2)),
        (Some(10.0), Some(100.0))
    );
}
