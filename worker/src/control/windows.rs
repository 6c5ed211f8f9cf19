//! The owner's socket on Windows: a named pipe, called after the worker's directory. The system
//! lets only the account that the worker runs under, administrators and itself write to it, and so
//! ask; nobody from another machine. What is not here: what is said.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::net::windows::named_pipe::{
    ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions,
};

use crate::os::whole_path;

/// What the system says while everybody who listens is being spoken to.
const PIPE_BUSY: i32 = 231;
/// How long to wait then.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// One end of a conversation, in the worker.
pub(super) type Stream = NamedPipeServer;

/// Where the worker is asked.
pub(super) struct Listener {
    name: String,
    next: NamedPipeServer,
}

/// What the pipe of this directory is called, however the directory is written.
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
    /// Fails if somebody else has a pipe of this name already.
    pub(super) fn bind(dir: &Path) -> io::Result<Self> {
        let name = name(dir)?;
        Ok(Self {
            next: listen(&name, true)?,
            name,
        })
    }

    /// The next who asks.
    pub(super) async fn accept(&mut self) -> io::Result<Stream> {
        self.next.connect().await?;
        Ok(std::mem::replace(
            &mut self.next,
            listen(&self.name, false)?,
        ))
    }
}

/// A way to the worker of this directory.
pub(super) async fn connect(dir: &Path) -> io::Result<NamedPipeClient> {
    let name = name(dir)?;
    loop {
        match ClientOptions::new().open(&name) {
            Err(error) if error.raw_os_error() == Some(PIPE_BUSY) => {
                tokio::time::sleep(BUSY_PAUSE).await
            }
            done => return done,
        }
    }
}
