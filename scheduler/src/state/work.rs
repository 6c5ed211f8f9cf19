//! The known work of a job's tasks: by the user's estimate, by finished tasks, and by earlier jobs
//! of the user and program.

use crate::state::foresight::{Foresight, WorkPerTask};
use crate::state::host::Hosts;
use crate::state::job::{Job, TaskRecord};
use crate::state::scheduler::Scheduler;

/// A user's estimate that is off by more than this factor is replaced by the measured mean.
const FAR_OFF: f64 = 1.5;
/// The weight of a user's estimate against the measured mean in predictions, in tasks.
const ESTIMATED: f64 = 5.0;
/// The least uncertainty of tasks' work, as a logarithm, where only earlier jobs of the user and program are
/// known.
const USUALLY: f64 = 0.5;

/// A whole task as a fixed-point number with 32 fractional bits: sums of such numbers are exact.
const FIXED_ONE: f64 = (1_u64 << 32) as f64;

/// Whether an estimate is replaced by this measured mean.
fn is_far_off(estimate_s: f64, mean_s: f64) -> bool {
    (mean_s / estimate_s).ln().abs() > FAR_OFF.ln()
}

/// Returns the work of a task of which this was estimated, and of whose job so many tasks took `measured_s`
/// on average.
pub(crate) fn weighed_s(estimate_s: f64, measured_s: f64, tasks: f64) -> f64 {
    if is_far_off(estimate_s, measured_s) {
        return measured_s;
    }
    mixed_s(estimate_s, measured_s, tasks)
}

/// Returns the mean of what was estimated of a task and what so many tasks took on average.
pub(crate) fn mixed_s(estimate_s: f64, measured_s: f64, tasks: f64) -> f64 {
    (tasks * measured_s + ESTIMATED * estimate_s) / (tasks + ESTIMATED)
}

/// Counts anew, in a sum over waiting tasks, what is saved of this one.
pub(super) fn count_saved(record: &mut TaskRecord, waits: bool, sum: &mut u64) {
    let saved = if waits { record.saved_fixed() } else { 0 };
    *sum = *sum + saved - std::mem::replace(&mut record.counted_fixed, saved);
}

impl TaskRecord {
    /// Returns the part of it that is saved, as a fixed-point number of which [`FIXED_ONE`] is the whole.
    pub(super) fn saved_fixed(&self) -> u64 {
        (self.saved.clamp(0.0, 1.0) * FIXED_ONE) as u64
    }
}

impl Job {
    /// Returns the mean part of a waiting task that is left to do.
    pub(crate) fn mean_part_left(&self) -> f64 {
        let saved = self.saved_fixed as f64 / FIXED_ONE;
        (1.0 - saved / self.waiting().max(1) as f64).max(0.01)
    }

    /// Returns the user's estimate of a task's work, in seconds on a host of speed 1, corrected by how
    /// earlier ones of the user and program turned out.
    fn estimate_s(&self) -> Option<f64> {
        self.usual.estimate_s.filter(|estimate_s| *estimate_s > 0.0)
    }

    /// Returns the work of a task, in seconds on a host of speed 1: the corrected estimate, unless the
    /// measured mean is farther from it than [`FAR_OFF`]; else the measured mean.
    pub(crate) fn task_work_s(&self) -> Option<f64> {
        match (self.estimate_s(), self.pace.mean_work_s()) {
            (Some(estimate_s), Some(mean_s)) if is_far_off(estimate_s, mean_s) => Some(mean_s),
            (None, measured) => measured,
            (estimate, _) => estimate,
        }
    }

    /// Returns the mean work of a task, in seconds on a host of speed 1, from the corrected estimate and
    /// what was measured: `measured_s`.
    pub(crate) fn weighed_s(&self, measured_s: f64) -> f64 {
        let estimate_s = self.estimate_s().unwrap_or(measured_s);
        weighed_s(estimate_s, measured_s, self.pace.count())
    }

    /// Returns the corrected estimate of a task's work, where none has finished yet.
    pub(crate) fn untried_s(&self) -> Option<f64> {
        self.estimate_s().filter(|_| self.pace.count() <= 0.0)
    }

    /// Returns the uncertainty of the mean work of its tasks, as a logarithm.
    pub(crate) fn work_doubt(&self) -> f64 {
        let before = match self.estimate_s() {
            Some(_) => self.usual.doubt,
            None if self.reports_progress => 0.0,
            None => USUALLY.max(self.usual.spread),
        };
        before / (1.0 + self.pace.count())
    }

    /// Returns the same, or the usual work of its user and program where nothing else is known.
    pub(crate) fn usual_task_work_s(&self) -> Option<f64> {
        self.task_work_s().or(self.usual.work_s)
    }

    /// Whether a task of its kind has been measured, whatever its user said.
    pub(crate) fn is_measured(&self) -> bool {
        self.pace.count() > 0.0 || self.usual.work_s.is_some()
    }

    /// Returns the longest run seen of its kind, in seconds on a host of speed 1: the longest of
    /// its own tasks; the corrected estimate where none has finished; or the usual work of user and
    /// program where its finished tasks are forgotten, as after a restart.
    pub(crate) fn longest_s(&self) -> Option<f64> {
        let usual_s = self.usual.work_s.filter(|_| self.finished.len() > 0);
        let longest_s = self.pace.longest_work_s();
        longest_s.or_else(|| self.estimate_s()).or(usual_s)
    }

    /// Returns the part of its tasks' work in which they compute, from 0 to 1: as measured, or as it was in
    /// earlier jobs of its user and program.
    pub(crate) fn computing(&self) -> f64 {
        self.pace.computing().unwrap_or(self.usual.computing)
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

impl Foresight {
    /// Returns the work of a job's tasks: as estimated or measured, else by the progress that running
    /// ones report; `None` where neither is known.
    pub(crate) fn work_of(&self, job: &Job, hosts: &Hosts) -> Option<WorkPerTask> {
        let by_progress = || self.work_by_progress_s(job, hosts);
        Some(job.takes(job.task_work_s().or_else(by_progress)?))
    }
}

impl Scheduler {
    /// Returns the same; where nothing else is known by the estimates of single tasks, or by the usual
    /// work of the job's user and program.
    pub(crate) fn usual_work(&self, job: &Job) -> Option<WorkPerTask> {
        self.known_or(job, job.usual.work_s)
    }

    /// Returns the work of a task of this one job, in seconds on a host of speed 1, from the same: jobs of
    /// its user and program take less than their mean more often than not.
    pub(crate) fn typical_work_s(&self, job: &Job) -> Option<f64> {
        let work = self.known_or(job, job.usual.typical_s);
        work.map(|work| work.mean_s)
    }

    /// Returns what is known of the job's tasks, or else this work of earlier jobs.
    fn known_or(&self, job: &Job, earlier_s: Option<f64>) -> Option<WorkPerTask> {
        let known = self.foresight.work_of(job, &self.hosts);
        known.or_else(|| Some(job.takes(job.stack.mean_s().or(earlier_s)?)))
    }
}
