//! The timeline of a job: on which hosts its attempts ran, and how that went. It is drawn with a
//! fixed number of columns and rows, so it costs the same for ten tasks and for ten thousand.

use std::collections::BTreeMap;

use common::Time;
use common::view::{AttemptState, AttemptView, TaskView};
use maud::{Markup, html};

use crate::parts::{count, grouped, host_link};
use crate::when::{self, clock};

/// The columns of the picture, its most rows, and their height.
const COLUMNS: usize = 240;
const ROWS: usize = 24;
const HEIGHT: usize = 18;

/// The work of a host for the job in one column; of several things the last one here is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Did {
    Nothing,
    Staged,
    Finished,
    Ran,
    WasSuspended,
    Killed,
    Failed,
    Lost,
}

const SHOWN: [(Did, &str, &str); 7] = [
    (Did::Staged, "waiting", "staging"),
    (Did::Ran, "running", "running"),
    (Did::WasSuspended, "suspended", "suspended by the owner"),
    (Did::Finished, "finished", "finished"),
    (Did::Failed, "failed", "failed"),
    (Did::Lost, "lost", "lost with its host"),
    (Did::Killed, "cancelled", "not needed any more"),
];

/// A row of the picture: one host.
struct HostRow<'a> {
    host: &'a str,
    attempts: u64,
    columns: [Did; COLUMNS],
}

/// Draws the timeline of these tasks.
pub(crate) fn timeline(tasks: &[TaskView]) -> Option<Markup> {
    let attempts = || tasks.iter().flat_map(|task| &task.attempts);
    let now = when::now();
    let begin = attempts().map(|attempt| attempt.assigned).min()?;
    let end = attempts()
        .map(|attempt| attempt.finished.unwrap_or(now))
        .max()?
        .max(begin);
    let rows = rows(attempts(), (begin, end), now);
    let hosts = rows.len();
    let shown = &rows[..hosts.min(ROWS)];
    let high = shown.len() * HEIGHT;

    Some(html! {
        figure.timeline {
            div.rows {
                ol.hosts-names { @for row in shown { li { (host_link(row.host)) } } }
                svg viewBox={ "0 0 " (COLUMNS) " " (high) } height=(high) preserveAspectRatio="none" role="img"
                    aria-label={ "What " (count(hosts as u64, "host", "hosts")) " did for this job over time" } {
                    @for (did, class, _) in SHOWN {
                        @let outline = outline(shown, did);
                        @if !outline.is_empty() { path class=(class) d=(outline) {} }
                    }
                }
            }
            div.axis { span { (clock(begin)) } span { (clock(end)) } }
            figcaption {
                ul.legend {
                    @for (did, class, word) in SHOWN {
                        @if shown.iter().any(|row| row.columns.contains(&did)) {
                            li { span class={ "badge " (class) } { span.swatch aria-hidden="true" {} " " (word) } }
                        }
                    }
                }
                @if hosts > ROWS { p.quiet { "and " (grouped((hosts - ROWS) as u64)) " hosts that ran fewer attempts" } }
            }
        }
    })
}

/// Sorts attempts by host: those with the most attempts come first.
fn rows<'a>(
    attempts: impl Iterator<Item = &'a AttemptView>,
    (begin, end): (Time, Time),
    now: Time,
) -> Vec<HostRow<'a>> {
    let length = end.since(begin).secs().max(1e-6);
    let column = |at: Time| {
        let part = at.since(begin).secs() / length * COLUMNS as f64;
        (part as usize).min(COLUMNS - 1)
    };
    let mut rows: BTreeMap<&str, HostRow<'a>> = BTreeMap::new();

    for attempt in attempts {
        let row = rows.entry(&attempt.host).or_insert_with(|| HostRow {
            host: &attempt.host,
            attempts: 0,
            columns: [Did::Nothing; COLUMNS],
        });
        row.attempts += 1;

        let ends = attempt.finished.unwrap_or(now);
        let starts = attempt.started.unwrap_or(ends).min(ends);
        row.mark(column(attempt.assigned), column(starts), Did::Staged);
        if attempt.started.is_some() {
            row.mark(column(starts), column(ends), did(attempt));
        }
        if let Some(since) = attempt.suspended_since {
            row.mark(column(since), column(ends), Did::WasSuspended);
        }
    }

    let mut rows: Vec<HostRow<'a>> = rows.into_values().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.attempts), row.host));
    rows
}

fn did(attempt: &AttemptView) -> Did {
    match attempt.state {
        AttemptState::Assigned | AttemptState::Staging => Did::Staged,
        AttemptState::Running => Did::Ran,
        AttemptState::Suspended => Did::WasSuspended,
        AttemptState::Finished => Did::Finished,
        AttemptState::Failed => Did::Failed,
        AttemptState::Lost => Did::Lost,
        AttemptState::Killed => Did::Killed,
    }
}

impl HostRow<'_> {
    fn mark(&mut self, from: usize, to: usize, did: Did) {
        for column in &mut self.columns[from..=to.max(from)] {
            *column = (*column).max(did);
        }
    }
}

/// The outline of everything of one kind in these rows.
fn outline(rows: &[HostRow<'_>], did: Did) -> String {
    let mut out = String::new();
    for (place, row) in rows.iter().enumerate() {
        let y = place * HEIGHT + 2;
        let mut x = 0;
        for same in row.columns.chunk_by(|a, b| a == b) {
            if same[0] == did {
                let (wide, high) = (same.len(), HEIGHT - 4);
                out.push_str(&format!("M{x} {y}h{wide}v{high}h-{wide}z"));
            }
            x += same.len();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::{AttemptId, Incarnation, JobId, Span, TaskId};

    /// A task of one attempt that ran on this host in these seconds.
    fn ran(index: u32, host: String, from: u64, to: u64) -> TaskView {
        let task = TaskId::new(JobId(1), index);
        let at = |s: u64| Time(0) + Span::from_secs(s);
        TaskView {
            task,
            item: None,
            state: common::view::TaskState::Finished,
            reason: None,
            attempts: vec![AttemptView {
                attempt: AttemptId {
                    task,
                    number: 1,
                    incarnation: Incarnation(1),
                },
                host,
                state: AttemptState::Finished,
                duplicate: false,
                assigned: at(from),
                started: Some(at(from)),
                finished: Some(at(to)),
                ran: Span::ZERO,
                cpu: Span::ZERO,
                suspended: Span::ZERO,
                suspended_since: None,
                exit_code: Some(0),
                reason: None,
                started_from: None,
                saved: None,
                checkpoint_problem: None,
                belief: None,
                progress: None,
                words: None,
            }],
            speculation: None,
        }
    }

    #[test]
    fn the_size_of_the_picture_does_not_grow_with_the_tasks() {
        let many = |tasks: u32| {
            let host = |task: u32| format!("host-{}", task % 100);
            let tasks: Vec<TaskView> = (1..=tasks)
                .map(|task| ran(task, host(task), u64::from(task), u64::from(task) + 3))
                .collect();
            timeline(&tasks).expect("something ran").into_string().len()
        };
        let (small, large) = (many(2_000), many(20_000));
        assert!(large < 60_000 && large < 2 * small, "{small}, {large}");
    }

    #[test]
    fn half_of_the_time_is_half_of_the_columns() {
        let tasks = [ran(1, "a".into(), 0, 50), ran(2, "b".into(), 50, 100)];
        let shown = timeline(&tasks).expect("something ran").into_string();
        assert!(shown.contains("M0 2h121v14h-121z"), "{shown}");
        assert!(shown.contains("M120 20h120v14h-120z"), "{shown}");
    }
}
