//! Reads dates of ISO 8601, as people and other programs write them.

use crate::time::{Span, Time};

/// Parses a date and time in ISO 8601, from 1970 on, or a day alone, which is its first moment. `Z` or
/// an offset from UTC may follow the time, and UTC is assumed without.
pub fn date(text: &str) -> Option<Time> {
    let (minute_s, second) = split(text)?;
    let second: f64 = second.parse().ok()?;
    let minute = Span::from_secs(u64::try_from(minute_s).ok()?);
    (0.0..61.0)
        .contains(&second)
        .then(|| Time(minute.0) + Span::from_secs_f64(second))
}

/// Splits a date like [`date`]: into the begin of its minute, in seconds since the Unix epoch, and the
/// text of the seconds from there, which is not checked.
pub fn split(text: &str) -> Option<(i64, &str)> {
    let text = text.trim();
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
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
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) {
        return None;
    }

    let minute_s = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 - offset_s;
    Some((minute_s, parts.next().unwrap_or("0")))
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

    #[test]
    fn dates_are_read_in_every_offset() {
        let us = |text: &str| date(text).map(|time| time.0);
        assert_eq!(us("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(us("1970-01-01"), Some(0));
        assert_eq!(us("2000-02-29T12:00:00+00:00"), Some(951_825_600_000_000));
        assert_eq!(us(" 2000-12-31 "), Some(978_220_800_000_000));
        assert_eq!(us("2023-11-14T22:13:20.5Z"), Some(1_700_000_000_500_000));
        assert_eq!(us("2023-11-14T23:43:20+01:30"), Some(1_700_000_000_000_000));
        assert_eq!(us("2023-11-14 17:13:20-0500"), Some(1_700_000_000_000_000));
        assert_eq!(us("2023-11-14 22:13"), Some(1_699_999_980_000_000));

        for wrong in [
            "2023-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2026-04-31",
            "2100-02-29T00:00:00Z",
            "1969-12-31",
            "2023-01-01T25:00:00Z",
            "2023-01-01T00:00:61Z",
            "2023-01-01T00:00:inf",
            "2023-01-01T00:00:00+1",
            "x",
            "2h",
            "",
        ] {
            assert_eq!(us(wrong), None, "{wrong}");
        }
    }
}
