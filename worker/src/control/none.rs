//! The owner's socket where none is written for the system: nobody listens, and nobody is reached. A pause still works by
//! its file.

use std::io;
use std::path::Path;
use std::time::Duration;

/// One end of a conversation, in the worker.
pub(super) type Stream = tokio::io::DuplexStream;

/// Where the worker is asked.
pub(super) struct Listener;

fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this system has no socket for the owner yet")
}

impl Listener {
    /// Never succeeds.
    pub(super) fn bind(_dir: &Path) -> io::Result<Self> {
        Err(missing())
    }

    /// Never comes.
    pub(super) async fn accept(&mut self) -> io::Result<Stream> {
        std::future::pending().await
    }
}

/// Never succeeds.
pub(super) fn connect(_dir: &Path, _patience: Duration) -> io::Result<std::net::TcpStream> {
    Err(missing())
}
