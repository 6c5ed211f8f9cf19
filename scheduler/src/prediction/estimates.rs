//! The quality of users' estimates of run times, and the correction of the next ones. An estimate
//! is the user's word for the work of a task, in seconds on a host of speed 1; its ratio is the
//! real work over the estimate. Promises are made of it in `crate::deadline`.
//!
//! Wozniak, Jiang and Striegel take estimates as they are and kill attempts that exceed them. Here
//! each source of estimates (a user with a program) is measured, and its estimates are corrected by
//! its usual ratios: a user who estimates too high is admitted as if the estimate were right, and
//! one who estimates too low gains nothing by it.

use std::collections::{BTreeSet, VecDeque};

use common::{JobId, Span};
use serde::{Deserialize, Serialize};
use statrs::function::erf::erfc;

use crate::collections::heard::{Grouped, Heard};
use crate::prediction::lessons::FIRST_RUNS;
use crate::prediction::pace::ObservedWork;
use crate::prediction::predict::at_place;

/// The number of finished tasks remembered of a source, and the number of sources.
const REMEMBERED: usize = 512;
const SOURCES: usize = 1_000;
/// The weight of the prior ratio 1, in tasks: an estimate counts as right until about this many say
/// otherwise.
const PRIOR: f64 = 10.0;
/// The weight of [`UNPROVEN`], in jobs: the tasks of one job share one guess, so that what they say about
/// the next job's is said once.
const PRIOR_JOBS: f64 = 5.0;
/// The number of finished tasks from which a source is known.
const KNOWN: usize = 20;
/// The part of what was seen before that each task makes the part in which tasks compute forget.
const FORGOTTEN: f32 = 1.0 / 64.0;
/// The quantile of a source's ratios that multiplies estimates: a little more than the median
/// breaks far fewer promises and admits hardly fewer bags.
const CORRECTION: f64 = 0.57;
/// The quantile of a source's works that is assumed for a task without an estimate.
const LEARNED_QUANTILE: f64 = 0.8;
/// The bound on a correction beyond the longest task of a source: the longest times `1 +
/// BEYOND_LONGEST / tasks`, since a longer one becomes less likely with each task seen. An estimate
/// above all earlier ones moves the bound by as much.
const BEYOND_LONGEST: f64 = 64.0;
/// A task beyond every ratio seen is expected to go on for as long as it has exceeded its
/// expectation, and for at least this part of its run time so far.
const OVERDUE: f64 = 0.1;

/// The uncertainty of an estimate, as a logarithm, of a source of which nothing is known.
pub(crate) const UNPROVEN: f64 = 0.5;
/// The distance between the tenth and the ninetieth percentile of a normal law, in deviations.
const MIDDLE: f64 = 2.563;

/// The properties of a source's finished tasks, by which the next ones are expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usual {
    /// The mean work of a task, in seconds on a host of speed 1, where enough are known.
    pub(crate) work_s: Option<f64>,
    /// The geometric mean of the same.
    pub(crate) typical_s: Option<f64>,
    /// The spread of tasks' works, as a logarithm.
    pub(crate) spread: f64,
    /// The estimate of the user, corrected by how earlier ones turned out.
    pub(crate) estimate_s: Option<f64>,
    /// The uncertainty of that, as a logarithm.
    pub(crate) doubt: f64,
    /// The part of their work in which they compute, from 0 to 1.
    pub(crate) computing: f64,
}

impl Default for Usual {
    fn default() -> Self {
        Self {
            work_s: None,
            typical_s: None,
            spread: 0.0,
            estimate_s: None,
            doubt: UNPROVEN,
            computing: 1.0,
        }
    }
}

/// The source of an estimate: a user with a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Estimator {
    /// The user.
    pub user: String,
    /// The program that the tasks run.
    pub program: String,
}

impl Grouped for Estimator {
    fn group(&self) -> &str {
        &self.user
    }
}

/// All remembered sources of estimates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    sources: Heard<Estimator, EstimateSource>,
}

/// The finished tasks of one source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EstimateSource {
    /// Ratios and works (in seconds on a host of speed 1) of the latest tasks, oldest first; the
    /// ratio is `None` without an estimate.
    latest: VecDeque<(Option<f32>, f32)>,
    /// The jobs of the last of these; those of tasks that an earlier run of the master saw are not known.
    #[serde(skip)]
    jobs: VecDeque<JobId>,
    /// The ratios in `latest`, sorted; `works_s` holds the works.
    ratios: Vec<f32>,
    works_s: Vec<f32>,
    /// The longest task ever seen, and the largest estimate of one.
    longest_s: f32,
    longest_estimate_s: f32,
    tasks: u64,
    /// The work of the latest tasks, weighted by how late they came, and the part of it in which they
    /// computed.
    recent_s: f32,
    computing_s: f32,
}

/// The quality of a source's estimates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// The number of tasks that were measured.
    pub tasks: u64,
    /// The number of the latest tasks with an estimate; the other fields are about these.
    pub compared: u64,
    /// The median of the ratios, and the ends of the middle 80 %; `None` without estimates.
    pub ratio: Option<(f64, f64, f64)>,
    /// The smallest Q for which 90 % of the tasks satisfy |est - c| / est <= Q (the paper's
    /// equation 1).
    pub qoe: Option<f64>,
}

impl Estimates {
    /// Returns a source, if it is remembered.
    pub fn source(&self, of: &Estimator) -> Option<&EstimateSource> {
        self.sources.get(of)
    }

    /// Returns the part of their work in which tasks of this source compute, from 0 to 1; all of it where
    /// none was seen.
    pub(crate) fn computing(&self, of: &Estimator) -> f64 {
        self.source(of).map_or(1.0, EstimateSource::computing)
    }

    /// Returns what the tasks of this source tell of one with this estimate, or with none.
    pub(crate) fn usual(&self, of: &Estimator, estimate: Option<Span>) -> Usual {
        let known = Usual {
            estimate_s: estimate.map(Span::secs),
            ..Usual::default()
        };
        self.source(of)
            .map_or(known, |source| source.usual(estimate))
    }

    /// Returns the probability that work of this source that should take `expected` by its estimates takes
    /// `allowed` at most.
    pub(crate) fn suffices(&self, of: &Estimator, expected: Span, allowed: Span) -> f64 {
        let doubt = self.usual(of, None).doubt;
        let log = (allowed.secs().max(1e-3) / expected.secs().max(1e-3)).ln();
        1.0 - 0.5 * erfc(log / (doubt * std::f64::consts::SQRT_2))
    }

    /// Returns the quality of each source's estimates.
    pub fn quality(&self) -> impl Iterator<Item = (&Estimator, Quality)> {
        self.sources
            .iter()
            .map(|(of, source)| (of, source.quality()))
    }

    /// Notes that a task of this job with this estimate took `work`. Returns whether that changed what
    /// [`Self::usual`] returns by much: it made the source known, or doubled what is known of it.
    pub(crate) fn observe(
        &mut self,
        of: &Estimator,
        job: JobId,
        estimate: Option<Span>,
        work: ObservedWork,
    ) -> bool {
        self.sources
            .hear(of, SOURCES, |source| source.observe(job, estimate, work));
        let tasks = self.source(of).map_or(0, |source| source.tasks);
        tasks == FIRST_RUNS || tasks > FIRST_RUNS && tasks.is_power_of_two()
    }
}

impl EstimateSource {
    fn observe(&mut self, job: JobId, estimate: Option<Span>, observed: ObservedWork) {
        let work = Span::from_secs_f64(observed.work_s);
        if self.latest.len() == REMEMBERED
            && let Some((ratio, work_s)) = self.latest.pop_front()
        {
            ratio
                .into_iter()
                .for_each(|ratio| remove(&mut self.ratios, ratio));
            remove(&mut self.works_s, work_s);
        }

        // An estimate of no time at all says nothing of how far off others are.
        let said = estimate.filter(|estimate| *estimate > Span::ZERO);
        let ratio = said.map(|estimate| ratio(work, estimate) as f32);
        let work_s = work.secs() as f32;
        ratio
            .into_iter()
            .for_each(|ratio| insert(&mut self.ratios, ratio));
        insert(&mut self.works_s, work_s);
        self.latest.push_back((ratio, work_s));
        self.jobs.push_back(job);
        if self.jobs.len() > REMEMBERED {
            self.jobs.pop_front();
        }
        self.longest_s = self.longest_s.max(work_s);
        let estimate_s = estimate.map_or(0.0, |estimate| estimate.secs() as f32);
        self.longest_estimate_s = self.longest_estimate_s.max(estimate_s);
        let kept = 1.0 - FORGOTTEN;
        self.recent_s = kept * self.recent_s + work_s;
        self.computing_s = kept * self.computing_s + observed.computing_s as f32;

        self.tasks += 1;
    }

    fn usual(&self, estimate: Option<Span>) -> Usual {
        let works = self.works_s.iter().map(|work_s| f64::from(*work_s));
        let number = self.works_s.len() as f64;
        let logs = works.clone().map(|work_s| work_s.max(1e-3).ln());
        let typical_s = (logs.sum::<f64>() / number).exp();
        let mean_s = works.sum::<f64>() / number;
        let known = self.tasks >= FIRST_RUNS;
        let jobs = self.jobs_compared() as f64;
        let sigma = spread(&self.ratios);
        Usual {
            work_s: known.then_some(mean_s),
            typical_s: known.then_some(typical_s),
            spread: spread(&self.works_s),
            estimate_s: estimate
                .and_then(|estimate| self.corrected(Some(estimate)))
                .map(Span::secs),
            doubt: (jobs * sigma + PRIOR_JOBS * UNPROVEN) / (jobs + PRIOR_JOBS),
            computing: self.computing(),
        }
    }

    /// Returns the number of jobs of which the latest tasks with an estimate are. A task whose job is not
    /// known counts as a job.
    fn jobs_compared(&self) -> usize {
        let untold = self.latest.len().saturating_sub(self.jobs.len());
        let compared = |(ratio, _): &(Option<f32>, f32)| ratio.is_some();
        let before = self.latest.iter().take(untold);
        let told = self.latest.iter().skip(untold).zip(&self.jobs);
        let jobs: BTreeSet<JobId> = told
            .filter(|(task, _)| compared(task))
            .map(|(_, job)| *job)
            .collect();
        before.filter(|task| compared(task)).count() + jobs.len()
    }

    /// Whether enough of its tasks were seen.
    pub fn known(&self) -> bool {
        self.works_s.len() >= KNOWN
    }

    /// Returns the part of its tasks' work in which they compute, from 0 to 1.
    pub(crate) fn computing(&self) -> f64 {
        if self.computing_s < self.recent_s {
            f64::from(self.computing_s / self.recent_s)
        } else {
            1.0
        }
    }

    /// Returns the expected work of a task with this estimate, or with none.
    pub fn corrected(&self, estimate: Option<Span>) -> Option<Span> {
        let Some(estimate) = estimate else {
            return quantile(&self.works_s, LEARNED_QUANTILE)
                .filter(|_| self.known())
                .map(Span::from_secs_f64);
        };

        let number = self.ratios.len() as f64;
        let usual = quantile(&self.ratios, CORRECTION).unwrap_or(1.0);
        let factor = (number * usual + PRIOR) / (number + PRIOR);
        let work_s = estimate.secs() * factor;
        let most_s = f64::from(self.longest_s) * (1.0 + BEYOND_LONGEST / self.tasks.max(1) as f64);
        // Whoever estimates more than ever before has other tasks than before.
        let more = (estimate.secs() / f64::from(self.longest_estimate_s)).max(1.0);
        let most_s = most_s * more;

        Some(Span::from_secs_f64(if self.known() {
            work_s.min(most_s)
        } else {
            work_s
        }))
    }

    /// Returns the expected work of a task that has already run for `elapsed`; at least
    /// [`Self::corrected`].
    pub(crate) fn given(&self, estimate: Option<Span>, elapsed: Span) -> Option<Span> {
        let corrected = self.corrected(estimate)?;
        if elapsed < corrected {
            return Some(corrected);
        }
        let so_far = estimate.map_or(0.0, |estimate| ratio(elapsed, estimate)) as f32;
        let longer = &self.ratios[self.ratios.partition_point(|ratio| *ratio <= so_far)..];
        let overdue = beyond(corrected, elapsed);
        let median = quantile(longer, 0.5).zip(estimate);
        Some(median.map_or(overdue, |(ratio, estimate)| {
            Span::from_secs_f64(estimate.secs() * ratio).max(elapsed)
        }))
    }

    /// Returns the quality of its estimates.
    pub fn quality(&self) -> Quality {
        let at = |part| quantile(&self.ratios, part);
        let mut errors: Vec<f32> = self
            .ratios
            .iter()
            .map(|ratio| (1.0 - ratio).abs())
            .collect();
        errors.sort_by(f32::total_cmp);

        let ratio = at(0.5)
            .zip(at(0.1).zip(at(0.9)))
            .map(|(median, (low, high))| (median, low, high));
        Quality {
            tasks: self.tasks,
            compared: self.ratios.len() as u64,
            ratio,
            qoe: quantile(&errors, 0.9),
        }
    }
}

/// Returns the expected work of a task that has run for longer than `expected`: it is expected to go on
/// for as long as it has exceeded that.
pub(crate) fn beyond(expected: Span, elapsed: Span) -> Span {
    let beyond_s = (elapsed.secs() - expected.secs()).max(elapsed.secs() * OVERDUE);
    Span::from_secs_f64(elapsed.secs() + beyond_s)
}

/// Returns the work of a task over its estimate; either counts as at least a millisecond.
pub(crate) fn ratio(work: Span, estimate: Span) -> f64 {
    work.secs().max(1e-3) / estimate.secs().max(1e-3)
}

/// Returns the standard deviation of the logarithms of these sorted values, by their middle 80 %.
fn spread(sorted: &[f32]) -> f64 {
    let middle = quantile(sorted, 0.9).zip(quantile(sorted, 0.1));
    middle.map_or(0.0, |(high, low)| {
        (high.max(1e-3) / low.max(1e-3)).ln() / MIDDLE
    })
}

fn insert(sorted: &mut Vec<f32>, value: f32) {
    sorted.insert(
        sorted.partition_point(|known| known.total_cmp(&value).is_lt()),
        value,
    );
}

fn remove(sorted: &mut Vec<f32>, value: f32) {
    let at = sorted.partition_point(|known| known.total_cmp(&value).is_lt());
    if at < sorted.len() {
        sorted.remove(at);
    }
}

/// Returns the quantile of this part, interpolated; `None` without values.
fn quantile(sorted: &[f32], part: f64) -> Option<f64> {
    let place = part * sorted.len().checked_sub(1)? as f64;
    Some(at_place(sorted, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(secs: f64) -> Span {
        Span::from_secs_f64(secs)
    }

    fn known(ratios: &[f64]) -> EstimateSource {
        let mut source = EstimateSource::default();
        for ratio in ratios {
            source.observe(JobId(1), Some(s(100.0)), ObservedWork::all(100.0 * ratio));
        }
        source
    }

    #[test]
    fn an_estimate_is_taken_as_it_is_until_tasks_say_otherwise() {
        let source = EstimateSource::default();
        assert_eq!(source.corrected(Some(s(50.0))), Some(s(50.0)));
        assert_eq!(source.corrected(None), None);
        let half = known(&[0.5; 10]);
        assert_eq!(half.corrected(Some(s(100.0))), Some(s(75.0)));
    }

    #[test]
    fn estimates_of_a_low_estimator_are_corrected_upwards() {
        let low = known(&[2.0; 490]);
        let found = low
            .corrected(Some(s(10.0)))
            .expect("it was estimated")
            .secs();
        assert!((found - 20.0).abs() < 0.3, "{found}");
    }

    #[test]
    fn a_corrected_estimate_barely_exceeds_the_longest_run() {
        for (tasks, most_s) in [(64, 200.0), (640, 110.0)] {
            let mut source = known(&vec![1.0; tasks]);
            source.longest_estimate_s = 1e6;
            assert_eq!(source.corrected(Some(s(1e6))), Some(s(most_s)));
        }
    }

    #[test]
    fn an_estimate_above_all_earlier_ones_is_of_a_longer_task() {
        let compared = known(&[1.0; 640]);
        assert_eq!(compared.corrected(Some(s(3_600.0))), Some(s(3_600.0)));

        let mut without = EstimateSource::default();
        (0..640).for_each(|_| without.observe(JobId(1), None, ObservedWork::all(1.0)));
        assert_eq!(without.corrected(Some(s(3_600.0))), Some(s(3_600.0)));
    }

    #[test]
    fn without_an_estimate_most_tasks_of_the_source_took_less() {
        let mut source = EstimateSource::default();
        for work in 1..=101 {
            source.observe(JobId(1), None, ObservedWork::all(f64::from(work)));
        }
        assert_eq!(source.corrected(None), Some(s(81.0)));
        assert_eq!(source.quality().ratio, None);
    }

    #[test]
    fn tasks_past_their_estimate_are_judged_by_others_past_theirs() {
        let source = known(&[[0.5; 20], [2.0; 20], [3.0; 20]].concat());
        let found = |elapsed| {
            source
                .given(Some(s(100.0)), s(elapsed))
                .expect("it was estimated")
                .secs()
        };
        assert!((found(250.0) - 300.0).abs() < 1e-3);
        assert!((found(400.0) - (800.0 - found(1.0))).abs() < 1e-3);
        assert!(found(1.0) <= 200.0);
    }

    #[test]
    fn the_tasks_of_one_job_say_once_how_far_off_an_estimate_is() {
        let doubt = |jobs: u32, tasks: u32| {
            let mut source = EstimateSource::default();
            for job in 1..=jobs {
                for _ in 0..tasks {
                    source.observe(JobId(job), Some(s(100.0)), ObservedWork::all(100.0));
                }
            }
            source.usual(Some(s(100.0))).doubt
        };
        assert!(doubt(1, 100) > 0.8 * UNPROVEN, "{}", doubt(1, 100));
        assert_eq!(doubt(1, 100), doubt(1, 1));
        assert!(doubt(100, 1) < 0.1 * UNPROVEN, "{}", doubt(100, 1));
    }

    #[test]
    fn only_the_latest_tasks_count() {
        let mut source = known(&[0.1; 600]);
        (0..REMEMBERED)
            .for_each(|_| source.observe(JobId(1), Some(s(100.0)), ObservedWork::all(100.0)));
        assert_eq!(source.corrected(Some(s(70.0))), Some(s(70.0)));
        assert_eq!(
            (source.ratios.len(), source.works_s.len()),
            (REMEMBERED, REMEMBERED)
        );
        assert_eq!(source.quality().qoe, Some(0.0));
        assert_eq!(source.quality().tasks, 600 + REMEMBERED as u64);
    }
}
