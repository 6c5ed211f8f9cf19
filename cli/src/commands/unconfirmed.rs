//! Tells which results have not been confirmed by others, so that nobody takes one for the result that counts.

use common::job::Compare;
use common::selector::Selector;
use common::view::TaskState;
use common::{IdSet, JobId, TaskId};

use crate::failure::Failure;
use crate::session::Session;

/// The tasks of a job whose newest result has not been confirmed by others.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedResults {
    /// Those that go on until enough results agree.
    open: IdSet,
    /// Those that failed or were cancelled before enough did.
    over: IdSet,
    /// Whether a program of the user's says which results agree.
    by_program: bool,
}

impl UnconfirmedResults {
    /// Asks the master. Of a job whose results are not compared there are none.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(super) async fn of(
        session: &Session,
        job: JobId,
        tasks: &Selector,
    ) -> Result<Self, Failure> {
        let mut found = Self::default();
        let quorum = session.work(job).await?.map(|work| work.rules.quorum);
        let Some(quorum) = quorum.filter(common::job::Quorum::compares) else {
            return Ok(found);
        };

        found.by_program = quorum.compare == Compare::Program;
        let mut states = TaskState::ALL.to_vec();
        states.retain(|state| *state != TaskState::Finished);
        let mut pages = session.task_pages(job, tasks.clone(), states);
        while let Some(page) = pages.page().await? {
            for view in page.iter().filter(|view| view.is_unconfirmed()) {
                match view.state {
                    TaskState::Failed | TaskState::Cancelled => found.over.insert(view.task.index),
                    _ => found.open.insert(view.task.index),
                };
            }
        }
        Ok(found)
    }

    /// Whether the newest result of this task is among them.
    pub(super) fn contains(&self, task: TaskId) -> bool {
        self.open.contains(task.index) || self.over.contains(task.index)
    }

    /// Returns lines for people about those among the `shown` tasks of the job.
    pub(super) fn notes(&self, job: JobId, shown: &IdSet) -> Vec<String> {
        let mut lines = Vec::new();
        let open = self.open.intersection(shown);
        if !open.is_empty() {
            let judge = match self.by_program {
                true => format!(": deskgrid job judge {job} -- CMD says whether they do"),
                false => String::new(),
            };
            lines.push(format!(
                "{}: what is shown is one of its results, which have to agree first{judge}",
                named(job, &open)
            ));
        }

        let over = self.over.intersection(shown);
        if !over.is_empty() {
            lines.push(format!(
                "{}: what is shown is one of its results, with which not enough others agreed",
                named(job, &over)
            ));
        }
        lines
    }
}

/// Names tasks of a job.
fn named(job: JobId, tasks: &IdSet) -> String {
    match tasks.len() {
        1 => format!("task {job}.{tasks}"),
        _ => format!("each of the tasks {} of job {job}", tasks.in_brief()),
    }
}
