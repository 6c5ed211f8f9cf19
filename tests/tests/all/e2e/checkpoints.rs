//! A task's state outlives the PC that computed it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tests::{Grid, eventually, program};

const STEPS: &str = "60";

/// Submits the example that sums a series, with its state saved every second.
fn submit(grid: &Grid) -> String {
    let program = program("sum-series");
    let input = format!("{}:sum-series", program.display());
    let words = [
        "--checkpoint",
        "1s",
        "--policy",
        "FCFS",
        "--input",
        &input,
        "--",
        "./sum-series",
        STEPS,
        "150",
    ];
    grid.submit(words)
}

/// Waits until the newest attempt of the task has saved a state, and says which attempt that was.
fn saved(grid: &Grid, task: &str) -> Value {
    eventually("a state is saved", Duration::from_secs(60), || {
        let last = grid.attempts(task).pop()?;
        (last["checkpoint"]["bytes"].as_u64() > Some(0)).then_some(last)
    })
}

/// What the example prints: the steps that it went on from, and the sum.
fn printed(grid: &Grid, job: &str) -> (Vec<u64>, String) {
    let text = grid.text(["job", "cat", job, "stdout"]);
    let line = |begin| {
        text.lines()
            .find_map(|line| line.strip_prefix(begin))
            .expect("such a line")
    };

    (
        serde_json::from_str(line("went on from steps ")).expect("a list"),
        line("sum ").to_owned(),
    )
}

#[test]
fn a_task_whose_host_is_killed_twice_resumes_from_its_checkpoint() {
    let mut grid = Grid::start();
    for host in ["first", "second", "third"] {
        grid.worker(host).start();
    }

    let job = submit(&grid);
    let task = format!("{job}.1");
    for _ in 0..2 {
        let host = saved(&grid, &task)["host"]
            .as_str()
            .expect("a host")
            .to_owned();
        let before = grid.attempts(&task).len();
        grid.kill_worker(&host);
        eventually(
            "another attempt is started",
            Duration::from_secs(60),
            || (grid.attempts(&task).len() > before).then_some(()),
        );
    }

    grid.wait(&job);
    let tries = grid.attempts(&task);
    assert_eq!(tries.len(), 3, "{tries:?}");
    assert!(tries[0].get("started_from").is_none(), "{tries:?}");

    for (try_, from) in [(&tries[1], 1), (&tries[2], 2)] {
        assert_eq!(try_["started_from"]["attempt"], from, "{tries:?}");
        assert!(
            try_["started_from"]["bytes"].as_u64() > Some(0)
                && try_["started_from"]["saved"].is_string()
        );
    }

    let (resumed, sum) = printed(&grid, &job);
    assert!(
        matches!(resumed[..], [first, second] if 0 < first && first < second),
        "{resumed:?}"
    );

    let expected: f64 = (1..=60).fold(0.0, |sum, n| sum + f64::from(n).powi(-2));
    assert_eq!(sum, format!("{expected:.12}"));

    let told = grid.text(["task", "info", &task]);
    assert!(
        told.contains("started from state") && told.contains("of attempt 2"),
        "{told}"
    );
}

/// Changes one byte of every file of content that the master keeps.
fn damage_content(content: &Path) {
    for entry in walkdir::WalkDir::new(content)
        .into_iter()
        .flatten()
        .filter(|entry| entry.file_type().is_file())
    {
        let mut bytes = fs::read(entry.path()).expect("content can be read");
        // Programs and the like are left alone: only what is as short as a state and its list.
        if let (true, Some(byte)) = (bytes.len() < 1_000, bytes.first_mut()) {
            *byte ^= 1;
            fs::write(entry.path(), bytes).expect("content can be written");
        }
    }
}

#[test]
fn a_state_that_was_damaged_is_not_used_and_the_attempt_says_so() {
    let mut grid = Grid::start();
    grid.worker("first").start();

    let job = submit(&grid);
    let task = format!("{job}.1");
    saved(&grid, &task);
    grid.kill_worker("first");
    damage_content(&grid.state("admin").join("master").join("content"));
    grid.worker("second").start();
    grid.wait(&job);

    assert_eq!(printed(&grid, &job).0, [0; 0], "it began anew");
    let tries = grid.attempts(&task);
    let reason = tries[1]["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("from scratch") && tries[1].get("started_from").is_none(),
        "{tries:?}"
    );
}

#[test]
fn a_state_beyond_the_bounds_is_refused_with_its_reason_and_the_task_goes_on() {
    let mut grid = Grid::start();
    grid.worker("small")
        .config("checkpoint_limit_bytes = 1000\nconfinement = \"process\"\n")
        .start();

    let go = grid.dir().join("go");
    let script = format!(
        "head -c 5000 /dev/zero > $DESKGRID_CHECKPOINT_DIR/state; while [ ! -e {} ]; do sleep 0.05; done",
        go.display()
    );
    let job = grid.submit(["--checkpoint", "1s", "--", "sh", "-c", &script]);
    let problem = eventually("the refusal is on record", Duration::from_secs(60), || {
        grid.attempts(&format!("{job}.1")).pop()?["checkpoint_problem"]
            .as_str()
            .map(str::to_owned)
    });
    assert!(
        problem.contains("5000 bytes") && problem.contains("1000"),
        "{problem}"
    );
    fs::write(&go, "").expect("a file can be written");

    grid.wait(&job);
}
