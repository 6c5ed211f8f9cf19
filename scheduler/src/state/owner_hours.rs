//! Hosts that their owners lend until a given time, by the hours that they set: what runs there
//! then is given back, and begins anew. So an attempt that should not be done by then is not
//! started there, if it would be at another time of the week. What is not here: what is tried there
//! all the same (`gaps`), and when owners come unasked (`idle`).

use common::host::Loan;
use common::{HostId, Span, Time};

use crate::prediction::predict::duration;
use crate::state::host::Host;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// Until when a host is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lent {
    pub(crate) until: Time,
    /// From when on it is lent again.
    pub(crate) again: Time,
    /// How long the longest such time of the week is.
    pub(crate) longest: Span,
}

/// Why an attempt does not start on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong {
    pub(crate) left: Span,
    pub(crate) takes: Span,
}

impl Scheduler {
    /// For how long the host is lent from now on.
    pub(crate) fn on_host_lent(&mut self, id: HostId, loan: Option<Loan>) {
        let now = self.now;
        let lent = loan.map(
            |Loan {
                 left,
                 again,
                 longest,
             }| Lent {
                until: now + left,
                again: now + again.max(left),
                longest: longest.max(left),
            },
        );
        self.hosts.entry(id, now).lent = lent;

        if lent.is_some() {
            self.hosts.index.lent.insert(id);
        } else {
            self.hosts.index.lent.remove(&id);
        }

        // Whoever did not want the host before may want it now.
        self.hosts.index.ready.arrivals += 1;
    }
}

impl Host {
    /// Its loan, where there is one whose end is still to come.
    pub(crate) fn loan(&self, now: Time) -> Option<Lent> {
        self.lent.filter(|lent| lent.until > now)
    }

    /// When that ends.
    pub(crate) fn lent_until(&self, now: Time) -> Option<Time> {
        self.loan(now).map(|lent| lent.until)
    }
}

impl Job {
    /// Whether a task of the job should not be done on this host before its loan ends, though it
    /// would be in the longest one. What keeps its state goes on elsewhere; and what is too long
    /// for every loan gets no better one by waiting.
    pub(crate) fn too_long_for(&self, host: &Host, now: Time, start_cost: Span) -> Option<TooLong> {
        let Lent { until, longest, .. } = host.loan(now)?;
        let usual_s = self
            .task_work_s()
            .or(self.usual_s)
            .filter(|_| !self.rules.checkpoint)?;

        // Who was killed takes longer than that, and is tried with twice as much.
        let killed_s = self
            .requeued
            .first()
            .map_or(0.0, |index| self.killed_s(index));
        let work_s = usual_s.max(2.0 * killed_s);
        let takes = duration(Span::from_secs_f64(work_s), start_cost, host.speed.factor());
        let left = until.since(now);

        (left < takes && takes <= longest).then_some(TooLong { left, takes })
    }
}
