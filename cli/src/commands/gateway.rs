//! Executes `deskgrid gateway start`.

use common::token::Role;

use super::login::{Newcomer, identity, with_start};
use super::{Context, shutdown};
use crate::args::serve::GatewayArgs;
use crate::failure::{Exit, Failure};

/// The bytes of a GiB.
pub(super) const GIB: f64 = (1u64 << 30) as f64;

/// Joins the grid if needed, then passes workers on until it is stopped.
pub(super) async fn start(context: &Context, args: GatewayArgs) -> Result<Exit, Failure> {
    let stop = shutdown(args.tied);
    let dir = context.state.gateway();
    let home = dir.join("identity");
    let as_gateway = |failure| with_start(failure, Role::Gateway, "gateway start", &home);
    let (identity, _) = identity(&home, context, &args.enrol, Newcomer::Gateway)
        .await
        .map_err(as_gateway)?;

    let config = gateway::Config {
        listen: args.listen,
        cache_bytes: (args.cache * GIB) as u64,
        most_workers: args.most_workers as usize,
    };
    gateway::run(dir, config, identity, stop)
        .await
        .map_err(|error| as_gateway(error.into()))?;
    Ok(Exit::Well)
}
