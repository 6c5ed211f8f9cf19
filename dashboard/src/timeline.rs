//! The timeline of a job: on which hosts its attempts ran, and how that went. It is drawn with a
//! fixed number of columns and rows, so it costs the same for ten tasks and for ten thousand.

use api::timeline::{Did, Timeline, TimelineHost};
use common::view::TaskView;
use maud::{Markup, html};

use crate::parts::{count, grouped, host_link};
use crate::when::{self, clock};

/// The columns of the picture, its most rows, and their height.
const COLUMNS: usize = 240;
const ROWS: usize = 24;
const HEIGHT: usize = 18;

const SHOWN: [(Did, &str, &str); 7] = [
    (Did::Staged, "waiting", "staging"),
    (Did::Ran, "running", "running"),
    (Did::WasSuspended, "suspended", "suspended by the owner"),
    (Did::Finished, "finished", "finished"),
    (Did::Failed, "failed", "failed"),
    (Did::Lost, "lost", "lost with its host"),
    (Did::Killed, "cancelled", "not needed any more"),
];

/// Draws the timeline of these tasks.
pub(crate) fn timeline(tasks: &[TaskView]) -> Option<Markup> {
    let Timeline { begin, end, rows } = Timeline::of(tasks, COLUMNS, (None, None), when::now())?;
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

/// The outline of everything of one kind in these rows.
fn outline(rows: &[TimelineHost<'_>], did: Did) -> String {
    let mut out = String::new();
    for (place, row) in rows.iter().enumerate() {
        let y = place * HEIGHT + 2;
        for (x, to, _) in row.spans().filter(|(_, _, found)| *found == did) {
            let (wide, high) = (to - x, HEIGHT - 4);
            out.push_str(&format!("M{x} {y}h{wide}v{high}h-{wide}z"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::view::{AttemptState, AttemptView};
    use common::{AttemptId, Incarnation, JobId, Span, TaskId, Time};

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
