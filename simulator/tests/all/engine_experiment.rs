//! Experiments: the same on any number of threads, and true to their rows.

use simulator::experiment::{
    Contender, Day, DaySource, Generated, JobSize, Knowledge, PolicyGrid, Recorded, RunRow, Site,
    Summary, summarize,
};

use crate::grid::{Piece, always, trace};

const SMALL: [JobSize; 2] = [
    JobSize {
        tasks: 12,
        work_s: 120.0,
    },
    JobSize {
        tasks: 30,
        work_s: 300.0,
    },
];

fn contenders() -> Vec<Contender> {
    let optimum = Contender {
        label: "OPTIMAL".into(),
        policy: String::new(),
        checkpoint: false,
    };
    let kept = Contender {
        label: "kept".into(),
        checkpoint: true,
        ..Contender::named("DESKGRID")
    };

    [
        optimum,
        Contender::named("FCFS"),
        Contender::named("EXCL-PRED-TO"),
        Contender::named("DESKGRID"),
        kept,
    ]
    .into()
}

fn rows(seed: u64, threads: usize) -> (Vec<RunRow>, Vec<Summary>) {
    let sources: Vec<Generated> = ["sdsc", "gimps"]
        .map(|name| Generated::named(name, "default", seed, 30).expect("known names"))
        .to_vec();
    let known: Vec<Knowledge> = sources
        .iter()
        .map(|source| {
            source
                .knowledge(2, &SMALL, &contenders(), threads)
                .expect("days")
        })
        .collect();
    let parts = sources.iter().zip(&known);
    let sites = parts.map(|(source, knowledge)| Site {
        platform: "hosts".into(),
        model: "default".into(),
        source: source as &dyn DaySource,
        knowledge: Some(knowledge),
    });
    let grid = PolicyGrid {
        sites: sites.collect(),
        jobs: SMALL.to_vec(),
        contenders: contenders(),
        days: Day::spread(seed, 50, 5, 2),
        needs: None,
        foretell: true,
        seed,
        threads,
    };
    let rows = grid.rows().expect("policies that there are");
    let (_, summaries) = summarize(&grid, &rows);

    (rows, summaries)
}

#[test]
fn rows_do_not_depend_on_the_number_of_threads() {
    let one = rows(3, 1);
    assert_eq!(one.0.len(), 2 * 2 * 5 * 5);
    for threads in [2, 5, 16] {
        assert_eq!(one, rows(3, threads), "{threads} threads");
    }
    assert_ne!(one.0, rows(4, 1).0);
}

#[test]
fn no_policy_without_checkpoints_beats_the_optimum_on_generated_days() {
    for row in rows(5, 2).0.iter().filter(|row| row.contender < 4) {
        let took_s = row.makespan_s.expect("done");
        let best_s = row.optimal_s.expect("a long day");
        assert!(took_s >= best_s - 1e-4, "{row:?}");
    }
}

/// A grid of one trace, one start and one job.
fn one_start<'a>(
    source: &'a Recorded,
    job: JobSize,
    policies: &[&str],
    start_s: f64,
) -> PolicyGrid<'a> {
    let site = Site {
        platform: "hosts".into(),
        model: String::new(),
        source,
        knowledge: None,
    };
    PolicyGrid {
        sites: vec![site],
        jobs: vec![job],
        contenders: policies.iter().map(|name| Contender::named(name)).collect(),
        days: vec![Day {
            day: 0,
            starts_s: vec![start_s],
        }],
        needs: None,
        foretell: false,
        seed: 1,
        threads: 1,
    }
}

/// The runs of two tasks on two hosts whose course is this one.
fn on_two(pieces: &[Piece], policies: &[&str]) -> (Vec<RunRow>, Vec<Summary>) {
    let source = Recorded(trace(&[(1_500.0, pieces), (3_000.0, pieces)]));
    let job = JobSize {
        tasks: 2,
        work_s: 300.0,
    };
    let grid = one_start(&source, job, policies, 100.0);
    let rows = grid.rows().expect("policies that there are");
    let (_, summaries) = summarize(&grid, &rows);

    (rows, summaries)
}

#[test]
fn ratios_are_makespans_by_the_optimum() {
    let (rows, summaries) = on_two(&always(), &["FCFS"]);
    // The slower host needs 340 s for one task; the faster one does both in 380 s.
    assert!(
        (rows[0].makespan_s.expect("done") - 340.0).abs() < 1e-6,
        "{rows:?}"
    );
    assert!(
        (rows[0].optimal_s.expect("possible") - 340.0).abs() < 1e-6,
        "{rows:?}"
    );
    assert!((summaries[0].geo.value - 1.0).abs() < 1e-9 && summaries[0].unfinished == 0);
}

#[test]
fn an_impossible_run_is_an_unfinished_row() {
    let (rows, summaries) = on_two(&[(0.0, 9_000.0, -1.0)], &["FCFS", "DESKGRID"]);
    for row in &rows {
        assert_eq!(
            (row.makespan_s, row.optimal_s, row.ratio()),
            (None, None, None)
        );
    }
    assert!(
        summaries.iter().all(|summary| summary.unfinished == 1),
        "{summaries:?}"
    );
}

#[test]
fn a_policy_that_is_not_there_is_named() {
    let source = Recorded(trace(&[(1_500.0, &always())]));
    let grid = one_start(&source, SMALL[0], &["LOTTERY"], 0.0);
    assert!(
        grid.rows()
            .expect_err("no such policy")
            .to_string()
            .contains("LOTTERY")
    );
}

#[test]
fn a_start_after_the_end_of_the_trace_has_no_time_left_and_no_ratio() {
    let source = Recorded(trace(&[(1_500.0, &[(0.0, 5_000.0, 1.0)])]));
    let grid = one_start(&source, SMALL[0], &["FCFS"], 6_000.0);
    let rows = grid.rows().expect("a policy that there is");
    assert_eq!((rows[0].horizon_s, rows[0].makespan_s), (0.0, None));
    let (_, summaries) = summarize(&grid, &rows);
    assert!(summaries[0].geo.value.is_nan(), "{summaries:?}");
}
