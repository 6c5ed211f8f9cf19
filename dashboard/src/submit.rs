//! The form that submits a job. Its first button only asks: what it would take, until when, and
//! whether a deadline would be promised. The second one submits what was asked about.

use api::json::SubmitAnswer;
use api::{GridAccess, JobBody};
use axum::Form;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use common::text::printable;
use common::view::CounterView;
use common::wire::client::{Reply, Request};
use common::{JobSpec, RequestId, SubmitOptions};
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::error::PageError;
use crate::parts::{count, of_job};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};
use crate::when::{clock, span};

/// The fields of the form.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JobForm {
    /// The number of the submission: sent twice, it is one job.
    id: Uuid,
    name: String,
    command: String,
    array: String,
    items: String,
    estimate: String,
    deadline: String,
    retries: String,
    needs: String,
    label: String,
    /// Whether to submit, not only to ask.
    go: bool,
}

/// The master's answer to the question.
enum FormAnswer {
    /// Nothing was asked yet.
    Nothing,
    /// A forecast of the job.
    Would(Box<SubmitAnswer>),
    /// The deadline cannot be promised.
    NotPromised(Box<CounterView>),
    /// It was not understood, or is not allowed: what happened, and what to do.
    Refused(String, String),
}

impl FormAnswer {
    fn of(error: &PageError) -> Self {
        let (what, hint) = error.words();
        FormAnswer::Refused(what.to_owned(), hint.to_owned())
    }
}

pub(crate) async fn form(who: LoggedIn, headers: HeaderMap) -> Response {
    let empty = JobForm {
        id: new_id(),
        ..JobForm::default()
    };
    show(&who, &headers, &empty, &FormAnswer::Nothing)
}

pub(crate) async fn send(
    grid: Shared,
    who: LoggedIn,
    headers: HeaderMap,
    Form(mut form): Form<JobForm>,
) -> Result<Response, PageError> {
    let grid = grid.of(&who);
    let mut reply = ask(&grid, &form).await;
    if reply.as_ref().is_err_and(PageError::is_conflict) {
        // A browser may bring back a form that was submitted. With other words it is another job, and
        // its user sees first what would happen.
        form.id = new_id();
        form.go = false;
        reply = ask(&grid, &form).await;
    }

    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return Ok(show(&who, &headers, &form, &FormAnswer::of(&error))),
    };
    let answer = match SubmitAnswer::of(reply, !form.go).map_err(|_| PageError::unexpected())? {
        Ok(SubmitAnswer { job: Some(job), .. }) => {
            return Ok(Redirect::to(&of_job(job, "")).into_response());
        }
        Ok(answer) => FormAnswer::Would(Box::new(answer)),
        Err(counter) => FormAnswer::NotPromised(Box::new(counter)),
    };
    Ok(show(&who, &headers, &form, &answer))
}

/// Asks the master about the job of a form, or submits it.
async fn ask(grid: &GridAccess, form: &JobForm) -> Result<Reply, PageError> {
    let (spec, asked) = form.read()?;
    let request = Request::Submit {
        id: RequestId(form.id),
        spec: grid.submission(spec, asked).await?,
        disclosed: false,
        dry_run: !form.go,
    };
    Ok(grid.one(request).await?)
}

fn new_id() -> Uuid {
    Uuid::from_bytes(rand::random())
}

impl JobForm {
    /// Makes the job.
    fn read(&self) -> Result<(JobSpec, SubmitOptions), PageError> {
        let command = shlex::split(&self.command).ok_or_else(|| {
            let hint = "write a program and its arguments as in a shell: sh -c 'echo %{TASK_ID}'";
            PageError::invalid("a quote in the command does not end", hint)
        })?;
        let retries = match self.retries.trim() {
            "" => Ok(0),
            text => text.parse(),
        };

        let mut body = JobBody::default();
        body.command = command;
        body.name = filled(&self.name);
        body.array = filled(&self.array);
        body.items = lines(&self.items);
        body.estimate = filled(&self.estimate);
        body.deadline = filled(&self.deadline);
        body.retries = retries
            .map_err(|_| PageError::invalid("the number of tries is none", "write 0, 1, 2 …"))?;
        body.needs = filled(&self.needs).into_iter().collect();
        body.label = self.label.split([',', ' ']).filter_map(filled).collect();

        let (spec, asked) = body.job()?;
        let checked = spec.check().and_then(|()| asked.check(&spec));
        checked.map_err(|bad| PageError::invalid(bad.to_string(), ""))?;
        Ok((spec, asked))
    }
}

/// Returns what was filled in, if something was.
fn filled(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter_map(filled).collect()
}

fn show(who: &api::Who, headers: &HeaderMap, form: &JobForm, answer: &FormAnswer) -> Response {
    let may = matches!(answer, FormAnswer::Would(_));
    let body = html! {
        h1 { "Submit a bag of tasks" }
        (said(answer))
        form.submit method="post" action="/submit" {
            input type="hidden" name="id" value=(form.id);
            (field("command", "Command", &form.command, "sh -c 'echo task %{TASK_ID}'", "No shell is involved; %{TASK_ID} and %{ITEM} stand for the task."))
            (field("array", "Tasks, by number", &form.array, "1-100", "Left empty: one task, or one for each item."))
            label for="items" { "Items, one task for each line" }
            textarea #items name="items" rows="4" spellcheck="false" { (form.items) }
            (field("name", "Name", &form.name, "sweep-beta", "Left empty: the program's."))
            div.pair {
                (field("estimate", "A task takes about", &form.estimate, "10m", "On a host of speed 1. It makes the prediction better."))
                (field("deadline", "All done within", &form.deadline, "4h", "Taken only if it can be promised."))
                (field("retries", "Tries after a failure", &form.retries, "0", ""))
                (field("needs", "Each task needs", &form.needs, "mem=4G,cpus=2", "os, arch, cpus, mem, gpu, disk, label"))
                (field("label", "Labels", &form.label, "sweep7", "By which you find it again."))
            }
            p.actions {
                button { "See what would happen" }
                @if may { " " button.go name="go" value="true" { "Submit it" } }
            }
            p.quiet { "Files of yours travel with the command line: deskgrid submit --input ./sim -- ./sim %{TASK_ID}" }
        }
    };
    HtmlPage {
        title: "submit".to_owned(),
        who,
        place: "/submit",
        renewal: Renewal::Never,
        body,
    }
    .answer(headers)
}

fn field(name: &str, word: &str, value: &str, example: &str, hint: &str) -> Markup {
    let described = format!("{name}-hint");
    html! {
        div.field {
            label for=(name) { (word) }
            input id=(name) name=(name) value=(value) placeholder=(example) autocomplete="off" spellcheck="false"
                aria-describedby=[(!hint.is_empty()).then_some(&described)];
            @if !hint.is_empty() { small id=(described) { (hint) } }
        }
    }
}

fn said(answer: &FormAnswer) -> Markup {
    html! {
        @match answer {
            FormAnswer::Nothing => {}
            FormAnswer::Refused(what, hint) => {
                div.said.bad role="alert" { strong { (printable(what)) } @if !hint.is_empty() { " Try: " (printable(hint)) } }
            }
            FormAnswer::NotPromised(counter) => {
                div.said.bad role="alert" {
                    strong { "This deadline cannot be promised." } " " (printable(&counter.why))
                    @if let Some((earliest, after)) = counter.earliest {
                        " The earliest that can be is " strong { (clock(earliest)) } ", " (span(after)) " from now."
                    }
                    @if !counter.fits.is_empty() { " Of its tasks " (count(counter.fits.len(), "one", "of them")) " could be done in time." }
                }
            }
            FormAnswer::Would(answer) => {
                @let SubmitAnswer { tasks, predicted, promise, nowhere, .. } = &**answer;
                div.said role="status" {
                    strong { (count(*tasks, "task", "tasks")) } " would be taken."
                    @if let Some(end) = predicted {
                        " They should be done at " strong { (clock(end.finish)) }
                        @if let Some((low, high)) = end.interval { " (four times out of five between " (clock(low)) " and " (clock(high)) ")" }
                        "."
                    } @else { " When they will be done cannot be predicted yet." }
                    @if let Some(promise) = promise {
                        " The deadline " strong { (clock(promise.deadline)) } " would be promised; it holds with a probability of "
                        (format!("{:.0} %", promise.probability * 100.0)) "."
                    }
                    @if let Some(nowhere) = nowhere { p.bad { "They would wait until the hosts suffice: " (printable(nowhere)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_in_a_form_is_told_with_what_to_write() {
        let form = |command: &str| JobForm {
            command: command.into(),
            ..JobForm::default()
        };
        form("true").read().expect("a job of one task");
        let text = |text: &str| text.to_owned();
        for (form, said) in [
            (form(""), "a job needs a program"),
            (form("sh -c 'x"), "a quote in the command"),
            (form("echo %{WHAT}"), "`command`"),
            (
                JobForm {
                    array: text("5-1"),
                    ..form("true")
                },
                "ends before it starts",
            ),
            (
                JobForm {
                    estimate: text("soon"),
                    ..form("true")
                },
                "`estimate`",
            ),
            (
                JobForm {
                    retries: text("-1"),
                    ..form("true")
                },
                "write 0, 1",
            ),
            (
                JobForm {
                    needs: text("mem=1"),
                    ..form("true")
                },
                "write a number with M, G or T",
            ),
            (
                JobForm {
                    label: text("a/b"),
                    ..form("true")
                },
                "is no label",
            ),
            (
                JobForm {
                    array: text("1-2"),
                    items: text("x"),
                    ..form("true")
                },
                "an array already",
            ),
        ] {
            let error = form.read().expect_err(said);
            let (what, hint) = error.words();
            assert!(format!("{what} {hint}").contains(said), "{what} {hint}");
        }
    }

    #[test]
    fn each_item_is_a_task() {
        let form = JobForm {
            command: "convert %{ITEM}".into(),
            items: "a.png\n\n b.png \n".into(),
            ..JobForm::default()
        };
        let (spec, _) = form.read().expect("it makes sense");
        assert_eq!(spec.tasks.items, ["a.png", "b.png"]);
        assert_eq!((spec.tasks.ids.len(), spec.name.as_str()), (2, "convert"));
    }
}
