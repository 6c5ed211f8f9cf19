//! The page of a task: its attempts over time, what it wrote, and the files that it left.

use api::GridAccess;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;
use common::attempt::Stream;
use common::selector::Selector;
use common::text::{ShownOutput, printable};
use common::units::Bytes;
use common::view::{AttemptView, OutputView, TaskState, TaskView};
use common::{IdSet, TaskId};
use maud::{Markup, html};

use crate::error::PageError;
use crate::job::number;
use crate::parts::{StateLook, badge, count, host_link, of_job, shortened};
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};
use crate::timeline::timeline;
use crate::when::{clock, span};

/// The most bytes of each stream that are shown, as they are and as they are written in the page.
const OUTPUT: u64 = 48 * 1024;
/// The number of characters of its item that are shown.
const ITEM: usize = 4_000;
/// The most files that are listed.
const FILES: usize = 200;

pub(crate) async fn page(
    grid: Shared,
    who: LoggedIn,
    Path((job, task)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let job = number(&job)?;
    let nothing = || PageError::not_found(format!("job {job} has no task {}", printable(&task)));
    let index: u32 = task.parse().map_err(|_| nothing())?;
    let this = Selector::Ids(IdSet::from_range(index, index));
    let grid = grid.of(&who);
    let view = grid.tasks(job, this, Vec::new()).await?.pop();
    let view = view.ok_or_else(nothing)?;
    let output = grid.output(view.task).await?;

    let why = view.reason.as_deref().map(printable);
    let body = html! {
        h1 { "Task " (view.task) " " (badge(StateLook::of_task(view.state), &view.state)) }
        p.quiet {
            "of " a href=(of_job(job, "")) { "job " (job) }
            @if let Some(item) = &view.item { " · item " code { (shortened(item, ITEM)) } }
        }
        @if let Some(why) = why { p.sentence { (why) } }
        @if output.is_some() && view.is_unconfirmed() { p.sentence { (unconfirmed(view.state)) } }
        @if let Some(picture) = timeline(std::slice::from_ref(&view)) { (picture) }
        (attempts(&view))
        (written(&grid, &view, output.as_ref()).await?)
        @if let Some(output) = &output { (files(view.task, output)) }
    };
    Ok(HtmlPage {
        title: format!("{} · task {}", view.state, view.task),
        who: &who,
        place: "/jobs",
        renewal: Renewal::Always,
        body,
    }
    .answer(&headers))
}

/// Says that what is shown is of a result that others have not confirmed.
fn unconfirmed(state: TaskState) -> &'static str {
    match state {
        TaskState::Failed | TaskState::Cancelled => {
            "What is shown below is of one of its results, with which not enough others agreed."
        }
        _ => "What is shown below is of one of its results, which have to agree first.",
    }
}

fn attempts(task: &TaskView) -> Markup {
    html! {
        section aria-labelledby="attempts" {
            h2 #attempts { (count(task.attempts.len() as u64, "attempt", "attempts")) }
            ol.attempts reversed { @for attempt in task.attempts.iter().rev() { (line(attempt)) } }
        }
    }
}

fn line(attempt: &AttemptView) -> Markup {
    html! {
        li value=(attempt.attempt.number) {
            (badge(StateLook::of_attempt(attempt.state), &attempt.state))
            " on " (host_link(&attempt.host)) ", assigned " (clock(attempt.assigned))
            @if let Some(finished) = attempt.finished { ", ended " (clock(finished)) }
            @if let Some(ran) = attempt.run_in_words() { ", ran " (ran) }
            @if attempt.cpu.0 > 0 { " (processor " (attempt.cpu) ")" }
            @if attempt.suspended.0 > 0 { ", suspended " (span(attempt.suspended)) }
            @if let Some(code) = attempt.exit_code { ", exit code " (code) }
            @if attempt.duplicate { " · a copy" }
            @if let Some(part) = attempt.progress {
                p { progress max="1" value=(part) { ((part * 100.0) as u32) " %" } " " ((part * 100.0) as u32) " %"
                    @if let Some(words) = &attempt.words { " " (printable(words)) } }
            }
            @if let Some(reason) = &attempt.reason { p.quiet { (printable(reason)) } }
            @if let Some(saved) = &attempt.saved { p.quiet { "saved its state at " (clock(saved.taken)) ": " (Bytes(saved.bytes)) } }
        }
    }
}

/// Shows both streams: what is stored, or while it runs what its host has, which the script fetches.
async fn written(
    grid: &GridAccess,
    task: &TaskView,
    output: Option<&OutputView>,
) -> Result<Markup, PageError> {
    let runs = task.attempts.iter().any(|attempt| attempt.state.live());
    let mut shown = Vec::new();
    for (name, word) in [("stdout", "Standard output"), ("stderr", "Standard error")] {
        let stream = output.map(|output| match name {
            "stdout" => &output.stdout.0,
            _ => &output.stderr.0,
        });
        let text = match stream {
            Some(stream) if !runs => stored(grid, stream).await?,
            _ => html! {},
        };
        shown.push((name, word, text));
    }

    let base = format!("/api/v1/jobs/{}/tasks/{}", task.task.job, task.task.index);
    Ok(html! {
        @for (name, word, text) in &shown {
            @let follow = format!("{base}/{name}?follow=1&from=newest");
            section.written aria-labelledby=(name) {
                h2 #(name) { (word) " " a.action href={ (base) "/" (name) } { "Download" } }
                pre tabindex="0" aria-labelledby=(name) data-follow=[runs.then_some(follow)] { (text) }
                @if runs { noscript { p.quiet { "Without JavaScript it is shown once the task has ended; deskgrid task tail " (task.task) " shows it as it comes." } } }
            }
        }
    })
}

async fn stored(grid: &GridAccess, stream: &Stream) -> Result<Markup, PageError> {
    let (bytes, cut) = grid.end_of(&stream.content, OUTPUT).await?;
    let text = ShownOutput::default().piece(&bytes);
    let shown = end_that_fits(&text);
    Ok(html! {
        @if cut || shown.len() < text.len() { "(its end; all of it is in the download)\n" }
        (shown)
        @if stream.dropped > 0 { "\n(" (Bytes(stream.dropped)) " more were dropped at the limit)" }
    })
}

/// The end of a text that takes no more than its share of the page: marks of HTML are escaped there.
fn end_that_fits(text: &str) -> &str {
    let mut left = OUTPUT as usize;
    let escaped = |c: char| match c {
        '<' | '>' => 4,
        '&' => 5,
        '"' => 6,
        c => c.len_utf8(),
    };

    for (at, c) in text.char_indices().rev() {
        match left.checked_sub(escaped(c)) {
            Some(rest) => left = rest,
            None => return &text[at + c.len_utf8()..],
        }
    }
    text
}

fn files(task: TaskId, output: &OutputView) -> Markup {
    let base = format!("/api/v1/jobs/{}/tasks/{}/files/", task.job, task.index);
    html! {
        @if !output.warnings.is_empty() {
            ul.warnings { @for warning in &output.warnings { li { (printable(warning)) } } }
        }
        @if !output.files.is_empty() {
            section aria-labelledby="files" {
                h2 #files { (count(output.files.len() as u64, "file", "files")) }
                ul { @for file in output.files.iter().take(FILES) {
                    li { a href={ (base) (path(file.path.as_str())) } { (printable(file.path.as_str())) } " " span.quiet { (Bytes(file.blob.size)) } }
                } }
                @if output.files.len() > FILES { p.quiet { "and " (output.files.len() - FILES) " more: deskgrid job fetch brings all" } }
            }
        }
    }
}

/// Writes a path below an attempt's directory as a part of an address.
fn path(path: &str) -> String {
    let names: Vec<String> = path.split('/').map(crate::parts::in_path).collect();
    names.join("/")
}
