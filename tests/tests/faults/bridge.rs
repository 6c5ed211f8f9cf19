//! Bridges between two grids: tasks of the one are computed by the other, each once and with its whole
//! result, whatever dies in between.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::BlobRef;
use common::content::BlobHash;
use serde_json::Value;
use tests::{Grid, Started, eventually};

use super::worker;

/// The longest that anything here may take.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// A lease that does not run out within a test: what ends an attempt then is not its lease.
pub(super) const MASTER: &str = "heartbeat = \"1s\"\nsuspect_after = \"30s\"\nlease = \"10m\"\n";

/// Two grids and the bridge from the first to the second.
pub(super) struct Bridged {
    /// The grid whose user submits. It has no workers.
    pub(super) from: Grid,
    /// The grid that computes.
    pub(super) to: Grid,
    slots: u32,
    process: Started,
}

impl Bridged {
    /// Grids of which the second has a worker with so many slots, and a bridge with so many.
    pub(super) fn start(there: u32, slots: u32) -> Self {
        Self::start_with(MASTER, there, slots)
    }

    /// The same, the second grid's master with this configuration.
    fn start_with(to: &str, there: u32, slots: u32) -> Self {
        let from = Grid::with_master(MASTER);
        let mut to = Grid::with_master(to);
        worker(&mut to, "pc", there).start();
        to.login("bridge");
        let token = from.token("worker");
        let slots_word = slots.to_string();
        let words = [
            "bridge",
            "start",
            "--slots",
            &slots_word,
            "--name",
            "bridge",
        ];
        let joins = ["--master", from.listen(), "--join", &token];
        let process = to.server("bridge", words.iter().chain(&joins));
        let bridged = Self {
            from,
            to,
            slots,
            process,
        };
        bridged.until_host_is("ready");
        bridged
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    pub(super) fn start_again(&mut self) {
        let slots = self.slots.to_string();
        let words = ["bridge", "start", "--slots", &slots];
        self.process = self.to.server("bridge", words);
    }

    /// The directory of the bridge.
    fn dir(&self) -> PathBuf {
        self.to.state("bridge").join("bridge")
    }

    /// Waits until the first grid sees the bridge in this state; returns its reason.
    fn until_host_is(&self, state: &str) -> String {
        self.from.until(state, &["host", "list"], |told| {
            let hosts = told["hosts"].as_array()?;
            let host = hosts.iter().find(|host| host["host"] == "bridge")?;
            let reason = host["reason"].as_str().unwrap_or_default().to_owned();
            (host["state"] == state).then_some(reason)
        })
    }

    /// The jobs of the bridge in the second grid.
    pub(super) fn jobs_there(&self) -> Vec<Value> {
        let done = self
            .to
            .as_user("bridge", ["--output", "json", "job", "list", "--all"]);
        let told = done.expect_code(0).json();
        told["jobs"].as_array().expect("jobs").clone()
    }

    /// Waits until so many jobs of the second grid are in this state.
    pub(super) fn until_there(&self, state: &str, count: usize) {
        eventually(&format!("{count} jobs there are {state}"), LONG, || {
            let jobs = self.jobs_there();
            let so = jobs.iter().filter(|job| job["state"] == state).count();
            (so == count).then_some(())
        });
    }

    /// Waits for a job of the first grid, which ends with this exit code.
    pub(super) fn wait(&self, job: &str, code: i32) {
        self.from
            .deskgrid(["job", "wait", job, "--timeout", "100s"])
            .expect_code(code);
    }

    /// Submits tasks that note their start, wait for the file `go`, and print a line.
    fn held(&self, tasks: u32) -> HeldTasks {
        HeldTasks::submit(&self.from, self.to.dir(), tasks)
    }
}

/// Tasks that wait for a word of the test.
pub(super) struct HeldTasks {
    pub(super) job: String,
    dir: PathBuf,
}

impl HeldTasks {
    /// Submits them, with their files in this directory.
    pub(super) fn submit(from: &Grid, dir: &Path, tasks: u32) -> Self {
        let script = format!(
            "echo $DESKGRID_TASK_ID >> {0}/begun; until test -e {0}/go; do sleep 0.05; done; echo done $DESKGRID_TASK_ID",
            dir.display()
        );
        let array = format!("1-{tasks}");
        let job = from.submit(["--array", &array, "--", "sh", "-c", &script]);
        let dir = dir.to_owned();
        Self { job, dir }
    }

    /// The tasks that have begun, once for each time.
    fn begun(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("begun")).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }

    pub(super) fn until_begun(&self, count: usize) {
        eventually("tasks have begun", LONG, || {
            (self.begun().len() >= count).then_some(())
        });
    }

    pub(super) fn go(&self) {
        fs::write(self.dir.join("go"), "").expect("a file can be written");
    }

    /// Whether each of so many tasks has begun once, and its result has come.
    pub(super) fn expect_once(&self, bridged: &Bridged, tasks: u32) {
        self.expect_once_in(&bridged.from, tasks);
        assert_eq!(bridged.jobs_there().len(), tasks as usize, "a job for each");
    }

    /// The same, without a look at the other grid.
    pub(super) fn expect_once_in(&self, from: &Grid, tasks: u32) {
        from.wait(&self.job);
        let mut all: Vec<String> = (1..=tasks).map(|task| task.to_string()).collect();
        all.sort_unstable();
        assert_eq!(self.begun(), all);
        let printed = from.text(["job", "cat", &self.job, "stdout"]);
        let lines: BTreeSet<&str> = printed.lines().collect();
        assert_eq!(
            (lines.len(), printed.lines().count()),
            (all.len(), all.len())
        );
    }
}

/// The reason of the newest attempt of a task.
pub(super) fn why(grid: &Grid, task: &str) -> String {
    let told = grid.json(["task", "info", task]);
    let attempts = told["attempts"].as_array().expect("attempts");
    let last = attempts.last().expect("an attempt");
    last["reason"].as_str().unwrap_or_default().to_owned()
}

/// The files of this name below a directory.
pub(super) fn files_named(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_named(&path, name));
        } else if path.ends_with(name) {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_bag_of_one_grid_is_computed_by_another_and_comes_back_byte_for_byte() {
    let bridged = Bridged::start(2, 2);
    let from = &bridged.from;
    let size = 3_000_000;
    let input = from.file("in.bin", vec![7; size]);
    let tree = from.file("tree/deep/word.txt", "tree\n");
    let tree = tree.parent().and_then(Path::parent).expect("two above");
    let script = "cat tree/deep/word.txt; echo to stderr >&2; cat in.bin > out/copy.bin; echo $DESKGRID_TASK_ID >> out/copy.bin";
    let submit = || {
        let words = [
            "--array",
            "1-6",
            "--input",
            input.to_str().unwrap(),
            "--input-tree",
            tree.to_str().unwrap(),
            "--output-file",
            "out/copy.bin",
            "--",
            "sh",
            "-c",
            &format!("mkdir out; {script}"),
        ];
        let job = from.submit(words);
        bridged.wait(&job, 0);
        job
    };

    let job = submit();
    let printed = from.text(["job", "cat", &job, "stdout"]);
    assert_eq!(printed, "tree\n".repeat(6));
    let sent = from.metrics();
    let line = sent
        .lines()
        .find_map(|line| line.strip_prefix("deskgrid_content_sent_bytes_total{by=\"master\"}"));
    let sent: usize = line.expect("a number").trim().parse().expect("a number");
    assert!((size..size + 20_000).contains(&sent), "once, {sent} bytes");

    let fetched = from.fetch(&job, "results");
    let copies = files_named(&fetched, "copy.bin");
    let ends: BTreeSet<Vec<u8>> = copies
        .iter()
        .map(|path| {
            let content = fs::read(path).expect("it was fetched");
            assert!(content[..size].iter().all(|byte| *byte == 7));
            content[size..].to_vec()
        })
        .collect();
    let expected: BTreeSet<Vec<u8>> = (1..=6).map(|n| format!("{n}\n").into_bytes()).collect();
    assert_eq!((ends, copies.len()), (expected, 6));

    let told = from.json(["task", "info", &format!("{job}.1")]);
    assert_eq!(told["attempts"][0]["host"], "bridge");
    assert_eq!(told["attempts"].as_array().map(Vec::len), Some(1));
    assert_eq!(bridged.jobs_there().len(), 6);
}

#[test]
fn a_failure_in_the_other_grid_is_told_with_its_exit_code_or_its_reason() {
    let bridged = Bridged::start(1, 1);
    let from = &bridged.from;
    let ends = |words: &[&str]| {
        let job = from.submit(words);
        bridged.wait(&job, 3);
        let told = from.json(["task", "info", &format!("{job}.1")]);
        let last = told["attempts"]
            .as_array()
            .expect("attempts")
            .last()
            .cloned();
        (last.expect("an attempt"), job)
    };

    let (attempt, job) = ends(&["--", "sh", "-c", "echo sorry >&2; exit 7"]);
    assert_eq!(attempt["exit_code"], 7, "{attempt}");
    let said = from.deskgrid(["job", "cat", &job, "stderr"]).expect_code(0);
    assert_eq!(said.stdout, "sorry\n");

    for (words, reason) in [
        (
            &["--", "sh", "-c", "kill -9 $$"][..],
            "ended by signal 9 (SIGKILL)",
        ),
        (
            &["--output-file", "none.txt", "--", "true"],
            "its expected output `none.txt` is missing",
        ),
        (
            &["--timeout", "1s", "--", "sleep", "600"],
            "killed at its time limit of 1.0s",
        ),
        (&["--", "no-such-program"], "could not be started: "),
    ] {
        let (attempt, _) = ends(words);
        let why = attempt["reason"].as_str().unwrap_or_default();
        assert!(why.contains(reason), "{words:?}: {attempt}");
    }
}

#[test]
fn a_cancelled_task_ends_in_the_other_grid() {
    let bridged = Bridged::start(2, 1);
    let tasks = bridged.held(2);
    tasks.until_begun(1);
    bridged
        .from
        .deskgrid(["job", "cancel", &tasks.job])
        .expect_code(0);
    bridged.until_there("cancelled", 1);
    bridged.until_host_is("ready");
    assert_eq!(
        bridged.jobs_there().len(),
        1,
        "the other one never went there"
    );
}

#[test]
fn a_bridge_uses_no_more_slots_of_the_other_grid_than_it_may() {
    let bridged = Bridged::start(4, 2);
    let tasks = bridged.held(5);
    tasks.until_begun(2);
    bridged.from.until("two run", &["job", "list"], |told| {
        (told["jobs"][0]["tasks"]["running"] == 2).then_some(())
    });
    assert_eq!(bridged.jobs_there().len(), 2, "though there are four slots");
    tasks.go();
    tasks.expect_once(&bridged, 5);
}

#[test]
fn a_bridge_that_dies_between_a_submission_and_its_note_finds_the_same_job_again() {
    let mut bridged = Bridged::start(1, 1);
    // A pipe without a reader holds whoever opens it to write: the bridge stands just before its note.
    let log = bridged.dir().join("submitted");
    let _ = fs::remove_file(&log);
    let made = Command::new("mkfifo").arg(&log).status();
    assert!(made.expect("mkfifo").success());

    let tasks = bridged.held(1);
    tasks.until_begun(1);
    bridged.kill();
    assert!(fs::remove_file(&log).is_ok(), "no note was written");

    bridged.start_again();
    tasks.go();
    tasks.expect_once(&bridged, 1);
    assert!(fs::read_to_string(&log).expect("a note").ends_with(" 1\n"));
}

#[test]
fn a_bridge_that_is_killed_finds_its_tasks_again_and_nothing_runs_twice() {
    let mut bridged = Bridged::start(3, 3);
    let tasks = bridged.held(5);
    tasks.until_begun(3);
    bridged.kill();
    bridged.start_again();
    bridged.until_host_is("busy");

    // Now some end while there is no bridge.
    bridged.kill();
    tasks.go();
    bridged.until_there("finished", 3);
    bridged.start_again();
    tasks.expect_once(&bridged, 5);
    let left = fs::read_dir(bridged.dir().join("attempts")).expect("a directory");
    assert_eq!(left.count(), 0, "nothing is noted of what has ended");
    let lost = bridged.from.json(["host", "list"]);
    assert_eq!(lost["hosts"][0]["lost"], 0, "{lost}");
}

#[test]
fn results_wait_at_the_bridge_while_the_first_grid_is_away() {
    let mut bridged = Bridged::start(2, 2);
    let tasks = bridged.held(2);
    tasks.until_begun(2);
    bridged.from.kill_master();
    tasks.go();
    bridged.until_there("finished", 2);
    bridged.kill();
    bridged.start_again();
    bridged.from.start_master();
    tasks.expect_once(&bridged, 2);
}

#[test]
fn what_has_come_of_a_result_stays_over_breaks_and_only_the_rest_is_fetched() {
    let mut bridged = Bridged::start(1, 1);
    let go = bridged.to.dir().join("go");
    let script = format!(
        "until test -e {}; do sleep 0.05; done; seq 500000 > a; echo small > b",
        go.display()
    );
    let words = ["--output-file", "a", "--output-file", "b", "--"];
    let command = ["sh", "-c", &script];
    let job = bridged.from.submit(words.iter().chain(&command));
    bridged.until_there("running", 1);

    // The second file cannot come: a directory is where it is to be written.
    let hash = BlobHash(*blake3::hash(b"small\n").as_bytes());
    let path = bridged.dir().join(format!("incoming/{job}.1-1-{hash}"));
    let stands_there = link::content::part_of(&path, &BlobRef { hash, size: 6 });
    fs::create_dir(&stands_there).expect("a directory can be made");
    fs::write(&go, "").expect("a file can be written");
    let until_tried = |times: usize| {
        eventually(&format!("it was tried {times} times"), LONG, || {
            let said = fs::read_to_string(bridged.to.dir().join("bridge.log")).ok()?;
            let failed = said.matches("an attempt does not come on").count();
            (failed >= times).then_some(())
        });
    };
    until_tried(1);

    // The other grid has the first file no more: whoever fetches it anew gets no result.
    let whole: String = (1..=500_000).map(|n| format!("{n}\n")).collect();
    let first = blake3::hash(whole.as_bytes()).to_string();
    let content = bridged.to.state("admin").join("master/content");
    fs::remove_file(content.join(&first[..2]).join(&first[2..])).expect("the result is there");
    until_tried(3);

    // Neither is anything begun anew after a connection that has broken off.
    bridged.to.kill_master();
    bridged.to.start_master();
    fs::remove_dir(&stands_there).expect("it is there");
    bridged.wait(&job, 0);
    let fetched = bridged.from.fetch(&job, "results");
    let [a, b] = ["a", "b"].map(|name| fs::read(&files_named(&fetched, name)[0]));
    assert_eq!(a.expect("it was fetched"), whole.as_bytes());
    assert_eq!(b.expect("it was fetched"), b"small\n");
    assert_eq!(bridged.jobs_there().len(), 1, "it was computed once");
}

#[test]
fn while_the_other_grid_is_away_nothing_is_begun_and_what_runs_is_found_again() {
    let mut bridged = Bridged::start(2, 2);
    let tasks = bridged.held(4);
    tasks.until_begun(2);
    bridged.to.kill_master();
    let reason = bridged.until_host_is("suspended");
    assert_eq!(reason, "other-grid-away");

    bridged.to.start_master();
    bridged.until_host_is("busy");
    tasks.go();
    tasks.expect_once(&bridged, 4);
    let told = bridged.from.json(["task", "list", &tasks.job]);
    let failed = |task: &Value| task["attempts"].as_array().map(Vec::len) != Some(1);
    let more = told["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .filter(|task| failed(task));
    assert_eq!(more.count(), 0, "{told}");
}

#[test]
fn a_limit_of_the_other_grid_is_told_in_its_words_and_costs_no_task_a_try() {
    let limited = format!("{MASTER}[limits]\nopen_jobs_per_user = 1\n");
    let bridged = Bridged::start_with(&limited, 2, 2);
    let first = bridged.held(1);
    first.until_begun(1);
    let second = bridged.from.submit(["--", "true"]);

    let said = "the other grid says: bridge has 1 jobs that are not settled";
    let reason = bridged.until_host_is("benched");
    assert!(reason.contains(said), "{reason}");
    let why = why(&bridged.from, &format!("{second}.1"));
    assert!(why.contains(said), "{why}");

    first.go();
    bridged.wait(&first.job, 0);
    bridged.wait(&second, 0);
}

#[test]
fn a_task_that_no_host_of_the_other_grid_suits_fails_with_its_words() {
    let mut bridged = Bridged::start(1, 2);
    worker(&mut bridged.to, "pc2", 1).start();
    bridged.kill();
    bridged.start_again();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let needs = format!("cpus={}", cores + 1);
    // Both hosts of this machine together have as many.
    bridged
        .from
        .until("it is offered", &["host", "list"], |told| {
            (told["hosts"][0]["cores_lent"].as_u64()? > cores as u64).then_some(())
        });
    let job = bridged.from.submit(["--needs", &needs, "--", "true"]);
    bridged.wait(&job, 3);
    let why = why(&bridged.from, &format!("{job}.1"));
    assert!(
        why.contains("the other grid says: no host suits it"),
        "{why}"
    );
    assert_eq!(bridged.jobs_there()[0]["state"], "cancelled");
}

#[test]
fn ranks_are_refused_in_words() {
    let bridged = Bridged::start(1, 1);
    let job = bridged.from.submit(["--width", "1", "--", "true"]);
    bridged.wait(&job, 3);
    let why = why(&bridged.from, &format!("{job}.0"));
    assert!(why.contains("a bridge carries no ranks"), "{why}");
}

#[test]
fn a_bridge_that_ends_in_order_gives_its_tasks_back_and_ends_them_there() {
    let mut bridged = Bridged::start(1, 1);
    let tasks = bridged.held(1);
    tasks.until_begun(1);
    bridged.process.terminate();
    eventually("it ends", LONG, || bridged.process.ended());
    bridged.until_there("cancelled", 1);
    let told = bridged
        .from
        .json(["task", "info", &format!("{}.1", tasks.job)]);
    assert_eq!(told["state"], "waiting", "{told}");
}

#[test]
fn a_bridge_between_a_grid_and_itself_is_refused() {
    let grid = Grid::with_master(MASTER);
    grid.login("bridge");
    let token = grid.token("worker");
    let words = [
        "bridge",
        "start",
        "--slots",
        "1",
        "--master",
        grid.listen(),
        "--join",
        &token,
    ];
    let refused = grid.as_user("bridge", words);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("of the same grid"),
        "{}",
        refused.stderr
    );
}
