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

pub(crate) use error::BuildError;
pub(crate) use jobfile::read as read_job_file;
pub(crate) use plan::{SubmitPlan, new_tasks, no_limits, plan};
pub(crate) use policy::{holds_disclosed, known as known_policy, nearest};

/// Checks whether `bytes` are a job file.
///
/// # Errors
/// As [`read_job_file`].
pub(crate) fn parse_job_file(bytes: &[u8]) -> Result<(), BuildError> {
    jobfile::parse(bytes, std::path::Path::new("the job file")).map(drop)
}
