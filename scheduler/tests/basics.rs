//! The walk of one bag from submission to settlement.

use common::attempt::Outcome;
use common::host::OwnerState;
use common::job::Rules;
use common::view::{JobState, TaskState};
use common::{HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId, Time};
use scheduler::event::Bag;
use scheduler::{Effect, Event, Scheduler, Settings};

#[test]
fn a_bag_is_assigned_completed_and_settled() {
    let mut s = Scheduler::new(Settings::default(), Incarnation(1));
    let mut fx = Vec::new();
    let bag = Bag { tasks: IdSet::from_range(1, 3), rules: Rules::default() };
    s.step(Time(0), Event::JobSubmitted { job: JobId(1), bag }, &mut fx);
    let joined =
        Event::HostJoined { host: HostId(1), slots: 2, speed: Speed::REFERENCE, owner: OwnerState::Away, held: vec![] };
    s.step(Time(1), joined, &mut fx);
    let mut settled = false;
    let mut at = 0;
    while at < fx.len() {
        if let Effect::Start { host, attempt, .. } = fx[at] {
            let (outcome, ran) = (Outcome::Succeeded, Span::from_secs(5));
            s.step(Time(2 + at as u64), Event::AttemptEnded { host, attempt, outcome, ran }, &mut fx);
        }
        settled |= matches!(fx[at], Effect::JobSettled { state: JobState::Finished, .. });
        at += 1;
    }
    assert!(settled, "{fx:#?}");
    assert_eq!(s.task_state(TaskId::new(JobId(1), 3)), Some(TaskState::Finished));
}
