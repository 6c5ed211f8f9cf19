//! The corrections that a promised job's own tasks make to its user's estimates. Its first tasks say more
//! of the rest than the user's earlier jobs do.

use std::cell::RefCell;
use std::collections::BTreeMap;

use common::attempt::Phase;
use common::{JobId, Span, Time};

use crate::prediction::estimates::{EstimateSource, ratio};
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;
use crate::state::work::weighed_s;

/// The work of a job's own tasks, by their estimates.
#[derive(Debug, Clone, Copy)]
enum OwnTasks {
    /// So many tasks have ended, with this work over their estimates.
    Ended { tasks: f64, ratio: f64 },
    /// None has. The one that has run longest, by its estimate, has done this part of that.
    Running { ratio: f64 },
}

/// The `OwnTasks` of the jobs that were looked at.
#[derive(Debug, Default)]
pub(super) struct KnownTasks(RefCell<BTreeMap<JobId, OwnTasks>>);

impl KnownTasks {
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
        let mut known = self.0.borrow_mut();
        let own = known.entry(job.rank.job);
        let own = *own.or_insert_with(|| OwnTasks::of(scheduler, job, now));
        match own {
            OwnTasks::Ended { tasks, ratio } => {
                let measured_s = ratio * estimate.secs();
                Span::from_secs_f64(weighed_s(expected.secs(), measured_s, tasks))
            }
            OwnTasks::Running { ratio } => {
                let done = Span::from_secs_f64(ratio * estimate.secs());
                let given = source.given(Some(estimate), done);
                given.map_or(expected, |given| given.max(expected))
            }
        }
    }
}

impl OwnTasks {
    fn of(scheduler: &Scheduler, job: &Job, now: Time) -> Self {
        if let Some((tasks, ratio)) = job.pace.of_estimates() {
            return Self::Ended { tasks, ratio };
        }

        let ratios = job.copies().filter_map(|copy| {
            let host = scheduler.hosts.table.get(&copy.host)?;
            let load = host.books.get(&copy.attempt)?;
            let estimate = job.estimate(copy.attempt.task.index)?;
            let executes = load.phase.executing() || load.phase == Phase::Ended;
            let (done_s, _) = scheduler.done_for(job, host, load, now);
            executes.then(|| ratio(Span::from_secs_f64(done_s), estimate))
        });
        Self::Running {
            ratio: ratios.fold(0.0, f64::max),
        }
    }
}
