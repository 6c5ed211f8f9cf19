//! The command line of deskgrid: parses the arguments, runs the command with the other crates, and
//! prints the answer for people or for scripts.
//!
//! Scheduling lives in `scheduler`, the master's and the worker's work in `master` and `worker`,
//! and the protocol between them in `link`.

// The program for PCs that only work uses a part of what the others share.
#![cfg_attr(
    not(feature = "whole"),
    allow(dead_code, unreachable_pub, unused_imports)
)]

mod args;
mod commands;
#[cfg(feature = "whole")]
mod demo;
mod failure;
mod files;
mod handed;
#[cfg(any(target_os = "macos", all(test, unix)))]
mod launchd;
mod logs;
mod output;
#[cfg(feature = "whole")]
mod package;
#[cfg(feature = "whole")]
mod parallel;
#[cfg(feature = "whole")]
mod progress;
#[cfg(unix)]
#[cfg_attr(target_os = "macos", allow(dead_code))] // Its plan is for systemd.
mod service;
mod session;
mod state;
#[cfg(feature = "whole")]
mod submit;
#[cfg(feature = "whole")]
mod transfer;
mod usage;
#[cfg(feature = "whole")]
mod wait_reporter;
#[cfg(feature = "whole")]
mod watch;

use std::process::ExitCode;

#[cfg(feature = "whole")]
pub use commands::top::{Rehearsed, rehearse_top};
pub use failure::Exit;

/// Flags, failures and printing, for programs that talk as `deskgrid` does.
#[cfg(feature = "whole")]
pub mod terminal {
    pub use crate::args::predict::WorkArgs;
    pub use crate::args::{OutputMode, Printing, STYLES};
    pub use crate::commands::{failed, threads, write};
    pub use crate::failure::{Exit, Failure};
    pub use crate::files::{ready_for, write_into};
    pub use crate::output::table::Rows;
    pub use crate::output::waits::{
        PredictedWait, PredictorQuality, WaitInterval, show_wait, table,
    };
    pub use crate::output::{OutputForm, note};
    pub use crate::usage::parse;
}

/// The parts of packages that are made from the program itself.
#[cfg(feature = "whole")]
pub mod packaged {
    pub use crate::args::{whole_command, worker_command};

    /// Returns the command line of `deskgrid` as shells complete it.
    pub fn completed_command() -> clap::Command {
        crate::commands::with_policies(whole_command())
    }

    /// Returns the files of the worker's service, as packages of a distribution install them.
    #[cfg(unix)]
    pub fn service_files() -> Vec<(std::path::PathBuf, String)> {
        let files = crate::service::packaged_files();
        files
            .into_iter()
            .map(|file| (file.path, file.text))
            .collect()
    }
}

/// Checks whether `bytes` are a job file, as `submit --job-file` reads them.
///
/// # Errors
/// Names the line that cannot be read, and the reason.
#[cfg(feature = "whole")]
pub fn check_job_file(bytes: &[u8]) -> Result<(), String> {
    submit::parse_job_file(bytes).map_err(|error| error.to_string())
}

/// Runs the command that this process was started with, and returns its exit code.
#[cfg(feature = "whole")]
pub fn main() -> ExitCode {
    files::note_umask();
    let handed = handed::take();
    let cli = match usage::parse::<args::Cli>(&handed.words) {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let mode = cli.global.printing.output;
    exit_code(mode, commands::run(cli, handed.join))
}

/// Does the same as [`main`] in a program that knows the worker's commands only. It is a third as
/// large, for the many PCs that need no more.
pub fn worker_main() -> ExitCode {
    let handed = handed::take();
    let cli = match usage::parse::<args::WorkerCli>(&handed.words) {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let mode = cli.global.printing.output;
    exit_code(mode, commands::run_worker_only(cli, handed.join))
}

/// Prints the failure, if it is one, and returns the exit code.
fn exit_code(mode: args::OutputMode, result: Result<Exit, failure::Failure>) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::OutputForm::failure(mode, &failure);
            failure.exit.into()
        }
    }
}
