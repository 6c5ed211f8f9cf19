//! Why a host computes no more than it does.

use common::JobId;
use common::view::{HostExplainView, HostJobView};

use super::Core;
use super::hosts::REVOKED;

/// The most jobs that a host is explained for: each look at one may be a pass over all hosts and all jobs ahead of it.
const EXPLAINED: usize = 5;

impl Core {
    /// Explains why a host takes no more tasks of the unfinished jobs of all users, or of one. The error is the name
    /// where no host has it.
    pub(super) fn explain_host(
        &self,
        name: String,
        user: Option<&str>,
    ) -> Result<Box<HostExplainView>, String> {
        let found = self.find_host(&name).filter(|id| !self.is_forgotten(*id));
        let Some((id, host)) = found.and_then(|id| Some((id, self.host_view_for(id, user)?)))
        else {
            return Err(name);
        };

        let waiting = |job: JobId| {
            let counts = self.scheduler.job_counts(job);
            counts.map_or(0, |counts| counts.waiting)
        };
        let of_user = |job: &JobId| user.is_none_or(|user| self.is_of(*job, user));
        let mut jobs: Vec<JobId> = self.jobs.keys().copied().filter(of_user).collect();
        jobs.sort_by_cached_key(|job| waiting(*job) == 0);
        let more = jobs.len().saturating_sub(EXPLAINED) as u64;

        let not_there = || {
            let why = host.reason.clone();
            why.unwrap_or_else(|| "its worker has not connected yet".to_owned())
        };
        let revoked = self.is_revoked(id);
        let explained = jobs.into_iter().take(EXPLAINED).map(|job| {
            let why = match revoked {
                true => Some(REVOKED.to_owned()),
                false => self.scheduler.explain_host_at(id, job, self.now),
            };
            let why = why.unwrap_or_else(not_there);
            let waiting = waiting(job);
            HostJobView { job, waiting, why }
        });
        let jobs = explained.collect();
        Ok(Box::new(HostExplainView { host, jobs, more }))
    }
}
