//! Idle windows of known law (Gainaru et al., section 4.3): a host gets the task of a job with a
//! promise that is expected to make the most of its window, though the task's limit may be longer
//! than that. The calendar says when and where the job's next task starts; windows are recorded by
//! the caller.

use common::{HostId, JobId, Span, Time};

use crate::policy::admission::Reckoning;
use crate::prediction::reservation::{LearnedLaw, Outlook, RunTimes, Window, Windows};
use crate::state::blame::LOOKED_AT;
use crate::state::host::{Host, Hosts};
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// The most starts considered at a time, and the most tasks for each: each costs some thousand
/// steps.
const MOST_STARTS: usize = 64;
const MOST_TASKS: usize = 16;

/// A task that starts now, with its host.
pub(crate) type Start = (JobId, u32, HostId);

impl Scheduler {
    /// Notes the law of the host's idle windows.
    pub(crate) fn on_host_windows(&mut self, id: HostId, windows: Windows) {
        self.hosts.entry(id, self.now).windows = Some(Box::new(windows));
    }

    /// Exchanges tasks between these starts, of the same jobs on the same hosts: under policies
    /// that look at windows, each host gets the waiting task that should make the most of its
    /// window.
    pub(crate) fn fill_windows(&self, mut starts: Vec<Start>) -> Vec<Start> {
        for at in 0..starts.len().min(MOST_STARTS) {
            let (id, index, host) = starts[at];
            let job = self.jobs.table.get(&id);
            let job = job.filter(|job| job.looks_at_windows());
            let host = self.hosts.table.get(&host);
            let host = host.and_then(|host| Some((host, host.absence(self.now)?)));
            let Some((job, (host, absence))) = job.zip(host) else {
                continue;
            };
            let starts_task = |start: &Start, task: u32| (start.0, start.1) == (id, task);
            let fixed = |task: &u32| starts[..at].iter().any(|start| starts_task(start, *task));
            // Whoever gives a task away gets this one, on the other host.
            let swaps = |task: &u32| {
                let mut with = starts.iter().filter(|start| starts_task(start, *task));
                with.all(|(.., there)| !job.shuns(index, *there, &self.hosts))
            };
            let free = |task: &u32| {
                *task != index
                    && !fixed(task)
                    && !job.shuns(*task, host.id, &self.hosts)
                    && swaps(task)
            };
            let mut waiting = vec![index];
            waiting.extend(job.alternatives(free));
            let Some(better) = job.best(&waiting, &absence, host.speed.factor()) else {
                continue;
            };
            let with = starts.iter().position(|start| starts_task(start, better));
            if let Some(other) = with {
                starts[other].1 = index;
            }
            starts[at].1 = better;
        }

        starts
    }
}

impl Job {
    /// Whether its policy looks at idle windows.
    pub(crate) fn looks_at_windows(&self) -> bool {
        let reckoning = self.policy.admission.reckoning();
        self.policy.placement.fills_windows()
            || reckoning.is_some_and(|Reckoning { windows, .. }| windows)
    }

    /// Returns the waiting task that should make the most of a host's window, if enough is known;
    /// among equals the next one. Tasks that are kept from the host do not count.
    pub(crate) fn makes_the_most_of(&self, host: &Host, hosts: &Hosts, now: Time) -> Option<u32> {
        let waiting: Vec<u32> = self.alternatives_on(host.id, hosts).collect();
        self.best(&waiting, &host.absence(now)?, host.speed.factor())
    }

    /// Returns some of the waiting tasks that may go to this host.
    pub(crate) fn alternatives_on(&self, host: HostId, hosts: &Hosts) -> impl Iterator<Item = u32> {
        self.alternatives(move |task| !self.shuns(*task, host, hosts))
    }

    /// Returns some of the waiting tasks that pass `free`: those that had attempts, and the next
    /// one that had none.
    fn alternatives(&self, free: impl Fn(&u32) -> bool) -> impl Iterator<Item = u32> {
        let fresh = self.stack.sorted(&self.fresh).find(|task| free(task));
        // Whether a task is kept from a host takes a look at all hosts, so few are asked.
        let tried = self.requeued.iter().take(LOOKED_AT).filter(free);
        let tried = tried.take(MOST_TASKS);
        tried.chain(fresh)
    }

    /// Returns the task that is expected to make the most of a window; among equals the first.
    fn best(&self, tasks: &[u32], absence: &Absence, speed: f64) -> Option<u32> {
        let law: &LearnedLaw = self.lessons.law()?;
        let window = Window::new(
            &|work_s| absence.lasts(work_s / speed),
            law.support().1,
            law,
        );
        let gain = |task: &u32| (window.gain(self.killed_s(*task), 1.0), *task);
        let gains = tasks.iter().map(gain);
        let best = gains.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, task)| task)
    }
}

/// The law of the time for which a host's owner stays away from now on.
struct Absence {
    outlook: Option<Outlook>,
    /// The time for which the host is lent.
    left: Option<Span>,
}

impl Absence {
    /// Returns the probability that the owner stays away for `more_s` seconds.
    fn lasts(&self, more_s: f64) -> f64 {
        match (&self.outlook, self.left) {
            (_, Some(left)) if more_s > left.secs() => 0.0,
            (outlook, _) => outlook.as_ref().map_or(1.0, |outlook| outlook.open(more_s)),
        }
    }
}

impl Host {
    /// Returns the law of its owner's absence, where known.
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
