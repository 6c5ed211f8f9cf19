//! The attempts that a worker holds, as it reports them, and the ways in which an attempt ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::content::{BlobRef, Content};
use crate::host::{Confinement, YieldReason};
use crate::ids::AttemptId;
use crate::path::PortablePath;
use crate::time::Span;

/// The name of the archive among the outputs of an attempt that has what cannot be a file by itself
/// everywhere, such as symbolic links. Underscores come before it where a task's own file has that
/// name.
pub const APART_ARCHIVE: &str = "deskgrid-apart.tar";

/// An attempt that a worker holds, as its heartbeat lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldAttempt {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its progress from the worker's queue to its end.
    pub phase: Phase,
    /// The time that its command has run so far, without suspensions.
    pub ran: Span,
    /// The length of the present suspension; zero while it is not suspended.
    pub frozen_for: Span,
    /// The part done, between 0 and 1, where the program reports it.
    pub progress: Option<f32>,
}

/// The phase that a held attempt is in, as [`HeldAttempt::phase`] reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Queued at the worker for a free slot; nothing was executed.
    Queued,
    /// Its inputs are being fetched; nothing was executed.
    Staging,
    /// Its command runs.
    Running,
    /// Its command is frozen because of the owner, for this `YieldReason`, and will be thawed.
    Suspended(YieldReason),
    /// Ended; its completion lies in the worker's spool and is being delivered.
    Ended,
    /// Everything is staged; it waits for `ToWorker::Begin`, which starts a gang's ranks together.
    Ready,
    /// Its command is frozen by the master (`ToWorker::Hold`), which gave its slot to another
    /// attempt; it will be thawed.
    Held,
}

impl Phase {
    /// Whether the command was started (`Running`, `Suspended` or `HeldAttempt`): a loss then counts
    /// against the task.
    pub fn executing(self) -> bool {
        matches!(self, Phase::Running | Phase::Suspended(_) | Phase::Held)
    }
}

/// The way in which one attempt ended, as its worker saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Exit code 0 and every expected output collected.
    Succeeded,
    /// The command ended with this exit code, not 0.
    Exited(i32),
    /// The command was ended by this signal, which deskgrid did not send.
    Signalled(i32),
    /// It ran longer than this limit (`Assignment::limit`) and was killed.
    TimedOut(Span),
    /// The command succeeded, but no file matches this expected output (a glob).
    MissingOutput(String),
    /// A file that matches an expected output was not collected; names the file and says why.
    BadOutput(String),
    /// The command could not be started here (a missing program, an input that cannot be placed);
    /// says why.
    NotStarted(String),
    /// The master ended it with `ToWorker::Stop`.
    Stopped,
    /// It exceeded a limit; says which. Either its host sets that on memory or disk, and it was killed, or
    /// it is the length of what a host is sent, and it was not started.
    OverLimit(String),
    /// It ended, but its result was damaged on its host before the master had it; says how. This is
    /// no failure of its task.
    ResultLost(String),
    /// The host's disk has no room for it, which is no fault of the task; says what was tried.
    NoRoom(String),
}

/// The longest words of an [`Outcome`] that are kept, in bytes.
const MOST_WORDS: usize = 4_096;

impl Outcome {
    /// Returns the outcome with words that are fit to be stored and shown.
    #[must_use]
    pub fn sound(self) -> Self {
        let fit = |words: String| crate::text::sound(&words, MOST_WORDS);
        match self {
            Outcome::MissingOutput(glob) => Outcome::MissingOutput(fit(glob)),
            Outcome::BadOutput(why) => Outcome::BadOutput(fit(why)),
            Outcome::NotStarted(why) => Outcome::NotStarted(fit(why)),
            Outcome::OverLimit(why) => Outcome::OverLimit(fit(why)),
            Outcome::ResultLost(why) => Outcome::ResultLost(fit(why)),
            Outcome::NoRoom(why) => Outcome::NoRoom(fit(why)),
            Outcome::Succeeded
            | Outcome::Exited(_)
            | Outcome::Signalled(_)
            | Outcome::TimedOut(_)
            | Outcome::Stopped => self,
        }
    }

    /// Whether the attempt succeeded, so that its task is done.
    pub fn success(&self) -> bool {
        matches!(self, Outcome::Succeeded)
    }

    /// Returns the command's exit code where it ended by itself: 0 for `Succeeded`, `MissingOutput`
    /// and `BadOutput`.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Outcome::Succeeded | Outcome::MissingOutput(_) | Outcome::BadOutput(_) => Some(0),
            Outcome::Exited(code) => Some(*code),
            _ => None,
        }
    }
}

/// Returns the name of a signal that commonly ends programs, with its number on Linux.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Succeeded => write!(f, "succeeded"),
            Outcome::Exited(code) => write!(f, "ended with exit code {code}"),
            Outcome::Signalled(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "ended by signal {signal} ({name})"),
                None => write!(f, "ended by signal {signal}"),
            },
            Outcome::TimedOut(limit) => write!(f, "killed at its time limit of {limit}"),
            Outcome::MissingOutput(pattern) => {
                write!(
                    f,
                    "ended with exit code 0, but its expected output `{pattern}` is missing"
                )
            }
            Outcome::BadOutput(what) => write!(f, "an output could not be collected: {what}"),
            Outcome::NotStarted(why) => write!(f, "could not be started: {why}"),
            Outcome::NoRoom(what) => write!(f, "its host has no room: {what}"),
            Outcome::Stopped => write!(f, "stopped by the master"),
            Outcome::OverLimit(what) => write!(f, "exceeded a limit: {what}"),
            Outcome::ResultLost(what) => {
                write!(f, "ended, and its result was lost on its host: {what}")
            }
        }
    }
}

/// A worker's report of an attempt that ended, with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The attempt.
    pub attempt: AttemptId,
    /// The way in which it ended.
    pub outcome: Outcome,
    /// Time from the start of its command to its end, without suspensions.
    pub ran: Span,
    /// Time during which it was suspended.
    pub suspended: Span,
    /// Processor time of its whole process tree.
    pub cpu: Span,
    /// Its standard output.
    pub stdout: Stream,
    /// Its standard error.
    pub stderr: Stream,
    /// The files that match its expected outputs.
    pub outputs: Vec<OutputFile>,
    /// The outputs that were not kept, or not as files by themselves, in words.
    pub warnings: Vec<String>,
    /// The confinement of its command, where that may be why it failed.
    pub confined: Option<Confined>,
}

/// The confinement under which a command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confined {
    /// Its level.
    pub level: Confinement,
    /// Whether it could use the network.
    pub network: bool,
}

impl Confined {
    /// Returns the confinement if it kept anything from the command that programs ask for.
    pub fn of(level: Confinement, network: bool) -> Option<Self> {
        (level == Confinement::Landlock || level > Confinement::Landlock && !network)
            .then_some(Self { level, network })
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its host confined it by {}", self.level)?;
        if !self.network {
            write!(f, ", without network (submit --network)")?;
        }
        if self.level == Confinement::Landlock {
            write!(
                f,
                ", without shared memory, which Python's multiprocessing needs (submit --confinement namespace)"
            )?;
        }
        Ok(())
    }
}

/// The time that an attempt took, for one whose result is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The attempt.
    pub attempt: AttemptId,
    /// Time from the start of its command to its end, without suspensions.
    pub ran: Span,
    /// Time during which it was suspended.
    pub suspended: Span,
    /// Processor time of its whole process tree.
    pub cpu: Span,
}

impl Spent {
    /// Takes the attempt and its times from a [`Completion`].
    pub fn of(completion: &Completion) -> Self {
        Self {
            attempt: completion.attempt,
            ran: completion.ran,
            suspended: completion.suspended,
            cpu: completion.cpu,
        }
    }
}

/// The name of an output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A captured output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// The stream's beginning, up to the worker's limit.
    pub content: Content,
    /// The number of bytes beyond the limit; they were dropped.
    pub dropped: u64,
}

/// A file that an attempt left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// The path below the attempt's directory.
    pub path: PortablePath,
    /// Its content.
    pub blob: BlobRef,
    /// Whether the file has the executable bit.
    pub executable: bool,
}

impl Completion {
    /// Makes the report of an attempt that left nothing and took no time.
    pub fn bare(attempt: AttemptId, outcome: Outcome) -> Self {
        Self {
            attempt,
            outcome,
            ran: Span::ZERO,
            suspended: Span::ZERO,
            cpu: Span::ZERO,
            stdout: Stream::default(),
            stderr: Stream::default(),
            outputs: Vec::new(),
            warnings: Vec::new(),
            confined: None,
        }
    }

    /// Returns every blob that the master must store before it can accept the completion.
    pub fn blobs(&self) -> impl Iterator<Item = BlobRef> + '_ {
        let streams = [&self.stdout, &self.stderr].into_iter();
        let contents = streams.filter_map(|s| s.content.blob());
        contents.chain(self.outputs.iter().map(|o| o.blob))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_an_outcome_are_short_and_do_not_act_on_a_terminal() {
        let long = Outcome::NotStarted(format!("\u{1b}[2J{}", "é".repeat(100_000)));
        let Outcome::NotStarted(why) = long.sound() else {
            panic!("it is the same outcome");
        };
        assert!(
            why.len() <= MOST_WORDS && why.starts_with(" [2Jé"),
            "{}",
            why.len()
        );
        assert_eq!(Outcome::Exited(3).sound(), Outcome::Exited(3));
    }

    #[test]
    fn a_failure_names_the_confinement_that_may_have_caused_it() {
        let said = |level, network| Confined::of(level, network).map(|c| c.to_string());
        assert_eq!(said(Confinement::Process, false), None);
        assert_eq!(said(Confinement::Namespace, true), None);
        assert_eq!(
            said(Confinement::Namespace, false).as_deref(),
            Some("its host confined it by namespace, without network (submit --network)")
        );
        let landlock = said(Confinement::Landlock, true).unwrap();
        assert!(landlock.contains("multiprocessing") && !landlock.contains("--network"));
    }
}
