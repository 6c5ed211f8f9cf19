//! The JSON of jobs, their tasks and attempts, and of what commands change in them.

use common::checkpoint::Saved;
use common::view::{
    AfterView, AttemptView, CounterView, DuplicateView, ExplainView, Forecast, JobView, LimitsView,
    PromiseStatus, PromiseView, ScalingView, SpeculationView, StartView, TaskView, WayView,
    WidthView,
};
use common::{JobId, Span};
use serde::Serialize;
use serde::ser::SerializeMap;

use super::{Fields, Json, Object, all};
use crate::output::when::iso;

/// A job, as `job list` and `job info` print it.
impl Object for JobView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("job", self.job.0);
        to.field("name", &self.name);
        to.field("user", &self.user);
        to.text("state", self.state);
        to.some("reason", self.reason.as_ref());
        to.field("policy", &self.policy);
        to.field("priority", self.priority);
        to.field("tasks", self.tasks);
        to.field("attempts", self.attempts);
        to.field("duplicates", self.duplicates);

        to.field("submitted", iso(self.submitted));
        to.field("started", self.started.map(iso));
        to.field("finished", self.finished.map(iso));
        let makespan = self.finished.map(|end| end.since(self.submitted).secs());
        to.field("makespan_s", makespan);
        predicted(self.predicted.as_ref(), to);
        to.field(
            "predicted_makespan_s",
            self.predicted_makespan.map(Span::secs),
        );

        self.promise.put(to);
        to.some("limits", self.limits.as_ref().map(Json));
        self.starts.put(to);
        to.some("width", self.width.as_ref().map(Json));
        to.some("progress", self.progress);
        to.field("needs", &self.needs);
        to.field("labels", &self.labels);
        to.field("after", all(&self.after));
        to.field("open", self.open);
    }
}

/// A job that another one waits for.
impl Object for AfterView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("job", self.job.0);
        to.text("how", self.how);
        to.field("left", self.left);
    }
}

/// Puts the predicted end of a job: the best guess, and an interval that holds the end with a
/// probability of 80 %.
fn predicted<M: SerializeMap>(forecast: Option<&Forecast>, to: &mut Fields<M>) {
    let interval = forecast.and_then(|forecast| forecast.interval);
    to.field("predicted_finish", forecast.map(|of| iso(of.finish)));
    to.field("predicted_low", interval.map(|(low, _)| iso(low)));
    to.field("predicted_high", interval.map(|(_, high)| iso(high)));
}

/// The predicted start of a waiting job: the median, and an interval that holds the start with a
/// probability of 80 %.
impl Object for StartView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("predicted_start", iso(self.start));
        to.field("predicted_start_low", iso(self.low));
        to.field("predicted_start_high", iso(self.high));
    }
}

/// A job with the causes of its failures, as `job info` prints it.
pub(crate) struct JobInfo<'a, F>(pub(crate) &'a JobView, pub(crate) &'a [F]);

impl<F: Serialize> Object for JobInfo<'_, F> {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        self.0.put(to);
        to.some("failures", (!self.1.is_empty()).then_some(self.1));
    }
}

/// The answer of `deskgrid job predict`.
pub(crate) struct PredictionAnswer<'a>(pub(crate) &'a JobView);

impl Object for PredictionAnswer<'_> {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        let Self(view) = self;
        to.field("job", view.job.0);
        to.text("state", view.state);
        to.field("finished", view.finished.map(iso));
        predicted(view.predicted.as_ref(), to);
        to.field(
            "predicted_makespan_s",
            view.predicted_makespan.map(Span::secs),
        );
        let waits = view.after.iter().filter(|after| after.left.is_some());
        to.field(
            "waits_for",
            waits.map(|after| after.job.0).collect::<Vec<_>>(),
        );
        to.field("open", view.open);
    }
}

/// The answer of `deskgrid submit --into`.
pub(crate) struct AddAnswer {
    /// The job.
    pub(crate) job: JobId,
    /// The lowest and the highest number of the new tasks.
    pub(crate) range: (u32, u32),
    /// The number of new tasks.
    pub(crate) tasks: u64,
    /// The number of all tasks of the job.
    pub(crate) total: u64,
    /// Whether the request id was known already.
    pub(crate) again: bool,
    /// Whether this was a dry run, which adds nothing.
    pub(crate) dry_run: bool,
}

impl Object for AddAnswer {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("job", self.job.0);
        to.field("added", self.tasks);
        to.field("first", self.range.0);
        to.field("last", self.range.1);
        to.field("tasks", self.total);
        to.field("again", self.again);
        to.field("dry_run", self.dry_run);
    }
}

/// The answer of `deskgrid submit`.
#[derive(Default)]
pub(crate) struct SubmitAnswer {
    /// The job's number; `None` for a dry run or a refused job.
    pub(crate) job: Option<JobId>,
    /// The number of tasks.
    pub(crate) tasks: u64,
    /// Whether the request id was known already.
    pub(crate) again: bool,
    /// Whether this was a dry run, which submits nothing.
    pub(crate) dry_run: bool,
    /// The reason of a refusal; without one the master accepts the job.
    pub(crate) refused_because: Option<String>,
    /// The promise, of a job with a deadline.
    pub(crate) promise: Option<PromiseView>,
    /// The promises that could be made instead.
    pub(crate) counter: Option<CounterView>,
    /// The limits of the job's attempts if they are learned.
    pub(crate) limits: Option<LimitsView>,
    /// The reason for no limits, if they were asked for.
    pub(crate) no_limits: Option<&'static str>,
    /// The width of a job of several ranks.
    pub(crate) width: Option<Box<WidthView>>,
    /// The predicted end.
    pub(crate) predicted: Option<Forecast>,
    /// The reasons why no known host could ever run a task of it.
    pub(crate) nowhere: Option<String>,
    /// The job after `--wait`.
    pub(crate) info: Option<JobView>,
}

impl Object for SubmitAnswer {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("job", self.job.map(|job| job.0));
        to.field("tasks", self.tasks);
        to.field("accepted", self.refused_because.is_none());
        to.field("again", self.again);
        to.field("dry_run", self.dry_run);
        to.some("refused_because", self.refused_because.as_ref());
        to.some("no_host_qualifies", self.nowhere.as_ref());
        self.promise.put(to);
        self.counter.put(to);

        let none = self.no_limits.map(|why| LimitsView {
            why: Some(why.to_owned()),
            ..LimitsView::default()
        });
        let limits = self.limits.as_ref().or(none.as_ref());
        to.some("limits", limits.map(Json));
        to.some("width", self.width.as_deref().map(Json));
        if self.predicted.is_some() {
            predicted(self.predicted.as_ref(), to);
        }
        to.some("info", self.info.as_ref().map(Json));
    }
}

/// A task with its attempts, as `task info` prints it.
impl Object for TaskView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        let life = self.speculation.as_ref();
        to.text("task", self.task);
        to.some("item", self.item.as_ref());
        to.text("state", self.state);
        to.some("reason", self.reason.as_ref());
        to.field(
            "requested",
            life.is_none_or(|life| life.requested.is_some()),
        );
        to.field("attempts", all(&self.attempts));
        to.some("speculation", life.map(Json));
    }
}

/// The history of a disclosed task.
impl Object for SpeculationView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("disclosed", iso(self.disclosed));
        to.field("requested", self.requested.map(iso));
        to.field("executed", self.executed.map(iso));
        to.field("removed", self.removed.map(iso));
        to.field("delivered", self.delivered().map(iso));
        to.field(
            "visible_response_s",
            self.visible_response().map(Span::secs),
        );
    }
}

impl Object for AttemptView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.text("attempt", self.attempt);
        to.field("host", &self.host);
        to.text("state", self.state);
        to.field("duplicate", self.duplicate);
        to.field("assigned", iso(self.assigned));
        to.field("started", self.started.map(iso));
        to.field("finished", self.finished.map(iso));
        to.field("run_s", self.ran.secs());
        to.field("cpu_s", self.cpu.secs());
        to.field("suspended_s", self.suspended.secs());
        to.some("suspended_since", self.suspended_since.map(iso));

        to.some("exit_code", self.exit_code);
        to.some("reason", self.reason.as_ref());
        to.some("started_from", self.started_from.as_ref().map(Json));
        to.some("checkpoint", self.saved.as_ref().map(Json));
        to.some("checkpoint_problem", self.checkpoint_problem.as_ref());
        to.some("belief", self.belief.map(|belief| belief.to_string()));
        to.some("progress", self.progress);
        to.some("progress_words", self.words.as_ref());
    }
}

/// A checkpoint of a task.
impl Object for Saved {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("attempt", self.number);
        to.field("sequence", self.sequence);
        to.field("saved", iso(self.taken));
        to.field("files", self.files);
        to.field("bytes", self.bytes);
    }
}

/// The reasons for which tasks wait, and for which each host was passed over.
impl Object for ExplainView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        let pairs = |pairs: &[(String, String)], names| -> Vec<NamedTexts> {
            let pair =
                |(one, other): &(String, String)| NamedTexts(names, [one.clone(), other.clone()]);
            pairs.iter().map(pair).collect()
        };
        self.job.put(to);
        to.field("waiting", all(&pairs(&self.waiting, ["reason", "tasks"])));
        to.field("hosts", all(&pairs(&self.hosts, ["host", "reason"])));
        to.field("duplicates", all(&self.duplicates));
        to.some("share", self.share.as_ref().map(Json));
    }
}

/// Two texts with their names.
struct NamedTexts([&'static str; 2], [String; 2]);

impl Object for NamedTexts {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        for (name, text) in self.0.iter().zip(&self.1) {
            to.field(name, text);
        }
    }
}

impl Object for DuplicateView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.text("attempt", self.attempt);
        to.field("host", &self.host);
        to.field("reason", &self.why);
    }
}

/// A job that a command changed, with the number of changed tasks.
impl Object for (JobId, u64) {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("job", self.0.0);
        to.field("tasks", self.1);
    }
}

/// The tasks that `deskgrid job retry` changed, with the promise of their job after it.
#[derive(Default)]
pub(crate) struct Retried<'a> {
    /// The jobs with the number of tasks.
    pub(crate) changed: &'a [(JobId, u64)],
    /// The promise, if the job had one.
    pub(crate) promise: Option<PromiseStatus>,
}

impl Object for Retried<'_> {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("jobs", all(self.changed));
        self.promise.put(to);
    }
}

/// The width of a job of several ranks, held or predicted.
impl Object for WidthView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("least", self.least);
        to.field("most", self.most);
        to.field("ranks", self.ranks);
        to.field("held_since", self.formed.map(iso));
        to.field("begun", self.begun.map(iso));
        to.field("free", self.free);
        to.field("hosts", self.hosts);
        to.field("behind", self.behind);
        to.field("scaling", self.scaling.as_ref().map(Json));
        to.field("chosen", self.chosen.as_ref().map(Json));
        to.field("ways", all(&self.ways));
        to.some("why", self.why.as_ref());
    }
}

/// The assumed speedup of the job: its work and its average parallelism.
impl Object for ScalingView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("work_s", self.work.secs());
        to.field("parallelism", self.parallelism);
        to.field("sigma", self.sigma);
        to.field("runs", self.runs);
    }
}

/// A width with its predicted start and end.
impl Object for WayView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("hosts", self.hosts);
        to.field("start", iso(self.start));
        to.field("finish", self.finish.map(iso));
    }
}
