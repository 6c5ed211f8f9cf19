//! Who may do what, and what the master shows to anyone.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tests::{Grid, Http, eventually};

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from)
        .expect("an identity")
        .flatten()
        .filter(|e| e.path().is_file())
    {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copies");
    }
}

#[test]
fn a_workers_certificate_cannot_submit_and_a_clients_cannot_work() {
    let grid = Grid::with_worker();
    copy_dir(
        &grid.state("h1").join("worker"),
        &grid.state("imposter").join("client"),
    );

    let refused = grid
        .as_user("imposter", ["submit", "--", "true"])
        .expect_code(6);
    assert!(refused.stderr.contains("error:"), "{refused:?}");

    copy_dir(
        &grid.state("user").join("client"),
        &grid.state("imposter").join("worker"),
    );

    let refused = grid
        .as_user("imposter", ["worker", "start", "--slots", "1"])
        .expect_code(6);
    assert!(refused.stderr.contains("error:"), "{refused:?}");
    assert_eq!(
        grid.json(["host", "list"])["hosts"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );

    assert!(grid.jobs().is_empty());
}

#[test]
fn a_client_is_no_admin() {
    let grid = Grid::with_worker();
    grid.deskgrid(["token", "create", "--role", "admin"])
        .expect_code(6);
    grid.deskgrid(["token", "list"]).expect_code(6);
    grid.deskgrid(["host", "drain", "h1"]).expect_code(6);
}

#[test]
fn no_user_sees_or_cancels_the_jobs_of_another() {
    let grid = Grid::start();
    grid.login("other");
    let bag = grid.submit(["--", "true"]);
    let denied = grid.as_user("other", ["job", "info", &bag]);
    assert!(matches!(denied.code, 1 | 6), "{denied:?}");
    let denied = grid.as_user("other", ["job", "cancel", &bag]);
    assert!(matches!(denied.code, 1 | 6), "{denied:?}");
    assert_eq!(grid.job(&bag)["state"], "waiting");
}

#[test]
fn a_list_with_jobs_of_others_says_whose_they_are() {
    let grid = Grid::start();
    grid.submit(["--", "true"]);
    let listed = |who: &str| grid.as_user(who, ["job", "list"]).expect_code(0).stdout;

    let of_all = listed("admin");
    let mut words = of_all.split_whitespace();
    assert!(words.any(|word| word == "USER"), "{of_all}");
    assert!(words.any(|word| word == "user"), "{of_all}");
    let own = listed("user");
    assert!(!own.contains("USER"), "{own}");
}

#[test]
fn a_token_works_as_often_as_it_says_and_not_after_it_is_revoked() {
    let grid = Grid::start();
    let join = |who: &str, token: &str| {
        grid.as_user(who, ["login", "--master", grid.listen(), "--join", token])
    };
    let token = grid.token("client");
    join("first", &token).expect_code(0);
    join("second", &token).expect_code(6);
    let log = fs::read_to_string(grid.dir().join("master.log")).expect("the master's log");
    let told = log.matches("the join token has been used up").count();
    assert_eq!(told, 1, "one refusal is one line: {log}");

    let revoked = grid.token("client");
    let number = revoked.split('.').nth(1).expect("dg1.NUMBER...");
    grid.admin(["token", "revoke", number]).expect_code(0);
    join("third", &revoked).expect_code(6);

    let (head, hash) = grid
        .token("client")
        .rsplit_once('.')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .expect("parts");
    let wrong_ca = format!("{head}.{}", hash.chars().rev().collect::<String>());
    join("fourth", &wrong_ca).expect_code(6);
}

#[test]
fn a_list_of_tokens_says_of_each_that_cannot_be_used_any_more_why() {
    let grid = Grid::start();
    let make = |more: &[&str]| {
        let words = ["token", "create", "--role", "client"];
        let made = grid.admin(words.iter().chain(more).copied());
        made.expect_code(0).stdout
    };
    let used = make(&["--name", "used"]);
    let token = used.lines().next().expect("a token");
    grid.as_user(
        "first",
        ["login", "--master", grid.listen(), "--join", token],
    )
    .expect_code(0);
    make(&["--name", "fresh"]);
    make(&["--name", "brief", "--ttl", "10ms"]);
    make(&["--name", "http", "--http", "--for", "user"]);

    let state = |name: &str| {
        let listed = grid.admin(["token", "list"]).expect_code(0).stdout;
        let line = listed.lines().find(|line| line.contains(name));
        line.expect("the token is listed").trim().to_owned()
    };
    assert!(state(" used ").ends_with("used up"), "{}", state(" used "));
    assert!(state(" fresh ").ends_with("usable"));
    assert!(state(" http ").ends_with("speaks for user"));
    eventually("a token expires", Duration::from_secs(30), || {
        state(" brief ").ends_with("expired").then_some(())
    });
}

#[test]
fn a_pc_that_wants_the_name_of_a_user_gets_another_one_and_is_told_why() {
    let grid = Grid::start();
    let join = |who: &str, name: &str| {
        let token = grid.token("worker");
        // Its standard input has ended, and so it ends once it has joined.
        let start = ["worker", "start", "--tied", "--master", grid.listen()];
        let joined = grid.as_user(
            who,
            [&start[..], &["--name", name, "--join", &token]].concat(),
        );
        joined.expect_code(0).stderr
    };
    let told = join("h1", "user");
    let words = "the name user belongs to another PC or user of this grid";
    assert!(
        told.contains(words) && told.contains("this one is user-2"),
        "{told}"
    );
    let told = join("h2", "pc-2");
    assert!(!told.contains("belongs to another"), "{told}");

    let listed = grid.admin(["identity", "list"]).expect_code(0).stdout;
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name));
    let roles =
        ["user ", "user-2 ", "pc-2 "].map(|name| line(name).map(|line| line.contains("worker")));
    assert_eq!(roles, [Some(false), Some(true), Some(true)], "{listed}");
}

#[test]
fn an_unapproved_user_is_told_at_the_login_and_at_each_request() {
    let grid = Grid::start();
    let token = grid.admin([
        "--output",
        "quiet",
        "token",
        "create",
        "--role",
        "client",
        "--approve",
    ]);
    let token = token.expect_code(0).stdout;
    let login = [
        "login",
        "--master",
        grid.listen(),
        "--join",
        token.trim(),
        "--name",
        "carla",
    ];
    let told = grid.as_user("carla", login).expect_code(0).stdout;
    assert!(told.contains("identity approve carla"), "{told}");

    let refused = grid.as_user("carla", ["job", "list"]).expect_code(6);
    assert!(refused.stderr.contains("waits for an admin"), "{refused:?}");
    grid.admin(["identity", "approve", "carla"]).expect_code(0);
    grid.as_user("carla", ["job", "list"]).expect_code(0);
}

#[test]
fn login_takes_another_address_of_the_same_grid_and_of_no_other() {
    let mut grid = Grid::start();
    let other = Grid::start();
    let old = grid.listen().to_owned();
    let login = |grid: &Grid, master: &str| grid.deskgrid(["login", "--master", master]);

    let strange = login(&grid, other.listen()).expect_code(6).stderr;
    assert!(
        strange.contains("--rejoin") && strange.contains(&format!("logged in at {old}")),
        "{strange}"
    );
    let nobody = login(&grid, "127.0.0.1:1").expect_code(7).stderr;
    assert!(
        nobody.contains("127.0.0.1:1 does not answer") && nobody.contains("try: check the address"),
        "{nobody}"
    );
    grid.json(["job", "list"]);

    // The grid moves, and who was told stays with it.
    let free = Grid::prepared("");
    grid.kill_master();
    grid.listen_at(free.listen(), free.http());
    grid.launch_master();
    let new = grid.listen().to_owned();
    eventually("the master is there", Duration::from_secs(30), || {
        (login(&grid, &new).code == 0).then_some(())
    });
    let known = grid.json(["login"]);
    assert_eq!(known["master"], new.as_str(), "{known}");
    grid.json(["job", "list"]);
}

#[test]
fn a_worker_that_has_joined_keeps_another_address_of_the_same_grid_and_of_no_other() {
    let mut grid = Grid::start();
    let other = Grid::start();
    grid.worker("pc").start();
    grid.kill_worker("pc");
    let kept = |grid: &Grid| {
        let link = grid.state("pc").join("worker/identity/link.toml");
        fs::read_to_string(link).expect("it has joined")
    };

    let before = kept(&grid);
    let strange = ["worker", "start", "--tied", "--master", other.listen()];
    let strange = grid.as_user("pc", strange).expect_code(6).stderr;
    let stays = format!("still belongs to the grid at {}", grid.listen());
    assert!(
        strange.contains("--rejoin") && strange.contains(&stays),
        "{strange}"
    );
    assert_eq!(kept(&grid), before);

    // A worker may start before its master.
    let both = format!("{},127.0.0.1:1", grid.listen());
    let turned = format!("127.0.0.1:1,{}", grid.listen());
    for (master_is_up, named) in [(true, both), (false, turned)] {
        if !master_is_up {
            grid.kill_master();
        }
        grid.worker("pc").via(&named).launch();
        eventually("the address is kept", Duration::from_secs(60), || {
            kept(&grid).contains(&named).then_some(())
        });
        grid.kill_worker("pc");
    }
}

#[test]
fn a_second_master_on_the_same_directory_is_refused() {
    let grid = Grid::start();
    let second = grid.second_master().expect_code(1);
    assert!(
        second.stderr.contains("error:") && second.stderr.contains("try:"),
        "{second:?}"
    );
    grid.json(["job", "list"]);
}

#[test]
fn health_and_metrics_answer_over_http() {
    let grid = Grid::with_worker();
    grid.submit(["--array", "1-3", "--wait", "--", "true"]);

    Http::tcp(grid.http()).get("/healthz").expect(200);
    let metrics = grid.metrics();
    assert!(metrics.contains("deskgrid_"), "{metrics}");
    assert!(
        metrics
            .lines()
            .any(|l| !l.starts_with('#') && l.ends_with(" 3")),
        "counts the three tasks: {metrics}"
    );
}

#[test]
fn revoked_hosts_are_listed_only_with_all() {
    let mut grid = Grid::with_worker();
    grid.worker("h2").start();
    grid.admin(["host", "revoke", "h2"]).expect_code(0);

    let names = |options: &[&str]| -> Vec<String> {
        let asked = ["host", "list"].iter().chain(options).copied();
        let list = grid.json(asked);
        let hosts = list["hosts"].as_array().expect("a list").iter();
        hosts
            .filter_map(|host| host["host"].as_str().map(str::to_owned))
            .collect()
    };
    assert_eq!(names(&[]), ["h1"]);
    assert_eq!(names(&["--all"]), ["h1", "h2"]);

    let said = grid.text(["host", "list"]);
    assert!(said.contains("1 host is not expected back"), "{said}");
    assert_eq!(grid.json(["host", "info", "h2"])["gone"], true);

    let log = grid.dir().join("h2.log");
    eventually(
        "its owner reads what to do",
        Duration::from_secs(30),
        || {
            let said = std::fs::read_to_string(&log).ok()?;
            said.contains("join again with a new token and --rejoin")
                .then_some(())
        },
    );
}

#[test]
fn a_prompt_for_a_token_that_is_interrupted_leaves_a_terminal_that_shows_what_is_typed() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    let grid = Grid::start();
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&screen).expect("it is ours");
    unlockpt(&screen).expect("it is ours");
    let name = ptsname(&screen, Vec::new()).expect("it has a name");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let terminal = rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).expect("it opens");
    let shows = || {
        let modes = tcgetattr(&terminal).expect("a terminal").local_modes;
        modes.contains(LocalModes::ECHO)
    };
    assert!(shows(), "as it begins");

    let mut command = grid.command("newcomer");
    command.args(["login", "--master", grid.listen()]);
    command.stdin(terminal.try_clone().expect("a second handle"));
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().expect("the program is built");
    let patience = Duration::from_secs(60);
    eventually("it asks", patience, || (!shows()).then_some(()));

    let mut keys = fs::File::from(screen);
    keys.write_all(b"dg1.half\x03").expect("Ctrl-C is typed");
    let ended = eventually("it ends", patience, || child.try_wait().expect("a child"));
    assert!(!ended.success(), "{ended}");
    assert!(shows(), "as it was");
}

#[test]
fn a_revoked_host_can_be_forgotten_and_its_attempts_keep_its_name() {
    let mut grid = Grid::with_worker();
    let job = grid.submit(["--wait", "--", "true"]);

    let early = grid.admin(["host", "forget", "h1"]);
    let early = early.expect_code(1).stderr;
    assert!(early.contains("host revoke h1"), "{early}");
    grid.admin(["host", "revoke", "h1"]).expect_code(0);
    grid.deskgrid(["host", "forget", "h1"]).expect_code(6);
    grid.admin(["host", "forget", "h1"]).expect_code(0);

    let unseen = |grid: &Grid| {
        let list = grid.json(["host", "list", "--all"]);
        assert_eq!(list["hosts"], serde_json::json!([]), "{list}");
        grid.admin(["host", "info", "h1"]).expect_code(1);
        grid.admin(["host", "forget", "h1"]).expect_code(1);

        let waits = grid.submit(["--", "true"]);
        let why = grid.json(["job", "explain", &waits]);
        assert_eq!(why["hosts"], serde_json::json!([]), "{why}");
        let task = grid.json(["task", "info", &format!("{job}.1")]);
        assert_eq!(task["attempts"][0]["host"], "h1", "{task}");
    };
    unseen(&grid);
    grid.kill_master();
    grid.start_master();
    unseen(&grid);

    let audit = grid.admin(["audit"]).expect_code(0).stdout;
    assert!(audit.contains("forget"), "{audit}");
}
