//! Words about what a job has to do with others: its labels, the jobs that it waits for, and whether
//! it is open; and `deskgrid job close` and `share`.

use common::JobId;
use common::selector::Selector;
use common::text::plural;
use common::view::{AfterView, JobView};
use common::wire::client::Request;

use super::Context;
use crate::failure::Failure;
use crate::output::json::List;
use crate::session::Session;

/// Closes open jobs.
pub(super) async fn close(
    context: &Context,
    session: &Session,
    jobs: Selector,
) -> Result<(), Failure> {
    let closed = session.changed(&Request::Close { jobs }).await?;
    let text = || match closed.len() {
        0 => "no such job is open\n".to_owned(),
        _ => closed
            .iter()
            .map(|(job, left)| format!("job {job}: closed, {} left\n", plural(*left, "task")))
            .collect(),
    };

    context.out.show(&List("jobs", &closed), text, || {
        closed.iter().map(|(job, _)| job.to_string()).collect()
    })
}

/// Lets another user look at jobs, or ends that.
pub(super) async fn share(
    context: &Context,
    session: &Session,
    jobs: Selector,
    user: String,
    end: bool,
) -> Result<(), Failure> {
    let request = Request::Share {
        jobs,
        user,
        on: !end,
    };
    let shared = session.changed(&request).await?;
    let word = if end { "not shared" } else { "shared" };
    let line = |(job, _): &(JobId, u64)| format!("job {job}: {word}\n");
    let text = || shared.iter().map(line).collect();

    context.out.show(&List("jobs", &shared), text, || {
        shared.iter().map(|(job, _)| job.to_string()).collect()
    })
}

/// The tasks of a job that are not settled.
fn left(job: &JobView) -> u64 {
    job.tasks.total.saturating_sub(job.tasks.settled())
}

/// Describes that a job is open, if it is.
pub(super) fn open_in_words(job: &JobView) -> Option<String> {
    let id = job.job;
    let left = plural(left(job), "task");
    job.open.then(|| {
        format!(
            "{left} left; takes more (deskgrid submit --into {id}) until deskgrid job close {id}"
        )
    })
}

/// Describes the jobs that a job comes after, if there are any.
pub(super) fn after_in_words(job: &JobView) -> Option<String> {
    let one = |after: &AfterView| {
        let state = match after.left {
            Some(left) => format!("{} left", plural(left, "task")),
            None => "no longer waited for".to_owned(),
        };
        format!("job {} ({}): {state}", after.job, after.how)
    };
    let all: Vec<String> = job.after.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Lists the labels of a job, if it has any.
pub(super) fn labels_in_words(job: &JobView) -> Option<String> {
    let labels: Vec<String> = job.labels.iter().map(ToString::to_string).collect();
    (!labels.is_empty()).then(|| labels.join(", "))
}

/// Describes what a prediction of a job includes, where that is not only its own tasks.
pub(super) fn scope_in_words(job: &JobView) -> String {
    let before: Vec<String> = (job.after.iter())
        .filter(|after| after.left.is_some())
        .map(|after| after.job.to_string())
        .collect();

    let waits = match &before[..] {
        [] => String::new(),
        [one] => format!("; that includes job {one}, which it waits for"),
        all => format!(
            "; that includes the jobs {}, which it waits for",
            all.join(", ")
        ),
    };
    let open = if job.open {
        "; that is for the tasks so far: the job is open"
    } else {
        ""
    };
    waits + open
}

/// Whether a job is open, without a task that is not settled.
pub(crate) fn nothing_is_left(job: &JobView) -> bool {
    job.open && left(job) == 0
}

/// Describes that no task of a job waits.
pub(crate) fn nothing_left(job: &JobView) -> String {
    match nothing_is_left(job) {
        true => format!(
            "job {0} is open, and none of its tasks is left: it waits for more, or for deskgrid job close {0}",
            job.job
        ),
        false => "no task waits".to_owned(),
    }
}
