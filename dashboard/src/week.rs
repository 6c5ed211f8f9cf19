//! The week of a host: in which hours tasks could use it, and when its owner did.

use api::GridAccess;
use common::availability::AvailabilityInterval;
use common::wire::client::{Reply, Request};
use common::{Span, Time};
use maud::{Markup, html};

use crate::error::PageError;
use crate::when::{self, clock};

/// The hours of a week, and the weeks that are looked at.
const HOURS: usize = 168;
const WEEKS: u64 = 4;
const HOUR_US: u64 = 3_600_000_000;
/// The side of a cell and the width of the names of days.
const SIDE: usize = 16;
const NAMES: usize = 40;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// The classes of the stylesheet for parts of an hour, from none to all.
const SHADES: [&str; 5] = ["s0", "s1", "s2", "s3", "s4"];

/// The records of one hour of the week.
#[derive(Debug, Clone, Copy, Default)]
struct HourOfWeek {
    /// The time of which there is a record, in seconds.
    known_s: f64,
    /// The part of it in which tasks could have a processor.
    lent_s: f64,
    /// The part in which the owner used the host.
    owner_s: f64,
}

/// Draws the week of a host; `None` where nothing was recorded. Admins only may ask for it.
pub(crate) async fn week(grid: &GridAccess, host: &str) -> Result<Option<Markup>, PageError> {
    let until = when::now();
    let since = Time(until.0.saturating_sub(WEEKS * HOURS as u64 * HOUR_US));
    let request = Request::Availability {
        hosts: vec![host.to_owned()],
        since,
        until,
    };
    let mut replies = grid.ask(request);
    let mut hours = [HourOfWeek::default(); HOURS];
    let mut known_since = None;
    while let Some(reply) = replies.recv().await {
        let Reply::Availability(view) = reply.map_err(api::Problem::from)? else {
            return Err(api::Problem::unexpected().into());
        };
        known_since = known_since.or(view.known_since);
        for interval in &view.stretches {
            add(&mut hours, interval, since);
        }
    }

    let begun = known_since.map(|known: Time| known.max(since));
    Ok(begun.map(|begun| drawn(&hours, begun)))
}

/// Adds an interval to the hours in which it lies, from `since` on.
fn add(hours: &mut [HourOfWeek; HOURS], interval: &AvailabilityInterval, since: Time) {
    let mut at = interval.start.0.max(since.0);
    while at < interval.end.0 {
        let next = (at / HOUR_US + 1) * HOUR_US;
        let length_s = Span(next.min(interval.end.0) - at).secs();
        let hour = &mut hours[hour_of_week(Time(at))];
        hour.known_s += length_s;
        hour.lent_s += length_s * f64::from(interval.cpu);
        if interval.owner_active == Some(true) {
            hour.owner_s += length_s;
        }
        at = next;
    }
}

/// The hour of the week in UTC, from Monday at 0. The first of January 1970 was a Thursday.
fn hour_of_week(at: Time) -> usize {
    ((at.0 / HOUR_US + 3 * 24) % HOURS as u64) as usize
}

fn shade(part: f64) -> &'static str {
    let last = SHADES.len() - 1;
    SHADES[((part * last as f64).round() as usize).min(last)]
}

fn drawn(hours: &[HourOfWeek; HOURS], begun: Time) -> Markup {
    html! {
        section aria-labelledby="week" {
            h2 #week { "Its week" }
            (picture(hours, "lent", "Tasks could use it", |hour| hour.lent_s))
            (picture(hours, "owner", "Its owner used it", |hour| hour.owner_s))
            p.quiet {
                "Hours in UTC, recorded since " (clock(begun)) ": the fuller a cell, the more of the recorded time. Hours without a record are empty. "
                "Only admins see this: it says when somebody was at a desk."
            }
        }
    }
}

/// Draws seven days of 24 cells, each as full as `part` is of its recorded time.
fn picture(
    hours: &[HourOfWeek; HOURS],
    class: &str,
    title: &str,
    part: fn(&HourOfWeek) -> f64,
) -> Markup {
    let (wide, high) = (NAMES + 24 * SIDE, 8 * SIDE);
    html! {
        figure.week {
            figcaption { (title) }
            svg class=(class) viewBox={ "0 0 " (wide) " " (high) } role="img" aria-label=(in_words(hours, title, part)) {
                @for (day, name) in DAYS.iter().enumerate() {
                    text x="0" y=((day + 1) * SIDE - 4) { (name) }
                    @for hour in 0..24 {
                        @let of = &hours[day * 24 + hour];
                        @if of.known_s > 0.0 {
                            rect class=(shade(part(of) / of.known_s)) x=(NAMES + hour * SIDE) y=(day * SIDE) width=(SIDE - 2) height=(SIDE - 2) rx="3" {}
                        }
                    }
                }
                @for hour in [0, 6, 12, 18] { text x=(NAMES + hour * SIDE) y=(high - 4) { (hour) ":00" } }
            }
        }
    }
}

/// Says for each day which part of the recorded time it was.
fn in_words(hours: &[HourOfWeek; HOURS], title: &str, part: fn(&HourOfWeek) -> f64) -> String {
    let day = |(hours, name): (&[HourOfWeek], &str)| {
        let known: f64 = hours.iter().map(|hour| hour.known_s).sum();
        let some: f64 = hours.iter().map(part).sum();
        (known > 0.0).then(|| format!("{name} {:.0} %", 100.0 * some / known))
    };
    let days: Vec<String> = hours.chunks(24).zip(DAYS).filter_map(day).collect();
    format!("{title}: {}", days.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_falls_into_the_hours_in_which_it_was() {
        // A Wednesday at 9:30 in UTC, and two hours from then on.
        let start = Time(Span::from_secs(1_764_149_400).0);
        let interval = AvailabilityInterval {
            start,
            end: start + Span::from_secs(7_200),
            cpu: 0.5,
            owner_active: Some(true),
            reason: None,
        };
        let mut hours = [HourOfWeek::default(); HOURS];
        add(&mut hours, &interval, Time(0));
        let wednesday = 2 * 24;
        let known: Vec<f64> = (8..13).map(|h| hours[wednesday + h].known_s).collect();
        assert_eq!(known, [0.0, 1_800.0, 3_600.0, 1_800.0, 0.0]);
        assert_eq!(hours[wednesday + 10].lent_s, 1_800.0);
        assert_eq!(hours[wednesday + 10].owner_s, 3_600.0);

        let mut later = [HourOfWeek::default(); HOURS];
        add(&mut later, &interval, start + Span::from_secs(5_400));
        assert_eq!(later[wednesday + 11].known_s, 1_800.0);
        assert_eq!(later[wednesday + 10].known_s, 0.0);
    }

    #[test]
    fn shades_go_from_none_to_all() {
        assert_eq!([0.0, 0.13, 0.5, 1.0].map(shade), ["s0", "s1", "s2", "s4"]);
    }
}
