//! The admin's page: who may come in, who has, and what was done and refused.

use api::{Problem, collect};
use axum::http::HeaderMap;
use axum::response::Response;
use common::identity::{AuditView, IdentityState, IdentityView};
use common::site::{HostSiteView, SiteStanding, SiteTextView};
use common::text::printable;
use common::token::Role;
use common::update::{HostUpdateView, UpdatesView};
use common::view::TokenView;
use common::wire::client::{Reply, Request};
use maud::{Markup, html};

use crate::error::PageError;
use crate::parts::{StateLook, action, badge, count, host_link, in_path, table};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};
use crate::when::{clock, now};

/// The number of entries of the audit log, and the most identities, tokens of a kind and texts of
/// settings, that are shown.
const ENTRIES: u32 = 100;
const IDENTITIES: usize = 200;
const TOKENS: usize = 200;
const SETTINGS: usize = 20;

pub(crate) async fn page(
    grid: Shared,
    who: LoggedIn,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let grid = grid.of(&who);
    let tokens = collect!(grid, Request::TokenList, Reply::Tokens);
    let names = Vec::new();
    let identities = collect!(grid, Request::Identities { names }, Reply::Identities);
    let settings = grid.site().await;
    let updates = grid.updates().await;
    let most = ENTRIES;
    let mut audit = collect!(grid, Request::Audit { most }, Reply::Audit);
    audit.reverse();

    let body = html! {
        h1 { "Admin" }
        (tokens_part(&tokens))
        (identities_part(identities))
        (settings_part(settings))
        (updates_part(updates))
        (audit_part(&audit))
    };
    Ok(HtmlPage {
        title: "admin".to_owned(),
        who: &who,
        place: "/admin",
        renewal: Renewal::Always,
        body,
    }
    .answer(&headers))
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Worker => "worker",
        Role::Client => "client",
        Role::Admin => "admin",
        Role::Gateway => "gateway",
    }
}

fn tokens_part(tokens: &[TokenView]) -> Markup {
    let counts = tokens.iter().filter(|token| token.ended(now()).is_none());
    let (speaking, joining): (Vec<_>, Vec<_>) =
        counts.partition(|token| token.speaks_for.is_some());

    html! {
        section aria-labelledby="tokens" {
            h2 #tokens { "Join tokens" }
            p.actions { (action("/admin/token", "Make a token", "PCs join with it")) }
            (table(&["No.", "For", "Name", "Uses left", "Until", "Action"], &html! {
                @for token in joining.iter().take(TOKENS) { tr {
                    td.number { (token.id) } td { (role(token.role)) } td { (printable(&token.name)) }
                    td.number { (token.uses_left) } td { (clock(token.expires)) }
                    td { (revoke(token)) }
                } }
            }))
            (more_tokens(joining.len()))
            h2 { "Access tokens" }
            p.quiet { "With one of these a program or a browser acts as a user. They are made with " code { "deskgrid token create --http --role client --for USER" } "." }
            (table(&["No.", "Acts as", "At most", "Until", "Action"], &html! {
                @for token in speaking.iter().take(TOKENS) { @if let Some(user) = &token.speaks_for { tr {
                    td.number { (token.id) } td { (printable(user)) } td { (role(token.role)) } td { (clock(token.expires)) }
                    td { (revoke(token)) }
                } } }
            }))
            (more_tokens(speaking.len()))
        }
    }
}

fn more_tokens(all: usize) -> Markup {
    html! { @if all > TOKENS { p.quiet { "and " (all - TOKENS) " more: deskgrid token list" } } }
}

fn revoke(token: &TokenView) -> Markup {
    let path = format!("/admin/tokens/{}/revoke", token.id);
    action(&path, "Revoke", "It lets nobody in any more")
}

fn identities_part(mut identities: Vec<IdentityView>) -> Markup {
    identities.retain(|identity| identity.state != IdentityState::Revoked);
    // Those that wait for a person come first.
    identities.sort_by_key(|identity| identity.state != IdentityState::Waiting);
    html! {
        section aria-labelledby="identities" {
            h2 #identities { (count(identities.len() as u64, "identity", "identities")) }
            (table(&["Name", "Role", "State", "Since", "Certificate until", "Action"], &html! {
                @for identity in identities.iter().take(IDENTITIES) { tr {
                    td { (printable(&identity.name)) } td { (role(identity.role)) }
                    td { (badge(look(identity.state), &identity.state)) }
                    td { (clock(identity.enrolled)) }
                    td { @if let Some(expires) = identity.expires { (clock(expires)) } }
                    td { @if identity.state == IdentityState::Waiting {
                        (action(&format!("/admin/identities/{}/approve", in_path(&identity.name)), "Approve", "It may connect from then on"))
                    } }
                } }
            }))
            @if identities.len() > IDENTITIES { p.quiet { "and " (identities.len() - IDENTITIES) " more: deskgrid identity list" } }
        }
    }
}

fn look(state: IdentityState) -> StateLook {
    match state {
        IdentityState::Active => StateLook::of_task(common::view::TaskState::Finished),
        IdentityState::Waiting => StateLook::of_task(common::view::TaskState::Waiting),
        IdentityState::Revoked => StateLook::of_task(common::view::TaskState::Failed),
    }
}

/// The section of something that cannot be shown, such as a master of an earlier version does not have, with the reason.
fn missing(title: &str, why: &Problem) -> Markup {
    html! {
        section {
            h2 { (title) }
            p.quiet { "They cannot be shown: " (printable(&why.title)) "." }
        }
    }
}

/// The settings for workers, with the hosts that have not taken theirs first.
fn settings_part(found: Result<(Vec<SiteTextView>, Vec<HostSiteView>), Problem>) -> Markup {
    let (settings, hosts) = match found {
        Ok(found) => found,
        Err(why) => return missing("Settings for workers", &why),
    };
    let taken = |host: &&HostSiteView| host.standing == SiteStanding::Taken;

    let others: Vec<_> = hosts.iter().filter(|host| !taken(host)).collect();
    html! {
        section aria-labelledby="settings" {
            h2 #settings { "Settings for workers" }
            @if settings.is_empty() { p.quiet { "None are kept here: " code { "deskgrid host settings set FILE" } "." } }
            @for view in settings.iter().take(SETTINGS) {
                h3 { "For " (printable(&view.scope)) ", by " (printable(&view.by)) ", " (clock(view.at)) }
                pre { @for line in view.text.lines() { (printable(line)) "\n" } }
            }
            @if settings.len() > SETTINGS { p.quiet { "and " (settings.len() - SETTINGS) " more texts: deskgrid host settings show" } }
            @if !settings.is_empty() {
                p { (count(hosts.iter().filter(taken).count() as u64, "host has", "hosts have")) " taken what holds for it, " (others.len()) " not." }
            }
            @if !others.is_empty() {
                (table(&["Host", "Settings", "Answered", "Why"], &html! {
                    @for host in others.iter().take(IDENTITIES) { tr {
                        td { (host_link(&host.host)) } td { (host.standing) }
                        td { @if let Some(at) = host.answered { (clock(at)) } }
                        td.why { @if let Some(why) = &host.why { (printable(why)) } }
                    } }
                }))
                @if others.len() > IDENTITIES { p.quiet { "and " (others.len() - IDENTITIES) " more: deskgrid host settings show" } }
            }
        }
    }
}

/// The programs that go round to workers, with the hosts that need a look.
fn updates_part(found: Result<UpdatesView, Problem>) -> Markup {
    let rollouts = match found {
        Ok(updates) => updates.rollouts,
        Err(why) => return missing("New programs for workers", &why),
    };
    let runs = |host: &&HostUpdateView| host.state == "runs";

    html! {
        section aria-labelledby="updates" {
            h2 #updates { "New programs for workers" }
            @if rollouts.is_empty() { p.quiet { "None is rolled out: " code { "deskgrid host update start" } "." } }
            @for rollout in &rollouts {
                h3 { (rollout.platform.as_str()) ", version " (rollout.version) ", by " (printable(&rollout.by)) ", " (clock(rollout.at)) }
                p { (printable(&rollout.state)) ": " (rollout.percent) " in a hundred hosts in this stage, "
                    (count(rollout.hosts.iter().filter(runs).count() as u64, "host runs", "hosts run")) " it, " (rollout.untold) " not offered it yet. "
                    (printable(&rollout.why)) }
                (table(&["Host", "State", "Since", "Why"], &html! {
                    @for host in rollout.hosts.iter().filter(|host| !runs(host)).take(IDENTITIES) { tr {
                        td { (host_link(&host.host)) } td { (printable(&host.state)) } td { (clock(host.since)) } td.why { (printable(&host.why)) }
                    } }
                }))
                @if rollout.hosts.len() > IDENTITIES { p.quiet { "All of them: " code { "deskgrid host update status" } } }
            }
        }
    }
}

fn audit_part(entries: &[AuditView]) -> Markup {
    html! {
        section aria-labelledby="audit" {
            h2 #audit { "Audit log" }
            (table(&["When", "Who", "What", "Of", "Outcome", "Why"], &html! {
                @for entry in entries { tr {
                    td { (clock(entry.at)) @if entry.count > 1 { " × " (entry.count) } }
                    td { (printable(&entry.who)) } td { (printable(&entry.what)) } td { (printable(&entry.subject)) }
                    td { @if entry.allowed { "done" } @else { (badge(look(IdentityState::Revoked), &"refused")) } }
                    td.why { (printable(&entry.why)) }
                } }
            }))
        }
    }
}
