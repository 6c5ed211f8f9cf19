//! Sums of the tasks and work ahead of a job in the queue, which `forecast` turns into time; and the
//! places of jobs in lines.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use common::{JobId, Span, Time};

use crate::policy::ordering::Rank;
use crate::state::job::Jobs;

/// A queue of more jobs than this is summed up at most once in [`WHILE`], so that asking for many
/// of them, or often for one far back, does not walk it each time.
const SHORT: usize = 100;
/// The maximum age of cached sums.
const WHILE: Span = Span::from_secs(1);

/// The tasks ahead of a rank in the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Ahead {
    /// Waiting tasks.
    pub(crate) tasks: u64,
    /// Those among them whose work is unknown.
    pub(crate) unknown: u64,
    /// The work of the others, in seconds on a host of speed 1.
    pub(crate) known_s: f64,
}

impl Ahead {
    /// Adds the part `part` of another sum.
    fn add(&mut self, other: &Ahead, part: f64) {
        let scaled = |count: u64| (count as f64 * part).round() as u64;
        self.tasks += scaled(other.tasks);
        self.unknown += scaled(other.unknown);
        self.known_s += other.known_s * part;
    }

    /// Returns the work in seconds if a task of unknown work takes `unknown_s`.
    pub(crate) fn work_s(&self, unknown_s: f64) -> f64 {
        self.known_s + self.unknown as f64 * unknown_s
    }
}

/// The sums of a long queue at a time: each rank with the sum of its [`Class`] up to and including
/// it.
#[derive(Debug)]
pub(crate) struct QueueSums {
    at: Time,
    places: Vec<(Rank, Ahead)>,
    totals: BTreeMap<Class, Ahead>,
}

/// Whether the job has no promise, whether it is only disclosed, and the number of its user.
type Class = (bool, bool, u32);

impl Jobs {
    /// Returns the sum ahead of this rank; for a long queue it may be [`WHILE`] old. Of other users
    /// with whom slots are shared, as much is ahead as of the user's own jobs.
    pub(crate) fn ahead_of(&self, place: Rank, now: Time) -> Ahead {
        if self.lines.waiting.len() <= SHORT {
            return self.sums(now).ahead_of(place);
        }
        let mut sums = self.lines.sums.borrow_mut();
        let known = sums
            .take()
            .filter(|known| known.at <= now && now <= known.at + WHILE);
        sums.insert(known.unwrap_or_else(|| self.sums(now)))
            .ahead_of(place)
    }

    fn sums(&self, now: Time) -> QueueSums {
        let mut places = Vec::with_capacity(self.lines.waiting.len());
        let mut totals: BTreeMap<Class, Ahead> = BTreeMap::new();
        for rank in &self.lines.waiting {
            let total = totals.entry(rank.class()).or_default();
            self.pass(*rank, total);
            places.push((*rank, *total));
        }
        QueueSums {
            at: now,
            places,
            totals,
        }
    }

    /// Adds the waiting tasks of the job at this `Rank` to `sum`.
    fn pass(&self, rank: Rank, sum: &mut Ahead) {
        let Some(job) = self.table.get(&rank.job) else {
            return;
        };
        let tasks = job.waiting();
        sum.tasks += tasks;
        match job.task_work_s() {
            Some(work_s) => sum.known_s += tasks as f64 * work_s,
            None => sum.unknown += tasks,
        }
    }
}

impl QueueSums {
    fn ahead_of(&self, place: Rank) -> Ahead {
        let (unpromised, disclosed, _) = place.class();
        let before = self.places.partition_point(|(rank, _)| *rank < place);
        let last = before.checked_sub(1).and_then(|last| self.places.get(last));
        let own = last
            .filter(|(rank, _)| rank.class() == place.class())
            .map_or_else(Ahead::default, |(_, sum)| *sum);

        let mut ahead = own;
        for (class, total) in &self.totals {
            if (class.0, class.1) < (unpromised, disclosed) {
                ahead.add(total, 1.0);
            } else if (class.0, class.1) == (unpromised, disclosed) && *class != place.class() {
                ahead.add(
                    total,
                    (own.tasks as f64 / total.tasks.max(1) as f64).min(1.0),
                );
            }
        }

        ahead
    }
}

/// Returns the job in this queue that comes after `last`; the first one where `last` is `None`.
pub(crate) fn after(line: &BTreeSet<Rank>, last: Option<Rank>) -> Option<Rank> {
    match last {
        None => line.first().copied(),
        Some(last) => line.range((Excluded(last), Unbounded)).next().copied(),
    }
}

/// Moves a job's entry in a set of times from `is_at` to `at`.
pub(crate) fn move_to(
    times: &mut BTreeSet<(Time, JobId)>,
    is_at: &mut Option<Time>,
    at: Option<Time>,
    job: JobId,
) {
    if *is_at != at {
        if let Some(old) = std::mem::replace(is_at, at) {
            times.remove(&(old, job));
        }
        times.extend(at.map(|at| (at, job)));
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
