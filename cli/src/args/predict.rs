//! The words of `predict`: answers about what will be, from what is known. What is not here:
//! predictions of a job's end, which are `job predict`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use scheduler::reservation::Law;

use super::value::{Dur, Parallelism};

/// `deskgrid predict`.
#[derive(Debug, Subcommand)]
pub(crate) enum PredictCommand {
    /// For how long to ask where time is reserved: the sequence of limits that costs the least
    #[command(after_help = LIMITS)]
    Limits(LimitsArgs),
    /// How good predictions of waits are
    #[command(after_help = ACCURACY)]
    Accuracy(AccuracyArgs),
    /// When so many hosts will be free together
    #[command(after_help = WAIT)]
    Wait(WaitArgs),
    /// For how many hosts a job should hold out that can run on more or fewer
    #[command(after_help = WIDTH)]
    Width(WidthArgs),
    /// Whether an attempt beyond its estimate would be killed to make room, under each rule of
    /// policing
    #[command(after_help = "\
Example:
  deskgrid predict kill --est 60 --elapsed 75
Times in seconds, or any other unit for both. Attempts are killed only when a bag with a deadline arrives.")]
    Kill(KillArgs),
    /// Where the calendar of deadlines has the tasks of a new bag, and the earliest deadline that
    /// it could be promised
    #[command(after_help = "\
Example:
  deskgrid predict calendar --state calendar.json
with, for example (times in seconds):
  { \"now\": 10, \"hosts\": 2, \"running_start_est\": [[0, 5], [0, 8]], \"waiting_est\": [7], \"new_est\": [1, 1, 12] }")]
    Calendar(CalendarArgs),
}

/// `deskgrid predict kill`.
#[derive(Debug, Args)]
pub(crate) struct KillArgs {
    /// What was estimated
    #[arg(long, value_name = "S")]
    pub est: f64,
    /// What has passed
    #[arg(long, value_name = "S")]
    pub elapsed: f64,
    /// By which part of the estimate it may be exceeded under the rule with a grace
    #[arg(long, value_name = "PART", default_value_t = 0.5)]
    pub grace: f64,
}

/// `deskgrid predict calendar`.
#[derive(Debug, Args)]
pub(crate) struct CalendarArgs {
    /// A file with what runs and waits, and the new bag, as JSON
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
}

/// Examples of `deskgrid predict limits`.
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

/// `deskgrid predict limits`.
#[derive(Debug, Args)]
pub(crate) struct LimitsArgs {
    /// The law of run times
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
    /// Points at which limits may be, equally far apart [default: 200, or 46 with small work]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub n: Option<u32>,
    /// Rate of small work that fills gaps, by processor, from 0 to below 1
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    pub zeta: f64,
}

/// Examples of `deskgrid predict wait`.
const WAIT: &str = "\
Examples:
  deskgrid predict wait --width 12 --work 3h
  deskgrid predict wait --width 12 --work 3h --parallelism 8:0.5
  deskgrid predict wait --state machine.json --width 12 --output json
The file is JSON: {\"jobs\": [[600, 8], [3600, 4]], \"free\": 2, \"need\": 6} for two jobs that have run for 600 and 3600
seconds on 8 and 4 hosts. Lifetimes have F(t) = b0 + b1 ln t, from e^2 to e^12 seconds unless the file has b0 and b1.";

/// `deskgrid predict wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// What runs on how many hosts since when, how many are free, and how many are needed; else the
    /// master is asked
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Hosts that are needed together [default: what the file says]
    #[arg(long, value_name = "N", required_unless_present = "state")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub width: Option<u32>,
    /// Work to be shared among them, as a run time on one host: also says when that should be done
    #[arg(long, value_name = "DURATION")]
    pub work: Option<Dur>,
    /// With --work: its average parallelism, and the variance of that; else it is shared evenly
    #[arg(long, value_name = "A[:SIGMA]", requires = "work")]
    pub parallelism: Option<Parallelism>,
}

/// Examples of `deskgrid predict width`.
const WIDTH: &str = "\
Examples:
  deskgrid predict width --state machine.json
  deskgrid predict width --state machine.json --policy PRICED:price=0.3 --output json
The file is that of `predict wait`, and tells of a job besides: {\"jobs\": [[600, 8]], \"free\": 2, \"L\": 20000, \"A\": 12,
\"sigma\": 0.5, \"behind\": 3} for 20,000 seconds of work, average parallelism 12 and variance 0.5, with three jobs behind.";

/// `deskgrid predict width`.
#[derive(Debug, Args)]
pub(crate) struct WidthArgs {
    /// What runs on how many hosts since when, how many are free, and the job
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
    /// Which row of the catalogue chooses
    #[arg(long, value_name = "NAME", default_value = "PRED")]
    pub policy: String,
}

/// Examples of `deskgrid predict accuracy`.
const ACCURACY: &str = "\
Examples:
  deskgrid predict accuracy
  deskgrid predict accuracy --log KTH-SP2_log.swf
  deskgrid predict accuracy --log KTH-SP2_log.swf --scatter --output json
Without a log: what the master predicted of waits for hosts and of first starts, beside what came.
On a log every wait is predicted from what was known when the job was submitted; the first half of the jobs only teaches. Beside
it are the averages of the last ten waits and of all. Intervals are to hold 80 %.";

/// `deskgrid predict accuracy`.
#[derive(Debug, Args)]
pub(crate) struct AccuracyArgs {
    /// A log in the Standard Workload Format; else the master's own predictions are judged
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Also give every prediction beside what came (with --output json)
    #[arg(long)]
    pub scatter: bool,
}
