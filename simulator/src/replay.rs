//! Records a run ([`Recording`]), and feeds what was recorded to a fresh scheduler.

use common::{Incarnation, Time};
use scheduler::{Effect, Event, Scheduler, Settings};
use serde::{Deserialize, Serialize};

use crate::kernel::Observer;

/// A recorded run: the scheduler's settings, and every event with its time, in order. As the
/// [`Observer`] of a run it records that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The scheduler's settings.
    pub settings: Settings,
    /// The incarnation that its attempts carried.
    pub incarnation: Incarnation,
    /// The events, each with its time in microseconds since the run's origin.
    pub events: Vec<(Time, Event)>,
}

impl Observer for Recording {
    fn began(&mut self, settings: &Settings, incarnation: Incarnation) {
        self.settings = settings.clone();
        self.incarnation = incarnation;
    }

    fn stepped(&mut self, now: Time, events: &[Event], _effects: &[Effect], _: &Scheduler) {
        let events = events.iter().map(|event| (now, event.clone()));
        self.events.extend(events);
    }
}

/// Computes the effects of the run, event by event. A scheduler is a function of its record: the
/// same record always gives the same effects.
pub fn replay(record: &Recording) -> Vec<Vec<Effect>> {
    let mut scheduler = Scheduler::new(record.settings.clone(), record.incarnation);
    let step = |(now, event): &(Time, Event)| {
        let mut effects = Vec::new();
        scheduler.step(*now, event.clone(), &mut effects);
        effects
    };
    record.events.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::host::OwnerState;
    use common::job::Rules;
    use common::{HostId, IdSet, JobId, Speed};
    use scheduler::event::Bag;

    #[test]
    fn a_record_that_was_written_down_and_read_back_has_the_same_effects() {
        let bag = Bag::new(IdSet::from_range(1, 5), Rules::default());
        let joined = Event::HostJoined {
            host: HostId(1),
            slots: 2,
            speed: Speed::REFERENCE,
            status: OwnerState::Away.into(),
            held: Vec::new(),
        };

        let events = vec![
            (
                Time(1),
                Event::JobSubmitted {
                    job: JobId(1),
                    bag: Box::new(bag),
                    tested: None,
                },
            ),
            (Time(2), joined),
            (Time(3), Event::Tick),
        ];
        let record = Recording {
            settings: Settings::default(),
            incarnation: Incarnation(1),
            events,
        };
        let again: Recording =
            postcard::from_bytes(&postcard::to_stdvec(&record).unwrap()).unwrap();
        let effects = replay(&record);
        assert_eq!(effects, replay(&again));
        assert!(
            effects[1]
                .iter()
                .filter(|effect| matches!(effect, Effect::Start { .. }))
                .count()
                == 2,
            "{effects:?}"
        );
    }
}
