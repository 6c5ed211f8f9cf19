//! The events of a run and the meaning of the scheduler's effects in it ([`Simulator`]); the loop is
//! that of `kernel`.
//!
//! The order at one instant is: attempts that are done, in the order of their starts; heartbeats
//! that are missed or heard, host by host; the changes of the trace, host by host; the requests of
//! users; and last the scheduler's own timer. The trace fixes most of the future, so it is known
//! when an attempt starts when it will be done and which heartbeats will have news.

use std::collections::BTreeMap;

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::needs::Demand;
use common::{AttemptId, HostId, Incarnation, JobId, Span, TaskId, Time};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use scheduler::effect::{EndReason, Refused, Settled};
use scheduler::experience::Habit;
use scheduler::{Event, Experience};

use super::ask::{self, RunJob};
use super::course::{Change, PreparedTrace, SteadyInterval};
use super::host::{Attempt, ComputeState, Host, Numbers};
use super::outcome::{AttemptFate, AttemptStory, MakespanPrediction, RunError, RunOutcome};
use super::plan::{Packed, WorldEvent};
use super::run::Run;
use crate::Recording;
use crate::kernel::{self, Given, Kernel, NEVER, Observer, World as _, owner};

/// The job with which a run begins.
const JOB: JobId = JobId(1);
/// The cost of checkpoints to a task, as a part of its host's speed.
const CHECKPOINT_COST: f64 = 0.02;
/// Runs jobs on worlds, one after the other, and reuses its memory between runs.
#[derive(Debug, Default)]
pub struct Simulator {
    pub(super) hosts: Vec<Host>,
    pub(super) attempts: Vec<Attempt>,
    /// Indices of `attempts` that have ended, to be reused.
    free: Vec<u32>,
    jobs: Vec<JobState>,
    tasks: Vec<TaskState>,
    /// The attempts of each task that checkpoints which have not ended on their hosts, as indices of
    /// `attempts`.
    pub(super) unended: BTreeMap<TaskId, Numbers>,
    /// The scheduler's number of each host, by place in the trace. `places` is the inverse.
    numbers: Vec<u32>,
    pub(super) places: Vec<u32>,
}

/// The state of a job in a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobState {
    /// The index of its first task in `Simulator::tasks`; `first_index` is that task's own index.
    place: u32,
    first_index: u32,
    /// The work of each of its tasks.
    work_s: f64,
    pub(super) checkpoint: bool,
    /// Whether it is a gang, whose attempts wait for `Effect::Begin`.
    pub(super) ranks: bool,
    /// The `Demand` of each of its attempts.
    pub(super) takes: Demand,
}

/// The state of a task in a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TaskState {
    /// The number of its attempts that the scheduler counts as live.
    live: u32,
    done: bool,
    /// The part of it that the master holds, from attempts that have ended or are frozen.
    pub(super) part: f64,
}

impl Simulator {
    /// Runs one job.
    ///
    /// # Errors
    /// If the scheduler refuses the job.
    pub fn run(&mut self, world: &PreparedTrace, run: &Run<'_>) -> Result<RunOutcome, RunError> {
        self.run_watched(world, run, &mut ())
    }

    /// Does what [`Simulator::run`] does, with an [`Observer`] of every step.
    ///
    /// # Errors
    /// If the scheduler refuses the job.
    pub fn run_watched<O: Observer>(
        &mut self,
        world: &PreparedTrace,
        run: &Run<'_>,
        observer: &mut O,
    ) -> Result<RunOutcome, RunError> {
        let mut live = RunState::new(self, world, run, observer);
        live.begin();
        live.submit();
        live.go_on();
        live.end()
    }

    /// Lets a scheduler that starts with the experience `before` watch the hosts without a job,
    /// from `from_s` to `to_s` in seconds since the trace's start, and returns its experience.
    pub fn watch(
        &mut self,
        world: &PreparedTrace,
        from_s: f64,
        to_s: f64,
        before: Option<&Experience>,
    ) -> Experience {
        let run = Run {
            watch: true,
            experience: before,
            horizon_s: Some(to_s),
            ..Run::new(from_s, 0, 1.0, "")
        };
        let mut nobody = ();
        let mut live = RunState::new(self, world, &run, &mut nobody);
        live.begin();
        live.go_on();

        live.kernel.scheduler.experience()
    }

    /// Runs one job, and records every event that the scheduler was given.
    ///
    /// # Errors
    /// If the scheduler refuses the job.
    pub fn record(
        &mut self,
        world: &PreparedTrace,
        run: &Run<'_>,
    ) -> Result<(RunOutcome, Recording), RunError> {
        let mut record = Recording {
            settings: run.settings(),
            incarnation: Incarnation(1),
            events: Vec::new(),
        };
        let outcome = self.run_watched(world, run, &mut record)?;
        Ok((outcome, record))
    }

    /// Clears the state of the last run and numbers the hosts.
    fn reset(&mut self, world: &PreparedTrace, run: &Run<'_>, start: Time) {
        self.attempts.clear();
        self.free.clear();
        self.jobs.clear();
        self.tasks.clear();
        self.unended.clear();
        self.hosts.resize(world.courses.len(), Host::IDLE);
        for (host, course) in self.hosts.iter_mut().zip(&world.courses) {
            host.reset(course, start);
        }

        self.numbers = numbers(world.courses.len(), run.shuffle);

        self.places.resize(world.courses.len() + 1, 0);
        for (place, number) in (0..).zip(&self.numbers) {
            self.places[*number as usize] = place;
        }
    }

    /// The job of an attempt.
    pub(super) fn job(&self, attempt: AttemptId) -> &JobState {
        &self.jobs[attempt.task.job.0 as usize - 1]
    }

    /// The task with this id.
    pub(super) fn task_of(&self, id: TaskId) -> &TaskState {
        &self.tasks[self.task_at(id)]
    }

    /// The task with this id, for changes.
    pub(super) fn task(&mut self, id: TaskId) -> &mut TaskState {
        let at = self.task_at(id);
        &mut self.tasks[at]
    }

    fn task_at(&self, TaskId { job, index }: TaskId) -> usize {
        let job = &self.jobs[job.0 as usize - 1];
        (job.place + index - job.first_index) as usize
    }
}

/// Returns the number of each host, in the trace's order: from 1 on, or shuffled with `seed`
/// ([`Run::shuffle`]), whose stream is used for nothing else.
pub fn numbers(hosts: usize, seed: Option<u64>) -> Vec<u32> {
    let mut numbers: Vec<u32> = (1..=hosts as u32).collect();
    let Some(seed) = seed else { return numbers };

    let mut stream = ChaCha8Rng::seed_from_u64(seed ^ 0x686f_7374_6f72_6465);
    for last in (1..numbers.len()).rev() {
        let other = (u128::from(stream.next_u64()) * (last as u128 + 1)) >> 64;
        numbers.swap(last, other as usize);
    }
    numbers
}

/// The state of a run in progress.
pub(super) struct RunState<'a, 'r, O> {
    pub(super) kernel: Kernel<'a, Packed, O>,
    pub(super) world: &'a PreparedTrace,
    pub(super) run: &'a Run<'r>,
    pub(super) sim: &'a mut Simulator,
    pub(super) start: Time,
    /// The index of the next change in `PreparedTrace::changes`.
    change: usize,
    /// The index of the next request in `Run::asks`.
    ask: usize,
    /// The number of jobs that are not settled.
    open: usize,
    pub(super) tells_phases: bool,
    pub(super) outcome: RunOutcome,
    settled: bool,
    refused: Option<Refused>,
    /// Whether a task was settled in this step.
    news: bool,
}

impl<'a, 'r, O: Observer> RunState<'a, 'r, O> {
    fn new(
        sim: &'a mut Simulator,
        world: &'a PreparedTrace,
        run: &'a Run<'r>,
        observer: &'a mut O,
    ) -> Self {
        let start = Time::from_secs_f64(run.start_s);
        let horizon = run.horizon_s.map_or(world.end(), Time::from_secs_f64);
        let horizon = horizon.min(world.end());
        sim.reset(world, run, start);
        RunState {
            kernel: Kernel::new(run.settings(), start, horizon, observer),
            world,
            run,
            sim,
            start,
            change: world.changes.partition_point(|change| change.at <= start),
            ask: 0,
            open: 0,
            tells_phases: run.tells_phases(),
            outcome: RunOutcome {
                completions_s: Vec::with_capacity(run.tasks as usize),
                ..RunOutcome::default()
            },
            settled: false,
            refused: None,
            news: false,
        }
    }

    /// Tells the scheduler its experience, all hosts, and which of them are up.
    fn begin(&mut self) {
        if let Some(experience) = self.run.experience {
            self.step(Event::Learned(Box::new(experience.clone())));
        }

        for number in 1..=self.world.courses.len() as u32 {
            let place = self.sim.places[number as usize] as usize;
            let record = self
                .run
                .records
                .and_then(|records| records.get(place))
                .copied()
                .flatten();

            let course = &self.world.courses[place];
            let habit = if self.run.experience.is_some() {
                course.habit(self.start)
            } else {
                Habit::default()
            };

            self.step(Event::HostKnown {
                host: HostId(number),
                speed: course.speed,
                record,
                habit,
            });

            if let Some(offers) = self.run.offers_at(place) {
                self.step(Event::HostOffers {
                    host: HostId(number),
                    offers: Box::new(offers),
                });
            }
        }

        for number in 1..=self.world.courses.len() as u32 {
            let place = self.sim.places[number as usize] as usize;
            if self.stretch(place).up {
                self.join(place);
            }
        }
    }

    fn submit(&mut self) {
        self.bring(&self.run.job());
        self.foretell(0);
    }

    /// Submits a job to the scheduler and makes room for its tasks.
    fn bring(&mut self, job: &RunJob<'_>) {
        self.sim.jobs.push(JobState {
            place: self.sim.tasks.len() as u32,
            first_index: job.first_index(),
            work_s: job.task_work_s(1),
            checkpoint: job.checkpoint,
            ranks: job.ranks.is_some(),
            takes: job.needs.map_or(Demand::PLAIN, |needs| needs.takes),
        });

        let tasks = self.sim.tasks.len() + job.most_tasks(self.world.courses.len());
        self.sim.tasks.resize(tasks, TaskState::default());
        self.outcome.settled_s.push(None);
        self.open += 1;

        self.step(Event::JobSubmitted {
            job: JobId(self.sim.jobs.len() as u32),
            bag: Box::new(job.bag()),
            tested: None,
        });
    }

    /// The job with this id as it was submitted.
    fn asked_job(&self, id: JobId) -> Option<RunJob<'r>> {
        let later = self.run.asks.iter().filter_map(|ask| match ask.what {
            ask::UserRequestKind::Submit(job) => Some(job),
            _ => None,
        });
        std::iter::once(self.run.job())
            .chain(later)
            .nth(id.0 as usize - 1)
    }

    /// Carries out a request of a user.
    fn on_ask(&mut self, what: &ask::UserRequestKind<'r>) {
        match what {
            ask::UserRequestKind::Submit(job) => self.bring(job),
            ask::UserRequestKind::Request(job, tasks) => {
                self.step(Event::TasksRequested {
                    job: JobId(*job),
                    tasks: tasks.clone(),
                });
            }
            ask::UserRequestKind::Drop(job) => {
                self.step(Event::UnrequestedCancelled { job: JobId(*job) });
            }
        }
        self.settled = self.is_settled();
    }

    fn is_settled(&self) -> bool {
        self.open == 0 && self.ask == self.run.asks.len() && !self.sim.jobs.is_empty()
    }

    /// Stores a prediction of the makespan in `RunOutcome::foretold`, if the run asks for it.
    fn foretell(&mut self, at: usize) {
        if !self.run.foretell {
            return;
        }
        let s = |time: Time| time.since(self.start).secs();
        let found = self.kernel.scheduler.predict(JOB, self.kernel.now);
        self.outcome.foretold[at] = found.map(|found| MakespanPrediction {
            at_s: s(self.kernel.now),
            makespan_s: s(found.finish),
            low_s: s(found.low),
            high_s: s(found.high),
        });
    }

    /// The time of the next change of a host.
    fn next_change(&self) -> Time {
        let change = self.world.changes.get(self.change);
        change.map_or(NEVER, |change| change.at)
    }

    /// The time of the next request of a user.
    fn next_ask(&self) -> Time {
        let ask = self.run.asks.get(self.ask);
        ask.map_or(NEVER, |ask| {
            Time::from_secs_f64(ask.at_s).max(self.kernel.now)
        })
    }

    fn on_change(&mut self, change: Change) {
        let place = change.host as usize;
        let host = &mut self.sim.hosts[place];
        host.stretch = change.stretch;
        match (change.was_up, change.up) {
            (true, false) => self.on_down(place),
            (false, true) => {
                host.missed_at = NEVER;
                self.join(place);
            }
            (true, true) => self.on_turned(place, change.ready),
            (false, false) => {}
        }
    }

    /// Takes a host down. If it has attempts, the scheduler notices at its next heartbeat, which is
    /// missing; an idle host says goodbye at once.
    fn on_down(&mut self, place: usize) {
        let host = &mut self.sim.hosts[place];
        host.beat_at = NEVER;
        if host.held.is_empty() {
            self.step(Event::HostLeft {
                host: self.id(place),
            });
            return;
        }

        let at = host.next_beat(self.kernel.now);
        host.missed_at = at;

        let mut held = std::mem::take(&mut host.held);
        for attempt in held.drain(..) {
            self.finish(attempt, AttemptFate::Lost);
        }

        self.sim.hosts[place].held = held;
        self.plan(at, WorldEvent::Missed(place as u32));
    }

    /// Handles an owner who comes, goes, or leaves another share of the processor, on a host that
    /// is up. Attempts that have begun stay suspended for as long as the owner does: the paper's
    /// model gives nothing back, as a live worker does after `evict_after`.
    fn on_turned(&mut self, place: usize, ready: bool) {
        if !ready {
            self.give_back(place);
        }

        let host = &mut self.sim.hosts[place];
        let owner_changed = host.told.0 != ready;
        if !host.held.is_empty() {
            if owner_changed || self.reports(place) {
                self.plan_beat(place);
            }
        } else if self.run.watch {
            self.hear(place, Vec::new());
        } else if owner_changed {
            host.told.0 = ready;
            self.step(Event::OwnerChanged {
                host: self.id(place),
                owner: owner(ready),
            });
        }
    }

    /// Delivers a heartbeat: the host reports its status and its attempts, and ends those that the
    /// scheduler has stopped.
    fn on_beat(&mut self, place: usize) {
        self.sim.hosts[place].beat_at = NEVER;
        let mut held = std::mem::take(&mut self.sim.hosts[place].held);
        held.retain(|attempt| {
            let stopped = self.sim.attempts[*attempt as usize].stopped;
            if stopped {
                self.finish(*attempt, AttemptFate::Stopped);
            }
            !stopped
        });

        let stretch = self.stretch(place);
        let said = held
            .iter()
            .map(|at| self.sim.attempts[*at as usize].held(&stretch, self.kernel.now))
            .collect();
        self.sim.hosts[place].held = held;
        self.pace(place);
        self.hear(place, said);
        if self.run.every_heartbeat && !self.sim.hosts[place].held.is_empty() {
            self.plan_beat(place);
        }
    }

    /// Ends an attempt that has done its work, and delivers its result.
    fn on_done(&mut self, number: u32, at: Time) {
        let attempt = &self.sim.attempts[number as usize];
        if attempt.end.is_some() || attempt.done_at != at {
            return;
        }

        let id = attempt.id;
        let place = attempt.host as usize;
        let stretch = self.stretch(place);
        let ran = attempt.ran(&stretch, self.kernel.now);
        let late = self.sim.task(id.task).done;
        self.finish(
            number,
            if late {
                AttemptFate::Late
            } else {
                AttemptFate::Delivered
            },
        );

        let host = &mut self.sim.hosts[place];
        host.held.retain(|held| *held != number);
        if host.held.is_empty() && host.beat_at != NEVER && host.has_news(&stretch) {
            // The result takes the place of the heartbeat, so it also brings the heartbeat's news.
            let done = HeldAttempt {
                attempt: id,
                phase: Phase::Ended,
                ran,
                frozen_for: Span::ZERO,
                progress: Some(1.0),
            };
            self.hear(place, vec![done]);
        }

        self.on_fewer(place);
        self.step(Event::AttemptEnded {
            host: self.id(place),
            attempt: id,
            outcome: Outcome::Succeeded,
            ran,
        });
    }

    /// Stores an attempt in `Simulator::attempts` and returns its index.
    fn keep(&mut self, attempt: Attempt) -> u32 {
        let number = if let Some(number) = self.sim.free.pop() {
            self.sim.attempts[number as usize] = attempt;
            number
        } else {
            self.sim.attempts.push(attempt);
            self.sim.attempts.len() as u32 - 1
        };

        self.note_begun(number);
        number
    }

    /// Adds an attempt to a host that is up, and plans the host's heartbeats.
    fn hold(&mut self, place: usize, number: u32) {
        let now = self.kernel.now;
        let stretch = self.stretch(place);
        let host = &mut self.sim.hosts[place];

        if host.held.is_empty() {
            host.busy_since = now;
            host.beat_at = NEVER;
        }

        host.held.push(number);
        let news = host.has_news(&stretch);
        self.pace(place);
        if self.run.every_heartbeat || news && self.reports(place) {
            self.plan_beat(place);
        }
    }

    /// Marks an attempt as stopped by the scheduler. Its host learns of it with its next heartbeat.
    fn stop(&mut self, host: HostId, id: AttemptId) {
        if let Some((place, number)) = self.held_at(host, id) {
            self.sim.attempts[number as usize].stopped = true;
            self.plan_beat(place);
        }
    }

    /// The index of the host and of the attempt, if the host holds the attempt.
    pub(super) fn held_at(&self, host: HostId, id: AttemptId) -> Option<(usize, u32)> {
        let place = self.sim.places[host.0 as usize] as usize;
        let mut held = self.sim.hosts[place].held.iter().copied();
        held.find(|at| self.sim.attempts[*at as usize].id == id)
            .map(|number| (place, number))
    }

    /// Ends an attempt on its host: counts its processor time, and keeps the part that was shipped.
    pub(super) fn finish(&mut self, number: u32, fate: AttemptFate) {
        let now = self.kernel.now;
        let attempt = &self.sim.attempts[number as usize];
        let place = attempt.host as usize;
        let cpu_s = attempt.cpu_s(&self.stretch_at(place, now), now);
        let id = attempt.id;
        let pace = attempt.pace;

        self.keep_part(number, fate);
        if let ComputeState::Still(since) = pace {
            self.stood_still(id, place, since);
        }

        self.outcome.cpu_s += cpu_s;
        if fate != AttemptFate::Delivered {
            self.outcome.wasted_cpu_s += cpu_s;
        }

        self.sim.attempts[number as usize].end = Some((fate, now));
        // The slot in the list is not reused if the attempt appears in the story, or if a planned
        // `UserRequestKind::Moved` may still name it.
        if !self.run.story && !self.tells_phases {
            self.sim.free.push(number);
        }
    }

    /// Brings a host up, without any attempts from before.
    fn join(&mut self, place: usize) {
        let stretch = self.stretch(place);
        self.sim.hosts[place].told = (stretch.ready(), stretch.cpu);
        self.step(Event::HostJoined {
            host: self.id(place),
            slots: self.run.slots_at(place),
            speed: self.sim.hosts[place].speed,
            status: stretch.status(self.kernel.now),
            held: Vec::new(),
        });
    }

    /// Reports the host's status and attempts to the scheduler.
    fn hear(&mut self, place: usize, held: Vec<HeldAttempt>) {
        let stretch = self.stretch(place);
        self.sim.hosts[place].told = (stretch.ready(), stretch.cpu);
        self.step(Event::HostHeard {
            host: self.id(place),
            status: stretch.status(self.kernel.now),
            held,
        });
    }

    /// Adapts the host's heartbeats after the number of attempts in `held` has fallen.
    pub(super) fn on_fewer(&mut self, place: usize) {
        if self.sim.hosts[place].held.is_empty() {
            self.sim.hosts[place].beat_at = NEVER;
        }
        self.pace(place);
    }

    /// Plans the host's next heartbeat, unless one is planned that is as soon.
    fn plan_beat(&mut self, place: usize) {
        let host = &mut self.sim.hosts[place];
        let at = host.next_beat(self.kernel.now);
        if at < host.beat_at {
            host.beat_at = at;
            self.plan(at, WorldEvent::Beat(place as u32));
        }
    }

    pub(super) fn plan(&mut self, at: Time, what: WorldEvent) {
        if at <= self.kernel.horizon {
            self.kernel.plan(at, what);
        }
    }

    /// Sets the host's heartbeat interval to the shortest that its attempts ask for.
    fn pace(&mut self, place: usize) {
        let host = &mut self.sim.hosts[place];
        let wanted = host
            .held
            .iter()
            .filter_map(|at| self.sim.attempts[*at as usize].report_every);
        host.every = wanted.fold(self.run.heartbeat, Span::min);
    }

    /// Whether the scheduler wants progress reports of an attempt on this host.
    fn reports(&self, place: usize) -> bool {
        self.sim.hosts[place]
            .held
            .iter()
            .any(|at| self.sim.attempts[*at as usize].report_every.is_some())
    }

    pub(super) fn stretch(&self, place: usize) -> SteadyInterval {
        let host = &self.sim.hosts[place];
        match host.near {
            Some((number, stretch)) if number == host.stretch => stretch,
            _ => self.world.courses[place].stretches[host.stretch as usize],
        }
    }

    /// The stretch of a host at `at`, which is not before now.
    fn stretch_at(&self, place: usize, at: Time) -> SteadyInterval {
        let stretch = self.stretch(place);
        if at < stretch.end {
            return stretch;
        }
        *self.world.courses[place].at_after(self.sim.hosts[place].stretch as usize, at)
    }

    /// The time at which a task that begins to compute at `from` has had `cpu_s` processor seconds;
    /// `None` if its host goes down before.
    pub(super) fn computed(&self, place: usize, from: Time, cpu_s: f64) -> Option<Time> {
        let stretch = self.stretch(place);
        let here = (from < stretch.end)
            .then(|| stretch.reaches(stretch.cpu_s(from) + cpu_s, from))
            .flatten();
        here.or_else(|| {
            self.world.courses[place].finish(self.sim.hosts[place].stretch as usize, from, cpu_s)
        })
    }

    pub(super) fn id(&self, place: usize) -> HostId {
        HostId(self.sim.numbers[place])
    }

    /// Ends the attempts that still run, and returns the outcome.
    fn end(mut self) -> Result<RunOutcome, RunError> {
        if let Some(why) = self.refused {
            return Err(RunError::Refused(why));
        }

        let over = self.kernel.now;
        for number in 0..self.sim.attempts.len() {
            let attempt = self.sim.attempts[number];
            if attempt.end.is_some() {
                continue;
            }

            let host = &self.sim.hosts[attempt.host as usize];
            let down_at = self.stretch(attempt.host as usize).down_at;
            let until = host.next_beat(over).min(down_at).min(attempt.done_at);
            self.kernel.now = if self.settled { until } else { over };
            self.finish(
                number as u32,
                if self.settled {
                    AttemptFate::Stopped
                } else {
                    AttemptFate::Unended
                },
            );
        }

        self.outcome.makespan_s = self.settled.then(|| over.since(self.start).secs());
        if self.run.learn {
            self.outcome.learned = Some(Box::new(self.kernel.scheduler.experience()));
        }

        if self.run.story {
            self.outcome
                .still
                .sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
            self.outcome.story = self
                .sim
                .attempts
                .iter()
                .map(|attempt| self.tell(attempt))
                .collect();
        }

        Ok(self.outcome)
    }

    fn tell(&self, attempt: &Attempt) -> AttemptStory {
        let (fate, ended) = attempt
            .end
            .unwrap_or((AttemptFate::Unended, self.kernel.now));
        AttemptStory {
            job: attempt.id.task.job.0,
            task: attempt.id.task.index,
            number: attempt.id.number,
            host: attempt.host,
            began_s: attempt.began.min(ended).since(self.start).secs(),
            computed_s: (attempt.from <= ended).then(|| attempt.from.since(self.start).secs()),
            ended_s: ended.since(self.start).secs(),
            fate,
            replica: attempt.replica,
        }
    }
}

impl<'a, O: Observer> kernel::World<'a, Packed, O> for RunState<'a, '_, O> {
    /// So that no policy can stop the world's clock.
    const LEAST_TICK: Option<Span> = Some(Span::from_millis(1));

    fn kernel(&mut self) -> &mut Kernel<'a, Packed, O> {
        &mut self.kernel
    }

    fn is_over(&mut self) -> bool {
        self.settled || self.refused.is_some()
    }

    fn known(&self) -> Time {
        self.next_change().min(self.next_ask())
    }

    fn on_known(&mut self) {
        if self.next_change() <= self.next_ask() {
            let change = self.world.changes[self.change];
            self.change += 1;
            self.on_change(change);
        } else {
            let ask = &self.run.asks[self.ask];
            self.ask += 1;
            self.on_ask(&ask.what);
        }
    }

    fn on_due(&mut self, at: Time, due: WorldEvent) {
        match due {
            WorldEvent::Done(attempt) => self.on_done(attempt, at),
            WorldEvent::Moved(attempt) => self.on_moved(attempt),
            WorldEvent::Beat(place) if self.sim.hosts[place as usize].beat_at == at => {
                self.on_beat(place as usize);
            }
            WorldEvent::Missed(place) if self.sim.hosts[place as usize].missed_at == at => {
                self.sim.hosts[place as usize].missed_at = NEVER;
                self.step(Event::HostLeft {
                    host: self.id(place as usize),
                });
            }
            WorldEvent::Beat(_) | WorldEvent::Missed(_) => {}
        }
    }

    /// Gives an attempt to a host, which begins with it at once. The trace determines whether and
    /// when it will be done.
    fn on_start(&mut self, start: Given) {
        let id = start.attempt;
        let place = self.sim.places[start.host.0 as usize] as usize;
        let stretch = self.stretch(place);
        let host = &mut self.sim.hosts[place];
        host.near = Some((host.stretch, stretch));

        let speed = host.speed;
        let part = self.safe_part(id);
        let JobState {
            work_s,
            checkpoint,
            ranks,
            takes,
            ..
        } = *self.sim.job(id);

        let known = self.sim.task(id.task);
        let replica = known.live > 0;
        known.live += 1;
        self.outcome.launches += 1;
        self.outcome.replicas += u32::from(replica);

        let began = self.room_at(place, takes);
        let from = began + self.run.start_cost;
        let at_from = self.stretch_at(place, from);
        let effort = if checkpoint {
            1.0 - CHECKPOINT_COST
        } else {
            1.0
        };
        let part_per_s = speed.factor() * effort / work_s;
        let fits = !ranks && stretch.up && from < stretch.down_at;
        let done_at = fits
            .then(|| self.computed(place, from, (1.0 - part) / part_per_s))
            .flatten();

        let number = self.keep(Attempt {
            id,
            host: place as u32,
            began,
            from: if ranks { NEVER } else { from },
            from_cpu_s: at_from.cpu_s(from),
            from_ran: at_from.ran(from),
            part,
            part_per_s,
            done_at: done_at.unwrap_or(NEVER),
            report_every: start.report_every,
            replica,
            pace: if ranks {
                ComputeState::Waits(from)
            } else {
                ComputeState::Free
            },
            stopped: false,
            end: None,
        });
        if !stretch.up {
            self.finish(number, AttemptFate::Lost);
            return;
        }

        self.hold(place, number);
        if let Some(at) = done_at {
            self.plan(at, WorldEvent::Done(number));
        }

        if self.tells_phases {
            // A rank that arrives while the owner is there is given back at once.
            self.plan(
                if ranks && !stretch.ready() {
                    self.kernel.now
                } else {
                    from
                },
                WorldEvent::Moved(number),
            );
        }
    }

    fn on_stop(&mut self, host: HostId, attempt: AttemptId, _why: &EndReason) {
        self.stop(host, attempt);
    }

    fn on_abandoned(&mut self, host: HostId, attempts: &[AttemptId]) {
        for attempt in attempts {
            self.stop(host, *attempt);
        }
    }

    fn on_freeze(&mut self, host: HostId, attempt: AttemptId) {
        self.freeze(host, attempt);
    }

    fn on_thaw(&mut self, host: HostId, attempt: AttemptId) {
        self.thaw(host, attempt);
    }

    fn on_begin(&mut self, host: HostId, attempt: AttemptId) {
        self.begin_rank(host, attempt);
    }

    fn on_formed(&mut self, job: JobId, ranks: u32) {
        let work_s = self.asked_job(job).map(|job| job.task_work_s(ranks));
        let bag = &mut self.sim.jobs[job.0 as usize - 1];
        bag.work_s = work_s.unwrap_or(bag.work_s);
    }

    fn on_ended(&mut self, attempt: AttemptId, _why: &EndReason) {
        let live = &mut self.sim.task(attempt.task).live;
        *live = live.saturating_sub(1);
    }

    fn on_task_settled(&mut self, task: TaskId, settled: &Settled) {
        self.news = self.run.foretell;
        if let Settled::Finished(_) = settled {
            self.sim.task(task).done = true;
            let after = self.kernel.now.since(self.start);
            self.outcome.completions_s.push(after.secs());
        }
    }

    fn on_job_settled(&mut self, job: JobId) {
        let after = self.kernel.now.since(self.start);
        self.outcome.settled_s[job.0 as usize - 1] = Some(after.secs());
        self.open -= 1;
        self.settled = self.is_settled();
    }

    fn on_refused(&mut self, _job: JobId, why: &Refused) {
        self.refused = Some(why.clone());
    }

    fn on_stepped(&mut self) {
        if !std::mem::take(&mut self.news) {
            return;
        }

        let done = self.outcome.completions_s.len();
        let tasks = self.run.tasks as usize;
        let passed = |of: usize| done == (tasks * of).div_ceil(10);
        [(1, 5), (2, 9)]
            .into_iter()
            .filter(|(_, of)| passed(*of))
            .for_each(|(at, _)| self.foretell(at));
    }
}
