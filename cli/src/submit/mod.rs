//! Turns the options of `deskgrid submit` into a job. Everything is read and checked here before
//! the master is asked.
//!
//! [`plan`] needs the local files only; [`send`] uploads and submits.

pub(crate) mod error;
mod inputs;
mod items;
mod jobfile;
pub(crate) mod plan;
mod policy;
pub(crate) mod send;
mod tree;

use crate::args::SubmitArgs;
use crate::args::submit::JobArgs;
pub(crate) use error::BuildError;
pub(crate) use plan::{SubmitPlan, new_tasks, no_limits, plan};
pub(crate) use policy::{holds_disclosed, known as known_policy, nearest};

/// Returns the options of a job: those of its job file, if there is one, under those of the command line.
///
/// # Errors
/// If the job file cannot be read or understood, or more than one list is to come from standard input.
pub(crate) fn options(args: &SubmitArgs) -> Result<JobArgs, BuildError> {
    let path = args.job_file.as_deref();
    items::check_stdin(path, &args.job)?;
    let Some(path) = path else {
        return Ok(args.job.clone());
    };

    let job = args.job.clone().over(jobfile::read(path)?);
    items::check_stdin(Some(path), &job)?;
    Ok(job)
}

/// Checks whether `bytes` are a job file.
///
/// # Errors
/// As of a job file in [`options`].
pub(crate) fn parse_job_file(bytes: &[u8]) -> Result<(), BuildError> {
    jobfile::parse(bytes, std::path::Path::new("the job file")).map(drop)
}
