//! What a worker says about the attempts it holds, and how attempts end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::content::{BlobRef, Content};
use crate::host::YieldReason;
use crate::ids::AttemptId;
use crate::path::PortablePath;
use crate::time::Span;

/// An attempt that a worker holds, as its heartbeat lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Which one.
    pub attempt: AttemptId,
    /// How far it is.
    pub phase: Phase,
    /// For how long its command has run so far, suspensions not counted.
    pub ran: Span,
    /// For how long it has been suspended this time; zero while it is not.
    pub frozen_for: Span,
    /// The part done, between 0 and 1, where the program reports it.
    pub progress: Option<f32>,
}

/// How far a held attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Waits at the worker for a slot; nothing was executed.
    Queued,
    /// Its inputs are being fetched; nothing was executed.
    Staging,
    /// Its command runs.
    Running,
    /// Its command is frozen because of the owner, and will go on.
    Suspended(YieldReason),
    /// Ended; its completion lies in the worker's spool and is being delivered.
    Ended,
    /// Everything is there; it waits for the others that it is to start together with.
    Ready,
    /// Its command is frozen because the master wants its slot for another, and will go on.
    Held,
}

impl Phase {
    /// Whether the command was started, so that a loss counts against the task.
    pub fn executing(self) -> bool {
        matches!(self, Phase::Running | Phase::Suspended(_) | Phase::Held)
    }
}

/// How one attempt ended, as its worker saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Exit code 0 and every expected output collected.
    Succeeded,
    /// The command ended with this exit code, not 0.
    Exited(i32),
    /// The command was ended by this signal, not by deskgrid.
    Signalled(i32),
    /// It ran longer than its limit and was killed.
    TimedOut(Span),
    /// The command succeeded, but no file matches this expected output.
    MissingOutput(String),
    /// A file that matches an expected output was not taken; names the file and says why.
    BadOutput(String),
    /// The command could not be started here (a missing program, an input that cannot be placed);
    /// says why.
    NotStarted(String),
    /// The master asked for its end.
    Stopped,
    /// It went beyond what its host allows of memory or disk, and was ended; says what.
    OverLimit(String),
    /// It ended, and what it left was damaged on its host before the master had it; says what. No
    /// failure of its task.
    ResultLost(String),
    /// The host has no room for it on its disk, which is no fault of the task; says what was tried.
    NoRoom(String),
}

impl Outcome {
    /// Whether the task is done by this.
    pub fn success(&self) -> bool {
        matches!(self, Outcome::Succeeded)
    }

    /// The command's exit code, where it ended by itself.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Outcome::Succeeded | Outcome::MissingOutput(_) | Outcome::BadOutput(_) => Some(0),
            Outcome::Exited(code) => Some(*code),
            _ => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Succeeded => write!(f, "succeeded"),
            Outcome::Exited(code) => write!(f, "ended with exit code {code}"),
            Outcome::Signalled(signal) => write!(f, "ended by signal {signal}"),
            Outcome::TimedOut(limit) => write!(f, "killed at its time limit of {limit}"),
            Outcome::MissingOutput(pattern) => {
                write!(
                    f,
                    "ended with exit code 0, but its expected output `{pattern}` is missing"
                )
            }
            Outcome::BadOutput(what) => write!(f, "an output was not collected: {what}"),
            Outcome::NotStarted(why) => write!(f, "could not be started: {why}"),
            Outcome::NoRoom(what) => write!(f, "its host has no room: {what}"),
            Outcome::Stopped => write!(f, "stopped by the master"),
            Outcome::OverLimit(what) => write!(f, "ended at a limit of its host: {what}"),
            Outcome::ResultLost(what) => {
                write!(f, "ended, and its result was lost on its host: {what}")
            }
        }
    }
}

/// What a worker reports of an attempt that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// Which attempt.
    pub attempt: AttemptId,
    /// How it ended.
    pub outcome: Outcome,
    /// Time from the start of its command to its end, suspensions not counted.
    pub ran: Span,
    /// Time during which it was suspended.
    pub suspended: Span,
    /// Processor time of its whole process tree.
    pub cpu: Span,
    /// What it wrote to its standard output.
    pub stdout: Stream,
    /// What it wrote to its standard error.
    pub stderr: Stream,
    /// The expected outputs that were there.
    pub outputs: Vec<OutputFile>,
}

/// What an attempt took, of which nothing else is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Time from the start of its command to its end, suspensions not counted.
    pub ran: Span,
    /// Time during which it was suspended.
    pub suspended: Span,
    /// Processor time of its whole process tree.
    pub cpu: Span,
}

impl Spent {
    /// What a completion says of it.
    pub fn of(completion: &Completion) -> Self {
        let Completion {
            attempt,
            ran,
            suspended,
            cpu,
            ..
        } = completion;

        Self {
            attempt: *attempt,
            ran: *ran,
            suspended: *suspended,
            cpu: *cpu,
        }
    }
}

/// A captured output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Its beginning, up to the worker's limit.
    pub content: Content,
    /// How many bytes were written beyond the limit, and dropped.
    pub dropped: u64,
}

/// A file that an attempt left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Where it lay below the attempt's directory.
    pub path: PortablePath,
    /// Its content.
    pub blob: BlobRef,
    /// Whether it may be executed.
    pub executable: bool,
}

impl Completion {
    /// Every blob that the master must hold before it can take the completion.
    pub fn blobs(&self) -> impl Iterator<Item = BlobRef> + '_ {
        let streams = [&self.stdout, &self.stderr]
            .into_iter()
            .filter_map(|s| s.content.blob());
        streams.chain(self.outputs.iter().map(|o| o.blob))
    }
}
