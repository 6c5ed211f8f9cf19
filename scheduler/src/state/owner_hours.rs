//! Hosts that their owners lend until a given time, by the hours that they set: an attempt still
//! running then is given back and begins anew. So an attempt is not started there if it is not
//! expected to be done by then, but would be at another time of the week. `windows::backfill` tries
//! some all the same; owners who come unannounced are in `windows::idle`.

use common::host::Loan;
use common::{HostId, Span, Time};

use crate::prediction::predict::{duration, rate_of};
use crate::state::host::Host;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// A minute, in microseconds.
const MINUTE: u64 = 60_000_000;

/// The loan of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostLoan {
    pub(crate) until: Time,
    /// The time from which it is lent again.
    pub(crate) again: Time,
    /// The length of the longest loan of the week.
    pub(crate) longest: Span,
}

impl HostLoan {
    /// Returns the loan in whole minutes, with room for no task that it has none for. Hosts with the
    /// same hours have the same loan then, although their messages came at different moments.
    pub(crate) fn in_minutes(self) -> Self {
        Self {
            until: Time(self.until.0 / MINUTE * MINUTE),
            longest: Span(self.longest.0.div_ceil(MINUTE).saturating_mul(MINUTE)),
            ..self
        }
    }
}

/// The reason why an attempt does not start on a host: `left` is shorter than `takes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong {
    pub(crate) left: Span,
    pub(crate) takes: Span,
}

impl Scheduler {
    /// Notes the loan of the host from now on, or that there is none.
    pub(crate) fn on_host_lent(&mut self, id: HostId, loan: Option<Loan>) {
        let now = self.now;
        let lent = loan.map(|loan| HostLoan {
            until: now + loan.left,
            again: now + loan.again.max(loan.left),
            longest: loan.longest.max(loan.left),
        });
        self.hosts.entry(id, now).lent = lent;

        if lent.is_some() {
            self.hosts.index.lent.insert(id);
        } else {
            self.hosts.index.lent.remove(&id);
        }

        // A job that refused the host before may want it now.
        self.hosts.index.note_arrival();
    }
}

impl Host {
    /// Returns `lent`, if its end is still to come.
    pub(crate) fn loan(&self, now: Time) -> Option<HostLoan> {
        self.lent.filter(|lent| lent.until > now)
    }

    /// Returns the end of its `loan`.
    pub(crate) fn lent_until(&self, now: Time) -> Option<Time> {
        self.loan(now).map(|lent| lent.until)
    }
}

impl Job {
    /// Returns a `TooLong` if a task of the job should not be done on this host before its loan
    /// ends, though it would be in the longest loan. A task with checkpoints goes on elsewhere, and
    /// one that is too long for every loan gains nothing by waiting.
    pub(crate) fn too_long_for(&self, host: &Host, now: Time, start_cost: Span) -> Option<TooLong> {
        let HostLoan { until, longest, .. } = host.loan(now)?;
        let usual_s = self
            .usual_task_work_s()
            .filter(|_| !self.rules.checkpoint)?;

        // A killed task takes longer than its limit, and is tried with twice as much.
        let killed_s = self
            .requeued
            .first()
            .map_or(0.0, |index| self.killed_s(index));
        let work_s = usual_s.max(2.0 * killed_s);
        let takes = duration(
            Span::from_secs_f64(work_s),
            start_cost,
            rate_of(self.computing(), host.speed.factor()),
        );
        let left = until.since(now);

        (left < takes && takes <= longest).then_some(TooLong { left, takes })
    }
}
