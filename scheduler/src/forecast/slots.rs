//! The slots of hosts with the times at which each is free, and what the tasks of jobs that come first
//! make of these times.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use common::needs::{Demand, Needs};
use common::{JobId, Speed, Time};

use crate::forecast::starts::{FAR_S, OwnerStay, kept};
use crate::prediction::completion_law::AttemptHost;
use crate::prediction::malleable::HostHolder;
use crate::prediction::predict::{Filling, PredictedSlot, last_tasks};
use crate::state::foresight::{Foresight, WorkPerTask};
use crate::state::host::{Host, HostAttempt};
use crate::state::queue::{TasksAhead, WaitingTasks};
use crate::state::room::Room;
use crate::state::scheduler::Scheduler;

/// The least time of a task on a slot, in seconds.
pub(super) const LEAST_TASK_S: f64 = 1e-6;

/// A slot that will take waiting tasks, on its host.
#[derive(Debug, Clone, Copy)]
pub(super) struct ComingSlot {
    pub(super) slot: PredictedSlot,
    pub(super) speed: Speed,
    pub(super) host: AttemptHost,
}

/// A host that will take tasks.
#[derive(Debug, Clone)]
struct HostTimes<'a> {
    host: &'a Host,
    place: AttemptHost,
    /// The room that it lends to tasks.
    lends: Room,
    /// The times at which each of its slots is free, in seconds from now, the soonest first.
    free_s: Vec<f64>,
    /// Whether only attempts that run already take its slots.
    as_now: bool,
}

/// The values that are looked up once for all hosts.
struct Gather<'a> {
    scheduler: &'a Scheduler,
    now: Time,
    work: WorkPerTask,
    over: &'a BTreeSet<JobId>,
    works: BTreeMap<JobId, Option<WorkPerTask>>,
    stays_s: BTreeMap<u32, f64>,
}

impl Gather<'_> {
    fn times<'h>(&mut self, host: &'h Host) -> HostTimes<'h> {
        let mut free_s: Vec<f64> = Vec::new();
        for (attempt, load) in host.books.in_slots() {
            let left_s = self.left_s(host, attempt.task.job, load);
            free_s.extend(std::iter::repeat_n(
                left_s,
                load.takes.cores.max(1) as usize,
            ));
        }

        let place = Foresight::place(host, self.now);
        let as_now = host.takes_work();
        let (lends, place) = if as_now {
            free_s.extend(std::iter::repeat_n(0.0, host.free_slots()));
            (host.lent_room(), place)
        } else {
            let idle = (host.slots as usize).saturating_sub(free_s.len());
            let stay_s = self.stay_s(host);
            free_s.extend(std::iter::repeat_n(stay_s, idle));
            let left = AttemptHost {
                suspended: false,
                owner_s: 0.0,
                ..place
            };
            (host.whole_room(), left)
        };

        free_s.sort_by(f64::total_cmp);
        free_s.truncate((lends.slots as usize).max(1));
        HostTimes {
            host,
            place,
            lends,
            free_s,
            as_now,
        }
    }

    /// Returns the seconds for which an attempt of this job goes on. It takes as long as others of its
    /// job, if that is known.
    fn left_s(&mut self, host: &Host, job: JobId, load: &HostAttempt) -> f64 {
        if self.over.contains(&job) {
            return 0.0;
        }

        let scheduler = self.scheduler;
        let now = self.now;
        let known = self.works.entry(job);
        let known = *known.or_insert_with(|| {
            let job = scheduler.jobs.table.get(&job)?;
            scheduler.usual_work(job)
        });

        let work = known.unwrap_or(self.work);
        let start_cost = scheduler.settings.start_cost;
        let on = scheduler.foresight.on_average(host, work);
        (scheduler.foresight).expected_s(on, load, work, start_cost, now)
    }

    /// Returns the median of the seconds for which the owner stays who is present. Owners that have been
    /// present for about as long share one, which saves time.
    fn stay_s(&mut self, host: &Host) -> f64 {
        let age_s = self.now.since(host.owner_since).secs();
        let curves = self.scheduler.foresight.curves();
        let same = self.stays_s.entry((16.0 * age_s.ln_1p()) as u32);
        *same.or_insert_with(|| {
            let law = OwnerStay(&curves.resumption);
            HostHolder::of_one(age_s, &law).rest_s(0.5).unwrap_or(FAR_S)
        })
    }
}

/// The slots of hosts, and when each is free.
#[derive(Clone)]
pub(super) struct SlotTimes<'a> {
    scheduler: &'a Scheduler,
    hosts: Vec<HostTimes<'a>>,
    /// The number of hosts that each of them stands for.
    each: usize,
}

impl HostTimes<'_> {
    /// Returns the groups of its slots that tasks of this demand take, each with the time at which it
    /// is free.
    fn rooms(&self, takes: Demand) -> impl Iterator<Item = (Range<usize>, f64)> {
        let slots = self.free_s.len();
        let plain = takes.is_plain();
        let most = if plain {
            slots
        } else {
            self.lends.holds(takes) as usize
        };
        let now = if self.as_now && !plain {
            self.host.room_for(takes)
        } else {
            0
        };
        let each = (slots / most.max(1)).max(1);
        let taken = takes.cores.max(1) as usize;

        (1..=most.min(slots)).map(move |nth| {
            let end = (nth * each).min(slots);
            let free_s = if nth <= now {
                0.0
            } else {
                self.free_s[end - 1]
            };
            (end - each.min(taken).min(end)..end, free_s)
        })
    }
}

impl<'a> SlotTimes<'a> {
    /// Returns the slots of the hosts that take work, as the attempts that run there leave them, and of
    /// those that will once their owners leave. Attempts of the jobs `over` have ended. Running tasks of
    /// unknown work are taken to be like `work`. Of more than `most` hosts each of a sample stands for
    /// several.
    pub(super) fn of(
        scheduler: &'a Scheduler,
        work: WorkPerTask,
        over: &BTreeSet<JobId>,
        most: usize,
        now: Time,
    ) -> Self {
        let hosts = scheduler.hosts.table.values();
        let hosts: Vec<&Host> = hosts
            .filter(|host| host.takes_work() || kept(host))
            .collect();
        let each = hosts.len().div_ceil(most).max(1);
        let mut gather = Gather {
            scheduler,
            now,
            work,
            over,
            works: BTreeMap::new(),
            stays_s: BTreeMap::new(),
        };

        let some = hosts.into_iter().skip(each / 2).step_by(each);
        let hosts = some.map(|host| gather.times(host)).collect();
        Self {
            scheduler,
            hosts,
            each,
        }
    }

    /// Lets this much time pass: what is free by then is free at once.
    pub(super) fn pass(&mut self, by_s: f64) {
        for times in &mut self.hosts {
            times.as_now &= by_s <= 0.0;
            for free_s in &mut times.free_s {
                *free_s = (*free_s - by_s).max(0.0);
            }
        }
    }

    /// Returns the number of slots.
    pub(super) fn slots(&self) -> f64 {
        let slots = self.hosts.iter().map(|times| times.free_s.len());
        (slots.sum::<usize>() * self.each) as f64
    }

    /// Returns the groups of slots that tasks of this work and these needs take, each with the place of
    /// its host and of its slots there.
    fn rooms(
        &self,
        work: WorkPerTask,
        needs: &Needs,
    ) -> impl Iterator<Item = (usize, Range<usize>, PredictedSlot)> {
        let hosts = self.hosts.iter().enumerate();
        let suiting = hosts.filter(|(_, times)| times.host.suits(needs));
        suiting.flat_map(move |(at, times)| {
            let task_s = self.scheduler.slot_task_s(times.host, work);
            let rooms = times.rooms(needs.takes);
            rooms.map(move |(slots, free_s)| (at, slots, PredictedSlot { free_s, task_s }))
        })
    }

    /// Returns the slots that take tasks of this work and these needs.
    pub(super) fn coming(&self, work: WorkPerTask, needs: &Needs) -> Vec<ComingSlot> {
        let coming = self.rooms(work, needs).map(|(at, _, slot)| ComingSlot {
            slot,
            speed: self.hosts[at].host.speed,
            host: self.hosts[at].place,
        });
        coming.collect()
    }

    /// Returns the time, in seconds from now, at which the first task with these needs can start; `None`
    /// where no host suits.
    pub(super) fn first_s(&self, work: WorkPerTask, needs: &Needs) -> Option<f64> {
        let rooms = self.rooms(work, needs).map(|(_, _, slot)| slot.free_s);
        rooms.min_by(f64::total_cmp)
    }

    /// Whether some host suits tasks of either needs.
    pub(super) fn shared(&self, needs: &Needs, others: &Needs) -> bool {
        let mut hosts = self.hosts.iter().map(|times| times.host);
        needs == others || hosts.any(|host| host.suits(needs) && host.suits(others))
    }

    /// Lets tasks that come first take their slots. Those of unknown work are taken to be like `unknown`;
    /// those that no host suits take none.
    pub(super) fn fill(&mut self, ahead: &TasksAhead, unknown: WorkPerTask) {
        let Some(like) = self.scheduler.jobs.table.get(&ahead.like) else {
            return;
        };
        let tasks = ahead.tasks.tasks / self.each as f64;
        let work = among(&ahead.tasks, unknown);
        let rooms: Vec<_> = self.rooms(work, &like.rules.needs).collect();
        let servers: Vec<PredictedSlot> = rooms.iter().map(|(.., slot)| *slot).collect();
        let Some(last) = last_tasks(&servers, tasks.round() as u64, Filling::Soonest) else {
            return;
        };

        for (room, start_s) in last {
            let (at, slots, slot) = &rooms[room];
            let times = &mut self.hosts[*at];
            times.as_now = false;
            times.free_s[slots.clone()].fill(start_s + slot.task_s);
        }
        for times in &mut self.hosts {
            times.free_s.sort_by(f64::total_cmp);
        }
    }
}

/// Lets tasks that come first take these slots, each as if it were of a host of its own.
pub(super) fn fill(slots: &mut [ComingSlot], own: WorkPerTask, ahead: &TasksAhead) {
    let longer = among(&ahead.tasks, own).mean_s / own.mean_s;
    let servers = slots.iter().map(|coming| PredictedSlot {
        task_s: coming.slot.task_s * longer,
        ..coming.slot
    });
    let servers: Vec<PredictedSlot> = servers.collect();
    let tasks = ahead.tasks.tasks.round() as u64;
    for (at, start_s) in last_tasks(&servers, tasks, Filling::Soonest)
        .into_iter()
        .flatten()
    {
        slots[at].slot.free_s = start_s + servers[at].task_s;
    }
}

/// Returns the work per task of these tasks, if those of unknown work are like `unknown`.
fn among(tasks: &WaitingTasks, unknown: WorkPerTask) -> WorkPerTask {
    let work_s = tasks.work_s(unknown.mean_s).max(LEAST_TASK_S);
    let mean_s = work_s / tasks.tasks;
    let computing_s = tasks.computing_s + tasks.unknown * unknown.mean_s * unknown.computing;
    WorkPerTask {
        mean_s,
        longest_s: mean_s,
        computing: (computing_s / work_s).clamp(0.0, 1.0),
    }
}

impl Scheduler {
    /// Returns the seconds that a task of this work takes on a slot of the host. Suspensions lengthen run
    /// times by their mean.
    fn slot_task_s(&self, host: &Host, work: WorkPerTask) -> f64 {
        let start_cost = self.settings.start_cost;
        let on = self.foresight.in_the_long_run(host);
        let task_s = Foresight::task_s(on, work, 1.0, start_cost);
        (task_s * self.foresight.curves().stretch).max(LEAST_TASK_S)
    }
}
