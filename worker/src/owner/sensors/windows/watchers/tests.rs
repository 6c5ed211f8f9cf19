//! The pipe between watchers and service. This program plays both; the sessions are listed by the
//! tests, since Wine lists none.

use std::fs::File;
use std::io::Write;
use std::os::windows::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;
use crate::owner::sight::Reading;

/// The longest time that anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The test that is the watcher, as a process of its own.
const WATCHER: &str = "owner::sensors::windows::watchers::tests::watcher";

/// Not a test of its own: the watcher of another one.
#[test]
#[ignore = "played by a process of another test"]
fn watcher() {
    watcher::watcher_main();
}

/// A service's ears, as on a PC where this session is the only one of a user's.
fn service() -> Arc<Watchers> {
    let session = system::own().unwrap();
    let list = move || {
        (
            Ok(BTreeMap::from([(session, SessionState::Active)])),
            Some(session),
        )
    };
    Watchers::among(Unseen::Present, None, Box::new(list))
}

/// A name of a pipe that nobody else has.
fn fresh(test: &str) -> String {
    format!(r"\\.\pipe\deskgrid-test-{test}-{}", std::process::id())
}

/// Waits until the input is seen like this.
fn until(watchers: &Watchers, what: &str, wanted: impl Fn(&Sight) -> bool) {
    let start = Instant::now();
    loop {
        let sight = watchers.look().input;
        if wanted(&sight) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: {sight:?}");
        watchers.wait(Duration::from_millis(100));
    }
}

fn unknown_because(part: &str) -> impl Fn(&Sight) -> bool {
    move |sight| matches!(sight, Sight::Unknown(why) if why.contains(part))
}

fn idle_for(ms: std::ops::Range<u64>) -> impl Fn(&Sight) -> bool {
    move |sight| matches!(sight, Sight::Seen(Reading::Idle(idle)) if ms.contains(&(idle.0 / 1_000)))
}

/// Connects with the right to write, and no other.
fn connect(name: &str) -> File {
    let start = Instant::now();
    loop {
        let mut options = std::fs::OpenOptions::new();
        match options.access_mode(2).open(name) {
            Ok(pipe) => return pipe,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{name}: {error}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_watcher_tells_of_input_in_its_session_and_its_end_is_a_present_owner() {
    let service = service();
    let program = std::env::current_exe().unwrap();
    let name = watcher::pipe_of(&program).unwrap();
    service.listen(name.clone(), program.clone()).unwrap();
    drop(connect(&name));
    until(
        &service,
        "no watcher yet",
        unknown_because("has no watcher"),
    );

    let mut child = Command::new(&program);
    child.args(["--exact", WATCHER, "--ignored"]);
    let child = Ended(child.stdout(Stdio::null()).spawn().unwrap());
    until(&service, "a watcher speaks", |sight| {
        matches!(sight, Sight::Seen(_))
    });
    until(&service, "idle time rises", idle_for(1_500..60_000));
    os::windows::nudge_mouse();
    until(&service, "a touch is told", idle_for(0..1_000));

    drop(child);
    until(
        &service,
        "the watcher is gone",
        unknown_because("has no watcher"),
    );
}

#[test]
fn a_program_that_is_not_the_watcher_is_turned_away_and_told_of() {
    let (service, name) = (service(), fresh("stranger"));
    let wanted = std::env::current_exe()
        .unwrap()
        .with_file_name("another.exe");
    service.listen(name.clone(), wanted).unwrap();
    let mut pipe = connect(&name);
    let word = WatcherWord {
        idle_ms: 9_000_000,
        locked: true,
        full_screen: false,
    };
    let start = Instant::now();
    while pipe.write_all(&word.line()).is_ok() {
        assert!(start.elapsed() < PATIENCE, "it is heard");
        thread::sleep(Duration::from_millis(20));
    }
    until(&service, "a stranger", unknown_because("turned away"));
    until(&service, "a stranger", unknown_because("is not"));
}

#[test]
fn a_watcher_that_says_what_is_no_word_is_not_heard_any_more() {
    let (service, name) = (service(), fresh("nonsense"));
    service
        .listen(name.clone(), std::env::current_exe().unwrap())
        .unwrap();
    let mut pipe = connect(&name);
    let word = WatcherWord {
        idle_ms: 0,
        locked: false,
        full_screen: true,
    };
    pipe.write_all(&word.line()).unwrap();
    until(&service, "a word", |sight| matches!(sight, Sight::Seen(_)));
    let Sight::Seen(Reading::Program(Some(_))) = service.look().full_screen else {
        panic!("{:?}", service.look());
    };
    pipe.write_all(&[b'x'; MAX_LINE + 9]).unwrap();
    until(&service, "nonsense", unknown_because("has no watcher"));
}

#[test]
fn a_pipe_that_cannot_be_made_is_a_present_owner() {
    let service = service();
    let program = std::env::current_exe().unwrap();
    service
        .listen("no name of a pipe".to_owned(), program)
        .unwrap();
    until(&service, "no pipe", unknown_because("cannot be had"));
}

#[test]
fn a_worker_in_a_session_of_a_users_sees_that_one_itself() {
    let own = system::own();
    let list = || (Ok(BTreeMap::new()), Some(77));
    let watchers = Watchers::among(Unseen::Present, own, Box::new(list));
    until(&watchers, "its own input", |sight| {
        matches!(sight, Sight::Seen(_))
    });

    // Somebody else is at the screen, and this session is not.
    let list = move || {
        let states = [
            (own.unwrap(), SessionState::Disconnected),
            (77, SessionState::Active),
        ];
        (Ok(BTreeMap::from(states)), Some(77))
    };
    let watchers = Watchers::among(Unseen::Present, own, Box::new(list));
    until(&watchers, "somebody else", unknown_because("session 77"));
}
