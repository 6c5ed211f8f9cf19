//! The router: the endpoints below `/api/v1`, the exchange of tickets at `/in`, and the pages.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Router, body};
use serde_json::Value;

use crate::door::{Door, Entrance};
use crate::endpoints;
use crate::problem::Problem;
use crate::safety::{admit, guard};
use crate::table::Table;

/// The longest ticket that is looked at, in bytes.
const TICKET: usize = 256;

/// Returns the OpenAPI document.
pub fn openapi() -> Value {
    table().finish().1
}

fn table() -> Table {
    let mut table = Table::new();
    endpoints::fill(&mut table);
    table
}

/// Makes the router of one server.
pub fn router(door: Arc<dyn Door>, entrance: Arc<dyn Entrance>) -> Router {
    let (endpoints, document) = table().finish();
    let document = format!("{document:#}\n");
    let api = endpoints
        .with_state(door)
        .route("/openapi.json", get(move || openapi_json(document.clone())));

    // Pages for people have their place here, beside the API and behind the same checks.
    let pages = Router::new();

    Router::new()
        .nest("/api/v1", api)
        .merge(pages)
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_verb)
        .layer(from_fn_with_state(entrance.clone(), admit))
        .merge(way_in(entrance.clone()))
        .layer(from_fn_with_state(entrance, guard))
        .layer(from_fn(without_body))
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

/// The page that exchanges a ticket for a cookie, without a proof of who asks.
fn way_in(entrance: Arc<dyn Entrance>) -> Router {
    Router::new()
        .route("/in", get(in_page).post(exchange))
        .route("/in.js", get(in_script))
        .with_state(entrance)
}

/// The ticket is in the fragment of this page's address: only its script sees it.
async fn in_page() -> Html<&'static str> {
    Html(include_str!("in.html"))
}

async fn in_script() -> Response {
    let kind = HeaderValue::from_static("text/javascript; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], include_str!("in.js")).into_response()
}

async fn exchange(State(entrance): State<Arc<dyn Entrance>>, request: Request) -> Response {
    let ticket = body::to_bytes(request.into_body(), TICKET).await;
    let ticket = ticket
        .ok()
        .and_then(|ticket| String::from_utf8(ticket.into()).ok());
    let cookie = ticket.and_then(|ticket| entrance.exchange(ticket.trim()));

    match cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        Some(cookie) => (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response(),
        None => Problem::new(
            StatusCode::UNAUTHORIZED,
            "not-authenticated",
            "this ticket does not count, or not any more",
            entrance.way_in(),
        )
        .into_response(),
    }
}
