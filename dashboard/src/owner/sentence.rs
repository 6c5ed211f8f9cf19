//! The state of a worker in words for the owner of its PC.

use common::owner::{AttemptReport, StatusReport};
use common::text::printable;
use common::{Span, Time};
use maud::{Markup, html};

use crate::parts::{count, grouped};

/// The words after "because" for a reason.
pub(super) fn because(reason: &str) -> &str {
    match reason {
        "in-use" => "you use the PC",
        "busy" => "your programs need the processors",
        "on-battery" => "the PC runs on its battery",
        "outside-hours" => "you lend it at other hours",
        "paused-by-owner" => "tasks are paused",
        "exclusive-app" => "a program runs that is to have the PC for itself",
        "low-memory" => "your programs need the memory",
        "starting-up" => "the worker has only begun to look whether you use the PC",
        other => other,
    }
}

/// The name of a rule.
pub(super) fn rule(reason: Option<&str>) -> &str {
    match reason {
        None => "free for tasks",
        Some("in-use") => "you used it",
        Some("busy") => "your programs were busy",
        Some("on-battery") => "on battery",
        Some("outside-hours") => "outside your hours",
        Some("paused-by-owner") => "paused",
        Some("exclusive-app") => "a program had it for itself",
        Some("low-memory") => "memory was short",
        Some("starting-up") => "the worker began to look",
        Some(other) => other,
    }
}

/// Returns the numbers of tasks that run and that are frozen.
fn counts(report: &StatusReport) -> (u64, u64) {
    let of = |phase: &str| {
        let held = report.attempts.iter();
        held.filter(|held| held.phase == phase).count() as u64
    };
    (of("running"), of("suspended"))
}

/// Says that so many tasks do something.
fn tasks(number: u64, one: &str, many: &str) -> String {
    match number {
        0 => format!("No task {one}"),
        1 => format!("A task {one}"),
        number => format!("{} tasks {many}", grouped(number)),
    }
}

/// The title, which is all that is seen of a tab.
pub(super) fn title(report: &StatusReport) -> String {
    let (running, frozen) = counts(report);
    match (report.reason.as_deref(), running, frozen) {
        (Some("paused-by-owner"), ..) => "paused".to_owned(),
        (Some(reason), 0, 1..) => format!("frozen: {reason}"),
        (_, 1.., _) => count(running, "task runs", "tasks run"),
        (Some(reason), ..) => reason.to_owned(),
        (None, ..) => "no task".to_owned(),
    }
}

/// Says in one sentence what tasks do, since when and why.
pub(super) fn state(report: &StatusReport, now: Time, clock: &impl Fn(Time) -> Markup) -> Markup {
    let (running, frozen) = counts(report);
    let since = Time(
        now.0
            .saturating_sub(Span::from_secs_f64(report.decided_for_s).0),
    );
    let reason = report.reason.as_deref().map(because);
    let closed = report.slots_usable == 0;

    html! {
        "Your PC is yours. "
        @match reason {
            Some(reason) if closed && frozen > 0 => {
                strong { (tasks(frozen, "has been frozen", "have been frozen")) " since " (clock(since)) }
                " because " (reason)
            },
            Some(reason) if closed => {
                strong { "No task may run (since " (clock(since)) ")" } " because " (reason)
            },
            Some(reason) => {
                strong { (tasks(running, "runs", "run")) }
                @if frozen > 0 { " and " (tasks(frozen, "is frozen", "are frozen").to_lowercase()) }
                ": tasks have had " (report.slots_usable) " of "
                (count(u64::from(report.slots), "slot", "slots")) " since " (clock(since))
                " because " (reason)
            },
            None => {
                strong {
                    @if running > 0 { (tasks(running, "runs", "run")) }
                    @else if frozen > 0 { (tasks(frozen, "waits for another", "wait for others")) }
                    @else { "No task is here" }
                }
                ": nothing has stood against them since " (clock(since))
            },
        }
        @if let Some(until) = report.paused_until { ", until " (clock(until)) }
        "."
    }
}

/// Says whether there is a master.
pub(super) fn master(report: &StatusReport) -> String {
    let lasts = super::day::seconds(report.connected_for_s);
    let name = printable(&report.host);
    if report.connected {
        let master = printable(&report.master);
        let why = report.out_of_service.as_deref();
        let why = why.map_or(String::new(), |why| {
            format!(" It has taken this PC out of service ({}).", printable(why))
        });
        return format!("Its tasks come from {master}, which knows this PC as {name}.{why}");
    }
    let because = report.not_connected_because.as_deref();
    let because = because.map_or(String::new(), |why| format!(" ({})", printable(why)));
    format!(
        "The master {} has not been reached for {lasts}{because}: no new tasks come, and results wait here.",
        printable(&report.master)
    )
}

/// The state of one attempt in words.
pub(super) fn phase(held: &AttemptReport) -> String {
    let state = match held.phase.as_str() {
        "suspended" => format!("frozen for {}", super::day::seconds(held.suspended_s)),
        "running" => "runs".to_owned(),
        _ => "waits to start".to_owned(),
    };
    match held.progress {
        Some(part) => format!("{state}, {:.0} % done", part * 100.0),
        None => state,
    }
}
