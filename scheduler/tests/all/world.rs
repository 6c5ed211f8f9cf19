//! The door through which tests speak to the scheduler: hosts, jobs and time. Every step is
//! recorded, and checked against the model.

use std::collections::BTreeMap;

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::{OwnerState, YieldReason};
use common::job::Rules;
use common::needs::{Needs, Offers};
use common::view::{HostState, JobState, TaskState};
use common::{After, AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId, Time};
use scheduler::effect::{EndReason, Offer, Settled, StartReason, Verdict};
use scheduler::event::{Bag, Terms};
use scheduler::{Effect, Event, Parting, Scheduler, Settings};

use crate::model::Model;

/// A scheduler with its history.
pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) model: Model,
    pub(crate) now: Time,
    /// Everything that happened, with what followed from it.
    pub(crate) history: Vec<(Time, Event, Vec<Effect>)>,
    jobs: u32,
}

/// A span of seconds.
pub(crate) fn s(secs: u64) -> Span {
    Span::from_secs(secs)
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Settings {
            max_copies: 2,
            ..Settings::default()
        })
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let incarnation = Incarnation(1);
        let model = Model::new(settings.clone(), incarnation);
        let scheduler = Scheduler::new(settings, incarnation);
        Self {
            scheduler,
            model,
            now: Time(1_000_000),
            history: Vec::new(),
            jobs: 0,
        }
    }

    /// The host falls silent for longer than it had promised.
    pub(crate) fn parts(&mut self, host: HostId) -> Vec<Effect> {
        let how = Parting::Silent;
        self.send(Event::HostDisconnected { host, how })
    }

    /// The host's process dies, and its connection is reset.
    pub(crate) fn dies(&mut self, host: HostId) -> Vec<Effect> {
        let how = Parting::Reset;
        self.send(Event::HostDisconnected { host, how })
    }

    /// Sends an event, checks the step, and gives back its effects.
    pub(crate) fn send(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event.clone(), &mut effects);
        self.model
            .check(self.now, &event, &effects, &self.scheduler);
        self.history.push((self.now, event, effects.clone()));
        effects
    }

    /// Lets time pass; ticks whenever the scheduler asked for it.
    pub(crate) fn pass(&mut self, span: Span) -> Vec<Effect> {
        let end = self.now + span;
        let mut effects = Vec::new();
        while let Some(at) = self.scheduler.next_wakeup().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            effects.extend(self.send(Event::Tick));
        }
        self.now = end;
        effects
    }

    /// The master dies and comes back with what its store knows; nobody is connected.
    pub(crate) fn restart(&mut self) {
        let incarnation = Incarnation(self.model.incarnation.0 + 1);
        let restored = self.model.restored();
        self.scheduler = Scheduler::new(self.model.settings.clone(), incarnation);
        self.model.restart(incarnation);
        self.history.clear();
        for event in restored {
            self.send(event);
        }
    }

    // Jobs.

    pub(crate) fn job(&mut self, tasks: u32) -> JobDraft<'_> {
        let tasks = IdSet::from_range(1, tasks);
        let rules = Rules::default();
        let terms = Terms::default();
        JobDraft {
            world: self,
            tasks,
            rules,
            terms,
            disclosed: false,
            after: Vec::new(),
            open: false,
        }
    }

    /// The promise that a bag with a deadline would be given.
    pub(crate) fn offer(&self, bag: &Bag) -> Offer {
        let offer = self.scheduler.offer(bag, self.now);
        offer.expect("it is let in").expect("it has a deadline")
    }

    pub(crate) fn job_state(&self, job: JobId) -> JobState {
        self.scheduler.job_state(job).expect("the job is there")
    }

    pub(crate) fn task_state(&self, job: JobId, index: u32) -> TaskState {
        self.scheduler
            .task_state(TaskId::new(job, index))
            .expect("the task is there")
    }

    // Hosts.

    pub(crate) fn host(&mut self, id: u32) -> HostDraft<'_> {
        HostDraft {
            world: self,
            id: HostId(id),
            slots: 1,
            speed: 1.0,
            owner: OwnerState::Away,
            held: Vec::new(),
        }
    }

    /// The live attempts on the host's books, by number.
    pub(crate) fn books(&self, host: HostId) -> Vec<AttemptId> {
        self.scheduler
            .host(host)
            .expect("the host is there")
            .attempts
    }

    /// The only attempt on the host's books.
    pub(crate) fn attempt_on(&self, host: HostId) -> AttemptId {
        match self.books(host)[..] {
            [attempt] => attempt,
            ref other => panic!("{host} does not hold one attempt, but {other:?}"),
        }
    }

    /// The attempt of the task of this number on the host's books.
    pub(crate) fn attempt_of(&self, host: HostId, index: u32) -> AttemptId {
        let mut books = self.books(host).into_iter();
        books
            .find(|attempt| attempt.task.index == index)
            .expect("it is there")
    }

    pub(crate) fn host_state(&self, host: HostId) -> HostState {
        self.scheduler.host(host).expect("the host is there").state
    }

    pub(crate) fn heard(&mut self, host: HostId, held: Vec<HeldAttempt>) -> Vec<Effect> {
        let owner = self
            .scheduler
            .host(host)
            .map_or(OwnerState::Away, |host| host.owner);
        self.send(Event::HostHeard {
            host,
            status: owner.into(),
            held,
        })
    }

    /// A heartbeat that lists everything on the books, in its present phase.
    pub(crate) fn beats(&mut self, host: HostId) -> Vec<Effect> {
        let held = self.held(host);
        self.heard(host, held)
    }

    /// What the host would list.
    pub(crate) fn held(&self, host: HostId) -> Vec<HeldAttempt> {
        let live = |attempt: AttemptId| {
            let live = self.scheduler.task_attempts(attempt.task);
            let live = live
                .into_iter()
                .find(|live| live.attempt == attempt)
                .expect("on the books of its task too");
            HeldAttempt {
                attempt,
                phase: live.phase,
                ran: live.ran,
                frozen_for: Span::ZERO,
                progress: live.progress,
            }
        };
        self.books(host).into_iter().map(live).collect()
    }

    /// Everything that the host holds is now in this phase.
    pub(crate) fn moves(&mut self, host: HostId, phase: Phase) -> Vec<Effect> {
        let held = self
            .held(host)
            .into_iter()
            .map(|held| HeldAttempt { phase, ..held })
            .collect();
        self.send(Event::AttemptsMoved { host, held })
    }

    /// The owner comes back: the host is suspended, and so is what executes there.
    pub(crate) fn owner_comes(&mut self, host: HostId) -> Vec<Effect> {
        let mut effects = self.send(Event::OwnerChanged {
            host,
            owner: OwnerState::Present(YieldReason::InUse),
        });
        effects.extend(self.moves(host, Phase::Suspended(YieldReason::InUse)));
        effects
    }

    pub(crate) fn owner_goes(&mut self, host: HostId) -> Vec<Effect> {
        let mut effects = self.send(Event::OwnerChanged {
            host,
            owner: OwnerState::Away,
        });
        effects.extend(self.moves(host, Phase::Running));
        effects
    }

    // Attempts.

    pub(crate) fn ends(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        outcome: Outcome,
        ran: Span,
    ) -> Vec<Effect> {
        self.send(Event::AttemptEnded {
            host,
            attempt,
            outcome,
            ran,
        })
    }

    /// The host delivers a success of the attempt after a minute's run.
    pub(crate) fn succeeds(&mut self, host: HostId, attempt: AttemptId) -> Vec<Effect> {
        self.ends(host, attempt, Outcome::Succeeded, s(60))
    }

    /// The host delivers a failure of the attempt.
    pub(crate) fn fails(&mut self, host: HostId, attempt: AttemptId) -> Vec<Effect> {
        self.ends(host, attempt, Outcome::Exited(1), s(1))
    }

    /// Every host finishes what it holds, over and over, until nothing is live any more.
    pub(crate) fn work_off(&mut self) {
        for _ in 0..100_000 {
            let hosts: Vec<HostId> = self.scheduler.hosts().collect();
            let next = hosts
                .into_iter()
                .find_map(|host| Some((host, *self.books(host).first()?)));
            let Some((host, attempt)) = next else { return };
            self.succeeds(host, attempt);
        }
        panic!("the work never ends");
    }
}

/// A job to be submitted.
pub(crate) struct JobDraft<'a> {
    world: &'a mut World,
    tasks: IdSet,
    rules: Rules,
    terms: Terms,
    disclosed: bool,
    after: Vec<After>,
    open: bool,
}

impl JobDraft<'_> {
    pub(crate) fn policy(mut self, name: &str) -> Self {
        name.clone_into(&mut self.rules.policy);
        self
    }

    pub(crate) fn priority(mut self, priority: i32) -> Self {
        self.rules.priority = priority;
        self
    }

    pub(crate) fn retries(mut self, retries: u32) -> Self {
        self.rules.retries = retries;
        self
    }

    pub(crate) fn max_losses(mut self, losses: u32) -> Self {
        self.rules.max_losses = losses;
        self
    }

    pub(crate) fn max_fails(mut self, fails: u64) -> Self {
        self.rules.max_fails = Some(fails);
        self
    }

    pub(crate) fn timeout(mut self, timeout: Span) -> Self {
        self.rules.timeout = Some(timeout);
        self
    }

    pub(crate) fn estimate(mut self, estimate: Span) -> Self {
        self.rules.estimate = Some(estimate);
        self
    }

    pub(crate) fn needs(mut self, needs: Needs) -> Self {
        self.rules.needs = needs;
        self
    }

    /// The deadline, in seconds from now.
    pub(crate) fn deadline(mut self, secs: u64) -> Self {
        self.terms.deadline = Some(self.world.now + s(secs));
        self
    }

    /// An estimate for each task, in seconds.
    pub(crate) fn estimates(mut self, secs: &[u64]) -> Self {
        self.tasks = IdSet::from_range(1, secs.len() as u32);
        self.terms.estimates = secs.iter().map(|secs| s(*secs)).collect();
        self
    }

    pub(crate) fn keeps_state(mut self) -> Self {
        self.rules.checkpoint = true;
        self
    }

    pub(crate) fn disclosed(mut self) -> Self {
        self.disclosed = true;
        self
    }

    /// It waits for this job.
    pub(crate) fn after(mut self, after: After) -> Self {
        self.after.push(after);
        self
    }

    pub(crate) fn open(mut self) -> Self {
        self.open = true;
        self
    }

    pub(crate) fn user(mut self, name: &str) -> Self {
        name.clone_into(&mut self.terms.estimator.user);
        self
    }

    /// What would be submitted.
    pub(crate) fn bag(&self) -> Bag {
        Bag {
            tasks: self.tasks.clone(),
            rules: self.rules.clone(),
            terms: self.terms.clone(),
            disclosed: self.disclosed,
            ranks: None,
            after: self.after.clone(),
            open: self.open,
        }
    }

    pub(crate) fn submit(self) -> JobId {
        let (job, effects) = self.asks();
        assert_eq!(effects.first(), Some(&Effect::JobAdmitted { job }));
        job
    }

    /// Submits it, and says what follows.
    pub(crate) fn asks(self) -> (JobId, Vec<Effect>) {
        self.world.jobs += 1;
        let job = JobId(self.world.jobs);
        let bag = self.bag();
        (
            job,
            self.world.send(Event::JobSubmitted {
                job,
                bag: Box::new(bag),
                tested: None,
            }),
        )
    }
}

/// A host to be joined.
pub(crate) struct HostDraft<'a> {
    world: &'a mut World,
    id: HostId,
    slots: u32,
    speed: f64,
    owner: OwnerState,
    held: Vec<HeldAttempt>,
}

impl HostDraft<'_> {
    pub(crate) fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    pub(crate) fn speed(mut self, speed: f64) -> Self {
        self.speed = speed;
        self
    }

    pub(crate) fn owner(mut self, owner: OwnerState) -> Self {
        self.owner = owner;
        self
    }

    /// It can hold so many attempts frozen.
    pub(crate) fn holds_frozen(self, frozen: u32) -> Self {
        let offers = Offers {
            frozen,
            ..Offers::default()
        };
        self.world.send(Event::HostOffers {
            host: self.id,
            offers: Box::new(offers),
        });
        self
    }

    pub(crate) fn holding(mut self, attempt: AttemptId, phase: Phase) -> Self {
        self.held.push(HeldAttempt {
            attempt,
            phase,
            ran: s(1),
            frozen_for: Span::ZERO,
            progress: None,
        });
        self
    }

    pub(crate) fn joins(self) -> HostId {
        self.joins_with().0
    }

    pub(crate) fn joins_with(self) -> (HostId, Vec<Effect>) {
        let speed = Speed::new(self.speed).expect("a positive speed");
        let host = self.id;
        let slots = self.slots;
        let owner = self.owner;
        let held = self.held;

        (
            host,
            self.world.send(Event::HostJoined {
                host,
                slots,
                speed,
                status: owner.into(),
                held,
            }),
        )
    }
}

// What tests look for among effects.

pub(crate) fn starts(effects: &[Effect]) -> Vec<(HostId, AttemptId, StartReason)> {
    let start = |effect: &Effect| match effect {
        Effect::Start {
            host, attempt, why, ..
        } => Some((*host, *attempt, why.clone())),
        _ => None,
    };
    effects.iter().filter_map(start).collect()
}

pub(crate) fn ended(effects: &[Effect]) -> Vec<(AttemptId, EndReason)> {
    let end = |effect: &Effect| match effect {
        Effect::Ended { attempt, why, .. } => Some((*attempt, why.clone())),
        _ => None,
    };
    effects.iter().filter_map(end).collect()
}

pub(crate) fn stopped(effects: &[Effect]) -> Vec<(HostId, AttemptId)> {
    let stop = |effect: &Effect| match effect {
        Effect::Stop { host, attempt, .. } => Some((*host, *attempt)),
        _ => None,
    };
    effects.iter().filter_map(stop).collect()
}

/// What is frozen, where, and for which task.
type Frozen = (HostId, AttemptId, Option<TaskId>);

/// What is frozen by these effects, and what goes on.
pub(crate) fn held(effects: &[Effect]) -> (Vec<Frozen>, Vec<AttemptId>) {
    let frozen = effects.iter().filter_map(|effect| match effect {
        Effect::Freeze { host, attempt, by } => Some((*host, *attempt, *by)),
        _ => None,
    });
    let thawed = effects.iter().filter_map(|effect| match effect {
        Effect::Thaw { attempt, .. } => Some(*attempt),
        _ => None,
    });
    (frozen.collect(), thawed.collect())
}

pub(crate) fn settled(effects: &[Effect]) -> Vec<(u32, Settled)> {
    let settle = |effect: &Effect| match effect {
        Effect::TaskSettled { task, settled } => Some((task.index, settled.clone())),
        _ => None,
    };
    effects.iter().filter_map(settle).collect()
}

pub(crate) fn verdict(effects: &[Effect]) -> Verdict {
    let verdicts: Vec<Verdict> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Acknowledge { verdict, .. } => Some(*verdict),
            _ => None,
        })
        .collect();
    assert_eq!(
        verdicts.len(),
        1,
        "one completion, one acknowledgement: {effects:?}"
    );

    verdicts[0]
}

pub(crate) fn abandoned(effects: &[Effect]) -> Vec<AttemptId> {
    let abandon = |effect: &Effect| match effect {
        Effect::Abandon { attempts, .. } => attempts.clone(),
        _ => Vec::new(),
    };
    effects.iter().flat_map(abandon).collect()
}

pub(crate) fn job_settled(effects: &[Effect]) -> Option<JobState> {
    effects.iter().find_map(|effect| match effect {
        Effect::JobSettled { state, .. } => Some(*state),
        _ => None,
    })
}

/// A report of a host on which these attempts have run without a break, each since its time.
pub(crate) fn steady_report(
    host: HostId,
    running: &BTreeMap<AttemptId, (HostId, Time)>,
    now: Time,
) -> Event {
    let own = running.iter().filter(|(_, (on, _))| *on == host);
    let held = own.map(|(attempt, (_, since))| HeldAttempt {
        attempt: *attempt,
        phase: Phase::Running,
        ran: now.since(*since),
        frozen_for: Span::ZERO,
        progress: None,
    });
    Event::HostHeard {
        host,
        status: OwnerState::Away.into(),
        held: held.collect(),
    }
}
