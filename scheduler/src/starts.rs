//! When will a waiting job start, and when will so many hosts be free together? Both from how long what runs on the hosts
//! has lasted so far, and how long owners stay. What is not here: the predictors (`malleable`), and when jobs are done
//! (`views`).

use std::collections::BTreeMap;

use common::job::Needs;
use common::{JobId, Span, Time};

use crate::holdout::WidthOffer;
use crate::host::{Host, Liveness, Load, Presence};
use crate::malleable::{Learned, Lifetime, Machine, Paced, Unit, Wait};
use crate::policy::width::Choice;
use crate::scheduler::Scheduler;
use crate::survival::{Curve, Tabulated};

/// Intervals hold this part of what comes.
pub(crate) const HELD: f64 = 0.8;
/// Nobody is told a time that is later than this, in seconds from now: ten years.
pub(crate) const FAR_S: f64 = 3.2e8;

/// When a job's first task should start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starting {
    /// The median.
    pub start: Time,
    /// With a probability of 80 % it is not before this ...
    pub low: Time,
    /// ... and not after this.
    pub high: Time,
}

/// When so many hosts should be free together, in seconds from now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostsWait {
    /// Hosts that are free now.
    pub free: u32,
    /// Hosts that could be: those, busy ones, and those whose owners are there.
    pub hosts: u32,
    /// By both predictors.
    pub wait: Wait,
    /// The median of the law of the wait itself, and between which times 80 % lie; none where that may never be.
    pub median_s: Option<f64>,
    /// See `median_s`.
    pub low_s: Option<f64>,
    /// See `median_s`.
    pub high_s: Option<f64>,
}

/// The stay of an owner. Its table ends somewhere; who stays longer than that leaves evenly from then on.
pub(crate) struct Stay<'a>(&'a Tabulated);

impl Lifetime for Stay<'_> {
    fn ended(&self, age_s: f64, more_s: f64) -> f64 {
        let alive = self.0.alive(age_s).max(1e-9);
        let own = 1.0 - self.0.alive(age_s + more_s) / alive;
        // Beyond the table nothing is told apart any more.
        own.max(more_s / (age_s + more_s + 3_600.0)).clamp(0.0, 1.0)
    }

    fn longest_s(&self, _age_s: f64) -> f64 {
        FAR_S
    }
}

/// Whether a host that can be used now cannot be used later: its owner came, and has not left again.
struct Away<'a> {
    curve: &'a Curve,
    /// The part of the time in which hosts can be used, in the long run.
    usable: f64,
}

impl Lifetime for Away<'_> {
    fn ended(&self, age_s: f64, more_s: f64) -> f64 {
        (1.0 - self.usable) * (1.0 - self.curve.survival(age_s, more_s))
    }

    fn longest_s(&self, _age_s: f64) -> f64 {
        FAR_S
    }
}

/// So many slots at most are looked at one by one.
const UNITS: usize = 64;

/// The slots that waiting jobs stand in line for.
struct Line<'a> {
    /// The taken ones, or some that stand for `each` of them.
    machine: Machine<'a>,
    each: u64,
    free: u64,
    slots: u64,
}

/// What is known of how long things last on these hosts.
pub(crate) struct Laws<'a> {
    programs: BTreeMap<&'a str, Learned>,
    pub(crate) unknown: Learned,
    pub(crate) stay: Stay<'a>,
}

impl<'a> Laws<'a> {
    pub(crate) fn of(scheduler: &'a Scheduler) -> Self {
        let lives = &scheduler.foresight.lives;
        let unknown = lives.pooled();
        let busy = scheduler.hosts.table.values().flat_map(|host| host.books.attempts());
        let mut programs = BTreeMap::new();
        for attempt in busy {
            let Some(job) = scheduler.jobs.table.get(&attempt.task.job) else { continue };
            let program = job.stack.terms.estimator.program.as_str();
            programs.entry(program).or_insert_with(|| lives.law(&unknown, program, &[]));
        }
        Laws { programs, unknown, stay: Stay(&scheduler.foresight.curves().resumption) }
    }

    pub(crate) fn program(&self, scheduler: &Scheduler, job: JobId) -> &Learned {
        let job = scheduler.jobs.table.get(&job);
        job.and_then(|job| self.programs.get(job.stack.terms.estimator.program.as_str())).unwrap_or(&self.unknown)
    }
}

/// For how long an attempt has run, in seconds.
pub(crate) fn age_s(load: &Load, now: Time) -> f64 {
    let since = load.noted.filter(|_| load.phase.executing()).map_or(0.0, |noted| now.since(noted).secs());
    load.ran.secs() + since
}

/// Whether it could have slots once what holds it is over.
pub(crate) fn counts(host: &Host) -> bool {
    host.presence == Presence::Connected && host.liveness == Liveness::Alive && !host.draining
}

impl Scheduler {
    /// When the first task of a waiting job should start; none where it has started, or no host will have a slot for it.
    pub fn predict_start(&self, id: JobId, now: Time) -> Option<Starting> {
        self.predict_starts(&[id], now).pop().flatten()
    }

    /// The same for several jobs, of which each costs little more.
    pub fn predict_starts(&self, ids: &[JobId], now: Time) -> Vec<Option<Starting>> {
        let laws = Laws::of(self);
        let stays = self.stays(now);
        let usable = self.hosts.table.values().filter(|host| counts(host) && host.owner.lets_run());
        let (mut free, mut busy) = (0, Vec::new());
        for host in usable {
            free += host.free_slots();
            let loads = host.books.iter().map(|(attempt, load)| self.unit(&laws, host, attempt.task.job, load, now));
            busy.extend(loads);
        }
        let mut units: Vec<Unit<'_>> = busy.iter().map(|(age_s, law)| Unit { hosts: 1, age_s: *age_s, law }).collect();
        units.extend(stays.iter().flat_map(|(age_s, slots)| {
            std::iter::repeat_n(Unit { hosts: 1, age_s: *age_s, law: &laws.stay as &dyn Lifetime }, *slots)
        }));
        units.sort_by(|a, b| a.age_s.total_cmp(&b.age_s));
        let slots = free + units.len();
        // Of many slots some stand for all: the median is the same, the interval somewhat wider.
        let each = units.len().div_ceil(UNITS).max(1);
        let some = units.into_iter().skip(each / 2).step_by(each).collect();
        let line = Line { machine: Machine::new(0, some), free: free as u64, slots: slots as u64, each: each as u64 };
        ids.iter().map(|id| self.start_in(&line, *id, now)).collect()
    }

    fn start_in(&self, line: &Line<'_>, id: JobId, now: Time) -> Option<Starting> {
        let job = self.jobs.table.get(&id).filter(|job| job.attempts == 0 && !job.settled())?;
        if job.gang.is_some() {
            return self.start_together(id, now);
        }
        let ahead = self.jobs.lines.waiting.range(..job.rank);
        let ahead: u64 = ahead.filter_map(|rank| Some(self.jobs.table.get(&rank.job)?.waiting())).sum();
        if ahead < line.free {
            return Some(starting(now, 0.0, 0.0, 0.0));
        }
        if ahead < line.slots {
            let need = (ahead + 1 - line.free).div_ceil(line.each);
            let need = u32::try_from(need).unwrap_or(u32::MAX).min(line.machine.hosts());
            let at = |part: f64| line.machine.quantile_s(need, part);
            let start_s = at(0.5).filter(|start_s| *start_s < FAR_S)?;
            let high_s = at((1.0 + HELD) / 2.0).unwrap_or(FAR_S);
            return Some(starting(now, start_s, at((1.0 - HELD) / 2.0)?, high_s));
        }
        // More are ahead than there are slots: they must be done first.
        let (low, high) = crate::predict::spread(&[]);
        let left_s = self.worked_off_s(ahead + 1 - line.slots, id, now)?;
        Some(starting(now, left_s, left_s * low, left_s * high))
    }

    /// By when, in seconds from now, so many of the tasks ahead could be done, if anything is known of how long they take.
    fn worked_off_s(&self, tasks: u64, id: JobId, now: Time) -> Option<f64> {
        let rank = self.jobs.table.get(&id)?.rank;
        let ahead = self.jobs.lines.waiting.range(..rank).filter_map(|rank| self.jobs.table.get(&rank.job));
        let (mut all, mut work_s) = (0.0, 0.0);
        for job in ahead {
            all += job.waiting() as f64;
            work_s += job.waiting() as f64 * job.task_work_s()?;
        }
        let left_s = self.queue_s((work_s / all.max(1.0)).max(1e-6), tasks, now);
        left_s.is_finite().then_some(left_s)
    }

    /// When so many hosts should be free together, each with a slot at least.
    pub fn predict_hosts(&self, wanted: u32, now: Time) -> HostsWait {
        let curves = self.foresight.curves();
        let away = Away { curve: &curves.suspension, usable: 1.0 / curves.stretch };
        self.with_machine(Needs::default(), &[], now, |machine| {
            let machine = machine.clone().leaving(&away);
            let edge = |part: f64| machine.quantile_s(wanted, part).filter(|s| *s < FAR_S);
            HostsWait {
                free: machine.free(),
                hosts: machine.hosts(),
                wait: machine.wait(wanted),
                median_s: edge(0.5),
                low_s: edge((1.0 - HELD) / 2.0),
                high_s: edge((1.0 + HELD) / 2.0),
            }
        })
    }

    /// When a job of several ranks should start: at once, or when as many hosts should be free as it holds out for.
    fn start_together(&self, id: JobId, now: Time) -> Option<Starting> {
        let WidthOffer { choice, .. } = self.together(id, now)?.offer?;
        match choice? {
            Choice::Start(_) => Some(starting(now, 0.0, 0.0, 0.0)),
            Choice::Hold(held) => {
                let needs = self.jobs.table.get(&id)?.rules.needs;
                let left_s = held.left_s(now.secs());
                let (low_s, high_s) = self.with_machine(needs, &self.jobs.kept, now, |machine| {
                    let edge = |part: f64| machine.quantile_s(held.hosts, part).filter(|s| *s < FAR_S);
                    (edge((1.0 - HELD) / 2.0).unwrap_or(0.0), edge((1.0 + HELD) / 2.0).unwrap_or(FAR_S))
                });
                Some(starting(now, left_s, low_s.min(left_s), high_s.max(left_s)))
            }
        }
    }

    /// A running attempt of this job on this host: its age in seconds, and how long it lasts there.
    pub(crate) fn unit<'a>(
        &self,
        laws: &'a Laws<'_>,
        host: &Host,
        job: JobId,
        load: &Load,
        now: Time,
    ) -> (f64, Paced<'a>) {
        let law: &dyn Lifetime = laws.program(self, job);
        // Laws are of work, in seconds on a host of speed 1.
        (age_s(load, now), Paced { law, rate: host.speed.factor() })
    }

    /// Owners that are there: since how many seconds, and how many slots they keep.
    pub(crate) fn stays(&self, now: Time) -> Vec<(f64, usize)> {
        let there = self.hosts.table.values().filter(|host| counts(host) && !host.owner.lets_run());
        there.map(|host| (now.since(host.owner_since).secs(), host.slots as usize)).collect()
    }
}

fn starting(now: Time, start_s: f64, low_s: f64, high_s: f64) -> Starting {
    let at = |seconds: f64| now + Span::from_secs_f64(seconds.min(FAR_S));
    Starting { start: at(start_s), low: at(low_s), high: at(high_s) }
}
