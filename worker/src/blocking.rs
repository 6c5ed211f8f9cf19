//! Work on files that is not done on the runtime: whoever waits there holds up heartbeats, and the order to freeze
//! for the owner.

use std::io;

/// Runs work on files on another thread, and waits for it without holding up the runtime.
///
/// # Errors
/// If it panics.
pub(crate) async fn off<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}

/// Runs work on files that nobody waits for: on another thread where there is a runtime.
pub(crate) fn behind(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}
