//! The settings from the master: those that hold, beside the owner's own, and how they changed.

use common::site::{SiteReport, SiteSetting};
use common::text::printable;
use maud::{Markup, html};

use crate::parts::table;

/// The most characters of a value; `worker status --why` has all of it.
const SHOWN: usize = 80;
/// The number of changes that are listed at once; earlier ones are folded.
const LISTED: usize = 8;

/// The section about the settings; empty where there never were any.
pub(super) fn section(site: &SiteReport) -> Markup {
    let mut changes: Vec<Markup> = site.changes.iter().map(change).collect();
    changes.reverse();

    let (last, earlier) = changes.split_at(changes.len().min(LISTED));
    html! {
        @if !site.changes.is_empty() || site.refused.is_some() {
            section aria-labelledby="settings" {
                h2 #settings { "Settings from the master" }
                p.quiet { "They can only be stricter than yours. " (allowed(site.takes)) }
                @if let Some(refused) = &site.refused {
                    p { "The newest were refused (" (time(&refused.at)) "): " (printable(&refused.why)) }
                }
                @if site.settings.is_empty() { p { "None hold; your own do." } } @else {
                    (table(&["Setting", "From the master", "Yours", "For", "Since"], &html! {
                        @for held in &site.settings { (setting(held)) }
                    }))
                }
                @if !last.is_empty() {
                    h3 { "Last changes" }
                    (listed(last))
                }
                @if !earlier.is_empty() { details { summary { "Earlier" } (listed(earlier)) } }
            }
        }
    }
}

/// Says how the owner lets none come, or some again.
fn allowed(takes: bool) -> Markup {
    let key = |value| html! { code { "settings_from_master = " (value) } " in its worker.toml" };
    html! {
        @if takes { "With " (key("false")) " this PC takes none." }
        @else { "This PC takes none: " (key("false")) "." }
    }
}

fn setting(held: &SiteSetting) -> Markup {
    html! {
        tr {
            td { (printable(&held.key)) }
            td { (short(&held.value)) }
            td { (short(&held.own)) }
            td { (short(&held.scope)) }
            td { (time(&held.since)) @if !held.in_force { ", counts from the worker's next start" } }
        }
    }
}

fn change(change: &common::site::SiteChange) -> Markup {
    let value = |value: &Option<String>| value.as_deref().map_or_else(|| "none".to_owned(), short);
    html! {
        tr {
            td { (time(&change.at)) }
            td { (printable(&change.key)) }
            td { (value(&change.was)) }
            td { (value(&change.is)) }
            td { (short(&change.scope)) }
        }
    }
}

fn listed(changes: &[Markup]) -> Markup {
    let rows = html! { @for row in changes { (row) } };
    table(&["Changed", "Setting", "Was", "Is", "For"], &rows)
}

/// A value that fits into a cell.
fn short(value: &str) -> String {
    let mut shown: String = printable(value).chars().take(SHOWN).collect();
    if value.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// A time in ISO 8601, to the minute.
fn time(iso: &str) -> String {
    let minute = iso.get(..16).unwrap_or(iso).replace('T', " ");
    printable(&minute) + " UTC"
}
