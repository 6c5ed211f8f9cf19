//! The mean speed and rate of all known hosts. Sums are integers, so that they do not depend on the
//! order of events.

use common::Speed;

use crate::prediction::experience::TrackRecord;

/// Sums over all hosts of known speed, connected or not.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    hosts: i128,
    /// In millionths.
    speeds: i128,
    /// In millionths of millionths.
    squares: i128,
    /// In millionths.
    rates: i128,
}

impl Fleet {
    /// Counts a host in with the sign 1, and out with -1.
    pub(crate) fn count(&mut self, sign: i128, speed: Speed, record: Option<TrackRecord>) {
        // Impossibly high speeds would overflow: they count as 1e9.
        let millionths = |value: f64| (value.clamp(0.0, 1e9) * 1e6) as i128;
        let speed = speed.factor();
        self.hosts += sign;
        self.speeds += sign * millionths(speed);
        self.squares += sign * millionths(speed) * millionths(speed);
        // A record without any work is that of a host that was never up: its rate is unknown.
        let rate = record.map(|record| record.rate).filter(|rate| *rate > 0.0);
        self.rates += sign * millionths(rate.unwrap_or(speed));
    }

    /// Returns the mean and standard deviation of the speeds; zeros without hosts.
    pub(crate) fn speed_mean_sd(&self) -> (f64, f64) {
        if self.hosts <= 0 {
            return (0.0, 0.0);
        }
        let hosts = self.hosts as f64;
        let mean = self.speeds as f64 / hosts / 1e6;
        let variance = self.squares as f64 / hosts / 1e12 - mean * mean;
        (mean, variance.max(0.0).sqrt())
    }

    /// Returns the mean work per second of a host while it is up, in seconds on a host of speed 1:
    /// by its record's `rate`, or its speed without one.
    pub(crate) fn mean_rate(&self) -> Option<f64> {
        (self.rates > 0).then(|| self.rates as f64 / 1e6 / self.hosts as f64)
    }
}
