//! Charts, as SVG with a fixed number of shapes: their cost does not grow with the grid.

use common::Time;
use common::view::{HostState, HostView, JobView, PromiseState};
use maud::{Markup, html};

use crate::parts::{StateLook, badge, grouped, host_link, in_path};
use crate::when::{self, clock};

/// The most cells in the picture of the hosts.
const CELLS: usize = 600;
/// The most hosts that have a cell that leads to them.
const LINKED: usize = 240;
/// The cells in a row, and their side and distance.
const ROW: usize = 50;
const SIDE: usize = 14;
const STEP: usize = 18;

/// A group of hosts that are drawn side by side.
struct HostGroup {
    /// The name of its colour in the stylesheet.
    class: &'static str,
    /// The words for the state of one of them.
    word: &'static str,
    /// Whether a host belongs to it.
    holds: fn(&HostView) -> bool,
}

const fn group(class: &'static str, word: &'static str, holds: fn(&HostView) -> bool) -> HostGroup {
    HostGroup { class, word, holds }
}

/// The groups, in the order in which they are drawn.
const GROUPS: [HostGroup; 6] = [
    group("running", "runs tasks", works),
    group("ready", "is ready", |host| {
        host.state == HostState::Ready && !works(host)
    }),
    group("suspended", "is its owner's", |host| {
        host.state == HostState::Suspended
    }),
    group("waiting", "is silent or draining", |host| {
        matches!(host.state, HostState::Suspect | HostState::Draining)
            || host.state == HostState::Busy && !works(host)
    }),
    group("failed", "is benched", |host| {
        host.state == HostState::Benched
    }),
    group("away", "is away", |host| host.state == HostState::Lost),
];

fn works(host: &HostView) -> bool {
    matches!(host.state, HostState::Ready | HostState::Busy) && !host.attempts.is_empty()
}

/// The hosts of a group, and the place of the first of their cells.
struct DrawnGroup<'a> {
    class: &'static str,
    word: &'static str,
    members: Vec<&'a HostView>,
    first: usize,
    cells: usize,
}

/// Draws the hosts as cells, those in the same state side by side. Where there are very many, a
/// cell stands for several.
pub(crate) fn hosts(hosts: &[&HostView]) -> Markup {
    let each = hosts.len().div_ceil(CELLS).max(1);
    let mut cells = 0;
    let mut groups = Vec::new();
    for group in &GROUPS {
        let all = hosts.iter().copied();
        let members: Vec<&HostView> = all.filter(|host| (group.holds)(host)).collect();
        let taken = members.len().div_ceil(each);
        groups.push(DrawnGroup {
            class: group.class,
            word: group.word,
            members,
            first: cells,
            cells: taken,
        });
        cells += taken;
    }
    groups.retain(|group| !group.members.is_empty());

    let view = format!("0 0 {} {}", ROW * STEP, cells.div_ceil(ROW).max(1) * STEP);
    html! {
        figure.hosts {
            svg viewBox=(view) role="group" aria-label="The hosts by state" {
                @for group in &groups {
                    @if hosts.len() <= LINKED { (linked(group)) }
                    @else { path class=(group.class) d=(squares(group.first, group.cells)) { title { (group.word) } } }
                }
            }
            figcaption {
                ul.legend {
                    @for DrawnGroup { class, word, members, .. } in &groups {
                        li { span class={ "badge " (class) } { span.swatch aria-hidden="true" {} " " (grouped(members.len() as u64)) " " (plural(word, members.len())) } }
                    }
                }
                @if each > 1 { " A cell stands for " (each) " hosts." }
            }
        }
    }
}

/// Draws cells that lead to their hosts.
fn linked(group: &DrawnGroup<'_>) -> Markup {
    html! {
        @for (place, host) in group.members.iter().enumerate() {
            @let (x, y) = place_of(group.first + place);
            a href={ "/hosts/" (in_path(&host.facts.name)) } {
                title { (common::text::printable(&host.facts.name)) " " (group.word) }
                rect class=(group.class) x=(x) y=(y) width=(SIDE) height=(SIDE) rx="3" {}
            }
        }
    }
}

/// Says in the plural what a group of hosts does.
fn plural(word: &str, count: usize) -> String {
    if count == 1 {
        return word.to_owned();
    }
    match word.strip_prefix("is ") {
        Some("its owner's") => "are their owners'".to_owned(),
        Some(rest) => format!("are {rest}"),
        None => word.replacen("runs", "run", 1),
    }
}

fn place_of(cell: usize) -> (usize, usize) {
    ((cell % ROW) * STEP, (cell / ROW) * STEP)
}

/// The outlines of so many cells.
fn squares(first: usize, count: usize) -> String {
    let one = |cell| {
        let (x, y) = place_of(cell);
        format!("M{x} {y}h{SIDE}v{SIDE}h-{SIDE}z")
    };
    (first..first + count).map(one).collect()
}

/// Draws when a job should end: the interval of the prediction, its best guess, the promise, and how
/// much of the time is over.
pub(crate) fn eta(job: &JobView) -> Option<Markup> {
    let predicted = job.predicted?;
    let now = when::now();
    let begin = job.started.unwrap_or(job.submitted);
    let (low, high) = predicted
        .interval
        .unwrap_or((predicted.finish, predicted.finish));
    let promise = job.promise.as_ref();
    let promise = promise.filter(|promise| promise.state != PromiseState::Withdrawn);
    let deadline = promise.map(|promise| promise.deadline);
    let end = [Some(high), Some(predicted.finish), deadline, Some(now)];
    let end = end.into_iter().flatten().max().unwrap_or(high);
    let length = end.since(begin).secs().max(1.0) * 1.04;
    let x = |at: Time| (at.since(begin).secs() / length * 100.0).clamp(0.0, 100.0);
    let at = |time: Time| format!("{:.2}%", x(time));
    let wide = format!("{:.2}%", (x(high) - x(low)).max(0.4));
    let broken = promise.is_some_and(|promise| {
        matches!(promise.state, PromiseState::AtRisk | PromiseState::Broken)
    });

    Some(html! {
        figure.eta {
            svg role="img" aria-label="The predicted end on the way from the start to now and on" {
                rect.way y="18" width="100%" height="4" {}
                rect.gone y="18" width=(at(now)) height="4" {}
                rect.band x=(at(low)) y="10" width=(wide) height="20" rx="4" {}
                rect.best x=(at(predicted.finish)) y="6" width="3" height="28" rx="1.5" {}
                @if let Some(deadline) = deadline {
                    line class={ "deadline" @if broken { " broken" } } x1=(at(deadline)) x2=(at(deadline)) y1="0" y2="40" {}
                }
                circle.now cx=(at(now)) cy="20" r="5" {}
            }
            figcaption {
                span { "begun " (clock(begin)) }
                @if predicted.interval.is_some() {
                    span { span.swatch.band aria-hidden="true" {} " four times out of five between " (clock(low)) " and " (clock(high)) }
                }
                span { span.swatch.best aria-hidden="true" {} " best guess " strong { (clock(predicted.finish)) } }
                @if let Some(deadline) = deadline { span { span.swatch.deadline aria-hidden="true" {} " promised by " (clock(deadline)) } }
            }
        }
    })
}

/// Says of a host in a line what it does and since when.
pub(crate) fn host_line(host: &HostView) -> Markup {
    html! {
        (host_link(&host.facts.name)) " " (badge(StateLook::of_host(host.state), &host.state))
        @if let Some(reason) = &host.reason { " " span.quiet { (common::text::printable(reason)) } }
    }
}
