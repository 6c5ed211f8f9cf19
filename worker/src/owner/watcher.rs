//! The watcher: a small program in each user's session that tells the worker, which is a service
//! and sees nobody, how long keyboard and mouse have rested there. It has no window and gives up
//! its privileges; it writes to the service's pipe and does nothing else. It ends with the session,
//! and soon after the worker was uninstalled.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use common::{Span, Time};

use crate::os::since_boot;
use crate::os::windows::{sense, sessions, starts_at_logon};
use crate::owner::sensors::sessions::{OF_SERVICES, SessionState, WatcherPace, WatcherWord};

/// The interval between looks at the input, and that between looks at the screen, which cost more.
const LOOK: Duration = Duration::from_millis(250);
const SCREEN: Span = Span::from_secs(1);
/// The pause before the pipe is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// The name of this program, beside that of the worker.
pub(crate) const PROGRAM: &str = "deskgrid-watch.exe";
/// The argument with which the installer, as the system's own account, calls this program.
const START_ALL: &str = "--start-in-sessions";
/// The argument with which a person asks this program what it would tell the service.
const SAY: &str = "--say";
/// The right to write to a pipe, and nothing else: not to make another instance of it.
const WRITE: u32 = 2;
/// The pipe's other end learns nothing of this user beyond what is written.
const ANONYMOUS: u32 = 0;

/// Returns the name of the pipe between the watcher that is this program and its service.
///
/// # Errors
/// If the program lies nowhere.
pub(crate) fn pipe_of(program: &Path) -> io::Result<String> {
    let dir = program.parent().ok_or(io::ErrorKind::NotFound)?;
    let dir = dir.canonicalize()?.to_string_lossy().to_lowercase();
    let number = blake3::hash(dir.as_bytes()).to_hex();
    Ok(format!(r"\\.\pipe\deskgrid-sessions-{}", &number[..32]))
}

/// Whether the watcher that lies beside this program starts at each logon; `None` if none lies
/// there.
pub fn starts_beside_this_program() -> Option<bool> {
    let watcher = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    let entry = entry_of(&watcher).filter(|_| watcher.exists())?;
    Some(starts_at_logon(&entry))
}

/// Returns the name of the entry that starts this program at each logon: after its directory, which
/// has the service's name.
fn entry_of(program: &Path) -> Option<String> {
    let service = program.parent()?.file_name()?;
    Some(format!("{} watcher", service.to_string_lossy()))
}

/// What looks at this session: at the input each time, at the screen every `SCREEN`.
#[derive(Debug, Default)]
pub(crate) struct Eyes {
    /// The last look at the screen: whether it was locked, and filled by a program.
    screen: Option<(Time, bool, bool)>,
}

impl Eyes {
    /// Returns what can be said of this session now; `None` if its input cannot be seen.
    pub(crate) fn word(&mut self, now: Time) -> Option<WatcherWord> {
        let idle = sense::idle()?;
        let known = self.screen.filter(|(at, ..)| now.since(*at) < SCREEN);
        let look = || (now, sessions::locked(), sessions::full_screen());
        let (_, locked, full_screen) = *self.screen.insert(known.unwrap_or_else(look));
        Some(WatcherWord {
            idle_ms: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
            locked,
            full_screen,
        })
    }
}

/// Watches this session until it ends, or the worker is uninstalled. With [`START_ALL`] as first
/// argument, starts a watcher in each session of a user's instead; with [`SAY`], says once on its
/// standard output what it sees. Returns the exit code.
pub fn watcher_main() -> i32 {
    let Ok(program) = std::env::current_exe() else {
        return 1;
    };
    match std::env::args_os().nth(1).as_deref() {
        Some(asked) if asked == OsStr::new(START_ALL) => return start_all(&program),
        Some(asked) if asked == OsStr::new(SAY) => return say(),
        _ => {}
    }

    let Ok(pipe) = pipe_of(&program) else {
        return 1;
    };
    if sessions::own().is_none_or(|session| session == OF_SERVICES) {
        return 2;
    }
    // Where this fails the service does not believe this watcher, and says so.
    let _ = sessions::become_a_watcher();

    let entry = entry_of(&program);
    loop {
        if let Ok(pipe) = connect(&pipe) {
            report(pipe);
        }
        // Where nobody listens, and it is not to start at logon (any more), nobody will.
        if !entry.as_ref().is_some_and(|entry| starts_at_logon(entry)) {
            return 0;
        }
        thread::sleep(AGAIN);
    }
}

/// Says once, on standard output, what would be told the service: `WatcherWord::line`.
fn say() -> i32 {
    let Some(word) = Eyes::default().word(since_boot()) else {
        return 1;
    };
    i32::from(io::stdout().write_all(&word.line()).is_err())
}

/// Starts a watcher in each session of somebody who is logged on already: after an installation
/// they would have none until they log on the next time.
fn start_all(program: &Path) -> i32 {
    let Ok(listed) = sessions::list() else {
        return 1;
    };
    let of_users = |(session, state): &(u32, SessionState)| {
        *session != OF_SERVICES && *state != SessionState::Nobody
    };
    let started = listed
        .into_iter()
        .filter(of_users)
        .map(|(session, _)| sessions::start_in(session, program));
    i32::from(started.filter(Result::is_err).count() > 0)
}

fn connect(name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.access_mode(WRITE).security_qos_flags(ANONYMOUS);
    options.open(name)
}

/// Tells what happens in this session until nobody listens.
fn report(mut pipe: File) {
    let mut eyes = Eyes::default();
    let mut pace = WatcherPace::default();

    loop {
        let now = since_boot();
        if let Some(word) = eyes.word(now)
            && pace.due(now, word)
            && pipe.write_all(&word.line()).is_err()
        {
            return;
        }
        thread::sleep(LOOK);
    }
}
