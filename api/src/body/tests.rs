//! Bodies that come slowly, of several users, and what is made of large ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::http::Request;
use common::BlobRef;
use common::content::BlobHash;
use common::token::Role;
use common::wire::{Refusal, client};
use http_body::Frame;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
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

/// A grid that does not answer, and counts what it was given.
#[derive(Default)]
struct Silent {
    /// Whether it takes content.
    takes: bool,
    asked: AtomicUsize,
    put: AtomicUsize,
}

impl Door for Silent {
    fn ask(&self, _: &Who, _: client::Request) -> Replies {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (tx, rx) = mpsc::channel(1);
        tokio::spawn(async move {
            tx.closed().await;
        });
        rx
    }

    fn get(&self, _: &Who, _: BlobHash, _: u64) -> Coming<'_, Result<FoundContent, Refusal>> {
        unreachable!("no content is asked for")
    }

    fn put(&self, _: &Who, _: BlobRef, _: Pieces) -> Coming<'_, Result<(), Refusal>> {
        self.put.fetch_add(1, Ordering::SeqCst);
        let takes = self.takes;
        Box::pin(async move {
            if takes {
                return Ok(());
            }
            std::future::pending().await
        })
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

/// Has a user post this below the API's root. Returns the status of the answer.
fn post_to(door: Arc<dyn Door>, user: u128, path: &str, body: Body) -> JoinHandle<StatusCode> {
    let who = Who {
        user: format!("user{user}"),
        role: Role::Client,
        id: Uuid::from_u128(user),
        token: None,
    };
    let server = router(door, Arc::new(OwnSocket(who)), SitePages::default());
    let request = Request::post(format!("/api/v1{path}"));
    let request = request.header("content-type", "application/json");
    let request = request.body(body).unwrap();
    tokio::spawn(async move { server.oneshot(request).await.unwrap().status() })
}

/// Has a user send a job of so many KiB of spaces. Returns the status of the answer.
fn post(user: u128, kib: usize, ends: bool) -> JoinHandle<StatusCode> {
    let body = Body::new(Chunks { left: kib, ends });
    post_to(Arc::new(Nowhere), user, "/jobs", body)
}

/// Has a user send six valid bodies of 2 MB each here.
fn post_six(door: &Arc<Silent>, user: u128, path: &str, body: &str) -> Vec<JoinHandle<StatusCode>> {
    let post = |_| {
        post_to(
            Arc::clone(door) as Arc<dyn Door>,
            user,
            path,
            Body::from(body.to_owned()),
        )
    };
    (0..6).map(post).collect()
}

/// Returns a body with items of 2 MB, and perhaps other fields before.
fn many_items(fields: &str) -> String {
    let items = vec!["\"a text of twenty\""; 100_000].join(",");
    format!("{{{fields}\"items\":[{items}]}}")
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
async fn the_wait_for_a_turn_is_no_time_of_sending() {
    let stalled: Vec<_> = (1..=4).map(|user| post(user, 300, false)).collect();
    settle().await;

    let began = Instant::now();
    let answer = post(5, 300, false).await.unwrap();
    assert_eq!(answer, StatusCode::REQUEST_TIMEOUT);
    assert!(began.elapsed() > BODY_TIME + BODY_TIME / 2);
    assert!(stalled.iter().all(JoinHandle::is_finished));
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_turn_does_not_come_is_put_off() {
    // Two at a time, each for as long as it may take to come.
    let stalled: Vec<_> = (0..12).map(|_| post(1, 300, false)).collect();
    let mut slow = 0;
    let mut put_off = 0;
    for answer in stalled {
        match answer.await.unwrap() {
            StatusCode::REQUEST_TIMEOUT => slow += 1,
            StatusCode::SERVICE_UNAVAILABLE => put_off += 1,
            other => panic!("{other}"),
        }
    }
    assert!(slow >= 6 && put_off >= 4, "{slow} and {put_off}");
}

#[tokio::test(start_paused = true)]
async fn few_large_bodies_of_one_user_are_worked_on_at_a_time_until_their_content_is_taken() {
    let job = many_items("\"command\":[\"true\"],");
    let tasks = many_items("");
    for (path, body) in [
        ("/jobs?dry-run=true", &job),
        ("/jobs/7/tasks", &tasks),
        ("/content", &tasks),
    ] {
        let door = Arc::new(Silent::default());
        let posted = post_six(&door, 1, path, body);
        settle().await;
        assert_eq!(door.put.load(Ordering::SeqCst), 4, "{path}");

        // Those that wait are put off, and what the grid does not take is given up: others come next.
        for answer in posted {
            let status = answer.await.unwrap();
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        }
        let next = post_six(&door, 1, path, body);
        settle().await;
        assert_eq!(door.put.load(Ordering::SeqCst), 8, "{path}");
        next.iter().for_each(JoinHandle::abort);
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_body_whose_content_was_taken_holds_up_no_other_while_the_master_thinks() {
    let job = many_items("\"command\":[\"true\"],");
    let door = Arc::new(Silent {
        takes: true,
        ..Silent::default()
    });
    let posted = post_six(&door, 1, "/jobs?dry-run=true", &job);
    settle().await;
    assert_eq!(door.asked.load(Ordering::SeqCst), 6);
    assert!(posted.iter().all(|answer| !answer.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn content_of_two_users_that_is_not_taken_holds_up_no_large_body_of_a_third() {
    let job = many_items("\"command\":[\"true\"],");
    let never = Arc::new(Silent::default());
    let stuck: Vec<_> = (1..=2)
        .flat_map(|user| post_six(&never, user, "/jobs?dry-run=true", &job))
        .collect();
    settle().await;
    assert_eq!(never.put.load(Ordering::SeqCst), 8);

    let door = Arc::new(Silent {
        takes: true,
        ..Silent::default()
    });
    let _third = post_six(&door, 3, "/jobs?dry-run=true", &job);
    settle().await;
    assert_eq!(door.asked.load(Ordering::SeqCst), 6);
    assert!(stuck.iter().all(|answer| !answer.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn a_large_form_keeps_its_turn_until_it_is_answered_or_given_up() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let never = move || async move {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<StatusCode>().await
    };
    let send = || {
        let who = Who {
            user: "ann".to_owned(),
            role: Role::Client,
            id: Uuid::from_u128(1),
            token: None,
        };
        let pages = SitePages {
            pages: axum::Router::new().route("/form", axum::routing::post(never.clone())),
            files: axum::Router::new(),
        };
        let server = router(Arc::new(Nowhere), Arc::new(OwnSocket(who)), pages);
        let request = Request::post("/form");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.body(Body::from("a".repeat(2_000_000))).unwrap();
        tokio::spawn(async move { server.oneshot(request).await.unwrap().status() })
    };

    let sent: Vec<_> = (0..2).map(|_| send()).collect();
    let waits = send();
    settle().await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    for answer in sent {
        assert_eq!(answer.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    }
    settle().await;
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    assert!(!waits.is_finished());
}
