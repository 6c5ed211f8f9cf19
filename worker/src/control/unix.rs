//! The owner's socket on Unix: a file in the worker's directory that only the account of the worker
//! and root may use. The messages are in `control`.

#[cfg(target_os = "linux")]
use std::fs::File;
use std::fs::{self, Permissions};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// The name of the socket file.
const SOCKET: &str = "control";

/// The worker's end of one conversation.
pub(super) type Stream = UnixStream;

/// The listening socket of the worker.
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// The number of the socket's file: another worker may replace it.
    inode: u64,
}

/// Returns a path to the socket that is short enough for a socket's address, however long the path
/// of the directory is. It is valid while the file beside it is open.
#[cfg(target_os = "linux")]
fn short(dir: &Path) -> io::Result<(PathBuf, File)> {
    let dir = File::open(dir)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()));
    Ok((path, dir))
}

/// Returns the path itself: elsewhere a long one is refused.
#[cfg(not(target_os = "linux"))]
fn short(dir: &Path) -> io::Result<(PathBuf, ())> {
    Ok((dir.join(SOCKET), ()))
}

impl Listener {
    /// Replaces a socket that an earlier worker left. The caller has the directory to itself.
    pub(super) fn bind(dir: &Path) -> io::Result<Self> {
        let path = dir.join(SOCKET);
        let (short, _open) = short(dir)?;
        link::files::remove(&path)?;

        let socket = UnixListener::bind(short)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let inode = fs::metadata(&path)?.ino();
        Ok(Self {
            socket,
            path,
            inode,
        })
    }

    /// Waits for the next connection.
    pub(super) async fn accept(&mut self) -> io::Result<Stream> {
        self.socket.accept().await.map(|(stream, _)| stream)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|now| now.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connects to the worker of this directory.
pub(super) async fn connect(dir: &Path) -> io::Result<UnixStream> {
    let (short, _open) = short(dir)?;
    UnixStream::connect(short).await
}
