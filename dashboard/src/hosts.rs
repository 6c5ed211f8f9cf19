//! The hosts: all of them by state, and the page of one.

use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::Response;
use common::text::printable;
use common::token::Role;
use common::units::Bytes;
use common::view::{HostExplainView, HostState, HostView};
use common::wire::client::{Reply, Request};
use maud::{Markup, html};
use serde::Deserialize;

use crate::chart;
use crate::error::PageError;
use crate::parts::{
    StateLook, action, badge, count, grouped, host_link, in_path, of_job, table, task_link,
};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};
use crate::week::week;
use crate::when::clock;

/// The number of hosts on a page, and the most attempts of one that are shown.
const PAGE: usize = 100;
const ATTEMPTS: usize = 100;

/// The word by which hosts are listed that are not expected back.
const GONE: &str = "gone";

/// Returns the hosts that pages count: those that are expected back, be they away or not.
pub(crate) fn expected(hosts: &[HostView]) -> Vec<&HostView> {
    hosts.iter().filter(|host| !host.gone).collect()
}

/// The hosts that are to be listed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct HostFilter {
    /// A state, or `gone` for those that are not expected back.
    state: String,
    /// A part of the name, or a label.
    name: String,
    /// The number of hosts to pass over.
    skip: usize,
}

impl HostFilter {
    fn takes(&self, host: &HostView) -> bool {
        let state = match self.state.as_str() {
            GONE => host.gone,
            "" => !host.gone,
            state => !host.gone && host.state.to_string() == state,
        };
        state && self.names(host)
    }

    fn names(&self, host: &HostView) -> bool {
        let mut labels = host.facts.labels.iter().chain(&host.labels);
        host.facts.name.contains(&self.name) || labels.any(|label| label.as_str() == self.name)
    }

    fn address(&self, skip: usize) -> String {
        let (state, name) = (in_path(&self.state), in_path(&self.name));
        format!("/hosts?state={state}&name={name}&skip={skip}")
    }
}

pub(crate) async fn list(
    grid: Shared,
    who: LoggedIn,
    Query(wanted): Query<HostFilter>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let hosts = grid.hosts(&who).await?;
    let counted = expected(&hosts);
    let chosen: Vec<&HostView> = hosts.iter().filter(|host| wanted.takes(host)).collect();
    let next = wanted.skip.saturating_add(PAGE);
    let left_out = |host: &&HostView| host.gone && wanted.state != GONE && wanted.names(host);
    let left_out = hosts.iter().filter(left_out).count();

    let body = html! {
        h1 { "Hosts" }
        (chart::hosts(&counted))
        form.filters action="/hosts" {
            label { "State " select name="state" {
                option value="" selected[wanted.state.is_empty()] { "any" }
                @for state in HostState::ALL {
                    @let word = state.to_string();
                    option value=(word) selected[wanted.state == word] { (word) }
                }
                option value=(GONE) selected[wanted.state == GONE] { (GONE) }
            } }
            label { "Name or label " input name="name" value=(printable(&wanted.name)) autocomplete="off" spellcheck="false"; }
            button { "Filter" }
        }
        @if chosen.is_empty() { p.quiet { "No such host. An admin lets PCs in: deskgrid token create --role worker" } }
        @else { (listed(chosen.iter().skip(wanted.skip).take(PAGE))) }
        @if left_out > 0 {
            p.quiet {
                a href={ "/hosts?state=" (GONE) "&name=" (in_path(&wanted.name)) } { (count(left_out as u64, "host is gone", "hosts are gone")) }
                ": revoked, or not heard of for 30 days"
            }
        }
        @if chosen.len() > next { p.pages { a rel="next" href=(wanted.address(next)) { "More hosts" } " " span.quiet { (grouped((chosen.len() - next) as u64)) } } }
    };
    Ok(HtmlPage {
        title: count(counted.len() as u64, "host", "hosts"),
        who: &who,
        place: "/hosts",
        renewal: Renewal::ByScript,
        body,
    }
    .answer(&headers))
}

fn listed<'a>(hosts: impl Iterator<Item = &'a &'a HostView>) -> Markup {
    html! {
        (table(&["Host", "State", "Why", "Since", "Slots", "Speed", "Free", "Finished", "Lost"], &html! {
            @for host in hosts { tr {
                td { (host_link(&host.facts.name)) @for label in host.facts.labels.union(&host.labels) { " " span.label { (label) } } }
                td { (badge(StateLook::of_host(host.state), &host.state)) }
                td.why { @if let Some(reason) = &host.reason { (printable(reason)) } }
                td { (clock(host.since)) }
                td.number { (host.attempts.len()) " of " (host.slots_usable) }
                td.number { (host.facts.speed) }
                td.number { @if let Some(part) = host.cpu_availability { (format!("{:.0} %", part * 100.0)) } }
                td.number { (grouped(host.finished)) }
                td.number { (grouped(host.lost)) }
            } }
        }))
    }
}

pub(crate) async fn one(
    grid: Shared,
    who: LoggedIn,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let hosts = grid.hosts(&who).await?;
    let host = hosts.iter().find(|host| host.facts.name == name);
    let host =
        host.ok_or_else(|| PageError::not_found(format!("there is no host {}", printable(&name))))?;

    let week = match who.role {
        Role::Admin => week(&grid.of(&who), &host.facts.name).await?,
        Role::Client | Role::Worker | Role::Gateway => None,
    };
    // A master behind a gateway may be older than this question.
    let explain = Request::HostExplain { host: name };
    let explained = grid.of(&who).one(explain).await.ok();
    let body = html! {
        h1 { (printable(&host.facts.name)) " " (badge(StateLook::of_host(host.state), &host.state)) }
        p.sentence {
            @if let Some(reason) = &host.reason { (printable(reason)) ", " }
            "since " (clock(host.since)) "; it runs " (count(host.attempts.len() as u64, "attempt", "attempts"))
            " in " (count(u64::from(host.slots_usable), "slot", "slots")) "."
            @if host.gone { " It is not expected back." }
        }
        @if who.role == Role::Admin { (actions(host)) }
        (facts(host))
        @if !host.attempts.is_empty() {
            section aria-labelledby="runs" {
                h2 #runs { "It runs" }
                ul { @for attempt in host.attempts.iter().take(ATTEMPTS) { li { "task " (task_link(attempt.task)) ", attempt " (attempt.number) } } }
            }
        }
        @if let Some(Reply::HostExplained(view)) = &explained { (passes_over(view)) }
        @if let Some(week) = week { (week) }
    };
    Ok(HtmlPage {
        title: format!("{} · {}", host.state, printable(&host.facts.name)),
        who: &who,
        place: "/hosts",
        renewal: Renewal::Always,
        body,
    }
    .answer(&headers))
}

/// Says job by job why a host takes no more tasks.
fn passes_over(view: &HostExplainView) -> Markup {
    html! {
        section aria-labelledby="why" {
            h2 #why { "Why it takes no more tasks" }
            @if view.jobs.is_empty() { p.quiet { "No job that it could work on is unfinished." } }
            @else {
                (table(&["Job", "Waiting tasks", "Why not here"], &html! {
                    @for of in &view.jobs { tr {
                        td { a href=(of_job(of.job, "/why")) { (of.job) } }
                        td.number { (grouped(of.waiting)) }
                        td { (printable(&of.why)) }
                    } }
                }))
            }
            @if view.more > 0 { p.quiet { (count(view.more, "more job is", "more jobs are")) " not shown." } }
        }
    }
}

fn actions(host: &HostView) -> Markup {
    let of = |verb: &str| format!("/hosts/{}/{verb}", in_path(&host.facts.name));
    html! {
        p.actions {
            @if host.state == HostState::Draining { (action(&of("resume"), "Give it tasks again", "Ends the drain")) }
            @else { (action(&of("drain"), "Drain", "It gets no new tasks; those that run go on")) }
            (action(&of("revoke"), "Revoke", "It may never connect again; its tasks run elsewhere"))
        }
    }
}

fn facts(host: &HostView) -> Markup {
    let facts = &host.facts;
    let mib = |mib: u64| Bytes(mib.saturating_mul(1 << 20));
    html! {
        dl.facts {
            dt { "System" } dd { (printable(&facts.platform.to_string())) }
            dt { "Slots" } dd { (facts.slots) ", of which its owner lends " (host.slots_usable) " now" }
            dt { "Speed of a slot" } dd { (facts.speed) @if facts.clock_mhz > 0 { ", " (facts.clock_mhz) " MHz" } }
            dt { "Lends" } dd { (count(u64::from(facts.lends.cores), "processor", "processors")) " of " (facts.cores) ", " (mib(facts.lends.memory_mib.into())) " of " (mib(facts.memory_mib)) }
            @for gpu in &facts.gpus { dt { "Graphics" } dd { (printable(&gpu.name)) ", " (mib(gpu.memory_mib.into())) } }
            dt { "Confines tasks" } dd { (facts.confinement) @if facts.confinement_most > facts.confinement { ", " (facts.confinement_most) " where a job asks for it" } }
            @if let Some(part) = host.cpu_availability { dt { "Processor for tasks" } dd { (format!("{:.0} % lately", part * 100.0)) } }
            @if let Some(heard) = host.heard { dt { "Last heard" } dd { (clock(heard)) } }
            dt { "Finished" } dd { (grouped(host.finished)) ", lost " (grouped(host.lost)) }
            @if let Some(owner) = &host.belongs_to { dt { "Belongs to" } dd { (printable(owner)) } }
            @if !facts.labels.is_empty() || !host.labels.is_empty() {
                dt { "Labels" } dd { @for label in facts.labels.union(&host.labels) { span.label { (label) } " " } }
            }
        }
    }
}
