//! Pages as they were last made, for the looks of their script: however many viewers there are,
//! making pages again takes a bounded part of a processor. Whoever opens a page, or has changed
//! something, gets it as it is now.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use api::Who;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use common::token::Role;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::error::PageError;
use crate::shell::unchanged;

/// The part of a processor that making pages again may take, as one in so many.
const ONE_IN: u32 = 80;
/// The shortest and the longest time for which a page is kept.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(15);
/// The time without a look after which a page is not kept any more.
const UNSEEN: Duration = Duration::from_secs(30);
/// The most pages that are kept, and the most bytes of one that is.
const MOST: usize = 200;
const LARGEST: usize = 1 << 20;

/// A page of one viewer: a token may give less than its user has.
type PageOfViewer = (Uuid, Role, String);

/// The pages that somebody looks at.
#[derive(Default)]
pub(crate) struct KeptPages(std::sync::Mutex<BTreeMap<PageOfViewer, LookedAt>>);

/// A page that somebody looks at.
struct LookedAt {
    last: Instant,
    /// Locked while the page is made: one look makes it for all.
    page: Arc<Mutex<Option<MadePage>>>,
}

/// A page as it was made.
struct MadePage {
    at: Instant,
    took: Duration,
    headers: HeaderMap,
    text: Bytes,
}

impl KeptPages {
    /// Notes a look at a page; returns its place, and the number of pages that are looked at.
    fn look(&self, page: PageOfViewer) -> (Arc<Mutex<Option<MadePage>>>, u32) {
        let now = Instant::now();
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|_, page| now.duration_since(page.last) < UNSEEN);
        if pages.len() >= MOST {
            pages.clear();
        }

        let looked = pages.entry(page).or_insert_with(|| LookedAt {
            last: now,
            page: Arc::default(),
        });
        looked.last = now;
        let place = Arc::clone(&looked.page);
        (place, u32::try_from(pages.len()).unwrap_or(u32::MAX))
    }

    /// Keeps nothing more of this viewer's pages.
    fn forget(&self, who: &Who) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|(id, ..), _| *id != who.id);
    }
}

impl MadePage {
    /// Whether the page may still be shown, with so many pages to be made.
    fn is_young(&self, pages: u32) -> bool {
        let kept = self.took.saturating_mul(pages.saturating_mul(ONE_IN));
        self.at.elapsed() < kept.clamp(SHORTEST, LONGEST)
    }

    /// The page, or that it is as it was.
    fn answer(&self, known: Option<&HeaderValue>) -> Response {
        match self.headers.get(header::ETAG) {
            Some(mark) if Some(mark) == known => unchanged(mark.clone()),
            _ => (self.headers.clone(), self.text.clone()).into_response(),
        }
    }
}

/// Answers looks of a page's script with the page as it was made last, while that is young. A page
/// that is opened is made anew, and kept: a look after it shows nothing older.
pub(crate) async fn keep(
    State(kept): State<Arc<KeptPages>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(who) = request.extensions().get::<Who>().cloned() else {
        return next.run(request).await;
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let response = next.run(request).await;
        kept.forget(&who);
        return response;
    }
    if request.method() == Method::HEAD {
        return next.run(request).await;
    }
    // Only the script says which page it has: what is shown is never stored by a browser.
    let known = request.headers_mut().remove(header::IF_NONE_MATCH);
    let known = known.filter(|known| !known.is_empty());

    let address = request.uri().path_and_query().map(ToString::to_string);
    let (place, pages) = kept.look((who.id, who.role, address.unwrap_or_default()));
    let mut page = place.lock().await;
    let young = page.as_ref().filter(|made| made.is_young(pages));
    if let (Some(known), Some(made)) = (&known, young) {
        return made.answer(Some(known));
    }

    let begun = Instant::now();
    let (head, body) = next.run(request).await.into_parts();
    let whole = head.status == StatusCode::OK && head.headers.contains_key(header::ETAG);
    if !whole {
        return Response::from_parts(head, body);
    }
    let Ok(text) = to_bytes(body, usize::MAX).await else {
        return PageError::unexpected().into_response();
    };
    let made = MadePage {
        at: Instant::now(),
        took: begun.elapsed(),
        headers: head.headers,
        text,
    };
    let answer = made.answer(known.as_ref());
    // What is too large to be kept is made anew for each look.
    *page = (made.text.len() <= LARGEST).then_some(made);
    answer
}
