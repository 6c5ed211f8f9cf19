//! Errors as `application/problem+json` (RFC 9457), with the words of the command line: what
//! happened, a code for scripts, and what to do.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use common::wire::{Refusal, RefusalCode};
use schemars::JsonSchema;
use serde::Serialize;

/// A request that was not carried out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Problem {
    /// Says what happened.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// A word for programs.
    pub code: &'static str,
    /// Says what to do.
    #[serde(rename = "try", skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl Problem {
    /// Makes a problem.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        title: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self {
            title: title.into(),
            status: status.as_u16(),
            code,
            hint: hint.into(),
        }
    }

    /// Makes the problem of a request that is not well formed, by the document of the API.
    pub fn invalid(title: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", title, hint)
    }

    /// Makes the problem of a request that is well formed and still makes no sense.
    pub fn senseless(title: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", title, hint)
    }

    /// Makes the problem of something that is not there.
    pub fn not_found(title: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", title, hint)
    }

    /// Makes the problem of an answer that does not fit the request.
    pub fn unexpected() -> Self {
        let title = "the master's answer does not fit the request";
        let hint = "is the master of another version? See deskgrid doctor";
        Self::new(StatusCode::BAD_GATEWAY, "protocol", title, hint)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, code) = match refusal.code {
            RefusalCode::Version => (StatusCode::BAD_GATEWAY, "version"),
            RefusalCode::NotAuthorised => (StatusCode::FORBIDDEN, "not-authorised"),
            RefusalCode::NotFound => (StatusCode::NOT_FOUND, "not-found"),
            RefusalCode::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            RefusalCode::Conflict => (StatusCode::CONFLICT, "conflict"),
            RefusalCode::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            RefusalCode::NotAdmitted => (StatusCode::UNPROCESSABLE_ENTITY, "not-admitted"),
        };
        Self::new(status, code, refusal.message, refusal.hint)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&self).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (status, kind, body).into_response()
    }
}
