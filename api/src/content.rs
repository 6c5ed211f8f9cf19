//! Content that tasks left: whole where it is short, in parts (`Range`), and as it comes.

use axum::body::Body;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use common::content::{BlobHash, Content};
use tokio::sync::mpsc;

use crate::answer::{PieceFlow, Raw};
use crate::call::Call;
use crate::door::FoundContent;
use crate::problem::Problem;

/// The longest content that is read into memory, in bytes: of what is longer only the end is of
/// interest.
pub(crate) const SHORT: u64 = 16 << 20;

/// The part of some content that a request asks for: the first byte, and the one behind the last.
fn part(call: &Call, size: u64) -> Result<Option<(u64, u64)>, Problem> {
    let Some(range) = call.headers.get(header::RANGE) else {
        return Ok(None);
    };
    let asked = range.to_str().ok().and_then(|text| read(text, size));

    match asked {
        // Several ranges, and what is not understood, get all (RFC 9110, 14.2).
        None => Ok(None),
        Some((from, to)) if from < to => Ok(Some((from, to))),
        Some(_) => {
            let title = format!("there are {size} bytes: the range has none of them");
            Err(Problem::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "range",
                title,
                "ask for another one, or for all without Range",
            ))
        }
    }
}

/// Reads one range of bytes.
fn read(text: &str, size: u64) -> Option<(u64, u64)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };

    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => {
            Some((first, last.saturating_add(1).min(size)))
        }
        (Some(first), None) if last.is_empty() => Some((first, size)),
        (None, Some(count)) if first.is_empty() => Some((size.saturating_sub(count), size)),
        _ => None,
    }
}

/// Sends content, all of it or the part that is asked for.
pub(crate) async fn send(
    call: &Call,
    content: &Content,
    (name, text): (String, bool),
) -> Result<Raw, Problem> {
    let size = content.size();
    let part = part(call, size)?;
    let (from, to) = part.unwrap_or((0, size));
    let body = match content {
        Content::Inline(bytes) => {
            let at = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
            let bytes = bytes.get(at(from)..at(to)).unwrap_or_default();
            Body::from(bytes.to_vec())
        }
        Content::Blob(blob) => {
            let found = call.grid.door.get(&call.grid.who, blob.hash, from).await?;
            up_to(found, to - from)
        }
    };

    Ok(Raw {
        name,
        body,
        size: Some(size),
        part,
        text,
    })
}

/// Sends content by its `BlobHash`.
pub(crate) async fn by_hash(call: &Call, hash: BlobHash) -> Result<Raw, Problem> {
    let mut found = call.grid.door.get(&call.grid.who, hash, 0).await?;
    let size = found.size;
    let part = part(call, size)?;
    if let Some((from @ 1.., _)) = part {
        // It may have the only turn of its user, and waits for a reader: so it ends before the next one.
        drop(found);
        found = call.grid.door.get(&call.grid.who, hash, from).await?;
    }
    let (from, to) = part.unwrap_or((0, size));

    Ok(Raw {
        name: hash.to_string(),
        body: up_to(found, to - from),
        size: Some(size),
        part,
        text: false,
    })
}

/// The first `count` bytes of what was found, as a body.
fn up_to(mut found: FoundContent, mut count: u64) -> Body {
    let (tx, rx) = mpsc::channel(2);
    tokio::spawn(async move {
        while count > 0
            && let Some(piece) = found.pieces.recv().await
        {
            let piece = piece.map(|bytes| first(&bytes, &mut count));
            if tx.send(piece).await.is_err() {
                return;
            }
        }
    });
    Body::new(PieceFlow(rx))
}

/// Takes from `bytes` what is still wanted.
fn first(bytes: &Bytes, count: &mut u64) -> Bytes {
    let wanted = usize::try_from(*count)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    *count -= wanted as u64;
    bytes.slice(..wanted)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::body::to_bytes;
    use axum::http::Request;
    use common::BlobRef;
    use common::token::Role;
    use common::wire::{Refusal, client};
    use tokio::sync::Semaphore;
    use tower::ServiceExt;
    use uuid::Uuid;

    use super::*;
    use crate::{Coming, Door, OwnSocket, Pieces, Replies, SitePages, Who, router};

    /// The length of the content at the door, whose bytes are 0, 1, 2 and so on.
    const SIZE: u8 = 64;

    /// A grid that has one content on its way at a time, until that was read or is given up.
    struct OneAtATime(Arc<Semaphore>);

    impl Door for OneAtATime {
        fn ask(&self, _: &Who, _: client::Request) -> Replies {
            unreachable!("nothing is asked")
        }

        fn get(
            &self,
            _: &Who,
            _: BlobHash,
            from: u64,
        ) -> Coming<'_, Result<FoundContent, Refusal>> {
            let turns = Arc::clone(&self.0);
            Box::pin(async move {
                let turn = turns.acquire_owned().await.unwrap();
                let (tx, pieces) = mpsc::channel(1);
                tokio::spawn(async move {
                    let _turn = turn;
                    for byte in u8::try_from(from).unwrap()..SIZE {
                        if tx.send(Ok(Bytes::copy_from_slice(&[byte]))).await.is_err() {
                            return;
                        }
                    }
                });
                let size = u64::from(SIZE);
                Ok(FoundContent { size, pieces })
            })
        }

        fn put(&self, _: &Who, _: BlobRef, _: Pieces) -> Coming<'_, Result<(), Refusal>> {
            unreachable!("no content is sent")
        }
    }

    /// Fetches this range, and returns the status with the bytes.
    async fn fetch(range: &str) -> (StatusCode, Vec<u8>) {
        let who = Who {
            user: "ann".to_owned(),
            role: Role::Client,
            id: Uuid::from_u128(1),
            token: None,
        };
        let door = OneAtATime(Arc::new(Semaphore::new(1)));
        let server = router(
            Arc::new(door),
            Arc::new(OwnSocket(who)),
            SitePages::default(),
        );
        let path = format!("/api/v1/content/{}", BlobHash([7; 32]));
        let request = Request::get(path).header(header::RANGE, range);
        let answered = server.oneshot(request.body(Body::empty()).unwrap());

        // The paused clock moves only where nothing else can.
        let answer = tokio::time::timeout(Duration::from_secs(60), answered).await;
        let answer = answer.expect("it waits for a turn that it has").unwrap();
        let status = answer.status();
        let bytes = to_bytes(answer.into_body(), 1_000).await.unwrap();
        (status, bytes.to_vec())
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_of_content_takes_one_turn_at_a_time() {
        let partial = StatusCode::PARTIAL_CONTENT;
        assert_eq!(fetch("bytes=60-61").await, (partial, vec![60, 61]));
        assert_eq!(fetch("bytes=-2").await, (partial, vec![62, 63]));
        assert_eq!(fetch("bytes=0-1").await, (partial, vec![0, 1]));
        let none = fetch("bytes=64-").await;
        assert_eq!(none.0, StatusCode::RANGE_NOT_SATISFIABLE);
    }

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        assert_eq!(read("bytes=0-0", 10), Some((0, 1)));
        assert_eq!(read("bytes=2-99", 10), Some((2, 10)));
        assert_eq!(read("bytes=2-", 10), Some((2, 10)));
        assert_eq!(read("bytes=-3", 10), Some((7, 10)));
        assert_eq!(read("bytes=-99", 10), Some((0, 10)));
        assert_eq!(read("bytes=10-", 10), Some((10, 10)));

        for odd in [
            "",
            "bytes=",
            "bytes=-",
            "bytes=3-2",
            "bytes=0-1,3-4",
            "items=0-1",
            "bytes=+1-",
        ] {
            assert_eq!(read(odd, 10), None, "{odd}");
        }
    }
}
