//! How much waits ahead of a job, summed up along the line. What is not here: how long that takes.

use common::{Span, Time};

use crate::job::Jobs;
use crate::policy::ordering::Rank;

/// A line of more jobs than this is summed up at most once in a while, so that asking for many of them, or often for one
/// far back, costs no walk each time.
const SHORT: usize = 100;
/// How old those sums may be.
const WHILE: Span = Span::from_secs(1);

/// What is ahead of a place in the line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Ahead {
    /// Waiting tasks.
    pub(crate) tasks: u64,
    /// Those among them of which nothing is known.
    pub(crate) unknown: u64,
    /// The work of the others, in seconds on a host of speed 1.
    pub(crate) known_s: f64,
}

impl Ahead {
    /// Its work where a task of which nothing is known takes so long.
    pub(crate) fn work_s(&self, unknown_s: f64) -> f64 {
        self.known_s + self.unknown as f64 * unknown_s
    }
}

/// A long line as it was: each place with what is ahead of the next one.
#[derive(Debug)]
pub(crate) struct Sums {
    at: Time,
    places: Vec<(Rank, Ahead)>,
}

impl Jobs {
    /// What is ahead of this place; of a long line as it was a moment ago.
    pub(crate) fn ahead_of(&self, place: Rank, now: Time) -> Ahead {
        let mut sum = Ahead::default();
        if self.lines.waiting.len() <= SHORT {
            self.lines.waiting.range(..place).for_each(|rank| self.pass(*rank, &mut sum));
            return sum;
        }
        let mut sums = self.lines.sums.borrow_mut();
        let known = sums.take().filter(|known| known.at <= now && now <= known.at + WHILE);
        let Sums { places, .. } = sums.insert(known.unwrap_or_else(|| {
            let step = |rank: &Rank| {
                self.pass(*rank, &mut sum);
                (*rank, sum)
            };
            Sums { at: now, places: self.lines.waiting.iter().map(step).collect() }
        }));
        let before = places.partition_point(|(rank, _)| *rank < place);
        before.checked_sub(1).and_then(|last| places.get(last)).map_or_else(Ahead::default, |(_, ahead)| *ahead)
    }

    /// Adds what waits of the job at this place.
    fn pass(&self, rank: Rank, sum: &mut Ahead) {
        let Some(job) = self.table.get(&rank.job) else { return };
        let tasks = job.waiting();
        sum.tasks += tasks;
        match job.task_work_s() {
            Some(work_s) => sum.known_s += tasks as f64 * work_s,
            None => sum.unknown += tasks,
        }
    }
}
