//! The `deskgrid-lab` program: parses its command line, runs the command, and prints its answer as
//! `deskgrid` does.

mod args;
mod commands;

use std::process::ExitCode;

use cli::terminal::{OutputForm, parse};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let lab: args::Lab = match parse(&words) {
        Ok(lab) => lab,
        Err(exit) => return exit.into(),
    };
    let out = OutputForm::new(&lab.printing);

    match commands::run(&out, &lab.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            OutputForm::failure(out.mode(), &failure);
            failure.exit.into()
        }
    }
}
