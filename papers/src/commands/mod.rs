//! Executes the commands of `deskgrid-lab`, one module for each.

mod accuracy;
mod calendar;
mod reproduce;
mod scenario;
mod wait;

use std::fmt::Display;

use cli::terminal::{Exit, Failure, OutputForm};

use crate::args::{LabCommand, LabPredict};

/// Builds the failure for a log that cannot be read.
fn bad_log(error: impl Display) -> Failure {
    let hint = "a log has a job on each line, 18 numbers, and comments behind `;` (Standard Workload Format)";
    Failure::usage("the log cannot be used", hint).because(error)
}

/// Executes a command.
///
/// # Errors
/// If the command could not be executed.
pub(crate) fn run(out: &OutputForm, command: &LabCommand) -> Result<Exit, Failure> {
    match command {
        LabCommand::Reproduce(args) => reproduce::run(out, args),
        LabCommand::Simulate(args) => scenario::run(out, &args.scenario),
        LabCommand::Predict(LabPredict::Accuracy(args)) => {
            accuracy::run(out, &args.log, args.scatter)
        }
        LabCommand::Predict(LabPredict::Wait(args)) => wait::wait(out, args),
        LabCommand::Predict(LabPredict::Width(args)) => wait::width(out, args),
        LabCommand::Predict(LabPredict::Kill(args)) => calendar::kill(out, args),
        LabCommand::Predict(LabPredict::Calendar(args)) => calendar::calendar(out, &args.state),
    }
}
