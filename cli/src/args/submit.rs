//! Defines the options of a job, on the command line and (with the same names) in a job file.

use std::path::PathBuf;

use clap::Args;
use common::RequestId;
use common::host::Confinement;
use common::needs::Label;
use common::ranks::{Parallelism, Widths};
use serde::Deserialize;

use super::value::{
    AfterArg, Agree, Array, Deadline, Dur, EnvPair, EstimatesArg, Limit, NeedsText, OneJob,
};

/// The examples below the help of `deskgrid submit`.
pub(crate) const EXAMPLES: &str = "\
Placeholders in the command, the environment and paths:
  %{JOB_ID} %{TASK_ID} %{ATTEMPT_ID} %{HOST} %{PLATFORM} %{ITEM} %{RANK} %{WIDTH}
  %%{ stands for a %{ of the command's own: curl -w '%%{http_code}'
Tasks find the same in their environment as DESKGRID_JOB_ID and so on.

Examples:
  One task; wait for it and see what it printed:
    deskgrid submit --wait -- hostname && deskgrid job cat last stdout
  A hundred runs of a program in this directory:
    deskgrid submit --array 1-100 --input ./sim -- ./sim --seed %{TASK_ID}
  One task for each file of a list; each sends its file and brings one back:
    deskgrid submit --each-line list.txt --input '%{ITEM}:in' \\
      --output-file out -- convert in out
    deskgrid job fetch last --into results
  A long task that saves its state (docs/checkpoints.md) every half minute:
    deskgrid submit --checkpoint 30s --input ./sim -- ./sim
  Results that two hosts of different owners agree on, to six digits:
    deskgrid submit --quorum 2 --compare float:1e-6 --array 1-100 \\
      --input ./sim -- ./sim %{TASK_ID}
  A bag that is of use only if it is done in two hours; submit nothing yet:
    deskgrid submit --deadline 2h --estimate 5m --array 1-100 --dry-run \\
      --input ./sim -- ./sim %{TASK_ID}
  A bag whose tasks are known to take very different times:
    deskgrid submit --deadline 2h --estimates times.txt --each-line list.txt \\
      --input '%{ITEM}:in' -- convert in
  The same with time limits learned from past runs of ./sim:
    deskgrid submit --deadline 2h --timeout auto --array 1-100 \\
      --input ./sim -- ./sim %{TASK_ID}
  Fifty experiments of which perhaps only the first are needed:
    deskgrid submit --disclose --array 1-50 --input ./try -- ./try %{TASK_ID}
  One run on as many hosts at once as should end it soonest; submit nothing yet:
    deskgrid submit --width auto --work 6h --parallelism 12:0.5 --dry-run \\
      --input ./solve -- ./solve --part %{RANK} --of %{WIDTH}
  Tasks that need two processors and 4 GiB of memory each:
    deskgrid submit --array 1-100 --needs cpus=2,mem=4G --input ./sim -- ./sim
  The same program for two platforms:
    deskgrid submit --array 1-100 --input linux-x86_64=./solve:solve \\
      --input windows-x86_64=solve.exe:solve -- ./solve %{TASK_ID}
  A job that starts once the last one has succeeded, without its files:
    deskgrid submit --label sweep7 --array 1-100 --input ./sim -- ./sim
    deskgrid submit --label sweep7 --after last --input ./publish -- ./publish
    deskgrid job wait --label sweep7
  A job that works on the files of the last one:
    deskgrid job wait last && deskgrid job fetch last --into results
    deskgrid submit --input ./sum --input-tree results -- ./sum results
  A job to which tasks are added as they come up:
    deskgrid submit --open --each-line first.txt -- convert %{ITEM}
    deskgrid submit --into last --each-line more.txt && deskgrid job close last
  A hundred runs in a Python environment that each host gets once:
    python3 -m venv --copies env && env/bin/pip install numpy
    deskgrid submit --array 1-100 --input-tree env --input sim.py \\
      -- env/bin/python sim.py %{TASK_ID}
  A job from a job file (docs/job-files.md), with one thing changed:
    deskgrid submit --job-file convert.toml --priority 5";

/// The flags of `deskgrid submit`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SubmitArgs {
    /// The options that may also stand in a job file.
    #[command(flatten)]
    pub job: JobArgs,
    /// Read options from a TOML file with the same names as these flags; flags override it
    #[arg(long, value_name = "F.toml")]
    pub job_file: Option<PathBuf>,
    /// Add tasks to this open job (see --open) instead: they do its work, by its rules; only --array,
    /// --each-line or --from-json say what they are, else it is one more task
    #[arg(long, value_name = "JOB", conflicts_with_all = ["job_file", "wait", "progress"])]
    pub into: Option<OneJob>,
    /// Submit under this id: submitting it again gives the same job instead of a second one
    #[arg(long, value_name = "UUID")]
    pub request_id: Option<RequestId>,
    /// Wait until every task is settled; exit code 3 if some failed
    #[arg(long)]
    pub wait: bool,
    /// Wait, and show progress meanwhile
    #[arg(long)]
    pub progress: bool,
    /// Check everything and say what would be submitted; submit nothing
    #[arg(long, conflicts_with_all = ["wait", "progress"])]
    pub dry_run: bool,
}

/// The options of a job, as flags or as the keys of a job file (`--job-file`).
#[derive(Debug, Clone, Default, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct JobArgs {
    /// Name of the job [default: the program's name]
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Give the job a label, by which it is found again: job list --label, and so on [repeatable]
    #[arg(long, value_name = "LABEL")]
    pub label: Vec<Label>,
    /// Start only after this job has ended: JOB or JOB:ok once all its tasks succeeded (if not, this
    /// job is cancelled), JOB:any in whatever way it ends [repeatable]
    #[arg(long, value_name = "JOB[:ok|any]")]
    pub after: Vec<AfterArg>,
    /// Keep the job open, so that tasks can be added with --into until deskgrid job close
    #[arg(long, help_heading = "Tasks")]
    #[arg(conflicts_with_all = ["deadline", "disclose", "width", "estimates"])]
    pub open: bool,
    /// Run one task for each index, such as 1-100 or 1-99:2
    #[arg(long, value_name = "IDS", group = "bag", help_heading = "Tasks")]
    pub array: Option<Array>,
    /// Run one task for each line of a file (- is standard input); empty lines are skipped; %{ITEM}
    /// is the line
    #[arg(long, value_name = "F", group = "bag", help_heading = "Tasks")]
    pub each_line: Option<PathBuf>,
    /// Run one task for each value of a JSON array or of JSON Lines; %{ITEM} is the string, or the
    /// value as JSON
    #[arg(long, value_name = "F", group = "bag", help_heading = "Tasks")]
    pub from_json: Option<PathBuf>,
    /// Send a file, or all files of a directory; tasks find it as NAME [default: F, or only its
    /// last name where F is absolute or has `..`]; %{ITEM} and %{TASK_ID} choose one file per task; with
    /// a PLATFORM before it, such as windows-x86_64=solver.exe:solver, only hosts of that one get it,
    /// and hosts of none that is named run no task [repeatable]
    #[arg(long, value_name = "[PLATFORM=]F[:NAME]", help_heading = "Files")]
    pub input: Vec<String>,
    /// Send a directory, or what is in an archive (.tar, .tar.gz, .tgz, .zip), once to each host; all
    /// tasks find it as NAME, share it and cannot write to it (docs/files.md) [repeatable]
    #[arg(long, value_name = "[PLATFORM=]DIR[:NAME]", help_heading = "Files")]
    pub input_tree: Vec<String>,
    /// Bring back the files that match, or all of a directory (out/); a task that leaves none has
    /// failed [repeatable]
    #[arg(
        long,
        visible_alias = "output-tree",
        value_name = "GLOB",
        help_heading = "Files"
    )]
    #[serde(alias = "output-tree")]
    pub output_file: Vec<String>,
    /// The input that is the tasks' standard input
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub stdin: Option<String>,
    /// File name that `job fetch` gives standard output, or `none` to drop it
    #[arg(long, value_name = "PATH|none", help_heading = "Files")]
    pub stdout: Option<String>,
    /// File name that `job fetch` gives standard error, or `none` to drop it
    #[arg(long, value_name = "PATH|none", help_heading = "Files")]
    pub stderr: Option<String>,
    /// Add a variable to the tasks' environment, which is otherwise clean [repeatable]
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<EnvPair>,
    /// Number of times that a failed task is tried again [default: 0]
    #[arg(long, value_name = "N", help_heading = "Rules")]
    pub retries: Option<u32>,
    /// Number of attempts of a task that may be lost with their hosts before it counts as failed
    /// [default: 10]
    #[arg(long, value_name = "N", help_heading = "Rules")]
    pub max_losses: Option<u32>,
    /// Limit the run time of one attempt, suspensions not counted; auto, with --deadline or
    /// --width: limits learned from past runs of the program, at which attempts are killed and
    /// tried again with a longer limit
    #[arg(long, value_name = "DUR|auto", help_heading = "Rules")]
    pub timeout: Option<Limit>,
    /// Cancel the rest as soon as more than this many tasks have failed
    #[arg(long, value_name = "N", help_heading = "Rules")]
    pub max_fails: Option<u64>,
    /// Priority among your own jobs: higher goes first [default: 0]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        help_heading = "Rules"
    )]
    pub priority: Option<i32>,
    /// Policy that places the tasks; see `deskgrid policy list`
    #[arg(long, value_name = "NAME[:KEY=VALUE]", help_heading = "Rules")]
    pub policy: Option<String>,
    /// Run time of a task on a host of speed 1 (a 1.5 GHz PC)
    #[arg(long, value_name = "DUR", help_heading = "Rules")]
    pub estimate: Option<Dur>,
    /// An estimate for each task, in their order: durations with commas between them, or a file with
    /// one on each line (- is standard input). Items of --from-json may carry their own as
    /// `"estimate"`: a duration, or seconds
    #[arg(long, value_name = "DUR,..|F", help_heading = "Rules")]
    pub estimates: Option<EstimatesArg>,
    /// Take the job only if all of it is expected to be done by this deadline: a date (UTC unless it
    /// says otherwise, as 2026-03-01T09:30:00+01:00 does), or a duration from now; else exit with
    /// code 5 and say what could be promised
    #[arg(long, value_name = "TIME|DUR", help_heading = "Rules")]
    pub deadline: Option<Deadline>,
    /// Disclose tasks that may be needed, the likeliest first: nobody waits for a task until
    /// `deskgrid request` asks for it, and only requested tasks are billed
    #[arg(long, help_heading = "Rules", conflicts_with_all = ["deadline", "quorum"])]
    pub disclose: bool,
    /// Run the command as several ranks at once, each on a host of its own, held together from
    /// start to end: N, A..B, or auto for the number that should end it soonest (%{RANK} counts
    /// from 0, %{WIDTH} is the number of ranks)
    #[arg(
        long,
        value_name = "N|A..B|auto",
        help_heading = "Several hosts at once"
    )]
    #[arg(conflicts_with_all = ["bag", "deadline", "quorum", "disclose", "estimate", "estimates", "noop"])]
    pub width: Option<Widths>,
    /// With --width: the run time of all the work on one host of speed 1; else learned from earlier
    /// runs
    #[arg(
        long,
        value_name = "DUR",
        requires = "width",
        help_heading = "Several hosts at once"
    )]
    pub work: Option<Dur>,
    /// With --width: the job's average parallelism, and optionally its variance, as in 12:0.5; else
    /// learned from earlier runs
    #[arg(
        long,
        value_name = "A[:SIGMA]",
        requires = "width",
        help_heading = "Several hosts at once"
    )]
    pub parallelism: Option<Parallelism>,
    /// Keep what a task writes to $DESKGRID_CHECKPOINT_DIR this often, so that its next attempt
    /// goes on from there
    #[arg(long, value_name = "DUR", help_heading = "Rules")]
    pub checkpoint: Option<Dur>,
    /// Require this many agreeing results of each task, from hosts of different owners [default: 1]
    #[arg(long, value_name = "N", help_heading = "Rules")]
    pub quorum: Option<u32>,
    /// With --quorum: trust hosts whose results have agreed with others' for long enough, and only
    /// audit them
    #[arg(long, help_heading = "Rules")]
    pub adaptive: bool,
    /// Compare results by this rule: bytes; float:PART where numbers may differ by that part; or
    /// program, for one of yours that `job judge` runs [default: bytes]
    #[arg(long, value_name = "HOW", help_heading = "Rules")]
    pub compare: Option<Agree>,
    /// Run only on hosts that confine tasks at least this well: process, landlock, namespace or
    /// account
    #[arg(long, value_name = "LEVEL", help_heading = "Rules")]
    pub confinement: Option<Confinement>,
    /// Run only on hosts that have this, and count it: os, arch, platform (linux-x86_64), libc, cpus,
    /// mem, gpu, disk, label (a task is bound to its cpus, and mem is its limit, too) [repeatable]
    #[arg(long, value_name = "KEY=VALUE,..", help_heading = "Rules")]
    pub needs: Vec<NeedsText>,
    /// Let the tasks use the network: run only on hosts whose owners allow it
    #[arg(long, help_heading = "Rules")]
    pub network: bool,
    /// Run tasks that do nothing, without a process: measures the grid itself
    #[arg(long, conflicts_with = "command")]
    pub noop: bool,
    /// Program and arguments; no shell is involved (for one: -- sh -c '...')
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub command: Vec<String>,
}

impl JobArgs {
    /// Returns these options, completed from `file`. A list given here replaces the file's list.
    pub(crate) fn over(self, file: JobArgs) -> JobArgs {
        fn list<T>(here: Vec<T>, file: Vec<T>) -> Vec<T> {
            if here.is_empty() { file } else { here }
        }

        let file = if self.noop { file.without_work() } else { file };
        let bag_here = self.array.is_some() || self.each_line.is_some() || self.from_json.is_some();
        let bag = if bag_here {
            JobArgs::default()
        } else {
            file.clone()
        };

        let noop = self.noop || (file.noop && self.command.is_empty());
        JobArgs {
            name: self.name.or(file.name),
            label: list(self.label, file.label),
            after: list(self.after, file.after),
            open: self.open || file.open,
            array: self.array.or(bag.array),
            each_line: self.each_line.or(bag.each_line),
            from_json: self.from_json.or(bag.from_json),
            input: list(self.input, file.input),
            input_tree: list(self.input_tree, file.input_tree),
            output_file: list(self.output_file, file.output_file),
            stdin: self.stdin.or(file.stdin),
            stdout: self.stdout.or(file.stdout),
            stderr: self.stderr.or(file.stderr),
            env: list(self.env, file.env),
            retries: self.retries.or(file.retries),
            max_losses: self.max_losses.or(file.max_losses),
            timeout: self.timeout.or(file.timeout),
            max_fails: self.max_fails.or(file.max_fails),
            priority: self.priority.or(file.priority),
            policy: self.policy.or(file.policy),
            estimate: self.estimate.or(file.estimate),
            estimates: self.estimates.or(bag.estimates),
            deadline: self.deadline.or(file.deadline),
            disclose: self.disclose || file.disclose,
            width: self.width.or(file.width),
            work: self.work.or(file.work),
            parallelism: self.parallelism.or(file.parallelism),
            checkpoint: self.checkpoint.or(file.checkpoint),
            quorum: self.quorum.or(file.quorum),
            adaptive: self.adaptive || file.adaptive,
            compare: self.compare.or(file.compare),
            confinement: self.confinement.or(file.confinement),
            needs: list(self.needs, file.needs),
            network: self.network || file.network,
            command: list(self.command, file.command),
            noop,
        }
    }

    /// Returns these options without what a task does, and does it with: `--noop` takes the place of
    /// all that.
    fn without_work(self) -> JobArgs {
        JobArgs {
            command: Vec::new(),
            input: Vec::new(),
            input_tree: Vec::new(),
            output_file: Vec::new(),
            stdin: None,
            stdout: None,
            stderr: None,
            env: Vec::new(),
            checkpoint: None,
            ..self
        }
    }
}
