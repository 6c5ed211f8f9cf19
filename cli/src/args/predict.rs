//! Defines the flags of `deskgrid predict`, which predicts from what is known. The prediction of a
//! job's end is `deskgrid job predict`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use common::ranks::Parallelism;
use scheduler::reservation::NamedLaw;

use super::value::Dur;

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
    Wait(PredictWaitArgs),
}

/// The examples below the help of `deskgrid predict limits`.
const LIMITS: &str = "\
Examples:
  deskgrid predict limits --dist truncnorm:0,20,8,2 --n 200 --zeta 0
  deskgrid predict limits --dist pareto:1,20,2.1 --zeta 0.5 --output json
  deskgrid predict limits --runs past-runs.txt
Laws:
  uniform:FROM,TO          exponential:FROM,TO,RATE     pareto:FROM,TO,ALPHA
  beta:FROM,TO,ALPHA,BETA  truncnorm:FROM,TO,MEAN,SD    lognormal:FROM,TO,MU,SIGMA
  gamma:FROM,TO,SHAPE,SCALE                             weibull:FROM,TO,SHAPE,SCALE
Each is cut to run times from FROM to TO (beta is stretched over them); all times have the same unit, and so have \
the answers. A file of runs has one run time on a line, with a + behind it if the run was killed then (12.5+), and \
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
    pub dist: Option<NamedLaw>,
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
  deskgrid predict wait --width 12 --work 3h --parallelism 8:0.5";

/// The flags of `deskgrid predict wait`.
#[derive(Debug, Args)]
pub(crate) struct PredictWaitArgs {
    /// Number of hosts that are needed at once
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub width: u32,
    /// The work that follows.
    #[command(flatten)]
    pub work: WorkArgs,
}

/// The flags that tell the work that follows a wait.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Work to be shared among the hosts, as a run time on one host: also predicts when it will be
    /// done
    #[arg(long, value_name = "DURATION")]
    pub work: Option<Dur>,
    /// With --work: its average parallelism, and optionally its variance; else it is shared evenly
    #[arg(long, value_name = "A[:SIGMA]", requires = "work")]
    pub parallelism: Option<Parallelism>,
}

/// The examples below the help of `deskgrid predict accuracy`.
const ACCURACY: &str = "\
Example:
  deskgrid predict accuracy
Shows what the master predicted of waits for hosts, of first starts and of jobs' ends, beside what came. Intervals are to hold 80 %.";

/// The flags of `deskgrid predict accuracy`.
#[derive(Debug, Args)]
pub(crate) struct AccuracyArgs {
    /// Also print every prediction beside the actual wait (with --output json)
    #[arg(long)]
    pub scatter: bool,
}
