//! Jobs whose needs no known host meets: they stand in no queue, so that they cost the other jobs'
//! starts nothing, until a host comes that meets them.

use common::{HostId, JobId};

use crate::state::scheduler::Scheduler;

impl Scheduler {
    /// Takes a job out of its queue if no host could ever run its tasks. Returns whether it did.
    pub(crate) fn park(&mut self, id: JobId) -> bool {
        let known = self.hosts.index.offered;
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return false;
        };
        let bound = job.gang.is_some() || job.promise.is_some() || job.speculation.is_some();
        if bound || job.rules.needs.is_plain() || job.looked == known {
            return false;
        }

        job.looked = known;
        let needs = &job.rules.needs;
        if self.hosts.table.values().any(|host| host.suits(needs)) {
            return false;
        }

        job.parked = true;
        self.jobs.lines.sync(job);
        self.jobs.parked.insert(id);
        true
    }

    /// Puts parked jobs back into their queue where a host that came, or offers something else than
    /// before, meets their needs.
    pub(crate) fn unpark(&mut self) {
        let changed = std::mem::take(&mut self.hosts.index.changed);
        if changed.is_empty() || self.jobs.parked.is_empty() {
            return;
        }

        let jobs = &mut self.jobs;
        let hosts = &self.hosts;
        jobs.parked.retain(|id| {
            let Some(job) = jobs.table.get_mut(id) else {
                return false;
            };
            let meets = |host: &HostId| hosts.offer(*host, &job.rules.needs);
            if !changed.iter().any(meets) {
                return true;
            }
            job.parked = false;
            jobs.lines.sync(job);
            false
        });
    }
}
