//! The program's second lives, as the spawner and as the watcher of input devices: what `main` has
//! to ask before anything else.

use std::ffi::OsStr;

/// The first argument with which the program is the spawner. For nobody but the worker itself.
pub const ARG: &str = "internal-spawner";

/// If the program was called as a helper of the worker: is that helper, and never returns. To be
/// called first thing in `main`, before any thread exists.
pub fn main_if_asked() {
    let asked = std::env::args_os().nth(1);
    if asked.as_deref() == Some(OsStr::new(ARG)) {
        std::process::exit(crate::os::spawner_main());
    }
    #[cfg(target_os = "linux")]
    if asked.as_deref() == Some(OsStr::new(crate::owner::sensors::INPUT_ARG)) {
        std::process::exit(crate::owner::sensors::watcher_main());
    }
}
