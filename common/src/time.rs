//! Points in time and spans between them, in whole microseconds, as arguments: nothing here reads a
//! clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A point in time: microseconds since an origin that the caller chose (the live master: the Unix
/// epoch as its wall clock showed it when the process started, then counted on by a clock that
/// never steps; the simulator: the trace's start).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub u64);

/// A span of time in microseconds, never negative.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Span(pub u64);

/// Formats a time in ISO 8601, in UTC with microseconds.
pub fn iso(time: Time) -> String {
    let last = Duration::from_secs(253_402_300_799); // the last second of the year 9999
    let since = Duration::from_micros(time.0).min(last);
    humantime::format_rfc3339_micros(UNIX_EPOCH + since).to_string()
}

impl Time {
    /// Makes the time this many seconds after the origin, rounded as by [`Span::from_secs_f64`].
    pub fn from_secs_f64(s: f64) -> Self {
        Time(Span::from_secs_f64(s).0)
    }

    /// Returns the span from `earlier` to this time; zero where `earlier` is later.
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Returns the seconds since the origin.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Span {
    /// The empty span.
    pub const ZERO: Span = Span(0);

    /// Makes a span of whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Span(s * 1_000_000)
    }

    /// Makes a span of whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Span(ms * 1_000)
    }

    /// Makes a span from seconds, rounded to a microsecond. Negative numbers and NaN give zero; too
    /// large ones give the longest span.
    pub fn from_secs_f64(s: f64) -> Self {
        Span((s.max(0.0) * 1e6).round() as u64)
    }

    /// Returns the span in seconds.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl From<Duration> for Span {
    fn from(d: Duration) -> Self {
        Span(u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(s: Span) -> Self {
        Duration::from_micros(s.0)
    }
}

impl fmt::Display for Span {
    /// Prints the span rounded for people: `0s`, `350ms`, `12.5s`, `4m10s`, `2h05m`, `3d04h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.0 / 1_000_000;
        match s {
            0 if self.0 == 0 => write!(f, "0s"),
            0 if self.0 < 10_000 => write!(f, "{:.1}ms", self.0 as f64 / 1e3),
            0 => write!(f, "{}ms", self.0 / 1_000),
            1..60 => write!(f, "{:.1}s", self.secs()),
            60..3_600 => write!(f, "{}m{:02}s", s / 60, s % 60),
            3_600..86_400 => write!(f, "{}h{:02}m", s / 3_600, s / 60 % 60),
            _ => write!(f, "{}d{:02}h", s / 86_400, s / 3_600 % 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_for_people() {
        for (us, text) in [
            (0, "0s"),
            (3_400, "3.4ms"),
            (350_000, "350ms"),
            (12_500_000, "12.5s"),
            (250_000_000, "4m10s"),
            (7_500_000_000, "2h05m"),
            (273_600_000_000, "3d04h"),
        ] {
            assert_eq!(Span(us).to_string(), text);
        }
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Time(5).since(Time(9)), Span::ZERO);
        assert_eq!(Time(u64::MAX) + Span(1), Time(u64::MAX));
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
    }
}
