//! Speculative backfilling (Gainaru et al., section 4.3): an interval that may end before a task is
//! done is given to the waiting task that should make the most of it. Such gaps are hosts reserved
//! for gangs that wait for more, and hosts whose loans end. Tasks that should be done in time go
//! first, in queue order: they fit. A deadline's calendar has no gaps but the ends of loans: each
//! slot's next task starts as soon as the slot is free.
//!
//! Backfill delays no job: no gap is filled while a task with a promise waits, and a task in a gap
//! is preempted, frozen where its host can hold it, as soon as the gang of the reservation wants
//! the slot. The gangs' starts live in `crate::gang`; idle windows of random length in `idle`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use common::{AttemptId, HostId, JobId, Span, Speed, TaskId, Time};

use crate::policy::ordering::Rank;
use crate::prediction::lessons::FIRST_RUNS;
use crate::prediction::predict::rate_of;
use crate::prediction::reservation::{self, GapCandidate, LearnedLaw, RunTimes};
use crate::protocol::effect::{Effect, Gap, StartReason};
use crate::state::gang::KeptSlot;
use crate::state::host::Host;
use crate::state::job::Job;
use crate::state::pool::PoolId;
use crate::state::scheduler::Scheduler;

/// The most hosts with gaps considered at a time, and the most waiting jobs for each.
const MOST_GAPS: usize = 16;
const MOST_JOBS: usize = 8;
/// The least probability of being done by the end of a gap: a task below it would mostly be
/// computed in vain (the paper takes every task that has a chance; `reproduce gainaru` with 0,
/// 0.25, 0.5 and 0.8 speaks for a half).
const LEAST_DONE: f64 = 0.5;
/// The part of a loan before its end at which an unfinished attempt is killed, so that it is not
/// frozen first and given back much later.
const EARLY: f64 = 0.02;

/// Free slots of a host, with the time at which they end.
#[derive(Debug, Clone, Copy)]
struct WindowSlot {
    host: HostId,
    free: usize,
    until: Time,
    /// The reservation for a gang that it is.
    kept_for: Option<KeptSlot>,
}

/// The task that makes the most of a gap.
struct Filler {
    job: JobId,
    index: u32,
    /// The probability that it is done in time; `None` where it keeps its state.
    done: Option<f64>,
}

impl Scheduler {
    /// Starts waiting tasks in gaps that they do not surely fit.
    pub(crate) fn fill_gaps(&mut self, fx: &mut Vec<Effect>) {
        let none = self.jobs.kept.is_empty() && self.hosts.index.lent.is_empty();
        if none || self.jobs.lines.waiting.is_empty() || self.promised_waits().is_some() {
            return;
        }

        for slot in self.gaps() {
            for _ in 0..slot.free {
                let host = self.hosts.table.get(&slot.host);
                let Some(filler) = host.and_then(|host| self.filler(host, &slot)) else {
                    break;
                };
                self.fill(slot, &filler, fx);
            }
        }
    }

    /// Returns the next job, if it has a promise.
    fn promised_waits(&self) -> Option<JobId> {
        let next = self.jobs.lines.waiting.first();
        let next = next.filter(|rank| rank.promised());
        next.map(|rank| rank.job)
    }

    /// Returns the slots that are free for a limited time, of lent hosts those that one of the next
    /// jobs can use. Where these are many, each turn goes on behind the last one: none hides the
    /// others for long.
    fn gaps(&mut self) -> Vec<WindowSlot> {
        let now = self.now;
        let ranks = self.jobs.lines.waiting.iter().take(MOST_JOBS);
        let jobs = ranks.filter_map(|rank| self.jobs.table.get(&rank.job));
        let fill = jobs.filter(|job| job.fills_gaps());
        let pools: BTreeSet<Option<PoolId>> = fill.map(|job| job.pool).collect();

        let kept = self.jobs.kept.iter().filter_map(|kept| {
            let gang = self.jobs.table.get(&kept.gang)?.gang.as_ref()?;
            let left_s = gang.holdout?.left_s(now.secs());
            Some(WindowSlot {
                host: kept.host,
                free: 1,
                until: now + Span::from_secs_f64(left_s),
                kept_for: Some(*kept),
            })
        });

        let index = &self.hosts.index;
        // Where no job fills gaps, no host is looked at.
        let ready = (!pools.is_empty()).then(|| self.hosts.ready());
        let lent = ready.into_iter().flatten().filter_map(|host| {
            let until = host.lent_until(now)?;
            let suits = |pool: &Option<PoolId>| index.ready_since(*pool, host).is_some();
            pools.iter().any(suits).then(|| WindowSlot {
                host: host.id,
                free: host.free_slots(),
                until,
                kept_for: None,
            })
        });

        let lasts = |slot: &WindowSlot| slot.until > now;
        let mut slots: Vec<WindowSlot> = kept.chain(lent).filter(lasts).collect();
        if slots.len() > MOST_GAPS {
            let from = self.hosts.index.gaps_from % slots.len();
            slots.rotate_left(from);
            slots.truncate(MOST_GAPS);
            self.hosts.index.gaps_from = from + MOST_GAPS;
        }
        slots
    }

    /// Returns the waiting task that makes the most of a free slot, if any does; among equals the
    /// next one.
    fn filler(&self, host: &Host, slot: &WindowSlot) -> Option<Filler> {
        let now = self.now;
        let start_cost = self.settings.start_cost;
        let until = host
            .lent_until(now)
            .map_or(slot.until, |lent| lent.min(slot.until));
        let length = (until.since(now).secs() - start_cost.secs()) * host.speed.factor();

        // A job that fits a loan was asked before, and its policy may have declined.
        let asked = |job: &Job| {
            slot.kept_for.is_some() || job.too_long_for(host, now, start_cost).is_some()
        };
        let fits = |job: &Job| match slot.kept_for {
            None => host.room_for(job.demand) > 0,
            Some(kept) => host.has_room_beside(job.demand, kept.takes),
        };
        // A gang is not made to wait for what its user expects to take longer, whatever earlier tasks took.
        let may_end = |job: &Job| {
            let rate = rate_of(job.computing(), host.speed.factor());
            let takes_s = job
                .untried_s()
                .map(|work_s| start_cost.secs() + work_s / rate);
            let anyhow = slot.kept_for.is_none() || job.rules.checkpoint;
            anyhow || takes_s.is_none_or(|takes_s| takes_s <= until.since(now).secs())
        };
        let does = |job: &&Job| {
            job.fills_gaps()
                && self.jobs.lines.shares.room(job.user) != Some(0)
                && may_end(job)
                && asked(job)
                && host.suits(&job.rules.needs)
                && fits(job)
                && job.bar(host.id).is_none()
        };

        let ranks = self.jobs.lines.waiting.iter().take(MOST_JOBS);
        let jobs: Vec<&Job> = ranks
            .filter_map(|rank| self.jobs.table.get(&rank.job))
            .filter(does)
            .collect();
        // A task that keeps its state makes use of the whole gap.
        let next = |job: &&Job| job.alternatives_on(host.id, &self.hosts).next();
        let mut kept = jobs.iter().filter(|job| job.rules.checkpoint);
        if let Some((job, index)) = kept.find_map(|job| Some((job, next(job)?))) {
            return Some(Filler {
                job: job.rank.job,
                index,
                done: None,
            });
        }

        let laws = jobs.into_iter();
        let laws = laws.filter_map(|job| Some((job, self.law(job)?)));
        let laws: Vec<(&Job, Cow<'_, LearnedLaw>)> = laws.collect();
        let mut fillers = Vec::new();
        let mut candidates = Vec::new();

        for (job, law) in &laws {
            for index in job.alternatives_on(host.id, &self.hosts) {
                let failed = job.killed_s(index);
                let done = done_by(length, law.as_ref(), failed);
                if done >= LEAST_DONE {
                    fillers.push(Filler {
                        job: job.rank.job,
                        index,
                        done: Some(done),
                    });
                    candidates.push(GapCandidate {
                        law: law.as_ref(),
                        failed,
                        processors: 1.0,
                    });
                }
            }
        }

        let (at, _) = reservation::fill(
            reservation::ProcessorGap {
                length,
                processors: 1.0,
            },
            &candidates,
        )?;
        Some(fillers.swap_remove(at))
    }

    /// Returns the law of the run times of a job's tasks, in seconds on a host of speed 1, where
    /// enough runs are known.
    fn law<'a>(&'a self, job: &'a Job) -> Option<Cow<'a, LearnedLaw>> {
        if let Some(law) = job.lessons.law() {
            return Some(Cow::Borrowed(law));
        }
        let known = &self.foresight.experience.runs;
        let runs = known.of(&job.stack.terms.estimator);
        let law = LearnedLaw::expected(runs).filter(|_| runs.len() as u64 >= FIRST_RUNS);
        law.map(Cow::Owned)
    }

    fn fill(&mut self, slot: WindowSlot, filler: &Filler, fx: &mut Vec<Effect>) {
        let WindowSlot {
            host,
            until,
            kept_for,
            ..
        } = slot;
        let left = until.since(self.now);
        let job = self.jobs.table.get_mut(&filler.job);
        if job.and_then(|job| job.take_waiting(filler.index)).is_none() {
            return;
        }

        if let Some(slot) = kept_for {
            self.hosts.reserve(host, slot.takes, false, self.now);
            if let Some(at) = self.jobs.kept.iter().position(|kept| *kept == slot) {
                self.jobs.kept.swap_remove(at);
            }
        }

        let done = filler.done.map(|done| (done * 100.0).round() as u8);
        let why = StartReason::Gap(Gap {
            left,
            done,
            kept_for: kept_for.map(|kept| kept.gang),
        });
        let (mut starter, jobs) = self.starter();
        let Some(job) = jobs.table.get_mut(&filler.job) else {
            return;
        };

        // An owner's return ends the gap at a known time; a gang may start later than predicted, so
        // no limit is set.
        let most = Span::from_secs_f64(left.secs() * (1.0 - EARLY));
        let ends = kept_for.is_none() && filler.done.is_some();
        starter.most = ends.then_some(most);

        let number = starter.start(job, filler.index, host, why, fx);
        if let Some(number) = number.filter(|_| kept_for.is_some()) {
            let attempt = AttemptId {
                task: TaskId::new(filler.job, filler.index),
                number,
                incarnation: starter.incarnation,
            };
            jobs.fillers.insert(attempt, host);
        }

        jobs.lines.sync(job);
    }
}

impl Scheduler {
    /// Removes from `fillers` the attempts that have ended, and all of them if no gang waits.
    pub(crate) fn tend_fillers(&mut self) {
        if self.jobs.fillers.is_empty() {
            return;
        }

        let holds_out = |id: &JobId| {
            let gang = self.jobs.table.get(id).and_then(|job| job.gang.as_ref());
            gang.is_some_and(|gang| gang.formed.is_none())
        };
        if !self.jobs.gangs.iter().any(holds_out) {
            return self.jobs.fillers.clear();
        }

        self.jobs.fillers.retain(|attempt, host| {
            let host = self.hosts.table.get(host);
            let load = host.and_then(|host| host.books.get(attempt));
            load.is_some_and(|load| !load.frozen && !load.stopping)
        });
    }

    /// Returns the hosts on which an attempt would be preempted for a job of this rank, with their
    /// speeds; each once, whatever it holds.
    pub(crate) fn filled(&self, rank: Rank) -> Vec<(Speed, HostId)> {
        let after = |attempt: &AttemptId| {
            let job = self.jobs.table.get(&attempt.task.job);
            job.is_some_and(|job| job.rank > rank)
        };
        let fillers = self.jobs.fillers.iter();
        let fillers = fillers.filter(|(attempt, _)| after(attempt));
        let on: BTreeSet<&HostId> = fillers.map(|(_, host)| host).collect();

        let hosts = on.into_iter().filter_map(|id| self.hosts.table.get(id));
        let usable = hosts.filter(|host| host.takes_work());
        usable.map(|host| (host.speed, host.id)).collect()
    }

    /// Whether the host would have room for a task of the job without the attempts in gaps of it.
    pub(crate) fn fits_for_fillers(&self, id: HostId, job: &Job) -> bool {
        let Some(host) = self.hosts.table.get(&id) else {
            return false;
        };
        let fillers = self.jobs.fillers.iter().filter(|(_, on)| **on == id);
        let loads: Vec<_> = fillers
            .filter_map(|(attempt, _)| host.books.get(attempt))
            .collect();
        host.has_room_without(job.demand, &loads, &[])
    }

    /// Preempts the last in order of the attempts in gaps of this host for a task. Returns whether
    /// there was one.
    pub(crate) fn oust(&mut self, id: HostId, by: TaskId, fx: &mut Vec<Effect>) -> bool {
        let rank = |attempt: &AttemptId| self.jobs.table.get(&attempt.task.job).map(|job| job.rank);
        let fillers = self.jobs.fillers.iter().filter(|(_, on)| **on == id);
        let Some(attempt) = fillers
            .map(|(attempt, _)| *attempt)
            .max_by_key(|attempt| (rank(attempt), *attempt))
        else {
            return false;
        };
        self.jobs.fillers.remove(&attempt);
        if !self.try_freeze(id, &[attempt], by, fx).is_empty() {
            return true;
        }

        let Some(host) = self.hosts.table.get(&id) else {
            return true;
        };
        let Some(load) = host.books.get(&attempt) else {
            return true;
        };
        let job = self.jobs.table.get_mut(&attempt.task.job);
        let kept = job.as_ref().is_some_and(|job| job.rules.checkpoint);
        if let Some(job) = job
            && load.phase.executing()
        {
            let of = (host, job.computing());
            let start_cost = self.settings.start_cost;
            let done = (self.foresight).work_done(of, load, true, start_cost, self.now);
            job.outlived(attempt.task.index, done.0);
        }
        self.preempt(id, attempt, by, kept, fx);
        true
    }

    /// Preempts all attempts in gaps while a task with a promise waits.
    pub(crate) fn clear_for_promised(&mut self, fx: &mut Vec<Effect>) {
        let filled = !self.jobs.fillers.is_empty();
        let Some(id) = self.promised_waits().filter(|_| filled) else {
            return;
        };
        let job = self.jobs.table.get(&id);
        let next = job.and_then(|job| job.in_order().next());
        let by = TaskId::new(id, next.unwrap_or_default());
        while let Some(host) = self.jobs.fillers.values().next().copied() {
            self.oust(host, by, fx);
        }
    }
}

/// Returns the probability that a run that takes longer than `failed` is done by `length`.
fn done_by(length: f64, law: &LearnedLaw, failed: f64) -> f64 {
    let before = law.cdf(failed);
    let left = 1.0 - before;
    if left > 0.0 {
        (law.cdf(length) - before).max(0.0) / left
    } else {
        0.0
    }
}

impl Job {
    /// Whether its tasks may start in gaps: they may be ended before they are done, to be tried
    /// again.
    fn fills_gaps(&self) -> bool {
        self.promise.is_none()
            && self.gang.is_none()
            && self.speculation.is_none()
            && !self.rules.quorum.compares()
    }
}
