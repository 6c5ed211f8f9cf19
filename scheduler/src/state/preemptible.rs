//! The running attempts that may be preempted, those of disclosed tasks, in preemption order.
//! Updated attempt by attempt, so that no decision searches all of them. The preemption itself
//! lives in `crate::disclosed::preemption`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, TaskId, Time};

use crate::policy::ordering::Batchactive;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// An attempt of a job. The last one goes first: the one begun last, and among equals the one with
/// the highest index. An attempt with a checkpoint loses nothing, and counts as begun at
/// [`NOTHING_LOST`].
type PreemptibleKey = (Time, u32, AttemptId, HostId);
/// The preemption order of jobs, by the first attempt of each: its begin, its needlessness, its
/// place and its index.
type PreemptionOrder = (Time, u64, u64, u32, Reverse<AttemptId>);
/// The same where both jobs keep their state: the lowest priority first.
type Claimed = (Reverse<i32>, u64, u64, u32, Reverse<AttemptId>);

/// An attempt that may be preempted.
#[derive(Debug, Clone, Copy)]
struct PreemptibleAttempt {
    began: Time,
    host: HostId,
    /// Whether its host takes work, so that another attempt could get its slot.
    open: bool,
}

/// The attempts that may be preempted, by job and in `PreemptionOrder`.
#[derive(Debug, Default)]
pub(crate) struct PreemptibleAttempts {
    places: BTreeMap<AttemptId, PreemptibleAttempt>,
    jobs: BTreeMap<JobId, BTreeSet<PreemptibleKey>>,
    /// Jobs whose first attempt may have changed.
    stale: BTreeSet<JobId>,
    first: BTreeMap<JobId, (PreemptionOrder, Option<(Batchactive, Claimed)>)>,
    best: BTreeSet<(PreemptionOrder, JobId)>,
    kept: BTreeMap<Batchactive, BTreeSet<(Claimed, JobId)>>,
}

/// After all times: the begin of an attempt whose preemption loses no work.
pub(crate) const NOTHING_LOST: Time = Time(u64::MAX);

impl PreemptibleAttempts {
    /// Adds an attempt that began at this time, on a host that takes work.
    pub(crate) fn insert(&mut self, attempt: AttemptId, host: HostId, began: Time) {
        self.remove(attempt);
        self.places.insert(
            attempt,
            PreemptibleAttempt {
                began,
                host,
                open: true,
            },
        );
        self.put(attempt, true);
    }

    /// Removes an attempt: it has ended, is frozen, or its task was requested.
    pub(crate) fn remove(&mut self, attempt: AttemptId) {
        self.put(attempt, false);
        self.places.remove(&attempt);
    }

    /// Updates the begin of an attempt after its host reported its run time.
    pub(crate) fn note(&mut self, attempt: AttemptId, began: Time) {
        let Some(place) = self.places.get(&attempt).copied() else {
            return;
        };
        if place.began != NOTHING_LOST && place.began != began {
            self.put(attempt, false);
            self.places
                .insert(attempt, PreemptibleAttempt { began, ..place });
            self.put(attempt, place.open);
        }
    }

    /// Notes that an attempt's host takes work from now on, or no more.
    pub(crate) fn open(&mut self, attempt: AttemptId, open: bool) {
        if let Some(place) = self.places.get_mut(&attempt)
            && place.open != open
        {
            place.open = open;
            self.put(attempt, open);
        }
    }

    fn put(&mut self, attempt: AttemptId, there: bool) {
        let Some(PreemptibleAttempt { began, host, .. }) = self.places.get(&attempt) else {
            return;
        };
        let id = attempt.task.job;
        let entry = (*began, attempt.task.index, attempt, *host);
        let job = self.jobs.entry(id).or_default();

        if there {
            job.insert(entry);
        } else {
            job.remove(&entry);
        }

        if job.is_empty() {
            self.jobs.remove(&id);
        }

        self.stale.insert(id);
    }

    /// Removes the attempts of these tasks of a job after a `TasksRequested`.
    pub(crate) fn on_requested(&mut self, id: JobId, job: &Job, tasks: &IdSet) {
        self.touch(id);
        let standing = self.jobs.get(&id).map_or(0, BTreeSet::len);
        let needed: Vec<AttemptId> = if tasks.len() < standing as u64 {
            let records = tasks.iter().filter_map(|index| job.records.get(&index));
            records
                .flat_map(|record| record.live.iter().map(|copy| copy.attempt))
                .collect()
        } else {
            let first = AttemptId {
                task: TaskId::new(id, 0),
                number: 0,
                incarnation: Incarnation(0),
            };
            let own = self.places.range(first..).map(|(attempt, _)| *attempt);
            let own = own.take_while(|attempt| attempt.task.job == id);
            own.filter(|attempt| tasks.contains(attempt.task.index))
                .collect()
        };

        needed.into_iter().for_each(|attempt| self.remove(attempt));
    }

    /// Notes that the order of the job's disclosed tasks may have changed.
    pub(crate) fn touch(&mut self, job: JobId) {
        if self.jobs.contains_key(&job) {
            self.stale.insert(job);
        }
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.jobs
            .values()
            .flatten()
            .map(|(_, _, attempt, _)| *attempt)
    }

    /// Returns the first attempt of each job, by `PreemptionOrder`.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.best
            .iter()
            .rev()
            .map(|((.., Reverse(attempt)), _)| *attempt)
    }

    /// Returns the first attempt of each job with checkpoints under this policy, in the order in
    /// which they are preempted for another such job.
    pub(crate) fn least_needed(&self, answer: Batchactive) -> impl Iterator<Item = AttemptId> + '_ {
        let kept = self
            .kept
            .get(&answer)
            .into_iter()
            .flat_map(|kept| kept.iter().rev());
        kept.map(|((.., Reverse(attempt)), _)| *attempt)
    }

    /// Returns the host of an attempt that is listed here.
    pub(crate) fn host(&self, attempt: AttemptId) -> Option<HostId> {
        self.places.get(&attempt).map(|place| place.host)
    }

    /// Returns the number of attempts listed here.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no attempt is listed here.
    pub(crate) fn is_bare(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the attempt of a job that goes first, if tasks before the index `next` were passed
    /// over.
    fn first_of(&self, job: JobId, next: u32) -> Option<PreemptibleKey> {
        let all = self.jobs.get(&job)?;
        let last = *all.last()?;
        let none = AttemptId {
            task: TaskId::new(JobId(0), 0),
            number: 0,
            incarnation: Incarnation(0),
        };
        let before = (last.0, 0, none, HostId(0))..(last.0, next, none, HostId(0));
        Some(all.range(before).next_back().copied().unwrap_or(last))
    }

    fn rank(&mut self, id: JobId, job: Option<&Job>) {
        if let Some((order, kept)) = self.first.remove(&id) {
            self.best.remove(&(order, id));
            if let Some((answer, claimed)) = kept
                && let Some(set) = self.kept.get_mut(&answer)
            {
                set.remove(&(claimed, id));
            }
        }

        let Some(speculation) = job.and_then(|job| job.speculation.as_deref()) else {
            return;
        };
        let Some((began, index, attempt, _)) = self.first_of(id, speculation.expected()) else {
            return;
        };
        let turn = speculation.turn(index, Span::ZERO);
        let order = (began, turn.key, turn.place, index, Reverse(attempt));
        let claimed = job.filter(|job| job.rules.checkpoint).map(|job| {
            let priority = Reverse(job.rules.priority);
            let claimed = (priority, turn.key, turn.place, index, Reverse(attempt));
            (speculation.answer(), claimed)
        });

        self.best.insert((order, id));
        if let Some((answer, claimed)) = claimed {
            self.kept.entry(answer).or_default().insert((claimed, id));
        }

        self.first.insert(id, (order, claimed));
    }
}

impl Scheduler {
    /// Updates the preemption order of the jobs in `stale`.
    pub(crate) fn rank_standing(&mut self) {
        let standing = &mut self.hosts.index.standing;
        while let Some(id) = standing.stale.pop_first() {
            standing.rank(id, self.jobs.table.get(&id));
        }
    }
}
