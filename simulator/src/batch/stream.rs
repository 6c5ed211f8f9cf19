//! A stream of small work that flows through the processors which jobs leave idle: work that can be
//! divided at will, as in section 3 of the paper.

use super::job::BatchOutcome;

/// The outcome of the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filled {
    /// The first time after the last job at which no small work waits.
    pub end: f64,
    /// All small work until then, in processors times time.
    pub work: f64,
    /// The mean wait of small work.
    pub wait: f64,
}

/// Computes the stream's outcome if small work arrives from 0 on at `rate`, in processors kept
/// busy; it must be less than `processors`.
pub fn filled(outcome: &BatchOutcome, processors: u32, rate: f64) -> Filled {
    let mut changes: Vec<(f64, f64)> = Vec::new();
    for stay in &outcome.stays {
        changes.push((stay.from, -f64::from(stay.processors)));
        changes.push((stay.to, f64::from(stay.processors)));
    }

    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut flow = Flow {
        now: 0.0,
        backlog: 0.0,
        waited: 0.0,
    };
    let mut free = f64::from(processors);
    let last = outcome.end();

    for (time, change) in changes {
        flow.until(time, rate - free);
        free += change;
    }

    flow.until(last, rate - free);
    // From now on every processor is free.
    let spare = f64::from(processors) - rate;
    let end = last + flow.backlog / spare;
    flow.until(end, -spare);

    let work = rate * end;
    // Little's law, for work.
    let wait = if work > 0.0 { flow.waited / work } else { 0.0 };
    Filled { end, work, wait }
}

struct Flow {
    now: f64,
    backlog: f64,
    /// The integral of the backlog over time.
    waited: f64,
}

impl Flow {
    /// Advances to this time, while the backlog changes at the rate `growth`, down to 0 at the
    /// least.
    fn until(&mut self, time: f64, growth: f64) {
        let span = (time - self.now).max(0.0);
        self.now += span;
        let lasts = if growth < 0.0 {
            span.min(self.backlog / -growth)
        } else {
            span
        };
        let after = (self.backlog + growth * lasts).max(0.0);
        self.waited += (self.backlog + after) / 2.0 * lasts;
        self.backlog = after;
    }
}

#[cfg(test)]
mod tests {
    use super::super::JobStay;
    use super::*;

    #[test]
    fn small_work_waits_while_a_job_has_the_machine_and_is_done_afterwards() {
        // The whole machine for 4; half of it arrives meanwhile; then as much again arrives while
        // that is worked off.
        let stay = JobStay {
            job: 0,
            from: 0.0,
            to: 4.0,
            processors: 10,
            done: true,
        };
        let outcome = BatchOutcome {
            ends: vec![4.0],
            stays: vec![stay],
        };
        let found = filled(&outcome, 10, 5.0);
        assert_eq!((found.end, found.work), (8.0, 40.0));

        // The backlog rises to 20 and falls to 0: 80 by 40.
        assert!((found.wait - 2.0).abs() < 1e-12);
        assert_eq!(
            filled(&outcome, 10, 0.0),
            Filled {
                end: 4.0,
                work: 0.0,
                wait: 0.0
            }
        );
    }
}
