//! A simulated world of bags with deadlines: dedicated hosts that are always there, and users who
//! ask whether their bags are admitted. It drives the scheduler through its two doors and obeys its
//! effects; it contains no rule of scheduling. Owners and failures live in `world`.
//!
//! At one instant bags arrive first, then tasks are done, in the order of their starts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use common::attempt::Outcome;
use common::host::OwnerState;
use common::job::Rules;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, Time};
use scheduler::effect::{EndReason, Offer, Refused, Settled};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::{Effect, Event, Planned, Scheduler, Settings};

/// A time longer than any run, in whatever unit the caller counts: hosts send no heartbeats here,
/// so no silence may be noticed.
const FOREVER: Span = Span(u64::MAX / 2);

/// A bag that a user submits.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The time at which it is submitted.
    pub at: Time,
    /// The user and the program.
    pub estimator: Estimator,
    /// A policy of the catalogue, with parameters.
    pub policy: String,
    /// The deadline, as the time after `at`.
    pub deadline: Option<Span>,
    /// The tasks of the bag.
    pub tasks: Vec<Task>,
}

/// A task, in run times on a host of speed 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The user's estimate.
    pub estimate: Span,
    /// The true run time.
    pub takes: Span,
}

/// An event of a bag.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// The time of the event.
    pub at: Time,
    /// The bag, counted from 0.
    pub bag: usize,
    /// The kind of event, as [`What`].
    pub what: What,
}

/// The kinds of event. Tasks are counted from 0.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The bag was admitted, with the offer if it has a deadline.
    Accepted(Option<Offer>),
    /// The bag was refused.
    Refused(Refused),
    /// A task started on a host.
    Started(usize, HostId),
    /// A task was killed after it had run for this time.
    Killed(usize, Span),
    /// A task is done.
    Done(usize),
}

/// The history of a bag.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fate {
    /// Whether it was admitted.
    pub accepted: bool,
    /// The offer that it was promised.
    pub offer: Option<Offer>,
    /// The time at which its last task was done, if all were.
    pub finished: Option<Time>,
    /// Whether it was admitted and all its tasks were done by its deadline.
    pub kept: bool,
    /// The killed tasks of the bag, each with the time for which it had run.
    pub killed: Vec<(usize, Span)>,
    /// Whether it was refused, and would have been admitted if its largest overestimate had been
    /// right.
    pub single: bool,
}

/// The results of [`run`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// The fate of each bag.
    pub fates: Vec<Fate>,
    /// All events in order, if [`Wanted::moments`] is set.
    pub moments: Vec<Moment>,
    /// The planned places of the tasks of the bag [`Wanted::plan_of`], as computed when it came.
    pub plan: Vec<Planned>,
}

/// The results that are wanted beside the fates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Whether to record every event.
    pub moments: bool,
    /// The bag whose plan is recorded.
    pub plan_of: Option<usize>,
    /// Whether to compute [`Fate::single`].
    pub single: bool,
}

/// The running attempts, each with its end, its host and its run time there.
type Running = BTreeMap<AttemptId, (Time, HostId, Span)>;

struct World<'a> {
    asked: &'a [Asked],
    wanted: Wanted,
    speeds: &'a [Speed],
    scheduler: Scheduler,
    now: Time,
    effects: Vec<Effect>,
    queue: BinaryHeap<Reverse<(Time, u64, AttemptId)>>,
    starts: u64,
    running: Running,
    /// The number of tasks of each bag that are not done.
    open: Vec<usize>,
    told: Told,
}

/// Submits the bags, sorted by time, to a scheduler with hosts of these `speeds`, and waits until
/// nothing runs.
pub fn run(speeds: &[Speed], asked: &[Asked], wanted: Wanted) -> Told {
    let settings = Settings {
        suspect_after: FOREVER,
        lease: FOREVER,
        prefetch_window: Span::ZERO,
        ..Settings::default()
    };

    let mut world = World {
        asked,
        wanted,
        speeds,
        scheduler: Scheduler::new(settings, Incarnation(1)),
        now: Time(0),
        effects: Vec::new(),
        queue: BinaryHeap::new(),
        starts: 0,
        running: Running::new(),
        open: asked.iter().map(|bag| bag.tasks.len()).collect(),
        told: Told {
            fates: vec![Fate::default(); asked.len()],
            ..Told::default()
        },
    };
    for (number, speed) in (1..).zip(speeds) {
        let status = OwnerState::Away.into();
        world.step(Event::HostJoined {
            host: HostId(number),
            slots: 1,
            speed: *speed,
            status,
            held: Vec::new(),
        });
    }

    world.go_on();
    world.told
}

/// Converts a bag to the `Bag` that the scheduler receives.
fn bag(asked: &Asked) -> Bag {
    let tasks = IdSet::from_range(1, asked.tasks.len() as u32);
    let rules = Rules {
        policy: asked.policy.clone(),
        ..Rules::default()
    };
    let terms = Terms {
        deadline: asked.deadline.map(|deadline| asked.at + deadline),
        estimates: asked.tasks.iter().map(|task| task.estimate).collect(),
        estimator: asked.estimator.clone(),
    };

    Bag {
        tasks,
        rules,
        terms,
        disclosed: false,
        ranks: None,
    }
}

impl World<'_> {
    fn go_on(&mut self) {
        let mut next = 0;
        loop {
            let arrival = self.asked.get(next).map(|bag| bag.at);
            let done = self.queue.peek().map(|due| due.0.0);
            let Some(at) = arrival.into_iter().chain(done).min() else {
                return;
            };
            let tick = self.scheduler.next_wakeup().filter(|tick| *tick < at);
            self.now = self.now.max(tick.unwrap_or(at));

            if tick.is_some() {
                self.step(Event::Tick);
            } else if arrival == Some(at) {
                self.arrive(next);
                next += 1;
            } else if let Some(Reverse((_, _, attempt))) = self.queue.pop() {
                self.end(attempt);
            }
        }
    }

    fn arrive(&mut self, number: usize) {
        let asked = &self.asked[number];
        let bag = bag(asked);
        if self.wanted.plan_of == Some(number) {
            self.told.plan = self.scheduler.plan(&bag, self.now).unwrap_or_default();
        }

        let job = JobId(number as u32 + 1);
        let counterfactual = self.wanted.single.then(|| bag.clone());
        self.step(Event::JobSubmitted {
            job,
            bag: Box::new(bag),
            tested: None,
        });

        if let Some(mut bag) = counterfactual.filter(|_| !self.told.fates[number].accepted) {
            let excess = |task: &Task| task.estimate.0.saturating_sub(task.takes.0);
            let worst =
                (0..asked.tasks.len()).max_by_key(|at| (excess(&asked.tasks[*at]), Reverse(*at)));
            if let Some(worst) = worst {
                bag.terms.estimates[worst] = asked.tasks[worst].takes;
            }
            self.told.fates[number].single = self.scheduler.offer(&bag, self.now).is_ok();
        }
    }

    /// Ends the attempt with success, if it still runs.
    fn end(&mut self, attempt: AttemptId) {
        let Some((_, host, ran)) = self.running.remove(&attempt) else {
            return;
        };
        self.step(Event::AttemptEnded {
            host,
            attempt,
            outcome: Outcome::Succeeded,
            ran,
        });
    }

    fn step(&mut self, event: Event) {
        let mut effects = std::mem::take(&mut self.effects);
        self.scheduler.step(self.now, event, &mut effects);

        let mut settled = Vec::new();
        for effect in effects.drain(..) {
            if let Effect::JobSettled { job, .. } = &effect {
                settled.push(*job);
            }
            self.obey(effect);
        }

        self.effects = effects;
        for job in settled {
            self.step(Event::JobForgotten { job });
        }
    }

    fn obey(&mut self, effect: Effect) {
        match effect {
            Effect::JobAdmitted { job } => {
                self.told.fates[of(job)].accepted = true;
                if self.asked[of(job)].deadline.is_none() {
                    self.note(of(job), What::Accepted(None));
                }
            }
            Effect::Promised { job, offer } => {
                self.told.fates[of(job)].offer = Some(offer);
                self.note(of(job), What::Accepted(Some(offer)));
            }
            Effect::JobRefused { job, why } => self.note(of(job), What::Refused(why)),
            Effect::Start { host, attempt, .. } => self.start(host, attempt),
            Effect::Stop { attempt, .. } => drop(self.running.remove(&attempt)),
            Effect::Ended {
                attempt,
                why: EndReason::Policed { elapsed, .. },
                ..
            } => {
                let bag = of(attempt.task.job);
                let task = attempt.task.index as usize - 1;
                self.told.fates[bag].killed.push((task, elapsed));
                self.note(bag, What::Killed(task, elapsed));
            }
            Effect::TaskSettled {
                task,
                settled: Settled::Finished(_),
            } => {
                let bag = of(task.job);
                self.note(bag, What::Done(task.index as usize - 1));
                self.open[bag] -= 1;
                if self.open[bag] == 0 {
                    let deadline = self.asked[bag]
                        .deadline
                        .map(|deadline| self.asked[bag].at + deadline);
                    let fate = &mut self.told.fates[bag];
                    fate.finished = Some(self.now);
                    fate.kept = deadline.is_none_or(|deadline| self.now <= deadline);
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, host: HostId, attempt: AttemptId) {
        let bag = of(attempt.task.job);
        let task = attempt.task.index as usize - 1;
        let takes = self.asked[bag].tasks[task].takes;
        let speed = self.speeds[host.0 as usize - 1];
        let ran = Span::from_secs_f64(takes.secs() / speed.factor());
        self.starts += 1;
        self.running.insert(attempt, (self.now + ran, host, ran));
        self.queue
            .push(Reverse((self.now + ran, self.starts, attempt)));
        self.note(bag, What::Started(task, host));
    }

    fn note(&mut self, bag: usize, what: What) {
        if self.wanted.moments {
            self.told.moments.push(Moment {
                at: self.now,
                bag,
                what,
            });
        }
    }
}

/// The index of a job's bag.
fn of(job: JobId) -> usize {
    job.0 as usize - 1
}
