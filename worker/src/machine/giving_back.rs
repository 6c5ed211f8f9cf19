//! The attempts that the machine gives back to the master: those not started yet, and those that it
//! ends for the owner's sake. Attempts that the master ends are not given back.

use common::{AttemptId, Span, Time};

use super::run::EndCause;
use super::{Action, Machine, ask_to_end};

impl Machine {
    pub(super) fn why_not_now(&self) -> &'static str {
        if self.leaving {
            "the worker shuts down"
        } else {
            "the owner wants the host"
        }
    }

    /// Ends and gives back frozen attempts, each after a checkpoint: those that have been frozen for
    /// the owner for `patience`, or (`None`) all.
    pub(super) fn return_frozen(
        &mut self,
        now: Time,
        patience: Option<Span>,
        actions: &mut Vec<Action>,
    ) {
        for (id, run) in &mut self.running {
            let due = match patience {
                Some(patience) => run.yields_for(now).is_some_and(|span| span >= patience),
                None => run.frozen(),
            };
            if due && run.verdict == EndCause::Open {
                run.verdict = EndCause::Returned;
                actions.push(Action::Save(*id));
                ask_to_end(run, *id, now + self.grace, actions);
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
            actions.push(Action::Return(back, self.why_not_now()));
        }
    }

    /// Gives back every attempt that has not ended; running ones are asked to end first.
    pub(super) fn on_shutdown(&mut self, now: Time, actions: &mut Vec<Action>) {
        if std::mem::replace(&mut self.leaving, true) {
            return;
        }

        // Sent first, so that the master does not assign them to this worker again.
        actions.push(Action::Closing);
        self.give_back(actions);
        for (id, run) in &mut self.running {
            if run.verdict == EndCause::Open {
                run.verdict = EndCause::Returned;
                actions.push(Action::Save(*id));
                ask_to_end(run, *id, now + self.grace, actions);
            }
        }
    }
}
