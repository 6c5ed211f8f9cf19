//! Deadlines: the admission test of a bag on the calendar. The functions here only compute;
//! `handlers` and `policing` act.
//!
//! The calendar holds the running attempts, then the waiting tasks with a promise, in queue order;
//! a new bag comes behind all of them. Waiting tasks without a promise are not on it: they come
//! after all tasks with one. So no accepted bag is delayed by a later one, as long as run times and
//! hosts are as expected.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use common::{AttemptId, HostId, IdSet, JobId, Span, Time};

use crate::deadline::calendar::{Booking, Calendar, RunningCap, Slots};
use crate::deadline::own_tasks::KnownTasks;
use crate::deadline::policing::fewest;
use crate::deadline::reserve::{at_most, most_second, spares, spread};
use crate::policy::Policy;
use crate::policy::admission::Reckoning;
use crate::policy::catalogue::policy;
use crate::prediction::estimates::{EstimateSource, Estimates, beyond};
use crate::prediction::experience::JobStage;
use crate::prediction::lessons::Lessons;
use crate::prediction::predict::{Prediction, TaskDuration, duration, rate_of};
use crate::prediction::reservation::Sequence;
use crate::protocol::effect::{Offer, Refused};
use crate::protocol::event::{Bag, Tested};
use crate::state::foresight::Foresight;
use crate::state::host::{Host, HostAttempt};
use crate::state::job::Job;
use crate::state::owner_hours::HostLoan;
use crate::state::scheduler::Scheduler;
use crate::state::terms::Stack;

/// The most tasks of a bag, counted as often as results of each are wanted, for which a deadline is
/// promised: each of them is put on the calendar by itself, whenever it is computed.
pub(crate) const MOST_PROMISED: u64 = 100_000;
/// The run time taken for a task of which nothing is known (any more), in seconds on a host of
/// speed 1.
const UNKNOWN_S: f64 = 60.0;
/// Rates are rounded down to powers of this factor where hosts are expected to be disturbed, so
/// that similar ones count as equal.
const GRAIN: f64 = 1.02;
/// An attempt that is overdue by at most this is about to end, with its report on the way.
const ROUNDING: Span = Span::from_millis(1);
/// Outcomes of predictions that count as observed beforehand, as scores (`Prediction::score`).
const PRIOR_SCORES: [f64; 8] = [-0.56, -0.28, -0.14, 0.0, 0.07, 0.22, 0.43, 1.01];

/// The place and time at which a task of a bag is to run, if nothing interferes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedTask {
    /// The task's index.
    pub task: u32,
    /// The host.
    pub host: HostId,
    /// The start.
    pub start: Time,
    /// The completion.
    pub finish: Time,
}

/// The predicted end of attempts that have run for longer than expected, by `Reckoner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// At once (the paper's reading), or soon.
    Soon,
    /// After as long again as they have run.
    AsLong,
    /// Later than any deadline.
    Late,
}

/// A time later than any deadline.
const LATE: Time = Time(u64::MAX / 4);

/// A bag's tasks with the time of each, in calendar order; a task of which several results are wanted is
/// listed as often.
type BagDraft = Vec<(u32, TaskDuration)>;

/// The admission test of a bag with a deadline, for any number of killed attempts.
pub(crate) struct AdmissionTest<'a> {
    reckoner: Reckoner<'a>,
    bag: &'a Bag,
    policy: &'a Policy,
    deadline: Time,
    lessons: Lessons,
    draft: BagDraft,
}

/// The scheduler's state as seen by one way of computing the calendar, its `Reckoning`.
pub(crate) struct Reckoner<'a> {
    pub(super) scheduler: &'a Scheduler,
    reckoning: Reckoning,
    pub(super) now: Time,
    /// The predicted end of attempts that should have ended already.
    pub(super) soonest: Time,
    stretch: f64,
    /// Whether the expected further attempts of tasks are on the calendar.
    pub(super) spares: bool,
    pub(super) overdue: Overdue,
    /// The mean work of a task of jobs without estimates, in seconds on a host of speed 1.
    works: RefCell<BTreeMap<JobId, Option<f64>>>,
    /// The corrections by jobs' own tasks, where they count.
    own: Option<KnownTasks>,
}

impl Scheduler {
    /// Returns the offer for a bag that comes now, if it has a deadline. Neither admits it nor
    /// kills an attempt.
    ///
    /// # Errors
    /// The reason why it would not be admitted.
    pub fn offer(&self, bag: &Bag, now: Time) -> Result<Option<Offer>, Refused> {
        let policy = policy(&bag.rules.policy)
            .ok_or_else(|| Refused::UnknownPolicy(bag.rules.policy.clone()))?;
        policy.admission.admit(policy.name, bag)?;
        let Some(test) = self.admission_test(bag, &policy, now.max(self.now))? else {
            return Ok(None);
        };
        test.offer(&BTreeSet::new())
            .map(Some)
            .map_err(|refused| test.with_fits(refused, &BTreeSet::new()))
    }

    /// Tests a bag submitted now: as [`Self::offer`], but attempts may be killed for it. Neither
    /// admits it nor kills an attempt: an [`crate::Event::JobSubmitted`] with the outcome does.
    ///
    /// # Errors
    /// The reason why it would not be admitted.
    pub fn would_admit(&self, bag: &Bag, now: Time) -> Result<Tested, Refused> {
        let policy = policy(&bag.rules.policy)
            .ok_or_else(|| Refused::UnknownPolicy(bag.rules.policy.clone()))?;
        policy.admission.admit(policy.name, bag)?;
        // No job has this number.
        self.jobs.can_promise(JobId(0), bag)?;

        let at = now.max(self.now);
        let (offer, victims) = self.decide(bag, &policy, at);
        Ok(Tested {
            offer: offer?,
            victims,
            at,
            events: self.events,
        })
    }

    /// Returns the place and time of each task of a bag that came now, in calendar order, whatever
    /// its deadline.
    ///
    /// # Errors
    /// If its policy has no calendar, its tasks' run times are unknown, or no host would do.
    pub fn plan(&self, bag: &Bag, now: Time) -> Result<Vec<PlannedTask>, Refused> {
        let policy = policy(&bag.rules.policy)
            .ok_or_else(|| Refused::UnknownPolicy(bag.rules.policy.clone()))?;
        let reckoning = policy
            .admission
            .reckoning()
            .ok_or_else(|| Refused::NoPromises(policy.name.to_owned()))?;
        policy.admission.admit(policy.name, bag)?;

        let reckoner = self.reckoner(reckoning, now.max(self.now));
        let draft = reckoner.draft(bag, &self.past_lessons(bag, policy.limits))?;
        let mut calendar = reckoner.occupied(&BTreeSet::new());
        let cap = reckoner.cap_of_bag(bag);
        let mut entry = |(task, time): (u32, TaskDuration)| {
            let found = calendar
                .stack_for(cap, time, &bag.rules.needs)
                .ok_or(Refused::NoHost)?;
            Ok(PlannedTask {
                task,
                host: found.host,
                start: found.start,
                finish: found.finish,
            })
        };
        draft.into_iter().map(&mut entry).collect()
    }

    /// Returns the jobs of these attempts whose tasks are tried again, should they be killed.
    pub(crate) fn tried_again(&self, killed: &BTreeSet<AttemptId>) -> BTreeSet<JobId> {
        let again = |attempt: &&AttemptId| {
            let job = self.jobs.table.get(&attempt.task.job);
            job.is_some_and(|job| job.may_retry(attempt.task.index))
        };
        let killed = killed.iter().filter(again);
        killed.map(|attempt| attempt.task.job).collect()
    }

    pub(crate) fn reckoner(&self, reckoning: Reckoning, now: Time) -> Reckoner<'_> {
        let stretch = if reckoning.inflated {
            self.foresight.curves().stretch
        } else {
            1.0
        };

        Reckoner {
            scheduler: self,
            reckoning,
            now,
            soonest: now,
            stretch,
            spares: true,
            overdue: Overdue::Soon,
            works: RefCell::default(),
            own: (reckoning.calibrated).then(|| KnownTasks::new(reckoning.inflated)),
        }
    }

    /// Returns the same as if jobs' own tasks corrected no estimates.
    pub(super) fn reckoner_by_estimates(&self, reckoning: Reckoning) -> Reckoner<'_> {
        Reckoner {
            own: None,
            ..self.reckoner(reckoning, self.now)
        }
    }

    /// Prepares the admission test of a valid bag; `None` where it has no deadline.
    ///
    /// # Errors
    /// If it has more tasks than a deadline is promised for, their run times are unknown, or more results must
    /// agree than there are owners of hosts for it.
    pub(crate) fn admission_test<'a>(
        &'a self,
        bag: &'a Bag,
        policy: &'a Policy,
        now: Time,
    ) -> Result<Option<AdmissionTest<'a>>, Refused> {
        let (Some(deadline), Some(reckoning)) = (bag.terms.deadline, policy.admission.reckoning())
        else {
            return Ok(None);
        };
        let attempts = bag.tasks.len() * u64::from(bag.rules.quorum.size.max(1));
        if attempts > MOST_PROMISED {
            return Err(Refused::TooMany {
                tasks: attempts,
                most: MOST_PROMISED,
            });
        }
        if self.has_too_few_owners(&bag.rules) {
            return Err(Refused::NoHost);
        }

        let reckoner = self.reckoner(reckoning, now);
        let lessons = self.past_lessons(bag, policy.limits);
        let draft = reckoner.draft(bag, &lessons)?;
        Ok(Some(AdmissionTest {
            reckoner,
            bag,
            policy,
            deadline,
            lessons,
            draft,
        }))
    }
}

impl<'a> Reckoner<'a> {
    /// Returns the work per second of one slot of the host, in seconds on a host of speed 1.
    fn rate(&self, host: &Host) -> f64 {
        let speed = host.speed.factor();
        if !self.reckoning.inflated {
            return speed;
        }
        let rate = speed * self.scheduler.foresight.usual_share(host) / self.stretch;
        GRAIN.powf((rate.ln() / GRAIN.ln()).floor())
    }

    fn estimates(&self) -> &'a Estimates {
        &self.scheduler.foresight.experience.estimates
    }

    fn source(&self, stack: &Stack) -> Option<&'a EstimateSource> {
        if self.reckoning.calibrated {
            self.estimates().source(&stack.terms.estimator)
        } else {
            None
        }
    }

    /// Returns the time of a task that computes for this part of its work, in seconds on a host of speed 1.
    fn time(&self, work: Span, computing: f64) -> TaskDuration {
        TaskDuration {
            work,
            computing,
            start_cost: self.scheduler.settings.start_cost,
        }
    }

    /// Returns the part of the task's work in which it computes. A reserved limit is a time on the host,
    /// whatever the task does in it.
    fn computing(&self, job: &Job, index: u32) -> f64 {
        match job.reserved(index) {
            Some(_) => 1.0,
            None => job.computing(),
        }
    }

    /// Returns the mean work of a task of the job without estimates, in seconds on a host of speed 1.
    fn usual_work_s(&self, job: &Job) -> Option<f64> {
        let mut works = self.works.borrow_mut();
        let known = works.entry(job.rank.job);
        *known.or_insert_with(|| Some(self.scheduler.usual_work(job)?.mean_s))
    }

    /// Returns the work of a task of the job by its estimate, corrected by this source and by the job's
    /// own tasks; or by what tasks of the source took. `None` where neither is known.
    fn corrected(&self, job: &Job, source: Option<&EstimateSource>, index: u32) -> Option<Span> {
        let estimate = job.estimate(index);
        let expected = expected(source, estimate)?;
        let (Some(own), Some(estimate)) = (&self.own, estimate) else {
            return Some(expected);
        };

        let unknown = EstimateSource::default();
        let source = source.unwrap_or(&unknown);
        let of = (estimate, expected);
        Some(own.corrected(self.scheduler, job, of, source, self.now))
    }

    /// Returns the expected work of a waiting task of the job.
    fn work(&self, job: &Job, source: Option<&EstimateSource>, index: u32) -> Span {
        let corrected = || self.corrected(job, source, index);
        let known = job.reserved(index).or_else(corrected);
        let usual = || {
            let work_s = self.usual_work_s(job).unwrap_or(UNKNOWN_S);
            Span::from_secs_f64(work_s)
        };
        let work = known.unwrap_or_else(usual);
        // A task whose attempt was ended early takes longer than that; twice as long is assumed.
        work.max(Span::from_secs_f64(2.0 * job.killed_s(index)))
    }

    /// Predicts the end of a live attempt.
    pub(super) fn end(&self, host: &Host, attempt: AttemptId, load: &HostAttempt) -> Time {
        let job = self.scheduler.jobs.table.get(&attempt.task.job);
        // An attempt of an unrequested task can be preempted.
        let Some(job) = job.filter(|job| !job.only_disclosed(attempt.task.index)) else {
            return self.soonest;
        };
        if load.stopping {
            return self.soonest;
        }
        let start_cost = self.scheduler.settings.start_cost;
        let estimate = job.estimate(attempt.task.index);
        let reserved = job.reserved(attempt.task.index);
        let computing = self.computing(job, attempt.task.index);
        let rate = rate_of(computing, self.rate(host));
        // A reserved limit is a time on the host, whatever share of it the attempt has.
        let shared = self.reckoning.inflated && reserved.is_none();
        let foresight = &self.scheduler.foresight;
        let of = (host, computing);
        let (done, _) = foresight.work_done(of, load, shared, start_cost, self.now);
        let done = Span::from_secs_f64(done);
        let given = || match self.source(&job.stack) {
            Some(source) => source.given(estimate, done),
            None if self.reckoning.calibrated => EstimateSource::default().given(estimate, done),
            None => estimate,
        };
        let learned = || {
            let source = self.source(&job.stack);
            let expected = self
                .own
                .as_ref()
                .and_then(|_| self.corrected(job, source, attempt.task.index));
            let given = given()?;
            Some(match expected {
                Some(expected) if done < expected => expected,
                Some(expected) => beyond(expected, done).min(given),
                None => given,
            })
        };

        let should = || expected(self.source(&job.stack), estimate);
        let overdue = reserved
            .or_else(should)
            .is_some_and(|work| done > work + ROUNDING);

        match self.overdue {
            Overdue::AsLong if overdue => return self.now + duration(done, Span::ZERO, rate),
            Overdue::Late if overdue => return LATE,
            _ => {}
        }

        let usual = || {
            let usual = self.usual_work_s(job).map(Span::from_secs_f64)?;
            Some(if usual > done {
                usual
            } else {
                beyond(usual, done)
            })
        };
        // A task of which an earlier attempt was ended takes longer than that had run.
        let outlived = Span::from_secs_f64(job.killed_s(attempt.task.index));
        let expected = || {
            let known = learned().or_else(usual);
            let work = known.unwrap_or((done + done).max(Span::from_secs_f64(UNKNOWN_S)));
            work.max(outlived)
        };
        let work = reserved.unwrap_or_else(expected);

        // After a restart its assignment time is not known any more, but its run time is.
        let older = load.phase.executing()
            && load
                .noted
                .is_some_and(|noted| noted - load.ran < load.assigned);
        let end = if self.reckoning.inflated || older {
            self.now + duration(Span(work.0.saturating_sub(done.0)), Span::ZERO, rate)
        } else {
            load.assigned + duration(work, start_cost, rate)
        };
        if end < self.now { self.soonest } else { end }
    }

    /// Returns how much later than `end` a live attempt is expected to end, where disturbances count:
    /// it stands still, or its host is silent, and it starts again elsewhere if it is gone.
    pub(super) fn delay(&self, host: &Host, load: &HostAttempt, job: &Job, index: u32) -> Span {
        if !self.reckoning.inflated {
            return Span::ZERO;
        }
        let stay_s = Foresight::stay_s(host, load, self.now).unwrap_or(0.0);
        let gone = host.silence(self.now);
        let gone = gone.map_or(0.0, |silence| self.scheduler.foresight.gone(silence));

        let work = self.work(job, self.source(&job.stack), index);
        let rate = rate_of(self.computing(job, index), self.rate(host));
        let whole_s = duration(work, Span::ZERO, rate).secs();
        Span::from_secs_f64(stay_s + gone * whole_s)
    }

    /// Builds the `Calendar` of the slots of hosts that take work, with their running attempts.
    pub(crate) fn calendar(&self, without: &BTreeSet<AttemptId>) -> Calendar<'a> {
        let mut calendar = Calendar::default();
        let apart = self.scheduler.hosts_apart();
        let hosts = self.scheduler.hosts.table.values();
        for host in hosts.filter(|host| host.takes_work()) {
            let rate = self.rate(host);
            let lent = host.loan(self.now).map(HostLoan::in_minutes);
            let room = host.lent_room();
            let alike = Slots {
                host: host.id,
                offers: &host.offers,
                room,
                rate,
                lent,
                apart: apart.contains(&host.id),
            };

            let live = host.books.in_slots();
            let live = live.filter(|(attempt, _)| !without.contains(attempt));
            let mut ends: Vec<Time> = live
                .flat_map(|(attempt, load)| {
                    // An attempt that takes more than a slot has as many as stand for that.
                    let slots = if load.takes.is_plain() {
                        1
                    } else {
                        room.slots_of(load.takes).unwrap_or(1)
                    };
                    std::iter::repeat_n(self.end(host, *attempt, load), slots as usize)
                })
                .collect();
            ends.sort_unstable();

            let slots = u64::from(host.usable_slots()).saturating_sub(host.reserved.slots) as usize;
            if !host.books.is_plain() {
                // They may fit closer together than their slots say.
                ends.drain(..ends.len().saturating_sub(slots));
            }
            // Attempts beyond the slots come after those in them.
            let beyond = ends.split_off(ends.len().min(slots));
            for (at, end) in beyond.into_iter().enumerate() {
                let slot = at % slots.max(1);
                if let Some(before) = ends.get_mut(slot) {
                    *before = *before + end.since(self.now);
                }
            }

            for slot in 0..slots {
                let end = ends.get(slot).copied();
                calendar.add(&alike, end.unwrap_or(self.now), end.is_none());
                if let Some(HostLoan { again, .. }) = lent {
                    // The end of that next loan is left open.
                    calendar.add(
                        &Slots {
                            lent: None,
                            ..alike
                        },
                        end.map_or(again, |end| end.max(again)),
                        false,
                    );
                }
            }
        }

        self.count_running(&mut calendar, without);
        calendar
    }

    /// Returns the most tasks of the job's user that may run at a time.
    fn cap_of(&self, job: &Job) -> Option<RunningCap> {
        let user = job.user;
        let most = self.scheduler.jobs.lines.shares.most(user)?;
        Some(RunningCap { user, most })
    }

    /// Returns the same for the user of a bag that has no job yet.
    fn cap_of_bag(&self, bag: &Bag) -> Option<RunningCap> {
        let shares = &self.scheduler.jobs.lines.shares;
        let (user, most) = shares.most_of(&bag.terms.estimator.user)?;
        Some(RunningCap { user, most })
    }

    /// Notes the running tasks of users who may run only so many, also on hosts that take no more
    /// work.
    fn count_running(&self, calendar: &mut Calendar<'a>, without: &BTreeSet<AttemptId>) {
        if !self.scheduler.jobs.lines.shares.on() {
            return;
        }
        for host in self.scheduler.hosts.table.values() {
            let live = host.books.iter();
            let runs = |(attempt, load): &(&AttemptId, &HostAttempt)| {
                load.counts_as_running() && !without.contains(attempt)
            };
            for (attempt, load) in live.filter(runs) {
                let job = self.scheduler.jobs.table.get(&attempt.task.job);
                if let Some(cap) = job.and_then(|job| self.cap_of(job)) {
                    calendar.runs(cap.user, attempt.task, self.end(host, *attempt, load));
                }
            }
        }
    }

    /// Puts the waiting tasks with a promise on the calendar until `each` returns `false`, except
    /// those of jobs in `without`. `each` gets no task for an expected further attempt.
    pub(crate) fn stack_line(
        &self,
        calendar: &mut Calendar<'_>,
        without: &BTreeSet<JobId>,
        mut each: impl FnMut(&Job, Option<u32>, Booking) -> bool,
    ) {
        let line = self.scheduler.promised_line();
        for job in line.filter(|job| !without.contains(&job.rank.job)) {
            let source = self.source(&job.stack);
            let cap = self.cap_of(job);
            let barred = job.barred();
            for index in job.in_order() {
                let avoided = job.avoided(index, &barred, &self.scheduler.hosts);
                let failed_somewhere = avoided != barred;
                calendar.avoid(avoided);
                let work = self.work(job, source, index);
                let time = self.time(work, self.computing(job, index));
                let Some(entry) = calendar.stack_for(cap, time, &job.rules.needs) else {
                    // Others of the job may go where this one failed.
                    if failed_somewhere {
                        continue;
                    }
                    break;
                };
                if !each(job, Some(index), entry) {
                    return;
                }
            }

            calendar.avoid(barred);
            let spares = self.spares.then(|| job.spares());
            let spares = spares.into_iter().flatten();

            let second = job
                .opinions_due()
                .into_iter()
                .map(|index| self.time(self.work(job, source, index), self.computing(job, index)));
            let spares = spares.map(|limit| self.time(limit, 1.0));
            for time in second.chain(spares) {
                let Some(entry) = calendar.stack_for(cap, time, &job.rules.needs) else {
                    break;
                };
                if !each(job, None, entry) {
                    return;
                }
            }
        }
        calendar.avoid(BTreeSet::new());
    }

    /// Builds the `Calendar` with everything that comes before a new bag. Jobs of killed attempts
    /// that are retried come behind the bag, with all their waiting tasks.
    fn occupied(&self, without: &BTreeSet<AttemptId>) -> Calendar<'a> {
        let mut calendar = self.calendar(without);
        let behind = self.scheduler.tried_again(without);
        self.stack_line(&mut calendar, &behind, |_, _, _| true);
        calendar
    }

    /// Returns the bag's tasks with the time of each, in calendar order. With learned limits it has
    /// the reserved time of each, and then that of the expected further attempts.
    fn draft(&self, bag: &Bag, lessons: &Lessons) -> Result<BagDraft, Refused> {
        let stack = Stack::new(&bag.tasks, bag.terms.clone(), self.reckoning.stacking);
        if let Some((sequence, first)) = lessons.sequence().zip(lessons.limit_s(0.0)) {
            let tasks: Vec<u32> = stack.sorted(&bag.tasks).collect();
            let spares = spread(&tasks, &spares(sequence, tasks.len() as u64));
            return Ok(tasks
                .into_iter()
                .map(|task| (task, Span::from_secs_f64(first)))
                .chain(spares)
                .map(|(task, limit)| (task, self.time(limit, 1.0)))
                .collect());
        }

        let source = self.source(&stack);
        let computing = self.estimates().computing(&bag.terms.estimator);
        let time = |index: u32| {
            let estimate = stack.estimate(index).or(bag.rules.estimate);
            let work = expected(source, estimate);
            work.map(|work| (index, self.time(work, computing)))
                .ok_or(Refused::NoEstimate)
        };

        let results = bag.rules.quorum.size.max(1) as usize;
        stack
            .sorted(&bag.tasks)
            .flat_map(|index| std::iter::repeat_n(time(index), results))
            .collect()
    }
}

/// Returns the work of a task with this estimate, or with none, as this source tells it; without a source
/// the estimate.
fn expected(source: Option<&EstimateSource>, estimate: Option<Span>) -> Option<Span> {
    let corrected = source.and_then(|source| source.corrected(estimate));
    corrected.or(estimate)
}

impl AdmissionTest<'_> {
    /// Asks something of the test as if jobs' own tasks corrected no estimates.
    pub(super) fn by_estimates<T>(&mut self, ask: impl FnOnce(&Self) -> T) -> T {
        let own = self.reckoner.own.take();
        let answer = ask(self);
        self.reckoner.own = own;
        answer
    }

    /// Returns the offer for the bag if these attempts are killed.
    ///
    /// # Errors
    /// If there is none. Which of the tasks would be done in time is left open: `with_fits` says it.
    pub(crate) fn offer(&self, without: &BTreeSet<AttemptId>) -> Result<Offer, Refused> {
        let occupied = self.reckoner.occupied(without);
        let times = self.times(&occupied, self.draft.iter().copied());
        let (begin, finish) = times.ok_or(Refused::NoHost)?;
        let offer = |finish, probation| {
            let suffices = self.suffices(&occupied);
            let kept = self.kept(finish);
            // A task that reaches a learned limit is tried again, however good estimates are.
            let estimated = match self.lessons.sequence() {
                Some(_) => 1.0,
                None => self.estimated(begin, finish),
            };
            Offer {
                finish,
                probability: suffices * kept.min(estimated),
                probation,
            }
        };
        if finish <= self.deadline {
            return Ok(offer(finish, false));
        }

        let probation = self.probation(&occupied);
        match probation.filter(|finish| *finish <= self.deadline) {
            Some(finish) => Ok(offer(finish, true)),
            None => Err(Refused::TooLate {
                earliest: probation.map_or(finish, |sooner| sooner.min(finish)),
                fits: IdSet::new(),
            }),
        }
    }

    /// Returns the probability that the bag, predicted to end by `finish`, meets its deadline, by how
    /// earlier promises were kept.
    fn kept(&self, finish: Time) -> f64 {
        let now = self.reckoner.now;
        let most = Prediction::roughly(now, finish).score(now, self.deadline);
        let errors = &self.reckoner.scheduler.foresight.experience.errors;
        let seen = errors.of(self.policy.name, JobStage::Early);
        let errors = seen
            .iter()
            .map(|error| f64::from(*error))
            .chain(PRIOR_SCORES);
        let kept = errors.filter(|error| *error <= most + 1e-6).count();
        kept as f64 / (seen.len() + PRIOR_SCORES.len()) as f64
    }

    /// Returns the probability that the bag's tasks, of which the first should start at `begin` and the last
    /// end by `finish`, take no longer than estimated by so much that they miss the deadline.
    fn estimated(&self, begin: Time, finish: Time) -> f64 {
        let bag = self.bag;
        let has_estimates = bag.rules.estimate.is_some() || !bag.terms.estimates.is_empty();
        if !self.reckoner.reckoning.calibrated || !has_estimates {
            return 1.0;
        }
        let estimates = self.reckoner.estimates();
        let [expected, allowed] = [finish, self.deadline].map(|end| end.since(begin));
        estimates.suffices(&bag.terms.estimator, expected, allowed)
    }

    /// Returns the probability that no more tasks are killed at their first limit than can be tried
    /// again by the deadline; 1 without learned limits.
    fn suffices(&self, occupied: &Calendar<'_>) -> f64 {
        let Some(Sequence { limits, done, .. }) = self.lessons.sequence() else {
            return 1.0;
        };
        let (Some(second), Some(first)) = (limits.get(1), done.first()) else {
            return 1.0;
        };

        let tasks = self.bag.tasks.len();
        let planned = self.draft.len().saturating_sub(tasks as usize);
        let again = (0, self.reckoner.time(Span::from_secs_f64(*second), 1.0));
        let most = most_second(tasks, planned, |number| {
            let more = std::iter::repeat_n(again, number.saturating_sub(planned));
            let times = self.times(occupied, self.draft.iter().copied().chain(more));
            times.is_some_and(|(_, finish)| finish <= self.deadline)
        });

        at_most(tasks, 1.0 - first, most)
    }

    /// Returns the start of the first and the completion of the last of these tasks of the bag; `None` where no
    /// host will do.
    fn times(
        &self,
        occupied: &Calendar<'_>,
        tasks: impl Iterator<Item = (u32, TaskDuration)>,
    ) -> Option<(Time, Time)> {
        let mut calendar = occupied.clone();
        let cap = self.reckoner.cap_of_bag(self.bag);
        let mut first = None;
        let mut last = self.reckoner.now;
        for (_, time) in tasks {
            let entry = calendar.stack_for(cap, time, &self.bag.rules.needs)?;
            first = Some(first.map_or(entry.start, |first: Time| first.min(entry.start)));
            last = last.max(entry.finish);
        }

        Some((first.unwrap_or(self.reckoner.now), last))
    }

    /// The cold start: a user whose estimates are of unknown quality may have one bag at a time
    /// judged as if no task were longer than the bag's median task. Else users whose estimates are
    /// far too high would never be admitted, and their estimates never be compared with run times.
    fn probation(&self, occupied: &Calendar<'_>) -> Option<Time> {
        let estimator = &self.bag.terms.estimator;
        let source = self.reckoner.estimates().source(estimator);
        let known = source.is_some_and(EstimateSource::known);
        let promised = |job: &Job| {
            job.promised().is_some() && !job.settled() && job.stack.terms.estimator == *estimator
        };
        let mut jobs = self.reckoner.scheduler.jobs.table.values();
        if !self.reckoner.reckoning.calibrated || known || jobs.any(promised) {
            return None;
        }

        let mut works: Vec<Span> = self.draft.iter().map(|(_, time)| time.work).collect();
        works.sort_unstable();

        let median = *works.get(works.len() / 2)?;
        let shorter = self.draft.iter().map(|(task, time)| {
            let work = time.work.min(median);
            (*task, TaskDuration { work, ..*time })
        });
        let (_, finish) = self.times(occupied, shorter)?;
        Some(finish)
    }

    /// Returns a refusal with the tasks that would be done in time if these attempts were killed.
    pub(crate) fn with_fits(&self, refused: Refused, without: &BTreeSet<AttemptId>) -> Refused {
        let Refused::TooLate { earliest, .. } = refused else {
            return refused;
        };
        let fits = self.largest_part(&self.reckoner.occupied(without));
        Refused::TooLate { earliest, fits }
    }

    /// Finds the largest number of tasks that are all done by the deadline, the shortest ones: of
    /// equal ones in one pass, else by bisection.
    fn largest_part(&self, occupied: &Calendar<'_>) -> IdSet {
        let draft = &self.draft;
        let equal = draft.windows(2).all(|pair| pair[0].1 == pair[1].1);
        if equal && draft.len() as u64 == self.bag.tasks.len() {
            let most = self.in_time(occupied, draft.iter());
            return draft[..most].iter().map(|(index, _)| *index).collect();
        }

        let mut shortest: Vec<(Span, u32)> = draft
            .iter()
            .map(|(index, time)| (time.work, *index))
            .collect();
        shortest.sort_unstable();

        // The place of each task among the shortest ones.
        let mut places: Vec<(u32, usize)> = (0..)
            .zip(&shortest)
            .map(|(place, (_, index))| (*index, place))
            .collect();
        places.sort_unstable();
        places.dedup_by_key(|(index, _)| *index);
        let place = |index: u32| {
            let found = places.binary_search_by_key(&index, |(index, _)| *index);
            found.map_or(usize::MAX, |at| places[at].1)
        };
        let placed: Vec<usize> = draft.iter().map(|(index, _)| place(*index)).collect();

        let fits = |most: usize| {
            let part = || {
                let all = draft.iter().zip(&placed);
                all.filter(|(_, place)| **place < most)
                    .map(|(task, _)| task)
            };
            self.in_time(occupied, part()) == part().count()
        };
        let most = fewest(0, draft.len(), |most| !fits(most)) - 1;
        shortest[..most].iter().map(|(_, index)| *index).collect()
    }

    /// Returns how many of these tasks, one after the other, are done by the deadline: those up to
    /// the first one that is not.
    fn in_time<'t>(
        &self,
        occupied: &Calendar<'_>,
        tasks: impl Iterator<Item = &'t (u32, TaskDuration)>,
    ) -> usize {
        let mut calendar = occupied.clone();
        let needs = &self.bag.rules.needs;
        let cap = self.reckoner.cap_of_bag(self.bag);
        tasks
            .take_while(|(_, time)| {
                let entry = calendar.stack_for(cap, *time, needs);
                entry.is_some_and(|entry| entry.finish <= self.deadline)
            })
            .count()
    }
}
