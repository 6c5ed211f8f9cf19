//! Which of a promised job's tasks goes to a host of which it is known for how long it stays idle (Gainaru et al., section
//! 4.3): the one that is expected to make the most of the window, though its limit may be longer than that. What is not here:
//! when and where the job's next task starts, which the calendar says, and how windows are recorded.

use common::{HostId, JobId, Time};

use crate::host::Host;
use crate::job::Job;
use crate::policy::admission::Reckoning;
use crate::reservation::{Candidate, Learned, Outlook, RunTimes, Windows, gain_while};
use crate::scheduler::Scheduler;

/// So many starts at a time are looked at, and for each so many tasks: each costs some thousand steps.
const MOST_STARTS: usize = 64;
const MOST_TASKS: usize = 16;

/// A task that starts now, and where.
pub(crate) type Start = (JobId, u32, HostId);

impl Scheduler {
    /// How long the host's idle windows last, as was recorded.
    pub(crate) fn on_host_windows(&mut self, id: HostId, windows: Windows) {
        self.hosts.entry(id, self.now).windows = Some(Box::new(windows));
    }

    /// As many starts of the same jobs on the same hosts; of a job whose policy looks at windows, each host has the waiting
    /// task that should make the most of its window.
    pub(crate) fn fill_windows(&self, mut starts: Vec<Start>) -> Vec<Start> {
        for at in 0..starts.len().min(MOST_STARTS) {
            let (id, index, host) = starts[at];
            let job = self.jobs.table.get(&id).filter(|job| job.looks_at_windows());
            let known = job.zip(self.hosts.table.get(&host).and_then(|host| Some((host, host.outlook(self.now)?))));
            let Some((job, (host, outlook))) = known else { continue };
            let fixed = |task: &u32| starts[..at].iter().any(|(of, other, _)| (of, other) == (&id, task));
            let waiting = job.alternatives(index, &fixed);
            let Some(better) = job.best(&waiting, &outlook, host.speed.factor()) else { continue };
            if let Some(other) = starts.iter().position(|(of, task, _)| (*of, *task) == (id, better)) {
                starts[other].1 = index;
            }
            starts[at].1 = better;
        }
        starts
    }
}

impl Job {
    /// Whether its policy looks at how long hosts stay idle.
    fn looks_at_windows(&self) -> bool {
        self.policy.admission.reckoning().is_some_and(|Reckoning { windows, .. }| windows)
    }

    /// This waiting task, and some of the others: those that had attempts, and the next one that had none.
    fn alternatives(&self, index: u32, fixed: &impl Fn(&u32) -> bool) -> Vec<u32> {
        let free = |task: &u32| *task != index && !fixed(task);
        let tried = self.requeued.iter().filter(free).take(MOST_TASKS);
        let fresh = self.stack.sorted(&self.fresh).find(free);
        std::iter::once(index).chain(tried).chain(fresh).collect()
    }

    /// Which of these tasks is expected to make the most of a window; of equals the first.
    fn best(&self, tasks: &[u32], outlook: &Outlook, speed: f64) -> Option<u32> {
        let law: &Learned = self.lessons.law()?;
        let open = |work_s: f64| outlook.open(work_s / speed);
        let horizon = law.support().1;
        let mut best: Option<(f64, u32)> = None;
        for task in tasks.iter().copied() {
            let candidate = Candidate { law, failed: self.killed_s(task), processors: 1.0 };
            let gain = gain_while(&open, horizon, 1.0, &candidate);
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, task));
            }
        }
        best.map(|(_, task)| task)
    }
}

impl Host {
    /// What may become of its present idle window, where that is known.
    fn outlook(&self, now: Time) -> Option<Outlook> {
        let age_s = now.since(self.owner_since.max(self.up_since)).secs();
        Some(self.windows.as_ref()?.outlook(now.secs(), age_s))
    }
}
