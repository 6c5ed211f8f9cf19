//! Defines the flags of `deskgrid simulate`: experiments on simulated desktop grids.

use std::path::PathBuf;

use clap::Args;

use super::value::Dur;

/// The flags of `deskgrid simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// Hosts: sdsc, gimps, lri-wisc, homogeneous, internet-2016, lab, or a hosts.csv with their
    /// clock rates
    #[arg(long, value_name = "NAME|FILE", value_delimiter = ',')]
    pub platform: Vec<String>,
    /// Replay a trace (hosts.csv and availability.csv) with its own clock rates; a --platform then
    /// only names it, unless it is a file
    #[arg(long, value_name = "DIR", conflicts_with = "model")]
    pub trace: Option<PathBuf>,
    /// Availability of the generated hosts [default: default]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub model: Vec<String>,
    /// Policies, with parameters as NAME:KEY=VALUE; OPTIMAL is the best that full knowledge allows
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    pub policy: Vec<String>,
    /// Number of tasks of the job
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "100")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tasks: Vec<u32>,
    /// Run time of a task on a dedicated 1.5 GHz host
    #[arg(
        long,
        value_name = "DURATION",
        value_delimiter = ',',
        default_value = "5m"
    )]
    pub size: Vec<Dur>,
    /// Start jobs at these seconds since the start of the trace or of a generated day [default:
    /// random times in business hours of generated days; in a trace, at any time but its last day,
    /// or its second half if that is shorter]
    #[arg(long, value_name = "SECONDS", value_delimiter = ',')]
    pub start: Vec<f64>,
    /// Start times per platform and job size (six on each generated day)
    #[arg(long, value_name = "N", default_value_t = 6, conflicts_with = "start")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// Seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of hosts of a generated platform [default: 220]
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub hosts: Option<u32>,
    /// Let each task take these processors and this memory (cpus=4,mem=4G) of hosts that have 2 to
    /// 16 processors and 4 to 64 GiB, and as many slots as processors [default: one slot a host]
    #[arg(long, value_name = "KEY=VALUE,..")]
    pub needs: Option<String>,
    /// Let tasks keep their state, and go on elsewhere from the state at the last heartbeat;
    /// OPTIMAL keeps none over an outage, so that a policy may take less time
    #[arg(long)]
    pub checkpoint: bool,
    /// Number of threads; the results are the same with any number [default: one for each
    /// processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub threads: Option<u32>,
    /// Also write rows.csv and summary.csv into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace such files that are there already and differ
    #[arg(long, requires = "out")]
    pub force: bool,
}

/// The examples below the help of `deskgrid simulate`.
pub(crate) const SIMULATE: &str = "\
Examples:
  deskgrid simulate --platform sdsc --policy OPTIMAL,FCFS --size 5m,15m --runs 9
  deskgrid simulate --trace DIR --start 14400,21600 --output json
  deskgrid simulate --platform lab --policy EXCL-PRED-TO:revert=0.5 --checkpoint
  deskgrid simulate --platform sdsc --policy OPTIMAL,FCFS --needs cpus=2,mem=6G
The scheduler is the one that runs live; only the hosts and the time are simulated. Makespans are \
compared with the least that is possible on the same trace without checkpoints. MAKESPAN is the median of the runs, of which those that did \
not finish count as the longest.";
