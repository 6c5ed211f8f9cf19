//! The JSON that scripts rely on: names, units and optional fields. Fields may be added, never
//! removed.
//!
//! Times are ISO 8601 in UTC, spans are seconds (`_s`). A field that is always present is `null`
//! while it has no value.

mod promise;
mod width;

use common::checkpoint::Saved;
use common::view::{
    AttemptView, CounterView, DuplicateView, ExplainView, Forecast, HostView, JobView, PromiseView,
    SpeculationView, StartView, TaskCounts, TaskView, TokenView,
};
use common::{JobId, Time};
use serde::Serialize;

pub(crate) use promise::{Estimates, Limits, Quality, Retried, Standing};
pub(crate) use width::Width;

use super::when::iso;

/// A job, as `job list` and `job info` print it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Job {
    job: u32,
    name: String,
    user: String,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    policy: String,
    priority: i32,
    tasks: TaskCounts,
    attempts: u64,
    duplicates: u64,
    submitted: String,
    started: Option<String>,
    finished: Option<String>,
    makespan_s: Option<f64>,
    #[serde(flatten)]
    predicted: Predicted,
    predicted_makespan_s: Option<f64>,
    #[serde(flatten)]
    promise: Option<Standing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    starts: Option<Starts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<Width>,
}

/// The predicted start of a waiting job: the median, and an interval that holds the start with a
/// probability of 80 %.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Starts {
    predicted_start: String,
    predicted_start_low: String,
    predicted_start_high: String,
}

impl From<&StartView> for Starts {
    fn from(view: &StartView) -> Self {
        Starts {
            predicted_start: iso(view.start),
            predicted_start_low: iso(view.low),
            predicted_start_high: iso(view.high),
        }
    }
}

/// Several jobs, as `job list` prints them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Jobs {
    /// The jobs, in the order of the list.
    pub jobs: Vec<Job>,
}

impl From<&JobView> for Job {
    fn from(view: &JobView) -> Self {
        let time = |time: Option<Time>| time.map(iso);
        Job {
            job: view.job.0,
            name: view.name.clone(),
            user: view.user.clone(),
            state: view.state.to_string(),
            reason: view.reason.clone(),
            policy: view.policy.clone(),
            priority: view.priority,
            tasks: view.tasks,
            attempts: view.attempts,
            duplicates: view.duplicates,
            submitted: iso(view.submitted),
            started: time(view.started),
            finished: time(view.finished),
            makespan_s: view.finished.map(|end| end.since(view.submitted).secs()),
            predicted: view
                .predicted
                .as_ref()
                .map(Predicted::from)
                .unwrap_or_default(),
            predicted_makespan_s: view.predicted_makespan.map(common::Span::secs),
            promise: view.promise.as_ref().map(Standing::from),
            limits: view.limits.as_ref().map(Limits::from),
            starts: view.starts.as_ref().map(Starts::from),
            width: view.width.as_ref().map(Width::from),
        }
    }
}

impl From<&[JobView]> for Jobs {
    fn from(views: &[JobView]) -> Self {
        Jobs {
            jobs: views.iter().map(Job::from).collect(),
        }
    }
}

/// The predicted end of a job: the best guess, and an interval that holds the end with a
/// probability of 80 %.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Predicted {
    predicted_finish: Option<String>,
    predicted_low: Option<String>,
    predicted_high: Option<String>,
}

impl From<&Forecast> for Predicted {
    fn from(forecast: &Forecast) -> Self {
        Predicted {
            predicted_finish: Some(iso(forecast.finish)),
            predicted_low: forecast.interval.map(|(low, _)| iso(low)),
            predicted_high: forecast.interval.map(|(_, high)| iso(high)),
        }
    }
}

/// The answer of `deskgrid job predict`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Prediction {
    job: u32,
    state: String,
    finished: Option<String>,
    #[serde(flatten)]
    predicted: Predicted,
    predicted_makespan_s: Option<f64>,
}

impl From<&JobView> for Prediction {
    fn from(view: &JobView) -> Self {
        Prediction {
            job: view.job.0,
            state: view.state.to_string(),
            finished: view.finished.map(iso),
            predicted: view
                .predicted
                .as_ref()
                .map(Predicted::from)
                .unwrap_or_default(),
            predicted_makespan_s: view.predicted_makespan.map(common::Span::secs),
        }
    }
}

/// The answer of `deskgrid submit`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Submitted {
    /// The job's number; `null` for a dry run or a refused job.
    pub job: Option<u32>,
    /// The number of tasks.
    pub tasks: u64,
    /// Whether the master accepts the job.
    pub accepted: bool,
    /// Whether the request id was known already.
    pub again: bool,
    /// Whether this was a dry run, which submits nothing.
    pub dry_run: bool,
    /// The reason of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_because: Option<String>,
    /// The promise, of a job with a deadline.
    #[serde(flatten)]
    pub promise: Option<Promise>,
    /// The promises that could be made instead.
    #[serde(flatten)]
    pub counter: Option<Counter>,
    /// The limits of the job's attempts if they are learned, or the reason for none if they were
    /// asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// The width of a job of several ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<Width>,
    /// The predicted end.
    #[serde(flatten)]
    pub predicted: Option<Predicted>,
    /// The job's state after `--wait`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<Job>,
}

/// The promise made to a job with a deadline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Promise {
    deadline: String,
    promised_finish: String,
    probability: f64,
    probation: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimates: Option<Quality>,
}

impl From<&PromiseView> for Promise {
    fn from(view: &PromiseView) -> Self {
        let deadline = iso(view.deadline);
        let promised_finish = iso(view.finish);
        let estimates = view.estimates.map(Quality::from);
        Promise {
            deadline,
            promised_finish,
            probability: view.probability,
            probation: view.probation,
            estimates,
        }
    }
}

/// The promises that could be made instead of the refused one.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Counter {
    #[serde(skip_serializing_if = "Option::is_none")]
    earliest_deadline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    earliest_deadline_s: Option<f64>,
    fits: String,
    fits_tasks: u64,
}

impl From<&CounterView> for Counter {
    fn from(view: &CounterView) -> Self {
        Counter {
            earliest_deadline: view.earliest.map(|(at, _)| iso(at)),
            earliest_deadline_s: view.earliest.map(|(_, span)| span.secs()),
            fits: view.fits.to_string(),
            fits_tasks: view.fits.len(),
        }
    }
}

/// A task with its attempts, as `task info` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Task {
    task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<String>,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    requested: bool,
    attempts: Vec<Attempt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speculation: Option<Speculation>,
}

/// The history of a disclosed task.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Speculation {
    disclosed: String,
    requested: Option<String>,
    executed: Option<String>,
    removed: Option<String>,
    delivered: Option<String>,
    visible_response_s: Option<f64>,
}

impl From<&SpeculationView> for Speculation {
    fn from(view: &SpeculationView) -> Self {
        Speculation {
            disclosed: iso(view.disclosed),
            requested: view.requested.map(iso),
            executed: view.executed.map(iso),
            removed: view.removed.map(iso),
            delivered: view.delivered().map(iso),
            visible_response_s: view.visible_response().map(common::Span::secs),
        }
    }
}

/// Several tasks, as `task list` prints them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Tasks {
    /// The tasks, in the order of their indices.
    pub tasks: Vec<Task>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Attempt {
    attempt: String,
    host: String,
    state: String,
    duplicate: bool,
    assigned: String,
    started: Option<String>,
    finished: Option<String>,
    run_s: f64,
    cpu_s: f64,
    suspended_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    suspended_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_from: Option<Checkpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Checkpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    belief: Option<String>,
}

/// A checkpoint of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Checkpoint {
    attempt: u32,
    sequence: u32,
    saved: String,
    files: u32,
    bytes: u64,
}

impl From<&Saved> for Checkpoint {
    fn from(saved: &Saved) -> Self {
        let Saved {
            number,
            sequence,
            taken,
            files,
            bytes,
            ..
        } = *saved;

        Checkpoint {
            attempt: number,
            sequence,
            saved: iso(taken),
            files,
            bytes,
        }
    }
}

impl From<&TaskView> for Task {
    fn from(view: &TaskView) -> Self {
        Task {
            task: view.task.to_string(),
            item: view.item.clone(),
            state: view.state.to_string(),
            reason: view.reason.clone(),
            requested: view
                .speculation
                .is_none_or(|speculation| speculation.requested.is_some()),
            attempts: view.attempts.iter().map(Attempt::from).collect(),
            speculation: view.speculation.as_ref().map(Speculation::from),
        }
    }
}

impl From<&[TaskView]> for Tasks {
    fn from(views: &[TaskView]) -> Self {
        Tasks {
            tasks: views.iter().map(Task::from).collect(),
        }
    }
}

impl From<&AttemptView> for Attempt {
    fn from(view: &AttemptView) -> Self {
        Attempt {
            attempt: view.attempt.to_string(),
            host: view.host.clone(),
            state: view.state.to_string(),
            duplicate: view.duplicate,
            assigned: iso(view.assigned),
            started: view.started.map(iso),
            finished: view.finished.map(iso),
            run_s: view.ran.secs(),
            cpu_s: view.cpu.secs(),
            suspended_s: view.suspended.secs(),
            suspended_since: view.suspended_since.map(iso),
            exit_code: view.exit_code,
            reason: view.reason.clone(),
            started_from: view.started_from.as_ref().map(Checkpoint::from),
            checkpoint: view.saved.as_ref().map(Checkpoint::from),
            checkpoint_problem: view.checkpoint_problem.clone(),
            belief: view.belief.map(|belief| belief.to_string()),
        }
    }
}

/// A host, as `host list` and `host info` print it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Host {
    host: String,
    id: String,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    since: String,
    heard: Option<String>,
    speed: f64,
    clock_mhz: u32,
    slots: u32,
    slots_usable: u32,
    cores: u32,
    memory_mib: u64,
    os: String,
    confinement: String,
    confinement_most: String,
    network: bool,
    cpu_availability: Option<f64>,
    owner_active: Option<bool>,
    attempts: Vec<String>,
    finished: u64,
    lost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    belongs_to: Option<String>,
    agreed: u32,
}

/// Several hosts, as `host list` prints them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Hosts {
    /// The hosts, in the order of the list.
    pub hosts: Vec<Host>,
}

impl From<&HostView> for Host {
    fn from(view: &HostView) -> Self {
        Host {
            host: view.facts.name.clone(),
            id: view.id.to_string(),
            state: view.state.to_string(),
            reason: view.reason.clone(),
            since: iso(view.since),
            heard: view.heard.map(iso),
            speed: view.facts.speed.factor(),
            clock_mhz: view.facts.clock_mhz,
            slots: view.facts.slots,
            slots_usable: view.slots_usable,
            cores: view.facts.cores,
            memory_mib: view.facts.memory_mib,
            os: view.facts.os.clone(),
            confinement: view.facts.confinement.to_string(),
            confinement_most: view.facts.confinement_most.to_string(),
            network: view.facts.network,
            cpu_availability: view.cpu_availability,
            owner_active: view.owner_active,
            attempts: view.attempts.iter().map(ToString::to_string).collect(),
            finished: view.finished,
            lost: view.lost,
            belongs_to: view.belongs_to.clone(),
            agreed: view.agreed,
        }
    }
}

impl From<&[HostView]> for Hosts {
    fn from(views: &[HostView]) -> Self {
        Hosts {
            hosts: views.iter().map(Host::from).collect(),
        }
    }
}

/// A join token; `token` holds the secret only when it was just made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Token {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    id: u32,
    role: String,
    name: String,
    uses_left: u32,
    expires: String,
    revoked: bool,
}

/// Several tokens, as `token list` prints them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Tokens {
    /// The tokens, in the order of their numbers.
    pub tokens: Vec<Token>,
}

impl Token {
    /// Makes the entry of a list, or with `secret` that of a new token.
    pub(crate) fn new(view: &TokenView, secret: Option<String>) -> Self {
        Token {
            token: secret,
            id: view.id,
            role: view.role.to_string(),
            name: view.name.clone(),
            uses_left: view.uses_left,
            expires: iso(view.expires),
            revoked: view.revoked,
        }
    }
}

/// The reasons for which tasks wait, and for which each host was passed over.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Explained {
    #[serde(flatten)]
    job: Job,
    waiting: Vec<Waiting>,
    hosts: Vec<PassedOver>,
    duplicates: Vec<Copied>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Waiting {
    reason: String,
    tasks: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Copied {
    attempt: String,
    host: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct PassedOver {
    host: String,
    reason: String,
}

impl From<&ExplainView> for Explained {
    fn from(view: &ExplainView) -> Self {
        let waiting = view.waiting.iter().map(|(reason, tasks)| Waiting {
            reason: reason.clone(),
            tasks: tasks.clone(),
        });
        let hosts = view.hosts.iter().map(|(host, reason)| PassedOver {
            host: host.clone(),
            reason: reason.clone(),
        });
        let copied = |copy: &DuplicateView| Copied {
            attempt: copy.attempt.to_string(),
            host: copy.host.clone(),
            reason: copy.why.clone(),
        };
        let duplicates = view.duplicates.iter().map(copied).collect();

        Explained {
            job: (&view.job).into(),
            waiting: waiting.collect(),
            hosts: hosts.collect(),
            duplicates,
        }
    }
}

/// The jobs that a command changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Changed {
    jobs: Vec<ChangedJob>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ChangedJob {
    job: u32,
    tasks: u64,
}

impl From<&[(JobId, u64)]> for Changed {
    fn from(changed: &[(JobId, u64)]) -> Self {
        Changed {
            jobs: changed
                .iter()
                .map(|(job, tasks)| ChangedJob {
                    job: job.0,
                    tasks: *tasks,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
