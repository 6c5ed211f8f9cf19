//! Defines the flags of `deskgrid account`.

use clap::Args;

/// The examples below the help of `deskgrid account`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  deskgrid account
  deskgrid account --jobs                     job by job as well
  deskgrid account --user ada --output json   an admin looks at another user's
TASKS are those that were tried or requested; FINISHED is how many were both requested and executed.
Times are seconds of processors. USED is what the tasks took, BILLED what of it was requested, FREE the rest; SCALED is USED \
by BILLED, and by what was waited for. WAITED is \
how long results were waited for, on average, after they were requested, and SLOWDOWN that by what the task took.
Estimates are by user and program. TOOK/ESTIMATED is what tasks took by what was estimated: the median, and the ends of \
the middle 80 %. QOE is the smallest Q for which nine of ten tasks satisfy |estimate - time| / estimate <= Q.";

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
