//! Tasks and outputs as clients see them: the store's rows, with the core's knowledge of live
//! attempts laid over them. Long lists are built portion by portion.

use std::collections::BTreeMap;
use std::sync::Arc;

use common::job::{Capture, CommandSpec, Compare, JobSpec};
use common::template::{Template, TemplateValues};
use common::view::{
    AttemptState, AttemptView, FileView, OutputView, SpeculationView, TaskState, TaskView,
};
use common::{Content, HostId, IdSet, JobId, TaskId};

use crate::core::LiveJob;
use crate::core::ask::HostNames;
use crate::store::{AttemptRow, Disclosure, Reader, SettledRow, StoreError};

/// The number of tasks that are read at a time.
const PORTION: u32 = 2_000;
/// The bytes of outputs at which a message is full, far below the frame limit.
const FULL: usize = 128 * 1024;

/// The attempts of each task.
type AttemptsByTask = BTreeMap<u32, Vec<AttemptRow>>;

/// A listing of tasks on its way to a client.
pub(super) struct Listing {
    job: JobId,
    spec: Arc<JobSpec>,
    /// Tasks still to come.
    rest: IdSet,
    /// The job's live state; `None` if it is settled.
    live: Option<LiveJob>,
    /// The tasks settled without success, as ranges: the key is the last task of each.
    settled: BTreeMap<u32, SettledRow>,
    names: HostNames,
    /// The times at which tasks were requested, if the job was disclosed.
    disclosure: Option<Disclosure>,
}

/// Reads the attempts of `tasks`.
pub(super) fn attempts_of(
    reader: &Reader,
    job: JobId,
    tasks: &IdSet,
) -> Result<AttemptsByTask, StoreError> {
    let mut attempts = AttemptsByTask::new();

    for range in tasks.ranges() {
        reader.attempts(job, range, |row| {
            attempts
                .entry(row.view.attempt.task.index)
                .or_default()
                .push(row);
        })?;
    }

    Ok(attempts)
}

impl Listing {
    pub(super) fn new(
        job: JobId,
        spec: Arc<JobSpec>,
        tasks: IdSet,
        live: Option<LiveJob>,
        settled: Vec<SettledRow>,
        names: HostNames,
    ) -> Self {
        let settled = settled.into_iter().map(|row| (row.last, row)).collect();
        Self {
            job,
            spec,
            rest: tasks,
            live,
            settled,
            names,
            disclosure: None,
        }
    }

    /// The same listing with the times at which tasks were requested.
    pub(super) fn disclosed(self, disclosure: Option<Disclosure>) -> Self {
        Self { disclosure, ..self }
    }

    /// The same listing without the tasks that are in none of `states` (empty: any): nothing is read of
    /// them.
    pub(super) fn only(mut self, states: &[TaskState]) -> Self {
        if states.is_empty() {
            return self;
        }
        // What the store has settled goes before what memory says, as in `state_of`.
        let rows = self.settled.values();
        let mut parts: Vec<(TaskState, IdSet)> = rows
            .map(|row| (row.state, IdSet::from_range(row.first, row.last)))
            .collect();
        let ranges = |parts: &[(TaskState, IdSet)], states: &[TaskState]| {
            let wanted = parts.iter().filter(|(state, _)| states.contains(state));
            IdSet::from_ranges(wanted.flat_map(|(_, tasks)| tasks.ranges()).collect())
        };
        let settled = ranges(&parts, TaskState::ALL);
        for (state, tasks) in self.live.iter().flat_map(|live| &live.states) {
            let mut tasks = tasks.clone();
            tasks.subtract(&settled);
            parts.push((*state, tasks));
        }

        // Of finished tasks there are no rows.
        let mut finished = self.rest.clone();
        finished.subtract(&ranges(&parts, TaskState::ALL));
        parts.push((TaskState::Finished, finished));
        self.rest = self.rest.intersection(&ranges(&parts, states));
        self
    }

    /// The job of the listing.
    pub(super) fn job(&self) -> JobId {
        self.job
    }

    /// Whether a program of the user's says which of the job's results agree.
    pub(super) fn is_judged(&self) -> bool {
        self.spec.rules.quorum.compare == Compare::Program
    }

    /// The next tasks to be read; `None` after the last.
    pub(super) fn next_portion(&mut self) -> Option<IdSet> {
        let first = self.rest.first()?;
        let portion = self
            .rest
            .intersection(&IdSet::from_range(first, first.saturating_add(PORTION - 1)));
        self.rest.subtract(&portion);
        Some(portion)
    }

    /// The views of a portion's tasks.
    pub(super) fn tasks(&self, portion: &IdSet, mut attempts: AttemptsByTask) -> Vec<TaskView> {
        let task = |index: u32| {
            let (state, reason) = self.state_of(index);
            let rows = attempts.remove(&index).unwrap_or_default();
            let item =
                (!self.spec.tasks.items.is_empty()).then(|| self.spec.tasks.item(index).to_owned());

            let done = rows
                .iter()
                .find(|row| row.view.state == AttemptState::Finished && row.counts);
            let executed = done.and_then(|row| row.view.finished);

            // The outputs of a task that will run again do not matter.
            let settled = matches!(state, TaskState::Finished | TaskState::Failed);
            let removed = best(&rows)
                .filter(|_| settled)
                .and_then(|best| rows.get(best)?.removed);
            let speculation = self.disclosure.as_ref().map(|disclosure| SpeculationView {
                disclosed: disclosure.at,
                requested: disclosure.requested(index),
                executed,
                removed,
            });

            let reason = match removed {
                Some(_) => Some(why_removed(reason.as_deref())),
                None => reason,
            };

            let attempts = rows.into_iter().map(|row| self.attempt(row)).collect();
            TaskView {
                task: TaskId::new(self.job, index),
                item,
                state,
                reason,
                attempts,
                speculation,
            }
        };
        portion.iter().map(task).collect()
    }

    /// The outputs of a portion's tasks, from the attempt that counts for each.
    pub(super) fn outputs(&self, attempts: AttemptsByTask) -> Result<Vec<OutputView>, StoreError> {
        attempts
            .into_values()
            .filter_map(|rows| self.output(rows))
            .collect()
    }

    fn state_of(&self, index: u32) -> (TaskState, Option<String>) {
        let settled = self
            .settled
            .range(index..)
            .next()
            .map(|(_, row)| row)
            .filter(|row| row.first <= index);

        match (settled, &self.live) {
            (Some(row), _) => (row.state, Some(row.why.clone())),
            (None, Some(live)) => {
                let there = live.states.iter().find(|(_, tasks)| tasks.contains(index));
                let state = there.map_or(TaskState::Finished, |(state, _)| *state);
                let held = live.held.clone().filter(|_| state == TaskState::Waiting);
                (state, held)
            }
            (None, None) => (TaskState::Finished, None),
        }
    }

    fn host(&self, host: HostId) -> String {
        self.names
            .get(&host)
            .cloned()
            .unwrap_or_else(|| host.to_string())
    }

    fn attempt(&self, row: AttemptRow) -> AttemptView {
        let mut view = AttemptView {
            host: self.host(row.host),
            ..row.view
        };
        if let Some(now) = self
            .live
            .as_ref()
            .and_then(|live| live.attempts.get(&view.attempt))
        {
            view.state = now.state;
            view.ran = now.ran;
            view.suspended = now.suspended;
            view.suspended_since = now.suspended_since;
            view.progress = now.progress;
            view.words.clone_from(&now.words);

            if let Some(why) = &now.reason {
                view.reason = Some(
                    view.reason
                        .map_or_else(|| why.clone(), |before| format!("{before}; {why}")),
                );
            }
        }

        view
    }

    /// The outputs of the attempt that counts.
    fn output(&self, mut rows: Vec<AttemptRow>) -> Option<Result<OutputView, StoreError>> {
        let best = best(&rows)?;
        Some(self.output_of(rows.swap_remove(best)))
    }

    /// The outputs of one attempt.
    pub(super) fn output_of(&self, row: AttemptRow) -> Result<OutputView, StoreError> {
        let host = self.host(row.host);
        let result = row.result?.unwrap_or_default();
        let attempt = row.view.attempt;
        let item = self.spec.tasks.item(attempt.task.index);
        let width = self.spec.width();
        let values = TemplateValues {
            attempt,
            host: &host,
            // `JobSpec::check` lets no name of a stream's file have it.
            platform: "",
            item,
            width,
        };
        let file_name = |pick: fn(&CommandSpec) -> &Capture| match pick(self.spec.work.command()?) {
            Capture::File(name) => Some(Template::expand(name, &values)),
            Capture::Keep | Capture::Discard => None,
        };

        let files = result.files.into_iter().map(|f| FileView {
            path: f.path,
            blob: f.blob,
            executable: f.executable,
        });
        Ok(OutputView {
            attempt,
            stdout: (result.stdout, file_name(|c| &c.stdout)),
            stderr: (result.stderr, file_name(|c| &c.stderr)),
            files: files.collect(),
            warnings: result.warnings,
            removed: row.removed.is_some(),
            host: host.clone(),
        })
    }
}

/// The index of the attempt that counts: the one that finished the task, else the latest that ended
/// by itself.
fn best(rows: &[AttemptRow]) -> Option<usize> {
    let done = rows
        .iter()
        .rposition(|row| row.view.state == AttemptState::Finished && row.counts);
    let left = |row: &AttemptRow| {
        row.view.exit_code.is_some() || !matches!(row.result, Ok(None)) || row.removed.is_some()
    };
    done.or_else(|| rows.iter().rposition(left))
}

/// The reason for missing outputs that were removed unrequested, after the reason for a failure if
/// there is one.
fn why_removed(failed: Option<&str>) -> String {
    let (what, again) = failed.map_or(("executed", "request"), |why| (why, "retry"));
    format!(
        "{what}; what it left was removed before anybody had requested it, and a {again} runs it again"
    )
}

/// Splits outputs into portions whose messages stay below the frame limit.
pub(super) fn in_frames(outputs: Vec<OutputView>) -> Vec<Vec<OutputView>> {
    let mut portions: Vec<Vec<OutputView>> = Vec::new();
    let mut room = 0usize;
    for output in outputs {
        let files: usize = output
            .files
            .iter()
            .map(|f| f.path.as_str().len() + 64)
            .sum();
        let inline = |c: &Content| {
            if c.blob().is_some() {
                64
            } else {
                c.size() as usize
            }
        };

        let bytes =
            256 + files + inline(&output.stdout.0.content) + inline(&output.stderr.0.content);
        match portions.last_mut() {
            Some(portion) if room >= bytes => portion.push(output),
            _ => {
                portions.push(vec![output]);
                room = FULL;
            }
        }

        room = room.saturating_sub(bytes);
    }

    portions
}

#[cfg(test)]
mod tests {
    use common::job::{Rules, TaskSet, Work};

    use super::*;

    #[test]
    fn of_a_million_tasks_only_those_in_the_wanted_state_are_read() {
        let all = IdSet::from_range(1, 1_000_000);
        let spec = JobSpec {
            name: "bag".into(),
            tasks: TaskSet {
                ids: all.clone(),
                items: Vec::new(),
            },
            work: Work::Noop,
            rules: Rules::default(),
        };
        let row = |first, last, state| SettledRow {
            first,
            last,
            state,
            why: String::new(),
        };
        let listing = |live: bool| {
            let settled = vec![
                row(5, 7, TaskState::Failed),
                row(900, 901, TaskState::Cancelled),
            ];
            let live = live.then(|| LiveJob {
                states: vec![
                    (TaskState::Running, IdSet::from_range(6, 12)),
                    (TaskState::Waiting, IdSet::from_range(1_000, 1_000_000)),
                ],
                attempts: BTreeMap::new(),
                held: None,
            });
            Listing::new(
                JobId(1),
                spec.clone().into(),
                all.clone(),
                live,
                settled,
                HostNames::default(),
            )
        };

        for live in [true, false] {
            for state in TaskState::ALL {
                let of = listing(live);
                let has = |index: u32| of.state_of(index).0 == *state;
                let first = IdSet::from_range(1, 1_100);
                let near: IdSet = first.iter().filter(|index| has(*index)).collect();
                let only = listing(live).only(&[*state]).rest;
                let seen = only.intersection(&first);
                assert_eq!(seen, near, "{state}, live: {live}");
            }
        }
        let some = listing(true)
            .only(&[TaskState::Failed, TaskState::Running])
            .rest;
        assert_eq!(some, IdSet::from_range(5, 12));
        assert_eq!(listing(true).only(&[]).rest.len(), 1_000_000);
    }
}
