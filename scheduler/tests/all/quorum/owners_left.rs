//! Explanations and predictions of jobs for whose results there may be too few owners.

use super::*;
use crate::events;

#[test]
fn a_quorum_beyond_the_number_of_owners_is_explained_as_such() {
    let mut court = Court::new(1, 4, false);
    court.hosts(3);
    court.run(|_, _| TRUTH);
    assert_ne!(court.state(), JobState::Finished);

    let why = court.scheduler.explain(JOB).expect("the job is there");
    let tasks: Vec<&str> = why.tasks.iter().map(|(why, _)| why.as_str()).collect();
    assert_eq!(
        tasks,
        [
            "4 results of different owners' hosts must agree, and all hosts that qualify belong to 3 owners \
             (if some hosts belong to other people, an admin can say so: deskgrid host owner HOST OWNER)"
        ]
    );
    let nowhere = |size| {
        let quorum = Quorum {
            size,
            ..Quorum::default()
        };
        court.scheduler.why_nowhere(&Needs::default(), quorum)
    };
    assert_eq!(nowhere(4).as_deref(), tasks.first().copied());
    assert_eq!(nowhere(3), None);

    let hosts: Vec<&str> = why.hosts.iter().map(|(_, why)| why.as_str()).collect();
    assert_eq!(
        hosts,
        ["ready: its owner's hosts have had each task that waits"; 3]
    );
}

#[test]
fn no_end_is_predicted_where_no_host_of_another_owner_is_left_for_a_result() {
    let mut court = Court::estimated(1, false);
    let end = |court: &Court| court.scheduler.predict_finish(JOB, court.now);
    let ends = |court: &Court| court.scheduler.predict_all(&[JOB], court.now).len();
    court.host(1, 1, 0);
    court.host(2, 1, 0);
    assert_eq!((end(&court), ends(&court)), (None, 0), "one owner's hosts");
    court.host(3, 3, 0);
    assert!(end(&court).is_some(), "two results are on their way");

    court.delivers(1, 7);
    court.delivers(3, TRUTH);
    assert_eq!((end(&court), ends(&court)), (None, 0), "two results differ");
    let why = court.scheduler.explain(JOB).expect("the job is there");
    let told = |(why, tasks): &(String, IdSet)| {
        let says = [
            "no such host takes work now",
            "deskgrid host owner HOST OWNER",
        ];
        says.iter().all(|words| why.contains(words)) && tasks.len() == 1
    };
    assert!(why.tasks.iter().any(told), "{:?}", why.tasks);

    court.host(4, 4, 0);
    assert!(end(&court).is_some(), "a third result is on its way");
    assert_eq!(ends(&court), 1);
}

#[test]
fn a_job_whose_tasks_all_wait_for_another_owner_is_not_ahead_of_others() {
    let mut court = Court::estimated(2, false);
    court.host(1, 1, 0);
    let other = court.submits_another();
    let is_behind = |court: &Court| {
        let why = court.scheduler.explain(other).expect("the job is there");
        why.tasks.iter().any(|(why, _)| why.starts_with("behind"))
    };
    assert!(is_behind(&court), "one of its tasks was not tried");

    court.delivers(1, TRUTH);
    court.delivers(1, TRUTH);
    let runs = court.on(1).expect("the other job's task");
    assert_eq!((runs.task.job, is_behind(&court)), (other, false));

    let at = court.now + s(9);
    let before = court.scheduler.predict_finish(other, at);
    court.send(events::cancelled(JOB, None));
    let after = court.scheduler.predict_finish(other, at);
    assert!(before.is_some());
    assert_eq!(before, after, "it is predicted as if it were alone");
}

#[test]
fn attempts_of_untried_tasks_for_which_there_are_no_owners_are_not_ahead_of_others() {
    let end_behind = |size| {
        let quorum = Quorum {
            size,
            adaptive: false,
            compare: Compare::Bytes,
        };
        let rules = Rules {
            quorum,
            estimate: Some(s(60)),
            ..Rules::default()
        };
        let mut court = Court::with(6, rules);
        court.hosts(2);
        let other = court.submits_another();
        let at = court.now + s(9);
        court.scheduler.predict_finish(other, at)
    };
    assert!(end_behind(2).is_some());
    assert_eq!(
        end_behind(3),
        end_behind(2),
        "two owners give two results each"
    );
}

#[test]
fn an_end_is_predicted_while_an_owner_who_is_there_may_leave_a_host_for_a_result() {
    let mut court = Court::estimated(1, false);
    court.hosts(2);
    court.send(events::owner(
        HostId(2),
        OwnerState::Present(YieldReason::InUse),
    ));
    let end = court.scheduler.predict_finish(JOB, court.now);
    assert!(end.is_some(), "the copy goes on once its owner leaves");
}

#[test]
fn an_end_is_predicted_where_a_host_of_the_only_owner_is_believed_alone() {
    let mut court = Court::estimated(3, true);
    court.host(1, 1, 0);
    assert_eq!(court.scheduler.predict_finish(JOB, court.now), None);

    let mut court = Court::estimated(3, true);
    court.host(1, 1, u32::MAX);
    assert!(court.scheduler.predict_finish(JOB, court.now).is_some());
}

#[test]
fn no_deadline_is_promised_where_too_few_owners_have_hosts_for_the_results() {
    let mut court = Court::estimated(1, false);
    let mut bag = Bag::new(
        IdSet::from_range(1, 1),
        Rules {
            policy: "CALENDAR".to_owned(),
            ..court.rules.clone()
        },
    );
    bag.terms.deadline = Some(court.now + s(100_000));
    let offer = |court: &Court| court.scheduler.offer(&bag, court.now);
    court.host(1, 1, 0);
    court.host(2, 1, 0);
    assert_eq!(offer(&court).err(), Some(Refused::NoHost));
    court.host(3, 3, 0);
    assert!(offer(&court).is_ok_and(|offer| offer.is_some()));
}
