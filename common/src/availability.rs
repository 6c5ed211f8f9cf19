//! The availability of a host as intervals ([`AvailabilityInterval`]), as its worker records them.

use serde::{Deserialize, Serialize};

use crate::host::{OwnerState, YieldReason};
use crate::time::{Span, Time};

/// A smaller part of the processor than this counts as suspended.
pub const LEAST_CPU: f32 = 0.01;
/// The longest [`AvailabilityInterval::reason`], in bytes.
pub const MAX_REASON: usize = 32;

/// An interval in which a host was up and could be used in the same way throughout. Outside of all
/// intervals the host was down, or its worker did not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AvailabilityInterval {
    /// The start, by the wall clock of the host, in microseconds since the Unix epoch.
    pub start: Time,
    /// The end, by the same clock; later than `start`.
    pub end: Time,
    /// The part of each slot's processor that tasks could have, on average over all slots, between
    /// 0 and 1.
    pub cpu: f32,
    /// Whether the owner used the host, where that is known.
    pub owner_active: Option<bool>,
    /// The reason why tasks could not use every slot, as [`YieldReason`] prints it; `None` where
    /// they could.
    pub reason: Option<String>,
}

impl AvailabilityInterval {
    /// Makes the interval from `start` to `end` for this state of the owner. Tasks get `cpu`,
    /// clamped to 0..=1, or nothing where the owner lets none run or `cpu` is not finite.
    pub fn of(start: Time, end: Time, owner: OwnerState, cpu: f32) -> Self {
        let cpu = if cpu.is_finite() && owner.lets_run() {
            cpu.clamp(0.0, 1.0)
        } else {
            0.0
        };

        let reason = owner.reason();
        let owner_active = match reason {
            None => Some(false),
            Some(YieldReason::InUse) => Some(true),
            // A busy or paused host does not show whether its owner is at the keyboard.
            Some(_) => None,
        };

        Self {
            start,
            end,
            cpu,
            owner_active,
            reason: reason.map(|why| why.to_string()),
        }
    }

    /// Returns the length, `end` less `start`.
    pub fn length(&self) -> Span {
        self.end.since(self.start)
    }

    /// Whether every field is valid: `start` before `end`, `cpu` within 0..=1, and a `reason` of 1
    /// to [`MAX_REASON`] printable ASCII characters.
    pub fn is_sound(&self) -> bool {
        let word = |why: &String| {
            !why.is_empty() && why.len() <= MAX_REASON && why.bytes().all(|b| b.is_ascii_graphic())
        };
        self.start < self.end
            && (0.0..=1.0).contains(&self.cpu)
            && self.reason.as_ref().is_none_or(word)
    }

    /// Merges `next` into this interval if it follows at once and is alike: the same owner and
    /// reason, and a `cpu` that differs by `tolerance` at most, with both or neither below
    /// [`LEAST_CPU`]. The merged `cpu` is the mean weighted by length. Returns whether it merged
    /// them.
    pub fn join(&mut self, next: &AvailabilityInterval, tolerance: f32) -> bool {
        let alike = self.end == next.start
            && (self.owner_active, &self.reason) == (next.owner_active, &next.reason)
            && (self.cpu - next.cpu).abs() <= tolerance
            && (self.cpu < LEAST_CPU) == (next.cpu < LEAST_CPU);
        if alike {
            let ours = self.length().secs();
            let theirs = next.length().secs();
            let sum = f64::from(self.cpu) * ours + f64::from(next.cpu) * theirs;
            self.cpu = (sum / (ours + theirs)) as f32;
            self.end = next.end;
        }
        alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: u64, end: u64, cpu: f32) -> AvailabilityInterval {
        AvailabilityInterval::of(Time(start), Time(end), OwnerState::Away, cpu)
    }

    #[test]
    fn neighbours_that_are_alike_become_one_with_their_mean() {
        let mut first = at(0, 30, 0.5);
        assert!(first.join(&at(30, 40, 0.54), 0.05));
        assert_eq!((first.end, first.length()), (Time(40), Span(40)));
        assert!((first.cpu - 0.51).abs() < 1e-6, "{first:?}");

        for other in [
            at(41, 50, 0.51),
            at(40, 50, 0.6),
            AvailabilityInterval::of(
                Time(40),
                Time(50),
                OwnerState::Present(YieldReason::InUse),
                0.5,
            ),
        ] {
            assert!(!first.join(&other, 0.05), "{other:?}");
        }

        let mut suspended = at(0, 10, 0.0);
        assert!(
            !suspended.join(&at(10, 20, 0.02), 0.05),
            "a task runs in one of them only"
        );
    }

    #[test]
    fn a_yielding_host_has_no_cpu_and_gives_its_reason() {
        let paused = AvailabilityInterval::of(
            Time(0),
            Time(9),
            OwnerState::Present(YieldReason::PausedByOwner),
            0.9,
        );
        assert_eq!(
            (paused.cpu, paused.owner_active, paused.reason.as_deref()),
            (0.0, None, Some("paused-by-owner"))
        );
        assert!(paused.is_sound() && at(0, 9, f32::NAN).is_sound() && at(0, 9, 7.0).is_sound());
    }

    #[test]
    fn impossible_intervals_are_not_sound() {
        let sound = at(3, 9, 0.5);
        for broken in [
            at(9, 9, 0.5),
            AvailabilityInterval {
                cpu: f32::NAN,
                ..sound.clone()
            },
            AvailabilityInterval {
                cpu: 1.5,
                ..sound.clone()
            },
            AvailabilityInterval {
                reason: Some(String::new()),
                ..sound.clone()
            },
            AvailabilityInterval {
                reason: Some("x".repeat(MAX_REASON + 1)),
                ..sound.clone()
            },
            AvailabilityInterval {
                reason: Some("two\nlines".into()),
                ..sound.clone()
            },
        ] {
            assert!(!broken.is_sound(), "{broken:?}");
        }
    }
}
