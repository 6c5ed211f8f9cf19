//! The parameters of the availability models ([`ModelParameters`]).

use super::stream::RandomStream;

/// The parameters of a model. Times are in seconds; a sigma is the standard deviation of a
/// logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ModelParameters {
    /// A number that is mixed into the seed of callers.
    pub(super) seed: u64,
    /// The probability that an availability interval is a short one.
    pub(super) short_share: f64,
    /// The mean of the short intervals (exponential).
    pub(super) short_mean_s: f64,
    /// The Weibull shape of the long intervals.
    pub(super) long_shape: f64,
    /// The Weibull scale of the long intervals, before the effects of host, host-day and day.
    pub(super) long_scale_s: f64,
    /// The sigma of the permanent differences between hosts.
    pub(super) host_sigma: f64,
    /// The sigma of the differences between the days of one host.
    pub(super) host_day_sigma: f64,
    /// The sigma of the differences between days, shared by all hosts.
    pub(super) day_sigma: f64,
    /// The probability that an outage is a quick one.
    pub(super) quick_share: f64,
    /// The median and sigma of quick outages.
    pub(super) quick: (f64, f64),
    /// The median and sigma of the other outages.
    pub(super) slow: (f64, f64),
    /// The share of the hosts that are off for the day, on a median day.
    pub(super) off_share: f64,
    /// The standard deviation of the logit of `off_share` between days.
    pub(super) off_sigma: f64,
    /// The probability that a host is up when the trace starts, unless it is off for the day.
    pub(super) up_at_start: f64,
    /// The share of the host-days with an owner at the host.
    pub(super) active_share: f64,
    /// The median and sigma of the spells between suspensions, with an owner at the host.
    pub(super) spell: (f64, f64),
    /// The factor by which spells are longer without an owner at the host.
    pub(super) quiet_factor: f64,
    /// The median and sigma of suspensions.
    pub(super) suspension: (f64, f64),
    /// The probability that an availability interval begins suspended.
    pub(super) suspended_at_return: f64,
    /// The probability that a spell is partly loaded: with an owner at the host, and without.
    pub(super) partial: (f64, f64),
    /// The rhythm of failures, returns and owners over the day.
    pub(super) rhythm: Rhythm,
}

/// The daily rhythm of the rates of failures, of returns and of owners, each as (amplitude, hour of
/// its peak).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rhythm {
    pub(super) failures: (f64, f64),
    pub(super) returns: (f64, f64),
    pub(super) owners: (f64, f64),
}

impl Rhythm {
    const NONE: Rhythm = Rhythm {
        failures: (0.0, 0.0),
        returns: (0.0, 0.0),
        owners: (0.0, 0.0),
    };
}

/// The calibrated model. It follows the paper's statements on business hours: how often tasks fail
/// (section 3.3), how well one day's intervals predict the next day's (section 4), how even the
/// power is (section 5.2). The paper does not state the rest, which follows an independent model
/// with the same aim.
pub(super) const DEFAULT: ModelParameters = ModelParameters {
    seed: 0,
    short_share: 0.52,
    short_mean_s: 230.0,
    long_shape: 1.04,
    long_scale_s: 21_000.0,
    host_sigma: 0.62,
    host_day_sigma: 0.45,
    day_sigma: 0.12,
    quick_share: 0.69,
    quick: (320.0, 0.65),
    slow: (2_250.0, 0.95),
    off_share: 0.13,
    off_sigma: 0.75,
    up_at_start: 0.72,
    active_share: 0.45,
    spell: (1_200.0, 1.1),
    quiet_factor: 6.0,
    suspension: (130.0, 1.1),
    suspended_at_return: 0.27,
    partial: (0.19, 0.06),
    rhythm: Rhythm {
        failures: (0.12, 14.0),
        returns: (0.25, 21.0),
        owners: (0.08, 12.0),
    },
};

/// The calibrated model with other hosts and days.
pub(super) const OTHER_SEED: ModelParameters = ModelParameters {
    seed: 0x6f74_6865_7273_6565,
    ..DEFAULT
};

/// A model of equal hosts whose hazard does not depend on how long they have been up, so that an
/// interval's age predicts nothing.
pub(super) const MEMORYLESS: ModelParameters = ModelParameters {
    short_share: 0.0,
    long_shape: 1.0,
    long_scale_s: 7_600.0,
    host_sigma: 0.0,
    host_day_sigma: 0.0,
    day_sigma: 0.0,
    rhythm: Rhythm::NONE,
    ..DEFAULT
};

/// A model in which owners suspend tasks four times as often and for longer, a quarter of the time;
/// three times as often they load the processor.
pub(super) const HEAVY_SUSPENSION: ModelParameters = ModelParameters {
    spell: (300.0, 1.1),
    suspension: (225.0, 1.1),
    partial: (0.57, 0.18),
    ..DEFAULT
};

/// A model in which hosts go down more than three times as often: every second task of 35 minutes
/// fails.
pub(super) const HEAVY_FAILURE: ModelParameters = ModelParameters {
    short_mean_s: 70.0,
    long_scale_s: 5_700.0,
    ..DEFAULT
};

/// A model of the night: hardly any owner, rare failures.
pub(super) const QUIET: ModelParameters = ModelParameters {
    short_share: 0.35,
    long_scale_s: 39_000.0,
    active_share: 0.1,
    rhythm: Rhythm::NONE,
    ..DEFAULT
};

impl ModelParameters {
    /// Draws the factor of this day's intervals against other days'.
    pub(super) fn day_spread(&self, shared: &mut RandomStream) -> f64 {
        shared.lognormal(1.0, self.day_sigma)
    }

    /// Draws the share of the hosts that are off this day.
    pub(super) fn off_today(&self, shared: &mut RandomStream) -> f64 {
        let logit =
            (self.off_share / (1.0 - self.off_share)).ln() + self.off_sigma * shared.normal();
        (1.0 + (-logit).exp()).recip()
    }
}
