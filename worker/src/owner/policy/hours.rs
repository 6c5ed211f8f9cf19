//! The hours of the week in which the owner lets tasks run ([`Hours`]), and the time for which they
//! lend the host. Clocks and time zones are read in `owner::hour`.

use std::fmt;
use std::str::FromStr;

use common::Span;
use common::host::Loan;
use serde::{Deserialize, Serialize};

/// Seconds of a day and of a week, and the microseconds of a second.
const DAY: u32 = 86_400;
const WEEK: u32 = 7 * DAY;
const MICROS: u64 = 1_000_000;
/// The longest description of hours that several rules give together, in bytes.
const LONGEST_WORDS: usize = 300;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A moment of the week, as the clock on the wall shows it: microseconds since Monday, midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeekTime(u64);

impl WeekTime {
    /// Makes the moment `time` after midnight of this day (0 is Monday). Days beyond Sunday begin
    /// anew at Monday.
    pub fn new(day: u32, time: Span) -> Self {
        Self((u64::from(day) * u64::from(DAY) * MICROS + time.0) % (u64::from(WEEK) * MICROS))
    }

    /// Returns the moment `span` later.
    #[cfg(test)]
    pub(super) fn later(self, span: Span) -> Self {
        Self::new(0, Span(self.0) + span)
    }

    /// Returns the whole seconds since Monday, midnight.
    fn second(self) -> u32 {
        (self.0 / MICROS) as u32
    }
}

impl fmt::Display for WeekTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = DAYS[(self.second() / DAY) as usize];
        let minute = self.second() % DAY / 60;
        write!(f, "{day} {:02}:{:02}", minute / 60, minute % 60)
    }
}

/// Windows of the week: `mon-fri 18:00-08:00`, `sat,sun`, `22:00-06:00`. A window across midnight
/// belongs to the day on which it begins. No window at all means always.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Hours {
    said: Vec<String>,
    /// The start and end of each window, in seconds of the week; sorted, disjoint, none across the
    /// end of the week. With words in `said` and no window no task may run.
    windows: Vec<(u32, u32)>,
}

impl Hours {
    /// Whether there is no rule, so that tasks may always run.
    pub fn always(&self) -> bool {
        self.said.is_empty()
    }

    /// Returns the hours that are among both; none at all where the two have none in common.
    #[must_use]
    pub fn within(&self, others: &Hours) -> Hours {
        if self.always() {
            return others.clone();
        }
        if others.always() {
            return self.clone();
        }

        let mut windows = Vec::new();
        let mut ours = self.windows.iter().peekable();
        let mut theirs = others.windows.iter().peekable();
        while let (Some((from, to)), Some((start, end))) = (ours.peek(), theirs.peek()) {
            let common = (*from.max(start), *to.min(end));
            windows.extend((common.0 < common.1).then_some(common));
            if to <= end {
                ours.next();
            } else {
                theirs.next();
            }
        }

        let mut said = format!("{self}; of these only {others}");
        said.truncate(said.floor_char_boundary(LONGEST_WORDS));
        Hours {
            said: vec![said],
            windows,
        }
    }

    /// Whether tasks may run at this moment.
    pub fn allow(&self, at: WeekTime) -> bool {
        self.open(at.second())
    }

    fn open(&self, second: u32) -> bool {
        let begun = self.windows.partition_point(|(from, _)| *from <= second);
        let last = begun.checked_sub(1).map(|last| self.windows[last]);
        self.always() || last.is_some_and(|(_, to)| second < to)
    }

    /// Returns the time until the answer of [`Self::allow`] changes; `None` if it never does.
    pub fn changes_in(&self, at: WeekTime) -> Option<Span> {
        let now = self.allow(at);
        let second = at.second();
        let edges = self
            .windows
            .iter()
            .flat_map(|(from, to)| [*from, *to % WEEK]);
        let ahead = edges.map(|edge| ((edge + WEEK - second - 1) % WEEK + 1, edge));
        let next = ahead.filter(|(_, edge)| self.open(*edge) != now).min();
        next.map(|(seconds, _)| Span(u64::from(seconds) * MICROS - at.0 % MICROS))
    }
}

impl Hours {
    /// Returns the time for which the host is lent from now on: until tasks may not run for longer
    /// than `patience`, after which frozen tasks are given back. `None` if no hour ends the loan
    /// (also where `patience` is `None`), and while tasks may not run.
    pub fn loan(&self, at: WeekTime, patience: Option<Span>) -> Option<Loan> {
        let pause = u32::try_from(patience?.0.div_ceil(MICROS)).unwrap_or(u32::MAX);
        let count = self.windows.len();
        let next = |window: usize| {
            self.windows[(window + 1) % count].0 + if window + 1 == count { WEEK } else { 0 }
        };
        let closes = |window: usize| next(window) - self.windows[window].1 > pause;
        let now = self
            .windows
            .iter()
            .position(|(from, to)| (*from..*to).contains(&at.second()))?;

        // A stay reaches from the beginning of a window to the end of one that is followed by a gap
        // longer than `pause`. The second number reaches to the next beginning.
        let stays = |first: usize| {
            let last = (first..first + count).find(|window| closes(window % count))?;
            let week = WEEK * u32::from(last >= count);
            let from = self.windows[first].0;
            let last = last % count;
            Some((self.windows[last].1 + week - from, next(last) + week - from))
        };

        let begins = (0..count).filter(|window| closes((window + count - 1) % count));
        let longest = begins.filter_map(stays).map(|(stays, _)| stays).max()?;
        let gone = at.second() - self.windows[now].0;
        let (left, again) = stays(now)?;
        let span = |seconds: u32| Span(u64::from(seconds) * MICROS);
        let from_now = |seconds: u32| Span(span(seconds - gone).0 - at.0 % MICROS);

        Some(Loan {
            left: from_now(left),
            again: from_now(again),
            longest: span(longest),
        })
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said.join(", "))
    }
}

impl TryFrom<Vec<String>> for Hours {
    type Error = String;
    fn try_from(said: Vec<String>) -> Result<Self, String> {
        let mut parts = Vec::new();
        for text in &said {
            parts.extend(
                windows(text).map_err(|why| format!("`{text}` is no window of hours: {why}"))?,
            );
        }

        parts.sort_unstable();
        let mut windows: Vec<(u32, u32)> = Vec::new();
        for (from, to) in parts {
            match windows.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => windows.push((from, to)),
            }
        }

        Ok(Self { said, windows })
    }
}

impl From<Hours> for Vec<String> {
    fn from(hours: Hours) -> Self {
        hours.said
    }
}

impl FromStr for Hours {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        vec![text.to_owned()].try_into()
    }
}

/// Parses the windows that one text names, none across the end of the week.
fn windows(text: &str) -> Result<Vec<(u32, u32)>, String> {
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    let begins_with_day = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let (days, times) = match (words.as_slice(), begins_with_day) {
        ([days], true) => (*days, "00:00-24:00"),
        ([times], false) => ("mon-sun", *times),
        ([days, times], true) => (*days, *times),
        _ => {
            return Err("it reads as `mon-fri 18:00-08:00`, `sat,sun` or `22:00-06:00`".to_owned());
        }
    };

    let mut found = Vec::new();
    for day in each_day(days)? {
        for range in times.split(',') {
            let (from, to) = range
                .split_once('-')
                .ok_or_else(|| format!("`{range}` is not FROM-TO"))?;
            let from = day * DAY + second(from)?;
            let to = day * DAY + second(to)?;
            if from == to {
                return Err(format!("`{range}` ends when it begins"));
            }
            let to = if to < from { to + DAY } else { to };
            found.push((from, to.min(WEEK)));
            found.extend((to > WEEK).then(|| (0, to - WEEK)));
        }
    }

    found.retain(|(from, to)| from < to);
    Ok(found)
}

/// Parses a list of days and ranges of days; a range may go over the weekend.
fn each_day(list: &str) -> Result<Vec<u32>, String> {
    let number = |name: &str| {
        let found = DAYS.iter().position(|day| *day == name);
        found
            .map(|at| at as u32)
            .ok_or_else(|| format!("`{name}` is none of {}", DAYS.join(", ")))
    };

    let mut days = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = number(first)?;
        let last = number(last)?;
        days.extend((0..=(last + 7 - first) % 7).map(|more| (first + more) % 7));
    }

    Ok(days)
}

/// Parses `HH:MM` as seconds after midnight; 24:00 is the end of the day.
fn second(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is no time of day from 00:00 to 24:00");
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let digits = |s: &str| s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(hour) || !digits(minute) {
        return Err(wrong());
    }

    let (hour, minute): (u32, u32) = (
        hour.parse().map_err(|_| wrong())?,
        minute.parse().map_err(|_| wrong())?,
    );
    if hour > 24 || minute > 59 || (hour == 24 && minute > 0) {
        Err(wrong())
    } else {
        Ok((hour * 60 + minute) * 60)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hours(windows: &[&str]) -> Hours {
        windows
            .iter()
            .map(|w| (*w).to_owned())
            .collect::<Vec<_>>()
            .try_into()
            .unwrap()
    }

    fn s(seconds: u32) -> Span {
        Span::from_secs(u64::from(seconds))
    }

    fn at(day: u32, hour: u32, minute: u32) -> WeekTime {
        WeekTime::new(day, s((hour * 60 + minute) * 60))
    }

    #[test]
    fn common_hours_are_those_of_both_also_where_there_are_none() {
        let nights = hours(&["18:00-08:00"]);
        let week = hours(&["mon-fri"]);
        let both = nights.within(&week);
        for (day, hour, open) in [(0, 7, true), (0, 9, false), (4, 19, true), (5, 19, false)] {
            assert_eq!(both.allow(at(day, hour, 0)), open, "day {day}, {hour}:00");
        }
        assert_eq!(nights.within(&Hours::default()), nights);
        assert_eq!(Hours::default().within(&nights), nights);

        let none = hours(&["sat"]).within(&week);
        assert!(!none.always());
        assert!((0..7 * 24).all(|hour| !none.allow(at(0, 0, 0).later(s(hour * 3_600)))));
        assert_eq!(none.changes_in(at(0, 0, 0)), None);
        assert_eq!(none.loan(at(0, 0, 0), Some(s(60))), None);
        assert!(none.to_string().contains("sat; of these only mon-fri"));
    }

    #[test]
    fn office_hours_are_closed_and_nights_and_weekends_open() {
        let hours = hours(&["mon-fri 18:00-08:00", "sat,sun"]);
        for (day, hour, minute, open) in [
            (0, 7, 59, false),
            (0, 8, 0, false),
            (0, 17, 59, false),
            (0, 18, 0, true),
            (1, 0, 0, true),
            (1, 7, 59, true),
            (1, 8, 0, false),
            (5, 7, 59, true),
            (5, 12, 0, true),
            (6, 23, 59, true),
        ] {
            assert_eq!(
                hours.allow(at(day, hour, minute)),
                open,
                "day {day} {hour}:{minute}"
            );
        }

        assert_eq!(hours.changes_in(at(4, 17, 0)), Some(s(3_600)));
        // From Friday evening on until Monday, midnight: the night before Monday belongs to Sunday.
        assert_eq!(hours.changes_in(at(4, 18, 0)), Some(s(6 * 3_600 + 2 * DAY)));
    }

    #[test]
    fn a_window_across_the_end_of_the_week_goes_on() {
        let hours = hours(&["fri-mon 22:00-06:00"]);
        assert!(
            hours.allow(at(6, 23, 0)) && hours.allow(at(0, 5, 59)) && !hours.allow(at(0, 6, 0))
        );
        assert_eq!(hours.changes_in(at(6, 23, 0)), Some(s(7 * 3_600)));
        assert!(!hours.allow(at(4, 5, 0)) && hours.allow(at(1, 5, 0)));
    }

    #[test]
    fn always_never_changes() {
        assert_eq!(Hours::default().changes_in(at(3, 3, 3)), None);
        assert_eq!(hours(&["mon-sun"]).changes_in(at(3, 3, 3)), None);
        assert_eq!(
            hours(&["00:00-12:00", "12:00-24:00"]).changes_in(at(3, 3, 3)),
            None
        );
    }

    #[test]
    fn invalid_rules_are_refused_with_the_reason() {
        for (text, word) in [
            ("monday", "monday"),
            ("mon 8-17", "`8`"),
            ("mon 25:00-26:00", "25:00"),
            ("08:00-08:00", "ends when it begins"),
            ("mon 08:00 17:00", "reads as"),
            ("", "reads as"),
            ("mon 08:00", "FROM-TO"),
            ("24:01-03:00", "24:01"),
        ] {
            let error = text.parse::<Hours>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_host_is_lent_until_hours_are_closed_for_longer_than_a_frozen_task_is_kept() {
        let hour = 3_600;
        let patience = Some(s(900));
        let nights = hours(&["mon-fri 18:00-08:00", "sat,sun"]);
        let night = Loan {
            left: s(9 * hour),
            again: s(19 * hour),
            longest: s((24 + 24 + 6) * hour),
        };
        assert_eq!(nights.loan(at(0, 23, 0), patience), Some(night));

        // From Friday evening to Sunday, midnight, and then on Monday evening.
        let weekend = Loan {
            left: night.longest,
            again: s((24 + 24 + 6 + 18) * hour),
            ..night
        };
        assert_eq!(nights.loan(at(4, 18, 0), patience), Some(weekend));
        assert_eq!(nights.loan(at(0, 12, 0), patience), None, "closed");
        assert_eq!(
            nights.loan(at(0, 23, 0), None),
            None,
            "what is frozen is kept for ever"
        );
        assert_eq!(
            nights.loan(at(0, 23, 0), Some(s(18 * hour))),
            None,
            "and here for long enough"
        );

        // A short break ends nothing, also across the end of the week.
        let breaks = hours(&[
            "mon-sun 00:00-12:00",
            "mon-sun 12:10-20:00",
            "sun 20:00-23:50",
        ]);
        let left = |day, hour| {
            breaks
                .loan(at(day, hour, 0), patience)
                .map(|loan| loan.left)
        };
        assert_eq!(
            (left(1, 11), left(6, 19)),
            (Some(s(9 * hour)), Some(s(25 * hour)))
        );
        assert_eq!(Hours::default().loan(at(1, 1, 0), patience), None);
        assert_eq!(hours(&["mon-sun"]).loan(at(1, 1, 0), patience), None);
    }

    proptest! {
        #[test]
        fn the_answer_changes_exactly_when_it_is_said_to(
            windows in proptest::collection::vec((0u32..7, 0u32..7, 0u32..96, 0u32..96), 1..4),
            start in 0..u64::from(WEEK) * MICROS,
        ) {
            let text = |(a, b, from, to): &(u32, u32, u32, u32)| {
                let to = if from == to { (to + 1) % 96 } else { *to };
                let time = |quarter: u32| format!("{:02}:{:02}", quarter / 4, quarter % 4 * 15);
                format!("{}-{} {}-{}", DAYS[*a as usize], DAYS[*b as usize], time(*from), time(to))
            };
            let hours: Hours = windows.iter().map(text).collect::<Vec<_>>().try_into().unwrap();
            let at = WeekTime(start);
            let now = hours.allow(at);
            let until = hours.changes_in(at);
            let week = s(WEEK).0;
            let checked = until.map_or(week, |until| until.0);
            for later in (0..checked).step_by(300_000_000).chain([checked - 1]) {
                prop_assert_eq!(hours.allow(at.later(Span(later))), now);
            }

            if let Some(until) = until {
                prop_assert_ne!(hours.allow(at.later(until)), now);
            }
        }
    }
}
