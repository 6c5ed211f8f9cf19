//! Copies of tasks none of whose live attempts can go on now, since their hosts are suspended or
//! miss heartbeats.

use crate::protocol::effect::CopyReason;

pub(super) fn propose(
    mut hold_ups: impl Iterator<Item = Option<CopyReason>>,
) -> Option<CopyReason> {
    let first = hold_ups.next()??;
    hold_ups.all(|hold_up| hold_up.is_some()).then_some(first)
}
