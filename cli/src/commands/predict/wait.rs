//! Executes `deskgrid predict wait`: asks the master when a number of hosts will be free at once.
//! The predictor lives in `scheduler::malleable`.

use api::json::Object;
use common::wire::client::{Reply, Request};

use crate::args::predict::PredictWaitArgs;
use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::output::waits::show_wait;
use crate::session::{Session, answer};

/// Prints when so many hosts will be free, by the master's answer.
pub(super) async fn wait(context: &Context, args: &PredictWaitArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let hosts = args.width;
    let reply = session.one(&Request::HostsWait { hosts }).await?;
    let view = answer!(reply, Reply::HostsWait)?;
    session.close().await;

    show_wait(view.json(), &context.out, &args.work)?;
    Ok(Exit::Well)
}
