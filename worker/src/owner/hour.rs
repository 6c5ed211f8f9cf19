//! The local hour of the week: the one place where the policy's hours meet a clock.

use common::Span;

use super::policy::hours::WeekTime;

/// Returns the present time of the week in the system's time zone.
pub(crate) fn now() -> WeekTime {
    let now = jiff::Zoned::now();
    let day = now.weekday().to_monday_zero_offset().unsigned_abs().into();
    let time = now.time();
    let part = |part: i8| u64::from(part.unsigned_abs());
    let seconds = (part(time.hour()) * 60 + part(time.minute())) * 60 + part(time.second());
    let micros = u64::from(time.subsec_nanosecond().unsigned_abs() / 1_000);
    WeekTime::new(day, Span(seconds * 1_000_000 + micros))
}
