//! Words about what a job has to do with others: its labels, the jobs that it waits for, and whether
//! it is open; and `deskgrid job close`, `cancel` and `share`.

use std::collections::BTreeMap;

use common::JobId;
use common::selector::Selector;
use common::text::plural;
use common::view::{AfterView, JobState, JobView};
use common::wire::client::Request;

use super::Context;
use crate::args::OutputMode;
use crate::failure::{Exit, Failure};
use crate::output::json::List;
use crate::session::Session;

/// Closes open jobs.
pub(super) async fn close(
    context: &Context,
    session: &Session,
    jobs: Selector,
) -> Result<Exit, Failure> {
    let closed = session.changed(&Request::Close { jobs }).await?;
    let said = closed
        .iter()
        .map(|(job, left)| (*job, format!("closed, {} left", plural(*left, "task"))));
    shown(context, &closed, said, "no such job is open\n")
}

/// Shows the number of each job that was changed, as the master gave it, or says of each what
/// became of it; where there is nothing to say, `none`.
fn shown(
    context: &Context,
    changed: &[(JobId, u64)],
    said: impl Iterator<Item = (JobId, String)>,
    none: &str,
) -> Result<Exit, Failure> {
    let (jobs, lines): (Vec<String>, Vec<String>) = said
        .map(|(job, what)| (job.to_string(), format!("job {job}: {what}\n")))
        .unzip();

    let text = || match lines.len() {
        0 => none.to_owned(),
        _ => lines.concat(),
    };
    context.show(&List("jobs", changed), text, || jobs)
}

/// Cancels tasks of these jobs. Of jobs that are not named, people see only those of which that changed something.
pub(super) async fn cancel(
    context: &Context,
    session: &Session,
    jobs: &Selector,
    request: Request,
) -> Result<Exit, Failure> {
    let all = matches!(
        jobs,
        Selector::All | Selector::Labelled(_) | Selector::Beyond(_)
    );
    let closes = matches!(request, Request::Cancel { tasks: None, .. });
    // The answer has numbers of tasks alone, which is all that JSON has.
    let before = match context.out.mode() {
        OutputMode::Cli => open_before(session, jobs).await?,
        OutputMode::Quiet if all && closes => open_before(session, jobs).await?,
        OutputMode::Quiet | OutputMode::Json => BTreeMap::new(),
    };
    let changed = session.changed(&request).await?;

    let said = changed
        .iter()
        .map(|(job, tasks)| (*job, *tasks, before.get(job).copied()))
        .filter(|(_, tasks, open)| !all || *tasks > 0 || closes && *open == Some(true))
        .map(|(job, tasks, open)| (job, cancelled_in_words(tasks, open, closes)));
    shown(context, &changed, said, "nothing to do\n")
}

/// Returns which of one's own jobs that are named here have not ended, and whether each is open.
async fn open_before(session: &Session, jobs: &Selector) -> Result<BTreeMap<JobId, bool>, Failure> {
    let unsettled = JobState::ALL.iter().filter(|state| !state.settled());
    let unsettled: Vec<JobState> = unsettled.copied().collect();
    let mut found = session.jobs(jobs.clone(), unsettled.clone()).await?;
    // The last one to look at may be one that is shared, and the last one to change is one's own.
    let is_own = |job: &JobView| job.user == session.user();
    if *jobs == Selector::Last && !session.of_admin() && !found.iter().any(is_own) {
        found = session.jobs(Selector::All, unsettled).await?;
    }

    Ok(found.into_iter().map(|job| (job.job, job.open)).collect())
}

/// Says what a cancellation of so many tasks means for a job that was `open` or not before, or had ended (`None`), and
/// that it `closes` if it is open.
fn cancelled_in_words(tasks: u64, open: Option<bool>, closes: bool) -> String {
    let closed = closes && open == Some(true);
    match (tasks, open) {
        (0, None) => "nothing is cancelled: it had ended already".to_owned(),
        (0, _) if closed => {
            "closed: it takes no more tasks, and all that it had were done".to_owned()
        }
        (0, _) => "nothing is cancelled: no such task is left".to_owned(),
        (tasks, _) => {
            let end = if closed { "; it is closed" } else { "" };
            format!("{} cancelled{end}", plural(tasks, "task"))
        }
    }
}

/// Lets another user look at jobs, or ends that.
pub(super) async fn share(
    context: &Context,
    session: &Session,
    jobs: Selector,
    user: String,
    end: bool,
) -> Result<Exit, Failure> {
    let request = Request::Share {
        jobs,
        user,
        on: !end,
    };

    let shared = session.changed(&request).await?;
    let word = if end { "not shared" } else { "shared" };
    let said = shared.iter().map(|(job, _)| (*job, word.to_owned()));
    shown(context, &shared, said, "")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_says_what_became_of_the_job() {
        let said = |tasks, open| cancelled_in_words(tasks, open, true);
        assert_eq!(said(1, Some(false)), "1 task cancelled");
        assert_eq!(said(2, Some(true)), "2 tasks cancelled; it is closed");
        assert!(said(0, Some(true)).starts_with("closed: "));
        assert!(said(0, Some(false)).contains("no such task"));
        assert!(said(0, None).contains("had ended already"));

        let some = |tasks| cancelled_in_words(tasks, Some(true), false);
        assert_eq!(some(2), "2 tasks cancelled");
        assert!(some(0).contains("no such task"));
    }
}
