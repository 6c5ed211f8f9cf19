//! Jobs whose results are compared: which attempts are started, which results count, and what a
//! wrong one costs. A door of its own: hosts with owners, and results that say something.

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::{OwnerState, YieldReason};
use common::job::{Compare, Quorum, Rules};
use common::needs::Needs;
use common::view::{JobState, TaskState};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId, Time};
use proptest::prelude::*;
use scheduler::effect::{CopyReason, Judgement, Refused, Settled, StartReason};
use scheduler::event::{Bag, RestoredProgress, Tried};
use scheduler::policy::trust::TRUSTED_FROM;
use scheduler::{Effect, Event, Scheduler, Settings, Sharing};

use crate::events;
use crate::world::s;

mod owners_left;

const JOB: JobId = JobId(1);

/// What a result says: results agree if they say the same. Honest ones say nothing else.
type Says = u32;
const TRUTH: Says = 0;

/// A scheduler with one job, and what is known of it from outside.
struct Court {
    scheduler: Scheduler,
    now: Time,
    rules: Rules,
    tasks: u32,
    /// Live attempts, and the owner of each host.
    live: BTreeMap<AttemptId, HostId>,
    parties: BTreeMap<HostId, HostId>,
    /// What each delivered attempt says.
    said: BTreeMap<AttemptId, (HostId, Says)>,
    /// Comparisons that were asked for and not answered yet.
    asked: Vec<(AttemptId, Vec<AttemptId>)>,
    beliefs: BTreeMap<AttemptId, Judgement>,
    /// The result that counts, by task.
    counts: BTreeMap<u32, AttemptId>,
    valid: BTreeMap<HostId, u32>,
    starts: Vec<(AttemptId, HostId, StartReason)>,
    failed: BTreeSet<u32>,
    /// The number of failed attempts of each task since it was last opened.
    failures: BTreeMap<u32, u32>,
    prompt: bool,
}

impl Court {
    fn new(tasks: u32, size: u32, adaptive: bool) -> Self {
        let quorum = Quorum {
            size,
            adaptive,
            compare: Compare::Bytes,
        };
        Self::with(
            tasks,
            Rules {
                quorum,
                max_losses: 1_000,
                ..Rules::default()
            },
        )
    }

    /// A job of which two results of each task must agree, and whose run times are known.
    fn estimated(tasks: u32, adaptive: bool) -> Self {
        let quorum = Quorum {
            size: 2,
            adaptive,
            compare: Compare::Bytes,
        };
        let rules = Rules {
            quorum,
            estimate: Some(s(60)),
            ..Rules::default()
        };
        Self::with(tasks, rules)
    }

    /// A second job of the same user without a quorum.
    fn submits_another(&mut self) -> JobId {
        let job = JobId(2);
        let rules = Rules {
            estimate: Some(s(60)),
            ..Rules::default()
        };
        self.send(events::submitted(
            job,
            Bag::new(IdSet::from_range(1, 2), rules),
        ));
        job
    }

    fn with(tasks: u32, rules: Rules) -> Self {
        Self::under(Settings::default(), tasks, rules)
    }

    fn under(settings: Settings, tasks: u32, rules: Rules) -> Self {
        let mut court = Self {
            scheduler: Scheduler::new(settings, Incarnation(1)),
            now: Time(1_000_000),
            rules: rules.clone(),
            tasks,
            live: BTreeMap::new(),
            parties: BTreeMap::new(),
            said: BTreeMap::new(),
            asked: Vec::new(),
            beliefs: BTreeMap::new(),
            counts: BTreeMap::new(),
            valid: BTreeMap::new(),
            starts: Vec::new(),
            failed: BTreeSet::new(),
            failures: BTreeMap::new(),
            prompt: true,
        };
        court.send(events::submitted(
            JOB,
            Bag::new(IdSet::from_range(1, tasks), rules),
        ));

        court
    }

    fn send(&mut self, event: Event) {
        self.now = self.now + s(1);
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event, &mut effects);
        effects.into_iter().for_each(|effect| self.apply(effect));
        if self.prompt {
            self.answer_all();
        }
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Start {
                host, attempt, why, ..
            } => {
                let mine = self.parties[&host];
                let others = self
                    .live
                    .iter()
                    .chain(self.said.iter().map(|(attempt, (host, _))| (attempt, host)));
                for (other, at) in others.filter(|(other, _)| other.task == attempt.task) {
                    assert!(
                        self.parties[at] != mine,
                        "{attempt} goes to {host}, whose owner has {other} already"
                    );
                }

                assert!(
                    !self.counts.contains_key(&attempt.task.index),
                    "{attempt} is started of a finished task"
                );
                let failures = self.failures.get(&attempt.task.index);
                assert!(
                    failures.is_none_or(|failures| *failures <= self.rules.retries),
                    "{attempt} is started though its task has no retry left"
                );
                let known = self.starts.iter().any(|(other, ..)| *other == attempt);
                assert!(!known, "{attempt} is started twice");
                self.live.insert(attempt, host);
                self.starts.push((attempt, host, why));
            }
            Effect::Ended { attempt, .. } => self.live.retain(|live, _| *live != attempt),
            Effect::Compare { attempt, with } => self.asked.push((attempt, with)),
            Effect::Judged {
                host,
                attempt,
                judgement,
            } => {
                assert_eq!(self.said[&attempt].0, host);
                self.beliefs.insert(attempt, judgement);
            }
            Effect::HostTrusted { host, valid } => {
                self.valid.insert(host, valid);
            }
            Effect::TaskSettled {
                task,
                settled: Settled::Finished(attempt),
            } => self.on_finished(task, attempt),
            Effect::TaskSettled { task, .. } => {
                self.failed.insert(task.index);
            }
            Effect::TasksReopened { tasks, .. } => {
                self.counts.retain(|index, _| !tasks.contains(*index));
                self.failures.retain(|index, _| !tasks.contains(*index));
            }
            _ => {}
        }
    }

    /// Whatever happens, a result counts only with a quorum behind it, or alone with trust.
    fn on_finished(&mut self, task: TaskId, attempt: AttemptId) {
        assert!(
            self.counts.insert(task.index, attempt).is_none(),
            "one visible result"
        );

        let (host, says) = self.said[&attempt];
        let alike = self
            .said
            .iter()
            .filter(|(other, (_, said))| other.task == task && *said == says);
        let parties: BTreeSet<HostId> = alike.map(|(_, (host, _))| self.parties[host]).collect();

        match self.beliefs[&attempt] {
            Judgement::Alone(valid) => {
                assert!(self.rules.quorum.adaptive && valid >= TRUSTED_FROM);
                assert_eq!(self.valid.get(&host), Some(&valid));
            }
            judgement => {
                assert_eq!(judgement, Judgement::Agreed(attempt.number));
                assert!(
                    parties.len() >= self.rules.quorum.size as usize,
                    "{attempt} counts with {parties:?} only"
                );
            }
        }
    }

    fn answer_all(&mut self) {
        while !self.asked.is_empty() {
            self.answer(0);
        }
    }

    /// Answers a comparison that was asked for.
    fn answer(&mut self, at: usize) {
        let (attempt, with) = self.asked.remove(at);
        let says = self.said[&attempt].1;
        let agrees = with
            .iter()
            .filter(|other| self.said[other].1 == says)
            .map(|other| other.number)
            .collect();
        self.send(Event::ResultCompared { attempt, agrees });
    }

    fn host(&mut self, id: u32, party: u32, valid: u32) {
        let host = HostId(id);
        let party = HostId(party);
        self.parties.insert(host, party);
        self.valid.insert(host, valid);
        self.send(Event::HostStanding { host, party, valid });
        self.joins(id);
    }

    /// The admin changes owners; each host stands with its new party.
    fn owned(&mut self, hosts: &[(u32, u32)]) {
        for (id, party) in hosts {
            let host = HostId(*id);
            let party = HostId(*party);
            let valid = self.valid[&host];
            self.parties.insert(host, party);
            self.send(Event::HostStanding { host, party, valid });
        }
        self.send(Event::Tick);
    }

    fn joins(&mut self, id: u32) {
        let host = HostId(id);
        let speed = Speed::REFERENCE;
        let status = OwnerState::Away.into();
        self.live.retain(|_, at| *at != host);
        self.send(Event::HostJoined {
            host,
            slots: 1,
            speed,
            status,
            held: Vec::new(),
        });
    }

    /// Hosts from one on, each its own owner's.
    fn hosts(&mut self, n: u32) {
        (1..=n).for_each(|id| self.host(id, id, 0));
    }

    fn on(&self, host: u32) -> Option<AttemptId> {
        self.live
            .iter()
            .find(|(_, at)| at.0 == host)
            .map(|(attempt, _)| *attempt)
    }

    /// The results of a finished task are damaged, and it is to be done again.
    fn gone(&mut self, index: u32) {
        if !self.counts.contains_key(&index) {
            return;
        }
        self.said.retain(|attempt, _| attempt.task.index != index);
        self.asked
            .retain(|(attempt, _)| attempt.task.index != index);

        let attempts = self.starts.iter().map(|(attempt, ..)| *attempt);
        let own = attempts.filter(|attempt| attempt.task.index == index);
        let highest = own.map(|attempt| attempt.number).max();
        self.send(events::gone(JOB, vec![(index, highest.unwrap_or(0))]));
    }

    /// The owner of a host comes or goes.
    fn owner(&mut self, host: u32, owner: OwnerState) {
        let host = HostId(host);
        self.send(Event::OwnerChanged { host, owner });
    }

    /// The host delivers what it has, and it says this.
    fn delivers(&mut self, host: u32, says: Says) -> Option<AttemptId> {
        let attempt = self.on(host)?;
        self.said.insert(attempt, (HostId(host), says));
        let host = HostId(host);
        let outcome = Outcome::Succeeded;
        let ran = s(60);
        self.send(events::ended(host, attempt, outcome, ran));
        Some(attempt)
    }

    /// Everybody delivers until nobody has anything; `says` tells what.
    fn run(&mut self, mut says: impl FnMut(HostId, TaskId) -> Says) {
        while let Some((attempt, host)) = self
            .live
            .iter()
            .next()
            .map(|(attempt, host)| (*attempt, *host))
        {
            let word = says(host, attempt.task);
            self.delivers(host.0, word);
        }
    }

    fn state(&self) -> JobState {
        self.scheduler.job_state(JOB).expect("the job is there")
    }

    fn wrong(&self) -> usize {
        self.counts
            .values()
            .filter(|attempt| self.said[attempt].1 != TRUTH)
            .count()
    }
}

/// An attempt that runs, as its host lists it.
fn running(attempt: AttemptId) -> HeldAttempt {
    HeldAttempt {
        attempt,
        phase: Phase::Running,
        ran: s(1),
        frozen_for: Span::ZERO,
        progress: None,
    }
}

#[test]
fn two_owners_hosts_get_each_task_at_once_and_the_third_none() {
    let mut court = Court::new(1, 2, false);
    court.hosts(3);

    let starts: Vec<_> = court
        .starts
        .iter()
        .map(|(_, host, why)| (host.0, why.clone()))
        .collect();
    assert_eq!(
        starts,
        [
            (1, StartReason::First),
            (2, StartReason::Duplicate(1, CopyReason::Quorum(2)))
        ]
    );

    court.delivers(1, TRUTH);
    assert_eq!(
        court.scheduler.task_state(TaskId::new(JOB, 1)),
        Some(TaskState::Running)
    );
    court.delivers(2, TRUTH);
    assert_eq!((court.state(), court.starts.len()), (JobState::Finished, 2));
}

#[test]
fn another_result_that_is_wanted_is_no_duplicate_of_the_one_under_way() {
    let mut court = Court::new(1, 2, false);
    court.host(1, 1, 0);
    court.host(2, 2, 0);
    assert_eq!(court.live.len(), 2, "both results are under way together");
    assert_eq!(court.scheduler.job_attempts(JOB), Some((2, 0)));
}

#[test]
fn a_task_whose_results_differ_says_so_while_it_waits_for_another_owner() {
    let mut court = Court::new(1, 2, false);
    court.host(1, 1, 0);
    court.host(2, 2, 0);
    court.delivers(1, 7);
    let said = |court: &Court| {
        let why = court.scheduler.explain(JOB).expect("the job is there");
        let mut words = why.tasks.into_iter().map(|(why, _)| why);
        words.any(|why| why.starts_with("the results so far differ; another result"))
    };
    assert!(!said(&court), "one result differs from none");

    court.delivers(2, 8);
    assert!(said(&court));
}

#[test]
fn a_task_whose_host_is_believed_alone_is_not_said_to_want_another_result() {
    let mut court = Court::new(1, 2, true);
    court.host(1, 1, u32::MAX);
    court.send(events::moved(
        HostId(1),
        vec![running(court.on(1).expect("it runs"))],
    ));
    court.owner(1, OwnerState::Present(YieldReason::InUse));
    let why = court.scheduler.explain(JOB).expect("the job is there");
    assert!(why.tasks.is_empty(), "{:?}", why.tasks);
    assert_eq!(why.held_up.len(), 1);

    court.host(2, 2, 0);
    assert!(
        matches!(
            court.starts[..],
            [
                _,
                (
                    _,
                    HostId(2),
                    StartReason::Duplicate(1, CopyReason::Suspended(_))
                )
            ]
        ),
        "{:?}",
        court.starts
    );
}

#[test]
fn hosts_of_one_owner_never_confirm_each_other() {
    let mut court = Court::new(1, 2, false);
    court.host(1, 1, 0);
    court.host(2, 1, 0);
    court.delivers(1, 7);
    assert!(court.live.is_empty(), "the other host is the same owner's");

    let why = court.scheduler.explain(JOB).expect("the job is there");
    assert!(
        why.tasks
            .iter()
            .any(|(why, tasks)| why.contains("belong to 1 owner") && tasks.len() == 1),
        "{:?}",
        why.tasks
    );

    court.host(3, 3, 0);
    assert!(matches!(
        court.starts.last(),
        Some((_, HostId(3), StartReason::AnotherResult(1)))
    ));
    court.delivers(3, TRUTH);
    court.host(4, 4, 0);
    court.delivers(4, TRUTH);
    assert_eq!((court.state(), court.wrong()), (JobState::Finished, 0));

    assert_eq!((court.valid[&HostId(1)], court.valid[&HostId(4)]), (0, 1));
}

#[test]
fn a_host_gives_one_result_of_a_task_whoever_owns_it_meanwhile() {
    let mut court = Court::new(2, 2, false);
    court.host(2, 1, 0);
    court.delivers(2, TRUTH);
    court.delivers(2, TRUTH);
    court.owned(&[(2, 2)]);
    court.owned(&[(2, 7)]);
    assert_eq!((court.starts.len(), court.live.len()), (2, 0));
    assert_eq!((court.state(), court.counts.len()), (JobState::Running, 0));

    court.host(3, 3, 0);
    court.delivers(3, TRUTH);
    court.delivers(3, TRUTH);
    assert_eq!((court.state(), court.starts.len()), (JobState::Finished, 4));
    assert_eq!((court.valid[&HostId(2)], court.valid[&HostId(3)]), (2, 2));
}

#[test]
fn a_host_that_runs_an_attempt_gets_no_other_one_once_its_owner_changes() {
    let mut court = Court::new(1, 2, false);
    court.send(Event::HostStanding {
        host: HostId(1),
        party: HostId(1),
        valid: 0,
    });
    court.parties.insert(HostId(1), HostId(1));
    court.valid.insert(HostId(1), 0);
    court.send(events::joined(HostId(1), 4));
    court.owned(&[(1, 9)]);
    assert_eq!((court.starts.len(), court.live.len()), (1, 1));
}

#[test]
fn hosts_of_one_owner_stay_one_party_when_the_first_of_them_goes_to_another() {
    let mut court = Court::new(1, 2, false);
    court.host(2, 1, 0);
    court.delivers(2, TRUTH);
    court.host(1, 1, 0);
    court.host(3, 1, 0);
    assert_eq!(court.starts.len(), 1, "all are one owner's");

    court.send(Event::HostLeft { host: HostId(1) });
    court.owned(&[(1, 1), (2, 2), (3, 2)]);
    assert_eq!(court.starts.len(), 1, "hosts 2 and 3 are still one owner's");

    court.joins(1);
    court.delivers(1, TRUTH);
    assert_eq!((court.state(), court.starts.len()), (JobState::Finished, 2));
}

#[test]
fn results_that_agree_count_once_their_hosts_owners_are_put_right() {
    let mut court = Court::new(1, 2, false);
    court.hosts(2);
    court.owned(&[(2, 1)]);
    court.delivers(1, TRUTH);
    court.delivers(2, TRUTH);
    assert_eq!(court.state(), JobState::Running, "one owner's results");

    court.owned(&[(2, 2)]);
    assert_eq!((court.state(), court.starts.len()), (JobState::Finished, 2));
    assert_eq!((court.valid[&HostId(1)], court.valid[&HostId(2)]), (1, 1));
}

#[test]
fn a_late_result_that_is_compared_keeps_its_task_from_another_host() {
    let mut court = Court::new(1, 2, false);
    court.hosts(2);
    let lost = court.on(2).expect("a replica");
    court.delivers(1, TRUTH);
    court.send(Event::HostLeft { host: HostId(2) });

    court.prompt = false;
    court.said.insert(lost, (HostId(2), TRUTH));
    court.send(events::succeeded(HostId(2), lost, s(9)));
    court.host(3, 3, 0);
    assert_eq!((court.starts.len(), court.asked.len()), (2, 1));

    court.answer_all();
    assert_eq!((court.state(), court.starts.len()), (JobState::Finished, 2));
}

#[test]
fn the_result_that_counts_is_not_said_to_agree_with_itself() {
    assert_eq!(
        Judgement::Agreed(1).words_for(1),
        "its result counts, as enough others agree with it"
    );
    assert_eq!(
        Judgement::Agreed(1).words_for(2),
        "its result agrees with that of attempt 1, which counts"
    );
}

#[test]
fn a_quorum_of_more_results_than_can_be_counted_threefold_is_waited_for() {
    let mut court = Court::new(1, u32::MAX, false);
    court.hosts(2);
    court.run(|_, _| TRUTH);
    assert_eq!((court.said.len(), court.failed.len()), (2, 0));
    assert_eq!(court.state(), JobState::Running);
}

#[test]
fn tasks_whose_results_are_compared_take_nothing_of_their_users_bound_and_share() {
    let sharing = Sharing {
        most_running_each: Some(2),
        ..Sharing::default()
    };
    let settings = Settings {
        sharing: Some(sharing),
        ..Settings::default()
    };
    let quorum = Quorum {
        size: 2,
        adaptive: false,
        compare: Compare::Program,
    };
    let rules = Rules {
        quorum,
        ..Rules::default()
    };
    let mut court = Court::under(settings, 10, rules);
    let tasks = |court: &Court| -> BTreeSet<u32> {
        let live = court.live.keys();
        live.map(|attempt| attempt.task.index).collect()
    };

    court.prompt = false;
    court.hosts(4);
    assert_eq!(tasks(&court), BTreeSet::from([1, 2]));
    for _ in 0..4 {
        let first = court.live.values().next().copied().expect("two tasks run");
        court.delivers(first.0, TRUTH);
        assert_eq!(tasks(&court).len(), 2);
    }
    assert_eq!(tasks(&court), BTreeSet::from([3, 4]));
    assert_eq!(court.asked.len(), 2);
    assert_eq!(court.live.len(), 4);
    assert_eq!(court.scheduler.user_shares(court.now)[0].slots, 4);

    court.prompt = true;
    court.run(|_, _| TRUTH);
    assert_eq!((court.state(), court.wrong()), (JobState::Finished, 0));
}

#[test]
fn users_have_equally_many_slots_though_one_has_each_task_done_several_times() {
    let settings = Settings {
        sharing: Some(Sharing::default()),
        ..Settings::default()
    };
    let mut scheduler = Scheduler::new(settings, Incarnation(1));
    let mut live: BTreeMap<JobId, u64> = BTreeMap::new();
    let now = Time(1_000_000);
    let mut send = |event| {
        let mut effects = Vec::new();
        scheduler.step(now, event, &mut effects);
        for effect in effects {
            if let Effect::Start { attempt, .. } = effect {
                *live.entry(attempt.task.job).or_default() += 1;
            }
        }
    };
    for (job, user, size) in [(1, "ann", 3), (2, "ben", 1)] {
        let quorum = Quorum {
            size,
            adaptive: false,
            compare: Compare::Bytes,
        };
        let rules = Rules {
            quorum,
            ..Rules::default()
        };
        let mut bag = Bag::new(IdSet::from_range(1, 100), rules);
        user.clone_into(&mut bag.terms.estimator.user);
        send(events::submitted(JobId(job), bag));
    }
    for host in (1..=12).map(HostId) {
        send(Event::HostStanding {
            host,
            party: host,
            valid: 0,
        });
        send(events::joined(host, 1));
    }

    assert_eq!(live, BTreeMap::from([(JobId(1), 6), (JobId(2), 6)]));
    let shares = scheduler.user_shares(now);
    let slots: Vec<u64> = shares.iter().map(|share| share.slots).collect();
    assert_eq!(slots, [6, 6]);
}

#[test]
fn results_that_never_agree_end_the_task() {
    let mut court = Court::new(1, 2, false);
    court.hosts(9);
    let mut word = 0;
    court.run(|_, _| {
        word += 1;
        word
    });
    assert_eq!(
        (court.state(), court.failed.len(), court.starts.len()),
        (JobState::Failed, 1, 6)
    );
}

#[test]
fn a_retry_asks_any_host_anew_and_names_no_failure_that_was_none() {
    let mut court = Court::new(1, 2, false);
    court.hosts(6);
    let mut word = 0;
    court.run(|_, _| {
        word += 1;
        word
    });
    assert_eq!((court.state(), court.starts.len()), (JobState::Failed, 6));

    // A result from before is compared with none: the court would not know what it says.
    court.said.clear();
    court.send(events::retried(JOB, IdSet::from_range(1, 1)));
    let (attempt, _, why) = &court.starts[6];
    assert_eq!((attempt.number, why), (7, &StartReason::Requeued(6)));
    court.run(|_, _| 1);
    assert_eq!((court.state(), court.starts.len()), (JobState::Finished, 8));
}

#[test]
fn a_task_from_before_a_restart_names_no_failure_that_was_none() {
    let [failed, result] = [1, 2].map(|number| AttemptId {
        task: TaskId::new(JOB, 1),
        number,
        incarnation: Incarnation(1),
    });
    let tried = Tried {
        failures: failed.number,
        ..events::tried(1, result.number)
    };
    let mut court = Court::new(1, 2, false);
    for settled in [IdSet::new(), IdSet::from_range(1, 1)] {
        court.scheduler = Scheduler::new(Settings::default(), Incarnation(2));
        court.parties.clear();
        court.live.clear();
        let is_retried = !settled.is_empty();
        let progress = RestoredProgress {
            failed: settled.clone(),
            tried: vec![tried.clone()],
            results: vec![(result, HostId(2))],
            ..RestoredProgress::default()
        };
        court.send(events::restored(
            JOB,
            Bag::new(
                IdSet::from_range(1, 1),
                Rules {
                    retries: 1,
                    ..court.rules.clone()
                },
            ),
            progress,
        ));
        court.send(events::retried(JOB, settled));
        court.host(1, 1, 0);

        let want = match is_retried {
            true => StartReason::Requeued(2),
            false => StartReason::AnotherResult(1),
        };
        assert_eq!(court.starts.pop().map(|(_, _, why)| why), Some(want));
    }
}

#[test]
fn a_task_without_a_retry_left_gets_no_attempt_beside_one_that_stands_still() {
    for retries in [0, 2] {
        let quorum = Quorum {
            size: 2,
            adaptive: false,
            compare: Compare::Bytes,
        };
        let rules = Rules {
            quorum,
            retries,
            ..Rules::default()
        };
        let mut court = Court::with(1, rules);
        court.hosts(2);

        court.owner(1, OwnerState::Present(YieldReason::InUse));
        for _ in 0..9 {
            court.act(Act::Fail(2));
        }
        let tried = 2 + retries as usize;
        assert_eq!((court.starts.len(), court.failed.len()), (tried, 0));
        assert!(court.on(1).is_some(), "what is live goes on alone");

        court.owner(1, OwnerState::Away);
        court.delivers(1, TRUTH);
        assert_eq!(
            (court.state(), court.failed.len(), court.starts.len()),
            (JobState::Failed, 1, tried)
        );
    }
}

#[test]
fn a_failure_beside_a_comparison_leaves_the_task_to_the_comparison() {
    for (says, end) in [(TRUTH, JobState::Finished), (7, JobState::Failed)] {
        let mut court = Court::new(1, 2, false);
        court.hosts(2);
        court.send(events::moved(
            HostId(1),
            vec![running(court.on(1).expect("a replica"))],
        ));
        court.owner(1, OwnerState::Present(YieldReason::InUse));
        court.host(3, 3, 0);
        assert!(court.on(3).is_some(), "it is asked in the place of host 1");

        court.prompt = false;
        court.owner(1, OwnerState::Away);
        court.delivers(1, TRUTH);
        court.delivers(2, says);
        court.act(Act::Fail(3));
        assert_eq!((court.asked.len(), court.state()), (1, JobState::Running));

        court.prompt = true;
        court.answer_all();
        assert_eq!((court.state(), court.starts.len()), (end, 3));
    }
}

#[test]
fn a_host_that_has_agreed_ten_times_is_believed_alone_most_of_the_time() {
    let mut court = Court::new(400, 2, true);
    court.hosts(4);
    court.run(|_, _| TRUTH);
    assert_eq!(court.state(), JobState::Finished);

    let alone = court
        .beliefs
        .values()
        .filter(|belief| matches!(belief, Judgement::Alone(_)))
        .count();
    assert!(alone > 250, "{alone} of 400 were believed alone");
    assert!(court.starts.len() < 550, "{} attempts", court.starts.len());
    assert!(
        court.valid.values().all(|valid| *valid > TRUSTED_FROM),
        "audits go on: {:?}",
        court.valid
    );
}

#[test]
fn a_caught_host_loses_trust_and_its_results_are_rechecked() {
    let mut court = Court::new(300, 2, true);
    court.hosts(5);

    // Honest for long enough to be trusted, then not any more.
    let mut liar = 0;
    court.run(|host, task| {
        let lies = host == HostId(1) && {
            liar += 1;
            liar > 40
        };
        if lies { 1_000 + task.index } else { TRUTH }
    });

    assert_eq!(court.state(), JobState::Finished);
    let caught = court
        .beliefs
        .values()
        .any(|belief| matches!(belief, Judgement::Differed(_)));
    assert!(caught && court.valid[&HostId(1)] == 0);
    assert_eq!(
        court.wrong(),
        0,
        "nothing that it said alone in this job is left"
    );
}

#[test]
fn a_host_that_is_caught_takes_nothing_from_tasks_whose_results_are_gone_and_done_again() {
    let mut court = Court::new(3, 2, true);
    court.host(1, 1, u32::MAX);
    court.delivers(1, TRUTH);
    court.host(2, 2, 0);
    court.delivers(1, TRUTH);
    assert_eq!(court.counts.len(), 2, "believed alone");

    court.gone(1);
    court.host(3, 3, 0);
    court.host(4, 4, 0);
    let numbers = |court: &Court, index: u32| -> Vec<u32> {
        let attempts = court.starts.iter().map(|(attempt, ..)| attempt);
        let own = attempts.filter(|attempt| attempt.task.index == index);
        own.map(|attempt| attempt.number).collect()
    };
    assert_eq!(numbers(&court, 1), [1, 2, 3]);

    // Of task 3 its result differs, and what it said of task 2 is asked of others.
    court.delivers(2, TRUTH);
    court.delivers(1, 7);
    court.host(5, 5, 0);
    court.delivers(5, TRUTH);
    assert_eq!(court.valid[&HostId(1)], 0, "it is caught");

    court.run(|_, _| TRUTH);
    assert_eq!((court.state(), court.wrong()), (JobState::Finished, 0));
    assert_eq!(numbers(&court, 1), [1, 2, 3]);
    assert_eq!(numbers(&court, 2)[..2], [1, 2]);
}

#[test]
fn without_a_quorum_nothing_is_compared() {
    let mut court = Court::with(5, Rules::default());
    court.hosts(2);
    while let Some(host) = [1, 2].into_iter().find(|host| court.on(*host).is_some()) {
        let attempt = court.on(host).expect("live");
        court
            .beliefs
            .insert(attempt, Judgement::Agreed(attempt.number));
        court.delivers(host, 9);
    }
    assert!(court.asked.is_empty() && court.state() == JobState::Finished);
}

#[test]
fn a_lost_replica_is_replaced_and_a_late_result_still_votes() {
    let mut court = Court::new(1, 2, false);
    court.hosts(2);

    let lost = court.on(2).expect("a replica");
    court.delivers(1, TRUTH);
    court.send(Event::HostLeft { host: HostId(2) });
    assert!(court.live.is_empty());
    court.joins(2);
    court.live.clear();
    court.said.insert(lost, (HostId(2), TRUTH));
    court.send(events::succeeded(HostId(2), lost, s(9)));

    assert_eq!((court.state(), court.counts.len()), (JobState::Finished, 1));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn results_from_before_a_restart_are_compared_anew() {
    let of = |index, number| AttemptId {
        task: TaskId::new(JOB, index),
        number,
        incarnation: Incarnation(1),
    };
    let quorum = Quorum {
        size: 2,
        adaptive: true,
        compare: Compare::Bytes,
    };
    let rules = Rules {
        quorum,
        ..Rules::default()
    };
    let tried = |task, attempts| {
        let live = Vec::new();
        let lost = Vec::new();
        let outlived = Vec::new();
        Tried {
            live,
            lost,
            outlived,
            ..events::tried(task, attempts)
        }
    };
    let progress = RestoredProgress {
        finished: IdSet::from_range(1, 1),
        // Of task 1 a copy was started after the attempt that counts.
        tried: vec![tried(1, 2), tried(2, 2), tried(3, 1)],
        results: vec![
            (of(2, 1), HostId(1)),
            (of(2, 2), HostId(2)),
            (of(3, 1), HostId(1)),
        ],
        alone: vec![(of(1, 1), HostId(1))],
        attempts: 5,
        ..RestoredProgress::default()
    };

    let mut scheduler = Scheduler::new(Settings::default(), Incarnation(2));
    let mut effects = Vec::new();
    let bag = Bag::new(IdSet::from_range(1, 4), rules);

    scheduler.step(Time(1), events::restored(JOB, bag, progress), &mut effects);

    assert_eq!(
        effects,
        [Effect::Compare {
            attempt: of(2, 2),
            with: vec![of(2, 1)]
        }]
    );

    effects.clear();
    let agrees = vec![1];
    scheduler.step(
        Time(2),
        Event::ResultCompared {
            attempt: of(2, 2),
            agrees,
        },
        &mut effects,
    );

    assert!(effects.contains(&Effect::TaskSettled {
        task: of(2, 1).task,
        settled: Settled::Finished(of(2, 1))
    }));

    // What was believed alone before the restart is doubted as well.
    effects.clear();
    for (id, agrees) in [(2, Vec::new()), (3, vec![2])] {
        let host = HostId(id);
        let status = OwnerState::Away.into();
        let speed = Speed::REFERENCE;

        scheduler.step(
            Time(3),
            Event::HostJoined {
                host,
                slots: 4,
                speed,
                status,
                held: Vec::new(),
            },
            &mut effects,
        );

        let live = scheduler.task_attempts(TaskId::new(JOB, 3));
        let attempt = live
            .iter()
            .find(|live| live.host == host)
            .expect("a replica")
            .attempt;
        let outcome = Outcome::Succeeded;

        scheduler.step(
            Time(4),
            events::ended(host, attempt, outcome, s(1)),
            &mut effects,
        );

        assert_eq!(
            scheduler.task_state(attempt.task),
            Some(TaskState::Running),
            "its results are being compared"
        );
        scheduler.step(
            Time(5),
            Event::ResultCompared { attempt, agrees },
            &mut effects,
        );
    }

    assert!(
        effects.contains(&Effect::TasksReopened {
            job: JOB,
            tasks: IdSet::from_range(1, 1)
        }),
        "{effects:?}"
    );

    let again = effects.iter().find_map(|effect| match effect {
        Effect::Start { attempt, .. } if attempt.task.index == 1 => Some(attempt.number),
        _ => None,
    });
    assert_eq!(again, Some(3), "no number is used twice: {effects:?}");
}

/// What may happen to the court.
#[derive(Debug, Clone, Copy)]
enum Act {
    Deliver(u32, Says),
    Fail(u32),
    Leave(u32),
    Join(u32),
    Answer(usize),
    Stranger(u32, u32),
    Gone(u32),
    Owned(u32, u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (1u32..8, 0u32..3).prop_map(|(host, says)| Act::Deliver(host, says)),
        1 => (1u32..8).prop_map(Act::Fail),
        1 => (1u32..8).prop_map(Act::Leave),
        2 => (1u32..8).prop_map(Act::Join),
        4 => (0usize..4).prop_map(Act::Answer),
        1 => (0u32..5, 0u32..5).prop_map(|(task, number)| Act::Stranger(task, number)),
        1 => (1u32..5).prop_map(Act::Gone),
        1 => (1u32..8, 1u32..8).prop_map(|(host, party)| Act::Owned(host, party)),
    ]
}

impl Court {
    fn act(&mut self, act: Act) {
        match act {
            Act::Deliver(host, says) => {
                self.delivers(host, says);
            }
            Act::Fail(host) => {
                if let Some(attempt) = self.on(host) {
                    *self.failures.entry(attempt.task.index).or_default() += 1;
                    let outcome = Outcome::Exited(1);
                    let ran = Span::ZERO;
                    self.send(events::ended(HostId(host), attempt, outcome, ran));
                }
            }
            Act::Leave(host) => self.send(Event::HostLeft { host: HostId(host) }),
            Act::Join(host) => self.joins(host),
            Act::Answer(at) if at < self.asked.len() => self.answer(at),
            Act::Answer(_) => {}
            Act::Gone(index) => self.gone(index),
            Act::Owned(host, party) => self.owned(&[(host, party)]),
            Act::Stranger(index, number) => {
                let attempt = AttemptId {
                    task: TaskId::new(JOB, index),
                    number,
                    incarnation: Incarnation(1),
                };
                if !self.said.contains_key(&attempt) {
                    self.send(Event::ResultCompared {
                        attempt,
                        agrees: vec![1, 2, 3],
                    });
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 3_000 }))]

    /// Under any events no result counts without its quorum (the court asserts it), and once hosts
    /// of enough owners are there and honest, everything ends.
    #[test]
    fn results_count_only_with_their_quorum_and_everything_ends(
        size in 2u32..4, adaptive in any::<bool>(), owners in prop::collection::vec(1u32..5, 7),
        trusted in prop::collection::vec(0u32..30, 7), acts in prop::collection::vec(act(), 0..120),
        retries in prop_oneof![0u32..3, Just(1_000)],
    ) {
        let quorum = Quorum { size, adaptive, compare: Compare::Bytes };
        let mut court = Court::with(4, Rules { quorum, max_losses: 1_000, retries, ..Rules::default() });
        court.prompt = false;
        for (id, (owner, valid)) in (1..).zip(owners.into_iter().zip(trusted)) {
            court.host(id, owner, valid);
        }

        acts.into_iter().for_each(|act| court.act(act));
        court.prompt = true;
        court.answer_all();

        // Enough strangers for any task, even if every result so far was another.
        (20..40).for_each(|id| court.host(id, id, 0));
        court.run(|_, _| TRUTH);
        prop_assert!(court.state().settled(), "{:?} with {:?}", court.state(), court.scheduler.explain(JOB));
        prop_assert_eq!(court.counts.len() + court.failed.len(), court.tasks as usize);
    }

    /// With fewer liars than the quorum, and those not of one mind or of one owner, no wrong result
    /// counts.
    #[test]
    fn liars_fewer_than_the_quorum_never_win(size in 2u32..4, liar in 1u32..7, order in any::<u64>()) {
        let mut court = Court::new(30, size, false);
        court.hosts(6);
        let mut draw = order;
        court.run(|host, _| {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if host == HostId(liar) && draw >> 33 & 1 == 0 { 5 } else { TRUTH }
        });
        prop_assert_eq!((court.state(), court.wrong()), (JobState::Finished, 0));
        let most = 30 * (size as usize) + court.beliefs.values().filter(|b| matches!(b, Judgement::Differed(_))).count();
        prop_assert!(court.starts.len() <= most, "{} attempts", court.starts.len());
    }
}
