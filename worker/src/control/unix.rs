//! The owner's socket on Unix: a file in the worker's directory that only its owner may use: the
//! account that the worker runs under, and root. What is not here: what is said.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The socket's name.
const SOCKET: &str = "control";

/// One end of a conversation, in the worker.
pub(super) type Stream = UnixStream;

/// Where the worker is asked.
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

/// A way to the directory that is short enough for a socket's address, however long its path is;
/// lasts as long as the file does.
fn short(dir: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()))
}

impl Listener {
    /// Takes the place of a socket that an earlier worker left. The caller has the directory to
    /// itself.
    pub(super) fn bind(dir: &Path) -> io::Result<Self> {
        let path = dir.join(SOCKET);
        let handle = File::open(dir)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixListener::bind(short(&handle))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(Self { socket, path })
    }

    /// The next who asks.
    pub(super) async fn accept(&mut self) -> io::Result<Stream> {
        self.socket.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A way to the worker of this directory.
pub(super) async fn connect(dir: &Path) -> io::Result<UnixStream> {
    let handle = File::open(dir)?;
    UnixStream::connect(short(&handle)).await
}
