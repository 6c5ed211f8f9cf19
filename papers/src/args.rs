//! Defines the command line of `deskgrid-lab` with `clap`: the words of its commands are those of
//! `deskgrid`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use cli::terminal::{Printing, STYLES, WorkArgs};

/// Reproduce the papers behind deskgrid, and answer vectors of known answers
#[derive(Debug, Parser)]
#[command(name = "deskgrid-lab", version, styles = STYLES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Lab {
    /// The flags of every command.
    #[command(flatten)]
    pub printing: Printing,
    /// The command to run.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The commands of the laboratory.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Reproduce a paper's tables and figures, with ours beside them
    #[command(after_help = REPRODUCE)]
    Reproduce(ReproduceArgs),
    /// Replay a scripted scenario, and print each event and the outcome
    #[command(after_help = "\
Example:
  deskgrid-lab simulate --scenario deadlines.json --output json
Jobs on platforms and on recorded traces are simulated by `deskgrid simulate`.")]
    Simulate(ScenarioArgs),
    /// Predict from a state in a file; `deskgrid predict` asks the master
    #[command(subcommand)]
    Predict(LabPredict),
}

/// The flags of `deskgrid-lab simulate`.
#[derive(Debug, Args)]
pub(crate) struct ScenarioArgs {
    /// The scenario, as JSON
    #[arg(long, value_name = "FILE")]
    pub scenario: PathBuf,
}

/// A paper whose results can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// Kondo, Chien and Casanova: Resource Management for Rapid Application Turnaround, SC 2004
    Kondo,
    /// Downey: Using Queue Time Predictions for Processor Allocation, 1997
    Downey,
    /// Gainaru, Pallez, Sun and Raghavan: Speculative Scheduling for Stochastic HPC Applications,
    /// ICPP 2019
    Gainaru,
    /// Wozniak, Jiang and Striegel: Effects of Low-Quality Computation Time Estimates in Policed
    /// Schedulers
    Wozniak,
    /// Petrou, Ganger and Gibson: Cluster Scheduling for Explicitly-Speculative Tasks, ICS 2004
    Petrou,
    /// No paper: the number of wrong results that escape `submit --quorum`, adaptive or not, and
    /// the cost
    Liars,
}

/// The flags of `deskgrid-lab reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The paper
    #[arg(value_name = "PAPER")]
    pub paper: Paper,
    /// Make fewer runs: in under a minute, with wider intervals
    #[arg(long)]
    pub quick: bool,
    /// Directory for the report, its figures and its tables [default: the name of the paper]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace a report that is there already
    #[arg(long)]
    pub force: bool,
    /// Seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of runs of each experiment [default: of kondo 120, or 12 if quick; of gainaru 50, or
    /// 10; of wozniak 10, or 3; of downey 5, or 2; of petrou 12, or 3; see the report for liars]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: Option<u32>,
    /// Gainaru: also rerun this log; downey: predict its waits (KTH-SP2, in the Standard Workload
    /// Format)
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Number of threads; the results are the same with any number [default: one for each
    /// processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub threads: Option<u32>,
}

/// The examples below the help of `deskgrid-lab reproduce`.
pub(crate) const REPRODUCE: &str = "\
Examples:
  deskgrid-lab reproduce kondo --quick
  deskgrid-lab reproduce kondo --out kondo-full
  deskgrid-lab reproduce gainaru --log KTH-SP2_log.swf
  deskgrid-lab reproduce downey --log KTH-SP2_log.swf
  deskgrid-lab reproduce wozniak
  deskgrid-lab reproduce petrou
  deskgrid-lab reproduce liars           what hosts that lie get past a quorum
DIR/report.md says what was done, how the paper was read where it leaves something open, and what \
came out beside what the paper says; its figures and tables lie beside it as SVG and CSV.";

/// The kinds of `deskgrid-lab predict`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabPredict {
    /// Measure how good predictions of waits are on a log
    #[command(after_help = ACCURACY)]
    Accuracy(LogArgs),
    /// Predict when enough hosts will be free at once
    #[command(after_help = WAIT)]
    Wait(StateArgs),
    /// Choose the number of hosts that a job of variable width should wait for
    #[command(after_help = WIDTH)]
    Width(WidthArgs),
    /// Say whether an attempt beyond its estimate would be killed to make room, under each rule of
    /// policing
    #[command(after_help = "\
Example:
  deskgrid-lab predict kill --est 60 --elapsed 75
Times in seconds, or any other unit for both. Attempts are killed when a bag with a deadline arrives; under hard \
and grace with when=needed also once one that was let in would be late.")]
    Kill(KillArgs),
    /// Print the times that the calendar of deadlines gives to the tasks of a new bag, and the
    /// earliest deadline that it could be promised
    #[command(after_help = "\
Example:
  deskgrid-lab predict calendar --state calendar.json
with, for example (times in seconds):
  { \"now\": 10, \"hosts\": 2, \"running_start_est\": [[0, 5], [0, 8]], \"waiting_est\": [7], \"new_est\": [1, 1, 12] }")]
    Calendar(CalendarArgs),
}

/// The flags of `deskgrid-lab predict kill`.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// The estimated run time
    #[arg(long, value_name = "S")]
    pub est: f64,
    /// The run time so far
    #[arg(long, value_name = "S")]
    pub elapsed: f64,
    /// The part of the estimate by which it may be exceeded under the rule with a grace
    #[arg(long, value_name = "PART", default_value_t = 0.5)]
    pub grace: f64,
}

/// The flags of `deskgrid-lab predict calendar`.
#[derive(Debug, Args)]
pub(crate) struct CalendarArgs {
    /// A JSON file with the running and waiting tasks, and the new bag
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
}

/// The examples below the help of `deskgrid-lab predict wait`.
const WAIT: &str = "\
Example:
  deskgrid-lab predict wait --state machine.json --width 12 --output json
The file is JSON: {\"jobs\": [[600, 8], [3600, 4]], \"free\": 2, \"need\": 6} for two jobs that have run for 600 and 3600 \
seconds on 8 and 4 hosts. Lifetimes have F(t) = b0 + b1 ln t, from e^2 to e^12 seconds unless the file has b0 and b1.";

/// The flags of `deskgrid-lab predict wait`.
#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    /// A JSON file with the running jobs (time so far and number of hosts of each), and the numbers
    /// of free and of needed hosts
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
    /// Number of hosts that are needed at once [default: what the file says]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub width: Option<u32>,
    /// The work that follows.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// The examples below the help of `deskgrid-lab predict width`.
const WIDTH: &str = "\
Examples:
  deskgrid-lab predict width --state machine.json
  deskgrid-lab predict width --state machine.json --policy PRICED:price=0.3
The file is that of `predict wait`, and tells of a job besides: {\"jobs\": [[600, 8]], \"free\": 2, \"L\": 20000, \"A\": 12, \
\"sigma\": 0.5, \"behind\": 3} for 20,000 seconds of work, average parallelism 12 and variance 0.5, with three jobs behind.";

/// The flags of `deskgrid-lab predict width`.
#[derive(Debug, Args)]
pub(crate) struct WidthArgs {
    /// A JSON file with the running jobs (time so far and number of hosts of each), the number of
    /// free hosts, and the job
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
    /// The policy that chooses
    #[arg(long, value_name = "NAME", default_value = "PRED")]
    pub policy: String,
}

/// The examples below the help of `deskgrid-lab predict accuracy`.
const ACCURACY: &str = "\
Examples:
  deskgrid-lab predict accuracy --log KTH-SP2_log.swf
  deskgrid-lab predict accuracy --log KTH-SP2_log.swf --scatter --output json
Every wait is predicted from what was known when the job was submitted; the first half of the jobs only teaches. Beside \
it are the averages of the last ten waits and of all. Intervals are to hold 80 %.";

/// The flags of `deskgrid-lab predict accuracy`.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// A log in the Standard Workload Format
    #[arg(long, value_name = "FILE")]
    pub log: PathBuf,
    /// Also print every prediction beside the actual wait (with --output json)
    #[arg(long)]
    pub scatter: bool,
}
