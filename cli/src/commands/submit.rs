//! `deskgrid submit`.

use common::view::Forecast;
use common::wire::client::Reply;
use common::{JobId, RequestId};
use uuid::Uuid;

use super::Context;
use super::job::{counted, wait_for};
use crate::args::value::OneJob;
use crate::args::{OutputMode, SubmitArgs};
use crate::failure::{Exit, Failure};
use crate::output::json::{Predicted, Submitted};
use crate::output::{note, when};
use crate::session::Session;
use crate::submit::send::send;
use crate::submit::{Plan, plan, read_job_file};

/// Plans, uploads, submits and, where asked, waits.
pub(super) async fn run(context: &Context, args: SubmitArgs) -> Result<Exit, Failure> {
    let job = match &args.job_file {
        Some(path) => args.job.clone().over(read_job_file(path)?),
        None => args.job.clone(),
    };
    let plan = plan(&job)?;
    plan.notes.iter().for_each(|text| note(&format!("note: {text}")));
    let session = Session::open(&context.state).await?;
    let id = args.request_id.unwrap_or_else(new_request);
    let (name, tasks) = (plan.name().to_owned(), plan.tasks());
    match submit(&session, &plan, id, args.dry_run).await {
        Err(failure) if failure.exit == Exit::Refused => refused(context, tasks, &failure),
        Err(failure) if failure.code == "unreachable" => {
            // The answer may have been lost, and not the submission.
            let hint =
                format!("the same command with --request-id {id}: should it have been taken, it is not taken twice");
            Err(Failure { hint, ..failure })
        }
        Err(failure) => Err(failure),
        Ok((None, document, _)) => dry(context, &document, &name),
        Ok((Some(job), document, _)) if args.wait || args.progress => {
            if context.out.mode() == OutputMode::Cli {
                note(&format!("job {job}: {name}, {}; waiting", counted(tasks)));
            }
            let ended = wait_for(context, session, OneJob::Id(job).into(), None, args.progress).await?;
            let info = ended.jobs.first().map(Into::into);
            let text = || super::job::outcome(&ended);
            context.out.show(&Submitted { info, ..document }, text, || vec![job.to_string()])?;
            Ok(ended.exit())
        }
        Ok((Some(job), document, forecast)) => {
            let again = if document.again { " (it was submitted before)" } else { "" };
            let finish = forecast
                .map_or_else(String::new, |f| format!("; to be finished {}", when::relative(f.finish, when::now())));
            let text = || format!("job {job}: {name}, {}{again}{finish}\n", counted(tasks));
            context.out.show(&document, text, || vec![job.to_string()])?;
            session.close().await;
            Ok(Exit::Well)
        }
    }
}

async fn submit(
    session: &Session,
    plan: &Plan,
    id: RequestId,
    dry_run: bool,
) -> Result<(Option<JobId>, Submitted, Option<Forecast>), Failure> {
    let Reply::Submitted { job, tasks, again, predicted } = send(session.client(), plan, id, dry_run).await? else {
        return Err(link::client::unexpected(None).into());
    };
    let document = Submitted {
        job: job.map(|job| job.0),
        tasks,
        accepted: true,
        again,
        dry_run,
        refused_because: None,
        predicted: predicted.as_ref().map(Predicted::from),
        info: None,
    };
    Ok((job, document, predicted))
}

fn dry(context: &Context, document: &Submitted, name: &str) -> Result<Exit, Failure> {
    let text = || format!("dry run: {name} would be submitted with {}\n", counted(document.tasks));
    context.out.show(document, text, Vec::new)?;
    Ok(Exit::Well)
}

/// A job that is not admitted is an answer: scripts get it in the shape of a submission.
fn refused(context: &Context, tasks: u64, failure: &Failure) -> Result<Exit, Failure> {
    if context.out.mode() != OutputMode::Json {
        return Err(failure.clone());
    }
    let document = Submitted {
        job: None,
        tasks,
        accepted: false,
        again: false,
        dry_run: false,
        refused_because: Some(failure.what.clone()),
        predicted: None,
        info: None,
    };
    context.out.show(&document, String::new, Vec::new)?;
    Ok(failure.exit)
}

/// A request id that nobody else has.
pub(crate) fn new_request() -> RequestId {
    RequestId(Uuid::from_u128(rand::random()))
}
