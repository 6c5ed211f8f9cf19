//! From what the user said to a job: everything is read and checked here before the master hears of it.
//!
//! What is not here: the connection. [`plan`] needs the local files only; [`send`] uploads and submits.

pub mod error;
mod inputs;
mod items;
mod jobfile;
pub mod plan;
mod policy;
pub mod send;

pub use error::BuildError;
pub use jobfile::read as read_job_file;
pub use plan::{Plan, plan};
pub use policy::known as known_policy;
