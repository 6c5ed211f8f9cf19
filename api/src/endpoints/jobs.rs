//! Jobs: lists, one job with why its tasks failed or wait, and what changes a job.

use common::needs::Label;
use common::selector::Selector;
use common::view::{JobState, JobView, TaskState};
use common::wire::client::{Reply, Request};
use common::{IdSet, JobId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list::{Commas, ListPage, PageLimit};
use crate::access::collect;
use crate::answer::{JsonAnswer, JsonDocument};
use crate::call::Call;
use crate::content::SHORT;
use crate::cursor::PageStart;
use crate::failures::states_that_tell;
use crate::json::{
    ExplainAnswer, ExplainJson, FailureCause, JobInfo, JobInfoJson, JobJson, Object,
    PredictionAnswer, PredictionJson, RequestAnswer, RequestJson, Retried, RetriedJson,
    TasksChangedJson, all,
};
use crate::problem::Problem;
use crate::table::{JsonBody, NoBody, NoQuery, Table};

pub(super) fn add(table: &mut Table) {
    table
        .get("/jobs", "listJobs")
        .about("Lists the jobs that you may see.")
        .serve(list);
    table
        .get("/jobs/{job}", "job")
        .about("Shows a job, and why its tasks failed.")
        .serve(info);
    table
        .get("/jobs/{job}/explain", "explainJob")
        .about("Says why tasks of a job wait, and why each host takes none of them.")
        .serve(explain);
    table
        .get("/jobs/{job}/forecast", "forecastJob")
        .about("Says when a job should be done.")
        .serve(forecast);
    table
        .post("/jobs/{job}/cancel", "cancelJob")
        .about("Cancels a job, or tasks of it.")
        .serve(cancel);
    table
        .post("/jobs/{job}/retry", "retryJob")
        .about("Makes failed and cancelled tasks of a job wait again.")
        .serve(retry);
    table
        .post("/jobs/{job}/request", "requestTasks")
        .about("Requests disclosed tasks of a job: somebody now waits for them.")
        .serve(request);
    table
        .post("/jobs/{job}/close", "closeJob")
        .about("Closes an open job.")
        .serve(close);
    table
        .post("/jobs/{job}/share", "shareJob")
        .about("Lets another user look at a job, or ends that.")
        .serve(share);

    table
        .post("/jobs/{job}/forget", "forgetJob")
        .about("Removes a settled job with its results.")
        .serve(forget);
}

/// The jobs that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobsQuery {
    /// Only jobs in these states, with commas between them.
    #[serde(default)]
    state: Commas<JobState>,
    /// Only jobs with all of these labels, with commas between them.
    #[serde(default)]
    label: Commas<Label>,
    /// Only jobs of this user, such as `ann`.
    user: Option<String>,
    /// The most jobs of the page: `100` if nothing is said.
    #[serde(default)]
    limit: PageLimit,
    /// The `next` of the page before.
    after: Option<PageStart>,
}

/// A page of jobs.
#[derive(Debug, Serialize, JsonSchema)]
struct JobsPage {
    /// The jobs, by number.
    jobs: Vec<JobJson>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

async fn list(call: Call, query: JobsQuery, _: NoBody) -> JsonAnswer<JobsPage> {
    let after = query.after.as_ref().map(PageStart::after).transpose()?;
    let jobs = match (query.label.0, after) {
        (labels, _) if !labels.is_empty() => Selector::Labelled(labels.into_iter().collect()),
        (_, Some(number)) => Selector::Beyond(number),
        (_, None) => Selector::All,
    };
    let states = query.state.0;
    let wanted = |view: &&JobView| {
        let user = query.user.as_ref().is_none_or(|user| *user == view.user);
        user && after.is_none_or(|number| view.job.0 > number)
    };

    let mut replies = call.grid.ask(Request::Jobs { jobs, states });
    let mut page = ListPage::new(query.limit);
    while !page.more
        && let Some(reply) = replies.recv().await
    {
        let Reply::Jobs(views) = reply? else {
            return Err(Problem::unexpected());
        };
        let views = views.iter().filter(wanted);
        page.extend(views.map(|view| (view.job.0, view.json())));
    }

    let next = page.next();
    let jobs = page.entries;
    Ok(JsonDocument(JobsPage { jobs, next }))
}

async fn info(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<JobInfoJson> {
    let job = call.this_job().await?;
    let failures = failures(&call, &job).await?;
    // A master behind a gateway may be older than that question.
    let work = call.grid.work(job.job).await.ok();
    Ok(JsonDocument(JobInfo(&job, work.as_ref(), &failures).json()))
}

/// The causes of a job's failures.
async fn failures(call: &Call, job: &JobView) -> Result<Vec<FailureCause>, Problem> {
    let Some(states) = states_that_tell(job) else {
        return Ok(Vec::new());
    };
    let tasks = call.grid.tasks(job.job, Selector::All, states).await?;
    call.grid.failures(&tasks, SHORT).await
}

async fn explain(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<ExplainJson> {
    let job = call.job().await?;
    let Reply::Explained(view) = call.grid.one(Request::Explain { job }).await? else {
        return Err(Problem::unexpected());
    };
    // A master behind a gateway may be older than that question.
    let running = call.grid.running(job).await.ok();
    let answer = ExplainAnswer(&view, running.as_deref());
    Ok(JsonDocument(answer.json()))
}

async fn forecast(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<PredictionJson> {
    let job = call.this_job().await?;
    Ok(JsonDocument(PredictionAnswer(&job).json()))
}

/// Jobs that were changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ChangedJson {
    /// The jobs, each with the number of changed tasks.
    jobs: Vec<TasksChangedJson>,
}

async fn changed(call: &Call, request: Request) -> JsonAnswer<ChangedJson> {
    let changed = collect!(call.grid, request, Reply::Changed);
    let jobs = all(&changed);
    Ok(JsonDocument(ChangedJson { jobs }))
}

/// Reads a choice of tasks.
fn tasks(text: Option<&str>) -> Result<Selector, Problem> {
    let read = text.map_or(Ok(Selector::All), str::parse);
    read.map_err(|error| Problem::senseless(error.to_string(), ""))
}

/// The job in the path, as a choice.
async fn this(call: &Call) -> Result<Selector, Problem> {
    let job = call.job().await?;
    Ok(Selector::Ids(IdSet::from_range(job.0, job.0)))
}

/// A choice of tasks to be cancelled.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct CancelBody {
    /// The tasks, such as `1-10`; without it the whole job.
    tasks: Option<String>,
    /// Whether only disclosed tasks that nobody has requested are cancelled.
    unrequested: bool,
}

async fn cancel(
    call: Call,
    _: NoQuery,
    JsonBody(body): JsonBody<CancelBody>,
) -> JsonAnswer<ChangedJson> {
    let jobs = this(&call).await?;
    if body.unrequested && body.tasks.is_some() {
        let what = "`tasks` and `unrequested` are both given";
        return Err(Problem::senseless(what, "give one of them"));
    }
    if body.unrequested {
        return changed(&call, Request::CancelUnrequested { jobs }).await;
    }
    let tasks = body.tasks.as_deref().map(|text| tasks(Some(text)));
    let tasks = tasks.transpose()?;
    changed(&call, Request::Cancel { jobs, tasks }).await
}

/// A choice of tasks to be tried again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct RetryBody {
    /// The tasks, such as `1-10`; without it all.
    tasks: Option<String>,
    /// Whether cancelled tasks stay cancelled.
    failed: bool,
}

async fn retry(
    call: Call,
    _: NoQuery,
    JsonBody(body): JsonBody<RetryBody>,
) -> JsonAnswer<RetriedJson> {
    let job = call.job().await?;
    let request = Request::Retry {
        job,
        tasks: tasks(body.tasks.as_deref())?,
        only_failed: body.failed,
    };
    let changed = collect!(call.grid, request, Reply::Changed);
    let promise = call.this_job().await?.promise;
    let answer = Retried {
        changed: &changed,
        promise,
    };

    Ok(JsonDocument(answer.json()))
}

/// A choice of disclosed tasks that are requested.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct RequestBody {
    /// The tasks, such as `1-10`; without it all.
    tasks: Option<String>,
}

async fn request(
    call: Call,
    _: NoQuery,
    JsonBody(body): JsonBody<RequestBody>,
) -> JsonAnswer<RequestJson> {
    let job = call.job().await?;
    let tasks = tasks(body.tasks.as_deref())?;
    let request = Request::RequestTasks {
        job,
        tasks: tasks.clone(),
    };
    let changed = collect!(call.grid, request, Reply::Changed);
    let answer = RequestAnswer {
        job,
        requested: changed.first().map_or(0, |(_, count)| *count),
        cancelled: cancelled(&call, job, tasks).await?,
        tasks: None,
    };

    Ok(JsonDocument(answer.json()))
}

/// Counts those of some tasks that are cancelled, which may be very many.
async fn cancelled(call: &Call, job: JobId, tasks: Selector) -> Result<u64, Problem> {
    if tasks == Selector::All {
        let this = Selector::Ids(IdSet::from_range(job.0, job.0));
        let views = call.grid.jobs(this, Vec::new()).await?;
        return Ok(views.first().map_or(0, |view| view.tasks.cancelled));
    }

    let states = vec![TaskState::Cancelled];
    let mut replies = call.grid.ask(Request::Tasks { job, tasks, states });
    let mut count = 0;
    while let Some(reply) = replies.recv().await {
        match reply? {
            Reply::Tasks(some) => count += some.len() as u64,
            _ => return Err(Problem::unexpected()),
        }
    }
    Ok(count)
}

async fn close(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<ChangedJson> {
    let jobs = this(&call).await?;
    changed(&call, Request::Close { jobs }).await
}

/// With whom a job is shared.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ShareBody {
    /// The other user, such as `eve`.
    user: String,
    /// Whether to end it.
    #[serde(default)]
    end: bool,
}

async fn share(
    call: Call,
    _: NoQuery,
    JsonBody(body): JsonBody<ShareBody>,
) -> JsonAnswer<ChangedJson> {
    let request = Request::Share {
        jobs: this(&call).await?,
        user: body.user,
        on: !body.end,
    };
    changed(&call, request).await
}

async fn forget(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<ChangedJson> {
    let jobs = this(&call).await?;
    changed(&call, Request::Forget { jobs }).await
}
