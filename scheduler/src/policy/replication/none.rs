//! No copies: a task has one attempt at a time.

use super::Answer;
use crate::policy::setting::HasSettings;

#[derive(Debug, Clone, Copy)]
pub(super) struct NoCopies;

impl HasSettings for NoCopies {}

impl Answer for NoCopies {
    fn describe(self) -> &'static str {
        "none"
    }
}
