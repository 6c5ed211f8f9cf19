//! Defines the flags of `deskgrid events`.

use clap::Args;
use common::needs::Label;

use super::value::JobSelection;

/// The examples below the help of `deskgrid events`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  deskgrid events --job last
  deskgrid events --label sweep7
  deskgrid events --past                           # all that is kept
  deskgrid --output json events --after 4711       # goes on behind that one
  deskgrid --output json events --job 7 --results  # with what tasks printed
Each event is a line, with --output json a JSON value of its own. The first column is its number: go on after the last \
one that you have seen, and none is missed or seen twice. It outlives a restart of the master: it connects again by itself. \
You are told of your own jobs and those shared with you, an admin of all and of hosts.";

/// The flags of `deskgrid events`.
#[derive(Debug, Clone, Args)]
pub(crate) struct EventsArgs {
    /// Only events of these jobs and of their tasks: 7, 1-10, 1,3,5-8, all, last
    #[arg(long, value_name = "JOBS")]
    pub job: Option<JobSelection>,
    /// Only events of jobs with this label, also of those that are submitted later (given several
    /// times: with all of these labels) [repeatable]
    #[arg(long, value_name = "LABEL", conflicts_with = "job")]
    pub label: Vec<Label>,
    /// Only events of this host and of tasks there [repeatable]
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// Begin after the event with this number; 0: with the oldest that is kept [default: with what
    /// happens next]
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
    /// End with the newest event, instead of waiting for more; begins with the oldest one unless
    /// --after is given
    #[arg(long)]
    pub past: bool,
    /// With the end of each task its result, if that has at most 64 KiB (--output json)
    #[arg(long)]
    pub results: bool,
}
