//! The policies of jobs that ask for none.

use crate::ranks::Widths;

/// The policy of a job that asks for none.
pub const DEFAULT_POLICY: &str = "deskgrid";
/// The policy of a job that has a deadline and asks for none.
pub const PROMISING_POLICY: &str = "PROMISE";
/// The policy of a gang of a given width that asks for none.
pub const RANKS_POLICY: &str = "AVG";
/// The policy of a gang of any width that asks for none.
pub const WIDTH_POLICY: &str = "PRICED";
/// The policy of a job that asks for none and whose tasks are disclosed.
pub const SPECULATIVE_POLICY: &str = "FCFSxNEED";

/// Returns the policy of a job that asks for none, by the hosts that it wants at once, and whether it
/// has a deadline or is disclosed.
pub fn usual_policy(width: Option<Widths>, deadline: bool, disclosed: bool) -> &'static str {
    match width {
        Some(Widths::Auto) => WIDTH_POLICY,
        Some(Widths::Between(..)) => RANKS_POLICY,
        None if deadline => PROMISING_POLICY,
        None if disclosed => SPECULATIVE_POLICY,
        None => DEFAULT_POLICY,
    }
}
