//! The view of a job that another one waits for.

use serde::{Deserialize, Serialize};

use crate::after::EndCondition;
use crate::ids::JobId;

/// A job that has to end before another one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterView {
    /// The job that goes first.
    pub job: JobId,
    /// The way in which it has to end.
    pub how: EndCondition,
    /// The number of its tasks that are not settled; `None` once it has ended. An open job can have
    /// none left and not have ended.
    pub left: Option<u64>,
}
