//! Events of the grid, as server-sent events: the id of each is its sequence number, so that a reader that
//! comes back goes on where it was.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use common::HostId;
use common::event::{EventPage, EventView, Following};
use common::needs::Label;
use common::selector::Selector;
use common::wire::client::{Reply, Request};
use common::wire::{Refusal, RefusalCode};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::list::Commas;
use crate::answer::{EventStream, PieceFlow};
use crate::call::Call;
use crate::door::Replies;
use crate::json::{EventLine, LostEvents, Object, document};
use crate::problem::Problem;
use crate::table::{NoBody, Table};

/// The longest time without a word: proxies end a connection on which nothing comes.
const QUIET: Duration = Duration::from_secs(15);

/// The pauses between two tries to reach a master that is away.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(super) fn add(table: &mut Table) {
    table
        .get("/events", "events")
        .about("Sends what happens, as it happens. `Last-Event-ID` goes on after an event.")
        .serve(events);
}

/// The events that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// Only events of these jobs, such as `7` or `1-10`.
    job: Option<String>,
    /// Only events of jobs with all of these labels, with commas between them.
    #[serde(default)]
    label: Commas<Label>,
    /// Only events of this host, such as `desk-3`.
    host: Option<String>,
    /// Begin after the event with this number; without it, with what happens from now on.
    after: Option<u64>,
    /// Whether short results come with the events of their tasks.
    #[serde(default)]
    results: bool,
}

async fn events(call: Call, query: EventsQuery, _: NoBody) -> Result<EventStream, Problem> {
    // A reader that has seen no event yet sends an empty one, or none.
    let last = call.headers.get("last-event-id");
    let after = match last.filter(|id| !id.is_empty()) {
        None => query.after,
        Some(id) => {
            let id = id.to_str().ok().and_then(|id| id.parse().ok());
            Some(id.ok_or_else(|| {
                let hint = "send the id of the last event that came";
                Problem::invalid("Last-Event-ID is no number of an event", hint)
            })?)
        }
    };

    let jobs = match (query.job, query.label.0) {
        (Some(_), labels) if !labels.is_empty() => {
            let hint = "give one of them";
            return Err(Problem::senseless("job and label both name jobs", hint));
        }
        (Some(jobs), _) => {
            let jobs = jobs.parse::<Selector>();
            let jobs = jobs.map_err(|error| Problem::senseless(error.to_string(), ""))?;
            Some(match jobs {
                // Another job may be the last one when the master is asked again.
                Selector::Last => {
                    let last = call.grid.jobs(Selector::Last, Vec::new()).await?;
                    Selector::Ids(last.iter().map(|view| view.job.0).collect())
                }
                named => named,
            })
        }
        (None, labels) => {
            (!labels.is_empty()).then(|| Selector::Labelled(labels.into_iter().collect()))
        }
    };
    let following = Following {
        jobs,
        hosts: query.host.into_iter().collect(),
        after,
        results: query.results,
        wait: true,
    };

    // A refusal is an answer of its own, before anything is sent.
    let mut replies = call.grid.ask(Request::Follow(following.clone()));
    let first = replies.recv().await.ok_or_else(Problem::unexpected)??;
    let (tx, rx) = mpsc::channel(4);
    let feed = Feed {
        call,
        following,
        names: BTreeMap::new(),
        tx,
    };
    tokio::spawn(feed.run(first, replies));
    Ok(EventStream(PieceFlow(rx)))
}

/// Events on their way to one reader.
struct Feed {
    call: Call,
    /// The events that are wanted, after the last one that was sent.
    following: Following,
    /// The names of hosts that events have mentioned.
    names: BTreeMap<HostId, String>,
    tx: mpsc::Sender<Result<Bytes, Refusal>>,
}

impl Feed {
    async fn run(mut self, first: Reply, mut replies: Replies) {
        let mut next: Option<Result<Reply, Refusal>> = Some(Ok(first));
        loop {
            let text = match next {
                Some(Ok(Reply::Events(page))) => self.page(page),
                Some(Ok(Reply::Lagged { after, from })) => self.lost(after, from),
                Some(Err(refusal)) if refusal.code != RefusalCode::Unavailable => {
                    return self.break_off(refusal).await;
                }
                // The master is away: the reader is held until it is back.
                Some(Err(_)) | None => match self.again().await {
                    Some((first, rest)) => {
                        replies = rest;
                        next = Some(Ok(first));
                        continue;
                    }
                    None => return,
                },
                Some(Ok(_)) => return,
            };
            if self.tx.send(Ok(text.into())).await.is_err() {
                return;
            }

            match self.next(&mut replies).await {
                Some(reply) => next = reply,
                None => return,
            }
        }
    }

    /// Waits for the next reply, and says a word now and then; `None` if the reader has gone.
    async fn next(&self, replies: &mut Replies) -> Option<Option<Result<Reply, Refusal>>> {
        loop {
            tokio::select! {
                reply = replies.recv() => return Some(reply),
                () = tokio::time::sleep(QUIET) => if !self.still_there().await {
                    return None;
                },
                () = self.tx.closed() => return None,
            }
        }
    }

    /// Ends the answer so that its reader learns that it cannot go on.
    async fn break_off(&self, why: Refusal) {
        let _ = self.tx.send(Err(why)).await;
    }

    /// Sends a word that is no event; returns whether somebody is there to read it.
    async fn still_there(&self) -> bool {
        self.tx.send(Ok(Bytes::from_static(b":\n\n"))).await.is_ok()
    }

    /// Asks again for what comes after the last event, until the master answers; `None` if it
    /// refuses, or the reader has gone.
    async fn again(&self) -> Option<(Reply, Replies)> {
        let mut pause = FIRST_PAUSE;

        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.tx.closed() => return None,
            }
            if !self.still_there().await {
                return None;
            }
            let mut replies = self.call.grid.ask(Request::Follow(self.following.clone()));
            match self.next(&mut replies).await? {
                Some(Ok(first)) => return Some((first, replies)),
                Some(Err(refusal)) if refusal.code != RefusalCode::Unavailable => {
                    self.break_off(refusal).await;
                    return None;
                }
                _ => pause = (2 * pause).min(LONGEST_PAUSE),
            }
        }
    }

    /// The events of a page, and the number up to which the reader has them all.
    fn page(&mut self, page: EventPage) -> String {
        self.following.after = Some(page.upto);
        self.names.extend(page.hosts);
        let mut text = String::new();
        for view in &page.events {
            let name = view.event.name();
            let line = document(&self.line(view).json());
            let _ = write!(text, "id: {}\nevent: {name}\ndata: {line}\n\n", view.seq);
        }
        let _ = write!(text, "id: {}\n\n", page.upto);
        text
    }

    fn line<'a>(&self, view: &'a EventView) -> EventLine<'a> {
        let host = view.event.host().map(|host| {
            let name = self.names.get(&host).cloned();
            name.unwrap_or_else(|| host.to_string())
        });
        EventLine { view, host }
    }

    /// Says that events are gone which the reader has not had.
    fn lost(&mut self, after: u64, from: u64) -> String {
        let line = document(&LostEvents { after, from }.json());
        let last = from.saturating_sub(1);
        self.following.after = Some(last);
        format!("id: {last}\nevent: lagged\ndata: {line}\n\n")
    }
}
