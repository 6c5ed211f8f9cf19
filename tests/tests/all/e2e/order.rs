//! Labels of jobs, order between jobs, and jobs that stay open.

use serde_json::Value;
use tests::{Grid, Output};

/// A request id that a test chooses.
const REQUEST: &str = "0b9c2e4e-5a0a-4f0c-9a55-3f1f6b1c2d3e";

/// A task that goes on until the file is there.
fn until_there(file: &std::path::Path) -> String {
    format!("while ! test -e {}; do sleep 0.05; done", file.display())
}

/// A grid with one host whose tasks see the files of this PC.
fn grid_with_gates() -> Grid {
    let mut grid = Grid::start();
    grid.worker("h1").slots(4).unconfined().start();
    grid
}

/// Waits until this number of tasks of a job run.
fn running(grid: &Grid, id: &str, tasks: u64) {
    let run = |view: &Value| (view["tasks"]["running"] == tasks).then_some(());
    grid.until("tasks run", &["job", "info", id], run);
}

fn numbers(list: &Value) -> Vec<u64> {
    let jobs = list["jobs"].as_array().expect("jobs");
    jobs.iter().filter_map(|job| job["job"].as_u64()).collect()
}

fn said(output: &Output, words: &[&str]) {
    for words in words {
        assert!(output.stderr.contains(words), "{words}: {output:?}");
    }
}

#[test]
fn jobs_are_named_by_their_labels_wherever_several_can_be_named() {
    let grid = grid_with_gates();
    let gate = grid.dir().join("gate");
    let waits = until_there(&gate);
    let held = grid.submit(["--label", "sweep7", "--", "sh", "-c", &waits]);
    let both = grid.submit([
        "--label", "sweep7", "--label", "b", "--", "sh", "-c", &waits,
    ]);
    let other = grid.submit(["--label", "b", "--", "sh", "-c", &waits]);
    assert_eq!((&held[..], &both[..], &other[..]), ("1", "2", "3"));
    assert_eq!(grid.job("2")["labels"], serde_json::json!(["b", "sweep7"]));

    let listed = |more: &[&str]| numbers(&grid.json([&["job", "list"][..], more].concat()));
    assert_eq!(listed(&["--label", "sweep7"]), [1, 2]);
    assert_eq!(listed(&["--label", "sweep7", "--label", "b"]), [2]);
    assert!(listed(&["--label", "nothing"]).is_empty());
    assert_eq!(numbers(&grid.json(["job", "info", "--label", "b"])), [2, 3]);

    let timed_out = grid.deskgrid(["job", "wait", "--label", "b", "--timeout", "1s"]);
    timed_out.expect_code(4);
    grid.deskgrid(["job", "cancel", "--label", "b"])
        .expect_code(0);
    grid.deskgrid(["job", "wait", "--label", "b"])
        .expect_code(3);
    assert_eq!(listed(&["--label", "sweep7"]), [1]);
    assert_eq!(listed(&["--label", "sweep7", "--all"]), [1, 2]);

    let told = |label: &str| {
        let args = ["--output", "json", "events", "--past", "--label", label];
        let lines = grid.text(args);
        let job = |line: &str| serde_json::from_str::<Value>(line).unwrap()["job"].as_u64();
        lines
            .lines()
            .map(job)
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(told("b"), [Some(2), Some(3)].into());
    grid.deskgrid(["job", "forget", "--label", "sweep7"])
        .expect_code(0);
    assert_eq!(
        listed(&["--label", "sweep7", "--all"]),
        [1],
        "the other one goes on"
    );
    grid.file("gate", "");
    grid.deskgrid(["job", "wait", "--label", "sweep7"])
        .expect_code(0);
}

#[test]
fn a_label_that_is_none_and_too_many_labels_are_refused() {
    let grid = Grid::start();
    for bad in ["", "a b", "-x", "ü", "a,b", "a\u{1b}[2J", &"x".repeat(65)] {
        let arg = format!("--label={bad}");
        let refused = grid.deskgrid(["submit", &arg, "--", "true"]).expect_code(2);
        said(&refused, &["is no label: 1 to 64 letters"]);
        assert!(!refused.stderr.contains('\u{1b}'), "{refused:?}");
        grid.deskgrid(["job", "list", &arg]).expect_code(2);
    }

    let many = |count: usize| {
        let labels = (0..count).map(|n| format!("--label=l{n}"));
        let args = std::iter::once("submit".to_owned()).chain(labels);
        grid.deskgrid(args.chain(["--".to_owned(), "true".to_owned()]))
    };
    many(32).expect_code(0);
    said(
        &many(33).expect_code(2),
        &["33 labels are too many: 32 at most"],
    );
    let file = grid.file("odd.toml", "label = [\"a b\"]\ncommand = [\"true\"]\n");
    let file = file.to_str().expect("a path");
    grid.deskgrid(["submit", "--job-file", file]).expect_code(2);

    let nothing = ["job", "cancel", "--label", "nothing"];
    said(
        &grid.deskgrid(nothing).expect_code(1),
        &["no job with the label `nothing`"],
    );
    grid.deskgrid(["job", "cancel"]).expect_code(2);
    grid.deskgrid(["job", "cancel", "1", "--label", "l1"])
        .expect_code(2);
}

#[test]
fn a_job_waits_for_another_over_a_kill_of_the_master_and_says_so() {
    let mut grid = grid_with_gates();
    let gate = grid.dir().join("gate");
    let first = grid.submit(["--array", "1-2", "--", "sh", "-c", &until_there(&gate)]);
    let second = grid.submit(["--after", "last", "--estimate", "5s", "--", "true"]);
    let third = grid.submit(["--after", &format!("{second}:any"), "--", "true"]);
    running(&grid, &first, 2);

    let waits = format!("waits for job {first}, of which 2 tasks are left");
    let look = |grid: &Grid| {
        let view = grid.job(&second);
        assert_eq!(view["state"], "waiting");
        let before = serde_json::json!([{"job": 1, "how": "ok", "left": 2}]);
        assert_eq!(view["after"], before);
        let why = grid.json(["job", "explain", &second]);
        assert_eq!(why["waiting"][0]["reason"], waits, "{why}");
        let task = grid.json(["task", "info", &format!("{second}.1")]);
        assert_eq!(task["reason"], waits, "{task}");
    };
    look(&grid);
    grid.kill_master();
    grid.start_master();
    look(&grid);

    grid.file("gate", "");
    grid.wait(&third);
    let at = |job_id: &str, what: &str| {
        let view = grid.job(job_id);
        view[what].as_str().expect("a time").to_owned()
    };
    assert!(at(&first, "finished") <= at(&second, "started"));
    assert!(at(&second, "finished") <= at(&third, "started"));
    assert_eq!(grid.job(&second)["after"][0]["left"], Value::Null);
}

#[test]
fn a_job_after_one_that_fails_is_cancelled_and_says_why_and_can_be_retried_with_it() {
    let mut grid = grid_with_gates();
    let gate = grid.dir().join("gate");
    let mended = grid.dir().join("mended");
    let fails = format!("{}; test -e {}", until_there(&gate), mended.display());
    let first = grid.submit(["--", "sh", "-c", &fails]);
    let second = grid.submit(["--after", &first, "--", "echo", "at last"]);
    let anyway = grid.submit(["--after", &format!("{first}:any"), "--", "true"]);
    grid.file("gate", "");
    grid.wait(&anyway);

    let view = grid.job(&second);
    assert_eq!(view["state"], "cancelled");
    let why = format!("it was to start after job {first}, which did not succeed");
    assert_eq!(view["reason"], why);
    let refused = grid.deskgrid(["job", "retry", &second]).expect_code(1);
    said(
        &refused,
        &["has failed", &format!("deskgrid job retry {first}")],
    );

    // Closed and mended, both are tried again: the second one waits again.
    std::fs::remove_file(&gate).expect("it was there");
    grid.file("mended", "");
    grid.deskgrid(["job", "retry", &first]).expect_code(0);
    grid.deskgrid(["job", "retry", &second]).expect_code(0);
    assert_eq!(grid.job(&second)["after"][0]["left"], 1);
    grid.kill_master();
    grid.start_master();
    assert_eq!(grid.job(&second)["after"][0]["left"], 1);
    grid.file("gate", "");
    grid.wait(&second);
    let printed = grid.deskgrid(["job", "cat", &second, "stdout"]).stdout;
    assert_eq!(printed, "at last\n");
}

#[test]
fn jobs_that_nobody_can_start_after_are_refused_with_a_reason() {
    let grid = grid_with_gates();
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let args = [&["submit"][..], args, &["--", "true"]].concat();
        said(&grid.deskgrid(args).expect_code(code), words);
    };
    refused(&["--after", "1"], 1, &["there is no job 1 to start after"]);
    refused(&["--after", "last"], 1, &["you have no job yet"]);
    refused(&["--after", "x"], 2, &["`last`"]);
    refused(&["--after", "1:soon"], 2, &["`ok`", "`any`"]);

    let failed = grid.deskgrid(["submit", "--wait", "--", "false"]);
    failed.expect_code(3);
    refused(&["--after", "1"], 1, &["job 1 has failed", "--after 1:any"]);
    refused(&["--after", "1:any", "--after", "1"], 2, &["job 1 twice"]);
    let more = ["--after", "1:any", "--disclose"];
    refused(&more, 2, &["jobs that it waits for"]);
    grid.submit(["--after", "1:any", "--wait", "--", "true"]);
    grid.deskgrid(["job", "forget", "1"]).expect_code(0);
    refused(
        &["--after", "1:any"],
        1,
        &["there is no job 1 to start after"],
    );

    grid.login("bob");
    let strange = grid.as_user("bob", ["submit", "--after", "2", "--", "true"]);
    said(
        &strange.expect_code(1),
        &["there is no job 2 to start after"],
    );
    grid.deskgrid(["job", "share", "2", "--with", "bob"])
        .expect_code(0);
    grid.as_user("bob", ["submit", "--after", "2", "--", "true"])
        .expect_code(0);
}

#[test]
fn a_deadline_is_promised_only_once_what_goes_before_has_ended() {
    let grid = grid_with_gates();
    let gate = grid.dir().join("gate");
    let first = grid.submit(["--", "sh", "-c", &until_there(&gate)]);
    running(&grid, &first, 1);
    let due = [
        "submit",
        "--deadline",
        "2h",
        "--estimate",
        "5s",
        "--after",
        &first,
        "--",
        "true",
    ];
    let refused = grid.deskgrid(due).expect_code(5);
    said(
        &refused,
        &["nobody can promise when that ends", "deskgrid job wait 1"],
    );
    assert_eq!(grid.json(["job", "list", "--all"])["jobs"][1], Value::Null);

    grid.file("gate", "");
    grid.wait(&first);
    grid.deskgrid(due).expect_code(0);
}

#[test]
fn an_open_job_takes_tasks_exactly_once_over_kills_of_the_master_until_it_is_closed() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    let one = grid.file("one", "a\nb\n");
    let two = grid.file("two", "c\nd\ne\n");
    let [one, two] = [&one, &two].map(|file| file.to_str().expect("a path"));
    let open = grid.submit(["--open", "--each-line", one, "--", "echo", "%{ITEM}"]);
    let add = [
        "submit",
        "--into",
        &open,
        "--request-id",
        REQUEST,
        "--each-line",
        two,
    ];
    let added = grid.json(add);
    let fields = |added: &Value| {
        let field = |name: &str| added[name].as_u64();
        [
            field("job"),
            field("added"),
            field("first"),
            field("last"),
            field("tasks"),
        ]
    };
    let expected = [1, 3, 3, 5, 5].map(Some);
    assert_eq!((fields(&added), &added["again"]), (expected, &false.into()));

    grid.kill_master();
    grid.start_master();
    let again = grid.json(add);
    assert_eq!((fields(&again), &again["again"]), (expected, &true.into()));
    let other = [
        "submit",
        "--into",
        &open,
        "--request-id",
        REQUEST,
        "--each-line",
        one,
    ];
    said(
        &grid.deskgrid(other).expect_code(1),
        &["to add other tasks to job 1"],
    );
    let submitted = ["submit", "--request-id", REQUEST, "--", "true"];
    said(
        &grid.deskgrid(submitted).expect_code(1),
        &["to add tasks to job 1"],
    );

    let done = |view: &Value| (view["tasks"]["finished"] == 5).then(|| view.clone());
    let view = grid.until("all tasks are done", &["job", "info", &open], done);
    assert_eq!(
        (&view["state"], &view["open"]),
        (&"running".into(), &true.into())
    );
    let waited = grid
        .deskgrid(["job", "wait", &open, "--timeout", "1s"])
        .expect_code(4);
    assert!(
        waited.stdout.contains("it is open: deskgrid job close 1"),
        "{waited:?}"
    );
    let listed = grid.deskgrid(["job", "list"]).stdout;
    assert!(listed.contains("running, open"), "{listed}");
    let predicted = grid.deskgrid(["job", "predict", &open]).stdout;
    assert!(
        predicted.contains("none of its tasks is left"),
        "{predicted}"
    );

    grid.kill_master();
    grid.start_master();
    let waiting = grid.background(["job", "wait", &open]);
    assert_eq!(
        grid.json(["submit", "--into", &open, "--each-line", one])["tasks"],
        7
    );
    grid.deskgrid(["job", "close", &open]).expect_code(0);
    waiting.finish().expect_code(0);
    let view = grid.job(&open);
    assert_eq!(
        (&view["state"], &view["open"]),
        (&"finished".into(), &false.into())
    );
    assert_eq!(view["tasks"]["total"], 7);
    let printed = grid.deskgrid(["job", "cat", &open, "stdout"]).stdout;
    assert_eq!(printed, "a\nb\nc\nd\ne\na\nb\n");

    said(
        &grid.deskgrid(["job", "close", &open]).expect_code(1),
        &["job 1 is not open"],
    );
    let late = grid.deskgrid(["submit", "--into", &open, "--each-line", one]);
    said(&late.expect_code(1), &["it is not open"]);
    let again = grid.json(add);
    assert_eq!(again["again"], true, "what was added stays added");
}

#[test]
fn tasks_that_an_open_job_cannot_have_are_refused_with_a_reason() {
    let grid = Grid::start();
    grid.login("bob");
    let plain = grid.submit(["--open", "--array", "1-3", "--", "true"]);
    let closed = grid.submit(["--", "true"]);
    let list = grid.file("list", "a\n");
    let list = list.to_str().expect("a path");
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let args = [&["submit", "--into"][..], args].concat();
        said(&grid.deskgrid(args).expect_code(code), words);
    };
    let numbered = ["has a task 3 already", "leave out the numbers that"];
    refused(&[&plain, "--array", "3-5"], 2, &numbered);
    let unlisted = ["have no items", "--array 101-200"];
    refused(&[&plain, "--each-line", list], 2, &unlisted);
    refused(&[&plain, "--", "false"], 2, &["do its own work"]);
    refused(&[&plain, "--label", "x"], 2, &["do its own work"]);
    refused(&[&plain, "--wait"], 2, &["cannot be used with"]);
    refused(&[&closed], 1, &["it is not open"]);
    refused(&["99"], 1, &["no job 99"]);
    let strange = grid.as_user("bob", ["submit", "--into", &plain]);
    said(&strange.expect_code(1), &["no job 1"]);
    grid.as_user("bob", ["job", "close", &plain]).expect_code(1);

    let dry = grid.json(["submit", "--into", &plain, "--dry-run"]);
    assert_eq!((&dry["first"], &dry["tasks"]), (&4.into(), &4.into()));
    assert_eq!(grid.job(&plain)["tasks"]["total"], 3);
    assert_eq!(grid.json(["submit", "--into", &plain])["first"], 4);
    assert_eq!(
        grid.json(["submit", "--into", &plain, "--array", "9"])["tasks"],
        5
    );

    for (with, words) in [
        (["--deadline", "2h"], "cannot be used with"),
        (["--width", "2"], "cannot be used with"),
    ] {
        let args = [&["submit", "--open"][..], &with, &["--", "true"]].concat();
        said(&grid.deskgrid(args).expect_code(2), &[words]);
    }
    let file = grid.file(
        "due.toml",
        "open = true\ndeadline = \"2h\"\ncommand = [\"true\"]\n",
    );
    let due = grid.deskgrid(["submit", "--job-file", file.to_str().expect("a path")]);
    said(&due.expect_code(2), &["an open job cannot have a deadline"]);
    let own = grid.file("own", "x");
    let own = own.parent().expect("a directory").join("%{ITEM}:in");
    let files = [
        "submit",
        "--open",
        "--each-line",
        list,
        "--input",
        own.to_str().unwrap(),
    ];
    grid.file("a", "x");
    let files = grid.deskgrid(files.into_iter().chain(["--", "cat", "in"]));
    said(&files.expect_code(2), &["an input file for each task"]);
}

#[test]
fn a_job_can_wait_for_an_open_one_and_an_open_one_for_a_job() {
    let grid = grid_with_gates();
    let gate = grid.dir().join("gate");
    let first = grid.submit(["--", "sh", "-c", &until_there(&gate)]);
    let open = grid.submit(["--open", "--after", &first, "--", "true"]);
    let last = grid.submit(["--after", &open, "--", "true"]);
    grid.deskgrid(["submit", "--into", &open, "--array", "5-6"])
        .expect_code(0);
    let why = grid.json(["job", "explain", &open]);
    assert_eq!(why["waiting"][0]["tasks"], "1,5-6", "{why}");

    grid.file("gate", "");
    let done = |view: &Value| (view["tasks"]["finished"] == 3).then_some(());
    grid.until(
        "the open job has nothing left",
        &["job", "info", &open],
        done,
    );
    let why = grid.json(["job", "explain", &last]);
    let reason = why["waiting"][0]["reason"]
        .as_str()
        .expect("a reason")
        .to_owned();
    assert!(
        reason.contains(&format!("deskgrid job close {open}")),
        "{reason}"
    );
    grid.deskgrid(["job", "close", &open]).expect_code(0);
    grid.wait(&last);
}

#[test]
fn an_item_that_no_host_could_be_sent_is_refused_and_the_hosts_go_on() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    let short = grid.file("short", "a\n");
    let long = grid.file("long", format!("{}\n", "x".repeat(300_000)));
    let [short, long] = [&short, &long].map(|file| file.to_str().expect("a path"));
    let told = ["102400 at most", "put long lists into an input file"];
    let command = ["--", "echo", "%{ITEM}"];

    let args = [&["submit", "--each-line", long][..], &command].concat();
    said(&grid.deskgrid(args).expect_code(2), &told);
    let args = [&["submit", "--open", "--each-line", short][..], &command].concat();
    let open = grid.submit(&args[1..]);
    let into = ["submit", "--into", &open, "--each-line"];
    let args = [&into[..], &[long]].concat();
    let told = [told[0], "change the item or the number of that task"];
    said(&grid.deskgrid(args).expect_code(2), &told);

    let args = [&into[..], &[short]].concat();
    assert_eq!(grid.json(args)["first"], 2, "nothing was added before");
    grid.deskgrid(["job", "close", &open]).expect_code(0);
    grid.wait(&open);
}

#[test]
fn a_cancelled_open_job_whose_tasks_are_all_done_is_said_to_be_closed() {
    let grid = Grid::with_worker();
    let open = grid.submit(["--open", "--", "true"]);
    grid.until("its task is done", &["job", "info", &open], |info| {
        (info["tasks"]["finished"] == 1).then_some(())
    });

    let cancel = || grid.deskgrid(["job", "cancel", &open]).expect_code(0);
    let told = cancel().stdout;
    assert!(told.contains(&format!("job {open}: closed")), "{told}");
    let view = grid.job(&open);
    assert_eq!(
        (&view["state"], &view["open"]),
        (&"finished".into(), &false.into())
    );
    let told = cancel().stdout;
    assert!(told.contains("had ended already"), "{told}");
}

#[test]
fn the_last_job_that_is_cancelled_is_ones_own_though_a_newer_one_is_shared() {
    let grid = Grid::with_worker();
    let open = grid.submit(["--open", "--", "true"]);
    grid.login("bob");
    let newer = ["--output", "quiet", "submit", "--", "true"];
    let newer = grid.as_user("bob", newer).expect_code(0).stdout;
    let share = ["job", "share", newer.trim(), "--with", "user"];
    grid.as_user("bob", share).expect_code(0);
    grid.until("its task is done", &["job", "info", &open], |info| {
        (info["tasks"]["finished"] == 1).then_some(())
    });

    let cancel = || grid.deskgrid(["job", "cancel", "last"]).expect_code(0);
    let told = cancel().stdout;
    assert!(told.contains(&format!("job {open}: closed")), "{told}");
    let told = cancel().stdout;
    assert!(told.contains("had ended already"), "{told}");
}

#[test]
fn whoever_cancels_an_open_job_closes_it_and_its_followers_are_told() {
    let grid = Grid::start();
    let open = grid.submit(["--open", "--", "true"]);
    let last = grid.submit(["--after", &open, "--", "true"]);
    grid.deskgrid(["job", "cancel", &open]).expect_code(0);
    grid.deskgrid(["job", "wait", &last, "--timeout", "60s"])
        .expect_code(3);
    let [open, last] = [&open, &last].map(|id| grid.job(id));
    assert_eq!(
        (&open["state"], &open["open"]),
        (&"cancelled".into(), &false.into())
    );
    assert_eq!(last["state"], "cancelled");
    let told = grid.deskgrid(["events", "--past"]).stdout;
    assert!(told.contains("which did not succeed"), "{told}");
}
