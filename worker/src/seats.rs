//! The processors of each slot: which ones a command is bound to, so that no two of them compute on
//! the same one while others are idle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sets of processors that commands are bound to, and how many commands each has.
pub(crate) struct Seats {
    sets: Vec<Vec<u32>>,
    taken: Mutex<Vec<u32>>,
}

/// A command's set of processors, until it is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    number: usize,
    /// Whether the command computes; one that is frozen leaves its processors to another.
    there: bool,
}

impl Seats {
    /// Makes the sets of `slots` slots on these cores. Where the system names no processors,
    /// nothing is bound.
    pub(crate) fn new(slots: usize, cores: Vec<Vec<u32>>) -> Arc<Self> {
        let sets = divide(slots, cores);
        let taken = Mutex::new(vec![0; sets.len()]);
        Arc::new(Self { sets, taken })
    }

    /// Takes the set that the fewest commands have.
    pub(crate) fn take(self: &Arc<Self>) -> Seat {
        let mut taken = self.taken();
        let number = (0..taken.len()).min_by_key(|number| taken[*number]);
        let number = number.unwrap_or(0);
        taken.iter_mut().skip(number).take(1).for_each(|n| *n += 1);

        Seat {
            seats: Arc::clone(self),
            number,
            there: true,
        }
    }

    fn taken(&self) -> MutexGuard<'_, Vec<u32>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Returns its processors; none if it is not bound.
    pub(crate) fn processors(&self) -> &[u32] {
        self.seats.sets.get(self.number).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of threads that can compute at a time in it.
    pub(crate) fn threads(&self) -> usize {
        self.processors().len().max(1)
    }

    /// Notes whether its command computes or is frozen.
    pub(crate) fn computes(&mut self, there: bool) {
        if there == self.there {
            return;
        }
        self.there = there;
        if let Some(count) = self.seats.taken().get_mut(self.number) {
            *count = if there { *count + 1 } else { *count - 1 };
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.computes(false);
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
        let seats = Seats::new(2, vec![vec![0], vec![1]]);
        let mut one = seats.take();
        let two = seats.take();
        assert_ne!(one.processors(), two.processors());

        one.computes(false);
        let instead = seats.take();
        assert_eq!(instead.processors(), one.processors());

        drop(two);
        assert_ne!(seats.take().processors(), instead.processors());
        assert_eq!(Seats::new(2, Vec::new()).take().threads(), 1);
    }
}
