//! Tells which tasks have not finished, so that nobody takes partial results for whole ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::job::Compare;
use common::selector::Selector;
use common::text::plural;
use common::view::{JobView, TaskState, TaskView};
use common::{IdSet, TaskId};

use super::MOST_NOTES;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// The tasks that were asked for and have not finished.
#[derive(Debug, Default)]
pub(super) struct UnfinishedTasks {
    states: BTreeMap<TaskState, IdSet>,
    /// Those among them whose newest result has to agree with others.
    compared: IdSet,
    /// Whether a program of the user's says which results agree.
    by_program: bool,
}

impl UnfinishedTasks {
    /// Asks the master, unless all tasks of the job have finished.
    ///
    /// # Errors
    /// If the master refuses or the connection is gone.
    pub(super) async fn of(
        session: &Session,
        job: &JobView,
        tasks: &Selector,
    ) -> Result<Self, Failure> {
        let mut found = Self::default();
        if job.tasks.finished == job.tasks.total {
            return Ok(found);
        }

        let mut states = TaskState::ALL.to_vec();
        states.retain(|state| *state != TaskState::Finished);
        let mut pages = session.task_pages(job.job, tasks.clone(), states);
        while let Some(page) = pages.page().await? {
            page.iter().for_each(|view| found.add(view));
        }

        if !found.compared.is_empty() {
            let work = session.work(job.job).await?;
            found.by_program =
                work.is_some_and(|work| work.rules.quorum.compare == Compare::Program);
        }
        Ok(found)
    }

    fn add(&mut self, view: &TaskView) {
        let index = view.task.index;
        self.states.entry(view.state).or_default().insert(index);
        if view.is_unconfirmed() {
            self.compared.insert(index);
        }
    }

    /// Returns the state of one of the tasks that were asked for.
    pub(super) fn state_of(&self, task: TaskId) -> TaskState {
        let mut states = self.states.iter();
        let state = states.find(|(_, tasks)| tasks.contains(task.index));
        state.map_or(TaskState::Finished, |(state, _)| *state)
    }

    /// Returns the numbers of the tasks by state, in text.
    pub(super) fn by_state(&self) -> BTreeMap<String, String> {
        let text = |(state, tasks): (&TaskState, &IdSet)| (state.to_string(), tasks.to_string());
        self.states.iter().map(text).collect()
    }

    /// Returns the exit code of a fetch.
    pub(super) fn exit(&self) -> Exit {
        match self.states.is_empty() {
            true => Exit::Well,
            false => Exit::TasksFailed,
        }
    }

    /// Returns lines for people; `left` has the directories of the tasks that left files.
    pub(super) fn notes(
        &self,
        job: &JobView,
        asked: &Selector,
        left: &BTreeMap<TaskId, PathBuf>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let mut ended = BTreeMap::new();
        let mut not_done = IdSet::new();
        for (state, tasks) in &self.states {
            match state {
                TaskState::Failed | TaskState::Cancelled => {
                    ended.extend(tasks.iter().map(|index| (index, *state)));
                }
                _ => not_done.union_with(tasks),
            }
        }

        let number = not_done.len();
        if number > 0 {
            let of = match asked {
                Selector::All => format!("{number} of {}", plural(job.tasks.total, "task")),
                _ => plural(number, "task"),
            };
            let are = if number == 1 { "is" } else { "are" };
            lines.push(format!("{of} {are} not done yet"));
        }

        let is_over = |index: &u32| ended.contains_key(index);
        let over: Vec<u32> = self.compared.iter().filter(is_over).collect();
        if let Some(first) = over.first() {
            let first = TaskId::new(job.job, *first);
            let which = match over.len() {
                1 => format!("task {first}"),
                n => format!("{n} tasks, such as {first},"),
            };
            lines.push(format!(
                "{which} ended before enough results agreed, so what is fetched is unconfirmed: \
                 deskgrid task info {first} shows the results, and deskgrid job retry {} has \
                 failed and cancelled tasks computed again",
                job.job
            ));
        }

        let earlier = left
            .iter()
            .filter(|(task, _)| not_done.contains(task.index))
            .map(|(task, dir)| {
                let what = self.what_is_left(*task);
                format!(
                    "task {task} is not done yet: what is in {} is {what}",
                    dir.display()
                )
            });
        let ended = ended.into_iter().map(|(index, state)| {
            let task = TaskId::new(job.job, index);
            let left = match left.get(&task) {
                Some(dir) => format!("what it left is in {}", dir.display()),
                None => "it left no files".to_owned(),
            };
            let state = match state {
                TaskState::Cancelled => "was cancelled",
                _ => "failed",
            };
            format!("task {task} {state}: {left}")
        });

        let all: Vec<String> = earlier.chain(ended).collect();
        let more = all.len().saturating_sub(MOST_NOTES);
        lines.extend(all.into_iter().take(MOST_NOTES));
        if more > 0 {
            lines.push(format!(
                "{more} more tasks have not finished: deskgrid task list {} shows which",
                job.job
            ));
        }
        lines
    }

    /// Describes what a task that is not done has left.
    fn what_is_left(&self, task: TaskId) -> String {
        if !self.compared.contains(task.index) {
            return "of an earlier attempt".to_owned();
        }

        let agree = "one of its results, which have to agree first";
        match self.by_program {
            true => format!(
                "{agree}: deskgrid job judge {} -- CMD says whether they do",
                task.job
            ),
            false => agree.to_owned(),
        }
    }
}
