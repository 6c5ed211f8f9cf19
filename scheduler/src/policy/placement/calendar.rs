//! The calendar of deadlines (Wozniak, Jiang and Striegel, section 4): a task with a promise starts
//! on the host on which the calendar has it done first.
//!
//! The calendar is of all promised jobs at once, so `Scheduler::place_promised` in
//! `handlers::dispatch` starts their tasks, before other jobs are placed; it keeps a host idle for a
//! task that is to start there. [`Answer::candidates`] is asked only
//! for jobs without a promise, and for results that hosts have to agree on: of those the calendar
//! does not know who may run them.

use super::Answer;

#[derive(Debug, Clone, Copy)]
pub(super) struct ByCalendar;

impl Answer for ByCalendar {
    fn describe(self) -> &'static str {
        "of promised jobs the host on which the calendar has the task done first, none while that one is busy; of \
         others the fastest ready host"
    }
}
