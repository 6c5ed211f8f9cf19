//! The words of `deskgrid worker install` and its like on Windows, where a service is known by its
//! name.

use std::path::PathBuf;

use clap::Args;

/// Which service it is, and whether to touch it.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceArgs {
    /// The service's name, and that of its two directories
    #[arg(long = "service", value_name = "NAME", default_value = "deskgrid")]
    pub service: String,
    /// Do it
    #[arg(long)]
    pub yes: bool,
}

/// `deskgrid worker service`: for nobody but the system's service manager.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// The service's name
    #[arg(long = "service", value_name = "NAME", default_value = "deskgrid")]
    pub service: String,
    /// How many tasks at a time
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
    /// A TOML file with settings
    #[arg(long, value_name = "F")]
    pub config: Option<PathBuf>,
}
