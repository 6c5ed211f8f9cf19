//! Notices on the desktop: a real message bus, and a desktop in whose place dbusmock takes down what
//! it is asked to show.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tests::{Grid, eventually};

use super::long_sleep;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server that ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session's message bus with a desktop that shows notices.
struct Desktop {
    address: String,
    log: PathBuf,
    _bus: Server,
    _mock: Server,
}

impl Desktop {
    /// Starts it; `None`, with a word, where something is missing.
    fn open(dir: &Path) -> Option<Self> {
        let mock = "import dbusmock";
        let mut python = Command::new("/usr/bin/python3");
        let there = python.args(["-c", mock]).stderr(Stdio::null()).status();
        let mut bus = Command::new("dbus-daemon");
        let bus = bus
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let (Ok(mut bus), true) = (bus, there.is_ok_and(|status| status.success())) else {
            println!("SKIPPED: no dbus-daemon with python3-dbusmock here");
            return None;
        };

        let mut address = String::new();
        let said = bus.stdout.take().expect("piped");
        BufReader::new(said)
            .read_line(&mut address)
            .expect("an address");
        let address = address.trim().to_owned();
        let log = dir.join("desktop");
        let mock = Command::new("/usr/bin/python3")
            .args([
                "-m",
                "dbusmock",
                "--session",
                "--template",
                "notification_daemon",
            ])
            .arg("--logfile")
            .arg(&log)
            .env("DBUS_SESSION_BUS_ADDRESS", &address)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it is there");
        Some(Self {
            address,
            log,
            _bus: Server(bus),
            _mock: Server(mock),
        })
    }

    /// The calls so far that show something.
    fn shown(&self) -> Vec<String> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .filter(|line| line.contains(" Notify "))
            .map(str::to_owned)
            .collect()
    }

    #[track_caller]
    fn shows(&self, words: &str) {
        eventually(words, PATIENCE, || {
            self.shown()
                .iter()
                .any(|call| call.contains(words))
                .then_some(())
        });
    }
}

/// The settings of a worker that heeds only its switch, and shows these notices.
fn config(notify: &str) -> String {
    let quiet = ["input", "load", "memory", "battery", "programs"]
        .map(|rule| format!("[owner.{rule}]\nheed = false\n"))
        .concat();
    format!("notify = {notify}\n[owner]\nfirst_watch = \"0s\"\nevict_after = \"1s\"\n{quiet}")
}

#[test]
fn the_desktop_shows_the_notices_that_an_owner_asked_for() {
    let mut grid = Grid::start();
    let Some(desktop) = Desktop::open(grid.dir()) else {
        return;
    };
    let bus = format!("DBUS_SESSION_BUS_ADDRESS={}", desktop.address);
    grid.wrap("pc", ["env", &bus]);
    let all = config("[\"first-task\", \"given-back\", \"paused\"]");
    grid.worker("pc").config(&all).start();

    grid.submit(["--wait", "--", "true"]);
    desktop.shows("This PC computes");
    let job = grid.submit(["--", "sleep", &long_sleep()]);
    grid.until("it runs", &["job", "info", &job], |info| {
        (info["state"] == "running").then_some(())
    });
    grid.as_user("pc", ["worker", "pause"]).expect_code(0);
    desktop.shows("Paused");
    desktop.shows("This PC is all yours");
    grid.as_user("pc", ["worker", "resume"]).expect_code(0);
    desktop.shows("The pause has ended");

    let shown = desktop.shown();
    let first = shown
        .iter()
        .filter(|call| call.contains("This PC computes"));
    assert_eq!(first.count(), 1, "once a day: {shown:?}");
}

#[test]
fn a_worker_without_a_desktop_says_that_it_can_show_nothing_and_works() {
    let mut grid = Grid::start();
    let nowhere = format!("unix:path={}/nowhere", grid.dir().display());
    let bus = format!("DBUS_SESSION_BUS_ADDRESS={nowhere}");
    grid.wrap("pc", ["env", &bus]);
    grid.worker("pc")
        .config(&config("[\"first-task\"]"))
        .start();
    grid.submit(["--wait", "--", "true"]);
    let log = grid.dir().join("pc.log");
    eventually("it says so", PATIENCE, || {
        let said = fs::read_to_string(&log).unwrap_or_default();
        said.contains("cannot show notices").then_some(())
    });
}

#[test]
fn a_worker_that_shows_no_notices_connects_to_no_desktop() {
    let mut grid = Grid::start();
    let nowhere = format!("unix:path={}/nowhere", grid.dir().display());
    let bus = format!("DBUS_SESSION_BUS_ADDRESS={nowhere}");
    grid.wrap("pc", ["env", &bus]);
    grid.worker("pc").config(&config("[]")).start();
    grid.submit(["--wait", "--", "true"]);
    let said = fs::read_to_string(grid.dir().join("pc.log")).expect("a log");
    assert!(!said.contains("notices"), "{said}");
}
