//! Why a host computes no more than it does.

use common::JobId;
use common::view::{HostExplainView, HostJobView};

use super::Core;
use super::hosts::REVOKED;

/// The most jobs that a host is explained for: each is looked at on all hosts.
const EXPLAINED: usize = 20;

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

        let revoked = self.is_revoked(id);
        let explained = jobs.into_iter().take(EXPLAINED).filter_map(|job| {
            let why = match revoked {
                true => REVOKED.to_owned(),
                false => self.scheduler.explain_host_at(id, job, self.now)?,
            };
            let waiting = waiting(job);
            Some(HostJobView { job, waiting, why })
        });
        Ok(Box::new(HostExplainView {
            jobs: explained.collect(),
            host,
            more,
        }))
    }
}
