//! Rules of jobs as users see them.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use tests::{Grid, eventually};

#[test]
fn a_failing_task_is_tried_again_as_often_as_it_may_be() {
    let mut grid = Grid::start();
    // It leaves a mark outside its directory.
    grid.worker("h1").unconfined().start();

    let mark = grid.dir().join("once");
    let flaky = format!("test -e {0} || {{ touch {0}; exit 5; }}", mark.display());
    let done = grid.submit(["--retries", "2", "--wait", "--", "sh", "-c", &flaky]);
    let tries = grid.attempts(&format!("{done}.1"));
    assert_eq!(
        (tries.len(), &tries[0]["state"], &tries[0]["exit_code"]),
        (2, &"failed".into(), &5.into()),
        "{tries:?}"
    );
    assert_eq!(tries[1]["state"], "finished");
    let info = grid.job(&done);
    let [cause] = &info["failures"].as_array().expect("causes")[..] else {
        panic!("one cause: {info}");
    };
    assert!(
        cause["cause"].as_str().is_some_and(|why| why.contains('5')),
        "{cause}"
    );
    assert_eq!(
        (&cause["attempts"], &cause["task"]),
        (&1.into(), &format!("{done}.1").into())
    );
    let text = grid.text(["job", "info", &done]);
    assert!(
        text.contains("1 attempt that failed, and tried again: "),
        "{text}"
    );

    let hopeless = grid
        .deskgrid(["submit", "--retries", "2", "--wait", "--", "false"])
        .expect_code(3);
    assert!(!hopeless.stdout.is_empty());
    assert_eq!(grid.attempts("2.1").len(), 3);
}

#[test]
fn a_task_whose_program_is_not_found_is_told_which_inputs_it_has() {
    let grid = Grid::with_worker();
    let tool = grid.file("tool.sh", "true");
    let tool = format!("{}:tool-%{{TASK_ID}}.sh", tool.display());

    let by_shell = ["sh", "-c", "echo said >&2; no-such-program"];
    for (job, command) in [("1", &["no-such-program"][..]), ("2", &by_shell[..])] {
        let start = ["submit", "--retries", "0", "--wait", "--input", &tool, "--"];
        let words = [&start[..], command].concat();
        grid.deskgrid(words).expect_code(3);

        let task = format!("{job}.1");
        for (shown, name) in [
            (["job", "info", job], "%{TASK_ID}"),
            (["task", "info", &task], "1"),
        ] {
            let text = grid.text(shown);
            let hint = text
                .lines()
                .find(|line| line.trim_start().starts_with("hint: "));
            let has = format!("the task's directory has: tool-{name}.sh");
            assert!(hint.is_some_and(|hint| hint.ends_with(&has)), "{text}");
            if let (Some(said), Some(hint)) = (text.find("said"), text.find("hint: ")) {
                assert!(
                    hint < said,
                    "it is not a part of what the task wrote: {text}"
                );
            }
        }
    }
}

#[test]
fn job_info_shows_what_the_tasks_run_and_the_settings_that_are_not_usual() {
    let grid = Grid::start();
    let data = grid.file("data.txt", "1");
    let data = format!("{}:in/data.txt", data.display());
    let job = grid.submit([
        "--array",
        "1-3",
        "--input",
        &data,
        "--output-file",
        "out-%{TASK_ID}.txt",
        "--env",
        "MODE=a b",
        "--retries",
        "2",
        "--timeout",
        "1h",
        "--",
        "sh",
        "-c",
        "wc in/data.txt",
        "%{TASK_ID}",
    ]);
    let text = grid.text(["job", "info", &job]);
    let lines = [
        ("command", "sh -c 'wc in/data.txt' %{TASK_ID}"),
        ("files", "in: in/data.txt; out: out-%{TASK_ID}.txt"),
        ("settings", "--timeout 1h00m --retries 2 --env 'MODE=a b'"),
    ];
    for (name, value) in lines {
        let shown = |line: &str| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.trim_start() == value)
        };
        assert!(text.lines().any(shown), "{name} {value} in\n{text}");
    }
    let work = &grid.job(&job)["work"];
    assert_eq!(work["command"][3], "%{TASK_ID}");
    assert_eq!(
        (&work["retries"], &work["timeout_s"]),
        (&2.into(), &3600.0.into()),
        "{work}"
    );
    assert_eq!(work["inputs"][0], "in/data.txt");

    let plain = grid.submit(["--", "true"]);
    let text = grid.text(["job", "info", &plain]);
    assert!(
        text.contains("true") && !text.contains("settings"),
        "{text}"
    );
}

#[test]
fn waiting_for_all_jobs_forgives_those_that_failed_before() {
    let grid = Grid::with_worker();
    let failed = grid.deskgrid(["submit", "--wait", "--", "sh", "-c", "kill -SEGV $$"]);
    failed.expect_code(3);
    let why = grid.text(["task", "info", "1.1"]);
    assert!(why.contains("ended by signal 11 (SIGSEGV)"), "{why}");

    let none = grid.text(["job", "wait", "all"]);
    assert_eq!(none, "no unfinished jobs\n");
    grid.submit(["--", "true"]);
    grid.deskgrid(["job", "wait", "all", "--timeout", "60s"])
        .expect_code(0);

    // By name it counts.
    grid.deskgrid(["job", "wait", "1"]).expect_code(3);
}

#[test]
fn too_many_failures_cancel_the_rest() {
    let grid = Grid::with_worker();
    grid.deskgrid([
        "submit",
        "--array",
        "1-50",
        "--max-fails",
        "2",
        "--wait",
        "--",
        "false",
    ])
    .expect_code(3);

    let tasks = &grid.job("last")["tasks"];
    assert_eq!(tasks["total"], 50);
    assert!(
        tasks["failed"].as_u64() >= Some(3) && tasks["failed"].as_u64() < Some(20),
        "{tasks}"
    );
    assert!(tasks["cancelled"].as_u64() > Some(20), "{tasks}");
}

#[test]
fn the_same_request_id_gives_the_same_job() {
    let grid = Grid::start();
    let id = "0b9c2e4e-5a0a-4f0c-9a55-3f1f6b1c2d3e";
    let first = grid.json(["submit", "--request-id", id, "--array", "1-7", "--", "true"]);
    let again = grid.json(["submit", "--request-id", id, "--array", "1-7", "--", "true"]);
    assert_eq!(
        (&first["job"], &first["tasks"], &first["accepted"]),
        (&again["job"], &7.into(), &true.into())
    );

    let other = grid.deskgrid(["submit", "--request-id", id, "--array", "1-8", "--", "true"]);
    assert_ne!(
        other.code, 0,
        "another body under the same id is an error: {other:?}"
    );
    assert_eq!(
        grid.json(["job", "list"])["jobs"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_dry_run_submits_nothing() {
    let grid = Grid::start();
    let answer = grid.json(["submit", "--dry-run", "--array", "1-9", "--", "true"]);
    assert_eq!(answer["tasks"], 9);
    assert!(grid.jobs().is_empty());
}

#[test]
fn a_dry_run_says_when_the_job_would_be_done_or_what_is_missing_to_know_it() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    let unknown = ["submit", "--dry-run", "--array", "1-9", "--", "true"];
    let said = grid.text(unknown);
    assert!(
        said.contains("with 9 tasks; no prediction: nothing tells how long a task takes"),
        "{said}"
    );
    assert!(!said.contains("no host"), "{said}");

    let known = |more: &[&'static str]| {
        let words = ["submit", "--array", "1-9", "--estimate", "20s"];
        [&words[..], more, &["--", "true"]].concat()
    };
    let dry = grid.json(known(&["--dry-run"]));
    let text = |name: &str| {
        dry[name]
            .as_str()
            .unwrap_or_else(|| panic!("no {name}: {dry}"))
    };
    assert!(dry["job"].is_null() && text("predicted_low") < text("predicted_finish"));
    assert!(text("predicted_finish") < text("predicted_high"), "{dry}");
    let said = grid.text(known(&["--dry-run"]));
    assert!(
        said.contains("; expected to finish in ") && said.contains(" UTC); 80 % likely in "),
        "{said}"
    );

    let disclosed = known(&["--dry-run", "--disclose"]);
    let said = grid.text(disclosed);
    let whole = said.contains("; expected to finish in ") && said.contains("; its tasks run while");
    assert!(whole, "{said}");
    let held = known(&["--dry-run", "--disclose", "--policy", "INTERACTIVE-FCFS"]);
    let said = grid.text(held);
    let whole = said.contains("with 9 tasks; its tasks start once they are requested");
    assert!(whole, "{said}");

    let needs = known(&["--dry-run", "--needs", "gpu=4"]);
    let nowhere = grid.deskgrid(needs).expect_code(0);
    let brief = "with 9 tasks; no prediction: the hosts do not suffice\n";
    assert!(nowhere.stdout.contains(brief), "{nowhere:?}");
    let reason = "will wait until the hosts suffice: no host qualifies; 1 host: ";
    assert!(nowhere.stderr.contains(reason), "{nowhere:?}");

    grid.admin(["host", "drain", "h1"]).expect_code(0);
    for words in [known(&["--dry-run"]), unknown.to_vec()] {
        let said = grid.text(words);
        let exact = "with 9 tasks; no prediction: no host takes its tasks now\n";
        assert!(said.contains(exact), "{said}");
    }
}

#[test]
fn a_missing_prediction_is_not_laid_to_times_that_earlier_tasks_of_the_program_tell() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(1).start();
    let dry = |grid: &Grid, more: &[&str]| {
        let words = [&["submit", "--dry-run"][..], more, &["--", "true"]].concat();
        grid.text(words)
    };
    let predicted = |grid: &Grid, job: &str| {
        let told = grid.deskgrid(["job", "predict", job]);
        told.expect_code(0).stdout
    };
    let known = grid.submit(["--array", "1-6", "--wait", "--", "true"]);
    assert_eq!(grid.job(&known)["tasks"]["finished"], 6);
    let said = dry(&grid, &[]);
    assert!(said.contains("expected to finish"), "{said}");

    let open = grid.submit(["--open", "--", "sleep", "600"]);
    let held = grid.submit(["--after", &open, "--", "true"]);
    let ends = "nobody knows when the jobs end that it waits for\n";
    for said in [predicted(&grid, &held), dry(&grid, &["--after", &open])] {
        assert!(said.contains(ends), "{said}");
    }
    for job in [held, open] {
        grid.deskgrid(["job", "cancel", &job]).expect_code(0);
    }

    let compared = grid.submit(["--quorum", "2", "--", "true"]);
    let said = predicted(&grid, &compared);
    assert!(said.contains("yet: too few owners are left"), "{said}");
    grid.deskgrid(["job", "cancel", &compared]).expect_code(0);

    grid.as_user("h1", ["worker", "pause"]).expect_code(0);
    grid.until("the host is suspended", &["host", "list"], |hosts| {
        (hosts["hosts"][0]["state"] == "suspended").then_some(())
    });
    let waits = grid.submit(["--", "true"]);
    for said in [predicted(&grid, &waits), dry(&grid, &[])] {
        assert!(said.contains("no host takes its tasks now\n"), "{said}");
    }
}

#[test]
fn waiting_tells_success_failure_and_time_out_by_its_exit_code() {
    let mut grid = Grid::start();
    grid.submit(["--", "true"]);
    let late = grid.deskgrid(["job", "wait", "1", "--timeout", "300ms"]);
    let late = late.expect_code(4).stdout;
    assert!(late.contains("timed out; job 1 goes on\n"), "{late}");

    let explained = grid.deskgrid(["job", "explain", "1"]).expect_code(0);
    assert!(
        explained.stdout.to_lowercase().contains("host"),
        "says that there is no host: {explained:?}"
    );

    let waiting = grid.background(["job", "wait", "1"]);
    grid.worker("h1").start();
    waiting.finish().expect_code(0);
    grid.submit(["--", "false"]);
    grid.deskgrid(["job", "wait", "2"]).expect_code(3);
    grid.deskgrid(["job", "wait", "1-2"]).expect_code(3);
}

#[test]
fn a_job_can_be_cancelled_retried_and_forgotten() {
    let mut grid = Grid::start();
    grid.submit(["--array", "1-4", "--", "true"]);
    grid.deskgrid(["job", "forget", "1"]).expect_code(1);
    grid.deskgrid(["job", "cancel", "1", "--tasks", "3-4"])
        .expect_code(0);
    assert_eq!(grid.job("1")["tasks"]["cancelled"], 2);
    let user = grid.job("1")["user"].as_str().unwrap().to_owned();
    let why = &grid.json(["task", "info", "1.3"])["reason"];
    assert_eq!(*why, format!("cancelled at {user}'s request"));
    grid.worker("h1").start();
    grid.deskgrid(["job", "wait", "1"]);

    assert_eq!(grid.job("1")["state"], "cancelled");
    grid.deskgrid(["job", "retry", "1"]).expect_code(0);
    grid.deskgrid(["job", "wait", "1"]).expect_code(0);
    assert_eq!(grid.job("1")["tasks"]["finished"], 4);
    grid.deskgrid(["job", "forget", "1"]).expect_code(0);
    grid.deskgrid(["job", "info", "1"]).expect_code(1);
}

#[test]
fn a_drained_host_gets_nothing_until_it_is_resumed() {
    let grid = Grid::with_worker();
    grid.admin(["host", "drain", "h1"]).expect_code(0);
    let told = grid.deskgrid(["host", "info", "h1"]).stdout;
    let words: Vec<&str> = told.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("state draining for "), "{told}");
    assert!(words.contains("attempts none"), "{told}");
    grid.submit(["--", "true"]);
    grid.deskgrid(["job", "wait", "1", "--timeout", "500ms"])
        .expect_code(4);

    let explained = grid.deskgrid(["job", "explain", "1"]).expect_code(0);
    assert!(
        explained.stdout.contains("h1") && explained.stdout.contains("drain"),
        "{explained:?}"
    );
    grid.admin(["host", "resume", "h1"]).expect_code(0);
    grid.wait("1");
}

#[test]
fn a_job_file_says_the_same_as_flags() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    grid.file("in.txt", "hello");
    grid.file("values.json", r#"["a", {"b": 1}]"#);
    grid.file(
        "job.toml",
        "name = \"two\"\nfrom-json = \"values.json\"\ninput = [\"in.txt\"]\nretries = 1\n\
         command = [\"sh\", \"-c\", \"cat in.txt; printf %s \\\"$DESKGRID_ITEM\\\"\"]\n",
    );

    let id = grid.submit(["--job-file", "job.toml", "--wait"]);
    assert_eq!(grid.job(&id)["name"], "two");
    assert_eq!(
        grid.text(["job", "cat", &id, "stdout", "2"]),
        "hello{\"b\":1}"
    );
}

#[test]
fn a_million_tasks_are_submitted_and_cancelled_at_once() {
    let grid = Grid::start();
    let start = std::time::Instant::now();
    let answer = grid.json(["submit", "--noop", "--array", "1-1000000"]);
    assert_eq!(answer["tasks"], 1_000_000);
    assert_eq!(grid.job("1")["tasks"]["waiting"], 1_000_000);
    grid.deskgrid(["job", "cancel", "1"]).expect_code(0);
    assert_eq!(grid.job("1")["tasks"]["cancelled"], 1_000_000);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

#[cfg(unix)]
#[test]
fn a_list_of_very_many_tasks_is_printed_in_little_memory() {
    let mut grid = Grid::start();
    let job = grid.submit(["--array", "1-300000", "--", "true"]);

    // Too little, in KiB, to hold all of them at once.
    let bounded = "ulimit -v 200000; exec \"$0\" \"$@\"";
    grid.wrap("user", ["sh", "-c", bounded]);
    for mode in ["quiet", "cli", "json"] {
        let list = grid.text(["--output", mode, "task", "list", &job]);
        let tasks = list.matches(&format!("{job}.")).count();
        assert_eq!(tasks, 300_000, "{mode}");
    }
    let log = ["job", "list", "--joblog", &job];
    let tasks = grid.text([&["--output", "json"][..], &log].concat());
    assert_eq!(tasks.matches(&format!("{job}.")).count(), 300_000);
    let rows = grid.text(log);
    assert_eq!(rows.lines().count(), 1, "nothing was tried yet");
}

#[test]
fn a_list_whose_reader_stood_still_goes_on_over_a_new_connection() {
    let mut grid = Grid::start();
    let job = grid.submit(["--array", "1-200000", "--", "true"]);
    let mut command = grid.command("user");
    command.args(["--output", "quiet", "task", "list", &job]);
    let mut listing = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut printed = listing.stdout.take().expect("piped");
    let mut text = vec![0];
    printed.read_exact(&mut text).expect("a beginning");

    // More than a pipe and the connection hold is printed before the last page is asked for.
    grid.master().terminate();
    eventually("the master ends", Duration::from_secs(30), || {
        grid.master().ended()
    });
    grid.start_master();
    printed.read_to_end(&mut text).expect("the rest");
    assert!(listing.wait().expect("it ends").success());
    let text = String::from_utf8(text).expect("UTF-8");
    let expected: String = (1..=200_000)
        .map(|task| format!("{job}.{task}\n"))
        .collect();
    assert_eq!(text, expected);
}

#[test]
fn outputs_whose_reader_stood_still_go_on_over_a_new_connection() {
    let mut grid = Grid::start();
    grid.worker("h1").start();
    let prints = "yes %{TASK_ID} | head -c 200000";
    let job = grid.submit(["--array", "1-3", "--wait", "--", "sh", "-c", prints]);
    let mut command = grid.command("user");
    command.args(["job", "cat", &job, "stdout"]);
    let mut shown = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut printed = shown.stdout.take().expect("piped");
    let mut text = vec![0];
    printed.read_exact(&mut text).expect("a beginning");

    // What each task printed is more than a pipe holds, and is asked for after that of the task before is printed.
    grid.master().terminate();
    eventually("the master ends", Duration::from_secs(30), || {
        grid.master().ended()
    });
    grid.start_master();
    printed.read_to_end(&mut text).expect("the rest");
    assert!(shown.wait().expect("it ends").success());
    let text = String::from_utf8(text).expect("UTF-8");
    let expected: String = (1..=3)
        .map(|task| format!("{task}\n").repeat(100_000))
        .collect();
    assert!(text == expected, "{} bytes", text.len());
}

#[test]
fn a_prediction_has_an_interval_while_the_job_runs_and_none_when_nothing_is_known() {
    let mut grid = Grid::start();
    let unknown = grid.submit(["--", "true"]);
    let nothing = grid.json(["job", "predict", &unknown]);
    assert!(
        nothing["predicted_finish"].is_null() && nothing["predicted_low"].is_null(),
        "{nothing}"
    );

    let told = grid.text(["job", "predict", &unknown]);
    assert!(told.contains("yet: there is no host\n"), "{told}");
    let odd = grid.submit(["--array", "1-999:2", "--", "true"]);
    let told = grid.deskgrid(["job", "predict", &odd]).expect_code(0);
    let brief = "\n  1,3,5,7,9,11,13,15 and 492 more: ";
    assert!(told.stdout.contains(brief), "{}", told.stdout);
    grid.deskgrid(["job", "cancel", &odd]).expect_code(0);
    grid.worker("h1").start();
    let unknown = grid.submit(["--array", "1-2", "--", "sleep", "600"]);
    grid.until_it_runs(&format!("{unknown}.1"));
    let told = grid.deskgrid(["job", "predict", &unknown]).expect_code(0);
    let why = "yet: nothing tells how long a task takes (a finished one, --estimate, or five";
    assert!(told.stdout.contains(why), "{}", told.stdout);
    assert!(!told.stdout.contains("no host takes"), "{}", told.stdout);
    grid.deskgrid(["job", "cancel", &unknown]).expect_code(0);

    let long = grid.submit(["--estimate", "20m", "--array", "1-3", "--", "sleep", "600"]);
    let known = grid.until("a prediction", &["job", "predict", &long], |p| {
        (!p["predicted_finish"].is_null()).then(|| p.clone())
    });
    let text = |key: &str| known[key].as_str().expect("a time").to_owned();

    // ISO 8601 in UTC sorts by time.
    assert!(
        text("predicted_low") <= text("predicted_finish")
            && text("predicted_finish") <= text("predicted_high")
    );

    let told = grid.text(["job", "predict", &long]);
    assert!(told.contains("80 % likely"), "{told}");
    grid.deskgrid(["job", "cancel", &long]).expect_code(0);

    let ended = grid.json(["job", "predict", &long]);
    assert!(
        ended["predicted_finish"].is_null() && ended["finished"].is_string(),
        "{ended}"
    );
}
