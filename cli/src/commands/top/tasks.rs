//! The tasks of a job: of a million tasks only a screen is ever there. Each step beyond it asks the
//! master for the next one.
//!
//! Tasks are found by number: `window` numbers at a time, more where too few of them are wanted and
//! fewer where too many are.

use common::selector::{Selector, parse_ids};
use common::view::{AttemptView, TaskState, TaskView};
use common::wire::client::Request;
use common::{IdSet, JobId};
use ratatui::text::Line;

use super::board::ListPlace;
use super::keys::KeyAct;
use super::look::{Column, Theme, Tone, number, of_task, text};

/// The columns of the list, for `row`.
pub(super) const COLUMNS: &[Column] = &[
    number("TASK", 9, 0),
    text("STATE", 11, 0, 0),
    number("DONE", 5, 4),
    text("HOST", 14, 1, 1),
    number("TRIES", 5, 3),
    number("RAN", 8, 2),
    text("ITEM", 8, 1, 6),
    text("WHY", 12, 4, 5),
];

/// The way in which a screen of tasks is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    /// From this number on.
    From(u32),
    /// Up to this number.
    Upto(u32),
    /// Up to the last one, whose number is not known yet.
    Last,
}

/// The task to be chosen on the next screen.
#[derive(Debug, Clone, Copy)]
enum NextChosen {
    /// The first with at least this number.
    AtLeast(u32),
    /// The last with at most this number.
    AtMost(u32),
}

/// The tasks that a filter lets through.
#[derive(Debug, Clone, Default, PartialEq)]
struct TaskFilter {
    numbers: Option<IdSet>,
    state: Option<TaskState>,
}

/// A screen of tasks of one job (`Tab::Tasks`).
#[derive(Debug, Default)]
pub(super) struct TaskBook {
    /// The job.
    pub(super) job: Option<JobId>,
    /// The tasks that are shown.
    rows: Vec<TaskView>,
    place: ListPlace,
    filter: TaskFilter,
    search: Option<Search>,
    /// The numbers that are asked for at a time.
    window: u32,
    /// The largest window that held too few, and the smallest that held too many, if there was one.
    few: u32,
    many: Option<u32>,
    /// The window that is under way.
    asked: (u32, u32),
    /// The task to be chosen once it is there.
    choose: Option<NextChosen>,
    /// Whether an answer has come.
    pub(super) loaded: bool,
}

/// The outcome of `TaskBook::take`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageFound {
    /// The screen is there.
    Whole,
    /// More is to be asked for, at once.
    Searching,
}

impl TaskBook {
    /// Shows the tasks of this job, and chooses one of them if it is named.
    pub(super) fn open(&mut self, job: JobId, task: Option<u32>) {
        if self.job != Some(job) {
            *self = Self {
                job: Some(job),
                ..Self::default()
            };
        }
        if let Some(task) = task {
            self.filter = TaskFilter::default();
            self.look(Search::From(task), Some(NextChosen::AtLeast(task)));
        }
    }

    /// Filters by numbers and a state, such as `100-200 failed`.
    ///
    /// # Errors
    /// If a word is neither.
    pub(super) fn filter(&mut self, words: &str) -> Result<(), String> {
        let mut filter = TaskFilter::default();

        for word in words.split_whitespace() {
            let states = TaskState::ALL.iter().copied();
            let named = states
                .filter(|state| state.to_string().starts_with(word))
                .collect::<Vec<_>>();
            match (&named[..], parse_ids(word)) {
                ([state], _) => filter.state = Some(*state),
                (_, Ok(ids)) => filter.numbers = Some(ids),
                _ => {
                    return Err(format!(
                        "tasks are filtered by number (100-200) and state (failed): `{word}` is neither"
                    ));
                }
            }
        }
        self.set(filter);
        Ok(())
    }

    /// Shows only the tasks in the next state, or all after the last.
    pub(super) fn next_state(&mut self) {
        let states = TaskState::ALL;
        let at = |state| states.iter().position(|s| *s == state);
        let next = self.filter.state.and_then(at).map_or(0, |at| at + 1);
        self.set(TaskFilter {
            state: states.get(next).copied(),
            numbers: self.filter.numbers.clone(),
        });
    }

    fn set(&mut self, filter: TaskFilter) {
        self.filter = filter;
        self.look(Search::From(0), None);
        self.place = ListPlace::default();
        self.loaded = false;
        self.rows.clear();
    }

    /// Begins to look for another screen.
    fn look(&mut self, search: Search, choose: Option<NextChosen>) {
        self.search = Some(search);
        self.choose = choose;
        self.window = 0;
        self.few = 0;
        self.many = None;
    }

    /// The state that alone is shown.
    pub(super) fn only(&self) -> Option<TaskState> {
        self.filter.state
    }

    /// The most tasks that are read of an answer, for a screen with room for so many.
    pub(super) fn most(height: usize) -> usize {
        16 * height.max(1)
    }

    /// Returns the request for the screen, or for the next part of the search for it.
    pub(super) fn request(&mut self, height: usize) -> Option<Request> {
        let job = self.job?;
        let least = u32::try_from(2 * height.max(1)).unwrap_or(u32::MAX);
        if self.window == 0 {
            self.window = least;
        }
        let more = self.window - 1;
        self.asked = match self.search.unwrap_or(Search::From(0)) {
            Search::From(first) => (first, first.saturating_add(more)),
            Search::Upto(last) => (last.saturating_sub(more), last),
            Search::Last => {
                return Some(Request::Tasks {
                    job,
                    tasks: Selector::Last,
                    states: Vec::new(),
                });
            }
        };

        let window = IdSet::from_range(self.asked.0, self.asked.1);
        let numbers = self.filter.numbers.as_ref();
        let ids = numbers.map(|ids| ids.intersection(&window));
        Some(Request::Tasks {
            job,
            tasks: Selector::Ids(ids.unwrap_or(window)),
            states: self.filter.state.into_iter().collect(),
        })
    }

    /// Takes the tasks of the window that was asked for.
    pub(super) fn take(&mut self, mut tasks: Vec<TaskView>, height: usize) -> PageFound {
        let height = height.max(1);
        let (first, last) = self.asked;
        let at_end = match self.search.unwrap_or(Search::From(0)) {
            Search::From(_) => last == u32::MAX,
            Search::Upto(_) => first == 0,
            Search::Last => {
                let last = tasks.last().map_or(0, |task| task.task.index);
                self.look(Search::Upto(last), Some(NextChosen::AtMost(last)));
                return PageFound::Searching;
            }
        };

        if tasks.len() < height && !at_end && self.widen() {
            // Some of a screen is shown while the rest is looked for.
            if matches!(self.search, Some(Search::From(_)) | None) && self.rows.is_empty() {
                self.show(tasks);
            }
            return PageFound::Searching;
        }
        if matches!(self.search, Some(Search::Upto(_))) {
            if tasks.len() >= Self::most(height) && self.narrow() {
                return PageFound::Searching;
            }
            tasks.drain(..tasks.len().saturating_sub(height));
            // From now on the screen begins there.
            let start = tasks.first().map_or(0, |task| task.task.index);
            let choose = self.choose;
            self.look(Search::From(start), choose);
        }

        tasks.truncate(height);
        self.show(tasks);
        PageFound::Whole
    }

    /// Asks for more numbers; false if there is nothing between too few and too many.
    fn widen(&mut self) -> bool {
        self.few = self.window;
        self.window = match self.many {
            None => self.window.saturating_mul(16),
            Some(many) => self.few + (many - self.few) / 2,
        };
        self.window > self.few
    }

    /// Asks for fewer numbers; false if there is nothing between too few and too many.
    fn narrow(&mut self) -> bool {
        let many = self.window;
        self.many = Some(many);
        self.window = self.few + (many - self.few) / 2;
        self.window > self.few && self.window < many
    }

    fn show(&mut self, tasks: Vec<TaskView>) {
        let stays = self
            .chosen()
            .map(|task| NextChosen::AtLeast(task.task.index));
        let choice = self.choose.take().or(stays);
        self.rows = tasks;
        self.loaded = true;

        let mut numbers = self.rows.iter().map(|row| row.task.index);
        let at = match choice {
            Some(NextChosen::AtLeast(least)) => numbers.position(|number| number >= least),
            Some(NextChosen::AtMost(most)) => numbers.rposition(|number| number <= most),
            None => None,
        };
        self.place.at = at.unwrap_or(self.place.at);
        self.place.fit(self.rows.len(), self.rows.len());
    }

    /// Moves by a key. Returns `None` if the key does not move, else whether another screen is
    /// wanted.
    pub(super) fn go(&mut self, act: KeyAct, height: usize) -> Option<bool> {
        let number = |row: &TaskView| row.task.index;
        let before = self
            .rows
            .first()
            .and_then(|row| row.task.index.checked_sub(1));
        let after = self
            .rows
            .last()
            .and_then(|row| row.task.index.checked_add(1));
        let at_end = self.place.at + 1 >= self.rows.len();
        let full = self.rows.len() >= height.max(1);

        let (search, choose) = match act {
            // The screen moves by one task.
            KeyAct::Down if at_end && full => {
                let first = self.rows.get(1).or(self.rows.first()).map(number);
                (first.map(Search::From), after.map(NextChosen::AtLeast))
            }
            KeyAct::Up if self.place.at == 0 => {
                let last = self.rows.iter().rev().nth(usize::from(full)).map(number);
                let upto = last.or(before).filter(|_| before.is_some());
                (upto.map(Search::Upto), before.map(NextChosen::AtMost))
            }
            KeyAct::PageDown if full => (after.map(Search::From), None),
            KeyAct::PageUp => (before.map(Search::Upto), None),
            KeyAct::First => (Some(Search::From(0)), Some(NextChosen::AtLeast(0))),
            KeyAct::Last => (Some(Search::Last), None),
            _ => (None, None),
        };
        if let Some(search) = search {
            self.look(search, choose);
            return Some(true);
        }
        let moved = self.place.go(act, self.rows.len(), height);
        moved.then_some(false)
    }

    /// Returns the task that is chosen.
    pub(super) fn chosen(&self) -> Option<&TaskView> {
        self.rows.get(self.place.at)
    }

    /// The tasks on the screen, each with whether it is chosen.
    pub(super) fn seen(&self) -> impl Iterator<Item = (&TaskView, bool)> {
        let at = self.place.at;
        let rows = self.rows.iter().enumerate();
        rows.map(move |(index, task)| (task, index == at))
    }
}

/// Returns the cells of a task's row, one for each of [`COLUMNS`].
pub(super) fn row(task: &TaskView, theme: Theme) -> Vec<Line<'static>> {
    let main = task.main_attempt();
    let progress = main.and_then(|attempt| attempt.progress);
    let why = task.reason.as_deref();
    let why = why.or_else(|| main.and_then(|attempt| attempt.reason.as_deref()));

    vec![
        Line::raw(task.task.index.to_string()),
        theme.state(of_task(task.state), &task.state.to_string()),
        Line::raw(progress.map_or_else(String::new, |part| format!("{:.0} %", 100.0 * part))),
        theme.text(main.map_or("", |attempt| &attempt.host), Tone::Plain),
        Line::raw(task.attempts.len().to_string()),
        Line::raw(main.and_then(AttemptView::run_in_words).unwrap_or_default()),
        theme.text(task.item.as_deref().unwrap_or_default(), Tone::Plain),
        theme.text(why.unwrap_or_default(), Tone::Quiet),
    ]
}
