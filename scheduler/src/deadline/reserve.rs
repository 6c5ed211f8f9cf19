//! The calendar's reservations for tasks whose limits are learned: each task's limit, and the
//! expected second and third attempts. The limits are computed in `prediction::lessons`.

use crate::state::small_work::Remembered;
use common::{JobId, Span};

use crate::deadline::policing::fewest;
use crate::policy::LimitSource;
use crate::policy::catalogue::policy;
use crate::prediction::lessons::{LearnedLimits, Lessons};
use crate::prediction::reservation::Sequence;
use crate::prediction::widths::of_ranks;
use crate::protocol::event::Bag;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// The most tasks of a bag for which the number of second attempts that fit is searched.
const TRIED: u64 = 1_000;

impl Scheduler {
    /// Returns the present rate of small work per slot.
    pub(crate) fn small_work(&self) -> f64 {
        self.foresight
            .small
            .rate(self.hosts.index.all.usable_slots, self.now)
    }

    /// Returns the `Lessons` of past runs for a bag's tasks, where its policy uses them.
    pub(crate) fn past_lessons(&self, bag: &Bag, limits: LimitSource) -> Lessons {
        if !matches!(
            limits,
            LimitSource::Learned(_) | LimitSource::Windowed { .. }
        ) || bag.rules.checkpoint
        {
            return Lessons::default();
        }

        // The run times depend on the number of ranks, which is open where the gang can choose.
        let of = match bag.ranks {
            None => bag.terms.estimator.clone(),
            Some(ranks) if ranks.most == Some(ranks.least) => {
                of_ranks(&bag.terms.estimator, ranks.least)
            }
            Some(_) => return Lessons::default(),
        };
        let of = &of;
        let runs = &self.foresight.experience.runs;
        let version = runs.observed();
        let zeta = self.small_work();
        let mut remembered = self.foresight.remembered.borrow_mut();
        let same = (remembered.runs, remembered.zeta) == (version, zeta.to_bits());

        if let Some((_, lessons)) = remembered
            .lessons
            .as_ref()
            .filter(|(known, _)| same && known == of)
        {
            return lessons.clone();
        }

        let lessons = Lessons::of(runs.of(of), zeta);
        *remembered = Remembered {
            runs: version,
            zeta: zeta.to_bits(),
            lessons: Some((of.clone(), lessons.clone())),
        };

        lessons
    }

    /// Returns the [`LearnedLimits`] that a bag's attempts would get, if its policy learns them
    /// from past runs and it has a deadline or ranks.
    pub fn limits_offered(&self, bag: &Bag) -> Option<LearnedLimits> {
        let limits = policy(&bag.rules.policy)?.limits;
        let learned = matches!(limits, LimitSource::Learned(_))
            && (bag.terms.deadline.is_some() || bag.ranks.is_some());
        learned.then(|| self.past_lessons(bag, limits).told())
    }

    /// Returns the [`LearnedLimits`] of the job's attempts, if they are learned and it has a
    /// promise or is a gang.
    pub fn learned_limits(&self, id: JobId) -> Option<LearnedLimits> {
        let job = self.jobs.table.get(&id)?;
        let learned = matches!(job.policy.limits, LimitSource::Learned(_)) && job.reserves();
        learned.then(|| job.lessons.told())
    }
}

impl Job {
    /// Returns the time that the calendar reserves for an attempt at this task, as work in seconds
    /// on a host of speed 1, where that is its limit.
    pub(crate) fn reserved(&self, index: u32) -> Option<Span> {
        if !matches!(self.policy.limits, LimitSource::Learned(_))
            || self.promise.is_none()
            || self.rules.checkpoint
        {
            return None;
        }
        let limit_s = self.lessons.limit_s(self.killed_s(index));
        limit_s.map(Span::from_secs_f64)
    }

    /// Returns the expected second and later attempts of its tasks, each with its reserved time.
    pub(crate) fn spares(&self) -> Vec<Span> {
        let Some(sequence) = self
            .lessons
            .sequence()
            .filter(|_| self.reserved(0).is_some())
        else {
            return Vec::new();
        };

        let tried = self
            .records
            .values()
            .filter(|record| record.killed_s == 0.0)
            .count();
        spares(sequence, self.fresh.len() + tried as u64)
            .into_iter()
            .flat_map(|(limit, number)| vec![limit; number])
            .collect()
    }
}

/// Returns the expected numbers of second, third and later attempts of `tasks` tasks, with their
/// limits.
pub(crate) fn spares(sequence: &Sequence, tasks: u64) -> Vec<(Span, usize)> {
    let later = sequence.limits.iter().skip(1).zip(&sequence.done);
    let number = |(limit, done): (&f64, &f64)| {
        (
            Span::from_secs_f64(*limit),
            (tasks as f64 * (1.0 - done)).round().max(0.0) as usize,
        )
    };
    later
        .map(number)
        .take_while(|(_, number)| *number > 0)
        .collect()
}

/// Spreads these spare attempts evenly over the tasks, so that a part of the tasks has its part of
/// them.
pub(crate) fn spread(tasks: &[u32], spares: &[(Span, usize)]) -> Vec<(u32, Span)> {
    let mut all = Vec::new();
    for (limit, number) in spares {
        let at = |nth: usize| (2 * nth + 1) * tasks.len() / (2 * number);
        all.extend((0..*number).filter_map(|nth| Some((*tasks.get(at(nth))?, *limit))));
    }
    all
}

/// Returns the largest number of second attempts that `fits`; just `planned` for more than
/// [`TRIED`] tasks.
pub(crate) fn most_second(tasks: u64, planned: usize, fits: impl Fn(usize) -> bool) -> usize {
    if tasks > TRIED {
        return planned;
    }

    let too_many = fewest(planned, tasks as usize + 1, |number| !fits(number));
    planned.max(too_many - 1)
}

/// Returns the probability that at most `most` of `tasks` tasks fail, each with probability `q`.
pub(crate) fn at_most(tasks: u64, q: f64, most: usize) -> f64 {
    if q <= 0.0 || most as u64 >= tasks {
        return 1.0;
    }
    if q >= 1.0 {
        return 0.0;
    }

    let mut ln_term = tasks as f64 * (-q).ln_1p();
    let mut sum = 0.0;
    for failed in 0..=most {
        sum += ln_term.exp();
        let left = tasks as f64 - failed as f64;
        let next = failed as f64 + 1.0;
        ln_term += (left / next * q / (1.0 - q)).ln();
    }

    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use common::Time;

    use super::*;
    use crate::state::small_work::SmallWork;

    fn s(secs: f64) -> Span {
        Span::from_secs_f64(secs)
    }

    #[test]
    fn spare_attempts_are_as_many_as_tasks_should_be_killed_and_lie_evenly() {
        let sequence = Sequence {
            cost: 0.0,
            points: vec![1, 2, 3],
            limits: vec![10.0, 20.0, 40.0],
            done: vec![0.9, 0.99, 1.0],
        };
        assert_eq!(spares(&sequence, 1), []);
        assert_eq!(spares(&sequence, 20), [(s(20.0), 2)]);
        assert_eq!(spares(&sequence, 100), [(s(20.0), 10), (s(40.0), 1)]);

        let tasks: Vec<u32> = (1..=20).collect();
        assert_eq!(
            spread(&tasks, &[(s(20.0), 2)]),
            [(6, s(20.0)), (16, s(20.0))]
        );
        assert_eq!(spread(&[7], &[(s(20.0), 1)]), [(7, s(20.0))]);
    }

    #[test]
    fn spare_attempts_suffice_with_the_binomial_probability() {
        assert!((at_most(3, 0.5, 1) - 0.5).abs() < 1e-12);
        assert!((at_most(1, 0.1, 0) - 0.9).abs() < 1e-12);
        assert_eq!(
            (at_most(5, 0.3, 5), at_most(5, 0.0, 0), at_most(5, 1.0, 4)),
            (1.0, 1.0, 0.0)
        );
        let half = at_most(100_000, 0.1, 10_000);
        assert!((0.5..0.51).contains(&half), "{half}");
        assert_eq!(most_second(10, 2, |number| number <= 7), 7);
        assert_eq!(most_second(10, 2, |_| true), 10);
        assert_eq!(most_second(5_000, 40, |_| true), 40);
    }

    #[test]
    fn small_work_has_a_rate_that_fades() {
        let at = |secs: u64| Time(Span::from_secs(secs).0);
        let mut small = SmallWork::default();
        assert_eq!(small.rate(2, at(0)), 0.0);
        (1..=3_600).for_each(|second| small.note(s(1.0), at(10_000 + second)));

        let rate = small.rate(2, at(13_600));
        assert!((0.25..0.35).contains(&rate), "{rate}");
        assert!(small.rate(2, at(16_600)) < rate);
        assert_eq!(small.rate(2, at(50_000)), 0.0);
        small.note(s(10_000.0), at(50_000));
        assert_eq!(
            small.rate(2, at(50_000)),
            0.0,
            "what takes hours fills no gap"
        );
    }
}
