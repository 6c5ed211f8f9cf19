//! The entry point: one `Event` in, its `Effect`s out. The handlers live in `handlers`.

use std::collections::BTreeSet;

use common::{HostId, Incarnation, JobId, TaskId, Time};

use crate::prediction::experience::Experience;
use crate::protocol::effect::{Effect, EndReason};
use crate::protocol::event::Event;
use crate::state::foresight::Foresight;
use crate::state::host::Hosts;
use crate::state::job::Jobs;
use crate::state::settings::Settings;
use crate::state::shares::Shares;

/// The scheduler: a deterministic function of its settings and of the events that it was given.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) settings: Settings,
    pub(crate) incarnation: Incarnation,
    pub(crate) jobs: Jobs,
    pub(crate) hosts: Hosts,
    pub(crate) foresight: Foresight,
    /// The time of the latest event. It never runs backwards.
    pub(crate) now: Time,
    /// The number of events so far.
    pub(crate) events: u64,
    /// Tasks of which a result went to another party. Their votes are counted anew with the next
    /// event, when all parties are told.
    pub(crate) reowned: BTreeSet<TaskId>,
}

impl Scheduler {
    /// A scheduler that knows nothing yet; attempts that it starts carry `incarnation`.
    pub fn new(settings: Settings, incarnation: Incarnation) -> Self {
        let mut jobs = Jobs::default();
        jobs.lines.shares = Shares::new(settings.sharing.clone());
        Self {
            settings,
            incarnation,
            jobs,
            hosts: Hosts::default(),
            foresight: Foresight::default(),
            now: Time::default(),
            events: 0,
            reowned: BTreeSet::new(),
        }
    }

    /// Handles one event and appends the effects to `effects`, in order. Total: every event in
    /// every state has an answer, even if that is to do nothing. A `now` earlier than the latest
    /// time seen is ignored.
    ///
    /// Leases run out only with [`Event::Tick`], so that heartbeats in the caller's queue are
    /// handled first.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        self.go_on_to(now);
        let job = foretold_anew(&event);
        let from = effects.len();
        // A host that joins says first what it offers, and only then what it holds; a change of owner
        // may change the parties of several hosts.
        let more_comes = matches!(event, Event::HostOffers { .. } | Event::HostStanding { .. });
        let delivered = self.apply(event, effects);
        if more_comes {
            self.hosts.announce(self.now, effects);
        } else {
            self.follow(delivered, job, from, effects);
        }
    }

    /// Handles events that are known at the same time: no attempt starts before all of them are
    /// noted.
    pub fn step_all(
        &mut self,
        now: Time,
        events: impl IntoIterator<Item = Event>,
        effects: &mut Vec<Effect>,
    ) {
        self.go_on_to(now);
        let mut delivered = None;
        let mut job = None;
        let from = effects.len();

        for event in events {
            job = foretold_anew(&event).or(job);
            delivered = self.apply(event, effects).or(delivered);
        }

        self.follow(delivered, job, from, effects);
    }

    fn go_on_to(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.jobs.lines.shares.now = self.now;
    }

    /// Does what follows from the events, whose effects are those from `from` on: counts votes of
    /// hosts that have other owners, lets jobs go that waited for others, starts attempts, predicts
    /// `job`, and announces the hosts whose state changed.
    fn follow(
        &mut self,
        mut delivered: Option<HostId>,
        job: Option<JobId>,
        from: usize,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(measured) = self.jobs.starts.median()
            && self.settings.measures_starts
        {
            self.settings.start_cost = measured;
        }
        self.foresight.longest_start = self.jobs.starts.longest();
        self.settle_reowned(effects);
        let mut seen = from;
        let settles = |effect: &Effect| matches!(effect, Effect::JobSettled { .. });
        loop {
            self.on_jobs_ended(seen, effects);
            seen = effects.len();
            self.dispatch(delivered.take(), effects);
            // A preempted attempt may have been the last one of a job for which others wait.
            if !effects[seen..].iter().any(settles) {
                break;
            }
        }

        self.watch_overruns(&effects[from..]);
        if let Some(job) = job.filter(|_| self.settings.learns_errors) {
            self.note_prediction(job);
        }

        if cfg!(debug_assertions) {
            self.check();
        }
        self.hosts.announce(self.now, effects);
    }

    /// Returns the time at which [`Event::Tick`] is wanted next if nothing else happens. A time in
    /// the past means at once.
    pub fn next_wakeup(&self) -> Option<Time> {
        let index = &self.hosts.index;
        let of_hosts = [&index.checks, &index.backlogs, &index.benches];
        let of_hosts = of_hosts.into_iter().filter_map(BTreeSet::first);
        let alarm = self.jobs.lines.alarms.first().map(|(at, _)| *at);
        of_hosts
            .map(|(at, _)| *at)
            .chain(alarm)
            .chain(self.next_overrun())
            .min()
    }

    /// Takes over the [`Experience`] of earlier days.
    fn on_learned(&mut self, experience: Experience) {
        for (user, (cancels, decisions)) in &experience.drops {
            let speculator = self.jobs.speculators.entry(user.clone()).or_default();
            speculator.cancels = *cancels;
            speculator.decisions = *decisions;
        }
        self.jobs.lines.shares.restore(&experience.shares);
        self.foresight = Foresight::from(experience);
    }

    /// Handles the event. Returns the host that has just delivered a completion, and so may want
    /// more short tasks.
    fn apply(&mut self, event: Event, fx: &mut Vec<Effect>) -> Option<HostId> {
        self.events += 1;
        match event {
            Event::JobSubmitted { job, bag, tested } => {
                self.on_job_submitted(job, *bag, tested, fx);
            }
            Event::JobRestored { job, bag, progress } => {
                self.on_job_restored(job, *bag, &progress, fx);
            }
            Event::JobCancelled { job, tasks } => self.on_job_cancelled(job, tasks.as_ref(), fx),
            Event::JobRetried { job, tasks } => self.on_job_retried(job, &tasks, fx),
            Event::JobForgotten { job } => self.on_job_forgotten(job),
            Event::TasksRequested { job, tasks } => self.on_tasks_requested(job, tasks.as_ref()),
            Event::UnrequestedCancelled { job } => self.on_unrequested_cancelled(job, fx),
            Event::RestDecided { user, dropped } => self.on_rest_decided(&user, dropped),
            Event::TasksAdded { job, tasks } => self.on_tasks_added(job, &tasks),
            Event::JobClosed { job } => self.on_job_closed(job, fx),
            Event::ResultsGone { job, tasks } => self.on_results_gone(job, &tasks, fx),
            Event::ShareFull { user, full } => self.on_share_full(user, full),
            Event::HostJoined {
                host,
                slots,
                speed,
                status,
                held,
            } => {
                self.on_host_joined(host, slots, speed, status, &held, fx);
            }
            Event::HostHeard { host, status, held } => self.on_host_heard(host, status, &held, fx),
            Event::HostKnown {
                host,
                speed,
                record,
                habit,
            } => self.on_host_known(host, speed, record, habit),
            Event::HostOffers { host, offers } => self.hosts.set_offers(host, *offers, self.now),
            Event::HostWindows { host, windows } => self.on_host_windows(host, *windows),
            Event::HostLent { host, loan } => self.on_host_lent(host, loan),
            Event::HostStanding { host, party, valid } => self.on_host_standing(host, party, valid),
            Event::ResultCompared { attempt, agrees } => {
                self.on_result_compared(attempt, &agrees, fx);
            }
            Event::Learned(experience) => self.on_learned(*experience),
            Event::AttemptsMoved { host, held } => self.on_attempts_moved(host, &held, fx),
            Event::OwnerChanged { host, owner } => self.on_owner_changed(host, owner),
            Event::HostDisconnected { host, how } => self.on_host_disconnected(host, how),
            Event::HostClosing { host } => self.on_host_closing(host),
            Event::HostLeft { host } => self.on_host_left(host, &EndReason::HostLeft, fx),
            Event::HostRevoked { host } => self.on_host_left(host, &EndReason::Revoked, fx),
            Event::HostDrained { host } => self.on_host_drained(host, true),
            Event::HostUndrained { host } => self.on_host_drained(host, false),
            Event::AttemptUsed { host, attempt, cpu } => self.on_attempt_used(host, attempt, cpu),
            Event::AttemptWeighed {
                host,
                attempt,
                bytes,
            } => self.on_attempt_weighed(host, attempt, bytes),
            Event::AttemptEnded {
                host,
                attempt,
                outcome,
                ran,
            } => {
                return self.on_attempt_ended(host, attempt, &outcome, ran, fx);
            }
            Event::AttemptsReturned { host, attempts } => {
                self.on_attempts_returned(host, &attempts, fx);
            }
            Event::MasterPaused { span } => self.on_master_paused(span),
            Event::Tick => {
                self.on_tick(fx);
                self.on_alarms();
                self.evict_overrunning(fx);
                self.probe_benched();
                self.recall(fx);
            }
        }

        None
    }
}

/// Returns the job whose completion is to be predicted anew after this event.
fn foretold_anew(event: &Event) -> Option<JobId> {
    match event {
        Event::JobSubmitted { job, .. } | Event::JobClosed { job } => Some(*job),
        Event::AttemptEnded { attempt, .. } => Some(attempt.task.job),
        _ => None,
    }
}
