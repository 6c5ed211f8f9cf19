//! Attempts that are given back since memory is short. Where it is known what one held, the tasks of
//! its job count as that much from then on, so that no host gets more of them than it lends memory for. Where
//! it is not known, or the demand of the job cannot change, the returns of each task are counted, and
//! bounded by the losses that the job allows.

use common::{AttemptId, HostId, JobId, Span};

use crate::state::host::Host;
use crate::state::memory::HostsLook;
use crate::state::scheduler::Scheduler;

/// The time between two looks at all hosts for a job that some host suits, however they come and go.
const LOOK_EVERY: Span = Span::from_secs(10);

/// Returns the memory that a host lends to one task, in MiB.
fn lent_mib(host: &Host) -> u32 {
    host.offers
        .capacity
        .memory_mib
        .min(host.offers.task_memory_mib)
}

impl Scheduler {
    /// Notes what an attempt held that its host gives back next.
    pub(crate) fn on_attempt_weighed(
        &mut self,
        id: HostId,
        attempt: AttemptId,
        bytes: Option<u64>,
    ) {
        let Some(host) = self.hosts.table.get(&id) else {
            return;
        };
        let load = host.books.get(&attempt);
        if load.is_none_or(|load| load.stopping) {
            return;
        }
        let Some(job) = self.jobs.table.get_mut(&attempt.task.job) else {
            return;
        };

        match bytes.filter(|_| job.learns_memory()) {
            Some(bytes) => {
                // What holds more than is lent is not given back: it fails.
                let lent = u64::from(host.offers.capacity.memory_mib) << 20;
                if job.note_held(bytes.min(lent)) {
                    self.jobs.held.insert(attempt.task.job);
                    self.count_memory(attempt.task.job);
                }
            }
            None => {
                if let Some(record) = job.records.at_mut(&attempt.task.index) {
                    record.crowded_out = record.crowded_out.saturating_add(1);
                }
            }
        }
    }

    /// Notes that a task succeeded on a host: what that one lends is enough for the others, too.
    pub(crate) fn note_enough(&mut self, id: HostId, of: JobId) {
        let host = self.hosts.table.get(&id);
        let job = self.jobs.table.get_mut(&of);
        let (Some(host), Some(job)) = (host, job) else {
            return;
        };
        if job.note_enough(lent_mib(host)) && self.jobs.held.contains(&of) {
            self.count_memory(of);
        }
    }

    /// Computes anew what tasks count as that were found to hold much, where hosts came or went: a task that
    /// fits no host which takes work is tried alone on the largest one.
    pub(crate) fn count_memory_anew(&mut self) {
        if self.jobs.held.is_empty() {
            return;
        }

        let known = self.hosts_known();
        let now = self.now;
        let index = &self.hosts.index;
        let jobs = &mut self.jobs;
        let mut due = Vec::new();
        jobs.held.retain(|id| {
            let Some(job) = jobs.table.get(id) else {
                return false;
            };
            let held = job.held;
            let is_changed = held.look.known != known;
            let is_due = now >= held.look.at + LOOK_EVERY;
            let is_time = is_due || !held.look.found && is_changed;
            if job.waiting() == 0 || !is_time {
                return true;
            }

            let small = job.demand.memory_mib < held.demand_mib(u32::MAX);
            let nowhere = index.places(job.pool).usable_slots == 0 && !index.all.ready.is_empty();
            if small && is_changed || nowhere {
                due.push(*id);
            }
            true
        });

        for id in due {
            self.count_memory(id);
        }
    }

    /// Has the tasks of this job count as what its attempts held, as far as a host that takes work lends so much.
    fn count_memory(&mut self, id: JobId) {
        let known = self.hosts_known();
        let now = self.now;
        let job = self.jobs.table.get_mut(&id);
        let Some(job) = job.filter(|job| job.learns_memory()) else {
            return;
        };
        let held = job.held;
        let asked = held.asked(&job.rules.needs);
        let before = job.demand.memory_mib;
        let barred = job.barred();
        let suits =
            |host: &&Host| host.takes_work() && host.suits(&asked) && !barred.contains(&host.id);
        let most = self.hosts.table.values().filter(suits).map(lent_mib).max();
        let demand = most.map_or(before, |most| held.demand_mib(most));
        job.held.look = HostsLook {
            known,
            at: now,
            found: most.is_some(),
        };

        if demand != before {
            self.set_memory(id, demand);
        }
    }

    /// Returns what changes whenever the hosts that take work do, but for a few that come as others go.
    fn hosts_known(&self) -> (u64, u64) {
        let index = &self.hosts.index;
        (index.offered, index.all.usable_slots)
    }

    /// Sets the memory that each task of a job counts as, in MiB, and moves the job to the pool of that.
    fn set_memory(&mut self, id: JobId, memory_mib: u32) {
        let saved = self.jobs.table.get(&id).and_then(|job| job.saves);
        if let Some(host) = saved {
            self.release_saved_for(id, host);
        }
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };

        // It leaves its queue, which is that of its pool, and comes back to another one.
        job.parked = true;
        self.jobs.lines.sync(job);
        job.rules.needs.takes.memory_mib = memory_mib;
        job.demand = job.rules.needs.takes;

        self.hosts.index.pools.leave(job.pool);
        job.pool = self.hosts.pool(&job.rules.needs, self.now);
        job.saves = None;
        job.looked = 0;

        job.parked = false;
        self.jobs.parked.remove(&id);
        self.jobs.lines.sync(job);
    }
}
