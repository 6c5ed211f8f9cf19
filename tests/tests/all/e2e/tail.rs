//! Looking at what tasks print while they run.

use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tests::{Grid, clean, eventually};

/// A command whose output is read while it runs.
struct Reader {
    child: Child,
    seen: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    reading: Option<std::thread::JoinHandle<()>>,
}

impl Reader {
    /// Starts a command of the user's.
    fn start(grid: &Grid, args: &[&str]) -> Self {
        Self::telling(grid, args, Stdio::inherit())
    }

    /// The same, whose notes go there.
    fn telling(grid: &Grid, args: &[&str], notes: Stdio) -> Self {
        let mut command: Command = clean("deskgrid", grid.dir());
        command.arg("--dir").arg(grid.state("user")).args(args);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(notes)
            .spawn()
            .expect("it can be started");
        let seen = std::sync::Arc::default();
        let pipe = child.stdout.take().expect("piped");
        let reading = std::thread::spawn({
            let seen = std::sync::Arc::clone(&seen);
            move || read(pipe, &seen)
        });
        Self {
            child,
            seen,
            reading: Some(reading),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("no panic")).into_owned()
    }

    /// Waits until it has printed this.
    #[track_caller]
    fn until(&self, text: &str) {
        let look = || self.text().contains(text).then_some(());
        eventually(&format!("{text:?} is shown"), Duration::from_secs(30), look);
    }

    /// Waits for its end, and returns all that it printed.
    fn finish(mut self) -> String {
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", self.text());
        self.reading
            .take()
            .expect("reads")
            .join()
            .expect("reads to the end");
        self.text()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(mut pipe: ChildStdout, seen: &std::sync::Mutex<Vec<u8>>) {
    use std::io::Read;
    let mut piece = [0; 4_096];
    while let Ok(count @ 1..) = pipe.read(&mut piece) {
        seen.lock()
            .expect("no panic")
            .extend_from_slice(&piece[..count]);
    }
}

/// A script that prints, and goes on once the file `go` is there.
fn script(go: &Path) -> String {
    let go = go.display();
    format!("echo oops >&2; echo first; while ! test -e {go}; do sleep 0.05; done; echo last")
}

#[test]
fn what_a_task_prints_is_seen_while_it_runs_also_while_it_is_frozen_and_nothing_twice() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();
    let go = grid.dir().join("go");
    let bag = grid.submit(["--", "sh", "-c", &script(&go)]);

    let follows = Reader::start(&grid, &["job", "cat", &bag, "stdout", "1", "--follow"]);
    follows.until("first\n");
    grid.as_user("h1", ["worker", "pause"]).expect_code(0);
    grid.until("the task is frozen", &["job", "info", &bag], |j| {
        (j["tasks"]["suspended"] == 1).then_some(())
    });
    let task = format!("{bag}.1");
    let late = Reader::start(&grid, &["task", "tail", &task]);
    late.until("first\n");
    let errors = Reader::start(&grid, &["task", "tail", &task, "--stderr"]);
    errors.until("oops\n");

    std::fs::write(&go, "").expect("a file can be written");
    grid.as_user("h1", ["worker", "resume"]).expect_code(0);
    assert_eq!(follows.finish(), "first\nlast\n");
    assert_eq!(late.finish(), "first\nlast\n");
    assert_eq!(errors.finish(), "oops\n");

    // What is over comes from the result.
    let over = grid.deskgrid(["task", "tail", &task]).expect_code(0);
    assert_eq!(over.stdout, "first\nlast\n");
}

#[test]
fn whoever_looks_sees_the_next_attempt_when_one_is_lost_and_goes_on_after_a_master_was_killed() {
    let mut grid = Grid::start();
    grid.worker("doomed").unconfined().start();
    let go = grid.dir().join("go");
    let bag = grid.submit(["--", "sh", "-c", &script(&go)]);
    let args = ["--output", "json", "job", "cat", &bag, "stdout", "--follow"];
    let follows = Reader::start(&grid, &args);
    follows.until("first");

    grid.kill_master();
    grid.start_master();
    grid.kill_worker("doomed");
    grid.worker("heir").unconfined().start();
    follows.until("\"host\":\"heir\"");
    std::fs::write(&go, "").expect("a file can be written");
    let text = follows.finish();

    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |host: &str| -> String {
        let lines = lines.iter().filter(|line| line["host"] == host);
        lines.filter_map(|line| line["text"].as_str()).collect()
    };
    assert_eq!(
        (of("doomed"), of("heir")),
        ("first\n".into(), "first\nlast\n".into())
    );
    assert!(grid.attempts(&format!("{bag}.1")).len() >= 2);
}

#[test]
fn a_character_that_is_printed_in_two_parts_is_one_in_lines_of_json() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();
    let go = grid.dir().join("go");
    let script = format!(
        "printf 'a\\303'; while ! test -e {}; do sleep 0.05; done; printf '\\274b\\303'",
        go.display()
    );
    let bag = grid.submit(["--", "sh", "-c", &script]);
    let args = ["--output", "json", "job", "cat", &bag, "stdout", "--follow"];
    let follows = Reader::start(&grid, &args);
    follows.until("\"text\":\"a\"");
    std::fs::write(&go, "").expect("a file can be written");

    let text = follows.finish();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let shown: Vec<_> = lines
        .iter()
        .map(|line| (line["offset"].as_u64(), line["text"].as_str()))
        .collect();
    // What is begun at the end has no other part.
    assert_eq!(
        shown,
        [
            (Some(0), Some("a")),
            (Some(1), Some("\u{fc}b")),
            (Some(4), Some("\u{fffd}"))
        ]
    );
}

#[test]
fn tasks_that_are_followed_share_the_connection_that_was_made_again() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();
    let go = grid.dir().join("go");
    let bag = grid.submit(["--array", "1-3", "--", "sh", "-c", &script(&go)]);

    let notes = grid.dir().join("notes");
    let file = std::fs::File::create(&notes).expect("a file can be made");
    let args = ["job", "cat", &bag, "stdout", "--follow"];
    let follows = Reader::telling(&grid, &args, file.into());
    follows.until("first\n");
    grid.kill_master();
    grid.start_master();
    std::fs::write(&go, "").expect("a file can be written");

    assert_eq!(follows.finish(), "first\nlast\n".repeat(3));
    let notes = std::fs::read_to_string(&notes).expect("its notes");
    assert_eq!(notes.matches("connecting again").count(), 1, "{notes}");
}

#[test]
fn whoever_looks_is_told_that_the_task_was_cancelled() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();
    let go = grid.dir().join("go");
    let bag = grid.submit(["--", "sh", "-c", &script(&go)]);

    let notes = grid.dir().join("notes");
    let file = std::fs::File::create(&notes).expect("a file can be made");
    let args = ["job", "cat", &bag, "stdout", "--follow"];
    let follows = Reader::telling(&grid, &args, file.into());
    follows.until("first\n");
    grid.deskgrid(["job", "cancel", &bag]).expect_code(0);

    let shown = follows.finish();
    assert!(
        shown.starts_with("first\n") && !shown.contains("last"),
        "{shown}"
    );
    let notes = std::fs::read_to_string(&notes).expect("its notes");
    let cancelled = format!("{bag}.1 was cancelled");
    assert!(notes.contains(&cancelled), "{notes}");

    let late = grid.deskgrid(args).expect_code(0);
    assert!(late.stderr.contains(&cancelled), "{}", late.stderr);
    let plain = grid.deskgrid(["job", "cat", &bag, "stdout"]).expect_code(0);
    let nothing = format!("no task of job {bag} has left anything, and none runs any more");
    assert!(plain.stderr.contains(&nothing), "{}", plain.stderr);
}

#[test]
fn a_long_output_is_shown_whole_from_its_beginning() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();
    let go = grid.dir().join("go");
    let script = format!(
        "seq 1 100000; while ! test -e {}; do sleep 0.05; done; echo end",
        go.display()
    );
    let bag = grid.submit(["--", "sh", "-c", &script]);
    let tail = format!("{bag}.1");
    let newest = Reader::start(&grid, &["task", "tail", &tail]);
    newest.until("\n100000\n");
    let whole = Reader::start(&grid, &["job", "cat", &bag, "stdout", "--follow"]);
    whole.until("\n100000\n");
    std::fs::write(&go, "").expect("a file can be written");

    let numbers: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    assert!(
        whole.finish() == format!("{numbers}end\n"),
        "from the first byte"
    );
    assert!(newest.finish().ends_with("99999\n100000\nend\n"));
    assert!(grid.deskgrid(["task", "tail", &format!("{bag}.2")]).code != 0);
}
