//! What was promised, and whether it is kept: every acknowledged submission exists, every
//! acknowledged result is there with its content, each task has one visible result, everything ends
//! once the faults have stopped, nothing of a task is alive after it, nothing panicked, memory is
//! bounded.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use tests::{Grid, Output, Started, alive_with, eventually};
use uuid::Uuid;

/// A process that holds more than this has lost its bounds, in KiB.
const MEMORY_KIB: u64 = 256 * 1024;

/// A submission, acknowledged or not yet.
struct Bag {
    request: Uuid,
    tasks: u64,
    /// Its number, once it was acknowledged.
    job: Option<u64>,
    /// The tasks that were seen finished.
    finished: BTreeSet<String>,
}

impl Bag {
    fn output(&self, task: u64) -> String {
        format!("{task} {}", self.request)
    }
}

/// Everything that was asked of a grid, and what it has promised.
pub(crate) struct Ledger {
    /// In the command line of each task.
    mark: String,
    /// How long each task sleeps, in seconds.
    nap_s: f64,
    bags: Vec<Bag>,
}

impl Ledger {
    /// An empty one; tasks will sleep for so many seconds.
    pub(crate) fn new(nap_s: f64) -> Self {
        Self {
            mark: Uuid::from_bytes(rand::random()).to_string(),
            nap_s,
            bags: Vec::new(),
        }
    }

    /// Tasks of bags to come will sleep for so many seconds.
    pub(crate) fn nap(&mut self, nap_s: f64) {
        self.nap_s = nap_s;
    }

    /// How many bags there are.
    pub(crate) fn len(&self) -> usize {
        self.bags.len()
    }

    /// Writes down a new bag; gives its place.
    pub(crate) fn plan(&mut self, tasks: u64) -> usize {
        self.bags.push(Bag {
            request: Uuid::from_bytes(rand::random()),
            tasks,
            job: None,
            finished: BTreeSet::new(),
        });
        self.bags.len() - 1
    }

    /// The content of a bag's input file.
    pub(crate) fn input(&self, bag: usize) -> String {
        self.bags[bag].request.to_string()
    }

    /// What a task of a bag prints as its one line, and writes to its file.
    pub(crate) fn output(&self, bag: usize, task: u64) -> String {
        self.bags[bag].output(task)
    }

    /// Starts to submit a bag, for the first time or again.
    pub(crate) fn submission(&self, grid: &Grid, bag: usize) -> Started {
        let Bag { request, tasks, .. } = &self.bags[bag];
        let input = grid.file(&format!("input-{request}"), self.input(bag));
        let script = format!(
            "sleep {}; echo $DESKGRID_TASK_ID $(cat in) > out; cat out; : {}",
            self.nap_s, self.mark
        );
        let request = request.to_string();
        let array = format!("1-{tasks}");
        let input = format!("{}:in", input.display());

        let rules = [
            "--retries",
            "1000",
            "--max-losses",
            "1000",
            "--output-file",
            "out",
            "--input",
            &input,
        ];

        let words = [
            "--output",
            "json",
            "submit",
            "--request-id",
            &request,
            "--array",
            &array,
        ];
        grid.background(
            words
                .iter()
                .chain(&rules)
                .chain(&["--", "sh", "-c", &script]),
        )
    }

    /// Writes down what came of a submission; whether it was acknowledged.
    #[track_caller]
    pub(crate) fn note(&mut self, bag: usize, output: &Output) -> bool {
        if output.code != 0 {
            return false;
        }

        let answer = output.json();
        let bag = &mut self.bags[bag];
        let job = answer["job"]
            .as_u64()
            .unwrap_or_else(|| panic!("a number: {answer}"));
        assert!(
            bag.job.is_none_or(|before| before == job),
            "one submission, two jobs: {before:?}, {job}",
            before = bag.job
        );
        bag.job = Some(job);

        true
    }

    /// Submits a new bag, which must be acknowledged.
    #[track_caller]
    pub(crate) fn submit(&mut self, grid: &Grid, tasks: u64) -> u64 {
        let bag = self.plan(tasks);
        let output = self.submission(grid, bag).finish();
        assert!(self.note(bag, &output), "not acknowledged: {output:?}");
        self.bags[bag].job.expect("noted")
    }

    /// Looks whether everything that was promised so far is there. The master must be up.
    #[track_caller]
    pub(crate) fn check(&mut self, grid: &Grid) {
        let jobs = grid.jobs();
        assert!(
            jobs.len() <= self.bags.len(),
            "more jobs than submissions: {jobs:?}"
        );

        for bag in &mut self.bags {
            let Some(number) = bag.job else { continue };
            let job = jobs.iter().find(|job| job["job"] == number);
            let job = job
                .unwrap_or_else(|| panic!("the acknowledged job {number} is not there: {jobs:?}"));
            assert_eq!(job["tasks"]["total"], bag.tasks, "{job}");
            assert_eq!(
                job["tasks"]["failed"], 0,
                "no fault of ours makes a task fail: {job}"
            );

            let count = job["tasks"]["finished"].as_u64().expect("a count");
            if count < bag.finished.len() as u64 {
                panic!(
                    "{} results were acknowledged, {count} are there: {job}",
                    bag.finished.len()
                );
            }

            if count > bag.finished.len() as u64 {
                let finished = finished_tasks(grid, number);
                assert!(
                    finished.is_superset(&bag.finished),
                    "acknowledged results are gone: {:?}",
                    bag.finished
                );
                bag.finished = finished;
            }
        }

        self.check_processes(grid);
    }

    /// Nothing panicked, and the master's memory is bounded.
    #[track_caller]
    fn check_processes(&self, grid: &Grid) {
        let logs = grid.logs();
        assert!(!logs.contains("panicked at"), "something panicked");
        let status =
            fs::read_to_string(format!("/proc/{}/status", grid.master_pid())).unwrap_or_default();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most: u64 = most
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
            .unwrap_or(0);
        assert!(most <= MEMORY_KIB, "the master took {most} KiB");
    }

    /// The faults are over: submits again what was not acknowledged, waits until all is settled,
    /// and looks at everything.
    #[track_caller]
    pub(crate) fn settle(&mut self, grid: &Grid) {
        self.check(grid);
        for bag in 0..self.bags.len() {
            if self.bags[bag].job.is_none() {
                let output = self.submission(grid, bag).finish();
                assert!(
                    self.note(bag, &output),
                    "after the faults it must be taken: {output:?}"
                );
            }
        }

        for bag in &self.bags {
            let job = bag.job.expect("submitted").to_string();
            grid.wait(&job);
        }

        self.check(grid);
        let jobs = grid.jobs();
        assert_eq!(jobs.len(), self.bags.len(), "one job each: {jobs:?}");
        for bag in &self.bags {
            check_results(grid, bag);
        }

        let mut left = Vec::new();
        eventually("nothing of a task is left", Duration::from_secs(30), || {
            left = alive_with(&self.mark);
            left.is_empty().then_some(())
        });
    }
}

/// The tasks of a job that are finished.
fn finished_tasks(grid: &Grid, job: u64) -> BTreeSet<String> {
    let listed = grid.json(["task", "list", &job.to_string()]);
    let tasks = listed["tasks"].as_array().expect("a list").iter();
    let finished = tasks.filter(|task| task["state"] == "finished");
    finished
        .filter_map(|task| task["task"].as_str().map(str::to_owned))
        .collect()
}

/// Each task's one result, on standard output and as a file, is what the task wrote.
#[track_caller]
fn check_results(grid: &Grid, bag: &Bag) {
    let job = bag.job.expect("submitted").to_string();
    let printed = grid.text(["job", "cat", &job, "stdout"]);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();

    let mut all: Vec<String> = (1..=bag.tasks).map(|task| bag.output(task)).collect();
    all.sort_unstable();
    assert_eq!(lines, all, "one result of each task of job {job}");

    let into = grid.fetch(&job, &format!("results-{job}"));

    for task in 1..=bag.tasks {
        let text = fs::read_to_string(into.join(if bag.tasks > 1 {
            format!("{task}/out")
        } else {
            "out".to_owned()
        }))
        .expect("a file for each task");
        assert_eq!(text.trim(), bag.output(task), "job {job}");
    }

    fs::remove_dir_all(into).expect("ours");
}
