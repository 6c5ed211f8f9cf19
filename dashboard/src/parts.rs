//! Small parts of pages: states, bars, numbers, links between pages.

use common::text::printable;
use common::view::{AttemptState, HostState, JobState, JobView, TaskCounts, TaskState};
use common::{JobId, TaskId};
use maud::{Markup, html};

/// A state as pages show it: its class in the stylesheet, its shape and its word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateLook {
    /// The name of the colour in the stylesheet.
    pub(crate) class: &'static str,
    /// The shape, for those who do not tell the colours apart.
    shape: &'static str,
}

const RUNNING: StateLook = look("running", "▶");
const WAITING: StateLook = look("waiting", "○");
const SUSPENDED: StateLook = look("suspended", "⏸");
const FINISHED: StateLook = look("finished", "✓");
const FAILED: StateLook = look("failed", "✗");
const CANCELLED: StateLook = look("cancelled", "–");
const DISCLOSED: StateLook = look("disclosed", "?");
const READY: StateLook = look("ready", "●");
const AWAY: StateLook = look("away", "·");

const fn look(class: &'static str, shape: &'static str) -> StateLook {
    StateLook { class, shape }
}

impl StateLook {
    /// The look of a time in which tasks may run on a PC.
    pub(crate) const LENT: Self = READY;
    /// The look of a time in which the owner needs a PC, and of tasks that made room.
    pub(crate) const IN_USE: Self = SUSPENDED;
    /// The look of a time in which the owner paused a PC, and of what somebody ended.
    pub(crate) const PAUSED: Self = CANCELLED;
    /// The look of a time in which a PC is not lent.
    pub(crate) const CLOSED: Self = WAITING;
    /// The look of a success.
    pub(crate) const DONE: Self = FINISHED;
    /// The look of a failure.
    pub(crate) const BAD: Self = FAILED;

    /// The look of a job's state.
    pub(crate) fn of_job(state: JobState) -> Self {
        match state {
            JobState::Waiting => WAITING,
            JobState::Running => RUNNING,
            JobState::Finished => FINISHED,
            JobState::Failed | JobState::Refused => FAILED,
            JobState::Cancelled => CANCELLED,
        }
    }

    /// The look of a task's state.
    pub(crate) fn of_task(state: TaskState) -> Self {
        match state {
            TaskState::Disclosed => DISCLOSED,
            TaskState::Waiting => WAITING,
            TaskState::Running => RUNNING,
            TaskState::Suspended => SUSPENDED,
            TaskState::Finished => FINISHED,
            TaskState::Failed => FAILED,
            TaskState::Cancelled => CANCELLED,
        }
    }

    /// The look of an attempt's state.
    pub(crate) fn of_attempt(state: AttemptState) -> Self {
        match state {
            AttemptState::Assigned | AttemptState::Staging => WAITING,
            AttemptState::Running => RUNNING,
            AttemptState::Suspended => SUSPENDED,
            AttemptState::Finished => FINISHED,
            AttemptState::Failed | AttemptState::Lost => FAILED,
            AttemptState::Killed => CANCELLED,
        }
    }

    /// The look of a host's state.
    pub(crate) fn of_host(state: HostState) -> Self {
        match state {
            HostState::Ready => READY,
            HostState::Busy => RUNNING,
            HostState::Suspended => SUSPENDED,
            HostState::Suspect | HostState::Draining => WAITING,
            HostState::Lost => AWAY,
            HostState::Benched => FAILED,
        }
    }
}

/// Shows a state as a word with its shape and colour.
pub(crate) fn badge(look: StateLook, word: &impl ToString) -> Markup {
    html! {
        span class={ "badge " (look.class) } {
            span.shape aria-hidden="true" { (look.shape) } " " (word.to_string())
        }
    }
}

/// Returns the part of a whole in percent, rounded down: 100 is all of it.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(100)
}

/// Returns what is done of a job, in percent: the finished tasks. Of an open job those that failed or
/// were cancelled count too, since nothing is left to do of them, and so do reports of running
/// tasks, but never as all of it.
pub(crate) fn done(job: &JobView) -> u64 {
    if job.state.settled() {
        return percent(job.tasks.finished, job.tasks.total);
    }
    let settled = percent(job.tasks.settled(), job.tasks.total);
    let reported = job.progress.map_or(0.0, |part| (part * 100.0).floor());
    settled.max((reported as u64).min(99))
}

/// The states of tasks that a bar shows, in its order, each with its look and word.
fn segments(tasks: &TaskCounts) -> [(u64, StateLook, &'static str); 7] {
    [
        (tasks.finished, FINISHED, "finished"),
        (tasks.failed, FAILED, "failed"),
        (tasks.running, RUNNING, "running"),
        (tasks.suspended, SUSPENDED, "suspended"),
        (tasks.cancelled, CANCELLED, "cancelled"),
        (tasks.waiting, WAITING, "waiting"),
        (tasks.disclosed, DISCLOSED, "disclosed"),
    ]
}

/// Says how many tasks are in which state.
fn in_words(tasks: &TaskCounts) -> String {
    let some = segments(tasks).into_iter().filter(|(count, ..)| *count > 0);
    let words: Vec<String> = some
        .map(|(count, _, word)| format!("{} {word}", grouped(count)))
        .collect();
    words.join(", ")
}

/// Draws the tasks of a job as a bar, each state as wide as its part of the tasks.
pub(crate) fn bar(tasks: &TaskCounts) -> Markup {
    let whole = tasks.total.max(1) as f64;
    let mut x = 0.0;
    let parts = segments(tasks).map(|(count, look, _)| {
        let width = count as f64 / whole * 100.0;
        let at = x;
        x += width;
        (at, width, look)
    });

    stripes(&parts, &in_words(tasks))
}

/// Draws a bar of parts, each with its begin and its width in percent.
pub(crate) fn stripes(parts: &[(f64, f64, StateLook)], label: &str) -> Markup {
    html! {
        svg.bar role="img" aria-label=(label) {
            @for (at, width, look) in parts.iter().filter(|(_, width, _)| *width > 0.0) {
                @let (at, width) = (format!("{at:.2}%"), format!("{width:.2}%"));
                rect class=(look.class) x=(at) width=(width) height="100%" {}
                @if let Some(shape) = pattern(*look) {
                    rect fill=(shape) x=(at) width=(width) height="100%" {}
                }
            }
        }
    }
}

/// The pattern over the areas of a state, for those that have one.
fn pattern(look: StateLook) -> Option<&'static str> {
    match look.class {
        "suspended" => Some("url(#hatch)"),
        "failed" => Some("url(#cross)"),
        "waiting" | "disclosed" => Some("url(#dots)"),
        _ => None,
    }
}

/// Explains the colours of a bar, with numbers.
pub(crate) fn legend(tasks: &TaskCounts) -> Markup {
    html! {
        ul.legend {
            @for (count, look, word) in segments(tasks).into_iter().filter(|(count, ..)| *count > 0) {
                li { (badge(look, &format!("{} {word}", grouped(count)))) }
            }
        }
    }
}

/// Formats a number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    out
}

/// Says how many there are of something.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

/// A link to a job, by its name and number.
pub(crate) fn job_link(job: &JobView) -> Markup {
    html! {
        a.job href={ "/jobs/" (job.job) } {
            span.number { (job.job) } " " span.name { (printable(&job.name)) }
        }
    }
}

/// A link to a task.
pub(crate) fn task_link(task: TaskId) -> Markup {
    html! { a href={ "/jobs/" (task.job) "/tasks/" (task.index) } { (task) } }
}

/// A link to a host, by its name.
pub(crate) fn host_link(name: &str) -> Markup {
    html! { a href={ "/hosts/" (in_path(name)) } { (printable(name)) } }
}

/// Returns the first characters of a text, `most` at most, for a page.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", printable(&text[..at])),
        None => printable(text),
    }
}

/// Writes a name so that it can be a part of a path.
pub(crate) fn in_path(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes()
        .map(|byte| match byte {
            byte if plain(byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// A table with these headings, which scrolls by itself where the page is too narrow for it.
pub(crate) fn table(headings: &[&str], rows: &Markup) -> Markup {
    html! {
        div.wide tabindex="0" role="group" aria-label="Table" {
            table {
                thead { tr { @for heading in headings { th { (heading) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// A button that leads to a question before something is changed.
pub(crate) fn action(path: &str, word: &str, why: &str) -> Markup {
    html! { a.action href=(path) title=(why) { (word) } }
}

/// A path of a job.
pub(crate) fn of_job(job: JobId, rest: &str) -> String {
    format!("/jobs/{job}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_stay_text() {
        let hostile = "<script>alert(1)</script>\u{1b}[2J\u{202e}\"'";
        let shown = host_link(hostile).into_string();
        assert!(!shown.contains("<script"), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
        assert_eq!(in_path("a/../b c"), "a%2F..%2Fb%20c");
    }

    #[test]
    fn a_bar_is_full_and_its_words_name_every_part() {
        let tasks = TaskCounts {
            total: 8,
            finished: 4,
            failed: 1,
            running: 1,
            suspended: 1,
            waiting: 1,
            ..TaskCounts::default()
        };
        let bar = bar(&tasks).into_string();
        assert!(bar.contains("4 finished, 1 failed, 1 running, 1 suspended, 1 waiting"));
        assert!(bar.contains("width=\"50.00%\"") && bar.contains("url(#hatch)"));
        assert_eq!(
            (percent(0, 0), percent(2, 3), percent(3, 3)),
            (100, 66, 100)
        );
        assert_eq!(grouped(1_234_567), "1\u{2009}234\u{2009}567");
    }
}
