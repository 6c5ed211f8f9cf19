//! Changes that pages make: each button leads to a question, and only its answer, a form that was sent
//! from this server's own page, changes anything.

pub(crate) mod admission;

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use common::selector::Selector;
use common::text::printable;
use common::wire::client::Request;
use common::{IdSet, JobId};
use maud::html;

use crate::error::PageError;
use crate::job::number;
use crate::parts::{in_path, of_job};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};

/// Something that can be done, with its question.
struct Act {
    verb: &'static str,
    button: &'static str,
    question: &'static str,
    /// Whether something is lost by it.
    harms: bool,
}

const JOB_ACTS: [Act; 5] = [
    Act {
        verb: "cancel",
        button: "Cancel the job",
        question: "ends its tasks that run, and those that wait never start. Results that are there stay.",
        harms: true,
    },
    Act {
        verb: "retry",
        button: "Try failed tasks again",
        question: "makes its failed tasks wait again.",
        harms: false,
    },
    Act {
        verb: "again",
        button: "Try failed and cancelled tasks again",
        question: "makes its failed and cancelled tasks wait again.",
        harms: false,
    },
    Act {
        verb: "close",
        button: "Close the job",
        question: "lets nobody add tasks to it any more.",
        harms: false,
    },
    Act {
        verb: "forget",
        button: "Forget the job",
        question: "removes it with all its results, for good.",
        harms: true,
    },
];

const HOST_ACTS: [Act; 3] = [
    Act {
        verb: "drain",
        button: "Drain the host",
        question: "gives it no new tasks. Those that run go on.",
        harms: false,
    },
    Act {
        verb: "resume",
        button: "Give it tasks again",
        question: "ends the drain.",
        harms: false,
    },
    Act {
        verb: "revoke",
        button: "Revoke the host",
        question: "closes its connection for good: it has to join again with a new token.",
        harms: true,
    },
];

fn find(acts: &'static [Act], verb: &str) -> Result<&'static Act, PageError> {
    let found = acts.iter().find(|act| act.verb == verb);
    found.ok_or_else(|| PageError::not_found("there is nothing at this path"))
}

pub(crate) async fn ask_job(
    grid: Shared,
    who: LoggedIn,
    Path((job, verb)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let act = find(&JOB_ACTS, &verb)?;
    let job = grid.job(&who, number(&job)?).await?;
    let subject = format!("job {} ({})", job.job, printable(&job.name));
    Ok(question(
        &who,
        &headers,
        act,
        "/jobs",
        &of_job(job.job, ""),
        &subject,
    ))
}

pub(crate) async fn do_job(
    grid: Shared,
    who: LoggedIn,
    Path((job, verb)): Path<(String, String)>,
) -> Result<Response, PageError> {
    find(&JOB_ACTS, &verb)?;
    let job = number(&job)?;
    grid.of(&who).one(request_for(job, &verb)).await?;
    let back = match verb.as_str() {
        "forget" => "/jobs".to_owned(),
        _ => of_job(job, ""),
    };
    Ok(Redirect::to(&back).into_response())
}

fn request_for(job: JobId, verb: &str) -> Request {
    let jobs = Selector::Ids(IdSet::from_range(job.0, job.0));
    match verb {
        "retry" | "again" => Request::Retry {
            job,
            tasks: Selector::All,
            only_failed: verb == "retry",
        },
        "close" => Request::Close { jobs },
        "forget" => Request::Forget { jobs },
        _ => Request::Cancel { jobs, tasks: None },
    }
}

pub(crate) async fn ask_host(
    grid: Shared,
    who: LoggedIn,
    Path((host, verb)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let act = find(&HOST_ACTS, &verb)?;
    let hosts = grid.hosts(&who).await?;
    if !hosts.iter().any(|known| known.facts.name == host) {
        let what = format!("there is no host {}", printable(&host));
        return Err(PageError::not_found(what));
    }
    let back = format!("/hosts/{}", in_path(&host));
    Ok(question(
        &who,
        &headers,
        act,
        "/hosts",
        &back,
        &printable(&host),
    ))
}

pub(crate) async fn do_host(
    grid: Shared,
    who: LoggedIn,
    Path((host, verb)): Path<(String, String)>,
) -> Result<Response, PageError> {
    find(&HOST_ACTS, &verb)?;
    let back = format!("/hosts/{}", in_path(&host));
    let request = match verb.as_str() {
        "drain" => Request::Drain { host },
        "resume" => Request::Undrain { host },
        _ => Request::Revoke { name: host },
    };
    grid.of(&who).one(request).await?;
    Ok(Redirect::to(&back).into_response())
}

/// Asks whether to do something; the form goes to the address of the question itself.
fn question(
    who: &api::Who,
    headers: &HeaderMap,
    act: &Act,
    place: &'static str,
    back: &str,
    subject: &str,
) -> Response {
    let body = html! {
        h1 { (act.button) "?" }
        p.lead { "This changes " (subject) ": it " (act.question) }
        form.question method="post" {
            @if act.harms { button.danger autofocus { (act.button) } } @else { button autofocus { (act.button) } }
            a.action href=(back) { "No, go back" }
        }
    };
    HtmlPage {
        title: act.button.to_owned(),
        who,
        place,
        renewal: Renewal::Never,
        body,
    }
    .answer(headers)
}
