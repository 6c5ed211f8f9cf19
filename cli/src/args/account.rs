//! Defines the flags of `deskgrid account`.

use clap::Args;

/// The examples below the help of `deskgrid account`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  deskgrid account
  deskgrid account --jobs                     # job by job as well
  deskgrid account --user ada --output json   # an admin looks at another user's
TASKS are those that were tried or requested; FINISHED is how many were both requested and executed.
Processor times and waits are in seconds. USED is what the tasks took, BILLED the requested part of it, FREE the rest. USED/BILLED is \
the first divided by the second, USED/WAITED FOR the first divided by what the tasks took whose results somebody waited for. WAITED is the mean time from a request to its \
result, and SLOWDOWN that time divided by the task's run time. P90: nine in ten are below.
Estimates are by user and program. TOOK/ESTIMATED is the run time of tasks divided by their estimates: the median, and the \
ends of the middle 80 %. OFF BY is the part of its estimate by which the time of nine in ten tasks differs from it at most (`qoe` \
in JSON, from quality of estimates): the smaller, the better.";

/// The flags of `deskgrid account`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AccountArgs {
    /// Print this user's account [default: yours; an admin's are everybody's]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Also print each job that is not forgotten
    #[arg(long)]
    pub jobs: bool,
}
