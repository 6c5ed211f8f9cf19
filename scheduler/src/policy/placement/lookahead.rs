//! Lookahead placement, deskgrid's own rule: a task goes to a ready host only if the job would not be done sooner by
//! letting that host idle and waiting for a faster one that is busy.
//!
//! D is the earliest time by which the hosts, ready and busy, could complete all waiting tasks, each host one after the
//! other at its own speed. Ready hosts are taken by their expected time, failures and suspensions counted, as long as
//! they would be done by D.

use crate::experience::Curves;
use crate::laws::{Law, Place};

/// How far ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lookahead {
    /// Tasks shorter than this on a mean host, in seconds, are placed as by PRI-CR: they are over before anything is
    /// heard of them.
    pub least_task_s: f64,
}

/// A slot that will complete tasks one after the other. Times in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Server {
    /// When it is free.
    pub(crate) free_s: f64,
    /// What a task takes there.
    pub(crate) task_s: f64,
}

/// The earliest time, in seconds from now, by which these servers complete `tasks` tasks; infinite without servers.
pub(crate) fn completion_s(servers: &[Server], tasks: u64) -> f64 {
    let by = |at_s: f64| -> f64 {
        servers.iter().map(|server| ((at_s - server.free_s) / server.task_s).floor().max(0.0)).sum()
    };
    let Some(first_s) = servers.iter().map(|s| s.free_s + s.task_s).min_by(f64::total_cmp) else {
        return f64::INFINITY;
    };
    let tasks = tasks as f64;
    let (mut low_s, mut high_s) = (0.0, first_s);
    while by(high_s) < tasks {
        (low_s, high_s) = (high_s, 2.0 * high_s + 1.0);
    }
    while high_s - low_s > 0.5 + 1e-3 * high_s {
        let middle_s = 0.5 * (low_s + high_s);
        if by(middle_s) >= tasks { high_s = middle_s } else { low_s = middle_s }
    }
    high_s
}

/// How good a ready host is for a task that takes `task_s` there and `mean_task_s` on a mean host: the expected time
/// with what a failure and a suspension would add. Smaller is better.
pub(crate) fn expected_s(task_s: f64, mean_task_s: f64, place: Place, curves: &Curves) -> f64 {
    let law = Law::of(task_s, place, curves);
    task_s + (1.0 - law.alive) * (0.5 * task_s + mean_task_s) + (1.0 - law.undisturbed) * curves.mean_suspension_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_complete_tasks_one_after_the_other() {
        let servers = [Server { free_s: 0.0, task_s: 10.0 }, Server { free_s: 5.0, task_s: 20.0 }];
        for (tasks, at_s) in [(1, 10.0), (2, 20.0), (3, 25.0), (4, 30.0), (6, 45.0)] {
            let found_s = completion_s(&servers, tasks);
            assert!(found_s >= at_s && found_s <= at_s + 0.6, "{tasks} tasks by {found_s}, not {at_s}");
        }
        assert_eq!(completion_s(&[], 1), f64::INFINITY);
    }
}
