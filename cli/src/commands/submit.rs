//! Executes `deskgrid submit`.

use common::view::{CounterView, Forecast, LimitsView, PromiseView, QualityView, WidthView};
use common::wire::client::Reply;
use common::{IdSet, JobId, RequestId};
use uuid::Uuid;

use super::Context;
use super::job::{Awaited, counted, limits_in_words, wait_for};
use super::width::width_in_words;
use crate::args::value::OneJob;
use crate::args::{OutputMode, SubmitArgs};
use crate::failure::{Exit, Failure};
use crate::output::json::{Counter, Limits, Predicted, Promise, Submitted, Width};
use crate::output::{note, when};
use crate::session::Session;
use crate::submit::send::send;
use crate::submit::{Plan, no_limits, plan, read_job_file};

/// Plans the job, uploads its files, submits it and, if asked, waits for it.
pub(super) async fn run(context: &Context, args: SubmitArgs) -> Result<Exit, Failure> {
    let job = match &args.job_file {
        Some(path) => args.job.clone().over(read_job_file(path)?),
        None => args.job.clone(),
    };
    let plan = plan(&job)?;
    plan.notes
        .iter()
        .for_each(|text| note(&format!("note: {text}")));

    let session = Session::open(&context.state).await?;
    let id = args.request_id.unwrap_or_else(new_request);
    let name = plan.name().to_owned();
    let tasks = plan.tasks();
    let no_limits = no_limits(&job).map(Limits::none);
    let answered = match submit(&session, &plan, id, args.dry_run).await {
        Ok(Err(counter)) => {
            return refused(
                context,
                tasks,
                args.dry_run,
                &not_promised(&counter),
                Some(&counter),
            );
        }
        Ok(Ok(mut taken)) => {
            taken.document.limits = taken.document.limits.or(no_limits);
            Ok(taken)
        }
        Err(failure) => Err(failure),
    };

    match answered {
        Err(failure) if failure.exit == Exit::Refused => {
            refused(context, tasks, args.dry_run, &failure, None)
        }
        Err(failure) if failure.code == "unreachable" => {
            // The job may have been accepted although the answer was lost.
            let hint = format!(
                "the same command with --request-id {id}: should it have been taken, it is not taken twice"
            );
            Err(Failure { hint, ..failure })
        }
        Err(failure) => Err(failure),
        Ok(Taken {
            job: None,
            document,
            promise,
            limits,
            width,
            ..
        }) => dry(
            context,
            &document,
            &name,
            (promise.as_ref(), limits.as_ref(), width.as_deref()),
        ),
        Ok(Taken {
            job: Some(job),
            document,
            ..
        }) if args.wait || args.progress => {
            if context.out.mode() == OutputMode::Cli {
                note(&format!("job {job}: {name}, {}; waiting", counted(tasks)));
            }
            wait_and_show(context, session, job, document, args.progress).await
        }
        Ok(Taken {
            job: Some(job),
            document,
            forecast,
            promise,
            limits,
            width,
        }) => {
            let again = if document.again {
                " (it was submitted before)"
            } else {
                ""
            };

            // A promise goes before a forecast.
            let promised_finish = promise.as_ref().map(|view| view.finish);
            let finish = promised_finish
                .or(forecast.map(|forecast| forecast.finish))
                .map_or_else(String::new, |at| {
                    format!("; to be finished {}", when::relative(at, when::now()))
                });
            let promised = promise.as_ref().map_or_else(String::new, promised);
            let more = more(limits.as_ref(), width.as_deref());
            let tasks = if width.is_some() {
                "several ranks".to_owned()
            } else {
                counted(tasks)
            };
            let text = || format!("job {job}: {name}, {tasks}{again}{finish}{promised}\n{more}");
            let quiet = || vec![job.to_string()];
            context.out.show(&document, text, quiet)?;

            session.close().await;
            Ok(Exit::Well)
        }
    }
}

/// Waits for the submitted job to settle, and shows how it ended.
async fn wait_and_show(
    context: &Context,
    session: Session,
    job: JobId,
    document: Submitted,
    progress: bool,
) -> Result<Exit, Failure> {
    let awaited = Awaited {
        jobs: OneJob::Id(job).into(),
        unsettled: IdSet::from_range(job.0, job.0),
    };
    let ended = wait_for(context, session, awaited, None, progress).await?;

    let info = ended.jobs.first().map(Into::into);
    let document = Submitted { info, ..document };
    let text = || super::job::outcome(&ended);
    let quiet = || vec![job.to_string()];
    context.out.show(&document, text, quiet)?;

    Ok(ended.exit())
}

/// A submission that the master accepts.
struct Taken {
    /// The job's number; `None` in a dry run.
    job: Option<JobId>,
    document: Submitted,
    forecast: Option<Forecast>,
    promise: Option<PromiseView>,
    limits: Option<LimitsView>,
    width: Option<Box<WidthView>>,
}

async fn submit(
    session: &Session,
    plan: &Plan,
    id: RequestId,
    dry_run: bool,
) -> Result<Result<Taken, CounterView>, Failure> {
    let ((job, tasks, again), (predicted, promise), (limits, width)) =
        match send(session.client(), plan, id, dry_run).await? {
            Reply::Submitted {
                job,
                tasks,
                again,
                predicted,
                promise,
                limits,
                width,
            } => ((job, tasks, again), (predicted, promise), (limits, width)),
            Reply::NotPromised(counter) => return Ok(Err(*counter)),
            other => return Err(link::client::unexpected(Some(&other)).into()),
        };

    let document = Submitted {
        job: job.map(|job| job.0),
        tasks,
        accepted: true,
        again,
        dry_run,
        refused_because: None,
        promise: promise.as_ref().map(Promise::from),
        counter: None,
        limits: limits.as_ref().map(Limits::from),
        width: width.as_deref().map(Width::from),
        predicted: predicted.as_ref().map(Predicted::from),
        info: None,
    };
    Ok(Ok(Taken {
        job,
        document,
        forecast: predicted,
        promise,
        limits,
        width,
    }))
}

fn dry(
    context: &Context,
    document: &Submitted,
    name: &str,
    (promise, limits, width): (
        Option<&PromiseView>,
        Option<&LimitsView>,
        Option<&WidthView>,
    ),
) -> Result<Exit, Failure> {
    let promised = promise.map_or_else(String::new, |view| {
        format!(
            "; to be finished {}{}",
            when::relative(view.finish, when::now()),
            promised(view)
        )
    });

    let more = more(limits, width);
    let tasks = if width.is_some() {
        "several ranks".to_owned()
    } else {
        counted(document.tasks)
    };
    let text = || format!("dry run: {name} would be submitted with {tasks}{promised}\n{more}");
    context.out.show(document, text, Vec::new)?;

    Ok(Exit::Well)
}

/// Returns lines about limits and widths, if there are any.
fn more(limits: Option<&LimitsView>, width: Option<&WidthView>) -> String {
    let width = width.map(|view| width_in_words(view, when::now()));
    limits
        .map(limits_in_words)
        .into_iter()
        .chain(width)
        .map(|line| line + "\n")
        .collect()
}

/// Describes a promise, to stand behind the time at which the job should be finished.
fn promised(view: &PromiseView) -> String {
    let why = if view.probation {
        ", on probation: nothing is known of your estimates yet"
    } else {
        ""
    };

    let quality = view.estimates.map_or_else(
        String::new,
        |QualityView {
             ratio: (ratio, low, high),
             ..
         }| {
            format!(
                "; your tasks took {ratio:.2} of what you estimated, mostly {low:.2} to {high:.2}"
            )
        },
    );
    format!(
        ", by its deadline with a probability of {:.0} %{why}{quality}",
        100.0 * view.probability
    )
}

/// Reports that the job's deadline cannot be promised, and what could be.
fn not_promised(counter: &CounterView) -> Failure {
    let mut hint = Vec::new();
    if let Some((_, span)) = counter.earliest {
        hint.push(format!("--deadline {}s for all of it", span.secs().ceil()));
    }
    if !counter.fits.is_empty() {
        hint.push(format!("only the tasks {} by this deadline", counter.fits));
    }

    let hint = if hint.is_empty() {
        "ask again later".to_owned()
    } else {
        hint.join(", or ")
    };
    Failure::new(Exit::Refused, "not-admitted", "the job is not taken", hint).because(&counter.why)
}

/// Shows that a job was not admitted. This is an answer: scripts get it in the shape of a
/// submission.
fn refused(
    context: &Context,
    tasks: u64,
    dry_run: bool,
    failure: &Failure,
    counter: Option<&CounterView>,
) -> Result<Exit, Failure> {
    if context.out.mode() != OutputMode::Json {
        return Err(failure.clone());
    }

    let document = Submitted {
        job: None,
        tasks,
        accepted: false,
        again: false,
        dry_run,
        refused_because: Some(
            counter.map_or_else(|| failure.what.clone(), |counter| counter.why.clone()),
        ),
        promise: None,
        counter: Some(counter.map_or_else(Counter::default, Counter::from)),
        limits: None,
        width: None,
        predicted: None,
        info: None,
    };
    context.out.show(&document, String::new, Vec::new)?;

    Ok(failure.exit)
}

/// Makes a new random request id.
pub(crate) fn new_request() -> RequestId {
    RequestId(Uuid::from_u128(rand::random()))
}
