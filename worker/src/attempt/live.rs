//! The newest output of a running command, for whoever looks at it: a ring buffer for each stream.
//! Nothing is sent while nobody looks. What is kept of a stream as a result lies in `capture`.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::attempt::StreamKind;
use common::wire::stream::{Open, TailPart};
use link::{Connection, LinkError};
use tokio::sync::{Semaphore, watch};

/// The newest bytes of a stream that stay in memory.
const RING: usize = 64 * 1024;
/// The pause in which further output is gathered before it is sent.
const GATHER: Duration = Duration::from_millis(100);
/// The most who look at output at a time, at all tasks of a worker together. Each takes one of the streams
/// that the master lets a worker open, and half of them are left for inputs and results.
pub(crate) const LOOKERS: usize = 8;

/// One stream of a command while it runs.
#[derive(Debug)]
pub(crate) struct LiveStream {
    /// The newest bytes.
    ring: Mutex<VecDeque<u8>>,
    /// The number of all bytes so far, and whether there will be no more.
    seen: watch::Sender<(u64, bool)>,
    /// The file that has the beginning of a long stream while the command runs.
    path: PathBuf,
}

/// Both streams of a command.
#[derive(Debug)]
pub(crate) struct LiveOutput {
    pub(super) out: Arc<LiveStream>,
    pub(super) err: Arc<LiveStream>,
}

/// Shows a stream to one who looks, when it is his turn; one that is not there any more ends at once.
pub(crate) async fn show(
    live: Option<Arc<LiveStream>>,
    lookers: &Semaphore,
    connection: Connection,
    (ticket, from): (u64, Option<u64>),
) -> Result<(), LinkError> {
    let _turn = tokio::select! {
        turn = lookers.acquire() => turn,
        lost = connection.closed() => return Err(lost),
    };
    match live {
        Some(live) => live.send(connection, ticket, from).await,
        None => connection.open(&Open::Tail { ticket }).await.map(drop),
    }
}

impl LiveOutput {
    /// Makes the streams of the attempt in the directory `dir`.
    pub(crate) fn of(dir: &std::path::Path) -> Self {
        Self {
            out: LiveStream::new(dir.with_added_extension("out")),
            err: LiveStream::new(dir.with_added_extension("err")),
        }
    }

    /// Returns the stream of this [`StreamKind`].
    pub(crate) fn stream(&self, name: StreamKind) -> Arc<LiveStream> {
        Arc::clone(match name {
            StreamKind::Stdout => &self.out,
            StreamKind::Stderr => &self.err,
        })
    }

    /// Ends both streams, as `LiveStream::close` does.
    pub(super) fn close(&self) {
        self.out.close();
        self.err.close();
    }
}

impl LiveStream {
    /// Makes an empty stream, whose beginning may come to lie in the file `path`.
    pub(super) fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            ring: Mutex::default(),
            seen: watch::Sender::new((0, false)),
            path,
        })
    }

    /// The file that may have the beginning of the stream.
    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Adds output.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = bytes
            .get(bytes.len().saturating_sub(RING)..)
            .unwrap_or_default();
        let old = (ring.len() + newest.len()).saturating_sub(RING);
        ring.drain(..old);
        ring.extend(newest);
        self.seen
            .send_modify(|(total, _)| *total += bytes.len() as u64);
    }

    /// Ends the stream.
    pub(super) fn close(&self) {
        self.seen.send_modify(|(_, closed)| *closed = true);
    }

    /// Returns output from byte `from` on, at most [`RING`] bytes. Where that is gone, it begins
    /// later; it is empty if nothing newer is there.
    fn read(&self, from: u64) -> TailPart {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let (total, _) = *self.seen.borrow();
        let start = total - ring.len() as u64;
        if from < start {
            drop(ring);
            let room = (start - from).min(RING as u64);
            return match self.read_file(from, room) {
                Ok(bytes) if !bytes.is_empty() => TailPart {
                    offset: from,
                    bytes,
                },
                // The file has another end, or is gone: the command has written beyond its limit.
                _ => self.read(start),
            };
        }

        let skip = usize::try_from(from - start).unwrap_or(usize::MAX);
        TailPart {
            offset: from,
            bytes: ring.iter().skip(skip).copied().collect(),
        }
    }

    fn read_file(&self, from: u64, room: u64) -> io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(&self.path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(room).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends the stream as [`TailPart`]s over a QUIC stream of its own, which names the master's `ticket`: from byte
    /// `from` on (`None`: the newest bytes) until it ends, or nobody looks any more.
    async fn send(
        self: Arc<Self>,
        connection: Connection,
        ticket: u64,
        from: Option<u64>,
    ) -> Result<(), LinkError> {
        let mut channel = connection.open(&Open::Tail { ticket }).await?;
        // Whatever else is sent goes first.
        let _ = channel.tx.raw().set_priority(-1);
        let mut seen = self.seen.subscribe();
        let mut at = from.unwrap_or_else(|| {
            let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            self.seen.borrow().0 - ring.len() as u64
        });

        loop {
            let (total, closed) = *seen.borrow_and_update();
            while at < total {
                let stream = Arc::clone(&self);
                let part = tokio::task::spawn_blocking(move || stream.read(at));
                let part = part
                    .await
                    .map_err(|panic| LinkError::Closed(panic.to_string()))?;
                at = part.offset + part.bytes.len() as u64;
                channel.tx.send(&part).await?;
            }
            if closed {
                channel.tx.finish();
                channel.tx.delivered().await;
                return Ok(());
            }
            tokio::select! {
                _ = seen.changed() => tokio::time::sleep(GATHER).await,
                () = channel.tx.delivered() => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_bytes_stay_and_older_ones_come_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let stream = LiveStream::new(dir.path().join("out"));
        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let parts = |at: u64| stream.read(at);
        assert_eq!(parts(0).bytes, b"");
        for piece in bytes.chunks(10_000) {
            stream.push(piece);
        }

        let newest = bytes.len() - RING;
        let part = parts(0);
        assert_eq!(
            (part.offset, &part.bytes[..]),
            (newest as u64, &bytes[newest..]),
            "without a file"
        );

        std::fs::write(stream.path(), &bytes[..150_000]).unwrap();
        let mut all = Vec::new();
        while all.len() < bytes.len() {
            let part = parts(all.len() as u64);
            assert_eq!(part.offset, all.len() as u64);
            assert!(part.bytes.len() <= RING);
            all.extend(part.bytes);
        }
        assert!(all == bytes);
        assert_eq!(parts(199_999).bytes, &bytes[199_999..]);
        assert_eq!(parts(200_000).bytes, b"");
    }

    #[test]
    fn one_large_piece_leaves_its_end() {
        let stream = LiveStream::new("nowhere".into());
        stream.push(b"x");
        stream.push(&vec![b'y'; 3 * RING]);
        let part = stream.read(0);
        assert_eq!((part.offset, part.bytes.len()), (2 * RING as u64 + 1, RING));
    }

    #[test]
    fn a_place_beyond_the_end_gives_nothing() {
        let stream = LiveStream::new("nowhere".into());
        stream.push(b"abc");
        assert_eq!(stream.read(u64::MAX).bytes, b"");
    }
}
