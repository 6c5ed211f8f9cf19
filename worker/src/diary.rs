//! The day of the worker for its owner: which rule held when, how long tasks ran and were
//! suspended, and which ended last. Pure: all times are arguments. [`kept`] is its file; nothing of
//! it goes to the master, which gets [`crate::record`].

pub(crate) mod kept;

use std::collections::VecDeque;

use common::host::YieldReason;
use common::owner::{DayReport, EndedTask, RuleSpan, TaskEnd};
use common::{AttemptId, Span, Time};
use serde::{Deserialize, Serialize};

/// The most [`RuleSpan`]s that are kept; the oldest go first.
const MOST_RULES: usize = 500;
/// The number of ended tasks that are kept.
const LAST_TASKS: usize = 10;

/// The day, as the host's clock and time zone have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalDay {
    /// The midnight with which it began, by the wall clock.
    pub began: Time,
    /// The present time by the same clock.
    pub now: Time,
    /// The lead of the time zone over UTC, in seconds.
    pub utc_offset_s: i32,
}

/// The sums of one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Sums {
    /// The midnight with which the day began.
    began: Time,
    /// Processor time of the worker and its tasks.
    processor: Span,
    ran: Span,
    suspended: Span,
    started: u64,
    done: u64,
    given_back: u64,
    failed: u64,
}

/// The numbers of tasks that run and that are suspended, since a time by the worker's clock.
#[derive(Debug, Clone, Copy, Default)]
struct TasksHere {
    since: Time,
    running: u64,
    suspended: u64,
}

/// The day so far.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Diary {
    sums: Sums,
    rules: VecDeque<RuleSpan>,
    last_tasks: VecDeque<EndedTask>,
    /// The last time at which the worker is known to have run.
    seen: Time,
    #[serde(skip)]
    counts: TasksHere,
    /// Whether anything is to be written down.
    #[serde(skip)]
    news: bool,
}

impl Diary {
    /// Goes on with what an earlier run of the worker left, which is known to have run until
    /// `alive` at least.
    pub(crate) fn resumed(mut self, alive: Time) -> Self {
        let seen = self.seen.max(alive);
        self.close(seen);
        self
    }

    /// Ends the rule that holds, when the worker ends or the host has slept.
    pub(crate) fn close(&mut self, at: Time) {
        if let Some(last) = self.rules.back_mut().filter(|last| last.to.is_none()) {
            last.to = Some(at.max(last.from));
            self.news = true;
        }
        self.rules.retain(|span| span.to != Some(span.from));
    }

    /// Begins a new day if it is one.
    pub(crate) fn turn(&mut self, day: LocalDay) {
        if self.sums.began == day.began {
            return;
        }
        self.sums = Sums {
            began: day.began,
            ..Sums::default()
        };
        self.rules
            .retain(|span| span.to.is_none_or(|to| to > day.began));
        self.news = true;
    }

    /// Notes the rule that holds from now on.
    pub(crate) fn rule(&mut self, at: Time, reason: Option<YieldReason>, slots: u32) {
        let reason = reason.map(|reason| reason.to_string());
        let same = |last: &RuleSpan| {
            last.to.is_none() && (last.slots, &last.reason) == (slots, &reason) && last.from <= at
        };
        if self.rules.back().is_some_and(same) {
            return;
        }

        // A clock that was set back was wrong before.
        self.rules.retain(|span| span.from <= at);
        for span in &mut self.rules {
            span.to = span.to.map(|to| to.min(at));
        }
        self.close(at);
        self.rules.push_back(RuleSpan {
            from: at,
            to: None,
            reason,
            slots,
        });
        if self.rules.len() > MOST_RULES {
            self.rules.pop_front();
        }
        self.news = true;
    }

    /// Takes a regular look, `every` so long: if the last one is much longer ago, the host has
    /// slept, and no rule held meanwhile.
    pub(crate) fn look(&mut self, day: LocalDay, every: Span, processor: Span) {
        self.turn(day);
        let slept = day.now.since(self.seen) > Span(every.0.saturating_mul(5) / 2);
        if slept
            && self.seen > Time(0)
            && let Some(last) = self.rules.back().filter(|last| last.to.is_none()).cloned()
            && last.from < self.seen
        {
            self.close(self.seen);
            self.rules.push_back(RuleSpan {
                from: day.now,
                ..last
            });
        }

        self.seen = day.now;
        self.sums.processor = self.sums.processor + processor;
        // What the worker itself uses is not worth a write.
        self.news |= self.counts.running > 0;
    }

    /// Counts the tasks that run and are suspended from `now` on, by the worker's own clock.
    pub(crate) fn count(&mut self, now: Time, running: usize, suspended: usize) {
        let before = self.counts;
        let passed = now.since(before.since).0;
        let times = |tasks: u64| Span(passed.saturating_mul(tasks));
        self.sums.ran = self.sums.ran + times(before.running);
        self.sums.suspended = self.sums.suspended + times(before.suspended);
        self.news |= before.running + before.suspended > 0;

        self.counts = TasksHere {
            since: now,
            running: running as u64,
            suspended: suspended as u64,
        };
    }

    /// Notes that a task starts (`Action::Start`); returns whether it is the first of the day.
    pub(crate) fn started(&mut self) -> bool {
        self.sums.started += 1;
        self.news = true;
        self.sums.started == 1
    }

    /// Notes the end of a task as an [`EndedTask`].
    pub(crate) fn ended(
        &mut self,
        at: Time,
        attempt: AttemptId,
        how: TaskEnd,
        times: (Span, Span),
    ) {
        match how {
            TaskEnd::Succeeded => self.sums.done += 1,
            TaskEnd::GivenBack => self.sums.given_back += 1,
            _ => self.sums.failed += 1,
        }

        let (ran, suspended) = times;
        self.last_tasks.push_front(EndedTask {
            attempt: attempt.to_string(),
            ended: at,
            how,
            ran_s: ran.secs(),
            suspended_s: suspended.secs(),
        });
        self.last_tasks.truncate(LAST_TASKS);
        self.news = true;
    }

    /// Returns whether there is anything to write down since the last call.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Reports the day so far as a [`DayReport`].
    pub(crate) fn report(&mut self, day: LocalDay) -> DayReport {
        self.turn(day);
        let sums = &self.sums;
        let today = |span: &RuleSpan| RuleSpan {
            from: span.from.max(day.began),
            ..span.clone()
        };
        DayReport {
            began: day.began,
            now: day.now,
            utc_offset_s: day.utc_offset_s,
            processor_s: sums.processor.secs(),
            ran_s: sums.ran.secs(),
            suspended_s: sums.suspended.secs(),
            tasks_done: sums.done,
            tasks_given_back: sums.given_back,
            tasks_failed: sums.failed,
            rules: self.rules.iter().map(today).collect(),
            last_tasks: self.last_tasks.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Span = Span::from_secs(10);
    const NONE: (Span, Span) = (Span::ZERO, Span::ZERO);
    const MIDNIGHT: Time = Time(1_700_000_000_000_000);

    fn day(s: u64) -> LocalDay {
        LocalDay {
            began: MIDNIGHT,
            now: at(s),
            utc_offset_s: 0,
        }
    }

    fn at(s: u64) -> Time {
        MIDNIGHT + Span::from_secs(s)
    }

    fn id(n: u32) -> AttemptId {
        crate::machine::tests::id(n)
    }

    /// The spans of a report: from, to, reason.
    fn rules(diary: &mut Diary, s: u64) -> Vec<(u64, Option<u64>, Option<String>)> {
        let second = |time: Time| time.since(at(0)).0 / 1_000_000;
        let report = diary.report(day(s));
        let spans = report.rules.into_iter();
        spans
            .map(|span| (second(span.from), span.to.map(second), span.reason))
            .collect()
    }

    fn word(reason: YieldReason) -> Option<String> {
        Some(reason.to_string())
    }

    #[test]
    fn rules_follow_one_another_and_the_last_one_holds() {
        let mut diary = Diary::default();
        diary.turn(day(0));
        diary.rule(at(5), None, 2);
        diary.rule(at(9), None, 2);
        diary.rule(at(20), Some(YieldReason::InUse), 0);
        let told = rules(&mut diary, 30);
        let in_use = word(YieldReason::InUse);
        assert_eq!(told, [(5, Some(20), None), (20, None, in_use)]);
    }

    #[test]
    fn times_of_tasks_are_counted_while_they_last_and_anew_each_day() {
        let mut diary = Diary::default();
        diary.turn(day(0));
        diary.count(Time(0), 2, 0);
        diary.count(Time(0) + Span::from_secs(10), 1, 1);
        diary.count(Time(0) + Span::from_secs(15), 0, 0);
        diary.count(Time(0) + Span::from_secs(99), 0, 0);
        diary.ended(at(15), id(1), TaskEnd::Succeeded, NONE);
        diary.ended(at(16), id(2), TaskEnd::GivenBack, NONE);
        let told = diary.report(day(100));
        assert_eq!((told.ran_s, told.suspended_s), (25.0, 5.0));
        assert_eq!((told.tasks_done, told.tasks_given_back), (1, 1));

        let tomorrow = LocalDay {
            began: at(86_400),
            ..day(86_401)
        };
        diary.rule(at(17), None, 1);
        let told = diary.report(tomorrow);
        assert_eq!((told.ran_s, told.tasks_done), (0.0, 0));
        assert_eq!(told.last_tasks.len(), 2, "the last tasks stay");
        assert_eq!(told.rules[0].from, at(86_400), "cut off at midnight");
    }

    #[test]
    fn a_host_that_slept_lent_nothing_meanwhile() {
        let mut diary = Diary::default();
        diary.rule(at(1), None, 1);
        for s in [5, 15, 25, 4_000, 4_010] {
            diary.look(day(s), EVERY, Span::ZERO);
        }
        let told = rules(&mut diary, 4_020);
        assert_eq!(told, [(1, Some(25), None), (4_000, None, None)]);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_no_rules_in_the_future() {
        let mut diary = Diary::default();
        diary.rule(at(100), None, 1);
        diary.rule(at(900), Some(YieldReason::Busy), 0);
        diary.rule(at(200), None, 1);
        assert_eq!(
            rules(&mut diary, 210),
            [(100, Some(200), None), (200, None, None)]
        );
    }

    #[test]
    fn what_a_killed_worker_left_ends_when_it_was_last_seen() {
        let mut diary = Diary::default();
        diary.rule(at(100), Some(YieldReason::Busy), 0);
        diary.look(day(110), EVERY, Span::ZERO);
        let text = serde_json::to_string(&diary).unwrap();
        let read = || serde_json::from_str::<Diary>(&text).unwrap();
        let busy = || word(YieldReason::Busy);
        let told = |alive| rules(&mut read().resumed(alive), 500);
        assert_eq!(told(Time(0)), [(100, Some(110), busy())]);
        assert_eq!(told(at(300)), [(100, Some(300), busy())]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut diary = Diary::default();
        for n in 0..2_000 {
            diary.rule(at(u64::from(n)), None, n);
            diary.ended(at(u64::from(n)), id(n), TaskEnd::Failed, NONE);
        }
        let told = diary.report(day(9_999));
        assert_eq!((told.rules.len(), told.last_tasks.len()), (500, 10));
        assert_eq!(told.last_tasks[0].ended, at(1_999), "the newest first");
    }
}
