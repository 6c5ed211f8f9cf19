//! The fit of a job's work, average parallelism and variance to runs on different numbers of hosts.
//! The speedup curves live in `speedup`.

use super::speedup::{Malleable, Speedup};

/// The standard deviation of the logarithm of run times around their curve.
const NOISE: f64 = 0.1;
/// The prior's standard deviations: of the logarithm of the parallelism, and of sigma around
/// [`SIGMA`].
const PARALLELISM_SD: f64 = 1.5;
const SIGMA_SD: f64 = 1.0;
const SIGMA: f64 = 1.0;
/// The largest sigma in the search; its `STEPS` per round, and its `ROUNDS`.
const SIGMA_MOST: f64 = 4.0;
const STEPS: u32 = 40;
const ROUNDS: u32 = 3;

/// The user's statements on a job; each may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Guess {
    /// Its work on one host, in seconds.
    pub work_s: Option<f64>,
    /// Its average parallelism.
    pub parallelism: Option<f64>,
    /// The variance of its parallelism.
    pub sigma: Option<f64>,
}

/// Fits the job that explains these runs, each a number of hosts and its seconds, and is close to
/// `guess`. Runs on few different numbers of hosts tell little of parallelism; then it stays near
/// `guess`, or near `widest`, the most hosts that the job may have. `None` where neither a run nor
/// `guess` gives the work.
pub fn fit(runs: &[(u32, f64)], guess: &Guess, widest: u32) -> Option<Malleable> {
    let runs: Vec<(u32, f64)> = runs
        .iter()
        .copied()
        .filter(|(hosts, run_s)| *hosts > 0 && run_s.is_finite() && *run_s > 0.0)
        .collect();
    let usual = guess
        .parallelism
        .unwrap_or_else(|| f64::from(widest))
        .max(1.0);
    let sigma = guess.sigma.unwrap_or(SIGMA).max(0.0);

    if runs.is_empty() {
        return Some(Malleable {
            work_s: guess.work_s?,
            speedup: Speedup::new(usual, sigma)?,
        });
    }

    let most = runs.iter().map(|run| run.0).max().unwrap_or(1).max(widest);
    let mut search = FitSearch {
        runs: &runs,
        usual,
        sigma,
        ln_parallelism: (0.0, (4.0 * f64::from(most)).max(usual).ln()),
        sigmas: (0.0, SIGMA_MOST.max(sigma)),
    };

    let mut best = None;
    for _ in 0..ROUNDS {
        let found = search.best()?;
        search.narrow(&found);
        best = Some(found);
    }

    best.map(|found| found.job)
}

struct FitSearch<'a> {
    runs: &'a [(u32, f64)],
    usual: f64,
    sigma: f64,
    /// The ranges that are searched: logarithms of the parallelism, and sigmas.
    ln_parallelism: (f64, f64),
    sigmas: (f64, f64),
}

struct BestFit {
    job: Malleable,
    misfit: f64,
}

impl FitSearch<'_> {
    fn best(&self) -> Option<BestFit> {
        let at = |range: (f64, f64), step: u32| {
            range.0 + (range.1 - range.0) * f64::from(step) / f64::from(STEPS)
        };
        let places = (0..=STEPS).flat_map(|a| (0..=STEPS).map(move |s| (a, s)));
        let all = places
            .filter_map(|(a, s)| self.one(at(self.ln_parallelism, a).exp(), at(self.sigmas, s)));

        // Among equals the first: least parallelism, then least variance.
        all.reduce(|best, other| {
            if other.misfit.total_cmp(&best.misfit).is_lt() {
                other
            } else {
                best
            }
        })
    }

    /// Returns the best work for this curve, with its misfit.
    fn one(&self, parallelism: f64, sigma: f64) -> Option<BestFit> {
        let speedup = Speedup::new(parallelism.max(1.0), sigma)?;
        let works = || {
            self.runs
                .iter()
                .map(|(hosts, run_s)| (run_s * speedup.on(*hosts)).ln())
        };
        let ln_work = works().sum::<f64>() / self.runs.len() as f64;
        let noise: f64 = works().map(|work| ((work - ln_work) / NOISE).powi(2)).sum();
        let far = ((speedup.parallelism() / self.usual).ln() / PARALLELISM_SD).powi(2);
        let misfit = noise + far + ((sigma - self.sigma) / SIGMA_SD).powi(2);

        Some(BestFit {
            job: Malleable {
                work_s: ln_work.exp(),
                speedup,
            },
            misfit,
        })
    }

    /// Narrows the ranges around the best point.
    fn narrow(&mut self, found: &BestFit) {
        let around = |range: (f64, f64), value: f64| {
            let reach = 2.0 * (range.1 - range.0) / f64::from(STEPS);
            ((value - reach).max(range.0), (value + reach).min(range.1))
        };
        self.ln_parallelism = around(self.ln_parallelism, found.job.speedup.parallelism().ln());
        self.sigmas = around(self.sigmas, found.job.speedup.sigma());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(work_s: f64, parallelism: f64, sigma: f64) -> Malleable {
        Malleable {
            work_s,
            speedup: Speedup::new(parallelism, sigma).unwrap(),
        }
    }

    #[test]
    fn runs_on_several_widths_tell_of_work_and_parallelism() {
        for truth in [
            job(3_600.0, 12.0, 0.5),
            job(90.0, 40.0, 0.0),
            job(10_000.0, 5.0, 1.8),
        ] {
            let runs: Vec<(u32, f64)> = [1, 2, 4, 8, 16, 32].map(|n| (n, truth.run_s(n))).to_vec();
            let found = fit(&[&*runs, &*runs, &*runs].concat(), &Guess::default(), 64).unwrap();
            for hosts in [1, 3, 6, 12, 24, 32] {
                let off = found.run_s(hosts) / truth.run_s(hosts);
                assert!(
                    (0.93..1.07).contains(&off),
                    "{truth:?} on {hosts}: {off}, {found:?}"
                );
            }
        }
    }

    #[test]
    fn one_width_tells_of_the_time_on_it_and_leaves_the_rest_as_it_was_said() {
        let guess = Guess {
            parallelism: Some(10.0),
            sigma: Some(0.5),
            work_s: Some(1.0),
        };
        let found = fit(&[(4, 100.0), (4, 100.0)], &guess, 8).unwrap();
        assert!((found.run_s(4) - 100.0).abs() < 1e-6);
        assert!(
            (found.speedup.parallelism() - 10.0).abs() < 0.5,
            "{found:?}"
        );
    }

    #[test]
    fn a_fit_without_runs_uses_the_guess_or_fails() {
        let guess = Guess {
            work_s: Some(50.0),
            ..Guess::default()
        };
        assert_eq!(fit(&[], &guess, 8), Some(job(50.0, 8.0, SIGMA)));
        assert_eq!(fit(&[], &Guess::default(), 8), None);
        assert_eq!(fit(&[(0, 5.0), (3, f64::NAN)], &Guess::default(), 8), None);
    }
}
