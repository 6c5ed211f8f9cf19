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
        let undisturbed = if place.suspended {
            0.0
        } else {
            let factor = place.temper.suspension;
            curves
                .suspension
                .survival_times(place.owner_s, left_s, factor)
        };

        Self {
            end_s: left_s,
            alive,
            undisturbed,
            suspended_s: place.suspended.then_some(place.owner_s),
        }
    }

    /// Returns the law of an attempt that starts in `start_s` from now and takes `task_s` there.
    pub(crate) fn starting_in(
        start_s: f64,
        task_s: f64,
        place: AttemptHost,
        curves: &Curves,
    ) -> Self {
        let then = AttemptHost {
            up_s: place.up_s + start_s,
            owner_s: place.owner_s + start_s,
            ..place
        };
        let law = Self::of(task_s, then, curves);
        Self {
            end_s: start_s + law.end_s,
            ..law
        }
    }

    /// Returns the probability that the task is not done at `at_s` seconds from now, where a lost
    /// attempt is followed by another one that takes `again_s` from the loss on, and so is a
    /// suspended one if `copied`. Both are equally likely at any time until the expected end.
    pub(crate) fn undone_with_restarts(
        &self,
        at_s: f64,
        again_s: f64,
        copied: bool,
        curves: &Curves,
    ) -> f64 {
        if at_s < self.end_s.min(again_s) {
            return 1.0;
        }
        let again = ((self.end_s + again_s - at_s) / self.end_s.max(1e-3)).clamp(0.0, 1.0);
        let gone = (1.0 - self.alive) * again;
        if at_s < self.end_s {
            return self.alive + gone;
        }

        let (already_s, suspended) = self.suspension(curves);
        let back_later = curves.resumption.alive(at_s - self.end_s + already_s);
        let uncopied = if copied { again } else { 1.0 };
        gone + self.alive * suspended * back_later * uncopied
    }

    /// Multiplies each of `values` by the probability that the attempt is not done at that time of
    /// `at_s`, in seconds from now.
    pub(crate) fn multiply_undone(&self, at_s: &[f64], values: &mut [f64], curves: &Curves) {
        let (already_s, suspended) = self.suspension(curves);
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

    /// Returns the age of its suspension at `end_s`, and a factor: if it is suspended then, it is still not
    /// done later with the probability that suspensions last from that age on, times the factor.
    fn suspension(&self, curves: &Curves) -> (f64, f64) {
        match self.suspended_s {
            None => (0.0, 1.0 - self.undisturbed),
            Some(already_s) => (already_s, curves.resumption.alive(already_s).recip()),
        }
    }
}
