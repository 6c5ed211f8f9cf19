//! The batch machine: the workload format, backfilling against plain restatements of its rules, and
//! the KTH-SP2 log's known figures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use simulator::batch::{
    Backfill, BatchJob, BatchOutcome, SwfLog, TabulatedLaw, conservative, easy, foretell, rounds,
};
use tempfile::TempDir;

fn job(submit: f64, processors: u32, run: f64, estimate: f64) -> BatchJob {
    BatchJob {
        submit,
        processors,
        run,
        limits: Arc::from([estimate]),
        law: None,
    }
}

fn starts(outcome: &BatchOutcome, jobs: usize) -> Vec<f64> {
    let start = |job| {
        outcome
            .stays
            .iter()
            .find(|stay| stay.job == job && stay.done)
            .map_or(f64::NAN, |stay| stay.from)
    };
    (0..jobs).map(start).collect()
}

#[test]
fn easy_lets_jobs_pass_that_do_not_delay_the_head() {
    let jobs = [
        job(0.0, 6, 10.0, 10.0),
        // The head: it can start at 10, and leaves 2 free then.
        job(1.0, 8, 5.0, 5.0),
        // Too long to end by 10, and too wide for what the head leaves.
        job(2.0, 3, 9.0, 9.0),
        // Ends by then.
        job(3.0, 4, 7.0, 7.0),
        // Longer, but no wider than what is left.
        job(10.0, 2, 50.0, 50.0),
    ];
    assert_eq!(
        starts(&easy(&jobs, 10), jobs.len()),
        [0.0, 10.0, 15.0, 3.0, 10.0]
    );
}

#[test]
fn conservative_backfilling_delays_nobody_and_moves_up_when_jobs_end_early() {
    let jobs = [
        job(0.0, 6, 10.0, 10.0),
        job(1.0, 8, 5.0, 5.0),
        // Under EASY it would pass the second one too; here it would only delay the third.
        job(2.0, 10, 5.0, 5.0),
        job(3.0, 2, 13.0, 13.0),
    ];
    assert_eq!(starts(&conservative(&jobs, 10), 4), [0.0, 10.0, 15.0, 20.0]);
    assert_eq!(starts(&easy(&jobs, 10), 4), [0.0, 10.0, 16.0, 3.0]);
    let mut early = jobs.to_vec();
    early[0].run = 4.0;
    assert_eq!(starts(&conservative(&early, 10), 4), [0.0, 4.0, 9.0, 14.0]);
}

#[test]
fn a_task_killed_at_its_limit_returns_with_the_next_limit() {
    let twice = BatchJob {
        limits: Arc::from([2.0, 6.0]),
        ..job(0.0, 1, 3.0, 0.0)
    };
    for outcome in [
        easy(std::slice::from_ref(&twice), 1),
        conservative(std::slice::from_ref(&twice), 1),
    ] {
        assert_eq!((outcome.ends.clone(), outcome.kills()), (vec![5.0], 1));
    }
}

fn workload() -> impl Strategy<Value = Vec<BatchJob>> {
    let law = Some(Arc::new(TabulatedLaw::new(
        "uniform:0,12".parse().expect("a law"),
    )));

    // Whole numbers make things happen at once, others make sums that are rounded.
    let whole = (0_u32..60, 1_u32..20, 0_u32..15)
        .prop_map(|(a, b, c)| (f64::from(a), f64::from(b), f64::from(c)));
    let any_time = prop_oneof![whole, (0.0..9.0_f64, 0.1..7.0_f64, 0.0..4.0_f64)];
    let one = (any_time, 1_u32..9, any::<bool>());
    prop::collection::vec(one, 1..60).prop_map(move |all| {
        let make = |((submit, run, more), processors, cut): ((f64, f64, f64), u32, bool)| {
            let limits = if cut {
                vec![run / 2.0, run + more]
            } else {
                vec![run + more]
            };
            BatchJob {
                limits: Arc::from(limits),
                law: law.clone(),
                ..job(submit, processors, run, 0.0)
            }
        };

        all.into_iter().map(make).collect()
    })
}

/// The most processors in use at any time.
fn most_used(outcome: &BatchOutcome) -> u32 {
    let at = |time: f64| {
        let there = outcome
            .stays
            .iter()
            .filter(|stay| stay.from <= time && time < stay.to);
        there.map(|stay| stay.processors).sum::<u32>()
    };
    outcome
        .stays
        .iter()
        .map(|stay| at(stay.from))
        .max()
        .unwrap_or(0)
}

proptest! {
    #[test]
    fn every_job_is_done_on_processors_that_there_are(jobs in workload()) {
        let fill = [Backfill::Nothing, Backfill::Fitting, Backfill::Speculative];
        let outcomes = [easy(&jobs, 8), conservative(&jobs, 8)].into_iter();
        for outcome in outcomes.chain(fill.map(|backfill| rounds(&jobs, 8, backfill))) {
            prop_assert!(most_used(&outcome) <= 8);
            for (number, job) in jobs.iter().enumerate() {
                let stays: Vec<_> = outcome.stays.iter().filter(|stay| stay.job == number).collect();
                prop_assert_eq!(stays.iter().filter(|stay| stay.done).count(), 1);
                let last = stays.last().expect("it ran");
                prop_assert!(last.done && last.to.to_bits() == outcome.ends[number].to_bits());
                prop_assert!((last.to - last.from - job.run).abs() < 1e-9);
                prop_assert!(stays.iter().all(|stay| stay.from >= job.submit));
                prop_assert!(stays.windows(2).all(|pair| pair[0].to <= pair[1].from));
            }
        }
    }
}

const HEAD: &str = "; Version: 2.2\n; MaxProcs: 100\n";

fn log(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("log.swf");
    std::fs::write(&file, text).expect("a file");
    (dir, file)
}

#[test]
fn a_log_is_read_with_unknown_fields_left_open() {
    let line = "  7  12  5 60.5  4 -1 -1  8 100 -1 1 3 3 -1 2 -1 -1 -1 99\n";
    let (_dir, file) = log(&format!(
        "{HEAD}\n{line}8 13 0 200 2 -1 -1 -1 100 -1 0 3 3 -1 2 -1 -1 -1\n"
    ));
    let read = SwfLog::read(&file).expect("a log");
    assert_eq!((read.processors, read.records.len()), (Some(100), 2));

    let first = read.records[0];
    assert_eq!(
        (first.job, first.submit_s, first.run_s, first.requested),
        (7, 12.0, Some(60.5), Some(8))
    );
    assert_eq!(
        (first.user, first.executable, first.status),
        (Some(3), None, Some(1))
    );

    let jobs = read.jobs(100);
    assert_eq!(
        (jobs[0].processors, jobs[0].run, jobs[0].limit(0)),
        (8, 60.5, 100.0)
    );

    // Allocated processors where none were asked for; a run ends at its estimate.
    assert_eq!((jobs[1].processors, jobs[1].run), (2, 100.0));
    assert_eq!(
        read.jobs(4).len(),
        1,
        "what is wider than the machine is left out"
    );
}

#[test]
fn a_log_says_how_large_its_machine_is_or_its_widest_job_does() {
    let narrow = "1 0 0 10 4 -1 -1 4 10 -1 1 1 1 -1 1 -1 -1 -1\n";
    let wide = "2 0 0 10 128 -1 -1 256 10 -1 1 1 1 -1 1 -1 -1 -1\n";
    let never = "3 0 0 -1 -1 -1 -1 999 10 -1 5 1 1 -1 1 -1 -1 -1\n";
    for (head, machine, too_wide) in [
        ("; MaxProcs: 64 (of 80)\n; MaxNodes: 16\n", 64, 1),
        ("; MaxNodes: 16\n; MaxProcs: -1\n", 16, 1),
        ("; MaxNodes: 300 in two halls\n", 300, 0),
        ("; Version: 2.2\n", 256, 0),
    ] {
        let (_dir, file) = log(&format!("{head}{narrow}{wide}{never}"));
        let read = SwfLog::read(&file).expect("a log");
        assert_eq!(read.machine(), machine, "{head}");
        assert_eq!(read.jobs(machine).len(), 2 - too_wide, "{head}");
        let foretold = foretell(&read);
        assert_eq!(foretold.processors, machine, "{head}");
        assert_eq!(foretold.left_out, too_wide, "{head}");
    }
}

#[test]
fn a_bad_log_is_refused_with_its_line_and_the_reason() {
    let refused = |text: &str| {
        let (_dir, file) = log(text);
        SwfLog::read(&file).expect_err(text).to_string()
    };
    let fine = "1 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n";
    for (text, words) in [
        (
            format!("{HEAD}{fine}1 2 3\n"),
            "line 4: 3 fields where a line of this format has 18",
        ),
        (
            format!("{HEAD}{}", fine.replace("10 1 -1", "ten 1 -1")),
            "line 3: run is \"ten\"",
        ),
        (
            format!("{HEAD}{}", fine.replace("1 0 0", "1 -5 0")),
            "line 3: submit is -5",
        ),
        (
            format!("{HEAD}{}", fine.replace("-1 1 10 ", "-1 1e12 10 ")),
            "line 3: requested_processors is 1e12",
        ),
        (HEAD.to_owned(), "no job"),
    ] {
        assert!(
            refused(&text).contains(words),
            "{words}: {}",
            refused(&text)
        );
    }

    assert!(SwfLog::read(Path::new("/nowhere/log.swf")).is_err());
}

/// The KTH-SP2 log, where it lies beside the project or where `DESKGRID_SHARED` says.
fn kth() -> Option<SwfLog> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("DESKGRID_SHARED").map_or_else(beside, PathBuf::from);
    let file = shared.join("data/swf/KTH-SP2_log.swf");
    if !file.is_file() {
        println!("SKIPPED: the KTH-SP2 log is not there: {}", file.display());
        return None;
    }
    Some(SwfLog::read(&file).expect("the log can be read"))
}

#[test]
fn easy_on_the_kth_log_has_the_known_flow_time_and_slowdown() {
    let Some(log) = kth() else { return };
    let jobs = log.jobs(100);
    assert_eq!((log.processors, jobs.len()), (Some(100), 28_481));
    assert_eq!((log.machine(), log.jobs(u32::MAX).len()), (100, 28_481));

    let outcome = easy(&jobs, 100);
    let flow = outcome.response(&jobs);
    let slowdown = outcome.bounded_slowdown(&jobs, 10.0);

    assert!(
        (flow / 15_695.0 - 1.0).abs() < 0.003,
        "average flow time {flow} s"
    );
    assert!(
        (slowdown / 92.6 - 1.0).abs() < 0.003,
        "average bounded slowdown {slowdown}"
    );
}
