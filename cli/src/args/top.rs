//! Defines the flags of `deskgrid top`.

use clap::{Args, ValueEnum};

use super::value::OneJob;

/// The examples below the help of `deskgrid top`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  deskgrid top
  deskgrid top --job last           # the tasks of the newest job
  deskgrid top --once --show hosts  # one picture, as text
Keys: 1 2 3 4 show jobs, tasks, hosts and events; Enter opens, Esc goes back, w says why, l shows what a task prints, ? has all \
keys. The grid does not notice whether you look; what you may see and do is what other commands let you see and do.";

/// The flags of `deskgrid top`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopArgs {
    /// Print one picture as text and end; without a terminal its size is COLUMNS x LINES [default:
    /// 120 x 40]
    #[arg(long)]
    pub once: bool,
    /// Begin with these: jobs, hosts or events
    #[arg(long, value_name = "TAB", default_value = "jobs")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub show: StartTab,
    /// Begin with the tasks of this job: a number, or last
    #[arg(long, value_name = "JOB", conflicts_with = "show")]
    pub job: Option<OneJob>,
}

/// The tab that is shown first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StartTab {
    /// Jobs.
    Jobs,
    /// Hosts.
    Hosts,
    /// Events.
    Events,
}
