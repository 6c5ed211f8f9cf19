//! The program `deskgrid-watch` of Windows: the watcher in a user's session. It has no window and no
//! console. What it does is in `worker::owner::watcher`.
#![windows_subsystem = "windows"]

#[cfg(windows)]
fn main() {
    std::process::exit(worker::owner::watcher::watcher_main());
}

#[cfg(not(windows))]
fn main() {
    eprintln!("deskgrid-watch is for Windows alone: elsewhere the worker sees input itself");
    std::process::exit(2);
}
