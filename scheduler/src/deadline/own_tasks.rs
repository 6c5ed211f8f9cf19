//! The corrections that a promised job's own tasks make to its user's estimates. Its first tasks say more
//! of the rest than the user's earlier jobs do.

use std::cell::RefCell;
use std::collections::BTreeMap;

use common::{JobId, Span, Time};

use crate::prediction::estimates::{EstimateSource, ratio};
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;
use crate::state::work::{mixed_s, weighed_s};

/// The work of a job's own tasks, by their estimates.
#[derive(Debug, Clone, Copy)]
struct OwnTasks {
    /// The number of tasks that have ended, and of those that run and have done more than these.
    tasks: f64,
    /// Their work over their estimates.
    ratio: f64,
    /// Whether none has ended.
    running: bool,
}

/// The `OwnTasks` of the jobs that were looked at, with the work of a running attempt as far as it has
/// come, by the calendar that asks.
#[derive(Debug, Default)]
pub(super) struct KnownTasks {
    jobs: RefCell<BTreeMap<JobId, OwnTasks>>,
    /// Whether the processor share that an attempt had counts.
    shared: bool,
}

impl KnownTasks {
    pub(super) fn new(shared: bool) -> Self {
        let jobs = RefCell::default();
        Self { jobs, shared }
    }

    /// Returns the work of a task of this job with this estimate, of which `expected` is what its
    /// source tells.
    pub(super) fn corrected(
        &self,
        scheduler: &Scheduler,
        job: &Job,
        (estimate, expected): (Span, Span),
        source: &EstimateSource,
        now: Time,
    ) -> Span {
        let mut known = self.jobs.borrow_mut();
        let own = known.entry(job.rank.job);
        let own = *own.or_insert_with(|| OwnTasks::of(scheduler, job, self.shared, now));
        let measured_s = own.ratio * estimate.secs();
        if own.running {
            let given = source.given(Some(estimate), Span::from_secs_f64(measured_s));
            return given.map_or(expected, |given| given.max(expected));
        }

        // The tasks that end first are the short ones.
        let expected_s = expected.secs();
        Span::from_secs_f64(if measured_s < expected_s {
            mixed_s(expected_s, measured_s, own.tasks)
        } else {
            weighed_s(expected_s, measured_s, own.tasks)
        })
    }
}

impl OwnTasks {
    fn of(scheduler: &Scheduler, job: &Job, shared: bool, now: Time) -> Self {
        let (mut tasks, mut work_s, mut estimated_s) = job.pace.of_estimates();
        let running = tasks <= 0.0;
        let start_cost = scheduler.settings.start_cost;
        let going = job.copies().filter_map(|copy| {
            let (host, load) = scheduler.hosts.on_books(copy.host, copy.attempt)?;
            let estimate = job.estimate(copy.attempt.task.index)?;
            let says = estimate > Span::ZERO;
            let runs = load.phase.executing() && host.silence(now).is_none();
            let of = (host, job.computing());
            let (done_s, _) = (scheduler.foresight).work_done(of, load, shared, start_cost, now);
            (says && runs).then_some((done_s, estimate))
        });

        let ratio_of =
            |(done_s, estimate): (f64, Span)| ratio(Span::from_secs_f64(done_s), estimate);
        // Those that are beyond what is known say more.
        let usual = if running { 1.0 } else { work_s / estimated_s };
        let mut within = 0.0;
        for one in going {
            if ratio_of(one) <= usual {
                within += 1.0;
                continue;
            }
            let (done_s, estimate) = one;
            tasks += 1.0;
            work_s += done_s;
            estimated_s += estimate.secs();
        }

        // Before the first has ended, some that are beyond their estimates may be odd ones.
        let known = !running || tasks > within;
        Self {
            tasks,
            ratio: if known { work_s / estimated_s } else { 0.0 },
            running,
        }
    }
}
