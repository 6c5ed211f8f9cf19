//! Submission of jobs.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use common::RequestId;
use common::wire::client::{Reply, Request, Submission};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::post;
use crate::answer::{Made, in_json, schema};
use crate::call::Call;
use crate::json::{Object, SubmitAnswer, SubmitJson};
use crate::problem::Problem;
use crate::submit::JobBody;
use crate::table::{JsonBody, Respond, Table};

/// The longest job that travels inside a request, in bytes.
const SHORT: usize = 128 * 1024;

pub(super) fn add(table: &mut Table) {
    table.add(
        &post(
            "/jobs",
            "submitJob",
            "Submits a job. With Idempotency-Key, a UUID, it is submitted once however often it is sent.",
        ),
        submit,
    );
}

/// The way in which a job is submitted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SubmitQuery {
    /// Whether only to say what would happen.
    #[serde(default)]
    dry_run: bool,
}

/// The answer to a submission: taken, or refused with what could be promised.
enum Submitted {
    Taken(Box<Made<SubmitJson>>),
    NotPromised(Box<SubmitJson>),
}

/// A job that is refused, and what could be promised instead.
#[derive(Serialize, JsonSchema)]
struct NotPromisedJson {
    /// Says what happened.
    title: String,
    /// The status of the answer.
    status: u16,
    /// A word for programs.
    code: &'static str,
    /// Says what to do.
    #[serde(rename = "try")]
    hint: &'static str,
    /// The counter-offer: a promise that could be made.
    #[serde(flatten)]
    answer: SubmitJson,
}

impl Respond for Submitted {
    fn respond(self) -> Response {
        let answer = match self {
            Submitted::Taken(made) => return made.respond(),
            Submitted::NotPromised(answer) => *answer,
        };
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let why = answer.refused_because.clone();
        let body = NotPromisedJson {
            title: why.unwrap_or_else(|| "the deadline cannot be promised".to_owned()),
            status: status.as_u16(),
            code: "not-promised",
            hint: "ask for earliest_deadline, or for the tasks that fit",
            answer,
        };
        let kind = axum::http::HeaderValue::from_static("application/problem+json");
        let mut response = in_json(status, &body).into_response();
        let headers = response.headers_mut();
        headers.insert(axum::http::header::CONTENT_TYPE, kind);

        response
    }

    fn describe(schemas: &mut SchemaGenerator) -> Value {
        let mut answers = Made::<SubmitJson>::describe(schemas);
        let ways = [
            schema::<NotPromisedJson>(schemas),
            schemas.subschema_for::<Problem>().into(),
        ];
        answers["422"] = json!({
            "description": "The job makes no sense, or its deadline cannot be promised.",
            "content": { "application/problem+json": { "schema": { "anyOf": ways } } },
        });
        answers
    }
}

async fn submit(
    call: Call,
    query: SubmitQuery,
    JsonBody(body): JsonBody<JobBody>,
) -> Result<Submitted, Problem> {
    let id = match call.headers.get("idempotency-key") {
        None => RequestId(uuid::Uuid::from_bytes(rand::random())),
        Some(key) => {
            let key = key
                .to_str()
                .ok()
                .and_then(|key| key.trim_matches('"').parse().ok());
            let wrong = || {
                let hint = "make one with uuidgen, and send it again with each repeat";
                Problem::invalid("Idempotency-Key is no UUID", hint)
            };
            key.ok_or_else(wrong)?
        }
    };

    let (spec, mut asked) = body.job()?;
    asked.after = body.after()?;
    let checked = spec.check().and_then(|()| asked.check(&spec));
    checked.map_err(|bad| Problem::senseless(bad.to_string(), "nothing was submitted"))?;
    let bytes = postcard::to_stdvec(&(&spec, &asked));
    let bytes = bytes.map_err(|bad| Problem::invalid(bad.to_string(), "nothing was submitted"))?;
    let spec = if bytes.len() <= SHORT {
        Submission::Inline(Box::new(spec), asked)
    } else {
        Submission::Blob(put(&call, bytes).await?)
    };

    let request = Request::Submit {
        id,
        spec,
        disclosed: body.disclose,
        dry_run: query.dry_run,
    };
    answer(call.grid.one(request).await?, query.dry_run)
}

/// Sends a long job as content.
async fn put(call: &Call, bytes: Vec<u8>) -> Result<common::BlobRef, Problem> {
    let blob = common::BlobRef {
        hash: common::content::BlobHash(*blake3::hash(&bytes).as_bytes()),
        size: bytes.len() as u64,
    };
    let (tx, rx) = mpsc::channel(1);
    // The channel has room for it.
    let _ = tx.try_send(Ok(bytes.into()));
    drop(tx);
    call.grid.door.put(&call.grid.who, blob, rx).await?;
    Ok(blob)
}

fn answer(reply: Reply, dry_run: bool) -> Result<Submitted, Problem> {
    match SubmitAnswer::of(reply, dry_run).map_err(|_| Problem::unexpected())? {
        Ok(answer) => {
            let new = answer.job.is_some() && !answer.again;
            let document = answer.json();
            Ok(Submitted::Taken(Box::new(Made { document, new })))
        }
        Err(counter) => {
            let answer = SubmitAnswer {
                dry_run,
                refused_because: Some(counter.why.clone()),
                counter: Some(counter),
                ..SubmitAnswer::default()
            };
            Ok(Submitted::NotPromised(Box::new(answer.json())))
        }
    }
}
