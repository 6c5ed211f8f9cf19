//! What people do in the sessions of this PC, for a worker that is a service and sees none of them,
//! and for one in a user's session, which sees its own. A service hears its watchers over a named
//! pipe. It believes a process only if the system says that it runs in a session of a user's, and
//! that its program is the watcher beside the service's own program.
//!
//! The judgement is in `sessions`, the watcher's side in `owner::watcher`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use common::{Span, Time};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::windows::named_pipe::NamedPipeServer;

use super::super::Unseen;
use super::super::sessions::{
    MAX_LINE, OF_SERVICES, SILENT, SessionSights, SessionState, Sessions, WatcherWord,
};
use crate::os::{self, windows::sessions as system};
use crate::owner::sight::Sight;
use crate::owner::watcher::{self, Eyes};

/// The time for which a list of sessions is good.
const LISTED: Span = Span::from_millis(900);
/// The shortest time between two lines of the log about programs that were turned away.
const WARN_EVERY: Span = Span::from_secs(60);
/// The pause after a pipe that could not be made, or broke.
const AGAIN: Duration = Duration::from_secs(1);
/// The stack of the thread that listens, in bytes.
const STACK: usize = 512 * 1024;
/// The number that a worker in a user's session has among its watchers.
const OWN: u64 = 0;

/// The sessions of this PC, as the sensors of this worker share them.
pub(super) struct Watchers {
    state: Mutex<State>,
    /// Wakes a sensor that waits, when a watcher has spoken or gone.
    news: Condvar,
    /// The session of this worker, if it is a user's.
    own: Option<u32>,
    /// Lists the sessions, and names the one at the screen.
    list: ListSessions,
}

struct State {
    sessions: Sessions,
    /// What looks at this worker's own session.
    eyes: Eyes,
    /// The last list of sessions, and when it was made.
    listed: Option<(Time, SessionList)>,
    /// The reason why no watcher can be heard.
    deaf: Option<String>,
    /// Whether there was news since the last look.
    news: bool,
    /// When the log last told of a program that was turned away.
    warned: Option<Time>,
}

/// The sessions of this PC, or why they are not known; and the one that is at its screen.
type SessionList = (Result<BTreeMap<u32, SessionState>, String>, Option<u32>);
type ListSessions = Box<dyn Fn() -> SessionList + Send + Sync>;

/// Has the system list the sessions, as `WTSEnumerateSessions` does.
fn by_the_system() -> SessionList {
    let failed = |error: io::Error| format!("the system does not list its sessions: {error}");
    (system::list().map_err(failed), system::console())
}

impl Watchers {
    /// Looks at this session where it is a user's; otherwise begins to listen to watchers.
    pub(super) fn new(unseen: Unseen) -> Arc<Self> {
        let own = system::own().filter(|session| *session != OF_SERVICES);
        let watchers = Self::among(unseen, own, Box::new(by_the_system));

        if own.is_none() {
            let started = beside_this_program().and_then(|program| {
                let name = watcher::pipe_of(&program)?;
                watchers.listen(name, program)
            });
            if let Err(error) = started {
                watchers.lock().deaf = Some(format!("no watcher can be heard: {error}"));
            }
        }

        watchers
    }

    fn among(unseen: Unseen, own: Option<u32>, list: ListSessions) -> Arc<Self> {
        // A service may have been started again while somebody was about to leave.
        let since = own.map_or_else(os::since_boot, |_| Time(0));
        let mut sessions = Sessions::new(unseen, since);
        // Its own session is one of a user's.
        let _ = own.map(|session| sessions.came(OWN, session));

        let state = State {
            sessions,
            eyes: Eyes::default(),
            listed: None,
            deaf: None,
            news: false,
            warned: None,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            news: Condvar::new(),
            own,
            list,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the sessions now.
    pub(super) fn look(&self) -> SessionSights {
        let now = os::since_boot();
        let mut state = self.lock();
        state.news = false;

        if self.own.is_some()
            && let Some(word) = state.eyes.word(now)
        {
            state.sessions.said(OWN, now, word);
        }
        if let Some(why) = &state.deaf {
            return unknown(why);
        }

        let (listed, console) = state.listed(now, &self.list);
        let listed = match listed {
            Ok(listed) => listed,
            Err(why) => return unknown(&why),
        };
        // Where the system lists not even this worker's own session, it lists none.
        let believed = self.own.is_none_or(|own| listed.contains_key(&own));
        let console = console.filter(|_| believed);

        state.sessions.look(now, &listed, console)
    }

    /// Waits for news of a watcher, for at most `pause`.
    pub(super) fn wait(&self, pause: Duration) {
        let quiet = |state: &mut State| !state.news;
        drop(self.news.wait_timeout_while(self.lock(), pause, quiet));
    }

    /// Whether this worker hears of input by watchers, and does not see it itself.
    pub(super) fn hears(&self) -> bool {
        self.own.is_none()
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.news = true;
        self.news.notify_all();
    }

    /// Starts the thread that listens at the pipe of this name to processes of this program, until
    /// nobody looks any more.
    fn listen(self: &Arc<Self>, name: String, program: PathBuf) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let door = Arc::new(WatcherPipe {
            watchers: Arc::downgrade(self),
            name,
            program,
        });

        thread::Builder::new()
            .name("watchers".to_owned())
            .stack_size(STACK)
            .spawn(move || runtime.block_on(door.serve()))?;
        Ok(())
    }
}

impl State {
    /// Notes in the log that a program was turned away, once in `WARN_EVERY`: it could fill the disk.
    fn warn(&mut self, session: u32, why: &str) {
        let now = os::since_boot();
        if self.warned.is_none_or(|at| now.since(at) >= WARN_EVERY) {
            tracing::warn!(session, why, "a program that is no watcher was turned away");
            self.warned = Some(now);
        }
    }

    fn listed(&mut self, now: Time, list: &ListSessions) -> SessionList {
        let known = self.listed.take();
        let known = known.filter(|(at, _)| now.since(*at) < LISTED);
        let (_, listed) = self.listed.insert(known.unwrap_or_else(|| (now, list())));
        listed.clone()
    }
}

fn unknown(why: &str) -> SessionSights {
    SessionSights {
        input: Sight::Unknown(why.to_owned()),
        full_screen: Sight::Unknown(why.to_owned()),
    }
}

/// Returns the path of the `watcher::PROGRAM` that belongs to this program.
fn beside_this_program() -> io::Result<PathBuf> {
    std::env::current_exe().map(|path| path.with_file_name(watcher::PROGRAM))
}

/// The pipe, and who may speak at it.
struct WatcherPipe {
    watchers: Weak<Watchers>,
    name: String,
    program: PathBuf,
}

impl WatcherPipe {
    /// Listens until nobody looks any more.
    async fn serve(self: Arc<Self>) {
        while let Some(watchers) = self.watchers.upgrade() {
            drop(watchers);
            if let Err(error) = self.attend().await {
                let why = format!("the watchers' pipe cannot be had: {error}");
                tracing::warn!(%error, "the watchers' pipe");
                self.tell(|state| state.deaf = Some(why));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        if let Some(watchers) = self.watchers.upgrade() {
            watchers.tell(change);
        }
    }

    /// Makes the pipe, and lets watchers in.
    async fn attend(self: &Arc<Self>) -> io::Result<()> {
        let mut next = system::listen(&self.name, true)?;
        self.tell(|state| state.deaf = None);

        let mut connection = OWN;
        while self.watchers.strong_count() > 0 {
            match tokio::time::timeout(AGAIN, next.connect()).await {
                Err(_) => continue,
                Ok(connected) => connected?,
            }
            let pipe = std::mem::replace(&mut next, system::listen(&self.name, false)?);
            connection += 1;
            let door = Arc::clone(self);
            tokio::spawn(async move { door.hear(connection, pipe).await });
        }

        Ok(())
    }

    /// Hears one watcher until it ends, is silent for `SILENT`, or says what is no word.
    async fn hear(&self, connection: u64, pipe: NamedPipeServer) {
        if let Err((session, why)) = self.admit(connection, &pipe) {
            self.tell(|state| {
                state.warn(session, &why);
                state.sessions.refused(session, why);
            });
            return;
        }

        let mut lines = BufReader::new(pipe);
        while let Ok(word) = next_word(&mut lines).await {
            let now = os::since_boot();
            self.tell(|state| state.sessions.said(connection, now, word));
        }
        self.tell(|state| state.sessions.gone(connection));
    }

    /// Takes a watcher in.
    ///
    /// # Errors
    /// Returns its session, and why it is not believed.
    fn admit(&self, connection: u64, pipe: &NamedPipeServer) -> Result<(), (u32, String)> {
        let cannot = |error: io::Error| format!("it cannot be told which program it is: {error}");
        let client = system::client(pipe).map_err(|error| (OF_SERVICES, cannot(error)))?;
        let session = client.session;

        let found = system::program_of(client.process).map_err(|e| (session, cannot(e)))?;
        if whole(&found) != whole(&self.program) {
            let why = format!("{} is not {}", found.display(), self.program.display());
            return Err((session, why));
        }

        let mut came = Ok(());
        self.tell(|state| came = state.sessions.came(connection, session));
        came.map_err(|why| (session, why))
    }
}

/// The one form of a path that can be compared.
fn whole(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.to_string_lossy().to_lowercase()
}

/// Reads a watcher's next word.
///
/// # Errors
/// If it says nothing for too long, has gone, or says what is no word.
async fn next_word(lines: &mut BufReader<NamedPipeServer>) -> io::Result<WatcherWord> {
    let mut line = Vec::new();
    let mut limited = lines.take(MAX_LINE as u64 + 1);
    let read = limited.read_until(b'\n', &mut line);
    tokio::time::timeout(Duration::from_micros(SILENT.0), read).await??;
    let line = line
        .strip_suffix(b"\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    WatcherWord::read(line).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
