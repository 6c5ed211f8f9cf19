//! The planned events of a run ([`What`]).

/// The kinds of planned event, in their order at one instant. One that no longer fits is skipped
/// when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// This attempt, on this host, has done its work.
    Done(u32, u32),
    /// This attempt enters a phase that its host reports at once.
    Moved(u32),
    /// This host's heartbeat is missed for the first time.
    Missed(u32),
    /// This host sends a heartbeat that has news.
    Beat(u32),
}
