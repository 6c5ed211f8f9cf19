//! Points in time ([`Moment`]) as formats with absolute times write them: decimal digits, read and
//! written without loss. Dates are read by [`common::date`].

use std::cmp::Ordering;

use super::{Flaw, finite};

/// The latest time of any trace (the year 2286); a larger number is an error.
pub(super) const LATEST_S: i64 = 10_000_000_000;
/// Times below this (March 1973) count from the trace's own start, times above it from the Unix
/// epoch.
const EPOCH_LIKE_S: i64 = 100_000_000;

/// Seconds since an origin: whole seconds and the rest, kept apart so that times since 1970 keep
/// all their digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment {
    whole: i64,
    /// The rest, at least 0 and below 1.
    rest: f64,
}

impl Moment {
    /// Parses decimal seconds.
    pub(super) fn parse(column: &'static str, text: &str) -> Result<Self, Flaw> {
        let value = finite(column, text)?;
        if value < 0.0 {
            return Err(Flaw::Negative { column, value });
        }

        if value > LATEST_S as f64 {
            return Err(Flaw::TooLarge {
                column,
                text: text.to_owned(),
            });
        }

        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());

        if digits(whole)
            && digits(rest)
            && let Ok(whole) = whole.parse()
            && let Ok(rest) = format!("0.{rest}").parse()
        {
            return Ok(Self::carried(whole, rest));
        }

        Ok(Self::carried(value.floor() as i64, value - value.floor()))
    }

    /// Parses a date in ISO 8601 ([`common::date`]): `2026-03-01T09:30:00.25+01:00`.
    pub(super) fn parse_iso(text: &str) -> Option<Self> {
        let (minute_s, second) = common::date::split(text)?;
        let second = Self::parse("second", second).ok()?;
        let whole = minute_s + second.whole;
        (whole >= 0 && second.whole <= 60).then_some(Self {
            whole,
            rest: second.rest,
        })
    }

    fn carried(whole: i64, rest: f64) -> Self {
        Self {
            whole: whole + rest.floor() as i64,
            rest: rest - rest.floor(),
        }
    }

    /// The moment `seconds` (not negative) later.
    pub(super) fn plus(self, seconds: f64) -> Self {
        Self::carried(
            self.whole.saturating_add(seconds.trunc() as i64),
            self.rest + seconds.fract(),
        )
    }

    /// Seconds since `origin_s`, as exact as an `f64` can be.
    pub(super) fn since(self, origin_s: i64) -> f64 {
        let whole = self.whole - origin_s;
        if self.rest == 0.0 || whole < 0 {
            return whole as f64 + self.rest;
        }
        // Joins the decimal digits: a sum would round twice.
        let rest = format!("{}", self.rest);
        format!("{whole}{}", rest.trim_start_matches('0'))
            .parse()
            .unwrap_or(whole as f64 + self.rest)
    }

    /// The origin of a trace whose earliest moment is this one: its second in the Unix epoch, or 0
    /// where times count from the trace's own start.
    pub(super) fn origin_s(self) -> i64 {
        if self.whole < EPOCH_LIKE_S {
            0
        } else {
            self.whole
        }
    }

    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.whole
            .cmp(&other.whole)
            .then(self.rest.total_cmp(&other.rest))
    }
}

/// Writes the time `since_s` after `origin_s` as decimal digits, without loss.
pub(super) fn absolute(origin_s: i64, since_s: f64) -> String {
    let text = format!("{since_s}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let dot = if rest.is_empty() { "" } else { "." };
    match whole.parse::<i64>() {
        Ok(whole) => format!("{}{dot}{rest}", origin_s.saturating_add(whole)),
        Err(_) => text,
    }
}

/// Counts the time `since_s` from `later_s` seconds later on; all its decimal digits stay.
pub(super) fn counted_from(later_s: i64, since_s: f64) -> f64 {
    let moment = Moment::parse("a time", &format!("{since_s}"));
    moment.map_or(since_s - later_s as f64, |moment| moment.since(later_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Moment {
        Moment::parse("t", text).expect("a time")
    }

    #[test]
    fn times_since_1970_keep_their_digits() {
        let origin_s = 1_700_000_000;
        assert_eq!(
            parse("1700000000.123456").since(origin_s).to_string(),
            "0.123456"
        );
        assert_eq!(
            parse("1700012345.000001").since(origin_s).to_string(),
            "12345.000001"
        );
        assert_eq!(parse("1.7e9"), parse("1700000000"));
        assert_eq!(parse("12.").since(0), 12.0);
    }

    #[test]
    fn an_invalid_time_is_refused() {
        for text in [
            "-1",
            "-0.5",
            "NaN",
            "inf",
            "1e30",
            "12x",
            "",
            "10000000001",
            "99999999999999",
        ] {
            assert!(Moment::parse("t", text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_seconds_of_a_date_keep_their_digits() {
        let s = |text: &str| Moment::parse_iso(text).map(|moment| moment.since(1_700_000_000));
        assert_eq!(s("2023-11-14T22:13:20.123456Z"), Some(0.123456));
        assert_eq!(s("2023-11-14 17:13:21-0500"), Some(1.0));
        for wrong in ["2023-11-14T22:13:61Z", "2023-11-14T22:13:-1Z", "x"] {
            assert_eq!(s(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_written_time_is_read_back(origin_s in 0..4_000_000_000_i64, since_s in 0.0..1e9_f64) {
            let read = parse(&absolute(origin_s, since_s)).since(origin_s);
            prop_assert!((read - since_s).abs() <= since_s * f64::EPSILON, "{read} {since_s}");
        }

        #[test]
        fn microseconds_are_exact(origin_s in 0..4_000_000_000_i64, micros in 0..1_000_000_000_000_000_u64) {
            let since_s = micros as f64 / 1e6;
            prop_assert_eq!(parse(&absolute(origin_s, since_s)).since(origin_s), since_s);
        }
    }
}
