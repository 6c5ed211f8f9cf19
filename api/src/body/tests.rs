//! Bodies that come slowly, of several users.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::Request;
use common::BlobRef;
use common::content::BlobHash;
use common::token::Role;
use common::wire::{Refusal, client};
use http_body::Frame;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt;

use super::*;
use crate::{Coming, Door, FoundContent, OwnSocket, Pieces, Replies, SitePages, Who, router};

/// A grid that nothing reaches.
struct Nowhere;

impl Door for Nowhere {
    fn ask(&self, _: &Who, _: client::Request) -> Replies {
        unreachable!("nothing is asked")
    }

    fn get(&self, _: &Who, _: BlobHash, _: u64) -> Coming<'_, Result<FoundContent, Refusal>> {
        unreachable!("no content is asked for")
    }

    fn put(&self, _: &Who, _: BlobRef, _: Pieces) -> Coming<'_, Result<(), Refusal>> {
        unreachable!("no content is sent")
    }
}

/// A body of no known length, which comes in pieces of 1 KiB.
struct Chunks {
    left: usize,
    /// Whether it ends once they have come; else nothing more comes.
    ends: bool,
}

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match (self.left, self.ends) {
            (0, true) => Poll::Ready(None),
            (0, false) => Poll::Pending,
            _ => {
                self.left -= 1;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b' '; 1024])))))
            }
        }
    }
}

/// Has a user send a job of so many KiB of spaces. Returns the status of the answer.
fn post(user: u128, kib: usize, ends: bool) -> JoinHandle<StatusCode> {
    let who = Who {
        user: format!("user{user}"),
        role: Role::Client,
        id: Uuid::from_u128(user),
        token: None,
    };
    let server = router(
        Arc::new(Nowhere),
        Arc::new(OwnSocket(who)),
        SitePages::default(),
    );
    let body = Body::new(Chunks { left: kib, ends });
    let request = Request::post("/api/v1/jobs").header("content-type", "application/json");
    let request = request.body(body).unwrap();
    tokio::spawn(async move { server.oneshot(request).await.unwrap().status() })
}

/// Lets everything come as far as it can: the paused clock moves only once nothing else does.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_of_one_user_hold_up_no_large_one_of_another() {
    let stalled: Vec<_> = (0..4).map(|_| post(1, 300, false)).collect();
    settle().await;
    // It is read as a whole, and is no JSON.
    assert_eq!(post(2, 2_000, true).await.unwrap(), StatusCode::BAD_REQUEST);
    assert!(stalled.iter().all(|body| !body.is_finished()));
    for body in stalled {
        assert_eq!(body.await.unwrap(), StatusCode::REQUEST_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_of_which_little_has_come_holds_no_place() {
    let stalled: Vec<_> = (1..=8).map(|user| post(user, 200, false)).collect();
    settle().await;
    assert_eq!(post(9, 2_000, true).await.unwrap(), StatusCode::BAD_REQUEST);
    assert!(stalled.iter().all(|body| !body.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_waits_for_its_turn_is_given_up_like_one_that_does_not_come() {
    let stalled: Vec<_> = (1..=4).map(|user| post(user, 300, false)).collect();
    settle().await;

    let began = Instant::now();
    let answer = post(5, 300, false).await.unwrap();
    assert_eq!(answer, StatusCode::REQUEST_TIMEOUT);
    assert_eq!(began.elapsed().as_secs(), BODY_TIME.as_secs());
    assert!(stalled.iter().all(JoinHandle::is_finished));
}
