//! The predicted completion time of a job. Pure functions; the callers gather the values.

use common::{Span, Time};

/// The predicted completion of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// The predicted completion of its last task.
    pub finish: Time,
    /// The lower end of the interval that holds the completion with a probability of 80 %, by the
    /// errors of earlier predictions of the kind.
    pub low: Time,
    /// The upper end of that interval.
    pub high: Time,
}

/// The makespan of `tasks` tasks of `work_s` (seconds on a host of speed 1) on `hosts` hosts of
/// mean rate `rate` (work per second), each task with `start_cost` beside its work: wr = ceil(T /
/// N) (s / r) of Kondo et al. 2004, section 5.2, with the start cost in each round, which the
/// paper's formula leaves open. `None` without hosts.
pub fn makespan(tasks: u64, hosts: u64, work_s: f64, rate: f64, start_cost: Span) -> Option<Span> {
    if hosts == 0 || rate <= 0.0 {
        return None;
    }
    let round_s = work_s / rate + start_cost.secs();
    Some(Span::from_secs_f64(tasks.div_ceil(hosts) as f64 * round_s))
}

/// A slot that will complete tasks one after the other. Times in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PredictedSlot {
    /// The time until it is free.
    pub(crate) free_s: f64,
    /// The run time of a task there.
    pub(crate) task_s: f64,
}

/// Returns the earliest time, in seconds from now, by which these servers complete `tasks` tasks;
/// infinite without servers. `least_s` is a known lower bound that shortens the search.
pub(crate) fn completion_s(servers: &[PredictedSlot], tasks: u64, least_s: f64) -> f64 {
    // This is called often: it has no division, and no conversion to integers of more than 32 bits.
    let rates: Vec<_> = servers
        .iter()
        .map(|server| (server.free_s, server.task_s.recip()))
        .collect();
    let by = |at_s: f64, (free_s, rate): (f64, f64)| ((at_s - free_s) * rate) as i32;
    let enough = |at_s: f64| {
        rates
            .iter()
            .map(|of| u64::from(by(at_s, *of).max(0).unsigned_abs()))
            .sum::<u64>()
            >= tasks
    };

    let Some(first_s) = servers
        .iter()
        .map(|s| s.free_s + s.task_s)
        .min_by(f64::total_cmp)
    else {
        return f64::INFINITY;
    };

    let mut low_s = 0.0;
    let mut high_s = first_s.max(1.1 * least_s);
    while !enough(high_s) {
        low_s = high_s;
        high_s = 1.5 * high_s + 1.0;
        if !high_s.is_finite() {
            return f64::INFINITY;
        }
    }

    while high_s - low_s > 0.5 + 1e-3 * high_s {
        let middle_s = 0.5 * (low_s + high_s);
        if enough(middle_s) {
            high_s = middle_s;
        } else {
            low_s = middle_s;
        }
    }

    high_s
}

/// Returns the ends of the interval that holds 80 % of the observed errors, as factors on the
/// predicted time left.
pub(crate) fn spread(errors: &[f32]) -> (f64, f64) {
    if errors.len() < FEWEST {
        return UNKNOWN;
    }

    let mut sorted = errors.to_vec();
    sorted.sort_by(f32::total_cmp);

    // Quantiles for a sample of one more: the next error is equally likely to fall between any two.
    let at = |part: f64| {
        let place = (part * (sorted.len() + 1) as f64 - 1.0).clamp(0.0, (sorted.len() - 1) as f64);
        let low = place as usize;
        let rest = place - place.floor();
        let a = f64::from(sorted[low]);
        let b = f64::from(sorted[(low + 1).min(sorted.len() - 1)]);
        (a + rest * (b - a)).exp()
    };
    (at(0.1), at(0.9))
}

/// The number of compared predictions of a kind below which [`UNKNOWN`] is taken as the interval.
const FEWEST: usize = 10;
const UNKNOWN: (f64, f64) = (0.7, 2.0);

/// Returns the run time of this work at this rate.
pub(crate) fn duration(work: Span, start_cost: Span, rate: f64) -> Span {
    start_cost + Span::from_secs_f64(work.secs() / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_makespan_takes_as_many_rounds_as_the_bag_fills() {
        let start = Span::from_secs(40);
        assert_eq!(
            makespan(401, 200, 300.0, 1.5, start),
            Some(Span::from_secs(3 * 240))
        );
        assert_eq!(makespan(1, 0, 300.0, 1.5, start), None);
    }

    #[test]
    fn the_spread_holds_four_of_five() {
        let errors: Vec<f32> = (1..=99).map(|n| n as f32 / 100.0).collect();
        let (low, high) = spread(&errors);
        assert!(
            (low.ln() - 0.1).abs() < 1e-6 && (high.ln() - 0.9).abs() < 1e-6,
            "{low} to {high}"
        );
        assert_eq!(spread(&errors[..5]), UNKNOWN);
    }

    #[test]
    fn servers_complete_tasks_one_after_the_other() {
        let servers = [
            PredictedSlot {
                free_s: 0.0,
                task_s: 10.0,
            },
            PredictedSlot {
                free_s: 5.0,
                task_s: 20.0,
            },
        ];
        for (tasks, at_s) in [(1, 10.0), (2, 20.0), (3, 25.0), (4, 30.0), (6, 45.0)] {
            let found_s = completion_s(&servers, tasks, 0.0);
            assert!(
                found_s >= at_s && found_s <= at_s + 0.6,
                "{tasks} tasks by {found_s}, not {at_s}"
            );
        }

        assert_eq!(completion_s(&[], 1, 0.0), f64::INFINITY);
    }

    #[test]
    fn a_completion_search_ends_for_endless_and_countless_tasks() {
        let endless = PredictedSlot {
            free_s: 0.0,
            task_s: f64::INFINITY,
        };
        assert_eq!(completion_s(&[endless], 1, 0.0), f64::INFINITY);
        let servers = [PredictedSlot {
            free_s: 0.0,
            task_s: 1e-6,
        }; 3];
        assert!(completion_s(&servers, u64::MAX, 0.0) > 1e6);
    }
}
