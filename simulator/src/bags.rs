//! A simulated world of bags with deadlines: dedicated hosts that are always there, and users who
//! ask whether their bags are admitted. It drives the scheduler through its two doors and obeys its
//! effects; it contains no rule of scheduling. Owners and failures live in `world`.
//!
//! At one instant bags arrive first, then tasks are done, in the order of their starts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use common::attempt::Outcome;
use common::job::Rules;
use common::{AttemptId, HostId, IdSet, JobId, Span, Speed, TaskId, Time};
use scheduler::effect::{EndReason, Offer, Refused, Settled};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::{Event, PlannedTask};

use crate::kernel::{
    self, ENDLESS, Given, Kernel, Observer, World as _, dedicated, without_heartbeats,
};

/// A bag that a user submits.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmittedBag {
    /// The time at which it is submitted.
    pub at: Time,
    /// The user and the program.
    pub estimator: Estimator,
    /// A policy of the catalogue, with parameters.
    pub policy: String,
    /// The deadline, as the time after `at`.
    pub deadline: Option<Span>,
    /// The tasks of the bag.
    pub tasks: Vec<BagTask>,
}

/// A task, in run times on a host of speed 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BagTask {
    /// The user's estimate.
    pub estimate: Span,
    /// The true run time.
    pub takes: Span,
}

/// An event of a bag.
#[derive(Debug, Clone, PartialEq)]
pub struct BagEvent {
    /// The time of the event.
    pub at: Time,
    /// The bag, counted from 0.
    pub bag: usize,
    /// The kind of event, as [`BagEventKind`].
    pub what: BagEventKind,
}

/// The kinds of event. Tasks are counted from 0.
#[derive(Debug, Clone, PartialEq)]
pub enum BagEventKind {
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
pub struct BagFate {
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
pub struct BagResults {
    /// The fate of each bag.
    pub fates: Vec<BagFate>,
    /// All events in order, if [`WantedResults::moments`] is set.
    pub moments: Vec<BagEvent>,
    /// The planned places of the tasks of the bag [`WantedResults::plan_of`], as computed when it came.
    pub plan: Vec<PlannedTask>,
}

/// The results that are wanted beside the fates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WantedResults {
    /// Whether to record every event.
    pub moments: bool,
    /// The bag whose plan is recorded.
    pub plan_of: Option<usize>,
    /// Whether to compute [`BagFate::single`].
    pub single: bool,
}

/// The planned events, in their order at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Upcoming {
    /// This bag comes.
    Asked(usize),
    /// The attempt is done; starts are counted.
    Done(u64, AttemptId),
}

struct BagWorld<'a, O> {
    kernel: Kernel<'a, (Time, Upcoming), O>,
    asked: &'a [SubmittedBag],
    wanted: WantedResults,
    speeds: &'a [Speed],
    starts: u64,
    /// The running attempts, each with its host and its run time there.
    running: BTreeMap<AttemptId, (HostId, Span)>,
    /// The number of tasks of each bag that are not done.
    open: Vec<usize>,
    /// The jobs that were settled in this step.
    settled: Vec<JobId>,
    told: BagResults,
}

/// Submits the bags, sorted by time, to a scheduler with hosts of these `speeds`, and waits until
/// nothing runs.
pub fn run(speeds: &[Speed], asked: &[SubmittedBag], wanted: WantedResults) -> BagResults {
    run_watched(speeds, asked, wanted, &mut ())
}

/// Does what [`run`] does, with an [`Observer`] of every step.
pub fn run_watched<O: Observer>(
    speeds: &[Speed],
    asked: &[SubmittedBag],
    wanted: WantedResults,
    observer: &mut O,
) -> BagResults {
    let mut world = BagWorld {
        kernel: Kernel::new(without_heartbeats(), Time(0), ENDLESS, observer),
        asked,
        wanted,
        speeds,
        starts: 0,
        running: BTreeMap::new(),
        open: asked.iter().map(|bag| bag.tasks.len()).collect(),
        settled: Vec::new(),
        told: BagResults {
            fates: vec![BagFate::default(); asked.len()],
            ..BagResults::default()
        },
    };
    for (number, speed) in (1..).zip(speeds) {
        world.step(dedicated(HostId(number), *speed));
    }

    world.plan_arrival(0);
    world.go_on();
    world.told
}

/// Converts a bag to the `Bag` that the scheduler receives.
fn bag(asked: &SubmittedBag) -> Bag {
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
        terms,
        ..Bag::new(tasks, rules)
    }
}

impl<O: Observer> BagWorld<'_, O> {
    /// Plans the arrival of a bag, if there is such a bag.
    fn plan_arrival(&mut self, number: usize) {
        if let Some(bag) = self.asked.get(number) {
            self.kernel.plan(bag.at, Upcoming::Asked(number));
        }
    }

    fn arrive(&mut self, number: usize) {
        let asked = &self.asked[number];
        let bag = bag(asked);
        if self.wanted.plan_of == Some(number) {
            self.told.plan = self
                .kernel
                .scheduler
                .plan(&bag, self.kernel.now)
                .unwrap_or_default();
        }

        let job = JobId(number as u32 + 1);
        let counterfactual = self.wanted.single.then(|| bag.clone());
        self.step(Event::JobSubmitted {
            job,
            bag: Box::new(bag),
            tested: None,
        });

        if let Some(mut bag) = counterfactual.filter(|_| !self.told.fates[number].accepted) {
            let excess = |task: &BagTask| task.estimate.0.saturating_sub(task.takes.0);
            let worst =
                (0..asked.tasks.len()).max_by_key(|at| (excess(&asked.tasks[*at]), Reverse(*at)));
            if let Some(worst) = worst {
                bag.terms.estimates[worst] = asked.tasks[worst].takes;
            }
            self.told.fates[number].single =
                self.kernel.scheduler.offer(&bag, self.kernel.now).is_ok();
        }
    }

    /// Ends the attempt with success, if it still runs.
    fn end(&mut self, attempt: AttemptId) {
        let Some((host, ran)) = self.running.remove(&attempt) else {
            return;
        };
        self.step(Event::AttemptEnded {
            host,
            attempt,
            outcome: Outcome::Succeeded,
            ran,
        });
    }

    fn note(&mut self, bag: usize, what: BagEventKind) {
        if self.wanted.moments {
            self.told.moments.push(BagEvent {
                at: self.kernel.now,
                bag,
                what,
            });
        }
    }
}

impl<'a, O: Observer> kernel::World<'a, (Time, Upcoming), O> for BagWorld<'a, O> {
    const LEAST_TICK: Option<Span> = Some(Span::ZERO);

    fn kernel(&mut self) -> &mut Kernel<'a, (Time, Upcoming), O> {
        &mut self.kernel
    }

    fn on_due(&mut self, _at: Time, due: Upcoming) {
        match due {
            Upcoming::Asked(number) => {
                self.arrive(number);
                self.plan_arrival(number + 1);
            }
            Upcoming::Done(_, attempt) => self.end(attempt),
        }
    }

    fn on_admitted(&mut self, job: JobId) {
        self.told.fates[of(job)].accepted = true;
        if self.asked[of(job)].deadline.is_none() {
            self.note(of(job), BagEventKind::Accepted(None));
        }
    }

    fn on_promised(&mut self, job: JobId, offer: Offer) {
        self.told.fates[of(job)].offer = Some(offer);
        self.note(of(job), BagEventKind::Accepted(Some(offer)));
    }

    fn on_refused(&mut self, job: JobId, why: &Refused) {
        self.note(of(job), BagEventKind::Refused(why.clone()));
    }

    fn on_start(&mut self, Given { host, attempt, .. }: Given) {
        let (bag, task) = place(attempt.task);
        let takes = self.asked[bag].tasks[task].takes;
        let speed = self.speeds[host.0 as usize - 1];
        let ran = Span::from_secs_f64(takes.secs() / speed.factor());
        self.starts += 1;
        self.running.insert(attempt, (host, ran));
        self.kernel
            .plan(self.kernel.now + ran, Upcoming::Done(self.starts, attempt));
        self.note(bag, BagEventKind::Started(task, host));
    }

    fn on_stop(&mut self, _host: HostId, attempt: AttemptId, _why: &EndReason) {
        self.running.remove(&attempt);
    }

    fn on_ended(&mut self, attempt: AttemptId, why: &EndReason) {
        if let EndReason::Policed { elapsed, .. } = why {
            let (bag, task) = place(attempt.task);
            self.told.fates[bag].killed.push((task, *elapsed));
            self.note(bag, BagEventKind::Killed(task, *elapsed));
        }
    }

    fn on_task_settled(&mut self, task: TaskId, settled: &Settled) {
        let Settled::Finished(_) = settled else {
            return;
        };
        let (bag, task) = place(task);
        self.note(bag, BagEventKind::Done(task));
        self.open[bag] -= 1;

        if self.open[bag] == 0 {
            let now = self.kernel.now;
            let asked = &self.asked[bag];
            let fate = &mut self.told.fates[bag];
            fate.finished = Some(now);
            fate.kept = asked
                .deadline
                .is_none_or(|deadline| now <= asked.at + deadline);
        }
    }

    fn on_job_settled(&mut self, job: JobId) {
        self.settled.push(job);
    }

    fn on_stepped(&mut self) {
        for job in std::mem::take(&mut self.settled) {
            self.step(Event::JobForgotten { job });
        }
    }
}

/// The index of a task's bag, and of the task there.
fn place(task: TaskId) -> (usize, usize) {
    (of(task.job), task.index as usize - 1)
}

/// The index of a job's bag.
fn of(job: JobId) -> usize {
    job.0 as usize - 1
}
