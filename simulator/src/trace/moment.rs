//! Points in time ([`Moment`]) as formats with absolute times write them: decimal digits, read and
//! written without loss. The only calendar is ISO 8601 in UTC.

use std::cmp::Ordering;

use super::Flaw;

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
        let not_a_number = || Flaw::NotANumber {
            column,
            text: text.to_owned(),
        };
        let value = text
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite())
            .ok_or_else(not_a_number)?;
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

        if digits(whole) && digits(rest) {
            let rest = format!("0.{rest}").parse().map_err(|_| not_a_number())?;
            return Ok(Self::carried(
                whole.parse().map_err(|_| not_a_number())?,
                rest,
            ));
        }

        Ok(Self::carried(value.floor() as i64, value - value.floor()))
    }

    /// Parses a date and time in ISO 8601, with `Z` or an offset from UTC (UTC is assumed without):
    /// `2026-03-01T09:30:00.25+01:00`.
    pub(super) fn parse_iso(text: &str) -> Option<Self> {
        let (date, time) = text.trim().split_once(['T', ' '])?;
        let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
        let year = parts.next()??;
        let month = parts.next()??;
        let day = parts.next()??;
        if !(1970..=9999).contains(&year)
            || !(1..=12).contains(&month)
            || !(1..=days_of(year, month)).contains(&day)
        {
            return None;
        }

        let (clock, offset_s) = match time.find(['Z', 'z', '+', '-']) {
            Some(at) => (&time[..at], offset_s(&time[at..])?),
            None => (time, 0),
        };
        let mut parts = clock.splitn(3, ':');
        let hour = parts.next()?.parse::<i64>().ok()?;
        let minute = parts.next()?.parse::<i64>().ok()?;
        let second = Self::parse("second", parts.next().unwrap_or("0")).ok()?;
        if !(0..24).contains(&hour) || !(0..60).contains(&minute) || second.whole > 60 {
            return None;
        }

        let whole =
            days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second.whole - offset_s;
        (whole >= 0).then_some(Self {
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

/// Parses an offset from UTC into seconds east of Greenwich.
fn offset_s(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'Z' | b'z' => return (text.len() == 1).then_some(0),
        b'+' => 1,
        _ => -1,
    };

    let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
    let (hours, minutes) = match digits.len() {
        2 => (digits.parse::<i64>().ok()?, 0),
        4 => (
            digits.get(..2)?.parse().ok()?,
            digits.get(2..)?.parse::<i64>().ok()?,
        ),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// The number of days of a month.
fn days_of(year: i64, month: i64) -> i64 {
    let (next_year, next_month) = if month == 12 {
        (year + 1, 1)
    } else {
        (year, month + 1)
    };
    days(next_year, next_month, 1) - days(year, month, 1)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that the
/// leap day is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let in_year = (153 * month + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + in_year - 719_468
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
    fn dates_are_read_in_every_offset() {
        let s = |text: &str| Moment::parse_iso(text).map(|moment| moment.since(0));
        assert_eq!(s("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(s("2000-02-29T12:00:00+00:00"), Some(951_825_600.0));
        assert_eq!(s("2000-12-31T00:00:00Z"), Some(978_220_800.0));
        assert_eq!(s("2023-11-14T22:13:20.5Z"), Some(1_700_000_000.5));
        assert_eq!(s("2023-11-14T23:43:20+01:30"), Some(1_700_000_000.0));
        assert_eq!(s("2023-11-14 17:13:20-0500"), Some(1_700_000_000.0));

        for wrong in [
            "2023-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2023-01-01",
            "2023-01-01T25:00:00Z",
            "x",
            "2023-01-01T00:00:00+1",
            "",
        ] {
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
