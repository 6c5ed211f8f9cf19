//! The command line of deskgrid: reads what was asked for, composes the other rooms, and prints for
//! people and for scripts.
//!
//! What is not here: scheduling (`scheduler`), the master's and the worker's work (`master`,
//! `worker`), and how they talk (`link`).

mod args;
mod commands;
mod demo;
mod failure;
mod files;
mod handed;
mod logs;
mod output;
mod parallel;
mod progress;
#[cfg(unix)]
mod service;
mod session;
mod silence;
mod state;
mod submit;
mod usage;
mod watch;

use std::process::ExitCode;

pub use failure::Exit;

/// Whether these bytes are a job file, as `submit --job-file` reads them.
///
/// # Errors
/// Says the line, and what in it makes no sense.
pub fn check_job_file(bytes: &[u8]) -> Result<(), String> {
    submit::parse_job_file(bytes).map_err(|error| error.to_string())
}

/// Runs the command that this process was called with.
pub fn main() -> ExitCode {
    let handed = handed::take();
    let cli = match usage::parse(&handed.words) {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let mode = cli.global.output;

    match commands::run(cli, handed.join) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::Output::failure(mode, &failure);
            failure.exit.into()
        }
    }
}
