//! Checks the names of tasks' output files, and of the files that standard output and standard error are
//! fetched to: they may have each task's item in them. Says which tasks show whether a job's names make sense.

use std::collections::BTreeSet;

use super::{BadJob, CommandSpec, JobSpec, TaskSet};
use crate::ids::{AttemptId, Incarnation, JobId, TaskId};
use crate::path::{PortablePath, check_output, plain};
use crate::template::TemplateValues;

/// The number of tasks that are looked at where no item matters, beside the last one: numbers of one
/// digit can make names that are reserved (`COM1`), and the last number makes the longest ones.
const ONE_DIGIT: usize = 10;

impl JobSpec {
    /// Checks that the outputs of these tasks, which the job has or is to have, and the files of their
    /// streams can be made on every system, and that the latter are no other file of their task. Costs as
    /// much as `tasks` has items, where these matter.
    ///
    /// # Errors
    /// Names the first task for which that is not so.
    pub fn check_files_of(&self, tasks: &TaskSet) -> Result<(), BadJob> {
        let Some(command) = self.work.command() else {
            return Ok(());
        };
        if command.outputs.is_empty() && command.stream_files().next().is_none() {
            return Ok(());
        }

        let streams = command.stream_files().map(|(_, name)| name);
        let mut names = streams.chain(&command.outputs);
        let items_matter = names.any(|name| name.mentions("ITEM"));
        let mut looked_at = self.looked_at(tasks, items_matter);
        looked_at.try_for_each(|values| command.check_files(&values))
    }

    /// Iterates over the values for those of these tasks, which the job has or is to have, that show
    /// whether its names make sense: each task where `items_matter` and there are items, and else a few
    /// of them.
    pub fn looked_at<'a>(
        &self,
        tasks: &'a TaskSet,
        items_matter: bool,
    ) -> impl Iterator<Item = TemplateValues<'a>> + use<'a> {
        let some = if items_matter && !tasks.items.is_empty() {
            usize::MAX
        } else {
            ONE_DIGIT
        };
        let last = tasks.ids.last();
        let last = last.map(|index| (index, tasks.ids.len() - 1));
        let width = self.width();

        let looked_at = tasks.ids.iter().zip(0..).take(some).chain(last);
        // Job, host and attempt are not known yet; any show whether the rest makes sense.
        looked_at.map(move |(index, position)| TemplateValues {
            attempt: AttemptId {
                task: TaskId::new(JobId(1), index),
                number: 1,
                incarnation: Incarnation(1),
            },
            host: "host",
            platform: "linux-x86_64",
            item: tasks.item_at(position),
            width,
        })
    }
}

impl CommandSpec {
    /// Checks the outputs and the files of the streams of one task.
    fn check_files(&self, values: &TemplateValues<'_>) -> Result<(), BadJob> {
        let task = values.attempt.task.index;
        let outputs = self.outputs.iter();
        let outputs: Vec<String> = outputs.map(|name| name.expand_pattern(values)).collect();
        let mut names: BTreeSet<String> = outputs.iter().filter_map(|name| plain(name)).collect();

        for (stream, name) in self.stream_files() {
            let name = name.expand(values);
            let checked = name.parse::<PortablePath>();
            checked.map_err(|source| BadJob::StreamName {
                task,
                stream,
                source,
            })?;
            if !names.insert(name.clone()) {
                return Err(BadJob::StreamFileTwice(name));
            }
        }

        outputs.iter().try_for_each(|name| {
            check_output(name).map_err(|source| BadJob::OutputName { task, source })
        })
    }
}
