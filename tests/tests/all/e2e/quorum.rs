//! Jobs that want several hosts to agree on each result.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tests::{Grid, Started, eventually};

/// What became of each attempt's result, by host.
fn beliefs(grid: &Grid, task: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<_> = grid
        .attempts(task)
        .iter()
        .map(|attempt| (text(&attempt["host"]), text(&attempt["belief"])))
        .collect();
    all.sort();
    all
}

#[test]
fn hosts_of_one_owner_cannot_outvote_others_and_open_results_survive_the_master() {
    let mut grid = Grid::start();
    for name in ["h1", "h2", "h3"] {
        grid.worker(name).start();
    }
    for name in ["h1", "h2"] {
        grid.admin(["host", "owner", name, "ann"]).expect_code(0);
    }

    grid.deskgrid(["host", "owner", "h3", "ann"]).expect_code(6);
    assert_eq!(grid.json(["host", "info", "h1"])["belongs_to"], "ann");

    // Three hosts, and two owners.
    let beyond = ["submit", "--dry-run", "--quorum", "3", "--", "true"];
    let answer = grid.json(beyond);
    let warning = answer["no_host_qualifies"].as_str();
    assert!(
        warning.is_some_and(|why| why.contains("2 owners")),
        "{answer}"
    );
    let warned = grid.deskgrid(beyond).expect_code(0);
    let reason =
        "until the hosts suffice: 3 results of different owners' hosts must agree, and all";
    assert!(warned.stderr.contains(reason), "{warned:?}");
    assert!(warned.stderr.contains("belong to 2 owners"), "{warned:?}");
    assert!(!warned.stdout.contains("owners"), "{warned:?}");

    let script = "case $DESKGRID_HOST in h1|h2) echo wrong;; *) echo right;; esac";
    let bag = grid.submit(["--quorum", "2", "--", "sh", "-c", script]);
    let task = format!("{bag}.1");
    grid.until("two results differ", &["task", "info", &task], |task| {
        let all = task["attempts"].as_array()?;
        (all.len() == 2 && all.iter().all(|attempt| attempt["belief"] == "open")).then_some(())
    });

    let why = grid.text(["job", "explain", &bag]);
    assert!(why.contains("another owner"), "{why}");
    assert_eq!(grid.job(&bag)["tasks"]["finished"], 0);

    grid.kill_master();
    grid.start_master();
    grid.worker("h4").start();
    grid.wait(&bag);
    assert_eq!(grid.text(["job", "cat", &bag, "stdout"]), "right\n");

    let beliefs = beliefs(&grid, &task);
    let of = |host: &str| {
        beliefs
            .iter()
            .find(|(name, _)| name == host)
            .map(|(_, belief)| belief.as_str())
    };
    assert_eq!(
        (of("h3"), of("h4"), beliefs.len()),
        (Some("agreed"), Some("agreed"), 3),
        "{beliefs:?}"
    );
    assert!(
        beliefs
            .iter()
            .any(|(host, belief)| ["h1", "h2"].contains(&host.as_str()) && belief == "differed")
    );

    let list = ["task", "list", &bag];
    let listed = grid.text(list);
    assert!(listed.contains(" h3 "), "its result counts: {listed}");
    let said = grid.text(["task", "info", &task]);
    assert!(
        said.contains("differs from that of attempt") && said.contains("another result"),
        "{said}"
    );
    let once = |words| said.matches(words).count() == 1;
    assert!(
        once("its result counts, as enough others agree with it")
            && once("its result agrees with that of attempt"),
        "{said}"
    );
}

#[test]
fn numbers_that_are_close_agree_and_other_results_end_the_task() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    grid.worker("h2").slots(2).start();

    // Process ids would not do: in namespaces of its own each task counts them anew.
    let script = "echo energy 1.0000$(od -An -N2 -tu2 /dev/urandom | tr -d ' ') > out; od -An -N4 /dev/urandom >&2";
    let args = [
        "--quorum",
        "2",
        "--compare",
        "float:1e-3",
        "--output-file",
        "out",
        "--array",
        "1-5",
        "--wait",
        "--",
    ];
    let bag = grid.submit(args.into_iter().chain(["sh", "-c", script]));
    assert_eq!(grid.job(&bag)["attempts"], 10);
    for name in ["h3", "h4", "h5", "h6"] {
        grid.worker(name).start();
    }

    let bag = grid.submit(["--quorum", "2", "--", "sh", "-c", "echo $DESKGRID_HOST"]);
    grid.deskgrid(["job", "wait", &bag, "--timeout", "60s"])
        .expect_code(3);

    let task = grid.json(["task", "info", &format!("{bag}.1")]);
    assert_eq!(
        (&task["state"], task["attempts"].as_array().map(Vec::len)),
        (&"failed".into(), Some(6)),
        "{task}"
    );
    assert!(
        task["reason"]
            .as_str()
            .is_some_and(|why| why.contains("too few of them agree")),
        "{task}"
    );
    for way in [&["--follow"][..], &[]] {
        let shown = grid.deskgrid([&["job", "cat", &bag, "stdout"], way].concat());
        let told = shown.expect_code(0).stderr;
        assert!(
            told.contains("with which not enough others agreed"),
            "{told}"
        );
    }

    grid.deskgrid(["submit", "--quorum", "9", "--", "true"])
        .expect_code(2);
    grid.deskgrid([
        "submit",
        "--quorum",
        "2",
        "--checkpoint",
        "5s",
        "--",
        "true",
    ])
    .expect_code(2);
}

#[test]
fn a_fetch_of_tasks_that_ended_before_enough_results_agreed_says_that_they_are_unconfirmed() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    let wanted = ["--quorum", "2", "--array", "1-2", "--output-file", "out"];
    let command = ["--", "sh", "-c", "echo 1 > out"];
    let bag = grid.submit(wanted.into_iter().chain(command));
    grid.until("both have a result", &["task", "list", &bag], |list| {
        let has_one = |task: &Value| task["attempts"][0]["belief"] == "open";
        let tasks = list["tasks"].as_array()?;
        tasks.iter().all(has_one).then_some(())
    });

    grid.deskgrid(["job", "cancel", &bag]).expect_code(0);
    let into = grid.dir().join("unconfirmed");
    let into = into.to_str().expect("UTF-8");
    let fetch = ["job", "fetch", &bag, "--into", into];
    let told = grid.deskgrid(fetch).expect_code(3).stderr;
    for words in [
        format!("2 tasks, such as {bag}.1, ended before enough results agreed"),
        format!("deskgrid task info {bag}.1"),
        format!("deskgrid job retry {bag}"),
    ] {
        assert!(told.contains(&words), "`{words}` in: {told}");
    }
}

#[test]
fn a_program_of_the_users_decides_which_results_agree() {
    let mut grid = Grid::with_worker();
    grid.worker("h2").start();

    let script = "echo $DESKGRID_HOST > who; echo $DESKGRID_TASK_ID";
    let args = [
        "--quorum",
        "2",
        "--compare",
        "program",
        "--output-file",
        "who",
        "--array",
        "1-4",
        "--",
    ];
    let bag = grid.submit(args.into_iter().chain(["sh", "-c", script]));
    grid.until("every result is there", &["task", "list", &bag], |list| {
        let tasks = list["tasks"].as_array()?;
        let open = |attempt: &Value| attempt["belief"] == "open";
        let both = |task: &Value| {
            task["attempts"]
                .as_array()
                .is_some_and(|a| a.len() == 2 && a.iter().all(open))
        };
        tasks.iter().all(both).then_some(())
    });

    assert_eq!(
        grid.job(&bag)["state"],
        "running",
        "nobody has said yet whether they agree"
    );

    let why = grid.text(["job", "explain", &bag]);
    assert!(why.contains("deskgrid job judge"), "{why}");
    grid.deskgrid(["job", "judge", &bag, "--", "no-such-program"])
        .expect_code(1);
    grid.deskgrid(["job", "judge", &bag, "--", "sh", "-c", "exit 3"])
        .expect_code(1);

    let fetch = ["job", "fetch", &bag, "--into", "so-far"];
    let told = grid.deskgrid(fetch).expect_code(3).stderr;
    assert!(
        told.contains(&format!("deskgrid job judge {bag} -- CMD")),
        "{told}"
    );
    assert!(!told.contains("earlier attempt"), "{told}");
    let unconfirmed = "what is shown is one of its results, which have to agree first";
    let told = grid
        .deskgrid(["job", "cat", &bag, "stdout"])
        .expect_code(0)
        .stderr;
    assert!(told.contains(unconfirmed), "{told}");
    assert!(
        told.contains(&format!("deskgrid job judge {bag} -- CMD")),
        "{told}"
    );
    let shown = grid.json(["job", "cat", &bag, "stdout"]);
    assert_eq!(shown["tasks"][0]["unconfirmed"], true, "{shown}");

    for signal in [Signal::INT, Signal::TERM] {
        interrupted_midway(&grid, &bag, signal);
    }

    let only = ["job", "cancel", &bag, "--tasks", "4"];
    grid.deskgrid(only).expect_code(0);
    let told = grid.text(["task", "info", &format!("{bag}.4")]);
    assert!(
        told.contains("its result was not confirmed") && !told.contains("waits until"),
        "{told}"
    );

    // Each sees another host's file and the same output; this program cares for the output alone.
    let compare = "test -s \"$0/who\" && test -s \"$1/who\" && cmp -s \"$0/stdout\" \"$1/stdout\"";
    let judged = grid.json(["job", "judge", &bag, "--", "sh", "-c", compare]);
    assert_eq!(
        (&judged["compared"], &judged["differed"]),
        (&3.into(), &0.into()),
        "{judged}"
    );

    let done = grid.job(&bag);
    assert_eq!(
        (&done["state"], &done["attempts"]),
        (&"cancelled".into(), &8.into())
    );
    let counts = grid.deskgrid(["job", "cat", &bag, "stdout"]).expect_code(0);
    assert!(!counts.stderr.contains(unconfirmed), "{}", counts.stderr);
}

/// Ends the judging of a job with `signal` while the user's program compares: no copy of a result is left, nor what a
/// judge before it had to leave.
#[track_caller]
fn interrupted_midway(grid: &Grid, bag: &str, signal: Signal) {
    let begun = grid.dir().join("begun");
    let temporary = grid.dir().join("temporary");
    let _ = fs::remove_file(&begun);
    grid.file("temporary/deskgrid-judge-dead/lock", "");
    let compare = format!("touch {}; exec sleep 1000", begun.display());
    let mut command = grid.command("user");
    command.env("TMPDIR", &temporary);
    let judging = Started::new(command.args(["job", "judge", bag, "--", "sh", "-c", &compare]));
    eventually("the program runs", Duration::from_secs(60), || {
        begun.exists().then_some(())
    });
    let there = fs::read_dir(&temporary).expect("it is there");
    assert_eq!(there.count(), 1, "copies of results are there");
    judging.signal(signal);

    let said = judging.finish().expect_code(1).stderr;
    assert!(said.contains("interrupted"), "{said}");
    let left = fs::read_dir(&temporary).expect("it is there");
    assert_eq!(left.count(), 0, "copies of results are left");
}
