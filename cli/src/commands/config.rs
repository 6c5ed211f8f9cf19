//! Executes `deskgrid master config` and `worker config`: prints the shipped settings, which this
//! program carries.

use serde::Serialize;

use super::Context;
use crate::args::serve::Like;
use crate::failure::{Exit, Failure};

const MASTER: &str = include_str!("../../../configs/master.toml");
const WORKER: &str = include_str!("../../../configs/worker.toml");
const BOINC: &str = include_str!("../../../configs/worker-boinc.toml");
const HTCONDOR: &str = include_str!("../../../configs/worker-htcondor.toml");
pub(super) const DEDICATED: &str = include_str!("../../../configs/worker-dedicated.toml");

#[derive(Serialize)]
struct Shipped {
    /// The text of the file.
    config: &'static str,
}

/// Prints the settings of a master.
pub(super) fn master(context: &Context) -> Result<Exit, Failure> {
    show(context, MASTER)
}

/// Prints the settings of a worker.
pub(super) fn worker(context: &Context, like: Option<Like>) -> Result<Exit, Failure> {
    show(
        context,
        match like {
            None => WORKER,
            Some(Like::Boinc) => BOINC,
            Some(Like::Htcondor) => HTCONDOR,
            Some(Like::Dedicated) => DEDICATED,
        },
    )
}

/// Prints the settings for workers that can come from a master.
#[cfg(feature = "whole")]
pub(super) fn site(context: &Context) -> Result<Exit, Failure> {
    show(context, super::host_settings::EXAMPLE)
}

fn show(context: &Context, config: &'static str) -> Result<Exit, Failure> {
    context.show(
        &Shipped { config },
        || config.to_owned(),
        || vec![config.to_owned()],
    )
}
