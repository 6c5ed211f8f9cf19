//! The programs that came from the master: whether any are taken, and what happened.

use common::text::printable;
use common::update::UpdateReport;
use maud::{Markup, html};

use crate::parts::table;

/// The number of events that are listed.
const LISTED: usize = 20;

/// The section about new programs; empty where there never were any.
pub(super) fn section(update: &UpdateReport) -> Markup {
    let key = |value| html! { code { "updates = " (value) } " in its worker.toml" };
    html! {
        @if !update.events.is_empty() {
            section aria-labelledby="updates" {
                h2 #updates { "New programs from the master" }
                @if !update.takes { p.quiet { "This PC takes none: " (key("false")) "." } }
                @else if update.has_key { p.quiet { "Only those that are signed are taken. With " (key("false")) " this PC takes none." } }
                @else { p.quiet { "This PC takes none: it knows no key to check them with." } }
                @if let Some(installed) = &update.instead_of {
                    p { "One of them runs in the place of the installed program, version " (printable(installed)) "." }
                }
                (table(&["When", "Version", "What happened"], &html! {
                    @for event in update.events.iter().rev().take(LISTED) { tr {
                        td { (printable(&event.at)) } td { (printable(&event.version)) } td { (printable(&event.what)) }
                    } }
                }))
            }
        }
    }
}
