//! Defines the flags of `deskgrid dashboard`.

#[cfg(unix)]
use std::path::PathBuf;

use clap::Args;

/// The examples below the help of `deskgrid dashboard`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  deskgrid dashboard                  # opens a browser; Enter: another address
  deskgrid dashboard --no-open --port 8080
  deskgrid --output json dashboard --no-open > gateway.json &
  curl --unix-socket $(jq -r .socket gateway.json) http://d/api/v1/jobs
It acts as you, for as long as it runs. The address lets one browser in, within a minute; programs use the socket, which only \
you can open. docs/api.md says what there is.";

/// The flags of `deskgrid dashboard`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DashboardArgs {
    /// Only print the address, and open no browser
    #[arg(long)]
    pub no_open: bool,
    /// Put the socket for programs here [default: in a directory of its own]
    #[cfg(unix)]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Listen on this port of the loopback address [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Shut down when standard input ends, so that nothing outlives whoever started it.
    #[arg(long, hide = true)]
    pub tied: bool,
}
