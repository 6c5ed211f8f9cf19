//! The order of a job's tasks where requested ones go before those that are only disclosed (Petrou
//! et al. 2004). Preemption lives in `crate::disclosed::preemption`.

use std::collections::{BTreeMap, BTreeSet};

use common::{IdSet, JobId};

use crate::protocol::effect::{CancelReason, Effect};
use crate::state::job::{Job, Jobs};
use crate::state::scheduler::Scheduler;

/// The bound on `before`: a user's jobs beyond this many count as equally little needed.
const MOST_BEFORE: u32 = 64;

impl Scheduler {
    /// Handles `TasksRequested`. A request for further tasks is a decision of the user to go on.
    pub(crate) fn on_tasks_requested(&mut self, id: JobId, tasks: Option<&IdSet>) {
        let place = self.jobs.arrivals;
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let Some((new, again)) = job.request(tasks, place) else {
            return;
        };

        self.jobs.arrivals += 1;
        self.hosts.index.standing.on_requested(id, job, &new);
        self.jobs.lines.sync(job);
        self.look_elsewhere(id, &new);

        match self.jobs.user(id) {
            _ if again => self.decided(id, false),
            Some(user) => {
                let speculator = self.jobs.speculators.entry(user.clone()).or_default();
                speculator.unasked = 0;
                self.expect_of(&user, MOST_BEFORE as usize + 1);
            }
            None => {}
        }
    }

    /// Notes that a job is cancelled, with its unrequested tasks.
    pub(crate) fn on_rest_cancelled(&mut self, id: JobId) {
        let rest = self.jobs.table.get_mut(&id).and_then(Job::drop_rest);
        if rest.is_some() {
            self.decided(id, true);
        }
    }

    /// Handles `UnrequestedCancelled`: cancels the unrequested tasks of a job.
    pub(crate) fn on_unrequested_cancelled(&mut self, id: JobId, fx: &mut Vec<Effect>) {
        let Some(rest) = self.jobs.table.get_mut(&id).and_then(Job::drop_rest) else {
            return;
        };
        self.cancel(id, Some(&rest), CancelReason::Unrequested, fx);
        self.decided(id, true);
    }

    /// Notes that the user of this job went on with its next task, or dropped the rest.
    fn decided(&mut self, id: JobId, dropped: bool) {
        if let Some(user) = self.jobs.user(id) {
            self.on_rest_decided(&user, Some(dropped));
        }
    }

    /// Handles `RestDecided`: a user requested a task of a settled job, or dropped its rest.
    pub(crate) fn on_rest_decided(&mut self, user: &str, dropped: Option<bool>) {
        let speculator = self.jobs.speculators.entry(user.to_owned()).or_default();
        speculator.unasked = 0;
        if let Some(dropped) = dropped {
            speculator.decide(dropped);
        }
        self.expect_of(user, usize::MAX);
    }

    /// Updates the order of the users' jobs after jobs of theirs were settled in this step.
    pub(crate) fn expect_anew(&mut self, fx: &[Effect]) {
        if self.jobs.speculating.is_empty() {
            return;
        }

        let settled = fx.iter().filter_map(|effect| match effect {
            Effect::JobSettled { job, .. } => {
                Some(*job).filter(|job| self.jobs.speculating.contains(job))
            }
            _ => None,
        });
        let users: BTreeSet<String> = settled.filter_map(|job| self.jobs.user(job)).collect();
        users
            .iter()
            .for_each(|user| self.expect_of(user, MOST_BEFORE as usize + 1));
    }

    /// Updates the first `first` jobs of the user: the probability that he goes on, and the number
    /// of tasks expected before each job's (`Job::expect`).
    fn expect_of(&mut self, user: &str, first: usize) {
        let table = &mut self.jobs.table;
        let speculators = &mut self.jobs.speculators;
        let Some(speculator) = speculators.get_mut(user) else {
            return;
        };
        let over: Vec<JobId> = speculator
            .jobs
            .iter()
            .take(first)
            .filter(|id| !open(table, **id))
            .copied()
            .collect();
        for id in over {
            speculator.jobs.remove(&id);
            let unasked = table.get(&id).map_or(0, Job::unasked);
            speculator.unasked = speculator.unasked.saturating_add(unasked);
        }

        let goes_on = speculator.goes_on();
        for (before, id) in (speculator.unasked..).zip(speculator.jobs.iter().take(first)) {
            if let Some(job) = table.get_mut(id)
                && job.expect(goes_on, before.min(MOST_BEFORE))
            {
                self.hosts.index.standing.touch(*id);
                self.jobs.lines.sync(job);
            }
        }
    }

    /// Registers a new job with its user's `Speculator`, if it tells requested from disclosed
    /// tasks.
    pub(crate) fn meet(&mut self, id: JobId, job: &mut Job) {
        if job.speculation.is_none() {
            return;
        }

        self.jobs.speculating.insert(id);
        let user = job.stack.terms.estimator.user.clone();
        let speculator = self.jobs.speculators.entry(user).or_default();
        let ahead = speculator.jobs.len() as u32;
        let before = speculator.unasked.saturating_add(ahead);
        job.expect(speculator.goes_on(), before.min(MOST_BEFORE));
        speculator.jobs.insert(id);
        job.hold_back(speculator.full);
    }

    /// Registers a job again after tasks of it were reopened. Meanwhile it may have missed that the
    /// user's share is full, or has room again.
    pub(crate) fn meet_again(&mut self, id: JobId) {
        let speculates = self.jobs.table.get(&id).is_some_and(Job::speculates);
        let Some(user) = self.jobs.user(id).filter(|_| speculates) else {
            return;
        };
        if let Some(speculator) = self.jobs.speculators.get_mut(&user)
            && let Some(job) = self.jobs.table.get_mut(&id)
        {
            speculator.jobs.insert(id);
            job.hold_back(speculator.full);
            self.jobs.lines.sync(job);
        }
        self.expect_of(&user, MOST_BEFORE as usize + 1);
    }

    /// Handles `ShareFull`: the user's share of stored output is full, or has room again.
    pub(crate) fn on_share_full(&mut self, user: String, full: bool) {
        let speculator = self.jobs.speculators.entry(user).or_default();
        speculator.full = full;
        for id in &speculator.jobs {
            if let Some(job) = self.jobs.table.get_mut(id) {
                job.hold_back(full);
                self.jobs.lines.sync(job);
            }
        }
    }

    /// Removes a job that is forgotten; the user's record stays.
    pub(crate) fn part_from(&mut self, id: JobId) {
        self.jobs.speculating.remove(&id);
        let Some(user) = self.jobs.user(id) else {
            return;
        };
        self.expect_of(&user, MOST_BEFORE as usize + 1);
        if let Some(speculator) = self.jobs.speculators.get_mut(&user) {
            speculator.jobs.remove(&id);
        }
    }
}

/// Whether unexecuted tasks of the job may still be needed.
fn open(table: &BTreeMap<JobId, Job>, id: JobId) -> bool {
    let job = table.get(&id);
    job.is_some_and(|job| job.speculates() && !job.settled())
}

impl Jobs {
    /// Returns the name of the job's user.
    fn user(&self, id: JobId) -> Option<String> {
        Some(self.table.get(&id)?.stack.terms.estimator.user.clone())
    }
}
