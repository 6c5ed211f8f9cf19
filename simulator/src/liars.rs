//! A simulated world of lying hosts: the real scheduler gives jobs to hosts of which some deliver
//! wrong results, alone or in concert. It counts the wrong results that escape, and the cost of
//! preventing them. The hosts differ in speed and are always there, since lying, not leaving, is
//! studied here. The rules of trust live in `scheduler::policy::trust`.

mod crowd;
mod report;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use common::attempt::Outcome;
use common::host::OwnerState;
use common::job::{Compare, Quorum, Rules};
use common::{AttemptId, HostId, IdSet, Incarnation, JobId, Span, Time};
use scheduler::effect::Settled;
use scheduler::event::Bag;
use scheduler::{Effect, Event, Scheduler, Settings};

pub use crowd::{Crowd, Lie};
pub use report::{Study, report};

use crowd::Says;

/// The run time of a task on a host of speed 1.
const TASK: Span = Span::from_secs(600);

/// A quorum and its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    /// The name shown in reports.
    pub name: &'static str,
    /// The number of results that must agree.
    pub size: u32,
    /// Whether hosts earn trust, so that their results may count without a quorum.
    pub adaptive: bool,
}

/// The counts that [`run`] returns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcomes {
    /// The number of tasks that were finished.
    pub finished: u64,
    /// The number of finished tasks whose result is wrong: it escaped.
    pub wrong: u64,
    /// The number of tasks that failed because too few of their results agreed.
    pub failed: u64,
    /// The number of attempts that were started.
    pub attempts: u64,
    /// The number of wrong results that were caught.
    pub caught: u64,
    /// The makespan of all jobs, one after the other, in seconds.
    pub makespan_s: f64,
}

impl Outcomes {
    /// The part of the finished tasks whose result is wrong.
    pub fn escape_rate(&self) -> f64 {
        self.wrong as f64 / self.finished.max(1) as f64
    }

    /// The number of attempts beyond the first of each task, per task.
    pub fn extra_work(&self) -> f64 {
        self.attempts as f64 / (self.finished + self.failed).max(1) as f64 - 1.0
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Outcomes) {
        self.finished += other.finished;
        self.wrong += other.wrong;
        self.failed += other.failed;
        self.attempts += other.attempts;
        self.caught += other.caught;
        self.makespan_s += other.makespan_s;
    }
}

/// Jobs that run one after the other; the trust that hosts earn in one counts in the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The number of jobs.
    pub jobs: u32,
    /// The number of tasks of each job.
    pub tasks: u32,
}

/// The state of a run in progress.
struct Court<'a> {
    crowd: &'a Crowd,
    scheduler: Scheduler,
    now: Time,
    /// The ends of the running attempts, the earliest first.
    due: BinaryHeap<Reverse<(Time, AttemptId, HostId)>>,
    live: BTreeMap<AttemptId, HostId>,
    said: BTreeMap<AttemptId, Says>,
    counts: BTreeMap<u32, AttemptId>,
    settled: bool,
    outcomes: Outcomes,
}

/// Runs the jobs of `load` on a crowd under a scheme. The same arguments give the same outcomes.
pub fn run(crowd: &Crowd, scheme: Scheme, load: Load) -> Outcomes {
    let settings = Settings {
        audit_seed: crowd.secret(),
        ..Settings::default()
    };
    let mut court = Court {
        crowd,
        scheduler: Scheduler::new(settings, Incarnation(1)),
        now: Time(0),
        due: BinaryHeap::new(),
        live: BTreeMap::new(),
        said: BTreeMap::new(),
        counts: BTreeMap::new(),
        settled: false,
        outcomes: Outcomes::default(),
    };
    for (host, speed, party) in crowd.hosts() {
        court.step(Event::HostStanding {
            host,
            party,
            valid: 0,
        });

        let status = OwnerState::Away.into();
        court.step(Event::HostJoined {
            host,
            slots: 1,
            speed,
            status,
            held: Vec::new(),
        });
    }

    for job in (1..=load.jobs).map(JobId) {
        court.run_job(job, scheme, load.tasks);
    }

    court.outcomes.makespan_s = court.now.since(Time(0)).secs();
    court.outcomes
}

impl Court<'_> {
    fn run_job(&mut self, job: JobId, scheme: Scheme, tasks: u32) {
        let quorum = Quorum {
            size: scheme.size,
            adaptive: scheme.adaptive,
            compare: Compare::Bytes,
        };
        let rules = Rules {
            quorum,
            policy: "PRI-CR".to_owned(),
            ..Rules::default()
        };
        self.settled = false;
        self.step(Event::JobSubmitted {
            job,
            bag: Box::new(Bag::new(IdSet::from_range(1, tasks), rules)),
            tested: None,
        });
        while !self.settled
            && let Some(Reverse((at, attempt, host))) = self.due.pop()
        {
            if self.live.get(&attempt) != Some(&host) {
                continue;
            }

            self.now = at;
            let says = self
                .crowd
                .says(host, attempt, self.scheduler.host_valid(host));
            self.said.insert(attempt, says);

            let outcome = Outcome::Succeeded;
            let ran = TASK;
            self.step(Event::AttemptEnded {
                host,
                attempt,
                outcome,
                ran,
            });
        }

        let wrong = self
            .counts
            .values()
            .filter(|attempt| self.said[attempt] != Says::Truth)
            .count();
        self.outcomes.finished += self.counts.len() as u64;
        self.outcomes.wrong += wrong as u64;
        self.counts.clear();
        self.said.clear();
        self.live.clear();

        self.due.clear();
        self.step(Event::JobForgotten { job });
    }

    /// Passes one event to the scheduler, and then the events that follow from its effects.
    fn step(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut effects = Vec::new();
            self.scheduler.step(self.now, event, &mut effects);
            for effect in effects {
                events.extend(self.apply(effect));
            }
        }
    }

    fn apply(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Start { host, attempt, .. } => {
                self.outcomes.attempts += 1;
                self.live.insert(attempt, host);
                let takes = Span::from_secs_f64(TASK.secs() / self.crowd.speed(host).factor());
                self.due.push(Reverse((self.now + takes, attempt, host)));
            }
            Effect::Ended { attempt, .. } => {
                self.live.remove(&attempt);
            }
            Effect::Compare { attempt, with } => {
                let mine = self.said.get(&attempt);
                let alike = with.iter().filter(|other| self.said.get(other) == mine);
                return Some(Event::ResultCompared {
                    attempt,
                    agrees: alike.map(|other| other.number).collect(),
                });
            }
            Effect::Judged {
                attempt, judgement, ..
            } => {
                let differed = matches!(judgement, scheduler::effect::Judgement::Differed(_));
                self.outcomes.caught +=
                    u64::from(differed && self.said.get(&attempt) != Some(&Says::Truth));
            }
            Effect::TaskSettled {
                task,
                settled: Settled::Finished(attempt),
            } => {
                self.counts.insert(task.index, attempt);
            }
            Effect::TaskSettled { .. } => self.outcomes.failed += 1,
            Effect::TasksReopened { tasks, .. } => {
                self.counts.retain(|index, _| !tasks.contains(*index));
            }
            Effect::JobSettled { .. } => self.settled = true,
            _ => {}
        }

        None
    }
}
