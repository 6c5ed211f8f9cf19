//! The arguments of `deskgrid bridge`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::serve::{EnrolArgs, gibibytes};

/// `deskgrid bridge`.
#[derive(Debug, Subcommand)]
pub(crate) enum BridgeCommand {
    /// Run a bridge in the foreground; it joins once and needs no token later
    #[command(after_help = "\
Examples:
  deskgrid login --master b:7411 --join @token-of-b     # as a user of grid B
  deskgrid bridge start --slots 20 --master a:7411 --join @token-of-a
  deskgrid bridge start --slots 20                      # later: it knows both
It is a host of grid A with so many slots, and a user of grid B, whose limits hold (docs/bridge.md).")]
    Start(BridgeArgs),
}

/// `deskgrid bridge start`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BridgeArgs {
    /// How to join the grid that gives tasks, for the first start.
    #[command(flatten)]
    pub enrol: EnrolArgs,
    /// Most tasks in the other grid at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5_000))]
    pub slots: u32,
    /// State directory (as --dir) of the user in the other grid [default: that of the bridge]
    #[arg(long, value_name = "DIR")]
    pub user_dir: Option<PathBuf>,
    /// Most space for inputs that are kept, in GiB
    #[arg(long, value_name = "GIB", default_value_t = 20.0, value_parser = gibibytes)]
    pub cache: f64,
    /// Shut down when standard input ends, so that nothing outlives whoever started it.
    #[arg(long, hide = true)]
    pub tied: bool,
}
