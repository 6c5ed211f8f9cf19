//! The distribution of an attempt's completion time: laws of live and of possible attempts, from
//! the last report of the host and from the survival of hosts and owners' absences. Decisions on
//! them live in `policy::replication::gain` and `handlers::lookahead`.

use crate::prediction::experience::{Curves, Temper};

/// The law of one attempt's completion. Times are in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CompletionLaw {
    /// The completion time if nothing interferes; for a suspended attempt, counted from its
    /// resumption.
    pub(crate) end_s: f64,
    /// The probability that its host stays up until `end_s`.
    pub(crate) alive: f64,
    /// The probability that it is not suspended before `end_s`.
    pub(crate) undisturbed: f64,
    /// The time for which it has been suspended, if it is.
    pub(crate) suspended_s: Option<f64>,
}

/// The state of the host on which an attempt runs, or would run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AttemptHost {
    /// The time since its host came up.
    pub(crate) up_s: f64,
    /// The time since its owner came or went.
    pub(crate) owner_s: f64,
    pub(crate) suspended: bool,
    /// The host's factors on the common rates.
    pub(crate) temper: Temper,
}

impl CompletionLaw {
    /// Returns the law of an attempt that needs `left_s` more on its host, suspensions not counted.
    pub(crate) fn of(left_s: f64, place: AttemptHost, curves: &Curves) -> Self {
        let alive = curves
            .failure
            .survival_times(place.up_s, left_s, place.temper.failure);
        if place.suspended {
            return Self {
                end_s: left_s,
                alive,
                undisturbed: 0.0,
                suspended_s: Some(place.owner_s),
            };
        }

        let undisturbed =
            curves
                .suspension
                .survival_times(place.owner_s, left_s, place.temper.suspension);
        Self {
            end_s: left_s,
            alive,
            undisturbed,
            suspended_s: None,
        }
    }

    /// Multiplies each of `values` by the probability that the attempt is not done at that time of
    /// `at_s`, in seconds from now.
    pub(crate) fn multiply_undone(&self, at_s: &[f64], values: &mut [f64], curves: &Curves) {
        // An attempt that is suspended at `end_s` is still not done later with the probability of a
        // suspension that lasts from `already_s` on, times `suspended`.
        let (already_s, suspended) = match self.suspended_s {
            None => (0.0, 1.0 - self.undisturbed),
            Some(already_s) => (already_s, curves.resumption.alive(already_s).recip()),
        };

        let gone = 1.0 - self.alive;
        let here = self.alive * suspended;
        let late = at_s
            .iter()
            .zip(values)
            .filter(|(at_s, _)| **at_s >= self.end_s);
        for (at_s, value) in late {
            *value *= gone + here * curves.resumption.alive(at_s - self.end_s + already_s);
        }
    }
}
