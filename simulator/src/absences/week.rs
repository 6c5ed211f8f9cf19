//! The weeks of owners ([`Owners`]): absences by habit, with breaks that nobody announces, or by
//! hours that owners set.

use common::host::Loan;
use common::{Span, Time};
use scheduler::reservation::Windows;

use crate::availability::stream::RandomStream;

const MINUTE_S: f64 = 60.0;
const HOUR_S: f64 = 3_600.0;
const DAY_S: f64 = 86_400.0;
/// Days recorded before the bag comes (`PAST`), and days that follow (`FUTURE`).
const PAST: u32 = 28;
const FUTURE: u32 = 29;
/// Day 4 of 1970 was a Monday.
const FIRST_MONDAY: u32 = 4;

/// The ways in which owners behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// Half of the owners sit at a desk from nine to five, a quarter come in the evening, and a
    /// quarter are in and out from eight to eight. Nobody announces it.
    Habits,
    /// Tasks may run from the evening to the morning and on weekends, and owners announce it.
    Hours,
}

/// The absences of one host's owner as (from, to) in seconds, sorted and disjoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OwnerWeek {
    away: Vec<(f64, f64)>,
    announced: bool,
}

impl Owners {
    /// Draws the time at which the bag comes: any time of a working day of the fifth week, or for
    /// `Owners::Hours` any time of one of its nights.
    pub(super) fn start(self, stream: &mut RandomStream) -> Time {
        let monday_s = f64::from(FIRST_MONDAY + PAST) * DAY_S;
        let night_s = (4.0 * stream.unit()).floor() * DAY_S + stream.between(19.0, 30.0) * HOUR_S;
        let at_s = if self == Owners::Hours {
            night_s
        } else {
            stream.between(0.0, 5.0 * DAY_S)
        };
        time(monday_s + at_s)
    }

    /// Draws the absences of one host's owner in this run.
    pub(super) fn course(self, seed: u64, run: u32, host: usize) -> OwnerWeek {
        let mut stream = RandomStream::new("absent-owners", seed, run, host);
        let mut present = Vec::new();

        // Owners with hours differ by at most an hour, and keep the same hours every day.
        let shift_s = stream.between(-1.0, 1.0) * HOUR_S;
        for day in 0..PAST + FUTURE {
            let midnight_s = f64::from(FIRST_MONDAY + day) * DAY_S;
            let weekend = day % 7 >= 5;
            match (self, host % 4) {
                (Owners::Hours, _) if !weekend => {
                    present.push((
                        midnight_s + 8.0 * HOUR_S + shift_s,
                        midnight_s + 18.0 * HOUR_S + shift_s,
                    ));
                }
                (Owners::Habits, 0 | 1) if !weekend => {
                    let from_s = midnight_s + 9.0 * HOUR_S + 30.0 * MINUTE_S * stream.normal();
                    let to_s = midnight_s + 17.0 * HOUR_S + 45.0 * MINUTE_S * stream.normal();
                    let lunch_s = midnight_s + 12.0 * HOUR_S + 10.0 * MINUTE_S * stream.normal();
                    sit(&mut present, (from_s, lunch_s), (50.0, 12.0), &mut stream);
                    sit(
                        &mut present,
                        (lunch_s + 50.0 * MINUTE_S, to_s),
                        (50.0, 12.0),
                        &mut stream,
                    );
                }
                (Owners::Habits, 2) => {
                    let from_s = midnight_s + if weekend { 13.0 } else { 18.0 } * HOUR_S;
                    let from_s = from_s + 45.0 * MINUTE_S * stream.normal();
                    sit(
                        &mut present,
                        (from_s, midnight_s + 23.0 * HOUR_S),
                        (60.0, 20.0),
                        &mut stream,
                    );
                }
                (Owners::Habits, 3) if !weekend => {
                    let hours = (midnight_s + 8.0 * HOUR_S, midnight_s + 20.0 * HOUR_S);
                    sit(&mut present, hours, (30.0, 30.0), &mut stream);
                }
                _ => {}
            }
        }

        let end_s = f64::from(FIRST_MONDAY + PAST + FUTURE) * DAY_S;
        let begins = std::iter::once(f64::from(FIRST_MONDAY) * DAY_S)
            .chain(present.iter().map(|(_, to)| *to));
        let ends = present.iter().map(|(from, _)| *from).chain([end_s]);
        let away = begins.zip(ends).filter(|(from, to)| from < to).collect();

        OwnerWeek {
            away,
            announced: self == Owners::Hours,
        }
    }
}

/// Adds presences between these times, with breaks; the mean lengths of both are in minutes.
fn sit(
    present: &mut Vec<(f64, f64)>,
    (from_s, to_s): (f64, f64),
    (sits, breaks): (f64, f64),
    stream: &mut RandomStream,
) {
    let mut at_s = from_s;
    while at_s < to_s {
        let leaves_s = (at_s - sits * MINUTE_S * stream.unit().ln()).min(to_s);
        present.push((at_s, leaves_s));
        at_s = leaves_s - breaks * MINUTE_S * stream.unit().ln();
    }
}

fn time(seconds: f64) -> Time {
    Time::from_secs_f64(seconds)
}

impl OwnerWeek {
    /// Whether the owner is away, and the time since which that is so.
    pub(super) fn at(&self, now: Time) -> (bool, Time) {
        let begun = self.away.partition_point(|(from, _)| time(*from) <= now);
        match begun.checked_sub(1).and_then(|at| self.away.get(at)) {
            Some((from, to)) if now < time(*to) => (true, time(*from)),
            Some((_, to)) => (false, time(*to)),
            None => (false, Time(0)),
        }
    }

    /// The time at which the owner comes or goes next.
    pub(super) fn next_turn(&self, now: Time) -> Option<Time> {
        let after = self.away.partition_point(|(_, to)| time(*to) <= now);
        let (from, to) = self.away.get(after)?;
        Some(if now < time(*from) {
            time(*from)
        } else {
            time(*to)
        })
    }

    /// The record of absences before `now`.
    pub(super) fn recorded(&self, now: Time) -> Windows {
        let mut windows = Windows::default();
        for (from, to) in self.away.iter().filter(|(from, _)| *from < now.secs()) {
            windows.observe(*from, to.min(now.secs()), *to <= now.secs());
        }
        windows
    }

    /// The loan of the host from `now` on, if the owner is away and announces hours.
    pub(super) fn loan(&self, now: Time) -> Option<Loan> {
        let at = self
            .away
            .iter()
            .position(|(from, to)| time(*from) <= now && now < time(*to))?;
        let left = time(self.away[at].1).since(now);
        let next = self.away.get(at + 1);
        let again = next.map_or(left, |(from, _)| time(*from).since(now));
        let longest = self
            .away
            .iter()
            .map(|(from, to)| to - from)
            .fold(0.0, f64::max);

        self.announced.then(|| Loan {
            left,
            again,
            longest: Span::from_secs_f64(longest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_away_at_night_and_say_for_how_long_where_they_have_hours() {
        for host in 0..4 {
            let course = Owners::Habits.course(1, 0, host);
            assert!(
                course.away.windows(2).all(|pair| pair[0].1 < pair[1].0),
                "host {host}"
            );
            assert_eq!(course.loan(time(5.0 * DAY_S)), None);
            let mut now = course.at(time(6.0 * DAY_S + 4.0 * HOUR_S));
            assert!(now.0, "at four in the morning");
            while let Some(turn) = course.next_turn(now.1) {
                assert_eq!(course.at(turn), (!now.0, turn), "each turn is one");
                now = course.at(turn);
            }
        }

        let course = Owners::Hours.course(1, 0, 0);
        let monday_s = f64::from(FIRST_MONDAY + 7) * DAY_S;
        let loan = course
            .loan(time(monday_s + 20.0 * HOUR_S))
            .expect("it is announced");
        assert!(
            (11.0..=13.0).contains(&(loan.left.secs() / HOUR_S)),
            "{loan:?}"
        );
        assert_eq!(loan.longest, Span::from_secs_f64(62.0 * HOUR_S));
        assert_eq!(course.loan(time(monday_s + 12.0 * HOUR_S)), None);
    }
}
