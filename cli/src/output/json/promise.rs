//! The JSON of promises, of learned limits, and of the quality of estimates.

use common::Span;
use common::view::{
    CounterView, EstimatesView, LimitsView, PromiseStatus, PromiseView, QualityView,
};
use serde::ser::SerializeMap;

use super::{Fields, Json, Object};
use crate::output::when::iso;

/// The promise made to a job with a deadline.
impl Object for PromiseView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("deadline", iso(self.deadline));
        to.field("promised_finish", iso(self.finish));
        to.field("probability", self.probability);
        to.field("probation", self.probation);
        to.some("estimates", self.estimates.as_ref().map(Json));
    }
}

/// The promises that could be made instead of the refused one.
impl Object for CounterView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.some("earliest_deadline", self.earliest.map(|(at, _)| iso(at)));
        to.some(
            "earliest_deadline_s",
            self.earliest.map(|(_, span)| span.secs()),
        );
        to.text("fits", &self.fits);
        to.field("fits_tasks", self.fits.len());
    }
}

/// The promise of a job, and its present state: one of `on-time`, `at-risk`, `kept`, `broken` and
/// `withdrawn`.
impl Object for PromiseStatus {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("deadline", iso(self.deadline));
        to.field("promised_finish", iso(self.finish));
        to.field("promise_made", iso(self.made));
        to.field("probability", self.probability);
        to.field("probation", self.probation);
        to.text("promise", self.state);
        to.field("promise_why", &self.why);
    }
}

/// The limits of a job's attempts, as run times on a host of speed 1. `sequence_s` is empty while
/// too little is known, or where limits do not pay; then `why` is there.
impl Object for LimitsView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        let algorithm = if self.zeta > 0.0 {
            "ATOptimal"
        } else {
            "TOptimal"
        };
        let sequence_s: Vec<f64> = self.limits.iter().map(|limit| limit.secs()).collect();

        to.field("runs", self.runs);
        to.field("killed", self.killed);
        to.field("algorithm", algorithm);
        to.field("zeta", self.zeta);
        to.field("sequence_s", sequence_s);
        to.field("done", &self.done);
        to.field("p_first", self.done.first());
        to.field("expected_cost_s", self.expected.map(Span::secs));
        to.some("why", self.why.as_ref());
    }
}

/// The quality of a user's estimates for a program.
impl Object for QualityView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        let (ratio, low, high) = self.ratio;
        to.field("tasks", self.tasks);
        to.field("ratio", ratio);
        to.field("ratio_low", low);
        to.field("ratio_high", high);
        to.field("qoe", self.qoe);
    }
}

/// The quality of a user's estimates for a program, with their names; `quality` is `null` where
/// nothing was estimated.
impl Object for EstimatesView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("user", &self.user);
        to.field("program", &self.program);
        to.field("tasks", self.tasks);
        to.field("quality", self.quality.as_ref().map(Json));
    }
}
