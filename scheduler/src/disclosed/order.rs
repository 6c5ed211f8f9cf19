//! Which task of a job is next where requested tasks go before those that are only disclosed
//! (Petrou et al. 2004). What is not here: who makes room for whom (`crate::disclosed::preemption`).

use crate::state::speculation::Speculator;
use std::collections::{BTreeMap, BTreeSet};

use common::{IdSet, JobId};

use crate::protocol::effect::{CancelReason, Effect};
use crate::state::job::{Job, Jobs};
use crate::state::scheduler::Scheduler;

/// A user's jobs beyond so many are all needed as little as the last of these.
const MOST_BEFORE: u32 = 64;

impl Scheduler {
    /// Somebody waits for tasks of a job. Going on with one more is a decision of its user's.
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
                self.jobs
                    .speculators
                    .entry(user.clone())
                    .or_default()
                    .unasked = 0;
                self.expect_of(&user, MOST_BEFORE as usize + 1);
            }
            None => {}
        }
    }

    /// A job is dropped, and so is what nobody has requested of it.
    pub(crate) fn on_rest_cancelled(&mut self, id: JobId) {
        if self
            .jobs
            .table
            .get_mut(&id)
            .and_then(Job::drop_rest)
            .is_some()
        {
            self.decided(id, true);
        }
    }

    /// What nobody has requested of a job is dropped.
    pub(crate) fn on_unrequested_cancelled(&mut self, id: JobId, fx: &mut Vec<Effect>) {
        let Some(rest) = self.jobs.table.get_mut(&id).and_then(Job::drop_rest) else {
            return;
        };
        self.cancel(id, Some(&rest), CancelReason::Unrequested, fx);
        self.decided(id, true);
    }

    /// The user of this job went on with its next task, or dropped the rest.
    fn decided(&mut self, id: JobId, dropped: bool) {
        if let Some(user) = self.jobs.user(id) {
            self.on_rest_decided(&user, Some(dropped));
        }
    }

    /// A user asked for a task of a job that is over, or dropped the rest of it.
    pub(crate) fn on_rest_decided(&mut self, user: &str, dropped: Option<bool>) {
        let speculator = self.jobs.speculators.entry(user.to_owned()).or_default();
        speculator.unasked = 0;
        dropped
            .into_iter()
            .for_each(|dropped| speculator.decide(dropped));
        self.expect_of(user, usize::MAX);
    }

    /// Whose jobs were settled in this step has others of them moved up.
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

    /// How likely the user goes on, and in which order the first of its jobs are expected, changed.
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
            speculator.unasked = speculator
                .unasked
                .saturating_add(table.get(&id).map_or(0, Job::unasked));
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

    /// A job came whose requested tasks are told from disclosed ones.
    pub(crate) fn meet(&mut self, id: JobId, job: &mut Job) {
        if job.speculation.is_none() {
            return;
        }

        self.jobs.speculating.insert(id);
        let user = &job.stack.terms.estimator.user;
        if !self.jobs.speculators.contains_key(user) {
            self.jobs
                .speculators
                .insert(user.clone(), Speculator::default());
        }

        if let Some(speculator) = self.jobs.speculators.get_mut(user) {
            let before = speculator
                .unasked
                .saturating_add(speculator.jobs.len() as u32);
            job.expect(speculator.goes_on(), before.min(MOST_BEFORE));
            speculator.jobs.insert(id);
            job.hold_back(speculator.full);
        }
    }

    /// Tasks of a job may be needed again.
    pub(crate) fn meet_again(&mut self, id: JobId) {
        let speculates = self.jobs.table.get(&id).is_some_and(Job::speculates);
        let Some(user) = self.jobs.user(id).filter(|_| speculates) else {
            return;
        };
        if let Some(speculator) = self.jobs.speculators.get_mut(&user) {
            speculator.jobs.insert(id);
        }
        self.expect_of(&user, MOST_BEFORE as usize + 1);
    }

    /// There is no room for what more of a user's disclosed tasks would leave, or there is again.
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

    /// The job is forgotten; what was learned of its user is not.
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

/// Whether something of the job may still be needed and is not executed.
fn open(table: &BTreeMap<JobId, Job>, id: JobId) -> bool {
    table
        .get(&id)
        .is_some_and(|job| job.speculates() && !job.settled())
}

impl Jobs {
    /// Whose job it is.
    fn user(&self, id: JobId) -> Option<String> {
        Some(self.table.get(&id)?.stack.terms.estimator.user.clone())
    }
}
