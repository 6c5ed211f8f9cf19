//! The least possible makespan, with full knowledge of the trace (Kondo et al. 2004, section 3.4). What is not here: a
//! schedule.

use crate::trace::{Trace, TracedHost};

/// Below this part of the processor tasks are suspended.
const LEAST_CPU: f64 = 0.01;

/// When tasks of one size would be done that start as early as they can, on every host by itself.
#[derive(Debug, Clone)]
pub struct Oracle {
    done_s: Vec<f64>,
}

impl Oracle {
    /// The earliest completions of tasks of `work_s` reference seconds from `start_s` on.
    pub fn new(trace: &Trace, start_s: f64, work_s: f64, start_cost_s: f64, slots: u32) -> Self {
        let mut done_s = Vec::new();
        for host in &trace.hosts {
            for _ in 0..slots {
                chain(host, start_s, work_s, start_cost_s, &mut done_s);
            }
        }
        done_s.sort_by(f64::total_cmp);
        Oracle { done_s }
    }

    /// The least makespan of so many tasks, in seconds; none where the trace ends before it.
    pub fn makespan_s(&self, tasks: u32) -> Option<f64> {
        self.done_s.get((tasks as usize).checked_sub(1)?).copied()
    }
}

/// Adds when one slot completes task after task.
fn chain(host: &TracedHost, start_s: f64, work_s: f64, start_cost_s: f64, done_s: &mut Vec<f64>) {
    let need_s = work_s * common::units::REFERENCE_MHZ / host.clock_mhz;
    let fresh = (start_cost_s, need_s);
    let (mut cost_s, mut left_s) = fresh;
    for segment in host.segments.iter().filter(|segment| segment.end_s > start_s) {
        if !segment.up {
            (cost_s, left_s) = fresh;
            continue;
        }
        let (mut now, ready) = (segment.start_s.max(start_s), segment.cpu >= LEAST_CPU);
        // A task starts only where it could compute.
        while now < segment.end_s && (ready || (cost_s, left_s) != fresh) {
            let paid = cost_s.min(segment.end_s - now);
            (cost_s, now) = (cost_s - paid, now + paid);
            if cost_s > 0.0 || !ready {
                break;
            }
            if now + left_s / segment.cpu > segment.end_s {
                left_s -= (segment.end_s - now) * segment.cpu;
                break;
            }
            now += left_s / segment.cpu;
            done_s.push(now - start_s);
            (cost_s, left_s) = fresh;
        }
    }
}
