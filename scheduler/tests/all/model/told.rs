//! What events, effects, policies and settings tell the model.

use common::{AttemptId, HostId};
use scheduler::effect::EndReason;
use scheduler::{Effect, Event};

use super::Model;

impl Model {
    /// Whether users may run only so many tasks, and hosts idle for that.
    pub(super) fn bounded(&self) -> bool {
        self.settings.sharing.as_ref().is_some_and(|sharing| {
            sharing.most_running_each.is_some() || !sharing.most_running.is_empty()
        })
    }
}

/// Whether the policy sets limits of its own, at which being killed is no failure.
pub(super) fn learns_limits(policy: &str) -> bool {
    ["TOPTIMAL", "ATOPTIMAL"].contains(&policy) || policy.contains("limits=learned")
}

/// Whether the policy leaves no host idle while tasks wait.
pub(super) fn eager(policy: &str) -> bool {
    ["FCFS", "PRI-CR", "PRI-HISTORY", "deskgrid"].contains(&policy)
}

/// Whose place somebody else took.
pub(super) fn preempted(effect: &Effect) -> Option<AttemptId> {
    match effect {
        Effect::Stop {
            attempt,
            why: EndReason::Preempted { .. },
            ..
        } => Some(*attempt),
        _ => None,
    }
}

/// The host that the event comes from.
pub(super) fn speaker(event: &Event) -> Option<HostId> {
    match event {
        Event::HostJoined { host, .. }
        | Event::HostHeard { host, .. }
        | Event::AttemptsMoved { host, .. }
        | Event::AttemptEnded { host, .. }
        | Event::AttemptsReturned { host, .. } => Some(*host),
        _ => None,
    }
}
