//! Random fleets, well-behaved and hostile: after every step the model's invariants hold, in the
//! end everything settles, and a recorded sequence replays to the same effects.

use std::collections::{BTreeMap, BTreeSet};

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::{OwnerState, YieldReason};
use common::job::Rules;
use common::needs::{Capacity, Demand, Needs, Offers};
use common::{
    After, AttemptId, EndCondition, HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use scheduler::effect::{EndReason, Verdict};
use scheduler::event::Bag;
use scheduler::experience::JobStage;
use scheduler::{Effect, Event, Parting, Scheduler, Settings, catalogue};

use crate::events;
use crate::world::{World, s};

/// Something that happens; what exactly follows from the state that it meets.
type Op = (u8, u16, u16);

const HOSTS: u16 = 5;
/// Operations below this are those of a fleet that behaves.
const BEHAVED: u8 = 20;
const ALL: u8 = 26;

fn ops(kinds: u8) -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec((0..kinds, any::<u16>(), any::<u16>()), 1..120)
}

fn config(seed: u64) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(150);
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    }
}

/// A world with workers that really hold what they were given.
struct Fleet {
    world: World,
    workers: BTreeMap<HostId, Worker>,
    ever: BTreeSet<AttemptId>,
}

/// What the owner of a simulated worker lets it do.
#[derive(Default, Clone, Copy, PartialEq)]
enum Owner {
    #[default]
    Away,
    Sharing(u32),
    Present,
}

#[derive(Default)]
struct Worker {
    connected: bool,
    owner: Owner,
    slots: u32,
    held: BTreeMap<AttemptId, Phase>,
}

impl Fleet {
    fn new() -> Self {
        let settings = Settings {
            max_prefetch: 6,
            max_copies: 3,
            ..Settings::default()
        };
        let workers = (1..=u32::from(HOSTS))
            .map(|host| (HostId(host), Worker::default()))
            .collect();

        Self {
            world: World::with(settings),
            workers,
            ever: BTreeSet::new(),
        }
    }

    fn send(&mut self, event: Event) {
        let effects = self.world.send(event);
        self.obey(&effects);
    }

    /// What the effects mean to the workers, if they are there to hear of them.
    fn obey(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Start { host, attempt, .. } => {
                    self.ever.insert(*attempt);
                    self.worker(*host).held.insert(*attempt, Phase::Queued);
                }
                Effect::Acknowledge { host, attempt, .. } => {
                    self.worker(*host).held.remove(attempt);
                }
                Effect::Abandon { host, attempts } => {
                    for attempt in attempts {
                        self.worker(*host).held.remove(attempt);
                    }
                }
                Effect::Stop { host, attempt, .. } if self.worker(*host).connected => {
                    self.worker(*host).held.remove(attempt);
                }
                Effect::Freeze { host, attempt, .. } => self.hold(*host, *attempt, Phase::Held),
                Effect::Thaw { host, attempt } => self.hold(*host, *attempt, Phase::Running),
                _ => {}
            }
        }
    }

    /// What runs stands still, or goes on, if its host hears of it.
    fn hold(&mut self, host: HostId, attempt: AttemptId, turned: Phase) {
        let worker = self.worker(host);
        if let Some(phase) = worker
            .held
            .get_mut(&attempt)
            .filter(|phase| worker.connected && phase.executing())
        {
            *phase = turned;
        }
    }

    fn worker(&mut self, host: HostId) -> &mut Worker {
        self.workers.entry(host).or_default()
    }

    fn list(&self, host: HostId) -> Vec<HeldAttempt> {
        let held = self
            .workers
            .get(&host)
            .into_iter()
            .flat_map(|worker| &worker.held);
        held.map(|(attempt, phase)| HeldAttempt {
            attempt: *attempt,
            phase: *phase,
            ran: s(1),
            frozen_for: Span::ZERO,
            progress: None,
        })
        .collect()
    }

    fn owner(&self, host: HostId) -> OwnerState {
        match self
            .workers
            .get(&host)
            .map_or(Owner::Away, |worker| worker.owner)
        {
            Owner::Away => OwnerState::Away,
            Owner::Sharing(slots) => OwnerState::Sharing(YieldReason::InUse, slots),
            Owner::Present => OwnerState::Present(YieldReason::InUse),
        }
    }

    fn join(&mut self, host: HostId, slots: u32) {
        let worker = self.worker(host);
        worker.connected = true;
        worker.slots = slots;

        let owner = self.owner(host);
        let held = self.list(host);
        let speed = Speed::new(0.5 + f64::from(host.0)).expect("positive");

        self.send(events::offered(
            host,
            Offers {
                frozen: host.0 % 3,
                capacity: Capacity {
                    cores: slots + host.0 % 2,
                    memory_mib: 1_024 * (1 + host.0 % 3),
                    gpus: host.0 % 2,
                },
                ..Offers::default()
            },
        ));

        self.send(Event::HostJoined {
            host,
            slots,
            speed,
            status: owner.into(),
            held,
        });
    }

    /// The phases that a worker with so many slots and such an owner would report.
    fn progress(&mut self, host: HostId) {
        let worker = self.worker(host);
        let slots = worker.slots as usize;
        let usable = match worker.owner {
            Owner::Away => slots,
            Owner::Sharing(usable) => slots.min(usable as usize),
            Owner::Present => 0,
        };

        for (at, phase) in worker
            .held
            .values_mut()
            .filter(|phase| !matches!(phase, Phase::Ended | Phase::Held))
            .enumerate()
        {
            match phase {
                _ if at >= slots => {}
                Phase::Running | Phase::Suspended(_) if at >= usable => {
                    *phase = Phase::Suspended(YieldReason::InUse);
                }
                Phase::Suspended(_) => *phase = Phase::Running,
                Phase::Queued if at < usable => *phase = Phase::Staging,
                Phase::Staging if at < usable => *phase = Phase::Running,
                _ => {}
            }
        }

        if self.worker(host).connected {
            let held = self.list(host);
            self.send(Event::AttemptsMoved { host, held });
        }
    }

    fn pick(&self, host: HostId, n: u16) -> Option<AttemptId> {
        let held = &self.workers.get(&host)?.held;
        held.keys().nth(usize::from(n) % held.len().max(1)).copied()
    }

    fn any_attempt(&self, n: u16) -> Option<AttemptId> {
        self.ever
            .iter()
            .nth(usize::from(n) % self.ever.len().max(1))
            .copied()
    }

    fn any_job(&self, n: u16) -> JobId {
        let jobs = &self.world.model.jobs;
        jobs.keys()
            .nth(usize::from(n) % jobs.len().max(1))
            .copied()
            .unwrap_or(JobId(1))
    }

    fn apply(&mut self, (kind, a, b): Op) {
        let host = HostId(u32::from(a % HOSTS) + 1);
        let connected = self.worker(host).connected;
        match kind {
            0 | 1 => self.submit(a, b),
            2 | 3 => self.join(host, u32::from(b % 4)),
            4 if connected => {
                let owner = self.owner(host);
                let held = self.list(host);
                self.send(events::heard(host, owner.into(), held));
            }
            5..=8 if connected => self.complete(host, b),
            9 | 10 => self.progress(host),
            11 => {
                let before = self.worker(host).owner;
                self.worker(host).owner = match b % 4 {
                    0 | 1 if before == Owner::Away => Owner::Present,
                    0 | 1 => Owner::Away,
                    slots => Owner::Sharing(u32::from(slots) - 2),
                };
                if connected {
                    let owner = self.owner(host);
                    self.send(Event::OwnerChanged { host, owner });
                    self.progress(host);
                }
            }
            12 if connected => self.give_back(host),
            13 => {
                self.worker(host).connected = false;
                let how = [Parting::Silent, Parting::Closed, Parting::Reset][b as usize % 3];
                self.send(Event::HostDisconnected { host, how });
            }
            14 => {
                let drain = b.is_multiple_of(2);
                self.send(if drain {
                    Event::HostDrained { host }
                } else {
                    Event::HostUndrained { host }
                });
            }
            15 => self.cancel_retry_or_forget(a, b),
            16 | 17 => {
                let effects = self.world.pass(s(u64::from(b % 400)));
                self.obey(&effects);
            }
            18 => {
                *self.worker(host) = Worker::default();
                let revoked = b.is_multiple_of(4);
                self.send(if revoked {
                    Event::HostRevoked { host }
                } else {
                    Event::HostLeft { host }
                });
            }
            19 => {
                let span = s(u64::from(a % 3_000));
                self.world.now = self.world.now + span;
                self.send(Event::MasterPaused { span });
            }
            _ => self.misbehave(kind, host, a, b),
        }
    }

    fn misbehave(&mut self, kind: u8, host: HostId, a: u16, b: u16) {
        match kind {
            20 => {
                // A restart that lost everything, or a list with holes and inventions.
                if b.is_multiple_of(2) {
                    self.worker(host).held.clear();
                    return self.join(host, 2);
                }

                let claimed = [Span::ZERO, s(1_000_000), Span(u64::MAX)][usize::from(b / 4) % 3];
                let mut held = self.list(host);
                held.retain(|held| (held.attempt.task.index + u32::from(b)) % 3 != 0);
                for held in &mut held {
                    held.ran = claimed;
                    held.frozen_for = claimed;
                }

                let phase = if b % 4 == 1 {
                    Phase::Ended
                } else {
                    Phase::Running
                };
                let listed = |attempt| HeldAttempt {
                    attempt,
                    phase,
                    ran: claimed,
                    frozen_for: claimed,
                    progress: Some(f32::NAN),
                };
                held.extend(self.any_attempt(a).map(listed));

                let owner = self.owner(host);
                self.send(events::heard(host, owner.into(), held));
            }
            21 => {
                let Some(attempt) = self.any_attempt(b) else {
                    return;
                };
                let outcome = outcome(a / HOSTS);
                let ran = Span(u64::MAX);
                self.send(events::ended(host, attempt, outcome, ran));
            }
            22 => {
                let task = TaskId::new(self.any_job(a), u32::from(b % 40));
                let attempt = AttemptId {
                    task,
                    number: u32::from(a % 5),
                    incarnation: Incarnation(1),
                };
                self.send(events::ended(host, attempt, outcome(b), Span::ZERO));

                self.send(events::returned(host, vec![attempt, attempt]));
            }
            23 => {
                let host = HostId(u32::from(a));
                let attempts: Vec<AttemptId> = self.any_attempt(b).into_iter().collect();
                self.send(Event::AttemptsReturned { host, attempts });
                self.send(events::owner(host, self.owner(host)));
            }
            24 => {
                self.send(Event::Tick);
                self.world.now =
                    common::Time(self.world.now.0 - u64::from(b).min(self.world.now.0));
            }
            25 if b.is_multiple_of(4) => {
                self.world.restart();
                for worker in self.workers.values_mut() {
                    worker.connected = false;
                }
            }
            _ => {}
        }
    }

    fn submit(&mut self, a: u16, b: u16) {
        let job = JobId(u32::from(a % 40) + 1);
        let rules = Rules {
            retries: u32::from(b % 3),
            max_losses: u32::from(b % 4),
            max_fails: b.is_multiple_of(5).then_some(2),
            priority: i32::from(b % 3),
            checkpoint: (b / 26).is_multiple_of(2),
            policy: catalogue()[usize::from(a) % catalogue().len()]
                .name
                .to_owned(),
            needs: Needs {
                takes: takes(b),
                ..Needs::default()
            },
            ..Rules::default()
        };

        let tasks = IdSet::from_range(1, u32::from(b % 13));
        let disclosed = (b / 13).is_multiple_of(2);
        let before = |n: u16| After {
            job: self.any_job(n),
            how: if n.is_multiple_of(3) {
                EndCondition::Any
            } else {
                EndCondition::Ok
            },
        };
        let after = [a / 3, b / 5].map(before);
        let bag = Bag {
            disclosed,
            after: after[..usize::from(!disclosed) * usize::from(a % 3)].to_vec(),
            open: !disclosed && b.is_multiple_of(4),
            ..Bag::new(tasks, rules)
        };
        self.send(events::submitted(job, bag));
    }

    fn complete(&mut self, host: HostId, b: u16) {
        let Some(attempt) = self.pick(host, b) else {
            return;
        };
        self.worker(host).held.insert(attempt, Phase::Ended);

        let ran = if b.is_multiple_of(2) {
            Span::from_millis(20)
        } else {
            s(1)
        };

        if b.is_multiple_of(5) {
            let cpu = [Span::ZERO, s(1), Span(u64::MAX)][usize::from(b / 5) % 3];
            self.send(Event::AttemptUsed { host, attempt, cpu });
        }
        self.send(events::ended(host, attempt, outcome(b / 3), ran));
    }

    fn give_back(&mut self, host: HostId) {
        let held = &mut self.worker(host).held;
        let back: Vec<AttemptId> = held
            .iter()
            .filter(|(_, phase)| **phase == Phase::Queued)
            .map(|(a, _)| *a)
            .collect();
        held.retain(|_, phase| *phase != Phase::Queued);
        self.send(events::returned(host, back));
    }

    fn cancel_retry_or_forget(&mut self, a: u16, b: u16) {
        let job = self.any_job(a);
        let some = IdSet::from_range(u32::from(b % 7), u32::from(b % 17));
        let user = String::new();
        self.send(match b % 14 {
            8 | 9 => Event::ShareFull {
                user,
                full: b.is_multiple_of(2),
            },
            10 => {
                let highest = |index| {
                    Some((
                        index,
                        *self.world.model.jobs.get(&job)?.highest.get(&index)?,
                    ))
                };
                Event::ResultsGone {
                    job,
                    tasks: some.iter().filter_map(highest).collect(),
                }
            }
            4 | 5 => Event::TasksRequested {
                job,
                tasks: Some(some),
            },
            6 => Event::TasksRequested { job, tasks: None },
            7 => Event::UnrequestedCancelled { job },
            0 => Event::JobCancelled { job, tasks: None },
            1 => Event::JobCancelled {
                job,
                tasks: Some(some),
            },
            2 => Event::JobRetried { job, tasks: some },
            11 | 12 => Event::TasksAdded { job, tasks: some },
            13 => Event::JobClosed { job },
            _ => Event::JobForgotten { job },
        });
    }

    /// From now on every host behaves: everything settles, in time.
    fn settle(&mut self) {
        for host in (1..=u32::from(HOSTS)).map(HostId) {
            self.worker(host).owner = Owner::Away;
            self.send(Event::HostUndrained { host });
            self.join(host, 2);
        }

        for job in self.world.model.jobs.keys().copied().collect::<Vec<_>>() {
            self.send(Event::JobClosed { job });
            self.send(Event::TasksRequested { job, tasks: None });
        }

        for _ in 0..2_000 {
            if self
                .world
                .model
                .jobs
                .keys()
                .all(|job| self.world.job_state(*job).settled())
            {
                return;
            }

            let mut idle = true;
            for host in (1..=u32::from(HOSTS)).map(HostId) {
                let Some(attempt) = self.pick(host, 0) else {
                    continue;
                };
                idle = false;
                self.send(events::succeeded(host, attempt, s(1)));
            }

            // Some policies wait for a while; meanwhile the hosts must be heard of.
            if idle {
                let effects = self.world.pass(s(60));
                self.obey(&effects);
                for host in (1..=u32::from(HOSTS)).map(HostId) {
                    let held = self.list(host);
                    self.send(events::heard(host, OwnerState::Away.into(), held));
                }
            }
        }

        let unsettled: Vec<JobId> = self
            .world
            .model
            .jobs
            .keys()
            .copied()
            .filter(|job| !self.world.job_state(*job).settled())
            .collect();
        panic!("these jobs never settle: {unsettled:?}");
    }
}

/// Returns the `Demand` of the tasks of a job: of four jobs one takes more than a slot.
fn takes(b: u16) -> Demand {
    let odd = Demand {
        cores: 1 + u32::from(b / 4 % 3),
        memory_mib: 512 * u32::from(b / 12 % 4),
        gpus: u32::from((b / 48).is_multiple_of(4)),
    };
    if b.is_multiple_of(4) {
        odd
    } else {
        Demand::PLAIN
    }
}

fn outcome(n: u16) -> Outcome {
    match n % 6 {
        0..=2 => Outcome::Succeeded,
        3 => Outcome::Exited(1),
        4 => Outcome::TimedOut(s(9)),
        _ => Outcome::Stopped,
    }
}

fn replay(fleet: &Fleet) {
    let incarnation = fleet.world.model.incarnation;
    let mut same = Scheduler::new(fleet.world.model.settings.clone(), incarnation);
    let mut decoded = Scheduler::new(fleet.world.model.settings.clone(), incarnation);

    for (now, event, expected) in &fleet.world.history {
        let bytes = postcard::to_allocvec(&(now, event)).expect("events can be written");
        let (now, read) = postcard::from_bytes(&bytes).expect("and read");
        let mut effects = Vec::new();
        same.step(now, event.clone(), &mut effects);
        assert_eq!(effects, *expected, "replay of {event:?}");
        effects.clear();
        decoded.step(now, read, &mut effects);
        assert_eq!(effects, *expected, "replay of the written {event:?}");

        let bytes = postcard::to_allocvec(expected).expect("effects can be written");
        assert_eq!(
            postcard::from_bytes::<Vec<Effect>>(&bytes).expect("and read"),
            *expected
        );
    }
}

#[test]
fn estimates_whose_sum_is_beyond_all_numbers_break_nothing() {
    for policy in ["deskgrid", "FCFS", "PROMISE"] {
        let mut world = World::new();
        world.host(1).joins();
        let mut bag = world.job(2).policy(policy).bag();
        bag.terms.estimates = vec![Span(1 << 63); 2];
        let job = JobId(1);
        world.send(events::submitted(job, bag));
        world.work_off();
        assert!(world.job_state(job).settled(), "{policy}");
    }
}

#[test]
fn looks_at_a_long_queue_change_nothing_of_what_is_learned() {
    let learned = |looks: bool| {
        let mut world = World::new();
        let host = world.host(1).joins();
        let looked_at = world.job(2).estimate(s(100)).submit();
        for _ in 0..120 {
            world.job(1).priority(1).estimate(s(100)).submit();
        }

        world.now = world.now + s(50);
        if looks {
            let told = world.scheduler.predict_all(&[looked_at], world.now);
            assert_eq!(told.len(), 1);
        }
        world.job(50).priority(1).estimate(s(1_000)).submit();
        let attempt = world.attempt_on(host);
        assert_eq!(attempt.task.job, looked_at);
        world.succeeds(host, attempt);
        world.work_off();
        world.scheduler.experience()
    };

    let without = learned(false);
    let noted = without.errors.of("deskgrid", JobStage::Middle);
    assert!(!noted.is_empty());
    assert_eq!(learned(true), without);
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn hostile_fleets_break_no_invariant_and_all_settles(ops in ops(ALL)) {
        let mut fleet = Fleet::new();
        for op in ops {
            fleet.apply(op);
        }
        fleet.settle();
    }
}

proptest! {
    #![proptest_config(config(2))]

    /// Every result of a worker that behaves is of a known attempt, and nothing of its is ever
    /// taken for forgotten.
    #[test]
    fn fleets_that_behave_are_never_suspected_of_losing_or_inventing(ops in ops(BEHAVED)) {
        let mut fleet = Fleet::new();
        for op in ops {
            fleet.apply(op);
        }
        fleet.settle();
        let forgets = fleet.world.history.iter().any(|(_, event, _)| matches!(event, Event::JobForgotten { .. }));
        for effect in fleet.world.history.iter().flat_map(|(_, _, effects)| effects) {
            let forgotten = matches!(effect, Effect::Ended { why: EndReason::Forgotten, .. });
            let unknown = matches!(effect, Effect::Acknowledge { verdict: Verdict::Unknown, .. });
            // A job may have been forgotten while its worker was away.
            prop_assert!(!forgotten && (!unknown || forgets), "{effect:?}");
        }
    }
}

proptest! {
    #![proptest_config(config(3))]

    #[test]
    fn a_recorded_sequence_replays_to_the_same_effects(ops in ops(ALL)) {
        let mut fleet = Fleet::new();
        for op in ops {
            fleet.apply(op);
        }
        replay(&fleet);
    }
}
