//! Checks a submission before the core sees it.

use common::job::{JobSpec, SubmitOptions};
use common::wire::{Refusal, RefusalCode};
use common::{AttemptId, Incarnation, JobId, TaskId};
use scheduler::policy::Width;

use super::assign::assignment;
use super::mail::{MAX_ASSIGNMENT, assignment_bytes};

/// Checks a submission; takes time in proportion to its list of items.
///
/// # Errors
/// Returns the first fault found.
pub(crate) fn check_spec(spec: &JobSpec, asked: &SubmitOptions) -> Result<(), Refusal> {
    let invalid = |what: String, hint: &str| Refusal::new(RefusalCode::Invalid, what, hint);
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

    let Some(command) = spec.work.command() else {
        return Ok(());
    };
    let differ = !spec.tasks.items.is_empty()
        || command
            .inputs
            .iter()
            .any(|input| input.name.mentions("TASK_ID"));
    let alike = if differ { usize::MAX } else { 1 };

    for (index, position) in spec.tasks.ids.iter().zip(0..).take(alike) {
        // Job, host and incarnation are not known yet; any show whether the rest makes sense.
        let attempt = AttemptId {
            task: TaskId::new(JobId(0), index),
            number: 1,
            incarnation: Incarnation(0),
        };
        let anywhere = ("host", "linux-x86_64");
        let tried = assignment(spec, (attempt, position), anywhere, None, None, None);
        let tried = tried.map_err(|bad| {
            let hint = "give the input another name: --input FILE:NAME";
            invalid(format!("task {index}: input: {bad}"), hint)
        })?;
        if assignment_bytes(&tried) > MAX_ASSIGNMENT {
            let what = format!(
                "task {index}: its command, environment and file names take more than {MAX_ASSIGNMENT} bytes"
            );
            return Err(invalid(what, "put long lists into an input file"));
        }
    }

    Ok(())
}
