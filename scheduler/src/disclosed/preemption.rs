//! Preemption: an attempt of a task that goes after the next one makes room for it, the one with
//! the least to lose (Petrou et al. 2004, section 3.3: requested tasks before disclosed ones,
//! whatever runs). Where one is not enough for what the next task needs, several of one host do.
//! The next task is chosen in `crate::disclosed::order`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use common::attempt::Phase;
use common::needs::Needs;
use common::{AttemptId, HostId, JobId, Span, TaskId, Time};

use crate::disclosed::candidates::{Preemption, PreemptionCandidate};
use crate::policy::ordering::{Batchactive, Disclosed, Rank, RequestedOrder};
use crate::policy::placement::Placement;
use crate::policy::width::WidthChoice;
use crate::protocol::effect::Effect;
use crate::state::host::{Host, HostAttempt};
use crate::state::job::waiting;
use crate::state::job::{Job, Jobs};
use crate::state::queue::after;
use crate::state::scheduler::Scheduler;
use crate::state::speculation::TaskTurn;

/// The number of attempts, in preemption order, that may be on unsuitable hosts before all are
/// searched.
const TRIES: u32 = 8;
/// The number of searches in a row that may find no room before the other waiting jobs are skipped.
const PATIENCE: u32 = 64;
/// The number of waiting jobs in a row that may be passed, searched for or not: of one user, whose
/// other jobs are skipped then, and of all.
const PASSED_OF_ONE: u32 = 256;
const PASSED: u32 = 1_024;
/// The interval between searches for room for a gang while no more hosts are free than before.
const LOOK: Span = Span::from_secs(1);

/// The properties that decide whether a waiting task finds room, beside its `Needs`.
#[derive(Clone, Copy, PartialEq)]
struct PreemptorClass {
    disclosed: bool,
    overtakes: bool,
    answer: Option<Batchactive>,
    placement: Placement,
    /// Its user, if at the bound of running tasks.
    at_bound: Option<u32>,
    /// Its job, where hosts are lent: it decides which loans are too short.
    lent_to: Option<JobId>,
}

/// A waiting task that wants room: the next one of `job`.
struct Preemptor {
    job: JobId,
    /// Its turn. In jobs without speculation all tasks are alike.
    turn: TaskTurn,
    /// Whether it may take the slot of a task of its own kind that goes after it.
    overtakes: bool,
}

/// The waiting jobs before this one, and how many of them were searched for since the latest start.
#[derive(Default, Clone, Copy)]
struct InVain {
    /// The number of them for which hosts were searched.
    searched: u32,
    passed: u32,
    /// The class of ranks of the latest one, and the number of those passed in it.
    latest: Option<(bool, bool, u32)>,
    of_one: u32,
}

impl InVain {
    /// Whether further jobs are looked at.
    fn goes_on(&self) -> bool {
        self.searched < PATIENCE && self.passed < PASSED
    }

    /// Counts a job. Returns the rank after which the next one is looked for: the last one of its
    /// user where there were many of that user.
    fn pass(&mut self, rank: Rank) -> Rank {
        let class = rank.class();
        if self.latest.replace(class) != Some(class) {
            self.of_one = 0;
        }

        self.passed += 1;
        self.of_one += 1;
        if self.of_one < PASSED_OF_ONE {
            rank
        } else {
            Rank::last_of(class)
        }
    }
}

impl Scheduler {
    /// Preempts running tasks for waiting ones that go before them.
    pub(crate) fn make_room(&mut self, fx: &mut Vec<Effect>) {
        if self.jobs.speculating.is_empty() || self.jobs.lines.waiting.is_empty() {
            return;
        }

        self.rank_standing();
        // Tasks of a kind come in rank order: if the first one finds no room, the others find none.
        let mut hopeless: Vec<(PreemptorClass, Needs)> = Vec::new();
        let mut last = None;
        let mut in_vain = InVain::default();
        let mut coming = self.slots_coming();
        let mut some_coming = coming > 0;
        let mut ranks_asked = false;

        while let Some(rank) = after(&self.jobs.lines.waiting, last).filter(|_| in_vain.goes_on()) {
            let stood = last;
            let passed = in_vain;
            last = Some(in_vain.pass(rank));
            if self.jobs.gangs.contains(&rank.job) && !std::mem::replace(&mut ranks_asked, true) {
                // Only for the first gang: those behind it would take the hosts that it waits for.
                if self.make_room_for_ranks(rank.job, fx) {
                    return self.place_waiting(fx);
                }
                continue;
            }

            let job = self.jobs.table.get(&rank.job).filter(|_| coming > 0);
            let wanted = job.map(|job| job.waiting_as(rank.disclosed()).max(1));
            if let Some(wanted) = wanted.filter(|wanted| *wanted <= coming) {
                coming -= wanted;
                continue;
            }

            let is_hopeless = |kind: &PreemptorClass, needs: &Needs| {
                let mut known = hopeless.iter();
                known.any(|(other, theirs)| other == kind && theirs == needs)
            };
            let kind = self.kind(rank);
            let Some((kind, _)) = kind.filter(|(kind, needs)| !is_hopeless(kind, needs)) else {
                continue;
            };
            let claims = self.claims(rank.job, kind.overtakes);
            if claims.is_empty() {
                continue;
            }
            in_vain.searched += 1;
            let chosen = |claim: Preemptor| Some((self.candidates(&claim)?, claim));
            let Some((chosen, claim)) = claims.into_iter().find_map(chosen) else {
                // Where a task failed is no host for its job alone.
                let job = self.jobs.table.get(&rank.job);
                let job = job.filter(|job| job.blame.is_bare());
                hopeless.extend(job.map(|job| (kind, job.rules.needs.clone())));
                continue;
            };
            let none_saved = self.hosts.index.saved.is_empty();
            let changed = chosen.all.iter().map(|one| one.attempt.task.job);
            let changed: BTreeSet<JobId> = changed.chain([rank.job]).collect();
            let bounds = self.bounds_behind(rank, &changed);
            if !self.give_room(&chosen, &claim, fx) {
                // The task did not start after all: the next one may have the slot.
                return self.place_waiting(fx);
            }

            // Room that is taken gives the others no hope, unless it was saved up or what made way may be overtaken again.
            let known = hopeless.len();
            hopeless.retain(|(kind, _)| none_saved && !kind.overtakes);
            coming = self.slots_coming();
            let comes = std::mem::replace(&mut some_coming, coming > 0) || coming > 0;

            // Where all those before this one would only be passed again, the walk goes on where it stood.
            let same = bounds.is_some() && bounds == self.bounds_behind(rank, &changed);
            (last, in_vain) = if same && !comes && hopeless.len() == known {
                let searched = 0;
                (stood, InVain { searched, ..passed })
            } else {
                (None, InVain::default())
            };
            self.rank_standing();
        }
    }

    /// Returns for each of these jobs whether its user is at the bound of running tasks; `None` where
    /// one of them waits ahead of this rank. While that stays so, no job ahead is in another case.
    fn bounds_behind(&self, rank: Rank, jobs: &BTreeSet<JobId>) -> Option<Vec<bool>> {
        let at_bound = |id: &JobId| {
            let job = self.jobs.table.get(id)?;
            let ahead = job.rank < rank && self.jobs.lines.waiting.contains(&job.rank);
            (!ahead).then(|| self.jobs.lines.shares.room(job.user) == Some(0))
        };
        jobs.iter().map(at_bound).collect()
    }

    /// Returns the number of slots that become free once their hosts have heard of a stop: jobs
    /// that will get them need no preemption.
    fn slots_coming(&self) -> u64 {
        if !self.settings.stops_when_reported {
            return 0;
        }
        let hosts = self.hosts.table.values().filter(|host| host.takes_work());
        let loads = hosts.flat_map(|host| host.books.iter());
        let coming = loads.filter(|(_, load)| load.stopping && !load.frozen);
        coming.count() as u64
    }

    /// Returns the kind of a waiting job's next task, which tells whom it may preempt, and its needs;
    /// `None` where it preempts no one.
    fn kind(&self, rank: Rank) -> Option<(PreemptorClass, &Needs)> {
        let job = self.jobs.table.get(&rank.job)?;
        if rank.promised() || job.gang.is_some() {
            return None;
        }

        let answer = answer(job);
        let overtakes = answer.is_some_and(|answer| match rank.disclosed() {
            true => matches!(answer.disclosed, Disclosed::Need { .. }),
            false => answer.requested == RequestedOrder::Srpt,
        });
        let kind = PreemptorClass {
            disclosed: rank.disclosed(),
            overtakes,
            answer,
            placement: job.policy.placement,
            at_bound: (self.jobs.lines.shares.room(job.user) == Some(0)).then_some(job.user),
            lent_to: (!self.hosts.index.lent.is_empty()).then_some(rank.job),
        };
        (!kind.disclosed || overtakes).then_some((kind, &job.rules.needs))
    }

    /// Returns the job's next task as a claim and, where that one is kept from a host on which it failed,
    /// another one of those that may start in its turn.
    fn claims(&mut self, id: JobId, overtakes: bool) -> Vec<Preemptor> {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return Vec::new();
        };
        let alone = || {
            let index = job.requeued.first().or(job.fresh.first())?;
            Some(TaskTurn {
                index,
                disclosed: false,
                key: 0,
                place: 0,
            })
        };
        let turn = if job.speculation.is_some() {
            job.turn()
        } else {
            alone()
        };
        let Some(turn) = turn else { return Vec::new() };

        let turns = job.turns_from(turn);
        let others = &turns[1..];
        let fresh = others.iter().find(|of| job.fresh.contains(of.index));
        let other = fresh.or(others.last()).copied();
        let claim = |turn| Preemptor {
            job: id,
            turn,
            overtakes,
        };
        [turn].into_iter().chain(other).map(claim).collect()
    }

    /// Returns the attempts to preempt for it, if any: one if that is enough.
    fn candidates(&self, claim: &Preemptor) -> Option<Preemption> {
        let claimant = self.jobs.table.get(&claim.job)?;
        let one = self.candidate(claim, claimant).map(Preemption::from);
        one.or_else(|| self.several(claim, claimant))
    }

    /// Returns the attempt to preempt for it, if one is enough.
    fn candidate(&self, claim: &Preemptor, claimant: &Job) -> Option<PreemptionCandidate> {
        let standing = &self.hosts.index.standing;
        let disclosed = match (claim.turn.disclosed, claimant.speculation.as_deref()) {
            (false, _) => self.first_that_does(standing.firsts(), claim, claimant),
            (true, Some(own)) => {
                self.first_that_does(standing.least_needed(own.answer()), claim, claimant)
            }
            (true, None) => None,
        };
        // Or else one with more work left than the claimant's task, requested too, that keeps its state.
        disclosed.or_else(|| self.best(self.kept_running(claim), claim, claimant))
    }

    /// Returns the first of these attempts whose slot the claimant would take; after `TRIES`
    /// unsuitable ones the best of all attempts.
    fn first_that_does(
        &self,
        firsts: impl Iterator<Item = AttemptId>,
        claim: &Preemptor,
        claimant: &Job,
    ) -> Option<PreemptionCandidate> {
        let mut tried = 0;
        for attempt in firsts {
            let Some((job, host, found)) = self.found(attempt) else {
                continue;
            };
            if !goes_after(&found, claim, job, claimant) {
                return None;
            }
            if self.may_replace(claimant, job) && self.serves(claim, claimant, host, &found) {
                return Some(found);
            }

            tried += 1;
            if tried == TRIES {
                break;
            }
        }

        if tried == 0 {
            return None;
        }
        let all = self.hosts.index.standing.all();
        let all = all.filter_map(|attempt| self.found(attempt));
        self.best(all, claim, claimant)
    }

    /// Returns the best of these attempts whose slot the claimant would take.
    fn best<'a>(
        &self,
        all: impl Iterator<Item = (&'a Job, &'a Host, PreemptionCandidate)>,
        claim: &Preemptor,
        claimant: &Job,
    ) -> Option<PreemptionCandidate> {
        let fit = all.filter(|(job, host, found)| {
            goes_after(found, claim, job, claimant)
                && self.may_replace(claimant, job)
                && self.serves(claim, claimant, host, found)
        });
        fit.map(|(.., found)| found)
            .max_by_key(PreemptionCandidate::order)
    }

    /// Returns an attempt that may be preempted, with its job and its host.
    fn found(&self, attempt: AttemptId) -> Option<(&Job, &Host, PreemptionCandidate)> {
        let job = self.jobs.table.get(&attempt.task.job)?;
        let on = self.hosts.index.standing.host(attempt)?;
        let (host, load) = self.hosts.on_books(on, attempt)?;
        Some((job, host, self.standing(job, host, attempt, load)?))
    }

    /// Returns the running attempts that keep their state, if a requested task may overtake others
    /// of its kind.
    fn kept_running(
        &self,
        claim: &Preemptor,
    ) -> impl Iterator<Item = (&Job, &Host, PreemptionCandidate)> {
        let overtakes = claim.overtakes && !claim.turn.disclosed;
        let jobs = self.jobs.speculating.iter().filter(move |_| overtakes);
        let jobs = jobs
            .filter_map(|id| self.jobs.table.get(id))
            .filter(|job| job.rules.checkpoint && job.records.len() as u64 > job.requeued.len());

        let copies = jobs.flat_map(|job| job.copies().map(move |copy| (job, copy)));
        copies.filter_map(|(job, copy)| {
            let (host, load) = self.hosts.on_books(copy.host, copy.attempt)?;
            let runs = !load.stopping && !load.frozen;
            let load = Some(load).filter(|_| runs)?;
            Some((job, host, self.standing(job, host, copy.attempt, load)?))
        })
    }

    /// Returns attempts of one host that make room for the claim together, where the task needs
    /// more than one slot: those that lose the least.
    fn several(&self, claim: &Preemptor, claimant: &Job) -> Option<Preemption> {
        if claimant.demand.is_plain() {
            return None;
        }

        let standing = self.hosts.index.standing.all();
        let disclosed = standing.filter_map(|attempt| self.found(attempt));
        let mut on: BTreeMap<HostId, BTreeMap<AttemptId, PreemptionCandidate>> = BTreeMap::new();
        for (job, _, found) in disclosed.chain(self.kept_running(claim)) {
            if goes_after(&found, claim, job, claimant) && self.may_replace(claimant, job) {
                let there = on.entry(found.host).or_default();
                there.insert(found.attempt, found);
            }
        }

        let enough = |(id, found): (HostId, BTreeMap<AttemptId, PreemptionCandidate>)| {
            let host = self.hosts.table.get(&id)?;
            let wanted = self.is_wanted(claim, claimant, host);
            let found = found.into_values().collect();
            wanted.then(|| Preemption::least(host, claimant.demand, found))?
        };
        on.into_iter()
            .filter_map(enough)
            .max_by_key(Preemption::order)
    }

    /// Whether the claimant may run instead of this job: its user has `room`, or both are of one
    /// user.
    fn may_replace(&self, claimant: &Job, job: &Job) -> bool {
        claimant.user == job.user || self.jobs.lines.shares.room(claimant.user) != Some(0)
    }

    /// Whether the room of this attempt would serve the claim: it is enough, and wanted.
    fn serves(
        &self,
        claim: &Preemptor,
        claimant: &Job,
        host: &Host,
        found: &PreemptionCandidate,
    ) -> bool {
        let plain = claimant.demand.is_plain() && host.books.is_plain();
        let enough = plain || makes_room(host, found, claimant);
        enough && self.is_wanted(claim, claimant, host)
    }

    /// Whether room on this host would serve the claim: the job would use it, and the next task is
    /// not kept from the host after a failure there.
    fn is_wanted(&self, claim: &Preemptor, claimant: &Job, host: &Host) -> bool {
        let kept_away = match claimant.speculation {
            Some(_) => claimant.shuns(claim.turn.index, host.id, &self.hosts),
            None => !claimant.has_work_for(host.id, &self.hosts),
        };
        !kept_away && self.would_take(claimant, host)
    }

    /// Whether the job would use a slot of this host.
    fn would_take(&self, job: &Job, host: &Host) -> bool {
        let scene = job.scene(self.now, &self.settings, &self.hosts);
        host.takes_work()
            && !self.is_saved_for_another(host, job)
            && scene.does(host.id)
            && job
                .policy
                .placement
                .objection(&scene, &job.plan, host.speed)
                .is_none()
    }

    fn standing(
        &self,
        job: &Job,
        host: &Host,
        attempt: AttemptId,
        load: &HostAttempt,
    ) -> Option<PreemptionCandidate> {
        // An ended attempt leaves its slot anyway, and its result is on its way.
        let speculation = job
            .speculation
            .as_deref()
            .filter(|_| load.phase != Phase::Ended)?;
        let index = attempt.task.index;
        let start_cost = self.settings.start_cost;
        let of = (host, job.computing());
        let done = (self.foresight).work_done(of, load, true, start_cost, self.now);
        let done = Span::from_secs_f64(done.0);
        let left = Span(
            speculation
                .work_left(index, |index| job.work(index))
                .0
                .saturating_sub(done.0),
        );

        let loss = if job.rules.checkpoint {
            Span::ZERO
        } else {
            self.now.since(host.began(load, start_cost))
        };

        Some(PreemptionCandidate {
            host: host.id,
            attempt,
            turn: speculation.turn(index, left),
            left,
            loss,
        })
    }

    /// Preempts the chosen attempts and starts the claimant's task; returns whether it started.
    fn give_room(&mut self, chosen: &Preemption, claim: &Preemptor, fx: &mut Vec<Effect>) -> bool {
        let started = |jobs: &Jobs| jobs.table.get(&claim.job).map(|job| job.attempts);
        let before = started(&self.jobs);
        self.give_way(chosen, TaskId::new(claim.job, claim.turn.index), fx);
        self.release_saved_for(claim.job, chosen.host);
        self.place_job(claim.job, false, fx);
        started(&self.jobs) != before
    }

    /// Returns the attempts of unrequested tasks on this host that are preempted for a task with a
    /// promise, and are enough for it: those with the least to lose, and one if that is enough.
    pub(crate) fn makes_room_on(&self, host: HostId, by: &Job) -> Option<Preemption> {
        if self.hosts.index.standing.is_bare() {
            return None;
        }

        let standing = |attempt: &AttemptId| self.hosts.index.standing.host(*attempt).is_some();
        let host = self.hosts.table.get(&host)?;
        let held = host.books.attempts().filter(standing);
        let found = held.filter_map(|attempt| Some(self.found(attempt)?.2));
        if by.demand.is_plain() {
            let one = found.max_by_key(PreemptionCandidate::order);
            return one.map(Preemption::from);
        }
        Preemption::least(host, by.demand, found.collect())
    }

    /// Preempts attempts: freezes those that their host can hold, and ends the others.
    pub(crate) fn give_way(&mut self, chosen: &Preemption, by: TaskId, fx: &mut Vec<Effect>) {
        let attempts: Vec<AttemptId> = chosen.all.iter().map(|one| one.attempt).collect();
        let frozen = self.try_freeze(chosen.host, &attempts, by, fx);
        let ended = chosen.all.iter();
        for one in ended.filter(|one| !frozen.contains(&one.attempt)) {
            self.end_for(one, by, fx);
        }
    }

    /// Ends an attempt for another task. What is left of its own is noted if it keeps its state.
    fn end_for(&mut self, chosen: &PreemptionCandidate, by: TaskId, fx: &mut Vec<Effect>) {
        let TaskId { job: id, index } = chosen.attempt.task;
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let kept = job.rules.checkpoint;
        if let Some(speculation) = job
            .speculation
            .as_mut()
            .filter(|_| kept && chosen.loss == Span::ZERO)
        {
            speculation.left.insert(index, chosen.left);
        }
        self.preempt(chosen.host, chosen.attempt, by, kept, fx);
    }

    /// Preempts attempts of unrequested tasks for a waiting gang, if it starts on their hosts and
    /// the free ones. Returns whether it did. It uses all free hosts, and preempts only for those
    /// that it lacks: each preemption loses something.
    fn make_room_for_ranks(&mut self, id: JobId, fx: &mut Vec<Effect>) -> bool {
        let Some(job) = self.jobs.table.get(&id) else {
            return false;
        };
        let Some(gang) = job.gang.as_ref().filter(|gang| gang.formed.is_none()) else {
            return false;
        };
        let kept = self.kept_for(id, gang);
        let free: BTreeSet<HostId> = self.free_for(id).into_iter().chain(kept).collect();

        // Slots that are about to be free need no preemption.
        let coming = self.slots_coming() as usize;
        let there = free.len() + coming;
        let now = self.now;
        if let Some((_, looked)) = gang
            .room
            .filter(|(before, looked)| there <= *before && now < *looked + LOOK)
        {
            self.look_again(id, looked + LOOK);
            return false;
        }

        let others = self.others_for(job, &free);
        let by = waiting(job).first().unwrap_or(0);
        let also: Vec<HostId> = free.iter().chain(others.keys()).copied().collect();
        let chosen = if others.is_empty() {
            None
        } else {
            self.width_with(id, also.len() as u32, &also)
        };
        let hosts = if let Some(WidthChoice::Start(hosts)) = chosen {
            hosts as usize
        } else {
            0
        };
        let lacking = hosts.saturating_sub(there);

        let mut others: Vec<Preemption> = others.into_values().collect();
        if let Some(gang) = self.jobs.gang_mut(id) {
            gang.room = Some((there, now));
        }
        if lacking == 0 || lacking > others.len() {
            return false;
        }

        others.sort_by_key(|other| Reverse(other.order()));
        if let Some(gang) = self.jobs.gang_mut(id) {
            // It decides anew with its present hosts, and no backfill takes them that would be
            // preempted again.
            gang.looked = None;
            gang.passes_until = Some(self.now);
        }

        self.release_kept();
        for (other, index) in others.iter().take(lacking).zip(by..) {
            self.give_way(other, TaskId::new(id, index), fx);
        }

        true
    }

    /// Returns the hosts beside these on which the job could get a slot by preemptions of
    /// unrequested tasks, each with the attempts that have the least to lose.
    fn others_for(&self, job: &Job, free: &BTreeSet<HostId>) -> BTreeMap<HostId, Preemption> {
        let standing = self.hosts.index.standing.all();
        let mut on: BTreeMap<HostId, Vec<PreemptionCandidate>> = BTreeMap::new();
        for (_, host, found) in standing.filter_map(|attempt| self.found(attempt)) {
            if !free.contains(&host.id) && found.turn.disclosed {
                on.entry(host.id).or_default().push(found);
            }
        }

        // Where a host holds more attempts than slots, one preemption frees no slot.
        let least = |(id, found): (HostId, Vec<PreemptionCandidate>)| {
            let host = self.hosts.table.get(&id)?;
            let does = self.starts_together(id) && self.would_take(job, host);
            let chosen = does.then(|| Preemption::least(host, job.demand, found))??;
            Some((id, chosen))
        };
        on.into_iter().filter_map(least).collect()
    }

    /// Schedules a review of the job at this time at the latest.
    fn look_again(&mut self, id: JobId, at: Time) {
        if let Some(job) = self.jobs.table.get_mut(&id) {
            job.plan.review = Some(job.plan.review.map_or(at, |review| review.min(at)));
            self.jobs.lines.sync(job);
        }
    }
}

/// Returns the order of requested and disclosed tasks, where the job's are told apart.
fn answer(job: &Job) -> Option<Batchactive> {
    let speculation = job.speculation.as_ref()?;
    Some(speculation.answer())
}

/// Whether the host has room for a task of the job once this attempt has ended.
fn makes_room(host: &Host, found: &PreemptionCandidate, job: &Job) -> bool {
    let load = host.books.get(&found.attempt);
    load.is_some_and(|load| host.has_room_without(job.demand, &[load], &[]))
}

/// Whether the running task goes after the claim's. Among tasks of one kind, only one that keeps
/// its state can be preempted.
fn goes_after(running: &PreemptionCandidate, claim: &Preemptor, job: &Job, claimant: &Job) -> bool {
    if running.turn.disclosed != claim.turn.disclosed {
        return running.turn.disclosed;
    }

    let priority = |job: &Job| Reverse(job.rules.priority);
    claim.overtakes
        && job.rules.checkpoint
        && answer(job) == answer(claimant)
        && (priority(job), running.turn.key) > (priority(claimant), claim.turn.key)
}
