//! Executes `deskgrid request`. Jobs are disclosed in `submit`, and the ledger is in `account`.

use std::collections::BTreeMap;

use common::attempt::StreamKind;
use common::selector::Selector;
use common::text::{ShownOutput, plural};
use common::view::{OutputView, TaskState, TaskView};
use common::wire::client::{Reply, Request};
use common::{IdSet, JobId, TaskId};
use link::LinkError;

use super::Context;
use super::cat::{removed_in_words, written};
use super::job::unless_interrupted;
use super::tail::REFUSALS;
use crate::args::OutputMode;
use crate::args::speculation::RequestArgs;
use crate::args::value::OneJob;
use crate::failure::{Exit, Failure};
use crate::output::json::{Json, RequestAnswer};
use crate::output::{note, unless_unread};
use crate::session::{Session, answer};
use crate::wait_reporter::WaitReporter;
use crate::watch::{WayBack, note_lost};

/// The number of tasks whose results are asked for at a time.
const BATCH: usize = 500;
/// The number of ranges up to which tasks are named one by one.
const SHOWN_RANGES: usize = 8;

/// Requests tasks, and with `--wait` prints their results.
pub(super) async fn request(context: &Context, args: RequestArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let job = session.job_id(args.what.job).await?;
    let tasks = args.what.tasks;
    let changed = session
        .changed(&Request::RequestTasks {
            job,
            tasks: tasks.clone(),
        })
        .await?;
    let new = changed.first().map_or(0, |(_, count)| *count);
    let done = RequestEffect::of(&session, job, &tasks, new).await?;
    let document = |tasks| RequestAnswer {
        job,
        requested: new,
        cancelled: done.cancelled.len(),
        tasks,
    };

    let said = || done.in_words(job);
    if !args.wait {
        return context.show(&Json(&document(None)), said, || vec![job.to_string()]);
    }

    if context.out.mode() == OutputMode::Cli {
        note(said().trim_end());
    }

    let only = IdSet::from_range(job.0, job.0);
    let views = unless_interrupted(&only, results(context, session, job, tasks)).await?;
    let well = views.iter().all(|view| view.state == TaskState::Finished);
    if context.out.mode() != OutputMode::Cli {
        let ids = || views.iter().map(|view| view.task.to_string()).collect();
        let document = document(Some(&views[..]));
        context.show(&Json(&document), String::new, ids)?;
    }

    Ok(if well { Exit::Well } else { Exit::TasksFailed })
}

/// The effect of a request.
struct RequestEffect {
    /// Whether the job was disclosed: of any other job there is nothing to request.
    disclosed: bool,
    /// The number of tasks requested now.
    new: u64,
    /// The named tasks that could not be requested, since they are cancelled.
    cancelled: IdSet,
    /// The number of tasks that had been requested before.
    before: u64,
}

impl RequestEffect {
    /// Finds out why some of the named tasks were not requested now.
    async fn of(
        session: &Session,
        job: JobId,
        tasks: &Selector,
        new: u64,
    ) -> Result<Self, Failure> {
        let named = match tasks {
            Selector::Ids(ids) => ids.len(),
            Selector::Last => 1,
            Selector::Labelled(_) | Selector::Beyond(_) => 0,
            Selector::All => session.job(OneJob::Id(job)).await?.tasks.total,
        };

        let mut done = Self {
            disclosed: true,
            new,
            cancelled: IdSet::new(),
            before: 0,
        };
        if new >= named {
            return Ok(done);
        }

        let one = session.tasks(job, Selector::Last, Vec::new()).await?;
        done.disclosed = one.iter().any(|view| view.speculation.is_some());
        if done.disclosed {
            let cancelled = session
                .tasks(job, tasks.clone(), vec![TaskState::Cancelled])
                .await?;
            done.cancelled = cancelled.iter().map(|view| view.task.index).collect();
            done.before = named.saturating_sub(new + done.cancelled.len());
        }

        Ok(done)
    }

    fn in_words(&self, job: JobId) -> String {
        if !self.disclosed {
            return format!(
                "job {job} was not disclosed: its tasks count as requested since it was submitted\n"
            );
        }

        let mut words = format!("job {job}: {} requested", plural(self.new, "task"));
        if self.before > 0 {
            words += &format!("; {} had been before", self.before);
        }

        if !self.cancelled.is_empty() {
            let are = if self.cancelled.len() == 1 {
                "is"
            } else {
                "are"
            };

            let which = match self.cancelled.ranges().count() {
                0..=SHOWN_RANGES => self.cancelled.to_string(),
                _ => "LIST".to_owned(),
            };
            let again =
                format!("deskgrid job retry {job} --tasks {which} runs again what was cancelled");
            words += &format!(
                "; {} {are} cancelled and cannot be: {again}",
                self.cancelled.len()
            );
        }

        words + "\n"
    }
}

/// The results that are awaited, and those that have arrived.
struct AwaitedResults {
    job: JobId,
    /// The awaited tasks; `None` until the master has named them.
    left: Option<IdSet>,
    come: Vec<TaskView>,
    /// The times that an output could not be had since the last one that was printed.
    failed: u32,
}

/// Waits until all these tasks are settled, also while the master is away, and prints the output of
/// each as soon as it is settled.
async fn results(
    context: &Context,
    mut session: Session,
    job: JobId,
    tasks: Selector,
) -> Result<Vec<TaskView>, Failure> {
    let mut awaited = AwaitedResults {
        job,
        left: None,
        come: Vec::new(),
        failed: 0,
    };
    let mut way = WayBack::new(&context.state, None);
    let mut reporter = (context.out.mode() == OutputMode::Cli)
        .then(|| WaitReporter::new(IdSet::from_range(job.0, job.0), note));
    loop {
        let client = session.client().clone();
        let following = Box::pin(awaited.follow(context, &session, &tasks));
        let followed = WaitReporter::beside(&mut reporter, &client, following).await;
        match followed {
            Ok(()) => break,
            Err(failure) if failure.is_away() => note_lost(&failure),
            Err(failure) => return Err(failure),
        }

        if let Some(client) = way.connect().await? {
            session = session.over(client);
        }
    }

    session.close().await;
    awaited.come.sort_by_key(|view| view.task);
    Ok(awaited.come)
}

impl AwaitedResults {
    /// Follows one connection until every result has arrived.
    async fn follow(
        &mut self,
        context: &Context,
        session: &Session,
        tasks: &Selector,
    ) -> Result<(), Failure> {
        let settled = [TaskState::Finished, TaskState::Failed, TaskState::Cancelled];
        if self.left.is_none() {
            let all = session.tasks(self.job, tasks.clone(), Vec::new()).await?;
            self.left = Some(all.iter().map(|view| view.task.index).collect());
        }

        let one = Selector::Ids(IdSet::from_range(self.job.0, self.job.0));
        let mut changes = session
            .client()
            .stream(&Request::Watch {
                jobs: one,
                quiet: false,
                timeout: None,
            })
            .await?;

        let mut before = None;
        while let Some(reply) = changes.next().await? {
            let jobs = answer!(reply, Reply::Jobs)?;
            let left = self.left.clone().unwrap_or_default();
            if left.is_empty() {
                return Ok(());
            }

            // Without new settled tasks there are no new results: only other jobs changed, or tasks
            // started.
            let counts = jobs
                .first()
                .map(|job| (job.tasks.finished, job.tasks.failed, job.tasks.cancelled));
            if counts.is_some() && counts == before {
                continue;
            }

            before = counts;
            let come = session
                .tasks(self.job, Selector::Ids(left), settled.to_vec())
                .await?;
            for batch in come.chunks(BATCH) {
                self.take(context, session, batch).await?;
            }
            if self.left.as_ref().is_some_and(IdSet::is_empty) {
                return Ok(());
            }
        }

        Err(LinkError::Closed("the master ended the answer early".to_owned()).into())
    }

    /// Prints the output of settled tasks, and removes them from the awaited ones.
    async fn take(
        &mut self,
        context: &Context,
        session: &Session,
        batch: &[TaskView],
    ) -> Result<(), Failure> {
        let mut outputs = BTreeMap::new();
        if context.out.mode() == OutputMode::Cli {
            let tasks = Selector::Ids(batch.iter().map(|view| view.task.index).collect());
            let there = session.outputs(self.job, tasks).await?;
            outputs.extend(
                there
                    .into_iter()
                    .map(|output| (output.attempt.task, output)),
            );
        }

        for view in batch {
            if context.out.mode() == OutputMode::Cli {
                let printed = print(context, session, view, outputs.remove(&view.task)).await;
                printed.map_err(|failure| self.not_had(view.task, failure))?;
            }
            if let Some(left) = &mut self.left {
                left.remove(view.task.index);
            }
            self.come.push(view.clone());
            self.failed = 0;
        }

        Ok(())
    }

    /// Counts an output that was not had. An output that the master cannot read looks like a lost connection each
    /// time: after so many it is told as what it is.
    fn not_had(&mut self, task: TaskId, failure: Failure) -> Failure {
        self.failed += 1;
        if !failure.is_away() || self.failed < REFUSALS {
            return failure;
        }

        let what = format!("the output of task {task} cannot be read at the master");
        let hint = format!(
            "deskgrid job retry {} --damaged computes again what is damaged there; the master's log says more",
            task.job
        );
        let because = failure.because.unwrap_or(failure.what);
        Failure::error("unreadable", what, hint).because(because)
    }
}

/// Prints the output of a settled task, once all of it is here.
async fn print(
    context: &Context,
    session: &Session,
    view: &TaskView,
    output: Option<OutputView>,
) -> Result<(), Failure> {
    let task: TaskId = view.task;
    let bytes = match &output {
        Some(output) => written(session, output, StreamKind::Stdout).await?.0,
        None => Vec::new(),
    };

    let waited = view
        .speculation
        .and_then(|speculation| speculation.visible_response());
    let waited = waited.map_or_else(String::new, |span| format!(", {span} after the request"));
    note(&format!("task {task} is {}{waited}", view.state));
    if output.is_some_and(|output| output.removed) {
        note(&removed_in_words(task, view.state));
    }

    // Unlike elsewhere, a reader that goes away ends nothing: whether all ended well is told at the end.
    unless_unread(context.out.of_task(&mut ShownOutput::default(), &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_the_master_cannot_read_is_told_with_its_task_after_some_tries() {
        let mut awaited = AwaitedResults {
            job: JobId(7),
            left: None,
            come: Vec::new(),
            failed: 0,
        };
        let lost = || Failure::from(LinkError::Closed("gone".to_owned()));
        let mut told = || awaited.not_had(TaskId::new(JobId(7), 2), lost());
        for _ in 1..REFUSALS {
            assert!(told().is_away());
        }

        let told = told();
        assert_eq!(told.exit, Exit::Error);
        assert!(told.what.contains("task 7.2"), "{told:?}");
        assert!(told.hint.contains("job retry 7 --damaged"), "{told:?}");
    }
}
