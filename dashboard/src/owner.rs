//! The page for the owner of a PC: what the worker does there, since when and why, buttons to say
//! no, and the day so far. It speaks with the worker of the same PC alone, and needs no master.
//!
//! Not here: how the worker is asked ([`OwnerDoor`]), and who is let in ([`api::site`]).

mod day;
mod sentence;
mod site;
mod updates;

use std::sync::Arc;

use api::{Coming, Problem, SitePages};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use common::Time;
use common::owner::StatusReport;
use common::text::printable;
use maud::{Markup, html};

use crate::shell::{Frame, Renewal, answer, lay_out};

/// The length of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseLength {
    /// An hour from now.
    Hour,
    /// Until midnight.
    Today,
    /// Until the owner ends it.
    Good,
}

/// The reason why there is no report of a worker.
#[derive(Debug, Clone)]
pub enum NoReport {
    /// No worker runs; the next one is paused if this names its switch.
    NotRunning(Option<String>),
    /// It cannot be asked; says why.
    Unknown(String),
}

/// The worker of this PC, for its owner.
pub trait OwnerDoor: Send + Sync + 'static {
    /// Returns the worker's state.
    fn look(&self) -> Coming<'_, Result<StatusReport, NoReport>>;

    /// Pauses the worker, or the next one if none runs. Fails with the reason.
    fn pause(&self, length: PauseLength) -> Coming<'_, Result<(), String>>;

    /// Ends the owner's pause. Fails with the reason.
    fn resume(&self) -> Coming<'_, Result<(), String>>;
}

/// The buttons that pause: the last part of the path, the length, and the word.
const PAUSES: [(&str, PauseLength, &str); 3] = [
    ("hour", PauseLength::Hour, "Pause for an hour"),
    ("today", PauseLength::Today, "Pause for today"),
    ("good", PauseLength::Good, "Pause for good"),
];

/// The page of the worker behind `door`.
pub fn pages(door: Arc<dyn OwnerDoor>) -> SitePages {
    let pages = Router::new()
        .route("/", get(page))
        .route("/pause/{length}", post(pause))
        .route("/resume", post(resume))
        .with_state(door);
    SitePages {
        pages,
        files: crate::files(),
    }
}

type Worker = State<Arc<dyn OwnerDoor>>;

async fn page(worker: Worker, headers: HeaderMap) -> Response {
    let (title, body) = match worker.look().await {
        Ok(report) => (sentence::title(&report), there(&report)),
        Err(NoReport::NotRunning(paused)) => ("not running".to_owned(), gone(paused.as_deref())),
        Err(NoReport::Unknown(why)) => return failed(&why, Renewal::Always),
    };
    let page = lay_out(&title, &frame(Renewal::Always), &body);
    answer(page.into_string(), &headers)
}

async fn pause(worker: Worker, Path(length): Path<String>) -> Response {
    let Some((_, length, _)) = PAUSES.iter().find(|(path, ..)| *path == length) else {
        return Problem::not_found("there is no such pause", "hour, today or good").into_response();
    };
    back(worker.pause(*length).await)
}

async fn resume(worker: Worker) -> Response {
    back(worker.resume().await)
}

/// Leads back to the page once something was done.
fn back(done: Result<(), String>) -> Response {
    match done {
        Ok(()) => Redirect::to("/").into_response(),
        // There is nothing to get at the address to which the button was sent.
        Err(why) => failed(&why, Renewal::Never),
    }
}

fn failed(why: &str, renewal: Renewal) -> Response {
    let body = html! {
        h1 { "The worker cannot be asked" }
        p.lead { (printable(why)) }
        p { a href="/" { "Try again" } }
    };
    let page = lay_out("no answer", &frame(renewal), &body);
    (StatusCode::BAD_GATEWAY, Html(page.into_string())).into_response()
}

fn frame(renewal: Renewal) -> Frame {
    Frame {
        head: html! { span.viewer { "your PC" } },
        foot: html! {
            "Only this PC serves this page, to you alone, while " code { "deskgrid worker page" }
            " runs."
        },
        renewal,
        every_ms: 1_000,
        lost: "Nothing answers here any more: open the page again with deskgrid worker page.",
        out: "You are not let in any more: open the page again with deskgrid worker page.",
        gone: "This page does not come any more: open it again with deskgrid worker page.",
    }
}

fn there(report: &StatusReport) -> Markup {
    let paused = report.why.iter().any(|why| why.reason == "paused-by-owner");
    let (now, offset_s) = report
        .today
        .as_ref()
        .map_or((crate::when::now(), 0), |day| (day.now, day.utc_offset_s));
    let clock = |time: Time| crate::when::local_clock(time, now, offset_s);

    html! {
        h1.sentence { (sentence::state(report, now, &clock)) }
        @for why in &report.why { p.quiet { (printable(&why.says)) } }
        (buttons(paused))
        (attempts(report))
        @if let Some(day) = &report.today { (day::sections(day)) }
        @if let Some(site) = &report.site { (site::section(site)) }
        @if let Some(update) = &report.update { (updates::section(update)) }
        p.quiet { (sentence::master(report)) }
    }
}

fn gone(paused: Option<&str>) -> Markup {
    html! {
        h1.sentence { strong { "No worker runs on this PC." } }
        @match paused {
            Some(switch) => p.lead { "The next one is paused from its start: " (printable(switch)) "." },
            None => p.lead { "The next one is not paused." },
        }
        (buttons(paused.is_some()))
    }
}

fn buttons(paused: bool) -> Markup {
    html! {
        div.actions {
            @if paused {
                form method="post" action="/resume" { button.go { "Let tasks run again" } }
            }
            @for (path, _, word) in PAUSES {
                form method="post" action={ "/pause/" (path) } { button { (word) } }
            }
        }
    }
}

/// The attempts that are here now.
fn attempts(report: &StatusReport) -> Markup {
    let held = report.attempts.iter().filter(|held| held.phase != "ended");
    let held = held.map(|held| {
        html! {
            tr {
                td { (printable(&held.attempt)) }
                td { (sentence::phase(held)) }
                td { (day::seconds(held.run_s)) }
            }
        }
    });
    let held: Vec<Markup> = held.collect();
    html! {
        @if !held.is_empty() {
            section aria-labelledby="now" {
                h2 #now { "Here now" }
                (crate::parts::table(&["Task", "State", "Ran"], &html! { @for row in &held { (row) } }))
            }
        }
    }
}

#[cfg(test)]
mod tests;
