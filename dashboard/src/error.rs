//! Pages that say why there is no other page.

use api::Problem;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use common::wire::Refusal;
use maud::html;

use crate::shell::{Renewal, document};

/// The reason why a page cannot be shown.
#[derive(Debug)]
pub(crate) struct PageError(Problem);

impl PageError {
    /// Makes the error about something that is not there.
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self(Problem::not_found(
            what,
            "see the list of jobs, or of hosts",
        ))
    }

    /// Makes the error about a form that makes no sense.
    pub(crate) fn invalid(what: impl Into<String>, hint: &str) -> Self {
        Self(Problem::invalid(what, hint))
    }

    /// Makes the error about an answer that does not fit the request.
    pub(crate) fn unexpected() -> Self {
        Self(Problem::unexpected())
    }

    /// Whether the request does not fit what is there.
    pub(crate) fn is_conflict(&self) -> bool {
        self.0.status == StatusCode::CONFLICT
    }

    /// Returns the error and the hint, in words.
    pub(crate) fn words(&self) -> (&str, &str) {
        (&self.0.title, &self.0.hint)
    }
}

impl From<Refusal> for PageError {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.into())
    }
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = lay_out(&self.0, Renewal::Never);
        response.extensions_mut().insert(self.0);
        response
    }
}

/// Lets a page come by itself once it can, if it was only asked for and the master could not answer. The answer to a
/// form stays.
pub(crate) async fn renew(request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = next.run(request).await;
    let passes = reads && response.status().is_server_error();
    let problem = response.extensions_mut().remove::<Problem>();
    match problem.filter(|_| passes) {
        Some(problem) => lay_out(&problem, Renewal::Always),
        None => response,
    }
}

fn lay_out(problem: &Problem, renewal: Renewal) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = html! {
        h1 { (problem.title) }
        @if !problem.hint.is_empty() { p.lead { "Try: " (problem.hint) } }
        p { a href="/" { "What the grid does now" } }
    };
    let page = document(&problem.title, None, "", renewal, &body);
    (status, Html(page.into_string())).into_response()
}
