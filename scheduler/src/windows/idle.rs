//! Which of a promised job's tasks goes to a host of which it is known for how long it stays idle
//! (Gainaru et al., section 4.3): the one that is expected to make the most of the window, though
//! its limit may be longer than that. What is not here: when and where the job's next task starts,
//! which the calendar says, and how windows are recorded.

use common::{HostId, JobId, Span, Time};

use crate::policy::admission::Reckoning;
use crate::policy::placement::Placement;
use crate::prediction::reservation::{Learned, Outlook, RunTimes, Window, Windows};
use crate::state::host::Host;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// So many starts at a time are looked at, and for each so many tasks: each costs some thousand
/// steps.
const MOST_STARTS: usize = 64;
const MOST_TASKS: usize = 16;

/// A task that starts now, and where.
pub(crate) type Start = (JobId, u32, HostId);

impl Scheduler {
    /// How long the host's idle windows last, as was recorded.
    pub(crate) fn on_host_windows(&mut self, id: HostId, windows: Windows) {
        self.hosts.entry(id, self.now).windows = Some(Box::new(windows));
    }

    /// As many starts of the same jobs on the same hosts; of a job whose policy looks at windows,
    /// each host has the waiting task that should make the most of its window.
    pub(crate) fn fill_windows(&self, mut starts: Vec<Start>) -> Vec<Start> {
        for at in 0..starts.len().min(MOST_STARTS) {
            let (id, index, host) = starts[at];
            let job = self
                .jobs
                .table
                .get(&id)
                .filter(|job| job.looks_at_windows());
            let known = job.zip(
                self.hosts
                    .table
                    .get(&host)
                    .and_then(|host| Some((host, host.absence(self.now)?))),
            );
            let Some((job, (host, absence))) = known else {
                continue;
            };
            let fixed = |task: &u32| {
                starts[..at]
                    .iter()
                    .any(|(of, other, _)| (of, other) == (&id, task))
            };
            let free = |task: &u32| *task != index && !fixed(task);
            let waiting: Vec<u32> = std::iter::once(index)
                .chain(job.alternatives(&free))
                .collect();
            let Some(better) = job.best(&waiting, &absence, host.speed.factor()) else {
                continue;
            };
            if let Some(other) = starts
                .iter()
                .position(|(of, task, _)| (*of, *task) == (id, better))
            {
                starts[other].1 = index;
            }
            starts[at].1 = better;
        }

        starts
    }
}

impl Job {
    /// Whether its policy looks at how long hosts stay idle.
    pub(crate) fn looks_at_windows(&self) -> bool {
        let reckoning = self.policy.admission.reckoning();
        self.policy.placement == Placement::Windows
            || reckoning.is_some_and(|Reckoning { windows, .. }| windows)
    }

    /// The waiting task that should make the most of a host, if enough is known; of equals the next
    /// one.
    pub(crate) fn makes_the_most_of(&self, host: &Host, now: Time) -> Option<u32> {
        let waiting: Vec<u32> = self.alternatives(&|_: &u32| true).collect();
        self.best(&waiting, &host.absence(now)?, host.speed.factor())
    }

    /// Some of the waiting tasks that are free: those that had attempts, and the next one that had
    /// none.
    pub(crate) fn alternatives(&self, free: &impl Fn(&u32) -> bool) -> impl Iterator<Item = u32> {
        let tried = self
            .requeued
            .iter()
            .filter(|task| free(task))
            .take(MOST_TASKS);
        let fresh = self.stack.sorted(&self.fresh).find(|task| free(task));
        tried.chain(fresh)
    }

    /// Which of these tasks is expected to make the most of a window; of equals the first.
    fn best(&self, tasks: &[u32], absence: &Absence, speed: f64) -> Option<u32> {
        let law: &Learned = self.lessons.law()?;
        let window = Window::new(
            &|work_s| absence.lasts(work_s / speed),
            law.support().1,
            law,
        );
        let mut best: Option<(f64, u32)> = None;

        for task in tasks.iter().copied() {
            let gain = window.gain(self.killed_s(task), 1.0);
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, task));
            }
        }

        best.map(|(_, task)| task)
    }
}

/// What is known of how long a host's owner stays away from now on.
struct Absence {
    outlook: Option<Outlook>,
    /// For how long the host is lent.
    left: Option<Span>,
}

impl Absence {
    /// The probability that the owner is away for so long, in seconds.
    fn lasts(&self, more_s: f64) -> f64 {
        match (&self.outlook, self.left) {
            (_, Some(left)) if more_s > left.secs() => 0.0,
            (outlook, _) => outlook.as_ref().map_or(1.0, |outlook| outlook.open(more_s)),
        }
    }
}

impl Host {
    /// How long its owner should stay away, where that is known.
    fn absence(&self, now: Time) -> Option<Absence> {
        let age_s = now.since(self.owner_since.max(self.up_since)).secs();
        let outlook = self
            .windows
            .as_ref()
            .map(|windows| windows.outlook(now.secs(), age_s));
        let left = self.lent_until(now).map(|until| until.since(now));
        (outlook.is_some() || left.is_some()).then_some(Absence { outlook, left })
    }
}
