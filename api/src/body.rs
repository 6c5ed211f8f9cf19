//! Reads bodies that are not content: within bounds of length and time, and few large ones at a time, with
//! each user in turn.

use std::pin::Pin;
use std::sync::LazyLock;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use tokio::time::Instant;
use uuid::Uuid;

use crate::gate::{Gate, Turn};
use crate::problem::Problem;

/// The longest body that is not content, in bytes.
pub(crate) const BODY: usize = 8 << 20;
/// The time in which such a body has to be there, without its wait for a turn.
const BODY_TIME: Duration = Duration::from_secs(30);
/// The longest wait for a turn: longer than whoever is next keeps one of those that work.
const TURN_TIME: Duration = Duration::from_secs(90);
/// The length up to which a body is read without a turn.
const SMALL: usize = 256 * 1024;
/// The longer bodies that are read or worked on at a time, and those of one user among them: what is
/// made of one takes many times its memory. Who sends slowly keeps a place for `BODY_TIME`, and leaves
/// some to others.
static LARGE_BODIES: LazyLock<Gate> = LazyLock::new(|| Gate::new(4, 2));
/// The longer bodies of which bytes lie in memory, also while the grid takes these, which may be slow: so they are
/// more, and hold up nobody who is only worked on.
static KEPT_BODIES: LazyLock<Gate> = LazyLock::new(|| Gate::new(32, 4));

/// A body that was read as a whole.
pub(crate) struct WholeBody {
    /// The bytes that were sent.
    pub(crate) bytes: Bytes,
    /// The turn of a large one, to be given back once what was made of it takes no memory any more.
    pub(crate) turn: Option<BodyTurn>,
}

/// The turn of a large body.
pub(crate) struct BodyTurn {
    /// The place among `KEPT_BODIES`.
    kept: Turn,
    /// The place among `LARGE_BODIES`.
    worked_on: Turn,
}

impl BodyTurn {
    async fn of(user: Uuid) -> Result<Self, Problem> {
        let enter = async {
            // Whoever waits for a place among the many keeps none of the few.
            let kept = KEPT_BODIES.enter(user).await;
            let worked_on = LARGE_BODIES.enter(user).await;
            Self { kept, worked_on }
        };

        let late = |_| {
            let what = format!(
                "other large bodies are on their way: the turn of this one did not come within {} s",
                TURN_TIME.as_secs()
            );
            let hint = "send it again once fewer of yours are";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", what, hint)
        };
        tokio::time::timeout(TURN_TIME, enter).await.map_err(late)
    }

    /// Lets others work: what was made of the body is gone, and bytes alone are kept until the grid has them.
    pub(crate) fn only_bytes(self) -> Turn {
        drop(self.worked_on);
        self.kept
    }
}

/// Reads a user's body that is short enough, and soon enough there: what is beyond `SMALL` once it is this user's turn.
pub(crate) async fn whole(user: Uuid, mut body: Body) -> Result<WholeBody, Problem> {
    let mut bytes = BytesMut::new();
    let began = Instant::now();
    let is_all = in_time(BODY_TIME, read_on(&mut body, &mut bytes, SMALL)).await?;
    let left = BODY_TIME.saturating_sub(began.elapsed());

    let mut turn = None;
    if !is_all {
        turn = Some(BodyTurn::of(user).await?);
        in_time(left, read_on(&mut body, &mut bytes, BODY)).await?;
    }
    Ok(WholeBody {
        bytes: bytes.freeze(),
        turn,
    })
}

/// Waits for the result of [`read_on`].
async fn in_time(
    time: Duration,
    reading: impl Future<Output = Option<bool>>,
) -> Result<bool, Problem> {
    let late = |_| {
        Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "too-slow",
            format!("the body was not there within {} s", BODY_TIME.as_secs()),
            "send it again",
        )
    };
    let read = tokio::time::timeout(time, reading).await;

    read.map_err(late)?.ok_or_else(|| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            format!("the body is longer than {BODY} bytes, or broke off"),
            "send it in parts",
        )
    })
}

/// Reads on until more than `enough` bytes are there, or all; returns whether these are all. `None` if the body is too
/// long or breaks off.
async fn read_on(body: &mut Body, bytes: &mut BytesMut, enough: usize) -> Option<bool> {
    while bytes.len() <= enough {
        let Some(piece) = next(body).await else {
            return Some(true);
        };
        let piece = piece.ok()?;
        if bytes.len() + piece.len() > BODY {
            return None;
        }
        bytes.extend_from_slice(&piece);
    }
    Some(false)
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
