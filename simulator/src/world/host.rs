//! The state of each host and each attempt in a run: the truth, and the part of it that the
//! scheduler was told.

use common::attempt::{HeldAttempt, Phase};
use common::host::YieldReason;
use common::{AttemptId, Span, Speed, Time};
use smallvec::SmallVec;

use super::course::{HostCourse, SteadyInterval};
use super::outcome::AttemptFate;
use crate::kernel::NEVER;

/// Indices into the run's list of attempts. For most hosts they fit inline in the [`Host`], which
/// saves an access to other memory.
pub(super) type Numbers = SmallVec<[u32; 4]>;

/// The state of a host in a run.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// The index of its present stretch.
    pub(super) stretch: u32,
    /// The stretch in which an attempt last started here, with its index. The copy saves an access
    /// to the course in memory.
    pub(super) near: Option<(u32, SteadyInterval)>,
    pub(super) speed: Speed,
    /// Its attempts, as indices into the run's list. Includes attempts that the scheduler has
    /// stopped but the host has not heard of.
    pub(super) held: Numbers,
    /// The time since which it has had attempts without a break; heartbeats are counted from here.
    pub(super) busy_since: Time,
    /// The time between two heartbeats.
    pub(super) every: Span,
    /// The next heartbeat that has news, or [`NEVER`].
    pub(super) beat_at: Time,
    /// The time at which the scheduler misses its heartbeat after it went down with attempts, or
    /// [`NEVER`].
    pub(super) missed_at: Time,
    /// The state that the scheduler was told last: whether tasks can compute, and the share of the
    /// processor.
    pub(super) told: (bool, f32),
}

impl Host {
    pub(super) const IDLE: Host = Host {
        stretch: 0,
        near: None,
        speed: Speed::REFERENCE,
        held: Numbers::new_const(),
        busy_since: Time(0),
        every: Span::ZERO,
        beat_at: NEVER,
        missed_at: NEVER,
        told: (false, 0.0),
    };

    /// Resets it to a host without attempts, at the time `at` of its course.
    pub(super) fn reset(&mut self, course: &HostCourse, at: Time) {
        let mut held = std::mem::take(&mut self.held);
        held.clear();
        *self = Host {
            stretch: course.index(at) as u32,
            speed: course.speed,
            held,
            ..Host::IDLE
        };
    }

    /// The time of its first heartbeat after `now`.
    pub(super) fn next_beat(&self, now: Time) -> Time {
        let every = self.every.0.max(1);
        self.busy_since + Span((now.since(self.busy_since).0 / every + 1).saturating_mul(every))
    }

    /// The time of its last heartbeat up to `now`.
    pub(super) fn last_beat(&self, now: Time) -> Time {
        let every = self.every.0.max(1);
        self.busy_since + Span(now.since(self.busy_since).0 / every * every)
    }

    pub(super) fn has_news(&self, stretch: &SteadyInterval) -> bool {
        self.told != (stretch.ready(), stretch.cpu)
    }
}

/// The state of an attempt in a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    pub(super) host: u32,
    pub(super) began: Time,
    /// The time at which it begins to compute, if its host stays up until then.
    pub(super) from: Time,
    /// The sums `cpu_s` and `ran` of its host at the time `from`; while frozen, the processor
    /// seconds and run time that the attempt has had.
    pub(super) from_cpu_s: f64,
    pub(super) from_ran: Span,
    /// The part of the task that was done before this attempt, from 0 to 1.
    pub(super) part: f64,
    /// The part of the task that one processor second of its host adds.
    pub(super) part_per_s: f64,
    /// The time at which it will have done its work if nothing comes in between; [`NEVER`] if its
    /// host goes down before.
    pub(super) done_at: Time,
    /// The interval of progress reports that the scheduler asked for.
    pub(super) report_every: Option<Span>,
    pub(super) replica: bool,
    /// Whether it may compute while its host can.
    pub(super) pace: ComputeState,
    /// Whether the scheduler has stopped it; its host may not know yet.
    pub(super) stopped: bool,
    /// The way it ended, and the time.
    pub(super) end: Option<(AttemptFate, Time)>,
}

/// The states of an attempt with regard to computing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComputeState {
    /// Computes, from the attempt's time `from` on.
    Free,
    /// A rank that is ready at this time and waits for `Effect::Begin`.
    Waits(Time),
    /// Frozen since this time, with another attempt in its slot. `from_cpu_s` and `from_ran` then
    /// hold what it had by that time, and not its host's sums.
    Still(Time),
}

impl Attempt {
    /// Processor seconds that it has had by `now`, a time in `stretch` of its host.
    pub(super) fn cpu_s(&self, stretch: &SteadyInterval, now: Time) -> f64 {
        match self.pace {
            ComputeState::Still(_) => self.from_cpu_s,
            ComputeState::Free if now > self.from => {
                (stretch.cpu_s(now) - self.from_cpu_s).max(0.0)
            }
            _ => 0.0,
        }
    }

    /// The part of the task that is done by `now`, from 0 to 1.
    pub(super) fn done(&self, stretch: &SteadyInterval, now: Time) -> f64 {
        (self.part + self.part_per_s * self.cpu_s(stretch, now)).min(1.0)
    }

    /// Whether it is frozen and takes no slot.
    pub(super) fn is_still(&self) -> bool {
        matches!(self.pace, ComputeState::Still(_))
    }

    /// The time for which it has run by `now`, without suspensions.
    pub(super) fn ran(&self, stretch: &SteadyInterval, now: Time) -> Span {
        match self.pace {
            ComputeState::Still(_) => self.from_ran,
            ComputeState::Free if now > self.from => {
                Span(stretch.ran(now).0.saturating_sub(self.from_ran.0))
            }
            _ => Span::ZERO,
        }
    }

    /// The report of it that its host sends to the scheduler.
    pub(super) fn held(&self, stretch: &SteadyInterval, now: Time) -> HeldAttempt {
        let phase = match (self.pace, stretch.ready()) {
            (ComputeState::Still(_), _) => Phase::Held,
            (ComputeState::Waits(ready), _) if now >= ready => Phase::Ready,
            (ComputeState::Waits(_), _) => Phase::Staging,
            (ComputeState::Free, _) if now < self.from => Phase::Staging,
            (ComputeState::Free, true) => Phase::Running,
            (ComputeState::Free, false) => Phase::Suspended(YieldReason::InUse),
        };

        let frozen_for = if let ComputeState::Still(since) = self.pace {
            now.since(since)
        } else {
            Span::ZERO
        };

        let progress = Some(self.done(stretch, now) as f32);
        HeldAttempt {
            attempt: self.id,
            phase,
            ran: self.ran(stretch, now),
            frozen_for,
            progress,
        }
    }
}
