//! The starts of jobs in a first-come first-served queue: the mean predictor (section 3.2), where
//! jobs ahead take hosts before they free them again. Backfill is not modelled.

use super::lifetime::Lifetime;
use super::solve::reached_s;
use super::wait::{HostHolder, MachineState};

/// A waiting job.
#[derive(Clone, Copy)]
pub struct WaitingJob<'a> {
    /// The number of hosts that it needs.
    pub hosts: u32,
    /// The law of its run time.
    pub law: &'a dyn Lifetime,
}

/// Predicts the start of each job of this queue, in seconds, first come, first served; `None` where
/// it never starts. `free` hosts are free, and others are held by `running`.
pub fn starts_s(
    free: u32,
    running: &[HostHolder<'_>],
    queue: &[WaitingJob<'_>],
) -> Vec<Option<f64>> {
    let all = running
        .iter()
        .fold(free, |sum, unit| sum.saturating_add(unit.hosts));
    let longest_s = running
        .iter()
        .map(|unit| unit.law.longest_s(unit.age_s))
        .fold(0.0, f64::max);
    let mut placed: Vec<(f64, WaitingJob<'_>)> = Vec::with_capacity(queue.len());
    let mut taken = 0_u32;
    let mut last_s = 0.0;
    let mut end_s = longest_s;

    let mut starts = Vec::with_capacity(queue.len());
    for waiting in queue {
        if waiting.hosts > all {
            starts.push(None);
            continue;
        }

        let need = taken.saturating_add(waiting.hosts);
        let start_s = if need <= free {
            0.0
        } else if placed.is_empty() {
            MachineState::new(free, running.to_vec())
                .wait(need)
                .used_s
                .unwrap_or(longest_s)
        } else {
            let freed = |at_s: f64| {
                let by_running: f64 = running
                    .iter()
                    .map(|u| f64::from(u.hosts) * u.law.ended(u.age_s, at_s))
                    .sum();
                let begun = placed.iter().filter(|(start_s, _)| *start_s < at_s);
                let by_placed: f64 = begun
                    .map(|(start_s, w)| f64::from(w.hosts) * w.law.ended(0.0, at_s - start_s))
                    .sum();
                f64::from(free) + by_running + by_placed
            };
            reached_s(freed, f64::from(need) * (1.0 - 1e-12), last_s, end_s)
        };

        last_s = start_s.max(last_s);
        end_s = end_s.max(last_s + waiting.law.longest_s(0.0));
        taken = need;
        placed.push((last_s, *waiting));
        starts.push(Some(last_s));
    }

    starts
}

#[cfg(test)]
mod tests {
    use super::super::UniformLog;
    use super::*;

    #[test]
    fn a_queued_job_also_waits_for_the_jobs_ahead_of_it() {
        // All lives are of about 100 s.
        let law = UniformLog::between(99.9_f64.ln(), 100.1_f64.ln()).unwrap();
        let running = [HostHolder {
            hosts: 6,
            age_s: 40.0,
            law: &law,
        }];
        let waiting = |hosts| WaitingJob { hosts, law: &law };
        let queue = [waiting(4), waiting(6), waiting(10), waiting(11), waiting(1)];
        let starts = starts_s(4, &running, &queue);
        let near = |at: usize, second: f64| starts[at].is_some_and(|s| (s - second).abs() < 1.0);

        assert_eq!((starts[0], starts[3]), (Some(0.0), None));
        assert!(
            near(1, 60.0) && near(2, 160.0) && near(4, 260.0),
            "{starts:?}"
        );
    }
}
