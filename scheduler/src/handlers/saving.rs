//! Room saved up for tasks that need more of a host than one slot: without it, smaller tasks would
//! take each processor as it gets free, and the larger ones would wait for ever.

use common::{HostId, JobId};

use crate::state::host::Host;
use crate::state::job::Job;
use crate::state::pool::Pool;
use crate::state::room::Room;
use crate::state::scheduler::Scheduler;

/// The most hosts whose room is saved up at a time, and the most that are compared for a task.
const MOST: usize = 16;
const COMPARED: usize = 64;

impl Scheduler {
    /// Releases all room that was saved up. The jobs that are asked next take it in their order.
    pub(crate) fn release_saved(&mut self) {
        for (host, _) in std::mem::take(&mut self.hosts.index.saved) {
            self.save(host, Room::default());
        }
    }

    /// Releases the room of this host, if it was saved up for this job.
    pub(crate) fn release_saved_for(&mut self, id: JobId, host: HostId) {
        let saved = &mut self.hosts.index.saved;
        if let Some(at) = saved.iter().position(|one| *one == (host, id)) {
            saved.remove(at);
            self.save(host, Room::default());
        }
    }

    /// Whether what the host has left is saved up for another job, so that this one cannot have it.
    pub(crate) fn is_saved_for_another(&self, host: &Host, job: &Job) -> bool {
        host.saved.bars(job.demand) && !self.hosts.index.saved.contains(&(host.id, job.rank.job))
    }

    /// Releases the room of jobs of which no task waits any more.
    pub(crate) fn release_needless(&mut self) {
        let waits = |id: &JobId| self.jobs.table.get(id).is_some_and(|job| job.waiting() > 0);
        let saved = &mut self.hosts.index.saved;
        let others = saved.extract_if(.., |(_, job)| !waits(job));
        for (host, _) in others.collect::<Vec<_>>() {
            self.save(host, Room::default());
        }
    }

    /// Saves the room of one host for the job's next task, if it needs more than any host has left.
    /// Jobs that come after it in the queue get nothing of what is lacking there; tasks that take
    /// only other things than that go on. Returns whether it saved some.
    pub(crate) fn save_for(&mut self, id: JobId) -> bool {
        let full = !self.may_save();
        let Some(job) = self.jobs.table.get(&id).filter(|_| !full) else {
            return false;
        };
        let alone = job.gang.is_none() && job.promise.is_none() && !job.rank.disclosed();
        if job.demand.is_plain() || job.waiting() == 0 || !alone {
            return false;
        }

        let host = self.to_save(job);
        let demand = job.demand;
        if let Some(host) = host {
            let there = self.hosts.table.get(&host);
            let lack = there.map_or_else(Room::default, |host| host.lack(demand));
            self.save(host, lack);
            self.hosts.index.saved.push((host, id));
        }
        if let Some(job) = self.jobs.table.get_mut(&id) {
            job.saves = host;
        }
        host.is_some()
    }

    /// Whether the room of further hosts may be saved up.
    pub(crate) fn may_save(&self) -> bool {
        self.hosts.index.saved.len() < MOST
    }

    /// Returns the host to save for the job: the one of the last time as long as it will do, or
    /// else the one with some room that lacks the least.
    fn to_save(&self, job: &Job) -> Option<HostId> {
        let scene = job.scene(self.now, &self.settings, &self.hosts);
        let will_do = |host: &&Host| {
            let speed = host.speed;
            host.lacks_only_room(job.demand)
                && scene.does(host.id)
                && (job.policy.placement)
                    .objection(&scene, &job.plan, speed)
                    .is_none()
        };
        let known = |id: HostId| self.hosts.table.get(&id);
        if let Some(host) = job.saves.and_then(known).filter(will_do) {
            return Some(host.id);
        }

        let pool = job.pool.and_then(|pool| self.hosts.index.pools.get(pool));
        // A job beyond the number of pools looks at all hosts that have a slot left.
        let others = if pool.is_none() { usize::MAX } else { 0 };
        let others = self.hosts.ready().take(others);
        let pooled = pool.into_iter().flat_map(Pool::short);
        pooled
            .filter_map(|id| known(*id))
            .chain(others)
            .filter(will_do)
            .take(COMPARED)
            .min_by_key(|host| (host.lacks(job.demand), host.id))
            .map(|host| host.id)
    }

    fn save(&mut self, id: HostId, lack: Room) {
        if let Some(host) = self.hosts.table.at_mut(&id) {
            host.saved = lack;
            self.hosts.index.update(host, self.now);
        }
    }
}
