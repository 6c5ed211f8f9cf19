//! Selectors: texts that name several jobs or tasks at once, `7`, `1-10:2`, `1,3,5-8`, `all`,
//! `last`.

use std::collections::BTreeSet;
use std::num::IntErrorKind;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::idset::IdSet;
use crate::needs::Label;

/// The most indices that one selector or array may name.
pub const MAX_IDS: u64 = 10_000_000;

/// The most separate ranges that one selector may name; a stepped part names one for each number.
const MAX_RANGES: u64 = 1_000_000;

/// A choice of jobs, or of a job's tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selector {
    /// Every existing one.
    All,
    /// The one with the highest number.
    Last,
    /// Exactly these numbers.
    Ids(IdSet),
    /// The jobs that have all of these labels. No task has one.
    Labelled(BTreeSet<Label>),
    /// Every existing one with a higher number than this, as the next page of a list.
    Beyond(u32),
}

impl Selector {
    /// Returns those of `existing` that the selector names by number; by label it names none, since
    /// numbers do not say which labels a job has.
    pub fn pick(&self, existing: &IdSet) -> IdSet {
        match self {
            Selector::All => existing.clone(),
            Selector::Last => existing.last().into_iter().collect(),
            Selector::Ids(ids) => existing.intersection(ids),
            Selector::Labelled(_) => IdSet::new(),
            Selector::Beyond(number) => existing.intersection(&beyond(*number)),
        }
    }
}

/// Returns the numbers above this one.
pub fn beyond(number: u32) -> IdSet {
    number
        .checked_add(1)
        .map_or_else(IdSet::new, |first| IdSet::from_range(first, u32::MAX))
}

/// The error for a text that is no [`Selector`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSelector {
    /// A part that is neither a number nor a range.
    #[error(
        "`{0}` is not a number or a range: write `7`, `1-10`, `1-10:2`, `1,3,5-8`, `all` or `last`"
    )]
    Part(String),
    /// A number that is larger than any index.
    #[error("`{0}` is too large: numbers go up to {max}", max = u32::MAX)]
    Large(String),
    /// A range that runs downwards.
    #[error("the range `{0}` ends before it starts")]
    Backwards(String),
    /// More than [`MAX_IDS`] indices.
    #[error("`{0}` names more than {MAX_IDS} indices")]
    TooMany(String),
    /// More than `MAX_RANGES` separate ranges.
    #[error("the list has more than {MAX_RANGES} separate numbers and ranges: give fewer at once")]
    TooManyRanges,
}

impl FromStr for Selector {
    type Err = BadSelector;
    fn from_str(s: &str) -> Result<Self, BadSelector> {
        match s.trim() {
            "all" => Ok(Selector::All),
            "last" => Ok(Selector::Last),
            list => parse_ids(list).map(Selector::Ids),
        }
    }
}

/// Reads a list such as `1,3,5-8,10-20:2` as a set of indices.
///
/// # Errors
/// If a part is not a number or an ascending range, the parts are too many, or the set would be larger
/// than [`MAX_IDS`].
pub fn parse_ids(list: &str) -> Result<IdSet, BadSelector> {
    let mut ranges = Vec::new();
    for part in list.split(',') {
        let part = part.trim();
        let wrong = || BadSelector::Part(part.to_owned());
        let number = |s: &str| {
            let s = s.trim();
            s.parse::<u32>().map_err(|error| match error.kind() {
                IntErrorKind::PosOverflow => BadSelector::Large(s.to_owned()),
                _ => wrong(),
            })
        };

        let (span, step) = match part.split_once(':') {
            Some((span, step)) => (span, number(step)?),
            None => (part, 1),
        };
        let (first, last) = match span.split_once('-') {
            Some((a, b)) => (number(a)?, number(b)?),
            None => (number(span)?, number(span)?),
        };

        if step == 0 {
            return Err(wrong());
        }
        if last < first {
            return Err(BadSelector::Backwards(part.to_owned()));
        }

        let more = if step == 1 {
            1
        } else {
            1 + u64::from((last - first) / step)
        };
        if ranges.len() as u64 + more > MAX_RANGES {
            return Err(BadSelector::TooManyRanges);
        }
        if step == 1 {
            ranges.push((first, last));
        } else {
            ranges.extend((first..=last).step_by(step as usize).map(|id| (id, id)));
        }
    }

    let set = IdSet::from_ranges(ranges);
    if set.len() > MAX_IDS {
        Err(BadSelector::TooMany(list.to_owned()))
    } else {
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_read_as_documented() {
        let ids = |s: &str| parse_ids(s).unwrap().iter().collect::<Vec<_>>();
        assert_eq!(ids("7"), [7]);
        assert_eq!(ids("1-10:2"), [1, 3, 5, 7, 9]);
        assert_eq!(ids("1,3,5-8"), [1, 3, 5, 6, 7, 8]);
        assert_eq!("all".parse::<Selector>().unwrap(), Selector::All);
        assert_eq!(
            Selector::Last
                .pick(&IdSet::from_range(3, 9))
                .iter()
                .collect::<Vec<_>>(),
            [9]
        );

        assert!(Selector::Last.pick(&IdSet::new()).is_empty());
    }

    #[test]
    fn wrong_selectors_are_refused_with_the_reason() {
        for (given, want) in [
            ("", "is not a number"),
            ("a", "`a` is not"),
            ("1-", "is not a number"),
            ("1-5:0", "is not a number"),
            ("5-1", "ends before"),
            ("1-99999999999", "is too large"),
            ("0-4294967295", "more than"),
            ("0-4294967295:2", "more than"),
        ] {
            let error = given.parse::<Selector>().unwrap_err().to_string();
            assert!(error.contains(want), "{given}: {error}");
        }
    }

    #[test]
    fn parts_are_counted_before_their_numbers_are_listed() {
        let part = "1-1999999:2";
        assert_eq!(parse_ids(part).unwrap().len(), MAX_RANGES);
        let twice = parse_ids(&format!("{part},7"));
        assert_eq!(twice, Err(BadSelector::TooManyRanges));
    }
}
