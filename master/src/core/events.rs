//! Notes the events that followers are told, and stores them with the group that they belong to.

use std::collections::BTreeSet;

use common::attempt::{HeldAttempt, Phase};
use common::event::{GridEvent, in_parts};
use common::host::YieldReason;
use common::view::HostState;
use common::{AttemptId, HostId, IdSet, JobId, Span};

use super::Core;
use super::hosts::Delivered;
use super::retention::DAY;
use crate::Config;
use crate::store::StoreResult;

/// The most bytes of a reason in an event; a worker may report longer ones.
const MAX_WHY: usize = 500;
/// The most rows of events that one turn removes, so that other asks do not wait long.
const PORTION: u32 = 2_000;

/// The events of the present group, and what is known for later ones.
#[derive(Debug)]
pub(super) struct EventBook {
    /// The events of the present group.
    noted: Vec<GridEvent>,
    /// The attempts whose suspension was told.
    frozen: BTreeSet<AttemptId>,
    /// The host whose message is handled at present.
    speaker: Option<HostId>,
    /// The time for which events are kept.
    kept_for: Span,
    /// The most events that are kept.
    most: u64,
}

/// The state of a host as followers are told of it: whether its slots are taken changes with every
/// task.
fn told_state(state: HostState) -> HostState {
    match state {
        HostState::Busy => HostState::Ready,
        other => other,
    }
}

/// Cuts a reason to at most [`MAX_WHY`] bytes.
pub(super) fn short(why: &str) -> String {
    let mut end = why.len().min(MAX_WHY);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    why.get(..end).unwrap_or_default().to_owned()
}

impl EventBook {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            noted: Vec::new(),
            frozen: BTreeSet::new(),
            speaker: None,
            kept_for: Span::from_secs(DAY.saturating_mul(u64::from(config.event_days.max(1)))),
            most: config.limits.events,
        }
    }
}

impl Core {
    /// Notes a [`GridEvent`] of the present group.
    pub(super) fn note_event(&mut self, event: GridEvent) {
        self.events.noted.push(event);
    }

    /// Notes that tasks of a job were cancelled, or reopened where there is no reason.
    pub(super) fn note_tasks(&mut self, job: JobId, tasks: &IdSet, why: Option<&str>) {
        for tasks in in_parts(tasks) {
            self.note_event(match why {
                Some(why) => GridEvent::TasksCancelled {
                    job,
                    tasks,
                    why: short(why),
                },
                None => GridEvent::TasksReopened { job, tasks },
            });
        }
    }

    /// Notes `TaskRunning`: the command of an attempt was started, as its host has just reported.
    pub(super) fn note_running(&mut self, attempt: AttemptId) {
        if let Some(host) = self.events.speaker {
            self.note_event(GridEvent::TaskRunning { attempt, host });
        }
    }

    /// Notes `TaskFinished` by this attempt. If its completion is the one that was just
    /// `delivered`, it ran on the host that delivers.
    pub(super) fn note_finished(
        &mut self,
        attempt: AttemptId,
        delivered: Option<&Delivered>,
    ) -> StoreResult<()> {
        let just_now = delivered.is_some_and(|of| of.completion.attempt == attempt);
        let host = match self.events.speaker.filter(|_| just_now) {
            Some(host) => Some(host),
            None => self.store.host_of(attempt)?,
        };
        if let Some(host) = host {
            self.note_event(GridEvent::TaskFinished { attempt, host });
        }
        Ok(())
    }

    /// Notes that an attempt is not live any more.
    pub(super) fn note_ended(&mut self, attempt: AttemptId) {
        self.events.frozen.remove(&attempt);
        self.words.remove(&attempt);
    }

    /// Notes `HostChanged`, if the state is another one than followers know.
    pub(super) fn note_host(&mut self, id: HostId, state: HostState, owner: Option<YieldReason>) {
        let now = (told_state(state), owner);
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        if host.told.replace(now) != Some(now) {
            self.note_event(GridEvent::HostChanged {
                host: id,
                state: now.0,
                why: owner.map(|owner| owner.to_string()),
            });
        }
    }

    /// Notes which of the attempts that a host reports were frozen or thawed since its last report.
    /// An attempt that the host does not have by the scheduler's books is left out.
    pub(super) fn note_phases(&mut self, host: HostId, held: &[HeldAttempt]) {
        let frozen = |phase: Phase| match phase {
            Phase::Suspended(reason) => Some(Some(reason.to_string())),
            Phase::Held => Some(Some("another task goes first".to_owned())),
            Phase::Running => Some(None),
            _ => None,
        };
        let changed: Vec<(AttemptId, Option<String>)> = held
            .iter()
            .filter_map(|held| Some((held.attempt, frozen(held.phase)?)))
            .filter(|(attempt, why)| why.is_some() != self.events.frozen.contains(attempt))
            .collect();
        if changed.is_empty() {
            return;
        }

        let of_it: BTreeSet<AttemptId> = self
            .scheduler
            .host(host)
            .map_or_else(Vec::new, |status| status.attempts)
            .into_iter()
            .collect();

        for (attempt, why) in changed {
            if !of_it.contains(&attempt) {
                continue;
            }
            if let Some(why) = why {
                self.events.frozen.insert(attempt);
                self.note_event(GridEvent::TaskSuspended { attempt, host, why });
            } else {
                self.events.frozen.remove(&attempt);
                self.note_event(GridEvent::TaskResumed { attempt, host });
            }
        }
    }

    /// Sets the host whose message is handled at present.
    pub(super) fn speaks(&mut self, host: HostId) {
        self.events.speaker = Some(host);
    }

    /// Stores the events of the present group.
    pub(super) fn write_events(&mut self) -> StoreResult<()> {
        let noted = std::mem::take(&mut self.events.noted);
        self.store.add_events(self.now, &noted)
    }

    /// Removes a portion of the events that are old, or too many. Returns whether there may be
    /// more. While the clock is in doubt only their number counts.
    pub(super) fn trim_events(&mut self) -> StoreResult<bool> {
        let then = if self.believes_clock() {
            self.now - self.events.kept_for
        } else {
            common::Time(0)
        };
        self.store.trim_events(then, self.events.most, PORTION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(short("why"), "why");
        let long = short(&"é".repeat(400));
        assert!(long.len() <= MAX_WHY && long.chars().all(|c| c == 'é'));
    }
}
