//! When waiting jobs should start, and when so many hosts should be free together. What is not
//! here: who says so.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// When a waiting job's first task should start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartView {
    /// As likely before as after.
    pub start: Time,
    /// With a chance of 80 % it is not before this ...
    pub low: Time,
    /// ... and not after this.
    pub high: Time,
}

/// When so many hosts should be free together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitView {
    /// How many.
    pub wanted: u32,
    /// How many have a free slot now, and how many could have one: those, busy ones, and those
    /// whose owners are there.
    pub free: u32,
    /// See `free`.
    pub hosts: u32,
    /// What could free enough alone.
    pub benefactors: u32,
    /// The median of the time until one of those does; none without one.
    pub median: Option<Span>,
    /// When as many as are wanted are free on average; none where that never is.
    pub mean: Option<Span>,
    /// The one of both that is used.
    pub used: Option<Span>,
    /// The median of the wait by the law of the number of free hosts, and between which 80 % lie.
    pub likely: Option<Span>,
    /// See `likely`.
    pub low: Option<Span>,
    /// See `likely`.
    pub high: Option<Span>,
}
