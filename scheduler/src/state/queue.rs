//! Sums of the tasks and work ahead of a job in the queue, which `forecast` turns into time; and the
//! places of jobs in lines.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use common::needs::Needs;
use common::{JobId, Span, Time};

use crate::policy::ordering::Rank;
use crate::state::foresight::WorkPerTask;
use crate::state::job::Jobs;
use crate::state::scheduler::Scheduler;

/// A queue of more jobs than this is summed up at most once in [`WHILE`], so that asking for many
/// of them, or often for one far back, does not walk it each time.
const SHORT: usize = 100;
/// The least part of a slot that counts as due to a user.
const LEAST_DUE: f64 = 1e-9;
/// The maximum age of cached sums.
const WHILE: Span = Span::from_secs(1);

/// Waiting tasks of one or several jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct WaitingTasks {
    /// Their number.
    pub(crate) tasks: f64,
    /// The number of those whose work is unknown.
    pub(crate) unknown: f64,
    /// The work of the others, in seconds on a host of speed 1.
    pub(crate) known_s: f64,
    /// The part of `known_s` in which they compute.
    pub(crate) computing_s: f64,
}

impl WaitingTasks {
    /// Returns so many waiting tasks of this work, where it is known.
    fn of(tasks: f64, work: Option<WorkPerTask>) -> Self {
        match work {
            Some(work) => Self::like(tasks, work),
            None => Self {
                tasks,
                unknown: tasks,
                ..Self::default()
            },
        }
    }

    /// Returns so many tasks of this work.
    pub(crate) fn like(tasks: f64, work: WorkPerTask) -> Self {
        let known_s = tasks * work.mean_s;
        Self {
            tasks,
            unknown: 0.0,
            known_s,
            computing_s: known_s * work.computing,
        }
    }

    /// Adds the part `part` of others.
    pub(crate) fn add(&mut self, other: &Self, part: f64) {
        self.tasks += part * other.tasks;
        self.unknown += part * other.unknown;
        self.known_s += part * other.known_s;
        self.computing_s += part * other.computing_s;
    }

    /// Returns the work in seconds if a task of unknown work takes `unknown_s`.
    pub(crate) fn work_s(&self, unknown_s: f64) -> f64 {
        self.known_s + self.unknown * unknown_s
    }

    /// Returns the mean work of those whose work is known.
    pub(crate) fn known_mean_s(&self) -> Option<f64> {
        let known = self.tasks - self.unknown;
        (known > 0.0).then(|| self.known_s / known)
    }
}

/// The tasks ahead of a job that have the same needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TasksAhead {
    /// A job with these needs.
    pub(crate) like: JobId,
    /// Whether they are of the same user.
    pub(crate) own: bool,
    /// The tasks.
    pub(crate) tasks: WaitingTasks,
}

/// The sums of a queue at a time.
#[derive(Debug)]
pub(crate) struct QueueSums {
    at: Time,
    /// The needs that its jobs have: of each, one of the jobs.
    kinds: Vec<JobId>,
    classes: BTreeMap<Class, ClassSums>,
}

/// The sums of the jobs of a [`Class`]: ranks, each with the sum up to and including it.
#[derive(Debug, Default)]
struct ClassSums {
    all: Vec<(Rank, WaitingTasks)>,
    /// The same for the jobs of each of [`QueueSums::kinds`].
    kinds: BTreeMap<usize, Vec<(Rank, WaitingTasks)>>,
}

/// Whether the job has no promise, whether it is only disclosed, and the number of its user.
type Class = (bool, bool, u32);

impl Scheduler {
    /// Returns the tasks ahead of this rank by their needs, all of which are done or begun by the time
    /// at which `own` further tasks of its job have been begun. For a long queue they may be [`WHILE`]
    /// old. Where `slots` slots are divided among users, others' tasks are ahead in proportion to
    /// what falls to each beside the user's.
    pub(crate) fn ahead_of(
        &self,
        place: Rank,
        own: WaitingTasks,
        slots: f64,
        now: Time,
    ) -> Vec<TasksAhead> {
        let jobs = &self.jobs;
        if jobs.lines.waiting.len() <= SHORT {
            return self.sums(now).ahead_of(jobs, place, own, slots);
        }
        let mut sums = jobs.lines.sums.borrow_mut();
        let known = sums
            .take()
            .filter(|known| known.at <= now && now <= known.at + WHILE);
        sums.insert(known.unwrap_or_else(|| self.sums(now)))
            .ahead_of(jobs, place, own, slots)
    }

    fn sums(&self, now: Time) -> QueueSums {
        let mut numbers: BTreeMap<&Needs, usize> = BTreeMap::new();
        let mut sums = QueueSums {
            at: now,
            kinds: Vec::new(),
            classes: BTreeMap::new(),
        };
        let mut owners = BTreeMap::new();

        for rank in &self.jobs.lines.waiting {
            let Some(job) = self.jobs.table.get(&rank.job) else {
                continue;
            };
            let next = numbers.len();
            let kind = *numbers.entry(&job.rules.needs).or_insert(next);
            if kind == next {
                sums.kinds.push(rank.job);
            }

            let class = sums.classes.entry(rank.class()).or_default();
            // Those that are requested where its place in the queue is theirs.
            let tasks = self.attempts_possible(job, !rank.disclosed(), &mut owners);
            let tasks = WaitingTasks::of(tasks as f64, self.usual_work(job));
            for places in [&mut class.all, class.kinds.entry(kind).or_default()] {
                let mut sum = places.last().map(|(_, sum)| *sum).unwrap_or_default();
                sum.add(&tasks, 1.0);
                places.push((*rank, sum));
            }
        }
        sums
    }
}

impl QueueSums {
    fn ahead_of(&self, jobs: &Jobs, place: Rank, own: WaitingTasks, slots: f64) -> Vec<TasksAhead> {
        let (unpromised, disclosed, user) = place.class();
        let mut ahead = vec![WaitingTasks::default(); self.kinds.len()];
        let mut own_ahead = ahead.clone();
        let mut mine = own;
        if let Some(class) = self.classes.get(&place.class()) {
            mine.add(&before(&class.all, place), 1.0);
            class.add_before(place, 0.0, &mut own_ahead);
        }

        let beside = |class: &&Class| (class.0, class.1) == (unpromised, disclosed);
        let users = self.classes.keys().filter(beside).map(|class| class.2);
        let due = jobs.lines.shares.divide(users.chain([user]), slots);
        let own_due = due.get(&user).copied().unwrap_or(slots);
        let unknown_s = mine.known_mean_s().unwrap_or(1.0);

        for (class, sums) in &self.classes {
            let rank = match (class.0, class.1).cmp(&(unpromised, disclosed)) {
                Ordering::Less => None,
                Ordering::Equal if class.2 != user => {
                    let due = due.get(&class.2).copied().unwrap_or(0.0);
                    let done_s = mine.work_s(unknown_s) * due / own_due.max(LEAST_DUE);
                    let reached = |sum: &WaitingTasks| sum.work_s(unknown_s) >= done_s;
                    let at = sums.all.partition_point(|(_, sum)| !reached(sum));
                    sums.all.get(at).map(|(rank, sum)| {
                        let begun_s = before(&sums.all, *rank).work_s(unknown_s);
                        let all_s = sum.work_s(unknown_s);
                        let part = (done_s - begun_s) / (all_s - begun_s).max(f64::MIN_POSITIVE);
                        (*rank, part)
                    })
                }
                _ => continue,
            };
            let (rank, part) = rank.unwrap_or((Rank::last_of(*class), 0.0));
            sums.add_before(rank, part, &mut ahead);
        }

        let by_kind = |sums: Vec<WaitingTasks>, own: bool| {
            let kinds = self.kinds.iter().zip(sums);
            kinds.map(move |(like, tasks)| TasksAhead {
                like: *like,
                own,
                tasks,
            })
        };
        by_kind(ahead, false)
            .chain(by_kind(own_ahead, true))
            .filter(|ahead| ahead.tasks.tasks > 0.0)
            .collect()
    }
}

impl ClassSums {
    /// Adds the tasks before this rank, and the part `part` of those at it, to the sums by kind.
    fn add_before(&self, rank: Rank, part: f64, sums: &mut [WaitingTasks]) {
        for (kind, places) in &self.kinds {
            let begun = before(places, rank);
            let upto = places.partition_point(|(at, _)| *at <= rank);
            let at = upto.checked_sub(1).map_or(begun, |last| places[last].1);
            sums[*kind].add(&begun, 1.0 - part);
            sums[*kind].add(&at, part);
        }
    }
}

/// Returns the sum of the tasks before this rank.
fn before(places: &[(Rank, WaitingTasks)], rank: Rank) -> WaitingTasks {
    let before = places.partition_point(|(at, _)| *at < rank);
    before
        .checked_sub(1)
        .map_or_else(WaitingTasks::default, |last| places[last].1)
}

/// Returns the job in this queue that comes after `last`; the first one where `last` is `None`.
pub(crate) fn after(line: &BTreeSet<Rank>, last: Option<Rank>) -> Option<Rank> {
    match last {
        None => line.first().copied(),
        Some(last) => line.range((Excluded(last), Unbounded)).next().copied(),
    }
}

/// Moves the entry of a job or a host in a set of times from `is_at` to `at`.
pub(crate) fn move_to<Id: Ord + Copy>(
    times: &mut BTreeSet<(Time, Id)>,
    is_at: &mut Option<Time>,
    at: Option<Time>,
    id: Id,
) {
    if *is_at != at {
        if let Some(old) = std::mem::replace(is_at, at) {
            times.remove(&(old, id));
        }
        times.extend(at.map(|at| (at, id)));
    }
}

/// Puts a job into a line, or takes it out of it; `is_in` says where it is.
pub(crate) fn line_up(line: &mut BTreeSet<Rank>, is_in: &mut bool, wanted: bool, rank: Rank) {
    if *is_in != wanted {
        *is_in = wanted;
        if wanted {
            line.insert(rank)
        } else {
            line.remove(&rank)
        };
    }
}
