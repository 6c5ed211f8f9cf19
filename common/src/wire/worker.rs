//! Messages between a worker and its master, on the control stream.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::peer::{PeerTicket, SharingOffer};
use super::{Refusal, Versions};
use crate::attempt::{Completion, HeldAttempt, Spent, StreamKind};
use crate::availability::AvailabilityInterval;
use crate::checkpoint::{Checkpointing, Saving};
use crate::content::{BlobHash, BlobRef};
use crate::host::{Confinement, HostFacts, Loan, OwnerState, Status};
use crate::ids::{AttemptId, HostId, Incarnation};
use crate::needs::Demand;
use crate::path::PortablePath;
use crate::site::{SiteAnswer, SiteSettings};
use crate::time::Span;
use crate::update::{SignedUpdate, UpdateAnswer};

/// The most availability intervals in one [`ToMaster::Recorded`].
pub const MAX_STRETCHES: usize = 1_000;

/// The interval at which a worker that holds attempts sends something, whatever it is: a host whose
/// network is gone is to be noticed within ten seconds.
pub const BUSY_EVERY: Span = Span::from_secs(3);

/// A message from the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToMaster {
    /// First message of every connection.
    Hello {
        /// The versions that it understands.
        versions: Versions,
        /// The host's properties.
        facts: Box<HostFacts>,
        /// The host's present status.
        status: Status,
        /// Every attempt that it holds, including those from before the connection.
        held: Vec<HeldAttempt>,
    },
    /// A heartbeat: the worker is alive. Renews the leases of all attempts that it lists. Answered
    /// by [`ToWorker::Beat`].
    Heartbeat {
        /// The host's present status.
        status: Status,
        /// Every attempt that the worker holds.
        held: Vec<HeldAttempt>,
    },
    /// Attempts whose phase changed since the last message (a command was started, suspended,
    /// resumed).
    Phases(Vec<HeldAttempt>),
    /// Attempts that ended; each stays in the worker's spool until [`ToWorker::Acknowledged`].
    Delivered(Vec<Delivery>),
    /// Attempts given back: they were never started, or were ended for the owner's sake after a
    /// checkpoint. This is no failure of their tasks.
    Returned {
        /// The attempts.
        attempts: Vec<AttemptId>,
        /// The reason, in words.
        why: String,
    },
    /// The owner's state changed.
    Owner(OwnerState),
    /// The result of a checkpoint of an attempt.
    Checkpoint {
        /// The attempt.
        attempt: AttemptId,
        /// The number of the checkpoint among those that the attempt saved or should have saved,
        /// from 1; 0 for the one that it started from.
        sequence: u32,
        /// The result.
        saving: Saving,
    },
    /// The worker shuts down in order: nothing runs here any more.
    Leaving,
    /// The worker was asked to end: it accepts no more attempts, and leaves once those that it
    /// holds have ended or are given back.
    Closing,
    /// The availability of the host, the oldest interval first. Answered by [`ToWorker::Kept`].
    Recorded {
        /// The worker's number for the last of them. Numbers rise; intervals that were sent before
        /// may be sent again.
        last: u64,
        /// The intervals; none starts before the one before it ends.
        stretches: Vec<AvailabilityInterval>,
    },
    /// A number that this run of the worker drew at its start. A number that returns after another
    /// has taken its place shows that two workers use one identity. Sent after the welcome.
    Instance(Uuid),
    /// The time spent by an attempt that was given back after it had been started.
    Spent(Spent),
    /// The time for which the owner's hours lend the host; `None` where they name no end. Sent
    /// after the welcome, and whenever that end changes.
    Lent(Option<Loan>),
    /// The worker is there, and sends something again within this time. A worker that does not is
    /// taken to be gone.
    Alive(Span),
    /// The words that programs say of their progress, where they have changed.
    Words(Vec<(AttemptId, String)>),
    /// The worker passes inputs on to hosts that the master sends, or (`None`) does so no more.
    Shares(Option<SharingOffer>),
    /// Content of [`LEAST_SHARED`](super::peer::LEAST_SHARED) bytes or more has come and is whole.
    Fetched {
        /// The content.
        hash: BlobHash,
        /// The ticket of the host that gave the last of it; `None`: the master did.
        ticket: Option<u64>,
        /// The bytes that this source gave.
        bytes: u64,
    },
    /// The settings from the master that the worker has taken or refused: after the welcome, where it has
    /// any, and in answer to [`ToWorker::Site`]. From [`SITE_VERSION`](super::SITE_VERSION) on.
    Site(SiteAnswer),
    /// What has become of an update here: in answer to [`ToWorker::Update`], and after the welcome where
    /// one runs or was rolled back. From [`UPDATE_VERSION`](super::UPDATE_VERSION) on.
    Update(UpdateAnswer),
    /// An attempt is given back next, since memory was short while it was suspended. From
    /// [`WEIGHING_VERSION`](super::WEIGHING_VERSION) on.
    Weighed {
        /// The attempt.
        attempt: AttemptId,
        /// The bytes of memory that it held; `None` where that could not be told.
        bytes: Option<u64>,
    },
}

/// A completion on its way to the master.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// The completion.
    pub completion: Completion,
    /// The time since the attempt ended, as far as the worker can tell.
    pub ago: Span,
}

/// A message from the master.
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
        /// The interval between heartbeats.
        heartbeat: Span,
        /// Held attempts that are of no use any more and are to be dropped.
        abandon: Vec<AttemptId>,
    },
    /// The worker has not joined, and should not try again before the cause is gone.
    Refused(Refusal),
    /// Attempts to run.
    Assign(Vec<Assignment>),
    /// Ends these attempts; each must still be delivered.
    Stop {
        /// The attempts.
        attempts: Vec<AttemptId>,
        /// The reason, in words.
        why: String,
    },
    /// These completions are durable at the master: the worker drops them from its spool.
    Acknowledged(Vec<AttemptId>),
    /// Answers a heartbeat.
    Beat {
        /// Held attempts that are of no use any more, to be dropped without a delivery.
        abandon: Vec<AttemptId>,
    },
    /// The master shuts down in order, and will be back.
    Goodbye,
    /// The availability intervals up to this number are durable at the master: the worker drops
    /// them.
    Kept {
        /// The worker's number of the last one (`last` of [`ToMaster::Recorded`]).
        last: u64,
    },
    /// Attempts to stage, which then wait for [`ToWorker::Begin`].
    AssignTogether(Vec<Assignment>),
    /// Starts these staged attempts.
    Begin(Vec<AttemptId>),
    /// Freezes these attempts, whose slots are for others, or thaws them.
    Hold {
        /// The attempts.
        attempts: Vec<AttemptId>,
        /// Whether to freeze (true) or thaw (false) them.
        frozen: bool,
    },
    /// Ends these attempts as [`ToWorker::Stop`] does, after a checkpoint from which their tasks go
    /// on.
    Yield {
        /// The attempts.
        attempts: Vec<AttemptId>,
        /// The reason, in words.
        why: String,
    },
    /// The interval at which the worker should send something while it holds no attempts.
    SendEvery(Span),
    /// Somebody looks at the output of a held attempt. Answered by a stream that begins with
    /// `Open::Tail`.
    Tail(TailOrder),
    /// A host comes for content: it may have it.
    Serve(PeerTicket),
    /// These tickets hold no more: what is being sent for them ends.
    Unserve(Vec<u64>),
    /// The settings from the master that hold for the host, instead of all that came before. Answered
    /// by [`ToMaster::Site`]. From [`SITE_VERSION`](super::SITE_VERSION) on.
    Site(SiteSettings),
    /// A new program for this host, whose content it may fetch. Answered by [`ToMaster::Update`]. From
    /// [`UPDATE_VERSION`](super::UPDATE_VERSION) on.
    Update(Box<SignedUpdate>),
    /// The gateway at the other end has another connection to a master: the worker greets it on a new
    /// control stream of the same connection. Nothing follows.
    Anew,
    /// The host gets no new tasks, or (benched) one at a time, for this reason in words; `None`: it gets them
    /// again. After the welcome, where there is one, and whenever that changes. From
    /// [`SERVICE_VERSION`](super::SERVICE_VERSION) on.
    OutOfService(Option<String>),
}

/// An order to show the output of an attempt while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailOrder {
    /// The attempt.
    pub attempt: AttemptId,
    /// The stream.
    pub stream: StreamKind,
    /// The first byte to show; `None`: the newest that the worker has in memory.
    pub from: Option<u64>,
    /// The master's number for whoever looks.
    pub ticket: u64,
}

/// One attempt to run, with every placeholder expanded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The attempt.
    pub attempt: AttemptId,
    /// The run time after which the worker kills it, without suspensions.
    pub limit: Option<Span>,
    /// The longest interval between reports while it is held, if that is shorter than usual.
    pub report_every: Option<Span>,
    /// The work.
    pub work: Errand,
}

/// The work of an attempt.
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
    /// The program and its arguments; the program is looked up in `PATH` unless it has a slash.
    pub argv: Vec<String>,
    /// The variables added to the clean environment, `DESKGRID_*` included.
    pub env: Vec<(String, String)>,
    /// Files and trees placed below the attempt's directory before the start.
    pub inputs: Vec<StagedInput>,
    /// Globs below the attempt's directory; matching files are collected afterwards.
    pub outputs: Vec<String>,
    /// The input that becomes standard input.
    pub stdin: Option<PortablePath>,
    /// Whether its standard output is kept.
    pub keep_stdout: bool,
    /// Whether its standard error is kept.
    pub keep_stderr: bool,
    /// The checkpoint settings, if its state is kept.
    pub checkpoint: Option<Checkpointing>,
    /// The level of confinement that the job needs; the host never confines it less than usual.
    pub confinement: Option<Confinement>,
    /// Whether it asks for the network.
    pub network: bool,
    /// The part of the host that it may take: it is bound to that many processors, and the memory is its
    /// limit where the host can hold one.
    pub takes: Demand,
}

/// An input to be placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedInput {
    /// The path below the attempt's directory.
    pub path: PortablePath,
    /// The content; of a tree, its manifest.
    pub blob: BlobRef,
    /// The kind of thing that it is.
    pub kind: StagedKind,
}

/// The kind of a [`StagedInput`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StagedKind {
    /// A file.
    File,
    /// A file with the executable bit.
    Program,
    /// A directory that attempts share.
    Tree,
}
