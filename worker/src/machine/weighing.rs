//! The weighing of frozen attempts, before those are given back that keep memory from the owner's programs. One that holds
//! more than the owner lends to all would do the same on the next host: it ends as a failure of its task, and the others
//! stay for now if what they hold together was lent.

use std::collections::{BTreeMap, BTreeSet};

use common::units::Bytes;
use common::{AttemptId, Outcome, Span, Time};

use super::run::EndCause;
use super::{Action, Machine, save_and_end};

/// The longest time that the weighing may take: the owner's programs wait for memory meanwhile.
const PATIENCE: Span = Span::from_secs(3);
/// The bytes of a GiB.
const GIB: u64 = 1 << 30;

/// The frozen attempts of which the worker is about to say what they hold.
#[derive(Debug)]
pub(super) struct Weighing {
    /// Those of which it is not known yet.
    waits: BTreeSet<AttemptId>,
    /// The bytes that the others hold, where that can be told.
    held: BTreeMap<AttemptId, u64>,
    until: Time,
}

impl Weighing {
    /// Returns the time at which it ends with what is known.
    pub(super) fn until(&self) -> Time {
        self.until
    }
}

impl Machine {
    /// Begins to give back what is frozen, since it keeps memory from the owner's programs.
    pub(super) fn evict(&mut self, now: Time, actions: &mut Vec<Action>) {
        if !self.weighs {
            return self.return_frozen(now, None, actions);
        }
        if self.lends.memory_mib == u32::MAX {
            return self.return_weighed(now, &BTreeMap::new(), actions);
        }

        let open = self
            .running
            .iter()
            .filter(|(_, run)| run.frozen() && run.is_open());
        let waits: BTreeSet<AttemptId> = open.map(|(id, _)| *id).collect();
        actions.extend(waits.iter().map(|id| Action::Measure(*id)));
        self.weighing = Some(Weighing {
            waits,
            held: BTreeMap::new(),
            until: now + PATIENCE,
        });
    }

    /// Notes what an attempt holds.
    pub(super) fn on_measured(&mut self, id: AttemptId, bytes: Option<u64>) {
        if let Some(weighing) = &mut self.weighing
            && weighing.waits.remove(&id)
        {
            weighing.held.extend(bytes.map(|bytes| (id, bytes)));
        }
    }

    /// Ends the frozen attempts that hold too much, once that is known. Gives the others back if nothing was ended, or if
    /// they may still hold more than is lent to all.
    pub(super) fn judge(&mut self, now: Time, actions: &mut Vec<Action>) {
        let there = &self.running;
        let done = self.weighing.take_if(|weighing| {
            weighing.waits.retain(|id| there.contains_key(id));
            weighing.waits.is_empty() || weighing.until <= now
        });
        let Some(weighing) = done else { return };

        let most = self.lent_bytes();
        let mut ended = Vec::new();
        for (id, bytes) in weighing.held.iter().filter(|(_, held)| **held > most) {
            if let Some(run) = self.running.get_mut(id)
                && run.is_open()
            {
                let cause = EndCause::HeldTooMuch(*bytes);
                save_and_end((*id, run), cause, now + self.grace, actions);
                ended.push(*id);
            }
        }

        let others = self.running.iter();
        let mut rest = others
            .filter(|(_, run)| run.frozen() && run.is_open())
            .map(|(id, _)| weighing.held.get(id));
        let left = rest.try_fold(0_u64, |sum, held| Some(sum.saturating_add(*held?)));

        if ended.is_empty() || left.is_none_or(|left| left > most) {
            self.return_weighed(now, &weighing.held, actions);
        } else {
            actions.push(Action::Relieved(ended));
        }
    }

    /// Ends and gives back all frozen attempts, each after a checkpoint and with what is known of the memory that it
    /// holds: the master does not put as much of it on one host again.
    fn return_weighed(
        &mut self,
        now: Time,
        held: &BTreeMap<AttemptId, u64>,
        actions: &mut Vec<Action>,
    ) {
        for (id, run) in &mut self.running {
            if run.frozen() && run.is_open() {
                let cause = EndCause::Weighed(held.get(id).copied());
                save_and_end((*id, run), cause, now + self.grace, actions);
            }
        }
    }

    /// Returns the outcome of an attempt that held so many bytes.
    pub(super) fn held_too_much(&self, bytes: u64) -> Outcome {
        let needs = bytes.div_ceil(GIB);
        let held = Bytes(bytes);
        let lent = Bytes(self.lent_bytes());
        Outcome::OverLimit(format!(
            "it held {held} of memory when its host had too little left for its owner's programs, and {lent} are lent to all \
             tasks together there; with --needs mem={needs}G it goes only to hosts that lend as much"
        ))
    }

    fn lent_bytes(&self) -> u64 {
        u64::from(self.lends.memory_mib) << 20
    }
}
