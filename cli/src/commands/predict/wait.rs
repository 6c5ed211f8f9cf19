//! Executes `deskgrid predict wait`: asks the master when a number of hosts will be free at once.
//! The predictor lives in `scheduler::malleable`.

use common::Span;
use common::wire::client::{Reply, Request};
use link::client::unexpected;
use simulator::batch::HELD;

use crate::args::predict::PredictWaitArgs;
use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::output::waits::{PredictedWait, WaitInterval};
use crate::session::Session;

/// Prints when so many hosts will be free, by the master's answer.
pub(super) async fn wait(context: &Context, args: &PredictWaitArgs) -> Result<Exit, Failure> {
    let answer = live(context, args.width).await?;
    answer.show(&context.out, &args.work)?;
    Ok(Exit::Well)
}

async fn live(context: &Context, hosts: u32) -> Result<PredictedWait, Failure> {
    let session = Session::open(&context.state).await?;
    let view = match session.one(&Request::HostsWait { hosts }).await? {
        Reply::HostsWait(view) => view,
        other => return Err(unexpected(Some(&other)).into()),
    };

    session.close().await;
    let time = |span: Option<Span>| span.map(Span::secs);
    Ok(PredictedWait {
        width: view.wanted,
        need: view.wanted.saturating_sub(view.free),
        free: view.free,
        hosts: view.hosts,
        benefactors: view.benefactors,
        median_s: time(view.median),
        mean_s: time(view.mean),
        used: time(view.used),
        interval: WaitInterval {
            held: HELD,
            low: time(view.low),
            median: time(view.likely),
            high: time(view.high),
        },
        run_s: None,
        total_s: None,
    })
}
