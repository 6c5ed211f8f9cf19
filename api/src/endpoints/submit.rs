//! Submission of jobs.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use common::selector::parse_ids;
use common::wire::client::{Addition, Reply, Request};
use common::{NewTasks, RequestId};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::access::SHORT;
use crate::answer::{Made, in_json, schema};
use crate::body::BodyTurn;
use crate::call::Call;
use crate::json::{AddJson, Object, SubmitAnswer, SubmitJson};
use crate::problem::Problem;
use crate::submit::JobBody;
use crate::table::{LargeJsonBody, Respond, Table};

/// The advice on a submission whose fault says all.
const NAMES: &str = "docs/job-files.md explains all names";

pub(super) fn add(table: &mut Table) {
    table
        .post("/jobs", "submitJob")
        .about(
            "Submits a job. With Idempotency-Key, a UUID, \
             it is submitted once however often it is sent.",
        )
        .serve(submit);
    table
        .post("/jobs/{job}/tasks", "addTasks")
        .about(
            "Adds tasks to an open job. With Idempotency-Key, a UUID, \
             they are added once however often it is sent.",
        )
        .serve(add_tasks);
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
            hint: advice(&answer),
            answer,
        };
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (kind, in_json(status, &body)).into_response()
    }

    fn describe(schemas: &mut SchemaGenerator) -> Value {
        let mut answers = Made::<SubmitJson>::describe(schemas);
        let ways = [
            schema::<NotPromisedJson>(schemas),
            schemas.subschema_for::<Problem>().into(),
        ];
        answers["422"] = json!({
            "description": "The job is invalid, or its deadline cannot be promised.",
            "content": { "application/problem+json": { "schema": { "anyOf": ways } } },
        });
        answers
    }
}

/// Returns the advice on a deadline that cannot be promised: to ask for what the answer offers.
fn advice(answer: &SubmitJson) -> &'static str {
    let counter = answer.counter.as_ref();
    let offers = counter.map(|offer| (offer.earliest_deadline.is_some(), offer.fits_tasks > 0));
    match offers.unwrap_or_default() {
        (true, true) => "ask for earliest_deadline, or for the tasks that fit",
        (true, false) => "ask for earliest_deadline",
        (false, true) => "ask for the tasks that fit",
        (false, false) => "give it more time, or ask again later",
    }
}

async fn submit(
    call: Call,
    query: SubmitQuery,
    LargeJsonBody { fields, turn }: LargeJsonBody<JobBody>,
) -> Result<Submitted, Problem> {
    let id = request_id(&call)?;
    let (spec, mut asked) = fields.job()?;
    asked.after = fields.after()?;
    let disclosed = fields.disclose;
    drop(fields);
    let checked = spec.check().and_then(|()| asked.check(&spec));
    checked.map_err(|bad| {
        let hint = bad.hint().unwrap_or_else(|| NAMES.to_owned());
        Problem::senseless(bad.to_string(), hint)
    })?;
    let spec = call.grid.submission_in_turn(spec, asked, turn).await?;

    let request = Request::Submit {
        id,
        spec,
        disclosed,
        dry_run: query.dry_run,
    };
    answer(call.grid.one(request).await?, query.dry_run)
}

/// The id under which a request counts once: its `Idempotency-Key`, or else a new one.
fn request_id(call: &Call) -> Result<RequestId, Problem> {
    let Some(key) = call.headers.get("idempotency-key") else {
        return Ok(RequestId(uuid::Uuid::from_bytes(rand::random())));
    };
    let text = key.to_str().ok();
    let key = text.and_then(|key| key.trim_matches('"').parse().ok());
    key.ok_or_else(|| {
        let hint = "make one with uuidgen, and send it again with each repeat";
        Problem::invalid("Idempotency-Key is no UUID", hint)
    })
}

/// Tasks that are to be added to an open job: `items` where its tasks have items, else `array`, and
/// without both one more task.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct TasksBody {
    /// One task for each index, such as `1-100`, none of which the job has yet.
    array: Option<String>,
    /// One task for each of these; `%{ITEM}` is the text.
    items: Vec<String>,
}

impl TasksBody {
    fn tasks(self) -> Result<NewTasks, Problem> {
        let tasks = match (self.array, self.items.is_empty()) {
            (None, true) => NewTasks::Next,
            (None, false) => NewTasks::Items(self.items),
            (Some(array), true) => {
                let ids = parse_ids(&array).map_err(|why| {
                    let hint = "numbers and ranges, such as 1-100 or 1,3,5-8";
                    Problem::senseless(format!("`array`: {why}"), hint)
                })?;
                NewTasks::Ids(ids)
            }
            (Some(_), false) => {
                let hint = "`items` where the job's tasks have items, else `array`";
                return Err(Problem::senseless(
                    "`array` and `items` are both given",
                    hint,
                ));
            }
        };

        let checked = tasks.check();
        checked.map_err(|bad| Problem::senseless(bad.to_string(), bad.hint()))?;
        Ok(tasks)
    }
}

async fn add_tasks(
    call: Call,
    SubmitQuery { dry_run }: SubmitQuery,
    LargeJsonBody { fields, turn }: LargeJsonBody<TasksBody>,
) -> Result<Made<AddJson>, Problem> {
    let id = request_id(&call)?;
    let tasks = fields.tasks()?;
    let bytes = postcard::to_stdvec(&tasks);
    let bytes = bytes.map_err(|bad| Problem::invalid(bad.to_string(), "add fewer at a time"))?;
    let tasks = if bytes.len() <= SHORT {
        drop(turn);
        Addition::Inline(tasks)
    } else {
        drop(tasks);
        let _kept = turn.map(BodyTurn::only_bytes);
        Addition::Blob(call.grid.put(bytes.into()).await?)
    };

    let job = call.job().await?;
    let request = Request::AddTasks {
        id,
        job,
        tasks,
        dry_run,
    };
    let reply = call.grid.one(request).await?;
    let answer = AddJson::of(reply, dry_run).map_err(|_| Problem::unexpected())?;
    Ok(Made {
        new: !answer.again && !dry_run,
        document: answer,
    })
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
