//! The keeper: the installed program, while a newer one from the master runs in its place as its child. It
//! passes on the order to end, tries a new program, and goes back to the one before where that does not come up.

use std::convert::Infallible;
use std::ffi::OsString;
use std::future::pending;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use common::update::{ProgramVersion, UpdateKey, UpdateStatement};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::{ProgramChoice, ProgramDir, TakenPrograms, admit, running};
use crate::config::Config;
use crate::error::WorkerError;

/// The variable by which a program learns its keeper: the keeper's process id, and its version.
const KEEPER: &str = "DESKGRID_KEEPER";
/// The exit code of a program that does not take its settings.
const UNFIT: i32 = 2;
/// The exit code of a program that panicked.
const PANICKED: i32 = 101;
/// The exit code of a program that ends so that its [`ProgramKeeper`] starts another one.
pub const ANOTHER: i32 = 75;
/// The interval of the looks whether a program on trial has reached the master.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The time that a program may take to end once it was asked to.
const ENDING: Duration = Duration::from_secs(25);
/// The time that a program may take to say its version.
const ANSWER: Duration = Duration::from_secs(20);
/// The tries to start a program whose file is still open for writing.
const BUSY: u32 = 20;
/// The pause before a program that ended is started again.
const AGAIN: Duration = Duration::from_secs(1);
/// A program that breaks within this time of its start may be of no use.
pub(crate) const SOON: Duration = Duration::from_secs(600);
/// The tries to start a program where the system is short of something.
const SPAWNS: u32 = 5;

/// The end of the keeper's work.
#[derive(Debug)]
pub enum KeeperEnd {
    /// The installed program is to work itself.
    Installed,
    /// The child has ended, with this code.
    Ended(i32),
    /// Another worker has this directory.
    InUse(WorkerError),
}

/// Returns the process id and version in [`KEEPER`], if this program runs in place of an installed one.
fn kept_by() -> Option<(u32, ProgramVersion)> {
    let word = std::env::var(KEEPER).ok()?;
    let (pid, version) = word.split_once(' ')?;
    Some((pid.parse().ok()?, version.parse().ok()?))
}

/// Returns the version of the installed program, if this one runs in its place.
pub fn installed() -> Option<ProgramVersion> {
    kept_by().map(|(_, version)| version)
}

/// Returns the process that keeps this one, if any.
#[cfg(target_os = "linux")]
pub(crate) fn keeper() -> Option<u32> {
    kept_by().map(|(pid, _)| pid)
}

/// Whether the worker in `dir` has a program from the master, which may run in place of the installed one.
pub fn has_program(dir: &Path) -> bool {
    let programs = ProgramDir::below(dir).read();
    programs.current.is_some() || programs.trial.is_some()
}

/// Ties this program to its keeper: it ends when that does. Returns whether it has one.
#[cfg(unix)]
pub fn tie() -> bool {
    let Some((pid, _)) = kept_by() else {
        return false;
    };
    #[cfg(target_os = "linux")]
    {
        let signal = rustix::process::Signal::KILL;
        let _ = rustix::process::set_parent_process_death_signal(Some(signal));
    }

    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
    if parent.and_then(|parent| u32::try_from(parent).ok()) != Some(pid) {
        // It was gone before this could be said.
        std::process::exit(ANOTHER);
    }
    true
}

/// Nothing ties on this system.
#[cfg(not(unix))]
pub fn tie() -> bool {
    false
}

/// Asks a program for its `--version`.
///
/// # Errors
/// If it does not say.
pub(super) async fn version_of(program: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().kill_on_drop(true);
    command.stdin(std::process::Stdio::null());

    let mut busy = 0;
    loop {
        let said = tokio::time::timeout(ANSWER, command.output()).await;
        return match said {
            // A child that is between its fork and its program may have the new file open for writing.
            Ok(Err(error)) if error.kind() == ErrorKind::ExecutableFileBusy && busy < BUSY => {
                busy += 1;
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            Ok(Err(error)) => Err(format!("it cannot be started: {error}")),
            Ok(Ok(output)) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(Ok(output)) => Err(format!("it does not say its version: {}", output.status)),
            Err(_) => Err("it does not say its version in time".to_owned()),
        };
    }
}

/// A worker whose program may be another one than the installed.
#[derive(Debug)]
pub struct ProgramKeeper {
    dir: PathBuf,
    programs: ProgramDir,
    config: Config,
    learned: Option<UpdateKey>,
    words: Vec<OsString>,
    unfit: bool,
}

impl ProgramKeeper {
    /// The keeper of the worker in `dir`, whose program is started with the arguments `words`.
    pub fn new(
        dir: &Path,
        config: &Config,
        learned: Option<UpdateKey>,
        words: Vec<OsString>,
    ) -> Self {
        Self {
            dir: dir.to_owned(),
            programs: ProgramDir::below(dir),
            config: config.clone(),
            learned,
            words,
            unfit: false,
        }
    }

    /// Takes whether the installed program does not take the settings either.
    #[must_use]
    pub fn with_unfit_settings(mut self, unfit: bool) -> Self {
        self.unfit = unfit;
        self
    }

    /// Runs the newest program that may run, until the installed one is to work itself, `shutdown` resolves, or
    /// it ends by itself.
    pub async fn keep(&self, shutdown: impl Future<Output = ()>) -> KeeperEnd {
        tokio::pin!(shutdown);
        // Let go at once: the program that is started takes it.
        if let Err(error) = crate::lock::take(&self.dir).await {
            return KeeperEnd::InUse(error);
        }

        let mut tries = true;
        loop {
            let (choice, programs) = self.choose(tries);
            let (of, trial) = match choice {
                ProgramChoice::Installed => return KeeperEnd::Installed,
                ProgramChoice::Current(of) => (of, false),
                ProgramChoice::Trial(of) => (of, true),
            };
            // Not written: then a program that does not come up would be tried for ever.
            if trial && let Err(error) = self.programs.write(&programs) {
                tracing::warn!(%error, "a new program is not tried");
                tries = false;
                continue;
            }

            let path = self.programs.path_of(&of.blob.hash);
            tracing::info!(version = %of.version, program = %path.display(), trial, "starting");
            let began = Instant::now();
            let mut child = match self.spawn(&path).await {
                Ok(child) => child,
                Err(error) => {
                    let why = format!("it cannot be started: {error}");
                    self.give_up(&of, trial, &why, false);
                    continue;
                }
            };

            let ended = tokio::select! {
                status = child.wait() => Some(status),
                why = self.not_up(&of), if trial => {
                    end(&mut child).await;
                    if self.is_on_trial(&of) {
                        self.give_up(&of, trial, &why, true);
                    }
                    continue;
                }
                never = async { self.lasts(SOON).await; pending::<Infallible>().await } => match never {},
                () = &mut shutdown => None,
            };
            let Some(status) = ended else {
                end(&mut child).await;
                self.undo_start(&of);
                return KeeperEnd::Ended(0);
            };
            match self.after(&of, trial, status, began).await {
                Some(code) => return KeeperEnd::Ended(code),
                None => continue,
            }
        }
    }

    /// Chooses the program of a start.
    fn choose(&self, tries: bool) -> (ProgramChoice, TakenPrograms) {
        let mut programs = self.programs.read();
        if !tries {
            programs.trial = None;
        }
        let before = programs.events.clone();
        let choice = programs.choose(
            running(),
            |signed| admit(signed, &self.config, self.learned, ProgramVersion(0, 0, 0)),
            |blob| self.programs.sound(blob),
        );

        if programs.events != before {
            self.note(&programs);
        }
        self.programs.tidy(&programs);
        (choice, programs)
    }

    async fn spawn(&self, path: &Path) -> std::io::Result<Child> {
        for _ in 1..SPAWNS {
            match self.spawn_once(path) {
                Err(error) => tracing::warn!(%error, "a new program does not start"),
                started => return started,
            }
            tokio::time::sleep(AGAIN).await;
        }
        self.spawn_once(path)
    }

    fn spawn_once(&self, path: &Path) -> std::io::Result<Child> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Tasks of this account may have taken it away.
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        }
        let mut command = Command::new(path);
        command
            .args(&self.words)
            .env(KEEPER, format!("{} {}", std::process::id(), running()))
            .kill_on_drop(true);
        command.spawn()
    }

    /// Resolves with the reason once a program on trial has had its time and has not reached the master.
    async fn not_up(&self, of: &UpdateStatement) -> String {
        let within = self.config.update_trial;
        let until = Instant::now() + within.0;
        while Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
            if !self.is_on_trial(of) {
                return std::future::pending().await;
            }
        }
        format!("it did not reach the master within {}", within.span())
    }

    /// Waits until the program has run so `long`, and forgets how often it broke before.
    pub(super) async fn lasts(&self, long: Duration) {
        tokio::time::sleep(long).await;
        let mut programs = self.programs.read();
        if programs.lasted() {
            self.note(&programs);
        }
    }

    fn is_on_trial(&self, of: &UpdateStatement) -> bool {
        let trial = self.programs.read().trial;
        trial.is_some_and(|taken| taken.signed.statement == of.text())
    }

    /// Decides what follows the end of a child: `None` is another start.
    pub(super) async fn after(
        &self,
        of: &UpdateStatement,
        trial: bool,
        status: std::io::Result<ExitStatus>,
        began: Instant,
    ) -> Option<i32> {
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        if code == Some(ANOTHER) {
            tokio::time::sleep(AGAIN).await;
            return None;
        }
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        if !trial || !self.is_on_trial(of) {
            let broke = code.is_none_or(|code| code == PANICKED) && began.elapsed() < SOON;
            return match broke && self.broke(of, &how) {
                true => None,
                false => Some(code.unwrap_or(1)),
            };
        }

        if self.unfit && code == Some(UNFIT) {
            // No program takes these settings: that is no fault of the new one, which is tried once they are mended.
            self.undo_start(of);
            return code;
        }

        tracing::warn!(version = %of.version, how, "a new program ended before it had reached the master");
        let mut programs = self.programs.read();
        programs.ends += 1;
        if programs.ends >= super::ENDS {
            let times = super::ENDS;
            let why = format!("it ended {times} times before it had reached the master ({how})");
            self.give_up(of, trial, &why, false);
        } else {
            self.note(&programs);
            tokio::time::sleep(AGAIN).await;
        }
        None
    }

    /// Notes that a program that had come up broke soon after its start; returns whether it runs no more.
    fn broke(&self, of: &UpdateStatement, how: &str) -> bool {
        let mut programs = self.programs.read();
        let given_up = programs.broke(of, how);
        self.note(&programs) && given_up
    }

    /// Gives up a program that cannot run.
    fn give_up(&self, of: &UpdateStatement, trial: bool, why: &str, late: bool) {
        let mut programs = self.programs.read();
        if trial {
            programs.fail(of, why, late);
        } else {
            programs.current = None;
            programs.note(of.version, format!("runs no more: {why}"));
        }
        self.note(&programs);
    }

    /// Keeps what became of programs; returns whether that went well.
    fn note(&self, programs: &TakenPrograms) -> bool {
        let written = self.programs.write(programs);
        if let Err(error) = &written {
            tracing::warn!(%error, "what became of a new program is not kept");
        }
        written.is_ok()
    }

    /// A start that was ended by somebody else does not count against a program.
    fn undo_start(&self, of: &UpdateStatement) {
        let mut programs = self.programs.read();
        if self.is_on_trial(of) {
            programs.starts = programs.starts.saturating_sub(1);
            let _ = self.programs.write(&programs);
        }
    }
}

/// Asks a child to end (`SIGTERM`), and ends it where that takes too long.
async fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(pid) = child.id()
        && let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed())
    {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    if tokio::time::timeout(ENDING, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
