//! The capture of one standard stream of a command: its beginning is kept, the rest is read and
//! counted.
//!
//! A short stream stays in memory, a longer one goes to a file. A flood beyond the limit is read
//! slowly, so that it does not cost the owner's processor.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::Content;
use common::attempt::Stream;
use common::content::MAX_INLINE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::live::LiveStream;
use crate::blocking::{behind, off};
use crate::os::{self, Output};
use crate::spool::blobs::Blobs;

/// The bytes that are read at a time.
const PIECE: usize = 64 * 1024;
/// The pause between two reads of dropped output, and the bytes that the command may write
/// meanwhile.
const DROP_PAUSE: Duration = Duration::from_millis(10);
const DROP_PIPE: usize = 1024 * 1024;
/// The longest time that more is waited for after the whole process tree has ended. Only a foreign
/// process can hold the pipe open then. The worker's own writes do not count.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The most that is read then, in bytes: twice what a pipe holds. More is a foreign process's.
const LAST_BYTES: usize = 2 * 1024 * 1024;
/// The least that a read counts for then: what the tree has left is read in large pieces, and who
/// writes byte by byte is a foreign process.
const LEAST_READ: usize = 16 * 1024;

/// One stream of one attempt.
#[derive(Debug)]
pub(super) struct StreamCapture {
    pipe: Option<Output>,
    /// The part of it that is seen while the command runs.
    live: Arc<LiveStream>,
    path: PathBuf,
    limit: u64,
    head: Vec<u8>,
    file: Option<tokio::fs::File>,
    kept: u64,
    dropped: u64,
    /// The error at which the file stopped to take more.
    failed: Option<io::Error>,
}

/// The rest of a stream, which is read once the process tree has ended.
struct LastWords {
    /// Whether it has.
    ended: watch::Receiver<bool>,
    /// The time that more is waited for, all waits together.
    left: Duration,
    /// The bytes that may still come.
    bytes: usize,
}

impl LastWords {
    fn after(ended: watch::Receiver<bool>) -> Self {
        Self {
            ended,
            left: LAST_WORDS,
            bytes: LAST_BYTES,
        }
    }

    /// Waits for `read`; `None` where that takes too long, since the process tree has ended.
    async fn wait<T>(
        &mut self,
        read: impl Future<Output = io::Result<T>>,
    ) -> io::Result<Option<T>> {
        let mut since = None;
        let left = self.left;
        let ended = &mut self.ended;
        let quiet = async {
            let unknown = ended.wait_for(|ended| *ended).await.is_err();
            if unknown {
                std::future::pending::<()>().await;
            }
            since = Some(Instant::now());
            tokio::time::sleep(left).await;
        };

        // What is there counts, also where there is no time left.
        let got = tokio::select! {
            biased;
            got = read => got.map(Some),
            () = quiet => Ok(None),
        };
        if let Some(since) = since {
            self.left = left.saturating_sub(since.elapsed());
        }
        got
    }

    /// Whether the process tree has ended.
    fn begun(&self) -> bool {
        *self.ended.borrow()
    }

    /// Counts a read of so many bytes, and returns whether there may be another.
    fn count(&mut self, bytes: usize) -> bool {
        if self.begun() {
            self.bytes = self.bytes.saturating_sub(bytes.max(LEAST_READ));
        }
        self.bytes > 0
    }
}

impl StreamCapture {
    /// Makes the capture of `pipe` (`None`: an empty stream). It keeps up to `limit` bytes, in the
    /// file of `live` if they are many.
    pub(super) fn new(pipe: Option<Output>, live: Arc<LiveStream>, limit: u64) -> Self {
        Self {
            pipe,
            path: live.path().to_owned(),
            live,
            limit,
            head: Vec::new(),
            file: None,
            kept: 0,
            dropped: 0,
            failed: None,
        }
    }

    /// Reads until every writer has closed the stream. Once the process tree has `ended`, what it has
    /// written is read to its end, and foreign writers are waited for no longer than [`LAST_WORDS`].
    /// If this is dropped before, some of the stream is lost.
    pub(super) async fn pump(&mut self, ended: watch::Receiver<bool>) {
        let mut last = LastWords::after(ended);
        if let Err(error) = self.pump_all(&mut last).await {
            tracing::warn!(path = %self.path.display(), %error, "an output stream could not be kept whole");
        }
    }

    async fn pump_all(&mut self, last: &mut LastWords) -> io::Result<()> {
        let inline = self.limit.min(MAX_INLINE as u64) as usize;
        while self.head.len() <= inline {
            let Some(pipe) = &mut self.pipe else {
                return Ok(());
            };
            let before = self.head.len();
            match last.wait(pipe.read_buf(&mut self.head)).await? {
                None => return Ok(()),
                Some(0) => self.pipe = None,
                Some(_) => self.live.push(&self.head[before..]),
            }
        }

        let mut piece = vec![0; PIECE];
        if self.limit <= MAX_INLINE as u64 {
            self.dropped = (self.head.len() - inline) as u64;
            self.head.truncate(inline);
            return self.throw_away(&mut piece, last).await;
        }

        while self.file.is_some() || self.begin_file().await {
            let Some(pipe) = &mut self.pipe else {
                return Ok(());
            };
            let count = match last.wait(pipe.read(&mut piece)).await? {
                None => return Ok(()),
                Some(0) => {
                    self.pipe = None;
                    return Ok(());
                }
                Some(count) => count,
            };

            let kept = self.keep(&piece[..count]).await;
            self.live.push(&piece[..count]);
            if !last.count(count) {
                return Ok(());
            }
            if !kept {
                break;
            }
        }

        self.throw_away(&mut piece, last).await
    }

    /// Opens the file and moves the bytes in memory to it; returns false if it cannot.
    async fn begin_file(&mut self) -> bool {
        match tokio::fs::File::options()
            .write(true)
            .read(true)
            .create_new(true)
            .open(&self.path)
            .await
        {
            Ok(file) => {
                self.file = Some(file);
                let head = std::mem::take(&mut self.head);
                self.keep(&head).await
            }
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "an output stream cannot be kept");
                self.dropped += self.head.len() as u64;
                self.head = Vec::new();
                self.failed = Some(error);
                false
            }
        }
    }

    /// Writes the part of `bytes` within the limit; returns false once nothing more is to be kept.
    async fn keep(&mut self, bytes: &[u8]) -> bool {
        let room = usize::try_from(self.limit - self.kept).unwrap_or(usize::MAX);
        let (kept, rest) = bytes.split_at(bytes.len().min(room));
        let Some(file) = &mut self.file else {
            return false;
        };

        if let Err(error) = file.write_all(kept).await {
            tracing::warn!(path = %self.path.display(), %error, "an output stream cannot be kept");
            self.dropped += bytes.len() as u64;
            self.failed = Some(error);
            return false;
        }

        self.kept += kept.len() as u64;
        self.dropped += rest.len() as u64;
        rest.is_empty()
    }

    async fn throw_away(&mut self, piece: &mut [u8], last: &mut LastWords) -> io::Result<()> {
        let large = self
            .pipe
            .as_ref()
            .is_some_and(|pipe| os::enlarge(pipe, DROP_PIPE));
        let mut unpaused = 0;
        while let Some(pipe) = &mut self.pipe {
            match pipe.try_read(piece) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    self.live.push(&piece[..count]);
                    self.dropped += count as u64;
                    if !last.count(count) {
                        return Ok(());
                    }
                    unpaused += count;
                    // Whoever writes as fast as this reads would have the runtime for itself.
                    if unpaused >= DROP_PIPE {
                        tokio::time::sleep(DROP_PAUSE).await;
                        unpaused = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // A small pipe is full soon: a pause after every read would almost stop the
                    // command. Once that has ended, only the time counts for which more is waited.
                    if large && !last.begun() {
                        tokio::time::sleep(DROP_PAUSE).await;
                        unpaused = 0;
                    }
                    if last.wait(pipe.readable()).await?.is_none() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }

        Ok(())
    }

    /// Returns the kept stream. Content that does not fit into a message becomes a blob.
    ///
    /// # Errors
    /// If the disk did not take it all.
    pub(super) async fn finish(mut self, blobs: &Arc<Blobs>) -> io::Result<Stream> {
        let Some(mut file) = self.file.take() else {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            return Ok(Stream {
                content: Content::Inline(std::mem::take(&mut self.head)),
                dropped: self.dropped,
            });
        };

        let flushed = file.flush().await;
        let (blobs, mut file): (_, File) = (blobs.clone(), file.into_std().await);

        // The open handle is enough to read it back.
        let _ = std::fs::remove_file(&self.path);
        flushed?;
        if let Some(error) = self.failed.take() {
            behind(move || drop(file));
            return Err(error);
        }

        let blob = off(move || blobs.add_yielding(&mut file)).await??;
        Ok(Stream {
            content: Content::Blob(blob),
            dropped: self.dropped,
        })
    }
}

impl Drop for StreamCapture {
    fn drop(&mut self) {
        self.live.close();
        if let Some(file) = self.file.take() {
            let path = std::mem::take(&mut self.path);
            behind(move || {
                drop(file);
                let _ = std::fs::remove_file(&path);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[cfg(unix)]
    async fn pipe() -> (Output, impl tokio::io::AsyncWrite + Unpin + Send + 'static) {
        use std::os::fd::OwnedFd;
        use tokio::net::unix::pipe;
        let (read, write): (OwnedFd, OwnedFd) = rustix::pipe::pipe().unwrap();
        (
            pipe::Receiver::from_owned_fd(read).unwrap(),
            pipe::Sender::from_owned_fd(write).unwrap(),
        )
    }

    #[cfg(windows)]
    async fn pipe() -> (Output, impl tokio::io::AsyncWrite + Unpin + Send + 'static) {
        let (read, write) = crate::os::windows::pair().await.unwrap();
        (read, tokio::fs::File::from_std(write.into()))
    }

    /// Captures `written` with this limit, and returns what is kept.
    async fn capture(written: Vec<u8>, limit: u64) -> (Vec<u8>, bool, u64) {
        capture_of(false, written, limit).await
    }

    /// The same of a process tree that has ended, or may write more.
    async fn capture_of(ended: bool, written: Vec<u8>, limit: u64) -> (Vec<u8>, bool, u64) {
        let (_tree, ended) = watch::channel(ended);
        let dir = tempfile::tempdir().unwrap();
        let blobs = Arc::new(Blobs::open(&dir.path().join("blobs")).unwrap());
        let (read, mut write) = pipe().await;
        let writer = tokio::spawn(async move {
            write.write_all(&written).await?;
            write.flush().await
        });
        let live = LiveStream::new(dir.path().join("out"));
        let mut capture = StreamCapture::new(Some(read), live, limit);
        tokio::time::timeout(Duration::from_secs(20), capture.pump(ended))
            .await
            .unwrap();

        writer.await.unwrap().unwrap();
        let stream = capture.finish(&blobs).await.unwrap();
        assert!(!dir.path().join("out").exists());

        match stream.content {
            Content::Inline(bytes) => (bytes, false, stream.dropped),
            Content::Blob(blob) => (
                std::fs::read(blobs.path_of(&blob)).unwrap(),
                true,
                stream.dropped,
            ),
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn those_who_write_as_fast_as_is_read_are_paused_and_hold_nothing_up() {
        use std::io::Write;
        let (read, write) = std::io::pipe().unwrap();
        let read = tokio::net::unix::pipe::Receiver::from_owned_fd(read.into()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let live = LiveStream::new(dir.path().join("out"));
        let mut capture = StreamCapture::new(Some(read), live, 1_000);

        let begun = std::time::Instant::now();
        let flood = |mut write: std::io::PipeWriter| {
            std::thread::spawn(move || {
                while begun.elapsed() < Duration::from_secs(10)
                    && write.write_all(&[0; PIECE]).is_ok()
                {}
            })
        };
        let writers = [(); 6].map(|()| flood(write.try_clone().unwrap()));
        drop(write);
        let (_tree, ended) = watch::channel(false);
        tokio::select! {
            _ = capture.pump(ended) => panic!("the writers go on"),
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }

        let pauses = begun.elapsed().as_nanos() / DROP_PAUSE.as_nanos() + 2;
        let most = pauses * (DROP_PIPE + PIECE) as u128;
        let dropped = u128::from(capture.dropped);
        assert!(dropped <= most, "{dropped} bytes, at most {most}");
        drop(capture);
        for writer in writers {
            writer.join().unwrap();
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_end_of_a_stream_is_kept_however_long_the_disk_takes() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            // The only thread that writes files is busy for longer than anybody else is waited for.
            let stalled = tokio::task::spawn_blocking(|| std::thread::sleep(2 * LAST_WORDS));
            let bytes: Vec<u8> = (0..300_000).map(|i| (i % 251) as u8).collect();
            let kept = capture_of(true, bytes.clone(), 1 << 20).await;
            assert!(kept == (bytes, true, 0), "{} bytes", kept.0.len());
            stalled.await.unwrap();
        });
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn foreign_writers_do_not_hold_up_the_end_of_a_stream() {
        use std::io::Write;
        // None writes, one as fast as it can, and one byte by byte.
        for (bytes, pause) in [(0, 0), (PIECE, 0), (1, 1)] {
            let (read, mut write) = std::io::pipe().unwrap();
            let read = tokio::net::unix::pipe::Receiver::from_owned_fd(read.into()).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let blobs = Arc::new(Blobs::open(&dir.path().join("blobs")).unwrap());
            let live = LiveStream::new(dir.path().join("out"));
            let mut capture = StreamCapture::new(Some(read), live, 4);
            write.write_all(b"said").unwrap();
            let writer = std::thread::spawn(move || {
                while bytes > 0 && write.write_all(&vec![0; bytes]).is_ok() {
                    std::thread::sleep(Duration::from_millis(pause));
                }
                write
            });

            let (_tree, ended) = watch::channel(true);
            tokio::time::timeout(Duration::from_secs(20), capture.pump(ended))
                .await
                .unwrap();
            let stream = capture.finish(&blobs).await.unwrap();
            assert_eq!(stream.content, Content::Inline(b"said".to_vec()));
            assert_eq!(stream.dropped > 0, bytes > 0, "{bytes} at a time");
            drop(writer.join().unwrap());
        }
    }

    #[tokio::test]
    async fn small_output_stays_in_the_message_and_more_becomes_a_blob() {
        for (length, blob) in [
            (0, false),
            (MAX_INLINE, false),
            (MAX_INLINE + 1, true),
            (300_000, true),
        ] {
            let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            assert_eq!(
                capture(bytes.clone(), 1 << 20).await,
                (bytes, blob, 0),
                "{length}"
            );
        }
    }

    #[tokio::test]
    async fn a_flood_is_kept_up_to_the_limit_and_counted_beyond() {
        let flood = vec![b'x'; 3_000_000];
        assert_eq!(
            capture(flood.clone(), 100_000).await,
            (vec![b'x'; 100_000], true, 2_900_000)
        );
        assert_eq!(
            capture(flood.clone(), 100).await,
            (vec![b'x'; 100], false, 2_999_900)
        );
        assert_eq!(capture(flood, 0).await, (vec![], false, 3_000_000));
    }
}
