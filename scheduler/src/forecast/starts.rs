//! The start of a waiting job, and the wait for a number of free hosts, both from the ages of
//! running attempts and of owners' stays. The predictors live in `prediction::malleable`, the
//! completion of jobs in `finish`.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use common::needs::Needs;
use common::{JobId, Span, TaskId, Time};
use statrs::function::erf::erfc;

use crate::forecast::slots::{ComingSlot, SlotTimes, fill};
use crate::policy::ordering::Rank;
use crate::prediction::malleable::{HostHolder, LearnedLives, Lifetime, MachineState, Paced, Wait};
use crate::prediction::predict::UNKNOWN;
use crate::prediction::survival::{Curve, TabulatedSurvival};
use crate::state::foresight::WorkPerTask;
use crate::state::host::{Host, HostAttempt, Liveness, Presence};
use crate::state::job::Job;
use crate::state::queue::{TasksAhead, WaitingTasks};
use crate::state::scheduler::Scheduler;

/// The probability with which intervals hold the outcome.
const HELD: f64 = 0.8;
/// The latest time that is ever predicted, in seconds from now: ten years.
pub(crate) const FAR_S: f64 = 3.2e8;

/// The predicted start of a job's first task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starting {
    /// The median.
    pub start: Time,
    /// The lower end of the interval that holds the start with a probability of 80 %.
    pub low: Time,
    /// The upper end of that interval.
    pub high: Time,
}

/// The predicted wait for a number of free hosts, in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostsWait {
    /// The number of hosts that are free now.
    pub free: u32,
    /// The number of hosts that could be free: these, busy ones, and those whose owners are
    /// present.
    pub hosts: u32,
    /// The wait by both predictors.
    pub wait: Wait,
    /// The median of the law of the wait itself; `None` where that many may never be free.
    pub median_s: Option<f64>,
    /// The lower end of the interval that holds the wait with a probability of 80 %.
    pub low_s: Option<f64>,
    /// The upper end of that interval.
    pub high_s: Option<f64>,
}

/// The law of an owner's stay. Beyond the end of its table the owner leaves at a rate that falls
/// with age.
pub(crate) struct OwnerStay<'a>(pub(super) &'a TabulatedSurvival);

impl Lifetime for OwnerStay<'_> {
    fn ended(&self, age_s: f64, more_s: f64) -> f64 {
        let alive = self.0.alive(age_s).max(1e-9);
        let own = 1.0 - self.0.alive(age_s + more_s) / alive;
        // Beyond the table the survival is constant.
        own.max(more_s / (age_s + more_s + 3_600.0)).clamp(0.0, 1.0)
    }

    fn longest_s(&self, _age_s: f64) -> f64 {
        FAR_S
    }
}

/// The law of a usable host's absence: its owner came, and has not left again.
struct OwnerAbsence<'a> {
    curve: &'a Curve,
    /// The part of the time in which hosts are usable, in the long run.
    usable: f64,
}

impl Lifetime for OwnerAbsence<'_> {
    fn ended(&self, age_s: f64, more_s: f64) -> f64 {
        (1.0 - self.usable) * (1.0 - self.curve.survival(age_s, more_s))
    }

    fn longest_s(&self, _age_s: f64) -> f64 {
        FAR_S
    }
}

/// The most slots that are modelled one by one.
const UNITS: usize = 64;
/// The ratio of the numbers of tasks ahead at neighbouring ranks of a longer queue, between which
/// the wait is interpolated linearly.
const APART: f64 = 1.25;
/// The most classes of jobs for which every host is looked at, and the number of hosts that are looked at
/// for all classes otherwise.
const FEW: usize = 4;
const LOOKED_AT: usize = 20_000;
/// The uncertainty of the rest of an attempt of known work, as a logarithm; the least rest, in seconds;
/// and the bound of that law.
const ROUGH_REST: f64 = 0.28;
const LEAST_LEFT_S: f64 = 0.05;
const LONGEST_SIGMAS: f64 = 6.0;
/// The deviations of a normal law between which [`HELD`] of it lie.
pub(super) const HELD_SIGMAS: f64 = 1.2816;
/// The quantiles of the start that are returned.
pub(crate) const PARTS: [f64; 3] = [(1.0 - HELD) / 2.0, 0.5, (1.0 + HELD) / 2.0];

/// The slots that waiting jobs queue for.
struct SlotQueue<'a> {
    /// The taken slots, or a sample in which each stands for `each` of them.
    machine: MachineState<'a>,
    /// The times at which one of them is free, two, and so on, in seconds from now; filled when
    /// first asked for.
    taken_s: OnceCell<Vec<[Option<f64>; 3]>>,
    each: u64,
    free: u64,
    slots: u64,
}

/// By whom the slots of some hosts are taken.
struct SlotHolders<'a> {
    free: usize,
    /// The mean uncertainty of the attempts' work that they have in common with others of their jobs, as
    /// a logarithm.
    doubt: f64,
    /// Attempts, with their ages in seconds.
    busy: Vec<(f64, SlotLife<'a>)>,
    /// Owners: the seconds since they came, and the slots they keep.
    stays: Vec<(f64, usize)>,
}

/// The law of how long an attempt keeps its slot.
pub(crate) enum SlotLife<'a> {
    /// As other tasks of its program do.
    OfProgram(Paced<'a>),
    /// As its job's tasks do.
    Known(KnownRest),
}

/// The rest of an attempt that is expected to take this long: a lognormal law.
pub(crate) struct KnownRest {
    left_s: f64,
    sigma: f64,
}

impl SlotLife<'_> {
    /// Creates the law of a rest of about this many seconds, with this uncertainty of it, as a logarithm.
    pub(crate) fn known(left_s: f64, sigma: f64) -> Self {
        Self::Known(KnownRest {
            left_s: left_s.max(LEAST_LEFT_S),
            sigma: sigma.hypot(ROUGH_REST),
        })
    }

    /// Returns the median of its rest, in seconds, where that is known, and 0 for others.
    pub(crate) fn known_s(&self) -> f64 {
        match self {
            Self::Known(rest) => rest.left_s,
            Self::OfProgram(_) => 0.0,
        }
    }

    /// Returns the median of the seconds for which one of this age goes on, to a half of it.
    fn half_s(&self, age_s: f64) -> f64 {
        if let Self::Known(rest) = self {
            return rest.left_s;
        }
        let mut more_s = LEAST_LEFT_S;
        while more_s < FAR_S && self.ended(age_s, more_s) < 0.5 {
            more_s *= 1.5;
        }
        more_s
    }
}

impl Lifetime for SlotLife<'_> {
    fn ended(&self, age_s: f64, more_s: f64) -> f64 {
        match self {
            Self::OfProgram(law) => law.ended(age_s, more_s),
            Self::Known(KnownRest { left_s, sigma }) => {
                let off = (more_s / left_s).ln() / sigma;
                // Searches end there: what is all but sure counts as sure.
                if off >= LONGEST_SIGMAS {
                    return 1.0;
                }
                0.5 * erfc(-off / std::f64::consts::SQRT_2)
            }
        }
    }

    fn longest_s(&self, age_s: f64) -> f64 {
        match self {
            Self::OfProgram(law) => law.longest_s(age_s),
            Self::Known(KnownRest { left_s, sigma }) => left_s * (LONGEST_SIGMAS * sigma).exp(),
        }
    }
}

/// The queue beyond the slots, for the jobs of one class in their order: what of the tasks ahead has
/// taken its slots so far, and the wait at two places, between which it is interpolated.
struct DeepQueue<'a> {
    times: SlotTimes<'a>,
    work: WorkPerTask,
    needs: &'a Needs,
    /// By [`TasksAhead::like`] and [`TasksAhead::own`].
    filled: BTreeMap<(JobId, bool), WaitingTasks>,
    from: (f64, f64),
    to: (f64, f64),
    /// Whether tasks like those of a job take slots that the jobs asked about want.
    shared: BTreeMap<JobId, bool>,
}

impl<'a> DeepQueue<'a> {
    fn of(times: SlotTimes<'a>, work: WorkPerTask, needs: &'a Needs) -> Self {
        Self {
            times,
            work,
            needs,
            filled: BTreeMap::new(),
            from: (0.0, 0.0),
            to: (0.0, 0.0),
            shared: BTreeMap::new(),
        }
    }

    /// Returns the tasks ahead of this rank that want the same slots.
    fn ahead(&mut self, scheduler: &Scheduler, rank: Rank, now: Time) -> Vec<TasksAhead> {
        let own = WaitingTasks::default();
        let mut ahead = scheduler.ahead_of(rank, own, self.times.slots(), now);
        ahead.retain(|ahead| {
            *self.shared.entry(ahead.like).or_insert_with(|| {
                let like = scheduler.jobs.table.get(&ahead.like);
                like.is_some_and(|like| self.times.shared(self.needs, &like.rules.needs))
            })
        });
        ahead
    }

    /// Predicts when the tasks ahead are done or have begun, in seconds from now; `unknown_s` is the
    /// work of one of unknown work at least, probably and at most.
    fn worked_off_s(&mut self, ahead: &[TasksAhead], unknown_s: [f64; 3]) -> Option<[f64; 3]> {
        let tasks: f64 = ahead.iter().map(|ahead| ahead.tasks.tasks).sum();
        if tasks > self.to.0 {
            self.from = (tasks, self.filled_s(ahead, 1.0)?);
            self.to = (tasks * APART, self.filled_s(ahead, APART)?);
        }
        let part = (tasks - self.from.0) / (self.to.0 - self.from.0);
        let left_s = self.from.1 + part * (self.to.1 - self.from.1);

        let work_s = unknown_s.map(|unknown_s| {
            let works_s = ahead.iter().map(|ahead| ahead.tasks.work_s(unknown_s));
            works_s.sum::<f64>().max(1e-6)
        });
        let [least_s, work_s, most_s] = work_s;
        let (low, high) = UNKNOWN;
        left_s.is_finite().then_some([
            left_s * low * least_s / work_s,
            left_s,
            left_s * high * most_s / work_s,
        ])
    }

    /// Fills the slots with `times` times the tasks ahead, and returns when the first is free then.
    fn filled_s(&mut self, ahead: &[TasksAhead], times: f64) -> Option<f64> {
        for ahead in ahead {
            let filled = self.filled.entry((ahead.like, ahead.own)).or_default();
            let mut more = WaitingTasks::default();
            more.add(&ahead.tasks, times);
            more.add(filled, -1.0);

            if more.tasks >= 1.0 && more.unknown >= 0.0 && more.known_s >= 0.0 {
                filled.add(&more, 1.0);
                let more = TasksAhead {
                    tasks: more,
                    ..*ahead
                };
                self.times.fill(&more, self.work);
            }
        }
        self.times.first_s(self.work, self.needs)
    }
}

/// The number of tasks that a user may run at a time, and when those that run have ended.
pub(super) struct Allowed {
    most: usize,
    running_s: Vec<f64>,
}

impl Allowed {
    /// Keeps as many of the slots as the user may take, each free once one of the running tasks has
    /// ended where these are as many.
    pub(super) fn keep(self, mut slots: Vec<ComingSlot>) -> Vec<ComingSlot> {
        slots.sort_by(|a, b| a.slot.free_s.total_cmp(&b.slot.free_s));
        slots.truncate(self.most);
        let room = self.most.saturating_sub(self.running_s.len());
        for (coming, ended_s) in slots.iter_mut().skip(room).zip(self.running_s) {
            coming.slot.free_s = coming.slot.free_s.max(ended_s);
        }
        slots
    }
}

/// Returns when the first of these slots is free after these tasks.
fn first_after<'a>(
    mut slots: Vec<ComingSlot>,
    work: WorkPerTask,
    ahead: impl Iterator<Item = &'a TasksAhead>,
) -> f64 {
    ahead.for_each(|ahead| fill(&mut slots, work, ahead));
    let free_s = slots.iter().map(|coming| coming.slot.free_s);
    free_s.fold(FAR_S, f64::min)
}

/// Returns the wait, at least this long.
pub(crate) fn at_least(wait: [f64; 3], least_s: f64) -> [f64; 3] {
    if least_s <= wait[1] {
        wait
    } else {
        roughly(least_s)
    }
}

/// Returns a wait of which no more than the middle is known.
fn roughly(wait_s: f64) -> [f64; 3] {
    let (low, high) = UNKNOWN;
    [low, 1.0, high].map(|factor| factor * wait_s)
}

/// Returns this wait with an interval that is wider by this uncertainty, as a logarithm.
fn widened([low_s, wait_s, high_s]: [f64; 3], doubt: f64) -> [f64; 3] {
    if wait_s <= 0.0 || doubt <= 0.0 {
        return [low_s, wait_s, high_s];
    }
    let wider = |end_s: f64| (end_s / wait_s).ln().hypot(HELD_SIGMAS * doubt).exp();
    let low_s = wait_s / wider(low_s.max(f64::MIN_POSITIVE));
    [low_s, wait_s, (wait_s * wider(high_s)).min(FAR_S)]
}

/// Returns the number of these tasks.
fn count(ahead: &[TasksAhead]) -> u64 {
    let tasks = ahead.iter().map(|ahead| ahead.tasks.tasks);
    tasks.sum::<f64>().round() as u64
}

/// The laws of lifetimes on these hosts.
pub(crate) struct LifetimeLaws<'a> {
    programs: BTreeMap<&'a str, LearnedLives>,
    /// The work of a task of each running job of one host per task, where more is known than the law
    /// of its program.
    works: BTreeMap<JobId, WorkPerTask>,
    pub(crate) unknown: LearnedLives,
    pub(crate) stay: OwnerStay<'a>,
}

impl<'a> LifetimeLaws<'a> {
    pub(crate) fn of(scheduler: &'a Scheduler) -> Self {
        let lives = &scheduler.foresight.lives;
        let unknown = lives.pooled();
        let hosts = scheduler.hosts.table.values();
        let busy = hosts.flat_map(|host| host.books.attempts());
        let running: BTreeSet<JobId> = busy.map(|attempt| attempt.task.job).collect();

        let mut programs = BTreeMap::new();
        let mut works = BTreeMap::new();
        for job in running {
            let Some(job) = scheduler.jobs.table.get(&job) else {
                continue;
            };
            let program = job.stack.terms.estimator.program.as_str();
            let work = match lives.knows(program) {
                _ if job.gang.is_some() => None,
                true => (scheduler.foresight).work_of(job, &scheduler.hosts),
                false => scheduler.usual_work(job),
            };
            match work {
                Some(work) => drop(works.insert(job.rank.job, work)),
                None => {
                    let law = programs.entry(program);
                    law.or_insert_with(|| lives.law(&unknown, program, &[]));
                }
            }
        }

        LifetimeLaws {
            programs,
            works,
            unknown,
            stay: OwnerStay(&scheduler.foresight.curves().resumption),
        }
    }

    /// Returns the work in seconds, on a host of speed 1, that a task of which nothing is known exceeds with
    /// a probability of `1 - part`.
    pub(crate) fn unknown_s(&self, part: f64) -> f64 {
        let task = HostHolder::of_one(0.0, &self.unknown);
        task.rest_s(part).unwrap_or(FAR_S)
    }

    pub(crate) fn program(&self, scheduler: &Scheduler, job: JobId) -> &LearnedLives {
        let job = scheduler.jobs.table.get(&job);
        job.and_then(|job| {
            self.programs
                .get(job.stack.terms.estimator.program.as_str())
        })
        .unwrap_or(&self.unknown)
    }
}

/// Returns the seconds that an attempt has run.
pub(crate) fn age_s(load: &HostAttempt, now: Time) -> f64 {
    let since = load
        .noted
        .filter(|_| load.phase.executing())
        .map_or(0.0, |noted| now.since(noted).secs());
    load.ran.secs() + since
}

/// Whether it could have slots once its owner or attempts leave them.
pub(crate) fn counts(host: &Host) -> bool {
    host.presence == Presence::Connected && host.liveness == Liveness::Alive && !host.draining
}

/// Whether it could have slots once its owner leaves, who is present.
pub(super) fn kept(host: &Host) -> bool {
    counts(host) && host.foreseen() && !host.owner.lets_run()
}

impl Scheduler {
    /// Predicts the start of the first task of a waiting job; `None` where it has started, or no
    /// host will have a slot for it.
    pub fn predict_start(&self, id: JobId, now: Time) -> Option<Starting> {
        self.predict_starts(&[id], now).remove(&id)
    }

    /// Predicts the same for those of several jobs that wait. Far back in the queue it is
    /// interpolated.
    pub fn predict_starts(&self, ids: &[JobId], now: Time) -> BTreeMap<JobId, Starting> {
        let jobs = ids.iter().filter_map(|id| self.jobs.table.get(id));
        let mut together = Vec::new();
        let mut promised = BTreeSet::new();
        let mut alike = BTreeMap::<&Needs, Vec<&Job>>::new();
        for job in jobs.filter(|job| job.attempts == 0 && !job.settled() && !job.is_held()) {
            if job.gang.is_some() {
                together.push(job.rank.job);
            } else if job.promise.is_some() {
                promised.insert(job.rank.job);
            } else {
                alike.entry(&job.rules.needs).or_default().push(job);
            }
        }

        let waits = alike
            .iter()
            .flat_map(|(needs, jobs)| self.waits_alone(needs, jobs, now))
            .chain(self.waits_together(&together, now));
        waits
            .chain(self.waits_promised(&promised, now))
            .map(|(id, left_s)| (id, starting(now, left_s)))
            .collect()
    }

    /// Predicts the same for jobs with a promise, from the calendar.
    fn waits_promised(&self, ids: &BTreeSet<JobId>, now: Time) -> Vec<(JobId, [f64; 3])> {
        let first = self.promised_first(ids, now).into_iter();
        let waits = first.map(|(id, at)| (id, roughly(at.since(now).secs())));
        waits.collect()
    }

    /// Predicts the starts of these jobs of one host per task, in seconds, between the ends of
    /// their intervals.
    fn waits_alone(&self, needs: &Needs, jobs: &[&Job], now: Time) -> Vec<(JobId, [f64; 3])> {
        let mut hosts = self.hosts.table.values();
        if !hosts.any(|host| counts(host) && host.suits(needs)) {
            return Vec::new();
        }

        let laws = LifetimeLaws::of(self);
        let units = self.lives_on_slots(&laws, needs, now);
        let busy = units.busy.iter();
        let holders = busy.map(|(age_s, life)| HostHolder::of_one(*age_s, life));
        let owners = units.stays.iter().flat_map(|(age_s, slots)| {
            std::iter::repeat_n(HostHolder::of_one(*age_s, &laws.stay), *slots)
        });
        let line = SlotQueue::of(units.free, holders.chain(owners).collect());

        let unknown_s = PARTS.map(|part| laws.unknown_s(part));
        let mut classes = BTreeMap::<_, Vec<Rank>>::new();
        for job in jobs {
            classes.entry(job.rank.class()).or_default().push(job.rank);
        }

        let most = if classes.len() > FEW && *needs == Needs::default() {
            (LOOKED_AT / classes.len()).max(UNITS)
        } else {
            usize::MAX
        };
        let work = WorkPerTask::computing(unknown_s[1]);
        let times = SlotTimes::of(self, work, &BTreeSet::new(), most, now);

        let mut waits = Vec::new();
        for mut ranks in classes.into_values() {
            ranks.sort();
            let user = ranks
                .first()
                .and_then(|rank| self.jobs.table.get(&rank.job));
            let allowed = user.and_then(|job| self.allowed(job.user, now));
            let allowed = allowed.map(|allowed| allowed.keep(times.coming(work, needs)));
            let mut deep = DeepQueue::of(times.clone(), work, needs);
            for rank in ranks {
                let ahead = deep.ahead(self, rank, now);
                let wait = match line.wait_s(count(&ahead)) {
                    Some(wait) => wait,
                    None => deep.worked_off_s(&ahead, unknown_s),
                };
                let allowed_s = allowed.as_ref().map_or(0.0, |slots| {
                    let own = ahead.iter().filter(|ahead| ahead.own);
                    first_after(slots.clone(), work, own)
                });
                let wait = wait.map(|wait| widened(at_least(wait, allowed_s), units.doubt));
                waits.extend(wait.map(|wait_s| (rank.job, wait_s)));
            }
        }
        waits
    }

    /// Returns what is allowed to a user of whose tasks only so many may run at a time.
    pub(super) fn allowed(&self, user: u32, now: Time) -> Option<Allowed> {
        let most = self.jobs.lines.shares.most(user)? as usize;
        let mut ends_s: BTreeMap<TaskId, f64> = BTreeMap::new();
        let mut works = BTreeMap::new();
        for host in self.hosts.table.values() {
            let live = host.books.iter();
            for (attempt, load) in live.filter(|(_, load)| load.counts_as_running()) {
                let job = self.jobs.table.get(&attempt.task.job);
                let Some(job) = job.filter(|job| job.user == user) else {
                    continue;
                };
                // One of unknown work goes on for as long as it has run.
                let work = works.entry(job.rank.job);
                let work = work
                    .or_insert_with(|| self.usual_work(job))
                    .unwrap_or_else(|| WorkPerTask::computing(2.0 * age_s(load, now).max(1.0)));
                let start_cost = self.settings.start_cost;
                let on = self.foresight.on_average(host, work);
                let end_s = (self.foresight).expected_s(on, load, work, start_cost, now);
                let first_s = ends_s.entry(attempt.task).or_insert(end_s);
                *first_s = end_s.min(*first_s);
            }
        }

        let mut running_s: Vec<f64> = ends_s.into_values().collect();
        running_s.sort_by(f64::total_cmp);
        Some(Allowed { most, running_s })
    }

    /// Returns the slots of the hosts with these needs: the free ones, and by whom the others are taken.
    fn lives_on_slots<'a>(
        &self,
        laws: &'a LifetimeLaws<'_>,
        needs: &Needs,
        now: Time,
    ) -> SlotHolders<'a> {
        let mut free = 0;
        let mut busy = Vec::new();
        let mut doubt = 0.0;

        let there = |host: &&Host| counts(host) && host.suits(needs) && host.owner.lets_run();
        for host in self.hosts.table.values().filter(there) {
            let room = host.room_for(needs.takes);
            free += room;
            // Of tasks that take more than a slot there are fewer at a time.
            let taken = if needs.takes.is_plain() {
                usize::MAX
            } else {
                (host.lent_room().holds(needs.takes) as usize).saturating_sub(room)
            };
            for (attempt, load) in host.books.in_slots().take(taken) {
                let (age_s, life) = self.life(laws, host, attempt.task.job, load, now);
                if let SlotLife::Known(_) = life {
                    let job = self.jobs.table.get(&attempt.task.job);
                    doubt += job.map_or(0.0, Job::work_doubt);
                }
                busy.push((age_s, life));
            }
        }

        SlotHolders {
            free,
            doubt: doubt / busy.len().max(1) as f64,
            busy,
            stays: self.stays(needs, now),
        }
    }

    /// Returns the age, in seconds, of a running attempt of this job on this host, and the law of its
    /// lifetime there: by what is known of the job's tasks, or else by that of its program.
    pub(crate) fn life<'a>(
        &self,
        laws: &'a LifetimeLaws<'_>,
        host: &Host,
        job: JobId,
        load: &HostAttempt,
        now: Time,
    ) -> (f64, SlotLife<'a>) {
        let known = self.jobs.table.get(&job);
        let Some((job, work)) = known.zip(laws.works.get(&job).copied()) else {
            let law: &dyn Lifetime = laws.program(self, job);
            let work = known.map_or_else(|| WorkPerTask::computing(0.0), |job| job.takes(0.0));
            // Laws are of work, in seconds on a host of speed 1; `rate` converts them.
            let rate = self.foresight.in_the_long_run(host).rate(work);
            return (age_s(load, now), SlotLife::OfProgram(Paced { law, rate }));
        };

        let start_cost = self.settings.start_cost;
        let on = self.foresight.on_average(host, work);
        let left_s = (self.foresight).expected_s(on, load, work, start_cost, now);
        let sigma = job.pace.law(&[]).map_or(0.0, |law| law.sigma);
        (0.0, SlotLife::known(left_s, sigma))
    }

    /// Returns the same of the attempt on this host that should end next; of those by law that is the one
    /// that has run longest.
    pub(crate) fn next_end<'a>(
        &self,
        laws: &'a LifetimeLaws<'_>,
        host: &Host,
        now: Time,
    ) -> (f64, SlotLife<'a>) {
        let live = host.books.in_slots();
        let lives = live.map(|(attempt, load)| self.life(laws, host, attempt.task.job, load, now));

        let (known, by_law): (Vec<_>, Vec<_>) =
            lives.partition(|(_, life)| matches!(life, SlotLife::Known(_)));
        let half_s = |(age_s, life): &(f64, SlotLife<'_>)| life.half_s(*age_s);
        let soonest = known
            .into_iter()
            .min_by(|a, b| half_s(a).total_cmp(&half_s(b)));
        let oldest = by_law.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));

        let next = match (soonest, oldest) {
            (Some(known), Some(by_law)) if half_s(&by_law) < half_s(&known) => Some(by_law),
            (soonest, oldest) => soonest.or(oldest),
        };
        next.unwrap_or_else(|| {
            let law = &laws.unknown;
            (0.0, SlotLife::OfProgram(Paced { law, rate: 1.0 }))
        })
    }

    /// Predicts the wait for this many free hosts, each with a slot at least.
    pub fn predict_hosts(&self, wanted: u32, now: Time) -> HostsWait {
        let curves = self.foresight.curves();
        let away = OwnerAbsence {
            curve: &curves.suspension,
            usable: 1.0 / curves.stretch,
        };

        self.with_machine(&Needs::default(), &[], now, |machine| {
            let machine = machine.clone().leaving(&away);
            let edge = |part: f64| machine.quantile_s(wanted, part).filter(|s| *s < FAR_S);
            let median_s = edge(0.5);

            let mut wait = machine.wait(wanted);
            // Where any host may be away, all of them are never free on average.
            wait.used_s = wait.used_s.or(median_s);
            HostsWait {
                free: machine.free(),
                hosts: machine.hosts(),
                wait,
                median_s,
                low_s: edge(PARTS[0]),
                high_s: edge(PARTS[2]),
            }
        })
    }

    /// Returns the owners that are present: the seconds since they came, and the slots they keep.
    pub(crate) fn stays(&self, needs: &Needs, now: Time) -> Vec<(f64, usize)> {
        let hosts = self.hosts.table.values();
        hosts
            .filter(|host| kept(host) && host.suits(needs))
            .map(|host| {
                let most = host.whole_room().holds(needs.takes) as usize;
                (now.since(host.owner_since).secs(), most)
            })
            .collect()
    }
}

impl<'a> SlotQueue<'a> {
    /// Creates the queue's slots: `free` free ones, and the taken ones.
    fn of(free: usize, mut units: Vec<HostHolder<'a>>) -> Self {
        units.sort_by(|a, b| a.age_s.total_cmp(&b.age_s));
        let slots = (free + units.len()) as u64;

        // A sample stands for many slots: the median is the same, the interval somewhat wider.
        let each = units.len().div_ceil(UNITS).max(1);
        let some = units.into_iter().skip(each / 2).step_by(each).collect();
        SlotQueue {
            machine: MachineState::new(0, some),
            taken_s: OnceCell::new(),
            each: each as u64,
            free: free as u64,
            slots,
        }
    }

    /// Predicts the seconds until the first task with `ahead` tasks ahead has a slot. The outer
    /// `None` means that more tasks are ahead than there are slots, and must be done first.
    fn wait_s(&self, ahead: u64) -> Option<Option<[f64; 3]>> {
        if ahead < self.free {
            return Some(Some([0.0; 3]));
        }
        if ahead >= self.slots {
            return None;
        }

        let need = (ahead + 1 - self.free).div_ceil(self.each) as usize;
        let taken_s = self.taken_s.get_or_init(|| self.machine.quantiles_s(PARTS));
        let Some([low_s, start_s, high_s]) = taken_s.get(need - 1).or(taken_s.last()) else {
            return Some(None);
        };
        let start_s = start_s.filter(|start_s| *start_s < FAR_S);

        Some(start_s.and_then(|start_s| Some([(*low_s)?, start_s, high_s.unwrap_or(FAR_S)])))
    }
}

fn starting(now: Time, [low_s, start_s, high_s]: [f64; 3]) -> Starting {
    let at = |seconds: f64| now + Span::from_secs_f64(seconds.min(FAR_S));
    Starting {
        start: at(start_s),
        low: at(low_s),
        high: at(high_s),
    }
}
