//! The pages for people: what the grid does, why, and until when, rendered here as HTML from the
//! master's replies. Every state is an address, every page reads without JavaScript; the script
//! only fetches a page again while somebody looks at it. And one page for the owner of a PC
//! ([`owner`]), from what its worker says.
//!
//! Not here: who is let in, and what a request must look like ([`api::router`] checks that before
//! any page is asked for).

mod act;
mod admin;
mod calendar;
mod chart;
mod error;
mod grid;
mod hosts;
mod job;
mod jobs;
mod kept;
mod now;
pub mod owner;
mod parts;
mod shell;
mod submit;
mod task;
mod timeline;
mod trust;
mod week;
mod when;
mod why;

use std::sync::Arc;

use api::{Door, SitePages};
use axum::Router;
use axum::http::header;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get};

use act::admission;
use grid::SharedGrid;
use kept::{KeptPages, keep};

/// Returns the pages of the grid behind `door`.
pub fn pages(door: Arc<dyn Door>) -> SitePages {
    let pages = Router::new()
        .route("/", get(now::page))
        .route("/jobs", get(jobs::page))
        .route("/jobs/{job}", get(job::page))
        .route("/jobs/{job}/why", get(why::page))
        .route("/jobs/{job}/tasks/{task}", get(task::page))
        .route("/jobs/{job}/{verb}", get(act::ask_job).post(act::do_job))
        .route("/hosts", get(hosts::list))
        .route("/hosts/{host}", get(hosts::one))
        .route(
            "/hosts/{host}/{verb}",
            get(act::ask_host).post(act::do_host),
        )
        .route("/calendar", get(calendar::page))
        .route("/trust", get(trust::page))
        .route("/submit", get(submit::form).post(submit::send))
        .route("/admin", get(admin::page))
        .route(
            "/admin/token",
            get(admission::token_form).post(admission::make_token),
        )
        .route(
            "/admin/tokens/{token}/{verb}",
            get(admission::ask_token).post(admission::do_token),
        )
        .route(
            "/admin/identities/{identity}/{verb}",
            get(admission::ask_identity).post(admission::do_identity),
        )
        .layer(from_fn_with_state(Arc::new(KeptPages::default()), keep))
        .layer(from_fn(error::renew))
        .with_state(Arc::new(SharedGrid::new(door)));
    SitePages {
        pages,
        files: files(),
    }
}

/// The files that pages load.
fn files() -> Router {
    Router::new()
        .route(
            "/style.css",
            file(
                "text/css; charset=utf-8",
                include_str!("../assets/style.css"),
            ),
        )
        .route(
            "/live.js",
            file(
                "text/javascript; charset=utf-8",
                include_str!("../assets/live.js"),
            ),
        )
        .route(
            "/icon.svg",
            file("image/svg+xml", include_str!("../assets/icon.svg")),
        )
}

fn file(kind: &'static str, content: &'static str) -> MethodRouter {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "max-age=60"),
    ];
    get(move || async move { (headers, content) })
}
