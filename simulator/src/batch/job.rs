//! The jobs that are submitted to the machine ([`BatchJob`]), and the outcome of a run ([`BatchOutcome`]).

use std::iter::Peekable;
use std::sync::Arc;
use std::vec;

use scheduler::reservation::limit_after;

use super::table::TabulatedLaw;

/// A job that holds its processors together from its start to its end. Times are in one unit, the
/// same for all.
#[derive(Debug, Clone)]
pub struct BatchJob {
    /// The time of submission.
    pub submit: f64,
    /// The number of processors it needs.
    pub processors: u32,
    /// The run time, the same whenever the job runs.
    pub run: f64,
    /// The requested times: the first, and one after each kill. Beyond the last, requests double.
    pub limits: Arc<[f64]>,
    /// The law of its run time, if one is known.
    pub law: Option<Arc<TabulatedLaw>>,
}

impl BatchJob {
    /// The requested time after `killed` kills.
    pub fn limit(&self, killed: u32) -> f64 {
        limit_after(&self.limits, killed)
    }

    /// The stay of this job, at the place `job` among all, from `now` on with this request.
    pub(super) fn stay(&self, job: usize, now: f64, limit: f64) -> JobStay {
        JobStay {
            job,
            from: now,
            to: now + self.run.min(limit),
            processors: self.processors,
            done: self.run <= limit,
        }
    }
}

/// The places of the jobs that need no more than `processors` processors, as they arrive.
pub(super) fn arrivals(jobs: &[BatchJob], processors: u32) -> Peekable<vec::IntoIter<usize>> {
    let mut arrivals: Vec<usize> = (0..jobs.len())
        .filter(|job| jobs[*job].processors <= processors)
        .collect();
    arrivals.sort_by(|a, b| jobs[*a].submit.total_cmp(&jobs[*b].submit).then(a.cmp(b)));
    arrivals.into_iter().peekable()
}

/// A stay of a job on its processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobStay {
    /// The place of the job among all.
    pub job: usize,
    /// The start of the stay.
    pub from: f64,
    /// The end of the stay.
    pub to: f64,
    /// The number of processors.
    pub processors: u32,
    /// Whether the job was done at the end; otherwise it was killed.
    pub done: bool,
}

/// The outcome of all jobs, as `conservative`, `easy` and `rounds` return it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchOutcome {
    /// The time at which each job was done; NaN for one that needs more processors than there are.
    pub ends: Vec<f64>,
    /// Every stay, by its end.
    pub stays: Vec<JobStay>,
}

impl BatchOutcome {
    pub(super) fn new(jobs: usize) -> Self {
        Self {
            ends: vec![f64::NAN; jobs],
            stays: Vec::new(),
        }
    }

    pub(super) fn left(&mut self, stay: JobStay) {
        if stay.done {
            self.ends[stay.job] = stay.to;
        }
        self.stays.push(stay);
    }

    /// The number of stays that ended by a kill.
    pub fn kills(&self) -> usize {
        self.stays.iter().filter(|stay| !stay.done).count()
    }

    /// The time at which the last job was done.
    pub fn end(&self) -> f64 {
        self.ends.iter().copied().fold(0.0, f64::max)
    }

    /// The share of the processors' time, until the last job was done, that went into the stays in
    /// which jobs were done.
    pub fn utilisation(&self, jobs: &[BatchJob], processors: u32) -> f64 {
        let work: f64 = jobs
            .iter()
            .map(|job| f64::from(job.processors) * job.run)
            .sum();
        work / (f64::from(processors) * self.end())
    }

    /// The mean time from submission to end.
    pub fn response(&self, jobs: &[BatchJob]) -> f64 {
        let flows = jobs
            .iter()
            .zip(&self.ends)
            .map(|(job, end)| end - job.submit);
        flows.sum::<f64>() / jobs.len().max(1) as f64
    }

    /// The mean bounded slowdown: the time from submission to end divided by the run time, where
    /// runs below `bound` count as that long, and no slowdown is below 1.
    pub fn bounded_slowdown(&self, jobs: &[BatchJob], bound: f64) -> f64 {
        let slowdowns = jobs
            .iter()
            .zip(&self.ends)
            .map(|(job, end)| ((end - job.submit) / job.run.max(bound)).max(1.0));
        slowdowns.sum::<f64>() / jobs.len().max(1) as f64
    }
}
