//! The JSON of predicted waits for hosts.

use common::Span;
use common::view::WaitView;
use schemars::JsonSchema;
use serde::Serialize;

use super::form;

/// The probability that a wait is in its interval.
const HELD: f64 = 0.8;

form! {
    /// A predicted wait for hosts, in seconds, as `predict wait` prints it.
    pub struct PredictedWait of WaitView as view {
        /// The number of hosts needed altogether.
        pub width: u32 = view.wanted,
        /// The number of hosts needed beyond the free ones.
        pub need: u32 = view.wanted.saturating_sub(view.free),
        /// The number of free hosts.
        pub free: u32 = view.free,
        /// The number of all hosts.
        pub hosts: u32 = view.hosts,
        /// The number of jobs that could free enough hosts alone.
        pub benefactors: u32 = view.benefactors,
        /// The median wait for one of them.
        #[serde(rename = "A")]
        pub median_s: Option<f64> = view.median.map(Span::secs),
        /// The time at which enough are free on average.
        #[serde(rename = "B")]
        pub mean_s: Option<f64> = view.mean.map(Span::secs),
        /// The prediction: `A` with two or more benefactors, else `B`.
        pub used: Option<f64> = view.used.map(Span::secs),
        /// The interval around it.
        pub interval: WaitInterval = WaitInterval {
            held: HELD,
            low: view.low.map(Span::secs),
            median: view.likely.map(Span::secs),
            high: view.high.map(Span::secs),
        },
        /// The run time of the work that follows.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub run_s: Option<f64> = None,
        /// The wait and the run time.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub total_s: Option<f64> = None,
    }
}

/// The interval of a wait, from the distribution of the number of free hosts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitInterval {
    /// The probability that the wait is in the interval.
    pub held: f64,
    /// Its lower end.
    pub low: Option<f64>,
    /// Its median.
    pub median: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
}
