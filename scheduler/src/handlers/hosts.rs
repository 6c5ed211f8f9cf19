//! The handlers of hosts: joined, heard of, silent and gone.

use common::attempt::{HeldAttempt, Phase};
use common::host::{OwnerState, Status};
use common::{AttemptId, HostId, Span, Speed, Time};

use crate::prediction::experience::{Habit, Temper, TrackRecord};
use crate::prediction::silence::Parting;
use crate::protocol::effect::{Effect, EndReason};
use crate::state::host::{Host, HostAttempt, Liveness, Presence};
use crate::state::job::{EndedCopy, Jobs};
use crate::state::scheduler::Scheduler;

/// The number of heartbeats in a row without an attempt after which it is lost: it never arrived at
/// its host, or was lost there. One is not enough: the assignment may have crossed the heartbeat on
/// its way. Two are, since a worker sends the second one a heartbeat's time later, and assignments
/// travel in order on one stream.
const MISSING_BEATS: u32 = 2;

/// The reasons for benching a host that lists nothing of what it got, whose worker's process went on, or did not.
const LOSES: &str = "connects anew without what it got, though it was up all the time";
const DIES: &str = "its worker's process dies soon after it gets tasks: see the worker's log";

impl Scheduler {
    pub(crate) fn on_host_joined(
        &mut self,
        id: HostId,
        slots: u32,
        speed: Speed,
        status: Status,
        held: &[HeldAttempt],
        fx: &mut Vec<Effect>,
    ) {
        let host = self.hosts.entry(id, self.now);
        let up_since = self.now - status.up_for;
        let known = !matches!(host.presence, Presence::Awaited | Presence::Left)
            && host.liveness != Liveness::Lost;

        let again = known && host.heard.is_some_and(|heard| up_since <= heard);
        if known && !again {
            self.foresight
                .on_failure(host, host.heard.unwrap_or(self.now));
        }
        if known {
            let kept = |held: &HeldAttempt| host.books.contains(&held.attempt);
            let idle = host.books.len() == 0;
            let gone = if idle { !again } else { !held.iter().any(kept) };
            self.foresight.on_silence_ended(host, gone, self.now);
        }

        let awaited = host.presence == Presence::Awaited;
        // A host that was switched off, or whose worker was stopped, has come up since it was last heard. One whose worker's
        // process died was up itself.
        let died = host.how == Parting::Reset && !again;
        let went_on = (again || died) && !host.closing;
        host.slots = slots;
        host.speed = speed;
        host.presence = Presence::Connected;
        host.parted = None;
        host.how = Parting::Silent;
        host.silent_since = self.now;
        host.closing = false;

        if !again {
            host.owner = status.owner;
            host.owner_since = up_since;
            host.up_seen = self.now;
            host.owner_seen = self.now;
            host.cpu_seen = self.now;
        }

        self.hosts.count(id);
        if awaited {
            self.hosts.index.partings.note_back(self.now);
        }
        self.hear(id, Some((status.owner, status.owner_for)));
        self.note_status(id, status);
        self.hosts.index_anew(id, self.now);
        self.watch(id);
        let loses = went_on && self.has_lost_all(id, held);
        self.reconcile(id, held, true, fx);
        if loses {
            self.note_return(id, if died { DIES } else { LOSES });
        }

        // The last `Begin` may not have reached it.
        held.iter()
            .filter(|held| held.phase == Phase::Ready)
            .for_each(|held| self.jobs.not_heard(held.attempt));
    }

    pub(crate) fn on_host_heard(
        &mut self,
        id: HostId,
        status: Status,
        held: &[HeldAttempt],
        fx: &mut Vec<Effect>,
    ) {
        if self.hear(id, Some((status.owner, status.owner_for))) {
            self.note_status(id, status);
            self.reconcile(id, held, false, fx);
        }
    }

    /// Takes over the host's `TrackRecord` and `Habit` of earlier days.
    pub(crate) fn on_host_known(
        &mut self,
        id: HostId,
        speed: Speed,
        record: Option<TrackRecord>,
        habit: Habit,
    ) {
        let host = self.hosts.entry(id, self.now);
        host.speed = speed;
        host.record = record;
        host.habit = habit;
        if habit != Habit::default() {
            host.temper = Temper::of(&habit, self.foresight.common());
        }

        self.hosts.count(id);
    }

    fn note_status(&mut self, id: HostId, status: Status) {
        let now = self.now;
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        self.foresight.on_cpu(host, now);
        host.cpu = f64::from(status.cpu).clamp(0.0, 1.0);
        host.up_since = now - status.up_for;
        host.owner_since = now - status.owner_for;
    }

    /// Compares the host's list with its books. A listed attempt that is not on them is put back if
    /// it once was there and its task can still use it; else the host may drop it. An attempt on
    /// the books that is not listed is lost: at once when the host joins, else after [`MISSING_BEATS`]
    /// heartbeats, the last of which came long enough after its assignment to know of it.
    fn reconcile(&mut self, id: HostId, held: &[HeldAttempt], joining: bool, fx: &mut Vec<Effect>) {
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        host.beat = host.beat.wrapping_add(1);
        let back = std::mem::take(&mut host.back);

        let mut listed = 0;
        let mut strangers = Vec::new();
        for held in held {
            match host.books.at_mut(&held.attempt) {
                Some(load) => {
                    listed += usize::from(load.seen != host.beat);
                    load.seen = host.beat;
                    moved(&mut self.jobs, host, held, self.settings.max_copies, fx);
                    if back && let Some(job) = self.jobs.table.get_mut(&held.attempt.task.job) {
                        job.on_back(held.attempt);
                    }
                }
                None => strangers.push(held),
            }
        }

        if listed < host.books.len() {
            // What it does not list may still come.
            host.back = back;
            let (now, heartbeat) = (self.now, self.settings.heartbeat);
            let is_missing = |load: &HostAttempt| {
                let beats = host.beat.wrapping_sub(load.seen);
                if joining || load.stopping {
                    return beats >= 1;
                }
                // Lists that waited together, since the caller stood still, were all sent before it was assigned.
                beats >= MISSING_BEATS && now.since(load.assigned) >= heartbeat
            };
            let books = host.books.iter();
            let missing = books.filter(|(_, load)| is_missing(load));
            for attempt in missing.map(|(attempt, _)| *attempt).collect::<Vec<_>>() {
                self.lose(id, attempt, EndReason::Forgotten, fx);
            }
        }

        strangers.retain(|held| !self.keep(id, held, fx));
        if joining {
            self.hold_as_told(id, held, fx);
        }

        self.note_begun(id, held);
        if !strangers.is_empty() {
            fx.push(Effect::Abandon {
                host: id,
                attempts: strangers.into_iter().map(|held| held.attempt).collect(),
            });
        }
    }

    /// Puts a listed attempt back on the books, or waits for its delivery. Returns `false` where it
    /// is of no use.
    fn keep(&mut self, id: HostId, held: &HeldAttempt, fx: &mut Vec<Effect>) -> bool {
        let attempt = held.attempt;
        let max_copies = self.settings.max_copies;
        let index = attempt.task.index;
        let Some(host) = self.hosts.get(id) else {
            return false;
        };
        if host.books.contains(&attempt) {
            return true;
        }

        let Some(job) = self.jobs.table.get_mut(&attempt.task.job) else {
            return false;
        };
        let Some(record) = job.records.at_mut(&index) else {
            return false;
        };
        let given = |ended: &&mut EndedCopy| {
            ended.attempt == attempt && ended.host == id && !ended.delivered
        };
        let Some(ended) = record.ended.iter_mut().find(given) else {
            return false;
        };
        // It was found again, so it is no loss, even where it must not go on.
        let charged = std::mem::take(&mut ended.charged);
        record.losses = record.losses.saturating_sub(u32::from(charged));
        let returned = ended.returned;
        let most = if job.gang.is_some() {
            1
        } else {
            max_copies as usize
        };

        // While a gang waits to start together, no rank goes on alone.
        let scattered = job.gang.as_ref().is_some_and(|gang| gang.formed.is_none());
        if returned || scattered || record.live.len() >= most {
            // It must not go on; but a result that is there already counts once it is delivered.
            return held.phase == Phase::Ended;
        }

        record.ended.retain(|ended| ended.attempt != attempt);
        record.find_on(host, attempt, Phase::Queued, &job.rules, self.now);
        job.requeued.remove(index);
        job.stir();
        job.refresh(index, max_copies);
        self.jobs.lines.sync(job);
        moved(&mut self.jobs, host, held, max_copies, fx);
        host.books.hold(&attempt, held.phase == Phase::Held);

        if let Some(job) = self.jobs.table.get(&attempt.task.job) {
            self.hosts.stand(id, attempt, job, self.settings.start_cost);
        }

        self.reindex(id);
        true
    }

    pub(crate) fn on_attempts_moved(
        &mut self,
        id: HostId,
        held: &[HeldAttempt],
        fx: &mut Vec<Effect>,
    ) {
        self.hear(id, None);
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        for held in held {
            moved(&mut self.jobs, host, held, self.settings.max_copies, fx);
        }
        self.note_begun(id, held);
    }

    /// Updates the begins of the listed attempts in `standing`, by their reported run times.
    fn note_begun(&mut self, id: HostId, held: &[HeldAttempt]) {
        let standing = &mut self.hosts.index.standing;
        let host = self.hosts.table.get(&id);
        let Some(host) = host.filter(|_| !standing.is_bare()) else {
            return;
        };
        for held in held {
            if let Some(load) = host.books.get(&held.attempt) {
                let began = host.began(load, self.settings.start_cost);
                standing.note(held.attempt, began);
            }
        }
    }

    pub(crate) fn on_owner_changed(&mut self, id: HostId, owner: OwnerState) {
        self.hear(id, Some((owner, Span::ZERO)));
    }

    pub(crate) fn on_host_disconnected(&mut self, id: HostId, how: Parting) {
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        if host.presence == Presence::Connected {
            host.presence = Presence::Disconnected;
            host.parted = Some(self.now);
            host.how = how;
            let hosts = self.hosts.table.len();
            self.hosts.index.partings.note(self.now, hosts);
            self.reindex(id);
            self.watch(id);
        }
    }

    pub(crate) fn on_host_closing(&mut self, id: HostId) {
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        host.closing = true;
        self.reindex(id);
    }

    pub(crate) fn on_host_left(&mut self, id: HostId, why: &EndReason, fx: &mut Vec<Effect>) {
        let Some(host) = self.hosts.get(id) else {
            return;
        };
        host.presence = Presence::Left;
        host.revoked |= *why == EndReason::Revoked;
        self.bury(id, why, fx);
    }

    pub(crate) fn on_host_drained(&mut self, id: HostId, draining: bool) {
        let host = self.hosts.entry(id, self.now);
        host.draining = draining;
        if !draining {
            self.pardon(id);
        }
        self.reindex(id);
        self.watch(id);
    }

    pub(crate) fn on_attempts_returned(
        &mut self,
        id: HostId,
        attempts: &[AttemptId],
        fx: &mut Vec<Effect>,
    ) {
        self.hear(id, None);
        let at_once = self.returns_at_once(id, attempts);
        for attempt in attempts {
            self.lose(id, *attempt, EndReason::Returned, fx);
        }
        if at_once {
            let why = "gives tasks back as soon as it has them, though its owner is away";
            self.note_return(id, why);
        }
    }

    /// Moves the starts of silences and the run times of attempts by the pause: nothing could be heard during it, and what
    /// has ended meanwhile is not overdue.
    pub(crate) fn on_master_paused(&mut self, span: Span) {
        for host in self.hosts.table.values_mut() {
            host.silent_since = (host.silent_since + span).min(self.now);
            host.parted = host.parted.map(|parted| (parted + span).min(self.now));
            host.cpu_seen = (host.cpu_seen + span).min(self.now);
            host.books.shift(span, self.now);
        }
        self.hosts.index.partings.shift(span);
    }

    /// Checks the hosts in `checks` whose silence may have become too long.
    pub(crate) fn on_tick(&mut self, fx: &mut Vec<Effect>) {
        let mut doubted = Vec::new();
        while let Some((at, id)) = self.hosts.index.checks.first().copied()
            && at <= self.now
            && let Some(host) = self.hosts.table.at_mut(&id)
        {
            let lost_at = host.silent_since + self.settings.lease;
            let partings = &self.hosts.index.partings;
            if host.parted.is_some_and(|parted| partings.together(parted)) {
                host.how = Parting::Together;
            }
            let suspect_at = self.foresight.suspect_at(host, partings, &self.settings);

            if self.now >= lost_at {
                self.bury(id, &EndReason::LeaseExpired(self.settings.lease), fx);
            } else if self.now >= suspect_at {
                // Its ranks are looked at again each time the silence has doubled.
                let gangs = &self.jobs.gangs;
                let of_gang = |attempt: AttemptId| gangs.contains(&attempt.task.job);
                let next = if host.books.attempts().any(of_gang) {
                    let silent = self.now.since(host.silent_since);
                    doubted.push((id, lost_at));
                    lost_at.min(self.now + silent.max(Span::from_secs(1)))
                } else {
                    lost_at
                };

                self.hosts.index.check_at(host, Some(next));
                if host.liveness != Liveness::Suspect {
                    host.liveness = Liveness::Suspect;
                    self.on_host_turned(id);
                }
            } else {
                self.hosts.index.check_at(host, Some(suspect_at));
            }
        }

        for (id, lost_at) in doubted {
            self.give_up_ranks(id, lost_at.since(self.now), fx);
        }
    }

    /// Loses the ranks of a silent host whose lease lasts for `lease` yet, where another host is free and it
    /// costs more to wait than to do again what they have done. That is not known of a host that is awaited. One
    /// that its job does not allow to be lost once more waits.
    fn give_up_ranks(&mut self, id: HostId, lease: Span, fx: &mut Vec<Effect>) {
        let host = self.hosts.table.get(&id);
        let Some(host) = host.filter(|host| host.presence != Presence::Awaited) else {
            return;
        };
        let Some(silence) = host.silence(self.now) else {
            return;
        };
        let start_cost = self.settings.start_cost;
        let silences = &self.foresight.experience.silences;
        let given_up = host.books.iter().filter(|(attempt, load)| {
            let done = self.now.since(host.began(load, start_cost));
            self.jobs.gangs.contains(&attempt.task.job)
                && self.may_lose(**attempt)
                && !silences.worth_waiting(silence.span, silence.how, lease, done)
        });
        let silent = self.now.since(host.silent_since);

        for attempt in given_up.map(|(attempt, _)| *attempt).collect::<Vec<_>>() {
            if self.seat_for(attempt.task.job).is_some() {
                self.lose(id, attempt, EndReason::LeaseExpired(silent), fx);
                // The next rank may not count on the same host.
                self.fill_seats(attempt.task.job, fx);
            }
        }
    }

    /// Whether the task of an attempt goes on if its host is lost.
    fn may_lose(&self, attempt: AttemptId) -> bool {
        self.jobs.table.get(&attempt.task.job).is_some_and(|job| {
            let record = job.records.get(&attempt.task.index);
            record.is_some_and(|record| record.losses < job.rules.max_losses)
        })
    }

    /// Marks the host as `Lost` and loses every attempt that it held.
    fn bury(&mut self, id: HostId, why: &EndReason, fx: &mut Vec<Effect>) {
        let Some(host) = self.hosts.table.at_mut(&id) else {
            return;
        };
        if host.heard.is_some() && host.liveness != Liveness::Lost {
            let silent = matches!(why, EndReason::LeaseExpired(_));
            self.foresight
                .on_failure(host, if silent { host.silent_since } else { self.now });
            if silent {
                self.foresight.on_silence_ended(host, true, self.now);
            }
        }

        if host.reserved.slots > 0 {
            self.jobs.stir_all();
        }

        host.liveness = Liveness::Lost;
        self.hosts.index.check_at(host, None);
        self.hosts.index.update(host, self.now);
        for attempt in host.books.attempts().collect::<Vec<_>>() {
            self.lose(id, attempt, why.clone(), fx);
        }
    }

    /// Notes a sign of life of the host, perhaps with its owner's state: its lease begins anew.
    /// Returns `false` for a host that never joined or has left.
    pub(crate) fn hear(&mut self, id: HostId, owner: Option<(OwnerState, Span)>) -> bool {
        let Some(host) = self.hosts.get(id) else {
            return false;
        };
        if matches!(host.presence, Presence::Left | Presence::Awaited) {
            return false;
        }

        if host.parted.is_none() && host.silent_since < self.now {
            self.foresight.on_silence_ended(host, false, self.now);
        }
        host.heard_before = host.heard.replace(self.now);
        host.silent_since = self.now;

        // A message that was on its way when the connection was lost.
        host.parted = host.parted.map(|_| self.now);
        let (owner, owner_for) = owner.unwrap_or((host.owner, Span::ZERO));
        let revived = host.liveness != Liveness::Alive;

        if revived || owner != host.owner {
            // The owner's reason or the number of slots may change without a turn. The laws are
            // learned from changes between a host that runs tasks and one that does not.
            if owner.lets_run() != host.owner.lets_run() {
                let since = self.now - owner_for;
                self.foresight.on_cpu(host, self.now);
                self.foresight.on_owner_turned(host, since);
                host.owner_since = since;
                host.owner_seen = since;
            }

            host.liveness = Liveness::Alive;
            host.back |= revived;
            host.owner = owner;
            self.on_host_turned(id);
        }

        if revived {
            self.watch(id);
        }

        true
    }

    /// Schedules the next check of the host's silence, at `Settings::suspect_at`.
    pub(crate) fn watch(&mut self, id: HostId) {
        if let Some(host) = self.hosts.table.at_mut(&id)
            && host.presence != Presence::Left
            && host.liveness != Liveness::Lost
        {
            let partings = &self.hosts.index.partings;
            let at = self.foresight.suspect_at(host, partings, &self.settings);
            self.hosts.index.check_at(host, Some(at));
        }
    }

    /// Reindexes the host after its liveness or owner changed, and marks its attempts.
    fn on_host_turned(&mut self, id: HostId) {
        self.reindex(id);
        let Some(host) = self.hosts.table.get(&id) else {
            return;
        };
        let max_copies = self.settings.max_copies;
        for (attempt, load) in host.books.iter() {
            self.jobs.mark(host, *attempt, load.phase, max_copies);
        }
    }

    pub(crate) fn reindex(&mut self, id: HostId) {
        if let Some(host) = self.hosts.table.at_mut(&id) {
            self.hosts.index.update(host, self.now);
        }
    }
}

/// Updates an attempt on the books by its host's report.
fn moved(
    jobs: &mut Jobs,
    host: &mut Host,
    held: &HeldAttempt,
    max_copies: u32,
    fx: &mut Vec<Effect>,
) {
    let Some(load) = host.books.at_mut(&held.attempt) else {
        return;
    };
    let now = host.heard.unwrap_or(load.assigned);
    load.ran = load.possible(held.ran, now);
    load.progress = held.progress;
    if held.progress.is_some()
        && let Some(job) = jobs.table.get_mut(&held.attempt.task.job)
        && !job.reports_progress
    {
        job.reports_progress = true;
        job.plan.rests = None;
        jobs.lines.sync(job);
    }
    load.noted = host.heard;

    let suspended_since = host
        .heard
        .filter(|_| suspended(held.phase))
        .map(|heard| heard - load.possible(held.frozen_for, heard));
    if let (Some(since), None, Some(heard)) = (load.suspended_since, suspended_since, host.heard) {
        load.suspended = load.suspended + heard.since(since);
    }

    load.suspended_since = suspended_since;
    let before = std::mem::replace(&mut load.phase, held.phase);
    let staging_since = load.staging_since.or(host.heard);
    load.staging_since = staging_since.filter(|_| held.phase == Phase::Staging);
    if before == held.phase {
        return;
    }
    if held.phase == Phase::Ready || held.phase.executing() != before.executing() {
        jobs.stir(held.attempt.task.job);
    }

    if held.phase.executing() && !before.executing() {
        let alone = before != Phase::Ready && load.suspended == Span::ZERO;
        if held.phase == Phase::Running && alone {
            let times = (load.assigned, load.ran);
            note_start(jobs, host, held.attempt, times);
        }
        fx.push(Effect::Executing {
            attempt: held.attempt,
        });
    }

    let meaning = |phase| (suspended(phase), host.hold_up(phase));
    if meaning(before) != meaning(held.phase) {
        jobs.mark(host, held.attempt, held.phase, max_copies);
    }
}

/// Notes what it cost to start an attempt of which was heard that it was assigned at a time and has
/// run for `ran`, unless it first waited at its host for others.
pub(crate) fn note_start(
    jobs: &mut Jobs,
    host: &Host,
    attempt: AttemptId,
    (assigned, ran): (Time, Span),
) {
    let cost = host.heard.map(|heard| heard.since(assigned + ran));
    let waited = host.in_slots() > host.slots as usize;

    if let Some(cost) = cost.filter(|cost| *cost > Span::ZERO && !waited) {
        jobs.starts.note(cost);
        if let Some(job) = jobs.table.get_mut(&attempt.task.job) {
            job.longest_start = job.longest_start.max(Some(cost));
        }
    }
}

fn suspended(phase: Phase) -> bool {
    matches!(phase, Phase::Suspended(_) | Phase::Held)
}

impl Jobs {
    /// Notes on a live attempt's task whether it is suspended or held up on its host.
    pub(crate) fn mark(&mut self, host: &Host, attempt: AttemptId, phase: Phase, max_copies: u32) {
        let Some(job) = self.table.get_mut(&attempt.task.job) else {
            return;
        };
        let index = attempt.task.index;
        let Some(record) = job.records.at_mut(&index) else {
            return;
        };
        let Some(copy) = record.live.iter_mut().find(|copy| copy.attempt == attempt) else {
            return;
        };

        let hold_up = host.hold_up(phase);
        if (copy.suspended, copy.hold_up) != (suspended(phase), hold_up) {
            if copy.suspended && !suspended(phase) {
                self.lines.shares.woken.insert(job.user);
            }
            copy.suspended = suspended(phase);
            copy.hold_up = hold_up;
            job.refresh(index, max_copies);
            self.lines.sync(job);
        }
    }
}
