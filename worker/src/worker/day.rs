//! Keeps the day of the worker for its owner: tells the `Diary` what the loop does, and shows the
//! owner's notices. What is kept, and in which words it is told, is decided there.

use std::path::Path;

use common::attempt::Spent;
use common::owner::{DayReport, TaskEnd};
use common::{Span, Time};
use tokio::time::{Duration, Instant};

use crate::diary::Diary;
use crate::diary::kept::DiaryFile;
use crate::engine::EngineOutput;
use crate::machine::Action;
use crate::owner::hour;
use crate::owner::notices::{NoticeKind, Notices};
use crate::owner::policy::Decision;
use crate::share::ProcessorTimes;
use link::wall_clock;

/// The shortest time between two writes of the diary.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// The day so far, with its file and the notices.
#[derive(Debug)]
pub(super) struct OwnerDay {
    diary: Diary,
    file: DiaryFile,
    saved: Instant,
    notices: Notices,
    decision: Option<Decision>,
    /// The last look at the processors, and its time.
    load: Option<(Instant, ProcessorTimes)>,
}

impl OwnerDay {
    /// Opens the diary of a worker's directory; the last run is known to have lasted until `alive`.
    pub(super) fn open(dir: &Path, notify: &[NoticeKind], alive: Time) -> Self {
        let file = DiaryFile::below(dir);
        let mut diary = file.read(alive);
        diary.turn(hour::today());
        Self {
            diary,
            file,
            saved: Instant::now(),
            notices: Notices::new(notify),
            decision: None,
            load: None,
        }
    }

    /// Takes the decision of the owner's policy, by a worker with `all` slots.
    pub(super) fn decided(&mut self, decision: Decision, all: u32) {
        if self.decision.replace(decision) == Some(decision) {
            return;
        }
        let reason = decision.reason();
        self.diary.rule(wall_clock(), reason, decision.slots(all));
        self.notices.decided(reason);
    }

    /// Takes a regular look at the processors.
    pub(super) fn looked(&mut self, load: Option<ProcessorTimes>, every: Duration) {
        let now = Instant::now();
        let before = match load {
            Some(load) => self.load.replace((now, load)).zip(Some(load)),
            None => None,
        };
        let used = before.and_then(|((at, before), load)| {
            let part = load.ours_since(before)?;
            let passed = (now - at).as_secs_f64() * f64::from(load.processors);
            Some(Span::from_secs_f64(part * passed))
        });
        let used = used.unwrap_or_default();
        self.diary.look(hour::today(), every.into(), used);

        if now - self.saved >= SAVE_EVERY
            && let Some(text) = self.news()
        {
            self.saved = now;
            let file = self.file.clone();
            tokio::task::spawn_blocking(move || file.write(&text));
        }
    }

    /// Takes the numbers of tasks that run and that are suspended from `now` on.
    pub(super) fn count(&mut self, now: Time, (running, suspended): (usize, usize)) {
        self.diary.count(now, running, suspended);
    }

    /// Takes an output of the engine before it is carried out.
    pub(super) fn on_output(&mut self, output: &EngineOutput) {
        match output {
            EngineOutput::Act(Action::Start(_)) => self.started(),
            EngineOutput::Keep(completion) => {
                let how = TaskEnd::from(&completion.outcome);
                self.ended(&Spent::of(completion), how);
            }
            EngineOutput::Act(Action::Spent(spent)) => {
                self.ended(spent, TaskEnd::GivenBack);
                if self
                    .decision
                    .is_some_and(|decision| decision.reason().is_some())
                {
                    self.notices.given_back();
                }
            }
            _ => {}
        }
    }

    fn started(&mut self) {
        if self.diary.started() {
            self.notices.first_task();
        }
    }

    fn ended(&mut self, spent: &Spent, how: TaskEnd) {
        let times = (spent.ran, spent.suspended);
        self.diary.ended(wall_clock(), spent.attempt, how, times);
    }

    /// Reports the day so far.
    pub(super) fn report(&mut self) -> DayReport {
        self.diary.report(hour::today())
    }

    /// Writes the diary down at the end of the worker. May wait for a disk.
    pub(super) fn close(mut self) {
        self.diary.close(wall_clock());
        if let Some(text) = self.news() {
            self.file.write(&text);
        }
    }

    /// Returns the diary as text, if there is anything new in it.
    fn news(&mut self) -> Option<Vec<u8>> {
        let news = self.diary.take_news();
        news.then(|| serde_json::to_vec(&self.diary).unwrap_or_default())
    }
}
