//! A simulated world of owners' absences: hosts whose owners come and go by the hour of the week,
//! and one bag of tasks with random run times. It drives the scheduler through its two doors and
//! obeys its effects; it contains no rule of scheduling. The hours of absence live in `week`, the
//! report in `report::gainaru::absent`.
//!
//! An owner who comes back suspends the attempt that runs there. An attempt that is suspended for
//! fifteen minutes is given back, and its task begins anew.

mod week;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use common::attempt::{Held, Outcome, Phase};
use common::host::{OwnerState, Status, YieldReason};
use common::job::Rules;
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Speed, Time};
use scheduler::estimates::Estimator;
use scheduler::event::{Bag, Terms};
use scheduler::reservation::{Law, RunTimes};
use scheduler::{Effect, Event, Scheduler, Settings};

use crate::availability::stream::Stream;
use week::Course;
pub use week::Owners;

/// A time longer than any run: hosts send no heartbeats here, so no silence may be noticed.
const FOREVER: Span = Span::from_secs(100_000_000_000);
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
    pub law: &'a Law,
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
pub struct Way<'a> {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The owner of this host comes or goes.
    Turn(usize),
    /// An attempt is done or at its limit (`End`), or has been suspended for too long (`Evict`).
    /// Ignored if its `turns` differ, since something has happened to it meanwhile.
    End(AttemptId, u32),
    Evict(AttemptId, u32),
}

/// An attempt on its host.
#[derive(Debug, Clone, Copy)]
struct Running {
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

struct World<'a> {
    case: &'a Case<'a>,
    way: Way<'a>,
    scheduler: Scheduler,
    now: Time,
    start: Time,
    queue: BinaryHeap<Reverse<(Time, What)>>,
    courses: Vec<Course>,
    speeds: Vec<Speed>,
    /// The work of each task, in seconds on a host of speed 1.
    works_s: Vec<f64>,
    running: BTreeMap<AttemptId, Running>,
    started: Vec<(HostId, AttemptId)>,
    came: Came,
    over: bool,
}

/// Runs the bag. Owners, hosts and run times depend on `case` alone.
pub fn run(case: &Case<'_>, way: Way<'_>) -> Came {
    let settings = Settings {
        suspect_after: FOREVER,
        lease: FOREVER,
        prefetch_window: Span::ZERO,
        ..Settings::default()
    };

    let stream = |name| Stream::new(name, case.seed, case.run, 0);
    let mut speeds = stream("absent-speeds");
    let mut works = stream("absent-works");
    let mut world = World {
        case,
        way,
        scheduler: Scheduler::new(settings, Incarnation(1)),
        now: case.owners.start(&mut stream("absent-start")),
        start: Time(0),
        queue: BinaryHeap::new(),
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
    world.start = world.now;
    world.teach();

    world.join();
    world.submit();
    world.go_on();
    world.came
}

impl Case<'_> {
    fn work_s(&self, stream: &mut Stream) -> f64 {
        (self.law.quantile(stream.unit()) * self.unit_s).max(1.0)
    }
}

fn id(host: usize) -> HostId {
    HostId(host as u32 + 1)
}

fn bag(tasks: u32, policy: &str, mean_s: f64, deadline: Option<Time>) -> Bag {
    let estimator = Estimator {
        user: "somebody".to_owned(),
        program: "task".to_owned(),
    };
    let policy = policy.to_owned();
    let estimate = Some(Span::from_secs_f64(mean_s));
    let rules = Rules {
        policy,
        estimate,
        max_losses: u32::MAX,
        ..Rules::default()
    };

    let terms = Terms {
        deadline,
        estimator,
        ..Terms::default()
    };
    Bag {
        terms,
        ..Bag::new(IdSet::from_range(1, tasks), rules)
    }
}

impl World<'_> {
    /// Teaches the scheduler the program's run times: an extra host does the earlier runs, and
    /// leaves.
    fn teach(&mut self) {
        let mut stream = Stream::new("absent-past", self.case.seed, self.case.run, 0);
        let host = HostId(self.case.hosts as u32 + 1);
        let speed = Speed::REFERENCE;
        let status = Status::from(OwnerState::Away);

        self.step(Event::HostJoined {
            host,
            slots: 1,
            speed,
            status,
            held: Vec::new(),
        });

        let mean_s = self.case.law.mean() * self.case.unit_s;
        self.step(Event::JobSubmitted {
            job: TEACHER,
            bag: Box::new(bag(self.case.known, "FCFS", mean_s, None)),
            tested: None,
        });
        for number in 1..=self.case.known {
            let ran = Span::from_secs_f64(self.case.work_s(&mut stream));
            let task = common::TaskId::new(TEACHER, number);
            let attempt = AttemptId {
                task,
                number: 1,
                incarnation: Incarnation(1),
            };
            self.step(Event::AttemptEnded {
                host,
                attempt,
                outcome: Outcome::Succeeded,
                ran,
            });
        }

        self.step(Event::HostLeft { host });
        self.over = false;
    }

    fn join(&mut self) {
        for host in 0..self.case.hosts {
            if self.way.told {
                let windows = Box::new(self.courses[host].recorded(self.now));
                self.step(Event::HostWindows {
                    host: id(host),
                    windows,
                });
            }

            let (away, turned) = self.courses[host].at(self.now);
            let owner = if away {
                OwnerState::Away
            } else {
                OwnerState::Present(YieldReason::InUse)
            };

            self.lend(host);
            let up_for = FOREVER;
            let owner_for = self.now.since(turned);
            let status = Status {
                owner,
                cpu: 1.0,
                up_for,
                owner_for,
            };

            let speed = self.speeds[host];
            let held = Vec::new();
            self.step(Event::HostJoined {
                host: id(host),
                slots: 1,
                speed,
                status,
                held,
            });

            self.plan_turn(host);
        }
    }

    /// Reports the loan that the owner's hours make of the host, where there are hours.
    fn lend(&mut self, host: usize) {
        if let Some(loan) = self.courses[host].loan(self.now).filter(|_| self.way.told) {
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
            .then(|| self.now + Span::from_secs_f64(LONG_S));
        let mean_s = self.case.law.mean() * self.case.unit_s;
        self.step(Event::JobSubmitted {
            job: JOB,
            bag: Box::new(bag(self.case.tasks, self.way.policy, mean_s, deadline)),
            tested: None,
        });
    }

    fn go_on(&mut self) {
        let horizon = self.start + Span::from_secs_f64(LONG_S);
        while !self.over {
            let Some(at) = self
                .queue
                .peek()
                .map(|due| due.0.0)
                .filter(|at| *at <= horizon)
            else {
                self.now = horizon;
                break;
            };
            if let Some(tick) = self.scheduler.next_wakeup().filter(|tick| *tick < at) {
                self.now = self.now.max(tick);
                self.step(Event::Tick);
            } else if let Some(Reverse((_, what))) = self.queue.pop() {
                self.now = self.now.max(at);
                self.happen(what);
            }
        }

        self.came.makespan_s = self.now.since(self.start).secs();
        for attempt in self.running.keys().copied().collect::<Vec<_>>() {
            self.take(attempt, true);
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Turn(host) => self.turn(host),
            What::End(attempt, turns) if self.is_at(attempt, turns) => {
                let Some(Running {
                    host, takes, limit, ..
                }) = self.running.get(&attempt).copied()
                else {
                    return;
                };

                let killed = limit.filter(|limit| *limit < takes);
                let Some(ran) = self.take(attempt, killed.is_some()) else {
                    return;
                };
                self.came.killed += u32::from(killed.is_some());

                let outcome = killed.map_or(Outcome::Succeeded, Outcome::TimedOut);
                self.step(Event::AttemptEnded {
                    host: id(host),
                    attempt,
                    outcome,
                    ran,
                });
            }
            What::Evict(attempt, turns) if self.is_at(attempt, turns) => {
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
            What::End(..) | What::Evict(..) => {}
        }
    }

    fn is_at(&self, attempt: AttemptId, turns: u32) -> bool {
        self.running
            .get(&attempt)
            .is_some_and(|running| running.turns == turns)
    }

    /// Suspends or resumes a host's attempts when its owner comes or goes.
    fn turn(&mut self, host: usize) {
        let (away, _) = self.courses[host].at(self.now);
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
            running.ran = running.ran
                + running
                    .since
                    .map_or(Span::ZERO, |since| self.now.since(since));
            running.since = away.then_some(self.now);
            running.turns += 1;

            let phase = if away {
                Phase::Running
            } else {
                Phase::Suspended(YieldReason::InUse)
            };
            held.push(Held {
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

        let owner = if away {
            OwnerState::Away
        } else {
            OwnerState::Present(YieldReason::InUse)
        };
        self.step(Event::OwnerChanged {
            host: id(host),
            owner,
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
        if let Some(at) = self.courses[host].next_turn(self.now) {
            self.queue.push(Reverse((at, What::Turn(host))));
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
        let due = match running.since {
            Some(since) => (
                since + Span(goal.0.saturating_sub(running.ran.0)),
                What::End(attempt, running.turns),
            ),
            None => (self.now + PATIENCE, What::Evict(attempt, running.turns)),
        };
        self.queue.push(Reverse(due));
    }

    /// Removes an attempt, counts its run time, and returns that.
    fn take(&mut self, attempt: AttemptId, in_vain: bool) -> Option<Span> {
        let running = self.running.remove(&attempt)?;
        let ran = running.ran
            + running
                .since
                .map_or(Span::ZERO, |since| self.now.since(since));
        self.came.ran_s += ran.secs();
        self.came.wasted_s += if in_vain { ran.secs() } else { 0.0 };
        Some(ran)
    }

    fn step(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.scheduler.step(self.now, event, &mut effects);
        effects.iter().for_each(|effect| self.obey(effect));

        for (host, attempt) in std::mem::take(&mut self.started) {
            if self.running.contains_key(&attempt) {
                let ran = Span::ZERO;
                let held = vec![Held {
                    attempt,
                    phase: Phase::Running,
                    ran,
                    frozen_for: ran,
                    progress: None,
                }];
                self.step(Event::AttemptsMoved { host, held });
            }
        }
    }

    fn obey(&mut self, effect: &Effect) {
        match effect {
            Effect::Start {
                host,
                attempt,
                limit,
                ..
            } if attempt.task.job == JOB => {
                let place = host.0 as usize - 1;
                let takes = Span::from_secs_f64(
                    self.works_s[attempt.task.index as usize - 1] / self.speeds[place].factor(),
                );
                let ran = Span::ZERO;
                let since = Some(self.now);
                let running = Running {
                    host: place,
                    takes,
                    limit: *limit,
                    ran,
                    since,
                    turns: 0,
                };
                self.running.insert(*attempt, running);

                self.started.push((*host, *attempt));
                self.plan(*attempt);
            }
            Effect::Stop { attempt, .. } => drop(self.take(*attempt, true)),
            Effect::JobSettled { .. } => self.over = true,
            _ => {}
        }
    }
}
