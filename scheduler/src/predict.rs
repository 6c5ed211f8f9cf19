//! When will this job finish? A pure function of what is known; what is known is gathered elsewhere.
//!
//! The shape is that of Kondo et al. 2004, section 5.2: wr = ceil(T / N) (s / r), with T tasks of s operations on N
//! hosts of mean speed r. Two things are refined: what runs already is taken with the time that it has left, and jobs
//! further ahead in the line take their part of the slots first.

use common::Span;

/// What a prediction is made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outlook {
    /// Tasks of the job that wait.
    pub waiting: u64,
    /// Work of one task, in seconds on a host of speed 1.
    pub task_work_s: f64,
    /// Time that each running task still needs where it is, in seconds.
    pub left_s: Vec<f64>,
    /// Work of waiting tasks that go first, in seconds on a host of speed 1.
    pub ahead_work_s: f64,
    /// Slots that take work, busy ones included.
    pub slots: u64,
    /// Their mean speed.
    pub mean_speed: f64,
}

/// The makespan of `tasks` tasks of `work_s` (seconds on a host of speed 1) on `hosts` hosts of mean rate `rate` (work
/// per second), each task with `start_cost` beside its work: wr = ceil(T / N) (s / r) of Kondo et al. 2004, section 5.2,
/// with the start cost in each round, which the paper's formula leaves open. None without hosts.
pub fn makespan(tasks: u64, hosts: u64, work_s: f64, rate: f64, start_cost: Span) -> Option<Span> {
    if hosts == 0 || rate <= 0.0 {
        return None;
    }
    let round_s = work_s / rate + start_cost.secs();
    Some(Span::from_secs_f64(tasks.div_ceil(hosts) as f64 * round_s))
}

/// The time until the last task is done; none where no slot could do it.
pub fn time_left(outlook: &Outlook) -> Option<Span> {
    let longest_s = outlook.left_s.iter().copied().fold(0.0, f64::max);
    if outlook.waiting == 0 {
        return Some(Span::from_secs_f64(longest_s));
    }
    if outlook.slots == 0 || outlook.mean_speed <= 0.0 {
        return None;
    }
    let slots = outlook.slots as f64;
    // Slots come free one after the other while the running tasks end: on average after half of the longest rest.
    let running_s = outlook.left_s.iter().sum::<f64>() / slots.max(outlook.left_s.len() as f64);
    let ahead_s = outlook.ahead_work_s / (slots * outlook.mean_speed);
    let rounds = outlook.waiting.div_ceil(outlook.slots) as f64;
    let waiting_s = rounds * outlook.task_work_s / outlook.mean_speed;
    Some(Span::from_secs_f64((running_s + ahead_s + waiting_s).max(longest_s)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook() -> Outlook {
        Outlook { waiting: 10, task_work_s: 60.0, slots: 4, mean_speed: 2.0, ..Outlook::default() }
    }

    #[test]
    fn a_fresh_bag_takes_as_many_rounds_as_it_fills() {
        assert_eq!(time_left(&outlook()), Some(Span::from_secs(3 * 30)));
    }

    #[test]
    fn what_runs_counts_with_what_it_has_left() {
        let last = Outlook { waiting: 0, left_s: vec![5.0, 12.0], ..outlook() };
        assert_eq!(time_left(&last), Some(Span::from_secs(12)));
        let straggler = Outlook { left_s: vec![1_000.0], ..outlook() };
        assert_eq!(time_left(&straggler), Some(Span::from_secs(1_000)));
    }

    #[test]
    fn jobs_ahead_take_their_share_first() {
        let behind = Outlook { ahead_work_s: 80.0, ..outlook() };
        assert_eq!(time_left(&behind), Some(Span::from_secs(100)));
    }

    #[test]
    fn without_a_slot_nothing_is_predicted() {
        assert_eq!(time_left(&Outlook { slots: 0, ..outlook() }), None);
    }
}
