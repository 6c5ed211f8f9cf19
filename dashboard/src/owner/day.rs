//! The day of a worker: sums, the rules as a strip and a list, and the tasks that ended last.

use common::owner::{DayReport, RuleSpan, TaskEnd};
use common::text::printable;
use common::{Span, Time};
use maud::{Markup, html};

use super::sentence;
use crate::parts::{StateLook, badge, grouped, stripes, table};
use crate::when::{local_clock, span};

/// The length of the strip.
const DAY: Span = Span::from_secs(24 * 3_600);
/// The number of changes that are listed at once; earlier ones are folded.
const LISTED: usize = 12;

/// Formats seconds for people.
pub(super) fn seconds(seconds: f64) -> String {
    span(Span::from_secs_f64(seconds))
}

/// The sections about the day.
pub(super) fn sections(day: &DayReport) -> Markup {
    html! {
        section aria-labelledby="today" {
            h2 #today { "Today" }
            (sums(day))
            (strip(day))
            (changes(day))
        }
        section aria-labelledby="last" {
            h2 #last { "Ended last" }
            (last_tasks(day))
        }
    }
}

fn sums(day: &DayReport) -> Markup {
    html! {
        dl {
            dt { "Processor time lent" } dd { (seconds(day.processor_s)) }
            dt { "Tasks ran" } dd { (seconds(day.ran_s)) }
            dt { "Tasks were frozen" } dd { (seconds(day.suspended_s)) }
            dt { "Tasks done" } dd { (grouped(day.tasks_done)) }
            @if day.tasks_given_back > 0 { dt { "Given back" } dd { (grouped(day.tasks_given_back)) } }
            @if day.tasks_failed > 0 { dt { "Ended otherwise" } dd { (grouped(day.tasks_failed)) } }
        }
    }
}

fn look(reason: Option<&str>) -> StateLook {
    match reason {
        None => StateLook::LENT,
        Some("paused-by-owner") => StateLook::PAUSED,
        Some("starting-up" | "outside-hours") => StateLook::CLOSED,
        Some(_) => StateLook::IN_USE,
    }
}

/// The name of a rule, with what it left to tasks.
fn name(rule: &RuleSpan) -> String {
    let name = sentence::rule(rule.reason.as_deref());
    match (&rule.reason, rule.slots) {
        (Some(_), 1) => format!("{name}, 1 slot shared"),
        (Some(_), slots @ 2..) => format!("{name}, {slots} slots shared"),
        _ => name.to_owned(),
    }
}

/// Draws the rules over the 24 hours of the day.
fn strip(day: &DayReport) -> Markup {
    let percent = |span: Span| (span.secs() / DAY.secs() * 100.0).min(100.0);
    let parts = day.rules.iter().map(|rule| {
        let at = percent(rule.from.since(day.began));
        let end = percent(rule.to.unwrap_or(day.now).since(day.began));
        (at, end - at, look(rule.reason.as_deref()))
    });
    let parts: Vec<(f64, f64, StateLook)> = parts.collect();

    html! {
        figure.day {
            (stripes(&parts, "The rules of today, as listed below"))
            figcaption.hours { @for hour in ["00:00", "06:00", "12:00", "18:00", "24:00"] { span { (hour) } } }
        }
    }
}

/// Lists the rules that held, the newest first.
fn changes(day: &DayReport) -> Markup {
    let clock = |time: Time| local_clock(time, day.now, day.utc_offset_s);
    let rows: Vec<Markup> = day
        .rules
        .iter()
        .rev()
        .map(|rule| {
            html! {
                tr {
                    td { (badge(look(rule.reason.as_deref()), &name(rule))) }
                    td { (clock(rule.from)) }
                    td { @match rule.to { Some(to) => (clock(to)), None => "now" } }
                    td { (span(rule.to.unwrap_or(day.now).since(rule.from))) }
                }
            }
        })
        .collect();
    let (listed, folded) = rows.split_at(rows.len().min(LISTED));
    let listing = |rows: &[Markup]| {
        let rows = html! { @for row in rows { (row) } };
        table(&["Rule", "From", "To", "For"], &rows)
    };

    html! {
        (listing(listed))
        @if !folded.is_empty() {
            details { summary { "Earlier today" } (listing(folded)) }
        }
    }
}

fn end(how: TaskEnd) -> StateLook {
    match how {
        TaskEnd::Succeeded => StateLook::DONE,
        TaskEnd::GivenBack => StateLook::IN_USE,
        TaskEnd::Stopped => StateLook::PAUSED,
        TaskEnd::Failed | TaskEnd::TimedOut | TaskEnd::OverLimit | TaskEnd::NotStarted => {
            StateLook::BAD
        }
    }
}

fn last_tasks(day: &DayReport) -> Markup {
    let rows = html! {
        @for task in &day.last_tasks {
            tr {
                td { (printable(&task.attempt)) }
                td { (local_clock(task.ended, day.now, day.utc_offset_s)) }
                td { (seconds(task.ran_s)) }
                td { (seconds(task.suspended_s)) }
                td { (badge(end(task.how), &task.how.words())) }
            }
        }
    };
    html! {
        @if day.last_tasks.is_empty() { p { "No task has ended here yet." } }
        @else { (table(&["Task", "Ended", "Ran", "Frozen", "How"], &rows)) }
    }
}
