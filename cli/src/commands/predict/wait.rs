//! Executes `deskgrid predict wait`: asks the master when a number of hosts will be free at once.
//! The predictor lives in `scheduler::malleable`.

use api::json::Object;
use common::wire::client::{Reply, Request};
use link::client::unexpected;

use crate::args::predict::PredictWaitArgs;
use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::output::waits::{PredictedWait, show_wait};
use crate::session::Session;

/// Prints when so many hosts will be free, by the master's answer.
pub(super) async fn wait(context: &Context, args: &PredictWaitArgs) -> Result<Exit, Failure> {
    let answer = live(context, args.width).await?;
    show_wait(answer, &context.out, &args.work)?;
    Ok(Exit::Well)
}

async fn live(context: &Context, hosts: u32) -> Result<PredictedWait, Failure> {
    let session = Session::open(&context.state).await?;
    let view = match session.one(&Request::HostsWait { hosts }).await? {
        Reply::HostsWait(view) => view,
        other => return Err(unexpected(Some(&other)).into()),
    };

    session.close().await;
    Ok(view.json())
}
