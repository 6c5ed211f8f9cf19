//! What can be wrong with a job as the user described it.

use std::io;
use std::path::PathBuf;

use common::job::BadJob;
use common::path::BadPath;
use common::template::BadTemplate;
use scheduler::policy::BadPolicy;

use crate::failure::{Exit, Failure};

/// A job that cannot be submitted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// No command and no `--noop`.
    #[error("there is nothing to run")]
    NoCommand,
    /// A list or a job file cannot be read.
    #[error("cannot read {what} {path}", path = path.display())]
    Read {
        /// What it should be.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A line that is not UTF-8.
    #[error("line {line} of {path} is not UTF-8 text", path = path.display())]
    NotText {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// A list without items.
    #[error("{path} has no items", path = path.display())]
    NoItems {
        /// Which file.
        path: PathBuf,
    },
    /// Not JSON, or not an array.
    #[error("{path} is not a JSON array", path = path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// What is wrong, with line and column.
        why: String,
    },
    /// A job file that makes no sense.
    #[error("line {line} of the job file {path} makes no sense: `{text}`", path = path.display())]
    JobFile {
        /// Which file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// The line.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// What is no estimate.
    #[error("{place}: `{given}` is no estimate of how long a task takes")]
    Estimate {
        /// Where it stands.
        place: String,
        /// What stands there.
        given: String,
    },
    /// Some items say how long their tasks take, and this one does not.
    #[error("item {0} has no estimate, and others have")]
    NoEstimate(usize),
    /// A deadline and a policy that promises none.
    #[error("the policy {0} promises no deadlines")]
    NoPromises(&'static str),
    /// More than one of array, each-line, from-json in a job file.
    #[error("the job has more than one of --array, --each-line and --from-json")]
    TwoBags,
    /// An unknown placeholder.
    #[error(transparent)]
    Template(#[from] BadTemplate),
    /// `%{ITEM}` in a job without items.
    #[error("%{{ITEM}} stands in {place}, but the job has no items")]
    NoItem {
        /// Where.
        place: &'static str,
    },
    /// An input that is not there or cannot be read.
    #[error("cannot read the input file {path}", path = path.display())]
    Input {
        /// Which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An input that is a directory or a device.
    #[error("the input {path} is not a file", path = path.display())]
    InputKind {
        /// Which file.
        path: PathBuf,
    },
    /// A placeholder that cannot choose a local file.
    #[error("%{{{placeholder}}} in the input `{input}` is not known before the task runs")]
    InputPlaceholder {
        /// What was given.
        input: String,
        /// Which placeholder.
        placeholder: &'static str,
    },
    /// A name under which a worker cannot place the file.
    #[error("the input `{input}` needs another name on the worker")]
    InputName {
        /// What was given.
        input: String,
        /// What is wrong with the name.
        source: BadPath,
    },
    /// A file name for a stream that cannot be one.
    #[error("--{flag} names no file that can be written anywhere")]
    StreamName {
        /// Which flag.
        flag: &'static str,
        /// What is wrong with it.
        source: BadPath,
    },
    /// An output glob that cannot be read.
    #[error("`{glob}` is not a pattern for output files")]
    Glob {
        /// What was given.
        glob: String,
        /// What is wrong.
        why: String,
    },
    /// An output pattern that no file of a task has.
    #[error("`{glob}` names no output file: {why}")]
    OutputPlace {
        /// What was given, with the item in its place.
        glob: String,
        /// What is wrong.
        why: &'static str,
    },
    /// A policy that is not in the catalogue.
    #[error("there is no policy `{given}`")]
    Policy {
        /// What was given.
        given: String,
        /// The nearest name that exists.
        near: Option<String>,
    },
    /// A parameter that the policy does not have, or not with this value.
    #[error(transparent)]
    PolicyParameter(BadPolicy),
    /// A rule for jobs that run on several hosts together.
    #[error("{0} decides on how many hosts a job runs, and a job's tasks have one host each")]
    ManyRanks(&'static str),
    /// A policy without a rule for jobs that run on several hosts together.
    #[error("{0} does not decide on how many hosts at once a job runs")]
    OneHost(&'static str),
    /// What is said of a job's width, without one.
    #[error(
        "--work and --parallelism are about a job that runs on several hosts at once, and there is no --width"
    )]
    NoWidth,
    /// A width together with something that it does not go with.
    #[error("a job runs on several hosts at once (--width), or has {0}: not both")]
    WidthWith(&'static str),
    /// Disclosed tasks together with something that they do not go with.
    #[error("a job is disclosed (--disclose), or has {0}: not both")]
    DiscloseWith(&'static str),
    /// Nonsense that only shows in the whole.
    #[error(transparent)]
    Job(#[from] BadJob),
}

impl BuildError {
    fn because(&self) -> Option<String> {
        match self {
            BuildError::Read { source, .. } | BuildError::Input { source, .. } => {
                Some(source.to_string())
            }
            BuildError::Json { why, .. }
            | BuildError::JobFile { why, .. }
            | BuildError::Glob { why, .. } => Some(why.clone()),
            BuildError::InputName { source, .. } | BuildError::StreamName { source, .. } => {
                Some(source.to_string())
            }
            _ => None,
        }
    }

    fn hint(&self) -> String {
        match self {
            BuildError::NoCommand => "deskgrid submit -- CMD ARG...   (or --noop)".to_owned(),
            BuildError::Read { .. } | BuildError::Input { .. } => {
                "check the name; relative names start from the directory where you run deskgrid".to_owned()
            }
            BuildError::NotText { .. } => "write the list in UTF-8; file names in it too".to_owned(),
            BuildError::NoItems { .. } => "one item per line; empty lines do not count".to_owned(),
            BuildError::Json { .. } => r#"write an array such as ["a", "b"] or [{"x": 1}, {"x": 2}]"#.to_owned(),
            BuildError::JobFile { .. } => {
                "keys are the flags of `deskgrid submit --help` without the dashes, such as retries = 2".to_owned()
            }
            BuildError::Estimate { .. } => {
                "a duration such as 90s or 1h30m; in JSON also a number of seconds, greater than 0".to_owned()
            }
            BuildError::NoEstimate(_) => "give each item one, or --estimate for those that have none".to_owned(),
            BuildError::NoPromises(_) => "PROMISE does, which is what --deadline takes without --policy".to_owned(),
            BuildError::TwoBags => "choose one".to_owned(),
            BuildError::Template(_) => "deskgrid submit --help lists the placeholders".to_owned(),
            BuildError::NoItem { .. } => {
                "give a list with --each-line or --from-json; for arrays use %{TASK_ID}".to_owned()
            }
            BuildError::InputKind { .. } => "name single files, or pack the directory into one (tar)".to_owned(),
            BuildError::InputPlaceholder { .. } => "use %{ITEM} or %{TASK_ID}".to_owned(),
            BuildError::InputName { input, .. } => format!("name it yourself: --input '{}:in.dat'", bare(input)),
            BuildError::StreamName { .. } => "a relative path such as logs/out.txt, or none".to_owned(),
            BuildError::Glob { .. } => "a pattern such as out.txt, *.csv or results/**".to_owned(),
            BuildError::OutputPlace { .. } => {
                "a path or pattern below the directory in which the task runs, such as out.txt or results/**; \
                 `job fetch JOB --into DIR` puts it elsewhere here"
                    .to_owned()
            }
            BuildError::Policy { near: Some(near), .. } => {
                format!("{near}? deskgrid policy list shows all")
            }
            BuildError::Policy { near: None, .. } => "deskgrid policy list".to_owned(),
            BuildError::PolicyParameter(_) => "deskgrid policy show NAME lists its parameters".to_owned(),
            BuildError::ManyRanks(_) => {
                "another policy (deskgrid policy list), or --width for a job that runs on several hosts at once"
                    .to_owned()
            }
            BuildError::OneHost(_) => "AVG, PRED, BIAS, HEUR or PRICED do: deskgrid policy list".to_owned(),
            BuildError::NoWidth => "--width N, A..B or auto".to_owned(),
            BuildError::WidthWith(_) | BuildError::DiscloseWith(_) => "leave one of them out".to_owned(),
            BuildError::Job(BadJob::Stdin(name)) => format!("--input FILE:{name} --stdin {name}"),
            BuildError::Job(BadJob::InputTwice(_)) => "give one of them another name: --input F:NAME".to_owned(),
            BuildError::Job(BadJob::TooManyTasks(_)) => "submit several jobs".to_owned(),
            BuildError::Job(_) => String::new(),
        }
    }
}

/// The file part of `F:NAME`.
fn bare(input: &str) -> &str {
    input.rsplit_once(':').map_or(input, |(file, _)| file)
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let failure = Failure::new(Exit::Usage, "usage", error.to_string(), error.hint());
        match error.because() {
            Some(because) => failure.because(because),
            None => failure,
        }
    }
}
