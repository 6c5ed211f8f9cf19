//! `deskgrid top` on a real terminal, which tmux gives it: what a person sees who presses its keys.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::{Display, Grid, alive_with, eventually, program};

use super::long_sleep;

/// The longest time that a picture may take until it shows something.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal of 120 columns and 40 lines in which a shell runs `deskgrid top`, and afterwards says how
/// that ended. Gone when this is dropped.
struct Pane {
    server: String,
    dir: String,
}

impl Pane {
    /// Starts `top` as `who`; none where there is no tmux.
    fn open(grid: &Grid, who: &str) -> Option<Self> {
        Self::on(grid, who, "")
    }

    /// The same with these variables in its environment.
    fn on(grid: &Grid, who: &str, variables: &str) -> Option<Self> {
        let pane = Self {
            server: format!("deskgrid-{}-{}", std::process::id(), rand::random::<u32>()),
            dir: grid.dir().to_str().expect("UTF-8").to_owned(),
        };
        let deskgrid = program("deskgrid");
        let (deskgrid, state) = (deskgrid.display(), grid.state(who));
        let run = format!(
            "printf 'before\\n'; {variables} {deskgrid} --dir {} top; echo \"ended with $?\"; stty -a; exec cat",
            state.display()
        );

        let size = ["-x", "120", "-y", "40"];
        let mut command = pane.command();
        command.args(["-f", "/dev/null", "new-session", "-d"]);
        let started = command.args(size).args(["sh", "-c", &run]).status();
        if started.is_err() {
            println!("SKIPPED: no tmux here (Debian: tmux)");
            return None;
        }
        assert!(started.is_ok_and(|status| status.success()), "tmux starts");
        Some(pane)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command
            .args(["-L", &self.server])
            .env("TMUX_TMPDIR", &self.dir)
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }

    fn ask(&self, words: &[&str]) -> String {
        let output = self.command().args(words).output().expect("tmux answers");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Presses keys, by tmux's names.
    fn press(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    fn picture(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    /// Waits until the picture shows all of these words, and returns it.
    #[track_caller]
    fn until(&self, words: &[&str]) -> String {
        let mut last = String::new();
        let start = std::time::Instant::now();
        loop {
            let picture = self.picture();
            if words.iter().all(|word| picture.contains(word)) {
                return picture;
            }
            last.clone_from(&picture);
            assert!(start.elapsed() < PATIENCE, "{words:?} is not in:\n{last}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Checks that the terminal is as it was: the screen from before, a cursor, and lines that are
    /// edited and shown as they are typed.
    #[track_caller]
    fn is_given_back(&self) {
        let picture = self.until(&["before", "ended with", "icanon"]);
        for word in [" -icanon", " -echo ", " -isig", " -opost"] {
            assert!(!picture.contains(word), "{word} in:\n{picture}");
        }
        let modes = self.ask(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(modes.trim(), "0 1");
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}

/// The process of `top` on a grid.
fn process(grid: &Grid) -> Pid {
    let mark = grid.dir().to_str().expect("UTF-8").to_owned();
    let top = |line: &str| {
        line.starts_with('/') && line.contains("deskgrid --dir") && line.contains(" top")
    };
    eventually("top runs", PATIENCE, || {
        let all = alive_with(&mark);
        let (pid, _) = all.into_iter().find(|(_, line)| top(line))?;
        Pid::from_raw(i32::try_from(pid).ok()?)
    })
}

#[test]
fn top_says_why_a_host_whose_owner_is_there_gets_no_tasks() {
    let Some(display) = Display::open() else {
        return println!("SKIPPED: no Xvfb here (Debian: xvfb)");
    };
    let mut grid = Grid::start();
    grid.worker("desk-1").dedicated().start();
    let off = ["evdev", "logind", "load", "memory", "power"];
    let off: String = off
        .iter()
        .map(|sensor| format!("{sensor} = \"off\"\n"))
        .collect();
    let config = format!("[sensors]\ndisplays = [\"{}\"]\n{off}", display.name());
    grid.worker("desk-2")
        .config(&format!("[owner]\n{config}"))
        .start();
    display.press_key();
    grid.until("the touch is seen", &["host", "info", "desk-2"], |host| {
        (host["reason"] == "in-use").then_some(())
    });

    let Some(pane) = Pane::open(&grid, "user") else {
        return;
    };
    pane.until(&["1 jobs", "there are no jobs", "q quit"]);
    pane.press(&["3"]);
    pane.until(&["desk-1", "desk-2", "S suspended", "in-use"]);
    pane.press(&["j", "Enter", "w"]);
    pane.until(&["why desk-2 gets no tasks", "desk-2 is suspended: in-use"]);
}

#[test]
fn a_job_reaches_its_end_on_the_screen_and_another_is_cancelled_after_a_question() {
    let mut grid = Grid::start();
    grid.worker("desk-1").slots(2).start();
    let Some(pane) = Pane::open(&grid, "user") else {
        return;
    };
    pane.until(&["1 of 1 hosts lend 2 slots"]);

    let words = ["sh", "-c", "sleep 1; echo was here"];
    grid.submit([&["--name", "ends", "--array", "1-2", "--"], &words[..]].concat());
    pane.until(&["ends", "F finished", "2/2", "██████████"]);
    pane.press(&["Enter"]);
    pane.until(&["2 tasks of 1", "2/2 finished", "desk-1"]);
    pane.press(&["l"]);
    pane.until(&["stdout of task 1.1", "was here"]);

    pane.press(&["1"]);
    let job = grid.submit(["--name", "goes on", "--", "sleep", &long_sleep()]);
    pane.until(&["goes on", "R running"]);
    pane.press(&["g", "c"]);
    pane.until(&["Cancel job 2 (goes on)? 1 tasks are left", "y yes"]);
    pane.press(&["n", "c"]);
    assert_eq!(grid.job(&job)["state"], "running");
    pane.press(&["y"]);
    pane.until(&["job 2: 1 task cancelled", "C cancelled"]);
    assert_eq!(grid.job(&job)["state"], "cancelled");
}

#[test]
fn top_goes_on_when_a_killed_master_is_back() {
    let mut grid = Grid::start();
    grid.worker("desk-1").start();
    grid.submit(["--name", "before", "--", "true"]);
    let Some(pane) = Pane::open(&grid, "user") else {
        return;
    };
    pane.until(&["1 of 1 hosts lend 1 slot", "before"]);

    grid.kill_master();
    pane.until(&["MASTER AWAY since", "connecting again", "before"]);
    grid.start_master();
    pane.until(&["the master is back"]);
    grid.submit(["--name", "afterwards", "--", "true"]);
    pane.until(&["afterwards", "1 of 1 hosts lend"]);
}

#[test]
fn the_terminal_is_given_back_after_q_and_after_a_signal() {
    let grid = Grid::start();
    let Some(pane) = Pane::open(&grid, "user") else {
        return;
    };
    pane.until(&["there are no jobs"]);
    pane.press(&["q"]);
    pane.is_given_back();
    pane.until(&["ended with 0"]);

    for signal in [Signal::TERM, Signal::INT] {
        let pane = Pane::open(&grid, "user").expect("tmux was here");
        pane.until(&["there are no jobs"]);
        kill_process(process(&grid), signal).expect("it runs");
        pane.is_given_back();
    }
}

#[test]
fn top_needs_a_terminal_and_prints_one_picture_without() {
    let mut grid = Grid::start();
    grid.worker("desk-1").start();
    let live = grid.deskgrid(["top"]).expect_code(2);
    assert!(live.stderr.contains("try: deskgrid top --once"), "{live:?}");
    let json = grid
        .deskgrid(["--output", "json", "top", "--once"])
        .expect_code(2);
    assert!(
        json.stdout.is_empty() && json.stderr.contains("job list"),
        "{json:?}"
    );
    if let Some(dumb) = Pane::on(&grid, "user", "TERM=dumb") {
        dumb.until(&["TERM is `dumb`", "try: deskgrid top --once", "ended with 2"]);
    }

    grid.submit([
        "--name", "pictured", "--array", "1-3", "--wait", "--", "true",
    ]);
    // A job that is gone, and those of others, hide none.
    grid.login("other");
    grid.submit(["--name", "forgotten", "--wait", "--", "true"]);
    grid.deskgrid(["job", "forget", "2"]).expect_code(0);
    let other = [
        "--output",
        "quiet",
        "submit",
        "--name",
        "of another",
        "--wait",
        "--",
        "true",
    ];
    grid.as_user("other", other).expect_code(0);
    grid.submit(["--name", "later", "--wait", "--", "true"]);
    let jobs = grid.text(["top", "--once"]);
    let first = jobs.lines().next().unwrap_or_default();
    assert!(first.trim_end().ends_with(" UTC"), "{first}");
    assert!(
        jobs.contains("later") && jobs.contains("pictured"),
        "{jobs}"
    );
    assert!(
        !jobs.contains("forgotten") && !jobs.contains("of another"),
        "{jobs}"
    );
    grid.deskgrid(["job", "forget", "4"]).expect_code(0);

    let jobs = grid.text(["top", "--once"]);
    assert_eq!(jobs.lines().count(), 40, "{jobs}");
    assert!(!jobs.contains('\u{1b}') && jobs.lines().all(|line| line.chars().count() <= 120));
    for (words, shown) in [
        (&["top", "--once"][..], ["pictured", "3/3"]),
        (
            &["top", "--once", "--job", "last"],
            ["job 1 pictured", "F finished"],
        ),
        (&["top", "--once", "--show", "hosts"], ["desk-1", "R ready"]),
        (
            &["top", "--once", "--show", "events"],
            ["job 1 submitted by user", "job 1 finished"],
        ),
    ] {
        let picture = grid.text(words);
        assert!(
            shown.iter().all(|word| picture.contains(word)),
            "{words:?}:\n{picture}"
        );
    }
}
