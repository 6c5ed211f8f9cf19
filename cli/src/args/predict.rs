//! Defines the flags of `deskgrid predict`, which predicts from what is known. The prediction of a
//! job's end is `deskgrid job predict`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use scheduler::reservation::Law;

use super::value::{Dur, Parallelism};

/// The kinds of `deskgrid predict`.
#[derive(Debug, Subcommand)]
pub(crate) enum PredictCommand {
    /// Print the sequence of limits that costs the least where time is reserved
    #[command(after_help = LIMITS)]
    Limits(LimitsArgs),
    /// Measure how good predictions of waits are
    #[command(after_help = ACCURACY)]
    Accuracy(AccuracyArgs),
    /// Predict when enough hosts will be free at once
    #[command(after_help = WAIT)]
    Wait(WaitArgs),
    /// Choose the number of hosts that a job of variable width should wait for
    #[command(after_help = WIDTH)]
    Width(WidthArgs),
    /// Say whether an attempt beyond its estimate would be killed to make room, under each rule of
    /// policing
    #[command(after_help = "\
Example:
  deskgrid predict kill --est 60 --elapsed 75
Times in seconds, or any other unit for both. Attempts are killed only when a bag with a deadline arrives.")]
    Kill(KillArgs),
    /// Print the times that the calendar of deadlines gives to the tasks of a new bag, and the
    /// earliest deadline that it could be promised
    #[command(after_help = "\
Example:
  deskgrid predict calendar --state calendar.json
with, for example (times in seconds):
  { \"now\": 10, \"hosts\": 2, \"running_start_est\": [[0, 5], [0, 8]], \"waiting_est\": [7], \"new_est\": [1, 1, 12] }")]
    Calendar(CalendarArgs),
}

/// The flags of `deskgrid predict kill`.
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

/// The flags of `deskgrid predict calendar`.
#[derive(Debug, Args)]
pub(crate) struct CalendarArgs {
    /// A JSON file with the running and waiting tasks, and the new bag
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
}

/// The examples below the help of `deskgrid predict limits`.
const LIMITS: &str = "\
Examples:
  deskgrid predict limits --dist truncnorm:0,20,8,2 --n 200 --zeta 0
  deskgrid predict limits --dist pareto:1,20,2.1 --zeta 0.5 --output json
  deskgrid predict limits --runs past-runs.txt
Laws: truncnorm:FROM,TO,MEAN,SD  exponential:FROM,TO,RATE  beta:FROM,TO,ALPHA,BETA  pareto:FROM,TO,ALPHA
      lognormal:FROM,TO,MU,SIGMA  weibull:FROM,TO,SHAPE,SCALE  gamma:FROM,TO,SHAPE,SCALE  uniform:FROM,TO
Each is cut to run times from FROM to TO (beta is stretched over them); all times have the same unit, and so have
the answers. A file of runs has one run time on a line, with a + behind it if the run was killed then (12.5+), and
# before comments. Limits pay only where what a task does not need of its reservation is lost.";

/// The flags of `deskgrid predict limits`.
#[derive(Debug, Args)]
pub(crate) struct LimitsArgs {
    /// The distribution of run times
    #[arg(
        long,
        value_name = "LAW:NUMBERS",
        required_unless_present = "runs",
        conflicts_with = "runs"
    )]
    pub dist: Option<Law>,
    /// A file of past run times
    #[arg(long, value_name = "FILE")]
    pub runs: Option<PathBuf>,
    /// Number of points at which limits may be, equally far apart [default: 200, or 46 with small
    /// work]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub n: Option<u32>,
    /// Rate of small work that fills gaps, for each processor, from 0 to below 1
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    pub zeta: f64,
}

/// The examples below the help of `deskgrid predict wait`.
const WAIT: &str = "\
Examples:
  deskgrid predict wait --width 12 --work 3h
  deskgrid predict wait --width 12 --work 3h --parallelism 8:0.5
  deskgrid predict wait --state machine.json --width 12 --output json
The file is JSON: {\"jobs\": [[600, 8], [3600, 4]], \"free\": 2, \"need\": 6} for two jobs that have run for 600 and 3600
seconds on 8 and 4 hosts. Lifetimes have F(t) = b0 + b1 ln t, from e^2 to e^12 seconds unless the file has b0 and b1.";

/// The flags of `deskgrid predict wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// A JSON file with the running jobs (time so far and number of hosts of each), and the numbers
    /// of free and of needed hosts; else the master is asked
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Number of hosts that are needed at once [default: what the file says]
    #[arg(long, value_name = "N", required_unless_present = "state")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub width: Option<u32>,
    /// Work to be shared among the hosts, as a run time on one host: also predicts when it will be
    /// done
    #[arg(long, value_name = "DURATION")]
    pub work: Option<Dur>,
    /// With --work: its average parallelism, and optionally its variance; else it is shared evenly
    #[arg(long, value_name = "A[:SIGMA]", requires = "work")]
    pub parallelism: Option<Parallelism>,
}

/// The examples below the help of `deskgrid predict width`.
const WIDTH: &str = "\
Examples:
  deskgrid predict width --state machine.json
  deskgrid predict width --state machine.json --policy PRICED:price=0.3 --output json
The file is that of `predict wait`, and tells of a job besides: {\"jobs\": [[600, 8]], \"free\": 2, \"L\": 20000, \"A\": 12,
\"sigma\": 0.5, \"behind\": 3} for 20,000 seconds of work, average parallelism 12 and variance 0.5, with three jobs behind.";

/// The flags of `deskgrid predict width`.
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

/// The examples below the help of `deskgrid predict accuracy`.
const ACCURACY: &str = "\
Examples:
  deskgrid predict accuracy
  deskgrid predict accuracy --log KTH-SP2_log.swf
  deskgrid predict accuracy --log KTH-SP2_log.swf --scatter --output json
Without a log: what the master predicted of waits for hosts and of first starts, beside what came.
On a log every wait is predicted from what was known when the job was submitted; the first half of the jobs only teaches. Beside
it are the averages of the last ten waits and of all. Intervals are to hold 80 %.";

/// The flags of `deskgrid predict accuracy`.
#[derive(Debug, Args)]
pub(crate) struct AccuracyArgs {
    /// A log in the Standard Workload Format; else the master's own predictions are judged
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Also print every prediction beside the actual wait (with --output json)
    #[arg(long)]
    pub scatter: bool,
}
