//! PRI-CR (Kondo et al. 2004, section 4): "hosts in the server's ready queue are prioritized by
//! their clock rates". That is what [`Answer::candidates`] does where an answer has none of its own.

use super::Answer;

#[derive(Debug, Clone, Copy)]
pub(super) struct PriCr;

impl Answer for PriCr {
    fn describe(self) -> &'static str {
        "the fastest ready host; of equals the one that has been ready for longest"
    }
}
