//! What was learned from hosts' past: how long they stay, how often their owners come, and how well predictions held.

use serde::{Deserialize, Serialize};

/// How one host was available over the time that it has been known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackRecord {
    /// Mean work that a slot could have done in one availability interval (between two failures), in seconds on a host
    /// of speed 1.
    pub interval_work_s: f64,
    /// Mean work per second while it was up, in seconds on a host of speed 1.
    pub rate: f64,
}

/// What hosts have in common.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Experience {}
