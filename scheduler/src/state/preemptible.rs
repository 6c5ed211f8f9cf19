//! Who could make room: the running attempts of tasks that nobody waits for, in the order in which
//! they would have to. Kept up to date attempt by attempt, so that nobody has to look at all of
//! them. What is not here: for whom, and what becomes of them (`crate::disclosed::preemption`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, TaskId, Time};

use crate::policy::ordering::Batchactive;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// An attempt of a job: what was begun last comes last, and of that the one with the highest index.
/// What keeps its state has nothing to lose, and so counts as begun at the end of all times.
type Entry = (Time, u32, AttemptId, HostId);
/// What decides among jobs, by the one of each that goes first: when it was begun, how little it is
/// needed, its place and index.
type Order = (Time, u64, u64, u32, Reverse<AttemptId>);
/// The same where both keep their states: lower priority first.
type Claimed = (Reverse<i32>, u64, u64, u32, Reverse<AttemptId>);

/// What is known of an attempt that is counted here.
#[derive(Debug, Clone, Copy)]
struct Place {
    began: Time,
    host: HostId,
    /// Whether its host takes work, so that somebody else could have its slot.
    open: bool,
}

/// Attempts that could make room.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    places: BTreeMap<AttemptId, Place>,
    jobs: BTreeMap<JobId, BTreeSet<Entry>>,
    /// Jobs whose first one may be another than before.
    stale: BTreeSet<JobId>,
    first: BTreeMap<JobId, (Order, Option<(Batchactive, Claimed)>)>,
    best: BTreeSet<(Order, JobId)>,
    kept: BTreeMap<Batchactive, BTreeSet<(Claimed, JobId)>>,
}

/// Beyond all times: what is lost with it is nothing.
pub(crate) const NOTHING_LOST: Time = Time(u64::MAX);

impl Standing {
    /// Adds an attempt that was begun at this time, on a host that takes work.
    pub(crate) fn insert(&mut self, attempt: AttemptId, host: HostId, began: Time) {
        self.remove(attempt);
        self.places.insert(
            attempt,
            Place {
                began,
                host,
                open: true,
            },
        );
        self.put(attempt, true);
    }

    /// Takes an attempt out: it has ended, stands still, or somebody waits for it.
    pub(crate) fn remove(&mut self, attempt: AttemptId) {
        self.put(attempt, false);
        self.places.remove(&attempt);
    }

    /// Its host says how long it has run: it was begun then.
    pub(crate) fn note(&mut self, attempt: AttemptId, began: Time) {
        let Some(place) = self.places.get(&attempt).copied() else {
            return;
        };
        if place.began != NOTHING_LOST && place.began != began {
            self.put(attempt, false);
            self.places.insert(attempt, Place { began, ..place });
            self.put(attempt, place.open);
        }
    }

    /// Its host takes work from now on, or no more.
    pub(crate) fn open(&mut self, attempt: AttemptId, open: bool) {
        if let Some(place) = self
            .places
            .get_mut(&attempt)
            .filter(|place| place.open != open)
        {
            place.open = open;
            self.put(attempt, open);
        }
    }

    fn put(&mut self, attempt: AttemptId, there: bool) {
        let Some(Place { began, host, .. }) = self.places.get(&attempt) else {
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

    /// Somebody waits for these tasks of a job.
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

    /// Which of a job's tasks are needed, and how much, is another matter from now on.
    pub(crate) fn touch(&mut self, job: JobId) {
        if self.jobs.contains_key(&job) {
            self.stale.insert(job);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.jobs
            .values()
            .flatten()
            .map(|(_, _, attempt, _)| *attempt)
    }

    /// The first of each job, who would have to go first before all others.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.best
            .iter()
            .rev()
            .map(|((.., Reverse(attempt)), _)| *attempt)
    }

    /// The first of each job that keeps its tasks' states, who would have to go first for another
    /// of such jobs before all others.
    pub(crate) fn least_needed(&self, answer: Batchactive) -> impl Iterator<Item = AttemptId> + '_ {
        let kept = self
            .kept
            .get(&answer)
            .into_iter()
            .flat_map(|kept| kept.iter().rev());
        kept.map(|((.., Reverse(attempt)), _)| *attempt)
    }

    /// Where an attempt is that is counted here.
    pub(crate) fn host(&self, attempt: AttemptId) -> Option<HostId> {
        self.places.get(&attempt).map(|place| place.host)
    }

    /// How many attempts are counted here.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no attempt is counted here.
    pub(crate) fn is_bare(&self) -> bool {
        self.places.is_empty()
    }

    /// Who of a job goes first, where tasks before this index were passed over.
    fn first_of(&self, job: JobId, next: u32) -> Option<Entry> {
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
            let claimed = (
                Reverse(job.rules.priority),
                turn.key,
                turn.place,
                index,
                Reverse(attempt),
            );
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
    /// Brings the order of jobs up to date where it may have changed.
    pub(crate) fn rank_standing(&mut self) {
        let standing = &mut self.hosts.index.standing;
        while let Some(id) = standing.stale.pop_first() {
            standing.rank(id, self.jobs.table.get(&id));
        }
    }
}
