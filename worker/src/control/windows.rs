//! The owner's socket on Windows: a named pipe whose name is derived from the worker's directory.
//! The system lets only the account of the worker, administrators and itself write to it, and so
//! ask; nobody from another machine. The messages are in `control`.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::net::windows::named_pipe::{
    ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions,
};

use crate::os::whole_path;

/// The error code of a pipe all of whose listening instances are taken.
const PIPE_BUSY: i32 = 231;
/// The pause before the next try then.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// The worker's end of one conversation.
pub(super) type Stream = NamedPipeServer;

/// The listening pipe of the worker.
pub(super) struct Listener {
    name: String,
    next: NamedPipeServer,
}

/// Returns the name of this directory's pipe, however the directory is written.
fn name(dir: &Path) -> io::Result<String> {
    let path = whole_path(dir)?.to_string_lossy().to_lowercase();
    Ok(format!(
        r"\\.\pipe\deskgrid-worker-{}",
        &blake3::hash(path.as_bytes()).to_hex()[..32]
    ))
}

fn listen(name: &str, first: bool) -> io::Result<NamedPipeServer> {
    ServerOptions::new()
        .first_pipe_instance(first)
        .reject_remote_clients(true)
        .create(name)
}

impl Listener {
    /// Makes the pipe; fails if another process has a pipe of this name already.
    pub(super) fn bind(dir: &Path) -> io::Result<Self> {
        let name = name(dir)?;
        Ok(Self {
            next: listen(&name, true)?,
            name,
        })
    }

    /// Waits for the next connection.
    pub(super) async fn accept(&mut self) -> io::Result<Stream> {
        self.next.connect().await?;
        Ok(std::mem::replace(
            &mut self.next,
            listen(&self.name, false)?,
        ))
    }
}

/// Connects to the worker of this directory.
pub(super) async fn connect(dir: &Path) -> io::Result<NamedPipeClient> {
    let name = name(dir)?;
    loop {
        match ClientOptions::new().open(&name) {
            Err(error) if error.raw_os_error() == Some(PIPE_BUSY) => {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            done => return done,
        }
    }
}
