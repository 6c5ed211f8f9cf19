//! Times on pages. The server writes them in UTC; the script turns them into the reader's own time.

pub(crate) use api::json::now;
use common::{Span, Time};
use maud::{Markup, html};

/// Formats a time in ISO 8601, in UTC to the second.
pub(crate) fn iso(time: Time) -> String {
    let text = api::json::iso(time);
    format!("{}Z", text.get(..19).unwrap_or(&text))
}

/// Shows the time of day, with the date where that is not today's.
pub(crate) fn clock(time: Time) -> Markup {
    let (text, today) = (iso(time), iso(now()));
    let day = text.get(11..16).unwrap_or_default();
    let date = text.get(..10).unwrap_or_default();
    html! {
        time datetime=(text) {
            (day) @if !today.starts_with(date) { ", " (date) } " UTC"
        }
    }
}

/// Shows the time of day of a host whose time zone is so many seconds ahead of UTC, with the date
/// where that is not the one of `now`.
pub(crate) fn local_clock(time: Time, now: Time, offset_s: i32) -> Markup {
    let (there, today) = (shifted(time, offset_s), shifted(now, offset_s));
    let day = there.get(11..16).unwrap_or_default();
    let date = there.get(..10).unwrap_or_default();
    html! {
        time datetime=(iso(time)) { (day) @if !today.starts_with(date) { ", " (date) } }
    }
}

/// Formats a time by a clock that is so many seconds ahead of UTC.
fn shifted(time: Time, offset_s: i32) -> String {
    let micros = i64::from(offset_s) * 1_000_000;
    iso(Time(time.0.saturating_add_signed(micros)))
}

/// Formats a span for people: in whole units, since it is read and not computed with.
pub(crate) fn span(span: Span) -> String {
    let s = span.0 / 1_000_000;
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} min", (s + 30) / 60),
        3_600..86_400 => format!("{} h {:02} min", s / 3_600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_whole_units() {
        let told = [0, 59, 60, 90, 3_599, 3_600, 90_000].map(|s| span(Span::from_secs(s)));
        assert_eq!(
            told,
            [
                "0 s",
                "59 s",
                "1 min",
                "2 min",
                "60 min",
                "1 h 00 min",
                "1 d 1 h"
            ]
        );
    }

    #[test]
    fn the_clock_of_a_host_is_that_of_its_time_zone() {
        let (time, now) = (Time(1_700_000_000_000_000), Time(1_700_010_000_000_000));
        let shown = |offset_s| local_clock(time, now, offset_s).into_string();
        assert!(shown(3_600).ends_with(">23:13, 2023-11-14</time>"));
        assert!(shown(7_200).ends_with(">00:13</time>"));
        assert!(shown(-3_600).ends_with(">21:13, 2023-11-14</time>"));
    }

    #[test]
    fn a_time_of_another_day_has_its_date() {
        let shown = clock(Time(1_700_000_000_000_000)).into_string();
        assert_eq!(
            shown,
            "<time datetime=\"2023-11-14T22:13:20Z\">22:13, 2023-11-14 UTC</time>"
        );
    }
}
