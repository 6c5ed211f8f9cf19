//! The JSON of predicted waits for hosts.

use common::Span;
use common::view::WaitView;
use schemars::JsonSchema;
use serde::Serialize;

use super::Object;

/// The probability that a wait is in its interval.
const HELD: f64 = 0.8;

/// A predicted wait for hosts, in seconds, as `predict wait` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PredictedWait {
    /// The number of hosts needed altogether.
    pub width: u32,
    /// The number of hosts needed beyond the free ones.
    pub need: u32,
    /// The number of free hosts.
    pub free: u32,
    /// The number of all hosts.
    pub hosts: u32,
    /// The number of jobs that could free enough hosts alone.
    pub benefactors: u32,
    /// The median wait for one of them.
    #[serde(rename = "A")]
    pub median_s: Option<f64>,
    /// The time at which enough are free on average.
    #[serde(rename = "B")]
    pub mean_s: Option<f64>,
    /// The prediction: `A` with two or more benefactors, else `B`.
    pub used: Option<f64>,
    /// The interval around it.
    pub interval: WaitInterval,
    /// The run time of the work that follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_s: Option<f64>,
    /// The wait and the run time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_s: Option<f64>,
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

impl Object for WaitView {
    type Json = PredictedWait;

    fn json(&self) -> PredictedWait {
        let time = |span: Option<Span>| span.map(Span::secs);
        let interval = WaitInterval {
            held: HELD,
            low: time(self.low),
            median: time(self.likely),
            high: time(self.high),
        };

        PredictedWait {
            width: self.wanted,
            need: self.wanted.saturating_sub(self.free),
            free: self.free,
            hosts: self.hosts,
            benefactors: self.benefactors,
            median_s: time(self.median),
            mean_s: time(self.mean),
            used: time(self.used),
            interval,
            run_s: None,
            total_s: None,
        }
    }
}
