//! The routers: the endpoints below `/api/v1`, the way in at `/in`, and the pages, all behind the
//! same checks.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Request};
use axum::http::{StatusCode, header};
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
    let all = inside
        .layer(from_fn_with_state(entrance.clone(), admit))
        .merge(way_in::routes(entrance.clone()))
        .merge(files);
    guarded(all, entrance)
}

/// Puts those checks around `routes` for which nobody has to prove anything: a request names this server,
/// and comes from no other site's page.
pub fn guarded(routes: Router, entrance: Arc<dyn Entrance>) -> Router {
    routes
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
    // large one does, too, and not for longer than others wait for it.
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
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
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

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::{HeaderMap, Request as HttpRequest};
    use tower::ServiceExt;

    use super::*;
    use crate::Coming;

    /// The entrance of a server called `here`, which lets nobody in.
    struct Here;

    impl Entrance for Here {
        fn is_ours(&self, host: &str) -> bool {
            host == "here"
        }

        fn admit<'a>(&'a self, _: &'a HeaderMap) -> Coming<'a, Option<Who>> {
            Box::pin(async { None })
        }

        fn way_in(&self) -> &'static str {
            ""
        }
    }

    /// Asks guarded routes; returns the status of the answer, and its text.
    async fn ask(path: &str, headers: &[(&str, &str)]) -> (StatusCode, String) {
        let elsewhere = || async { (StatusCode::SERVICE_UNAVAILABLE, "elsewhere") };
        let routes = Router::new().route("/healthz", get(|| async { "well" }));
        let guarded = guarded(routes.fallback(elsewhere), Arc::new(Here));
        let mut request = HttpRequest::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }

        let request = request.body(Body::empty()).unwrap();
        let answer = guarded.oneshot(request).await.unwrap();
        let status = answer.status();
        let bytes = to_bytes(answer.into_body(), 10_000).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn guarded_routes_say_nothing_under_another_name_or_to_pages_of_other_sites() {
        let well = ask("/healthz", &[("host", "here")]).await;
        assert_eq!(well, (StatusCode::OK, "well".to_owned()));
        let other = ask("/jobs", &[("host", "here")]).await;
        assert_eq!(other.0, StatusCode::SERVICE_UNAVAILABLE);

        for path in ["/healthz", "/jobs"] {
            let (status, text) = ask(path, &[("host", "evil.example")]).await;
            assert_eq!(status, StatusCode::MISDIRECTED_REQUEST, "{path}");
            assert!(
                !text.contains("well") && !text.contains("elsewhere"),
                "{text}"
            );
            let foreign = [("host", "here"), ("origin", "http://evil.example")];
            let (status, text) = ask(path, &foreign).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
            assert!(
                !text.contains("well") && !text.contains("elsewhere"),
                "{text}"
            );
        }
    }
}
