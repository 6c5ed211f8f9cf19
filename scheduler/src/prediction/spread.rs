//! The spread of the work of one job's tasks: a lognormal law, fitted to the tasks that are done
//! and to what the running ones have done so far, which are at least as long (censored
//! observations; Dempster, Laird and Rubin 1977, section 4.2).

use statrs::function::erf::erfc;

/// The observation that counts before any other: its weight, and its standard deviation of the
/// logarithm. Tasks of one job are taken to be alike until they prove not to be.
const PRIOR_WEIGHT: f64 = 1.0;
const PRIOR_SIGMA: f64 = 0.1;
/// The standard deviation that the logarithms of run times of equal tasks have: by what owners leave
/// of their hosts. It is in every prediction, and is taken off what is measured.
const HOSTS_SIGMA: f64 = 0.15;
/// The bounds of the standard deviation of a job's own tasks, and of what few of them leave open: the first
/// tasks that end while others run for long are no reason to expect years.
const MOST_SIGMA: f64 = 1.5;
const MOST_DOUBT: f64 = 1.0;
/// The most running tasks that count for each finished one; more of them count as so many together.
const RUNNING_PER_DONE: f64 = 2.0;
/// The passes of the fit; further ones change nothing that matters.
const PASSES: u32 = 12;

/// The sums over the logarithms of finished tasks' work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogSums {
    /// The number of tasks.
    pub(crate) count: f64,
    sum: f64,
    squares: f64,
}

impl LogSums {
    /// Adds a finished task.
    pub(crate) fn add(&mut self, work_s: f64) {
        let log = work_s.max(f64::MIN_POSITIVE).ln();
        self.count += 1.0;
        self.sum += log;
        self.squares += log * log;
    }
}

/// The law of the work of a job's tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WorkLaw {
    mu: f64,
    /// The standard deviation of the logarithm.
    pub(crate) sigma: f64,
    /// The number of finished tasks that it stands on.
    count: f64,
}

impl WorkLaw {
    /// Fits the law to finished tasks, and to running ones that have done this much so far; `None`
    /// where none has finished, or where they are as alike as equal ones.
    pub(crate) fn fit(done: &LogSums, running_s: &[f64]) -> Option<Self> {
        if done.count == 0.0 {
            return None;
        }

        let prior = PRIOR_WEIGHT * PRIOR_SIGMA * PRIOR_SIGMA;
        let moments = |count: f64, sum: f64, squares: f64| {
            let mu = sum / count;
            let variance = (squares - count * mu * mu).max(0.0) + prior;
            (mu, (variance / (count + PRIOR_WEIGHT)).sqrt())
        };
        let (mut mu, mut sigma) = moments(done.count, done.sum, done.squares);
        let begun = running_s.iter().copied().filter(|work_s| *work_s > 0.0);
        let begun: Vec<f64> = begun.map(f64::ln).collect();
        let weight = (RUNNING_PER_DONE * done.count / begun.len() as f64).min(1.0);

        for _ in 0..PASSES {
            let (mut sum, mut squares) = (done.sum, done.squares);
            for log in &begun {
                let z = (log - mu) / sigma;
                let beyond = sigma * hazard(z);
                sum += weight * (mu + beyond);
                squares += weight * (mu * mu + sigma * sigma + beyond * (log + mu));
            }
            let count = done.count + weight * begun.len() as f64;
            (mu, sigma) = moments(count, sum, squares);
        }

        let own = sigma * sigma - HOSTS_SIGMA * HOSTS_SIGMA;
        (own > 0.0).then(|| Self {
            mu,
            sigma: own.sqrt().min(MOST_SIGMA),
            count: done.count,
        })
    }

    /// Returns the standard deviation of the logarithm of `mean_s`, as it stands on few tasks.
    pub(crate) fn doubt(&self) -> f64 {
        let doubt = self.sigma * ((1.0 + 0.5 * self.sigma * self.sigma) / self.count).sqrt();
        doubt.min(MOST_DOUBT)
    }

    /// Returns the mean work of a task.
    pub(crate) fn mean_s(&self) -> f64 {
        (self.mu + 0.5 * self.sigma * self.sigma).exp()
    }
}

/// Returns the density of the standard normal distribution divided by its upper tail at `z`.
fn hazard(z: f64) -> f64 {
    // The tail is as good as its asymptote there, and too small to divide by later.
    if z > 8.0 {
        return z + 1.0 / z;
    }
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    density / (0.5 * erfc(z / std::f64::consts::SQRT_2))
}

/// The time that a task takes on its slot if nothing interferes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TaskTime {
    /// The time from now until it starts.
    pub(crate) start_s: f64,
    /// The time for which it has run.
    pub(crate) ran_s: f64,
    /// The mean time of all of it.
    pub(crate) whole_s: f64,
}

impl TaskTime {
    /// Returns the time for which it has run, as a multiple of the mean one.
    pub(crate) fn done(&self) -> f64 {
        self.ran_s / self.whole_s
    }

    /// Returns the time for which it will have run by `at_s`, as a multiple of the mean one.
    pub(crate) fn ratio(&self, at_s: f64) -> f64 {
        (self.ran_s + (at_s - self.start_s).max(0.0)) / self.whole_s
    }
}

/// Returns the probability that a task is longer than `ratio` times the mean, if it is longer than
/// `begun` times the mean.
pub(crate) fn unended(begun: f64, ratio: f64, sigma: f64) -> f64 {
    if ratio <= begun {
        return 1.0;
    }
    let longer_than = |ratio: f64| {
        let log = ratio.ln() + 0.5 * sigma * sigma;
        0.5 * erfc(log / (sigma * std::f64::consts::SQRT_2))
    };

    let before = longer_than(begun);
    if before < f64::MIN_POSITIVE {
        // Beyond all that is known: it takes a tenth of its run time more.
        return ((begun - ratio) / (0.1 * begun)).exp();
    }
    longer_than(ratio) / before
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(works_s: impl IntoIterator<Item = f64>) -> LogSums {
        let mut sums = LogSums::default();
        works_s.into_iter().for_each(|work_s| sums.add(work_s));
        sums
    }

    /// Lognormal quantiles of median 100 s: as good as random ones.
    fn works_s(sigma: f64, count: u32) -> Vec<f64> {
        let normal = |at: u32| {
            let part = (f64::from(at) + 0.5) / f64::from(count);
            -std::f64::consts::SQRT_2 * statrs::function::erf::erfc_inv(2.0 * part)
        };
        (0..count)
            .map(|at| 100.0 * (sigma * normal(at)).exp())
            .collect()
    }

    #[test]
    fn the_fit_finds_the_law_of_finished_tasks() {
        for sigma in [0.3, 0.6, 1.0] {
            let law = WorkLaw::fit(&sums(works_s(sigma, 400)), &[]).expect("tasks are done");
            let measured = law.sigma.hypot(HOSTS_SIGMA);
            assert!((measured / sigma - 1.0).abs() < 0.03, "{law:?}");
            let mean_s = 100.0 * (0.5 * sigma * sigma).exp();
            assert!((law.mean_s() / mean_s - 1.0).abs() < 0.03, "{law:?}");
        }
    }

    #[test]
    fn tasks_that_still_run_count_as_longer_ones() {
        // After 100 s the shorter half of all is done, and the others have run for so long.
        let all_s = works_s(0.6, 400);
        let (done_s, others_s): (Vec<f64>, Vec<f64>) = all_s.iter().partition(|s| **s < 100.0);
        let censored_s = vec![100.0; others_s.len()];

        let biased = WorkLaw::fit(&sums(done_s.clone()), &[]).expect("tasks are done");
        assert!(biased.mean_s() < 75.0, "{biased:?}");
        let law = WorkLaw::fit(&sums(done_s), &censored_s).expect("tasks are done");
        assert!((law.mean_s() / 119.7 - 1.0).abs() < 0.1, "{law:?}");
        assert!((law.sigma / 0.6 - 1.0).abs() < 0.15, "{law:?}");
    }

    #[test]
    fn one_quick_task_is_no_reason_to_expect_days_of_those_that_run() {
        let law = WorkLaw::fit(&sums([1.0]), &[60.0; 20]).expect("they differ");
        assert!((60.0..600.0).contains(&law.mean_s()), "{law:?}");
        assert!(law.doubt() <= 1.0, "{law:?}");
        let law = WorkLaw::fit(&sums([0.05, 60.0]), &[]).expect("they differ");
        assert!(law.mean_s() < 60.0 && law.doubt() <= 1.0, "{law:?}");
    }

    #[test]
    fn tasks_that_are_alike_have_no_spread_of_their_own() {
        assert_eq!(WorkLaw::fit(&sums([100.0; 30]), &[10.0, 50.0, 90.0]), None);
        let hosts = works_s(HOSTS_SIGMA, 100);
        assert_eq!(WorkLaw::fit(&sums(hosts), &[10.0, 50.0, 90.0]), None);
        assert_eq!(WorkLaw::fit(&LogSums::default(), &[5.0]), None);
    }

    #[test]
    fn a_task_that_has_run_for_long_has_longer_to_go() {
        let half = |begun: f64| {
            let due = |more: &f64| unended(begun, begun + more, 1.0) < 0.5;
            (1..10_000)
                .map(|at| 0.01 * f64::from(at))
                .find(due)
                .expect("it ends")
        };
        assert!((half(0.0) - f64::exp(-0.5)).abs() < 0.02);
        assert!(half(3.0) > half(1.0));
        assert_eq!(unended(0.0, 0.0, 1.0), 1.0);
        assert!(unended(1e30, 2e30, 1.0) < 1e-3);
    }
}
