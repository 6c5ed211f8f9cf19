//! The door through which tests of jobs of several ranks speak to the scheduler: hosts that do what
//! they are told, and a look at what is promised to such jobs. What is not here: bags alone
//! (`world`), and the model that checks those.

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::OwnerState;
use common::job::Rules;
use common::view::JobState;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Ranks, Span, Speed, Time};
use scheduler::event::Bag;
use scheduler::{Effect, Event, Scheduler, Settings};

use super::world::{s, starts};
use crate::events;

/// A scheduler with hosts that hold what they are given, and a look at everything that is promised
/// to jobs of ranks.
pub(crate) struct Office {
    pub(crate) scheduler: Scheduler,
    pub(crate) now: Time,
    pub(crate) jobs: u32,
    pub(crate) held: BTreeMap<HostId, BTreeMap<AttemptId, Phase>>,
    pub(crate) slots: BTreeMap<HostId, u32>,
    /// How many ranks each job that has begun has.
    pub(crate) formed: BTreeMap<JobId, u32>,
    pub(crate) foretold: Vec<(JobId, u32, Span)>,
    pub(crate) settled: BTreeMap<JobId, JobState>,
}

impl Office {
    pub(crate) fn new() -> Self {
        let settings = Settings {
            max_prefetch: 0,
            ..Settings::default()
        };
        Self {
            scheduler: Scheduler::new(settings, Incarnation(1)),
            now: Time(1_000_000_000),
            jobs: 0,
            held: BTreeMap::new(),
            slots: BTreeMap::new(),
            formed: BTreeMap::new(),
            foretold: Vec::new(),
            settled: BTreeMap::new(),
        }
    }

    pub(crate) fn of(hosts: u32) -> Self {
        let mut office = Self::new();
        (1..=hosts).for_each(|host| drop(office.joins(host)));
        office
    }

    pub(crate) fn send(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event, &mut effects);
        for effect in &effects {
            self.obey(effect);
        }
        self.check(&effects);
        effects
    }

    pub(crate) fn obey(&mut self, effect: &Effect) {
        match effect {
            Effect::Start { host, attempt, .. } => {
                self.held
                    .entry(*host)
                    .or_default()
                    .insert(*attempt, Phase::Queued);
            }
            Effect::Begin { host, attempt } => {
                let phase = self
                    .held
                    .get_mut(host)
                    .and_then(|held| held.get_mut(attempt));
                assert_eq!(
                    phase.as_deref(),
                    Some(&Phase::Ready),
                    "{attempt} is told to begin and is ready"
                );
                phase.into_iter().for_each(|phase| *phase = Phase::Running);
            }
            Effect::Stop { host, attempt, .. } | Effect::Ended { host, attempt, .. } => {
                self.held
                    .get_mut(host)
                    .and_then(|held| held.remove(attempt));
            }
            Effect::Abandon { host, attempts } => {
                self.held
                    .entry(*host)
                    .or_default()
                    .retain(|attempt, _| !attempts.contains(attempt));
            }
            Effect::Freeze { host, attempt, .. } => {
                let before = self
                    .held
                    .entry(*host)
                    .or_default()
                    .insert(*attempt, Phase::Held);
                assert!(
                    before.is_some_and(|phase| phase != Phase::Held),
                    "{attempt} runs there"
                );
            }
            Effect::Thaw { host, attempt } => {
                let before = self
                    .held
                    .entry(*host)
                    .or_default()
                    .insert(*attempt, Phase::Running);
                assert_eq!(before, Some(Phase::Held), "{attempt} stood still");
            }
            Effect::Formed { job, ranks, free } => {
                assert!(ranks <= free, "no more ranks than hosts that were free");
                assert_eq!(
                    self.formed.insert(*job, *ranks),
                    None,
                    "job {job} has its width once"
                );
            }
            Effect::Foretold {
                job,
                hosts,
                wait,
                low,
                high,
            } => {
                assert!(low <= wait && wait <= high);
                self.foretold.push((*job, *hosts, *wait));
            }
            Effect::JobSettled { job, state } => drop(self.settled.insert(*job, *state)),
            _ => {}
        }
    }

    /// What always holds: a step starts all ranks of a job that waits or none; no two live ranks of
    /// a job are on one host, no rank lives twice; and no host holds more than its slots.
    pub(crate) fn check(&self, effects: &[Effect]) {
        for (job, ranks) in &self.formed {
            let first = |attempt: &AttemptId| attempt.task.job == *job && attempt.number == 1;
            let begun = starts(effects)
                .iter()
                .filter(|(_, attempt, _)| first(attempt))
                .count() as u32;
            assert!(
                begun == 0 || begun == *ranks,
                "all {ranks} ranks of job {job} start in one step, not {begun}"
            );
        }

        let mut places = BTreeSet::new();
        let mut live = BTreeSet::new();
        for (host, held) in &self.held {
            let in_slots = held.values().filter(|phase| **phase != Phase::Held).count();
            assert!(in_slots as u32 <= self.slots[host], "{host} holds {held:?}");
            for attempt in held
                .keys()
                .filter(|attempt| self.formed.contains_key(&attempt.task.job))
            {
                assert!(
                    places.insert((*host, attempt.task.job)),
                    "two ranks of {} on {host}",
                    attempt.task.job
                );
                assert!(live.insert(attempt.task), "{} lives twice", attempt.task);
            }
        }
    }

    pub(crate) fn joins(&mut self, host: u32) -> Vec<Effect> {
        self.joins_with(host, 1)
    }

    pub(crate) fn joins_with(&mut self, host: u32, slots: u32) -> Vec<Effect> {
        let host = HostId(host);
        self.slots.insert(host, slots);
        let held = self.list(host);
        let speed = Speed::REFERENCE;
        let status = OwnerState::Away.into();
        self.send(Event::HostJoined {
            host,
            slots,
            speed,
            status,
            held,
        })
    }

    pub(crate) fn list(&self, host: HostId) -> Vec<HeldAttempt> {
        let held = self.held.get(&host).into_iter().flatten();
        held.map(|(attempt, phase)| HeldAttempt {
            attempt: *attempt,
            phase: *phase,
            ran: Span::ZERO,
            frozen_for: Span::ZERO,
            progress: None,
        })
        .collect()
    }

    pub(crate) fn submit(&mut self, ranks: Ranks, policy: &str) -> JobId {
        self.submit_with(ranks, |rules| policy.clone_into(&mut rules.policy))
    }

    pub(crate) fn submit_with(&mut self, ranks: Ranks, change: impl FnOnce(&mut Rules)) -> JobId {
        self.jobs += 1;
        let mut rules = Rules {
            policy: "AVG".into(),
            max_fails: Some(0),
            ..Rules::default()
        };
        change(&mut rules);

        let bag = Bag {
            ranks: Some(ranks),
            ..Bag::new(Ranks::tasks(ranks.least), rules)
        };
        self.send(events::submitted(JobId(self.jobs), bag));

        JobId(self.jobs)
    }

    pub(crate) fn bag(&mut self, tasks: u32, change: impl FnOnce(&mut Rules)) -> JobId {
        self.jobs += 1;
        let mut rules = Rules {
            policy: "FCFS".into(),
            ..Rules::default()
        };
        change(&mut rules);
        self.send(events::submitted(
            JobId(self.jobs),
            Bag::new(IdSet::from_range(1, tasks), rules),
        ));
        JobId(self.jobs)
    }

    /// A bag that is to be done in so many seconds.
    pub(crate) fn promised(&mut self, tasks: u32, deadline_s: u64) -> JobId {
        self.jobs += 1;
        let rules = Rules {
            policy: "CALENDAR".into(),
            estimate: Some(s(1_000)),
            ..Rules::default()
        };
        let mut bag = Bag::new(IdSet::from_range(1, tasks), rules);
        bag.terms.deadline = Some(self.now + s(deadline_s));
        self.send(events::submitted(JobId(self.jobs), bag));

        JobId(self.jobs)
    }

    /// How many attempts stand still for others.
    pub(crate) fn frozen(&self) -> usize {
        self.held
            .values()
            .flat_map(BTreeMap::values)
            .filter(|phase| **phase == Phase::Held)
            .count()
    }

    /// Where the live attempts of a job are, by task.
    pub(crate) fn places(&self, job: JobId) -> BTreeMap<u32, (HostId, AttemptId)> {
        let live = self.scheduler.live_attempts(job);
        live.map(|live| (live.attempt.task.index, (live.host, live.attempt)))
            .collect()
    }

    /// What a host holds of a job is in this phase now.
    pub(crate) fn moves(&mut self, host: HostId, job: JobId, phase: Phase) -> Vec<Effect> {
        for (attempt, there) in self.held.entry(host).or_default() {
            if attempt.task.job == job {
                *there = phase;
            }
        }
        let held = self.list(host);
        self.send(Event::AttemptsMoved { host, held })
    }

    /// Every rank of the job becomes ready, and so begins.
    pub(crate) fn all_ready(&mut self, job: JobId) -> usize {
        let hosts: Vec<HostId> = self.places(job).values().map(|(host, _)| *host).collect();
        hosts
            .into_iter()
            .map(|host| begun(&self.moves(host, job, Phase::Ready)).len())
            .sum()
    }

    pub(crate) fn ends(&mut self, job: JobId, rank: u32, outcome: Outcome) -> Vec<Effect> {
        let (host, attempt) = self.places(job)[&rank];
        self.send(events::ended(host, attempt, outcome, s(60)))
    }

    pub(crate) fn all_succeed(&mut self, job: JobId) {
        for rank in self.places(job).keys().copied().collect::<Vec<_>>() {
            // What one leaves may start others, for which another has to go.
            if self.places(job).contains_key(&rank) {
                self.ends(job, rank, Outcome::Succeeded);
            }
        }
    }

    pub(crate) fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while let Some(at) = self.scheduler.next_wakeup().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.send(Event::Tick);
        }
        self.now = end;
    }

    /// All hosts but these are heard of.
    pub(crate) fn beats_but(&mut self, silent: &[u32]) {
        for host in self.slots.keys().copied().collect::<Vec<_>>() {
            if !silent.contains(&host.0) {
                let held = self.list(host);
                self.send(events::heard(host, OwnerState::Away.into(), held));
            }
        }
    }

    /// So long that a silent host is lost, while the others are heard of.
    pub(crate) fn loses(&mut self, host: u32) {
        for _ in 0..20 {
            self.pass(s(60));
            self.beats_but(&[host]);
        }
        self.held.remove(&HostId(host));
    }
}

pub(crate) fn begun(effects: &[Effect]) -> Vec<AttemptId> {
    let begin = |effect: &Effect| {
        if let Effect::Begin { attempt, .. } = effect {
            Some(*attempt)
        } else {
            None
        }
    };
    effects.iter().filter_map(begin).collect()
}

pub(crate) fn exactly(ranks: u32) -> Ranks {
    Ranks::new(ranks, Some(ranks))
}
