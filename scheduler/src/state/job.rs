//! The books of the jobs: the place of each task, and the history of each tried one. Tasks that
//! were never tried, and settled ones, are only members of sets of ranges.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use common::attempt::{Outcome, Phase};
use common::job::Rules;
use common::needs::Demand;
use common::view::{JobState, TaskCounts, TaskState};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId, Time};

use smallvec::SmallVec;

use crate::collections::dense::Dense;
use crate::collections::gathered::Gathered;
use crate::policy::ordering::Rank;
use crate::policy::plan::JobPlan;
use crate::policy::replication::{CopyPurpose, Replicated, Urgency};
use crate::policy::{LimitSource, Policy};
use crate::prediction::estimates::Usual;
use crate::prediction::experience::JobStage;
use crate::prediction::lessons::Lessons;
use crate::prediction::pace::Pace;
use crate::prediction::reservation::ObservedRun;
use crate::prediction::start_cost::StartCosts;
use crate::protocol::effect::{CopyReason, EndReason, Settled, StartReason};
use crate::protocol::event::Tried;
use crate::state::after::Waits;
use crate::state::blame::Blame;
use crate::state::gang::{Gang, KeptSlot};
use crate::state::host::{Host, HostAttempt, Hosts};
use crate::state::memory::HeldMemory;
use crate::state::pool::PoolId;
use crate::state::promise::{Promise, Slack};
use crate::state::question::{ComparedTasks, OpenVotes, mark};
use crate::state::queue::{QueueSums, line_up, move_to};
use crate::state::scene::Scene;
use crate::state::settings::Settings;
use crate::state::shares::{JobUse, Shares};
use crate::state::speculation::{Speculation, Speculator};
use crate::state::terms::Stack;
use crate::state::wishes::{Wish, Wishes};
use crate::state::work::count_saved;

/// The number of ended attempts of an unsettled task that are remembered with their hosts, so that
/// a late result still counts.
const REMEMBERED: usize = 32;

/// An attempt that is found at its host is believed to have run for so long before at most.
const BEFORE: Span = Span::from_secs(30 * 86_400);

/// The first `TEACHING` finished tasks of a job, and every `TEACHING`th after them, are compared
/// with its user's estimates.
const TEACHING: u64 = 256;

/// A job: its rules and policy, and the state of all its tasks.
#[derive(Debug, Default)]
pub(crate) struct Job {
    pub(crate) rules: Rules,
    pub(crate) policy: Policy,
    pub(crate) rank: Rank,
    /// The `Demand` of each attempt, as in `rules`, which has what was learned instead of what was asked for.
    pub(crate) demand: Demand,
    /// The most that an attempt of it held when memory was short, where any was given back for that.
    pub(crate) held: HeldMemory,
    /// The hosts that suit it, where it has needs and they are kept apart.
    pub(crate) pool: Option<PoolId>,
    /// The host whose room is saved up for its next task.
    pub(crate) saves: Option<HostId>,
    total: u64,
    /// Waiting tasks that have had no attempt.
    pub(crate) fresh: IdSet,
    /// Waiting tasks that have had attempts; each has a `TaskRecord`.
    pub(crate) requeued: IdSet,
    /// The sum of [`TaskRecord::saved_fixed`] of these.
    pub(super) saved_fixed: u64,
    /// Tried tasks that are not settled: they wait in `requeued`, or have live attempts.
    pub(crate) records: Dense<u32, TaskRecord>,
    /// The number of tasks whose live attempts are all suspended.
    suspended: u64,
    /// The tasks whose results are compared, if it has a quorum.
    pub(crate) compared: ComparedTasks,
    /// Copies that the policy would start if it had a free slot.
    pub(crate) wishes: Wishes,
    /// The times at which running attempts are to be copied if their tasks are not done, with task
    /// indices and attempt numbers.
    pub(crate) timeouts: BTreeSet<(Time, u32, u32)>,
    /// Whether any of its attempts has reported progress.
    pub(crate) reports_progress: bool,
    /// The state of its policy, see `JobPlan`.
    pub(crate) plan: JobPlan,
    pub(crate) finished: Gathered,
    pub(crate) failed: IdSet,
    pub(crate) cancelled: IdSet,
    /// The highest attempt number of each tried task that failed or was cancelled, and whether that
    /// attempt failed: the next number follows on it if the task is reopened.
    pub(crate) numbers: BTreeMap<u32, (u32, bool)>,
    pub(crate) attempts: u64,
    pub(crate) duplicates: u64,
    pub(crate) pace: Pace,
    /// The properties of earlier tasks of its user and program, by which its own are expected.
    pub(crate) usual: Usual,
    /// The run times that its limits are learned from, its own or those of jobs before it.
    pub(crate) lessons: Lessons,
    /// The user's estimates of its tasks' run times.
    pub(crate) stack: Stack,
    /// The longest start of its attempts, where one is known.
    pub(crate) longest_start: Option<Span>,
    /// Its accepted deadline, if any, as a `Promise`.
    pub(crate) promise: Option<Promise>,
    /// The promise that it had until its deadline was over, if it was not done by then.
    pub(crate) broken: Option<Promise>,
    /// Its requested and disclosed tasks, under policies that tell them apart.
    pub(crate) speculation: Option<Box<Speculation>>,
    /// The hosts of its ranks, if it is a gang.
    pub(crate) gang: Option<Box<Gang>>,
    /// Results that were believed alone, by host and task, with the highest attempt number of the
    /// task.
    pub(crate) alone: BTreeMap<HostId, BTreeMap<u32, (AttemptId, u32)>>,
    /// The outcomes of its attempts, host by host, see `Blame`.
    pub(crate) blame: Blame,
    /// The jobs that have to end before it starts, and the tasks that wait for them.
    pub(crate) after: Waits,
    /// Whether tasks can be added to it: it is not settled before it is closed.
    pub(crate) open: bool,
    /// The number of its user, where users share.
    pub(crate) user: u32,
    /// Its part of what is counted in its user's share.
    pub(crate) shared: JobUse,
    in_line: bool,
    in_copy_line: bool,
    /// Whether it stands in no queue, since no known host meets its needs.
    pub(crate) parked: bool,
    /// The number of `Index::offered` at which such a host was last looked for.
    pub(crate) looked: u64,
    alarm: Option<Time>,
    /// Its entry in `Lines::resting`.
    in_rest: Option<Time>,
}

/// A tried, unsettled task; its index is the key in `records`.
#[derive(Debug, Default)]
pub(crate) struct TaskRecord {
    /// The highest attempt number used.
    pub(crate) attempts: u32,
    /// Attempts up to this number may have ended without being remembered.
    pub(crate) forgotten: u32,
    /// Failed attempts.
    pub(crate) failures: u32,
    /// Attempts that could not be started, through no fault of the task.
    pub(crate) unstarted: u32,
    /// The hosts on which attempts failed, each with whether one could not be started there.
    pub(crate) failed_on: Vec<(HostId, bool)>,
    /// Executing attempts lost.
    pub(crate) losses: u32,
    /// Attempts given back since memory was short, of which nothing was learned.
    pub(crate) crowded_out: u32,
    /// Oldest first.
    pub(crate) live: SmallVec<[LiveCopy; 1]>,
    /// Oldest first.
    pub(crate) ended: Vec<EndedCopy>,
    /// The attempt whose end made the task wait, and whether that end was a failure.
    pub(crate) after: (u32, bool),
    suspended: bool,
    /// Whether it has no live attempt while a result of it is being compared.
    pub(crate) compared: bool,
    /// The task for which its latest attempt was preempted, if it ended by that.
    pub(crate) made_room_for: Option<TaskId>,
    /// The part of it that a checkpoint of an ended attempt holds.
    pub(crate) saved: f64,
    /// Its share of `Job::saved_fixed`.
    pub(super) counted_fixed: u64,
    /// The work after which an attempt was killed at a limit set by the policy, in seconds on a
    /// host of speed 1; `killed` is the number of that attempt.
    pub(crate) killed_s: f64,
    killed: u32,
    /// The speed of the host to which its primary attempt was last assigned.
    pub(crate) primary_speed: Option<Speed>,
    /// The votes on its results, if its job has a quorum, as a `OpenVotes`.
    pub(crate) question: Option<Box<OpenVotes>>,
}

/// A live attempt as seen by its task; the host's side is [`HostAttempt`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveCopy {
    pub(crate) attempt: AttemptId,
    pub(crate) host: HostId,
    /// Whether it is the original attempt or replaces it.
    pub(crate) primary: bool,
    pub(crate) suspended: bool,
    /// The reason that keeps it from going on.
    pub(crate) hold_up: Option<CopyReason>,
    /// Whether its task was started again because its host is silent: another attempt has its
    /// place, and is a duplicate only if this one is heard of again.
    pub(crate) replaced: bool,
}

impl LiveCopy {
    fn new(attempt: AttemptId, host: HostId, primary: bool, hold_up: Option<CopyReason>) -> Self {
        Self {
            attempt,
            host,
            primary,
            suspended: false,
            hold_up,
            replaced: false,
        }
    }

    /// Whether its host is so silent that it is taken to be gone.
    pub(crate) fn is_silent(&self) -> bool {
        self.hold_up == Some(CopyReason::Suspect)
    }
}

/// An ended attempt of a task that is not settled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedCopy {
    pub(crate) attempt: AttemptId,
    pub(crate) host: HostId,
    /// Whether its completion has been handled.
    pub(crate) delivered: bool,
    /// Whether it counts among the task's losses.
    pub(crate) charged: bool,
    /// Whether its host gave it back or was told to: it is not to go on there.
    pub(crate) returned: bool,
}

impl TaskRecord {
    /// Creates the `TaskRecord` of a task whose earlier attempts are over: up to this number, the last of
    /// which failed or not.
    pub(crate) fn reborn(after: (u32, bool)) -> Self {
        Self {
            attempts: after.0,
            forgotten: after.0,
            after,
            ..Self::default()
        }
    }

    /// Remembers the latest of the attempts that were lost, or told to end, before the restart.
    pub(crate) fn remember_ended(&mut self, job: JobId, tried: &Tried) {
        let own =
            |id: &AttemptId| id.task == TaskId::new(job, tried.task) && id.number <= self.attempts;
        let copy = |(attempt, host), charged, returned| EndedCopy {
            attempt,
            host,
            delivered: false,
            charged,
            returned,
        };
        let lost = tried
            .lost
            .iter()
            .map(|(id, host, charged)| copy((*id, *host), *charged, false));
        let ended = lost.chain(tried.ended.iter().map(|ended| copy(*ended, false, true)));
        let mut ended: Vec<EndedCopy> = ended
            .filter(|ended| own(&ended.attempt) && !self.knows(ended.attempt.number))
            .collect();
        ended.sort_unstable_by_key(|ended| {
            (ended.attempt, ended.host, ended.charged, ended.returned)
        });

        ended.dedup_by_key(|ended| ended.attempt.number);
        self.ended = ended.split_off(ended.len().saturating_sub(REMEMBERED));
    }

    /// Puts an attempt that its host was found to have, in this phase, on the books of both.
    pub(crate) fn find_on(
        &mut self,
        host: &mut Host,
        attempt: AttemptId,
        phase: Phase,
        rules: &Rules,
        now: Time,
    ) {
        let duplicate = !self.live.is_empty();
        let beside = duplicate && !rules.quorum.compares();
        let load = HostAttempt {
            phase,
            since: now - BEFORE,
            takes: rules.needs.takes,
            ..HostAttempt::assigned(now, beside, host.beat)
        };
        host.books.find_there(attempt, load);
        host.excused = true;

        let hold_up = host.hold_up(phase);
        self.live
            .push(LiveCopy::new(attempt, host.id, !duplicate, hold_up));
    }

    /// Ends a live attempt and remembers it. Returns it.
    pub(crate) fn end(
        &mut self,
        attempt: AttemptId,
        why: &EndReason,
        charged: bool,
    ) -> Option<LiveCopy> {
        let at = self.live.iter().position(|copy| copy.attempt == attempt)?;
        let copy = self.live.remove(at);
        if self.ended.len() == REMEMBERED {
            self.forgotten = self.forgotten.max(self.ended.remove(0).attempt.number);
        }

        self.ended.push(EndedCopy {
            attempt,
            host: copy.host,
            delivered: matches!(why, EndReason::Delivered(_)),
            charged,
            returned: why.gives_back(),
        });

        Some(copy)
    }

    /// Whether its attempts are all on silent hosts: it waits to be started again.
    pub(crate) fn is_silent(&self) -> bool {
        !self.live.is_empty() && self.live.iter().all(LiveCopy::is_silent)
    }

    /// Returns the reason for the next attempt, while no attempt is live, or all are on silent
    /// hosts.
    pub(crate) fn start_reason(&self) -> StartReason {
        if let Some(copy) = self.live.first() {
            return StartReason::Duplicate(copy.attempt.number, CopyReason::Suspect);
        }
        let question = self.question.as_ref();
        let results = question.map_or(0, |question| question.ballot.votes().len());
        match self.after {
            (number, true) => StartReason::Retry(number),
            (number, false) if number > 0 && number == self.killed => {
                StartReason::NextLimit(number)
            }
            _ if results > 0 => {
                StartReason::AnotherResult(u32::try_from(results).unwrap_or(u32::MAX))
            }
            (number, false) => StartReason::Requeued(number),
        }
    }
}

impl Job {
    /// Creates a job of untried tasks.
    pub(crate) fn new(rules: Rules, policy: Policy, rank: Rank, tasks: IdSet) -> Self {
        Self {
            demand: rules.needs.takes,
            rules,
            policy,
            rank,
            total: tasks.len(),
            fresh: tasks,
            ..Self::default()
        }
    }

    /// Returns the longest time that a new attempt at this task may run on this host.
    pub(crate) fn limit(&self, index: u32, host: &Host) -> Option<Span> {
        let reserves = match self.policy.limits {
            LimitSource::Learned(_) => self.reserves(),
            LimitSource::Windowed { killing } => {
                killing && (host.windows.is_some() || host.lent.is_some())
            }
            _ => true,
        };
        if !reserves {
            return self.rules.timeout;
        }

        self.policy
            .limits
            .limit(&self.rules, &self.lessons, self.killed_s(index), host.speed)
    }

    /// Whether a limit at which an attempt was killed came from the scheduler, not from the job's
    /// own `timeout`.
    pub(crate) fn limited(&self, limit: Span) -> bool {
        self.rules.timeout != Some(limit)
    }

    /// Returns the most work after which an attempt at this task was killed at a limit, preempted or
    /// lost with its host; 0 where none was.
    pub(crate) fn killed_s(&self, index: u32) -> f64 {
        self.records
            .get(&index)
            .map_or(0.0, |record| record.killed_s)
    }

    /// Returns the observation of the task's run time that the end of an attempt on a host of this
    /// speed gives, if any.
    pub(crate) fn run(&self, outcome: &Outcome, ran: Span, speed: Speed) -> Option<ObservedRun> {
        match outcome {
            _ if self.rules.checkpoint => None,
            Outcome::Succeeded => Some(ObservedRun::done(ran.secs() * speed.factor())),
            Outcome::TimedOut(limit) => Some(ObservedRun::cut(limit.secs() * speed.factor())),
            _ => None,
        }
    }

    /// Learns from the end of an attempt: it took `run.time`, or was killed then by a learned
    /// limit. `small_work` gives the present rate of small work.
    pub(crate) fn learn(
        &mut self,
        attempt: AttemptId,
        run: ObservedRun,
        small_work: impl FnOnce() -> f64,
    ) {
        let answer = self.policy.limits;
        let index = attempt.task.index;
        if answer.learns() {
            self.lessons
                .observe(run, self.killed_s(index), answer.zeta(small_work()));
        }

        if let Some(record) = self
            .records
            .at_mut(&index)
            .filter(|record| !run.done && run.time > record.killed_s)
        {
            record.killed_s = run.time;
            if answer.learns() {
                record.killed = attempt.number;
            }
        }
    }

    /// Notes that an attempt had done `work_s` of work, in seconds on a host of speed 1, when it
    /// was preempted: its task takes longer than that.
    pub(crate) fn outlived(&mut self, index: u32, work_s: f64) {
        if let Some(record) = self
            .records
            .at_mut(&index)
            .filter(|_| !self.rules.checkpoint)
        {
            record.killed_s = record.killed_s.max(work_s);
        }
    }

    /// Sets its tasks, all untried.
    pub(crate) fn set_tasks(&mut self, tasks: IdSet) {
        self.total = tasks.len();
        self.fresh = tasks;
    }

    /// Counts tasks that were added to it.
    pub(crate) fn grow(&mut self, tasks: &IdSet) {
        self.total += tasks.len();
    }

    /// Returns the number of tasks that can start now, as far as other jobs go.
    pub(crate) fn waiting(&self) -> u64 {
        self.fresh.len() + self.requeued.len()
    }

    /// Whether a task exists whose live attempts are all suspended.
    pub(crate) fn any_suspended(&self) -> bool {
        self.suspended > 0
    }

    /// Returns the number of unsettled tasks: `fresh` and held ones and those with a `TaskRecord`.
    pub(crate) fn unsettled(&self) -> u64 {
        self.fresh.len() + self.after.tasks.len() + self.records.len() as u64
    }

    pub(crate) fn settled(&self) -> bool {
        let left = !self.fresh.is_empty() || !self.after.tasks.is_empty();
        !self.open && !left && self.records.is_empty()
    }

    pub(crate) fn state(&self) -> JobState {
        if !self.settled() {
            return if self.attempts == 0 {
                JobState::Waiting
            } else {
                JobState::Running
            };
        }
        match (self.failed.is_empty(), self.cancelled.is_empty()) {
            (false, _) => JobState::Failed,
            (true, false) if !self.has_all_requested() => JobState::Cancelled,
            (true, _) => JobState::Finished,
        }
    }

    /// Whether tasks of a disclosed job were requested, and none of these is cancelled: then nothing
    /// is missing that anybody wanted.
    fn has_all_requested(&self) -> bool {
        self.speculation.as_ref().is_some_and(|speculation| {
            let requested = &speculation.requested;
            !requested.is_empty() && self.cancelled.intersection(requested).is_empty()
        })
    }

    pub(crate) fn counts(&self) -> TaskCounts {
        let live = self.records.len() as u64 - self.requeued.len();
        let disclosed = self.waiting_disclosed();
        TaskCounts {
            total: self.total,
            disclosed,
            waiting: self.waiting() + self.after.tasks.len() - disclosed,
            running: live - self.suspended,
            suspended: self.suspended,
            finished: self.finished.len(),
            failed: self.failed.len(),
            cancelled: self.cancelled.len(),
        }
    }

    /// Returns the number of tasks with an attempt that is not suspended.
    pub(crate) fn running(&self) -> u64 {
        let begun = self.records.len() as u64 - self.requeued.len();
        begun.saturating_sub(self.suspended + self.compared.pending)
    }

    pub(crate) fn task_state(&self, index: u32) -> Option<TaskState> {
        let state = self.plain_state(index)?;
        let disclosed = state == TaskState::Waiting && self.only_disclosed(index);
        Some(if disclosed {
            TaskState::Disclosed
        } else {
            state
        })
    }

    /// Returns the task's state, disclosed or not.
    fn plain_state(&self, index: u32) -> Option<TaskState> {
        if self.requeued.contains(index) {
            return Some(TaskState::Waiting);
        }
        if let Some(record) = self.records.get(&index) {
            return Some(record.state());
        }
        if self.finished.contains(index) {
            return Some(TaskState::Finished);
        }

        let sets: [(&IdSet, TaskState); 4] = [
            (&self.fresh, TaskState::Waiting),
            (&self.after.tasks, TaskState::Waiting),
            (&self.failed, TaskState::Failed),
            (&self.cancelled, TaskState::Cancelled),
        ];
        sets.into_iter()
            .find(|(set, _)| set.contains(index))
            .map(|(_, state)| state)
    }

    /// Takes the next waiting task; makes its `TaskRecord` if needed.
    pub(crate) fn pop_waiting(&mut self) -> Option<(u32, StartReason)> {
        match self.requeued.first() {
            Some(index) => self.take_waiting(index).map(|why| (index, why)),
            None => self.pop_waiting_fresh(),
        }
    }

    /// Takes the next task of `fresh`.
    pub(crate) fn pop_waiting_fresh(&mut self) -> Option<(u32, StartReason)> {
        let index = self.fresh.pop_first()?;
        self.records.insert(index, TaskRecord::default());
        Some((index, StartReason::First))
    }

    /// Returns the waiting tasks in the order in which tasks with a promise start.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = u32> + '_ {
        self.requeued.iter().chain(self.stack.sorted(&self.fresh))
    }

    /// Takes this task out of `requeued` or `fresh`; makes its `TaskRecord` if needed.
    pub(crate) fn take_waiting(&mut self, index: u32) -> Option<StartReason> {
        if self.requeued.remove(index) {
            let record = self.records.get(&index);
            return Some(record.map_or(StartReason::First, TaskRecord::start_reason));
        }

        if !self.fresh.remove(index) {
            return None;
        }

        self.stack.advance(&self.fresh);
        self.records.insert(index, TaskRecord::default());
        Some(StartReason::First)
    }

    /// Returns the live attempts of all its tasks.
    pub(crate) fn copies(&self) -> impl Iterator<Item = &LiveCopy> {
        self.records.values().flat_map(|record| record.live.iter())
    }

    /// Returns the user's estimate of the task's run time on a host of speed 1.
    pub(crate) fn estimate(&self, index: u32) -> Option<Span> {
        self.stack.estimate(index).or(self.rules.estimate)
    }

    /// Whether the run time of its next finished task is remembered for other jobs of its user:
    /// after the first [`TEACHING`], only every `TEACHING`th is.
    pub(crate) fn teaches(&self) -> bool {
        let finished = self.finished.len();
        finished < TEACHING || finished.is_multiple_of(TEACHING)
    }

    /// Whether a task would be tried again if its attempt failed.
    pub(crate) fn may_retry(&self, index: u32) -> bool {
        self.records
            .get(&index)
            .is_some_and(|record| record.failures < self.rules.retries)
    }

    /// Lets a task wait again that was taken from the waiting ones and did not start.
    pub(crate) fn put_back(&mut self, index: u32) {
        let waits = |record: &&TaskRecord| record.live.is_empty() && !record.compares();
        let tried = self.records.get(&index).filter(waits);
        match tried.map(|record| record.attempts) {
            None => {}
            Some(0) => {
                self.records.remove(&index);
                self.fresh.insert(index);
            }
            Some(_) => self.wait_again(index),
        }
    }

    /// Puts a live attempt on the task's record and counts it. Another result for a comparison is
    /// no duplicate of the attempts that live.
    pub(crate) fn begin(
        &mut self,
        index: u32,
        (host, speed): (HostId, Speed),
        primary: bool,
        why: &StartReason,
        incarnation: Incarnation,
    ) -> Option<AttemptId> {
        let record = self.records.at_mut(&index)?;
        record.attempts += 1;
        self.attempts += 1;
        count_saved(record, false, &mut self.saved_fixed);
        if record.is_silent() {
            record.live.iter_mut().for_each(|copy| copy.replaced = true);
        } else if !why.is_another_result() {
            self.duplicates += u64::from(!record.live.is_empty());
        }

        let attempt = AttemptId {
            task: TaskId::new(self.rank.job, index),
            number: record.attempts,
            incarnation,
        };
        let copy = LiveCopy::new(attempt, host, primary, None);
        record.live.push(copy);

        record.made_room_for = None;
        if primary {
            record.primary_speed = Some(speed);
        }

        Some(attempt)
    }

    /// Notes that the host of a live attempt is back and has it: what was started in its place is a
    /// duplicate.
    pub(crate) fn on_back(&mut self, attempt: AttemptId) {
        let record = self.records.at_mut(&attempt.task.index);
        let mut live = record.into_iter().flat_map(|record| &mut record.live);
        if let Some(copy) = live.find(|copy| copy.attempt == attempt) {
            self.duplicates += u64::from(std::mem::take(&mut copy.replaced));
        }
    }

    /// Updates everything that depends on a task's live attempts after they changed.
    pub(crate) fn refresh(&mut self, index: u32, max_copies: u32) {
        let Some(record) = self.records.at_mut(&index) else {
            return;
        };
        let full = record.live.is_empty() || record.live.len() >= max_copies as usize;
        let spent = record.is_spent(&self.rules);
        let together = self.gang.is_some() || self.rules.quorum.compares();
        if !together && !record.live.is_empty() {
            if record.is_silent() && !full && !spent {
                self.requeued.insert(index);
            } else {
                self.requeued.remove(index);
            }
        }

        let waits = self.requeued.contains(index);
        count_saved(record, waits, &mut self.saved_fixed);
        let still = |copy: &LiveCopy| copy.suspended;
        let suspended = !waits && !record.live.is_empty() && record.live.iter().all(still);
        mark(&mut record.suspended, suspended, &mut self.suspended);
        self.compared.count(record);

        if self.rules.quorum.compares() {
            return self.want_results(index, max_copies);
        }
        if waits {
            self.wait_again(index);
        }

        // A rank of a gang cannot have a copy.
        let Some(record) = self.records.at_mut(&index).filter(|_| self.gang.is_none()) else {
            return;
        };
        let full = full || waits || spent;
        let hold_ups = record.live.iter().map(|copy| copy.hold_up);

        match (
            self.policy.replication.rescue(hold_ups),
            record.live.first(),
        ) {
            (Some(why), Some(copy)) if !full => {
                let wish = Wish {
                    of: copy.attempt.number,
                    why,
                };
                let urgency = Urgency {
                    class: CopyPurpose::Duplicate,
                    speed: Speed::REFERENCE,
                };

                self.wishes.remove(index);
                self.wishes.add(index, urgency, wish);
            }
            _ if full || self.policy.replication.rescues() => self.wishes.remove(index),
            _ => {}
        }
    }

    /// Removes a task that is about to be settled from every list of unsettled ones.
    pub(crate) fn close(&mut self, index: u32) -> Option<TaskRecord> {
        let mut record = self.records.remove(&index)?;
        self.requeued.remove(index);
        count_saved(&mut record, false, &mut self.saved_fixed);
        self.suspended -= u64::from(record.suspended);
        self.compared.leave(&record);
        self.wishes.remove(index);
        self.stir();
        Some(record)
    }

    /// Returns the user's estimate of this very task, in seconds on a host of speed 1; 0 without
    /// one.
    pub(crate) fn own_estimate_s(&self, index: u32) -> f64 {
        self.stack.estimate(index).map_or(0.0, Span::secs)
    }

    /// Returns its `JobStage`, by the part of its tasks that finished.
    pub(crate) fn stage(&self) -> JobStage {
        JobStage::of(self.finished.len() as f64 / self.total.max(1) as f64)
    }

    /// Whether its attempts that run for much longer than any of their kind are copied.
    pub(crate) fn copies_overdue(&self) -> bool {
        let replication = self.policy.replication;
        let copied =
            replication.gain().is_some() || self.promised().is_some() && replication.rescues();
        copied && !self.rules.quorum.compares()
    }

    /// Whether it has use for slots that no waiting task takes.
    fn wants_copies(&self) -> bool {
        let replication = self.policy.replication;
        let all_running =
            replication.overlap() == Some(Replicated::Running) || self.copies_overdue();
        let running = all_running && self.plan.rests.is_none() && !self.records.is_empty();
        self.gang.is_none() && (!self.wishes.is_empty() || running)
    }

    /// Returns the `Scene` of the job, on which its policy decides.
    pub(crate) fn scene<'a>(
        &'a self,
        now: Time,
        settings: &'a Settings,
        hosts: &'a Hosts,
    ) -> Scene<'a> {
        Scene {
            now,
            settings,
            hosts,
            job: self,
        }
    }

    /// Whether a live attempt of the task is on this host.
    pub(crate) fn is_on(&self, index: u32, host: HostId) -> bool {
        self.records
            .get(&index)
            .is_some_and(|record| record.live.iter().any(|copy| copy.host == host))
    }

    /// Returns the time at which it is to be considered even if nothing happens.
    fn next_alarm(&self) -> Option<Time> {
        if self.settled() {
            return None;
        }
        let timeout = self.timeouts.first().map(|(at, ..)| *at);
        timeout
            .into_iter()
            .chain(self.plan.review)
            .chain(self.plan.overdue)
            .chain(self.blame.alarm())
            .min()
    }

    /// Handles the alarm of the job: reviews, `blame` and `timeouts` that are due.
    pub(crate) fn on_alarm(&mut self, now: Time, max_copies: u32) {
        self.plan.review = self.plan.review.filter(|at| *at > now);
        if self.blame.on_alarm(now) {
            self.plan.declined = None;
        }

        self.plan.overdue = self.plan.overdue.filter(|at| *at > now);
        while let Some((at, index, number)) = self.timeouts.first().copied()
            && at <= now
        {
            self.timeouts.pop_first();
            let live =
                |record: &&TaskRecord| record.live.iter().any(|copy| copy.attempt.number == number);

            if self.records.get(&index).filter(live).is_some() {
                self.want_copy(index, number, CopyReason::TimedOut, max_copies);
            }
        }
    }

    /// Marks a task without live attempts as waiting, unless a result of it is being compared: then
    /// the comparison decides.
    pub(crate) fn requeue(&mut self, index: u32, after: (u32, bool)) {
        if let Some(record) = self.records.at_mut(&index) {
            record.after = after;
            if record.compares() {
                return;
            }
            self.wait_again(index);
            self.wishes.remove(index);
        }
        if let Some(gang) = &mut self.gang {
            gang.stirred = true;
            gang.disturbed = true;
        }
    }
}

impl TaskRecord {
    /// Whether it failed or was lost too often to be started once more: what is live goes on alone.
    pub(crate) fn is_spent(&self, rules: &Rules) -> bool {
        self.spent(rules).is_some()
    }

    /// Returns the end of such a task, to come when none of its attempts lives.
    pub(crate) fn spent(&self, rules: &Rules) -> Option<Settled> {
        if self.failures > rules.retries {
            return Some(Settled::FailedTooOften(self.failures));
        }
        if self.losses > rules.max_losses {
            return Some(Settled::LostTooOften(self.losses));
        }
        (self.crowded_out > rules.max_losses).then_some(Settled::CrowdedOut(self.crowded_out))
    }

    /// Whether an attempt of this number is live or remembered, on whatever host.
    pub(crate) fn knows(&self, number: u32) -> bool {
        self.live.iter().any(|copy| copy.attempt.number == number)
            || self.ended.iter().any(|copy| copy.attempt.number == number)
    }

    pub(crate) fn state(&self) -> TaskState {
        if self.live.is_empty() && !self.compares() {
            TaskState::Waiting
        } else if self.suspended {
            TaskState::Suspended
        } else {
            TaskState::Running
        }
    }
}

/// All jobs, and the queues of those that want slots.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) table: BTreeMap<JobId, Job>,
    pub(crate) lines: Lines,
    /// The number of jobs and requests that have arrived.
    pub(crate) arrivals: u64,
    /// Jobs whose policies tell requested from disclosed tasks; `speculators` holds their users.
    pub(crate) speculating: BTreeSet<JobId>,
    pub(crate) speculators: BTreeMap<String, Speculator>,
    /// The jobs that wait for each job.
    pub(crate) followers: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Jobs that stand in no queue, since no known host meets their needs.
    pub(crate) parked: BTreeSet<JobId>,
    /// Jobs of which it was learned how much memory attempts hold.
    pub(crate) held: BTreeSet<JobId>,
    /// Gangs that are not settled and wait for no other job.
    pub(crate) gangs: BTreeSet<JobId>,
    /// The slots reserved for ranks of waiting gangs, one entry for each rank.
    pub(crate) kept: Vec<KeptSlot>,
    /// Attempts that backfill reserved slots, with their hosts; they are preempted when the slot is
    /// needed.
    pub(crate) fillers: BTreeMap<AttemptId, HostId>,
    /// The measured start costs of attempts.
    pub(crate) starts: StartCosts,
    /// The slack of jobs with a promise, where users share; `None` where it is to be computed.
    pub(crate) slack: Option<Slack>,
    /// The time at which to look for attempts that outlive their estimates while jobs with a promise
    /// wait; `None` where it is to be computed.
    pub(crate) overruns: Option<Time>,
    /// The deadlines that were promised; those of jobs that are gone are left out once they are over.
    pub(crate) deadlines: BTreeSet<(Time, JobId)>,
}

/// The queues of jobs that want slots, in the order in which they get them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Jobs with waiting tasks.
    pub(crate) waiting: BTreeSet<Rank>,
    /// The same by the pool in which one of them needs a host with room; `None` where it may be of use
    /// without.
    pub(crate) pooled: BTreeMap<Option<PoolId>, BTreeSet<Rank>>,
    /// Jobs that want copies.
    pub(crate) copying: BTreeSet<Rank>,
    /// Jobs that want copies again at these times.
    pub(crate) resting: BTreeSet<(Time, JobId)>,
    /// The times at which jobs are to be considered even if nothing happens.
    pub(crate) alarms: BTreeSet<(Time, JobId)>,
    /// The recent `RecentUse` of each user.
    pub(crate) shares: Shares,
    /// The cached `QueueSums` of the work ahead in a long queue, for views.
    pub(crate) sums: RefCell<Option<QueueSums>>,
    /// The same for predictions that steps note: what they learn must not depend on views.
    pub(crate) noted_sums: RefCell<Option<QueueSums>>,
}

impl Lines {
    /// Moves the job to another `Rank` in the queues.
    pub(crate) fn rerank(&mut self, job: &mut Job, rank: Rank) {
        self.wait_in_line(job, false);
        line_up(&mut self.copying, &mut job.in_copy_line, false, job.rank);
        job.rank = rank;
        self.sync(job);
    }

    /// Puts the job into the queue of those with waiting tasks, or takes it out of it.
    fn wait_in_line(&mut self, job: &mut Job, waits: bool) {
        if job.in_line == waits {
            return;
        }
        line_up(&mut self.waiting, &mut job.in_line, waits, job.rank);
        let pool = self.pooled.entry(job.needs_room_in()).or_default();
        if waits {
            pool.insert(job.rank);
        } else {
            pool.remove(&job.rank);
        }
    }

    /// Updates the job's places in `waiting` and `copying`, and its alarm, after its tasks changed.
    pub(crate) fn sync(&mut self, job: &mut Job) {
        self.share(job);
        let mut waits = !job.fresh.is_empty() || !job.requeued.is_empty();
        if job.speculation.is_some() {
            let rank = job.turn_rank();
            waits = rank.is_some();
            if let Some(rank) = rank.filter(|rank| *rank != job.rank) {
                self.wait_in_line(job, false);
                line_up(&mut self.copying, &mut job.in_copy_line, false, job.rank);
                job.rank = rank;
            }
        }

        waits |= job.wishes.first_primary().is_some();
        waits &= !job.parked;
        self.wait_in_line(job, waits);

        let wants = job.wants_copies();
        line_up(&mut self.copying, &mut job.in_copy_line, wants, job.rank);

        let alarm = job.next_alarm();
        move_to(&mut self.alarms, &mut job.alarm, alarm, job.rank.job);
        let rests = job.plan.rests.filter(|_| !job.settled());
        move_to(&mut self.resting, &mut job.in_rest, rests, job.rank.job);
    }

    /// Returns a job that has rested, if there is one.
    pub(crate) fn rested(&self, now: Time) -> Option<JobId> {
        let (until, job) = self.resting.first()?;
        (*until <= now).then_some(*job)
    }
}

impl Job {
    /// Returns the pool without a ready host of which none of its waiting tasks can start; `None` where
    /// it has none, or is to be asked in any case.
    fn needs_room_in(&self) -> Option<PoolId> {
        let always = self.gang.is_some() || self.policy.placement.prepares();
        self.pool.filter(|_| !always)
    }

    /// Panics if the job is not in exactly the queues that it takes itself to be in.
    pub(crate) fn check_places(&self, lines: &Lines) {
        let id = self.rank.job;
        let waits = lines.waiting.contains(&self.rank);
        debug_assert_eq!(waits, self.in_line, "{id:?} waits");
        let pool = lines.pooled.get(&self.needs_room_in());
        let waits = pool.is_some_and(|pool| pool.contains(&self.rank));
        debug_assert_eq!(waits, self.in_line, "{id:?} waits in its pool");
        let copies = lines.copying.contains(&self.rank);
        debug_assert_eq!(copies, self.in_copy_line, "{id:?} copies");

        let alarm = self.alarm.is_none_or(|at| lines.alarms.contains(&(at, id)));
        debug_assert!(alarm, "the alarm of {id:?} is lost");
        let rest = self.in_rest.map(|at| (at, id));
        let rests = rest.is_none_or(|rest| lines.resting.contains(&rest));
        debug_assert!(rests, "the rest of {id:?} has no end");
    }
}

pub(crate) fn waiting(job: &Job) -> IdSet {
    let mut waiting = job.fresh.clone();
    waiting.union_with(&job.requeued);
    waiting
}
