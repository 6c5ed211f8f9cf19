//! The local hour of the week and the local day: the one place where the owner's times meet a
//! clock.

use common::{Span, Time};
use jiff::{ToSpan, Zoned};

use super::policy::hours::WeekTime;
use crate::diary::LocalDay;

/// Returns the present time of the week in the system's time zone.
pub(crate) fn now() -> WeekTime {
    let now = Zoned::now();
    let day = now.weekday().to_monday_zero_offset().unsigned_abs().into();
    let time = now.time();
    let part = |part: i8| u64::from(part.unsigned_abs());
    let seconds = (part(time.hour()) * 60 + part(time.minute())) * 60 + part(time.second());
    let micros = u64::from(time.subsec_nanosecond().unsigned_abs() / 1_000);
    WeekTime::new(day, Span(seconds * 1_000_000 + micros))
}

/// Returns the present day in the system's time zone.
pub(crate) fn today() -> LocalDay {
    let now = Zoned::now();
    let began = now.start_of_day().unwrap_or_else(|_| now.clone());
    LocalDay {
        began: micros(&began),
        now: micros(&now),
        utc_offset_s: now.offset().seconds(),
    }
}

/// Returns the end of the present day in the system's time zone.
pub fn end_of_today() -> Time {
    let now = Zoned::now();
    let tomorrow = now
        .checked_add(1.day())
        .and_then(|then| then.start_of_day());
    micros(&tomorrow.unwrap_or(now))
}

fn micros(time: &Zoned) -> Time {
    Time(u64::try_from(time.timestamp().as_microsecond()).unwrap_or_default())
}
