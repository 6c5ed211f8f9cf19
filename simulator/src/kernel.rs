//! The kernel under every simulated run: the scheduler with its clock, an agenda of planned events,
//! and the loop that takes the next event, steps the scheduler and has its effects carried out. It
//! does not know what happens in a run: a [`World`] does.
//!
//! At one instant planned events come first, by class and then by sequence (the order of
//! [`World::Due`]), then [`World::known`] ones, and last the scheduler's timer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, TaskId, Time};
use scheduler::effect::{EndReason, Judgement, Offer, Refused, Settled};
use scheduler::{Effect, Event, Scheduler, Settings};

/// A span longer than any run, in whatever unit a run counts. Short enough that sums do not
/// overflow.
pub(crate) const FOREVER: Span = Span(u64::MAX / 4);
/// The time of an event that does not come.
pub(crate) const NEVER: Time = Time(u64::MAX);

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

impl<O: Observer> Observer for &mut O {
    const WATCHES: bool = O::WATCHES;

    fn began(&mut self, settings: &Settings, incarnation: Incarnation) {
        (**self).began(settings, incarnation);
    }

    fn stepped(&mut self, now: Time, events: &[Event], effects: &[Effect], scheduler: &Scheduler) {
        (**self).stepped(now, events, effects, scheduler);
    }
}

/// The scheduler of a run with its clock, and the planned events of kind `D`.
pub(crate) struct Kernel<D, O> {
    pub(crate) scheduler: Scheduler,
    pub(crate) now: Time,
    /// The last instant of the run.
    pub(crate) horizon: Time,
    agenda: BinaryHeap<Reverse<(Time, D)>>,
    /// The time of the last `Event::Tick`.
    ticked: Option<Time>,
    effects: Vec<Effect>,
    observer: O,
}

impl<D: Copy + Ord, O: Observer> Kernel<D, O> {
    /// Creates the kernel of a run that begins at `now`.
    pub(crate) fn new(settings: Settings, now: Time, horizon: Time, mut observer: O) -> Self {
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
    pub(crate) fn plan(&mut self, at: Time, due: D) {
        self.agenda.push(Reverse((at, due)));
    }

    /// Whether nothing is planned.
    pub(crate) fn is_idle(&self) -> bool {
        self.agenda.is_empty()
    }

    /// Withdraws everything that is planned.
    pub(crate) fn clear(&mut self) {
        self.agenda.clear();
    }

    fn next_due(&self) -> Time {
        self.agenda.peek().map_or(NEVER, |due| due.0.0)
    }

    /// The time of the next `Event::Tick`, at least `least` after the last one.
    fn next_tick(&self, least: Option<Span>) -> Time {
        let (Some(least), Some(wakeup)) = (least, least.and(self.scheduler.next_wakeup())) else {
            return NEVER;
        };
        wakeup.max(self.ticked.map_or(self.now, |last| last + least))
    }

    /// The copies of a step's events that the observer gets.
    fn copies(events: &[Event]) -> Vec<Event> {
        if O::WATCHES {
            events.to_vec()
        } else {
            Vec::new()
        }
    }
}

/// The settings of worlds whose hosts send no heartbeats and are given one task at a time.
pub(crate) fn without_heartbeats() -> Settings {
    Settings {
        suspect_after: FOREVER,
        lease: FOREVER,
        prefetch_window: Span::ZERO,
        ..Settings::default()
    }
}

/// A simulated world: the events that come, and the meaning of each effect. It contains no rule of
/// scheduling. Effects without a method of its own change nothing there.
pub(crate) trait World: Sized {
    /// The planned events: at one instant they come in this order.
    type Due: Copy + Ord;
    /// The receiver of every step.
    type Observer: Observer;
    /// The shortest time between two `Event::Tick`, or `None` in a world whose scheduler has no
    /// timer.
    const LEAST_TICK: Option<Span>;

    fn kernel(&mut self) -> &mut Kernel<Self::Due, Self::Observer>;

    /// Lets a planned event happen.
    fn on_due(&mut self, at: Time, due: Self::Due);

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

    fn on_admitted(&mut self, _job: JobId) {}
    fn on_promised(&mut self, _job: JobId, _offer: Offer) {}
    fn on_refused(&mut self, _job: JobId, _why: &Refused) {}
    fn on_formed(&mut self, _job: JobId, _ranks: u32) {}
    fn on_start(
        &mut self,
        host: HostId,
        attempt: AttemptId,
        limit: Option<Span>,
        report_every: Option<Span>,
    );
    fn on_begin(&mut self, _host: HostId, _attempt: AttemptId) {}
    fn on_stop(&mut self, _host: HostId, _attempt: AttemptId, _why: &EndReason) {}
    fn on_abandoned(&mut self, _host: HostId, _attempts: &[AttemptId]) {}
    fn on_freeze(&mut self, _host: HostId, _attempt: AttemptId) {}
    fn on_thaw(&mut self, _host: HostId, _attempt: AttemptId) {}
    fn on_ended(&mut self, _attempt: AttemptId, _why: &EndReason) {}
    fn on_compare(&mut self, _attempt: AttemptId, _with: &[AttemptId]) {}
    fn on_judged(&mut self, _attempt: AttemptId, _judgement: Judgement) {}
    fn on_task_settled(&mut self, _task: TaskId, _settled: &Settled) {}
    fn on_reopened(&mut self, _tasks: &IdSet) {}
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
                && let Some(Reverse((at, due))) = kernel.agenda.pop()
            {
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
        let copies = Kernel::<Self::Due, Self::Observer>::copies(std::slice::from_ref(&event));
        let mut effects = std::mem::take(&mut kernel.effects);
        kernel.scheduler.step(kernel.now, event, &mut effects);
        self.carry_out(&copies, effects);
    }

    /// Gives the scheduler events that are known at the same time, and carries out their effects.
    fn step_all(&mut self, events: Vec<Event>) {
        let kernel = self.kernel();
        let copies = Kernel::<Self::Due, Self::Observer>::copies(&events);
        let mut effects = std::mem::take(&mut kernel.effects);
        kernel.scheduler.step_all(kernel.now, events, &mut effects);
        self.carry_out(&copies, effects);
    }

    fn carry_out(&mut self, events: &[Event], mut effects: Vec<Effect>) {
        let kernel = self.kernel();
        if Self::Observer::WATCHES {
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
            } => self.on_start(*host, *attempt, *limit, *report_every),
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
            | Effect::Executing { .. }
            | Effect::Acknowledge { .. }
            | Effect::HostTrusted { .. }
            | Effect::TasksCancelled { .. }
            | Effect::HostChanged { .. } => {}
        }
    }
}
