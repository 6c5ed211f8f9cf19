//! The forms of answers: a JSON document, bytes, and streams.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use common::wire::Refusal;
use http_body::Frame;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::json::{SCHEMA, document};
use crate::problem::Problem;
use crate::table::Respond;

/// A JSON document, as `--output json` prints it.
#[derive(Debug)]
pub(crate) struct JsonDocument<J>(pub(crate) J);

/// The answer of an endpoint that returns a [`JsonDocument`].
pub(crate) type JsonAnswer<J> = Result<JsonDocument<J>, Problem>;

/// Returns the schema of a document with this body.
pub(crate) fn schema<J: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    let body = schemas.subschema_for::<J>();
    json!({
        "allOf": [
            body,
            {
                "type": "object",
                "properties": { "schema": { "const": SCHEMA } },
                "required": ["schema"],
            },
        ],
    })
}

/// Answers with a document, as `application/json`.
pub(crate) fn in_json(status: StatusCode, body: &impl Serialize) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, document(body) + "\n").into_response()
}

impl<J: Serialize + JsonSchema + Send> Respond for JsonDocument<J> {
    fn respond(self) -> Response {
        in_json(StatusCode::OK, &self.0)
    }

    fn describe(schemas: &mut SchemaGenerator) -> Value {
        let content = json!({ "application/json": { "schema": schema::<J>(schemas) } });
        json!({ "200": { "description": "Done.", "content": content } })
    }
}

/// A JSON document about something that was made, if it is new.
#[derive(Debug)]
pub(crate) struct Made<J> {
    /// The document.
    pub(crate) document: J,
    /// Whether it was made by this request.
    pub(crate) new: bool,
}

impl<J: Serialize + JsonSchema + Send> Respond for Made<J> {
    fn respond(self) -> Response {
        let status = if self.new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        in_json(status, &self.document)
    }

    fn describe(schemas: &mut SchemaGenerator) -> Value {
        let content = json!({ "application/json": { "schema": schema::<J>(schemas) } });
        json!({
            "200": { "description": "Nothing new was made.", "content": content },
            "201": { "description": "Made.", "content": content },
        })
    }
}

/// A body that comes piece by piece, as a `Body` of `http_body`.
pub(crate) struct PieceFlow(pub(crate) mpsc::Receiver<Result<Bytes, Refusal>>);

impl http_body::Body for PieceFlow {
    type Data = Bytes;
    type Error = Refusal;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Refusal>>> {
        let piece = self.0.poll_recv(cx);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// Bytes that nobody vouches for: never shown as a page.
pub(crate) struct Raw {
    /// The name under which a browser saves them.
    pub(crate) name: String,
    /// The bytes.
    pub(crate) body: Body,
    /// The whole length, where it is known.
    pub(crate) size: Option<u64>,
    /// The bytes that are sent: the first one, and the one behind the last; `None`: all.
    pub(crate) part: Option<(u64, u64)>,
    /// Whether it is text.
    pub(crate) text: bool,
}

impl Respond for Raw {
    fn respond(self) -> Response {
        let kind = if self.text {
            "text/plain; charset=utf-8"
        } else {
            "application/octet-stream"
        };
        let simple = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let name: String = self
            .name
            .chars()
            .map(|c| if simple(c) { c } else { '_' })
            .collect();

        let mut response = self.body.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        let mut set = |header, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(header, value);
            }
        };
        set(
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        );
        if let Some(size) = self.size {
            set(header::ACCEPT_RANGES, "bytes".to_owned());
            let (from, to) = self.part.unwrap_or((0, size));
            set(header::CONTENT_LENGTH, (to - from).to_string());
            if self.part.is_some() {
                set(
                    header::CONTENT_RANGE,
                    format!("bytes {from}-{}/{size}", to - 1),
                );
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            }
        }
        response
    }

    fn describe(_: &mut SchemaGenerator) -> Value {
        let content = json!({ "text/plain": {}, "application/octet-stream": {} });
        json!({
            "200": { "description": "The bytes.", "content": content },
            "206": { "description": "The part that Range names.", "content": content },
        })
    }
}

/// Events that a server sends (`text/event-stream`).
pub(crate) struct EventStream(pub(crate) PieceFlow);

impl Respond for EventStream {
    fn respond(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "text/event-stream")];
        (kind, Body::new(self.0)).into_response()
    }

    fn describe(_: &mut SchemaGenerator) -> Value {
        let content = json!({ "text/event-stream": {} });
        json!({ "200": { "description": "The events, as they come.", "content": content } })
    }
}

/// Nothing but the word that it is done.
#[derive(Debug)]
pub(crate) struct NothingMore;

impl Respond for NothingMore {
    fn respond(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }

    fn describe(_: &mut SchemaGenerator) -> Value {
        json!({ "204": { "description": "Done." } })
    }
}
