//! Content by its hash, for programs that send files of a job and fetch results.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use common::BlobRef;
use common::wire::{Refusal, RefusalCode};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::answer::{JsonAnswer, JsonDocument, NothingMore, Raw};
use crate::body::{BodyTurn, WholeBody, next};
use crate::call::Call;
use crate::content::by_hash;
use crate::door::Who;
use crate::problem::Problem;
use crate::table::{BytesBody, NoBody, NoQuery, Sent, Table};

pub(super) fn add(table: &mut Table) {
    table
        .get("/content/{hash}", "content")
        .about("Sends content that a job of yours needs or left.")
        .serve(fetch);

    table
        .post("/content", "sendContent")
        .about("Sends content of at most 8 MiB, and says its hash, so that jobs can name it.")
        .serve(send);
    table
        .put("/content/{hash}", "putContent")
        .about("Sends content, so that jobs can name it. Its hash is verified.")
        .serve(put);
}

/// The longest time without a piece of content that is being sent.
const LULL: std::time::Duration = std::time::Duration::from_secs(30);

/// Content that is being sent.
struct ContentBody {
    size: u64,
    pieces: mpsc::Receiver<Result<bytes::Bytes, Refusal>>,
}

impl Sent for ContentBody {
    async fn read(_: &Who, headers: &HeaderMap, body: Body) -> Result<Self, Problem> {
        let size = headers.get(header::CONTENT_LENGTH);
        let size = size.and_then(|size| size.to_str().ok()?.parse().ok());
        let size = size.ok_or_else(|| {
            Problem::new(
                StatusCode::LENGTH_REQUIRED,
                "length-required",
                "the length of the content is not said",
                "send Content-Length",
            )
        })?;
        let (tx, pieces) = mpsc::channel(2);
        tokio::spawn(pass_on(body, tx));

        Ok(Self { size, pieces })
    }

    fn describe(_: &mut SchemaGenerator) -> Option<Value> {
        let content = json!({ "application/octet-stream": {} });
        Some(json!({ "required": true, "content": content }))
    }
}

/// Passes a body on, piece by piece.
async fn pass_on(mut body: Body, tx: mpsc::Sender<Result<bytes::Bytes, Refusal>>) {
    let broken = |what: &str| {
        let hint = "send it again";
        Refusal::new(RefusalCode::Invalid, what, hint)
    };

    loop {
        let piece = match tokio::time::timeout(LULL, next(&mut body)).await {
            Ok(None) => return,
            Ok(Some(Ok(piece))) => Ok(piece),
            Ok(Some(Err(_))) => Err(broken("the content broke off")),
            Err(_) => Err(broken("nothing came for too long")),
        };
        let over = piece.is_err();
        if tx.send(piece).await.is_err() || over {
            return;
        }
    }
}

async fn put(call: Call, _: NoQuery, arriving: ContentBody) -> Result<NothingMore, Problem> {
    let hash = call.param("hash").parse();
    let hash = hash.map_err(|error| Problem::invalid(format!("{error}"), ""))?;
    let size = arriving.size;
    let blob = BlobRef { hash, size };
    call.grid
        .door
        .put(&call.grid.who, blob, arriving.pieces)
        .await?;
    Ok(NothingMore)
}

/// Content that was sent.
#[derive(Debug, Serialize, JsonSchema)]
struct ContentJson {
    /// Its hash, by which a job names it.
    blake3: String,
    /// Its length.
    bytes: u64,
}

async fn send(
    call: Call,
    _: NoQuery,
    BytesBody(WholeBody { bytes, turn }): BytesBody,
) -> JsonAnswer<ContentJson> {
    let _kept = turn.map(BodyTurn::only_bytes);
    let blob = call.grid.put(bytes).await?;
    Ok(JsonDocument(ContentJson {
        blake3: blob.hash.to_string(),
        bytes: blob.size,
    }))
}

async fn fetch(call: Call, _: NoQuery, _: NoBody) -> Result<Raw, Problem> {
    let hash = call.param("hash").parse();
    let hash = hash.map_err(|error| Problem::invalid(format!("{error}"), ""))?;
    by_hash(&call, hash).await
}
