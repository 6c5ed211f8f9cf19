//! Changes that pages make: each button leads to a question, and only its answer, a form that was sent
//! from this server's own page, changes anything.

use axum::Form;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use common::selector::Selector;
use common::text::printable;
use common::token::Role;
use common::wire::client::Request;
use common::{IdSet, JobId, Span};
use maud::html;
use serde::Deserialize;

use crate::error::PageError;
use crate::job::number;
use crate::parts::{in_path, of_job};
use crate::shell::{HtmlPage, LoggedIn, Shared};

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
        form.question method="post" action={ (back) "/" (act.verb) } {
            @if act.harms { button.danger autofocus { (act.button) } } @else { button autofocus { (act.button) } }
            a.action href=(back) { "No, go back" }
        }
    };
    HtmlPage {
        title: act.button.to_owned(),
        who,
        place,
        body,
    }
    .answer(headers)
}

/// The fields of an admin's forms.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AdminForm {
    name: String,
    role: String,
    uses: u32,
    hours: u32,
    id: u32,
}

pub(crate) async fn do_admin(
    grid: Shared,
    who: LoggedIn,
    Path(verb): Path<String>,
    headers: HeaderMap,
    Form(form): Form<AdminForm>,
) -> Result<Response, PageError> {
    let request = match verb.as_str() {
        "token" => Request::TokenCreate {
            role: match form.role.as_str() {
                "worker" => Role::Worker,
                "client" => Role::Client,
                _ => {
                    return Err(PageError::invalid(
                        "a token is for a worker or a client",
                        "",
                    ));
                }
            },
            ttl: Span::from_secs(u64::from(form.hours.clamp(1, 24 * 365)) * 3_600),
            uses: form.uses.clamp(1, 10_000),
            name: form.name,
            approval: false,
            speaks_for: None,
        },
        "revoke-token" => Request::TokenRevoke { id: form.id },
        "approve" => Request::Approve { name: form.name },
        "revoke" => Request::Revoke { name: form.name },
        _ => return Err(PageError::not_found("there is nothing at this path")),
    };

    match grid.of(&who).one(request).await? {
        common::wire::client::Reply::Token(token, ..) => {
            let body = html! {
                h1 { "A token" }
                p.lead { "This is the only time that it is shown:" }
                pre.token { (token) }
                p { a.action href="/admin" { "Back" } }
            };
            Ok(HtmlPage {
                title: "a token".to_owned(),
                who: &who,
                place: "/admin",
                body,
            }
            .answer(&headers))
        }
        _ => Ok(Redirect::to("/admin").into_response()),
    }
}
