//! The processors and graphics processors of each command: which ones it is bound to, so that no two
//! of them compute on the same one while others are idle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::needs::Demand;

/// The sets of processors that commands are bound to, and the graphics processors.
pub(crate) struct Seats {
    sets: Vec<Vec<u32>>,
    /// The number of graphics processors that are lent; `None` where the host has none.
    gpus: Option<u32>,
    taken: Mutex<SeatCounts>,
}

/// The number of commands that each set, and each graphics processor, has.
struct SeatCounts {
    sets: Vec<u32>,
    gpus: Vec<u32>,
}

/// A command's sets of processors and its graphics processors, until it is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    numbers: Vec<usize>,
    gpus: Vec<usize>,
    threads: usize,
    /// Whether the command computes; one that is frozen leaves its processors to another.
    there: bool,
}

impl Seats {
    /// Makes the sets of `slots` slots on these cores. Where the system names no processors,
    /// nothing is bound.
    pub(crate) fn new(slots: usize, cores: Vec<Vec<u32>>, gpus: Option<u32>) -> Arc<Self> {
        let sets = divide(slots, cores);
        let taken = Mutex::new(SeatCounts {
            sets: vec![0; sets.len()],
            gpus: vec![0; gpus.unwrap_or(0) as usize],
        });
        Arc::new(Self { sets, gpus, taken })
    }

    /// Takes the sets that the fewest commands have: one for a task that asks for no processors, or
    /// as many as have the processors that it asks for; and as many graphics processors.
    pub(crate) fn take(self: &Arc<Self>, takes: Demand) -> Seat {
        let mut taken = self.taken();
        let wanted = takes.cores.max(1) as usize;
        let mut numbers = Vec::new();
        let mut processors = 0;
        while processors < wanted
            && let Some(number) = least(&taken.sets, &numbers)
        {
            taken.sets[number] += 1;
            processors += self.sets[number].len();
            numbers.push(number);
        }

        let mut gpus = Vec::new();
        while gpus.len() < takes.gpus as usize
            && let Some(number) = least(&taken.gpus, &gpus)
        {
            taken.gpus[number] += 1;
            gpus.push(number);
        }

        gpus.sort_unstable();
        Seat {
            seats: Arc::clone(self),
            numbers,
            gpus,
            threads: if wanted > 1 {
                wanted
            } else {
                processors.max(1)
            },
            there: true,
        }
    }

    fn taken(&self) -> MutexGuard<'_, SeatCounts> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the place with the smallest count, except these.
fn least(counts: &[u32], except: &[usize]) -> Option<usize> {
    let others = (0..counts.len()).filter(|number| !except.contains(number));
    others.min_by_key(|number| counts[*number])
}

impl Seat {
    /// Returns its processors; none if it is not bound.
    pub(crate) fn processors(&self) -> Vec<u32> {
        let sets = self.numbers.iter().filter_map(|n| self.seats.sets.get(*n));
        let mut all: Vec<u32> = sets.flatten().copied().collect();
        all.sort_unstable();
        all
    }

    /// Returns the number of threads that can compute at a time in it, for `OMP_NUM_THREADS` and the
    /// like.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the numbers of its graphics processors, with commas between; `None` on a host that
    /// has none.
    pub(crate) fn gpus(&self) -> Option<String> {
        self.seats.gpus?;
        let numbers: Vec<String> = self.gpus.iter().map(ToString::to_string).collect();
        Some(numbers.join(","))
    }

    /// Notes whether its command computes or is frozen. What it has on graphics processors stays
    /// there in either case.
    pub(crate) fn computes(&mut self, there: bool) {
        if there == self.there {
            return;
        }
        self.there = there;
        let mut taken = self.seats.taken();
        for number in &self.numbers {
            let count = &mut taken.sets[*number];
            *count = if there { *count + 1 } else { *count - 1 };
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.computes(false);
        let mut taken = self.seats.taken();
        for number in &self.gpus {
            taken.gpus[*number] -= 1;
        }
    }
}

/// Divides the cores among the slots: a core for each if there are as many, else a processor for
/// each, siblings last. With fewer slots than cores nothing is bound: other workers on the host
/// would bind theirs to the same cores while others are idle.
fn divide(slots: usize, cores: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    if slots < cores.len() {
        return Vec::new();
    }
    if slots == cores.len() {
        return cores;
    }

    let threads = cores.iter().map(Vec::len).max().unwrap_or(0);
    let nth = |n: usize| cores.iter().filter_map(move |core| core.get(n));
    (0..threads)
        .flat_map(nth)
        .map(|processor| vec![*processor])
        .take(slots)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Demand = Demand::PLAIN;

    fn cores(cores: u32) -> Demand {
        Demand { cores, ..PLAIN }
    }

    #[test]
    fn slots_share_the_cores_out_where_there_are_enough_slots_for_all() {
        let four = || vec![vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]];
        assert!(divide(2, four()).is_empty());
        assert_eq!(divide(4, four()), four());
        assert_eq!(divide(5, four()), [[0], [1], [2], [3], [4]]);
        assert_eq!(divide(100, four()).len(), 8);
        assert!(divide(2, Vec::new()).is_empty());
    }

    #[test]
    fn different_commands_have_different_processors_as_long_as_there_are_some() {
        let seats = Seats::new(2, vec![vec![0], vec![1]], None);
        let mut one = seats.take(PLAIN);
        let two = seats.take(PLAIN);
        assert_ne!(one.processors(), two.processors());

        one.computes(false);
        let instead = seats.take(PLAIN);
        assert_eq!(instead.processors(), one.processors());

        drop(two);
        assert_ne!(seats.take(PLAIN).processors(), instead.processors());
        assert_eq!(Seats::new(2, Vec::new(), None).take(PLAIN).threads(), 1);
    }

    #[test]
    fn a_command_is_bound_to_as_many_processors_as_it_asks_for() {
        let seats = Seats::new(4, (0..4).map(|n| vec![n]).collect(), None);
        let small = seats.take(PLAIN);
        let large = seats.take(cores(3));
        assert_eq!((large.processors(), large.threads()), (vec![1, 2, 3], 3));
        assert_eq!((small.processors(), small.threads()), (vec![0], 1));
        drop(small);
        drop(large);

        // Where a slot is a core of two processors, two of these are one core.
        let pairs = Seats::new(2, vec![vec![0, 2], vec![1, 3]], None);
        let pair = pairs.take(cores(2));
        assert_eq!((pair.processors(), pair.threads()), (vec![0, 2], 2));
        assert_eq!(pairs.take(PLAIN).threads(), 2);

        // Where nothing is bound, the number of threads still is what was asked for.
        let unbound = Seats::new(1, vec![vec![0], vec![1]], None);
        let seat = unbound.take(cores(2));
        assert_eq!((seat.processors(), seat.threads()), (vec![], 2));
    }

    #[test]
    fn graphics_processors_are_named_to_those_that_ask_and_hidden_from_others() {
        let seats = Seats::new(1, Vec::new(), Some(2));
        let gpus = |gpus| Demand { gpus, ..PLAIN };
        let mut one = seats.take(gpus(1));
        one.computes(false);
        let two = seats.take(gpus(1));
        assert_eq!(
            (one.gpus().as_deref(), two.gpus().as_deref()),
            (Some("0"), Some("1"))
        );
        assert_eq!(seats.take(PLAIN).gpus().as_deref(), Some(""));

        drop((one, two));
        assert_eq!(seats.take(gpus(2)).gpus().as_deref(), Some("0,1"));
        assert_eq!(Seats::new(1, Vec::new(), None).take(PLAIN).gpus(), None);
    }
}
