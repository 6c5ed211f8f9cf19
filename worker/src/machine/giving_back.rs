//! The attempts that the machine gives back to the master: those not started yet, and those that it
//! ends for the owner's sake. Attempts that the master ends are not given back.

use std::fmt;

use common::attempt::Spent;
use common::host::YieldReason;
use common::{AttemptId, Span, Time};

use super::run::{EndCause, RunningCommand};
use super::{Action, AttemptEnding, Decision, Machine, save_and_end};

/// The most time that commands have to end when the worker shuts down: the system kills a service
/// that takes longer than thirty seconds, and what it had is lost then instead of given back.
pub(super) const CLOSING: Span = Span::from_secs(15);

/// The reason why an attempt is given back, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackReason {
    /// The worker shuts down.
    Shutdown,
    /// The owner's programs need the memory that frozen attempts keep.
    Memory,
    /// The owner wants the host, by this rule if one holds.
    Owner(Option<YieldReason>),
}

impl fmt::Display for BackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shutdown => f.write_str("the worker shuts down"),
            Self::Memory => f.write_str("the owner's programs need the memory"),
            Self::Owner(Some(reason)) => write!(f, "the owner wants the host: {reason}"),
            Self::Owner(None) => f.write_str("the owner wants the host"),
        }
    }
}

impl Machine {
    /// Returns the reason why attempts are given back now.
    pub(super) fn why_not_now(&self) -> BackReason {
        if self.leaving {
            return BackReason::Shutdown;
        }
        match (self.decision, self.decision.reason()) {
            // Whichever rule comes first, only for memory is anything evicted.
            (Decision::Evict(_), _) | (_, Some(YieldReason::LowMemory)) => BackReason::Memory,
            (_, reason) => BackReason::Owner(reason),
        }
    }

    /// Returns the time after which what is frozen for the owner is given back, if that may be now.
    pub(super) fn patience_now(&self) -> Option<Span> {
        self.patience.filter(|_| self.heard)
    }

    /// Ends and gives back frozen attempts, each after a checkpoint: those that have been frozen for
    /// the owner for `patience`, or (`None`) all.
    pub(super) fn return_frozen(
        &mut self,
        now: Time,
        patience: Option<Span>,
        actions: &mut Vec<Action>,
    ) {
        let why = self.why_not_now();
        for (id, run) in &mut self.running {
            let due = match patience {
                Some(patience) => run.yields_for(now).is_some_and(|span| span >= patience),
                None => run.frozen(),
            };
            if due && run.is_open() {
                let cause = EndCause::Returned(why);
                save_and_end((*id, run), cause, now + self.grace, actions);
            }
        }
    }

    /// Gives back every attempt that was not started.
    pub(super) fn give_back(&mut self, actions: &mut Vec<Action>) {
        let mut back: Vec<AttemptId> = self.queued.drain(..).map(|a| a.attempt).collect();
        let prepared = std::mem::take(&mut self.staging).into_keys();
        let prepared: Vec<AttemptId> = prepared
            .chain(self.ready.drain(..).map(|(id, _)| id))
            .collect();
        actions.extend(prepared.iter().map(|id| Action::Drop(*id)));
        self.dropped.extend(&prepared);
        back.extend(prepared);

        self.reports.retain(|id, _| self.running.contains_key(id));
        self.together.clear();
        if !back.is_empty() {
            actions.push(Action::Return(back, self.why_not_now().to_string()));
        }
    }

    /// Gives back every attempt that has not ended; running ones are asked to end first, and killed
    /// after the grace time, or [`CLOSING`] where that is shorter.
    pub(super) fn on_shutdown(&mut self, now: Time, actions: &mut Vec<Action>) {
        if std::mem::replace(&mut self.leaving, true) {
            return;
        }

        // Sent first, so that the master does not assign them to this worker again.
        actions.push(Action::Closing);
        self.give_back(actions);
        let kill_at = now + self.grace.min(CLOSING);
        for (id, run) in &mut self.running {
            if run.is_open() {
                let cause = EndCause::Returned(BackReason::Shutdown);
                save_and_end((*id, run), cause, kill_at, actions);
            } else {
                // It was asked to end before.
                run.kill_at = run.kill_at.map(|at| at.min(kill_at));
            }
        }
    }
}

/// Gives back an attempt whose command has ended for that.
pub(super) fn give_back_ended(
    (now, id): (Time, AttemptId),
    run: &RunningCommand,
    why: BackReason,
    ending: AttemptEnding,
    actions: &mut Vec<Action>,
) {
    let spent = Spent {
        attempt: id,
        ran: run.ran(now),
        suspended: run.suspended(now),
        cpu: ending.cpu,
    };

    actions.push(Action::Discard(Box::new(ending)));
    actions.push(Action::Return(vec![id], why.to_string()));
    actions.push(Action::Spent(spent));
}
