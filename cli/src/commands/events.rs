//! Executes `deskgrid events`: prints what happens, line by line, each event once. A lost
//! connection is made again, and the master goes on after the last event that was printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use common::event::{EventPage, EventView, Following, GridEvent};
use common::selector::Selector;
use common::wire::client::{Reply, Request};
use common::{HostId, IdSet};
use link::Client;
use link::client::unexpected;

use super::Context;
use crate::args::OutputMode;
use crate::args::events::EventsArgs;
use crate::args::value::{OneJob, labelled};
use crate::failure::{Exit, Failure};
use crate::output::json::{EventLine, Json, LostEvents};
use crate::output::when::iso;
use crate::output::{document, note};
use crate::session::Session;
use crate::watch::{Interrupted, WayBack};

/// The names of hosts that events have mentioned.
type Names = BTreeMap<HostId, String>;

/// Prints events until it is ended, or with `--past` until the newest.
pub(super) async fn run(context: &Context, args: EventsArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let jobs = match args.job.map(|jobs| jobs.selector) {
        // Another job may be the last one when the connection is made again.
        Some(Selector::Last) => {
            let last = session.job_id(OneJob::Last).await?;
            Some(Selector::Ids(IdSet::from_iter([last.0])))
        }
        Some(named) => Some(named),
        None => (!args.label.is_empty()).then(|| labelled(args.label)),
    };
    let mut following = Following {
        jobs,
        hosts: args.host,
        after: args.after.or(args.past.then_some(0)),
        results: args.results,
        wait: !args.past,
    };

    let mut way = WayBack::new(&context.state, None);
    let mut client = session.client().clone();
    loop {
        match follow(context, &client, &mut following).await {
            Ok(()) if args.past => return Ok(Exit::Well),
            Ok(()) => note("the master ended the answer; connecting again"),
            Err(Interrupted::Link(error)) if error.passing() => {
                note(&format!("{error}; connecting again"));
            }
            Err(Interrupted::Link(error)) => return Err(error.into()),
            Err(Interrupted::Here(failure)) => return Err(failure),
        }

        let Some(again) = way.connect().await? else {
            return Ok(Exit::Well);
        };
        client = again;
    }
}

/// Prints the events of one stream, and notes in `following` where the next one is to go on.
async fn follow(
    context: &Context,
    client: &Client,
    following: &mut Following,
) -> Result<(), Interrupted> {
    let mut replies = client.stream(&Request::Follow(following.clone())).await?;
    let mut names = Names::new();

    while let Some(reply) = replies.next().await? {
        match reply {
            Reply::Events(EventPage {
                events,
                hosts,
                upto,
            }) => {
                names.extend(hosts);
                let lines = |view: &EventView| line(context, view, &names);
                let lines: String = events.iter().map(lines).collect();
                context
                    .out
                    .bytes(lines.as_bytes())
                    .map_err(Interrupted::Here)?;
                following.after = Some(upto);
            }
            Reply::Lagged { after, from } => {
                gap(context, after, from).map_err(Interrupted::Here)?;
                following.after = Some(from.saturating_sub(1));
            }
            other => return Err(unexpected(Some(&other)).into()),
        }
    }
    Ok(())
}

/// Says that the events after `after` and before `from` are gone.
fn gap(context: &Context, after: u64, from: u64) -> Result<(), Failure> {
    if context.out.mode() == OutputMode::Json {
        let gap = document(&Json(&LostEvents { after, from }));
        return context.out.bytes(format!("{gap}\n").as_bytes());
    }
    let last = from.saturating_sub(1);
    note(&format!(
        "events {} to {last} are not kept any more; deskgrid job list and task list tell how things stand now",
        after.saturating_add(1)
    ));
    Ok(())
}

/// The line of an event.
fn line(context: &Context, view: &EventView, names: &Names) -> String {
    let host = view.event.host().map(|host| {
        names
            .get(&host)
            .cloned()
            .unwrap_or_else(|| host.to_string())
    });
    match context.out.mode() {
        OutputMode::Json => format!("{}\n", document(&Json(&EventLine { view, host }))),
        OutputMode::Quiet => format!("{}\n", view.seq),
        OutputMode::Cli => {
            let at = iso(view.at);
            let at = at.get(..19).unwrap_or(&at);
            let mut line = format!("{:>8}  {at}Z  {}", view.seq, words(&view.event, host));
            if let Some(why) = view.event.why() {
                let _ = write!(line, " ({why})");
            }
            line.push('\n');
            line
        }
    }
}

/// The event in words, without its reason.
pub(super) fn words(event: &GridEvent, host: Option<String>) -> String {
    let host = host.unwrap_or_default();
    match event {
        GridEvent::JobSubmitted { job, user, tasks } => {
            let s = if *tasks == 1 { "" } else { "s" };
            format!("job {job} submitted by {user}: {tasks} task{s}")
        }
        GridEvent::JobStarted { job } => format!("job {job} started"),
        GridEvent::JobSettled { job, state } => format!("job {job} {state}"),
        GridEvent::JobForgotten { job, .. } => format!("job {job} forgotten"),
        GridEvent::TaskAssigned { attempt, .. } => format!("{attempt} assigned to {host}"),
        GridEvent::TaskRunning { attempt, .. } => format!("{attempt} runs on {host}"),
        GridEvent::TaskSuspended { attempt, .. } => format!("{attempt} suspended on {host}"),
        GridEvent::TaskResumed { attempt, .. } => format!("{attempt} goes on on {host}"),
        GridEvent::AttemptEnded { attempt, state, .. } => {
            format!("{attempt} {state} on {host}")
        }
        GridEvent::TaskFinished { attempt, .. } => {
            format!("task {} finished on {host}", attempt.task)
        }
        GridEvent::TaskFailed { task, .. } => format!("task {task} failed"),
        GridEvent::TasksCancelled { job, tasks, .. } => {
            format!("tasks {tasks} of job {job} cancelled")
        }
        GridEvent::TasksReopened { job, tasks } => {
            format!("tasks {tasks} of job {job} wait again")
        }
        GridEvent::TasksAdded { job, tasks } => format!("tasks {tasks} added to job {job}"),
        GridEvent::JobClosed { job } => format!("job {job} closed"),
        GridEvent::HostChanged { state, .. } => format!("host {host} {state}"),
        GridEvent::Restored => "the master was started on a copy of its store".to_owned(),
    }
}
