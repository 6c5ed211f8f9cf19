//! The cursor of a page: where the next one begins, in a form that only this program makes.

use std::fmt;
use std::str::FromStr;

use crate::json::inline_schema;
use crate::problem::Problem;

/// The number of the last entry of a page, for the list of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The number.
    pub(crate) after: u32,
}

/// The number of digits of a cursor.
const LENGTH: usize = 16;

/// A cursor as it stands in a query.
#[derive(Debug, Clone, serde::Deserialize)]
pub(crate) struct PageStart(String);

impl PageStart {
    /// Returns the number after which the page begins.
    pub(crate) fn after(&self) -> Result<u32, Problem> {
        Ok(self.0.parse::<Cursor>()?.after)
    }
}

inline_schema!(PageStart: { "type": "string", "pattern": format!("^[0-9a-f]{{{LENGTH}}}$") });

/// The check behind the number: a cursor that was made up or shortened is noticed.
fn check(digits: &str) -> String {
    let hash = blake3::hash(format!("deskgrid cursor {digits}").as_bytes());
    common::token::hex(&hash.as_bytes()[..4])
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:08x}", self.after);
        write!(f, "{digits}{}", check(&digits))
    }
}

impl FromStr for Cursor {
    type Err = Problem;
    fn from_str(text: &str) -> Result<Self, Problem> {
        let read = || {
            let (digits, rest) = text.split_at_checked(8)?;
            let after = u32::from_str_radix(digits, 16).ok()?;
            let cursor = Self { after };
            (cursor.to_string() == text && rest == check(digits)).then_some(cursor)
        };
        let hint = "give `after` the `next` of the page before, as it is";
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != LENGTH || !text.bytes().all(hex) {
            return Err(Problem::invalid("this is no cursor of ours", hint));
        }
        read().ok_or_else(|| Problem::not_found("this cursor was made up", hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_were_made_and_no_other_text_is() {
        for after in [0, 7, u32::MAX] {
            let cursor = Cursor { after };
            assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        }
        let good = Cursor { after: 7 }.to_string();
        let other = format!("00000008{}", &good[8..]);

        for wrong in [
            "",
            "7",
            "é",
            &good[1..],
            &good.to_uppercase(),
            &other,
            &format!("{good}0"),
        ] {
            assert!(wrong == good || wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
    }
}
