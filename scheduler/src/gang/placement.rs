//! Gangs get all their hosts in one step, or none, so that no two of them can wait for each other.
//! They hold them until the last rank is done. A rank that lost its host gets another before any
//! other start; a gang that lacks hosts which do not exist gives all of them up. The number of
//! hosts to wait for lives in `width_choice`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use common::attempt::Phase;
use common::needs::Demand;
use common::view::JobState;
use common::{AttemptId, HostId, JobId, Span, Speed, TaskId, Time};

use crate::forecast::starts::counts;
use crate::policy::LimitSource;
use crate::policy::ordering::Rank;
use crate::policy::placement::PlacementView;
use crate::policy::width::{Holdout, WidthChoice};
use crate::prediction::lessons::Lessons;
use crate::prediction::reservation::ObservedRun;
use crate::prediction::widths::of_ranks;
use crate::protocol::effect::{Effect, EndReason};
use crate::state::foresight::Foresight;
use crate::state::gang::KeptSlot;
use crate::state::host::{Host, Liveness, Presence};
use crate::state::job::Job;
use crate::state::job::waiting;
use crate::state::scheduler::Scheduler;

/// An upper bound of the error of rounding a time to seconds.
const ROUNDING: Span = Span::from_millis(1);

impl Scheduler {
    /// Updates the gangs before any other start, the first in the queue first.
    pub(crate) fn tend_gangs(&mut self, fx: &mut Vec<Effect>) {
        self.tend_fillers();
        if self.jobs.gangs.is_empty() {
            return;
        }

        self.release_kept();
        let ranks = self
            .jobs
            .gangs
            .iter()
            .filter_map(|id| Some(self.jobs.table.get(id)?.rank));
        let gangs: BTreeSet<Rank> = ranks.collect();
        for rank in &gangs {
            self.settle_seats(rank.job);
        }

        let mut lacking = Vec::new();
        for rank in &gangs {
            if !self.fill_seats(rank.job, fx) {
                lacking.push(rank.job);
            }
        }

        self.disband_one(&lacking, fx);
        for rank in &gangs {
            self.begin_together(rank.job, fx);
        }
    }

    /// Releases the slots of `Jobs::kept`, reserved for waiting gangs, which are decided on anew.
    pub(crate) fn release_kept(&mut self) {
        for kept in std::mem::take(&mut self.jobs.kept) {
            self.hosts.reserve(kept.host, kept.takes, false, self.now);
        }
    }

    /// Updates the `seats` of a gang: a host on which a rank is done stays held, a host that is
    /// gone does not, and once the job is settled none does.
    fn settle_seats(&mut self, id: JobId) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            self.jobs.gangs.remove(&id);
            return;
        };
        let settled = job.settled();
        let width = job.counts().total as u32;
        let takes = job.demand;
        let Some(gang) = job.gang.as_mut().filter(|gang| gang.stirred || settled) else {
            return;
        };
        let live: BTreeSet<HostId> = job
            .records
            .values()
            .flat_map(|record| record.live.iter().map(|copy| copy.host))
            .collect();
        let held = gang.formed.is_some() && !settled;

        let seats = std::mem::take(&mut gang.seats);
        for (host, kept) in &seats {
            let known = self.hosts.table.get(host).filter(|_| held);
            let stays = !live.contains(host) && known.is_some_and(|on| stays(on, *kept, takes));
            if stays != *kept {
                self.hosts.reserve(*host, takes, stays, self.now);
            }
            if stays {
                gang.seats.insert(*host, true);
            }
        }

        if held {
            gang.seats
                .extend(live.into_iter().map(|host| (host, false)));
        }

        if settled {
            self.jobs.gangs.remove(&id);
            self.learn_together(id, width, seats.keys().copied());
        }
    }

    /// Learns from a finished gang: its run time at its width, if nothing disturbed it.
    fn learn_together(&mut self, id: JobId, width: u32, hosts: impl Iterator<Item = HostId>) {
        let job = self.jobs.table.get(&id);
        let Some(job) = job.filter(|job| job.state() == JobState::Finished) else {
            return;
        };
        let undisturbed = job.gang.as_ref().filter(|gang| !gang.disturbed);
        let Some(begun) = undisturbed.and_then(|gang| gang.begun) else {
            return;
        };

        // All ranks go at the pace of the slowest.
        let speeds = hosts.filter_map(|id| Some(self.hosts.table.get(&id)?.speed.factor()));
        let speed = speeds.min_by(f64::total_cmp).unwrap_or(1.0);
        let work_s = self.now.since(begun).secs() * speed;
        let of = &job.stack.terms.estimator;
        let experience = &mut self.foresight.experience;
        experience.widths.observe(of, width, work_s);
        self.foresight
            .lives
            .observe(&of.program, ObservedRun::done(work_s));
    }

    /// Gives each waiting rank a host, if the gang holds hosts; returns `false` where one finds
    /// none.
    pub(crate) fn fill_seats(&mut self, id: JobId, fx: &mut Vec<Effect>) -> bool {
        while let Some(index) = self.seatless(id) {
            let host = self.seat_for(id);
            if !host.is_some_and(|host| self.seat(id, index, host, fx)) {
                self.lack(id);
                return false;
            }
        }

        if let Some(gang) = self.jobs.gang_mut(id) {
            gang.lacking = None;
        }
        true
    }

    /// Returns a rank that waits for a host, of a gang that holds others.
    fn seatless(&self, id: JobId) -> Option<u32> {
        let job = self.jobs.table.get(&id)?;
        job.gang.as_ref().filter(|gang| gang.formed.is_some())?;
        job.requeued.first().or(job.fresh.first())
    }

    /// Returns the host on which a rank of this gang can start: an idle one that it holds, or else
    /// the fastest other one.
    pub(crate) fn seat_for(&self, id: JobId) -> Option<HostId> {
        let job = self.jobs.table.get(&id)?;
        let gang = job.gang.as_ref()?;
        let idle = gang.seats.iter().filter(|(_, kept)| **kept);
        // The owner may have come back to a part of the host since.
        let takes = job.demand;
        let usable = |host: &HostId| {
            let host = self.hosts.table.get(host);
            host.is_some_and(|host| host.takes_work() && host.has_room_beside(takes, takes))
        };
        let others = || {
            let mut free = self.free_for(id).into_iter();
            free.find(|host| !gang.seats.contains_key(host))
        };

        idle.map(|(host, _)| *host).find(usable).or_else(others)
    }

    /// Returns the hosts that the job could have at once, the fastest first.
    pub(crate) fn free_for(&self, id: JobId) -> Vec<HostId> {
        let Some(job) = self.jobs.table.get(&id) else {
            return Vec::new();
        };
        let scene = job.scene(self.now, &self.settings, &self.hosts);
        let mut hosts: Vec<(Speed, HostId)> = scene.ready_by_speed().collect();
        let ready: BTreeSet<HostId> = hosts.iter().map(|(_, host)| *host).collect();
        let filled = self.filled(job.rank).into_iter().filter(|(_, id)| {
            !ready.contains(id) && scene.does(*id) && self.fits_for_fillers(*id, job)
        });
        hosts.extend(filled);

        // A stable sort: among equals those first on which no attempt must be preempted.
        hosts.sort_by_key(|(speed, _)| Reverse(*speed));
        let hosts = hosts.into_iter().map(|(_, host)| host);
        hosts.filter(|id| self.starts_together(*id)).collect()
    }

    /// Starts the rank `index` on a host. Returns whether it started.
    fn seat(&mut self, id: JobId, index: u32, host: HostId, fx: &mut Vec<Effect>) -> bool {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return false;
        };
        let Some(gang) = job.gang.as_mut() else {
            return false;
        };
        let takes = job.demand;
        if gang.seats.insert(host, false) == Some(true) {
            self.hosts.reserve(host, takes, false, self.now);
        }

        gang.stirred = true;
        let by = TaskId::new(id, index);
        while !self.hosts.has_room(host, takes) && self.oust(host, by, fx) {
            // Attempts that are told to stop leave their room to the rank.
            if self.can_claim(host, takes) {
                break;
            }
        }

        if !self.can_claim(host, takes) {
            if let Some(gang) = self.jobs.gang_mut(id) {
                gang.seats.remove(&host);
            }
            return false;
        }

        let (mut starter, jobs) = self.starter();
        let Some(job) = jobs.table.get_mut(&id) else {
            return false;
        };
        let why = job.take_waiting(index);
        let started = why.and_then(|why| starter.start(job, index, host, why, fx));
        jobs.lines.sync(job);
        started.is_some()
    }

    /// Whether an attempt of this demand can start on the host.
    fn can_claim(&self, id: HostId, takes: Demand) -> bool {
        let host = self.hosts.table.get(&id);
        host.is_some_and(|host| host.claim(takes).is_some())
    }

    /// Notes that a rank has no host, in `Gang::lacking`, and schedules a review for the case that
    /// this lasts.
    fn lack(&mut self, id: JobId) {
        let now = self.now;
        let lease = self.settings.lease;
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let Some(gang) = &mut job.gang else { return };
        let since = *gang.lacking.get_or_insert(now);
        let at = since + lease;
        job.plan.review = Some(if at > now { at } else { now + lease });
        self.jobs.lines.sync(job);
    }

    /// Disbands the latest of the gangs that have lacked a host for a lease, where fewer hosts exist that
    /// suit it than gangs hold and lack of these: else they would hold theirs for ever.
    fn disband_one(&mut self, lacking: &[JobId], fx: &mut Vec<Effect>) {
        let late = |job: &&Job| {
            let lacks = job.gang.as_ref().and_then(|gang| gang.lacking);
            lacks.is_some_and(|since| since + self.settings.lease <= self.now)
        };
        let stuck = lacking
            .iter()
            .rev()
            .filter_map(|id| self.jobs.table.get(id))
            .filter(late)
            .find(|job| self.too_few_for_all(job));

        if let Some(id) = stuck.map(|job| job.rank.job) {
            self.disband(id, fx);
        }
    }

    /// Whether there are fewer hosts that suit this gang's ranks than it has ranks, or fewer places on
    /// them than gangs hold and lack there.
    fn too_few_for_all(&self, job: &Job) -> bool {
        let needs = &job.rules.needs;
        let suits = |host: &&Host| counts(host) && host.suits(needs) && host.offers.together;
        let places_on = |host: &Host| (host.id, host.whole_room().holds(needs.takes));
        let there = self.hosts.table.values().filter(suits);
        let there: BTreeMap<HostId, u64> = there.map(places_on).collect();

        // Gangs with other needs count with what they hold here.
        let wanted = |other: &Job| match &other.gang {
            Some(gang) if gang.formed.is_none() => 0,
            _ if other.rules.needs == *needs => other.unsettled(),
            Some(gang) => gang
                .seats
                .keys()
                .filter(|id| there.contains_key(id))
                .count() as u64,
            None => 0,
        };
        let gangs = self.jobs.gangs.iter();
        let gangs = gangs.filter_map(|id| self.jobs.table.get(id));
        let places: u64 = there.values().sum();
        job.unsettled() > there.len() as u64 || gangs.map(wanted).sum::<u64>() > places
    }

    /// Gives up all hosts of the gang; it starts again once it gets as many at once.
    fn disband(&mut self, id: JobId, fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let live = job.copies().map(|copy| (copy.host, copy.attempt));
        let live: Vec<(HostId, AttemptId)> = live.collect();

        if let Some(gang) = &mut job.gang {
            gang.formed = None;
            gang.begun = None;
            gang.lacking = None;
            gang.stirred = true;
        }

        for (host, attempt) in live {
            self.take_away(host, attempt, EndReason::Disbanded, fx);
        }

        self.settle_seats(id);
    }

    /// Sends `Begin` to all ready ranks, once all ranks that are not done are ready or running.
    fn begin_together(&mut self, id: JobId, fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let all = job.waiting() == 0;
        let Some(gang) = job.gang.as_mut().filter(|gang| gang.stirred) else {
            return;
        };
        gang.stirred = false;

        let copies = job.records.values().flat_map(|record| record.live.iter());
        let phase = |host: HostId, attempt: AttemptId| {
            Some(self.hosts.table.get(&host)?.books.get(&attempt)?.phase)
        };
        let live: Vec<(HostId, AttemptId, Phase)> = copies
            .filter_map(|copy| Some((copy.host, copy.attempt, phase(copy.host, copy.attempt)?)))
            .collect();

        // If no begun rank is left, the remaining ones begin together.
        let begins = |(_, attempt, phase): &(HostId, AttemptId, Phase)| match phase {
            Phase::Queued | Phase::Staging => false,
            Phase::Ready => gang.told.contains(attempt),
            _ => true,
        };
        if !live.iter().any(begins) {
            gang.begun = None;
        }

        // An ended rank may have failed before it was ready: its delivery will tell.
        let ready = |(.., phase): &(HostId, AttemptId, Phase)| {
            !matches!(phase, Phase::Queued | Phase::Staging | Phase::Ended)
        };
        if all && !live.is_empty() && live.iter().all(ready) {
            gang.begun.get_or_insert(self.now);
        }

        if gang.begun.is_some() {
            let waits = |(_, attempt, phase): &(HostId, AttemptId, Phase)| {
                *phase == Phase::Ready && gang.told.insert(*attempt)
            };
            let waiting = live.iter().copied().filter(waits);
            fx.extend(waiting.map(|(host, attempt, _)| Effect::Begin { host, attempt }));
            gang.told.retain(|told| {
                live.iter()
                    .any(|(_, attempt, phase)| attempt == told && *phase == Phase::Ready)
            });
        }
    }

    /// Gives the next gang in the queue its hosts, or reserves the free ones for it.
    pub(crate) fn place_gang(&mut self, id: JobId, fx: &mut Vec<Effect>) {
        let waits = |job: &Job| job.gang.as_ref().is_some_and(|gang| gang.formed.is_none());
        if !self.jobs.table.get(&id).is_some_and(waits) {
            return;
        }

        let free = self.free_for(id);
        match self.choose_width(id, free.len() as u32) {
            Some(WidthChoice::Start(hosts)) => self.form(id, &free, hosts as usize, fx),
            Some(WidthChoice::Hold(holdout)) => self.hold(id, holdout, &free, fx),
            None => {
                if let Some(gang) = self.jobs.gang_mut(id) {
                    gang.holdout = None;
                }
            }
        }
    }

    /// Starts all waiting ranks, each on a host of its own.
    fn form(&mut self, id: JobId, free: &[HostId], hosts: usize, fx: &mut Vec<Effect>) {
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        if job.gang.as_ref().is_some_and(|gang| gang.width.is_none()) {
            job.widen(hosts as u32);
            fx.push(Effect::Formed {
                job: id,
                ranks: hosts as u32,
                free: free.len() as u32,
            });
        }

        if matches!(job.policy.limits, LimitSource::Learned(_))
            && !job.rules.checkpoint
            && job.attempts == 0
        {
            let of = of_ranks(&job.stack.terms.estimator, hosts as u32);
            let zeta = self
                .foresight
                .small
                .rate(self.hosts.index.all.usable_slots, self.now);
            job.lessons = Lessons::of(self.foresight.experience.runs.of(&of), zeta);
        }

        let ranks: Vec<u32> = waiting(job).iter().collect();
        let Some(gang) = &mut job.gang else { return };
        gang.formed = Some(self.now);
        gang.holdout = None;
        gang.lacking = None;
        job.plan.review = None;
        for (predicted_s, came_s) in gang.pending.came(free.len() as u32, self.now.secs()) {
            self.foresight.experience.waits.observe(predicted_s, came_s);
        }

        for (index, host) in ranks.into_iter().zip(free.iter().take(hosts)) {
            self.seat(id, index, *host, fx);
        }
    }

    /// Reserves the free hosts for a gang that waits for more, in `Jobs::kept`.
    fn hold(&mut self, id: JobId, holdout: Holdout, free: &[HostId], fx: &mut Vec<Effect>) {
        // Seconds are rounded: the review comes when that time has surely passed.
        let now_s = self.now.secs();
        let until = at(holdout.until_s).max(self.now) + ROUNDING;
        let Some(job) = self.jobs.table.get_mut(&id) else {
            return;
        };
        let Some(gang) = &mut job.gang else { return };
        gang.holdout = Some(holdout);
        gang.passes_until.get_or_insert(until);

        let takes = job.demand;
        let first = gang.pending.told(holdout.hosts, holdout.predicted_s, now_s);
        job.plan.review = Some(until);
        self.jobs.lines.sync(job);
        if first {
            fx.extend(self.foretell(id, &holdout));
        }

        for host in free.iter().copied().take(holdout.hosts as usize) {
            if self.hosts.has_room(host, takes) {
                self.hosts.reserve(host, takes, true, self.now);
                let gang = id;
                self.jobs.kept.push(KeptSlot { host, takes, gang });
            }
        }
    }

    /// Lets a job have the hosts reserved for gangs before it on which a task is expected to end in time for
    /// the gang of the reservation (backfill); returns these hosts.
    pub(crate) fn let_pass(&mut self, id: JobId) -> Vec<KeptSlot> {
        if self.jobs.kept.is_empty() {
            return Vec::new();
        }

        let job = self.jobs.table.get(&id).filter(|job| job.promise.is_none());
        let Some(work) = job.and_then(Job::work_per_task) else {
            return Vec::new();
        };
        let stretch = self.foresight.curves().stretch;
        let until = |kept: &KeptSlot| {
            let gang = self.jobs.table.get(&kept.gang)?.gang.as_ref()?;
            gang.passes_until.filter(|_| gang.holdout.is_some())
        };
        let in_time = |kept: &&KeptSlot| {
            let Some((until, host)) = until(kept).zip(self.hosts.table.get(&kept.host)) else {
                return false;
            };
            let on = self.foresight.as_reported(host);
            let task_s = Foresight::task_s(on, work, 1.0, self.settings.start_cost) * stretch;
            self.now.secs() + task_s <= until.secs()
        };
        let open: Vec<KeptSlot> = self.jobs.kept.iter().filter(in_time).copied().collect();
        for kept in &open {
            self.hosts.reserve(kept.host, kept.takes, false, self.now);
        }

        open
    }

    /// Reserves the hosts again that were not taken.
    pub(crate) fn close_again(&mut self, open: Vec<KeptSlot>) {
        for slot in open {
            if self.hosts.has_room(slot.host, slot.takes) {
                self.hosts.reserve(slot.host, slot.takes, true, self.now);
            } else if let Some(at) = self.jobs.kept.iter().position(|kept| *kept == slot) {
                self.jobs.kept.swap_remove(at);
            }
        }
    }
}

/// Whether a gang whose ranks have this demand goes on holding a host that runs none of them. One
/// that it only begins to hold must have room for a rank: its owner may lend less than before.
fn stays(host: &Host, kept: bool, takes: Demand) -> bool {
    let there = host.liveness != Liveness::Lost && host.presence != Presence::Left;
    let usable = host.liveness == Liveness::Alive && host.owner.lets_run();
    there && (kept || usable && host.claim(takes).is_some())
}

fn at(seconds: f64) -> Time {
    Time::default() + Span::from_secs_f64(seconds)
}
