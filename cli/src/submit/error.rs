//! The errors of a job as the user described it.

use std::io;
use std::path::PathBuf;

use common::additions::BadAddition;
use common::job::{BadJob, PROMISING_POLICY};
use common::path::BadPath;
use common::platform::PlatformName;
use common::template::BadTemplate;
use scheduler::policy::{BadPolicy, Width};

use super::inputs::split;
use super::tree::BadTree;
use crate::failure::Failure;

/// The reason why a job cannot be submitted, with a hint for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// No command and no `--noop`.
    #[error("there is nothing to run")]
    NoCommand,
    /// Something of a job's beside the new tasks of `--into`.
    #[error("tasks that are added to a job do its own work, by its own rules")]
    NotItsOwnWork,
    /// New tasks of `--into` that make no sense.
    #[error(transparent)]
    Addition(#[from] BadAddition),
    /// A list or a job file cannot be read.
    #[error("cannot read {what} {path}", path = path.display())]
    Read {
        /// The kind of file, for people.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Two files for one name and platform.
    #[error("the input `{name}` is given twice for {platform}")]
    BuildTwice {
        /// The name of the input.
        name: String,
        /// The platform.
        platform: PlatformName,
    },
    /// Files for platforms, and a file for all of them.
    #[error("the input `{0}` is given for some platforms, and for all of them")]
    BuildAndFile(String),
    /// A file for each task, for one platform.
    #[error("`{0}` names a file for each task: a file for one platform is the same for all tasks")]
    BuildPerTask(String),
    /// A file for one platform, and a tree for another.
    #[error("the input `{0}` is a file for some platforms, and a tree for others")]
    BuildKinds(String),
    /// The inputs for single platforms have no platform in common.
    #[error("no platform has every input: {0}")]
    NoPlatform(String),
    /// A directory or archive that cannot be a tree.
    #[error(transparent)]
    Tree(#[from] BadTree),
    /// Standard input as the source of two lists.
    #[error("standard input is given twice: as {0} and as {1}")]
    StdinTwice(&'static str, &'static str),
    /// A line that is not UTF-8.
    #[error("line {line} of {path} is not UTF-8 text", path = path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// A list without items.
    #[error("{path} is empty", path = path.display())]
    NoItems {
        /// The file.
        path: PathBuf,
    },
    /// A list for `--from-json` that is not JSON.
    #[error("{path} is neither a JSON array nor JSON Lines", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The reason, with line and column.
        why: String,
    },
    /// A job file that cannot be parsed.
    #[error("line {line} of {path} is invalid: `{text}`", path = path.display())]
    JobFile {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The text of the line.
        text: String,
        /// The reason.
        why: String,
        /// A form of the line that would do.
        hint: String,
    },
    /// A value that is not an estimate.
    #[error("{place}: `{given}` is no estimate of how long a task takes")]
    Estimate {
        /// The file and line, or the item.
        place: String,
        /// The value.
        given: String,
    },
    /// An item without an estimate, where others have one.
    #[error("item {0} has no estimate, and others have")]
    NoEstimate(usize),
    /// A deadline, with a policy that promises none.
    #[error("the policy {0} promises no deadlines")]
    NoPromises(&'static str),
    /// More than one of `array`, `each-line` and `from-json` in a job file.
    #[error("the job has more than one of --array, --each-line and --from-json")]
    TwoBags,
    /// An unknown placeholder, such as `%{TASK}`.
    #[error(transparent)]
    Template(#[from] BadTemplate),
    /// `%{ITEM}` in a job without items.
    #[error("%{{ITEM}} stands in {place}, but the job has no items")]
    NoItem {
        /// The part of the job.
        place: &'static str,
    },
    /// An input file that does not exist or cannot be read.
    #[error("cannot read the input file {path}", path = path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A directory where only a file can be named.
    #[error("the input {path} is a directory; an --input with a placeholder in FILE, or for one platform, can only name files", path = path.display())]
    InputDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// An input that is a device or another thing that is no file.
    #[error("the input {path} is not a file", path = path.display())]
    InputKind {
        /// The file.
        path: PathBuf,
    },
    /// A pattern where a file is expected.
    #[error("there is no file {path}, and --input takes no patterns", path = path.display())]
    InputPattern {
        /// The pattern.
        path: PathBuf,
    },
    /// A directory that cannot be an input.
    #[error("the directory {path} cannot be an input: {why}", path = path.display())]
    InputTree {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A placeholder in an input's local path whose value is known only when the task runs.
    #[error("%{{{placeholder}}} in the input `{input}` is not known before the task runs")]
    InputPlaceholder {
        /// The value of `--input`.
        input: String,
        /// The name of the placeholder.
        placeholder: &'static str,
    },
    /// A name in `F:NAME` under which a worker cannot place the file.
    #[error("the input `{input}` needs another name on the worker")]
    InputName {
        /// The value of `--input`.
        input: String,
        /// The flaw of the name.
        source: BadPath,
    },
    /// A file name for standard output or standard error that no file can have.
    #[error("--{flag} names no file that can be written anywhere")]
    StreamName {
        /// The name of the flag.
        flag: &'static str,
        /// The flaw of the name.
        source: BadPath,
    },
    /// An output pattern (glob) that cannot be parsed.
    #[error("`{glob}` is not a pattern for output files")]
    Glob {
        /// The pattern.
        glob: String,
        /// The reason.
        why: String,
    },
    /// A `--policy` that is not in the catalogue.
    #[error("there is no policy `{given}`")]
    Policy {
        /// The name as given.
        given: String,
        /// The nearest name in the catalogue.
        near: Option<String>,
    },
    /// An unknown parameter of a policy, or a value that it does not take.
    #[error(transparent)]
    PolicyParameter(BadPolicy),
    /// A policy for jobs of several ranks, with a job whose tasks have one host each.
    #[error("{0} decides on how many hosts a job runs, and a job's tasks have one host each")]
    ManyRanks(&'static str),
    /// A policy that sets no width, with a job of several ranks.
    #[error("{0} does not decide on how many hosts at once a job runs")]
    OneHost(&'static str),
    /// A `--work` or `--parallelism` without a `--width`.
    #[error(
        "--work and --parallelism are about a job that runs on several hosts at once, and there is no --width"
    )]
    NoWidth,
    /// A width, with an option that excludes it.
    #[error("a job runs on several hosts at once (--width), or has {0}: not both")]
    WidthWith(&'static str),
    /// Tasks that do nothing, with something that they would do it with.
    #[error("the tasks of a job do nothing (--noop), or have {0}: not both")]
    NoopWith(&'static str),
    /// Disclosed tasks, with an option that excludes them.
    #[error("a job is disclosed (--disclose), or has {0}: not both")]
    DiscloseWith(&'static str),
    /// A contradiction that shows only in the finished spec.
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
            BuildError::Tree(bad) => bad.because(),
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
            BuildError::StdinTwice(..) => "write one of them into a file, and name that".to_owned(),
            BuildError::NotText { .. } => "save the file in UTF-8; names of files in it have to be so, too".to_owned(),
            BuildError::NoItems { .. } => "write one line per task (empty lines do not count), or one value per task in a JSON array".to_owned(),
            BuildError::Json { .. } => {
                r#"write an array such as ["a", "b"] or [{"x": 1}, {"x": 2}], or one value per line"#.to_owned()
            },
            BuildError::JobFile { hint, .. } => hint.clone(),
            BuildError::Estimate { .. } => {
                "a duration such as 90s or 1h30m; in JSON also a number of seconds, greater than 0".to_owned()
            }
            BuildError::NoEstimate(_) => "give each item one, or --estimate for those that have none".to_owned(),
            BuildError::NoPromises(_) => format!("{PROMISING_POLICY} does, which is what --deadline takes without --policy"),
            BuildError::TwoBags => "choose one".to_owned(),
            BuildError::Template(_) => "deskgrid submit --help lists the placeholders; %%{ stands for a %{ of the command's own".to_owned(),
            BuildError::NoItem { .. } => {
                "give a list with --each-line or --from-json; for arrays use %{TASK_ID}".to_owned()
            }
            BuildError::InputDirectory { .. } => {
                "--input-tree names directories in the same way, and no task can write to those; or pack each into a file (tar); or \
                 name each with an --input DIR:NAME of its own, which gives it to all tasks"
                    .to_owned()
            }
            BuildError::InputKind { .. } => "name files and directories".to_owned(),
            BuildError::InputPattern { .. } => {
                "name a directory (--input DIR takes all that lies in it), or single files, or pack them into one (tar)"
                    .to_owned()
            }
            BuildError::InputTree { path, .. } => {
                format!("--input-tree {} shares it with all tasks of a host, which cannot write to it", path.display())
            }
            BuildError::Tree(bad) => bad.hint(),
            BuildError::BuildKinds(_) => "give one of them another name".to_owned(),
            BuildError::NoPlatform(_) => {
                "give those that stand for each other one name: --input PLATFORM=F:NAME".to_owned()
            }
            BuildError::InputPlaceholder { .. } => "use %{ITEM} or %{TASK_ID}".to_owned(),
            BuildError::InputName { input, .. } => {
                format!("name it yourself: --input '{}:in.dat'", split(input).0)
            }
            BuildError::StreamName { .. } => "a relative path such as logs/out.txt, or none".to_owned(),
            BuildError::Glob { .. } => "a pattern such as out.txt, *.csv or results/**".to_owned(),
            BuildError::Policy { near: Some(near), .. } => {
                format!("{near}? deskgrid policy list shows all")
            }
            BuildError::Policy { near: None, .. } => "deskgrid policy list".to_owned(),
            BuildError::PolicyParameter(_) => "deskgrid policy show NAME lists its parameters".to_owned(),
            BuildError::ManyRanks(_) => {
                "another policy (deskgrid policy list), or --width for a job that runs on several hosts at once"
                    .to_owned()
            }
            BuildError::OneHost(_) => {
                let names = scheduler::policy::names(|row| row.width != Width::Rigid);
                format!("{names} do: deskgrid policy list")
            },
            BuildError::NotItsOwnWork => {
                "leave the command and all but --array, --each-line or --from-json out; other work is a job of its own".to_owned()
            }
            BuildError::Addition(bad) => bad.hint().to_owned(),
            BuildError::NoWidth => "--width N, A..B or auto".to_owned(),
            BuildError::WidthWith(_)
            | BuildError::DiscloseWith(_)
            | BuildError::NoopWith(_)
            | BuildError::BuildTwice { .. } => "leave one of them out".to_owned(),
            BuildError::BuildAndFile(_) | BuildError::BuildPerTask(_) => {
                "--input PLATFORM=FILE:NAME, once for each platform".to_owned()
            }
            BuildError::Job(bad) => bad.hint().unwrap_or_else(|| {
                "deskgrid submit --help says what each option takes".to_owned()
            }),
        }
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Failure {
            because: error.because(),
            ..Failure::usage(error.to_string(), error.hint())
        }
    }
}

#[cfg(test)]
mod tests {
    use common::Span;

    use super::*;

    #[test]
    fn a_job_that_contradicts_itself_is_refused_with_what_to_type() {
        let mismatch = BadJob::Mismatch {
            tasks: 3,
            what: "estimate",
            given: 2,
        };
        for (bad, hint) in [
            (BadJob::NothingToCompare("adaptive"), "--quorum 2"),
            (BadJob::QuorumSize(0), "--quorum 2"),
            (BadJob::QuorumOfStates, "leave --quorum or --checkpoint out"),
            (
                BadJob::CheckpointInterval(Span::from_millis(500)),
                "--checkpoint 30s",
            ),
            (mismatch, "--estimate DUR"),
            (BadJob::StreamPlatform, "--stdout '%{TASK_ID}.txt'"),
            (BadJob::NoTasks, "deskgrid submit --help"),
        ] {
            let failure = Failure::from(BuildError::from(bad));
            assert!(failure.hint.contains(hint), "{failure:?}");
        }
    }
}
