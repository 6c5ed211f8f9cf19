//! The calendar: when open jobs should end, which promises stand, and when several hosts could be
//! free at once.

use axum::http::HeaderMap;
use axum::response::Response;
use common::Time;
use common::view::{JobView, PromiseState, WaitView};
use maud::{Markup, html};

use crate::error::PageError;
use crate::hosts::expected;
use crate::parts::{StateLook, badge, count, grouped, job_link, table};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};
use crate::when::{self, clock, span};

/// The most jobs that are drawn, the height of a row, and the numbers of hosts that are asked for.
const ROWS: usize = 40;
const HEIGHT: usize = 28;
const TOGETHER: [u32; 6] = [1, 2, 4, 8, 16, 32];

pub(crate) async fn page(
    grid: Shared,
    who: LoggedIn,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let hosts = expected(&grid.hosts(&who).await?).len();
    let open = grid.open_jobs(&who).await?;
    let numbers = TOGETHER.into_iter();
    let numbers = numbers.filter(|wanted| *wanted as usize <= hosts);
    let waits = grid.waits(&who, numbers).await?;

    let body = html! {
        h1 { "Calendar" }
        (ends(&open))
        (together(&waits))
    };
    Ok(HtmlPage {
        title: "calendar".to_owned(),
        who: &who,
        place: "/calendar",
        renewal: Renewal::Always,
        body,
    }
    .answer(&headers))
}

/// The predicted end and the deadline of an open job.
struct ComingEnd<'a> {
    job: &'a JobView,
    low: Time,
    high: Time,
    best: Time,
    deadline: Option<Time>,
}

impl<'a> ComingEnd<'a> {
    fn of(job: &'a JobView) -> Option<Self> {
        let promise = job.promise.as_ref();
        let promise = promise.filter(|promise| promise.state != PromiseState::Withdrawn);
        let deadline = promise.map(|promise| promise.deadline);
        let predicted = job.predicted.map(|predicted| {
            let best = predicted.finish;
            let (low, high) = predicted.interval.unwrap_or((best, best));
            (low, best, high)
        });
        let (low, best, high) = predicted.or_else(|| deadline.map(|end| (end, end, end)))?;
        Some(Self {
            job,
            low,
            high,
            best,
            deadline,
        })
    }
}

/// Draws when each open job should end, the earliest first.
fn ends(open: &[JobView]) -> Markup {
    let mut ends: Vec<ComingEnd<'_>> = open.iter().filter_map(ComingEnd::of).collect();
    ends.sort_by_key(|end| (end.best, end.job.job));
    let unknown = open.len() - ends.len();
    let now = when::now();
    let drawn = &ends[..ends.len().min(ROWS)];
    let last = drawn.iter().flat_map(|end| [Some(end.high), end.deadline]);
    let last = last.flatten().max().unwrap_or(now).max(now);
    let length = last.since(now).secs().max(1.0) * 1.02;
    let x = |at: Time| (at.since(now).secs() / length * 100.0).clamp(0.0, 100.0);

    html! {
        section aria-labelledby="ends" {
            h2 #ends { "When jobs should end" }
            @if ends.is_empty() { p.quiet { "Of no open job the end can be predicted." } }
            @else {
                figure.calendar {
                    ol {
                        @for end in drawn { li {
                            span.what { (job_link(end.job)) @if let Some(promise) = &end.job.promise { " " (badge(look(promise.state), &promise.state)) } }
                            svg height=(HEIGHT) role="img" aria-label="The interval of its end, from now on" {
                                rect.way y="13" width="100%" height="2" {}
                                rect.band x={ (format!("{:.2}", x(end.low))) "%" } y="5" height="18" rx="4"
                                    width={ (format!("{:.2}", (x(end.high) - x(end.low)).max(0.4))) "%" } {}
                                rect.best x={ (format!("{:.2}", x(end.best))) "%" } y="3" width="3" height="22" rx="1.5" {}
                                @if let Some(deadline) = end.deadline {
                                    @let at = format!("{:.2}%", x(deadline));
                                    line.deadline x1=(at) x2=(at) y1="0" y2=(HEIGHT) {}
                                }
                            }
                            span.when {
                                (clock(end.best))
                                @if let Some(deadline) = end.deadline { span.quiet { " promised by " (clock(deadline)) } }
                            }
                        } }
                    }
                    div.axis { span { b { "now" } b { (clock(last)) } } }
                }
            }
            @if ends.len() > ROWS { p.quiet { "and " (grouped((ends.len() - ROWS) as u64)) " that end later" } }
            @if unknown > 0 { p.quiet { "Of " (count(unknown as u64, "open job", "open jobs")) " nothing is known yet: no task has ended, and there is no estimate." } }
        }
    }
}

fn look(state: PromiseState) -> StateLook {
    use common::view::TaskState;
    StateLook::of_task(match state {
        PromiseState::OnTime | PromiseState::Kept => TaskState::Finished,
        PromiseState::AtRisk => TaskState::Suspended,
        PromiseState::Broken => TaskState::Failed,
        PromiseState::Withdrawn => TaskState::Cancelled,
    })
}

/// Says when so many hosts should be free at once.
fn together(waits: &[WaitView]) -> Markup {
    let wait = |wait: Option<common::Span>| wait.map_or_else(|| "not known".to_owned(), span);
    html! {
        section aria-labelledby="together" {
            h2 #together { "When hosts are free together" }
            @if waits.is_empty() { p.quiet { "There is no host." } }
            @else {
                (table(&["Hosts", "Free now", "Free together in", "Four times out of five in"], &html! {
                    @for one in waits { tr {
                        td.number { (one.wanted) } td.number { (one.free) }
                        td { (wait(one.likely.or(one.median))) }
                        td { (wait(one.low)) " to " (wait(one.high)) }
                    } }
                }))
            }
        }
    }
}
