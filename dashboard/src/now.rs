//! The first page: in one sentence what the grid does, then the jobs, the hosts, and what somebody
//! should look at.

use axum::http::HeaderMap;
use axum::response::Response;
use common::text::printable;
use common::view::{HostState, HostView, JobState, JobView, PromiseState};
use maud::{Markup, html};

use crate::chart;
use crate::error::PageError;
use crate::hosts::expected;
use crate::jobs::rows;
use crate::parts::{StateLook, badge, count, grouped, job_link, of_job};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};
use crate::when::{self, clock};

/// The most open jobs that are shown, and the most that ended.
const OPEN: usize = 12;
const ENDED: usize = 6;
/// The most warnings that are shown.
const WARNINGS: usize = 8;

pub(crate) async fn page(
    grid: Shared,
    who: LoggedIn,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let hosts = grid.hosts(&who);
    let (hosts, open, latest) =
        tokio::try_join!(hosts, grid.open_jobs(&who), grid.latest_jobs(&who))?;
    let settled = latest.iter().filter(|job| job.state.settled());
    let mut ended: Vec<&JobView> = settled.collect();
    ended.sort_by_key(|job| std::cmp::Reverse(job.finished));
    ended.truncate(ENDED);

    let counted = expected(&hosts);
    let warnings = warnings(&open, &counted);
    let joined = !hosts.is_empty();
    let body = html! {
        h1.sentence { (sentence(joined, &counted, &open)) }
        (chart::hosts(&counted))
        @if !warnings.is_empty() {
            section aria-labelledby="look" {
                h2 #look { "Look at this" }
                ul.warnings { @for warning in warnings.iter().take(WARNINGS) { li { (warning) } } }
                @if warnings.len() > WARNINGS { p.quiet { "and " (warnings.len() - WARNINGS) " more" } }
            }
        }
        section aria-labelledby="open" {
            h2 #open { "Jobs" }
            @if open.is_empty() { p.quiet { "No job waits or runs. " a href="/submit" { "Submit one" } "." } }
            (rows(open.iter().take(OPEN)))
            @if open.len() > OPEN { p { a href="/jobs?state=open" { "All " (grouped(open.len() as u64)) " jobs that wait or run" } } }
        }
        @if !ended.is_empty() {
            section aria-labelledby="ended" {
                h2 #ended { "Ended last" }
                (rows(ended.iter().copied()))
                p { a href="/jobs" { "All jobs" } }
            }
        }
    };

    let title = match open.first() {
        Some(_) => format!("{} open", count(open.len() as u64, "job", "jobs")),
        None => "idle".to_owned(),
    };
    Ok(HtmlPage {
        title,
        who: &who,
        place: "/",
        renewal: Renewal::Always,
        body,
    }
    .answer(&headers))
}

/// Says what the grid does, in one sentence. `joined` says whether any host ever did, gone or not.
fn sentence(joined: bool, hosts: &[&HostView], open: &[JobView]) -> Markup {
    let there = |host: &&HostView| host.state != HostState::Lost && host.slots_usable > 0;
    let lend = hosts.iter().copied().filter(there).count() as u64;
    let slots: u64 = hosts
        .iter()
        .copied()
        .filter(there)
        .map(|host| u64::from(host.slots_usable))
        .sum();
    let all = hosts.len() as u64;
    let run = open
        .iter()
        .filter(|job| job.state == JobState::Running)
        .count() as u64;
    let wait = open.len() as u64 - run;
    let unknown = open.iter().filter(|job| job.predicted.is_none()).count() as u64;
    let latest = open
        .iter()
        .filter_map(|job| job.predicted)
        .max_by_key(|end| end.finish);

    html! {
        @if !joined { "No PC has joined this grid yet" }
        @else { strong { (grouped(lend)) } " of " (count(all, "PC", "PCs")) " lend" @if lend == 1 { "s" } " " strong { (count(slots, "slot", "slots")) } }
        "; "
        @match (run, wait) {
            (0, 0) => "nothing is to be done.",
            (0, wait) => { (count(wait, "job waits", "jobs wait")) "." },
            (run, _) => {
                strong { (count(run, "job runs", "jobs run")) }
                @if wait > 0 { " and " (grouped(wait)) " wait" @if wait == 1 { "s" } }
                @if let Some(end) = latest {
                    @if unknown > 0 { "; those of which it is known" } @else { "; all" }
                    " should be done by " strong { (clock(end.finish)) }
                    @if let Some((low, high)) = end.interval { " (" (clock(low)) " to " (clock(high)) ")" }
                }
                "."
            },
        }
    }
}

/// Returns the warnings for people, the gravest first.
fn warnings(open: &[JobView], hosts: &[&HostView]) -> Vec<Markup> {
    let mut warnings = Vec::new();
    for job in open {
        if let Some(promise) = &job.promise
            && matches!(promise.state, PromiseState::AtRisk | PromiseState::Broken)
        {
            let why = printable(&promise.why);
            warnings.push(html! {
                (badge(StateLook::of_job(JobState::Failed), &promise.state)) " " (job_link(job))
                " was promised by " (clock(promise.deadline)) ": " (why)
            });
        }
    }
    for job in open.iter().filter(|job| job.tasks.failed > 0) {
        warnings.push(html! {
            (badge(StateLook::of_job(JobState::Failed), &count(job.tasks.failed, "task failed", "tasks failed")))
            " in " (job_link(job)) " · " a href=(of_job(job.job, "#failures")) { "why" }
        });
    }
    for job in open.iter().filter(|job| is_stuck(job)) {
        let reason = job.reason.as_deref().unwrap_or("no task of it has started");
        warnings.push(html! {
            (badge(StateLook::of_job(JobState::Waiting), &"waiting")) " " (job_link(job)) ": " (printable(reason))
            " · " a href=(of_job(job.job, "/why")) { "why, host by host" }
        });
    }

    let odd = hosts
        .iter()
        .copied()
        .filter(|host| matches!(host.state, HostState::Benched | HostState::Suspect));
    warnings.extend(odd.map(chart::host_line));
    warnings
}

/// Whether a job has waited for a minute without any task of it running.
fn is_stuck(job: &JobView) -> bool {
    let since = when::now().since(job.submitted);
    job.state == JobState::Waiting && job.tasks.waiting > 0 && since.secs() >= 60.0
}
