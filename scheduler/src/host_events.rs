//! What happens when hosts come, report, fall silent and go.

use common::attempt::{Held, Phase};
use common::host::OwnerState;
use common::{AttemptId, HostId, Span, Speed};

use crate::effect::{CopyReason, Effect, EndReason};
use crate::host::{Host, Liveness, Load, Presence};
use crate::job::Jobs;
use crate::scheduler::Scheduler;

/// An attempt that its host does not list in this many heartbeats in a row never arrived there. One is not enough: the
/// assignment may have crossed the heartbeat on its way. Two are, since both travel in order on one stream and workers
/// send a heartbeat long before they have lost patience with the connection.
const MISSING_BEATS: u32 = 2;

impl Scheduler {
    pub(crate) fn on_host_joined(
        &mut self,
        id: HostId,
        slots: u32,
        speed: Speed,
        owner: OwnerState,
        held: &[Held],
        fx: &mut Vec<Effect>,
    ) {
        let host = self.hosts.entry(id, self.now);
        (host.slots, host.speed) = (slots, speed);
        host.presence = Presence::Connected;
        self.hear(id);
        self.on_owner_changed(id, owner);
        self.hosts.reindex(id, self.now);
        self.reconcile(id, held, true, fx);
    }

    pub(crate) fn on_host_heard(&mut self, id: HostId, owner: OwnerState, held: &[Held], fx: &mut Vec<Effect>) {
        if self.hear(id) {
            self.on_owner_changed(id, owner);
            self.reconcile(id, held, false, fx);
        }
    }

    /// Compares what the host lists with its books. What is listed and not on them is taken back if it once was there
    /// and its task can still use it; else the host may drop it. What is on them and not listed is lost: at once when
    /// the host joins, after [`MISSING_BEATS`] heartbeats otherwise.
    fn reconcile(&mut self, id: HostId, held: &[Held], joining: bool, fx: &mut Vec<Effect>) {
        let Some(host) = self.hosts.table.get_mut(&id) else { return };
        host.beat += 1;
        let mut listed = 0;
        let mut strangers = Vec::new();
        for held in held {
            match host.books.get_mut(&held.attempt) {
                Some(load) => {
                    listed += usize::from(load.seen != host.beat);
                    load.seen = host.beat;
                    moved(&mut self.jobs, host, held, self.settings.max_copies, fx);
                }
                None => strangers.push(held),
            }
        }
        let missing_beats = if joining { 1 } else { MISSING_BEATS };
        if listed < host.books.len() {
            let missing = |load: &Load| host.beat - load.seen >= missing_beats;
            let missing: Vec<AttemptId> =
                host.books.iter().filter(|(_, load)| missing(load)).map(|(a, _)| *a).collect();
            for attempt in missing {
                self.lose(id, attempt, EndReason::Forgotten, fx);
            }
        }
        strangers.retain(|held| !self.keep(id, held, fx));
        if !strangers.is_empty() {
            fx.push(Effect::Abandon { host: id, attempts: strangers.into_iter().map(|held| held.attempt).collect() });
        }
    }

    /// Takes a listed attempt back on the books, or waits for its delivery; false where it is of no use.
    fn keep(&mut self, id: HostId, held: &Held, fx: &mut Vec<Effect>) -> bool {
        let attempt = held.attempt;
        let Some(job) = self.jobs.table.get_mut(&attempt.task.job) else { return false };
        let Some(record) = job.records.get_mut(&attempt.task.index) else { return false };
        let ended = |ended: &crate::job::EndedCopy| ended.attempt == attempt && ended.host == id && !ended.delivered;
        let Some(at) = record.ended.iter().position(ended) else { return false };
        let Some(host) = self.hosts.table.get_mut(&id) else { return false };
        if record.live.len() >= self.settings.max_copies as usize {
            // No room for a third: but a result that is there already still counts once it is delivered.
            return held.phase == Phase::Ended;
        }
        record.ended.remove(at);
        let duplicate = !record.live.is_empty();
        let copy = crate::job::LiveCopy { attempt, host: id, suspended: false, hold_up: host.hold_up(Phase::Queued) };
        record.live.push(copy);
        job.requeued.remove(attempt.task.index);
        let (phase, seen, assigned) = (Phase::Queued, host.beat, self.now);
        host.books.insert(attempt, Load { phase, ran: Span::ZERO, progress: None, assigned, duplicate, seen });
        job.refresh(attempt.task.index, self.settings.max_copies);
        self.jobs.lines.sync(job);
        moved(&mut self.jobs, host, held, self.settings.max_copies, fx);
        self.hosts.reindex(id, self.now);
        true
    }

    pub(crate) fn on_attempts_moved(&mut self, id: HostId, held: &[Held], fx: &mut Vec<Effect>) {
        self.hear(id);
        let Some(host) = self.hosts.table.get_mut(&id) else { return };
        for held in held {
            moved(&mut self.jobs, host, held, self.settings.max_copies, fx);
        }
    }

    pub(crate) fn on_owner_changed(&mut self, id: HostId, owner: OwnerState) {
        let Some(host) = self.hosts.table.get_mut(&id) else { return };
        if host.owner != owner && host.presence != Presence::Left {
            host.owner = owner;
            self.on_host_turned(id);
        }
    }

    pub(crate) fn on_host_disconnected(&mut self, id: HostId) {
        let Some(host) = self.hosts.table.get_mut(&id) else { return };
        if host.presence == Presence::Connected {
            host.presence = Presence::Disconnected;
            self.hosts.reindex(id, self.now);
        }
    }

    pub(crate) fn on_host_left(&mut self, id: HostId, fx: &mut Vec<Effect>) {
        let Some(host) = self.hosts.table.get_mut(&id) else { return };
        host.presence = Presence::Left;
        self.hosts.check_at(id, None);
        self.bury(id, &EndReason::HostLeft, fx);
    }

    pub(crate) fn on_host_drained(&mut self, id: HostId, draining: bool) {
        let known = self.hosts.table.contains_key(&id);
        let host = self.hosts.entry(id, self.now);
        if host.draining != draining || !known {
            host.draining = draining;
            self.hosts.reindex(id, self.now);
        }
        if !known {
            self.watch(id);
        }
    }

    pub(crate) fn on_attempts_returned(&mut self, id: HostId, attempts: &[AttemptId], fx: &mut Vec<Effect>) {
        self.hear(id);
        for attempt in attempts {
            self.lose(id, *attempt, EndReason::Returned, fx);
        }
    }

    /// Nobody could be heard meanwhile.
    pub(crate) fn on_master_paused(&mut self, span: Span) {
        for host in self.hosts.table.values_mut() {
            host.silent_since = (host.silent_since + span).min(self.now);
        }
    }

    /// Looks at the hosts whose silence may have become too long.
    pub(crate) fn on_tick(&mut self, fx: &mut Vec<Effect>) {
        while let Some((at, id)) = self.hosts.checks.first().copied() {
            if at > self.now {
                return;
            }
            let Some(host) = self.hosts.table.get_mut(&id) else { return };
            let (suspect_at, lost_at) =
                (host.silent_since + self.settings.suspect_after, host.silent_since + self.settings.lease);
            if self.now >= lost_at {
                self.hosts.check_at(id, None);
                self.bury(id, &EndReason::LeaseExpired(self.settings.lease), fx);
            } else if self.now >= suspect_at {
                self.hosts.check_at(id, Some(lost_at));
                if host_becomes(self.hosts.table.get_mut(&id), Liveness::Suspect) {
                    self.on_host_turned(id);
                }
            } else {
                self.hosts.check_at(id, Some(suspect_at.min(lost_at)));
            }
        }
    }

    /// Everything that the host held is gone.
    fn bury(&mut self, id: HostId, why: &EndReason, fx: &mut Vec<Effect>) {
        let Some(host) = self.hosts.table.get_mut(&id) else { return };
        host.liveness = Liveness::Lost;
        let attempts: Vec<AttemptId> = host.books.keys().copied().collect();
        self.hosts.reindex(id, self.now);
        for attempt in attempts {
            self.lose(id, attempt, why.clone(), fx);
        }
    }

    /// The host gave a sign of life: its lease begins anew. False where nothing can be heard from it: it never joined,
    /// or has left.
    pub(crate) fn hear(&mut self, id: HostId) -> bool {
        let Some(host) = self.hosts.table.get_mut(&id) else { return false };
        if matches!(host.presence, Presence::Left | Presence::Awaited) {
            return false;
        }
        host.heard = Some(self.now);
        host.silent_since = self.now;
        if host.liveness != Liveness::Alive {
            host.liveness = Liveness::Alive;
            self.watch(id);
            self.on_host_turned(id);
        }
        true
    }

    /// Looks at the host's silence when it could have become too long.
    pub(crate) fn watch(&mut self, id: HostId) {
        let patience = self.settings.suspect_after.min(self.settings.lease);
        if let Some(host) = self.hosts.table.get(&id) {
            let at = host.silent_since + patience;
            self.hosts.check_at(id, Some(at));
        }
    }

    /// The host can do more, or less, than before: so can its attempts.
    fn on_host_turned(&mut self, id: HostId) {
        self.hosts.reindex(id, self.now);
        let Some(host) = self.hosts.table.get(&id) else { return };
        for (attempt, load) in &host.books {
            let hold_up = host.hold_up(load.phase);
            self.jobs.mark(*attempt, load.phase, hold_up, self.settings.max_copies);
        }
    }
}

fn host_becomes(host: Option<&mut Host>, liveness: Liveness) -> bool {
    host.is_some_and(|host| std::mem::replace(&mut host.liveness, liveness) != liveness)
}

/// Notes what a host says of an attempt on its books.
fn moved(jobs: &mut Jobs, host: &mut Host, held: &Held, max_copies: u32, fx: &mut Vec<Effect>) {
    let Some(load) = host.books.get_mut(&held.attempt) else { return };
    (load.ran, load.progress) = (held.ran, held.progress);
    let before = std::mem::replace(&mut load.phase, held.phase);
    if before == held.phase {
        return;
    }
    if held.phase.executing() && !before.executing() {
        fx.push(Effect::Executing { attempt: held.attempt });
    }
    jobs.mark(held.attempt, held.phase, host.hold_up(held.phase), max_copies);
}

impl Jobs {
    /// Notes on a live attempt's task what its host or its phase means for it.
    fn mark(&mut self, attempt: AttemptId, phase: Phase, hold_up: Option<CopyReason>, max_copies: u32) {
        let Some(job) = self.table.get_mut(&attempt.task.job) else { return };
        let index = attempt.task.index;
        let Some(record) = job.records.get_mut(&index) else { return };
        let Some(copy) = record.live.iter_mut().find(|copy| copy.attempt == attempt) else { return };
        copy.suspended = matches!(phase, Phase::Suspended(_));
        copy.hold_up = hold_up;
        job.refresh(index, max_copies);
        self.lines.sync(job);
    }
}
