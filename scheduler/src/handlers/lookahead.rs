//! The starts of deskgrid's own policy: gathers the estimates of hosts and attempts, lets the pure
//! parts ([`crate::policy::placement::lookahead`], [`crate::policy::replication::gain`]) decide,
//! and applies their decision.

use common::{HostId, Span, Time};

use crate::handlers::dispatch::Starter;
use crate::handlers::moves::Leave;
use crate::policy::placement::PlacementView;
use crate::policy::placement::lookahead::expected_s;
use crate::policy::plan::{Candidates, EndingSoon};
use crate::policy::replication::gain::{CopySearch, Gains, OpenTask};
use crate::policy::replication::{Gain, Replicated};
use crate::prediction::completion_law::CompletionLaw;
use crate::prediction::experience::JobKind;
use crate::prediction::predict::{PredictedSlot, completion_s};
use crate::protocol::effect::{CopyReason, Effect, StartReason};
use crate::state::foresight::{Foresight, WorkPerTask};
use crate::state::host::{Host, Liveness, Presence};
use crate::state::job::{Job, LiveCopy};

/// The interval between reviews of a job: a mean task's time over `TICKS_PER_TASK`, within bounds
/// in seconds; where only copies are left, without the upper one. Copies are searched for at most
/// every mean task's time over `SEARCHES_PER_TASK`.
const LEAST_TICK_S: f64 = 0.1;
const TICK_S: f64 = 15.0;
const TICKS_PER_TASK: f64 = 20.0;
const SEARCHES_PER_TASK: f64 = 25.0;
/// The most live attempts of one task; and the most copies per task that one job may start, as a
/// multiple of its `budget`.
const MOST_LIVE: usize = 6;
const MOST_COPIES: f64 = 4.0;
/// On grids of more slots than this, hosts that get ready are considered together: every mean task's
/// time over `LOOKS_PER_TASK`, and at least every `CROWD_TICK_S` seconds. Each look costs as much as
/// the grid has hosts, so that the cost per task stays what it is on small grids.
const CROWD: u64 = 1_000;
const CROWD_TICK_S: f64 = 1.0;
const LOOKS_PER_TASK: f64 = 300.0;
/// The most hosts considered in one search, so that it does not delay other work: a part of the
/// slots, within bounds; and the tasks considered for each of these hosts. A search that stopped at
/// that number goes on sooner, by the factor `SOONER`.
const PART_AT_ONCE: u64 = 20;
const LEAST_AT_ONCE: usize = 64;
const MOST_AT_ONCE: usize = 1_000;
/// In a crowd, all idle hosts are ranked for copies this often in a mean task's time; the best ones,
/// this many times the most that one search considers, are remembered in between.
const RANKINGS_PER_TASK: f64 = 4.0;
const CANDIDATES: usize = 3;
const TASKS_PER_COPY: usize = 4;
const SOONER: f64 = 0.2;
/// The number of slots of the grids for which the prices of copies were found. On larger ones one
/// copy brings the end of a job forward by less, so that prices fall with this power of the slots
/// (found by experiment: `cargo bench -p simulator --bench scale`).
const USUAL_SLOTS: f64 = 220.0;
const SCALE_POWER: f64 = 0.75;
/// The gain that makes a move worth its start, as a part of a task's time on a mean host.
const MOVE_PRICE: f64 = 0.002;
/// The number of copies that even a job of few tasks may start.
const FEWEST_COPIES: f64 = 2.0;
/// The part of a job's tasks left at which its endgame begins: copies are cheaper then.
const ENDGAME: f64 = 0.4;
const ENDGAME_PRICE: f64 = 0.25;
/// Lookahead plans for this many more tasks, since some will fail. `SLACK` multiplies the planned
/// completion time at which hosts still count as good, so that it can choose among them.
const RESERVE: f64 = 1.05;
const SLACK: f64 = 1.05;
/// `SLACK` where tasks keep their state: a bad host costs them little.
const SLACK_WITH_STATE: f64 = 1.1;
/// Hosts that get free within this part of a task's mean run time are ranked as if they were ready.
const SOON: f64 = 0.1;
/// In a crowd, all busy hosts are looked at for such ones this often within that time.
const SCANS_PER_SOON: f64 = 2.0;

/// The cost of a loss beside the start, in seconds, for tasks that keep their state: the work since
/// the last report.
const LOST_WITH_STATE_S: f64 = 30.0;

/// A slot that is free now or soon. Times are in seconds.
#[derive(Clone, Copy)]
struct FreeSlot {
    host: HostId,
    /// The time until it is free.
    free_s: f64,
    /// The run time of a task there.
    task_s: f64,
    /// The expected time per completed task from then on, once it was computed.
    expected_s: Option<f64>,
}

/// The free slots of all ready hosts, as they are left by a job's turns that follow on each other.
struct LeftSlots {
    /// The work of a task, and its time on a mean host, for which they were looked at.
    work: WorkPerTask,
    mean_s: f64,
    slots: Vec<FreeSlot>,
}

/// A ready host, as seen by a job. Times are in seconds.
struct ReadyHost {
    host: HostId,
    /// The time until it is free.
    free_s: f64,
    task_s: f64,
    /// The expected time per completed task; smaller is better.
    key: f64,
    law: CompletionLaw,
}

/// Returns the interval between reviews of a job whose tasks take this long on a mean host.
fn tick_s(mean_s: f64) -> f64 {
    (mean_s / TICKS_PER_TASK).max(LEAST_TICK_S)
}

/// Returns which of a copy and a move, each with its gain, is worth more than its price and more
/// than the other: its place in the search, its gain, and whether it is the move.
fn worth_most(
    copied: Option<(usize, f64)>,
    moved: Option<(usize, f64)>,
    copy_price_s: f64,
    move_price_s: f64,
) -> Option<(usize, f64, bool)> {
    let copied = copied.filter(|(_, gain_s)| *gain_s >= copy_price_s);
    let moved = moved.filter(|(_, gain_s)| {
        let beyond_s = gain_s - move_price_s;
        let more = copied.is_none_or(|(_, copy_s)| beyond_s > copy_s - copy_price_s);
        *gain_s >= move_price_s && more
    });
    let copied = copied.map(|(at, gain_s)| (at, gain_s, false));
    moved.map(|(at, gain_s)| (at, gain_s, true)).or(copied)
}

impl<'a> Starter<'a> {
    /// Assigns waiting tasks to the ready hosts that will be done soonest. Returns `false` where
    /// too little is known of the tasks.
    pub(crate) fn place_ahead(&mut self, job: &mut Job, fx: &mut Vec<Effect>) -> bool {
        let mut left = None;
        loop {
            let known = self.place_turn(job, &mut left, fx);
            let index = &self.hosts.index;
            let full = index.all.ready.is_empty() || index.places(job.pool).ready.is_empty();
            if self.quota > 0 || self.turns == 0 || full || job.waiting() == 0 {
                return known;
            }
            self.turns -= 1;
            self.quota = 1;
        }
    }

    /// Does the same in one turn; `left` is what the turn before left of the free slots.
    fn place_turn(
        &mut self,
        job: &mut Job,
        left: &mut Option<LeftSlots>,
        fx: &mut Vec<Effect>,
    ) -> bool {
        let Some(work) = job.work_per_task() else {
            return false;
        };
        let places = self.hosts.index.places(job.pool);
        let arrivals = places.ready.arrivals;
        let usable_slots = places.usable_slots;
        let crowd = usable_slots > CROWD;

        if let Some((until, seen)) = job.plan.declined
            && self.now < until
            && (crowd || seen == arrivals)
        {
            return true;
        }

        let Some(mean_s) = self.mean_task_s(job, work) else {
            return false;
        };
        if job.plan.kind.is_none() {
            return false;
        }

        let waiting = job.waiting();
        let work = job.takes(work.mean_s * job.mean_part_left());
        let left_before = left.take();
        let few = self.best_for_few(job, work, mean_s);
        let mut whole = few.is_none() && self.turns > 0;
        let mut slots = match few {
            Some(best) => best,
            None => self.left_slots(job, work, mean_s, left_before),
        };
        let slack = if job.rules.checkpoint {
            SLACK_WITH_STATE
        } else {
            SLACK
        };
        let end_s = 1.0 + slack * self.queue_end_s(job, work, &slots);
        let wanted = waiting.min(self.quota);

        if whole {
            let near = slots.iter_mut().filter(|slot| slot.task_s <= end_s);
            near.for_each(|slot| self.reckon(slot, job, mean_s));
        }
        let near = slots.iter().filter(|slot| slot.task_s <= end_s);
        let mut good: Vec<FreeSlot> = near.copied().collect();
        if !good.is_empty() && !job.rules.checkpoint && waiting <= usable_slots {
            good.extend(self.soon(job, work, end_s, SOON * mean_s, crowd));
        }

        let good = self.best_of(good, job, mean_s, wanted as usize);

        // Tasks wait for the hosts that are free soon: only free ones start now.
        // An attempt that should have ended by now still has its slot.
        for (host, _) in good.into_iter().filter(|(_, free_s)| *free_s == 0.0) {
            if !self.hosts.has_room(host, job.demand) {
                continue;
            }
            let Some((index, why)) = job.pop_for(host, self.hosts) else {
                continue;
            };
            let since = self.ready_since(job, host);
            self.start(job, index, host, why, fx);
            whole = whole && self.take_slot(&mut slots, job, host, since);
        }

        if self.quota == 0 {
            *left = whole.then_some(LeftSlots {
                work,
                mean_s,
                slots,
            });
            return true;
        }

        self.look_again(job, mean_s, crowd, arrivals);
        true
    }

    /// Notes when the job, whose tasks take `mean_s` on a mean host, looks at the ready hosts again.
    fn look_again(&self, job: &mut Job, mean_s: f64, crowd: bool, arrivals: u64) {
        let tick_s = if crowd {
            (mean_s / LOOKS_PER_TASK).clamp(LEAST_TICK_S, CROWD_TICK_S)
        } else {
            tick_s(mean_s).min(TICK_S)
        };
        let until = self.now + Span::from_secs_f64(tick_s);
        job.plan.review = Some(until);

        if job.waiting() == 0 {
            // A task that is lost is placed at once.
            job.plan.queue_end = None;
            job.plan.declined = None;
        } else {
            job.plan.declined = Some((until, arrivals));
        }
    }

    /// Sets the job's `JobKind` once it has hosts and the time of its tasks is known.
    pub(crate) fn classify(&self, job: &mut Job) {
        if job.plan.kind.is_some() {
            return;
        }

        let work = self.foresight.work_of(job, self.hosts);
        let Some(mean_s) = work.and_then(|work| self.mean_task_s(job, work)) else {
            return;
        };
        let unsettled = job.unsettled() as f64;
        let slots = self.hosts.index.places(job.pool).usable_slots.max(1) as f64;
        job.plan.kind = Some(JobKind::of(unsettled / slots, mean_s, job.rules.checkpoint));
    }

    /// Returns a task's time on a mean one of the hosts that suit it, in seconds.
    fn mean_task_s(&self, job: &Job, work: WorkPerTask) -> Option<f64> {
        let speed = self.hosts.index.places(job.pool).mean_speed()?;
        let start_cost = self.settings.start_cost;
        Some(self.foresight.usual_task_s(work, speed, start_cost))
    }

    /// Returns the free slots on hosts that offer what the job needs.
    fn ready_slots(&self, job: &Job, work: WorkPerTask) -> Vec<FreeSlot> {
        let most = self.hosts.index.places(job.pool).ready.len() as usize;
        let scene = self.scene(job);
        let ready = scene.ready_by_since();
        let hosts = ready.filter_map(|id| self.hosts.table.get(&id));
        self.free_slots(job, work, hosts, most)
    }

    /// Returns the same; they are those that the turn before left, if that looked at all of them for
    /// such tasks.
    fn left_slots(
        &self,
        job: &Job,
        work: WorkPerTask,
        mean_s: f64,
        left: Option<LeftSlots>,
    ) -> Vec<FreeSlot> {
        // Else a host may have no work any more.
        let any_host_does = job.blame.is_bare() || !job.fresh.is_empty();
        let same = |left: &LeftSlots| {
            any_host_does && left.work == work && left.mean_s.to_bits() == mean_s.to_bits()
        };
        let Some(left) = left.filter(same) else {
            return self.ready_slots(job, work);
        };

        let of = |slot: &FreeSlot| (slot.host, slot.task_s.to_bits());
        debug_assert!(
            left.slots
                .iter()
                .map(of)
                .eq(self.ready_slots(job, work).iter().map(of)),
            "a turn of {:?} looks at other slots than there are",
            job.rank.job
        );
        left.slots
    }

    /// Takes a slot of this host, which was among the ready ones since `since`, out of `slots`, as a task
    /// has started there. Returns whether all others are what they were.
    fn take_slot(
        &self,
        slots: &mut Vec<FreeSlot>,
        job: &Job,
        host: HostId,
        since: Option<Time>,
    ) -> bool {
        let now_since = self.ready_since(job, host);
        let ready = now_since.is_some() && self.scene(job).has_room(host);
        let there = self.hosts.table.get(&host).filter(|_| ready);
        let room = there.map_or(0, |there| there.room_for(job.demand));
        let known = slots.iter().filter(|slot| slot.host == host).count();
        if room + 1 != known || room > 0 && now_since != since {
            return false;
        }

        let Some(at) = slots.iter().position(|slot| slot.host == host) else {
            return false;
        };
        slots.remove(at);
        true
    }

    /// Returns the time since which the host is ready for tasks of the job.
    fn ready_since(&self, job: &Job, host: HostId) -> Option<Time> {
        let host = self.hosts.table.get(&host)?;
        self.hosts.index.ready_since(job.pool, host)
    }

    /// Returns the slots that are enough to choose from for a few lost tasks among very many idle hosts: those
    /// of hosts that were found best for copies.
    fn best_for_few(&self, job: &Job, work: WorkPerTask, mean_s: f64) -> Option<Vec<FreeSlot>> {
        if job.waiting() > LEAST_AT_ONCE as u64 {
            return None;
        }
        let hosts = self.best_known(job, mean_s)?;
        let most = hosts.len();
        let slots = self.free_slots(job, work, hosts.into_iter(), most);
        Some(slots).filter(|slots| slots.len() > LEAST_AT_ONCE)
    }

    /// Returns the free slots of those of these hosts, `most` of them, that may run a waiting task of the job.
    fn free_slots<'h>(
        &self,
        job: &Job,
        work: WorkPerTask,
        hosts: impl Iterator<Item = &'h Host>,
        most: usize,
    ) -> Vec<FreeSlot> {
        let mut slots = Vec::with_capacity(most);
        for host in hosts.filter(|host| job.has_work_for(host.id, self.hosts)) {
            let slot = self.slot(host, work, 0.0);
            slots.extend(std::iter::repeat_n(slot, host.room_for(job.demand)));
        }

        slots
    }

    /// Returns a slot of the host that is free in `free_s`.
    fn slot(&self, host: &Host, work: WorkPerTask, free_s: f64) -> FreeSlot {
        let start_cost = self.settings.start_cost;
        FreeSlot {
            host: host.id,
            free_s,
            task_s: Foresight::task_s(self.foresight.as_reported(host), work, 1.0, start_cost),
            expected_s: None,
        }
    }

    /// Returns the slots in which attempts of this job should end within `within_s` and a next task would
    /// be done by `end_s`. In a crowd, all busy hosts are looked at only now and then; in between, those
    /// on which an attempt was found that ends before the next such look.
    fn soon(
        &self,
        job: &mut Job,
        work: WorkPerTask,
        end_s: f64,
        within_s: f64,
        crowd: bool,
    ) -> Vec<FreeSlot> {
        if !crowd {
            return self.ending(job, work, self.hosts.busy(), within_s, end_s);
        }

        let known = job.plan.ending.take();
        let known = known.filter(|known| self.now < known.until);
        let known = known.unwrap_or_else(|| {
            let ahead_s = within_s / SCANS_PER_SOON;
            let ends = |host: &&Host| {
                let mut left = self.left_of(job, work, host);
                left.any(|left_s| left_s <= within_s + ahead_s)
            };
            EndingSoon {
                until: self.now + Span::from_secs_f64(ahead_s),
                hosts: self.hosts.busy().filter(ends).map(|host| host.id).collect(),
            }
        });

        let hosts = (known.hosts.iter()).filter_map(|id| self.hosts.table.get(id));
        let soon = self.ending(job, work, hosts, within_s, end_s);
        job.plan.ending = Some(known);
        soon
    }

    /// Returns the slots of these hosts in which attempts of this job should end within `within_s` and a
    /// next task would be done by `end_s`.
    fn ending<'h>(
        &self,
        job: &Job,
        work: WorkPerTask,
        hosts: impl Iterator<Item = &'h Host>,
        within_s: f64,
        end_s: f64,
    ) -> Vec<FreeSlot> {
        let scene = self.scene(job);
        let mut ending = Vec::new();

        for host in hosts.filter(|host| host.takes_work() && scene.does(host.id)) {
            let slot = self.slot(host, work, 0.0);
            if slot.task_s > end_s {
                continue;
            }
            for free_s in self.left_of(job, work, host) {
                if free_s <= within_s && free_s + slot.task_s <= end_s {
                    ending.push(FreeSlot { free_s, ..slot });
                }
            }
        }

        ending
    }

    /// Returns the run times that the job's attempts on this host still need, in seconds.
    fn left_of(&self, job: &Job, work: WorkPerTask, host: &Host) -> impl Iterator<Item = f64> {
        let id = job.rank.job;
        let start_cost = self.settings.start_cost;
        let loads = host.books.iter();
        let own = loads.filter(move |(attempt, _)| attempt.task.job == id);
        let on = self.foresight.as_reported(host);
        own.map(move |(_, load)| Foresight::left_s(on, load, work, start_cost, self.now))
    }

    /// Returns those `wanted` of these slots on which tasks are done soonest, each with its host and the
    /// time until it is free; in order, if there are more.
    fn best_of(
        &self,
        mut slots: Vec<FreeSlot>,
        job: &Job,
        mean_s: f64,
        wanted: usize,
    ) -> Vec<(HostId, f64)> {
        if slots.len() > wanted && wanted != 1 {
            let ranked = self.ranked(slots.into_iter(), job, mean_s, wanted);
            let best = ranked.iter().take(wanted);
            return best.map(|ready| (ready.host, ready.free_s)).collect();
        }

        if slots.len() > wanted {
            (slots.iter_mut()).for_each(|slot| self.reckon(slot, job, mean_s));
            let key = |slot: &FreeSlot| slot.free_s + slot.expected_s.unwrap_or(f64::INFINITY);
            let order =
                |a: &FreeSlot, b: &FreeSlot| key(a).total_cmp(&key(b)).then(a.host.cmp(&b.host));
            slots = slots.into_iter().min_by(order).into_iter().collect();
        }
        let all = slots.iter().map(|slot| (slot.host, slot.free_s));
        all.collect()
    }

    /// Computes the expected time per completed task on a slot, if it is not known.
    fn reckon(&self, slot: &mut FreeSlot, job: &Job, mean_s: f64) {
        if slot.expected_s.is_none() {
            let known = self.law_of(slot, job, mean_s);
            slot.expected_s = known.map(|(_, expected_s)| expected_s);
        }
    }

    /// Returns the `CompletionLaw` of a task on a slot, and the expected time per completed task.
    fn law_of(&self, slot: &FreeSlot, job: &Job, mean_s: f64) -> Option<(CompletionLaw, f64)> {
        let curves = self.foresight.curves();
        let host = self.hosts.table.get(&slot.host)?;
        let law = CompletionLaw::of(slot.task_s, Foresight::place(host, self.now), curves);

        // With its state kept, a lost task needs little more than a new start.
        let restart_s = if job.rules.checkpoint {
            self.settings.start_cost.secs() + LOST_WITH_STATE_S
        } else {
            0.5 * slot.task_s + mean_s
        };
        let expected_s = expected_s(slot.task_s, restart_s, &law, curves);
        Some((law, expected_s))
    }

    /// Ranks slots: the `best` ones come first, in order, and then the others.
    fn ranked(
        &self,
        slots: impl Iterator<Item = FreeSlot>,
        job: &Job,
        mean_s: f64,
        best: usize,
    ) -> Vec<ReadyHost> {
        let of = |slot: FreeSlot| {
            let (law, expected_s) = self.law_of(&slot, job, mean_s)?;
            Some(ReadyHost {
                host: slot.host,
                free_s: slot.free_s,
                task_s: slot.task_s,
                key: slot.free_s + expected_s,
                law,
            })
        };
        let mut ready: Vec<_> = slots.filter_map(of).collect();
        let order =
            |a: &ReadyHost, b: &ReadyHost| a.key.total_cmp(&b.key).then(a.host.cmp(&b.host));
        let best = if best < ready.len() {
            ready.select_nth_unstable_by(best, order).0
        } else {
            &mut ready[..]
        };
        best.sort_by(order);
        ready
    }

    /// Returns the time, in seconds from now, by which all hosts together could complete the job's
    /// waiting tasks. Cached for `TICK_S`: it stays where it is while tasks start as planned.
    fn queue_end_s(&self, job: &mut Job, work: WorkPerTask, free: &[FreeSlot]) -> f64 {
        let places = self.hosts.index.places(job.pool);
        let fleet_speed = places.usable_slots as f64 * places.mean_speed().unwrap_or(0.0);

        // The lower bound: no schedule ends before perfectly divisible work would.
        let least_s = job.waiting() as f64 * work.mean_s / fleet_speed;
        if free.iter().all(|slot| slot.task_s <= least_s) {
            return least_s;
        }
        if let Some((end, until)) = job.plan.queue_end
            && self.now < until
        {
            return end.since(self.now).secs();
        }

        let end_s = self.completion_s(
            job,
            work,
            free,
            (job.waiting() as f64 * RESERVE).ceil() as u64,
            least_s,
        );

        let after = |span_s| self.now + Span::from_secs_f64(span_s);
        job.plan.queue_end = Some((after(end_s), after(tick_s(work.mean_s).min(TICK_S))));
        end_s
    }

    fn completion_s(
        &self,
        job: &Job,
        work: WorkPerTask,
        free: &[FreeSlot],
        waiting: u64,
        least_s: f64,
    ) -> f64 {
        let id = job.rank.job;
        let mut servers: Vec<_> = free
            .iter()
            .map(|slot| PredictedSlot {
                free_s: 0.0,
                task_s: slot.task_s,
            })
            .collect();

        // By then free slots alone would have completed the tasks: others do not count that take longer.
        let longest_s = if waiting > 0 && waiting < servers.len() as u64 {
            let by_time = |a: &PredictedSlot, b: &PredictedSlot| a.task_s.total_cmp(&b.task_s);
            let (_, slot, _) = servers.select_nth_unstable_by(waiting as usize - 1, by_time);
            let longest_s = slot.task_s;
            servers.truncate(waiting as usize);
            longest_s
        } else {
            f64::INFINITY
        };

        // Hosts that cannot be reached now are not counted on.
        let there = |host: &&Host| {
            let connected = host.presence == Presence::Connected;
            host.liveness == Liveness::Alive && connected && !host.draining
        };
        for host in self.hosts.busy().filter(there) {
            let on = self.foresight.as_reported(host);
            let start_cost = self.settings.start_cost;
            let task_s = Foresight::task_s(on, work, 1.0, start_cost);
            if task_s > longest_s {
                continue;
            }

            // The ends of other jobs' attempts are unknown here: their slots are not counted on.
            for (_, load) in host
                .books
                .iter()
                .filter(|(attempt, _)| attempt.task.job == id)
            {
                let free_s = (self.foresight).expected_s(on, load, work, start_cost, self.now);
                servers.push(PredictedSlot { free_s, task_s });
            }
        }

        completion_s(&servers, waiting, least_s)
    }

    /// Returns the time before which [`Self::copy_for_gain`] and `copy_stuck` start nothing, if
    /// nothing happens to the job.
    pub(crate) fn rests(&self, job: &Job) -> Option<Time> {
        let replication = job.policy.replication;
        let others =
            replication.overlap() == Some(Replicated::Running) || job.policy.placement.prepares();
        if !job.copies_overdue() || others || job.waiting() > 0 {
            return None;
        }

        let never = job.longest_s().is_none() && !self.settings.benching;
        let overdue = job.plan.overdue.or(never.then_some(Time(u64::MAX)))?;
        let Some(gain) = replication.gain() else {
            return Some(overdue).filter(|at| *at > self.now);
        };
        let unknown = job.task_work_s().is_none() && !job.reports_progress;
        let search = match job.plan.kind {
            Some(_) if gain.copies_max > 0.0 => job.plan.search,
            None if !unknown => return None,
            _ => overdue,
        };
        Some(search.min(overdue)).filter(|at| *at > self.now)
    }

    /// Starts the copies and moves that gain enough. Returns `false` where too little is known of
    /// the tasks, or where the job has used up its copies: then only stuck attempts are copied.
    pub(crate) fn copy_for_gain(
        &mut self,
        answer: Gain,
        job: &mut Job,
        fx: &mut Vec<Effect>,
    ) -> bool {
        let Some(kind) = job.plan.kind else {
            return false;
        };
        let Some(work) = self.foresight.work_of(job, self.hosts) else {
            return false;
        };
        let Some(task_s) = self.mean_task_s(job, work) else {
            return false;
        };
        if answer.copies_max <= 0.0 || self.now < job.plan.search {
            return true;
        }

        let budget = answer.budget(job.rules.checkpoint);
        let most = (MOST_COPIES * budget * job.counts().total as f64).max(FEWEST_COPIES);
        let spent = |job: &Job| job.duplicates as f64 + 1.0 > most;
        if spent(job) {
            return false;
        }

        let now = self.now;
        let after = |span_s| now + Span::from_secs_f64(span_s);
        job.plan.search = after((task_s / SEARCHES_PER_TASK).max(LEAST_TICK_S));
        job.plan.review = Some(after(tick_s(task_s)));

        let slots = self.hosts.index.places(job.pool).usable_slots;
        let at_once = ((slots / PART_AT_ONCE) as usize).clamp(LEAST_AT_ONCE, MOST_AT_ONCE);
        let ready = self.candidates(job, work, task_s, at_once);
        let times_s = ready.iter().map(|ready| ready.task_s);
        let Some(best_s) = times_s.min_by(f64::total_cmp) else {
            return true;
        };

        let begin_s = if job.waiting() > 0 {
            self.queue_end_s(job, work, &self.ready_slots(job, work))
        } else {
            0.0
        };
        let mut gains = self.gains(job, work, task_s, best_s, begin_s);
        let price = self.price(job, kind, slots);
        let foresight: &'a Foresight = self.foresight;
        let curves = foresight.curves();

        let start_s = self.settings.start_cost.secs();
        if let Some(first) = ready.first() {
            gains.keep_best(&first.law, TASKS_PER_COPY * at_once);
        }
        let mut copies = 0;
        for candidate in ready.iter().take(at_once) {
            let Some(host) = self.hosts.table.get(&candidate.host) else {
                continue;
            };
            let place = Foresight::place(host, self.now);
            let law = |left: f64| match left {
                1.0 => candidate.law,
                left => {
                    CompletionLaw::of(start_s + left * (candidate.task_s - start_s), place, curves)
                }
            };
            let fit = |task| self.scene(job).may_run(task, candidate.host);
            let copied = gains.best(law, fit).filter(|_| !spent(job));
            let moved = gains.best_move(law, fit);
            let Some((at, gain_s, moves)) =
                worth_most(copied, moved, price * task_s, MOVE_PRICE * task_s)
            else {
                if job.blame.keeps_any() {
                    // It may suit tasks that are kept from this host.
                    continue;
                }
                break;
            };

            let (index, left) = gains.task(at);
            let record = job.records.get(&index);
            let Some(of) = record.and_then(|record| record.live.first()).copied() else {
                break;
            };
            if moves {
                self.move_task(job, index, of, candidate.host, fx);
                gains.move_to(at, &law(left));
            } else {
                let gain = CopyReason::Gain(Span::from_secs_f64(gain_s));
                let why = StartReason::Duplicate(of.attempt.number, gain);
                self.begin(job, index, candidate.host, false, why, fx);

                let record = job.records.get(&index);
                let live = record.map_or(0, |record| record.live.len());
                gains.add(at, &law(left), live < self.most_live());
            }
            copies += 1;
        }

        if copies == at_once && at_once > LEAST_AT_ONCE {
            job.plan.search = after(SOONER * task_s / SEARCHES_PER_TASK);
        }

        true
    }

    /// Returns the price of a copy, in times of a task.
    fn price(&self, job: &Job, kind: JobKind, slots: u64) -> f64 {
        let undone = job.records.len() as u64 + job.fresh.len();
        let endgame = undone as f64 <= ENDGAME * job.counts().total as f64;
        let scale = USUAL_SLOTS / slots as f64;
        self.foresight.experience.prices.price(kind)
            * if endgame { ENDGAME_PRICE } else { 1.0 }
            * scale.min(1.0).powf(SCALE_POWER)
    }

    /// Ranks the idle hosts for copies, the best first. In a crowd, all of them are ranked only now
    /// and then; in between, the best ones of that time and those that came since.
    fn candidates(
        &self,
        job: &mut Job,
        work: WorkPerTask,
        task_s: f64,
        most: usize,
    ) -> Vec<ReadyHost> {
        let slot = |host| self.slot(host, work, 0.0);
        if let Some(best) = self.best_known(job, task_s)
            && best.len() >= most
        {
            return self.ranked(best.into_iter().map(slot), job, task_s, most);
        }

        let crowd = self.hosts.index.places(job.pool).usable_slots > CROWD;
        let scene = self.scene(job);
        let all = scene.ready_by_since();
        let all = all.filter_map(|id| self.hosts.table.get(&id)).map(slot);
        let wanted = if crowd { CANDIDATES * most } else { most };
        let ranked = self.ranked(all, job, task_s, wanted);
        if crowd {
            let best = ranked.iter().take(wanted);
            job.plan.candidates = Some(Candidates {
                at: self.now,
                best: best.map(|ready| ready.host).collect(),
            });
        }
        ranked
    }

    /// Returns the idle hosts that were the best for copies when all of them were last ranked, and those
    /// that came since; `None` where that is too long ago for tasks of this time, or few of them are left.
    fn best_known(&self, job: &Job, task_s: f64) -> Option<Vec<&Host>> {
        let Candidates { at, best } = job.plan.candidates.as_ref()?;
        if self.now >= *at + Span::from_secs_f64(task_s / RANKINGS_PER_TASK) {
            return None;
        }
        let scene = self.scene(job);
        let idle = |id: HostId| {
            let host = self.hosts.table.get(&id)?;
            (scene.has_room(id) && scene.does(id)).then_some(host)
        };
        let still_ready = |host: &&Host| {
            let since = self.hosts.index.ready_since(job.pool, host);
            since.is_some_and(|since| since < *at)
        };
        let still = best.iter().filter_map(|id| idle(*id)).filter(still_ready);
        let mut hosts: Vec<_> = still.collect();
        if hosts.len() < LEAST_AT_ONCE {
            return None;
        }

        let new = self.hosts.index.places(job.pool).ready.since(*at);
        hosts.extend(new.filter_map(idle));
        Some(hosts)
    }

    /// Returns the largest number of live attempts of one task.
    fn most_live(&self) -> usize {
        MOST_LIVE.min(self.settings.max_copies as usize)
    }

    /// Returns the search among the job's tasks with live attempts, with the `CompletionLaw` of each
    /// attempt's completion.
    fn gains(
        &self,
        job: &Job,
        work: WorkPerTask,
        task_s: f64,
        best_s: f64,
        begin_s: f64,
    ) -> Gains<'a> {
        let foresight: &'a Foresight = self.foresight;
        let law = |copy: &LiveCopy| {
            let host = self.hosts.table.get(&copy.host)?;
            let load = host.books.get(&copy.attempt)?;
            let on = foresight.as_reported(host);
            Some(foresight.law(on, load, work, self.settings.start_cost, self.now))
        };

        // A task that waits is started and not copied; one that may not be tried again is neither.
        let live = job
            .records
            .iter()
            .filter(|(task, record)| !job.requeued.contains(*task) && !record.is_spent(&job.rules))
            .flat_map(|(task, record)| record.live.iter().map(move |copy| (task, copy)));
        let mut laws: Vec<(u32, CompletionLaw)> = Vec::with_capacity(2 * job.records.len());
        laws.extend(live.filter_map(|(task, copy)| Some((task, law(copy)?))));

        let mut gains = Gains::new(
            job.records.len(),
            CopySearch {
                curves: foresight.curves(),
                begin_s,
                last_s: laws.iter().map(|(_, law)| law.end_s).fold(0.0, f64::max),
                task_s,
                start_s: self.settings.start_cost.secs(),
                best_s,
                notice_s: self.settings.reports(&job.policy).secs(),
                keeps: job.rules.checkpoint,
            },
        );

        for of_task in laws.chunk_by(|(a, _), (b, _)| a == b) {
            let task = of_task[0].0;
            let left = 1.0 - self.saved(job, task);
            let leave = self.leave(job, task);
            let room = of_task.len() < self.most_live() && leave != Leave::Soon;
            let moves_from = (leave == Leave::Now).then_some(of_task[0].1);
            gains.open(
                OpenTask {
                    task,
                    left,
                    room,
                    moves_from,
                },
                of_task.iter().map(|(_, law)| *law),
            );
        }

        gains
    }
}
