//! Tasks and outputs as clients see them: the store's rows, with the core's knowledge of live
//! attempts laid over them. Long lists are built portion by portion.

use std::collections::BTreeMap;
use std::sync::Arc;

use common::job::{Capture, CommandSpec, Compare, JobSpec};
use common::template::{Template, TemplateValues};
use common::view::{AttemptState, AttemptView, OutputView, SpeculationView, TaskState, TaskView};
use common::{Content, HostId, IdSet, JobId, TaskId};
use scheduler::effect::Judgement;

use crate::core::LiveJob;
use crate::core::ask::HostNames;
use crate::store::{AttemptRow, Disclosure, Reader, SettledRow, StoreResult};

/// The most tasks that are read at a time.
const PORTION: u32 = 2_000;
/// The bytes of attempts and their results, as the store has them, beyond which no further task is
/// read in the same portion. In memory they take about twice as much.
const RESULTS: u64 = 4 << 20;
/// About the bytes that each attempt takes beside its result.
const ROW: u64 = 512;
/// The attempts that are read at a time of a task whose attempts have left more than that.
const NUMBERS: u32 = 16;
/// The bytes of outputs at which a message is full, far below the frame limit.
const FULL: usize = 128 * 1024;

/// The attempts of each task.
type AttemptsByTask = BTreeMap<u32, Vec<AttemptRow>>;

/// A rule for what stays in memory of the attempts that are read: what an attempt left can be very long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptOfResults {
    /// Every attempt, without what it left.
    Words,
    /// The attempt that counts for each task, with what it left.
    Outputs,
}

/// Some tasks of a listing, as the store has them.
pub(super) struct ListedPortion {
    tasks: IdSet,
    attempts: AttemptsByTask,
}

/// A listing of tasks on its way to a client.
pub(super) struct Listing {
    job: JobId,
    spec: Arc<JobSpec>,
    /// Tasks still to come.
    rest: IdSet,
    /// The number of indexes, from the first task still to come, among which the next portion is.
    reach: u32,
    /// The job's live state; `None` if it is settled.
    live: Option<LiveJob>,
    /// The tasks settled without success, as ranges: the key is the last task of each.
    settled: BTreeMap<u32, SettledRow>,
    names: HostNames,
    /// The times at which tasks were requested, if the job was disclosed.
    disclosure: Option<Disclosure>,
}

impl KeptOfResults {
    /// Adds the next attempt of a task to those before it.
    fn add(self, mut row: AttemptRow, rows: &mut Vec<AttemptRow>) {
        match self {
            KeptOfResults::Words => {
                row.result = Ok(None);
                rows.push(row);
            }
            KeptOfResults::Outputs => {
                let no_less = |before: &AttemptRow| standing(&row) >= standing(before);
                if rows.last().is_none_or(no_less) {
                    rows.clear();
                    rows.push(row);
                }
            }
        }
    }
}

/// Reads the attempts of `tasks` up to those that are so many, or have left so much, that the portion is full.
pub(super) fn read_portion(
    reader: &Reader,
    job: JobId,
    mut tasks: IdSet,
    kept: KeptOfResults,
) -> StoreResult<ListedPortion> {
    let mut attempts = AttemptsByTask::new();
    let (Some(first), Some((_, last))) = (tasks.first(), tasks.ranges().last()) else {
        return Ok(ListedPortion { tasks, attempts });
    };
    let sizes = reader.result_sizes(job, (first, last))?;
    let mut bytes = 0;
    let mut asked = sizes.iter().filter(|size| tasks.contains(size.task));
    let beyond = asked.find(|size| {
        bytes += size.bytes + u64::from(size.attempts) * ROW;
        bytes > RESULTS
    });

    let mut each = |row: AttemptRow| {
        let rows = attempts.entry(row.view.attempt.task.index).or_default();
        kept.add(row, rows);
    };
    match beyond {
        Some(size) if size.task == first => {
            tasks = IdSet::from_range(first, first);
            for from in (0..=size.attempts).step_by(NUMBERS as usize) {
                let numbers = (from, from.saturating_add(NUMBERS - 1));
                reader.attempts_of(TaskId::new(job, first), numbers, &mut each)?;
            }
            return Ok(ListedPortion { tasks, attempts });
        }
        Some(size) => tasks = tasks.intersection(&IdSet::from_range(first, size.task - 1)),
        None => {}
    }

    for range in tasks.ranges() {
        reader.attempts(job, range, &mut each)?;
    }
    Ok(ListedPortion { tasks, attempts })
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
            reach: PORTION,
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

    /// The next tasks to be read, as many as fit a portion; `None` after the last.
    pub(super) fn next_portion(&self) -> Option<IdSet> {
        let first = self.rest.first()?;
        let next = IdSet::from_range(first, first.saturating_add(self.reach - 1));
        Some(self.rest.intersection(&next))
    }

    /// Goes on behind a portion that was read. Where results are long the next one is looked for among
    /// about as many tasks, since the store walks through all of them to find how long theirs are.
    pub(super) fn pass(&mut self, portion: &ListedPortion) {
        let is_whole = self.next_portion().as_ref() == Some(&portion.tasks);
        let fitted = match (portion.tasks.first(), portion.tasks.ranges().last()) {
            (Some(first), Some((_, last))) if !is_whole => last - first + 1,
            _ => self.reach,
        };
        self.reach = fitted.saturating_mul(2).min(PORTION);
        self.rest.subtract(&portion.tasks);
    }

    /// The views of a portion's tasks.
    pub(super) fn tasks(&self, portion: ListedPortion) -> Vec<TaskView> {
        let ListedPortion {
            tasks,
            mut attempts,
        } = portion;
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
            let is_over = settled || state == TaskState::Cancelled;
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

            let attempts = rows
                .into_iter()
                .map(|row| self.attempt(row, is_over))
                .collect();
            TaskView {
                task: TaskId::new(self.job, index),
                item,
                state,
                reason,
                attempts,
                speculation,
            }
        };
        tasks.iter().map(task).collect()
    }

    /// The outputs of a portion's tasks, from the attempt that counts for each.
    pub(super) fn outputs(&self, portion: ListedPortion) -> StoreResult<Vec<OutputView>> {
        portion
            .attempts
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

    /// The view of an attempt; `is_over` says that its task is settled.
    fn attempt(&self, row: AttemptRow, is_over: bool) -> AttemptView {
        let judged = row.judgement.map(|judgement| match judgement {
            Judgement::Open(_) if is_over || !row.charged => {
                "its result was not confirmed".to_owned()
            }
            judgement => judgement.words_for(row.view.attempt.number),
        });
        let mut view = AttemptView {
            host: self.host(row.host),
            ..row.view
        };

        let live = self.live.as_ref();
        let now = live.and_then(|live| live.attempts.get(&view.attempt));
        if let Some(now) = now {
            view.state = now.state;
            view.ran = now.ran;
            view.suspended = now.suspended;
            view.suspended_since = now.suspended_since;
            view.progress = now.progress;
            view.words.clone_from(&now.words);
        }

        let why = now.and_then(|now| now.reason.clone());
        let said: Vec<String> = [view.reason, judged, why].into_iter().flatten().collect();
        view.reason = (!said.is_empty()).then(|| said.join("; "));
        view
    }

    /// The outputs of the attempt that counts.
    fn output(&self, mut rows: Vec<AttemptRow>) -> Option<StoreResult<OutputView>> {
        let best = best(&rows)?;
        Some(self.output_of(rows.swap_remove(best)))
    }

    /// The outputs of one attempt.
    pub(super) fn output_of(&self, row: AttemptRow) -> StoreResult<OutputView> {
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

        Ok(OutputView {
            attempt,
            stdout: (result.stdout, file_name(|c| &c.stdout)),
            stderr: (result.stderr, file_name(|c| &c.stderr)),
            files: result.files,
            warnings: result.warnings,
            removed: row.removed.is_some(),
            host: host.clone(),
        })
    }
}

/// The right of an attempt to stand for the outputs of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ResultStanding {
    /// It has left nothing.
    Nothing,
    /// It ended by itself, or has left something.
    Left,
    /// It finished the task.
    Finished,
}

fn standing(row: &AttemptRow) -> ResultStanding {
    if row.view.state == AttemptState::Finished && row.counts {
        ResultStanding::Finished
    } else if row.view.exit_code.is_some() || row.has_result || row.removed.is_some() {
        ResultStanding::Left
    } else {
        ResultStanding::Nothing
    }
}

/// The index of the attempt that counts: the one that finished the task, else the latest that ended
/// by itself.
fn best(rows: &[AttemptRow]) -> Option<usize> {
    // Of equal ones that is the last.
    let (index, row) = rows
        .iter()
        .enumerate()
        .max_by_key(|(_, row)| standing(row))?;
    (standing(row) > ResultStanding::Nothing).then_some(index)
}

/// The reason for missing outputs that were removed unrequested, after the reason for a failure if
/// there is one.
fn why_removed(failed: Option<&str>) -> String {
    let (what, again) = failed.map_or(("executed", "request"), |why| (why, "retry"));
    format!(
        "{what}; what it left was removed before anybody had requested it, and a {again} runs it again"
    )
}

/// Returns about the bytes that an output takes in a message.
pub(super) fn length(output: &OutputView) -> usize {
    let files = output.files.iter();
    let files: usize = files.map(|file| file.path.as_str().len() + 64).sum();
    let inline = |c: &Content| {
        if c.blob().is_some() {
            64
        } else {
            c.size() as usize
        }
    };
    256 + files + inline(&output.stdout.0.content) + inline(&output.stderr.0.content)
}

/// Splits outputs into portions whose messages stay below the frame limit.
pub(super) fn in_frames(outputs: Vec<OutputView>) -> Vec<Vec<OutputView>> {
    let mut portions: Vec<Vec<OutputView>> = Vec::new();
    let mut room = 0usize;
    for output in outputs {
        let bytes = length(&output);
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
    use common::{Span, Time};

    use super::*;
    use crate::store::Writer;
    use crate::store::tests::{add_job_with, attempt, completion, spec, start};

    /// The bytes that each attempt of these tests has left.
    const LEFT: usize = 200 << 10;

    /// A listing of a job of so many tasks, of which each has failed so many times, with its store.
    fn failed(tasks: u32, times: u32) -> (tempfile::TempDir, Reader, Listing) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        let spec = spec(tasks);
        let job = add_job_with(&mut store, 1, (&spec, &[]), "ann");

        for index in 1..=tasks {
            for number in 1..=times {
                let attempt = attempt(job, index, number);
                start(&mut store, attempt);
                let mut left = completion(attempt, 7);
                left.stdout.content = Content::Inline(vec![b'x'; LEFT]);
                left.warnings = vec!["too long".to_owned()];
                store
                    .attempt_result(&left, AttemptState::Failed, Time(9))
                    .unwrap();
            }
        }
        store.commit().unwrap();

        let all = IdSet::from_range(1, tasks);
        let names = HostNames::default();
        let listing = Listing::new(job, spec.into(), all, None, Vec::new(), names);
        let reader = Reader::new(dir.path());
        (dir, reader, listing)
    }

    /// All portions of a listing.
    fn portions(reader: &Reader, listing: &mut Listing, kept: KeptOfResults) -> Vec<ListedPortion> {
        let mut all = Vec::new();
        while let Some(asked) = listing.next_portion() {
            let portion = read_portion(reader, listing.job(), asked, kept).unwrap();
            listing.pass(&portion);
            all.push(portion);
        }
        all
    }

    #[test]
    fn of_long_results_only_so_many_are_read_at_once() {
        let (_dir, reader, mut listing) = failed(50, 1);
        let mut seen = Vec::new();
        for portion in portions(&reader, &mut listing, KeptOfResults::Outputs) {
            let outputs = listing.outputs(portion).unwrap();
            let bytes: usize = outputs.iter().map(length).sum();
            assert!(bytes as u64 <= RESULTS + RESULTS / 8, "{bytes} at once");
            seen.extend(outputs.iter().map(|output| output.attempt.task.index));
        }
        assert_eq!(seen, (1..=50).collect::<Vec<u32>>());
    }

    #[test]
    fn of_attempts_that_left_nothing_only_so_many_are_read_at_once() {
        let (dir, reader, mut listing) = failed(30, 0);
        let mut store = Writer::open(dir.path()).unwrap();
        for index in 1..=30 {
            for number in 1..=400 {
                start(&mut store, attempt(listing.job(), index, number));
            }
        }
        store.commit().unwrap();

        let all = portions(&reader, &mut listing, KeptOfResults::Words);
        let rows =
            |portion: &ListedPortion| -> usize { portion.attempts.values().map(Vec::len).sum() };
        let rows: Vec<u64> = all.iter().map(|portion| rows(portion) as u64).collect();
        assert_eq!(rows.iter().sum::<u64>(), 30 * 400);
        assert!(rows.iter().all(|rows| rows * ROW <= RESULTS), "{rows:?}");
    }

    #[test]
    fn of_long_results_the_sizes_of_few_more_are_asked_than_are_read() {
        let (_dir, reader, mut listing) = failed(100, 1);
        let mut before = None;
        let mut portions = 0;
        while let Some(asked) = listing.next_portion() {
            let offered = asked.len();
            if let Some(before) = before {
                assert!(offered <= 2 * before, "{offered} after {before}");
            }
            let kept = KeptOfResults::Outputs;
            let portion = read_portion(&reader, listing.job(), asked, kept).unwrap();
            before = Some(portion.tasks.len());
            listing.pass(&portion);
            portions += 1;
        }
        assert_eq!(portions, 5, "portions of 4 MiB");
    }

    #[test]
    fn behind_long_results_portions_grow_again_however_far_apart_their_tasks_are() {
        let (_dir, _, mut listing) = failed(1, 0);
        listing.rest = (0..1_000).map(|number| 1 + 100 * number).collect();
        let mut pass = |tasks: IdSet| {
            let attempts = AttemptsByTask::new();
            listing.pass(&ListedPortion { tasks, attempts });
            listing.next_portion().unwrap()
        };

        let mut next = pass(IdSet::from_range(1, 1));
        assert_eq!(next, IdSet::from_range(101, 101));
        for _ in 0..12 {
            next = pass(next);
        }
        assert_eq!(next.len(), u64::from(PORTION) / 100);
    }

    #[test]
    fn a_task_that_has_left_very_much_is_read_alone_and_its_latest_attempt_kept() {
        let (_dir, reader, mut listing) = failed(2, 25);
        let all = portions(&reader, &mut listing, KeptOfResults::Outputs);
        let read: Vec<_> = all.iter().map(|portion| portion.tasks.clone()).collect();
        assert_eq!(read, [1, 2].map(|index| IdSet::from_range(index, index)));

        for portion in all {
            let rows: usize = portion.attempts.values().map(Vec::len).sum();
            assert_eq!(rows, 1, "attempts in memory");
            let outputs = listing.outputs(portion).unwrap();
            assert_eq!(outputs[0].attempt.number, 25);
            assert_eq!(outputs[0].stdout.0.content.size(), LEFT as u64);
        }
    }

    #[test]
    fn a_list_of_tasks_keeps_nothing_of_what_they_left_but_its_words() {
        let (_dir, reader, mut listing) = failed(30, 1);
        let mut tasks = Vec::new();
        for portion in portions(&reader, &mut listing, KeptOfResults::Words) {
            let mut rows = portion.attempts.values().flatten();
            assert!(rows.all(|row| row.has_result && matches!(row.result, Ok(None))));
            tasks.extend(listing.tasks(portion));
        }

        assert_eq!(tasks.len(), 30);
        for task in tasks {
            let why = task.attempts[0].reason.clone().unwrap_or_default();
            assert!(why.contains("too long"), "{why}");
            assert_eq!(task.attempts[0].ran, Span(5));
        }
    }

    #[test]
    fn no_result_of_a_task_that_is_over_or_was_retried_is_said_to_wait() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        let spec = spec(3);
        let job = add_job_with(&mut store, 1, (&spec, &[]), "ann");
        for index in 1..=3 {
            let attempt = attempt(job, index, 1);
            start(&mut store, attempt);
            store
                .attempt_result(&completion(attempt, 7), AttemptState::Finished, Time(9))
                .unwrap();
            store.judged(attempt, Judgement::Open(2)).unwrap();
        }
        store.reopen(job, &IdSet::from_range(3, 3)).unwrap();
        store.commit().unwrap();

        let all = IdSet::from_range(1, 3);
        let live = LiveJob {
            states: vec![(TaskState::Waiting, all.clone())],
            attempts: BTreeMap::new(),
            held: None,
        };
        let cancelled = SettledRow {
            first: 2,
            last: 2,
            state: TaskState::Cancelled,
            why: String::new(),
        };
        let names = HostNames::default();
        let mut listing = Listing::new(job, spec.into(), all, Some(live), vec![cancelled], names);

        let reader = Reader::new(dir.path());
        let mut said = Vec::new();
        for portion in portions(&reader, &mut listing, KeptOfResults::Words) {
            let tasks = listing.tasks(portion).into_iter();
            said.extend(tasks.filter_map(|task| task.attempts[0].reason.clone()));
        }
        let last = said.iter().filter_map(|said| said.rsplit("; ").next());
        let none = "its result was not confirmed";
        assert_eq!(
            last.collect::<Vec<_>>(),
            ["its result waits until 2 agree", none, none]
        );
    }

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
