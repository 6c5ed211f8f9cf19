//! The JSON of jobs, and of what commands change in them.

use common::needs::Label;
use common::view::{
    AfterView, CounterView, DuplicateView, ExplainView, Forecast, JobState, JobView, LimitsView,
    PromiseStatus, PromiseView, RunningView, ScalingView, StartView, TaskCounts, TaskView, WayView,
    WidthView, WorkView,
};
use common::wire::client::Reply;
use common::{EndCondition, JobId};
use schemars::JsonSchema;
use serde::Serialize;

use super::accounts::ShareJson;
use super::promise::{CounterJson, LimitsJson, MadePromiseJson, PromiseJson};
use super::tasks::TaskJson;
use super::work::WorkJson;
use super::{IsoTime, Object, Seconds, Word, all, form, none};

form! {
    /// A job, as `job list` prints it.
    pub struct JobJson of JobView as view {
        /// The job's number, such as `7`.
        pub job: u32 = view.job.0,
        /// Its name, such as `desk-3` of a host.
        pub name: String = view.name.clone(),
        /// The user who submitted it.
        pub user: String = view.user.clone(),
        /// Its state, such as `running`.
        pub state: Word<JobState> = Word(view.state),
        /// The reason of its state, where there is more to say.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reason: Option<String> = view.reason.clone(),
        /// The name of its policy, such as `deskgrid`.
        pub policy: String = view.policy.clone(),
        /// Its priority: higher goes first.
        pub priority: i32 = view.priority,
        /// Its tasks, by state.
        pub tasks: CountsJson = view.tasks.json(),
        /// The number of attempts started so far.
        pub attempts: u64 = view.attempts,
        /// The number of those that were copies.
        pub duplicates: u64 = view.duplicates,
        /// The time at which its submission was acknowledged.
        pub submitted: IsoTime = IsoTime(view.submitted),
        /// The time at which its first attempt was assigned; `null` where there is none.
        pub started: Option<IsoTime> = view.started.map(IsoTime),
        /// The time at which its last task was settled; `null` where there is none.
        pub finished: Option<IsoTime> = view.finished.map(IsoTime),
        /// The time from submission to end, in seconds; `null` where there is none.
        pub makespan_s: Option<f64> = view.finished.map(|end| end.since(view.submitted).secs()),
        /// Its predicted end.
        #[serde(flatten)]
        pub predicted: PredictedJson = view.predicted.json(),
        /// The makespan that was predicted at first, mostly on submission; `null` where there is none.
        pub predicted_makespan_s: Option<Seconds> = view.predicted_makespan.map(Seconds),
        /// Its promise, if it has a deadline.
        #[serde(flatten)]
        pub promise: Option<PromiseJson> = view.promise.as_ref().map(Object::json),
        /// The learned run-time limits of its attempts.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub limits: Option<LimitsJson> = view.limits.as_ref().map(Object::json),
        /// Its predicted start, until it has started.
        #[serde(flatten)]
        pub starts: Option<StartJson> = view.starts.as_ref().map(Object::json),
        /// The width of a job of several ranks.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub width: Option<JobWidthJson> = view.width.as_ref().map(Object::json),
        /// The part that is done, from 0 to 1, if a running task reports progress.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub progress: Option<f64> = view.progress,
        /// The needs of its tasks, as `--needs` reads them.
        pub needs: String = view.needs.clone(),
        /// The labels that its user gave it, such as `sweep7`.
        pub labels: Vec<String> = view.labels.iter().map(Label::to_string).collect(),
        /// The jobs that it waits for, or has waited for.
        pub after: Vec<AfterJson> = all(&view.after),
        /// Whether tasks can be added to it.
        pub open: bool = view.open,
    }
}

form! {
    /// The number of a job's tasks in each state.
    pub struct CountsJson of TaskCounts as counts {
        /// All tasks.
        pub total: u64 = counts.total,
        /// Disclosed tasks that nobody has requested.
        pub disclosed: u64 = counts.disclosed,
        /// Tasks that wait.
        pub waiting: u64 = counts.waiting,
        /// Tasks that run.
        pub running: u64 = counts.running,
        /// Tasks that are frozen.
        pub suspended: u64 = counts.suspended,
        /// Tasks that are done.
        pub finished: u64 = counts.finished,
        /// Tasks that were given up.
        pub failed: u64 = counts.failed,
        /// Tasks that were cancelled.
        pub cancelled: u64 = counts.cancelled,
    }
}

form! {
    /// A job that another one waits for.
    pub struct AfterJson of AfterView as view {
        /// The job's number, such as `7`.
        pub job: u32 = view.job.0,
        /// The way in which it has to end.
        pub how: Word<EndCondition> = Word(view.how),
        /// The number of its tasks that are not settled; `null` once it has ended.
        pub left: Option<u64> = view.left,
    }
}

form! {
    /// A predicted end: the best guess, and an interval that holds the end with a probability of 80 %.
    pub struct PredictedJson of Option<Forecast> as forecast {
        /// The most likely time; `null` where there is none.
        pub predicted_finish: Option<IsoTime> = forecast.map(|of| IsoTime(of.finish)),
        /// The earliest time of the interval; `null` where there is none.
        pub predicted_low: Option<IsoTime> =
            forecast.and_then(|of| of.interval).map(|(low, _)| IsoTime(low)),
        /// The latest time of the interval; `null` where there is none.
        pub predicted_high: Option<IsoTime> =
            forecast.and_then(|of| of.interval).map(|(_, high)| IsoTime(high)),
    }
}

form! {
    /// The predicted start of a waiting job: the median, and an interval that holds the start with a
    /// probability of 80 %.
    pub struct StartJson of StartView as view {
        /// The median.
        pub predicted_start: IsoTime = IsoTime(view.start),
        /// The earliest time of the interval.
        pub predicted_start_low: IsoTime = IsoTime(view.low),
        /// The latest time of the interval.
        pub predicted_start_high: IsoTime = IsoTime(view.high),
    }
}

/// A job with what its tasks run, where that is known, and the causes of its failures.
#[derive(Debug, Clone, Copy)]
pub struct JobInfo<'a>(
    pub &'a JobView,
    pub Option<&'a WorkView>,
    pub &'a [FailureCause],
);

form! {
    /// A job, as `job info` prints it.
    pub struct JobInfoJson of JobInfo<'_> as info {
        /// The job.
        #[serde(flatten)]
        pub job: JobJson = info.0.json(),
        /// The work of its tasks and the rules by which they run.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub work: Option<WorkJson> = info.1.map(Object::json),
        /// The causes of its failures, the most frequent first; where no task failed, those of attempts
        /// that were retried.
        #[serde(skip_serializing_if = "none")]
        pub failures: Vec<FailureCause> = info.2.to_vec(),
    }
}

/// One cause of failures.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FailureCause {
    /// The end of the attempts, in words.
    pub cause: String,
    /// The number of attempts that ended like that.
    pub attempts: u64,
    /// The number of these attempts on each host, in descending order.
    pub hosts: Vec<FailuresOnHost>,
    /// A task with such an attempt, such as `7.3`.
    pub task: String,
    /// The last lines that this task wrote to its standard error (`stderr`).
    pub stderr: Vec<String>,
}

/// The number of attempts that failed on a host.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FailuresOnHost {
    /// The host's name, such as `desk-3`.
    pub host: String,
    /// The number of attempts.
    pub attempts: u64,
}

/// A job of which only the forecast is of interest.
#[derive(Debug, Clone, Copy)]
pub struct PredictionAnswer<'a>(pub &'a JobView);

form! {
    /// The forecast of a job's end, as `job predict` prints it.
    pub struct PredictionJson of PredictionAnswer<'_> as answer {
        /// The job's number, such as `7`.
        pub job: u32 = answer.0.job.0,
        /// Its state, such as `running`.
        pub state: Word<JobState> = Word(answer.0.state),
        /// The time at which its last task was settled; `null` where there is none.
        pub finished: Option<IsoTime> = answer.0.finished.map(IsoTime),
        /// Its predicted end.
        #[serde(flatten)]
        pub predicted: PredictedJson = answer.0.predicted.json(),
        /// The makespan that was predicted at first, mostly on submission; `null` where there is none.
        pub predicted_makespan_s: Option<Seconds> = answer.0.predicted_makespan.map(Seconds),
        /// The jobs that it still waits for.
        pub waits_for: Vec<u32> =
            answer.0.after.iter().filter(|of| of.left.is_some()).map(|of| of.job.0).collect(),
        /// Whether tasks can be added to it.
        pub open: bool = answer.0.open,
    }
}

/// Tasks that were added to an open job, as `submit --into` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AddJson {
    /// The job's number, such as `7`.
    pub job: u32,
    /// The number of new tasks.
    pub added: u64,
    /// The lowest number of the new tasks.
    pub first: u32,
    /// The highest number of the new tasks.
    pub last: u32,
    /// The number of all tasks of the job.
    pub tasks: u64,
    /// Whether the request id was known already.
    pub again: bool,
    /// Whether this was a dry run, which adds nothing.
    pub dry_run: bool,
}

impl AddJson {
    /// Reads the master's reply to an addition.
    ///
    /// # Errors
    /// Gives back a reply to another request.
    pub fn of(reply: Reply, dry_run: bool) -> Result<Self, Box<Reply>> {
        match reply {
            Reply::Added {
                job,
                range: (first, last),
                tasks,
                total,
                again,
            } => Ok(Self {
                job: job.0,
                added: tasks,
                first,
                last,
                tasks: total,
                again,
                dry_run,
            }),
            other => Err(Box::new(other)),
        }
    }
}

/// The answer to a submission, as `submit` prints it.
#[derive(Debug, Default)]
pub struct SubmitAnswer {
    /// The job's number; `None` for a dry run or a refused job.
    pub job: Option<JobId>,
    /// The number of tasks.
    pub tasks: u64,
    /// Whether the request id was known already.
    pub again: bool,
    /// Whether this was a dry run, which submits nothing.
    pub dry_run: bool,
    /// The reason of a refusal; without one the master accepts the job; `null` where there is none.
    pub refused_because: Option<String>,
    /// The promise, of a job with a deadline; `null` where there is none.
    pub promise: Option<PromiseView>,
    /// The promises that could be made instead; `null` where there is none.
    pub counter: Option<CounterView>,
    /// The limits of the job's attempts if they are learned; `null` where there is none.
    pub limits: Option<LimitsView>,
    /// The reason for no limits, if they were asked for; `null` where there is none.
    pub no_limits: Option<&'static str>,
    /// The width of a job of several ranks; `null` where there is none.
    pub width: Option<Box<WidthView>>,
    /// The predicted end; `null` where there is none.
    pub predicted: Option<Forecast>,
    /// The reasons why the known hosts could never do its tasks; `null` where there is none.
    pub nowhere: Option<String>,
    /// The job after `--wait`.
    pub info: Option<JobView>,
}

form! {
    /// The answer to a submission, as `submit` prints it.
    pub struct SubmitJson of SubmitAnswer as answer {
        /// The job's number; `null` for a dry run or a refused job.
        pub job: Option<u32> = answer.job.map(|job| job.0),
        /// The number of tasks.
        pub tasks: u64 = answer.tasks,
        /// Whether the master takes the job.
        pub accepted: bool = answer.refused_because.is_none(),
        /// Whether the request id was known already.
        pub again: bool = answer.again,
        /// Whether this was a dry run, which submits nothing.
        pub dry_run: bool = answer.dry_run,
        /// The reason of a refusal.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub refused_because: Option<String> = answer.refused_because.clone(),
        /// The reasons why the known hosts could never do its tasks.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub no_host_qualifies: Option<String> = answer.nowhere.clone(),
        /// The promise, of a job with a deadline.
        #[serde(flatten)]
        pub promise: Option<MadePromiseJson> = answer.promise.as_ref().map(Object::json),
        /// The promises that could be made instead.
        #[serde(flatten)]
        pub counter: Option<CounterJson> = answer.counter.as_ref().map(Object::json),
        /// The learned run-time limits of its attempts.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub limits: Option<LimitsJson> = answer.learned_limits(),
        /// The width of a job of several ranks.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub width: Option<JobWidthJson> = answer.width.as_deref().map(Object::json),
        /// The predicted end.
        #[serde(flatten)]
        pub predicted: Option<PredictedJson> = answer.predicted.map(|end| Some(end).json()),
        /// The job after `--wait`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub info: Option<JobJson> = answer.info.as_ref().map(Object::json),
    }
}

impl SubmitAnswer {
    /// Takes the master's reply to a submission; the inner error is its counter-offer.
    ///
    /// # Errors
    /// Gives back a reply to another request.
    pub fn of(reply: Reply, dry_run: bool) -> Result<Result<Self, CounterView>, Box<Reply>> {
        match reply {
            Reply::Submitted {
                job,
                tasks,
                again,
                predicted,
                promise,
                limits,
                width,
                nowhere,
            } => Ok(Ok(SubmitAnswer {
                job,
                tasks,
                again,
                dry_run,
                promise,
                limits,
                width,
                predicted,
                nowhere,
                ..SubmitAnswer::default()
            })),
            Reply::NotPromised(counter) => Ok(Err(*counter)),
            other => Err(Box::new(other)),
        }
    }

    /// Returns the learned limits, or else the reason for none.
    fn learned_limits(&self) -> Option<LimitsJson> {
        let none = self.no_limits.map(|why| LimitsView {
            why: Some(why.to_owned()),
            ..LimitsView::default()
        });
        let limits = self.limits.as_ref().or(none.as_ref());
        limits.map(Object::json)
    }
}

form! {
    /// The reasons for which tasks wait, and for which each host was passed over.
    pub struct ExplainJson of ExplainAnswer<'_> as answer {
        /// The job.
        #[serde(flatten)]
        pub job: JobJson = answer.0.job.json(),
        /// The reasons for waiting.
        pub waiting: Vec<WaitingJson> =
            pairs(&answer.0.waiting, |reason, tasks| WaitingJson { reason, tasks }),
        /// Each host with the reason why it takes none of the tasks.
        pub hosts: Vec<PassedOverJson> =
            pairs(&answer.0.hosts, |host, reason| PassedOverJson { host, reason }),
        /// The live attempts that are copies of other live ones.
        pub duplicates: Vec<DuplicateJson> = all(&answer.0.duplicates),
        /// Each live attempt; left out by a master that is older than this list.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub running: Option<Vec<RunningJson>> = answer.1.map(all),
        /// The share of the job's user; left out once the job is settled.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub share: Option<ShareJson> = answer.0.share.as_ref().map(Object::json),
    }
}

/// A reason for waiting.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitingJson {
    /// The reason.
    pub reason: String,
    /// The tasks that it holds back: `1-10`.
    pub tasks: String,
}

/// A host that takes no task of a job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PassedOverJson {
    /// The host's name, such as `desk-3`.
    pub host: String,
    /// The reason.
    pub reason: String,
}

/// The reasons why tasks wait, and the live attempts, if the master tells them.
#[derive(Debug)]
pub struct ExplainAnswer<'a>(pub &'a ExplainView, pub Option<&'a [RunningView]>);

/// Returns the forms of pairs of texts.
fn pairs<J>(texts: &[(String, String)], form: impl Fn(String, String) -> J) -> Vec<J> {
    let pair = |(one, other)| form(one, other);
    texts.iter().cloned().map(pair).collect()
}

form! {
    /// A live attempt.
    pub struct RunningJson of RunningView as view {
        /// The attempt, such as `7.3#1`.
        pub attempt: String = view.attempt.to_string(),
        /// Its host's name, such as `desk-3`.
        pub host: String = view.host.clone(),
        /// The seconds for which nothing has been heard of its host beyond what that promised; 0 while
        /// it is heard.
        pub silent_s: Seconds = Seconds(view.silent.unwrap_or_default()),
        /// The probability that the attempt is gone, from 0 to 1.
        pub gone: f64 = view.gone,
        /// The seconds until it is copied, if it goes on so and a host is idle then; left out where it
        /// will not be.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub copied_in_s: Option<Seconds> = view.copied_in.map(Seconds),
    }
}

form! {
    /// A live copy of a live attempt.
    pub struct DuplicateJson of DuplicateView as view {
        /// The copy, such as `7.3#2`.
        pub attempt: String = view.attempt.to_string(),
        /// Its host's name, such as `desk-3`.
        pub host: String = view.host.clone(),
        /// The reason why it was started.
        pub reason: String = view.why.clone(),
    }
}

form! {
    /// A job that a command changed.
    pub struct TasksChangedJson of (JobId, u64) as changed {
        /// The job's number, such as `7`.
        pub job: u32 = changed.0.0,
        /// The number of changed tasks.
        pub tasks: u64 = changed.1,
    }
}

/// The tasks that were made to wait again, with the promise of their job after it.
#[derive(Debug, Default)]
pub struct Retried<'a> {
    /// The jobs with the number of tasks.
    pub changed: &'a [(JobId, u64)],
    /// The promise, if the job had one; `null` where there is none.
    pub promise: Option<PromiseStatus>,
}

form! {
    /// The tasks that were made to wait again, as `job retry` prints it.
    pub struct RetriedJson of Retried<'_> as retried {
        /// The jobs with the number of tasks.
        pub jobs: Vec<TasksChangedJson> = all(retried.changed),
        /// The promise of the job after it, if it has one.
        #[serde(flatten)]
        pub promise: Option<PromiseJson> = retried.promise.as_ref().map(Object::json),
    }
}

/// The answer to a request for disclosed tasks.
#[derive(Debug)]
pub struct RequestAnswer<'a> {
    /// The job.
    pub job: JobId,
    /// The number of tasks that were not requested before.
    pub requested: u64,
    /// The number of named tasks that are cancelled.
    pub cancelled: u64,
    /// The tasks with their results, after `--wait`.
    pub tasks: Option<&'a [TaskView]>,
}

form! {
    /// Disclosed tasks that were requested, as `request` prints it.
    pub struct RequestJson of RequestAnswer<'_> as answer {
        /// The job's number, such as `7`.
        pub job: u32 = answer.job.0,
        /// The number of tasks that were not requested before.
        pub requested: u64 = answer.requested,
        /// The number of named tasks that are cancelled.
        pub cancelled: u64 = answer.cancelled,
        /// The tasks, after `--wait`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tasks: Option<Vec<TaskJson>> = answer.tasks.map(all),
    }
}

form! {
    /// The width of a job of several ranks, held or predicted.
    pub struct JobWidthJson of WidthView as view {
        /// The fewest hosts that it may have.
        pub least: u32 = view.least,
        /// The most hosts that it may have.
        pub most: u32 = view.most,
        /// The number of its ranks, once that is settled; `null` where there is none.
        pub ranks: Option<u32> = view.ranks,
        /// The time since which it holds its hosts; `null` where there is none.
        pub held_since: Option<IsoTime> = view.formed.map(IsoTime),
        /// The time since which its ranks run; `null` where there is none.
        pub begun: Option<IsoTime> = view.begun.map(IsoTime),
        /// The number of hosts that are free for it.
        pub free: u32 = view.free,
        /// The number of all suitable hosts.
        pub hosts: u32 = view.hosts,
        /// The number of jobs behind it in the queue.
        pub behind: u32 = view.behind,
        /// Its assumed speedup; `null` where there is none.
        pub scaling: Option<ScalingJson> = view.scaling.as_ref().map(Object::json),
        /// The chosen width, while it holds no hosts; `null` where there is none.
        pub chosen: Option<WidthChoiceJson> = view.chosen.as_ref().map(Object::json),
        /// The widths that were compared.
        pub ways: Vec<WidthChoiceJson> = all(&view.ways),
        /// The reason why none was chosen.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub why: Option<String> = view.why.clone(),
    }
}

form! {
    /// The assumed speedup of a job.
    pub struct ScalingJson of ScalingView as view {
        /// The work of the whole job as a run time on one host.
        pub work_s: Seconds = Seconds(view.work),
        /// Its average parallelism.
        pub parallelism: f64 = view.parallelism,
        /// The variance of its parallelism.
        pub sigma: f64 = view.sigma,
        /// The number of runs that this was learned from.
        pub runs: u64 = view.runs,
    }
}

form! {
    /// A width with its predicted start and end.
    pub struct WidthChoiceJson of WayView as view {
        /// The number of hosts.
        pub hosts: u32 = view.hosts,
        /// The time at which that many should be free.
        pub start: IsoTime = IsoTime(view.start),
        /// The time at which the job should be done, where that is known; `null` where there is none.
        pub finish: Option<IsoTime> = view.finish.map(IsoTime),
    }
}
