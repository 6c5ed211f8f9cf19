//! Draws one host's day from the model.

use super::parameters::ModelParameters;
use super::stream::RandomStream;
use super::{DAY_ENDS_S, up};
use crate::trace::Segment;

/// The shortest outage, spell (or availability interval) and suspension that traces show, in
/// seconds.
const LEAST_OUTAGE_S: f64 = 60.0;
const LEAST_UP_S: f64 = 20.0;
const LEAST_SUSPENSION_S: f64 = 10.0;
/// The hour of day at which traces start.
const FIRST_HOUR: f64 = 5.0;
/// The time for which rates that follow the time of day are taken as constant, in seconds.
const STEP_S: f64 = 600.0;

/// The random streams and properties that determine a host's day.
pub(super) struct HostDay<'m> {
    model: &'m ModelParameters,
    /// The stream for failures and returns.
    power: RandomStream,
    /// The stream for the owner's use of the processor.
    owner: RandomStream,
    /// The factor of its long intervals against other hosts'.
    scale: f64,
}

impl<'m> HostDay<'m> {
    pub(super) fn new(model: &'m ModelParameters, seed: u64, day: u32, host: usize) -> Self {
        let lasting = RandomStream::new("host", seed, 0, host).lognormal(1.0, model.host_sigma);
        let mut power = RandomStream::new("power", seed, day, host);
        let scale = lasting * power.lognormal(1.0, model.host_day_sigma);
        HostDay {
            model,
            power,
            owner: RandomStream::new("owner", seed, day, host),
            scale,
        }
    }

    /// Draws the day, on which all intervals are `day_scale` times as long as usual and a share
    /// `off` of the hosts is off.
    pub(super) fn segments(mut self, day_scale: f64, off: f64) -> Vec<Segment> {
        self.scale *= day_scale;
        if self.power.chance(off) {
            return vec![Segment::down(0.0, DAY_ENDS_S)];
        }

        let quiet = if self.owner.chance(self.model.active_share) {
            1.0
        } else {
            self.model.quiet_factor
        };

        let mut segments = Vec::new();
        let mut now_s = 0.0;
        let mut is_up = self.power.chance(self.model.up_at_start);

        while now_s < DAY_ENDS_S {
            let end_s = if is_up {
                self.failure_s(now_s)
            } else {
                self.return_s(now_s)
            };
            if is_up {
                self.interval(now_s, end_s, quiet, &mut segments);
            } else {
                segments.push(Segment::down(now_s, end_s));
            }
            now_s = end_s;
            is_up = !is_up;
        }

        segments
    }

    /// Draws the time at which a host that came up at `now_s` goes down.
    fn failure_s(&mut self, now_s: f64) -> f64 {
        let model = self.model;
        let length_s = if self.power.chance(model.short_share) {
            self.power.weibull(1.0, model.short_mean_s)
        } else {
            self.power
                .weibull(model.long_shape, model.long_scale_s * self.scale)
        };
        later(now_s, length_s, LEAST_UP_S, model.rhythm.failures)
    }

    /// Draws the time at which a host that went down at `now_s` comes up.
    fn return_s(&mut self, now_s: f64) -> f64 {
        let (median, sigma) = if self.power.chance(self.model.quick_share) {
            self.model.quick
        } else {
            self.model.slow
        };
        later(
            now_s,
            self.power.lognormal(median, sigma),
            LEAST_OUTAGE_S,
            self.model.rhythm.returns,
        )
    }

    /// Draws spells and suspensions in turns, from `now_s` to `end_s`.
    fn interval(&mut self, mut now_s: f64, end_s: f64, quiet: f64, segments: &mut Vec<Segment>) {
        let model = self.model;
        let mut suspended = self.owner.chance(self.model.suspended_at_return);
        while now_s < end_s {
            let next_s = if suspended {
                let length_s = self.owner.lognormal(model.suspension.0, model.suspension.1);
                now_s + length_s.max(LEAST_SUSPENSION_S)
            } else {
                let length_s = self.owner.lognormal(model.spell.0 * quiet, model.spell.1);
                later(now_s, length_s, LEAST_UP_S, model.rhythm.owners)
            };

            let cpu = if suspended {
                0.0
            } else {
                self.cpu(quiet > 1.0)
            };
            segments.push(up(now_s, next_s.min(end_s), cpu));
            now_s = next_s;
            suspended = !suspended;
        }
    }

    /// Draws the part of the processor that a spell leaves for tasks: nearly all, or the rest
    /// beside a busy owner.
    fn cpu(&mut self, quiet: bool) -> f64 {
        let partial = if quiet {
            self.model.partial.1
        } else {
            self.model.partial.0
        };
        if self.owner.chance(partial) {
            self.owner.between(0.25, 0.9)
        } else {
            self.owner.between(0.97, 1.0)
        }
    }
}

/// The mean over business hours of a wave with this peak: rates are given as they are then.
fn business(peak: f64) -> f64 {
    let angle = |hour: f64| std::f64::consts::TAU * (hour - peak) / 24.0;
    (angle(17.0).sin() - angle(9.0).sin()) / (angle(17.0) - angle(9.0))
}

/// The time at which something ends that would take `length_s` from `now_s` on if its rate did not
/// follow the time of day; at the earliest after `least_s`, at the latest with the day.
fn later(now_s: f64, length_s: f64, least_s: f64, (amplitude, peak): (f64, f64)) -> f64 {
    let mut at_s = now_s;
    let mut left_s = length_s.max(least_s);
    while at_s < DAY_ENDS_S {
        let hour = FIRST_HOUR + (at_s + STEP_S / 2.0) / 3_600.0;
        let wave = (std::f64::consts::TAU * (hour - peak) / 24.0).cos();
        let rate = 1.0 + amplitude * (wave - business(peak));
        if left_s <= STEP_S * rate {
            return (at_s + left_s / rate).max(now_s + least_s).min(DAY_ENDS_S);
        }
        at_s += STEP_S;
        left_s -= STEP_S * rate;
    }

    DAY_ENDS_S
}
