//! Named streams of random numbers ([`RandomStream`]). Each question about each host and day has its own
//! stream, so that the answer does not depend on other draws, and days can be made in any order.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A stream of random numbers.
pub struct RandomStream(ChaCha8Rng);

impl RandomStream {
    /// Creates the stream `name` (the first sixteen bytes count) of this seed, for this day and
    /// host.
    pub fn new(name: &str, seed: u64, day: u32, host: usize) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..12].copy_from_slice(&day.to_le_bytes());
        key[12..16].copy_from_slice(&u32::try_from(host).unwrap_or(u32::MAX).to_le_bytes());
        for (byte, letter) in key[16..].iter_mut().zip(name.bytes()) {
            *byte = letter;
        }
        RandomStream(ChaCha8Rng::from_seed(key))
    }

    /// Draws uniformly from the numbers strictly between 0 and 1.
    pub fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Draws whether an event of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Draws uniformly between `from` and `to`.
    pub fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    /// Draws from the normal law of mean 0 and standard deviation 1 (Box and Muller's transform).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Draws from the lognormal law of this median, with `sigma` the standard deviation of the
    /// logarithm.
    pub fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }

    /// Draws from the Weibull law.
    pub fn weibull(&mut self, shape: f64, scale: f64) -> f64 {
        scale * (-self.unit().ln()).powf(shape.recip())
    }
}
