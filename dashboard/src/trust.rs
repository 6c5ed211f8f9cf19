//! The page on how good predictions were: intervals that held, what came beside what was predicted,
//! promises, and users' own estimates.

use std::cmp::Ordering;

use api::collect;
use api::json::held;
use axum::http::HeaderMap;
use axum::response::Response;
use common::Span;
use common::text::printable;
use common::view::{AccuracyView, EstimatesView, ForetoldView};
use common::wire::client::{Reply, Request};
use maud::{Markup, html};

use crate::error::PageError;
use crate::parts::{count, grouped, percent, table};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};

/// The newest predictions that are drawn, and the side of the picture.
const DRAWN: usize = 400;
const SIDE: f64 = 300.0;
/// The shortest and the longest wait of the picture, as decimal logarithms of seconds.
const SHORTEST: f64 = 0.0;
const LONGEST: f64 = 6.0;
/// The number of predictions from which on something can be said of their errors.
const FEW: usize = 10;
/// The most rows of estimates.
const ROWS: usize = 50;

pub(crate) async fn page(
    grid: Shared,
    who: LoggedIn,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let mut accuracy = (*grid.accuracy(&who).await?).clone();
    accuracy.leave_out_trivial();
    let grid = grid.of(&who);
    let user = None;
    let mut estimates = collect!(grid, Request::Estimates { user }, Reply::Estimates);
    estimates.retain(|one| one.quality.is_some());
    estimates.sort_by_key(|one| std::cmp::Reverse(one.tasks));

    let body = html! {
        h1 { "How good predictions were" }
        p.sentence { (sentence(&accuracy.finishes)) }
        (kinds(&accuracy))
        (estimates_part(&estimates))
    };
    Ok(HtmlPage {
        title: "trust".to_owned(),
        who: &who,
        place: "/trust",
        renewal: Renewal::Always,
        body,
    }
    .answer(&headers))
}

fn sentence(ends: &[ForetoldView]) -> Markup {
    if ends.is_empty() {
        return html! { "No job has ended yet whose end was predicted with an interval." };
    }
    let held = held(ends) as u64;
    let all = ends.len() as u64;
    html! {
        "Of the last " (count(all, "predicted end", "predicted ends")) " of jobs, "
        strong { (grouped(held)) " came within their interval" } " (" (percent(held, all)) " %). Four out of five are meant to."
    }
}

/// Shows each kind of prediction that has an outcome.
fn kinds(accuracy: &AccuracyView) -> Markup {
    let kinds = [
        ("ends", "Ends of jobs", &accuracy.finishes),
        (
            "starts",
            "First starts of jobs that waited",
            &accuracy.starts,
        ),
        ("together", "Several hosts at once", &accuracy.hosts),
    ];
    html! {
        div.trust {
            @for (id, title, predictions) in kinds {
                @if !predictions.is_empty() {
                    section aria-labelledby=(id) {
                        h2 id=(id) { (title) }
                        (scatter(predictions))
                        p { (summary(predictions)) }
                    }
                }
            }
        }
        @if accuracy.open > 0 { p.quiet { (count(accuracy.open, "prediction has", "predictions have")) " no outcome yet." } }
    }
}

/// Says how far predictions were off, and how many intervals held.
fn summary(predictions: &[ForetoldView]) -> Markup {
    let ratio = |one: &ForetoldView| one.came.secs().max(0.5) / one.wait.secs().max(0.5);
    let mut ratios: Vec<f64> = predictions.iter().map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios[(ratios.len() - 1) * part / 10];
    let middle = at(5);
    let off = match middle.partial_cmp(&1.0) {
        Some(Ordering::Greater) => "later than predicted",
        Some(Ordering::Less) => "sooner than predicted",
        _ => "as predicted",
    };
    let held = held(predictions) as u64;
    let all = predictions.len() as u64;
    if predictions.len() < FEW {
        return html! { (grouped(held)) " of " (grouped(all)) " intervals held. More than that can be said once there are " (FEW) "." };
    }
    html! {
        (grouped(held)) " of " (grouped(all)) " intervals held (" (percent(held, all)) " %). "
        "Half of the waits took at least " (format!("{middle:.2}")) " times what was predicted (" (off) "), eight in ten from "
        (format!("{:.2}", at(1))) " to " (format!("{:.2}", at(9))) " times."
    }
}

/// The place of a wait in the picture, from 0 to its side.
fn place(wait: Span) -> f64 {
    let log = wait.secs().max(1.0).log10().clamp(SHORTEST, LONGEST);
    (log - SHORTEST) / (LONGEST - SHORTEST) * SIDE
}

/// Draws predicted waits against actual ones, both on logarithmic axes.
fn scatter(predictions: &[ForetoldView]) -> Markup {
    let newest = &predictions[predictions.len().saturating_sub(DRAWN)..];
    let points = |within: bool| -> String {
        let chosen = newest.iter().filter(|one| one.held() == within);
        let square = |one: &ForetoldView| {
            let (x, y) = (place(one.wait), SIDE - place(one.came));
            format!("M{:.0} {:.0}h5v5h-5z", x - 2.5, y - 2.5)
        };
        chosen.map(square).collect()
    };
    let marks = [(1, "1 s"), (60, "1 min"), (3_600, "1 h"), (86_400, "1 d")];

    html! {
        figure.scatter {
            svg viewBox={ "-46 -6 " (SIDE + 60.0) " " (SIDE + 34.0) } role="img"
                aria-label="Predicted waits against actual ones: on the diagonal a prediction was right" {
                rect.way x="0" y="0" width=(SIDE) height=(SIDE) {}
                @for (seconds, word) in marks {
                    @let at = place(Span::from_secs(seconds));
                    line.grid x1=(at) x2=(at) y1="0" y2=(SIDE) {}
                    line.grid x1="0" x2=(SIDE) y1=(SIDE - at) y2=(SIDE - at) {}
                    text x=(at) y=(SIDE + 16.0) text-anchor="middle" { (word) }
                    text x="-6" y=(SIDE - at + 4.0) text-anchor="end" { (word) }
                }
                line.right x1="0" y1=(SIDE) x2=(SIDE) y2="0" {}
                path.failed d=(points(false)) {}
                path.finished d=(points(true)) {}
            }
            figcaption {
                ul.legend {
                    li { span.badge.finished { span.swatch aria-hidden="true" {} " within the interval" } }
                    li { span.badge.failed { span.swatch aria-hidden="true" {} " outside" } }
                }
                " Across: what was predicted. Up: what came. "
                @if newest.len() < predictions.len() { "The newest " (newest.len()) " are drawn." }
            }
        }
    }
}

/// Shows how good users' own estimates were, by program.
fn estimates_part(estimates: &[EstimatesView]) -> Markup {
    if estimates.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="estimates" {
            h2 #estimates { "Users' own estimates" }
            (table(&["User", "Program", "Tasks", "Took / estimated", "Eight in ten"], &html! {
                @for one in estimates.iter().take(ROWS) {
                    @if let Some(quality) = &one.quality { tr {
                        td { (printable(&one.user)) } td { (printable(&one.program)) }
                        td.number { (grouped(one.tasks)) }
                        td.number { (format!("{:.2}", quality.ratio.0)) }
                        td.number { (format!("{:.2} to {:.2}", quality.ratio.1, quality.ratio.2)) }
                    } }
                }
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::Time;

    #[test]
    fn intervals_that_held_are_counted_and_drawn_apart() {
        let one = |wait: u64, came: u64| ForetoldView {
            hosts: 0,
            at: Time(0),
            wait: Span::from_secs(wait),
            low: Span::from_secs(wait / 2),
            high: Span::from_secs(wait * 2),
            came: Span::from_secs(came),
        };
        let ends = [one(60, 60), one(600, 700), one(60, 600)];
        let said = sentence(&ends).into_string();
        assert!(said.contains("2 came within their interval") && said.contains("66 %"));
        let drawn = scatter(&ends).into_string();
        let path = |class: &str| {
            let start = drawn
                .find(&format!("<path class=\"{class}\""))
                .expect(class);
            let end = drawn[start..].find('>').expect("an end");
            drawn[start..start + end].matches('M').count()
        };
        assert_eq!((path("finished"), path("failed")), (2, 1));
    }

    #[test]
    fn the_picture_does_not_grow_with_the_predictions() {
        let many: Vec<ForetoldView> = (1..5_000)
            .map(|n| ForetoldView {
                hosts: 0,
                at: Time(n),
                wait: Span::from_secs(n),
                low: Span::ZERO,
                high: Span::from_secs(2 * n),
                came: Span::from_secs(n),
            })
            .collect();
        assert!(scatter(&many).into_string().len() < 20_000);
    }
}
