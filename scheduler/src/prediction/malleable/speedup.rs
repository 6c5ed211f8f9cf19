//! The speedup of a job on several hosts: Downey's two families of curves, by average parallelism
//! and its variance (section 2.1). `fit` learns their parameters.

/// A speedup curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speedup {
    parallelism: f64,
    sigma: f64,
}

impl Speedup {
    /// Creates the curve of this average parallelism (at least 1) and variance `sigma` (0 for none;
    /// about the square of the coefficient of variation). `None` if either is out of range.
    pub fn new(parallelism: f64, sigma: f64) -> Option<Self> {
        let fine =
            parallelism.is_finite() && parallelism >= 1.0 && sigma.is_finite() && sigma >= 0.0;
        fine.then_some(Self { parallelism, sigma })
    }

    /// Returns the average parallelism, the bound on the speedup.
    pub fn parallelism(&self) -> f64 {
        self.parallelism
    }

    /// Returns the variance of the parallelism.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// Returns the speedup on this many hosts; 0 on none. Equations 1 and 2.
    pub fn on(&self, hosts: u32) -> f64 {
        let a = self.parallelism;
        let sigma = self.sigma;
        let n = f64::from(hosts);
        if n < 1.0 {
            return 0.0;
        }

        if sigma <= 1.0 {
            if n >= 2.0 * a - 1.0 {
                a
            } else if n >= a {
                a * n / (sigma * (a - 0.5) + n * (1.0 - sigma / 2.0))
            } else {
                a * n / (a + sigma * (n - 1.0) / 2.0)
            }
        } else if n >= a + a * sigma - sigma {
            a
        } else {
            n * a * (sigma + 1.0) / (a + a * sigma - sigma + n * sigma)
        }
    }
}

/// A job that can run on more or fewer hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Malleable {
    /// Its run time on one host, in seconds.
    pub work_s: f64,
    /// Its speedup on several hosts.
    pub speedup: Speedup,
}

impl Malleable {
    /// Returns the run time on this many hosts, in seconds; infinite on none.
    pub fn run_s(&self, hosts: u32) -> f64 {
        self.work_s / self.speedup.on(hosts)
    }

    /// Returns the most hosts that it should have: its average parallelism, rounded up.
    pub fn most(&self) -> u32 {
        self.speedup.parallelism.ceil().min(f64::from(u32::MAX)) as u32
    }
}
