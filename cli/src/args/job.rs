//! Defines the flags of `deskgrid job` and `deskgrid task`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use common::attempt::StreamKind;
use common::needs::Label;
use common::selector::Selector;
use common::view::{JobState, TaskState};

use super::value::{Dur, JobsArg, OneJob, OneTask};

/// The verbs of `deskgrid job`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// List unfinished jobs, active ones first
    #[command(after_help = "\
Examples:
  deskgrid job list
  deskgrid job list --all --last 20
  deskgrid job list --all --state failed
  deskgrid job list --label sweep7
  deskgrid job list --joblog 7 > joblog.tsv     # its attempts, as GNU parallel")]
    List {
        /// List settled jobs too
        #[arg(long)]
        all: bool,
        /// List only jobs in this state [repeatable]
        #[arg(long, value_name = "STATE")]
        state: Vec<JobState>,
        /// List only the N jobs submitted last, of those that would be listed
        #[arg(long, value_name = "N")]
        last: Option<usize>,
        /// List only the jobs with this label (given several times: with all of these labels)
        /// [repeatable]
        #[arg(long, value_name = "LABEL")]
        label: Vec<Label>,
        /// Print the attempts of one job as tab-separated values; a long command is cut; words with
        /// %{PLATFORM}, %{RANK} or %{WIDTH} stay as submitted
        #[arg(long, value_name = "JOB", conflicts_with_all = ["all", "state", "last", "label"])]
        joblog: Option<OneJob>,
    },
    /// Print everything about jobs
    #[command(
        after_help = "Examples:\n  deskgrid job info 7\n  deskgrid --output json job info last"
    )]
    Info {
        /// The jobs.
        #[command(flatten)]
        jobs: JobsArg,
    },
    /// Wait until every task of some jobs is settled: exit code 0 all finished, 3 some failed, 4
    /// timed out
    #[command(after_help = "\
Examples:
  deskgrid job wait 7
  deskgrid job wait last --timeout 2h && deskgrid job fetch last --into results
  deskgrid job wait --label sweep7
A job that is open (submit --open) ends only after deskgrid job close. It outlives a restart of the master: it connects again \
by itself.")]
    Wait(WaitArgs),
    /// Wait like job wait, and show progress with the expected time of finish
    #[command(after_help = "Example:\n  deskgrid job progress last")]
    Progress(WaitArgs),
    /// Print the standard output or standard error of tasks
    #[command(after_help = "\
Examples:
  deskgrid job cat 7 stdout
  deskgrid job cat last stderr 3,5-8
  deskgrid job cat last stdout 3 --follow    # while it runs, from its beginning
With --follow tasks come one after the other, each to its end. deskgrid task tail begins with the newest output.")]
    Cat(CatArgs),
    /// Fetch the tasks' output files into a local directory
    #[command(after_help = "\
Examples:
  deskgrid job fetch 7 --into results
  deskgrid job fetch last --into results --tasks 1-10 --force
  deskgrid job fetch 7 --into frames --pad --manifest frames.jsonl
  deskgrid job fetch 7 --into frames --manifest - | jq -r .path
Files lie at results/TASK/PATH, or at results/PATH where the job has one task. A file that is there \
already is kept if it is the same; if it differs, nothing is written unless you say --force.
What failed tasks left is fetched, too. Exit code 3: not all of the tasks have finished.")]
    Fetch {
        /// The job
        job: OneJob,
        /// Directory to put them into
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
        /// Fetch only the files of these tasks
        #[arg(long, value_name = "TASKS", default_value = "all")]
        tasks: Selector,
        /// Overwrite files that differ
        #[arg(long)]
        force: bool,
        /// Name the tasks' directories with leading zeros (results/007), so that they sort by number
        #[arg(long)]
        pad: bool,
        /// Also write a list of the files, each with its task and item: one JSON object per line; - is
        /// standard output
        #[arg(long, value_name = "F.jsonl")]
        manifest: Option<PathBuf>,
    },
    /// Cancel jobs, or some tasks of them
    #[command(after_help = "\
Examples:
  deskgrid job cancel 7
  deskgrid job cancel 7 --tasks 50-100
  deskgrid job cancel --label sweep7
  deskgrid job cancel 7 --unrequested     # what nobody has requested")]
    Cancel {
        /// The jobs.
        #[command(flatten)]
        jobs: JobsArg,
        /// Cancel only these tasks
        #[arg(long, value_name = "TASKS")]
        tasks: Option<Selector>,
        /// Cancel only disclosed tasks that nobody requested, running ones included
        #[arg(long, conflicts_with = "tasks")]
        unrequested: bool,
    },
    /// Close open jobs (submit --open): they take no more tasks, and end once theirs have
    #[command(
        after_help = "Examples:\n  deskgrid job close 7\n  deskgrid job close --label sweep7"
    )]
    Close {
        /// The jobs.
        #[command(flatten)]
        jobs: JobsArg,
    },
    /// Retry failed (and cancelled) tasks
    #[command(
        after_help = "Examples:\n  deskgrid job retry 7 --failed\n  deskgrid job retry last --tasks 3,5"
    )]
    Retry {
        /// The job
        job: OneJob,
        /// Retry only failed tasks, not cancelled ones
        #[arg(long)]
        failed: bool,
        /// Compute finished tasks again whose results are damaged or lost on the master
        #[arg(long, conflicts_with = "failed")]
        damaged: bool,
        /// Retry only these tasks
        #[arg(long, value_name = "TASKS", default_value = "all")]
        tasks: Selector,
    },
    /// Judge with your own program which results of a job agree (submit --quorum N --compare
    /// program), until the job is settled
    #[command(
        after_help = "\
Example:
  deskgrid job judge last -- ./compare --tolerance 3
The program is called with two directories more, one for each result: its output files, and `stdout`. Exit code 0: they \
agree; 1: they do not; any other ends the judging. It runs here, as you. Tasks wait for it, and it can be started again.",
        override_usage = "deskgrid job judge JOB -- CMD ARG..."
    )]
    Judge {
        /// The job
        job: OneJob,
        /// Program and arguments
        #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Explain why tasks wait, and why each host was passed over
    #[command(after_help = "Example:\n  deskgrid job explain 7")]
    Explain {
        /// The job
        job: OneJob,
    },
    /// Predict when a job will be done, with an interval if possible
    #[command(
        after_help = "Examples:\n  deskgrid job predict last\n  deskgrid --output json job predict 7"
    )]
    Predict {
        /// The job
        job: OneJob,
    },
    /// Let another user look at jobs and fetch their results; only you can change them
    #[command(
        after_help = "Examples:\n  deskgrid job share 7 --with bob\n  deskgrid job share 7 --with bob --end"
    )]
    Share {
        /// The jobs.
        #[command(flatten)]
        jobs: JobsArg,
        /// The other user's name, as `deskgrid login` answered there
        #[arg(long, value_name = "NAME")]
        with: String,
        /// End the sharing
        #[arg(long)]
        end: bool,
    },
    /// Remove settled jobs with their results from the master
    #[command(after_help = "Examples:\n  deskgrid job forget 7\n  deskgrid job forget 1-20")]
    Forget {
        /// The jobs.
        #[command(flatten)]
        jobs: JobsArg,
    },
}

/// The jobs to wait for, and the timeout.
#[derive(Debug, Clone, Args)]
pub(crate) struct WaitArgs {
    /// The jobs.
    #[command(flatten)]
    pub jobs: JobsArg,
    /// Give up after this long (exit code 4) [default: never]
    #[arg(long, value_name = "DUR")]
    pub timeout: Option<Dur>,
}

/// The streams to print.
#[derive(Debug, Clone, Args)]
pub(crate) struct CatArgs {
    /// The job
    pub job: OneJob,
    /// The stream
    pub stream: StreamName,
    /// The tasks
    #[arg(default_value = "all")]
    pub tasks: Selector,
    /// Print what running tasks write within a second, until they end
    #[arg(long)]
    pub follow: bool,
}

/// A captured stream of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl From<StreamName> for StreamKind {
    fn from(name: StreamName) -> Self {
        match name {
            StreamName::Stdout => StreamKind::Stdout,
            StreamName::Stderr => StreamKind::Stderr,
        }
    }
}

/// The verbs of `deskgrid task`.
#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// List tasks of a job
    #[command(
        after_help = "Examples:\n  deskgrid task list 7\n  deskgrid task list last --state failed"
    )]
    List {
        /// The job
        job: OneJob,
        /// List only these tasks
        #[arg(long, value_name = "TASKS", default_value = "all")]
        tasks: Selector,
        /// List only tasks in this state [repeatable]
        #[arg(long, value_name = "STATE")]
        state: Vec<TaskState>,
    },
    /// Print every attempt of a task: its host, start, duration, end and the reason for it
    #[command(after_help = "Examples:\n  deskgrid task info 7.3\n  deskgrid task info last.3")]
    Info {
        /// The task, as JOB.TASK
        task: OneTask,
    },
    /// Print the newest output of a running task, and then what it writes, until it ends
    #[command(after_help = "\
Examples:
  deskgrid task tail 7.3
  deskgrid task tail last.1 --stderr
It begins with at most 64 KiB; deskgrid job cat --follow begins with the first byte. Nothing is sent while nobody looks.")]
    Tail {
        /// The task, as JOB.TASK
        task: OneTask,
        /// Print its standard error instead of its standard output
        #[arg(long)]
        stderr: bool,
    },
}
