//! Executes the commands of `deskgrid-lab`, one module for each.

mod accuracy;
mod calendar;
mod reproduce;
mod scenario;
mod wait;

use cli::terminal::{Exit, Failure, Output};

use crate::args::{Command, PredictCommand};

/// Executes a command.
///
/// # Errors
/// If the command could not be executed.
pub(crate) fn run(out: &Output, command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Reproduce(args) => reproduce::run(out, args),
        Command::Simulate(args) => scenario::run(out, &args.scenario),
        Command::Predict(PredictCommand::Accuracy(args)) => {
            accuracy::run(out, &args.log, args.scatter)
        }
        Command::Predict(PredictCommand::Wait(args)) => wait::wait(out, args),
        Command::Predict(PredictCommand::Width(args)) => wait::width(out, args),
        Command::Predict(PredictCommand::Kill(args)) => calendar::kill(out, args),
        Command::Predict(PredictCommand::Calendar(args)) => calendar::calendar(out, &args.state),
    }
}
