//! Checks a submission, and tasks that are added to a job, before they are kept.

use common::job::{JobSpec, SubmitOptions};
use common::path::{BadPath, PortablePath};
use common::ranks::MAX_RANKS;
use common::template::TemplateValues;
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, Incarnation, JobId, TaskId, TaskSet};
use scheduler::policy::Width;

use super::assign::command_bytes;
use super::mail::MAX_ASSIGNMENT;

/// The longest name of a host: what a worker may ask for, with a number behind it where others have
/// that name.
const LONGEST_HOST: usize = 64 + 1 + 10;
/// The longest name of a platform.
const LONGEST_PLATFORM: usize = 32 + 1 + 32;

fn invalid(what: String, hint: &str) -> Refusal {
    Refusal::new(RefusalCode::Invalid, what, hint)
}

/// Checks a submission; takes time in proportion to its list of items.
///
/// # Errors
/// Returns the first fault found.
pub(crate) fn check_spec(spec: &JobSpec, asked: &SubmitOptions) -> Result<(), Refusal> {
    let bad = spec.check().and_then(|()| asked.check(spec));
    bad.map_err(|bad| invalid(bad.to_string(), "nothing was submitted"))?;

    let policy = scheduler::policy::parse(&spec.rules.policy)
        .map_err(|bad| invalid(bad.to_string(), "see `deskgrid policy list`"))?;
    if spec.work.ranks().is_some() == (policy.width == Width::Rigid) {
        let what = format!(
            "the policy {} and the job's width do not go together",
            policy.name
        );
        let names = scheduler::policy::names(|row| row.width != Width::Rigid);
        let hint = format!(
            "jobs with a width have a policy that decides on widths ({names}), and others have not"
        );
        return Err(invalid(what, &hint));
    }

    check_tasks(spec, &spec.tasks)
}

/// Checks that these tasks of a job, all or those that are added to it, can be assigned to hosts.
///
/// # Errors
/// Returns the first fault found.
pub(super) fn check_tasks(spec: &JobSpec, tasks: &TaskSet) -> Result<(), Refusal> {
    check_length(spec, tasks)?;
    check_names(spec, tasks)
}

/// Refuses tasks whose assignment could be longer than a host is sent, whatever the numbers of the job
/// and of the attempt are, and wherever it goes.
fn check_length(spec: &JobSpec, tasks: &TaskSet) -> Result<(), Refusal> {
    let Some(command) = spec.work.command() else {
        return Ok(());
    };
    let listed = tasks.items.iter().enumerate();
    let longest = listed.max_by_key(|(_, item)| item.len());
    let last = tasks.ids.ranges().last().map_or(0, |(_, last)| last);
    // The ranks of a gang are numbered once it starts.
    let width = spec.work.ranks().map(|_| MAX_RANKS);

    let values = TemplateValues {
        attempt: AttemptId {
            task: TaskId::new(JobId(u32::MAX), width.unwrap_or(last)),
            number: u32::MAX,
            incarnation: Incarnation(0),
        },
        host: &"h".repeat(LONGEST_HOST),
        platform: &"p".repeat(LONGEST_PLATFORM),
        item: longest.map_or("", |(_, item)| item.as_str()),
        width,
    };
    let bytes = command_bytes(command, &values);
    if bytes <= MAX_ASSIGNMENT {
        return Ok(());
    }

    let index = longest.and_then(|(position, _)| tasks.ids.iter().nth(position));
    let index = index.unwrap_or(last);
    let what = format!(
        "task {index}: its command, environment and file names can take {bytes} bytes, with host names of {LONGEST_HOST} bytes and numbers of ten digits, and a host is sent {MAX_ASSIGNMENT} at most"
    );
    Err(invalid(what, "put long lists into an input file"))
}

/// Refuses tasks with an input whose name, expanded, is no portable path.
fn check_names(spec: &JobSpec, tasks: &TaskSet) -> Result<(), Refusal> {
    let inputs = spec
        .work
        .command()
        .map_or(&[][..], |command| &command.inputs);
    let differ = inputs.iter().any(|input| {
        let of_task = ["TASK_ID", "ITEM", "RANK"];
        of_task.iter().any(|name| input.name.mentions(name))
    });
    let alike = if differ { usize::MAX } else { 1 };

    for (index, position) in tasks.ids.iter().zip(0..).take(alike) {
        // Job, host and incarnation are not known yet; any show whether the rest makes sense.
        let values = TemplateValues {
            attempt: AttemptId {
                task: TaskId::new(JobId(0), index),
                number: 1,
                incarnation: Incarnation(0),
            },
            host: "host",
            platform: "linux-x86_64",
            item: tasks.item_at(position),
            width: spec.width(),
        };

        for input in inputs {
            let path: Result<PortablePath, BadPath> = input.name.expand(&values).try_into();
            path.map_err(|bad| {
                let hint = "give the input another name: --input FILE:NAME";
                invalid(format!("task {index}: input: {bad}"), hint)
            })?;
        }
    }

    Ok(())
}
