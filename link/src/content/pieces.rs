//! A file between the disk and a stream, in large pieces. While one piece is on its way over the
//! network, the next one is read, or the one before is hashed and written, on the blocking pool.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::BlobRef;
use common::content::BlobHash;
use common::wire::Refusal;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::fetch::SendPace;
use super::{ByteCount, run_blocking};
use crate::channel::{FrameReceiver, FrameSender};
use crate::error::LinkError;

/// The bytes that are read or written at a time.
pub(super) const PIECE: usize = 256 * 1024;
/// The time without data after which a sender is given up: others may wait for the same content.
const STALL: Duration = Duration::from_secs(60);
/// The time without data after which an unfinished piece is written: a crash does not cost it then.
const LULL: Duration = Duration::from_millis(500);
/// The longest time that the other end may take to read a piece: who asks and does not read keeps a
/// file open here.
const UNREAD: Duration = Duration::from_secs(60);

/// The bytes of some content, in the order in which they come.
pub trait ContentSource: Send {
    /// Adds the next bytes to `to`. Returns `false` at the end. Dropping the future loses no byte.
    fn read_onto(
        &mut self,
        to: &mut Vec<u8>,
    ) -> impl Future<Output = Result<bool, LinkError>> + Send;
}

impl ContentSource for FrameReceiver {
    async fn read_onto(&mut self, to: &mut Vec<u8>) -> Result<bool, LinkError> {
        FrameReceiver::read_onto(self, to).await
    }
}

impl ContentSource for mpsc::Receiver<Result<Bytes, Refusal>> {
    async fn read_onto(&mut self, to: &mut Vec<u8>) -> Result<bool, LinkError> {
        let Some(piece) = self.recv().await else {
            return Ok(false);
        };
        to.extend_from_slice(&piece?);
        Ok(true)
    }
}

/// A [`ContentSource`] whose bytes are counted by a [`ByteCount`].
pub(super) struct CountedSource<'a, S>(pub(super) &'a mut S, pub(super) &'a ByteCount);

impl<S: ContentSource> ContentSource for CountedSource<'_, S> {
    async fn read_onto(&mut self, to: &mut Vec<u8>) -> Result<bool, LinkError> {
        let before = to.len();
        let more = self.0.read_onto(to).await?;
        self.1.add((to.len() - before) as u64);
        Ok(more)
    }
}

/// The patience with a sender.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// The time without data after which it is given up.
    pub(super) stall: Duration,
    /// The time after which, and the bytes a second below which on average, it is given up.
    pub(super) floor: Option<(Duration, u64)>,
}

impl Patience {
    /// The patience with a sender that has what nobody else has.
    pub(super) const WITH_MASTER: Self = Self {
        stall: STALL,
        floor: None,
    };

    /// Whether so many bytes are too few after so long.
    fn is_slow(self, bytes: u64, after: Duration) -> bool {
        let (grace, per_s) = self.floor.unwrap_or((Duration::MAX, 0));
        let counted = after.saturating_sub(grace).as_secs_f64();
        (bytes as f64) < counted * per_s as f64
    }
}

/// A blob on its way into a file.
pub(super) struct Incoming {
    path: PathBuf,
    written: HashedFile,
    /// The bytes that the file has.
    pub(super) have: u64,
}

/// A file with the hash of what was written to it, or read from it, so far.
struct HashedFile {
    file: File,
    hasher: blake3::Hasher,
}

/// Writes the pieces of a file, one at a time on the blocking pool, where no thread waits for data.
struct PieceWriter {
    /// The file while nothing is being written.
    idle: Option<HashedFile>,
    busy: Option<JoinHandle<io::Result<Written>>>,
}

/// A file after a piece was written, and the piece's memory.
type Written = (HashedFile, Vec<u8>);

impl Incoming {
    /// Resumes an earlier transfer of the file at `path`, if there is one.
    pub(super) async fn resume(path: PathBuf, size: u64) -> Result<Self, LinkError> {
        let shown = path.clone();

        let opened = move || {
            let mut options = File::options();
            options.create(true).read(true).write(true).truncate(false);
            let mut file = options.open(&path)?;
            let mut hasher = blake3::Hasher::new();
            let mut have = file.metadata()?.len();
            if have > size {
                file.set_len(0)?;
                have = 0;
            }
            hasher.update_reader(&mut file)?;

            Ok(Self {
                path,
                written: HashedFile { file, hasher },
                have,
            })
        };
        run_blocking(opened)
            .await
            .map_err(LinkError::file("cannot write", shown))
    }

    /// Receives the rest from the stream, and fails unless the whole has the right hash. What came
    /// before the stream broke is kept for another try.
    pub(super) async fn receive(
        self,
        rx: &mut impl ContentSource,
        blob: &BlobRef,
    ) -> Result<PathBuf, LinkError> {
        self.receive_within(rx, blob, Patience::WITH_MASTER).await
    }

    /// The same, with this patience.
    pub(super) async fn receive_within(
        self,
        rx: &mut impl ContentSource,
        blob: &BlobRef,
        limits: Patience,
    ) -> Result<PathBuf, LinkError> {
        let Self {
            path,
            written,
            mut have,
        } = self;
        let failed = |e| LinkError::file("cannot write", &path)(e);
        let mut writer = PieceWriter {
            idle: Some(written),
            busy: None,
        };

        let begun = Instant::now();
        let first = have;
        let mut piece = Vec::new();
        let ended = loop {
            let before = piece.len();
            let patience = if piece.is_empty() { limits.stall } else { LULL };
            let came = tokio::time::timeout(patience, rx.read_onto(&mut piece)).await;
            have += (piece.len() - before) as u64;

            if limits.is_slow(have - first, begun.elapsed()) && have < blob.size {
                break Err(LinkError::Closed("the content came too slowly".to_owned()));
            }
            match came {
                Ok(Ok(true)) if have <= blob.size && piece.len() < PIECE => {}
                Ok(Ok(true)) if have <= blob.size => {
                    piece = writer.write(piece).await.map_err(failed)?;
                }
                Ok(Ok(_)) => break Ok(()),
                Ok(Err(error)) => break Err(error),
                Err(_) if piece.is_empty() => break Err(stalled(patience)),
                Err(_) => piece = writer.write(piece).await.map_err(failed)?,
            }
        };

        writer.write(piece).await.map_err(failed)?;
        let written = writer.end().await.map_err(failed)?;
        ended?;
        if have < blob.size {
            return Err(LinkError::Closed(format!(
                "{have} of {} bytes came",
                blob.size
            )));
        }

        let found = BlobHash(*written.hasher.finalize().as_bytes());
        if have > blob.size || found != blob.hash {
            let _ = tokio::fs::remove_file(&path).await;
            return Err(LinkError::Damaged {
                expected: blob.hash.to_string(),
                found: found.to_string(),
            });
        }

        Ok(path)
    }
}

fn stalled(patience: Duration) -> LinkError {
    LinkError::Closed(format!("no byte of the content came for {patience:?}"))
}

impl HashedFile {
    /// Opens a file to read it from this byte on.
    fn open(path: &Path, from: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(from))?;
        let hasher = blake3::Hasher::new();
        Ok(Self { file, hasher })
    }

    fn write(mut self, mut piece: Vec<u8>) -> io::Result<Written> {
        self.hasher.update(&piece);
        self.file.write_all(&piece)?;
        piece.clear();
        Ok((self, piece))
    }

    /// Reads the next piece, which is empty at the end.
    fn read(mut self, hashed: bool) -> io::Result<(Self, Bytes)> {
        let mut piece = Vec::with_capacity(PIECE);
        let most = PIECE as u64;
        Read::by_ref(&mut self.file)
            .take(most)
            .read_to_end(&mut piece)?;
        if hashed {
            self.hasher.update(&piece);
        }
        Ok((self, piece.into()))
    }
}

impl PieceWriter {
    /// Begins to write this piece once the one before is written, and returns an empty one.
    async fn write(&mut self, piece: Vec<u8>) -> io::Result<Vec<u8>> {
        let (file, empty) = match self.busy.take() {
            Some(busy) => joined(busy.await)?,
            None => (self.file()?, Vec::new()),
        };
        if piece.is_empty() {
            self.idle = Some(file);
        } else {
            self.busy = Some(tokio::task::spawn_blocking(|| file.write(piece)));
        }
        Ok(empty)
    }

    /// Waits until everything is written.
    async fn end(mut self) -> io::Result<HashedFile> {
        match self.busy.take() {
            Some(busy) => joined(busy.await).map(|(file, _)| file),
            None => self.file(),
        }
    }

    fn file(&mut self) -> io::Result<HashedFile> {
        let gone = || io::Error::other("the file was given up after an error");
        self.idle.take().ok_or_else(gone)
    }
}

fn joined<T>(ended: Result<io::Result<T>, tokio::task::JoinError>) -> io::Result<T> {
    ended.unwrap_or_else(|panic| Err(io::Error::other(panic)))
}

/// A file that is read piece by piece on the blocking pool: no thread waits for a slow reader.
pub struct FilePieces(HashedFile);

impl FilePieces {
    /// Opens a blob at byte `from`, and returns it with its whole length in bytes.
    ///
    /// # Errors
    /// If it is not there, or cannot be read.
    pub async fn open(path: PathBuf, from: u64) -> Result<(Self, u64), LinkError> {
        let shown = path.clone();
        let opened = run_blocking(move || {
            let file = HashedFile::open(&path, from)?;
            let size = file.file.metadata()?.len();
            Ok((Self(file), size))
        });
        opened.await.map_err(LinkError::file("cannot read", shown))
    }

    /// Returns the next piece with what is left; `None` at the end.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn next(self) -> io::Result<Option<(Self, Bytes)>> {
        let read = joined(tokio::task::spawn_blocking(|| self.0.read(false)).await);
        let (file, piece) = read?;
        Ok((!piece.is_empty()).then_some((Self(file), piece)))
    }
}

/// Sends a file from `offset` on. Returns the [`BlobRef`] of what was sent if it is to be `hashed`.
pub(super) async fn send_file(
    tx: &mut FrameSender,
    path: &Path,
    offset: u64,
    hashed: bool,
    pace: &SendPace,
) -> Result<Option<BlobRef>, LinkError> {
    let failed = |e| LinkError::file("cannot read", path)(e);

    let from = path.to_owned();
    let mut reading =
        tokio::task::spawn_blocking(move || HashedFile::open(&from, offset)?.read(hashed));

    let mut size = 0;
    loop {
        let (file, piece) = joined(reading.await).map_err(failed)?;
        if piece.is_empty() {
            let hash = BlobHash(*file.hasher.finalize().as_bytes());
            return Ok(hashed.then_some(BlobRef { hash, size }));
        }

        let length = piece.len() as u64;
        size += length;
        reading = tokio::task::spawn_blocking(move || file.read(hashed));
        pace.turn(length).await;
        tokio::time::timeout(UNREAD, tx.raw().write_chunk(piece))
            .await
            .map_err(|_| LinkError::Unread)??;
        pace.note(length);
    }
}
