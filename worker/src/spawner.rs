//! The helper modes of the program, as the spawner and as the watcher of input devices. `main` must
//! check for them before anything else.

use std::ffi::OsStr;

/// The first argument that makes the program the spawner. Only the worker itself uses it.
pub const ARG: &str = "internal-spawner";

/// The first argument of the process that gives the spawner the namespaces it is in.
#[cfg(target_os = "linux")]
pub(crate) const DONOR_ARG: &str = "internal-view-donor";

/// Runs the helper and never returns, if the program was called as a helper of the worker. It must
/// be called first thing in `main`, before any thread exists.
pub fn main_if_asked() {
    let asked = std::env::args_os().nth(1);
    if asked.as_deref() == Some(OsStr::new(ARG)) {
        std::process::exit(crate::os::spawner_main());
    }
    #[cfg(target_os = "linux")]
    if asked.as_deref() == Some(OsStr::new(DONOR_ARG)) {
        std::process::exit(crate::os::donor_main());
    }
    #[cfg(target_os = "linux")]
    if asked.as_deref() == Some(OsStr::new(crate::owner::sensors::INPUT_ARG)) {
        std::process::exit(crate::owner::sensors::watcher_main());
    }
}
