//! Followers of events: programs that want to know what happens, whatever happens to them and to
//! the master.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use tests::{Grid, Started, eventually};

/// The events in the lines that a command has printed. The last line may have been cut by a kill.
fn events(text: &str) -> Vec<Value> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a JSON value on each line"))
        .collect()
}

/// The number of an event.
fn seq(event: &Value) -> u64 {
    event["seq"].as_u64().expect("a number")
}

/// All events beyond this number.
fn past(grid: &Grid, after: u64) -> Vec<Value> {
    let after = after.to_string();
    let args = [
        "--output",
        "json",
        "events",
        "--past",
        "--after",
        &after,
        "--results",
    ];
    events(&grid.text(args))
}

/// The events of one kind, of these.
fn of<'a>(all: &'a [Value], kind: &str) -> Vec<&'a Value> {
    all.iter().filter(|event| event["event"] == kind).collect()
}

#[test]
fn a_follower_sees_each_event_once_though_it_and_the_master_are_killed() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    let follow = |grid: &Grid, after: u64| {
        let after = after.to_string();
        let args = ["--output", "json", "events", "--after", &after];
        grid.background(args)
    };

    let follower = follow(&grid, 0);
    let bag = grid.submit(["--array", "1-40", "--", "sleep", "0.1"]);
    let some = |j: &Value| j["tasks"]["finished"].as_u64().filter(|n| *n >= 8);
    grid.until("eight tasks are finished", &["job", "info", &bag], some);
    grid.kill_master();
    grid.start_master();
    let more = |j: &Value| j["tasks"]["finished"].as_u64().filter(|n| *n >= 20);
    grid.until("twenty tasks are finished", &["job", "info", &bag], more);

    let mut seen = events(&follower.killed().stdout);
    assert!(!seen.is_empty(), "it had seen some before it was killed");
    let last = seen.last().map_or(0, seq);
    grid.wait(&bag);
    seen.extend(past(&grid, last));

    let numbers: Vec<u64> = seen.iter().map(seq).collect();
    let once: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!(numbers.len(), once.len(), "none twice");
    assert!(numbers.is_sorted(), "in their order");
    let whole = past(&grid, 0);
    let all: Vec<u64> = whole.iter().map(seq).collect();
    assert_eq!(numbers, all, "none missed");

    let finished: BTreeSet<&str> = of(&whole, "task-finished")
        .iter()
        .filter_map(|event| event["task"].as_str())
        .collect();
    assert_eq!(finished.len(), 40);
    assert_eq!(of(&whole, "task-finished").len(), 40);
    let ends = of(&whole, "job-settled");
    assert!(
        ends.len() == 1 && ends[0]["state"] == "finished",
        "{ends:?}"
    );
}

#[test]
fn a_follower_of_the_last_job_stays_with_it_though_another_is_submitted_while_the_master_is_away() {
    let mut grid = Grid::start();
    let first = grid.submit(["--", "true"]);
    let log = grid.dir().join("followed");
    let mut command = grid.command("user");
    command.args([
        "--output", "json", "events", "--job", "last", "--after", "0",
    ]);
    let follower = Started::server(&mut command, &log);
    let seen = |word: &str| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains(word).then_some(text)
    };
    let patience = Duration::from_secs(60);
    eventually("it follows", patience, || seen("job-submitted"));

    grid.kill_master();
    grid.start_master();
    let second = grid.submit(["--", "true"]);
    for job in [&first, &second] {
        grid.deskgrid(["job", "cancel", job]).expect_code(0);
    }
    let text = eventually("a job has ended", patience, || seen("job-settled"));
    drop(follower);
    let lines = text.lines().filter(|line| line.contains("job-settled"));
    let ended: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(ended[0]["job"].to_string(), first);
}

#[test]
fn results_of_many_commits_are_read_in_a_few_turns() {
    let mut grid = Grid::start_with("[limits]\nrequests_per_s = 10\n");
    grid.worker("h1").slots(4).start();
    let bag = grid.submit(["--array", "1-300", "--", "true"]);
    grid.wait(&bag);

    // A turn for each commit would take longer than any command of a test may.
    let all = past(&grid, 0);
    let finished = of(&all, "task-finished");
    let with_result = finished
        .iter()
        .filter(|event| event["result"]["host"] == "h1");
    assert_eq!((finished.len(), with_result.count()), (300, 300));
}

#[test]
fn results_ride_along_with_the_events_of_their_tasks() {
    let grid = Grid::with_worker();
    let script = "echo hello; echo text > a.txt; head -c 70000 /dev/zero > b.bin; test $DESKGRID_TASK_ID = 1";
    let short = grid.submit([
        "--array",
        "1-2",
        "--retries",
        "0",
        "--output-file",
        "a.txt",
        "--",
        "sh",
        "-c",
        script,
    ]);
    grid.deskgrid(["job", "wait", &short]).expect_code(3);
    let long = grid.submit([
        "--wait",
        "--output-file",
        "a.txt",
        "--output-file",
        "b.bin",
        "--",
        "sh",
        "-c",
        script,
    ]);

    let all = past(&grid, 0);
    let result = |kind: &str, task: String| {
        let found = of(&all, kind).into_iter().find(|e| e["task"] == task);
        found.expect("an event of the task")["result"].clone()
    };
    let well = result("task-finished", format!("{short}.1"));
    assert_eq!(
        (&well["stdout"], &well["host"]),
        (&"hello\n".into(), &"h1".into())
    );
    let files = |result: &Value| {
        let files = result["files"].as_array().expect("files").clone();
        let file = |f: Value| (f["path"].clone(), f["text"].clone());
        files.into_iter().map(file).collect::<Vec<_>>()
    };
    assert_eq!(files(&well), [("a.txt".into(), "text\n".into())]);
    let badly = result("task-failed", format!("{short}.2"));
    assert_eq!(badly["stdout"], "hello\n");

    // Beyond 64 KiB only the names of files come.
    let large = result("task-finished", format!("{long}.1"));
    let names = [("a.txt".into(), Value::Null), ("b.bin".into(), Value::Null)];
    assert_eq!(files(&large), names);
}

#[test]
fn users_are_told_of_their_own_jobs_and_admins_of_all_and_of_hosts() {
    let grid = Grid::with_worker();
    grid.login("bob");
    let own = grid.submit(["--wait", "--", "true"]);
    let seen_by = |who: &str, more: &[&str]| {
        let args = ["--output", "json", "events", "--past"];
        let told = grid.as_user(who, args.iter().chain(more)).expect_code(0);
        events(&told.stdout)
    };

    assert!(seen_by("bob", &[]).is_empty());
    let user = seen_by("user", &[]);
    assert!(!of(&user, "task-finished").is_empty() && of(&user, "host-changed").is_empty());
    let admin = seen_by("admin", &[]);
    assert!(!of(&admin, "task-finished").is_empty());
    let hosts = of(&admin, "host-changed");
    assert!(
        hosts[0]["host"] == "h1" && hosts[0]["state"] == "ready",
        "{hosts:?}"
    );
    assert!(of(&seen_by("admin", &["--job", &own]), "host-changed").is_empty());

    let other = grid.as_user("bob", ["events", "--past", "--job", &own]);
    assert!(other.stderr.contains("there is no job"), "{}", other.stderr);
    grid.deskgrid(["job", "share", &own, "--with", "bob"])
        .expect_code(0);
    assert_eq!(
        of(&seen_by("bob", &["--job", &own]), "task-finished").len(),
        1
    );

    grid.deskgrid(["job", "forget", &own]).expect_code(0);
    let left = seen_by("user", &[]);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["event"], "job-forgotten");
}

#[test]
fn whoever_asks_for_events_to_come_or_for_none_that_are_known_is_told() {
    let grid = Grid::with_worker();
    let bag = grid.submit(["--wait", "--", "true"]);
    let future = grid.deskgrid(["events", "--after", "99999"]);
    future.expect_code(2);
    let nowhere = grid.deskgrid(["events", "--host", "nobody"]);
    assert!(
        nowhere.stderr.contains("there is no host"),
        "{}",
        nowhere.stderr
    );

    let text = grid
        .deskgrid(["events", "--past", "--job", &bag])
        .expect_code(0);
    let said = format!("task {bag}.1 finished on h1");
    assert!(text.stdout.contains(&said), "{}", text.stdout);
}

#[test]
fn a_suspended_task_is_told_of_with_the_reason_and_so_is_its_going_on() {
    let grid = Grid::with_worker();
    let bag = grid.submit(["--", "sleep", "3"]);
    grid.until_it_runs(&format!("{bag}.1"));
    let pause = ["worker", "pause", "--for", "1s"];
    grid.as_user("h1", pause).expect_code(0);
    grid.wait(&bag);

    let all = past(&grid, 0);
    let kinds: Vec<&str> = all.iter().filter_map(|e| e["event"].as_str()).collect();
    let place = |kind: &str| kinds.iter().position(|k| *k == kind);
    let order = [
        "task-running",
        "task-suspended",
        "task-resumed",
        "task-finished",
    ];
    let places: Vec<usize> = order.iter().filter_map(|kind| place(kind)).collect();
    assert!(places.len() == 4 && places.is_sorted(), "{kinds:?}");
    let why = of(&all, "task-suspended")[0]["reason"].as_str();
    assert!(why.is_some_and(|why| !why.is_empty()), "{all:?}");
}

#[test]
fn progress_that_a_task_reports_is_shown_and_what_is_none_is_ignored_with_a_word() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();
    let file = |name: &str| grid.dir().join(name).display().to_string();
    let (odd, end) = (file("odd"), file("end"));
    let script = format!(
        "sleep 1; echo 0.5 half of it > $DESKGRID_PROGRESS; while ! test -e {odd}; do sleep 0.05; done; \
         echo NaN > $DESKGRID_PROGRESS; while ! test -e {end}; do sleep 0.05; done"
    );
    let bag = grid.submit(["--array", "1-2", "--", "sh", "-c", &script]);
    let task = format!("{bag}.1");
    let words = |text: &'static str| {
        move |j: &Value| {
            let attempt = &j["attempts"][0];
            let words = attempt["progress_words"].as_str()?;
            words.contains(text).then(|| attempt["progress"].clone())
        }
    };

    let part = grid.until(
        "it is half done",
        &["task", "info", &task],
        words("half of it"),
    );
    assert_eq!(part, 0.5);
    let of_job = grid.job(&bag);
    assert_eq!(
        of_job["progress"], 0.25,
        "one of two tasks is half done: {of_job}"
    );
    let text = grid.text(["task", "info", &task]);
    assert!(text.contains("50 % done: half of it"), "{text}");

    std::fs::write(&odd, "").expect("a file can be written");
    let word = words("`NaN` is not a number from 0 to 1");
    grid.until(
        "it is told that this is none",
        &["task", "info", &task],
        word,
    );
    std::fs::write(&end, "").expect("a file can be written");
    grid.wait(&bag);
    let done = grid.json(["task", "info", &task]);
    assert_eq!(done["attempts"][0]["progress"], Value::Null);
}
