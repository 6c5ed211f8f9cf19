//! The calendar of free processors over time ([`FreeProcessors`]).

/// The number of free processors as a step function of time.
#[derive(Debug, Clone, PartialEq)]
pub struct FreeProcessors {
    /// The steps as (time, free processors), in rising order of time; the last one has no end.
    steps: Vec<(f64, i64)>,
}

impl FreeProcessors {
    /// Creates a calendar with all processors free from `from` on.
    pub fn new(from: f64, processors: u32) -> Self {
        Self {
            steps: vec![(from, i64::from(processors))],
        }
    }

    /// The earliest time, not before `from`, from which `processors` are free for `length`. `None`
    /// if there are never so many.
    pub fn earliest(&self, from: f64, processors: u32, length: f64) -> Option<f64> {
        let wanted = i64::from(processors);
        let mut since = None;
        for (at, &(begin, free)) in self.steps.iter().enumerate() {
            let end = self.steps.get(at + 1).map_or(f64::INFINITY, |next| next.0);
            if end <= from {
                continue;
            }
            if free < wanted {
                since = None;
                continue;
            }
            let start = *since.get_or_insert(begin.max(from));
            if end >= start + length {
                return Some(start);
            }
        }

        None
    }

    /// Takes processors from `from` to `to`.
    pub fn take(&mut self, from: f64, to: f64, processors: u32) {
        self.change(from, to, -i64::from(processors));
    }

    /// Gives processors back from `from` to `to`.
    pub fn give_back(&mut self, from: f64, to: f64, processors: u32) {
        self.change(from, to, i64::from(processors));
    }

    /// Drops the steps before this time.
    pub fn forget(&mut self, before: f64) {
        let past = self.steps.partition_point(|step| step.0 <= before);
        self.steps.drain(..past.saturating_sub(1));
    }

    fn change(&mut self, from: f64, to: f64, by: i64) {
        if to <= from {
            return;
        }

        let first = self.cut(from);
        let last = self.cut(to);
        for step in &mut self.steps[first..last] {
            step.1 += by;
        }

        for at in [last, first] {
            if at > 0 && self.steps[at - 1].1 == self.steps[at].1 {
                self.steps.remove(at);
            }
        }
    }

    /// The index of the step that begins at this time, which is inserted if missing.
    fn cut(&mut self, time: f64) -> usize {
        let at = self.steps.partition_point(|step| step.0 < time);
        if self.steps.get(at).is_none_or(|step| step.0 > time) {
            let free = at
                .checked_sub(1)
                .map_or(self.steps[0].1, |before| self.steps[before].1);
            self.steps.insert(at, (time, free));
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_start_is_the_first_hole_that_is_wide_and_long_enough() {
        let mut calendar = FreeProcessors::new(0.0, 10);
        calendar.take(0.0, 4.0, 8);
        calendar.take(6.0, 9.0, 5);
        assert_eq!(calendar.earliest(0.0, 2, 100.0), Some(0.0));
        assert_eq!(calendar.earliest(0.0, 6, 2.0), Some(4.0));
        assert_eq!(calendar.earliest(0.0, 6, 3.0), Some(9.0));
        assert_eq!(calendar.earliest(0.0, 5, 3.0), Some(4.0));
        assert_eq!(calendar.earliest(5.0, 10, 1.0), Some(5.0));
        assert_eq!(calendar.earliest(0.0, 11, 1.0), None);
    }

    #[test]
    fn an_undone_placement_leaves_no_trace() {
        let mut calendar = FreeProcessors::new(0.0, 10);
        calendar.take(1.0, 5.0, 3);
        calendar.take(2.0, 7.0, 4);
        calendar.give_back(1.0, 5.0, 3);
        calendar.give_back(2.0, 7.0, 4);
        assert_eq!(calendar, FreeProcessors::new(0.0, 10));
        calendar.take(1.0, 5.0, 3);
        calendar.forget(3.0);

        assert_eq!(
            (
                calendar.earliest(3.0, 8, 1.0),
                calendar.earliest(3.0, 7, 1.0)
            ),
            (Some(5.0), Some(3.0))
        );
    }
}
