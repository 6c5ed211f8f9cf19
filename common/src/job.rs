//! What a user submits: a bag of tasks, the work each one does, and the rules it runs under.

use serde::{Deserialize, Serialize};

use crate::checkpoint::SHORTEST_INTERVAL;
use crate::content::BlobRef;
use crate::host::{Confinement, Offers};
use crate::idset::IdSet;
use crate::path::PortablePath;
use crate::ranks::{BadRanks, Ranks};
use crate::selector::MAX_IDS;
use crate::template::Template;
use crate::time::{Span, Time};

/// The name of the policy that a job gets when it asks for none.
pub const DEFAULT_POLICY: &str = "deskgrid";
/// The policy of jobs with a deadline that ask for none.
pub const PROMISING_POLICY: &str = "PROMISE";
/// The policy of jobs that run on several hosts at once and ask for none: for a given width, and
/// for any.
pub const RANKS_POLICY: &str = "AVG";
/// See [`RANKS_POLICY`].
pub const WIDTH_POLICY: &str = "PRICED";
/// The policy of jobs whose tasks are disclosed and that ask for none.
pub const SPECULATIVE_POLICY: &str = "FCFSxNEED";
/// How often an executing attempt may be lost with its host before the task counts as failed,
/// unless the job says.
pub const DEFAULT_MAX_LOSSES: u32 = 10;
/// The most results of a task that a job may want to agree.
pub const MAX_QUORUM: u32 = 5;
/// The longest job name, in bytes.
const MAX_NAME: usize = 200;

/// A submission. [`JobSpec::check`] says whether it makes sense; the master takes no other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// What people call it; need not be unique.
    pub name: String,
    /// Which tasks there are.
    pub tasks: TaskSet,
    /// What each task does.
    pub work: Work,
    /// How tasks are scheduled and when the job gives up.
    pub rules: Rules,
}

/// What is asked and said of a job beside its spec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// When every task is to be done, by the master's clock, of a job whose deadline is a date: the
    /// span of its rules is zero until the master knows how long that is.
    pub deadline: Option<Time>,
    /// An estimate for each task, in the order of the indices, as run times on a host of speed 1;
    /// that of the rules for all of them where this is empty.
    pub estimates: Vec<Span>,
}

impl Asked {
    /// Whether the spec says it all.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it makes sense for this job.
    ///
    /// # Errors
    /// Says the first thing that does not.
    pub fn check(&self, job: &JobSpec) -> Result<(), BadJob> {
        if self.deadline.is_some() && job.rules.deadline != Some(Span::ZERO) {
            return Err(BadJob::TwoDeadlines);
        }
        if self.estimates.is_empty() {
            return Ok(());
        }
        if job.work.ranks().is_some() {
            return Err(BadJob::EstimatesOfRanks);
        }

        one_per_task(job.tasks.ids.len(), "estimates", self.estimates.len())?;
        let nothing = self
            .estimates
            .iter()
            .position(|estimate| *estimate == Span::ZERO);

        nothing.map_or(Ok(()), |at| Err(BadJob::NoTime(at + 1)))
    }
}

/// The tasks of a job: a compact set of indices, and an item for each where the job was made from a
/// list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSet {
    /// The tasks' indices.
    pub ids: IdSet,
    /// `%{ITEM}` of each task in the order of the indices; empty where the job has no items.
    pub items: Vec<String>,
}

/// What a task does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// Nothing: the worker answers at once without a process. Measures everything but the process.
    Noop,
    /// Runs a command.
    Command(CommandSpec),
    /// Runs a command as one of several ranks, on as many hosts at once.
    Ranks(CommandSpec, Ranks),
}

impl Work {
    /// The command, if there is one.
    pub fn command(&self) -> Option<&CommandSpec> {
        match self {
            Work::Noop => None,
            Work::Command(command) | Work::Ranks(command, _) => Some(command),
        }
    }

    /// The same, to be changed.
    pub fn command_mut(&mut self) -> Option<&mut CommandSpec> {
        match self {
            Work::Noop => None,
            Work::Command(command) | Work::Ranks(command, _) => Some(command),
        }
    }

    /// On how many hosts at once, if on several.
    pub fn ranks(&self) -> Option<&Ranks> {
        if let Work::Ranks(_, ranks) = self {
            Some(ranks)
        } else {
            None
        }
    }
}

/// A command, its files and its environment. Placeholders stand for each attempt's values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Program and arguments. No shell is involved.
    pub argv: Vec<Template>,
    /// Added to the clean environment.
    pub env: Vec<(String, Template)>,
    /// Files that are placed into the attempt's directory before it starts.
    pub inputs: Vec<Input>,
    /// Globs below the attempt's directory; each must match at least one file once the command has
    /// succeeded.
    pub outputs: Vec<Template>,
    /// The input that is its standard input; nothing where there is none.
    pub stdin: Option<Template>,
    /// What becomes of its standard output.
    pub stdout: Capture,
    /// What becomes of its standard error.
    pub stderr: Capture,
    /// How often a task's state is saved while it runs; never where there is none. Goes with
    /// [`Rules::checkpoint`].
    pub checkpoint: Option<Span>,
}

/// A file of the submitter's that each task, or one task each, reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Where the attempt finds it, below its directory; must be a portable path once expanded.
    pub name: Template,
    /// Whether it may be executed.
    pub executable: bool,
    /// Its content.
    pub source: Source,
}

/// Where an input's content is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Every task reads the same.
    Shared(BlobRef),
    /// One for each task, in the order of the indices.
    PerTask(Vec<BlobRef>),
}

/// What becomes of an output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Capture {
    /// Kept, for `job cat`.
    #[default]
    Keep,
    /// Kept, and written by `job fetch` to a file of this name.
    File(Template),
    /// Thrown away.
    Discard,
}

/// How a job's tasks are scheduled and when it gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// How often a task whose attempt failed is tried again.
    pub retries: u32,
    /// How many executing attempts of a task may be lost with their hosts before it counts as
    /// failed.
    pub max_losses: u32,
    /// The longest that one attempt may run, suspensions not counted.
    pub timeout: Option<Span>,
    /// Once more tasks than this have failed, the rest is cancelled.
    pub max_fails: Option<u64>,
    /// Of its user's jobs those of higher priority go first.
    pub priority: i32,
    /// A name from the policy catalogue.
    pub policy: String,
    /// The user's estimate of a task's run time on a host of speed 1.
    pub estimate: Option<Span>,
    /// Whether a task keeps its state, so that its next attempt goes on where an earlier one was.
    pub checkpoint: bool,
    /// What its hosts must offer.
    pub needs: Needs,
    /// How many results of a task must agree.
    pub quorum: Quorum,
    /// How long after its submission every task is to be done; the job is taken only if that can be
    /// promised.
    pub deadline: Option<Span>,
}

/// How many results of a task must agree before it is done, and when two do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quorum {
    /// So many results must agree, each from a host of another owner; 1: the first result counts.
    pub size: u32,
    /// Whether hosts whose results have agreed with others' for long enough are believed without,
    /// most of the time.
    pub adaptive: bool,
    /// When two results agree.
    pub compare: Compare,
}

/// When two results of a task agree. Standard error never matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compare {
    /// Standard output and every output file are the same, byte by byte.
    Bytes,
    /// The same, but numbers in them need only be close to each other.
    Floats(Tolerance),
    /// A program of the user's says so, on the user's machine: `deskgrid job judge`.
    Program,
}

/// How far two numbers may be from each other, as a part of the greater one; numbers nearer to zero
/// than that count as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tolerance(u64);

impl Tolerance {
    /// This part; none of what is no number between 0 and 1.
    pub fn new(part: f64) -> Option<Self> {
        (0.0..1.0).contains(&part).then(|| Self(part.to_bits()))
    }

    /// The part.
    pub fn part(self) -> f64 {
        f64::from_bits(self.0)
    }

    /// Whether it is one that [`Tolerance::new`] makes: what comes from elsewhere may be any bits.
    fn is_sound(self) -> bool {
        Self::new(self.part()).is_some()
    }
}

/// Words that say of no two results whether they agree.
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
    /// Whether results are compared at all.
    pub fn compares(&self) -> bool {
        self.size > 1
    }
}

/// What a host must offer to the tasks of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// How well they are to be confined at least; as well as the host does anyway where there is
    /// none.
    pub confinement: Option<Confinement>,
    /// Whether they use the network.
    pub network: bool,
}

impl Needs {
    /// Why a host that offers this will not do; nothing where it will.
    pub fn missing(&self, offers: Offers) -> Option<String> {
        match self.confinement {
            Some(level) if level > offers.confinement => Some(format!(
                "it confines at most at the level `{}`, and the job needs `{level}`",
                offers.confinement
            )),
            _ if self.network && !offers.network => {
                Some("its owner gives no task the network, and the job needs it".to_owned())
            }
            _ => None,
        }
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

/// A submission that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadJob {
    /// No task at all.
    #[error("the job has no tasks")]
    NoTasks,
    /// More tasks than a job may have.
    #[error("the job has {0} tasks; the most is {MAX_IDS}")]
    TooManyTasks(u64),
    /// The command is empty.
    #[error("the job has no command")]
    NoCommand,
    /// A list does not have one entry for each task.
    #[error("the job has {tasks} tasks but {given} {what}")]
    Mismatch {
        /// Tasks of the job.
        tasks: u64,
        /// What the list holds.
        what: &'static str,
        /// How many entries it has.
        given: usize,
    },
    /// The job's name is too long or has control characters.
    #[error("the job's name must be 1 to {MAX_NAME} bytes without control characters")]
    Name,
    /// A name of an environment variable that cannot exist.
    #[error("`{0}` cannot be the name of an environment variable")]
    EnvName(String),
    /// Text with a zero byte, which no command line, environment or file name can hold.
    #[error("{0} has a zero byte")]
    ZeroByte(&'static str),
    /// An input whose name is not portable.
    #[error("input: {0}")]
    InputName(#[from] crate::path::BadPath),
    /// Two inputs would lie at the same place.
    #[error("two inputs have the name `{0}`")]
    InputTwice(String),
    /// `stdin` names no input.
    #[error("standard input is to be `{0}`, but no input has that name")]
    Stdin(String),
    /// The rules and the work do not say the same of checkpoints.
    #[error("{}", if *.0 { "the job is to keep its tasks' states, but they run no command that says how often" } else { "the job's command says how often states are kept, but its rules say that none are" })]
    CheckpointRule(bool),
    /// A quorum of none, or of more than makes sense.
    #[error("{0} results that agree are no quorum: say 1 to {MAX_QUORUM}")]
    QuorumSize(u32),
    /// A tolerance that compares nothing.
    #[error(
        "numbers cannot be compared to within {0} of each other: say a part between 0 and 1, such as float:1e-6"
    )]
    Tolerance(f64),
    /// A quorum together with checkpoints.
    #[error(
        "a job cannot have both a quorum and checkpoints: one host's state would go into another's result"
    )]
    QuorumOfStates,
    /// Checkpoints more often than makes sense.
    #[error(
        "checkpoints every {0} are more than a host can do: the shortest interval is {SHORTEST_INTERVAL}"
    )]
    CheckpointInterval(Span),
    /// A date and a span.
    #[error("the job's deadline is a date and a time from now: it can have one of them")]
    TwoDeadlines,
    /// Estimates of ranks.
    #[error(
        "a job of several ranks has no estimates of its tasks: say with --work what all of it takes"
    )]
    EstimatesOfRanks,
    /// An estimate of nothing at all, of this one in the list.
    #[error("estimate {0} is no time at all: a task takes longer than that")]
    NoTime(usize),
    /// Ranks that make no sense.
    #[error(transparent)]
    Ranks(#[from] BadRanks),
}

impl JobSpec {
    /// How many ranks it has, if its tasks are ranks. Before they start, there are as many tasks as
    /// the fewest of them.
    pub fn width(&self) -> Option<u32> {
        self.work.ranks().map(|_| self.tasks.ids.len() as u32)
    }

    /// Whether the submission makes sense in itself.
    ///
    /// # Errors
    /// Says the first thing that does not.
    pub fn check(&self) -> Result<(), BadJob> {
        let tasks = self.tasks.ids.len();
        if tasks == 0 {
            return Err(BadJob::NoTasks);
        }
        if tasks > MAX_IDS {
            return Err(BadJob::TooManyTasks(tasks));
        }
        if self.name.is_empty()
            || self.name.len() > MAX_NAME
            || self.name.chars().any(char::is_control)
        {
            return Err(BadJob::Name);
        }
        if !self.tasks.items.is_empty() {
            one_per_task(tasks, "items", self.tasks.items.len())?;
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
        if saves != self.rules.checkpoint {
            return Err(BadJob::CheckpointRule(self.rules.checkpoint));
        }
        if let Compare::Floats(tolerance) = self.rules.quorum.compare
            && !tolerance.is_sound()
        {
            return Err(BadJob::Tolerance(tolerance.part()));
        }

        match self.rules.quorum.size {
            1..=MAX_QUORUM if saves && self.rules.quorum.compares() => Err(BadJob::QuorumOfStates),
            1..=MAX_QUORUM => Ok(()),
            size => Err(BadJob::QuorumSize(size)),
        }
    }
}

impl TaskSet {
    /// The item of task `index`; empty where there are none.
    pub fn item(&self, index: u32) -> &str {
        let position = || usize::try_from(self.ids.rank(index)).ok();
        if self.items.is_empty() {
            ""
        } else {
            position()
                .and_then(|p| self.items.get(p))
                .map_or("", String::as_str)
        }
    }
}

impl Input {
    /// The content for the task at `position` in the order of the indices.
    pub fn blob(&self, position: u64) -> Option<BlobRef> {
        match &self.source {
            Source::Shared(blob) => Some(*blob),
            Source::PerTask(blobs) => usize::try_from(position)
                .ok()
                .and_then(|p| blobs.get(p))
                .copied(),
        }
    }
}

impl CommandSpec {
    /// A command without files or environment.
    pub fn new(argv: Vec<Template>) -> Self {
        let env = Vec::new();
        let inputs = Vec::new();
        let outputs = Vec::new();
        Self {
            argv,
            env,
            inputs,
            outputs,
            stdin: None,
            stdout: Capture::Keep,
            stderr: Capture::Keep,
            checkpoint: None,
        }
    }

    /// Every blob that must be there before the job can run.
    pub fn blobs(&self) -> impl Iterator<Item = BlobRef> + '_ {
        self.inputs.iter().flat_map(|input| match &input.source {
            Source::Shared(blob) => std::slice::from_ref(blob).iter().copied(),
            Source::PerTask(blobs) => blobs.iter().copied(),
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

        let mut names = std::collections::BTreeSet::new();
        for input in &self.inputs {
            // A name with placeholders is known, and checked, only for each attempt.
            if !input.name.as_str().contains("%{") {
                input.name.as_str().parse::<PortablePath>()?;
            }
            if !names.insert(input.name.as_str().to_lowercase()) {
                return Err(BadJob::InputTwice(input.name.to_string()));
            }
            if let Source::PerTask(blobs) = &input.source {
                one_per_task(tasks, "files for an input", blobs.len())?;
            }
        }

        if let Some(every) = self.checkpoint.filter(|every| *every < SHORTEST_INTERVAL) {
            return Err(BadJob::CheckpointInterval(every));
        }

        match &self.stdin {
            Some(stdin) if !self.inputs.iter().any(|input| input.name == *stdin) => {
                Err(BadJob::Stdin(stdin.to_string()))
            }
            _ => Ok(()),
        }
    }
}

fn one_per_task(tasks: u64, what: &'static str, given: usize) -> Result<(), BadJob> {
    if given as u64 == tasks {
        Ok(())
    } else {
        Err(BadJob::Mismatch { tasks, what, given })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(work: Work) -> JobSpec {
        let tasks = TaskSet {
            ids: IdSet::from_range(1, 3),
            items: Vec::new(),
        };
        JobSpec {
            name: "j".into(),
            tasks,
            work,
            rules: Rules::default(),
        }
    }

    fn command() -> CommandSpec {
        CommandSpec::new(vec!["true".parse().unwrap()])
    }

    #[test]
    fn a_plain_job_is_taken() {
        assert_eq!(job(Work::Noop).check(), Ok(()));
        assert_eq!(job(Work::Command(command())).check(), Ok(()));
    }

    #[test]
    fn each_kind_of_nonsense_is_refused() {
        let with = |change: fn(&mut CommandSpec)| {
            let mut c = command();
            change(&mut c);
            job(Work::Command(c)).check().unwrap_err()
        };
        let input = |name: &str| Input {
            name: name.parse().unwrap(),
            executable: false,
            source: Source::PerTask(Vec::new()),
        };
        assert_eq!(with(|c| c.argv.clear()), BadJob::NoCommand);
        assert_eq!(
            with(|c| c.env.push(("A=B".into(), "".parse().unwrap()))),
            BadJob::EnvName("A=B".into())
        );
        assert_eq!(
            with(|c| c.stdin = "x".parse().ok()),
            BadJob::Stdin("x".into())
        );

        let often = |c: &mut CommandSpec| c.checkpoint = Some(Span::from_millis(10));
        assert_eq!(
            with(often),
            BadJob::CheckpointInterval(Span::from_millis(10))
        );
        assert_eq!(
            with(|c| c.checkpoint = Some(Span::from_secs(9))),
            BadJob::CheckpointRule(false)
        );

        let mut c = command();
        c.inputs = vec![input("../up")];
        assert!(matches!(
            job(Work::Command(c.clone())).check(),
            Err(BadJob::InputName(_))
        ));
        c.inputs = vec![input("a")];
        assert!(matches!(
            job(Work::Command(c)).check(),
            Err(BadJob::Mismatch {
                tasks: 3,
                given: 0,
                ..
            })
        ));

        let mut empty = job(Work::Noop);
        empty.tasks.ids = IdSet::new();
        assert_eq!(empty.check(), Err(BadJob::NoTasks));
    }

    #[test]
    fn estimates_are_one_for_each_task_and_a_deadline_is_one() {
        let second = Span::from_secs(1);
        let job = job(Work::Noop);
        let asked = |estimates: &[Span]| Asked {
            deadline: None,
            estimates: estimates.to_vec(),
        };

        assert!(Asked::default().is_nothing() && Asked::default().check(&job).is_ok());
        assert_eq!(asked(&[second; 3]).check(&job), Ok(()));
        assert_eq!(
            asked(&[second; 2]).check(&job).unwrap_err().to_string(),
            "the job has 3 tasks but 2 estimates"
        );
        assert_eq!(
            asked(&[second, Span::ZERO, second]).check(&job),
            Err(BadJob::NoTime(2))
        );

        let date = Asked {
            deadline: Some(Time(9)),
            estimates: Vec::new(),
        };
        assert_eq!(date.check(&job), Err(BadJob::TwoDeadlines));

        let rules = |span| Rules {
            deadline: Some(span),
            ..Rules::default()
        };
        assert_eq!(
            date.check(&JobSpec {
                rules: rules(second),
                ..job.clone()
            }),
            Err(BadJob::TwoDeadlines)
        );

        assert_eq!(
            date.check(&JobSpec {
                rules: rules(Span::ZERO),
                ..job
            }),
            Ok(())
        );
    }

    #[test]
    fn a_quorum_of_nonsense_is_refused_and_ways_to_compare_are_read() {
        let with = |size, work| {
            let quorum = Quorum {
                size,
                ..Quorum::default()
            };
            JobSpec {
                rules: Rules {
                    quorum,
                    ..Rules::default()
                },
                ..job(work)
            }
        };
        assert_eq!(with(MAX_QUORUM, Work::Noop).check(), Ok(()));
        for size in [0, MAX_QUORUM + 1] {
            assert_eq!(
                with(size, Work::Noop).check(),
                Err(BadJob::QuorumSize(size))
            );
        }

        let saving = CommandSpec {
            checkpoint: Some(Span::from_secs(9)),
            ..command()
        };
        let mut both = with(2, Work::Command(saving));
        both.rules.checkpoint = true;
        assert_eq!(both.check(), Err(BadJob::QuorumOfStates));
        assert_eq!("bytes".parse(), Ok(Compare::Bytes));
        assert_eq!(
            "float:1e-6".parse(),
            Ok(Compare::Floats(Tolerance::new(1e-6).unwrap()))
        );

        for bad in [
            "",
            "float",
            "float:",
            "float:1",
            "float:-1",
            "float:nan",
            "bytes:1",
            "numbers",
        ] {
            assert!(bad.parse::<Compare>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tolerance_that_no_program_of_ours_sends_is_refused_when_it_comes_over_the_wire() {
        for part in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1.0] {
            let tolerance: Tolerance =
                postcard::from_bytes(&postcard::to_stdvec(&part.to_bits()).unwrap()).unwrap();

            let quorum = Quorum {
                size: 2,
                adaptive: false,
                compare: Compare::Floats(tolerance),
            };
            let job = JobSpec {
                rules: Rules {
                    quorum,
                    ..Rules::default()
                },
                ..job(Work::Noop)
            };
            let refused = job.check().expect_err("it compares nothing").to_string();
            assert!(
                refused.contains(&part.to_string()) && refused.contains("float:1e-6"),
                "{refused}"
            );
        }
    }

    #[test]
    fn needs_are_met_by_hosts_that_offer_as_much_or_more() {
        let needs = |confinement, network| Needs {
            confinement,
            network,
        };
        let offers = Offers {
            confinement: Confinement::Landlock,
            network: false,
            ..Offers::default()
        };
        for level in [
            None,
            Some(Confinement::Process),
            Some(Confinement::Landlock),
        ] {
            assert_eq!(needs(level, false).missing(offers), None, "{level:?}");
        }

        assert!(
            needs(Some(Confinement::Namespace), false)
                .missing(offers)
                .unwrap()
                .contains("`namespace`")
        );

        assert!(
            needs(None, true)
                .missing(offers)
                .unwrap()
                .contains("network")
        );

        assert_eq!(
            needs(Some(Confinement::Account), true).missing(Offers::default()),
            None
        );
    }

    #[test]
    fn items_belong_to_tasks_in_order() {
        let tasks = TaskSet {
            ids: IdSet::from_iter([2, 5, 9]),
            items: vec!["a".into(), "b".into(), "c".into()],
        };
        assert_eq!(
            (tasks.item(2), tasks.item(5), tasks.item(9)),
            ("a", "b", "c")
        );
    }
}
