//! Forecasts of the start of waiting jobs, and of the time at which enough hosts are free together.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// A forecast of the start of a waiting job's first task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartView {
    /// The median of the start.
    pub start: Time,
    /// The lower end of the 80 % prediction interval.
    pub low: Time,
    /// The upper end of that interval.
    pub high: Time,
}

/// A forecast of the time at which `wanted` hosts are free together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitView {
    /// The number of hosts asked for.
    pub wanted: u32,
    /// The number of hosts that have a free slot now.
    pub free: u32,
    /// The number of hosts that could have a free slot: the free ones, the busy ones, and those
    /// whose owners are there.
    pub hosts: u32,
    /// The number of benefactors: units that could each free enough hosts alone.
    pub benefactors: u32,
    /// The median of the time until the first benefactor ends; `None` without benefactors.
    pub median: Option<Span>,
    /// The time at which the mean number of free hosts reaches `wanted`; `None` if it never does.
    pub mean: Option<Span>,
    /// The prediction that is used: `median` with two or more benefactors, else `mean`.
    pub used: Option<Span>,
    /// The median of the wait under the distribution of the number of free hosts.
    pub likely: Option<Span>,
    /// The lower end of the 80 % prediction interval of that wait.
    pub low: Option<Span>,
    /// The upper end of that interval.
    pub high: Option<Span>,
}
