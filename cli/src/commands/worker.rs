//! Executes `deskgrid worker start`.

use super::login::{Who, identity};
use super::{Context, shutdown};
use crate::args::serve::WorkerArgs;
use crate::failure::{Exit, Failure};

/// Joins the grid if needed, then works until it is stopped.
pub(super) async fn start(context: &Context, args: WorkerArgs) -> Result<Exit, Failure> {
    let mut config = args
        .config
        .as_deref()
        .map(worker::Config::load)
        .transpose()?
        .unwrap_or_default();
    if let Some(slots) = args.slots {
        config.slots = slots;
    }

    let dir = context.state.worker();
    worker::repair(&dir);

    let (identity, _) = identity(&dir.join("identity"), context, &args.enrol, Who::Worker).await?;
    worker::run(dir, config, identity, shutdown(args.tied)).await?;
    Ok(Exit::Well)
}
