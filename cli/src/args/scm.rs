//! Defines the flags of `deskgrid worker install` and its like on Windows, where a service is known
//! by its name.

use std::path::PathBuf;

use clap::Args;

/// The service's name, and whether to carry out the plan.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceArgs {
    /// The service's name, and that of its two directories
    #[arg(long = "service", value_name = "NAME", default_value = "deskgrid")]
    pub service: String,
    /// Carry out the plan instead of only printing it
    #[arg(long)]
    pub yes: bool,
}

/// The flags of `deskgrid worker service`, which only the system's service manager runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// The service's name
    #[arg(long = "service", value_name = "NAME", default_value = "deskgrid")]
    pub service: String,
    /// Number of tasks that run at a time
    #[arg(long, value_name = "N")]
    pub slots: Option<u32>,
    /// A TOML file with settings
    #[arg(long, value_name = "F")]
    pub config: Option<PathBuf>,
    /// Compute at any time: nobody sits at this PC
    #[arg(long)]
    pub dedicated: bool,
    /// A TOML file to join by at the first start
    #[arg(long, value_name = "F")]
    pub first_start: Option<PathBuf>,
}
