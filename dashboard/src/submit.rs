//! The form that submits a job. Its first button only asks: what it would take, until when, and
//! whether a deadline would be promised. The second one submits what was asked about.

use std::collections::BTreeSet;

use axum::Form;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use common::job::{CommandSpec, Rules, Work};
use common::needs::Needs;
use common::selector::Selector;
use common::template::Template;
use common::text::printable;
use common::view::{CounterView, Forecast, PromiseView};
use common::wire::client::{Reply, Request, Submission};
use common::{IdSet, JobSpec, RequestId, Span, SubmitOptions, TaskSet};
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::parts::count;
use crate::shell::{Page, Shared, Viewer};
use crate::trouble::Trouble;
use crate::when::{clock, span};

/// What was filled in.
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

/// What the master said to the question.
enum Answer {
    /// Nothing was asked yet.
    Nothing,
    /// What would come of it.
    Would {
        tasks: u64,
        predicted: Option<Forecast>,
        promise: Option<PromiseView>,
        nowhere: Option<String>,
    },
    /// The deadline cannot be promised.
    NotPromised(Box<CounterView>),
    /// It was not understood, or is not allowed: what happened, and what to do.
    Refused(String, String),
}

pub(crate) async fn form(who: Viewer, headers: HeaderMap) -> Response {
    let empty = JobForm {
        id: Uuid::new_v4(),
        ..JobForm::default()
    };
    show(&who, &headers, &empty, &Answer::Nothing)
}

pub(crate) async fn send(
    grid: Shared,
    who: Viewer,
    headers: HeaderMap,
    Form(form): Form<JobForm>,
) -> Result<Response, Trouble> {
    let submission = match form.read() {
        Ok(submission) => submission,
        Err((what, hint)) => {
            let refused = Answer::Refused(what, hint.to_owned());
            return Ok(show(&who, &headers, &form, &refused));
        }
    };
    let request = Request::Submit {
        id: RequestId(form.id),
        spec: submission,
        disclosed: false,
        dry_run: !form.go,
    };

    let answer = match grid.one(&who, request).await {
        Ok(Reply::Submitted { job: Some(job), .. }) => {
            return Ok(Redirect::to(&format!("/jobs/{job}")).into_response());
        }
        Ok(Reply::Submitted {
            tasks,
            predicted,
            promise,
            nowhere,
            ..
        }) => Answer::Would {
            tasks,
            predicted,
            promise,
            nowhere,
        },
        Ok(Reply::NotPromised(counter)) => Answer::NotPromised(counter),
        Ok(_) => return Err(Trouble::unexpected()),
        Err(trouble) => {
            let (what, hint) = trouble.words();
            Answer::Refused(what.to_owned(), hint.to_owned())
        }
    };
    Ok(show(&who, &headers, &form, &answer))
}

impl JobForm {
    /// Makes the submission. The error says what makes no sense, and what to write.
    fn read(&self) -> Result<Submission, (String, &'static str)> {
        let words = shlex::split(&self.command).filter(|words| !words.is_empty());
        let words = words.ok_or((
            "the command is empty, or a quote in it does not end".to_owned(),
            "write a program and its arguments, as in a shell: sh -c 'echo %{TASK_ID}'",
        ))?;
        let argv: Result<Vec<Template>, _> = words.iter().map(|word| word.parse()).collect();
        let argv = argv.map_err(|bad| {
            (
                format!("in the command: {bad}"),
                "%{TASK_ID} and %{ITEM} stand for the task",
            )
        })?;

        let rules = Rules {
            retries: number(&self.retries)?,
            estimate: duration("estimate", &self.estimate)?,
            deadline: duration("deadline", &self.deadline)?,
            needs: self.needs()?,
            ..Rules::default()
        };
        let name = match self.name.trim() {
            "" => words[0].rsplit('/').next().unwrap_or("job").to_owned(),
            name => name.to_owned(),
        };
        let spec = JobSpec {
            name,
            tasks: self.tasks()?,
            work: Work::Command(CommandSpec::new(argv)),
            rules,
        };
        let asked = SubmitOptions {
            labels: self.labels()?,
            ..SubmitOptions::default()
        };
        Ok(Submission::Inline(Box::new(spec), asked))
    }

    fn tasks(&self) -> Result<TaskSet, (String, &'static str)> {
        let items: Vec<String> = self
            .items
            .lines()
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect();
        let ids = match (items.len(), self.array.trim()) {
            (0, "") => IdSet::from_range(1, 1),
            (0, array) => match array.parse() {
                Ok(Selector::Ids(ids)) => ids,
                Ok(_) => {
                    return Err(("`all` and `last` number no tasks".to_owned(), "write 1-100"));
                }
                Err(bad) => return Err((bad.to_string(), "write 1-100 for a hundred tasks")),
            },
            (count, "") => IdSet::from_range(1, u32::try_from(count).unwrap_or(u32::MAX)),
            _ => {
                let what = "both numbers and items are given".to_owned();
                return Err((what, "leave one of them empty: each item is a task"));
            }
        };
        Ok(TaskSet { ids, items })
    }

    fn needs(&self) -> Result<Needs, (String, &'static str)> {
        if self.needs.trim().is_empty() {
            return Ok(Needs::default());
        }
        Needs::parse([self.needs.trim()]).map_err(|bad| (bad.to_string(), ""))
    }

    fn labels(&self) -> Result<BTreeSet<common::needs::Label>, (String, &'static str)> {
        let labels = self
            .label
            .split([',', ' '])
            .filter(|label| !label.is_empty());
        labels
            .map(|label| {
                label
                    .parse()
                    .map_err(|bad: common::needs::BadNeeds| (bad.to_string(), ""))
            })
            .collect()
    }
}

fn number(text: &str) -> Result<u32, (String, &'static str)> {
    match text.trim() {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            (
                "the number of retries is none".to_owned(),
                "write 0, 1, 2 …",
            )
        }),
    }
}

fn duration(what: &str, text: &str) -> Result<Option<Span>, (String, &'static str)> {
    match text.trim() {
        "" => Ok(None),
        text => match humantime::parse_duration(text) {
            Ok(duration) => Ok(Some(duration.into())),
            Err(_) => Err((
                format!("the {what} is no duration"),
                "write 90s, 10m or 1h30m",
            )),
        },
    }
}

fn show(who: &api::Who, headers: &HeaderMap, form: &JobForm, answer: &Answer) -> Response {
    let may = matches!(answer, Answer::Would { .. });
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
                button { "What would come of it?" }
                @if may { " " button.go name="go" value="true" { "Submit it" } }
            }
            p.quiet { "Files of yours travel with the command line: deskgrid submit --input ./sim -- ./sim %{TASK_ID}" }
        }
    };
    Page {
        title: "submit".to_owned(),
        who,
        place: "/submit",
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

fn said(answer: &Answer) -> Markup {
    html! {
        @match answer {
            Answer::Nothing => {}
            Answer::Refused(what, hint) => {
                div.said.bad role="alert" { strong { (printable(what)) } @if !hint.is_empty() { " Try: " (printable(hint)) } }
            }
            Answer::NotPromised(counter) => {
                div.said.bad role="alert" {
                    strong { "This deadline cannot be promised." } " " (printable(&counter.why))
                    @if let Some((earliest, after)) = counter.earliest {
                        " The earliest that can be is " strong { (clock(earliest)) } ", " (span(after)) " from now."
                    }
                    @if !counter.fits.is_empty() { " Of its tasks " (count(counter.fits.len(), "one", "of them")) " could be done in time." }
                }
            }
            Answer::Would { tasks, predicted, promise, nowhere } => {
                div.said role="status" {
                    strong { (count(*tasks, "task", "tasks")) } " would be taken."
                    @if let Some(end) = predicted {
                        " They should be done at " strong { (clock(end.finish)) }
                        @if let Some((low, high)) = end.interval { " (four times out of five between " (clock(low)) " and " (clock(high)) ")" }
                        "."
                    } @else { " There is no prediction: give the time that a task takes." }
                    @if let Some(promise) = promise {
                        " The deadline " strong { (clock(promise.deadline)) } " would be promised; it holds with a probability of "
                        (format!("{:.0} %", promise.probability * 100.0)) "."
                    }
                    @if let Some(nowhere) = nowhere { p.bad { "No host could ever run one: " (printable(nowhere)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(form: JobForm) -> String {
        let (what, hint) = form.read().expect_err("it makes no sense");
        format!("{what}: {hint}")
    }

    #[test]
    fn nonsense_in_a_form_is_told_with_what_to_write() {
        let ok = JobForm {
            command: "true".into(),
            ..JobForm::default()
        };
        ok.read().expect("a job of one task");
        let with = |change: fn(&mut JobForm)| {
            let mut form = ok.clone();
            change(&mut form);
            refused(form)
        };

        for (change, said) in [
            (
                (|form: &mut JobForm| form.command = "sh -c 'x".into()) as fn(&mut JobForm),
                "a quote in it",
            ),
            (
                |form| form.command = "echo %{WHAT}".into(),
                "in the command",
            ),
            (|form| form.array = "5-1".into(), "ends before it starts"),
            (|form| form.estimate = "soon".into(), "write 90s"),
            (|form| form.retries = "-1".into(), "write 0, 1"),
            (
                |form| form.needs = "mem=1".into(),
                "write a number with M, G or T",
            ),
            (|form| form.label = "a/b".into(), "is no label"),
            (
                |form| (form.array, form.items) = ("1-2".into(), "x".into()),
                "leave one of them empty",
            ),
        ] {
            let why = with(change);
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn each_item_is_a_task() {
        let form = JobForm {
            command: "convert %{ITEM}".into(),
            items: "a.png\n\n b.png \n".into(),
            ..JobForm::default()
        };
        let Ok(Submission::Inline(spec, _)) = form.read() else {
            panic!("it makes sense");
        };
        assert_eq!(spec.tasks.items, ["a.png", "b.png"]);
        assert_eq!((spec.tasks.ids.len(), spec.name.as_str()), (2, "convert"));
    }
}
