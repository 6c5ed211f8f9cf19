//! The worker's state machine: it knows the phase of each attempt and decides what to do. Inputs
//! are [`MachineEvent`]s with their time; outputs are [`Action`]s. It has no input or output, and no
//! clock.
//!
//! An attempt is queued, staging, ready, running, collecting, ended; it leaves by being
//! acknowledged, returned or abandoned, exactly once. While the owner wants the host, every running
//! attempt is frozen, none is started, and those not started yet are given back at once. While the
//! owner shares the host, the same holds for attempts beyond the shared slots, and the latest
//! starts are frozen first. An attempt that stays frozen for the owner for too long is ended and
//! given back, after a checkpoint, once a master can be told. An attempt that the master holds stays
//! frozen, whatever the owner does, and takes no slot; it is thawed once both allow it, and that
//! time does not count as the owner's.

mod giving_back;
mod run;
#[cfg(test)]
pub(crate) mod tests;
mod weighing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use common::attempt::{Confined, HeldAttempt, OutputFile, Phase, Spent, Stream};
use common::checkpoint::Saving;
use common::content::BlobHash;
use common::host::OwnerState;
use common::needs::{Capacity, Demand};
use common::wire::worker::{Assignment, Command, Errand};
use common::{AttemptId, Completion, Outcome, Span, Time};

use crate::owner::policy::Decision;
use giving_back::{BackReason, give_back_ended};
use run::{EndCause, RunningCommand};
use weighing::Weighing;

/// The longest time that the start of a command may go unreported: shorter commands never cost a
/// message of their own.
const REPORT_DELAY: Span = Span::from_millis(50);

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum MachineEvent {
    /// The master gives work.
    Assigned(Vec<Assignment>),
    /// The master assigns attempts that wait for [`MachineEvent::Begin`] once they are staged.
    AssignedTogether(Vec<Assignment>),
    /// The master starts these staged attempts.
    Begin(Vec<AttemptId>),
    /// The master ends these attempts; they are to be delivered.
    Stop(Vec<AttemptId>),
    /// The master ends these attempts after a checkpoint; they are to be delivered.
    Yield(Vec<AttemptId>),
    /// The master freezes these attempts (true) or thaws them (false).
    Hold(Vec<AttemptId>, bool),
    /// The master does not need these attempts any more.
    Abandon(Vec<AttemptId>),
    /// These completions are durable at the master.
    Acknowledged(Vec<AttemptId>),
    /// The owner's policy decided what tasks may do from now on.
    Decided(Decision),
    /// An attempt's directory and inputs are there.
    Staged(AttemptId),
    /// The command has ended, and nothing of its process tree is left.
    Exited(AttemptId),
    /// The attempt's result is complete. Comes without `Staged` or `Exited` if the attempt did not
    /// get that far.
    Ended(AttemptId, Box<AttemptEnding>),
    /// The result of a checkpoint of this attempt, with the checkpoint's number.
    Saving(AttemptId, u32, Saving),
    /// The progress that programs report.
    Progress(Vec<(AttemptId, f32)>),
    /// The memory that the attempt's processes hold, in bytes; `None` if it cannot be told.
    Measured(AttemptId, Option<u64>),
    /// The worker is to end in order.
    Shutdown,
    /// The time that `next_wakeup` returned has come.
    Tick,
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptEnding {
    /// The way in which its command ended, if nobody else ended it.
    pub outcome: Outcome,
    /// Processor time of its tree.
    pub cpu: Span,
    /// Its captured standard output.
    pub stdout: Stream,
    /// Its captured standard error.
    pub stderr: Stream,
    /// The output files that were collected.
    pub outputs: Vec<OutputFile>,
    /// The outputs that were not kept as they were, in words.
    pub warnings: Vec<String>,
    /// The confinement of its command, where that may be why it failed.
    pub confined: Option<Confined>,
    /// The run time and the time suspended, where somebody else measured them.
    pub took: Option<(Span, Span)>,
}

impl AttemptEnding {
    /// Makes an ending without output or processor time.
    pub fn bare(outcome: Outcome) -> Self {
        Self {
            outcome,
            cpu: Span::ZERO,
            stdout: Stream::default(),
            stderr: Stream::default(),
            outputs: Vec::new(),
            warnings: Vec::new(),
            confined: None,
            took: None,
        }
    }

    /// Iterates over the blobs that it refers to.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = BlobHash> + '_ {
        let streams = [&self.stdout, &self.stderr]
            .into_iter()
            .filter_map(|stream| stream.content.blob());
        streams
            .chain(self.outputs.iter().map(|output| output.blob))
            .map(|blob| blob.hash)
    }
}

/// An action for the worker's loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Make its directory and place its inputs.
    Stage(AttemptId, Box<Command>),
    /// Start its command.
    Start(AttemptId),
    /// Freeze its process tree.
    Freeze(AttemptId),
    /// Thaw its process tree.
    Thaw(AttemptId),
    /// Ask its process tree to end.
    Terminate(AttemptId),
    /// Kill its process tree.
    Kill(AttemptId),
    /// End it in any phase, and discard everything.
    Drop(AttemptId),
    /// Make the completion durable, then deliver it.
    Spool(Completion),
    /// Discard a result that is not wanted any more.
    Discard(Box<AttemptEnding>),
    /// Drop these durable completions from the spool.
    Forget(Vec<AttemptId>),
    /// Tell the master that these are given back, and why.
    Return(Vec<AttemptId>, String),
    /// Tell the master the time spent by one that was given back.
    Spent(Spent),
    /// Tell the master what the one held that is given back next, since memory is short; `None` where
    /// that cannot be told.
    Weighed(AttemptId, Option<u64>),
    /// Save a checkpoint once its command has ended.
    Save(AttemptId),
    /// Find out how much memory its processes hold, for [`MachineEvent::Measured`].
    Measure(AttemptId),
    /// These are ended since they held more memory than is lent: wait anew for it to come back.
    Relieved(Vec<AttemptId>),
    /// Tell the master the result of an attempt's checkpoint.
    Saving(AttemptId, u32, Saving),
    /// Tell the master the phases of these attempts.
    Report(Vec<HeldAttempt>),
    /// Tell the master the owner's state.
    Owner(OwnerState),
    /// Tell the master that the worker accepts no more attempts, and leaves once nothing runs.
    Closing,
    /// Nothing runs any more: the worker may end.
    Left,
}

/// The state machine; each worker has one.
#[derive(Debug)]
pub(crate) struct Machine {
    slots: usize,
    /// Whether the inputs of attempts are staged before there is a slot for them.
    stages_ahead: bool,
    /// The `Capacity` that the owner lends to all attempts together.
    lends: Capacity,
    /// Whether frozen attempts can be measured.
    weighs: bool,
    weighing: Option<Weighing>,
    grace: Span,
    /// The longest time that an attempt may be frozen for the owner before it is given back; `None`:
    /// for ever.
    patience: Option<Span>,
    /// Whether a master hears what is given back, and takes its saved state.
    heard: bool,
    decision: Decision,
    /// The time since which the owner has been there, or away.
    owner_since: Time,
    leaving: bool,
    /// The report intervals that the master wants for held attempts, where they are shorter than
    /// usual.
    reports: BTreeMap<AttemptId, Span>,
    /// The `Demand` of each attempt that asks for more than a slot.
    takes: BTreeMap<AttemptId, Demand>,
    queued: VecDeque<Assignment>,
    staging: BTreeMap<AttemptId, Option<Span>>,
    ready: VecDeque<(AttemptId, Option<Span>)>,
    /// Attempts that wait for [`MachineEvent::Begin`] once they are ready.
    together: BTreeSet<AttemptId>,
    running: BTreeMap<AttemptId, RunningCommand>,
    /// The number of commands started so far.
    started: u64,
    collecting: BTreeMap<AttemptId, RunningCommand>,
    ended: BTreeSet<AttemptId>,
    /// Attempts that were dropped, and whose `Ended` event is still to come.
    dropped: BTreeSet<AttemptId>,
    progress: BTreeMap<AttemptId, f32>,
    unreported: BTreeSet<AttemptId>,
    report_at: Option<Time>,
}

impl Machine {
    /// Makes the machine of a worker with `slots` slots. A command that was asked to end has
    /// `grace` until it is killed; a frozen one is given back after `patience`. `ended` are the
    /// completions that the spool holds from before.
    pub(crate) fn new(
        slots: usize,
        grace: Span,
        patience: Option<Span>,
        ended: impl IntoIterator<Item = AttemptId>,
    ) -> Self {
        Self {
            slots: slots.max(1),
            stages_ahead: true,
            lends: Capacity {
                cores: slots.max(1) as u32,
                memory_mib: u32::MAX,
                gpus: u32::MAX,
            },
            weighs: false,
            weighing: None,
            grace,
            patience,
            heard: true,
            decision: Decision::Run,
            owner_since: Time(0),
            leaving: false,
            reports: BTreeMap::new(),
            takes: BTreeMap::new(),
            queued: VecDeque::new(),
            staging: BTreeMap::new(),
            ready: VecDeque::new(),
            together: BTreeSet::new(),
            running: BTreeMap::new(),
            started: 0,
            collecting: BTreeMap::new(),
            ended: ended.into_iter().collect(),
            dropped: BTreeSet::new(),
            progress: BTreeMap::new(),
            unreported: BTreeSet::new(),
            report_at: None,
        }
    }

    /// Begins nothing, not even the staging of inputs, before there is a slot for it.
    pub(crate) fn stage_in_slots(&mut self) {
        self.stages_ahead = false;
    }

    /// Sets the time after which a frozen command is given back.
    pub(crate) fn be_patient(&mut self, patience: Option<Span>) {
        self.patience = patience;
    }

    /// Sets whether a master hears this worker. While none does, a frozen command is not given back
    /// for its age: its state could reach nobody.
    pub(crate) fn be_heard(&mut self, heard: bool) {
        self.heard = heard;
    }

    /// Sets what the owner lends; until then it is a processor for each slot, and no bound on the
    /// rest.
    pub(crate) fn lend(&mut self, lends: Capacity) {
        self.lends = Capacity {
            cores: lends.cores.max(self.slots as u32),
            ..lends
        };
    }

    /// Has frozen attempts measured before they are given back for their memory.
    pub(crate) fn weigh(&mut self) {
        self.weighs = true;
    }

    /// Takes one event and appends the resulting actions.
    pub(crate) fn step(&mut self, now: Time, event: MachineEvent, actions: &mut Vec<Action>) {
        match event {
            MachineEvent::Assigned(work) => self.on_assigned(work, actions),
            MachineEvent::AssignedTogether(work) => self.on_assigned_together(work, actions),
            MachineEvent::Begin(attempts) => self.together.retain(|id| !attempts.contains(id)),
            MachineEvent::Stop(attempts) => attempts
                .into_iter()
                .for_each(|id| self.on_stop(now, id, actions)),
            MachineEvent::Yield(attempts) => attempts
                .into_iter()
                .for_each(|id| self.on_yield(now, id, actions)),
            MachineEvent::Hold(attempts, held) => attempts
                .into_iter()
                .for_each(|id| self.on_hold(now, id, held)),
            MachineEvent::Abandon(attempts) => attempts
                .into_iter()
                .for_each(|id| self.on_abandon(id, actions)),
            MachineEvent::Acknowledged(attempts) => self.on_acknowledged(attempts, actions),
            MachineEvent::Decided(decision) => self.on_decided(now, decision, actions),
            MachineEvent::Staged(id) => {
                if let Some(limit) = self.staging.remove(&id) {
                    self.ready.push_back((id, limit));
                    if self.together.contains(&id) {
                        self.unreported.insert(id);
                        self.report(now, actions);
                    }
                }
            }
            MachineEvent::Exited(id) => self.on_exited(now, id),
            MachineEvent::Ended(id, ending) => self.on_ended(now, id, ending, actions),
            MachineEvent::Progress(news) => {
                self.progress.extend(
                    news.into_iter()
                        .filter(|(id, _)| self.running.contains_key(id)),
                );
            }
            MachineEvent::Measured(id, bytes) => self.on_measured(id, bytes),
            MachineEvent::Saving(id, sequence, saving) => {
                actions.push(Action::Saving(id, sequence, saving));
            }
            MachineEvent::Shutdown => self.on_shutdown(now, actions),
            MachineEvent::Tick => {}
        }

        self.enforce_times(now, actions);
        self.settle(now, actions);
        self.fill(now, actions);
        self.report_late(now, actions);
        if !self.takes.is_empty() {
            let mut takes = std::mem::take(&mut self.takes);
            takes.retain(|id, _| self.holds(*id));
            self.takes = takes;
        }
        if self.leaving && self.is_idle() {
            actions.push(Action::Left);
        }
    }

    /// Returns the time at which [`MachineEvent::Tick`] is due, if nothing else happens before.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        let runs = self
            .running
            .values()
            .filter_map(|run| run.next_wakeup(self.patience_now()));
        let weighed = self.weighing.as_ref().map(Weighing::until);
        runs.chain(self.report_at).chain(weighed).min()
    }

    /// Returns every attempt that it holds, as heartbeats list it.
    pub(crate) fn held(&self, now: Time) -> Vec<HeldAttempt> {
        let running = self
            .running
            .keys()
            .chain(self.collecting.keys())
            .filter_map(|id| self.held_of(now, *id));

        running
            .chain(self.staging.keys().map(|id| bare(*id, Phase::Staging)))
            .chain(
                self.ready
                    .iter()
                    .map(|(id, _)| bare(*id, self.phase_when_ready(id))),
            )
            .chain(self.queued.iter().map(|a| bare(a.attempt, Phase::Queued)))
            .chain(self.ended.iter().map(|id| bare(*id, Phase::Ended)))
            .collect()
    }

    /// Iterates over the attempts whose commands run or are frozen.
    pub(crate) fn running(&self) -> impl Iterator<Item = AttemptId> + '_ {
        self.running.keys().copied()
    }

    /// Returns the numbers of attempts that run and that are suspended.
    pub(crate) fn running_and_suspended(&self) -> (usize, usize) {
        let suspended = self.running.values().filter(|run| run.frozen()).count();
        (self.running.len() - suspended, suspended)
    }

    /// Returns the owner's state, as the master is told.
    pub(crate) fn owner(&self) -> OwnerState {
        self.decision.owner(self.slots as u32)
    }

    /// Returns the last decision on what tasks may do.
    pub(crate) fn decision(&self) -> Decision {
        self.decision
    }

    /// Returns the time that the owner has been there, or away.
    pub(crate) fn owner_for(&self, now: Time) -> Span {
        now.since(self.owner_since)
    }

    /// Returns the shortest report interval that the master wants for an attempt held here, if one
    /// is shorter than usual.
    pub(crate) fn report_every(&self) -> Option<Span> {
        self.reports.values().min().copied()
    }

    /// Whether attempts wait for a slot here.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Returns the completions that wait for their acknowledgement.
    pub(crate) fn ended(&self) -> &BTreeSet<AttemptId> {
        &self.ended
    }

    /// Whether the worker is to end.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether it holds no attempt, completions without an acknowledgement included.
    pub(crate) fn holds_nothing(&self) -> bool {
        self.is_idle() && self.queued.is_empty() && self.ended.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.staging.is_empty()
            && self.ready.is_empty()
            && self.running.is_empty()
            && self.collecting.is_empty()
            && self.dropped.is_empty()
    }

    /// Returns the phase of a staged attempt.
    fn phase_when_ready(&self, id: &AttemptId) -> Phase {
        if self.together.contains(id) {
            Phase::Ready
        } else {
            Phase::Staging
        }
    }

    fn held_of(&self, now: Time, attempt: AttemptId) -> Option<HeldAttempt> {
        if self.ready.iter().any(|(id, _)| *id == attempt) {
            return Some(bare(attempt, self.phase_when_ready(&attempt)));
        }

        let progress = self.progress.get(&attempt).copied();
        let run = self
            .running
            .get(&attempt)
            .or_else(|| self.collecting.get(&attempt))?;
        let frozen_for = run.frozen_for(now);
        let phase = match (frozen_for, self.decision.reason()) {
            (Some(_), _) if run.held() => Phase::Held,
            (Some(_), Some(reason)) => Phase::Suspended(reason),
            _ => Phase::Running,
        };
        Some(HeldAttempt {
            attempt,
            phase,
            ran: run.ran(now),
            frozen_for: frozen_for.unwrap_or(Span::ZERO),
            progress,
        })
    }

    fn holds(&self, id: AttemptId) -> bool {
        self.running.contains_key(&id)
            || self.ended.contains(&id)
            || self.collecting.contains_key(&id)
            || self.staging.contains_key(&id)
            || self.dropped.contains(&id)
            || self.ready.iter().any(|(r, _)| *r == id)
            || self.queued.iter().any(|a| a.attempt == id)
    }

    fn on_assigned(&mut self, work: Vec<Assignment>, actions: &mut Vec<Action>) {
        let mut back = Vec::new();
        // These assignments and the news of the frozen attempts have crossed on their way.
        let frozen = self.running.values().any(|run| run.frozen() && !run.held());
        let full = self.leaving || self.allowed() == 0 || frozen;

        for assignment in work {
            let id = assignment.attempt;
            if self.holds(id) {
                continue; // Said twice.
            }

            if full {
                back.push(id);
            } else if assignment.work == Errand::Noop {
                self.end_unstarted(id, AttemptEnding::bare(Outcome::Succeeded), actions);
            } else {
                self.reports
                    .extend(assignment.report_every.map(|every| (id, every)));
                if let Errand::Command(command) = &assignment.work
                    && !command.takes.is_plain()
                {
                    self.takes.insert(id, command.takes);
                }
                self.queued.push_back(assignment);
            }
        }

        if !back.is_empty() {
            actions.push(Action::Return(back, self.why_not_now().to_string()));
        }
    }

    fn on_assigned_together(&mut self, work: Vec<Assignment>, actions: &mut Vec<Action>) {
        // A gang's attempt that is held already may have begun.
        let new: Vec<AttemptId> = work
            .iter()
            .map(|a| a.attempt)
            .filter(|id| !self.holds(*id))
            .collect();
        self.on_assigned(work, actions);
        let waits = new
            .into_iter()
            .filter(|id| self.queued.iter().any(|a| a.attempt == *id));
        self.together.extend(waits.collect::<Vec<_>>());
    }

    /// Returns the number of slots that the owner lets tasks use.
    fn allowed(&self) -> usize {
        self.decision.slots(self.slots as u32) as usize
    }

    /// Returns the number of attempts that take a slot: those that run, or would if the owner let
    /// them.
    fn in_slots(&self) -> usize {
        self.running.values().filter(|run| !run.held()).count()
    }

    /// Returns the number of processors that the owner lets tasks use: all that are lent, or with
    /// fewer slots the same part of them.
    fn allowed_cores(&self) -> u64 {
        let allowed = self.allowed() as u64;
        let part = u64::from(self.lends.cores) * allowed / self.slots as u64;
        part.max(allowed)
    }

    /// Returns what the attempt takes.
    fn takes_of(&self, id: &AttemptId) -> Demand {
        self.takes.get(id).copied().unwrap_or_default()
    }

    /// Returns the number of processors of the attempts that take a slot.
    fn cores_in_slots(&self) -> u64 {
        let odd = self.takes.iter().filter_map(|(id, takes)| {
            self.running.get(id).filter(|run| !run.held())?;
            Some(u64::from(takes.cores.saturating_sub(1)))
        });
        self.in_slots() as u64 + odd.sum::<u64>()
    }

    /// Whether an attempt fits beside those that were started. If none was, it does in any case.
    fn fits(&self, id: &AttemptId) -> bool {
        if self.takes.is_empty() || self.running.is_empty() {
            return true;
        }
        let takes = self.takes_of(id);
        let there = self
            .takes
            .iter()
            .filter(|(other, _)| self.running.contains_key(other));
        let (memory, gpus) = there.fold((0, 0), |(memory, gpus), (_, takes)| {
            (
                memory + u64::from(takes.memory_mib),
                gpus + u64::from(takes.gpus),
            )
        });

        let within = |taken: u64, more: u32, most: u32| {
            more == 0 || taken + u64::from(more) <= u64::from(most)
        };
        self.cores_in_slots() + u64::from(takes.cores) <= self.allowed_cores()
            && within(memory, takes.memory_mib, self.lends.memory_mib)
            && within(gpus, takes.gpus, self.lends.gpus)
    }

    /// Thaws the earliest starts in the slots and processors that may be used, and freezes the
    /// others and those that the master holds.
    fn settle(&mut self, now: Time, actions: &mut Vec<Action>) {
        let allowed = self.allowed();
        let cores = self.allowed_cores();
        if self.in_slots() <= allowed
            && self.cores_in_slots() <= cores
            && self.running.values().all(|run| run.frozen() == run.held())
        {
            return;
        }

        let mut order: Vec<(bool, u64, AttemptId)> = self
            .running
            .iter()
            .map(|(id, run)| (run.held(), run.number, *id))
            .collect();
        order.sort_unstable();

        let mut turned = Vec::new();
        let mut slots_taken = 0;
        let mut cores_taken = 0;
        for (held, _, id) in order {
            let wanted = u64::from(self.takes_of(&id).cores);
            // One task alone may have all of the host, whatever it takes.
            let fits = cores_taken == 0 && allowed == self.slots || cores_taken + wanted <= cores;
            let runs = !held && slots_taken < allowed && fits;
            if runs {
                slots_taken += 1;
                cores_taken += wanted;
            }
            let Some(run) = self.running.get_mut(&id) else {
                continue;
            };
            match (runs, run.frozen()) {
                (true, true) => {
                    run.thaw(now);
                    actions.push(Action::Thaw(id));
                }
                (false, false) => {
                    run.freeze(now);
                    // A command that was asked to end gets no more time: it would have to run for
                    // that.
                    actions.push(if run.kill_at.take().is_some() {
                        Action::Kill(id)
                    } else {
                        Action::Freeze(id)
                    });
                }
                _ => continue,
            }

            turned.push(id);
        }

        if !turned.is_empty() {
            self.unreported.extend(turned);
            self.report(now, actions);
        }
    }

    /// Stages as many attempts as there are slots beside the running ones, and starts staged ones
    /// in free slots.
    fn fill(&mut self, now: Time, actions: &mut Vec<Action>) {
        let allowed = self.allowed();
        if self.leaving || allowed == 0 {
            return;
        }

        // A dropped attempt may still be dying in its slot.
        while self.in_slots() + self.dropped.len() < allowed
            && let Some(at) = self
                .ready
                .iter()
                .position(|(id, _)| !self.together.contains(id) && self.fits(id))
            && let Some((id, limit)) = self.ready.remove(at)
        {
            self.started += 1;
            self.running
                .insert(id, RunningCommand::started(now, self.started, limit));
            self.unreported.insert(id);
            self.report_at.get_or_insert(now + REPORT_DELAY);
            actions.push(Action::Start(id));
        }

        let ahead = match self.stages_ahead {
            true => (2 * allowed).saturating_sub(self.in_slots()),
            false => allowed.saturating_sub(self.in_slots() + self.dropped.len()),
        };
        while self.staging.len() + self.ready.len() + self.collecting.len() < ahead
            && let Some(Assignment {
                attempt,
                limit,
                work,
                ..
            }) = self.queued.pop_front()
        {
            if let Errand::Command(command) = work {
                self.staging.insert(attempt, limit);
                actions.push(Action::Stage(attempt, command));
            }
        }
    }

    fn on_exited(&mut self, now: Time, id: AttemptId) {
        if let Some(mut run) = self.running.remove(&id) {
            run.end(now);
            self.collecting.insert(id, run);
        }
    }

    fn on_ended(
        &mut self,
        now: Time,
        id: AttemptId,
        ending: Box<AttemptEnding>,
        actions: &mut Vec<Action>,
    ) {
        self.on_exited(now, id);
        self.together.remove(&id);
        self.reports.remove(&id);
        self.progress.remove(&id);
        self.unreported.remove(&id);

        if self.dropped.remove(&id) {
            actions.push(Action::Discard(ending));
        } else if let Some(run) = self.collecting.remove(&id) {
            self.on_collected(now, id, &run, *ending, actions);
        } else if self.staging.remove(&id).is_some() {
            self.end_unstarted(id, *ending, actions);
        }
    }

    fn on_collected(
        &mut self,
        now: Time,
        id: AttemptId,
        run: &RunningCommand,
        mut ending: AttemptEnding,
        actions: &mut Vec<Action>,
    ) {
        match run.verdict {
            EndCause::Open => {}
            EndCause::TimedOut(limit) => ending.outcome = Outcome::TimedOut(limit),
            EndCause::Stopped => ending.outcome = Outcome::Stopped,
            EndCause::HeldTooMuch(bytes) => ending.outcome = self.held_too_much(bytes),
            EndCause::Returned(why) => {
                return give_back_ended((now, id), run, why, ending, actions);
            }
            EndCause::Weighed(bytes) => {
                actions.push(Action::Weighed(id, bytes));
                let why = BackReason::Memory;
                return give_back_ended((now, id), run, why, ending, actions);
            }
        }

        self.end(id, ending, (run.ran(now), run.suspended(now)), actions);
    }

    fn end_unstarted(&mut self, id: AttemptId, ending: AttemptEnding, actions: &mut Vec<Action>) {
        self.end(id, ending, (Span::ZERO, Span::ZERO), actions);
    }

    fn end(
        &mut self,
        id: AttemptId,
        ending: AttemptEnding,
        times: (Span, Span),
        actions: &mut Vec<Action>,
    ) {
        self.ended.insert(id);
        let AttemptEnding {
            outcome,
            cpu,
            stdout,
            stderr,
            outputs,
            warnings,
            confined,
            took,
        } = ending;

        let (ran, suspended) = took.unwrap_or(times);
        actions.push(Action::Spool(Completion {
            attempt: id,
            outcome,
            ran,
            suspended,
            cpu,
            stdout,
            stderr,
            outputs,
            warnings,
            confined,
        }));
    }

    fn on_stop(&mut self, now: Time, id: AttemptId, actions: &mut Vec<Action>) {
        self.reports.remove(&id);
        if let Some(run) = self.running.get_mut(&id) {
            if run.is_open() {
                run.verdict = EndCause::Stopped;
                ask_to_end(run, id, now + self.grace, actions);
            }
        } else if self.take_unstarted(id, actions) {
            self.end_unstarted(id, AttemptEnding::bare(Outcome::Stopped), actions);
        }
    }

    /// As [`Self::on_stop`], with a checkpoint once the command has ended.
    fn on_yield(&mut self, now: Time, id: AttemptId, actions: &mut Vec<Action>) {
        if self.running.get(&id).is_some_and(RunningCommand::is_open) {
            actions.push(Action::Save(id));
        }
        self.on_stop(now, id, actions);
    }

    /// Holds an attempt whose slot the master wants for another, or releases it. Only a running
    /// attempt can be held.
    fn on_hold(&mut self, now: Time, id: AttemptId, held: bool) {
        if let Some(run) = self.running.get_mut(&id).filter(|run| run.is_open()) {
            run.hold(now, held);
            self.unreported.insert(id);
            self.report_at.get_or_insert(now + REPORT_DELAY);
        }
    }

    /// Removes an attempt that was not started, and returns whether there was one.
    fn take_unstarted(&mut self, id: AttemptId, actions: &mut Vec<Action>) -> bool {
        self.together.remove(&id);
        if let Some(at) = self.queued.iter().position(|a| a.attempt == id) {
            self.queued.remove(at);
            return true;
        }

        let ready = self
            .ready
            .iter()
            .position(|(r, _)| *r == id)
            .and_then(|at| self.ready.remove(at))
            .is_some();
        let prepared = ready || self.staging.remove(&id).is_some();
        if prepared {
            self.dropped.insert(id);
            actions.push(Action::Drop(id));
        }

        prepared
    }

    fn on_abandon(&mut self, id: AttemptId, actions: &mut Vec<Action>) {
        self.reports.remove(&id);
        if self
            .running
            .get(&id)
            .or(self.collecting.get(&id))
            .is_some_and(|run| run.verdict == EndCause::Stopped)
        {
            // It ends as the master wanted, and reports the time that it took.
            return;
        }

        if self.ended.remove(&id) {
            actions.push(Action::Forget(vec![id]));
        } else if self.running.remove(&id).is_some() || self.collecting.remove(&id).is_some() {
            self.progress.remove(&id);
            self.unreported.remove(&id);
            self.dropped.insert(id);
            actions.push(Action::Drop(id));
        } else {
            self.take_unstarted(id, actions);
        }
    }

    fn on_acknowledged(&mut self, mut attempts: Vec<AttemptId>, actions: &mut Vec<Action>) {
        attempts.retain(|id| self.ended.remove(id));
        if !attempts.is_empty() {
            actions.push(Action::Forget(attempts));
        }
    }

    fn on_decided(&mut self, now: Time, decision: Decision, actions: &mut Vec<Action>) {
        let before = self.owner();
        let allowed = self.allowed();
        let last = std::mem::replace(&mut self.decision, decision);
        if last == decision {
            return;
        }

        let owner = self.owner();
        if before.lets_run() != owner.lets_run() {
            self.owner_since = now;
        }

        let fewer = self.allowed() < allowed;
        if fewer {
            self.settle(now, actions);
        }
        if owner != before {
            actions.push(Action::Owner(owner));
        }
        if fewer {
            self.give_back(actions);
        }

        self.settle(now, actions);
        match (last.evicts(), decision.evicts()) {
            (false, true) => self.evict(now, actions),
            (true, true) => {}
            (_, false) => self.weighing = None,
        }

        // The reason why the others stay frozen may have changed.
        if owner.reason() != before.reason() {
            self.unreported.extend(self.running.keys());
            self.report(now, actions);
        }
    }

    /// Enforces time limits, grace times and `patience`.
    fn enforce_times(&mut self, now: Time, actions: &mut Vec<Action>) {
        if let Some(patience) = self.patience_now() {
            self.return_frozen(now, Some(patience), actions);
        }
        self.judge(now, actions);

        for (id, run) in &mut self.running {
            if run.kill_at.is_some_and(|at| at <= now) {
                run.kill_at = None;
                actions.push(Action::Kill(*id));
            }
            if let Some(limit) = run.overrun(now) {
                run.verdict = EndCause::TimedOut(limit);
                ask_to_end(run, *id, now + self.grace, actions);
            }
        }
    }

    fn report_late(&mut self, now: Time, actions: &mut Vec<Action>) {
        if self.report_at.is_some_and(|at| at <= now) {
            self.report(now, actions);
        }
    }

    fn report(&mut self, now: Time, actions: &mut Vec<Action>) {
        self.report_at = None;
        let news = std::mem::take(&mut self.unreported);
        let held: Vec<HeldAttempt> = news
            .into_iter()
            .filter_map(|id| self.held_of(now, id))
            .collect();
        if !held.is_empty() {
            actions.push(Action::Report(held));
        }
    }
}

/// Returns the entry of an attempt whose command does not run: bare of times.
fn bare(attempt: AttemptId, phase: Phase) -> HeldAttempt {
    HeldAttempt {
        attempt,
        phase,
        ran: Span::ZERO,
        frozen_for: Span::ZERO,
        progress: None,
    }
}

/// Asks a command to end for this cause, after a checkpoint.
fn save_and_end(
    (id, run): (AttemptId, &mut RunningCommand),
    cause: EndCause,
    kill_at: Time,
    actions: &mut Vec<Action>,
) {
    run.verdict = cause;
    actions.push(Action::Save(id));
    ask_to_end(run, id, kill_at, actions);
}

/// Asks a command to end. A frozen tree cannot follow the request and must not run for it, so it is
/// killed.
fn ask_to_end(run: &mut RunningCommand, id: AttemptId, kill_at: Time, actions: &mut Vec<Action>) {
    if run.frozen() {
        actions.push(Action::Kill(id));
    } else {
        run.kill_at = Some(kill_at);
        actions.push(Action::Terminate(id));
    }
}
