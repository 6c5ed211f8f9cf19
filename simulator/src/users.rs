//! A simulated world of users who disclose sets of tasks, request one task after the other, think
//! about each result, and drop the rest of a set when they have seen enough (Petrou et al. 2004,
//! section 2). Servers are equal and always there. The fate of a preempted task depends on
//! [`Servers`]: it keeps the work it has done and goes on anywhere, as in the paper; or it is
//! frozen and goes on where it was; or it begins anew. The world drives the scheduler through its
//! doors and obeys its effects; it contains no rule of scheduling. The users' behaviour is defined
//! in `plan`.
//!
//! All users come at once. Later, at one instant, servers finish tasks first, in the order of their
//! numbers, then users act, in the order of theirs; the scheduler decides after each of them.

mod plan;

use std::collections::BTreeMap;

use common::attempt::Outcome;
use common::job::Rules;
use common::needs::Offers;
use common::{AttemptId, HostId, IdSet, JobId, Span, Speed, Time};
use scheduler::Event;
use scheduler::billing::LedgerEntry;
use scheduler::effect::EndReason;
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::policy::Ordering;
use scheduler::policy::ordering::Disclosed;

use crate::kernel::{self, Given, Kernel, Observer, World as _, dedicated, without_heartbeats};
pub use plan::{Random, Script, StudyPoint, UserPlan};

/// The place of a task: its user, its set, and its place there, each counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Which {
    /// The user who disclosed it.
    pub user: usize,
    /// The number of the set among the user's sets.
    pub set: usize,
    /// The place of the task in the set.
    pub task: usize,
}

/// The servers on which the users' tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Servers {
    /// The number of servers.
    pub count: usize,
    /// The number of frozen tasks that each server can hold beside the running one (default 0).
    pub frozen: u32,
    /// Whether a preempted task that is not frozen keeps the work it has done (default yes, as in
    /// the paper).
    pub keep: bool,
}

impl From<usize> for Servers {
    fn from(count: usize) -> Self {
        Self {
            count,
            frozen: 0,
            keep: true,
        }
    }
}

/// The events of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEvent {
    /// The user disclosed the task.
    Disclosed,
    /// The user requested the task and waits for its result.
    Requested,
    /// The task started to run, or went on.
    Started,
    /// The task was preempted.
    Preempted,
    /// The task has done its work.
    Executed,
    /// The user has the task's result.
    Finished,
    /// The user dropped the task.
    Cancelled,
}

/// The history of a task, up to the time when its user was through with its set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskFate {
    /// The run time of the task.
    pub takes: Span,
    /// The time for which all its attempts ran.
    pub used: Span,
    /// The time at which it was requested.
    pub requested: Option<Time>,
    /// The time at which it was executed.
    pub executed: Option<Time>,
}

impl TaskFate {
    /// Converts it to an [`LedgerEntry`] of the ledger.
    pub fn entry(&self) -> LedgerEntry {
        LedgerEntry {
            used: self.used,
            service: self.takes,
            requested: self.requested,
            executed: self.executed,
        }
    }
}

/// The receiver of the events of a `run`.
pub trait Audience {
    /// Hears that `_what` happened to a task.
    fn happened(&mut self, _at: Time, _what: TaskEvent, _which: Which) {}
    /// Hears that a user has the result of a task.
    fn finished(&mut self, _at: Time, _which: Which, _fate: &TaskFate) {}
    /// Hears that a server was busy with one task from `_from` to `_to`.
    fn ran(&mut self, _from: Time, _to: Time) {}
    /// Hears that a user is through with a set; `_fates` are those of its tasks.
    fn through(&mut self, _at: Time, _user: usize, _set: usize, _fates: &[TaskFate]) {}
}

/// The attempt that runs on a server, since `since` and until `until` at the latest.
#[derive(Debug, Clone, Copy)]
struct ServerAttempt {
    attempt: AttemptId,
    since: Time,
    until: Time,
    before: Had,
}

/// The progress of an attempt.
#[derive(Debug, Clone, Copy, Default)]
struct Had {
    /// The time for which it has run.
    ran: Span,
    /// The work of its task that is done, including the work that earlier attempts kept.
    done: Span,
}

impl Had {
    fn and(self, ran: Span) -> Self {
        Self {
            ran: self.ran + ran,
            done: self.done + ran,
        }
    }
}

/// A set of tasks that a user has disclosed; a job of the scheduler.
struct Set {
    user: usize,
    number: usize,
    fates: Vec<TaskFate>,
    /// The work of each task that is done and kept.
    done: Vec<Span>,
}

impl Set {
    /// The place of an attempt's task, which is one of these.
    fn which(&self, attempt: AttemptId) -> Which {
        Which {
            user: self.user,
            set: self.number,
            task: place(attempt),
        }
    }
}

#[derive(Default)]
struct User {
    set: usize,
    /// The task that was requested last.
    task: usize,
    /// The time at which the user has thought enough, if the user is thinking.
    wakes: Option<Time>,
}

/// The planned events, in their order at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UserEvent {
    /// The task on this server is done.
    Done(usize),
    /// This user has thought enough.
    Wakes(usize),
}

struct UserWorld<'a, P, A, O> {
    kernel: Kernel<'a, (Time, UserEvent), O>,
    plan: &'a P,
    audience: &'a mut A,
    policy: &'a str,
    /// Whether users do not disclose what they have not requested: the policy holds disclosed
    /// tasks.
    secretive: bool,
    users: Vec<User>,
    sets: BTreeMap<JobId, Set>,
    kind: Servers,
    servers: Vec<Option<ServerAttempt>>,
    /// The frozen attempts with their progress.
    frozen: BTreeMap<AttemptId, Had>,
    /// The events of the next step.
    events: Vec<Event>,
    /// The attempts that were preempted, and those that started or went on, in this step.
    stopped: Vec<AttemptId>,
    started: Vec<AttemptId>,
    /// The sets that their users finished in this step.
    through: Vec<JobId>,
}

/// Lets the users of `plan` work on `servers` until `until`, or until all of them have stopped.
pub fn run<P: UserPlan, A: Audience>(
    plan: &P,
    policy: &str,
    servers: impl Into<Servers>,
    until: Time,
    audience: &mut A,
) {
    run_watched(plan, policy, servers, until, audience, &mut ());
}

/// Does what [`run`] does, with an [`Observer`] of every step.
pub fn run_watched<P: UserPlan, A: Audience, O: Observer>(
    plan: &P,
    policy: &str,
    servers: impl Into<Servers>,
    until: Time,
    audience: &mut A,
    observer: &mut O,
) {
    let kind = servers.into();
    let ordering = scheduler::policy::policy(policy).map(|policy| policy.ordering);
    let mut world = UserWorld {
        kernel: Kernel::new(without_heartbeats(), Time(0), until, observer),
        plan,
        audience,
        policy,
        secretive: matches!(ordering, Some(Ordering::Batchactive(answer)) if answer.disclosed == Disclosed::Held),
        users: (0..plan.users()).map(|_| User::default()).collect(),
        sets: BTreeMap::new(),
        kind,
        servers: vec![None; kind.count],
        frozen: BTreeMap::new(),
        events: Vec::new(),
        stopped: Vec::new(),
        started: Vec::new(),
        through: Vec::new(),
    };

    for number in 1..=kind.count {
        let host = HostId(number as u32);
        if kind.frozen > 0 {
            let offers = Offers {
                frozen: kind.frozen,
                ..Offers::default()
            };
            world.events.push(Event::HostOffers {
                host,
                offers: Box::new(offers),
            });
        }

        world.events.push(dedicated(host, Speed::REFERENCE));
    }

    world.begin();
    world.go_on();
}

impl<P: UserPlan, A: Audience, O: Observer> UserWorld<'_, P, A, O> {
    /// Lets every user disclose a first set.
    fn begin(&mut self) {
        for user in 0..self.users.len() {
            self.bring(user, 0);
        }
        self.submit();
    }

    fn job(&self, user: usize, set: usize) -> JobId {
        JobId((set * self.users.len() + user + 1) as u32)
    }

    fn happened(&mut self, what: TaskEvent, which: Which) {
        self.audience.happened(self.kernel.now, what, which);
    }

    /// Reports an event of tasks that were not requested, unless the users are secretive.
    fn all_happened(
        &mut self,
        what: TaskEvent,
        user: usize,
        set: usize,
        tasks: std::ops::Range<usize>,
    ) {
        if !self.secretive {
            tasks.for_each(|task| self.happened(what, Which { user, set, task }));
        }
    }

    /// Ends a task that has done its work, and delivers its result if it was requested.
    fn execute(&mut self, server: usize, running: ServerAttempt) {
        let ServerAttempt { attempt, since, .. } = running;
        let now = self.kernel.now;
        let spent = now.since(since);

        self.audience.ran(since, now);
        self.events.push(Event::AttemptEnded {
            host: HostId(server as u32 + 1),
            attempt,
            outcome: Outcome::Succeeded,
            ran: running.before.ran + spent,
        });

        let Some(set) = self.sets.get_mut(&attempt.task.job) else {
            return;
        };
        let which = set.which(attempt);
        let fate = &mut set.fates[which.task];
        fate.used = fate.used + spent;

        fate.executed = Some(now);
        let wanted = fate.requested.is_some();
        self.happened(TaskEvent::Executed, which);
        if wanted {
            self.deliver(which);
        }
    }

    /// Delivers a result to the user, who begins to think.
    fn deliver(&mut self, which: Which) {
        let Which { user, set, task } = which;
        self.happened(TaskEvent::Finished, which);
        if let Some(set) = self.sets.get(&self.job(user, set)) {
            self.audience
                .finished(self.kernel.now, which, &set.fates[task]);
        }

        let wakes = self.kernel.now + self.plan.thinks(which);
        self.users[user].wakes = Some(wakes);
        self.kernel.plan(wakes, UserEvent::Wakes(user));
    }

    /// Ends a user's thinking: requests the next task, or drops the rest and goes on with another
    /// set.
    fn wake(&mut self, user: usize) {
        let User { set, task, .. } = self.users[user];
        self.users[user].wakes = None;

        let job = self.job(user, set);
        let tasks = self.sets.get(&job).map_or(0, |set| set.fates.len());
        let last = task + 1 >= tasks;
        if !last && !self.plan.drops(Which { user, set, task }) {
            let task = task + 1;
            return self.request(Which { user, set, task });
        }

        if !last {
            self.events.push(Event::UnrequestedCancelled { job });
            self.all_happened(TaskEvent::Cancelled, user, set, task + 1..tasks);
        }

        self.events.push(Event::JobForgotten { job });
        self.through.push(job);
        self.bring(user, set + 1);
    }

    /// Discloses the user's next set, if there is another one, and requests its first task.
    fn bring(&mut self, user: usize, set: usize) {
        let Some(tasks) = self.plan.tasks(user, set) else {
            return;
        };
        let fate = |task| TaskFate {
            takes: self.plan.takes(Which { user, set, task }).max(Span(1)),
            ..TaskFate::default()
        };
        let fates: Vec<TaskFate> = (0..tasks).map(fate).collect();
        let terms = Terms {
            deadline: None,
            estimates: fates.iter().map(|fate| fate.takes).collect(),
            estimator: Estimator {
                user: format!("user {user}"),
                program: String::new(),
            },
        };

        let rules = Rules {
            policy: self.policy.to_owned(),
            checkpoint: self.kind.keep,
            ..Rules::default()
        };
        let bag = Bag {
            terms,
            disclosed: true,
            ..Bag::new(IdSet::from_range(1, tasks as u32), rules)
        };

        let job = self.job(user, set);
        self.events.push(Event::JobSubmitted {
            job,
            bag: Box::new(bag),
            tested: None,
        });
        self.sets.insert(
            job,
            Set {
                user,
                number: set,
                fates,
                done: vec![Span::ZERO; tasks],
            },
        );

        self.users[user].set = set;
        self.all_happened(TaskEvent::Disclosed, user, set, 1..tasks);
        self.request(Which { user, set, task: 0 });
    }

    fn request(&mut self, which: Which) {
        let Which { user, set, task } = which;
        let now = self.kernel.now;
        let job = self.job(user, set);
        self.users[user].task = task;
        self.happened(TaskEvent::Requested, which);
        self.events.push(Event::TasksRequested {
            job,
            tasks: Some(IdSet::from_range(task as u32 + 1, task as u32 + 1)),
        });

        let Some(set) = self.sets.get_mut(&job) else {
            return;
        };
        let fate = &mut set.fates[task];
        fate.requested = Some(now);
        if fate.executed.is_some() {
            self.deliver(which);
        }
    }

    /// Passes the events to the scheduler.
    fn submit(&mut self) {
        let events = std::mem::take(&mut self.events);
        self.step_all(events);
    }

    /// Runs an attempt from now on, with the progress `before`.
    fn go_on_with(&mut self, host: HostId, attempt: AttemptId, before: Had) {
        let Some(set) = self.sets.get(&attempt.task.job) else {
            return;
        };
        let takes = set.fates[place(attempt)].takes;
        let until = self.kernel.now + Span(takes.0 - before.done.0);
        let server = host.0 as usize - 1;
        self.servers[server] = Some(ServerAttempt {
            attempt,
            since: self.kernel.now,
            until,
            before,
        });
        self.kernel.plan(until, UserEvent::Done(server));
    }

    /// Takes an attempt off its server and returns its progress ([`Had`]).
    fn halt(&mut self, host: HostId, attempt: AttemptId) -> Option<Had> {
        let server = &mut self.servers[host.0 as usize - 1];
        let running = server.take_if(|running| running.attempt == attempt)?;
        let ran = self.kernel.now.since(running.since);
        self.audience.ran(running.since, self.kernel.now);
        if let Some(set) = self.sets.get_mut(&attempt.task.job) {
            let fate = &mut set.fates[place(attempt)];
            fate.used = fate.used + ran;
        }
        Some(running.before.and(ran))
    }

    /// Reports the started attempts as running, if servers can freeze: the scheduler freezes only
    /// attempts that it knows to run.
    fn report(&mut self, started: &[AttemptId]) {
        if self.kind.frozen == 0 || started.is_empty() {
            return;
        }

        for (number, running) in (1..).zip(&self.servers) {
            if let Some(now) = running.filter(|running| started.contains(&running.attempt)) {
                let moved = kernel::running(HostId(number), now.attempt, now.before.ran);
                self.events.push(moved);
            }
        }

        self.submit();
    }

    /// Reports the preempted and the started tasks. Leaves out tasks that go on elsewhere at once,
    /// and attempts that did not get to run.
    fn tell(&mut self, stopped: &[AttemptId], started: &[AttemptId]) {
        let runs: Vec<AttemptId> = self
            .servers
            .iter()
            .flatten()
            .map(|running| running.attempt)
            .collect();

        let ran_before = |attempt: &AttemptId| !started.contains(attempt);
        let left = stopped.iter().filter(|attempt| ran_before(attempt));
        let left: Vec<AttemptId> = left.copied().collect();
        let come: Vec<AttemptId> = started
            .iter()
            .filter(|attempt| runs.contains(attempt))
            .copied()
            .collect();
        let same = |of: &[AttemptId], attempt: &AttemptId| {
            of.iter().any(|other| other.task == attempt.task)
        };
        for attempt in left.iter().filter(|attempt| !same(&come, attempt)) {
            self.tell_of(TaskEvent::Preempted, *attempt);
        }

        for attempt in come.iter().filter(|attempt| !same(&left, attempt)) {
            self.tell_of(TaskEvent::Started, *attempt);
        }
    }

    fn tell_of(&mut self, what: TaskEvent, attempt: AttemptId) {
        if let Some(set) = self.sets.get(&attempt.task.job) {
            let which = set.which(attempt);
            self.happened(what, which);
        }
    }
}

/// The place of an attempt's task in its set.
fn place(attempt: AttemptId) -> usize {
    attempt.task.index as usize - 1
}

impl<'a, P: UserPlan, A: Audience, O: Observer> kernel::World<'a, (Time, UserEvent), O>
    for UserWorld<'a, P, A, O>
{
    const LEAST_TICK: Option<Span> = None;

    fn kernel(&mut self) -> &mut Kernel<'a, (Time, UserEvent), O> {
        &mut self.kernel
    }

    fn on_due(&mut self, at: Time, due: UserEvent) {
        match due {
            UserEvent::Done(server) => {
                let done = self.servers[server].take_if(|running| running.until == at);
                if let Some(running) = done {
                    self.execute(server, running);
                    self.submit();
                }
            }
            UserEvent::Wakes(user) => {
                if self.users[user].wakes == Some(at) {
                    self.wake(user);
                    self.submit();
                }
            }
        }
    }

    fn on_start(&mut self, Given { host, attempt, .. }: Given) {
        if let Some(set) = self.sets.get(&attempt.task.job) {
            let done = set.done[place(attempt)];
            let ran = Span::ZERO;
            self.go_on_with(host, attempt, Had { ran, done });
        }
        self.started.push(attempt);
    }

    fn on_stop(&mut self, host: HostId, attempt: AttemptId, why: &EndReason) {
        let frozen = self.frozen.remove(&attempt);
        let had = frozen.or_else(|| self.halt(host, attempt));
        let set = self.sets.get_mut(&attempt.task.job);
        if let Some(had) = had
            && let Some(set) = set.filter(|_| self.kind.keep)
        {
            let done = &mut set.done[place(attempt)];
            *done = (*done).max(had.done);
        }

        if matches!(why, EndReason::Preempted { .. }) {
            self.stopped.push(attempt);
        }
    }

    fn on_freeze(&mut self, host: HostId, attempt: AttemptId) {
        if let Some(had) = self.halt(host, attempt) {
            self.frozen.insert(attempt, had);
        }
        self.stopped.push(attempt);
    }

    fn on_thaw(&mut self, host: HostId, attempt: AttemptId) {
        let had = self.frozen.remove(&attempt).unwrap_or_default();
        self.go_on_with(host, attempt, had);
        self.started.push(attempt);
    }

    fn on_stepped(&mut self) {
        let stopped = std::mem::take(&mut self.stopped);
        let started = std::mem::take(&mut self.started);
        self.tell(&stopped, &started);
        self.report(&started);

        for job in std::mem::take(&mut self.through) {
            if let Some(set) = self.sets.remove(&job) {
                self.audience
                    .through(self.kernel.now, set.user, set.number, &set.fates);
            }
        }
    }
}
