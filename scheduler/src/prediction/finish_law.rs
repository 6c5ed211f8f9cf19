//! The distribution of a job's completion time: the job is done when the last of its attempts is,
//! those that run and those still to come. Each has a [`CompletionLaw`]; the job is done by a time
//! with the product of their probabilities. `forecast::finish` gathers them.

use smallvec::SmallVec;

use crate::prediction::completion_law::CompletionLaw;
use crate::prediction::experience::Curves;
use crate::prediction::spread::{TaskTime, unended};

/// The end of one task. Times are in seconds from now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PendingEnd {
    /// The laws of its attempts, at least one.
    pub(crate) laws: Laws,
    /// The time that another attempt takes from the moment at which this one's host is lost.
    pub(crate) again_s: f64,
    /// The time by which a copy could be done, if the policy copies tasks that are late.
    pub(crate) copy_s: f64,
    /// The mean run time of that copy, where it is known that the attempts will be late.
    pub(crate) late_task_s: Option<f64>,
    /// Whether the policy copies a task when its attempt is suspended.
    pub(crate) copied: bool,
    /// The spread of the tasks' work, if they differ: the standard deviation of its logarithm.
    pub(crate) sigma: Option<f64>,
}

/// The laws of one task's attempts, mostly one.
pub(crate) type Laws = SmallVec<[AttemptEnd; 1]>;

/// The end of one attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AttemptEnd {
    /// The law of its completion if its task takes its mean time.
    pub(crate) law: CompletionLaw,
    /// The time that the task takes; `None` where that is known.
    pub(crate) time: Option<TaskTime>,
}

impl PendingEnd {
    /// Returns the time at which the first attempt is done if nothing interferes.
    fn end_s(&self) -> f64 {
        let ends_s = self.laws.iter().map(|end| end.law.end_s);
        ends_s.fold(f64::INFINITY, f64::min)
    }

    /// Returns the probability that the task is not done at `at_s`.
    fn undone(&self, at_s: f64, curves: &Curves) -> f64 {
        let of = |end: &AttemptEnd, at_s: f64| {
            (end.law).undone_with_restarts(at_s, self.again_s, self.copied, curves)
        };
        let copied = at_s >= self.copy_s;
        let uncopied = if copied {
            // A copy may be held up as well, and is copied again then.
            let late_s = at_s - self.copy_s;
            COPY_LATE * (-late_s / self.again_s.max(1e-3)).exp()
        } else {
            1.0
        };

        let times = || self.laws.iter().filter_map(|end| end.time);
        let Some((sigma, _)) = self.sigma.zip(times().next()) else {
            let own: f64 = self.laws.iter().map(|end| of(end, at_s)).product();
            return own * uncopied;
        };

        // The task is as long on each host: the attempt that is farthest decides, also one yet to come
        // where the others are known to be late. Otherwise a copy helps only against what holds an
        // attempt up.
        let begun = times().map(|time| time.done()).fold(0.0, f64::max);
        let ratios = times().map(|time| time.ratio(at_s));
        let of_copy = self
            .late_task_s
            .map(|task_s| 1.0 + (at_s - self.copy_s) / task_s);
        let farthest = ratios.chain(of_copy).fold(0.0, f64::max);
        let unended = unended(begun, farthest, sigma);

        let ended = |end: &AttemptEnd| of(end, at_s.max(end.law.end_s));
        let held_up: f64 = self.laws.iter().map(ended).product();
        unended + (1.0 - unended) * held_up * uncopied
    }
}

/// The probability that a copy is held up too.
const COPY_LATE: f64 = 0.08;

/// The most ends whose probabilities are multiplied one by one. Of more, the latest count
/// themselves, and equally many of the others for all of those.
const ONE_BY_ONE: usize = 64;

/// The distribution of the completion time of all of a job's tasks.
#[derive(Debug, Clone)]
pub(crate) struct FinishLaw<'a> {
    curves: &'a Curves,
    /// Ends with the number of tasks that each counts for.
    ends: Vec<(PendingEnd, f64)>,
}

impl<'a> FinishLaw<'a> {
    /// Creates the law of a job with these ends; `None` without any.
    pub(crate) fn new(mut ends: Vec<PendingEnd>, curves: &'a Curves) -> Option<Self> {
        ends.sort_by(|a, b| b.end_s().total_cmp(&a.end_s()));
        let latest = ends.len().min(ONE_BY_ONE / 2);
        let (latest, others) = ends.split_at(latest);

        let stride = others.len().div_ceil(ONE_BY_ONE / 2).max(1);
        let sample = others
            .chunks(stride)
            .map(|alike| (alike[alike.len() / 2].clone(), alike.len() as f64));
        let ends: Vec<_> = latest
            .iter()
            .map(|end| (end.clone(), 1.0))
            .chain(sample)
            .collect();
        (!ends.is_empty()).then_some(Self { curves, ends })
    }

    /// Returns the probability that everything is done by `at_s`.
    pub(crate) fn done(&self, at_s: f64) -> f64 {
        let mut done = 1.0;
        for (end, count) in &self.ends {
            let own = 1.0 - end.undone(at_s, self.curves);
            done *= if *count == 1.0 { own } else { own.powf(*count) };
            if done <= 0.0 {
                break;
            }
        }
        done
    }

    /// Returns the time by which everything is done with the probability `part`, to a percent.
    pub(crate) fn quantile_s(&self, part: f64) -> f64 {
        let (mut low_s, mut high_s) = (0.0, 1e-3);
        while self.done(high_s) < part {
            low_s = high_s;
            high_s *= 2.0;
            if high_s > FAR_S {
                return f64::INFINITY;
            }
        }

        while high_s - low_s > 0.01 * high_s {
            let middle_s = 0.5 * (low_s + high_s);
            if self.done(middle_s) < part {
                low_s = middle_s;
            } else {
                high_s = middle_s;
            }
        }
        high_s
    }
}

/// A time beyond every prediction, in seconds: a century.
const FAR_S: f64 = 3.2e9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::completion_law::AttemptHost;
    use crate::prediction::experience::{Experience, Temper};
    use crate::prediction::survival::LifeTable;

    /// Returns the curves of hosts that fail and are suspended at these rates a second, for a
    /// hundred seconds.
    fn curves(failure: f64, suspension: f64) -> Curves {
        Experience {
            failure: LifeTable::prior(failure, 1.0),
            suspension: LifeTable::prior(suspension, 1.0),
            resumption: LifeTable::prior(0.01, 1.0),
            ..Experience::default()
        }
        .common()
        .curves()
    }

    fn end(end_s: f64, copy_s: f64, curves: &Curves) -> PendingEnd {
        let host = AttemptHost {
            up_s: 3_600.0,
            owner_s: 3_600.0,
            suspended: false,
            temper: Temper::COMMON,
        };
        PendingEnd {
            laws: Laws::from_elem(
                AttemptEnd {
                    law: CompletionLaw::of(end_s, host, curves),
                    time: None,
                },
                1,
            ),
            again_s: 50.0,
            copy_s,
            late_task_s: None,
            copied: false,
            sigma: None,
        }
    }

    fn law(ends: &[f64], copy_s: f64, curves: &Curves) -> [f64; 3] {
        let ends = ends.iter().map(|end_s| end(*end_s, copy_s, curves));
        let law = FinishLaw::new(ends.collect(), curves).expect("there are ends");
        [0.1, 0.5, 0.9].map(|part| law.quantile_s(part))
    }

    #[test]
    fn undisturbed_tasks_are_done_with_the_last_of_them() {
        let calm = curves(1e-9, 1e-9);
        for quantile_s in law(&[10.0, 80.0, 40.0], f64::INFINITY, &calm) {
            assert!((80.0..=81.0).contains(&quantile_s), "{quantile_s}");
        }
    }

    #[test]
    fn a_lost_attempt_is_followed_by_another_one() {
        // The host fails within the 100 s with a probability of 63 %, at any time.
        let failing = curves(0.01, 1e-9);
        let [low_s, middle_s, high_s] = law(&[100.0], f64::INFINITY, &failing);

        assert!((50.0..=101.0).contains(&low_s), "{low_s}");
        assert!((100.0..=102.0).contains(&middle_s), "{middle_s}");
        let exact_s = 100.0 + 50.0 - 100.0 * 0.1 / (1.0 - f64::exp(-1.0));
        assert!(
            (high_s - exact_s).abs() < 0.02 * exact_s,
            "{high_s}, not {exact_s}"
        );
    }

    #[test]
    fn a_suspended_attempt_is_late_by_what_its_owner_stays_or_by_a_copy() {
        let disturbed = curves(1e-9, 0.01);
        let [_, _, alone_s] = law(&[100.0], f64::INFINITY, &disturbed);
        let exact_s = 100.0 + 100.0 * ((1.0 - f64::exp(-1.0)) / 0.1_f64).ln();
        assert!(
            (alone_s - exact_s).abs() < 0.05 * exact_s,
            "{alone_s}, not {exact_s}"
        );

        let [_, _, copied_s] = law(&[100.0], 60.0, &disturbed);
        assert!(copied_s < 0.8 * alone_s, "{copied_s}");
    }

    #[test]
    fn many_tasks_end_later_than_few_and_a_sample_of_them_stands_for_all() {
        let usual = curves(1e-4, 1e-3);
        let mut last_s = 0.0;
        for tasks in [1, 8, 64, 512, 4_096] {
            let ends: Vec<f64> = (0..tasks).map(|at| 100.0 - f64::from(at % 7)).collect();
            let [_, middle_s, _] = law(&ends, f64::INFINITY, &usual);
            assert!(middle_s >= last_s, "{tasks}: {middle_s} after {last_s}");
            last_s = middle_s;
        }

        let alike = vec![100.0; 1_000];
        let [_, sampled_s, _] = law(&alike, f64::INFINITY, &usual);
        let one = 1.0 - end(100.0, f64::INFINITY, &usual).undone(sampled_s, &usual);
        assert!(
            (one.powf(1_000.0) - 0.5).abs() < 0.05,
            "the middle of a thousand is the middle of each to that power"
        );
    }
}
