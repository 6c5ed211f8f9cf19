//! Executes `deskgrid bridge start`.

use std::path::Path;

use common::token::Role;

use super::gateway::GIB;
use super::login::{Newcomer, check_role, identity, with_start};
use super::{Context, shutdown};
use crate::args::bridge::BridgeArgs;
use crate::failure::{Exit, Failure};
use crate::state::StateDir;

/// Joins the first grid if needed, then carries attempts to the other one until it is stopped.
pub(super) async fn start(context: &Context, args: BridgeArgs) -> Result<Exit, Failure> {
    let stop = shutdown(args.tied);
    let user = match &args.user_dir {
        Some(dir) => StateDir::at(dir.clone()).client(),
        None => context.state.client(),
    };
    let known = link::Identity::load(&user).map_err(|error| no_user(error.into()))?;
    check_role(&user, known.link.role, Newcomer::User)?;

    let dir = context.state.bridge();
    let home = dir.join("identity");
    let joined = identity(&home, context, &args.enrol, Newcomer::Worker).await;
    let (identity, _) = joined.map_err(|failure| as_bridge(failure, &home))?;
    let config = bridge::BridgeConfig {
        slots: args.slots,
        cache_bytes: (args.cache * GIB) as u64,
        user,
    };
    bridge::run(dir, config, identity, stop)
        .await
        .map_err(|error| as_bridge(error.into(), &home))?;
    Ok(Exit::Well)
}

/// Says how a bridge becomes a user of the other grid.
fn no_user(failure: Failure) -> Failure {
    if failure.code != "no-identity" {
        return failure;
    }
    let hint = "be a user of the other grid first: deskgrid login --master HOST:PORT --join @FILE, with the same --dir; or name the \
                state directory of one with --user-dir"
        .to_owned();
    Failure { hint, ..failure }
}

/// Gives a refused bridge the command with which it joins again.
fn as_bridge(failure: Failure, home: &Path) -> Failure {
    if !matches!(failure.code, "no-identity" | "no-token") {
        return with_start(failure, Role::Worker, "bridge start --slots N", home);
    }
    let hint = "deskgrid bridge start --slots N --master HOST:PORT --join @FILE, with a token of the grid that gives tasks (deskgrid \
                token create --role worker)"
        .to_owned();
    Failure { hint, ..failure }
}
