//! Which running task deserves another copy, now?

use crate::effect::CopyReason;

/// Who is copied while it lives. Copies go only to slots that no waiting task could use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// Nobody.
    None,
    /// A task none of whose live attempts can go on now: their hosts are suspended or miss heartbeats.
    Rescue,
}

impl Replication {
    /// Why a task should be copied whose live attempts are held up like this, each of them.
    pub(crate) fn propose(self, mut hold_ups: impl Iterator<Item = Option<CopyReason>>) -> Option<CopyReason> {
        match self {
            Replication::None => None,
            Replication::Rescue => {
                let first = hold_ups.next()??;
                hold_ups.all(|hold_up| hold_up.is_some()).then_some(first)
            }
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Replication::None => "none",
            Replication::Rescue => "a task whose attempts are all on suspended or silent hosts, by slots left over",
        }
    }
}
