//! The pauses before the next try ([`Backoff`]): full jitter, so that ten thousand workers do not
//! come back at once.

use std::time::Duration;

use rand::RngExt;

/// Draws a time evenly from zero to the bound.
pub fn draw(bound: Duration) -> Duration {
    bound.mul_f64(rand::rng().random_range(0.0..1.0))
}

/// Waiting times that double up to a cap, each drawn evenly from zero to the present bound.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    bound: Duration,
}

impl Backoff {
    /// Makes pauses with a bound from `base` up to `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            bound: base,
        }
    }

    /// Keeps the pauses below another bound, too.
    pub fn at_most(&mut self, cap: Duration) {
        self.cap = self.cap.min(cap);
        self.bound = self.bound.min(cap);
    }

    /// Returns the pause before the next try, and doubles the bound.
    pub fn delay(&mut self) -> Duration {
        let delay = draw(self.bound);
        self.bound = (self.bound * 2).min(self.cap);
        delay
    }

    /// Resets the bound to `base`, after a try that worked.
    pub fn reset(&mut self) {
        self.bound = self.base;
    }
}

impl Default for Backoff {
    /// Returns pauses with a bound from a tenth of a second up to half a minute.
    fn default() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_stay_below_a_bound_that_doubles_up_to_the_cap() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(50));
        for bound in [10, 20, 40, 50, 50] {
            assert!(backoff.delay() <= Duration::from_millis(bound));
        }
        backoff.reset();
        assert!(backoff.delay() <= Duration::from_millis(10));
    }
}
