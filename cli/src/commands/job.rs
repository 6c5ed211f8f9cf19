//! Executes `deskgrid job`.

use std::time::Duration;

use common::selector::{Selector, parse_ids};
use common::text::{plural, printable};
use common::view::{
    ExplainView, Forecast, JobState, JobView, LimitsView, PromiseState, ShareView, StartView,
    WorkView,
};
use common::wire::client::Request;
use common::{IdSet, JobId, Time};

use super::group::{
    after_in_words, cancel, close, labels_in_words, nothing_is_left, nothing_left, open_in_words,
    scope_in_words, share,
};
use super::{Context, cat, failures, fetch, host, interruptible, joblog, judge, work};
use crate::args::OutputMode;
use crate::args::job::{JobCommand, WaitArgs};
use crate::args::value::{JobSelection, OneJob, labelled};
use crate::failure::{Exit, Failure};
use crate::output::figures::{amount, percent};
use crate::output::json::{Json, List};
use crate::output::table::{Rows, bounded, facts};
use crate::output::{json, note, when};
use crate::progress::Progress;
use crate::session::{Session, no_such_job};
use crate::submit::holds_disclosed;
use crate::wait_reporter::{WaitReporter, takes_work};
use crate::watch::{Ended, Watch};

/// Executes one verb of `deskgrid job`.
pub(super) async fn run(context: &Context, command: JobCommand) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;

    match command {
        JobCommand::Wait(args) => wait(context, session, args, false).await,
        JobCommand::Progress(args) => wait(context, session, args, true).await,
        JobCommand::List {
            joblog: Some(job), ..
        } => joblog::run(context, &session, job).await,
        JobCommand::List {
            all,
            state,
            last,
            label,
            joblog: None,
        } => {
            let jobs = match label.is_empty() {
                true => Selector::All,
                false => labelled(label),
            };
            list(context, &session, jobs, (all, state), last).await
        }
        JobCommand::Info { jobs } => info(context, &session, jobs.selection()).await,
        JobCommand::Cat(args) => cat::run(context, &session, args).await,
        JobCommand::Fetch {
            job,
            into,
            tasks,
            force,
            pad,
            manifest,
        } => {
            let into = fetch::Into {
                dir: into,
                force,
                pad,
                manifest,
            };
            fetch::run(context, &session, job, into, tasks).await
        }
        JobCommand::Cancel {
            jobs,
            tasks,
            unrequested,
        } => {
            let jobs = jobs.selection().selector;
            let request = match unrequested {
                true => Request::CancelUnrequested { jobs: jobs.clone() },
                false => Request::Cancel {
                    jobs: jobs.clone(),
                    tasks,
                },
            };
            cancel(context, &session, &jobs, request).await
        }
        JobCommand::Close { jobs } => close(context, &session, jobs.selection().selector).await,
        JobCommand::Retry {
            job,
            failed,
            damaged,
            tasks,
        } => {
            let job = session.job_id(job).await?;
            let request = match damaged {
                true => Request::Recompute { job, tasks },
                false => Request::Retry {
                    job,
                    tasks,
                    only_failed: failed,
                },
            };
            retry(context, &session, request).await
        }
        JobCommand::Judge { job, command } => judge::run(context, &session, job, &command).await,
        JobCommand::Explain { job } => explain(context, &session, job).await,
        JobCommand::Predict { job } => predict(context, &session, job).await,
        JobCommand::Share { jobs, with, end } => {
            share(context, &session, jobs.selection().selector, with, end).await
        }
        JobCommand::Forget { jobs } => forget(context, &session, jobs.selection().selector).await,
    }
}

/// The place of the user in lists that have jobs of several.
const USER_COLUMN: usize = 1;

async fn list(
    context: &Context,
    session: &Session,
    jobs: Selector,
    (all, mut states): (bool, Vec<JobState>),
    last: Option<usize>,
) -> Result<Exit, Failure> {
    let everything = all || !states.is_empty();
    if !everything {
        states = JobState::ALL
            .iter()
            .copied()
            .filter(|state| !state.settled())
            .collect();
    }

    let mut jobs = session.jobs(jobs, states).await?;
    if let Some(last) = last {
        jobs.sort_by_key(|job| job.job);
        jobs.drain(..jobs.len().saturating_sub(last));
    }
    jobs.sort_by_key(|job| (activity(job.state), job.job));

    let text = || {
        let of_others = jobs.iter().any(|job| job.user != session.user());
        let rows = jobs.iter().map(|job| {
            let mut row = Vec::from(row(job));
            if of_others {
                row.insert(USER_COLUMN, ("USER", job.user.clone()));
            }
            row
        });
        Rows::of(rows, context.out.color()).text(if everything {
            "there are no such jobs"
        } else {
            "no unfinished jobs (--all shows finished ones)"
        })
    };
    context.show(&List("jobs", &jobs), text, || ids(&jobs))
}

/// Returns the place of a state in lists: active jobs first.
pub(super) fn activity(state: JobState) -> u8 {
    match state {
        JobState::Running => 0,
        JobState::Waiting => 1,
        _ => 2,
    }
}

/// Returns the job's state, and whether it is open.
fn state(job: &JobView) -> String {
    let open = if job.open { ", open" } else { "" };
    format!("{}{open}", job.state)
}

fn row(job: &JobView) -> [(&'static str, String); 8] {
    let now = when::now();
    let finish = job
        .finished
        .or(job.predicted.map(|forecast| forecast.finish));
    let finish = finish.map(|time| when::relative(time, now));
    let start = job.starts.map(|starts| start_in_brief(&starts, now));

    [
        ("JOB", job.job.to_string()),
        ("NAME", bounded(&job.name)),
        ("STATE", state(job)),
        (
            "DONE",
            format!("{}/{}", job.tasks.finished, job.tasks.total),
        ),
        ("FAILED", job.tasks.failed.to_string()),
        ("RUNNING", job.tasks.running.to_string()),
        ("START", start.unwrap_or_default()),
        ("FINISH", finish.unwrap_or_default()),
    ]
}

fn ids(jobs: &[JobView]) -> Vec<String> {
    jobs.iter().map(|job| job.job.to_string()).collect()
}

async fn info(context: &Context, session: &Session, jobs: JobSelection) -> Result<Exit, Failure> {
    let found = found(session, &jobs).await?;
    if let [job] = &found[..]
        && jobs.one
    {
        let failures = failures::of(session, job).await?;
        let work = session.work(job.job).await?;
        let text =
            || failures::in_words(job, &failures, work.as_ref()) + &describe(job, work.as_ref());
        let shown = json::JobInfo(job, work.as_ref(), &failures);
        return context.show(&Json(&shown), text, || ids(&found));
    }

    show(context, &jobs, &found, || {
        let described = found.iter().map(|job| describe(job, None));
        described.collect::<Vec<_>>().join("\n")
    })
}

/// Returns the jobs that `jobs` selects; fails if one that is named does not exist.
async fn found(session: &Session, jobs: &JobSelection) -> Result<Vec<JobView>, Failure> {
    let found = session.jobs(jobs.selector.clone(), Vec::new()).await?;

    let what = match &jobs.selector {
        _ if !found.is_empty() => return Ok(found),
        Selector::Labelled(labels) => {
            let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
            format!("there is no job with the label {}", labels.join(" and "))
        }
        Selector::Ids(ids) => format!("there is no job {ids}"),
        Selector::Last => "there are no jobs".to_owned(),
        _ => return Ok(found),
    };
    Err(no_such_job(what))
}

/// Shows one job if one was named, else a list.
fn show(
    context: &Context,
    jobs: &JobSelection,
    found: &[JobView],
    text: impl FnOnce() -> String,
) -> Result<Exit, Failure> {
    match found {
        [job] if jobs.one => context.show(&Json(job), text, || ids(found)),
        _ => context.show(&List("jobs", found), text, || ids(found)),
    }
}

/// The number of limits that are shown; later ones are hardly ever needed.
const SHOWN_LIMITS: usize = 6;

/// Describes limits as `limits 10.8s, 13.4s, ...; first succeeds with 92 %`, or says why there are
/// none.
pub(super) fn limits_in_words(view: &LimitsView) -> String {
    let Some(first) = view.done.first() else {
        return format!(
            "no limits: {}",
            view.why.as_deref().unwrap_or("nothing is known")
        );
    };

    let mut limits: Vec<String> = view
        .limits
        .iter()
        .take(SHOWN_LIMITS)
        .map(ToString::to_string)
        .collect();
    if view.limits.len() > SHOWN_LIMITS {
        limits.push("...".to_owned());
    }

    let killed = if view.killed > 0 {
        format!(" ({} of them killed)", view.killed)
    } else {
        String::new()
    };
    let learned = format!("learned from {} runs{killed}", view.runs);

    format!(
        "limits {}; first succeeds with {:.0} %; {learned}, on a host of speed 1",
        limits.join(", "),
        100.0 * first
    )
}

/// Returns the deadline of a job, its promise, and how the promise stands; `None` without one.
fn promise(job: &JobView, now: Time) -> [Option<String>; 3] {
    let Some(view) = &job.promise else {
        return [None, None, None];
    };
    let time = |time: Time| format!("{} ({})", when::relative(time, now), when::date(time));
    let why = if view.probation { ", on probation" } else { "" };
    let promised = format!(
        "{}, {:.0} % likely when it was made{why}",
        time(view.finish),
        100.0 * view.probability
    );

    [
        Some(time(view.deadline)),
        Some(promised),
        Some(format!("{}: {}", view.state, view.why)),
    ]
}

fn describe(job: &JobView, work: Option<&WorkView>) -> String {
    let now = when::now();
    let time = |time: common::Time| format!("{} ({})", when::relative(time, now), when::date(time));
    let tasks = &job.tasks;
    let counts = tasks.by_state().into_iter();
    let counts: Vec<_> = counts
        .filter(|(_, n)| *n > 0)
        .map(|(state, n)| format!("{n} {state}"))
        .collect();
    let counted = format!("{}: {}", tasks.total, counts.join(", "));
    let [deadline, promised, standing] = promise(job, now);

    let settings = work.and_then(|work| work::settings(work, job.width.is_some()));
    let policy = format!("{}, priority {}", job.policy, job.priority);
    let attempts = format!("{}, {} of them duplicates", job.attempts, job.duplicates);
    let took = job.finished.map(|end| end.since(job.submitted));
    let start = job.starts.map(|starts| start_in_words(&starts, now));
    let forecast = job.predicted.as_ref();
    let width = job.width.as_ref();
    // The first prediction is worth a line beside the actual makespan; until then the predicted
    // finish says more.
    let first = job.predicted_makespan.filter(|_| job.finished.is_some());

    facts(&[
        ("job", Some(format!("{}  {}", job.job, job.name))),
        ("state", Some(state(job))),
        ("why", job.reason.clone()),
        ("user", Some(job.user.clone())),
        ("command", work.and_then(work::command)),
        ("files", work.and_then(work::files)),
        ("settings", settings),
        ("policy", Some(policy)),
        ("tasks", Some(counted)),
        ("open", open_in_words(job)),
        ("after", after_in_words(job)),
        ("needs", (!job.needs.is_empty()).then(|| job.needs.clone())),
        ("labels", labels_in_words(job)),
        ("attempts", Some(attempts)),
        (
            "progress",
            job.progress.map(|part| format!("{:.0} %", 100.0 * part)),
        ),
        ("submitted", Some(time(job.submitted))),
        ("started", job.started.map(time)),
        ("finished", job.finished.map(time)),
        ("makespan", took.map(|span| span.to_string())),
        ("predicted start", start),
        (
            "predicted finish",
            forecast.map(|view| forecast_in_words(view, now)),
        ),
        (
            "makespan predicted at first",
            first.map(|span| span.to_string()),
        ),
        ("deadline", deadline),
        ("promised finish", promised),
        ("promise", standing),
        ("time limits", job.limits.as_ref().map(limits_in_words)),
        (
            "width",
            width.map(|view| super::width::width_in_words(view, now)),
        ),
    ])
}

async fn wait(
    context: &Context,
    session: Session,
    args: WaitArgs,
    progress: bool,
) -> Result<Exit, Failure> {
    let selection = args.jobs.selection();
    let timeout = args.timeout.map(|timeout| timeout.0);
    // A job that does not exist would never be settled.
    let found = found(&session, &selection).await?;
    let unsettled = found.iter().filter(|job| !job.state.settled());
    let unsettled: IdSet = unsettled.map(|job| job.job.0).collect();

    // A job that failed long ago counts where it is named.
    let jobs = match &selection.selector {
        Selector::All => Selector::Ids(unsettled.clone()),
        named => named.clone(),
    };
    if selection.selector == Selector::All && unsettled.is_empty() {
        return show(context, &selection, &[], || {
            "no unfinished jobs\n".to_owned()
        });
    }
    let awaited = AwaitedJobs { jobs, unsettled };

    let ended = wait_for(context, session, awaited, timeout, progress).await?;
    show(context, &selection, &ended.jobs, || outcome(&ended))?;

    Ok(ended.exit())
}

/// The jobs to wait for.
pub(super) struct AwaitedJobs {
    /// The selection as the user gave it.
    pub jobs: Selector,
    /// The selected jobs that are not settled yet.
    pub unsettled: IdSet,
}

/// Waits for jobs, with a bar if `progress`. People are told why nothing runs.
///
/// # Errors
/// If the master refuses, or the user interrupts the wait.
pub(super) async fn wait_for(
    context: &Context,
    session: Session,
    awaited: AwaitedJobs,
    timeout: Option<Duration>,
    progress: bool,
) -> Result<Ended, Failure> {
    let AwaitedJobs { jobs, unsettled } = awaited;
    let watch = Watch::new(&context.state, jobs, timeout, !progress);
    let going_on = unsettled.clone();
    if context.out.mode() != OutputMode::Cli {
        return unless_interrupted(&going_on, watch.run(session, |_| {})).await;
    }

    if !progress {
        let reporter = WaitReporter::new(unsettled, note);
        let watching = watch.telling(reporter).run(session, |_| {});
        return unless_interrupted(&going_on, watching).await;
    }

    let mut bar = Progress::new();
    let watch = watch.telling(WaitReporter::new(unsettled, bar.teller()));
    let watching = watch.run(session, |jobs| bar.show(jobs));
    let ended = unless_interrupted(&going_on, watching).await;
    bar.end();
    ended
}

/// Waits for `work`, which follows `jobs`. An interruption ends the wait and not the jobs, and its
/// failure says so.
pub(super) async fn unless_interrupted<T>(
    jobs: &IdSet,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    interruptible(work, || goes_on(jobs)).await
}

fn goes_on(jobs: &IdSet) -> Failure {
    let (which, goes) = match jobs.len() {
        1 => (format!("job {jobs}"), "goes on"),
        _ => (format!("the jobs {jobs}"), "go on"),
    };
    let hint = format!("deskgrid job wait {jobs}, or deskgrid job cancel {jobs}");
    let what = format!("the wait was interrupted; {which} {goes}");
    Failure::error("interrupted", what, hint)
}

/// Describes how each job ended, one line for each.
pub(super) fn outcome(ended: &Ended) -> String {
    let line = |job: &JobView| {
        let tasks = &job.tasks;
        let mut line = format!("job {} ({}) {}: ", job.job, printable(&job.name), job.state);
        line += &format!("{} of {} tasks finished", tasks.finished, tasks.total);

        for (n, word) in [(tasks.failed, "failed"), (tasks.cancelled, "cancelled")] {
            if n > 0 {
                line += &format!(", {n} {word}");
            }
        }

        if job.open {
            line += &format!("; it is open: deskgrid job close {}", job.job);
        }
        if let Some(finished) = job.finished {
            line += &format!(", in {}", finished.since(job.submitted));
        }
        if tasks.failed > 0 {
            line += &format!("\nsee why: deskgrid job info {}", job.job);
        }

        line + "\n"
    };
    let lines: String = ended.jobs.iter().map(line).collect();
    if ended.timed_out {
        lines + &timed_out(&ended.jobs)
    } else {
        lines
    }
}

/// Says that the wait timed out, and which of these jobs go on.
fn timed_out(jobs: &[JobView]) -> String {
    let open: Vec<&JobView> = jobs.iter().filter(|job| !job.state.settled()).collect();
    match open[..] {
        [job] => format!("timed out; job {} goes on\n", job.job),
        _ => format!("timed out; {} jobs go on\n", open.len()),
    }
}

async fn forget(context: &Context, session: &Session, jobs: Selector) -> Result<Exit, Failure> {
    let gone = session.changed(&Request::Forget { jobs }).await?;
    let ids: Vec<String> = gone.iter().map(|(job, _)| job.to_string()).collect();
    let text = || match ids.len() {
        0 => "nothing to forget\n".to_owned(),
        _ => format!("forgotten: {}\n", ids.join(", ")),
    };
    context.show(&List("jobs", &gone), text, || ids.clone())
}

/// Retries tasks, and says what the retry means for the promise of their job.
async fn retry(context: &Context, session: &Session, request: Request) -> Result<Exit, Failure> {
    let changed = session.changed(&request).await?;
    let Some((id, tasks)) = changed.first().copied() else {
        return context.show(
            &Json(&json::Retried::default()),
            || "nothing to do\n".to_owned(),
            Vec::new,
        );
    };

    // Without a task that waits again nothing has changed.
    let promise = if tasks > 0 {
        session.job(OneJob::Id(id)).await?.promise
    } else {
        None
    };
    let promised = promise
        .as_ref()
        .map_or_else(String::new, |promise| match promise.state {
            PromiseState::OnTime | PromiseState::AtRisk => {
                let finish = when::relative(promise.finish, when::now());
                format!("; its promise is renewed, behind all others: to be finished {finish}")
            }
            state => format!("; its promise is {state}: {}", promise.why),
        });
    let text = || {
        format!(
            "job {id}: {}{promised}\n",
            match tasks {
                0 => "no such task is to run again".to_owned(),
                tasks => format!("{} will run again", plural(tasks, "task")),
            }
        )
    };

    let document = json::Retried {
        changed: &changed,
        promise,
    };
    context.show(&Json(&document), text, || vec![id.to_string()])
}

/// Formats the predicted start and its interval of 80 % for a column.
fn start_in_brief(starts: &StartView, now: Time) -> String {
    let StartView { start, low, high } = *starts;
    format!(
        "{} ({}..{})",
        when::relative(start, now),
        low.since(now),
        high.since(now)
    )
}

/// Describes the predicted start, with the interval that holds it with a probability of 80 % if it
/// is known.
fn start_in_words(starts: &StartView, now: Time) -> String {
    let at = |time: Time| when::relative(time, now);
    let StartView { start, low, high } = *starts;
    format!(
        "{} ({}); 80 % likely {}",
        at(start),
        when::date(start),
        when::between(low, high, now)
    )
}

pub(super) fn forecast_in_words(forecast: &Forecast, now: Time) -> String {
    let finish = format!(
        "{} ({})",
        when::relative(forecast.finish, now),
        when::date(forecast.finish)
    );
    match forecast.interval {
        Some((low, high)) => {
            format!("{finish}; 80 % likely {}", when::between(low, high, now))
        }
        None => finish,
    }
}

async fn predict(context: &Context, session: &Session, job: OneJob) -> Result<Exit, Failure> {
    let view = session.job(job).await?;
    let why = match (&view.finished, &view.predicted) {
        (None, None) => why_no_prediction(session, view.job).await?,
        _ => String::new(),
    };

    let now = when::now();
    let text = || {
        let head = format!(
            "job {} ({}) is {}: ",
            view.job,
            printable(&view.name),
            view.state
        );

        let end = match (&view.finished, &view.predicted) {
            (Some(finished), _) => format!("it ended {}", when::relative(*finished, now)),
            (None, Some(forecast)) => {
                let scope = scope_in_words(&view);
                format!(
                    "it should be done {}{scope}",
                    forecast_in_words(forecast, now)
                )
            }
            (None, None) if nothing_is_left(&view) => nothing_left(&view),
            (None, None) => why,
        };
        head + &end + "\n"
    };
    context.show(&Json(&json::PredictionAnswer(&view)), text, || {
        vec![view.job.to_string()]
    })
}

/// Asks the master what is missing to predict the end of the job, and why its tasks wait or stand
/// still.
async fn why_no_prediction(session: &Session, job: JobId) -> Result<String, Failure> {
    let view = session.explained(job).await?;
    let rules = session.work(job).await?.map(|work| work.rules);
    let estimated = rules.as_ref().is_some_and(|rules| rules.estimate.is_some());
    let compared = rules.is_some_and(|rules| rules.quorum.compares());

    let before = view.job.after.iter().filter(|after| after.left.is_some());
    let held = ends_unknown(session, before.map(|after| after.job).collect()).await;
    Ok(no_prediction(&view, estimated, compared, held))
}

/// Whether one of these jobs has not ended, and nobody knows when it will.
pub(super) async fn ends_unknown(session: &Session, jobs: Vec<JobId>) -> bool {
    for id in jobs {
        let Ok(job) = session.job(OneJob::Id(id)).await else {
            return true;
        };
        if job.finished.is_none() && (job.open || job.predicted.is_none()) {
            return true;
        }
    }
    false
}

fn no_prediction(view: &ExplainView, estimated: bool, compared: bool, held: bool) -> String {
    let tasks = &view.job.tasks;
    let lacks_owners = |(why, _): &(String, String)| {
        why.contains("different owners' hosts must agree") || why.contains("no such host takes")
    };
    let missing = if view.hosts.is_empty() {
        "there is no host"
    } else if tasks.waiting + tasks.suspended > 0
        && !view.hosts.iter().any(|(_, why)| takes_work(why))
    {
        NO_HOST
    } else if held {
        UNKNOWN_ENDS
    } else if tasks.disclosed > 0 && holds_disclosed(&view.job.policy) {
        "its policy starts a task only once it is requested"
    } else if compared && view.waiting.iter().any(lacks_owners) {
        NO_OWNER
    } else if tasks.finished == 0 && !estimated {
        UNKNOWN_TIMES
    } else if compared {
        NO_OWNER
    } else {
        NO_HOST
    };

    let head = format!("no prediction yet: {missing}");
    view.waiting.iter().fold(head, |text, (reason, tasks)| {
        let tasks = parse_ids(tasks).map_or_else(|_| tasks.clone(), |tasks| tasks.in_brief());
        text + "\n  " + &printable(&format!("{tasks}: {reason}"))
    })
}

/// Says why there is no prediction where neither a finished task nor an estimate tells how long one takes.
pub(super) const UNKNOWN_TIMES: &str = "nothing tells how long a task takes (a finished one, \
     --estimate, or five earlier tasks of the program would)";
/// Says why there is no prediction where another job goes first whose end is not known.
pub(super) const UNKNOWN_ENDS: &str = "nobody knows when the jobs end that it waits for";
/// Says why there is no prediction where the time of a task is known.
pub(super) const NO_HOST: &str = "no host takes its tasks now";
/// Says the same of a job with a quorum, where hosts take its tasks.
pub(super) const NO_OWNER: &str =
    "too few owners are left with hosts for the results that must agree";

async fn explain(context: &Context, session: &Session, job: OneJob) -> Result<Exit, Failure> {
    let job = session.job_id(job).await?;
    let view = session.explained(job).await?;
    let running = session.running(job).await?;
    let color = context.out.color();
    context.show(
        &Json(&json::ExplainAnswer(&view, running.as_deref())),
        || explained(&view, color),
        || vec![view.job.job.to_string()],
    )
}

/// The share of a job's user, in a line of its own.
fn of_share(share: &ShareView) -> String {
    format!(
        "\nits user: slots now {}, on average lately {}, {} of what all users had; due to \
         weight {}: {}\n",
        share.slots,
        amount(share.average, ""),
        percent(share.part),
        share.weight,
        percent(share.due),
    )
}

pub(super) fn explained(view: &ExplainView, color: bool) -> String {
    let mut out = format!(
        "job {} ({}) {}{}",
        view.job.job,
        printable(&view.job.name),
        if view.job.state.settled() { "" } else { "is " },
        view.job.state
    );
    out += &view
        .job
        .reason
        .as_ref()
        .map_or_else(String::new, |reason| format!(": {}", printable(reason)));
    if view.job.state.settled() {
        return out + "\n";
    }

    out += "\n\n";
    // Numbers of tasks can be many.
    let mut waiting = Rows::new(&["TASKS", "WAIT BECAUSE"], color);
    for (reason, tasks) in &view.waiting {
        waiting.add([bounded(tasks), reason.clone()]);
    }

    let mut hosts = Rows::new(&["HOST", "WHY NOT HERE"], color);
    for (host, reason) in &view.hosts {
        hosts.add([host.clone(), reason.clone()]);
    }

    out += &waiting.text(&format!("{}\n", nothing_left(&view.job)));
    out += "\n";
    out += &hosts.text("there are no hosts: deskgrid worker start --help\n");
    let benched = view
        .hosts
        .iter()
        .filter(|(_, why)| why == "benched" || why.starts_with("benched: "));
    out += &host::of_benched(benched.map(|(host, _)| host.as_str()));

    out += &view.share.as_ref().map_or_else(String::new, of_share);
    if !view.duplicates.is_empty() {
        let mut copies = Rows::new(&["COPY", "ON", "STARTED BECAUSE"], color);
        for copy in &view.duplicates {
            copies.add([
                copy.attempt.to_string(),
                copy.host.clone(),
                copy.why.clone(),
            ]);
        }
        out += "\n";
        out += &copies.text("");
    }

    out
}
