//! The routers: the endpoints below `/api/v1`, the way in at `/in`, and the pages, all behind the
//! same checks.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, body};
use serde_json::Value;

use crate::body::{WholeBody, whole};
use crate::door::{Door, Entrance, Who};
use crate::endpoints;
use crate::problem::Problem;
use crate::safety::{admit, guard};
use crate::table::Table;
use crate::way_in;

/// The time in which a large form has to be answered.
const FORM_TIME: Duration = Duration::from_secs(60);

/// Returns the OpenAPI document.
pub fn openapi() -> Value {
    table().finish().1
}

fn table() -> Table {
    let mut table = Table::new();
    endpoints::fill(&mut table);
    table
}

/// SitePages for people.
#[derive(Debug, Default)]
pub struct SitePages {
    /// The pages, for those who were let in.
    pub pages: Router,
    /// The files that they load, and numbers for monitors: anybody may have them.
    pub files: Router,
}

/// Makes the router of one server, with `pages` beside the API.
pub fn router(door: Arc<dyn Door>, entrance: Arc<dyn Entrance>, pages: SitePages) -> Router {
    let (endpoints, document) = table().finish();
    let document = format!("{document:#}\n");
    let api = endpoints
        .with_state(door)
        .route("/openapi.json", get(move || openapi_json(document.clone())));

    let inside = Router::new()
        .nest("/api/v1", api)
        .merge(with_bounded_forms(pages.pages))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_verb);
    checked(inside, entrance, pages.files)
}

/// Makes the router of a server that has `pages` and no API.
pub fn site(entrance: Arc<dyn Entrance>, pages: SitePages) -> Router {
    let inside = with_bounded_forms(pages.pages).fallback(no_such_page);
    checked(inside, entrance, pages.files)
}

/// Puts the checks of every request around what only those who were let in may ask for.
fn checked(inside: Router, entrance: Arc<dyn Entrance>, files: Router) -> Router {
    inside
        .layer(from_fn_with_state(entrance.clone(), admit))
        .merge(way_in::routes(entrance.clone()))
        .merge(files)
        .layer(from_fn_with_state(entrance, guard))
        .layer(from_fn(without_body))
}

async fn no_such_page() -> Problem {
    Problem::not_found("there is nothing at this path", "there is one page, at /")
}

/// Bounds the forms of pages, whose handlers wait for theirs without an end. The API bounds its
/// bodies itself, and content that is sent to it may be large whatever type a program says.
fn with_bounded_forms(pages: Router) -> Router {
    pages.layer(from_fn(form_in_time))
}

/// Gives a form up that is not there in time.
async fn form_in_time(
    Extension(who): Extension<Who>,
    request: Request,
    next: axum::middleware::Next,
) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-")) {
        return next.run(request).await;
    }

    let (head, body) = request.into_parts();
    let WholeBody { bytes, turn } = match whole(who.id, body).await {
        Ok(whole) => whole,
        Err(problem) => return problem.into_response(),
    };
    let answered = next.run(Request::from_parts(head, bytes.into()));
    let Some(_turn) = turn else {
        return answered.await;
    };

    // Its fields stay in memory until it is answered, since the page shows them again: so the turn of a
    // large one does, too, and not for longer than others can wait for it.
    let late = tokio::time::timeout(FORM_TIME, answered).await;
    late.unwrap_or_else(|_| {
        let what = format!("no answer came within {FORM_TIME:?}");
        let hint = "see on the page of jobs whether it was submitted, or send the form again: it counts once";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", what, hint).into_response()
    })
}

/// Leaves the body of an answer out where only its head is wanted: axum does so itself for what it
/// routes, but not for what the checks answer.
async fn without_body(request: Request, next: axum::middleware::Next) -> Response {
    let head = request.method() == axum::http::Method::HEAD;
    let mut response = next.run(request).await;
    if head {
        *response.body_mut() = body::Body::empty();
    }
    response
}

async fn openapi_json(document: String) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], document).into_response()
}

async fn nothing_here() -> Problem {
    Problem::not_found(
        "there is nothing at this path",
        "GET /api/v1/openapi.json says what there is",
    )
}

async fn wrong_verb() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "wrong-verb",
        "there is no such verb at this path",
        "GET /api/v1/openapi.json says what there is",
    )
}
