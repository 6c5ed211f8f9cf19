//! Run times of gangs at each width, by user and program; and the errors of predicted waits for
//! hosts. `malleable::fit` fits speedup laws to the first.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::collections::heard::Heard;
use crate::prediction::estimates::Estimator;
use crate::prediction::malleable::{Bias, Margin};

/// The number of runs kept of each user and program, the newest ones; `SOURCES` is the number of
/// these.
const KEPT: usize = 50;
const SOURCES: usize = 1_000;

/// Runs on several hosts at once: the number of hosts, and the seconds as on hosts of speed 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WidthRuns {
    sources: Heard<Estimator, VecDeque<(u32, f32)>>,
}

impl WidthRuns {
    /// Returns the latest runs of a user and program, oldest first.
    pub fn of(&self, of: &Estimator) -> Vec<(u32, f64)> {
        let runs = self.sources.get(of).into_iter().flatten();
        runs.map(|(hosts, run_s)| (*hosts, f64::from(*run_s)))
            .collect()
    }

    pub(crate) fn observe(&mut self, of: &Estimator, hosts: u32, run_s: f64) {
        if hosts == 0 || !(run_s.is_finite() && run_s > 0.0) {
            return;
        }
        self.sources.hear(of, SOURCES, |runs| {
            if runs.len() >= KEPT {
                runs.pop_front();
            }
            runs.push_back((hosts, run_s as f32));
        });
    }
}

/// Returns the key under which the run times of gangs of this program with this many ranks are
/// kept.
pub(crate) fn of_ranks(of: &Estimator, ranks: u32) -> Estimator {
    Estimator {
        user: of.user.clone(),
        program: format!("{} on {ranks} hosts", of.program),
    }
}

/// The errors of predicted waits for hosts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitErrors {
    /// Their bias.
    pub bias: Bias,
    /// The spread of the outcomes around them.
    pub margin: Margin,
}

impl WaitErrors {
    /// Notes that a wait predicted as `predicted_s` took `came_s` seconds; predictions of 0 are
    /// left out.
    pub(crate) fn observe(&mut self, predicted_s: f64, came_s: f64) {
        if predicted_s > 0.0 {
            self.bias.observe(predicted_s, came_s);
            self.margin.observe(predicted_s, came_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_runs_of_each_user_and_program_are_kept() {
        let ada = Estimator {
            user: "ada".into(),
            program: "solve".into(),
        };
        let mut widths = WidthRuns::default();
        (1..=60).for_each(|run| widths.observe(&ada, 4, f64::from(run)));
        widths.observe(&ada, 0, 1.0);
        widths.observe(&ada, 4, f64::NAN);

        let runs = widths.of(&ada);
        assert_eq!(
            (runs.len(), runs[0], runs[49]),
            (KEPT, (4, 11.0), (4, 60.0))
        );
        assert_eq!(
            widths.of(&Estimator {
                user: "bob".into(),
                program: "solve".into()
            }),
            []
        );
    }
}
