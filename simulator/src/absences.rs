//! A simulated world of owners' absences: hosts whose owners come and go by the hour of the week,
//! and one bag of tasks with random run times. It drives the scheduler through its two doors and
//! obeys its effects; it contains no rule of scheduling. The hours of absence live in `week`, the
//! report in the crate `papers`.
//!
//! An owner who comes back suspends the attempt that runs there. An attempt that is suspended for
//! fifteen minutes is given back, and its task begins anew.

mod week;

use std::collections::BTreeMap;

use common::attempt::{HeldAttempt, Outcome, Phase};
use common::host::{Status, YieldReason};
use common::job::Rules;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, TaskId, Time};
use scheduler::Event;
use scheduler::effect::EndReason;
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::reservation::{NamedLaw, RunTimes};

use crate::availability::stream::RandomStream;
use crate::kernel::{
    self, FOREVER, Given, Kernel, Observer, World as _, dedicated, owner, without_heartbeats,
};
use week::OwnerWeek;
pub use week::Owners;

/// The time for which an attempt is suspended before it is given back.
const PATIENCE: Span = Span::from_secs(900);
/// The job whose past runs teach the run times (`TEACHER`), and the job that is measured (`JOB`).
const TEACHER: JobId = JobId(1);
const JOB: JobId = JobId(2);
/// The deadline of the job, and the time after which the run is given up, in seconds.
const LONG_S: f64 = 21.0 * 86_400.0;

/// The hosts, the tasks and the seed of a run.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The behaviour of the owners.
    pub owners: Owners,
    /// The number of hosts.
    pub hosts: usize,
    /// The number of tasks.
    pub tasks: u32,
    /// The law of their run times on a host of speed 1, in units of `unit_s`.
    pub law: &'a NamedLaw,
    /// Seconds in a unit of `law`.
    pub unit_s: f64,
    /// The number of earlier runs of the program that the scheduler knows.
    pub known: u32,
    /// The seed of everything random, together with `run`.
    pub seed: u64,
    /// The number of the run; see `seed`.
    pub run: u32,
}

/// The policy of a run, and the scheduler's knowledge of owners.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnerKnowledge<'a> {
    /// A policy of the catalogue, with parameters.
    pub policy: &'a str,
    /// Whether the bag has a deadline (a distant one, after three weeks).
    pub deadline: bool,
    /// Whether the scheduler knows how long absences last: from four weeks of records, and from
    /// owners' hours where there are any.
    pub told: bool,
}

/// The results of [`run`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Came {
    /// The makespan in seconds; three weeks if a task was not done by then.
    pub makespan_s: f64,
    /// The time for which attempts ran, in seconds.
    pub ran_s: f64,
    /// The part of `ran_s` in attempts that brought no result.
    pub wasted_s: f64,
    /// The number of attempts that were killed at a limit.
    pub killed: u32,
    /// The number of attempts that were given back.
    pub given_back: u32,
}

/// The planned events, in their order at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AbsenceEvent {
    /// The owner of this host comes or goes.
    Turn(usize),
    /// An attempt is done or at its limit (`End`), or has been suspended for too long (`Evict`).
    /// Ignored if its `turns` differ, since something has happened to it meanwhile.
    End(AttemptId, u32),
    Evict(AttemptId, u32),
}

/// An attempt on its host.
#[derive(Debug, Clone, Copy)]
struct HostedAttempt {
    host: usize,
    /// The run time of the attempt there; it is killed at `limit` if that is shorter.
    takes: Span,
    limit: Option<Span>,
    ran: Span,
    /// The time since which it runs; `None` while it is suspended.
    since: Option<Time>,
    /// The number of times that it was suspended or resumed.
    turns: u32,
}

impl HostedAttempt {
    /// The time for which it has run by `now`.
    fn ran_by(&self, now: Time) -> Span {
        let since = self.since.map_or(Span::ZERO, |since| now.since(since));
        self.ran + since
    }
}

struct AbsenceWorld<'a, O> {
    kernel: Kernel<'a, (Time, AbsenceEvent), O>,
    case: &'a Case<'a>,
    way: OwnerKnowledge<'a>,
    start: Time,
    courses: Vec<OwnerWeek>,
    speeds: Vec<Speed>,
    /// The work of each task, in seconds on a host of speed 1.
    works_s: Vec<f64>,
    running: BTreeMap<AttemptId, HostedAttempt>,
    started: Vec<(HostId, AttemptId)>,
    came: Came,
    over: bool,
}

/// Runs the bag. Owners, hosts and run times depend on `case` alone.
pub fn run(case: &Case<'_>, way: OwnerKnowledge<'_>) -> Came {
    run_watched(case, way, &mut ())
}

/// Does what [`run`] does, with an [`Observer`] of every step.
pub fn run_watched<O: Observer>(
    case: &Case<'_>,
    way: OwnerKnowledge<'_>,
    observer: &mut O,
) -> Came {
    let stream = |name| RandomStream::new(name, case.seed, case.run, 0);
    let mut speeds = stream("absent-speeds");
    let mut works = stream("absent-works");
    let start = case.owners.start(&mut stream("absent-start"));
    let horizon = start + Span::from_secs_f64(LONG_S);

    let mut world = AbsenceWorld {
        kernel: Kernel::new(without_heartbeats(), start, horizon, observer),
        case,
        way,
        start,
        courses: (0..case.hosts)
            .map(|host| case.owners.course(case.seed, case.run, host))
            .collect(),
        speeds: (0..case.hosts)
            .map(|_| Speed::new(speeds.between(0.7, 1.5)).unwrap_or(Speed::REFERENCE))
            .collect(),
        works_s: (0..case.tasks).map(|_| case.work_s(&mut works)).collect(),
        running: BTreeMap::new(),
        started: Vec::new(),
        came: Came::default(),
        over: false,
    };
    world.teach();
    world.join();
    world.submit();
    world.go_on();
    world.end()
}

impl Case<'_> {
    fn work_s(&self, stream: &mut RandomStream) -> f64 {
        (self.law.quantile(stream.unit()) * self.unit_s).max(1.0)
    }
}

fn id(host: usize) -> HostId {
    HostId(host as u32 + 1)
}

fn bag(tasks: u32, policy: &str, mean_s: f64, deadline: Option<Time>) -> Bag {
    let rules = Rules {
        policy: policy.to_owned(),
        estimate: Some(Span::from_secs_f64(mean_s)),
        max_losses: u32::MAX,
        ..Rules::default()
    };

    let terms = Terms {
        deadline,
        estimator: Estimator {
            user: "somebody".to_owned(),
            program: "task".to_owned(),
        },
        ..Terms::default()
    };
    Bag {
        terms,
        ..Bag::new(IdSet::from_range(1, tasks), rules)
    }
}

impl<O: Observer> AbsenceWorld<'_, O> {
    /// Teaches the scheduler the program's run times: an extra host does the earlier runs, and
    /// leaves.
    fn teach(&mut self) {
        let mut stream = RandomStream::new("absent-past", self.case.seed, self.case.run, 0);
        let host = HostId(self.case.hosts as u32 + 1);
        self.step(dedicated(host, Speed::REFERENCE));

        let mean_s = self.case.law.mean() * self.case.unit_s;
        self.step(Event::JobSubmitted {
            job: TEACHER,
            bag: Box::new(bag(self.case.known, "FCFS", mean_s, None)),
            tested: None,
        });
        for number in 1..=self.case.known {
            let attempt = AttemptId {
                task: TaskId::new(TEACHER, number),
                number: 1,
                incarnation: Incarnation(1),
            };
            self.step(Event::AttemptEnded {
                host,
                attempt,
                outcome: Outcome::Succeeded,
                ran: Span::from_secs_f64(self.case.work_s(&mut stream)),
            });
        }

        self.step(Event::HostLeft { host });
        self.over = false;
    }

    fn join(&mut self) {
        for host in 0..self.case.hosts {
            if self.way.told {
                let windows = Box::new(self.courses[host].recorded(self.kernel.now));
                self.step(Event::HostWindows {
                    host: id(host),
                    windows,
                });
            }

            let (away, turned) = self.courses[host].at(self.kernel.now);
            self.lend(host);
            let status = Status {
                owner: owner(away),
                cpu: 1.0,
                up_for: FOREVER,
                owner_for: self.kernel.now.since(turned),
            };

            self.step(Event::HostJoined {
                host: id(host),
                slots: 1,
                speed: self.speeds[host],
                status,
                held: Vec::new(),
            });

            self.plan_turn(host);
        }
    }

    /// Reports the loan that the owner's hours make of the host, where there are hours.
    fn lend(&mut self, host: usize) {
        if let Some(loan) = self.courses[host]
            .loan(self.kernel.now)
            .filter(|_| self.way.told)
        {
            self.step(Event::HostLent {
                host: id(host),
                loan: Some(loan),
            });
        }
    }

    fn submit(&mut self) {
        let deadline = self
            .way
            .deadline
            .then(|| self.kernel.now + Span::from_secs_f64(LONG_S));
        let mean_s = self.case.law.mean() * self.case.unit_s;
        self.step(Event::JobSubmitted {
            job: JOB,
            bag: Box::new(bag(self.case.tasks, self.way.policy, mean_s, deadline)),
            tested: None,
        });
    }

    /// Ends what still runs, and returns the results.
    fn end(mut self) -> Came {
        self.came.makespan_s = self.kernel.now.since(self.start).secs();
        for attempt in self.running.keys().copied().collect::<Vec<_>>() {
            self.take(attempt, true);
        }
        self.came
    }

    /// Ends an attempt that is done or at its limit.
    fn on_end(&mut self, attempt: AttemptId) {
        let Some(running) = self.running.get(&attempt).copied() else {
            return;
        };
        let killed = running.limit.filter(|limit| *limit < running.takes);
        let Some(ran) = self.take(attempt, killed.is_some()) else {
            return;
        };
        self.came.killed += u32::from(killed.is_some());

        let outcome = killed.map_or(Outcome::Succeeded, Outcome::TimedOut);
        self.step(Event::AttemptEnded {
            host: id(running.host),
            attempt,
            outcome,
            ran,
        });
    }

    /// Gives an attempt back that has been suspended for too long.
    fn on_evict(&mut self, attempt: AttemptId) {
        let Some(host) = self.running.get(&attempt).map(|running| running.host) else {
            return;
        };
        self.take(attempt, true);
        self.came.given_back += 1;
        self.step(Event::AttemptsReturned {
            host: id(host),
            attempts: vec![attempt],
        });
    }

    fn is_at(&self, attempt: AttemptId, turns: u32) -> bool {
        self.running
            .get(&attempt)
            .is_some_and(|running| running.turns == turns)
    }

    /// Suspends or resumes a host's attempts when its owner comes or goes.
    fn turn(&mut self, host: usize) {
        let (away, _) = self.courses[host].at(self.kernel.now);
        let on: Vec<AttemptId> = self
            .running
            .iter()
            .filter(|(_, running)| running.host == host)
            .map(|(attempt, _)| *attempt)
            .collect();

        let mut held = Vec::new();
        for attempt in on {
            let Some(running) = self.running.get_mut(&attempt) else {
                continue;
            };
            running.ran = running.ran_by(self.kernel.now);
            running.since = away.then_some(self.kernel.now);
            running.turns += 1;

            let phase = if away {
                Phase::Running
            } else {
                Phase::Suspended(YieldReason::InUse)
            };
            held.push(HeldAttempt {
                attempt,
                phase,
                ran: running.ran,
                frozen_for: Span::ZERO,
                progress: None,
            });

            self.plan(attempt);
        }

        if away {
            self.lend(host);
        }

        self.step(Event::OwnerChanged {
            host: id(host),
            owner: owner(away),
        });
        if !held.is_empty() {
            self.step(Event::AttemptsMoved {
                host: id(host),
                held,
            });
        }

        self.plan_turn(host);
    }

    fn plan_turn(&mut self, host: usize) {
        if let Some(at) = self.courses[host].next_turn(self.kernel.now) {
            self.kernel.plan(at, AbsenceEvent::Turn(host));
        }
    }

    /// Plans the end or the return of an attempt, if nothing else happens to it first.
    fn plan(&mut self, attempt: AttemptId) {
        let Some(running) = self.running.get(&attempt) else {
            return;
        };
        let goal = running
            .limit
            .map_or(running.takes, |limit| limit.min(running.takes));
        match running.since {
            Some(since) => self.kernel.plan(
                since + Span(goal.0.saturating_sub(running.ran.0)),
                AbsenceEvent::End(attempt, running.turns),
            ),
            None => self.kernel.plan(
                self.kernel.now + PATIENCE,
                AbsenceEvent::Evict(attempt, running.turns),
            ),
        }
    }

    /// Removes an attempt, counts its run time, and returns that.
    fn take(&mut self, attempt: AttemptId, in_vain: bool) -> Option<Span> {
        let running = self.running.remove(&attempt)?;
        let ran = running.ran_by(self.kernel.now);
        self.came.ran_s += ran.secs();
        self.came.wasted_s += if in_vain { ran.secs() } else { 0.0 };
        Some(ran)
    }
}

impl<'a, O: Observer> kernel::World<'a, (Time, AbsenceEvent), O> for AbsenceWorld<'a, O> {
    const LEAST_TICK: Option<Span> = Some(Span::ZERO);

    fn kernel(&mut self) -> &mut Kernel<'a, (Time, AbsenceEvent), O> {
        &mut self.kernel
    }

    fn is_over(&mut self) -> bool {
        self.over
    }

    fn on_due(&mut self, _at: Time, due: AbsenceEvent) {
        match due {
            AbsenceEvent::Turn(host) => self.turn(host),
            AbsenceEvent::End(attempt, turns) if self.is_at(attempt, turns) => self.on_end(attempt),
            AbsenceEvent::Evict(attempt, turns) if self.is_at(attempt, turns) => {
                self.on_evict(attempt);
            }
            AbsenceEvent::End(..) | AbsenceEvent::Evict(..) => {}
        }
    }

    fn on_start(&mut self, start: Given) {
        let Given { host, attempt, .. } = start;
        if attempt.task.job != JOB {
            return;
        }

        let place = host.0 as usize - 1;
        let work_s = self.works_s[attempt.task.index as usize - 1];
        let running = HostedAttempt {
            host: place,
            takes: Span::from_secs_f64(work_s / self.speeds[place].factor()),
            limit: start.limit,
            ran: Span::ZERO,
            since: Some(self.kernel.now),
            turns: 0,
        };
        self.running.insert(attempt, running);

        self.started.push((host, attempt));
        self.plan(attempt);
    }

    fn on_stop(&mut self, _host: HostId, attempt: AttemptId, _why: &EndReason) {
        self.take(attempt, true);
    }

    fn on_job_settled(&mut self, _job: JobId) {
        self.over = true;
    }

    /// Reports the started attempts as running.
    fn on_stepped(&mut self) {
        for (host, attempt) in std::mem::take(&mut self.started) {
            if self.running.contains_key(&attempt) {
                self.step(kernel::running(host, attempt, Span::ZERO));
            }
        }
    }
}
