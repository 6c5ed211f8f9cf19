//! What people get to read when something is wrong, and that nothing is half-done then.

use std::process::Stdio;

use tests::{Grid, Output};

/// The code, and words that must occur on standard error, where nothing else may be.
#[track_caller]
fn fails(output: Output, code: i32, words: &[&str]) {
    let Output { stdout, stderr, .. } = output.expect_code(code);
    assert_eq!(stdout, "", "{stderr}");
    assert!(stderr.contains("error:"), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "`{word}` in: {stderr}");
    }
}

/// The exit code of a command whose output nobody reads, and what it complained about.
fn unread(grid: &Grid, words: &[&str]) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = grid.command("user");
    command.args(words).stdin(Stdio::null()).stdout(writer);

    let ended = command.output().expect("it can be started");
    let complaints = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code(), complaints)
}

#[test]
fn a_submission_whose_answer_cannot_be_printed_says_that_it_is_made() {
    let grid = Grid::start();
    let full = |words: &[&str]| {
        let device = std::fs::File::create("/dev/full").expect("Linux has it");
        let mut command = grid.command("user");
        command.args(words).stdin(Stdio::null()).stdout(device);
        let ended = command.output().expect("it can be started");
        assert_eq!(ended.status.code(), Some(1));
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };

    let told = full(&["submit", "--open", "--", "true"]);
    assert!(told.contains("error: job 1 was submitted, but:"), "{told}");
    let told = full(&["submit", "--into", "1"]);
    assert!(told.contains("were added to job 1, but:"), "{told}");
    let info = grid.job("1");
    assert_eq!(info["tasks"]["total"], 2, "{info}");
}

#[test]
fn a_reader_that_goes_away_changes_no_exit_code_and_ends_what_would_print_on() {
    let grid = Grid::with_worker();
    grid.submit(["--wait", "--array", "1-3", "--", "echo", "said"]);
    for printing in [
        &["job", "list", "--all"][..],
        &["task", "list", "1"],
        &["--output", "quiet", "task", "list", "1"],
        &["job", "cat", "1", "stdout"],
        &["events", "--after", "0"],
        &["completions", "bash"],
    ] {
        let (code, complaints) = unread(&grid, printing);
        assert_eq!(code, Some(0), "{printing:?}: {complaints}");
        assert_eq!(complaints, "", "{printing:?}");
    }

    let failing = ["--output", "json", "submit", "--wait", "--", "false"];
    assert_eq!(unread(&grid, &failing).0, Some(3));

    // It ends with its standard input, and leaves nothing.
    let serving = ["dashboard", "--no-open", "--tied"];
    assert_eq!(unread(&grid, &serving).0, Some(0));
    let left: Vec<String> = std::fs::read_dir(grid.dir())
        .expect("the grid's directory")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("deskgrid-"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn each_wrong_thing_is_a_clear_error_with_its_own_exit_code() {
    let grid = Grid::start();
    fails(
        grid.deskgrid(["submit", "--arrray", "1-3", "--", "true"]),
        2,
        &["--arrray", "--array"],
    );
    fails(
        grid.deskgrid(["submit", "--array", "3-1", "--", "true"]),
        2,
        &["3-1"],
    );
    fails(
        grid.deskgrid(["submit", "--input", "nowhere.txt", "--", "true"]),
        2,
        &["nowhere.txt", "try:"],
    );
    fails(
        grid.deskgrid(["submit", "--policy", "MAGIC", "--", "true"]),
        2,
        &["MAGIC", "try:"],
    );
    fails(
        grid.deskgrid(["submit", "--", "echo", "%{NONSENSE}"]),
        2,
        &["NONSENSE"],
    );

    fails(
        grid.deskgrid(["submit", "--array", "all", "--", "true"]),
        2,
        &["`all` is not a number or a range", "`1-10:2`"],
    );
    fails(
        grid.deskgrid(["submit", "--adaptive", "--", "true"]),
        2,
        &["`adaptive` needs a `quorum`", "try: --quorum 2"],
    );

    grid.file("bad.toml", "name = \"x\"\ncolour = \"blue\"\n");
    fails(
        grid.deskgrid(["submit", "--job-file", "bad.toml", "--", "true"]),
        2,
        &["bad.toml", "colour"],
    );
    // A file that is named and cannot be read is a mistake of the command line in each command.
    let worker = ["worker", "start", "--master", "127.0.0.1:1", "--join"];
    for words in [
        [&worker[..], &["@nowhere.txt"]].concat(),
        [&worker[..], &["x", "--config", "nowhere.txt"]].concat(),
        vec!["host", "settings", "set", "nowhere.txt"],
        vec![
            "host",
            "update",
            "start",
            "--program",
            "nowhere.txt",
            "--key",
            "nowhere.txt",
        ],
        vec!["master", "start", "--config", "nowhere.txt"],
        vec!["trace", "stats", "nowhere.txt"],
    ] {
        fails(
            grid.deskgrid(words),
            2,
            &["nowhere.txt", "because:", "try:"],
        );
    }
    fails(grid.deskgrid(["job", "info", "99"]), 1, &["99", "try:"]);
    fails(grid.deskgrid(["task", "info", "99.1"]), 1, &["99", "try:"]);
    fails(
        grid.deskgrid(["host", "info", "nobody"]),
        1,
        &["nobody", "try:"],
    );
    fails(grid.as_user("stranger", ["job", "list"]), 6, &["login"]);

    assert!(grid.jobs().is_empty(), "nothing is half-done");
}

#[test]
fn a_denied_permission_is_reported_with_the_cure() {
    let grid = Grid::start();
    let login = ["login", "--master"];
    let with = |more: &[&str]| grid.as_user("fresh", [&login[..], more].concat());
    fails(
        with(&["http://grid:7411"]),
        2,
        &["it is a URL", "HOST:PORT", "try:"],
    );
    fails(
        with(&["127.0.0.1", "--join", "@gone"]),
        2,
        &["the token in gone", "try: check the name"],
    );
    fails(
        with(&["127.0.0.1", "--join-file", "gone"]),
        2,
        &["the token in gone", "try: check the name"],
    );
    let nobody_to_ask = [
        "no join token was given",
        "because: standard input is no terminal",
        "try: --join-file FILE, --join -",
        "DESKGRID_JOIN",
    ];
    fails(with(&["127.0.0.1"]), 6, &nobody_to_ask);
    fails(with(&["127.0.0.1", "--join", ""]), 6, &nobody_to_ask);
    fails(grid.as_user("fresh", ["login"]), 6, &["no identity in"]);

    let start = |listen: &str| {
        let words = ["master", "start", "--http", "none", "--listen", listen];
        grid.as_user("second", words)
    };
    fails(
        start(grid.listen()),
        1,
        &[grid.listen(), "in use", "try: stop the program", "--listen"],
    );

    grid.file("state/file", "");
    let under = ["master", "start", "--listen", "127.0.0.1:0"];
    fails(
        grid.as_user("file/below", under),
        1,
        &["cannot make", "try: a file is in the way"],
    );

    fails(
        grid.deskgrid(["host", "resume", "h1"]),
        6,
        &["resuming a host needs the role admin"],
    );
}

#[test]
fn an_unreadable_state_directory_is_not_called_empty() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: only root can be somebody else");
    }
    let mut grid = Grid::with_worker();

    for who in ["user", "h1"] {
        grid.wrap(who, ["setpriv", "--reuid=65534", "--clear-groups"]);
    }
    let denied = ["Permission denied", "try: run it as"];
    fails(grid.deskgrid(["job", "list"]), 6, &denied);
    fails(
        grid.deskgrid(["login", "--master", grid.listen()]),
        6,
        &denied,
    );
    let doctor = grid.deskgrid(["doctor"]).stdout;
    assert!(
        doctor.contains("run deskgrid doctor as the account"),
        "{doctor}"
    );
    assert!(!doctor.contains("has not joined"), "{doctor}");

    for command in ["status", "pause", "resume"] {
        let as_worker = ["try: run it as the worker's account or root"];
        fails(grid.as_user("h1", ["worker", command]), 6, &as_worker);
    }
}

#[test]
fn the_program_alone_prints_the_shipped_settings() {
    let grid = Grid::prepared("");
    let print = |words: &[&str]| grid.admin(words).expect_code(0).stdout;
    let master = print(&["master", "config"]);
    let worker = print(&["worker", "config"]);
    assert!(master::Config::parse(&master).is_ok_and(|read| read == master::Config::default()));
    assert!(
        worker
            .parse::<worker::Config>()
            .is_ok_and(|read| read == worker::Config::default())
    );
    assert!(print(&["worker", "config", "--like", "htcondor"]).contains("HTCondor"));

    for who in ["master", "worker"] {
        let file = grid.file("bad.toml", "colour = \"blue\"\n");
        let mut words = vec![who.as_ref(), "start".as_ref(), "--config".as_ref()];
        words.push(file.as_os_str());
        let hint = format!("try: deskgrid {who} config prints every setting");
        fails(grid.admin(words), 2, &["colour", &hint]);
    }
}

#[test]
fn a_store_that_is_elsewhere_is_refused_with_what_to_do_about_it() {
    let grid = Grid::prepared("");
    let admin = |words: &[&str]| grid.admin([&["master"], words].concat());
    let nowhere = "postgres://deskgrid@127.0.0.1:1/grid";
    let other = "mysql://deskgrid@127.0.0.1/grid";

    let begun = [
        "has to begin with postgres://",
        "try: correct it in --store",
    ];
    let started = ["master", "start", "--store", other];
    fails(grid.as_user("another", started), 2, &begun);
    let dir = [
        "no master's state",
        "try: name the master's state directory",
    ];
    fails(admin(&["move", "--to", nowhere]), 2, &dir);

    let home = grid.file("state/admin/master/note", "");
    let home = home.parent().expect("the master's directory");
    let none = ["no store in", "try: name the state directory of the grid"];
    fails(admin(&["move", "--to", nowhere]), 2, &none);
    let begun = [
        "has to begin with postgres://",
        "try: name the database as in --to",
    ];
    fails(admin(&["move", "--to", other]), 2, &begun);
    // A database that does not answer leaves nothing of the move behind.
    let away = ["cannot be reached", "try: see to the database", "--from"];
    fails(admin(&["move", "--from", nowhere]), 1, &away);
    let left = std::fs::read_dir(home).expect("can be read").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name == "store.part"), "{left:?}");

    std::fs::write(home.join("store.sqlite"), "").expect("a file of the test's own");
    let there = [
        "there is a store in",
        "try: this grid has its store in that file",
    ];
    fails(admin(&["move", "--from", nowhere]), 2, &there);
    let there = ["is the file", "try: start without --store"];
    fails(admin(&["start", "--store", nowhere]), 2, &there);
    std::fs::remove_file(home.join("store.sqlite")).expect("a file of the test's own");
    std::fs::write(home.join("database"), "127.0.0.1:1/grid\n").expect("a file of the test's own");
    let there = [
        "is in PostgreSQL, at 127.0.0.1:1/grid",
        "master start --store postgres://",
    ];
    fails(admin(&["start"]), 2, &there);
    fails(admin(&["move", "--to", nowhere]), 2, &there);
    let there = [
        "is in PostgreSQL, at 127.0.0.1:1/grid",
        "try: name its address",
    ];
    fails(admin(&["backup", "copy"]), 2, &there);
    fails(admin(&["check"]), 2, &there);
}

#[test]
fn settings_that_cannot_be_read_are_refused_with_the_cause() {
    let grid = Grid::start();
    grid.file("dist/deskgrid-worker-1.0.0-linux-x86_64.tar.xz", "packed");
    let dist = grid.dir().join("dist");
    let dist = dist.to_str().expect("UTF-8");
    let cause = ["no-such.toml", "No such file", "try: check the name"];

    let settings = ["--config", "no-such.toml"];
    let package = [
        "package", "--format", "sh", "--from", dist, "--master", "grid",
    ];
    fails(grid.admin([&package[..], &settings].concat()), 2, &cause);
    fails(
        grid.as_user("h1", [&["worker", "start"], &settings[..]].concat()),
        2,
        &cause,
    );
    fails(
        grid.as_user("other", [&["master", "start"], &settings[..]].concat()),
        2,
        &cause,
    );
}

#[test]
fn a_file_with_a_secret_that_others_may_read_is_pointed_out_once() {
    use std::os::unix::fs::PermissionsExt;
    let grid = Grid::start();
    let set = |path: &std::path::Path, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("a file of the test's own");
    };
    let said = |path: &std::path::Path, words: &[&str]| {
        let output = grid.as_user("other", words);
        let line = format!("chmod 600 {}", path.display());
        (output.stderr + &output.stdout).matches(&line).count()
    };

    let text = "store = \"postgres://deskgrid:secret@127.0.0.1:1/grid\"\n";
    let settings = grid.file("secret.toml", text);
    let doctor = [
        "doctor",
        "--master-config",
        settings.to_str().expect("UTF-8"),
    ];
    for (mode, times) in [(0o644, 1), (0o600, 0)] {
        set(&settings, mode);
        assert_eq!(said(&settings, &doctor), times, "mode {mode:o}");
    }
    // Without a password anybody may read them.
    let plain = grid.file("plain.toml", text.replace(":secret", ""));
    set(&plain, 0o644);
    let doctor = ["doctor", "--master-config", plain.to_str().expect("UTF-8")];
    assert_eq!(said(&plain, &doctor), 0);

    let token = grid.file("token", grid.token("client"));
    let join = format!("@{}", token.display());
    let login = [
        "login",
        "--rejoin",
        "--master",
        grid.listen(),
        "--join",
        &join,
    ];
    set(&token, 0o644);
    assert_eq!(said(&token, &login), 1);
    // All that `token create` prints, with how to use the token below it.
    let printed = grid.admin(["token", "create", "--role", "client"]);
    std::fs::write(&token, printed.expect_code(0).stdout).expect("a file of the test's own");
    set(&token, 0o600);
    assert_eq!(said(&token, &login), 0);
}

#[test]
fn an_unreachable_master_is_said_and_has_its_own_exit_code() {
    let mut grid = Grid::start();
    grid.kill_master();
    fails(grid.deskgrid(["job", "list"]), 7, &["master", "try:"]);
    fails(grid.deskgrid(["submit", "--", "true"]), 7, &["try:"]);
}

#[test]
fn errors_are_json_for_scripts() {
    let grid = Grid::start();
    let output = grid
        .deskgrid(["--output", "json", "job", "info", "99"])
        .expect_code(1);
    let error = if output.stdout.is_empty() {
        &output.stderr
    } else {
        &output.stdout
    };
    let value: serde_json::Value = serde_json::from_str(error).expect("one JSON value");
    assert_eq!(value["schema"], 1);
    assert!(
        value["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("99")),
        "{value}"
    );

    assert!(
        value["error"]["code"].is_string() && value["error"]["hint"].is_string(),
        "{value}"
    );
}

#[test]
fn a_program_that_is_not_there_is_said_with_its_name() {
    let grid = Grid::with_worker();
    grid.deskgrid(["submit", "--wait", "--", "no-such-program-here"])
        .expect_code(3);
    let reason = grid.attempts("1.1")[0]["reason"].to_string();
    assert!(reason.contains("no-such-program-here"), "{reason}");
}

#[test]
fn who_asks_before_a_task_has_ended_is_told_how_to_watch_it() {
    let grid = Grid::with_worker();
    grid.submit(["--", "sleep", "60"]);

    let cat = grid
        .deskgrid(["job", "cat", "last", "stdout"])
        .expect_code(0);
    for word in [
        "no task of job 1 has left anything yet",
        "--follow",
        "deskgrid task list 1",
    ] {
        assert!(cat.stderr.contains(word), "`{word}` in: {}", cat.stderr);
    }
    let into = grid.dir().join("early");
    let fetch = [
        "job",
        "fetch",
        "last",
        "--into",
        into.to_str().expect("a path"),
    ];
    let fetch = grid.deskgrid(fetch).expect_code(3);
    assert!(
        fetch
            .stderr
            .contains("no task of job 1 has left a file yet"),
        "{}",
        fetch.stderr
    );
    assert!(!into.exists(), "nothing was made");
}

#[test]
fn a_job_without_output_is_told_from_one_that_printed() {
    let grid = Grid::with_worker();
    grid.submit(["--wait", "--", "true"]);
    grid.submit(["--wait", "--", "echo", "words"]);

    for (job, words) in [
        (
            "1",
            "left no files: submit --output-file says which to keep",
        ),
        ("2", "they only printed: deskgrid job cat 2 stdout"),
    ] {
        let told = grid.deskgrid(["job", "fetch", job, "--into", "nowhere"]);
        let told = told.expect_code(0).stderr;
        assert!(told.contains(words), "`{words}` in: {told}");
    }
}

#[test]
fn the_doctor_says_of_a_machine_that_has_joined_nothing_how_to_join() {
    let grid = Grid::start();
    let told = grid.as_user("stranger", ["doctor"]).stdout;
    assert!(
        told.contains("this machine has not joined a grid"),
        "{told}"
    );
    assert!(told.contains("deskgrid login"), "{told}");
}

#[test]
fn of_a_list_the_jobs_that_were_submitted_last_can_be_asked_for() {
    let grid = Grid::with_worker();
    for _ in 0..3 {
        grid.submit(["--wait", "--", "true"]);
    }

    let last = grid.json(["job", "list", "--all", "--last", "2"]);
    let jobs = last["jobs"].as_array().expect("jobs");
    let mut numbers: Vec<u64> = jobs.iter().filter_map(|job| job["job"].as_u64()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3], "{last}");
}

#[test]
fn tasks_beyond_the_last_one_are_named() {
    let grid = Grid::start();
    let job = grid.submit(["--array", "1-9", "--", "true"]);
    for asked in [
        vec!["task", "list", &job, "--tasks"],
        vec!["job", "cat", &job, "stdout"],
        vec!["job", "fetch", &job, "--into", "here", "--tasks"],
    ] {
        let some = [&asked[..], &["8-12"]].concat();
        let told = grid.deskgrid(some).stderr;
        assert!(
            told.contains("has no task 10-12: its last is 9"),
            "{asked:?}: {told}"
        );
        let there = [&asked[..], &["8-9"]].concat();
        let told = grid.deskgrid(there).stderr;
        assert!(!told.contains("has no task"), "{asked:?}: {told}");
    }
}

#[test]
fn lists_of_entries_longer_than_a_message_together_are_whole() {
    let grid = Grid::start();
    let lines: String = (1..=200).map(|n| format!("{n:04000}\n")).collect();
    let items = grid.file("items.txt", lines).display().to_string();
    let job = grid.submit(["--each-line", &items, "--noop"]);
    let tasks = grid.json(["task", "list", &job]);
    let tasks = tasks["tasks"].as_array().expect("a list");
    assert_eq!(tasks.len(), 200);

    // Each of these jobs waits for a hundred, and has labels as long as they may be.
    let labels: Vec<String> = (0..32).map(|n| format!("{n:x>60}")).collect();
    let after: Vec<String> = (0..100).map(|_| grid.submit(["--noop"])).collect();
    for _ in 0..100 {
        let mut words = vec!["submit", "--noop"];
        words.extend(after.iter().flat_map(|job| ["--after", job]));
        words.extend(labels.iter().flat_map(|label| ["--label", label]));
        grid.deskgrid(words).expect_code(0);
    }
    let jobs = grid.json(["job", "list"]);
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(201));
}
