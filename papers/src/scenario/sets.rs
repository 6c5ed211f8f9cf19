//! Scenarios of disclosed, requested and cancelled sets of tasks: their form and their answer. The
//! simulated users live in `simulator::users`.

use std::collections::BTreeMap;

use common::{Span, Time};
use scheduler::policy::Ordering;
use scheduler::policy::ordering::Disclosed;
use serde::Deserialize;
use serde_json::{Value, json};

use super::form::{check_time, policy};
use simulator::users::{Audience, Script, Servers, TaskEvent, TaskFate, Which, run};

/// An entry of `scenarios`. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Sets {
    /// The model: `Interactive`, `Batch` or `Batchactive`.
    #[serde(default)]
    pub model: Option<String>,
    /// The policy that goes with the model, `Srpt` or `Fcfs`; or a policy of the catalogue that
    /// distinguishes requested from disclosed tasks.
    pub policy: String,
    /// The number of equal servers.
    pub servers: usize,
    /// The number of frozen tasks that each server can hold beside the running one.
    #[serde(default)]
    pub frozen: u32,
    /// Whether a preempted task that is not frozen keeps the work it has done (default yes).
    #[serde(default)]
    pub keep: Option<bool>,
    /// The run time of each task, by user and set.
    pub sets: Vec<Vec<Vec<f64>>>,
    /// The think time of users after each result.
    pub think: f64,
    /// The number of results after which the rest of a set is dropped, by user and set.
    #[serde(default)]
    pub cancel_after: Vec<Vec<usize>>,
}

/// The largest number of servers, and of tasks: more are no scenario written by hand.
const MOST: usize = 100_000;

impl Sets {
    /// The policy's name in the catalogue.
    fn row(&self) -> Result<String, String> {
        let order = self.policy.to_uppercase();
        let plain = order == "SRPT" || order == "FCFS";
        match self.model.as_deref().map(str::to_lowercase).as_deref() {
            Some("interactive") if plain => Ok(format!("INTERACTIVE-{order}")),
            Some("batch") if plain => Ok(format!("BATCH-{order}")),
            Some("batchactive") if plain => Ok(format!("{order}xFCFS")),
            None if !plain => Ok(self.policy.clone()),
            None => Err(format!(
                "with the policy {} there must be a model",
                self.policy
            )),
            Some("interactive" | "batch" | "batchactive") => Err(format!(
                "with a model the policy is `Srpt` or `Fcfs`, not `{}`",
                self.policy
            )),
            Some(_) => {
                let given = self.model.as_deref().unwrap_or_default();
                Err(format!(
                    "the model is `Interactive`, `Batch` or `Batchactive`, not `{given}`"
                ))
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let policy = policy(&self.row()?)?;
        if !matches!(policy.ordering, Ordering::Batchactive(_)) {
            return Err(format!(
                "the policy {} does not tell requested from disclosed tasks",
                policy.name
            ));
        }

        if !(1..=MOST).contains(&self.servers) {
            return Err(format!(
                "there must be 1 to {MOST} servers, not {}",
                self.servers
            ));
        }

        check_time("think", self.think)?;
        let sets = || self.sets.iter().flatten();
        sets()
            .flatten()
            .try_for_each(|takes| check_time("what a task takes", *takes))?;
        if sets().any(Vec::is_empty) {
            return Err("a set has no tasks".to_owned());
        }
        if sets().map(Vec::len).sum::<usize>() > MOST {
            return Err(format!("there are more than {MOST} tasks"));
        }
        if self.cancel_after.iter().flatten().any(|after| *after == 0) {
            return Err("nobody drops the rest of a set before its first result: cancel_after counts from 1".to_owned());
        }

        Ok(())
    }

    /// Runs the scenario and returns its answer.
    pub(super) fn answer(&self) -> Value {
        let policy = self.row().unwrap_or_default();
        let spans = |set: &Vec<f64>| {
            set.iter()
                .map(|takes| Span::from_secs_f64(*takes))
                .collect()
        };
        let script = Script {
            sets: self
                .sets
                .iter()
                .map(|sets| sets.iter().map(spans).collect())
                .collect(),
            think: Span::from_secs_f64(self.think),
            drop_after: self.cancel_after.clone(),
        };

        let mut notes = Notes::default();
        let servers = Servers {
            count: self.servers,
            frozen: self.frozen,
            keep: self.keep.unwrap_or(true),
        };
        run(&script, &policy, servers, Time(u64::MAX), &mut notes);

        let row = scheduler::policy::policy(&policy).map(|policy| policy.ordering);
        let bills_all = matches!(row, Some(Ordering::Batchactive(answer)) if answer.disclosed == Disclosed::AsRequested);
        notes.answer(&script, bills_all)
    }
}

/// Records every event of a run.
#[derive(Default)]
struct Notes {
    trace: Vec<Value>,
    finished: BTreeMap<Which, (Time, Time)>,
    fates: BTreeMap<Which, TaskFate>,
}

impl Audience for Notes {
    fn happened(&mut self, at: Time, what: TaskEvent, Which { user, set, task }: Which) {
        let word = match what {
            TaskEvent::Disclosed => "disclose",
            TaskEvent::Requested => "request",
            TaskEvent::Started => "start",
            TaskEvent::Preempted => "preempt",
            TaskEvent::Executed => "execute",
            TaskEvent::Finished => "finish",
            TaskEvent::Cancelled => "cancel",
        };
        self.trace.push(json!([at.secs(), word, user, set, task]));
    }

    fn finished(&mut self, at: Time, which: Which, fate: &TaskFate) {
        let requested = fate.requested.unwrap_or(at);
        let executed = fate.executed.unwrap_or(at);
        self.finished.insert(which, (requested, executed));
    }

    fn through(&mut self, _at: Time, user: usize, set: usize, fates: &[TaskFate]) {
        for (task, fate) in fates.iter().enumerate() {
            self.fates.insert(Which { user, set, task }, *fate);
        }
    }
}

impl Notes {
    fn answer(&self, script: &Script, bills_all: bool) -> Value {
        let vresp = |(requested, executed): (Time, Time)| executed.since(requested).secs();
        let total: f64 = self.finished.values().map(|times| vresp(*times)).sum();
        let count = self.finished.len();
        let finished = self
            .finished
            .iter()
            .map(|(Which { user, set, task }, times)| {
                json!([
                    user,
                    set,
                    task,
                    times.0.secs(),
                    times.1.secs(),
                    vresp(*times)
                ])
            });

        let mut usage = Vec::new();
        let mut used = Span::ZERO;
        let mut needed = Span::ZERO;

        for (user, sets) in script.sets.iter().enumerate() {
            for (set, tasks) in sets.iter().enumerate() {
                for task in 0..tasks.len() {
                    let fate = self
                        .fates
                        .get(&Which { user, set, task })
                        .copied()
                        .unwrap_or_default();
                    let requested = fate.requested.is_some();
                    used = used + fate.used;
                    needed = needed + if requested { fate.used } else { Span::ZERO };
                    usage.push(json!([user, set, task, fate.used.secs(), requested]));
                }
            }
        }

        json!({
            "mean_vresp": if count == 0 { 0.0 } else { total / count as f64 },
            "finished": count,
            "billed": if bills_all { used } else { needed }.secs(),
            "requested": needed.secs(),
            "finished_cols": "user,set,idx,t_request,t_executed,vresp",
            "finished_tasks": finished.collect::<Vec<_>>(),
            "usage_cols": "user,set,idx,resource_used,was_requested",
            "usage": usage,
            "trace": self.trace,
        })
    }
}
