//! Attempts that are given back since memory is short: what their tasks count as from then on, and
//! how often that may be where nobody can tell what they held.

use common::attempt::{HeldAttempt, Phase};
use common::host::{OwnerState, Status, YieldReason};
use common::job::{Compare, Quorum, Rules};
use common::needs::{Capacity, Needs, Offers};
use common::view::JobState;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId, Time};
use scheduler::effect::Settled;
use scheduler::event::Bag;
use scheduler::{Effect, Event, Scheduler, Settings};

use crate::events;

const GIB: u64 = 1 << 30;
const JOB: JobId = JobId(1);
const PC: HostId = HostId(1);
const SMALL: HostId = HostId(2);
const LARGE: HostId = HostId(3);

/// A grid of PCs with four slots each, whose tasks may take more memory than is counted for them.
struct Grid {
    scheduler: Scheduler,
    now: Time,
    live: Vec<(HostId, AttemptId)>,
    settled: Vec<(TaskId, Settled)>,
}

impl Grid {
    fn new() -> Self {
        let settings = Settings {
            benching: true,
            lease: Span::from_secs(1_000_000),
            suspect_after: Span::from_secs(1_000_000),
            ..Settings::default()
        };

        Self {
            scheduler: Scheduler::new(settings, Incarnation(1)),
            now: Time(1_000_000),
            live: Vec::new(),
            settled: Vec::new(),
        }
    }

    fn send(&mut self, event: Event) {
        self.now = self.now + Span::from_secs(120);
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Start { host, attempt, .. } => self.live.push((host, attempt)),
                Effect::Ended { attempt, .. } => self.live.retain(|(_, live)| *live != attempt),
                Effect::TaskSettled { task, settled } => self.settled.push((task, settled)),
                _ => {}
            }
        }
    }

    /// A PC joins that lends so much memory to all tasks.
    fn joins(&mut self, host: HostId, memory_mib: u32) {
        let capacity = Capacity {
            cores: 4,
            memory_mib,
            gpus: 0,
        };
        let offers = Offers {
            capacity,
            ..Offers::default()
        };
        self.send(events::offered(host, offers));

        let status = Status {
            owner: OwnerState::Away,
            cpu: 1.0,
            up_for: Span::ZERO,
            owner_for: Span::ZERO,
        };
        self.send(Event::HostJoined {
            host,
            slots: 4,
            speed: Speed::REFERENCE,
            status,
            held: Vec::new(),
        });
    }

    fn submit(&mut self, tasks: u32, needs: &str) {
        self.submit_with(tasks, needs, &Rules::default());
    }

    fn submit_with(&mut self, tasks: u32, needs: &str, rules: &Rules) {
        let needs = if needs.is_empty() {
            Needs::default()
        } else {
            Needs::parse([needs]).expect("needs")
        };

        let rules = Rules {
            policy: "FCFS".to_owned(),
            max_losses: 2,
            needs,
            ..rules.clone()
        };
        self.send(events::submitted(
            JOB,
            Bag::new(IdSet::from_range(1, tasks), rules),
        ));
    }

    fn on(&self, host: HostId) -> Vec<AttemptId> {
        let there = self.live.iter().filter(|(on, _)| *on == host);
        there.map(|(_, attempt)| *attempt).collect()
    }

    fn succeeds(&mut self, host: HostId, attempt: AttemptId) {
        self.send(events::succeeded(host, attempt, Span::from_secs(60)));
    }

    fn owner(&mut self, host: HostId, owner: OwnerState) {
        self.send(Event::OwnerChanged { host, owner });
    }

    /// Memory is short on a host: it gives back what it has, each attempt with what it held. Then there is enough again.
    fn crowded(&mut self, host: HostId, held: Option<u64>) {
        self.owner(host, OwnerState::Present(YieldReason::LowMemory));

        for attempt in self.on(host) {
            self.send(Event::AttemptWeighed {
                host,
                attempt,
                bytes: held,
            });
            self.send(events::returned(host, vec![attempt]));
        }
        self.owner(host, OwnerState::Away);
    }

    /// The reasons why tasks of the job wait.
    fn waits(&self) -> Vec<String> {
        let explained = self.scheduler.explain(JOB).expect("it is there");
        explained.tasks.into_iter().map(|(why, _)| why).collect()
    }
}

#[test]
fn tasks_that_filled_a_pc_together_are_not_put_on_one_again() {
    let mut grid = Grid::new();
    grid.joins(PC, 4_096);
    grid.submit(2, "");
    assert_eq!(grid.on(PC).len(), 2, "no memory is counted for them");

    grid.crowded(PC, Some(3 * GIB));
    assert_eq!(grid.on(PC).len(), 1);
    let waits = grid.waits();
    let why =
        "each task counts as 3 GiB of memory, since its attempts held 3 GiB when memory was short";
    assert!(waits.iter().any(|said| said.contains(why)), "{waits:?}");

    grid.joins(LARGE, 8_192);
    assert_eq!(grid.on(LARGE).len(), 1, "another PC has room");
    assert_eq!(grid.waits(), [""; 0]);
}

#[test]
fn what_a_task_asks_for_is_the_least_that_is_counted() {
    for (held, fit) in [(GIB, 2), (3 * GIB, 1)] {
        let mut grid = Grid::new();
        grid.joins(PC, 4_096);
        grid.submit(4, "mem=2G");
        grid.crowded(PC, Some(held));
        assert_eq!(grid.on(PC).len(), fit, "{held}");
    }
}

#[test]
fn a_task_that_fits_no_pc_which_is_there_is_tried_alone_on_the_largest() {
    let mut grid = Grid::new();
    grid.joins(PC, 8_192);
    grid.submit(4, "");
    grid.crowded(PC, Some(5 * GIB));
    grid.send(Event::HostLeft { host: PC });

    grid.joins(SMALL, 2_048);
    assert_eq!(grid.on(SMALL).len(), 1, "all of what it lends is taken");
    grid.joins(LARGE, 8_192);
    assert_eq!(grid.on(LARGE).len(), 1, "a second one would not fit");

    // While a PC is there that lends enough, none goes to the small one.
    let tried = grid.on(SMALL);
    grid.send(events::returned(SMALL, tried));
    assert_eq!(grid.on(SMALL), []);
    grid.send(Event::HostLeft { host: LARGE });
    assert_eq!(grid.on(SMALL).len(), 1);
}

#[test]
fn one_task_that_holds_much_keeps_the_others_from_no_pc_that_is_large_enough_for_most() {
    let mut grid = Grid::new();
    grid.joins(SMALL, 4_096);
    grid.submit(100, "");
    let done = grid.on(SMALL);
    grid.succeeds(SMALL, done[0]);
    grid.joins(LARGE, 16_384);
    grid.crowded(LARGE, Some(14 * GIB));
    assert_eq!(grid.on(LARGE).len(), 4, "a quarter of what it lends each");

    for attempt in &done[1..] {
        grid.succeeds(SMALL, *attempt);
    }
    let next = grid.on(SMALL);
    for attempt in &next {
        grid.succeeds(SMALL, *attempt);
    }
    assert_eq!(grid.on(SMALL).len(), 1, "all of what it lends");
}

#[test]
fn what_is_learned_while_no_task_has_succeeded_is_corrected_by_the_first_that_does() {
    let mut grid = Grid::new();
    grid.joins(SMALL, 4_096);
    grid.submit(100, "");
    grid.joins(LARGE, 16_384);
    grid.crowded(LARGE, Some(14 * GIB));
    assert_eq!(grid.on(LARGE).len(), 1);

    for attempt in grid.on(SMALL) {
        grid.succeeds(SMALL, attempt);
    }
    assert_eq!(grid.on(SMALL).len(), 1, "it is large enough");

    // What runs goes on with the room that it was given.
    for attempt in grid.on(LARGE) {
        grid.succeeds(LARGE, attempt);
    }
    assert_eq!(grid.on(LARGE).len(), 4);
}

#[test]
fn another_result_may_come_from_a_host_that_is_smaller_than_the_one_that_was_short_of_memory() {
    let mut grid = Grid::new();
    grid.joins(LARGE, 16_384);
    let quorum = Quorum {
        size: 2,
        adaptive: false,
        compare: Compare::Bytes,
    };
    let rules = Rules {
        quorum,
        ..Rules::default()
    };
    grid.submit_with(1, "", &rules);
    grid.crowded(LARGE, Some(6 * GIB));

    grid.joins(SMALL, 4_096);
    assert_eq!((grid.on(LARGE).len(), grid.on(SMALL).len()), (1, 1));
}

#[test]
fn a_task_that_gets_on_between_two_returns_is_not_counted_out() {
    let mut grid = Grid::new();
    grid.joins(PC, 4_096);
    let rules = Rules {
        checkpoint: true,
        ..Rules::default()
    };
    grid.submit_with(1, "", &rules);

    for round in 1..10_u8 {
        let held = HeldAttempt {
            attempt: grid.on(PC)[0],
            phase: Phase::Running,
            ran: Span::from_secs(120),
            frozen_for: Span::ZERO,
            progress: Some(f32::from(round) / 10.0),
        };
        grid.send(events::moved(PC, vec![held]));
        grid.crowded(PC, None);
        assert_eq!((grid.on(PC).len(), grid.settled.len()), (1, 0));
    }
}

#[test]
fn a_task_of_which_nobody_can_tell_what_it_holds_is_given_back_so_often_and_fails() {
    let mut grid = Grid::new();
    grid.joins(PC, 4_096);
    grid.submit(1, "");
    for _ in 0..2 {
        grid.crowded(PC, None);
        assert_eq!(grid.on(PC).len(), 1);
        assert_eq!(grid.settled, []);
    }

    grid.crowded(PC, None);
    let task = TaskId::new(JOB, 1);
    assert_eq!(grid.settled, [(task, Settled::CrowdedOut(3))]);
    assert_eq!(grid.scheduler.job_state(JOB), Some(JobState::Failed));

    grid.send(events::retried(JOB, IdSet::from_range(1, 1)));
    grid.crowded(PC, None);
    assert_eq!(grid.on(PC).len(), 1, "a retry counts anew");
}

#[test]
fn returns_of_a_measured_task_are_no_failure_of_it() {
    let mut grid = Grid::new();
    grid.joins(PC, 4_096);
    grid.submit(1, "");
    for _ in 0..20 {
        grid.crowded(PC, Some(GIB));
        assert_eq!(grid.on(PC).len(), 1);
    }
    assert_eq!(grid.settled, []);
}

#[test]
fn what_a_host_says_of_attempts_that_it_does_not_have_changes_nothing() {
    let mut grid = Grid::new();
    grid.joins(PC, 4_096);
    grid.submit(2, "");
    grid.joins(LARGE, 8_192);
    for attempt in grid.on(PC) {
        for bytes in [None, Some(u64::MAX), None, None] {
            grid.send(Event::AttemptWeighed {
                host: LARGE,
                attempt,
                bytes,
            });
        }
    }

    let attempts = grid.on(PC);
    grid.send(Event::AttemptsReturned { host: PC, attempts });
    assert_eq!((grid.live.len(), grid.settled.len()), (2, 0));
}
