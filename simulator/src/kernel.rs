//! The kernel under every simulated run: the scheduler with its clock, an agenda of planned events,
//! and the loop that takes the next event, steps the scheduler and has its effects carried out. It
//! does not know what happens in a run: a [`World`] does.
//!
//! At one instant planned events come first, by class and then by sequence (the order of a
//! world's planned events), then [`World::known`] ones, and last the scheduler's timer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use common::attempt::{HeldAttempt, Phase};
use common::host::{OwnerState, YieldReason};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId, Time};
use scheduler::effect::{EndReason, Judgement, Offer, Refused, Settled};
use scheduler::{Effect, Event, Scheduler, Settings};

/// A span longer than any run, in whatever unit a run counts. Short enough that sums do not
/// overflow.
pub const FOREVER: Span = Span(u64::MAX / 4);
/// The time of an event that does not come.
pub const NEVER: Time = Time(u64::MAX);

/// The horizon of a run that ends by itself.
pub const ENDLESS: Time = Time(FOREVER.0);

/// The receiver of every step of a run, after the scheduler has taken it and before its effects are
/// carried out. The one that does nothing, `()`, costs nothing.
pub trait Observer {
    /// Whether it wants the steps; events are copied for it.
    const WATCHES: bool = true;

    /// Hears that a run begins with a scheduler of these settings.
    fn began(&mut self, _settings: &Settings, _incarnation: Incarnation) {}

    /// Hears of a step: events that were known at once (nearly always one), and their effects.
    fn stepped(&mut self, now: Time, events: &[Event], effects: &[Effect], scheduler: &Scheduler);
}

impl Observer for () {
    const WATCHES: bool = false;

    fn stepped(&mut self, _: Time, _: &[Event], _: &[Effect], _: &Scheduler) {}
}

/// A start of an attempt, as a world needs it; see `Effect::Start`.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    /// The host.
    pub host: HostId,
    /// The attempt.
    pub attempt: AttemptId,
    /// The longest that it may run.
    pub limit: Option<Span>,
    /// The interval at which the host should report.
    pub report_every: Option<Span>,
}

/// A planned event with its time, as it lies on the agenda: ordered by time, then by event.
pub trait Planned: Copy + Ord {
    /// The event.
    type Due;

    /// Plans an event.
    fn new(at: Time, due: Self::Due) -> Self;

    /// Returns the time and the event.
    fn open(self) -> (Time, Self::Due);
}

impl<D: Copy + Ord> Planned for (Time, D) {
    type Due = D;

    fn new(at: Time, due: D) -> Self {
        (at, due)
    }

    fn open(self) -> (Time, D) {
        self
    }
}

/// The scheduler of a run with its clock, and the planned events of kind `E`.
pub struct Kernel<'o, E, O> {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The present time.
    pub now: Time,
    /// The last instant of the run.
    pub horizon: Time,
    agenda: BinaryHeap<Reverse<E>>,
    /// The time of the last `Event::Tick`.
    ticked: Option<Time>,
    effects: Vec<Effect>,
    observer: &'o mut O,
}

impl<'o, E: Planned, O: Observer> Kernel<'o, E, O> {
    /// Creates the kernel of a run that begins at `now`.
    pub fn new(settings: Settings, now: Time, horizon: Time, observer: &'o mut O) -> Self {
        let incarnation = Incarnation(1);
        observer.began(&settings, incarnation);
        Self {
            scheduler: Scheduler::new(settings, incarnation),
            now,
            horizon,
            agenda: BinaryHeap::new(),
            ticked: None,
            effects: Vec::new(),
            observer,
        }
    }

    /// Puts an event on the agenda. It is not withdrawn: one that no longer fits is to be skipped
    /// when it is due.
    pub fn plan(&mut self, at: Time, due: E::Due) {
        self.agenda.push(Reverse(E::new(at, due)));
    }

    /// Whether nothing is planned.
    pub fn is_idle(&self) -> bool {
        self.agenda.is_empty()
    }

    /// Withdraws everything that is planned.
    pub fn clear(&mut self) {
        self.agenda.clear();
    }

    fn next_due(&self) -> Time {
        self.agenda
            .peek()
            .map_or(NEVER, |planned| planned.0.open().0)
    }

    /// The time of the next `Event::Tick`, at least `least` after the last one.
    fn next_tick(&self, least: Option<Span>) -> Time {
        let (Some(least), Some(wakeup)) = (least, least.and(self.scheduler.next_wakeup())) else {
            return NEVER;
        };
        wakeup.max(self.ticked.map_or(self.now, |last| last + least))
    }
}

/// The settings of worlds whose hosts send no heartbeats and are given one task at a time.
pub fn without_heartbeats() -> Settings {
    Settings {
        suspect_after: FOREVER,
        lease: FOREVER,
        prefetch_window: Span::ZERO,
        ..Settings::default()
    }
}

/// The event that a host with one slot joins, which is there for tasks alone.
pub fn dedicated(host: HostId, speed: Speed) -> Event {
    Event::HostJoined {
        host,
        slots: 1,
        speed,
        status: OwnerState::Away.into(),
        held: Vec::new(),
    }
}

/// The state of its owner that a host reports: away if tasks can compute.
pub(crate) fn owner(away: bool) -> OwnerState {
    if away {
        OwnerState::Away
    } else {
        OwnerState::Present(YieldReason::InUse)
    }
}

/// The event that an attempt runs on its host, for `ran` so far.
pub fn running(host: HostId, attempt: AttemptId, ran: Span) -> Event {
    let held = vec![HeldAttempt {
        attempt,
        phase: Phase::Running,
        ran,
        frozen_for: Span::ZERO,
        progress: None,
    }];
    Event::AttemptsMoved { host, held }
}

/// A simulated world: the events that come, and the meaning of each effect. It contains no rule of
/// scheduling. Effects without a method of its own change nothing there.
pub trait World<'o, E: Planned + 'o, O: Observer + 'o> {
    /// The shortest time between two `Event::Tick`, or `None` in a world whose scheduler has no
    /// timer.
    const LEAST_TICK: Option<Span>;

    /// Returns the kernel.
    fn kernel(&mut self) -> &mut Kernel<'o, E, O>;

    /// Lets a planned event happen.
    fn on_due(&mut self, at: Time, due: E::Due);

    /// Whether the run is over before its horizon.
    fn is_over(&mut self) -> bool {
        self.kernel().is_idle()
    }

    /// The time of the next event that the world knew from the start and did not plan.
    fn known(&self) -> Time {
        NEVER
    }

    /// Lets the [`World::known`] event happen.
    fn on_known(&mut self) {}

    /// Does what follows from a step once all its effects are carried out.
    fn on_stepped(&mut self) {}

    /// Hears that a job was admitted.
    fn on_admitted(&mut self, _job: JobId) {}
    /// Hears what a job was promised.
    fn on_promised(&mut self, _job: JobId, _offer: Offer) {}
    /// Hears that a job was refused.
    fn on_refused(&mut self, _job: JobId, _why: &Refused) {}
    /// Hears how many ranks a gang has.
    fn on_formed(&mut self, _job: JobId, _ranks: u32) {}
    /// Starts an attempt.
    fn on_start(&mut self, start: Given);
    /// Lets an attempt of a gang compute.
    fn on_begin(&mut self, _host: HostId, _attempt: AttemptId) {}
    /// Ends an attempt on its host.
    fn on_stop(&mut self, _host: HostId, _attempt: AttemptId, _why: &EndReason) {}
    /// Drops attempts that the host holds for nothing.
    fn on_abandoned(&mut self, _host: HostId, _attempts: &[AttemptId]) {}
    /// Freezes an attempt.
    fn on_freeze(&mut self, _host: HostId, _attempt: AttemptId) {}
    /// Lets a frozen attempt go on.
    fn on_thaw(&mut self, _host: HostId, _attempt: AttemptId) {}
    /// Hears that an attempt has ended.
    fn on_ended(&mut self, _attempt: AttemptId, _why: &EndReason) {}
    /// Compares the result of an attempt with others.
    fn on_compare(&mut self, _attempt: AttemptId, _with: &[AttemptId]) {}
    /// Hears the judgement of a result.
    fn on_judged(&mut self, _attempt: AttemptId, _judgement: Judgement) {}
    /// Hears that a task is settled.
    fn on_task_settled(&mut self, _task: TaskId, _settled: &Settled) {}
    /// Hears that settled tasks are open again.
    fn on_reopened(&mut self, _tasks: &IdSet) {}
    /// Hears that a job is settled.
    fn on_job_settled(&mut self, _job: JobId) {}

    /// Lets events happen, one after the other, until the run is over or its horizon is reached.
    fn go_on(&mut self) {
        while !self.is_over() {
            let known = self.known();
            let kernel = self.kernel();
            let due = kernel.next_due();
            let tick = kernel.next_tick(Self::LEAST_TICK);

            let next = due.min(known).min(tick);
            if next > kernel.horizon {
                kernel.now = kernel.now.max(kernel.horizon);
                return;
            }

            kernel.now = kernel.now.max(next);
            if next == due
                && let Some(Reverse(planned)) = kernel.agenda.pop()
            {
                let (at, due) = planned.open();
                self.on_due(at, due);
            } else if next == known {
                self.on_known();
            } else {
                kernel.ticked = Some(kernel.now);
                self.step(Event::Tick);
            }
        }
    }

    /// Gives the scheduler one event and carries out its effects.
    fn step(&mut self, event: Event) {
        let kernel = self.kernel();
        let copy = O::WATCHES.then(|| event.clone());
        let mut effects = std::mem::take(&mut kernel.effects);
        kernel.scheduler.step(kernel.now, event, &mut effects);
        self.carry_out(copy.as_slice(), effects);
    }

    /// Gives the scheduler events that are known at the same time, and carries out their effects.
    fn step_all(&mut self, events: Vec<Event>) {
        let kernel = self.kernel();
        let copies = O::WATCHES.then(|| events.clone());
        let mut effects = std::mem::take(&mut kernel.effects);
        kernel.scheduler.step_all(kernel.now, events, &mut effects);
        self.carry_out(&copies.unwrap_or_default(), effects);
    }

    /// Tells the observer of a step, and carries out its effects.
    fn carry_out(&mut self, events: &[Event], mut effects: Vec<Effect>) {
        let kernel = self.kernel();
        if O::WATCHES {
            let now = kernel.now;
            kernel
                .observer
                .stepped(now, events, &effects, &kernel.scheduler);
        }

        for effect in &effects {
            self.obey(effect);
        }

        effects.clear();
        self.kernel().effects = effects;
        self.on_stepped();
    }

    /// Calls the method of an effect.
    fn obey(&mut self, effect: &Effect) {
        match effect {
            Effect::JobAdmitted { job } => self.on_admitted(*job),
            Effect::Promised { job, offer } => self.on_promised(*job, *offer),
            Effect::JobRefused { job, why } => self.on_refused(*job, why),
            Effect::Formed { job, ranks, .. } => self.on_formed(*job, *ranks),
            Effect::Start {
                host,
                attempt,
                limit,
                report_every,
                ..
            } => self.on_start(Given {
                host: *host,
                attempt: *attempt,
                limit: *limit,
                report_every: *report_every,
            }),
            Effect::Begin { host, attempt } => self.on_begin(*host, *attempt),
            Effect::Stop { host, attempt, why } => self.on_stop(*host, *attempt, why),
            Effect::Abandon { host, attempts } => self.on_abandoned(*host, attempts),
            Effect::Freeze { host, attempt, .. } => self.on_freeze(*host, *attempt),
            Effect::Thaw { host, attempt } => self.on_thaw(*host, *attempt),
            Effect::Ended { attempt, why, .. } => self.on_ended(*attempt, why),
            Effect::Compare { attempt, with } => self.on_compare(*attempt, with),
            Effect::Judged {
                attempt, judgement, ..
            } => self.on_judged(*attempt, *judgement),
            Effect::TaskSettled { task, settled } => self.on_task_settled(*task, settled),
            Effect::TasksReopened { tasks, .. } => self.on_reopened(tasks),
            Effect::JobSettled { job, .. } => self.on_job_settled(*job),
            Effect::Foretold { .. }
            | Effect::PromiseRenewed { .. }
            | Effect::PromiseWithdrawn { .. }
            | Effect::Executing { .. }
            | Effect::Acknowledge { .. }
            | Effect::HostTrusted { .. }
            | Effect::TasksCancelled { .. }
            | Effect::HostChanged { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::job::Rules;
    use scheduler::event::Bag;

    /// A time, and the class and number of an event.
    type Turn = (Time, (u8, u32));

    /// Notes what comes, in order.
    struct Notes<'o> {
        kernel: Kernel<'o, Turn, Vec<Event>>,
        known: Vec<Time>,
        came: Vec<(Time, &'static str, u32)>,
    }

    impl Observer for Vec<Event> {
        fn stepped(&mut self, _: Time, events: &[Event], _: &[Effect], _: &Scheduler) {
            self.extend(events.iter().cloned());
        }
    }

    impl<'o> World<'o, Turn, Vec<Event>> for Notes<'o> {
        const LEAST_TICK: Option<Span> = Some(Span::from_secs(1));

        fn kernel(&mut self) -> &mut Kernel<'o, Turn, Vec<Event>> {
            &mut self.kernel
        }

        fn is_over(&mut self) -> bool {
            false
        }

        fn on_due(&mut self, at: Time, (class, number): (u8, u32)) {
            let name = if class == 0 { "first" } else { "second" };
            self.came.push((at, name, number));
        }

        fn known(&self) -> Time {
            self.known.last().copied().unwrap_or(NEVER)
        }

        fn on_known(&mut self) {
            self.came
                .extend(self.known.pop().map(|at| (at, "known", 0)));
        }

        fn on_start(&mut self, launch: Given) {
            let number = launch.attempt.task.index;
            self.came.push((self.kernel.now, "start", number));
        }

        fn on_stepped(&mut self) {
            self.came.push((self.kernel.now, "step", 0));
        }
    }

    #[test]
    fn planned_events_come_by_time_class_and_sequence_before_known_ones_before_the_timer() {
        let lease = Span(100);
        let settings = Settings {
            suspect_after: lease,
            lease,
            ..Settings::default()
        };
        let mut seen = Vec::new();
        let mut notes = Notes {
            kernel: Kernel::new(settings, Time(0), Time(100), &mut seen),
            known: vec![Time(100), Time(50)],
            came: Vec::new(),
        };
        for (at, due) in [
            (100, (1, 1)),
            (100, (0, 7)),
            (101, (0, 1)),
            (100, (1, 0)),
            (3, (1, 9)),
        ] {
            notes.kernel.plan(Time(at), due);
        }

        notes.step(dedicated(HostId(1), Speed::REFERENCE));
        notes.step(Event::JobSubmitted {
            job: JobId(1),
            bag: Box::new(Bag::new(IdSet::from_range(1, 1), Rules::default())),
            tested: None,
        });
        notes.go_on();
        assert_eq!(
            notes.came,
            [
                (Time(0), "step", 0),
                (Time(0), "start", 1),
                (Time(0), "step", 0),
                (Time(3), "second", 9),
                (Time(50), "known", 0),
                (Time(100), "first", 7),
                (Time(100), "second", 0),
                (Time(100), "second", 1),
                (Time(100), "known", 0),
                (Time(100), "step", 0),
            ]
        );
        assert_eq!(notes.kernel.now, Time(100));
        assert_eq!((seen.len(), seen.last()), (3, Some(&Event::Tick)));
    }
}
