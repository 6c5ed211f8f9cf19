//! The known work of a job's tasks: by the user's estimate, by finished tasks, and by earlier jobs
//! of the user and program.

use common::Span;

use crate::state::foresight::WorkPerTask;
use crate::state::job::Job;

/// A user's estimate that is off by more than this factor is replaced by the measured mean.
const FAR_OFF: f64 = 1.5;

impl Job {
    /// Returns the work of a task, in seconds on a host of speed 1: the user's estimate, unless the
    /// measured mean is farther from it than [`FAR_OFF`]; else the measured mean.
    pub(crate) fn task_work_s(&self) -> Option<f64> {
        let estimate = self
            .rules
            .estimate
            .map(Span::secs)
            .filter(|estimate_s| *estimate_s > 0.0);
        match (estimate, self.pace.mean_work_s()) {
            (Some(estimate_s), Some(mean_s)) if (mean_s / estimate_s).ln().abs() > FAR_OFF.ln() => {
                Some(mean_s)
            }
            (None, measured) => measured,
            (estimate, _) => estimate,
        }
    }

    /// Returns the same, or the usual work of its user and program where nothing else is known.
    pub(crate) fn usual_task_work_s(&self) -> Option<f64> {
        self.task_work_s().or(self.usual_s)
    }

    /// Returns the longest run seen of its kind, in seconds on a host of speed 1: the longest of
    /// its own tasks; the user's estimate where none has finished; or the usual work of user and
    /// program where its finished tasks are forgotten, as after a restart.
    pub(crate) fn longest_s(&self) -> Option<f64> {
        let estimate = self
            .rules
            .estimate
            .map(Span::secs)
            .filter(|estimate_s| *estimate_s > 0.0);
        let usual_s = self.usual_s.filter(|_| self.finished.len() > 0);
        self.pace.longest_work_s().or(estimate).or(usual_s)
    }

    /// Returns the part of its tasks' work in which they compute, from 0 to 1: as measured, or as it was in
    /// earlier jobs of its user and program.
    pub(crate) fn computing(&self) -> f64 {
        self.pace.computing().unwrap_or(self.usual_computing)
    }

    /// The `WorkPerTask` of its tasks if one takes `mean_s` on average.
    pub(crate) fn takes(&self, mean_s: f64) -> WorkPerTask {
        WorkPerTask {
            mean_s,
            longest_s: self.longest_s().unwrap_or(mean_s).max(mean_s),
            computing: self.computing(),
        }
    }

    /// The `WorkPerTask` of its tasks, with [`Self::task_work_s`] as the mean.
    pub(crate) fn work_per_task(&self) -> Option<WorkPerTask> {
        Some(self.takes(self.task_work_s()?))
    }
}
