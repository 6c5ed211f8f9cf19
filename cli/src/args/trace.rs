//! Defines the flags of `deskgrid trace`, which reads and writes availability traces of hosts in
//! several formats.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::value::TimePoint;

/// The verbs of `deskgrid trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Export the availability of the master's hosts, or convert a trace to another format
    #[command(after_help = "\
Examples:
  deskgrid trace export --format csv --out march --since 2026-03-02
  deskgrid trace export --format fta --out tables --since 30d --hosts pc-1,pc-2
  deskgrid trace export --format parquet --out columns --from march
Admins only, without --from: it says when people were at their desks.
What each format can hold, and what it loses, is told in docs/traces.md.")]
    Export(ExportArgs),
    /// Import a foreign trace into the format that simulate and stats take: DIR/hosts.csv and
    /// DIR/availability.csv
    #[command(after_help = "\
Examples:
  deskgrid trace import --format fta lanl05_event_trace.tab --out lanl05
  deskgrid trace import --format boinc /var/lib/boinc/time_stats_log --out mine
Then: deskgrid simulate --trace lanl05 --policy deskgrid")]
    Import(ImportArgs),
    /// Print statistics of a trace's hosts: how long they stay, how long they are away, how often
    /// tasks fail
    #[command(after_help = "\
Examples:
  deskgrid trace stats --since 7d
  deskgrid trace stats --format fta lanl05_event_trace.tab --svg figures
  deskgrid trace stats --platform sdsc --model heavy-failure
Without a PATH the statistics are those of the master's own hosts, for admins only. With a --platform or --model they are \
those of a generated platform, beside the figures of the paper that the default model was fitted to.")]
    Stats(StatsArgs),
}

/// The part of a recorded trace to take.
#[derive(Debug, Args)]
pub(crate) struct PartArgs {
    /// Start at this time: a date and time (UTC unless it says otherwise), or a duration ago such
    /// as 7d
    #[arg(long, value_name = "WHEN")]
    pub since: Option<TimePoint>,
    /// End at this time [default: now]
    #[arg(long, value_name = "WHEN")]
    pub until: Option<TimePoint>,
    /// Take only these hosts
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub hosts: Vec<String>,
}

/// The flags of `deskgrid trace export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write this format
    #[arg(long, value_name = "FORMAT")]
    pub format: TraceFormat,
    /// Write into this directory
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Replace files that are there already and differ
    #[arg(long)]
    pub force: bool,
    /// The part of the trace to export.
    #[command(flatten)]
    pub part: PartArgs,
    /// Convert this trace instead of the master's record
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// The format of the trace in --from
    #[arg(long, value_name = "FORMAT", default_value = "csv", requires = "from")]
    pub from_format: Read,
}

/// The flags of `deskgrid trace import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The format of the trace
    #[arg(long, value_name = "FORMAT")]
    pub format: Read,
    /// The trace: a file, or a directory where the format has several files
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// The directory for hosts.csv and availability.csv
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Replace files that are there already and differ
    #[arg(long)]
    pub force: bool,
}

/// The flags of `deskgrid trace stats`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("generated").args(["platform", "model"]).multiple(true))]
pub(crate) struct StatsArgs {
    /// The trace
    #[arg(value_name = "PATH", conflicts_with_all = ["platform", "model"])]
    pub path: Option<PathBuf>,
    /// The format of the trace
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    #[arg(requires = "path", conflicts_with_all = ["platform", "model"])]
    pub format: Read,
    /// The part of the trace to measure; generated hosts have none.
    #[command(flatten)]
    pub part: PartArgs,
    /// Also draw figures into this directory
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Replace figures that are there already and differ
    #[arg(long, requires = "svg")]
    pub force: bool,
    /// Generated hosts: sdsc, gimps, lri-wisc, homogeneous, internet-2016 or lab [default: sdsc, if
    /// a model is named]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["since", "until", "hosts"])]
    pub platform: Option<String>,
    /// Availability of the generated hosts [default: default, if a platform is named]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["since", "until", "hosts"])]
    pub model: Option<String>,
    /// Seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(requires = "generated", conflicts_with = "path")]
    pub seed: u64,
}

/// A format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// Tables of the Failure Trace Archive
    Fta,
    /// Godfrey's format: the intervals in which hosts are up
    Avt,
    /// Profiles for SimGrid, and a platform that names them
    Simgrid,
    /// hosts.csv and availability.csv
    Csv,
    /// One table of columns: availability.parquet
    Parquet,
}

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Read {
    /// Tables of the Failure Trace Archive: their directory, or the file of event_trace
    Fta,
    /// Godfrey's format: the intervals in which hosts are up
    Avt,
    /// A directory with hosts.csv and availability.csv
    Csv,
    /// BOINC's time_stats_log, or a directory with one for each host
    #[value(alias = "time-stats-log")]
    Boinc,
    /// The export of ActivityWatch's AFK watcher, as JSON
    #[value(alias = "afk")]
    Activitywatch,
}

impl TraceFormat {
    /// Returns the name of the format, as written after `--format`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            TraceFormat::Fta => "fta",
            TraceFormat::Avt => "avt",
            TraceFormat::Simgrid => "simgrid",
            TraceFormat::Csv => "csv",
            TraceFormat::Parquet => "parquet",
        }
    }
}
