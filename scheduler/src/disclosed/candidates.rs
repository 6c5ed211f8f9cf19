//! Attempts that may be preempted ([`PreemptionCandidate`]), and those of one host that make room
//! enough together ([`Preemption`]). The task for which they do is chosen in
//! `crate::disclosed::preemption`.

use std::cmp::Reverse;

use common::needs::Demand;
use common::{AttemptId, HostId, Span};

use crate::state::host::{Host, HostAttempt};
use crate::state::speculation::TaskTurn;

/// The preemption order; the greatest goes first: disclosed tasks, those that lose the least, and
/// the last in order of those.
type CandidateOrder = (bool, Reverse<Span>, u64, u64, u32, Reverse<AttemptId>);

/// An attempt that may be preempted, with the values that rank it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreemptionCandidate {
    pub(crate) host: HostId,
    pub(crate) attempt: AttemptId,
    pub(crate) turn: TaskTurn,
    /// The work that is left.
    pub(crate) left: Span,
    /// The time on its host that would be lost.
    pub(crate) loss: Span,
}

impl PreemptionCandidate {
    pub(crate) fn order(&self) -> CandidateOrder {
        (
            self.turn.disclosed,
            Reverse(self.loss),
            self.turn.key,
            self.turn.place,
            self.turn.index,
            Reverse(self.attempt),
        )
    }
}

/// Attempts of one host that are preempted together for one task. None of them is needless: without
/// any one there would not be room enough.
#[derive(Debug, Clone)]
pub(crate) struct Preemption {
    pub(crate) host: HostId,
    /// In preemption order, at least one.
    pub(crate) all: Vec<PreemptionCandidate>,
}

impl From<PreemptionCandidate> for Preemption {
    fn from(one: PreemptionCandidate) -> Self {
        Self {
            host: one.host,
            all: vec![one],
        }
    }
}

impl Preemption {
    /// Returns those of these attempts of a host that make room for an attempt of this demand: the
    /// first one that is enough, or else several. `None` if all of them are not enough, or none is
    /// needed.
    pub(crate) fn least(
        host: &Host,
        takes: Demand,
        mut found: Vec<PreemptionCandidate>,
    ) -> Option<Self> {
        let enough = |of: &[PreemptionCandidate]| {
            let loads: Vec<&HostAttempt> = of
                .iter()
                .filter_map(|one| host.books.get(&one.attempt))
                .collect();
            host.has_room_without(takes, &loads, &[])
        };
        if enough(&[]) {
            return None;
        }

        found.sort_by_key(|one| Reverse(one.order()));
        if let Some(one) = found.iter().find(|one| enough(&[**one])) {
            return Some(Self::from(*one));
        }

        let count = (2..=found.len()).find(|count| enough(&found[..*count]))?;
        found.truncate(count);
        // The last one was needed. Of those before it some may not be, beside it.
        for at in (0..count - 1).rev() {
            let without = found.remove(at);
            if !enough(&found) {
                found.insert(at, without);
            }
        }

        Some(Self {
            host: host.id,
            all: found,
        })
    }

    /// Returns the preemption order by what they lose together, and then of the last one.
    pub(crate) fn order(&self) -> Option<CandidateOrder> {
        let loss = self.all.iter().fold(Span::ZERO, |sum, one| sum + one.loss);
        let disclosed = self.all.iter().all(|one| one.turn.disclosed);
        let (_, _, key, place, index, attempt) = self.all.last()?.order();
        Some((disclosed, Reverse(loss), key, place, index, attempt))
    }
}
