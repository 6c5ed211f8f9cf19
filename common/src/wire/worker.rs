//! Between a worker and its master, on the control stream.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Refusal, Versions};
use crate::attempt::{Completion, Held, Spent};
use crate::availability::Stretch;
use crate::checkpoint::{Checkpointing, Saving};
use crate::content::BlobRef;
use crate::host::{Confinement, HostFacts, Loan, OwnerState, Status};
use crate::ids::{AttemptId, HostId, Incarnation};
use crate::path::PortablePath;
use crate::time::Span;

/// The most stretches in a message.
pub const MAX_STRETCHES: usize = 1_000;

/// From the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToMaster {
    /// First message of every connection.
    Hello {
        /// What it understands.
        versions: Versions,
        /// What the host is.
        facts: HostFacts,
        /// How it can be used now.
        status: Status,
        /// Everything it holds, also from before the connection.
        held: Vec<Held>,
    },
    /// Alive; renews the leases of all that it lists. Answered by [`ToWorker::Beat`].
    Heartbeat {
        /// How it can be used now.
        status: Status,
        /// Everything it holds.
        held: Vec<Held>,
    },
    /// Attempts whose phase changed since the last message (a command was started, suspended,
    /// resumed).
    Phases(Vec<Held>),
    /// Attempts that ended; each stays in the spool until it is acknowledged.
    Delivered(Vec<Delivery>),
    /// Attempts given back, with why: they were never started, or ended for the owner's sake, their
    /// state saved before. No failure of their tasks.
    Returned {
        /// Which.
        attempts: Vec<AttemptId>,
        /// In words.
        why: String,
    },
    /// The owner came or went.
    Owner(OwnerState),
    /// What became of the state of an attempt.
    Checkpoint {
        /// Which attempt.
        attempt: AttemptId,
        /// Counts the states that the attempt saved or should have saved, from 1; 0 of the one that
        /// it started from.
        sequence: u32,
        /// What became of it.
        saving: Saving,
    },
    /// It shuts down in order: nothing runs here any more.
    Leaving,
    /// The worker was asked to end: it takes nothing any more, and leaves once what it holds has
    /// ended or is given back.
    Closing,
    /// How the host was available, the oldest first. Answered by [`ToWorker::Kept`].
    Recorded {
        /// The worker's number for the last of them. Numbers rise; what was said before may be said
        /// again.
        last: u64,
        /// None before the end of the one before.
        stretches: Vec<Stretch>,
    },
    /// Which run of the worker this is: a number that it drew when it was started. One that comes
    /// back after another has taken its place shows that two workers use one identity. Comes after
    /// the welcome.
    Instance(Uuid),
    /// What an attempt took that was given back after it had been started.
    Spent(Spent),
    /// For how long the owner's hours lend the host; none where they name no end. Comes after the
    /// welcome, and when that end is another one.
    Lent(Option<Loan>),
}

/// A completion on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// What happened.
    pub completion: Completion,
    /// How long ago it ended, as far as the worker can tell.
    pub ago: Span,
}

/// From the master.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// The worker has joined.
    Welcome {
        /// The version that both will speak.
        version: u16,
        /// The master's number for the host.
        host: HostId,
        /// The host's name, made unique.
        name: String,
        /// The master's incarnation.
        incarnation: Incarnation,
        /// How often to send heartbeats.
        heartbeat: Span,
        /// Held attempts that are of no use any more.
        abandon: Vec<AttemptId>,
    },
    /// The worker has not joined, and should not try again before the cause is gone.
    Refused(Refusal),
    /// Work.
    Assign(Vec<Assignment>),
    /// End these attempts; each is still to be delivered.
    Stop {
        /// Which.
        attempts: Vec<AttemptId>,
        /// In words.
        why: String,
    },
    /// These completions are durable here: drop them from the spool.
    Acknowledged(Vec<AttemptId>),
    /// Answer to a heartbeat: held attempts that are of no use any more, to be dropped without a
    /// delivery.
    Beat {
        /// Which.
        abandon: Vec<AttemptId>,
    },
    /// The master goes away in order, and will be back.
    Goodbye,
    /// What was recorded up to this number is durable here: drop it.
    Kept {
        /// The worker's number.
        last: u64,
    },
    /// Work that is to be made ready and then to wait for [`ToWorker::Begin`].
    AssignTogether(Vec<Assignment>),
    /// What waits for it may start.
    Begin(Vec<AttemptId>),
    /// Freeze these attempts, whose slots are for others, or let them go on.
    Hold {
        /// Which.
        attempts: Vec<AttemptId>,
        /// Whether they are to stand still.
        frozen: bool,
    },
    /// End these attempts as [`ToWorker::Stop`] does, and save their states: their tasks go on from
    /// there.
    Yield {
        /// Which.
        attempts: Vec<AttemptId>,
        /// In words.
        why: String,
    },
}

/// One attempt to be made, every placeholder expanded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Kill it after this run time, suspensions not counted.
    pub limit: Option<Span>,
    /// Report at least this often while it is held, where that is more often than usual.
    pub report_every: Option<Span>,
    /// What to do.
    pub work: Errand,
}

/// What an attempt does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Errand {
    /// Nothing.
    Noop,
    /// Runs a command.
    Command(Box<Command>),
}

/// A command with its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Program and arguments; the program is looked up in `PATH` unless it has a slash.
    pub argv: Vec<String>,
    /// Added to the clean environment, `DESKGRID_*` included.
    pub env: Vec<(String, String)>,
    /// Placed below the attempt's directory first.
    pub inputs: Vec<StagedInput>,
    /// Globs below the attempt's directory, collected afterwards.
    pub outputs: Vec<String>,
    /// The input that is its standard input.
    pub stdin: Option<PortablePath>,
    /// Whether its standard output is kept.
    pub keep_stdout: bool,
    /// Whether its standard error is kept.
    pub keep_stderr: bool,
    /// How its state is kept, if it is.
    pub checkpoint: Option<Checkpointing>,
    /// How well it must be confined, where the job says; never less than the host does anyway.
    pub confinement: Option<Confinement>,
    /// Whether it asks for the network.
    pub network: bool,
}

/// A file to be placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedInput {
    /// Where.
    pub path: PortablePath,
    /// What.
    pub blob: BlobRef,
    /// Whether it may be executed.
    pub executable: bool,
}
