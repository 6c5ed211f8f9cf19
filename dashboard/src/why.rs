//! The page that says why tasks of a job wait, and why each host takes none of them.

use std::collections::BTreeMap;

use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::Response;
use common::text::printable;
use common::view::ExplainView;
use common::wire::client::{Reply, Request};
use maud::{Markup, html};
use serde::Deserialize;

use crate::error::PageError;
use crate::job::number;
use crate::parts::{count, grouped, host_link, in_path, of_job, shortened, table};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};

/// The number of hosts on a page.
const PAGE: usize = 200;
/// The number of reasons that are told apart.
const REASONS: usize = 30;
/// The number of characters that the numbers of tasks take.
const NUMBERS: usize = 60;

/// The hosts that are to be listed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReasonFilter {
    /// Only hosts with this reason.
    reason: String,
    /// The number of hosts to pass over.
    skip: usize,
}

pub(crate) async fn page(
    grid: Shared,
    who: LoggedIn,
    Path(job): Path<String>,
    Query(wanted): Query<ReasonFilter>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let job = number(&job)?;
    let reply = grid.of(&who).one(Request::Explain { job }).await?;
    let Reply::Explained(explained) = reply else {
        return Err(PageError::unexpected());
    };

    let base = of_job(job, "/why");
    let waits = &explained.job.tasks;
    let body = html! {
        h1 { "Why " a href=(of_job(job, "")) { (printable(&explained.job.name)) " " span.number { "job " (job) } } " waits" }
        @if explained.waiting.is_empty() {
            p.sentence { "No task of it waits" @if waits.running > 0 { ": " (count(waits.running, "task runs", "tasks run")) } "." }
        } @else {
            ul.reasons { @for (why, tasks) in &explained.waiting {
                li { (printable(why)) " " span.quiet { "(tasks " (shortened(tasks, NUMBERS)) ")" } }
            } }
        }
        @if let Some(share) = &explained.share {
            p.quiet { "Its user has " (count(share.slots, "slot", "slots")) " now, and " (format!("{:.1}", share.average)) " on average lately." }
        }
        (hosts(&explained.hosts, &base, &wanted))
        @if !explained.duplicates.is_empty() {
            section aria-labelledby="copies" {
                h2 #copies { "Copies that run" }
                ul { @for copy in explained.duplicates.iter().take(PAGE) {
                    li { (copy.attempt) " on " (host_link(&copy.host)) ": " (printable(&copy.why)) }
                } }
            }
        }
    };
    Ok(HtmlPage {
        title: format!("why job {job} waits"),
        who: &who,
        place: "/jobs",
        renewal: Renewal::Always,
        body,
    }
    .answer(&headers))
}

/// Returns the number of hosts that the row of this name stands for.
fn hosts_in(host: &str) -> usize {
    ExplainView::left_out(host).unwrap_or(1)
}

fn hosts(hosts: &[(String, String)], base: &str, wanted: &ReasonFilter) -> Markup {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (host, why) in hosts {
        *reasons.entry(why.as_str()).or_default() += hosts_in(host);
    }
    let all: usize = hosts.iter().map(|(host, _)| hosts_in(host)).sum();
    let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(why, hosts)| (std::cmp::Reverse(*hosts), *why));

    let chosen = |why: &str| wanted.reason.is_empty() || wanted.reason == why;
    let mut chosen: Vec<&(String, String)> = hosts.iter().filter(|(_, why)| chosen(why)).collect();
    chosen.sort();
    let page = chosen.iter().skip(wanted.skip).take(PAGE);
    let next = wanted.skip.saturating_add(PAGE);
    let of =
        |reason: &str, skip: usize| format!("{base}?reason={}&skip={skip}#hosts", in_path(reason));

    html! {
        section aria-labelledby="hosts" {
            h2 #hosts { "Host by host" }
            @if hosts.is_empty() { p.quiet { "No host is passed over." } }
            @if reasons.len() > 1 {
                ul.filters.column {
                    li { a href=(base) aria-current=[wanted.reason.is_empty().then_some("true")] { "all " (grouped(all as u64)) } }
                    @for (why, count) in reasons.iter().take(REASONS) {
                        li { a href=(of(why, 0)) aria-current=[(wanted.reason == *why).then_some("true")] {
                            (grouped(*count as u64)) " × " (printable(why)) } }
                    }
                }
            }
            (table(&["Host", "Why it takes no task of this job"], &html! {
                @for (host, why) in page { tr {
                    td { @if ExplainView::left_out(host).is_some() { (host) } @else { (host_link(host)) } }
                    td { (printable(why)) }
                } }
            }))
            @if chosen.len() > next { p.pages { a rel="next" href=(of(&wanted.reason, next)) { "More hosts" } } }
        }
    }
}
