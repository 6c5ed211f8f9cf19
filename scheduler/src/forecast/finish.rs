//! The predicted completion of a job, with its interval: the law of its last end, from the attempts
//! that run and from the last task of each slot that its waiting tasks will take. The law is that of
//! `prediction::finish_law`; how such predictions turned out before corrects the interval.

use std::collections::{BTreeMap, BTreeSet};

use common::{HostId, JobId, Span, Speed, Time};
use smallvec::SmallVec;

use crate::forecast::overdue::holds_up;
use crate::forecast::slots::{ComingSlot, LEAST_TASK_S, SlotTimes, fill};
use crate::forecast::starts::{FAR_S, HELD_SIGMAS, LifetimeLaws, PARTS};
use crate::policy::placement::{Placement, PlacementView};
use crate::policy::replication::{Replicated, Replication};
use crate::prediction::completion_law::CompletionLaw;
use crate::prediction::finish_law::{AttemptEnd, FinishLaw, Laws, PendingEnd};
use crate::prediction::predict::{Filling, Prediction, last_tasks};
use crate::prediction::spread::{TaskTime, WorkLaw};
use crate::state::foresight::{Foresight, WorkPerTask, own_full_s};
use crate::state::host::Host;
use crate::state::job::{Job, TaskRecord};
use crate::state::queue::{TasksAhead, WaitingTasks};
use crate::state::scheduler::Scheduler;

/// The least work that a task counts for, in seconds on a host of speed 1; it bounds the ratio of
/// other tasks' work to it.
const LEAST_WORK_S: f64 = 1e-6;
/// The uncertainty beside the law of a completion, as a logarithm of the time left: where late tasks
/// are copied for their gain, and where they are waited for. Set by `simulate` on the four platforms
/// of Kondo et al. 2004, so that about 80 % of intervals hold under `deskgrid`, FCFS and
/// EXCL-PRED-TO before anything is learned.
const ROUGH: f64 = 0.18;
const ROUGH_UNCOPIED: f64 = 0.28;
/// The time, in seconds, that starts and reports take beside everything else.
const LATENCY_S: f64 = 0.2;
/// The most running attempts whose work so far is looked at for the spread of all.
const CENSORED: usize = 256;
/// The most jobs that are predicted for one that waits for them.
const LONGEST_ORDER: usize = 32;
/// Whether it is known now that no attempt of a task will have ended by `copy_s`: their owners are there, or
/// their hosts are slow.
fn is_late(laws: &Laws, copy_s: f64) -> bool {
    laws.iter()
        .all(|end| end.law.suspended_s.is_some() || end.law.end_s > copy_s)
}

/// Returns the time of one more round of tasks where a job may be so late that it goes half through one: a host that is
/// lost or slow costs a job of few rounds a whole one where late tasks are copied. Else none is expected.
fn further_round_s(late_s: f64, task_s: f64) -> f64 {
    if late_s < 0.5 * task_s {
        return 0.0;
    }
    task_s
}

/// Whether each host holds the tasks of one job up that it has: a host may have a thousand.
type HostsHeldUp = BTreeMap<HostId, bool>;

/// The expected times of one job's tasks, in seconds.
struct JobPace {
    work: WorkPerTask,
    /// The spread of the tasks' work, where they are known to differ.
    spread: Option<WorkLaw>,
    /// A task's time on a mean host, the start included.
    task_s: f64,
    /// The time for which the loss of a host goes unnoticed.
    notice_s: f64,
    /// The uncertainty of the work, as a logarithm.
    doubt: f64,
}

/// The slots that take a job's waiting tasks, as those of jobs before it leave them.
struct SlotsLeft {
    slots: Vec<ComingSlot>,
    before: WorkBefore,
}

/// The tasks before those of a job: those of others that run, and those that wait.
#[derive(Default)]
struct WorkBefore {
    tasks: f64,
    /// The sum over their jobs of the squared uncertainties, as logarithms times tasks: the tasks of a job
    /// are off together, the jobs each on their own.
    squares: f64,
    /// The number of jobs of unknown work.
    unknown: f64,
}

impl WorkBefore {
    /// Adds so many tasks of so many jobs like this one.
    fn add(&mut self, job: &Job, tasks: f64, jobs: f64) {
        self.tasks += tasks;
        self.squares += (tasks * job.work_doubt()).powi(2) / jobs;
    }

    /// Returns the uncertainty of their work, as a logarithm.
    fn doubt(&self) -> f64 {
        self.squares.sqrt() / self.tasks.max(1.0)
    }
}

/// The law of the completion of a job's last task, and on what it rests.
struct ForeseenEnd<'a> {
    law: FinishLaw<'a>,
    /// The number of jobs before it whose work is unknown.
    unknown: f64,
    /// The uncertainty, in seconds, of the time at which its waiting tasks begin.
    wait_doubt_s: f64,
}

/// The jobs that one waits for, and those that they wait for.
struct JobsBefore {
    jobs: BTreeSet<JobId>,
    /// The last end of them.
    ends: Prediction,
}

impl JobsBefore {
    fn none(now: Time) -> Self {
        Self {
            jobs: BTreeSet::new(),
            ends: Prediction::roughly(now, now),
        }
    }
}

impl Scheduler {
    /// Predicts the completion of the job's last task: its median. `None` where its tasks' run
    /// times are unknown (neither a finished one nor an estimate), where no host takes work or will
    /// once its owner leaves, where no host of another owner is left for a result that must agree with
    /// others, or where the job is settled.
    pub fn predict_finish(&self, id: JobId, now: Time) -> Option<Time> {
        Some(self.uncorrected(self.jobs.table.get(&id)?, now)?.finish)
    }

    /// Predicts the completion of the job's last task, with an interval of 80 %; `None` where
    /// [`Self::predict_finish`] returns it.
    pub fn predict(&self, id: JobId, now: Time) -> Option<Prediction> {
        self.predict_job(self.jobs.table.get(&id)?, now)
    }

    /// Predicts the same for each of these jobs; what waits for a promise is put on the calendar
    /// once for all of them.
    pub fn predict_all(&self, ids: &[JobId], now: Time) -> BTreeMap<JobId, Prediction> {
        let jobs = ids.iter().filter_map(|id| self.jobs.table.get(id));
        let (promised, others): (Vec<&Job>, Vec<&Job>) = jobs.partition(|job| {
            job.promise.is_some() && !job.settled() && !job.is_held() && job.unsettled() > 0
        });
        let with_owners = promised.iter().copied();
        let with_owners = with_owners.filter(|job| !self.lacks_owners(job));
        let finishes = self.promised_finishes(with_owners, now);

        let promised = promised.into_iter().filter_map(|job| {
            let finish = *finishes.get(&job.rank.job)?;
            let rough = Prediction::roughly(now, finish);
            Some((job.rank.job, self.with_errors(job, rough, now)))
        });
        let others = others
            .into_iter()
            .filter_map(|job| Some((job.rank.job, self.predict_job(job, now)?)));
        promised.chain(others).collect()
    }

    /// Predicts the completion of a job, which need not be there, with an interval of 80 %.
    pub(crate) fn predict_job(&self, job: &Job, now: Time) -> Option<Prediction> {
        let prediction = self.uncorrected(job, now)?;
        Some(self.with_errors(job, prediction, now))
    }

    /// Corrects the prediction's interval by the errors of earlier ones.
    fn with_errors(&self, job: &Job, prediction: Prediction, now: Time) -> Prediction {
        let errors = &self.foresight.experience.errors;
        let (low, high) = errors.interval(job.policy.name, job.stage());
        prediction.corrected(now, low, high)
    }

    /// Predicts the job's completion once at each `JobStage`, so that the predictions can be
    /// compared with the outcome.
    pub(crate) fn note_prediction(&mut self, id: JobId) {
        let Some(job) =
            self.jobs.table.get(&id).filter(|job| {
                job.plan.kind.is_some() && !job.settled() && !job.open && !job.is_held()
            })
        else {
            return;
        };

        let stage = job.stage();
        if job.plan.noted.is_some_and(|noted| noted >= stage) {
            return;
        }

        let lines = &self.jobs.lines;
        lines.sums.swap(&lines.noted_sums);
        let prediction = self.uncorrected(job, self.now);
        lines.sums.swap(&lines.noted_sums);

        if let (Some(prediction), Some(job)) = (prediction, self.jobs.table.get_mut(&id)) {
            job.plan.note(stage, self.now, prediction);
        }
    }

    /// Predicts the completion without regard to earlier errors.
    fn uncorrected(&self, job: &Job, now: Time) -> Option<Prediction> {
        if job.settled() {
            return None;
        }
        if job.is_held() {
            return self.finish_after(job, now, &mut JobsBefore::none(now));
        }
        self.finish_alone(job, &JobsBefore::none(now), now)
    }

    /// Predicts the completion of a job that waits for others: their last completion, and then its
    /// own as if it came now and no other job waited. `None` where one of them has no prediction, is
    /// open, or they are more than [`LONGEST_ORDER`]. Adds them to `seen`.
    fn finish_after(&self, job: &Job, now: Time, seen: &mut JobsBefore) -> Option<Prediction> {
        let mut before = JobsBefore::none(now);
        for id in job.after.jobs.keys() {
            if seen.jobs.len() >= LONGEST_ORDER {
                return None;
            }
            seen.jobs.insert(*id);
            let of = self.jobs.table.get(id).filter(|of| !of.open)?;
            let ends = if of.is_held() {
                self.finish_after(of, now, seen)?
            } else {
                self.finish_alone(of, &JobsBefore::none(now), now)?
            };
            before.ends.finish = before.ends.finish.max(ends.finish);
            before.ends.low = before.ends.low.max(ends.low);
            before.ends.high = before.ends.high.max(ends.high);
        }

        before.jobs.clone_from(&seen.jobs);
        let own = self.finish_alone(job, &before, now)?;
        let JobsBefore { ends, .. } = before;
        Some(Prediction {
            finish: ends.finish + own.finish.since(now),
            low: ends.low + own.low.since(now),
            high: ends.high + own.high.since(now),
        })
    }

    /// Predicts the completion of a job; of one that waits for others as if their end were now.
    fn finish_alone(&self, job: &Job, before: &JobsBefore, now: Time) -> Option<Prediction> {
        let id = job.rank.job;
        if job.unsettled() == 0 || self.lacks_owners(job) {
            return None;
        }
        if job.promise.is_some() {
            let finish = self.promised_finishes([job], now).remove(&id)?;
            return Some(Prediction::roughly(now, finish));
        }
        if job.gang.is_some() {
            return Some(Prediction::roughly(now, self.finish_together(id, now)?));
        }

        let pace = self.job_pace(job)?;
        let end = self.finish_law(job, &pace, (pace.work, before), now)?;
        if end.unknown <= 0.0 {
            return Self::interval(job, &pace, [&end; 3], now);
        }

        // Tasks of others' unknown work may take anything that tasks took here; several jobs are hardly
        // all of the longest or of the shortest ones.
        let laws = LifetimeLaws::of(self);
        let usual_s = laws.unknown_s(0.5);
        let end = |part: f64| {
            let off = (laws.unknown_s(part) / usual_s).ln() / end.unknown.sqrt();
            let work = WorkPerTask::computing(usual_s * off.exp());
            self.finish_law(job, &pace, (work, before), now)
        };
        let [low, middle, high] = PARTS.map(end);
        Self::interval(job, &pace, [&low?, &middle?, &high?], now)
    }

    /// Returns the prediction whose lower end, middle and upper end are by these laws.
    fn interval(
        job: &Job,
        pace: &JobPace,
        [low, middle, high]: [&ForeseenEnd<'_>; 3],
        now: Time,
    ) -> Option<Prediction> {
        let spread_doubt = pace.spread.as_ref().map_or(0.0, WorkLaw::doubt);
        let end_s = |end: &ForeseenEnd<'_>, part: f64| {
            let finish_s = end.law.quantile_s(0.5);
            let doubt = spread_doubt
                .hypot(pace.doubt)
                .hypot(end.wait_doubt_s / finish_s);
            let rough = Self::rough(job, finish_s).hypot(HELD_SIGMAS * doubt);
            let off = (end.law.quantile_s(part) / finish_s).ln();
            finish_s * off.hypot(rough).copysign(part - 0.5).exp()
        };

        let at = |s: f64| now + Span::from_secs_f64(s.min(FAR_S));
        let finish_s = middle.law.quantile_s(0.5);
        let late_s = finish_s * Self::rough(job, finish_s).exp_m1();
        let further_s = if job.policy.replication.gain().is_some() {
            further_round_s(late_s, pace.task_s)
        } else {
            0.0
        };
        finish_s.is_finite().then(|| Prediction {
            finish: at(finish_s),
            low: at(end_s(low, PARTS[0])),
            high: at(end_s(high, PARTS[2]).max(finish_s + further_s)),
        })
    }

    /// Returns the width of an interval on each side, as a logarithm of the time left, if the law
    /// were certain: speeds, owners and copies are known roughly.
    fn rough(job: &Job, finish_s: f64) -> f64 {
        let rough = if job.policy.replication.gain().is_some() {
            ROUGH
        } else {
            ROUGH_UNCOPIED
        };
        rough + (LATENCY_S / finish_s).ln_1p()
    }

    /// Returns the law of the completion of the job's last task, if other jobs' tasks of unknown work are
    /// like `unknown`, and if those that it waits for have ended.
    fn finish_law(
        &self,
        job: &Job,
        pace: &JobPace,
        (unknown, before): (WorkPerTask, &JobsBefore),
        now: Time,
    ) -> Option<ForeseenEnd<'_>> {
        let begun = job
            .records
            .iter()
            .filter(|(index, record)| !record.live.is_empty() && !job.requeued.contains(*index));
        let gains = job.policy.replication.gain().is_some();
        let mut held_up = HostsHeldUp::default();
        let laws = begun.flat_map(|(_, record)| {
            let noticed = gains && self.is_noticed(job, record, &mut held_up, now);
            let laws = self.laws(record, pace, now);
            // Results that are compared are waited for, each of them.
            let each = if record.wants_several() {
                1
            } else {
                laws.len().max(1)
            };
            let ends: SmallVec<[Laws; 1]> = match laws.is_empty() {
                true => SmallVec::from_elem(laws, 1),
                false => laws.chunks(each).map(Laws::from_slice).collect(),
            };
            ends.into_iter().map(move |laws| (laws, noticed))
        });
        let (lost, mut ends): (Vec<_>, Vec<_>) = laws.partition(|(laws, _)| laws.is_empty());

        // Begun tasks that cannot be predicted where they are count as waiting.
        let waiting = (job.attempts_due(false) + job.after.tasks.len()) as f64 + lost.len() as f64;
        let mut queue_s = 0.0;
        let mut unknown_jobs = 0.0;
        let mut wait_doubt_s = 0.0;
        if waiting > 0.0 {
            let left = self.slots_left(job, pace, waiting, (unknown, before), now);
            unknown_jobs = left.before.unknown;
            let free_s = left.slots.iter().map(|coming| coming.slot.free_s);
            wait_doubt_s = left.before.doubt() * free_s.fold(FAR_S, f64::min);
            for (start_s, law) in self.last_round(job, pace, waiting, &left.slots)? {
                queue_s = f64::max(queue_s, start_s);
                ends.push((Laws::from_elem(law, 1), false));
            }
        }

        let copy_s = self.copies_in_s(job, pace, queue_s, now);
        let ends = ends.into_iter().map(|(laws, noticed)| {
            let copied = gains && copy_s.is_finite();
            let late = copied && is_late(&laws, copy_s);
            PendingEnd {
                laws,
                again_s: if noticed { queue_s } else { pace.notice_s } + pace.task_s,
                copy_s: if gains && !noticed && !late {
                    copy_s + pace.notice_s
                } else {
                    copy_s
                },
                late_task_s: late.then_some(copy_s - queue_s),
                copied,
                sigma: pace.spread.map(|spread| spread.sigma),
            }
        });
        Some(ForeseenEnd {
            law: FinishLaw::new(ends.collect(), self.foresight.curves())?,
            unknown: unknown_jobs,
            wait_doubt_s,
        })
    }

    /// Whether it is known that a task is held up, so that the policy copies it as soon as a slot is idle.
    fn is_noticed(
        &self,
        job: &Job,
        record: &TaskRecord,
        known: &mut HostsHeldUp,
        now: Time,
    ) -> bool {
        let held_up = |host: &Host| host.silence(now).is_some() || holds_up(job, host, now);
        record.live.iter().all(|copy| {
            let look = || self.hosts.table.get(&copy.host).is_none_or(held_up);
            *known.entry(copy.host).or_insert_with(look)
        })
    }

    fn job_pace(&self, job: &Job) -> Option<JobPace> {
        let spread = self.spread(job);
        let measured_s = spread.map(|law| law.mean_s());
        let measured_s = measured_s.or_else(|| job.pace.mean_work_s());
        let work_s = match measured_s {
            Some(measured_s) => job.weighed_s(measured_s),
            None => self.typical_work_s(job)?,
        };

        let work = job.takes(work_s.max(LEAST_WORK_S));
        let speed = self.hosts.index.places(job.pool).mean_speed();
        let start_cost = self.settings.start_cost;
        Some(JobPace {
            work,
            spread,
            task_s: (self.foresight).usual_task_s(work, speed.unwrap_or(1.0), start_cost),
            notice_s: self.settings.reports(&job.policy).secs(),
            doubt: job.work_doubt(),
        })
    }

    /// Returns the law of the work of a job's tasks: of those that are done, and of what some of the
    /// others have done so far.
    fn spread(&self, job: &Job) -> Option<WorkLaw> {
        let work = job.takes(0.0);
        let works = job.copies().take(CENSORED).filter_map(|copy| {
            let (host, load) = self.hosts.on_books(copy.host, copy.attempt)?;
            let share = self.foresight.reported_share(host, load);
            Some(load.ran.secs() * work.rate(host.speed.factor() * share))
        });
        job.pace.law(&works.collect::<Vec<_>>())
    }

    /// Returns the laws of a task's attempts; none of those on hosts that are silent, or paused by
    /// their owners, nor of those that are frozen to make room: they go on with the next free slot.
    fn laws(&self, record: &TaskRecord, pace: &JobPace, now: Time) -> Laws {
        let laws = record.live.iter().filter_map(|copy| {
            let there = self.hosts.on_books(copy.host, copy.attempt);
            let (host, load) = there.filter(|(host, load)| host.foreseen() && !load.frozen)?;
            let start_cost = self.settings.start_cost;
            let on = self.foresight.on_average(host, pace.work);
            let law = self.foresight.law(on, load, pace.work, start_cost, now);
            let known = own_full_s(load).is_some();
            let time = pace.spread.filter(|_| !known).map(|_| {
                let (ran_s, whole_s) = Foresight::ran_s(on, load, pace.work, start_cost, now);
                TaskTime {
                    start_s: 0.0,
                    ran_s,
                    whole_s,
                }
            });
            Some(AttemptEnd { law, time })
        });
        laws.collect()
    }

    /// Returns the [`SlotsLeft`] to the job by those before it.
    fn slots_left(
        &self,
        job: &Job,
        pace: &JobPace,
        waiting: f64,
        (unknown, before): (WorkPerTask, &JobsBefore),
        now: Time,
    ) -> SlotsLeft {
        let mut times = SlotTimes::of(self, unknown, &before.jobs, usize::MAX, now);
        let needs = &job.rules.needs;
        let allowed = self.allowed(job.user, now).filter(|_| !job.is_held());
        let mut own_ahead = Vec::new();
        let mut others = self.running_of_others(job, before);
        if job.is_held() {
            times.pass(before.ends.finish.since(now).secs());
        } else {
            let own = WaitingTasks::like(waiting, pace.work);
            for ahead in self.ahead_of(job.rank, own, times.slots(), now) {
                self.add_waiting(&mut others, &ahead);
                if ahead.own && allowed.is_some() {
                    own_ahead.push(ahead);
                } else {
                    times.fill(&ahead, unknown);
                }
            }
        }

        let mut slots = times.coming(pace.work, needs);
        let saved_s = self.saved_by_prefetch_s(job);
        for coming in &mut slots {
            let task_s = coming.slot.task_s;
            coming.slot.task_s = (task_s - saved_s).max(LEAST_TASK_S.min(task_s));
        }
        self.leave_out(job, &mut slots, now);
        if let Some(allowed) = allowed {
            slots = allowed.keep(slots);
            own_ahead
                .iter()
                .for_each(|ahead| fill(&mut slots, pace.work, ahead));
        }
        SlotsLeft {
            slots,
            before: others,
        }
    }

    /// Returns the running tasks of other jobs, of those that will not have ended before the job starts.
    fn running_of_others(&self, job: &Job, before: &JobsBefore) -> WorkBefore {
        let hosts = self.hosts.table.values();
        let running = hosts.flat_map(|host| host.books.attempts());
        let mut tasks = BTreeMap::<JobId, f64>::new();
        for attempt in running {
            *tasks.entry(attempt.task.job).or_default() += 1.0;
        }
        tasks.remove(&job.rank.job);
        tasks.retain(|id, _| !before.jobs.contains(id));

        let mut others = WorkBefore::default();
        for (id, tasks) in tasks {
            let Some(other) = self.jobs.table.get(&id) else {
                continue;
            };
            others.add(other, tasks, 1.0);
            others.unknown += f64::from(self.usual_work(other).is_none());
        }
        others
    }

    /// Adds waiting tasks, of as many jobs as if all had as many as the one that they are like.
    fn add_waiting(&self, before: &mut WorkBefore, ahead: &TasksAhead) {
        let Some(like) = self.jobs.table.get(&ahead.like) else {
            return;
        };
        let of_one = like.attempts_due(false).max(1) as f64;
        let jobs = (ahead.tasks.tasks / of_one).max(1.0);
        before.add(like, ahead.tasks.tasks, jobs);
        if ahead.tasks.unknown > 0.0 {
            before.unknown += (jobs * ahead.tasks.unknown / ahead.tasks.tasks).max(1.0);
        }
    }

    /// Returns the seconds that a task of the job takes less than one that its host gets only when it has
    /// a free slot.
    fn saved_by_prefetch_s(&self, job: &Job) -> f64 {
        let ahead = job.pace.fit(self.settings.prefetch_window) > 0;
        let between_s = job.pace.between_s().filter(|_| ahead);
        between_s.map_or(0.0, |between_s| {
            let start_s = self.settings.start_cost.secs();
            (start_s - between_s).max(0.0) * self.foresight.curves().stretch
        })
    }

    /// Returns the start and the law of the last task of each of these slots that takes some of the job's
    /// `waiting` tasks; `None` where none does.
    fn last_round(
        &self,
        job: &Job,
        pace: &JobPace,
        waiting: f64,
        slots: &[ComingSlot],
    ) -> Option<Vec<(f64, AttemptEnd)>> {
        let rule = match job.policy.placement {
            Placement::Lookahead => Filling::Soonest,
            Placement::Fcfs => Filling::Free,
            _ => Filling::FastestFree,
        };

        let servers: Vec<_> = slots.iter().map(|coming| coming.slot).collect();
        let last = last_tasks(&servers, waiting.ceil() as u64, rule)?;
        let curves = self.foresight.curves();
        let law = |(at, start_s): (usize, f64)| {
            let task_s = servers[at].task_s / curves.stretch;
            let law = CompletionLaw::starting_in(start_s, task_s, slots[at].host, curves);
            let time = pace.spread.map(|_| TaskTime {
                start_s,
                ran_s: 0.0,
                whole_s: task_s,
            });
            (start_s, AttemptEnd { law, time })
        };
        Some(last.into_iter().map(law).collect())
    }

    /// Leaves out the slots to which the job's policy objects now, unless it objects to all.
    fn leave_out(&self, job: &Job, slots: &mut Vec<ComingSlot>, now: Time) {
        let scene = job.scene(now, &self.settings, &self.hosts);
        let mut objects = BTreeMap::new();
        let mut taken = |speed: Speed| {
            *objects.entry(speed).or_insert_with(|| {
                let objection = job.policy.placement.objection(&scene, &job.plan, speed);
                objection.is_none()
            })
        };
        if slots.iter().any(|coming| taken(coming.speed)) {
            slots.retain(|coming| taken(coming.speed));
        }
    }

    /// Returns the time, in seconds from now, by which a copy of a task could be done that is known to be late;
    /// infinite where the policy makes none. The last waiting tasks should start in `queue_s`.
    fn copies_in_s(&self, job: &Job, pace: &JobPace, queue_s: f64, now: Time) -> f64 {
        let begins_s = match job.policy.replication {
            Replication::Gain(gain) if gain.copies_max > 0.0 => Some(queue_s),
            Replication::Dup(dup) if dup.which == Replicated::Running => Some(queue_s),
            Replication::Timeout(_) => {
                let forecast = job.plan.forecast;
                forecast.map(|forecast| forecast.finish.since(now).secs())
            }
            _ => None,
        };
        begins_s.map_or(f64::INFINITY, |begins_s| {
            begins_s + self.copy_s(job, pace, now)
        })
    }

    /// Returns the time of a copy on the fastest ready host, in seconds; where none is ready, on a
    /// mean one.
    fn copy_s(&self, job: &Job, pace: &JobPace, now: Time) -> f64 {
        let scene = job.scene(now, &self.settings, &self.hosts);
        let ready = scene.ready_by_since();
        let speeds = ready.filter_map(|host| Some(self.hosts.table.get(&host)?.speed));
        let start_cost = self.settings.start_cost;
        speeds.max().map_or(pace.task_s, |fastest| {
            let speed = fastest.factor();
            self.foresight.usual_task_s(pace.work, speed, start_cost)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_few_rounds_is_late_by_none_or_by_a_whole_one() {
        let late = |rounds: f64| rounds * 60.0 * (f64::exp(ROUGH) - 1.0);
        let further = |rounds: f64| further_round_s(late(rounds), 60.0);
        assert_eq!([1.0, 2.0, 4.0].map(further), [0.0, 0.0, 60.0]);
        // Of many rounds the interval reaches farther by itself.
        assert!(further(40.0) < late(40.0));
    }
}
