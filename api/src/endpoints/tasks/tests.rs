//! The output of a running task, to its end and to where it breaks off.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::http::Request as HttpRequest;
use common::attempt::Stream;
use common::content::BlobHash;
use common::token::Role;
use common::view::TaskView;
use common::wire::stream::TailPart;
use common::{Incarnation, JobId};
use tower::ServiceExt;
use uuid::Uuid;

use super::*;
use crate::{Coming, Door, FoundContent, OwnSocket, Pieces, Replies, SitePages, Who, router};

/// A grid with one running task.
struct OneTask {
    /// The replies to whoever follows its output.
    tail: Vec<Result<Reply, Refusal>>,
    /// The replies to whoever asks for what it left.
    left: Vec<Result<Reply, Refusal>>,
}

fn task() -> TaskId {
    TaskId::new(JobId(1), 1)
}

fn attempt() -> AttemptId {
    AttemptId {
        task: task(),
        number: 1,
        incarnation: Incarnation(1),
    }
}

fn refusal(code: RefusalCode) -> Refusal {
    Refusal::new(code, "the master restarts", "try again")
}

impl Door for OneTask {
    fn ask(&self, _: &Who, request: Request) -> Replies {
        let running = TaskView {
            task: task(),
            item: None,
            state: TaskState::Running,
            reason: None,
            attempts: Vec::new(),
            speculation: None,
        };
        let replies = match request {
            Request::Tasks { .. } => vec![Ok(Reply::Tasks(vec![running]))],
            Request::Tail { .. } => self.tail.clone(),
            Request::Outputs { .. } => self.left.clone(),
            other => unreachable!("nobody asks this here: {other:?}"),
        };

        let (tx, rx) = mpsc::channel(replies.len().max(1));
        for reply in replies {
            tx.try_send(reply).expect("there is room for all");
        }
        rx
    }

    fn get(&self, _: &Who, hash: BlobHash, _: u64) -> Coming<'_, Result<FoundContent, Refusal>> {
        unreachable!("no content is asked for: {hash}")
    }

    fn put(&self, _: &Who, _: BlobRef, _: Pieces) -> Coming<'_, Result<(), Refusal>> {
        unreachable!("no content is sent")
    }
}

/// The answer with the output that the task left in the end.
fn left(text: &str, removed: bool) -> Result<Reply, Refusal> {
    let stream = |text: &str| Stream {
        content: Content::Inline(text.as_bytes().to_vec()),
        dropped: 0,
    };
    Ok(Reply::Outputs(vec![OutputView {
        attempt: attempt(),
        host: "desk-1".to_owned(),
        stdout: (stream(text), None),
        stderr: (stream(""), None),
        files: Vec::new(),
        warnings: Vec::new(),
        removed,
    }]))
}

/// Follows the task, which has printed `abc` so far, and then this comes. Returns all that was read, or
/// nothing if the answer broke off.
async fn followed(
    then: Vec<Result<Reply, Refusal>>,
    left: Vec<Result<Reply, Refusal>>,
) -> Option<Vec<u8>> {
    let begins = TailNews::Begins {
        attempt: attempt(),
        host: "desk-1".to_owned(),
    };
    let part = TailPart {
        offset: 0,
        bytes: b"abc".to_vec(),
    };
    let mut tail = vec![
        Ok(Reply::Tail(begins)),
        Ok(Reply::Tail(TailNews::Part(part))),
    ];
    tail.extend(then);

    let who = Who {
        user: "ann".to_owned(),
        role: Role::Client,
        id: Uuid::from_u128(1),
        token: None,
    };
    let grid = Arc::new(OneTask { tail, left });
    let server = router(grid, Arc::new(OwnSocket(who)), SitePages::default());
    let request = HttpRequest::get("/api/v1/jobs/1/tasks/1/stdout?follow=1");
    let request = request.body(Body::empty()).unwrap();
    let answer = server.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let bytes = to_bytes(answer.into_body(), 1_000).await;
    bytes.ok().map(|bytes| bytes.to_vec())
}

fn settled() -> Vec<Result<Reply, Refusal>> {
    vec![Ok(Reply::Tail(TailNews::Settled))]
}

#[tokio::test]
async fn followed_output_ends_with_what_the_result_has_beyond_it() {
    let all = followed(settled(), vec![left("abcdef", false)]).await;
    assert_eq!(all.as_deref(), Some(&b"abcdef"[..]));
    let cancelled = followed(settled(), Vec::new()).await;
    assert_eq!(cancelled.as_deref(), Some(&b"abc"[..]));
}

#[tokio::test]
async fn followed_output_that_is_not_all_breaks_off() {
    let away = || vec![Err(refusal(RefusalCode::Unavailable))];
    let unseen = || vec![Err(refusal(RefusalCode::NotFound))];
    let odd = || vec![Ok(Reply::Tasks(Vec::new()))];
    for (what, then, left) in [
        ("the master is away at its end", settled(), away()),
        ("the job is no longer shared", settled(), unseen()),
        (
            "the result was removed",
            settled(),
            vec![left("abcdef", true)],
        ),
        ("the answer to what it left is no answer", settled(), odd()),
        ("the master goes away before", away(), Vec::new()),
        ("the replies just end", Vec::new(), Vec::new()),
        ("the replies are no replies", odd(), Vec::new()),
    ] {
        assert_eq!(followed(then, left).await, None, "{what}");
    }
}
