//! The live attempts of a job in numbers: the silence of their hosts, and when they are copied. The
//! words for it are in `explain`.

use std::collections::BTreeMap;

use common::{AttemptId, HostId, JobId, Span, Time};

use crate::faults::stragglers::going;
use crate::protocol::effect::CopyReason;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// A live attempt of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttemptOutlook {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its host.
    pub host: HostId,
    /// The time for which nothing has been heard of its host, where that is more than its host
    /// promised.
    pub silent: Option<Span>,
    /// The probability that it is gone.
    pub gone: f64,
    /// The time until it is copied if it goes on so and a host is idle then; `None` if it will not
    /// be.
    pub copied_in: Option<Span>,
}

impl Scheduler {
    /// Returns the live attempts of a job in the order of its tasks, at a time at which nothing has
    /// happened since the last event.
    pub fn running(&self, id: JobId, now: Time) -> Vec<AttemptOutlook> {
        let Some(job) = self.jobs.table.get(&id) else {
            return Vec::new();
        };
        let due: BTreeMap<u32, Span> =
            if job.copies_overdue() && job.waiting() == 0 && job.gang.is_none() {
                self.overdue_in(job, now).collect()
            } else {
                BTreeMap::new()
            };
        let rows = job.copies().filter_map(|copy| {
            let host = self.hosts.table.get(&copy.host)?;
            let silence = host.silence(now);
            let index = copy.attempt.task.index;
            let doubt = self.doubt_of(job, index, copy.host, CopyReason::Suspect, now);
            let doubted_in = doubt.and_then(|doubt| doubt.copied_in);
            let due_in = due.get(&index).copied();

            Some(AttemptOutlook {
                attempt: copy.attempt,
                host: copy.host,
                silent: silence.map(|silence| silence.span),
                gone: doubt.map_or(0.0, |doubt| doubt.gone),
                copied_in: doubted_in.or(due_in),
            })
        });
        rows.collect()
    }

    /// Returns the tasks that have one attempt to go on and may be copied, each with the time after
    /// which it is overdue.
    pub(super) fn overdue_in(&self, job: &Job, now: Time) -> impl Iterator<Item = (u32, Span)> {
        let benching = self.settings.benching;
        let most = self.settings.max_copies;
        let going = going(job, &self.hosts, &self.foresight, benching, most, now);
        going
            .filter(|going| job.may_start_again(going.index))
            .map(|going| (going.index, Span::from_secs_f64(going.due_s - going.ran_s)))
    }
}

impl Job {
    /// Whether another attempt of a task may start beside its live ones, as far as its retries and
    /// losses go.
    pub(super) fn may_start_again(&self, index: u32) -> bool {
        let record = self.records.get(&index);
        record.is_some_and(|record| !record.is_spent(&self.rules))
    }
}
