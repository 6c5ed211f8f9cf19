//! The list of jobs: those that wait or run, or all, the newest first, page by page.

use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::Response;
use common::needs::Label;
use common::view::{JobState, JobView, PromiseState};
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::parts::{StateLook, badge, bar, count, done, grouped, in_path, job_link, of_job};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};
use crate::when::{clock, span};

/// The number of jobs on a page.
const PAGE: usize = 50;
/// The number of jobs that are looked at for one page, since a filter may pass over most, and the
/// number that is fetched at a time if there is a filter.
const LOOKED_AT: u32 = 2_000;
const WINDOW: u32 = 200;

/// The jobs that are to be listed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JobFilter {
    /// A state, or `open` for those that are not settled.
    state: String,
    /// A label.
    label: String,
    /// A user.
    user: String,
    /// Only jobs with lower numbers.
    before: Option<u32>,
}

impl JobFilter {
    fn takes(&self, job: &JobView) -> bool {
        let state = match self.state.as_str() {
            "" => true,
            "open" => !job.state.settled(),
            state => job.state.to_string() == state,
        };
        let label = self.label.is_empty() || job.labels.iter().any(|l| l.as_str() == self.label);
        let user = self.user.is_empty() || job.user == self.user;
        state && label && user
    }

    /// Whether it passes over some jobs.
    fn has_filter(&self) -> bool {
        [&self.state, &self.label, &self.user]
            .iter()
            .any(|word| !word.is_empty())
    }

    /// The address of the same list, before this job.
    fn address(&self, before: Option<u32>) -> String {
        let mut pairs = Vec::new();
        for (name, value) in [
            ("state", &self.state),
            ("label", &self.label),
            ("user", &self.user),
        ] {
            if !value.is_empty() {
                pairs.push(format!("{name}={}", in_path(value)));
            }
        }
        pairs.extend(before.map(|job| format!("before={job}")));
        format!("/jobs?{}", pairs.join("&"))
    }
}

pub(crate) async fn page(
    grid: Shared,
    who: LoggedIn,
    Query(wanted): Query<JobFilter>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    if !wanted.label.is_empty() && wanted.label.parse::<Label>().is_err() {
        let hint = "labels are letters, digits, dots, dashes and underscores";
        return Err(PageError::invalid("this is no label", hint));
    }
    let (jobs, before) = if wanted.state == "open" {
        let mut open: Vec<JobView> = grid.open_jobs(&who).await?.to_vec();
        open.retain(|job| wanted.takes(job) && wanted.before.is_none_or(|most| job.job.0 < most));
        open.reverse();
        let more = open.get(PAGE).is_some();
        open.truncate(PAGE);
        let before = open.last().filter(|_| more).map(|job| job.job.0);
        (open, before)
    } else {
        newest(&grid, &who, &wanted).await?
    };

    let body = html! {
        h1 { "Jobs" }
        (filters(&wanted))
        @if jobs.is_empty() { p.quiet { "No such job" @if before.is_some() { " among the latest; older ones may be" } "." } }
        (rows(jobs.iter()))
        @if let Some(before) = before { p.pages { a rel="next" href=(wanted.address(Some(before))) { "Older jobs" } } }
        @if wanted.before.is_some() { p.pages { a href=(wanted.address(None)) { "The newest jobs" } } }
    };
    Ok(HtmlPage {
        title: "jobs".to_owned(),
        who: &who,
        place: "/jobs",
        renewal: Renewal::ByScript,
        body,
    }
    .answer(&headers))
}

/// Returns the newest of the wanted jobs, and the number below which there may be more.
async fn newest(
    grid: &crate::grid::SharedGrid,
    who: &api::Who,
    wanted: &JobFilter,
) -> Result<(Vec<JobView>, Option<u32>), PageError> {
    let last = grid.newest_job(who).await?.saturating_add(1);
    let mut below = wanted.before.unwrap_or(last).min(last);
    let mut looked = 0;
    let mut found = Vec::new();
    let window = if wanted.has_filter() {
        WINDOW
    } else {
        PAGE as u32 + 1
    };

    while below > 1 && looked < LOOKED_AT {
        let first = below.saturating_sub(window).max(1);
        let jobs = grid.jobs_between(who, first, below - 1).await?;
        for job in jobs.into_iter().rev().filter(|job| wanted.takes(job)) {
            if found.len() == PAGE {
                let before = found.last().map(|job: &JobView| job.job.0);
                return Ok((found, before));
            }
            found.push(job);
        }
        looked += below - first;
        below = first;
    }
    Ok((found, (below > 1).then_some(below)))
}

fn filters(wanted: &JobFilter) -> Markup {
    let states = [
        "",
        "open",
        "running",
        "waiting",
        "finished",
        "failed",
        "cancelled",
    ];
    html! {
        form.filters action="/jobs" {
            label { "State " select name="state" {
                @for state in states {
                    option value=(state) selected[wanted.state == state] { (if state.is_empty() { "any" } else { state }) }
                }
            } }
            label { "Label " input name="label" value=(wanted.label) autocomplete="off" spellcheck="false"; }
            label { "User " input name="user" value=(wanted.user) autocomplete="off" spellcheck="false"; }
            button { "Filter" }
        }
    }
}

/// Lists jobs, one below the other.
pub(crate) fn rows<'a>(jobs: impl Iterator<Item = &'a JobView>) -> Markup {
    html! { ul.jobs { @for job in jobs { (row(job)) } } }
}

fn row(job: &JobView) -> Markup {
    html! {
        li {
            div.head {
                (job_link(job))
                (badge(StateLook::of_job(job.state), &job.state))
                @for label in &job.labels { a.label href={ "/jobs?label=" (label) } { (label) } }
                span.who { (common::text::printable(&job.user)) }
            }
            (bar(&job.tasks))
            div.foot {
                span.percent { (done(job)) " %" }
                span { (grouped(job.tasks.finished)) " of " (count(job.tasks.total, "task", "tasks")) " finished" }
                @if job.tasks.failed > 0 { a.bad href=(of_job(job.job, "#failures")) { (grouped(job.tasks.failed)) " failed" } }
                (end(job, "done at"))
            }
        }
    }
}

/// Says when a job ended, or, after the words `begin`, should end.
pub(crate) fn end(job: &JobView, begin: &str) -> Markup {
    html! {
        @if let Some(finished) = job.finished {
            span { "Ended " (clock(finished)) @if let Some(started) = job.started { ", after " (span(finished.since(started))) } }
        } @else if let Some(end) = job.predicted {
            span { (begin) " " strong { (clock(end.finish)) }
                @if let Some((low, high)) = end.interval { span.quiet { " (" (clock(low)) " to " (clock(high)) ")" } } }
        } @else if job.state == JobState::Waiting {
            a href=(of_job(job.job, "/why")) { "why it waits" }
        }
        @if let Some(promise) = &job.promise {
            @let bad = matches!(promise.state, PromiseState::AtRisk | PromiseState::Broken);
            span class={ "promise" @if bad { " bad" } } { "promised by " (clock(promise.deadline)) ": " (promise.state) }
        }
    }
}
