//! The scheduler's independent model as an observer of simulated runs.

use common::{Incarnation, Time};
use scheduler::{Effect, Event, Scheduler, Settings};
use simulator::Observer;

use crate::model::Model;

/// The model as an observer of a run.
#[derive(Default)]
pub(crate) struct Checked {
    model: Option<Model>,
    steps: usize,
    starts: usize,
}

impl Observer for Checked {
    fn began(&mut self, settings: &Settings, incarnation: Incarnation) {
        self.model = Some(Model::new(settings.clone(), incarnation));
    }

    fn stepped(&mut self, now: Time, events: &[Event], effects: &[Effect], scheduler: &Scheduler) {
        let model = self.model.as_mut().expect("the run has begun");
        let (last, first) = events.split_last().expect("a step has an event");

        let mut rest = effects;
        for event in first {
            let own = rest.iter().take_while(|effect| follows(effect, event));
            let (own, others) = rest.split_at(own.count());
            model.consider(now, event, own, scheduler);
            rest = others;
        }
        model.consider(now, last, rest, scheduler);
        model.compare(scheduler);

        self.steps += 1;
        self.starts += effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Start { .. }))
            .count();
    }
}

impl Checked {
    /// Fails if too little happened for the run to show anything.
    pub(crate) fn saw(&self, steps: usize, starts: usize) {
        assert!(
            self.steps >= steps && self.starts >= starts,
            "{} steps, {} starts",
            self.steps,
            self.starts
        );
    }
}

/// Whether an effect of a step with several events is that of this one, which others follow.
fn follows(effect: &Effect, event: &Event) -> bool {
    match (event, effect) {
        (
            Event::JobSubmitted { job, .. },
            Effect::JobAdmitted { job: of } | Effect::JobRefused { job: of, .. },
        )
        | (
            Event::UnrequestedCancelled { job },
            Effect::TasksCancelled { job: of, .. } | Effect::JobSettled { job: of, .. },
        ) => job == of,
        (
            Event::UnrequestedCancelled { job } | Event::JobForgotten { job },
            Effect::Stop { attempt, .. } | Effect::Ended { attempt, .. },
        ) => attempt.task.job == *job,
        (Event::AttemptsMoved { held, .. }, Effect::Executing { attempt }) => {
            held.iter().any(|held| held.attempt == *attempt)
        }
        (
            Event::AttemptEnded { .. },
            Effect::Ended { .. }
            | Effect::Acknowledge { .. }
            | Effect::TaskSettled { .. }
            | Effect::JobSettled { .. },
        ) => true,
        _ => false,
    }
}
