//! Checks the files that tasks' standard output and standard error are fetched to: their names may
//! have each task's item in them.

use std::collections::BTreeSet;

use super::{BadJob, CommandSpec, JobSpec, TaskSet};
use crate::ids::{AttemptId, Incarnation, JobId, TaskId};
use crate::path::{PortablePath, plain};
use crate::template::TemplateValues;

/// The number of tasks without items that are looked at, beside the last one: numbers of one digit
/// can make names that are reserved (`COM1`), and the last number makes the longest ones.
const ONE_DIGIT: usize = 10;

impl JobSpec {
    /// Checks that the files of the streams of these tasks, which the job has or is to have, can be
    /// made on every system, and are no other file of their task. Costs as much as `tasks` has items.
    ///
    /// # Errors
    /// Names the first task for which that is not so.
    pub fn check_streams_of(&self, tasks: &TaskSet) -> Result<(), BadJob> {
        let Some(command) = self.work.command() else {
            return Ok(());
        };
        if command.stream_files().next().is_none() {
            return Ok(());
        }

        let some = if tasks.items.is_empty() {
            ONE_DIGIT
        } else {
            usize::MAX
        };
        let last = tasks.ids.ranges().last();
        let last = last.map(|(_, index)| (index, tasks.ids.len() - 1));
        let looked_at = tasks.ids.iter().zip(0..).take(some).chain(last);

        for (index, position) in looked_at {
            // Job, host and attempt are not known yet; any show whether the rest makes sense.
            let attempt = AttemptId {
                task: TaskId::new(JobId(1), index),
                number: 1,
                incarnation: Incarnation(1),
            };
            command.check_streams(&TemplateValues {
                attempt,
                host: "host",
                platform: "",
                item: tasks.item_at(position),
                width: self.width(),
            })?;
        }
        Ok(())
    }
}

impl CommandSpec {
    /// Checks the files of the streams of one task.
    fn check_streams(&self, values: &TemplateValues<'_>) -> Result<(), BadJob> {
        let outputs = self.outputs.iter();
        let mut names: BTreeSet<String> = outputs
            .filter_map(|output| plain(&output.expand_pattern(values)))
            .collect();

        for (stream, name) in self.stream_files() {
            let name = name.expand(values);
            let checked = name.parse::<PortablePath>();
            checked.map_err(|source| BadJob::StreamName {
                task: values.attempt.task.index,
                stream,
                source,
            })?;
            if !names.insert(name.clone()) {
                return Err(BadJob::StreamFileTwice(name));
            }
        }
        Ok(())
    }
}
