//! The `deskgrid` program. What it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A worker's spawn helper is this same program; it must take over before there are threads.
    worker::spawner::main_if_asked();
    cli::main()
}
