//! Defines the flags of `deskgrid simulate` and `deskgrid reproduce`: experiments on simulated
//! desktop grids.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        required_unless_present = "scenario"
    )]
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
    /// Start jobs at these seconds since the trace's start (instead of random times in business
    /// hours)
    #[arg(long, value_name = "SECONDS", value_delimiter = ',')]
    pub start: Vec<f64>,
    /// Number of starts for each platform and size of job, six on a day
    #[arg(long, value_name = "N", default_value_t = 6, conflicts_with = "start")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// Seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of hosts of a generated platform
    #[arg(long, value_name = "N", default_value_t = 220)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub hosts: u32,
    /// Let tasks keep their state, and go on elsewhere from the state at the last heartbeat
    #[arg(long)]
    pub checkpoint: bool,
    /// Number of threads; the results are the same with any number [default: one for each
    /// processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub threads: Option<u32>,
    /// Replay a scripted scenario (JSON), and print each event and the outcome
    #[arg(long, value_name = "FILE", conflicts_with_all = ["platform", "trace", "model", "policy", "start", "out"])]
    pub scenario: Option<PathBuf>,
    /// Also write rows.csv and summary.csv into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// The examples below the help of `deskgrid simulate`.
pub(crate) const SIMULATE: &str = "\
Examples:
  deskgrid simulate --platform sdsc --policy OPTIMAL,FCFS,EXCL-PRED-TO --tasks 100,200 --size 5m,15m --runs 12
  deskgrid simulate --trace DIR --policy deskgrid --start 14400,21600 --output json
  deskgrid simulate --platform lab --policy EXCL-PRED-TO:revert=0.25 --checkpoint
  deskgrid simulate --scenario deadlines.json --output json
The scheduler is the one that runs live; only the hosts and the time are simulated. Makespans are
compared with the least that is possible on the same trace.";

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

/// The flags of `deskgrid reproduce`.
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

/// The examples below the help of `deskgrid reproduce`.
pub(crate) const REPRODUCE: &str = "\
Examples:
  deskgrid reproduce kondo --quick
  deskgrid reproduce kondo --out kondo-full
  deskgrid reproduce gainaru --log KTH-SP2_log.swf
  deskgrid reproduce downey --log KTH-SP2_log.swf
  deskgrid reproduce wozniak
  deskgrid reproduce petrou
  deskgrid reproduce liars                      what hosts that lie get past a quorum
DIR/report.md says what was done, how the paper was read where it leaves something open, and what
came out beside what the paper says; its figures and tables lie beside it as SVG and CSV.";
