//! A simulated world of lying hosts: the real scheduler gives jobs to hosts of which some deliver
//! wrong results, alone or in concert. It counts the wrong results that escape, and the cost of
//! preventing them. The hosts differ in speed and are always there, since lying, not leaving, is
//! studied here. The rules of trust live in `scheduler::policy::trust`.

mod crowd;
mod report;

use std::collections::BTreeMap;

use common::attempt::Outcome;
use common::job::{Compare, Quorum, Rules};
use common::{AttemptId, HostId, IdSet, JobId, Span, TaskId, Time};
use scheduler::effect::{EndReason, Judgement, Settled};
use scheduler::event::Bag;
use scheduler::{Event, Settings};

pub use crowd::{Crowd, Lie};
pub use report::{Study, report};

use crowd::Says;
use simulator::kernel::{ENDLESS, Given, Kernel, Observer, World, dedicated};

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
pub struct JobSeries {
    /// The number of jobs.
    pub jobs: u32,
    /// The number of tasks of each job.
    pub tasks: u32,
}

/// The end of an attempt on a host.
type Ending = (Time, (AttemptId, HostId));

/// The state of a run in progress. Planned are the ends of the attempts.
struct Court<'a, O> {
    kernel: Kernel<'a, Ending, O>,
    crowd: &'a Crowd,
    live: BTreeMap<AttemptId, HostId>,
    said: BTreeMap<AttemptId, Says>,
    counts: BTreeMap<u32, AttemptId>,
    /// The answers to what the scheduler asked in this step.
    answers: Vec<Event>,
    settled: bool,
    outcomes: Outcomes,
}

/// Runs the jobs of `load` on a crowd under a scheme. The same arguments give the same outcomes.
pub fn run(crowd: &Crowd, scheme: Scheme, load: JobSeries) -> Outcomes {
    run_watched(crowd, scheme, load, &mut ())
}

/// Does what [`run`] does, with an [`Observer`] of every step.
pub fn run_watched<O: Observer>(
    crowd: &Crowd,
    scheme: Scheme,
    load: JobSeries,
    observer: &mut O,
) -> Outcomes {
    let settings = Settings {
        audit_seed: crowd.secret(),
        ..Settings::default()
    };
    let mut court = Court {
        kernel: Kernel::new(settings, Time(0), ENDLESS, observer),
        crowd,
        live: BTreeMap::new(),
        said: BTreeMap::new(),
        counts: BTreeMap::new(),
        answers: Vec::new(),
        settled: false,
        outcomes: Outcomes::default(),
    };
    for (host, speed, party) in crowd.hosts() {
        court.step(Event::HostStanding {
            host,
            party,
            valid: 0,
        });

        court.step(dedicated(host, speed));
    }

    for job in (1..=load.jobs).map(JobId) {
        court.run_job(job, scheme, load.tasks);
    }

    court.outcomes.makespan_s = court.kernel.now.since(Time(0)).secs();
    court.outcomes
}

impl<O: Observer> Court<'_, O> {
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
        self.go_on();

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

        self.kernel.clear();
        self.step(Event::JobForgotten { job });
    }
}

impl<'a, O: Observer> World<'a, Ending, O> for Court<'a, O> {
    const LEAST_TICK: Option<Span> = None;

    fn kernel(&mut self) -> &mut Kernel<'a, Ending, O> {
        &mut self.kernel
    }

    fn is_over(&mut self) -> bool {
        self.settled || self.kernel.is_idle()
    }

    fn on_due(&mut self, _at: Time, (attempt, host): (AttemptId, HostId)) {
        if self.live.get(&attempt) != Some(&host) {
            return;
        }

        let valid = self.kernel.scheduler.host_valid(host);
        self.said
            .insert(attempt, self.crowd.says(host, attempt, valid));
        self.step(Event::AttemptEnded {
            host,
            attempt,
            outcome: Outcome::Succeeded,
            ran: TASK,
        });
    }

    fn on_start(&mut self, Given { host, attempt, .. }: Given) {
        self.outcomes.attempts += 1;
        self.live.insert(attempt, host);
        let takes = Span::from_secs_f64(TASK.secs() / self.crowd.speed(host).factor());
        self.kernel.plan(self.kernel.now + takes, (attempt, host));
    }

    fn on_ended(&mut self, attempt: AttemptId, _why: &EndReason) {
        self.live.remove(&attempt);
    }

    fn on_compare(&mut self, attempt: AttemptId, with: &[AttemptId]) {
        let mine = self.said.get(&attempt);
        let alike = with.iter().filter(|other| self.said.get(other) == mine);
        self.answers.push(Event::ResultCompared {
            attempt,
            agrees: alike.map(|other| other.number).collect(),
        });
    }

    fn on_judged(&mut self, attempt: AttemptId, judgement: Judgement) {
        let differed = matches!(judgement, Judgement::Differed(_));
        self.outcomes.caught +=
            u64::from(differed && self.said.get(&attempt) != Some(&Says::Truth));
    }

    fn on_task_settled(&mut self, task: TaskId, settled: &Settled) {
        if let Settled::Finished(attempt) = settled {
            self.counts.insert(task.index, *attempt);
        } else {
            self.outcomes.failed += 1;
        }
    }

    fn on_reopened(&mut self, tasks: &IdSet) {
        self.counts.retain(|index, _| !tasks.contains(*index));
    }

    fn on_job_settled(&mut self, _job: JobId) {
        self.settled = true;
    }

    fn on_stepped(&mut self) {
        for event in std::mem::take(&mut self.answers).into_iter().rev() {
            self.step(event);
        }
    }
}
