//! Scenarios of jobs on hosts that fail and whose owners come and go: gangs, disclosed jobs with
//! their requests, and frozen attempts. Their form and their answer; the simulated world lives in
//! `simulator::world`.

use common::units::REFERENCE_MHZ;
use common::{IdSet, Ranks, Span};
use serde::Deserialize;
use serde_json::{Value, json};

use super::form::{ScenarioHosts, check_time, policy};
use simulator::trace::{Segment, Trace, TracedHost};
use simulator::world::{
    AttemptFate, PreparedTrace, Run, RunJob, RunOutcome, Simulator, UserRequest, UserRequestKind,
};

/// An entry of `grids`. Times are in seconds; hosts and jobs are counted from 1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnGrid {
    /// The hosts, as a list of speeds or a number of hosts of speed 1.
    pub hosts: ScenarioHosts,
    /// The number of slots of a host.
    #[serde(default = "one")]
    pub slots: u32,
    /// The number of frozen attempts that a host can hold beside those in its slots.
    #[serde(default)]
    pub frozen: u32,
    /// The cost of starting a task.
    #[serde(default)]
    pub start_cost: f64,
    /// The time between heartbeats of a host with a task.
    #[serde(default = "minute")]
    pub heartbeat: f64,
    /// The presences of owners: host, from, to.
    #[serde(default)]
    pub owners: Vec<(usize, f64, f64)>,
    /// The failures of hosts: host, from, to.
    #[serde(default)]
    pub down: Vec<(usize, f64, f64)>,
    /// The time at which the run ends, whether everything is done or not.
    #[serde(default = "week")]
    pub until: f64,
    /// The jobs, in the order of their times.
    pub jobs: Vec<ScenarioJob>,
    /// The requests of tasks of disclosed jobs: time, job, task.
    #[serde(default)]
    pub requests: Vec<(f64, u32, u32)>,
    /// The times at which the unrequested tasks of a job are dropped: time, job.
    #[serde(default)]
    pub drops: Vec<(f64, u32)>,
}

/// A job of a scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioJob {
    /// The time at which it comes.
    #[serde(default)]
    pub at: f64,
    /// A policy of the catalogue, with parameters.
    pub policy: String,
    /// The number of its tasks; a gang has `width` in its place.
    #[serde(default)]
    pub tasks: u32,
    /// The least and the largest number of ranks that run at once, if the job is a gang.
    #[serde(default)]
    pub width: Option<(u32, u32)>,
    /// The work of each task on a host of speed 1, or of all ranks together.
    pub work: f64,
    /// The average parallelism of a gang (`sigma` is its variance); unlimited by default.
    #[serde(default)]
    pub parallelism: Option<f64>,
    /// The variance of `parallelism`.
    #[serde(default)]
    pub sigma: Option<f64>,
    /// Whether its tasks are disclosed: nobody waits for them before they are requested.
    #[serde(default)]
    pub disclosed: bool,
    /// Whether its tasks checkpoint.
    #[serde(default)]
    pub checkpoint: bool,
    /// The user who submits it.
    #[serde(default)]
    pub user: String,
    /// The jobs that have to end before it starts, by number.
    #[serde(default)]
    pub after: Vec<u32>,
}

fn one() -> u32 {
    1
}

fn minute() -> f64 {
    60.0
}

fn week() -> f64 {
    604_800.0
}

/// The largest number of tasks, and of slots on a host: more are no scenario written by hand.
const MOST: u32 = 100_000;

impl OnGrid {
    fn speeds(&self) -> Vec<f64> {
        match &self.hosts {
            ScenarioHosts::Equal(hosts) => vec![1.0; *hosts as usize],
            ScenarioHosts::Speeds(speeds) => speeds.clone(),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.hosts.check()?;
        let hosts = self.speeds().len();
        check_time("until", self.until)?;
        check_time("start_cost", self.start_cost)?;
        check_time("heartbeat", self.heartbeat)?;

        if self.heartbeat < 1.0 {
            return Err(format!(
                "hosts report every second at most, not every {} s",
                self.heartbeat
            ));
        }

        if !(1..=MOST).contains(&self.slots) || self.frozen > MOST {
            return Err(format!(
                "a host has 1 to {MOST} slots, and holds at most as many frozen"
            ));
        }

        for (host, from, to) in self.owners.iter().chain(&self.down) {
            check_time("a time", *from)?;
            check_time("a time", *to)?;
            if *host == 0 || *host > hosts || to <= from {
                return Err(format!(
                    "[{host}, {from}, {to}] is no host between 1 and {hosts} with two times"
                ));
            }
        }

        if self.jobs.is_empty() || self.jobs.windows(2).any(|pair| pair[1].at < pair[0].at) {
            return Err("there must be jobs, in the order of their times".to_owned());
        }

        self.jobs.iter().try_for_each(ScenarioJob::check)?;
        for (number, job) in (1..).zip(&self.jobs) {
            if job.after.iter().any(|before| !(1..number).contains(before)) {
                return Err("a job can only start after earlier ones".to_owned());
            }
        }
        let tasks = self
            .jobs
            .iter()
            .map(|job| u64::from(job.tasks))
            .sum::<u64>();
        if tasks > u64::from(MOST) {
            return Err(format!("there are more than {MOST} tasks"));
        }

        let known = |job: u32| (1..=self.jobs.len()).contains(&(job as usize));
        let requests = self.requests.iter().map(|(at, job, _)| (*at, *job));
        for (at, job) in requests.chain(self.drops.iter().copied()) {
            check_time("a time", at)?;
            if !known(job) {
                return Err(format!("there is no job {job}: they are counted from 1"));
            }
        }

        Ok(())
    }

    /// The trace of the hosts. A failure outweighs an owner's presence at the same time.
    fn trace(&self) -> Trace {
        let at = |times: &[(usize, f64, f64)], host: usize, s: f64| {
            times
                .iter()
                .any(|(of, from, to)| *of == host + 1 && *from <= s && s < *to)
        };
        let host = |(host, speed): (usize, f64)| {
            let own = self
                .owners
                .iter()
                .chain(&self.down)
                .filter(|(of, ..)| *of == host + 1);
            let mut cuts: Vec<f64> = own
                .flat_map(|(_, from, to)| [*from, *to])
                .chain([0.0, self.until])
                .collect();
            cuts.retain(|cut| *cut <= self.until);
            cuts.sort_by(f64::total_cmp);

            let segments = cuts.windows(2).map(|ends| Segment {
                start_s: ends[0],
                end_s: ends[1],
                up: !at(&self.down, host, ends[0]),
                cpu: if at(&self.owners, host, ends[0]) {
                    0.0
                } else {
                    1.0
                },
            });
            TracedHost::new(
                format!("host-{}", host + 1),
                speed * REFERENCE_MHZ,
                segments.collect(),
            )
        };
        Trace {
            hosts: self.speeds().into_iter().enumerate().map(host).collect(),
            ..Trace::default()
        }
    }

    fn asks(&self) -> Vec<UserRequest<'_>> {
        let jobs = self.jobs.iter().skip(1).map(|job| UserRequest {
            at_s: job.at,
            what: UserRequestKind::Submit(job.job()),
        });
        let wanted = self.requests.iter().map(|(at_s, job, task)| {
            let what = UserRequestKind::Request(*job, Some(IdSet::from_range(*task, *task)));
            UserRequest { at_s: *at_s, what }
        });
        let dropped = self.drops.iter().map(|(at_s, job)| UserRequest {
            at_s: *at_s,
            what: UserRequestKind::Drop(*job),
        });
        let mut asks: Vec<UserRequest<'_>> = jobs.chain(wanted).chain(dropped).collect();
        asks.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));

        asks
    }

    /// Runs the scenario and returns its answer.
    pub(super) fn answer(&self) -> Value {
        let first = &self.jobs[0];
        let asks = self.asks();
        let job = first.job();

        let run = Run {
            slots: self.slots,
            frozen: self.frozen,
            start_cost: Span::from_secs_f64(self.start_cost),
            heartbeat: Span::from_secs_f64(self.heartbeat),
            story: true,
            checkpoint: job.checkpoint,
            disclosed: job.disclosed,
            ranks: job.ranks,
            asks: &asks,
            ..Run::new(first.at, job.tasks, job.work_s, job.policy)
        };
        let world = match PreparedTrace::new(&self.trace()) {
            Ok(world) => world,
            Err(why) => return json!({ "refused": why.to_string() }),
        };
        match Simulator::default().run(&world, &run) {
            Ok(outcome) => told(&outcome, first.at),
            Err(why) => json!({ "refused": why.to_string() }),
        }
    }
}

impl ScenarioJob {
    fn check(&self) -> Result<(), String> {
        check_time("at", self.at)?;
        check_time("work", self.work)?;
        if self.work <= 0.0 {
            return Err("the work of a task must be more than 0".to_owned());
        }

        let policy = policy(&self.policy)?;
        if self.width.is_some() == (policy.width == scheduler::policy::Width::Rigid) {
            return Err(format!(
                "the policy {} and the job's width do not go together: AVG, PRED, BIAS, HEUR and PRICED are for jobs with one",
                policy.name
            ));
        }

        let fine = |value: Option<f64>, least: f64| {
            value.is_none_or(|value| value.is_finite() && value >= least)
        };
        match self.width {
            None if self.tasks == 0 => Err("a job has tasks, or a width".to_owned()),
            Some((least, most)) if least == 0 || most < least || most > MOST => Err(format!(
                "a width is 1 to {MOST} hosts, no more at least than at most: not {least} to {most}"
            )),
            Some(_) if self.tasks > 0 || self.disclosed => {
                Err("a job with a width has no other tasks, and is not disclosed".to_owned())
            }
            _ if !fine(self.parallelism, 1.0) || !fine(self.sigma, 0.0) => {
                Err("an average parallelism is at least 1, and its variance at least 0".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn job(&self) -> RunJob<'_> {
        let ranks = self.width.map(|(least, most)| Ranks {
            work: Some(Span::from_secs_f64(self.work)),
            parallelism: self.parallelism,
            sigma: self.sigma,
            ..Ranks::new(least, Some(most))
        });

        RunJob {
            tasks: self.tasks,
            work_s: self.work,
            policy: &self.policy,
            checkpoint: self.checkpoint,
            disclosed: self.disclosed,
            ranks,
            needs: None,
            user: &self.user,
            after: &self.after,
        }
    }
}

/// The events as (time, event, job, task, attempt, host), and the results.
fn told(outcome: &RunOutcome, start_s: f64) -> Value {
    let mut trace: Vec<(f64, u8, Value)> = Vec::new();
    for attempt in &outcome.story {
        let mut tell = |at_s: f64, order: u8, word: &str| {
            let at_s = at_s + start_s;
            let moment = json!([
                at_s,
                word,
                attempt.job,
                attempt.task,
                attempt.number,
                attempt.host + 1
            ]);
            trace.push((at_s, order, moment));
        };
        tell(attempt.began_s, 3, "start");
        if let Some(computed_s) = attempt.computed_s {
            tell(computed_s, 4, "compute");
        }

        let of = (attempt.job, attempt.task, attempt.number);
        for still in outcome
            .still
            .iter()
            .filter(|still| (still.job, still.task, still.number) == of)
        {
            tell(still.from_s, 2, "freeze");
            if still.to_s < attempt.ended_s {
                tell(still.to_s, 5, "thaw");
            }
        }

        let word = match attempt.fate {
            AttemptFate::Delivered => "finish",
            AttemptFate::Late => "late",
            AttemptFate::Lost => "lost",
            AttemptFate::Stopped => "stop",
            AttemptFate::Returned => "return",
            AttemptFate::Unended => "unended",
        };
        tell(attempt.ended_s, 1, word);
    }

    trace.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let after = |s: &Option<f64>| s.map(|s| s + start_s);
    json!({
        "settled": outcome.settled_s.iter().map(after).collect::<Vec<_>>(),
        "cpu_s": outcome.cpu_s,
        "wasted_cpu_s": outcome.wasted_cpu_s,
        "trace": trace.into_iter().map(|(.., moment)| moment).collect::<Vec<_>>(),
    })
}
