//! Formats times for scripts and for people. Only this module of the command line reads the wall
//! clock.

pub(crate) use api::json::{iso, now};
use common::Time;

/// Formats a time for people, in UTC to the second.
pub(crate) fn date(time: Time) -> String {
    let text = iso(time).replace('T', " ");
    format!("{} UTC", text.get(..19).unwrap_or(&text))
}

/// Formats the distance of `time` from `now` for people: `4m10s ago`, `in 12.0s`.
pub(crate) fn relative(time: Time, now: Time) -> String {
    if time > now {
        format!("in {}", time.since(now))
    } else {
        format!("{} ago", now.since(time))
    }
}

/// Formats the interval between two times, with those that are to come: `in 6m11s to 17m42s`.
pub(crate) fn between(low: Time, high: Time, now: Time) -> String {
    if low > now {
        format!("in {} to {}", low.since(now), high.since(now))
    } else {
        format!("{} to {}", relative(low, now), relative(high, now))
    }
}

/// Formats the time of day in UTC for people; with the date where it is not today's.
pub(crate) fn clock(time: Time, now: Time) -> String {
    let text = iso(time);
    let today = iso(now);
    let date = text.get(..10).unwrap_or_default();
    let day = text.get(11..19).unwrap_or_default();
    if today.starts_with(date) {
        day.to_owned()
    } else {
        format!("{day} on {date}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_iso_8601_in_utc() {
        assert_eq!(
            iso(Time(1_700_000_000_123_456)),
            "2023-11-14T22:13:20.123456Z"
        );
        assert_eq!(iso(Time(u64::MAX)), "9999-12-31T23:59:59.000000Z");
        assert_eq!(date(Time(1_700_000_000_123_456)), "2023-11-14 22:13:20 UTC");
    }

    #[test]
    fn people_read_how_long_ago() {
        assert_eq!(relative(Time(5_000_000), Time(65_000_000)), "1m00s ago");
        assert_eq!(relative(Time(65_000_000), Time(53_000_000)), "in 12.0s");
    }
}
