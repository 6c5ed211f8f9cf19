//! Reads bodies that are not content: within bounds of length and time, and few large ones at a time, with
//! each user in turn.

use std::pin::Pin;
use std::sync::LazyLock;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use uuid::Uuid;

use crate::gate::{Gate, Turn};
use crate::problem::Problem;

/// The longest body that is not content, in bytes.
pub(crate) const BODY: usize = 8 << 20;
/// The time in which such a body has to be there.
const BODY_TIME: Duration = Duration::from_secs(30);
/// The length up to which a body is read without a turn.
const SMALL: usize = 256 * 1024;
/// The longer bodies that are read or worked on at a time, and those of one user among them: what is
/// made of one takes many times its memory. Who sends slowly keeps a place for `BODY_TIME`, and leaves
/// some to others.
static LARGE_BODIES: LazyLock<Gate> = LazyLock::new(|| Gate::new(4, 2));

/// A body that was read as a whole.
pub(crate) struct WholeBody {
    /// What was sent.
    pub(crate) bytes: Bytes,
    /// The turn of a large one, to be given back once what was made of it takes no memory any more.
    pub(crate) turn: Option<Turn>,
}

/// Reads a user's body that is short enough, and soon enough there.
pub(crate) async fn whole(user: Uuid, body: Body) -> Result<WholeBody, Problem> {
    let late = |_| {
        Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "too-slow",
            format!("the body was not there within {} s", BODY_TIME.as_secs()),
            "send it again",
        )
    };
    let read = tokio::time::timeout(BODY_TIME, in_turn(user, body)).await;

    read.map_err(late)?.ok_or_else(|| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            format!("the body is longer than {BODY} bytes, or broke off"),
            "send it in parts",
        )
    })
}

/// Reads a body, what is beyond `SMALL` once it is this user's turn; `None` if it is too long or breaks off.
async fn in_turn(user: Uuid, mut body: Body) -> Option<WholeBody> {
    let mut whole = BytesMut::new();
    let mut turn = None;
    while let Some(piece) = next(&mut body).await {
        let piece = piece.ok()?;
        let length = whole.len() + piece.len();
        if length > BODY {
            return None;
        }
        if length > SMALL && turn.is_none() {
            turn = Some(LARGE_BODIES.enter(user).await);
        }
        whole.extend_from_slice(&piece);
    }

    Some(WholeBody {
        bytes: whole.freeze(),
        turn,
    })
}

/// Returns the next piece of a body; `None` at its end.
pub(crate) async fn next(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        let mut body = Pin::new(&mut *body);
        let frame = std::future::poll_fn(|cx| http_body::Body::poll_frame(body.as_mut(), cx));
        match frame.await?.map(http_body::Frame::into_data) {
            Ok(Ok(piece)) => return Some(Ok(piece)),
            // Trailers say nothing here.
            Ok(Err(_)) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests;
