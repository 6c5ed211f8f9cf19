//! The list of jobs: those that are not settled, and behind them those that ended, which are fetched
//! as far as somebody looks.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use common::selector::Selector;
use common::view::{Forecast, JobState, JobView, StartView};
use common::wire::client::Request;
use common::{IdSet, JobId, Time};
use ratatui::text::Line;

use super::super::job::activity;
use super::board::{Board, BoardEntry, holds};
use super::look::{Column, Theme, Tone, number, of_job, of_promise, text};
use crate::output::when;

/// The jobs that are fetched at a time, and those that are looked at before somebody asks for more.
const WINDOW: u32 = 200;
const LOOKED_AT: u32 = 2_000;
/// The jobs whose forecasts one `Reply::Jobs` holds.
const FORECASTS: usize = 32;

/// The columns of the list, for `row`.
pub(super) const COLUMNS: &[Column] = &[
    number("JOB", 5, 0),
    text("NAME", 12, 3, 0),
    text("STATE", 11, 0, 0),
    text("DONE", 9, 1, 2),
    number("TASKS", 12, 0),
    number("RUNS", 4, 4),
    number("FAILED", 6, 3),
    text("FINISH (80 % LIKELY)", 32, 0, 1),
    text("PROMISE", 16, 0, 5),
];

impl BoardEntry for JobView {
    const SORTS: &'static [&'static str] =
        &["activity", "number", "finish", "failed tasks", "name"];

    fn key(&self) -> u32 {
        self.job.0
    }

    fn is_listed(&self) -> bool {
        true
    }

    fn has(&self, word: &str) -> bool {
        let state = self.state.to_string();
        let labels = || self.labels.iter().any(|label| holds(label.as_str(), word));
        let named = holds(&self.name, word) || holds(&self.user, word);
        named || state.contains(word) || self.job.to_string() == word || labels()
    }

    fn compare(&self, other: &Self, sort: usize) -> Ordering {
        let newest = other.job.cmp(&self.job);
        match sort {
            0 => activity(self.state)
                .cmp(&activity(other.state))
                .then(newest),
            1 => newest,
            2 => finish(self).cmp(&finish(other)),
            3 => other.tasks.failed.cmp(&self.tasks.failed).then(newest),
            _ => self.name.cmp(&other.name),
        }
    }
}

/// The key by which finishes are sorted: what is to come first, the soonest before.
fn finish(job: &JobView) -> (bool, bool, Time) {
    let time = job.predicted.map(|forecast| forecast.finish);
    (
        job.state.settled(),
        time.is_none(),
        time.unwrap_or_default(),
    )
}

/// The list of jobs (`Tab::Jobs`) with what is to be fetched of it.
#[derive(Debug, Default)]
pub(super) struct JobBook {
    /// The jobs.
    pub(super) board: Board<JobView>,
    /// The lowest number that was looked at, once the newest is known.
    below: Option<u32>,
    /// The number of jobs that were looked at since somebody asked for more.
    looked: u32,
    /// The windows in a row without a job: a restored master skips numbers, and old jobs are forgotten.
    empty: u32,
    /// The jobs of which something was heard that their `JobView`s do not have.
    heard: BTreeSet<JobId>,
    /// The part of the screen that is asked for next.
    part: usize,
    /// Jobs to ask for one by one: some of them do not exist any more, and the master does not say
    /// which.
    alone: Vec<u32>,
}

impl JobBook {
    /// Takes the list of the jobs that are not settled. Those that have left it are looked at.
    pub(super) fn take_open(&mut self, jobs: Vec<JobView>) {
        let there: BTreeSet<JobId> = jobs.iter().map(|job| job.job).collect();
        let open = self.board.all().filter(|job| !job.state.settled());
        let left = open.map(|job| job.job).filter(|job| !there.contains(job));
        self.heard.extend(left);

        for mut job in jobs {
            // Long lists hold the forecasts of some jobs only.
            if let Some(before) = self.board.entry(job.job.0)
                && job.predicted.is_none()
            {
                job.predicted = before.predicted;
                job.promise.clone_from(&before.promise);
                job.progress = before.progress;
            }
            self.put(job);
        }
        self.board.loaded = true;
    }

    /// Takes the views of jobs that were `asked` for: those that are missing do not exist any more.
    pub(super) fn take_seen(&mut self, asked: &IdSet, jobs: Vec<JobView>) {
        let there: BTreeSet<JobId> = jobs.iter().map(|job| job.job).collect();
        self.heard.retain(|job| !asked.contains(job.0));
        jobs.into_iter().for_each(|job| self.put(job));
        let board = &mut self.board;
        board.retain(|job| !asked.contains(job.job.0) || there.contains(&job.job));
    }

    /// Takes the answer that one of the jobs that were `asked` for does not exist. Returns whether
    /// the others are to be asked for at once.
    pub(super) fn take_missing(&mut self, asked: &IdSet) -> bool {
        self.heard.retain(|job| !asked.contains(job.0));
        if asked.len() > 1 {
            self.alone = asked.iter().collect();
            return true;
        }
        self.board.retain(|job| !asked.contains(job.job.0));
        !self.alone.is_empty()
    }

    fn put(&mut self, job: JobView) {
        let before = self.board.entry(job.job.0).map(|before| before.state);
        if before.is_some_and(|before| before != job.state) {
            self.board.resort();
        }
        self.board.put(job);
    }

    /// Notes that something was heard of a job, by a `GridEvent`.
    pub(super) fn hear(&mut self, job: JobId) {
        self.heard.insert(job);
    }

    /// The jobs to ask for next: those on the screen that are not settled, so many at a time that
    /// the answer holds their forecasts, and those of which something was heard.
    pub(super) fn wanted(&mut self, height: usize) -> Option<IdSet> {
        if let Some(job) = self.alone.pop() {
            return Some(IdSet::from_range(job, job));
        }
        let seen = self.board.seen(height).map(|(job, _)| job);
        let open = seen.filter(|job| !job.state.settled()).map(|job| job.job.0);
        let open: Vec<u32> = open.collect();
        if self.part * FORECASTS >= open.len() {
            self.part = 0;
        }
        let part = open.iter().skip(self.part * FORECASTS).take(FORECASTS);
        let heard = self.heard.iter().map(|job| &job.0).take(FORECASTS);

        let all: IdSet = part.chain(heard).copied().collect();
        self.part += 1;
        (!all.is_empty()).then_some(all)
    }

    /// Whether a job that is not settled is on the screen.
    pub(super) fn has_open(&self, height: usize) -> bool {
        self.board.seen(height).any(|(job, _)| !job.state.settled())
    }

    /// Notes the number of the newest job: older ones are fetched from there on.
    pub(super) fn newest(&mut self, job: Option<JobId>) {
        self.below
            .get_or_insert(job.map_or(0, |job| job.0.saturating_add(1)));
    }

    /// Whether the newest job is not known yet.
    pub(super) fn needs_newest(&self) -> bool {
        self.below.is_none()
    }

    /// Returns the numbers of the next older jobs to fetch, where the end of the list is on the
    /// screen. Not all of them need exist.
    pub(super) fn older(&self, height: usize) -> Option<IdSet> {
        let below = self.below.filter(|below| *below > 1)?;
        let wanted = self.board.loaded && self.board.shows_end(height) && self.looked < LOOKED_AT;
        let window = WINDOW << self.empty.min(6);
        wanted.then(|| IdSet::from_range(below.saturating_sub(window).max(1), below - 1))
    }

    /// Takes the older jobs that were asked for.
    pub(super) fn take_older(&mut self, asked: &IdSet, jobs: Vec<JobView>) {
        self.below = asked.first();
        self.looked = self.looked.saturating_add(WINDOW);
        self.empty += 1;
        for job in jobs.into_iter().filter(|job| asked.contains(job.job.0)) {
            self.empty = 0;
            if self.board.entry(job.job.0).is_none() {
                self.board.put(job);
            }
        }
    }

    /// Looks further back, as [`KeyAct::Last`](super::keys::KeyAct) asks for.
    pub(super) fn look_further(&mut self) {
        self.looked = 0;
    }

    /// Whether there may be older jobs that nobody has asked for.
    pub(super) fn has_older(&self) -> bool {
        self.looked >= LOOKED_AT && self.below.is_some_and(|below| below > 1)
    }
}

/// The request for older jobs, of which so many are read: those from the first number on, since a
/// request that names a job that does not exist is refused.
pub(super) fn older_jobs(ids: &IdSet) -> (Request, usize) {
    let before = ids.first().and_then(|first| first.checked_sub(1));
    let jobs = before.map_or(Selector::All, Selector::Beyond);
    let states = Vec::new();
    let most = usize::try_from(ids.len()).unwrap_or(usize::MAX);
    (Request::Jobs { jobs, states }, most)
}

/// The request for the jobs that are not settled.
pub(super) fn open_jobs() -> Request {
    let states = JobState::ALL.iter().copied();
    Request::Jobs {
        jobs: Selector::All,
        states: states.filter(|state| !state.settled()).collect(),
    }
}

/// Returns the cells of a job's row, one for each of [`COLUMNS`].
pub(super) fn row(job: &JobView, theme: Theme, bar: u16, now: Time) -> Vec<Line<'static>> {
    let tasks = &job.tasks;
    let open = if job.open { "+" } else { "" };
    let failed = if tasks.failed > 0 {
        Tone::Bad
    } else {
        Tone::Quiet
    };

    vec![
        Line::raw(job.job.to_string()),
        theme.text(&job.name, Tone::Plain),
        theme.state(of_job(job.state), &job.state.to_string()),
        theme.bar(tasks, bar),
        Line::raw(format!(
            "{}/{}{open}",
            in_brief(tasks.finished),
            in_brief(tasks.total)
        )),
        Line::raw(tasks.running.to_string()),
        theme.text(&tasks.failed.to_string(), failed),
        theme.text(&end(job, now), Tone::Plain),
        promise(job, theme, now),
    ]
}

/// Formats a number of tasks for a column.
fn in_brief(count: u64) -> String {
    match count {
        0..100_000 => count.to_string(),
        100_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{:.2}M", count as f64 / 1e6),
    }
}

/// The line above the tasks of a job.
pub(super) fn headline(job: &JobView, theme: Theme, now: Time) -> Line<'static> {
    let mut line = Line::styled(format!(" job {} ", job.job), theme.style(Tone::Strong));
    let tasks = &job.tasks;
    let mut push = |part: Line<'static>| {
        line.extend(
            part.spans
                .into_iter()
                .map(|piece| piece.patch_style(part.style)),
        );
        line.push_span("  ");
    };
    push(theme.text(&job.name, Tone::Strong));
    push(theme.state(of_job(job.state), &job.state.to_string()));
    push(theme.bar(tasks, 16));
    push(Line::raw(format!(
        "{}/{} finished",
        tasks.finished, tasks.total
    )));

    let counts = [
        (tasks.failed, "failed", Tone::Bad),
        (tasks.running, "running", Tone::Running),
    ];
    let more = [
        (tasks.suspended, "suspended", Tone::Suspended),
        (tasks.waiting, "waiting", Tone::Waiting),
    ];
    for (count, word, tone) in counts
        .into_iter()
        .chain(more)
        .filter(|(count, ..)| *count > 0)
    {
        push(theme.text(&format!("{count} {word}"), tone));
    }
    push(Line::raw(end(job, now)));
    push(promise(job, theme, now));
    line
}

/// Describes the end of a job: when it was, or the forecast with its interval.
pub(super) fn end(job: &JobView, now: Time) -> String {
    match (job.finished, &job.predicted) {
        (Some(finished), _) => {
            let took = finished.since(job.submitted);
            format!("{}, in {took}", when::relative(finished, now))
        }
        (None, Some(forecast)) => of_forecast(forecast, now),
        (None, None) => match &job.starts {
            Some(StartView { start, low, high }) if *high > now => {
                let [start, low, high] = [start, low, high].map(|time| time.since(now));
                format!("starts in {start} ({low}..{high})")
            }
            _ => job.reason.clone().unwrap_or_default(),
        },
    }
}

fn of_forecast(forecast: &Forecast, now: Time) -> String {
    let last = forecast.interval.map_or(forecast.finish, |(_, high)| high);
    if last <= now {
        return "later than predicted".to_owned();
    }
    let finish = format!("in {}", forecast.finish.since(now));

    match forecast.interval {
        Some((low, high)) if low < high => {
            let low = if low > now {
                low.since(now).to_string()
            } else {
                "now".to_owned()
            };
            format!("{finish} ({low} to {})", high.since(now))
        }
        _ => finish,
    }
}

fn promise(job: &JobView, theme: Theme, now: Time) -> Line<'static> {
    let Some(promise) = &job.promise else {
        return Line::default();
    };
    let by = when::clock(promise.deadline, now);
    // The hour and minute, or on another day the month and day.
    let by = by.get(17..22).or(by.get(..5)).unwrap_or_default();
    theme.text(
        &format!("{} by {by}", promise.state),
        of_promise(promise.state),
    )
}
