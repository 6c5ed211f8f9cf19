//! Named streams of random numbers: each question about each host and day has its own, so that the
//! answer does not depend on what else is drawn, and days can be made in any order. What is not
//! here: what the numbers mean.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A stream of random numbers.
pub(crate) struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream `name` (the first sixteen bytes count) of this seed, for this day and host.
    pub(crate) fn new(name: &str, seed: u64, day: u32, host: usize) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..12].copy_from_slice(&day.to_le_bytes());
        key[12..16].copy_from_slice(&u32::try_from(host).unwrap_or(u32::MAX).to_le_bytes());
        for (byte, letter) in key[16..].iter_mut().zip(name.bytes()) {
            *byte = letter;
        }
        Stream(ChaCha8Rng::from_seed(key))
    }

    /// Uniform over the numbers strictly between 0 and 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Whether something of this probability happens.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Uniform between `from` and `to`.
    pub(crate) fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    /// Normal, of mean 0 and standard deviation 1 (Box and Muller's transform).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Lognormal with this median, where the logarithm's standard deviation is `sigma`.
    pub(crate) fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }

    /// Weibull.
    pub(crate) fn weibull(&mut self, shape: f64, scale: f64) -> f64 {
        scale * (-self.unit().ln()).powf(shape.recip())
    }
}
