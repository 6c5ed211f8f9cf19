//! No copies: a task has one attempt at a time.

use super::Answer;

#[derive(Debug, Clone, Copy)]
pub(super) struct NoCopies;

impl Answer for NoCopies {
    fn describe(self) -> &'static str {
        "none"
    }
}
