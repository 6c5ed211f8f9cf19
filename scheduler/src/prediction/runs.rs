//! Run times of the latest tasks, by user and program, killed ones among them. Limits are learned
//! from them in `lessons`; `estimates` compares run times with estimates.

use serde::{Deserialize, Serialize};

use crate::collections::heard::Heard;
use crate::prediction::estimates::Estimator;
use crate::prediction::reservation::ObservedRun;

/// The number of runs kept of each user and program, the newest ones; `SOURCES` is the number of
/// these.
const KEPT: usize = 200;
const SOURCES: usize = 1_000;

/// The runs of all users and programs, as work in seconds on a host of speed 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    sources: Heard<Estimator, Vec<ObservedRun>>,
}

impl Runs {
    /// Returns the latest runs of a user and program, oldest first.
    pub fn of(&self, of: &Estimator) -> &[ObservedRun] {
        self.sources.get(of).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of runs ever observed.
    pub(crate) fn observed(&self) -> u64 {
        self.sources.observed()
    }

    /// Notes a run, done or killed, of a task of which an earlier attempt had been killed after
    /// `killed_s` (0 where none was); it replaces that earlier run.
    pub(crate) fn observe(&mut self, of: &Estimator, run: ObservedRun, killed_s: f64) {
        self.sources
            .hear(of, SOURCES, |runs| note(runs, KEPT, run, killed_s));
    }
}

/// Adds a run to at most `most`, each task's only once: it replaces the run that was killed after
/// `killed_s`, which is of the same task or of an indistinguishable one.
pub(crate) fn note(runs: &mut Vec<ObservedRun>, most: usize, run: ObservedRun, killed_s: f64) {
    let same = |known: &ObservedRun| !known.done && known.time == killed_s;
    let before = if killed_s > 0.0 {
        runs.iter().rposition(same)
    } else {
        None
    };
    match before {
        Some(before) => drop(runs.remove(before)),
        None if runs.len() >= most => drop(runs.remove(0)),
        None => {}
    }
    runs.push(run);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(user: &str) -> Estimator {
        Estimator {
            user: user.to_owned(),
            program: "sim".to_owned(),
        }
    }

    #[test]
    fn a_task_that_was_killed_and_then_done_is_one_run() {
        let mut runs = Runs::default();
        let ada = whose("ada");
        runs.observe(&ada, ObservedRun::done(3.0), 0.0);
        runs.observe(&ada, ObservedRun::cut(5.0), 0.0);
        runs.observe(&ada, ObservedRun::cut(9.0), 5.0);
        assert_eq!(
            runs.of(&ada),
            [ObservedRun::done(3.0), ObservedRun::cut(9.0)]
        );
        runs.observe(&ada, ObservedRun::done(12.0), 9.0);
        assert_eq!(
            runs.of(&ada),
            [ObservedRun::done(3.0), ObservedRun::done(12.0)]
        );
        assert_eq!(runs.of(&whose("bob")), []);
    }

    #[test]
    fn runs_keep_the_newest_and_forget_the_least_recent_source() {
        let mut runs = Runs::default();
        (0..300)
            .for_each(|run| runs.observe(&whose("ada"), ObservedRun::done(f64::from(run)), 0.0));
        assert_eq!(
            (runs.of(&whose("ada")).len(), runs.of(&whose("ada"))[0]),
            (KEPT, ObservedRun::done(100.0))
        );
        (0..SOURCES)
            .for_each(|user| runs.observe(&whose(&user.to_string()), ObservedRun::done(1.0), 0.0));
        assert_eq!(runs.of(&whose("ada")), []);
        assert_eq!(runs.sources.len(), SOURCES);
    }

    #[test]
    fn a_user_of_many_programs_takes_no_place_of_others() {
        let mut runs = Runs::default();
        runs.observe(&whose("ada"), ObservedRun::done(1.0), 0.0);
        for program in 0..2 * SOURCES {
            let of = Estimator {
                program: program.to_string(),
                ..whose("bob")
            };
            runs.observe(&of, ObservedRun::done(1.0), 0.0);
        }
        assert_eq!(runs.of(&whose("ada")), [ObservedRun::done(1.0)]);
        assert_eq!(runs.sources.len(), SOURCES);
    }
}
