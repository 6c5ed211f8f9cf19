//! The room that hosts have in the model: what attempts take of the processors, memory and graphics
//! processors that a host lends.

use super::*;

impl Model {
    /// Whether a job that needs more than slots has waiting tasks: room may be saved for it.
    pub(super) fn saves(&self) -> bool {
        self.saves_beside(JobId(0))
    }

    /// Whether there is one beside this job.
    pub(super) fn saves_beside(&self, other: JobId) -> bool {
        self.jobs
            .iter()
            .filter(|(id, _)| **id != other)
            .any(|(id, job)| {
                let waits = |index: &u32| {
                    let state = self.task_state(*id, job, *index);
                    matches!(state, TaskState::Waiting | TaskState::Disclosed)
                };
                !job.rules.needs.takes.is_plain() && job.all.iter().any(waits)
            })
    }

    pub(super) fn takes_of(&self, attempt: AttemptId) -> Demand {
        let job = self.jobs.get(&attempt.task.job);
        job.map_or(Demand::PLAIN, |job| job.rules.needs.takes)
    }

    pub(super) fn holds_odd(&self, host: HostId) -> bool {
        let live = self.live_on(host);
        live.iter()
            .any(|attempt| !self.takes_of(*attempt).is_plain())
    }

    /// The processors, memory and graphics processors that the live attempts of a host take; frozen
    /// ones take no processors.
    pub(super) fn taken(&self, host: HostId) -> (u64, u64, u64) {
        let live = self.live_on(host);
        let add = |(cores, memory, gpus): (u64, u64, u64), attempt: &AttemptId| {
            let takes = self.takes_of(*attempt);
            let frozen = self.attempts[attempt].frozen;
            let there = if frozen { 0 } else { u64::from(takes.cores) };
            (
                cores + there,
                memory + u64::from(takes.memory_mib),
                gpus + u64::from(takes.gpus),
            )
        };
        live.iter().fold((0, 0, 0), add)
    }

    /// Checks that the host suits an attempt that is about to be given to it, and has room for it.
    pub(super) fn check_room(&self, host: HostId, attempt: AttemptId) {
        let offers = self.offers.get(&host).cloned().unwrap_or_default();
        let needs = &self.jobs[&attempt.task.job].rules.needs;
        assert_eq!(
            needs.missing(&offers),
            None,
            "{attempt} is given to {host}, which does not do"
        );

        let takes = needs.takes;
        let (cores, memory, gpus) = self.taken(host);
        let over = |taken: u64, more: u32, most: u32| {
            more > 0 && taken + u64::from(more) > u64::from(most)
        };
        let Capacity {
            cores: most,
            memory_mib,
            gpus: all,
        } = offers.capacity;
        assert!(
            !(over(memory, takes.memory_mib, memory_mib) || over(gpus, takes.gpus, all)),
            "room: {attempt} takes {takes:?} of {host}, where {memory} MiB and {gpus} GPUs are taken"
        );

        // Plain tasks of a host without others may wait there for their slots.
        let most = most.max(self.hosts[&host].slots as u32);
        let counts = !takes.is_plain() || self.holds_odd(host);
        assert!(
            !(counts && over(cores, takes.cores, most)),
            "room: {attempt} takes {takes:?} of {host}, where {cores} of {most} processors are taken"
        );
    }

    /// Whether the host has room for a task of the job beside what it holds.
    pub(super) fn has_room(&self, host: HostId, job: &ModelJob) -> bool {
        let takes = job.rules.needs.takes;
        if takes.is_plain() && !self.holds_odd(host) {
            return true;
        }
        // What was told to stop has its room until the host reports without it.
        let books = self.on_books(host);
        let stopping: Vec<_> = books
            .iter()
            .filter(|id| self.stopping.contains_key(id))
            .collect();
        let (cores, memory, gpus) = self.taken(host);
        let there = &self.hosts[&host];
        let offers = self.offers.get(&host).cloned().unwrap_or_default();
        let all = u64::from(offers.capacity.cores).max(there.slots as u64);
        let usable =
            (all * there.usable() as u64 / there.slots.max(1) as u64).max(there.usable() as u64);
        stopping.is_empty()
            && cores + u64::from(takes.cores) <= usable
            && memory + u64::from(takes.memory_mib) <= u64::from(offers.capacity.memory_mib)
            && gpus + u64::from(takes.gpus) <= u64::from(offers.capacity.gpus)
    }
}
