//! The `deskgrid` program for PCs that only work. Its commands live in the library `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The worker's spawn helper is this same program; it must take over before there are threads.
    worker::spawner::main_if_asked();
    cli::worker_main()
}
