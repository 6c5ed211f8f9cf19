//! The speed of hosts, [`Speed`].

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Speed of one slot of a host, where 1.0 is the reference host: a dedicated 1.5 GHz processor
/// (Kondo et al. 2004, section 3.1). Always finite and greater than zero; totally ordered, so that
/// it can be a key.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Speed(f64);

/// The clock rate, in MHz, of a host of speed 1.0.
pub const REFERENCE_MHZ: f64 = 1_500.0;

/// The error for a number that is not finite and greater than zero.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not a speed: it must be finite and greater than zero")]
pub struct BadSpeed(f64);

impl Speed {
    /// The speed of the reference host, 1.0.
    pub const REFERENCE: Speed = Speed(1.0);

    /// Makes the speed of `factor` reference hosts.
    ///
    /// # Errors
    /// If `factor` is not finite or not greater than zero.
    pub fn new(factor: f64) -> Result<Self, BadSpeed> {
        if factor.is_finite() && factor > 0.0 {
            Ok(Speed(factor))
        } else {
            Err(BadSpeed(factor))
        }
    }

    /// Returns the factor against [`Speed::REFERENCE`].
    pub fn factor(self) -> f64 {
        self.0
    }
}

impl Eq for Speed {}

impl Ord for Speed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Speed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl TryFrom<f64> for Speed {
    type Error = BadSpeed;
    fn try_from(factor: f64) -> Result<Self, BadSpeed> {
        Speed::new(factor)
    }
}

impl From<Speed> for f64 {
    fn from(s: Speed) -> f64 {
        s.0
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_positive_speeds_exist() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Speed::new(wrong).is_err(), "{wrong}");
        }
        assert!(Speed::new(0.5).unwrap() < Speed::REFERENCE);
    }
}
