//! A request on its way: who asks for what, and the replies to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::RawPathParams;
use axum::http::HeaderMap;
use common::selector::Selector;
use common::view::{JobView, TaskView};
use common::{IdSet, JobId, TaskId};

use crate::access::GridAccess;
use crate::door::{Door, Who};
use crate::problem::Problem;

/// A request, with the one who asks and the parameters of its path.
pub struct Call {
    /// The grid, and the one who asks it.
    pub grid: GridAccess,
    /// The headers of the request.
    pub headers: HeaderMap,
    params: BTreeMap<String, String>,
}

/// Reads a number of digits alone.
pub(crate) fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

impl Call {
    pub(crate) fn new(
        door: Arc<dyn Door>,
        who: Who,
        params: &RawPathParams,
        headers: HeaderMap,
    ) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            grid: GridAccess { door, who },
            headers,
            params: params.iter().map(owned).collect(),
        }
    }

    /// A parameter of the path.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// The job in the path, by its number; `last` is looked up.
    pub(crate) async fn job(&self) -> Result<JobId, Problem> {
        match self.param("job") {
            "last" => Ok(self.job_view(Selector::Last).await?.job),
            text => number(text).map(JobId).ok_or_else(|| {
                let what = format!("there is no job `{}`", text.escape_debug());
                Problem::not_found(what, "write a number, or `last`")
            }),
        }
    }

    /// The task in the path: its number, or both numbers as documents show them (`7.3`).
    pub(crate) async fn task(&self) -> Result<TaskId, Problem> {
        let job = self.job().await?;
        let text = self.param("task");
        let whole = text.parse::<TaskId>().ok().filter(|task| task.job == job);
        let task = whole.or_else(|| Some(TaskId::new(job, number(text)?)));

        task.ok_or_else(|| {
            let what = format!("job {job} has no task `{}`", text.escape_debug());
            Problem::not_found(what, format!("GET /api/v1/jobs/{job}/tasks"))
        })
    }

    /// The job in the path, as it stands: a `JobView`.
    pub(crate) async fn this_job(&self) -> Result<JobView, Problem> {
        let job = self.job().await?;
        self.job_view(Selector::Ids(IdSet::from_range(job.0, job.0)))
            .await
    }

    async fn job_view(&self, jobs: Selector) -> Result<JobView, Problem> {
        let mut found = self.grid.jobs(jobs, Vec::new()).await?;
        found
            .pop()
            .ok_or_else(|| Problem::not_found("there is no such job", "GET /api/v1/jobs"))
    }

    /// The task in the path, as it stands: a `TaskView`.
    pub(crate) async fn this_task(&self) -> Result<TaskView, Problem> {
        let TaskId { job, index } = self.task().await?;
        let tasks = Selector::Ids(IdSet::from_range(index, index));
        let mut found = self.grid.tasks(job, tasks, Vec::new()).await?;
        let missing = || {
            let what = format!("job {job} has no task {index}");
            Problem::not_found(what, format!("GET /api/v1/jobs/{job}/tasks"))
        };
        found.pop().ok_or_else(missing)
    }
}
