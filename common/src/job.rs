//! The parts of a submission: a bag of tasks, the work that each one does, and the rules it runs
//! under.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::after::{After, MAX_AFTER};
use crate::bounded;
use crate::checkpoint::SHORTEST_INTERVAL;
use crate::content::BlobRef;
use crate::ids::JobId;
use crate::idset::IdSet;
use crate::needs::{BadNeeds, Builds, Label, MAX_LABELS, Needs};
use crate::path::PortablePath;
use crate::platform::PlatformName;
use crate::ranks::{BadRanks, Ranks};
use crate::selector::MAX_IDS;
use crate::template::Template;
use crate::text::plural;
use crate::time::{Span, Time};

mod hints;
mod streams;
#[cfg(test)]
mod tests;
mod usual;

pub use usual::*;

/// The number of executing attempts of a task that may be lost with their hosts before the task
/// counts as failed, unless the job sets [`Rules::max_losses`].
pub const DEFAULT_MAX_LOSSES: u32 = 10;
/// The largest [`Quorum::size`].
pub const MAX_QUORUM: u32 = 5;
/// The most separate ranges that the numbers of a job's tasks may form.
pub const MAX_TASK_RANGES: usize = 100_000;
/// The longest job name, in bytes.
const MAX_NAME: usize = 200;

/// A submission. [`JobSpec::check`] decides whether it makes sense; the master takes no other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The user's name for the job; need not be unique.
    pub name: String,
    /// The tasks.
    pub tasks: TaskSet,
    /// The work of each task.
    pub work: Work,
    /// The rules for scheduling the tasks and for giving up.
    pub rules: Rules,
}

/// The parts of a submission that [`JobSpec`] has no place for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitOptions {
    /// The time by the master's clock at which every task must be done, for a job whose deadline is
    /// a date. [`Rules::deadline`] is then zero until the master knows how long that is.
    pub deadline: Option<Time>,
    /// An estimate for each task, in the order of the indices, as run times on a host of speed 1.
    /// Where this is empty, [`Rules::estimate`] holds for every task.
    #[serde(deserialize_with = "bounded::list::<_, _, { MAX_IDS as usize }>")]
    pub estimates: Vec<Span>,
    /// Words by which the user finds the job again.
    pub labels: BTreeSet<Label>,
    /// The jobs that have to end before any task of it starts.
    pub after: Vec<After>,
    /// Whether tasks can be added to it later, until it is closed.
    pub open: bool,
}

impl SubmitOptions {
    /// Checks the value against its job.
    ///
    /// # Errors
    /// Names the first thing that makes no sense.
    pub fn check(&self, job: &JobSpec) -> Result<(), BadJob> {
        if self.deadline.is_some() && job.rules.deadline != Some(Span::ZERO) {
            return Err(BadJob::TwoDeadlines);
        }
        if job.rules.estimate == Some(Span::ZERO) {
            return Err(BadJob::NoTimeForAll);
        }
        if self.labels.len() > MAX_LABELS {
            return Err(BadJob::TooManyLabels(self.labels.len()));
        }
        if self.after.len() > MAX_AFTER {
            return Err(BadJob::AfterTooMany(self.after.len()));
        }
        let mut named = BTreeSet::new();
        if let Some(twice) = self.after.iter().find(|after| !named.insert(after.job)) {
            return Err(BadJob::AfterTwice(twice.job));
        }
        if let Some(other) = self.fixed_part(job).filter(|_| self.open) {
            return Err(BadJob::OpenWith(other));
        }
        if self.estimates.is_empty() {
            return Ok(());
        }
        if job.work.ranks().is_some() {
            return Err(BadJob::EstimatesOfRanks);
        }

        one_per_task(job.tasks.ids.len(), "estimate", self.estimates.len())?;
        let nothing = self
            .estimates
            .iter()
            .position(|estimate| *estimate == Span::ZERO);

        nothing.map_or(Ok(()), |at| Err(BadJob::NoTime(at + 1)))
    }

    /// Returns the part of the job that tasks added later could not have, in words.
    fn fixed_part(&self, job: &JobSpec) -> Option<&'static str> {
        let each_its_own = |command: &CommandSpec| {
            let own = |input: &Input| matches!(input.source, InputSource::PerTask(_));
            command.inputs.iter().any(own)
        };

        [
            (job.rules.deadline.is_some(), "a deadline"),
            (job.work.ranks().is_some(), "several ranks"),
            (!self.estimates.is_empty(), "an estimate for each task"),
            (
                job.work.command().is_some_and(each_its_own),
                "an input file for each task",
            ),
        ]
        .into_iter()
        .find_map(|(given, what)| given.then_some(what))
    }
}

/// The tasks of a job: a compact set of indices, and an item for each where the job was made from a
/// list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSet {
    /// The tasks' indices.
    pub ids: IdSet,
    /// The item (`%{ITEM}`) of each task in the order of the indices; empty if the job has no
    /// items.
    #[serde(deserialize_with = "bounded::list::<_, _, { MAX_IDS as usize }>")]
    pub items: Vec<String>,
}

/// The work of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// Nothing: the worker answers at once without a process. It measures every cost but that of
    /// the process.
    Noop,
    /// Runs a command.
    Command(CommandSpec),
    /// Runs a command as several ranks at once, each on its own host (a gang).
    Ranks(CommandSpec, Ranks),
}

impl Work {
    /// Returns the command, if there is one.
    pub fn command(&self) -> Option<&CommandSpec> {
        match self {
            Work::Noop => None,
            Work::Command(command) | Work::Ranks(command, _) => Some(command),
        }
    }

    /// Returns the command for modification, if there is one.
    pub fn command_mut(&mut self) -> Option<&mut CommandSpec> {
        match self {
            Work::Noop => None,
            Work::Command(command) | Work::Ranks(command, _) => Some(command),
        }
    }

    /// Returns the ranks of a gang; `None` for other jobs.
    pub fn ranks(&self) -> Option<&Ranks> {
        if let Work::Ranks(_, ranks) = self {
            Some(ranks)
        } else {
            None
        }
    }
}

/// A command, its files and its environment. Placeholders are expanded for each attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Program and arguments. No shell is involved.
    #[serde(deserialize_with = "bounded::list::<_, _, { bounded::FEW }>")]
    pub argv: Vec<Template>,
    /// The variables that are added to the clean environment.
    #[serde(deserialize_with = "bounded::list::<_, _, { bounded::FEW }>")]
    pub env: Vec<(String, Template)>,
    /// Files and trees that are placed into the attempt's directory before it starts.
    #[serde(deserialize_with = "bounded::list::<_, _, { bounded::FEW }>")]
    pub inputs: Vec<Input>,
    /// The expected outputs as globs below the attempt's directory. Each must match at least one
    /// file once the command has succeeded.
    #[serde(deserialize_with = "bounded::list::<_, _, { bounded::FEW }>")]
    pub outputs: Vec<Template>,
    /// The name of the input that becomes standard input; `None`: standard input is empty.
    pub stdin: Option<Template>,
    /// The treatment of standard output.
    pub stdout: Capture,
    /// The treatment of standard error.
    pub stderr: Capture,
    /// The interval between checkpoints of a running task; `None`: no checkpoints. It is set
    /// exactly if [`Rules::checkpoint`] is.
    pub checkpoint: Option<Span>,
}

/// A file or directory of the submitter's that tasks read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// The path below the attempt's directory; must be a [`PortablePath`] once expanded.
    pub name: Template,
    /// The kind of thing that lies at the path.
    pub kind: InputKind,
    /// The content, shared or per task.
    pub source: InputSource,
}

/// The kind of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputKind {
    /// A file of the attempt's own.
    File,
    /// The same, with the executable bit.
    Program,
    /// A directory that all attempts on a host share and none can write to. The content is its
    /// [`Manifest`](crate::manifest::Manifest).
    Tree {
        /// The content that the manifests name: what hosts may fetch beside them.
        parts: Vec<BlobRef>,
    },
}

/// The content of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputSource {
    /// The same content for every task.
    Shared(BlobRef),
    /// One content for each task, in the order of the indices.
    PerTask(Vec<BlobRef>),
    /// One content for each platform that the tasks can run on.
    PerPlatform(BTreeMap<PlatformName, BlobRef>),
}

/// The treatment of an output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Capture {
    /// Keeps it for `job cat`.
    #[default]
    Keep,
    /// Keeps it, and `job fetch` writes it to a file of this name.
    File(Template),
    /// Drops it.
    Discard,
}

/// The rules for scheduling a job's tasks and for giving up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The number of times that a task whose attempt failed is tried again.
    pub retries: u32,
    /// The number of executing attempts of a task that may be lost with their hosts before it
    /// counts as failed; also of those given back for memory of which nobody can tell what they held.
    pub max_losses: u32,
    /// The longest run time of one attempt, without suspensions.
    pub timeout: Option<Span>,
    /// The number of failed tasks beyond which the rest is cancelled.
    pub max_fails: Option<u64>,
    /// The job's priority among its user's jobs: higher goes first.
    pub priority: i32,
    /// The name of a policy in the catalogue.
    pub policy: String,
    /// The user's estimate of a task's run time on a host of speed 1.
    pub estimate: Option<Span>,
    /// Whether tasks save checkpoints, so that the next attempt goes on where an earlier one was.
    pub checkpoint: bool,
    /// The abilities that its hosts must offer, and what each attempt takes of them.
    pub needs: Needs,
    /// The rule for comparing results.
    pub quorum: Quorum,
    /// The time from submission by which every task must be done. The job is accepted only if that
    /// can be promised.
    pub deadline: Option<Span>,
}

/// The number of results of a task that must agree before it is done, and the test for agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quorum {
    /// The number of results that must agree, each from a host of another owner; 1: the first
    /// result counts.
    pub size: u32,
    /// Whether hosts whose results have agreed with others' for long enough are mostly trusted
    /// without a comparison.
    pub adaptive: bool,
    /// The test for two results that agree.
    pub compare: Compare,
}

/// The test for two results of a task that agree. Standard error never matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compare {
    /// Standard output and every output file must be the same, byte by byte.
    Bytes,
    /// As `Bytes`, but numbers in them need only be close to each other.
    Floats(Tolerance),
    /// A program of the user's decides on the user's machine: `deskgrid job judge`.
    Program,
}

/// The largest distance between two equal numbers, as a part of the greater one. Numbers nearer to
/// zero than that count as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tolerance(u64);

impl Tolerance {
    /// Makes a tolerance of `part`; `None` unless it is at least 0 and less than 1.
    pub fn new(part: f64) -> Option<Self> {
        (0.0..1.0).contains(&part).then(|| Self(part.to_bits()))
    }

    /// Returns the part.
    pub fn part(self) -> f64 {
        f64::from_bits(self.0)
    }

    /// Whether [`Tolerance::new`] could have made it: a value from elsewhere may hold any bits.
    fn is_sound(self) -> bool {
        Self::new(self.part()).is_some()
    }
}

/// A text that names no [`Compare`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no way to compare: say `bytes`, `program`, or `float:PART` with a part between 0 and 1, such as float:1e-6"
)]
pub struct BadCompare(pub String);

impl std::str::FromStr for Compare {
    type Err = BadCompare;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let part = |text: &str| text.parse().ok().and_then(Tolerance::new);
        match text.split_once(':') {
            None if text == "bytes" => Some(Compare::Bytes),
            None if text == "program" => Some(Compare::Program),
            Some(("float", text)) => part(text).map(Compare::Floats),
            _ => None,
        }
        .ok_or_else(|| BadCompare(text.to_owned()))
    }
}

impl std::fmt::Display for Compare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Compare::Bytes => f.write_str("bytes"),
            Compare::Floats(tolerance) => write!(f, "float:{:?}", tolerance.part()),
            Compare::Program => f.write_str("program"),
        }
    }
}

impl Default for Quorum {
    fn default() -> Self {
        Self {
            size: 1,
            adaptive: false,
            compare: Compare::Bytes,
        }
    }
}

impl Quorum {
    /// Whether results are compared at all (`size` above 1).
    pub fn compares(&self) -> bool {
        self.size > 1
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            retries: 0,
            max_losses: DEFAULT_MAX_LOSSES,
            timeout: None,
            max_fails: None,
            priority: 0,
            policy: DEFAULT_POLICY.to_owned(),
            estimate: None,
            checkpoint: false,
            needs: Needs::default(),
            quorum: Quorum::default(),
            deadline: None,
        }
    }
}

/// The error for a submission that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadJob {
    /// The job has no task.
    #[error("the job has no tasks")]
    NoTasks,
    /// The job has more than [`MAX_IDS`] tasks.
    #[error("the job has {0} tasks; the most is {MAX_IDS}")]
    TooManyTasks(u64),
    /// The numbers of the job's tasks form more than [`MAX_TASK_RANGES`] separate ranges.
    #[error(
        "the numbers of the job's tasks form {0} separate ranges; the most is {MAX_TASK_RANGES}: number them without gaps, and give each an item"
    )]
    TooManyRanges(usize),
    /// The command is empty.
    #[error("the job has no command")]
    NoCommand,
    /// A list does not have one entry for each task.
    #[error("the job has {} but {}", plural(*tasks, "task"), plural(*given as u64, what))]
    Mismatch {
        /// The number of tasks of the job.
        tasks: u64,
        /// An entry of the list, in words.
        what: &'static str,
        /// The number of entries in the list.
        given: usize,
    },
    /// The job's name is too long or has characters that act on screens.
    #[error(
        "the job's name must be 1 to {MAX_NAME} bytes without control characters and marks of direction"
    )]
    Name,
    /// The name of an environment variable is empty or has `=` or a zero byte.
    #[error("`{0}` cannot be the name of an environment variable")]
    EnvName(String),
    /// A text has a zero byte, which no command line, environment or file name can hold.
    #[error("{0} has a zero byte")]
    ZeroByte(&'static str),
    /// The name of an input is not a [`PortablePath`].
    #[error("input: {0}")]
    InputName(#[from] crate::path::BadPath),
    /// Two inputs would lie at the same place.
    #[error("two inputs have the name `{0}`")]
    InputTwice(String),
    /// An input would lie below another one, which is a file, or a tree that nobody can write to.
    #[error("the input `{0}` would lie in the input `{1}`: nothing can be added to a file or tree")]
    InputInInput(String, String),
    /// A tree is to be standard input.
    #[error("standard input is to be `{0}`, which is a tree and no file")]
    StdinTree(String),
    /// `stdin` names no input.
    #[error("standard input is to be `{0}`, but no input has that name")]
    Stdin(String),
    /// [`Rules::checkpoint`] and [`CommandSpec::checkpoint`] contradict each other.
    #[error("{}", if *.0 { "the job is to keep its tasks' states, but they run no command that says how often" } else { "the job's command says how often states are kept, but its rules say that none are" })]
    CheckpointRule(bool),
    /// The quorum is zero or above [`MAX_QUORUM`].
    #[error("a quorum is of 1 to {MAX_QUORUM} results, not of {0}")]
    QuorumSize(u32),
    /// Results are to be compared in some way, of tasks that are each done once.
    #[error("`{0}` needs a `quorum` of at least 2 results")]
    NothingToCompare(&'static str),
    /// The tolerance is not a number between 0 and 1.
    #[error(
        "numbers cannot be compared to within {0} of each other: say a part between 0 and 1, such as float:1e-6"
    )]
    Tolerance(f64),
    /// The job has both a quorum and checkpoints.
    #[error(
        "a job cannot have both a quorum and checkpoints: one host's state would go into another's result"
    )]
    QuorumOfStates,
    /// The checkpoint interval is shorter than `SHORTEST_INTERVAL`.
    #[error("a checkpoint every {0} is too often: the shortest interval is {SHORTEST_INTERVAL}")]
    CheckpointInterval(Span),
    /// The deadline is given both as a date and as a span.
    #[error("the job's deadline is a date and a time from now: it can have one of them")]
    TwoDeadlines,
    /// A gang has estimates for its tasks.
    #[error(
        "a job of several ranks has no estimates of its tasks: say with --work what all of it takes"
    )]
    EstimatesOfRanks,
    /// The estimate at this position of the list, from 1, is zero.
    #[error("estimate {0} is no time at all: a task takes longer than that")]
    NoTime(usize),
    /// The estimate for all tasks is zero.
    #[error("the estimate is no time at all: a task takes longer than that")]
    NoTimeForAll,
    /// The job has more than [`MAX_LABELS`] labels.
    #[error("{0} labels are too many: {MAX_LABELS} at most")]
    TooManyLabels(usize),
    /// The job waits for more than [`MAX_AFTER`] others.
    #[error("the job is to wait for {0} others; the most is {MAX_AFTER}")]
    AfterTooMany(usize),
    /// The job names another one twice.
    #[error("the job is to wait for job {0} twice: name it once")]
    AfterTwice(JobId),
    /// The job is open and has something that tasks added later could not have.
    #[error("an open job cannot have {0}: tasks that are added later share all that it has")]
    OpenWith(&'static str),
    /// The ranks make no sense.
    #[error(transparent)]
    Ranks(#[from] BadRanks),
    /// The name of a stream's file depends on the platform.
    #[error(
        "the file of standard output or standard error cannot have `%{{PLATFORM}}` in its name"
    )]
    StreamPlatform,
    /// A stream would be written to the file of the other one, or of an output.
    #[error(
        "`{0}` is to be the file of a stream and of something else, and it can hold one of them: give each a name of its own"
    )]
    StreamFileTwice(String),
    /// The name of a stream's file, with a task's item in it, is not a [`PortablePath`].
    #[error(
        "the {stream} of task {task} can be in no file of the name that it is to have: {source}"
    )]
    StreamName {
        /// The number of the task.
        task: u32,
        /// The stream, in words.
        stream: &'static str,
        /// The flaw of the name.
        source: crate::path::BadPath,
    },
    /// No file can be kept under the name of an output, with a task's item in it.
    #[error("an output of task {task} has a name under which no file can be kept: {source}")]
    OutputName {
        /// The number of the task.
        task: u32,
        /// The flaw of the name.
        source: crate::path::BadPath,
    },
    /// An input has no content for any platform.
    #[error("the input `{0}` has no build for any platform")]
    NoBuild(String),
    /// The needs make no sense.
    #[error(transparent)]
    Needs(#[from] BadNeeds),
}

impl JobSpec {
    /// Returns the number of ranks of a gang; `None` for other jobs. Before the ranks start there
    /// are as many tasks as [`Ranks::least`].
    pub fn width(&self) -> Option<u32> {
        self.work.ranks().map(|_| self.tasks.ids.len() as u32)
    }

    /// Returns what the tasks need, builds of inputs included.
    pub fn needs(&self) -> Needs {
        let inputs = self
            .work
            .command()
            .map_or(&[][..], |command| &command.inputs);
        let builds = inputs.iter().filter_map(|input| match &input.source {
            InputSource::PerPlatform(builds) => Some(Builds {
                input: input.name.to_string(),
                platforms: builds.keys().cloned().collect(),
            }),
            InputSource::Shared(_) | InputSource::PerTask(_) => None,
        });
        Needs {
            builds: builds.collect(),
            ..self.rules.needs.clone()
        }
    }

    /// Lists every blob that the master must store before the job can run, each once, by hash. Costs as
    /// much as the job names blobs.
    pub fn content(&self) -> Vec<BlobRef> {
        let command = self.work.command();
        let mut blobs: Vec<_> = command.into_iter().flat_map(CommandSpec::blobs).collect();
        blobs.sort_unstable();
        blobs.dedup();
        blobs
    }

    /// Checks that the submission makes sense in itself.
    ///
    /// # Errors
    /// Names the first thing that makes no sense.
    pub fn check(&self) -> Result<(), BadJob> {
        let tasks = self.tasks.ids.len();
        if tasks == 0 {
            return Err(BadJob::NoTasks);
        }
        if tasks > MAX_IDS {
            return Err(BadJob::TooManyTasks(tasks));
        }
        let ranges = self.tasks.ids.ranges().len();
        if ranges > MAX_TASK_RANGES {
            return Err(BadJob::TooManyRanges(ranges));
        }
        if self.name.is_empty()
            || self.name.len() > MAX_NAME
            || self.name.chars().any(crate::text::acts)
        {
            return Err(BadJob::Name);
        }
        self.rules.needs.check()?;
        if !self.tasks.items.is_empty() {
            one_per_task(tasks, "item", self.tasks.items.len())?;
        }
        if self.tasks.items.iter().any(|item| item.contains('\0')) {
            return Err(BadJob::ZeroByte("an item"));
        }

        let saves = match self.work.command() {
            None => false,
            Some(command) => {
                command.check(tasks)?;
                command.checkpoint.is_some()
            }
        };

        if let Work::Ranks(command, ranks) = &self.work {
            ranks.check(self, command)?;
        }
        self.check_files_of(&self.tasks)?;
        if saves != self.rules.checkpoint {
            return Err(BadJob::CheckpointRule(self.rules.checkpoint));
        }
        if let Compare::Floats(tolerance) = self.rules.quorum.compare
            && !tolerance.is_sound()
        {
            return Err(BadJob::Tolerance(tolerance.part()));
        }

        let Quorum {
            adaptive, compare, ..
        } = self.rules.quorum;
        let way = match compare {
            _ if adaptive => Some("adaptive"),
            Compare::Bytes => None,
            Compare::Floats(_) | Compare::Program => Some("compare"),
        };
        if let (1, Some(way)) = (self.rules.quorum.size, way) {
            return Err(BadJob::NothingToCompare(way));
        }
        match self.rules.quorum.size {
            1..=MAX_QUORUM if saves && self.rules.quorum.compares() => Err(BadJob::QuorumOfStates),
            1..=MAX_QUORUM => Ok(()),
            size => Err(BadJob::QuorumSize(size)),
        }
    }
}

impl TaskSet {
    /// Returns the item of task `index`; empty if the job has no items.
    pub fn item(&self, index: u32) -> &str {
        if self.items.is_empty() {
            ""
        } else {
            self.item_at(self.ids.rank(index))
        }
    }

    /// Returns the item of the task at `position` in the order of the indices; empty if the job has
    /// no items.
    pub fn item_at(&self, position: u64) -> &str {
        let position = usize::try_from(position).ok();
        position
            .and_then(|p| self.items.get(p))
            .map_or("", String::as_str)
    }
}

impl Input {
    /// Returns the content beside the manifests of a tree.
    pub fn parts(&self) -> &[BlobRef] {
        match &self.kind {
            InputKind::File | InputKind::Program => &[],
            InputKind::Tree { parts } => parts,
        }
    }

    /// Whether the input is a tree.
    pub fn is_tree(&self) -> bool {
        matches!(self.kind, InputKind::Tree { .. })
    }

    /// Returns the content for the task at `position` in the order of the indices, on a host with
    /// the platform of this name.
    pub fn blob(&self, position: u64, platform: &str) -> Option<BlobRef> {
        match &self.source {
            InputSource::Shared(blob) => Some(*blob),
            InputSource::PerTask(blobs) => usize::try_from(position)
                .ok()
                .and_then(|p| blobs.get(p))
                .copied(),
            InputSource::PerPlatform(builds) => builds
                .iter()
                .find(|(name, _)| **name == *platform)
                .map(|(_, blob)| *blob),
        }
    }
}

impl InputKind {
    /// Returns the kind of a file.
    pub fn file(executable: bool) -> Self {
        if executable {
            InputKind::Program
        } else {
            InputKind::File
        }
    }
}

impl CommandSpec {
    /// Makes a command without files or environment.
    pub fn new(argv: Vec<Template>) -> Self {
        Self {
            argv,
            env: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            stdin: None,
            stdout: Capture::Keep,
            stderr: Capture::Keep,
            checkpoint: None,
        }
    }

    /// Iterates over every blob that the master must store before the job can run. It may come to one
    /// several times.
    pub fn blobs(&self) -> impl Iterator<Item = BlobRef> + '_ {
        self.inputs.iter().flat_map(|input| {
            let (few, builds) = match &input.source {
                InputSource::Shared(blob) => (std::slice::from_ref(blob), None),
                InputSource::PerTask(blobs) => (blobs.as_slice(), None),
                InputSource::PerPlatform(builds) => (&[][..], Some(builds)),
            };
            let builds = builds.into_iter().flat_map(BTreeMap::values);
            few.iter().chain(builds).chain(input.parts()).copied()
        })
    }

    fn check(&self, tasks: u64) -> Result<(), BadJob> {
        if self
            .argv
            .first()
            .is_none_or(|program| program.as_str().is_empty())
        {
            return Err(BadJob::NoCommand);
        }
        if self.argv.iter().any(|arg| arg.as_str().contains('\0')) {
            return Err(BadJob::ZeroByte("the command"));
        }

        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(BadJob::EnvName(name.clone()));
            }
            if value.as_str().contains('\0') {
                return Err(BadJob::ZeroByte("the environment"));
            }
        }

        let mut names = BTreeMap::new();
        for input in &self.inputs {
            // A name with placeholders is known, and checked, only when an attempt expands it.
            let name = input.name.as_str();
            if !name.contains("%{") {
                name.parse::<PortablePath>()?;
            }
            if names.insert(name.to_lowercase(), name).is_some() {
                return Err(BadJob::InputTwice(name.to_owned()));
            }
            match &input.source {
                InputSource::Shared(_) => {}
                InputSource::PerTask(blobs) => {
                    one_per_task(tasks, "input file", blobs.len())?;
                }
                InputSource::PerPlatform(builds) if builds.is_empty() => {
                    return Err(BadJob::NoBuild(input.name.to_string()));
                }
                InputSource::PerPlatform(_) => {}
            }
        }

        self.check_places(&names)?;
        if let Some(every) = self.checkpoint.filter(|every| *every < SHORTEST_INTERVAL) {
            return Err(BadJob::CheckpointInterval(every));
        }

        let mut files = self.stream_files();
        if files.any(|(_, name)| name.mentions("PLATFORM")) {
            return Err(BadJob::StreamPlatform);
        }
        self.check_stream_files()?;

        match &self.stdin {
            Some(stdin) if !self.inputs.iter().any(|input| input.name == *stdin) => {
                Err(BadJob::Stdin(stdin.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that no input is to be put into another one, and that no tree is standard input. The
    /// inputs have these names, each under itself in lower case.
    fn check_places(&self, names: &BTreeMap<String, &str>) -> Result<(), BadJob> {
        for input in &self.inputs {
            let name = input.name.as_str();
            if input.is_tree() && self.stdin.as_ref() == Some(&input.name) {
                return Err(BadJob::StdinTree(name.to_owned()));
            }

            let inside = format!("{}/", name.to_lowercase());
            let next = names.range(inside.clone()..).next();
            if let Some((_, other)) = next.filter(|(lower, _)| lower.starts_with(&inside)) {
                return Err(BadJob::InputInInput((*other).to_owned(), name.to_owned()));
            }
        }
        Ok(())
    }

    /// Checks that no stream's file has the name of the other one, or of an output. What a pattern
    /// matches is known only later.
    fn check_stream_files(&self) -> Result<(), BadJob> {
        let mut names: BTreeSet<&str> = self.outputs.iter().map(Template::as_str).collect();
        for (_, name) in self.stream_files() {
            if !names.insert(name.as_str()) {
                return Err(BadJob::StreamFileTwice(name.to_string()));
            }
        }
        Ok(())
    }

    /// Iterates over the names of the streams' files, each with its stream in words.
    fn stream_files(&self) -> impl Iterator<Item = (&'static str, &Template)> {
        let streams = [
            ("standard output", &self.stdout),
            ("standard error", &self.stderr),
        ];
        streams.into_iter().filter_map(|(stream, to)| match to {
            Capture::File(name) => Some((stream, name)),
            Capture::Keep | Capture::Discard => None,
        })
    }
}

fn one_per_task(tasks: u64, what: &'static str, given: usize) -> Result<(), BadJob> {
    if given as u64 == tasks {
        Ok(())
    } else {
        Err(BadJob::Mismatch { tasks, what, given })
    }
}
