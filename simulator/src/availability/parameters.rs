//! The parameters of the availability models. What is not here: how a day is drawn from them.

use super::stream::Stream;

/// What a model is made of. Times are in seconds; a sigma is the standard deviation of a logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parameters {
    /// Mixed into the seed that callers give.
    pub(super) seed: u64,
    /// How often an availability interval is a short one.
    pub(super) short_share: f64,
    /// Mean of the short ones (exponential).
    pub(super) short_mean_s: f64,
    /// Weibull shape of the long ones.
    pub(super) long_shape: f64,
    /// Weibull scale of the long ones, before the effects of host, host-day and day.
    pub(super) long_scale_s: f64,
    /// How much hosts differ for good.
    pub(super) host_sigma: f64,
    /// How much the days of one host differ.
    pub(super) host_day_sigma: f64,
    /// How much the days of all hosts differ.
    pub(super) day_sigma: f64,
    /// How often an outage is a quick one.
    pub(super) quick_share: f64,
    /// Median and sigma of the quick ones.
    pub(super) quick: (f64, f64),
    /// Median and sigma of the others.
    pub(super) slow: (f64, f64),
    /// Share of the hosts that are off for the day, on a middling day.
    pub(super) off_share: f64,
    /// How much that share differs between days (on its logit).
    pub(super) off_sigma: f64,
    /// How often a host is up when the trace starts, unless it is off for the day.
    pub(super) up_at_start: f64,
    /// Share of the host-days with an owner at the host.
    pub(super) active_share: f64,
    /// Median and sigma of the spells between suspensions with an owner at the host.
    pub(super) spell: (f64, f64),
    /// How much longer they are without.
    pub(super) quiet_factor: f64,
    /// Median and sigma of suspensions.
    pub(super) suspension: (f64, f64),
    /// How often an availability interval begins suspended.
    pub(super) suspended_at_return: f64,
    /// How often a spell is partly loaded: with an owner at the host, and without.
    pub(super) partial: (f64, f64),
    /// How strongly failures, returns and owners follow the time of day.
    pub(super) rhythm: Rhythm,
}

/// How much the rates of failures, of returns and of owners rise and fall over the day, each as
/// (amplitude, hour of its peak).
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

/// Calibrated to what the paper says of business hours: how often tasks fail (section 3.3), how far
/// one day's intervals tell the next day's (section 4), how even the power is (section 5.2). The
/// paper does not say the rest, which follows an independent model with the same aim.
pub(super) const DEFAULT: Parameters = Parameters {
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

/// The same law with other hosts and days.
pub(super) const OTHER_SEED: Parameters = Parameters {
    seed: 0x6f74_6865_7273_6565,
    ..DEFAULT
};

/// Hosts that are all alike and forget how long they have been up, so that no interval's age tells
/// anything.
pub(super) const MEMORYLESS: Parameters = Parameters {
    short_share: 0.0,
    long_shape: 1.0,
    long_scale_s: 7_600.0,
    host_sigma: 0.0,
    host_day_sigma: 0.0,
    day_sigma: 0.0,
    rhythm: Rhythm::NONE,
    ..DEFAULT
};

/// Owners suspend tasks four times as often and for longer, a quarter of the time; three times as
/// often they load the processor.
pub(super) const HEAVY_SUSPENSION: Parameters = Parameters {
    spell: (300.0, 1.1),
    suspension: (225.0, 1.1),
    partial: (0.57, 0.18),
    ..DEFAULT
};

/// Hosts go down more than three times as often: every second task of 35 minutes fails.
pub(super) const HEAVY_FAILURE: Parameters = Parameters {
    short_mean_s: 70.0,
    long_scale_s: 5_700.0,
    ..DEFAULT
};

/// As at night: hardly any owner, rare failures.
pub(super) const QUIET: Parameters = Parameters {
    short_share: 0.35,
    long_scale_s: 39_000.0,
    active_share: 0.1,
    rhythm: Rhythm::NONE,
    ..DEFAULT
};

impl Parameters {
    /// How long this day's intervals are against other days'.
    pub(super) fn day_spread(&self, shared: &mut Stream) -> f64 {
        shared.lognormal(1.0, self.day_sigma)
    }

    /// How many of the hosts are off this day.
    pub(super) fn off_today(&self, shared: &mut Stream) -> f64 {
        let logit =
            (self.off_share / (1.0 - self.off_share)).ln() + self.off_sigma * shared.normal();
        (1.0 + (-logit).exp()).recip()
    }
}
