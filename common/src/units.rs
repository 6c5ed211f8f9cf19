//! The speed of hosts, [`Speed`], and amounts of data as people read them, [`Bytes`].

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Speed of one slot of a host, where 1.0 is the reference host: a dedicated 1.5 GHz processor
/// (Kondo et al. 2004, section 3.1). Always finite and greater than zero; totally ordered, so that
/// it can be a key.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Speed(f64);

/// A number of bytes, formatted for people: `4095 bytes`, `256 MiB`, `1.5 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// The amount from which a larger unit is used: below it, bytes themselves are easy to read.
const LARGE: u64 = 10 << 10;

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < LARGE {
            return write!(f, "{} byte{}", self.0, if self.0 == 1 { "" } else { "s" });
        }

        let mut amount = self.0 as f64 / 1024.0;
        let mut unit = "KiB";
        // What would be rounded to 1,024 of a unit is one of the next.
        for larger in ["MiB", "GiB", "TiB", "PiB", "EiB"] {
            if amount < 1023.95 {
                break;
            }
            amount /= 1024.0;
            unit = larger;
        }
        let text = format!("{amount:.1}");
        write!(f, "{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
    }
}

/// The clock rate, in MHz, of a host of speed 1.0.
pub const REFERENCE_MHZ: f64 = 1_500.0;

/// The speeds that hosts may have, so that sums over all of them stay within their types.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// The error for a number that is no speed a host can have.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not a speed: it must be from 0.000001 to 1000000")]
pub struct BadSpeed(f64);

impl Speed {
    /// The speed of the reference host, 1.0.
    pub const REFERENCE: Speed = Speed(1.0);

    /// Makes the speed of `factor` reference hosts.
    ///
    /// # Errors
    /// If `factor` is not from 1e-6 to 1e6.
    pub fn new(factor: f64) -> Result<Self, BadSpeed> {
        if SPEEDS.contains(&factor) {
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
    fn only_speeds_that_a_host_can_have_exist() {
        for wrong in [0.0, -1.0, 1e-300, 1e33, 1e308, f64::NAN, f64::INFINITY] {
            assert!(Speed::new(wrong).is_err(), "{wrong}");
        }
        assert!(Speed::new(0.5).unwrap() < Speed::REFERENCE);
    }

    #[test]
    fn amounts_of_data_read_in_the_unit_that_fits() {
        let read = |bytes| Bytes(bytes).to_string();
        assert_eq!(
            [0, 1, 10_239].map(read),
            ["0 bytes", "1 byte", "10239 bytes"]
        );
        assert_eq!(
            [10_240, 268_435_456, 1_610_612_736].map(read),
            ["10 KiB", "256 MiB", "1.5 GiB"]
        );
        // The last byte of a unit is not 1,024 of it.
        assert_eq!([(1 << 20) - 1, u64::MAX].map(read), ["1 MiB", "16 EiB"]);
    }
}
