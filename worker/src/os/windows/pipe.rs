//! A command's standard output on its way to the worker: a named pipe, since only such can be read
//! without a thread.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::windows::io::OwnedHandle;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::windows::named_pipe::{NamedPipeServer, PipeMode, ServerOptions};

use super::spawn::nowhere;

/// Bytes that a command may write before it is read.
const ROOM: u32 = 64 * 1024;

/// The worker's end of one of a command's standard streams.
#[derive(Debug)]
pub struct Output(NamedPipeServer);

/// Returns the worker's end, and the handle for the command; the null device if the stream is not
/// kept.
pub(super) async fn output(keep: bool) -> io::Result<(Option<Output>, OwnedHandle)> {
    if !keep {
        return Ok((None, nowhere()?));
    }
    let (read, write) = pair().await?;
    Ok((Some(read), write))
}

/// Makes a pipe. Its name is used up at once: another program cannot connect, only make this fail.
pub(crate) async fn pair() -> io::Result<(Output, OwnedHandle)> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let guess_me_not = RandomState::new().hash_one(serial);
    let name = format!(
        r"\\.\pipe\deskgrid-{}-{serial}-{guess_me_not:016x}",
        std::process::id()
    );
    let server = ServerOptions::new()
        .access_outbound(false)
        .first_pipe_instance(true)
        .max_instances(1)
        .reject_remote_clients(true)
        .pipe_mode(PipeMode::Byte)
        .in_buffer_size(ROOM)
        .create(&name)?;

    let write = std::fs::OpenOptions::new().write(true).open(&name)?;
    server.connect().await?;
    Ok((Output(server), write.into()))
}

/// Treats the end of every writer as the end of the stream, not as an error.
fn end<T>(done: io::Result<T>, at_end: T) -> io::Result<T> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(at_end),
        done => done,
    }
}

impl Output {
    /// Reads what is there, without waiting; nothing at the end.
    ///
    /// # Errors
    /// `WouldBlock` where nothing is there yet.
    pub fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        end(self.0.try_read(bytes), 0)
    }

    /// Waits until there are bytes, or no more can come.
    ///
    /// # Errors
    /// If the pipe fails.
    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0)
            .poll_read(cx, bytes)
            .map(|done| end(done, ()))
    }
}
