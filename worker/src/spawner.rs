//! The program's second life as the spawner: what `main` has to ask before anything else.

use std::ffi::OsStr;

/// The first argument with which the program is the spawner. For nobody but the worker itself.
pub const ARG: &str = "internal-spawner";

/// If the program was called as the spawner: is the spawner, and never returns. To be called first thing in `main`,
/// before any thread exists.
pub fn main_if_asked() {
    if std::env::args_os().nth(1).as_deref() == Some(OsStr::new(ARG)) {
        std::process::exit(crate::os::spawner_main());
    }
}
