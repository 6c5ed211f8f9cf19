//! What a run knows of each host and of each attempt: the truth, and what of it was told to the
//! scheduler. What is not here: the order of events.

use common::attempt::{Held, Phase};
use common::host::YieldReason;
use common::{AttemptId, Span, Speed, Time};
use smallvec::SmallVec;

use super::course::{Course, Stretch};
use super::outcome::Fate;

/// No time: what is not planned.
pub(super) const NEVER: Time = Time(u64::MAX);

/// Places of attempts in the run's list. Of most hosts they lie in the host itself: to look
/// elsewhere in memory costs more.
pub(super) type Numbers = SmallVec<[u32; 4]>;

/// A host in a run.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// The number of its present stretch.
    pub(super) stretch: u32,
    /// A stretch with its number, copied here when an attempt started in it: what follows need not
    /// look elsewhere in memory.
    pub(super) near: Option<(u32, Stretch)>,
    pub(super) speed: Speed,
    /// Its attempts, as places in the run's list, stopped ones that it does not know of included.
    pub(super) held: Numbers,
    /// Since when it has had attempts without a break: heartbeats are counted from here.
    pub(super) busy_since: Time,
    /// Time between heartbeats.
    pub(super) every: Span,
    /// The next heartbeat that has something to say.
    pub(super) beat_at: Time,
    /// When the scheduler will miss it, after it went down with attempts.
    pub(super) missed_at: Time,
    /// What the scheduler was told last: whether tasks can compute, and with which part of the
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

    /// Makes it a host that has done nothing yet, on this course at this time.
    pub(super) fn reset(&mut self, course: &Course, at: Time) {
        let mut held = std::mem::take(&mut self.held);
        held.clear();
        *self = Host {
            stretch: course.index(at) as u32,
            speed: course.speed,
            held,
            ..Host::IDLE
        };
    }

    /// Its first heartbeat after `now`.
    pub(super) fn next_beat(&self, now: Time) -> Time {
        let every = self.every.0.max(1);
        self.busy_since + Span((now.since(self.busy_since).0 / every + 1).saturating_mul(every))
    }

    /// Its last heartbeat up to `now`.
    pub(super) fn last_beat(&self, now: Time) -> Time {
        let every = self.every.0.max(1);
        self.busy_since + Span(now.since(self.busy_since).0 / every * every)
    }

    pub(super) fn has_news(&self, stretch: &Stretch) -> bool {
        self.told != (stretch.ready(), stretch.cpu)
    }
}

/// An attempt in a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    pub(super) host: u32,
    pub(super) began: Time,
    /// When it begins to compute, where its host stays up until then.
    pub(super) from: Time,
    /// Sums of its host at that time.
    pub(super) from_cpu_s: f64,
    pub(super) from_ran: Span,
    /// The part of the task that was done before it.
    pub(super) part: f64,
    /// What a processor second of its host adds to that part.
    pub(super) part_per_s: f64,
    /// When it will have done its work, if nothing comes in between; never where its host goes down
    /// before.
    pub(super) done_at: Time,
    /// How often its host is to report.
    pub(super) report_every: Option<Span>,
    pub(super) replica: bool,
    /// Whether it may compute where its host does.
    pub(super) pace: Pace,
    /// Whether the scheduler wants it to end; its host may not know.
    pub(super) stopped: bool,
    /// How it ended, and when.
    pub(super) end: Option<(Fate, Time)>,
}

/// Whether an attempt may compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// It may, from its time on.
    Free,
    /// It is a rank that is ready at this time, and waits for the scheduler's word.
    Waits(Time),
    /// It has stood still since then, so that another has its slot. What it had by then is in the
    /// place of its host's sums.
    Still(Time),
}

impl Attempt {
    /// Processor seconds that it has had by `now`, a time in this stretch of its host.
    pub(super) fn cpu_s(&self, stretch: &Stretch, now: Time) -> f64 {
        match self.pace {
            Pace::Still(_) => self.from_cpu_s,
            Pace::Free if now > self.from => (stretch.cpu_s(now) - self.from_cpu_s).max(0.0),
            _ => 0.0,
        }
    }

    /// The part of the task that is done by `now`.
    pub(super) fn done(&self, stretch: &Stretch, now: Time) -> f64 {
        (self.part + self.part_per_s * self.cpu_s(stretch, now)).min(1.0)
    }

    /// For how long it has run by `now`, suspensions not counted.
    pub(super) fn ran(&self, stretch: &Stretch, now: Time) -> Span {
        match self.pace {
            Pace::Still(_) => self.from_ran,
            Pace::Free if now > self.from => {
                Span(stretch.ran(now).0.saturating_sub(self.from_ran.0))
            }
            _ => Span::ZERO,
        }
    }

    /// What its host says of it.
    pub(super) fn held(&self, stretch: &Stretch, now: Time) -> Held {
        let phase = match (self.pace, stretch.ready()) {
            (Pace::Still(_), _) => Phase::Held,
            (Pace::Waits(ready), _) if now >= ready => Phase::Ready,
            (Pace::Waits(_), _) => Phase::Staging,
            (Pace::Free, _) if now < self.from => Phase::Staging,
            (Pace::Free, true) => Phase::Running,
            (Pace::Free, false) => Phase::Suspended(YieldReason::InUse),
        };

        let frozen_for = if let Pace::Still(since) = self.pace {
            now.since(since)
        } else {
            Span::ZERO
        };

        let progress = Some(self.done(stretch, now) as f32);
        Held {
            attempt: self.id,
            phase,
            ran: self.ran(stretch, now),
            frozen_for,
            progress,
        }
    }
}
