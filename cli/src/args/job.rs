//! Words of `deskgrid job` and `deskgrid task`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use common::TaskId;
use common::selector::Selector;
use common::view::{JobState, TaskState};

use super::value::{Dur, Jobs, OneJob};

/// `deskgrid job`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Jobs that are not settled yet, active ones first
    #[command(after_help = "\
Examples:
  deskgrid job list
  deskgrid job list --all --state failed
  deskgrid job list --joblog 7 > joblog.tsv     every attempt of job 7, as GNU parallel does it")]
    List {
        /// Settled jobs too
        #[arg(long)]
        all: bool,
        /// Only jobs in this state [repeatable]
        #[arg(long, value_name = "STATE")]
        state: Vec<JobState>,
        /// The attempts of one job as tab-separated values
        #[arg(long, value_name = "JOB", conflicts_with_all = ["all", "state"])]
        joblog: Option<OneJob>,
    },
    /// All about some jobs
    #[command(
        after_help = "Examples:\n  deskgrid job info 7\n  deskgrid --output json job info last"
    )]
    Info {
        /// Which: 7, 1-10, 1,3,5-8, all, last
        jobs: Jobs,
    },
    /// Wait until every task of some jobs is settled: exit code 0 all finished, 3 some failed, 4
    /// timed out
    #[command(after_help = "\
Examples:
  deskgrid job wait 7
  deskgrid job wait last --timeout 2h && deskgrid job fetch last --into results
It outlives a restart of the master: it connects again by itself.")]
    Wait(WaitArgs),
    /// Like wait, and shows progress with the expected time of finish
    #[command(after_help = "Example:\n  deskgrid job progress last")]
    Progress(WaitArgs),
    /// Print what tasks wrote
    #[command(
        after_help = "Examples:\n  deskgrid job cat 7 stdout\n  deskgrid job cat last stderr 3,5-8"
    )]
    Cat {
        /// Which job
        job: OneJob,
        /// Which stream
        stream: StreamName,
        /// Only these tasks
        #[arg(default_value = "all")]
        tasks: Selector,
    },
    /// Bring the tasks' output files here
    #[command(after_help = "\
Examples:
  deskgrid job fetch 7 --into results
  deskgrid job fetch last --into results --tasks 1-10 --force
Files lie at results/TASK/PATH, or at results/PATH where the job has one task. A file that is there
already is kept if it is the same; if it differs, nothing is written unless you say --force.")]
    Fetch {
        /// Which job
        job: OneJob,
        /// Directory to put them into
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
        /// Only these tasks
        #[arg(long, value_name = "TASKS", default_value = "all")]
        tasks: Selector,
        /// Overwrite files that differ
        #[arg(long)]
        force: bool,
    },
    /// Cancel jobs, or some tasks of them
    #[command(after_help = "\
Examples:
  deskgrid job cancel 7
  deskgrid job cancel 7 --tasks 50-100
  deskgrid job cancel 7 --unrequested     of a disclosed job what nobody has requested")]
    Cancel {
        /// Which: 7, 1-10, 1,3,5-8, all, last
        jobs: Jobs,
        /// Only these tasks
        #[arg(long, value_name = "TASKS")]
        tasks: Option<Selector>,
        /// Only what was disclosed and not requested, running tasks included
        #[arg(long, conflicts_with = "tasks")]
        unrequested: bool,
    },
    /// Try failed (and cancelled) tasks again
    #[command(
        after_help = "Examples:\n  deskgrid job retry 7 --failed\n  deskgrid job retry last --tasks 3,5"
    )]
    Retry {
        /// Which job
        job: OneJob,
        /// Only failed tasks, not cancelled ones
        #[arg(long)]
        failed: bool,
        /// Finished tasks whose results are damaged or lost on the master: compute them again
        #[arg(long, conflicts_with = "failed")]
        damaged: bool,
        /// Only these tasks
        #[arg(long, value_name = "TASKS", default_value = "all")]
        tasks: Selector,
    },
    /// Say with a program of yours which results of a job agree (submit --quorum N --compare
    /// program), until it is settled
    #[command(
        after_help = "\
Example:
  deskgrid job judge last -- ./compare --tolerance 3
The program is called with two directories more, one for each result: its output files, and `stdout`. Exit code 0: they
agree; 1: they do not; any other ends the judging. It runs here, as you. Tasks wait for it, and it can be started again.",
        override_usage = "deskgrid job judge JOB -- CMD ARG..."
    )]
    Judge {
        /// Which job
        job: OneJob,
        /// Program and arguments
        #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Say why tasks wait, and why each host was passed over
    #[command(after_help = "Example:\n  deskgrid job explain 7")]
    Explain {
        /// Which job
        job: OneJob,
    },
    /// Say when a job should be done, with an interval where that can be told
    #[command(
        after_help = "Examples:\n  deskgrid job predict last\n  deskgrid --output json job predict 7"
    )]
    Predict {
        /// Which job
        job: OneJob,
    },
    /// Let another user look at jobs and fetch their results; changing them stays yours
    #[command(
        after_help = "Examples:\n  deskgrid job share 7 --with bob\n  deskgrid job share 7 --with bob --end"
    )]
    Share {
        /// Which: 7, 1-10, 1,3,5-8, all, last
        jobs: Jobs,
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
        /// Which: 7, 1-10, 1,3,5-8, all, last
        jobs: Jobs,
    },
}

/// What to wait for.
#[derive(Debug, Clone, Args)]
pub(crate) struct WaitArgs {
    /// Which: 7, 1-10, 1,3,5-8, all, last
    pub jobs: Jobs,
    /// Give up after this long (exit code 4) [default: never]
    #[arg(long, value_name = "DUR")]
    pub timeout: Option<Dur>,
}

/// A captured stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// `deskgrid task`.
#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Tasks of a job
    #[command(
        after_help = "Examples:\n  deskgrid task list 7\n  deskgrid task list last --state failed"
    )]
    List {
        /// Which job
        job: OneJob,
        /// Only these tasks
        #[arg(long, value_name = "TASKS", default_value = "all")]
        tasks: Selector,
        /// Only tasks in this state [repeatable]
        #[arg(long, value_name = "STATE")]
        state: Vec<TaskState>,
    },
    /// Every attempt of a task: where, when, how long, how it ended and why
    #[command(after_help = "Example:\n  deskgrid task info 7.3")]
    Info {
        /// Which: JOB.TASK
        task: TaskId,
    },
}
