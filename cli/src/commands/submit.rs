//! Executes `deskgrid submit`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use common::text::plural;
use common::view::{CounterView, PromiseView, QualityView};
use common::wire::client::Request;
use common::{After, IdSet, JobId, RequestId, Span, Time};
use uuid::Uuid;

use super::Context;
use super::job::{
    AwaitedJobs, NO_HOST, NO_OWNER, UNKNOWN_ENDS, UNKNOWN_TIMES, ends_unknown, forecast_in_words,
    limits_in_words, wait_for,
};
use super::width::width_in_words;
use crate::args::value::{AfterArg, OneJob};
use crate::args::{OutputMode, SubmitArgs};
use crate::failure::{Exit, Failure};
use crate::output::json::{Json, SubmitAnswer};
use crate::output::{note, when};
use crate::session::Session;
use crate::submit::send::{SendMode, send};
use crate::submit::{SubmitPlan, no_limits, options, plan};
use crate::wait_reporter::takes_work;

/// Plans the job, uploads its files, submits it and, if asked, waits for it.
pub(super) async fn run(context: &Context, args: SubmitArgs) -> Result<Exit, Failure> {
    if let Some(into) = args.into {
        return super::add::run(context, &args, into).await;
    }
    let job = options(&args)?;
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(text) = behind_the_command(&words, &args.job.command) {
        note(&format!("note: {text}"));
    }
    let is_open = job.open;
    let mut plan = plan(&job)?;
    plan.notes
        .iter()
        .for_each(|text| note(&format!("note: {text}")));

    let session = Session::open(&context.state).await?;
    plan.start_after(after(&session, &job.after).await?)?;
    let id = args.request_id.unwrap_or_else(new_request);
    let name = plan.name();
    let tasks = plan.tasks();
    let no_limits = no_limits(&job);
    let sending = match args.dry_run {
        true => SendMode::Question,
        false => SendMode::Job {
            shown: context.out.mode() == OutputMode::Cli,
        },
    };
    let taken = match submit(&session, &plan, id, sending).await {
        Ok(Ok(taken)) => SubmitAnswer { no_limits, ..taken },
        Ok(Err(counter)) => {
            let failure = not_promised(&counter, plan.asked().deadline);
            return refused(context, tasks, args.dry_run, &failure, Some(&counter));
        }
        Err(failure) if failure.exit == Exit::Refused => {
            return refused(context, tasks, args.dry_run, &failure, None);
        }
        Err(failure) if args.dry_run => return Err(failure),
        Err(failure) => {
            let then = "if the job was submitted, it is not submitted twice";
            return Err(failure.of_request(id, then));
        }
    };

    if let Some(why) = &taken.nowhere {
        note(&format!(
            "warning: its tasks will wait until the hosts suffice: {why}"
        ));
    }
    match taken.job {
        None => dry(context, &session, &taken, &plan).await,
        Some(job) if args.wait || args.progress => {
            if context.out.mode() == OutputMode::Cli {
                let open = if is_open {
                    format!("; it is open, and ends only after deskgrid job close {job}")
                } else {
                    String::new()
                };
                note(&format!(
                    "job {job}: {name}, {}; waiting{open}",
                    plural(tasks, "task")
                ));
            }
            Box::pin(wait_and_show(context, session, job, taken, args.progress)).await
        }
        Some(job) => show_taken(context, &taken, job, &plan),
    }
}

/// Says which options of `submit` stand behind the command and so are the command's own, unless `--`
/// in front of the command says that this is meant; `words` is the whole command line.
fn behind_the_command(words: &[OsString], command: &[String]) -> Option<String> {
    let before = words.len().checked_sub(command.len() + 1)?;
    if words[before] == "--" {
        return None;
    }

    let options: Vec<String> = SubmitArgs::augment_args(clap::Command::new("submit"))
        .get_arguments()
        .filter_map(|option| Some(format!("--{}", option.get_long()?)))
        .collect();
    let arguments = command.iter().skip(1);
    let swallowed = arguments.filter(|word| options.contains(word));
    let named: Vec<String> = swallowed.take(3).map(|word| format!("`{word}`")).collect();
    let (stand, it) = match named.len() {
        0 => return None,
        1 => ("stands after the command and belongs", "it"),
        _ => ("stand after the command and belong", "them"),
    };

    Some(format!(
        "{} {stand} to it; write deskgrid's options before the command, or `--` before it if the command is to have {it}",
        named.join(", ")
    ))
}

/// Looks up the jobs that have to end before.
async fn after(session: &Session, named: &[AfterArg]) -> Result<Vec<After>, Failure> {
    let mut after = Vec::new();
    for AfterArg { job, how } in named.iter().copied() {
        let job = session.job_id(job).await?;
        after.push(After { job, how });
    }
    Ok(after)
}

/// Shows a job that was submitted.
fn show_taken(
    context: &Context,
    taken: &SubmitAnswer,
    job: JobId,
    plan: &SubmitPlan,
) -> Result<Exit, Failure> {
    let again = if taken.again {
        " (it was submitted before)"
    } else {
        ""
    };

    // A promise goes before a forecast.
    let promised_finish = taken.promise.as_ref().map(|view| view.finish);
    let finish = promised_finish
        .or(taken.predicted.map(|forecast| forecast.finish))
        .map_or_else(String::new, |at| {
            format!("; expected to finish {}", when::relative(at, when::now()))
        });
    let promised = taken.promise.as_ref().map_or_else(String::new, promised);
    let more = more(taken);
    let tasks = size(taken);
    let name = plan.name();
    let proviso = plan.proviso();
    let text = || format!("job {job}: {name}, {tasks}{again}{finish}{promised}{proviso}\n{more}");

    context
        .show(&Json(taken), text, || vec![job.to_string()])
        .map_err(|failure| untold(failure, job))
}

/// Adds to the failure of printing the answer that the job is there: a script would submit it again.
fn untold(failure: Failure, job: JobId) -> Failure {
    Failure {
        what: format!("job {job} was submitted, but: {}", failure.what),
        hint: format!("do not submit it again: deskgrid job info {job} shows it"),
        ..failure
    }
}

/// Describes the number of tasks.
fn size(taken: &SubmitAnswer) -> String {
    if taken.width.is_some() {
        "several ranks".to_owned()
    } else {
        plural(taken.tasks, "task")
    }
}

/// Waits for the submitted job to settle, and shows how it ended.
async fn wait_and_show(
    context: &Context,
    session: Session,
    job: JobId,
    document: SubmitAnswer,
    progress: bool,
) -> Result<Exit, Failure> {
    let awaited = AwaitedJobs {
        jobs: OneJob::Id(job).into(),
        unsettled: IdSet::from_range(job.0, job.0),
    };
    let ended = wait_for(context, session, awaited, None, progress).await?;

    let info = ended.jobs.first().cloned();
    let document = SubmitAnswer { info, ..document };
    let text = || super::job::outcome(&ended);
    let quiet = || vec![job.to_string()];
    let shown = context.show(&Json(&document), text, quiet);
    shown.map_err(|failure| untold(failure, job))?;

    Ok(ended.exit())
}

/// Submits the job; the inner error is the master's counter-offer.
async fn submit(
    session: &Session,
    plan: &SubmitPlan,
    id: RequestId,
    sending: SendMode,
) -> Result<Result<SubmitAnswer, CounterView>, Failure> {
    let reply = send(session.client(), plan, id, sending).await?;
    SubmitAnswer::of(reply, sending == SendMode::Question)
        .map_err(|other| link::client::unexpected(Some(&other)).into())
}

/// Says why the end of a job that would be submitted is not predicted.
async fn no_prediction(
    session: &Session,
    taken: &SubmitAnswer,
    plan: &SubmitPlan,
) -> Result<&'static str, Failure> {
    if taken.nowhere.is_some() {
        // The warning says why.
        return Ok("the hosts do not suffice");
    }

    let all = Request::Hosts { names: Vec::new() };
    let hosts = session.hosts(&all).await?;
    let able = hosts.iter().filter(|host| {
        let reason = host.reason.as_deref().unwrap_or_default();
        takes_work(&format!("{}: {reason}", host.state))
    });
    let owners = able.map(|host| host.belongs_to.as_deref().ok_or(host.id));
    let owners = owners.collect::<BTreeSet<_>>().len();
    let quorum = plan.quorum();
    let before = plan.asked().after.iter().map(|after| after.job).collect();

    Ok(if owners == 0 {
        NO_HOST
    } else if ends_unknown(session, before).await {
        UNKNOWN_ENDS
    } else if !quorum.adaptive && owners < quorum.size as usize {
        NO_OWNER
    } else if !plan.estimated() {
        UNKNOWN_TIMES
    } else if quorum.compares() {
        NO_OWNER
    } else {
        NO_HOST
    })
}

async fn dry(
    context: &Context,
    session: &Session,
    taken: &SubmitAnswer,
    plan: &SubmitPlan,
) -> Result<Exit, Failure> {
    let now = when::now();
    let finish = match (&taken.promise, &taken.predicted) {
        (Some(view), _) => {
            let finish = when::relative(view.finish, now);
            format!("; expected to finish {finish}{}", promised(view))
        }
        (None, Some(forecast)) => {
            format!("; expected to finish {}", forecast_in_words(forecast, now))
        }
        (None, None) if taken.width.is_some() || plan.waits_for_requests() => String::new(),
        (None, None) => format!(
            "; no prediction: {}",
            no_prediction(session, taken, plan).await?
        ),
    };

    let more = more(taken);
    let tasks = size(taken);
    let name = plan.name();
    let proviso = plan.proviso();
    let text =
        || format!("dry run: {name} would be submitted with {tasks}{finish}{proviso}\n{more}");
    context.show(&Json(taken), text, Vec::new)
}

/// Returns lines about limits and widths, if there are any.
fn more(taken: &SubmitAnswer) -> String {
    let width = taken.width.as_deref();
    let width = width.map(|view| width_in_words(view, when::now()));
    let limits = taken.limits.as_ref();
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
    let later = if view.probability < 0.5 {
        " (a later deadline would be kept more often)"
    } else {
        ""
    };
    format!(
        ", {:.0} % likely to meet the deadline of {}{later}{why}{quality}",
        100.0 * view.probability,
        when::date(view.deadline)
    )
}

/// Reports that the job's deadline, perhaps a `date`, cannot be promised, and what could be.
fn not_promised(counter: &CounterView, date: Option<Time>) -> Failure {
    let mut hint = Vec::new();
    if let Some((_, span)) = counter.earliest {
        hint.push(format!("--deadline {} for all of it", from_now(span)));
    }
    if !counter.fits.is_empty() {
        hint.push(format!("only the tasks {} by this deadline", counter.fits));
    }

    let hint = if hint.is_empty() {
        "ask again later".to_owned()
    } else {
        hint.join(", or ")
    };
    let what = match date {
        Some(date) => format!(
            "the job is not taken for the deadline of {}",
            when::date(date)
        ),
        None => "the job is not taken".to_owned(),
    };
    Failure::new(Exit::Refused, "not-admitted", what, hint).because(&counter.why)
}

/// Returns the value of `--deadline` for at least this time from now, to the second, as people write it: `1h23m5s`.
fn from_now(span: Span) -> String {
    let seconds = Duration::from_secs(span.secs().ceil() as u64);
    let said = humantime::format_duration(seconds).to_string();
    said.replace(' ', "")
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

    let nothing = CounterView {
        why: failure.what.clone(),
        earliest: None,
        fits: IdSet::new(),
    };
    let counter = counter.cloned().unwrap_or(nothing);
    let document = SubmitAnswer {
        tasks,
        dry_run,
        refused_because: Some(counter.why.clone()),
        counter: Some(counter),
        ..SubmitAnswer::default()
    };
    context.show(&Json(&document), String::new, Vec::new)?;

    Ok(failure.exit)
}

/// Makes a new random request id.
pub(crate) fn new_request() -> RequestId {
    RequestId(Uuid::from_u128(rand::random()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::value::Deadline;

    #[test]
    fn the_earliest_deadline_is_said_as_people_write_one() {
        for (secs, said) in [(0.2, "1s"), (3_600.0, "1h"), (148_612.4, "1day17h16m53s")] {
            let text = from_now(Span::from_secs_f64(secs));
            assert_eq!(text, said);
            assert!(text.parse::<Deadline>().is_ok(), "{text}");
        }
    }

    #[test]
    fn an_option_behind_the_command_is_pointed_out_unless_dashes_say_that_it_is_meant() {
        let told = |line: &str, command: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
            behind_the_command(&words, &command)
        };
        let command = "python3 --foo part.py --dry-run";
        let plain = format!("deskgrid submit --array 1-3 {command}");
        let text = told(&plain, command).expect("a note");
        assert!(
            text.starts_with("`--dry-run` stands after the command and belongs to it;"),
            "{text}"
        );

        let meant = format!("deskgrid submit --array 1-3 -- {command}");
        assert_eq!(told(&meant, command), None);
        let other = "python3 --foo --dry";
        assert_eq!(told(&format!("deskgrid submit {other}"), other), None);
    }
}
