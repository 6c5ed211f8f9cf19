//! Executes `deskgrid top`: a live picture of jobs, tasks, hosts and events on a terminal. `App` is a pure state
//! machine, of keys and news on one side and requests and pictures on the other; around it are `line`,
//! which talks to the master, and `screen`, which has the terminal.

mod app;
mod ask;
mod board;
mod draw;
mod events;
mod hosts;
mod jobs;
mod keys;
mod line;
mod log;
mod look;
mod news;
mod once;
mod rehearsal;
mod screen;
mod tasks;
#[cfg(test)]
mod tests;
mod text;
mod wants;

use std::io::IsTerminal;
use std::time::Instant;

use common::Span;

use self::app::{App, Tab};
use self::ask::TopMoment;
pub use self::rehearsal::{Rehearsed, rehearse_top};
use super::Context;
use crate::args::OutputMode;
use crate::args::top::{StartTab, TopArgs};
use crate::failure::{Exit, Failure};
use crate::output::when;
use crate::session::Session;

/// Shows the picture until somebody quits, or one picture with `--once`.
pub(super) async fn run(context: &Context, args: TopArgs) -> Result<Exit, Failure> {
    if context.out.mode() != OutputMode::Cli {
        let what = "top draws pictures for people, in no other form";
        let hint = "scripts read: deskgrid --output json job list, host list, events";
        return Err(Failure::usage(what, hint));
    }
    if !args.once {
        on_a_terminal()?;
    }

    let session = Session::open(&context.state).await?;
    let job = match args.job {
        Some(job) => Some(session.job_id(job).await?),
        None => None,
    };
    let clock = TopClock(Instant::now());
    let colours = context.out.color();
    let client = session.client();
    let mut app = App::new(
        session.master(),
        client.user(),
        client.role(),
        colours,
        clock.now(),
    );
    match (job, args.show) {
        (Some(job), _) => app.open_job(job, None),
        (None, StartTab::Jobs) => {}
        (None, StartTab::Hosts) => app.show_tab(Tab::Hosts),
        (None, StartTab::Events) => app.show_tab(Tab::Events),
    }

    let line = line::MasterLine::new(&context.state, session.client().clone());
    match args.once {
        true => once::run(context, app, line, clock).await?,
        false => screen::run(app, line, clock).await?,
    }
    Ok(Exit::Well)
}

/// Makes sure that there is a terminal that can show a picture.
fn on_a_terminal() -> Result<(), Failure> {
    let hint = "deskgrid top --once prints one picture as text";
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Failure::usage(
            "top needs a terminal for its keys and pictures",
            hint,
        ));
    }
    let kind = std::env::var("TERM").unwrap_or_default();

    if kind == "dumb" || (cfg!(unix) && kind.is_empty()) {
        let what = format!("this terminal shows no pictures (TERM is `{kind}`)");
        return Err(Failure::usage(what, hint));
    }
    Ok(())
}

/// Tells the time.
#[derive(Debug, Clone, Copy)]
struct TopClock(Instant);

impl TopClock {
    fn now(self) -> TopMoment {
        TopMoment {
            wall: when::now(),
            up: Span::from(self.0.elapsed()),
        }
    }
}
