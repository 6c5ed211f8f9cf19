//! When will an attempt be done? Probability laws of live and of possible attempts, from what its
//! host last said and from how long hosts and owners stay. What is not here: what follows from
//! them.

use crate::prediction::experience::{Curves, Temper};

/// The law of one attempt's end. Times are in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Law {
    /// When it is done if nothing comes between; of a suspended one, after it goes on.
    pub(crate) end_s: f64,
    /// The probability that its host stays up for so long.
    pub(crate) alive: f64,
    /// The probability that it is not suspended before.
    pub(crate) undisturbed: f64,
    /// For how long it has been suspended, if it is.
    pub(crate) suspended_s: Option<f64>,
}

/// Where an attempt runs, or would run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    /// For how long its host has been up.
    pub(crate) up_s: f64,
    /// For how long its owner has been as now.
    pub(crate) owner_s: f64,
    pub(crate) suspended: bool,
    /// How its host differs from others.
    pub(crate) temper: Temper,
}

impl Law {
    /// The law of an attempt that needs `left_s` more where it is, suspensions not counted.
    pub(crate) fn of(left_s: f64, place: Place, curves: &Curves) -> Self {
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

    /// Multiplies each of `values` with the probability that it is not done at that one of these
    /// times, in seconds from now.
    pub(crate) fn multiply_undone(&self, at_s: &[f64], values: &mut [f64], curves: &Curves) {
        // What is suspended when its end has come is still suspended then with this probability,
        // times that of a suspension's lasting from `already_s` on.
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
