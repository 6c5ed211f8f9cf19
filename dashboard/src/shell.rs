//! The frame of all pages: the head, the way around, and the place where the script says
//! that nothing answers.

use std::sync::Arc;

use api::Who;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use common::token::Role;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::grid::SharedGrid;

/// The grid, as handlers of pages get it.
pub(crate) type Shared = axum::extract::State<Arc<SharedGrid>>;
/// The one who looks.
pub(crate) type LoggedIn = axum::Extension<Who>;

/// The places that every page leads to.
const PLACES: [(&str, &str); 6] = [
    ("/", "Now"),
    ("/jobs", "Jobs"),
    ("/hosts", "Hosts"),
    ("/calendar", "Calendar"),
    ("/trust", "Trust"),
    ("/submit", "Submit"),
];

/// Shapes that charts fill areas with, so that states differ in more than colour.
const PATTERNS: &str = r#"<svg class="patterns" aria-hidden="true" focusable="false"><defs>
<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="ink" width="2" height="6"/></pattern>
<pattern id="cross" width="6" height="6" patternUnits="userSpaceOnUse"><path class="line" d="M0 0l6 6M6 0l-6 6"/></pattern>
<pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse"><circle class="ink" cx="1.5" cy="1.5" r="1"/></pattern>
</defs></svg>"#;

/// The way in which a page comes again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The script looks again, and without it the page is loaded again.
    Always,
    /// Only the script looks again, while nobody is in a field: to load the page would wipe what is
    /// being typed.
    ByScript,
    /// It stays as it is: an answer to a form, an error, a question, or a form that is to be filled
    /// in. To get its address again would show something else, or wipe what is being typed.
    Never,
}

/// A page with its title, for somebody.
pub(crate) struct HtmlPage<'a> {
    /// The title, which tells the state: it is all that is seen of a tab.
    pub(crate) title: String,
    /// The one who looks.
    pub(crate) who: &'a Who,
    /// The place (of those in the head) that it belongs to.
    pub(crate) place: &'static str,
    /// The way in which it comes again.
    pub(crate) renewal: Renewal,
    /// Its content.
    pub(crate) body: Markup,
}

impl HtmlPage<'_> {
    /// Answers with the page, or that it is as it was when it was last sent.
    pub(crate) fn answer(self, headers: &HeaderMap) -> Response {
        let who = Some(self.who);
        let text = document(&self.title, who, self.place, self.renewal, &self.body);
        answer(text.into_string(), headers)
    }
}

/// Answers with a document, or that it is as it was when it was last sent.
pub(crate) fn answer(text: String, headers: &HeaderMap) -> Response {
    let mark = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..16]);
    let known = headers.get(header::IF_NONE_MATCH);
    let same = known.is_some_and(|known| known.as_bytes() == mark.as_bytes());

    match HeaderValue::from_str(&mark) {
        Ok(mark) if same => unchanged(mark),
        Ok(mark) => ([(header::ETAG, mark)], Html(text)).into_response(),
        Err(_) => Html(text).into_response(),
    }
}

/// Answers that a page is as its reader has it, who named this mark.
pub(crate) fn unchanged(mark: HeaderValue) -> Response {
    (StatusCode::NOT_MODIFIED, [(header::ETAG, mark)]).into_response()
}

/// The parts of a page around its content.
pub(crate) struct Frame {
    /// The part of the head beside the name.
    pub(crate) head: Markup,
    /// The last line.
    pub(crate) foot: Markup,
    /// The way in which the page comes again.
    pub(crate) renewal: Renewal,
    /// The interval at which the script looks again, if it does, in milliseconds.
    pub(crate) every_ms: u32,
    /// The words of the script where nothing answers.
    pub(crate) lost: &'static str,
    /// The words of the script where nobody is let in any more.
    pub(crate) out: &'static str,
    /// The words of the script where the page is refused or gone.
    pub(crate) gone: &'static str,
}

/// Lays out a page of the grid.
pub(crate) fn document(
    title: &str,
    who: Option<&Who>,
    place: &str,
    renewal: Renewal,
    body: &Markup,
) -> Markup {
    let frame = Frame {
        head: html! {
            nav aria-label="Pages" { (places(who, place)) }
            @if let Some(who) = who { (viewer(who)) }
        },
        foot: html! {
            "Keys: " kbd { "g" } " then " kbd { "n" } " now, " kbd { "j" } " jobs, " kbd { "h" }
            " hosts, " kbd { "c" } " calendar, " kbd { "t" } " trust, " kbd { "s" } " submit · " kbd { "/" } " search · times are yours, without JavaScript UTC"
        },
        renewal,
        every_ms: 2_000,
        lost: "The master does not answer. What you see is as it was; it is asked again.",
        out: "You are not let in any more: load this page again, which says how one gets in.",
        gone: "This page does not come any more. What you see is as it was; load it again to see why.",
    };
    lay_out(title, &frame, body)
}

/// Lays out a whole document.
pub(crate) fn lay_out(title: &str, frame: &Frame, body: &Markup) -> Markup {
    let every_ms = (frame.renewal != Renewal::Never).then_some(frame.every_ms);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · deskgrid" }
                link rel="icon" href="/icon.svg";
                link rel="stylesheet" href="/style.css";
                script src="/live.js" defer {}
                @if frame.renewal == Renewal::Always { noscript { meta http-equiv="refresh" content="10"; } }
            }
            body {
                (PreEscaped(PATTERNS))
                a.skip href="#main" { "To the content" }
                header {
                    a.brand href="/" { (mark()) "deskgrid" }
                    (frame.head)
                }
                p #offline role="status" hidden data-every=[every_ms] data-lost=(frame.lost) data-out=(frame.out) data-gone=(frame.gone) {}
                main #main { (body) }
                footer { (frame.foot) }
            }
        }
    }
}

fn places(who: Option<&Who>, place: &str) -> Markup {
    let admin = who.is_some_and(|who| who.role == Role::Admin);
    let admin = admin.then_some(("/admin", "Admin"));
    html! {
        @for (path, name) in PLACES.into_iter().chain(admin) {
            a href=(path) aria-current=[(path == place).then_some("page")] { (name) }
        }
    }
}

fn viewer(who: &Who) -> Markup {
    html! {
        span.viewer title="The one whose certificate or token lets you in" {
            (common::text::printable(&who.user))
            @if who.role == Role::Admin { " · admin" }
        }
    }
}

/// The mark of deskgrid: desks in a grid, one of them at work.
fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 20 20" aria-hidden="true" focusable="false" {
            @for (x, y) in [(1, 1), (8, 1), (15, 1), (1, 8), (15, 8), (1, 15), (8, 15), (15, 15)] {
                rect x=(x) y=(y) width="4" height="4" rx="1" {}
            }
            rect.on x="7" y="7" width="6" height="6" rx="1.5" {}
        }
    }
}
