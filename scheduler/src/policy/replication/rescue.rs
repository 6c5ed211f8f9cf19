//! Copies of tasks none of whose live attempts can go on now, since their hosts are suspended or,
//! some of them, miss heartbeats. A task whose hosts are all silent waits instead (`Job::refresh`).
//!
//! Whenever an attempt is suspended, goes on or falls silent, `Job::mark` in `handlers::hosts` asks
//! [`propose`] and puts the task among the job's wishes; the starter grants those after all waiting
//! tasks, on the host that the placement proposes. Where the job has a promise, attempts that run for much longer than any of
//! their kind are copied by `faults::stragglers`.

use super::Answer;
use crate::protocol::effect::CopyReason;

pub(super) fn propose(
    mut hold_ups: impl Iterator<Item = Option<CopyReason>>,
) -> Option<CopyReason> {
    let first = hold_ups.next()??;
    hold_ups.all(|hold_up| hold_up.is_some()).then_some(first)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Rescue;

impl Answer for Rescue {
    fn describe(self) -> &'static str {
        "a task whose attempts are all on suspended or silent hosts, or overdue if its job has a promise; on slots that no waiting task takes"
    }

    fn rescues(self) -> bool {
        true
    }
}
