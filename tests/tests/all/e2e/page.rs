//! The page of a PC for its owner: a real worker, and a real browser that looks at it
//! ([`browser`]).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tests::{Display, Gateway, Grid, Http, clean, eventually};

use super::{browser, long_sleep};

const PATIENCE: Duration = Duration::from_secs(30);

/// The state of the worker `pc`, as its own machine is told.
fn status(grid: &Grid) -> Value {
    let said = grid.as_user("pc", ["--output", "json", "worker", "status"]);
    said.expect_code(0).json()
}

/// A grid with the worker `pc`, on which a task has ended and another runs.
fn at_work() -> Grid {
    let mut grid = Grid::start();
    grid.worker("pc").slots(1).start();
    grid.submit(["--wait", "--", "true"]);
    let job = grid.submit(["--", "sleep", &long_sleep()]);
    grid.until("it runs", &["job", "info", &job], |info| {
        (info["state"] == "running").then_some(())
    });
    grid
}

/// Says how long the worker is paused.
fn pause_in_words(grid: &Grid) -> String {
    let status = status(grid);
    if status["reason"] != "paused-by-owner" {
        return "not paused".to_owned();
    }
    let Some(until) = status["paused_until"].as_str() else {
        return "paused for ever".to_owned();
    };

    let until = humantime::parse_rfc3339(until).expect("a time");
    let hour = SystemTime::now() + Duration::from_secs(3_600);
    let away = hour
        .duration_since(until)
        .unwrap_or_else(|early| early.duration());
    if away < Duration::from_secs(300) {
        return "paused for 1h".to_owned();
    }
    let date = Command::new("date")
        .args(["-d", "tomorrow 00:00", "+%s"])
        .output();
    let midnight = String::from_utf8(date.expect("GNU date").stdout).expect("a number");
    let since = until
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    assert_eq!(
        since.to_string(),
        midnight.trim(),
        "neither an hour nor until midnight"
    );
    "paused till midnight".to_owned()
}

#[test]
fn the_page_of_a_pc_follows_its_owner_by_itself() {
    let (Some(chromium), Some(display)) = (browser::chromium(), Display::open()) else {
        return println!("SKIPPED: no browser, or no Xvfb here (Debian: xvfb)");
    };
    let mut grid = Grid::start();
    let rules =
        "[owner]\nfirst_watch = \"0s\"\n[owner.input]\nidle = \"3s\"\nresume = \"3s\"\n".to_owned();
    let config = rules + &super::owner::only(&display);
    grid.worker("pc").config(&config).start();
    grid.submit(["--", "sleep", &long_sleep()]);

    let link = grid.page("pc");
    let url = link.link();
    browser::browse(&chromium, &url, "owner", &[], |what| {
        if what == "type" {
            display.press_key();
        }
        "done".to_owned()
    });
}

#[test]
fn a_pause_from_the_page_outlasts_the_worker_and_needs_no_master() {
    let Some(chromium) = browser::chromium() else {
        return;
    };
    let mut grid = at_work();
    let page = grid.page("pc");
    browser::browse(&chromium, &page.link(), "pauses", &[], |what| {
        match what {
            "kill-master" => grid.kill_master(),
            "end-worker" => {
                grid.running("pc").terminate();
                eventually("it ends", PATIENCE, || {
                    let asked = grid.as_user("pc", ["worker", "status"]);
                    (asked.code == 1).then_some(())
                });
                grid.kill_worker("pc");
            }
            "start-worker" => drop(grid.worker("pc").launch()),
            _ => return pause_in_words(&grid),
        }
        "done".to_owned()
    });
}

#[test]
fn the_page_of_a_pc_is_accessible_and_reads_without_script_and_foreign_words_stay_text() {
    let Some(chromium) = browser::chromium() else {
        return;
    };
    let hostile = "<img src=x onerror=window.acted=1>";
    let mut grid = Grid::start();
    let switch = grid.dir().join(hostile);
    let quiet = ["input", "load", "memory", "battery", "programs"]
        .map(|rule| format!("[owner.{rule}]\nheed = false\n"))
        .concat();
    let config = format!(
        "[owner]\nfirst_watch = \"0s\"\npause_files = ['{}']\n{quiet}",
        switch.display()
    );
    grid.worker("pc").slots(2).config(&config).start();

    let output = format!("{hostile}*");
    let named = ["--name", hostile, "--output-file", &output, "--", "true"];
    let fails = grid.submit(named);
    let waits = ["job", "wait", &fails, "--timeout", "60s"];
    grid.deskgrid(waits).expect_code(3);
    let runs = grid.submit(["--", "sleep", &long_sleep()]);
    grid.until("it runs", &["job", "info", &runs], |info| {
        (info["state"] == "running").then_some(())
    });
    fs::write(&switch, "").expect("a file");
    eventually("the switch is seen", PATIENCE, || {
        (status(&grid)["reason"] == "paused-by-owner").then_some(())
    });

    let mut page = grid.page("pc");
    browser::browse(&chromium, &page.link(), "pages", &["/"], |what| {
        panic!("nobody does {what} here")
    });
    let link = page.another_link();
    let shown = page.browser(&link).get("/").expect(200);
    let told = shown.text();
    assert!(
        told.contains("&lt;img src=x"),
        "the switch is named: {told}"
    );
    assert!(!told.contains("<img"), "{told}");
    assert!(told.contains("1.1#1") && told.contains("failed"), "{told}");
}

/// Every kind of request to the page's server.
const VERBS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const PATHS: [&str; 3] = ["/", "/pause/good", "/resume"];

/// Sends every verb to every path; returns the statuses.
fn all_of(client: &Http) -> Vec<u16> {
    let requests = VERBS
        .into_iter()
        .flat_map(|verb| PATHS.map(|path| (verb, path)));
    requests
        .map(|(verb, path)| client.send(verb, path, None).status)
        .collect()
}

#[test]
fn no_request_but_the_owners_own_reaches_the_page() {
    let grid = at_work();
    let mut page = grid.page("pc");
    let link = page.another_link();
    let own = page.browser(&link);
    let stranger = Http::tcp(&page.address());

    let refused = |what: &str, client: &Http, code: u16| {
        let answers = all_of(client);
        assert!(
            answers.iter().all(|status| *status == code),
            "{what}: {answers:?}"
        );
    };
    refused("no cookie", &stranger, 401);
    let guess = stranger.clone().with("Sec-Fetch-Site", "same-origin");
    let named = format!("deskgrid-{}=0", page.address().replace("127.0.0.1:", ""));
    refused("a guessed cookie", &guess.with("Cookie", &named), 401);
    refused(
        "a name that resolves here",
        &own.clone().with("Host", "evil.example"),
        421,
    );
    let elsewhere = own.clone().with("Sec-Fetch-Site", "cross-site");
    refused("a page of another site", &elsewhere, 403);
    let foreign = own.clone().with("Origin", "http://evil.example");
    refused("a foreign origin", &foreign, 403);
    assert_eq!(pause_in_words(&grid), "not paused");

    // What only reads changes nothing, and a used ticket opens nothing.
    own.get("/pause/good").expect(405);
    assert_eq!(pause_in_words(&grid), "not paused");
    let (_, ticket) = link.split_once('#').expect("a ticket");
    let again = stranger.with("Sec-Fetch-Site", "same-origin");
    again
        .send("POST", "/in", Some(ticket.as_bytes()))
        .expect(401);

    let shown = own.get("/").expect(200);
    let policy = &shown.headers["content-security-policy"];
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    own.send("POST", "/pause/often", Some(b"")).expect(404);
    own.send("POST", "/pause/good", Some(b"")).expect(303);
    assert_eq!(pause_in_words(&grid), "paused for ever");
}

/// Runs a program under another account of this machine.
fn as_other(words: &[&str], dir: &Path) -> tests::Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    tests::Started::new(command.args(words).current_dir(dir)).finish()
}

#[test]
fn another_account_gets_neither_the_page_nor_the_worker() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: only root can act as another account");
    }
    let grid = at_work();
    let page: Gateway = grid.page("pc");
    let program = clean("deskgrid", grid.dir());
    let program = program.get_program().to_str().expect("UTF-8").to_owned();
    let state = grid.state("pc");

    // However open the directories above it are: the socket itself lets nobody else in.
    let mode = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755));
    for path in [
        grid.dir(),
        &grid.dir().join("state"),
        &state,
        &state.join("worker"),
    ] {
        mode(path).expect("it is ours");
    }
    let dir = state.to_str().expect("UTF-8");
    let copied = grid.dir().join("deskgrid");
    fs::copy(&program, &copied).expect("a copy");
    let copied = copied.to_str().expect("UTF-8");

    for verb in ["page", "status", "pause"] {
        let words = [copied, "--dir", dir, "worker", verb];
        let refused = as_other(&words, grid.dir()).expect_code(6);
        assert!(refused.stderr.contains("may not speak with"), "{refused:?}");
    }
    assert_eq!(pause_in_words(&grid), "not paused");

    let address = format!("http://{}/", page.address());
    for verb in ["GET", "POST"] {
        let look = [
            "curl",
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-X",
            verb,
            &address,
        ];
        let told = as_other(&look, grid.dir()).expect_code(0);
        assert_eq!(told.stdout, "401", "{verb}");
    }
}

#[test]
fn a_page_that_nobody_looks_at_ends_and_a_pc_without_a_worker_has_none() {
    let mut grid = Grid::start();
    let none = grid.as_user("pc", ["worker", "page", "--no-open"]);
    assert!(none.expect_code(1).stderr.contains("no worker runs in"));
    grid.worker("pc").start();
    let ended = grid.as_user("pc", ["worker", "page", "--no-open", "--unused", "100ms"]);
    let said = ended.expect_code(0).stdout;
    assert!(said.starts_with("http://127.0.0.1:"), "{said}");
}
