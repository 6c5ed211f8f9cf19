//! Content by hash: a directory of verified blobs ([`BlobStore`]), and the transfer of a blob
//! between two ends. An interrupted transfer goes on where it broke off.

mod fetch;
mod pieces;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use common::content::BlobHash;
use common::wire::stream::{GetReply, Open, PutReply};
use common::wire::{Refusal, RefusalCode};
use common::{BlobRef, token};

use crate::channel::{Channel, FrameReceiver, FrameSender};
use crate::endpoint::Connection;
use crate::error::LinkError;
use crate::files::{self, free_bytes, sync_dir, sync_file, unless_gone};
pub(crate) use fetch::WITHDRAWN;
pub use fetch::{Fetching, SendPace, serve_host};
pub use pieces::{ContentSource, FilePieces};
use pieces::{CountedSource, Incoming, PIECE, send_file};

/// The longest time in which an end that stopped content says why.
const REASON_PATIENCE: Duration = Duration::from_secs(5);
/// The longest name of a file that file systems take, in bytes.
const LONGEST_FILE_NAME: usize = 255;

/// A directory of blobs, each under its hash, each verified before it got that name. Cloning gives
/// another handle.
#[derive(Debug, Clone)]
pub struct BlobStore {
    root: Arc<PathBuf>,
    /// The first bytes of hashes whose directories are known to outlive a crash.
    durable: Arc<Mutex<BTreeSet<u8>>>,
    arriving: Arc<Mutex<BTreeMap<IncomingBlob, Arc<tokio::sync::Mutex<()>>>>>,
}

/// An incoming blob and its sender. Each sender has a separate file for what has come so far, so
/// that nobody waits for another sender, or goes on with what another one sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct IncomingBlob {
    hash: BlobHash,
    from: String,
}

/// Counts bytes of content on their way: those that have come, or were handed to the connection, which sends up to a MiB later.
/// Cloning gives another handle.
#[derive(Debug, Clone, Default)]
pub struct ByteCount {
    moved: Arc<AtomicU64>,
    there: Arc<AtomicU64>,
}

impl ByteCount {
    /// Counts bytes that have moved.
    pub(crate) fn add(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that were there before.
    fn add_there(&self, bytes: u64) {
        self.there.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that have moved so far.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Returns the bytes that need not move, since they were there before.
    pub fn there(&self) -> u64 {
        self.there.load(Ordering::Relaxed)
    }
}

/// The exclusive right to bring one blob in for one sender, from [`BlobStore::turn`].
#[derive(Debug)]
pub struct Arriving {
    arrival: IncomingBlob,
    _turn: tokio::sync::OwnedMutexGuard<()>,
}

impl BlobStore {
    /// Opens the directory, and creates it if it is missing.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(root: &Path) -> Result<Self, LinkError> {
        let incoming = root.join("incoming");
        fs::create_dir_all(&incoming).map_err(LinkError::file("cannot make", &incoming))?;
        Ok(Self {
            root: Arc::new(root.to_owned()),
            durable: Arc::default(),
            arriving: Arc::default(),
        })
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the blob, whether it is there or not.
    pub fn path_of(&self, hash: &BlobHash) -> PathBuf {
        let name = hash.to_string();
        self.root.join(&name[..2]).join(&name[2..])
    }

    /// Whether the blob is there.
    pub fn has(&self, blob: &BlobRef) -> bool {
        fs::metadata(self.path_of(&blob.hash)).is_ok_and(|meta| meta.len() == blob.size)
    }

    /// Copies everything that `reader` gives into the store, durably.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub fn add_reader(&self, reader: impl Read) -> io::Result<BlobRef> {
        self.add_moving(reader, |_| false)
    }

    /// The same, where the file that `reader` reads may be moved into the store instead: `moved` tries that,
    /// and returns whether the file is at this path now and nobody can write to it. Else nothing is there.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub fn add_moving(
        &self,
        mut reader: impl Read,
        moved: impl FnOnce(&Path) -> bool,
    ) -> io::Result<BlobRef> {
        let part = self.new_part();
        let read = if moved(&part) {
            copy_hashing(&mut reader, &mut io::sink())
        } else {
            copy_hashing(&mut reader, &mut File::create(&part)?)
        };
        let added = read.and_then(|blob| {
            self.keep(&part, &blob)?;
            Ok(blob)
        });
        if added.is_err() {
            let _ = fs::remove_file(&part);
        }
        added
    }

    /// Copies everything that `reader` gives into the store, not durably: after a crash of the
    /// system the blob may be gone or damaged. A blob that is there already stays as it is.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub fn add_passing(&self, mut reader: impl Read) -> io::Result<BlobRef> {
        let part = self.new_part();
        let added = copy_hashing(&mut reader, &mut File::create(&part)?).and_then(|blob| {
            let target = self.path_of(&blob.hash);
            fs::create_dir_all(target.parent().unwrap_or(&self.root))?;
            // Not a rename: that would put a file that was never synced in the place of one that
            // was.
            match fs::hard_link(&part, &target) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(blob),
            }
        });

        let _ = fs::remove_file(&part);
        added
    }

    /// Returns a path for a blob on its way.
    fn new_part(&self) -> PathBuf {
        let name = token::hex(&rand::random::<[u8; 16]>());
        self.root.join("incoming").join(name)
    }

    /// Makes the blob as young as a new one, because somebody counts on it from now on. If that
    /// fails, the blob merely looks older.
    pub fn touch(&self, blob: &BlobRef) {
        let now = SystemTime::now();
        let _ = File::options()
            .write(true)
            .open(self.path_of(&blob.hash))
            .and_then(|file| file.set_modified(now));
    }

    /// Removes a blob; fine where it is not there.
    ///
    /// # Errors
    /// If the directory refuses.
    pub fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        files::remove(&self.path_of(hash))
    }

    /// Whether the blob is there and its bytes have the right hash.
    ///
    /// # Errors
    /// If it is there and cannot be read: that says nothing of its bytes.
    pub fn verify(&self, blob: &BlobRef) -> io::Result<bool> {
        let found = unless_gone(hash_of(&self.path_of(&blob.hash)))?;
        Ok(found.is_some_and(|found| found == *blob))
    }

    /// Puts a blob that is not what its name says aside, into the directory `damaged`: then it is
    /// not here any more, and can be brought in again. Fine where it is not there.
    ///
    /// # Errors
    /// If the directory refuses.
    pub fn set_aside(&self, hash: &BlobHash) -> io::Result<()> {
        let damaged = self.root.join("damaged");
        fs::create_dir_all(&damaged)?;
        let aside = damaged.join(hash.to_string());
        unless_gone(fs::rename(self.path_of(hash), aside)).map(drop)
    }

    /// Returns the time at which somebody last brought the blob in, or counted on it; `None` if it
    /// is not there.
    pub fn modified(&self, hash: &BlobHash) -> Option<SystemTime> {
        // A network file system may answer from its memory what is asked of a name, and not of a file that is opened.
        File::open(self.path_of(hash))
            .and_then(|file| file.metadata()?.modified())
            .ok()
    }

    /// Returns the bytes that can still be written to the store's file system.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.root)
    }

    /// Removes the parts of interrupted transfers that were not resumed for this long, and returns their number.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn drop_parts(&self, unused_for: Duration) -> io::Result<usize> {
        let mut dropped = 0;
        for part in fs::read_dir(self.root.join("incoming"))? {
            let part = part?;
            // It may have become whole meanwhile; a directory is nobody's part.
            let Some(meta) = files::unless_gone(part.metadata())?.filter(fs::Metadata::is_file)
            else {
                continue;
            };
            let age = SystemTime::now().duration_since(meta.modified()?);
            if age.is_ok_and(|age| age >= unused_for) {
                files::remove(&part.path())?;
                dropped += 1;
            }
        }
        Ok(dropped)
    }

    /// Lists every blob in the store with its size and the time at which it was last written.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn list(&self) -> io::Result<Vec<(BlobRef, SystemTime)>> {
        let mut all = Vec::new();
        for prefix in fs::read_dir(&*self.root)? {
            let prefix = prefix?;
            // Others may be closed to this account, such as `lost+found` where this is a disk of its own.
            if prefix.file_name().len() != 2 || !prefix.file_type()?.is_dir() {
                continue;
            }

            for entry in fs::read_dir(prefix.path())? {
                let entry = entry?;
                let name = format!(
                    "{}{}",
                    prefix.file_name().display(),
                    entry.file_name().display()
                );
                if let (Ok(hash), Ok(meta)) = (name.parse(), entry.metadata()) {
                    all.push((
                        BlobRef {
                            hash,
                            size: meta.len(),
                        },
                        meta.modified()?,
                    ));
                }
            }
        }

        all.sort_unstable_by_key(|(blob, _)| *blob);
        Ok(all)
    }

    /// Gives the verified file `part` its name, durably.
    fn keep(&self, part: &Path, blob: &BlobRef) -> io::Result<()> {
        let target = self.path_of(&blob.hash);
        let dir = target.parent().unwrap_or(&self.root);
        self.make_durable(dir, blob.hash.0[0])?;
        sync_file(part)?;
        fs::rename(part, &target)?;
        // What is not sure to be there after a crash is not there.
        sync_dir(dir).inspect_err(|_| drop(fs::remove_file(&target)))
    }

    /// Makes sure that the directory of the hashes with this first byte is there and outlives a crash. One
    /// that somebody else has made may not be durable yet.
    fn make_durable(&self, dir: &Path, first: u8) -> io::Result<()> {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if !durable.contains(&first) || !dir.exists() {
            fs::create_dir_all(dir)?;
            sync_dir(&self.root)?;
            durable.insert(first);
        }
        Ok(())
    }

    /// Waits for the right to bring this blob in from this sender, who has one at a time.
    pub async fn turn(&self, hash: BlobHash, from: &str) -> Arriving {
        let arrival = IncomingBlob {
            hash,
            from: from.to_owned(),
        };
        let lock = {
            let mut arriving = self.arriving.lock().unwrap_or_else(PoisonError::into_inner);
            arriving.retain(|_, lock| Arc::strong_count(lock) > 1);
            arriving.entry(arrival.clone()).or_default().clone()
        };

        Arriving {
            arrival,
            _turn: lock.lock_owned().await,
        }
    }

    fn part_path(&self, IncomingBlob { hash, from }: &IncomingBlob) -> PathBuf {
        self.root
            .join("incoming")
            .join(format!("{from}.{hash}.part"))
    }

    /// Removes the part of unfinished content that has come from this sender.
    ///
    /// # Errors
    /// If it is there and cannot be removed.
    pub fn drop_part(&self, hash: &BlobHash, from: &str) -> io::Result<()> {
        files::remove(&self.part_path(&IncomingBlob {
            hash: *hash,
            from: from.to_owned(),
        }))
    }

    /// Returns the bytes that have come from this sender of each unfinished content.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn begun(&self, from: &str) -> io::Result<BTreeMap<BlobHash, u64>> {
        let prefix = format!("{from}.");
        let mut begun = BTreeMap::new();

        for part in fs::read_dir(self.root.join("incoming"))? {
            let part = part?;
            let name = part.file_name();
            let name = name.to_string_lossy();
            let rest = name.strip_prefix(&prefix);
            let hash = rest.and_then(|rest| rest.strip_suffix(".part")?.parse::<BlobHash>().ok());
            // Without a length it is gone meanwhile: it has arrived.
            if let Some(hash) = hash
                && let Ok(meta) = part.metadata()
            {
                begun.insert(hash, meta.len());
            }
        }

        Ok(begun)
    }

    async fn keep_async(&self, part: PathBuf, blob: BlobRef) -> Result<(), LinkError> {
        let store = self.clone();
        let shown = part.clone();
        run_blocking(move || store.keep(&part, &blob))
            .await
            .map_err(LinkError::file("cannot keep", shown))
    }
}

/// The operations of a content store that transfer nothing, for code that only asks whether content
/// is there. A simulation has its own store.
pub trait Contents: std::fmt::Debug + Send + Sync {
    /// Whether the blob is there.
    fn has(&self, blob: &BlobRef) -> bool;

    /// Returns the time at which somebody last brought the blob in, or counted on it; `None` if it
    /// is not there.
    fn modified(&self, hash: &BlobHash) -> Option<SystemTime>;

    /// Removes a blob; fine where it is not there.
    ///
    /// # Errors
    /// If the store refuses.
    fn remove(&self, hash: &BlobHash) -> io::Result<()>;

    /// Lists every blob with its size and the time at which it was last brought in or counted on.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn list(&self) -> io::Result<Vec<(BlobRef, SystemTime)>>;
}

impl<T: Contents + ?Sized> Contents for Arc<T> {
    fn has(&self, blob: &BlobRef) -> bool {
        (**self).has(blob)
    }

    fn modified(&self, hash: &BlobHash) -> Option<SystemTime> {
        (**self).modified(hash)
    }

    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        (**self).remove(hash)
    }

    fn list(&self) -> io::Result<Vec<(BlobRef, SystemTime)>> {
        (**self).list()
    }
}

impl Contents for BlobStore {
    fn has(&self, blob: &BlobRef) -> bool {
        BlobStore::has(self, blob)
    }

    fn modified(&self, hash: &BlobHash) -> Option<SystemTime> {
        BlobStore::modified(self, hash)
    }

    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        BlobStore::remove(self, hash)
    }

    fn list(&self) -> io::Result<Vec<(BlobRef, SystemTime)>> {
        BlobStore::list(self)
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|panic| Err(io::Error::other(panic)))
}

/// Copies everything that `reader` gives to `writer`, and names it: what was copied is what was
/// looked at.
///
/// # Errors
/// If reading or writing fails.
pub fn copy_hashing(reader: &mut impl Read, writer: &mut impl Write) -> io::Result<BlobRef> {
    let mut hasher = blake3::Hasher::new();
    let mut size = 0;
    let mut piece = vec![0; PIECE];

    loop {
        let n = match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hasher.update(&piece[..n]);
        writer.write_all(&piece[..n])?;
        size += n as u64;
    }

    Ok(BlobRef {
        hash: BlobHash(*hasher.finalize().as_bytes()),
        size,
    })
}

/// Returns the [`BlobRef`] of some bytes.
pub fn hash_bytes(bytes: &[u8]) -> BlobRef {
    BlobRef {
        hash: BlobHash(*blake3::hash(bytes).as_bytes()),
        size: bytes.len() as u64,
    }
}

/// Returns the [`BlobRef`] of a file's content.
///
/// # Errors
/// If it cannot be read.
pub fn hash_file(path: &Path) -> Result<BlobRef, LinkError> {
    hash_of(path).map_err(LinkError::file("cannot read", path))
}

fn hash_of(path: &Path) -> io::Result<BlobRef> {
    copy_hashing(&mut File::open(path)?, &mut io::sink())
}

/// Brings a blob of the other end's into `store`. Several callers that want the same one share the
/// transfer.
///
/// # Errors
/// If the other end does not have it, the connection is gone, or the disk refuses.
pub async fn get(
    connection: &Connection,
    store: &BlobStore,
    blob: BlobRef,
) -> Result<(), LinkError> {
    match store.fetching(blob).await {
        Some(fetching) => fetching
            .ask(connection, false, Vec::new(), |_| ())
            .await
            .map(drop),
        None => Ok(()),
    }
}

/// Returns the path at which [`fetch_file`] keeps what has come of a blob, until it is whole.
pub fn part_of(path: &Path, blob: &BlobRef) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let end = format!(".{}.part", blob.hash);
    // Where the end has no room behind it, a hash stands for the name: a piece of it could be that of another
    // file, too.
    if name.len() + end.len() > LONGEST_FILE_NAME {
        let hash = hash_bytes(name.as_encoded_bytes()).hash;
        name = hash.to_string().into();
    }
    name.push(end);
    path.with_file_name(name)
}

/// Brings a blob of the other end's into the file `path`, which is there only once it is whole and
/// verified.
///
/// # Errors
/// As [`get`].
pub async fn fetch_file(
    connection: &Connection,
    blob: BlobRef,
    path: &Path,
) -> Result<(), LinkError> {
    fetch_counted(connection, blob, path, &ByteCount::default()).await
}

/// The same, counting the bytes that come in this [`ByteCount`].
pub(crate) async fn fetch_counted(
    connection: &Connection,
    blob: BlobRef,
    path: &Path,
    count: &ByteCount,
) -> Result<(), LinkError> {
    let part = part_of(path, &blob);
    let fetched = fetch_part(connection, blob, part.clone(), count).await;
    // Of nothing no transfer can go on.
    if fetched.is_err() && fs::metadata(&part).is_ok_and(|meta| meta.len() == 0) {
        let _ = fs::remove_file(&part);
    }

    let part = fetched?;
    let target = path.to_owned();
    run_blocking(move || fs::rename(part, target))
        .await
        .map_err(LinkError::file("cannot write", path))
}

async fn fetch_part(
    connection: &Connection,
    blob: BlobRef,
    part: PathBuf,
    count: &ByteCount,
) -> Result<PathBuf, LinkError> {
    let incoming = Incoming::resume(part, blob.size).await?;
    let mut channel = connection
        .open(&Open::Get {
            hash: blob.hash,
            offset: incoming.have,
            peers: false,
            failed: Vec::new(),
        })
        .await?;
    channel.tx.finish();

    let size = found(&mut channel.rx).await?;
    if size != blob.size {
        return Err(other_size(&blob, size));
    }
    count.add_there(incoming.have);
    let mut source = CountedSource(&mut channel.rx, count);
    incoming.receive(&mut source, &blob).await
}

/// Receives the size of content that a user has asked for, however often the master says first that it
/// waits for its storage.
pub(crate) async fn found(rx: &mut FrameReceiver) -> Result<u64, LinkError> {
    loop {
        match rx.expect().await? {
            GetReply::Waits(_) => {}
            GetReply::Found(size) => return Ok(size),
            GetReply::Refused(refusal) => return Err(refusal.into()),
            other @ GetReply::At(_) => {
                let what = format!("{other:?}, which only workers are told");
                return Err(LinkError::Protocol(what));
            }
        }
    }
}

/// Gives the other end the content of `path`, which is `blob`, unless it has it.
///
/// # Errors
/// If the file cannot be read, the other end does not take it, or the connection is gone.
pub async fn put(connection: &Connection, path: &Path, blob: BlobRef) -> Result<(), LinkError> {
    put_counted(connection, path, blob, &ByteCount::default()).await
}

/// The same, counting the bytes in this [`ByteCount`].
pub(crate) async fn put_counted(
    connection: &Connection,
    path: &Path,
    blob: BlobRef,
    count: &ByteCount,
) -> Result<(), LinkError> {
    let mut channel = connection.open(&Open::Put(blob)).await?;
    let PutReply::Resume(offset) = put_reply(&mut channel).await? else {
        count.add_there(blob.size);
        return Ok(());
    };

    count.add_there(offset);
    let pace = SendPace::counting(count);
    match send_file(&mut channel.tx, path, offset, false, &pace).await {
        Ok(_) => finish_put(&mut channel).await,
        Err(error) => Err(reason_of(&mut channel, error).await),
    }
}

/// Gives the other end these bytes, which are `blob`, unless it has them.
///
/// # Errors
/// If the other end does not take them, or the connection is gone.
pub async fn put_bytes(
    connection: &Connection,
    bytes: &[u8],
    blob: BlobRef,
) -> Result<(), LinkError> {
    let mut channel = connection.open(&Open::Put(blob)).await?;
    if let PutReply::Resume(offset) = put_reply(&mut channel).await? {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..))
            .unwrap_or_default();
        if let Err(error) = channel.tx.raw().write_all(rest).await {
            return Err(reason_of(&mut channel, error.into()).await);
        }
        finish_put(&mut channel).await?;
    }

    Ok(())
}

/// Makes the error of content that has another size there than asked for.
fn other_size(blob: &BlobRef, size: u64) -> LinkError {
    let BlobRef { hash, size: wanted } = blob;
    LinkError::Protocol(format!("{hash} has {size} bytes there, not {wanted}"))
}

async fn put_reply(channel: &mut Channel) -> Result<PutReply, LinkError> {
    match channel.rx.expect().await? {
        PutReply::Refused(refusal) => Err(refusal.into()),
        reply => Ok(reply),
    }
}

/// Returns why the sending of content failed: who stops it says after that what was wrong.
async fn reason_of(channel: &mut Channel, error: LinkError) -> LinkError {
    if !matches!(error, LinkError::Closed(_)) {
        return error;
    }
    match tokio::time::timeout(REASON_PATIENCE, put_reply(channel)).await {
        Ok(Err(refused @ LinkError::Refused(_))) => refused,
        _ => error,
    }
}

async fn finish_put(channel: &mut Channel) -> Result<(), LinkError> {
    channel.tx.finish();
    match put_reply(channel).await? {
        PutReply::Stored => Ok(()),
        other => Err(LinkError::Protocol(format!(
            "{other:?} after the last byte"
        ))),
    }
}

/// Answers an [`Open::Get`] at this [`SendPace`].
///
/// # Errors
/// If the connection is gone or the file cannot be read.
pub async fn serve_get(
    store: &BlobStore,
    mut tx: FrameSender,
    hash: BlobHash,
    offset: u64,
    pace: &SendPace,
) -> Result<(), LinkError> {
    let path = store.path_of(&hash);
    let sent = match tokio::fs::metadata(&path).await {
        Ok(meta) if offset <= meta.len() => {
            tx.send(&GetReply::Found(meta.len())).await?;
            send_file(&mut tx, &path, offset, offset == 0, pace).await?
        }
        _ => return refuse_get(tx, not_here(hash)).await,
    };

    tx.finish();
    tx.delivered().await;
    if let Some(sent) = sent.filter(|sent| sent.hash != hash) {
        look_again(store, sent.size, hash).await;
    }

    Ok(())
}

/// Verifies a stored blob that arrived damaged at the other end. If it is damaged here, it is put
/// aside, so that it can be brought in again.
async fn look_again(store: &BlobStore, size: u64, hash: BlobHash) {
    let store = store.clone();
    let aside = run_blocking(move || {
        if store.verify(&BlobRef { hash, size })? {
            return Ok(false);
        }
        store.set_aside(&hash).map(|()| true)
    });
    match aside.await {
        Ok(true) => {
            tracing::error!(%hash, "content is damaged, and was put aside: see this machine's disk");
        }
        Ok(false) => {
            tracing::warn!(%hash, "content was read damaged and is whole: see this machine's disk and memory");
        }
        Err(error) => {
            tracing::error!(%hash, %error, "content was read damaged, and cannot be read again or put aside");
        }
    }
}

/// Returns the refusal of content that is not there, or not for the one who asks: it is the same.
pub fn not_here(hash: BlobHash) -> Refusal {
    let hint = "it may have been forgotten; ask for the job's outputs again";
    let what = format!("content {hash} is not here");
    Refusal::new(RefusalCode::NotFound, what, hint)
}

/// Answers an [`Open::Get`] whose content is not given.
///
/// # Errors
/// If the connection is gone.
pub async fn refuse_get(mut tx: FrameSender, refusal: Refusal) -> Result<(), LinkError> {
    tx.send_last(&GetReply::Refused(refusal)).await
}

/// Answers an [`Open::Put`] whose blob is not taken.
///
/// # Errors
/// If the connection is gone.
pub async fn refuse_put(tx: &mut FrameSender, refusal: Refusal) -> Result<(), LinkError> {
    tx.send_last(&PutReply::Refused(refusal)).await
}

/// Returns the refusal for the sender of content that did not arrive whole, unless the sender has
/// gone away.
pub fn refusal_of(error: &LinkError) -> Option<Refusal> {
    match error {
        LinkError::Damaged { .. } => {
            let hint = "send it again; was the file changed meanwhile?";
            Some(Refusal::new(RefusalCode::Conflict, error.to_string(), hint))
        }
        LinkError::File { .. } => {
            let hint = "see the master's disk; then send it again";
            Some(Refusal::new(
                RefusalCode::Unavailable,
                format!("the content cannot be kept: {error}"),
                hint,
            ))
        }
        _ => None,
    }
}

/// Takes the content of an [`Open::Put`] that the caller is willing to take, in the sender's turn.
/// It is durable then, and the sender is still to be told ([`answer_stored`]). A file under its
/// name that was damaged meanwhile is replaced.
///
/// # Errors
/// If it did not arrive whole, of which the sender has been told; if the connection is gone or the
/// disk refuses.
pub async fn receive_put(
    store: &BlobStore,
    channel: &mut Channel,
    blob: BlobRef,
    turn: &Arriving,
) -> Result<(), LinkError> {
    let part = store.part_path(&turn.arrival);
    let taken = take(store, channel, blob, part.clone()).await;
    if let Err(error) = &taken
        && let Some(refusal) = refusal_of(error)
    {
        let _ = tokio::fs::remove_file(part).await;
        channel.rx.stop();
        refuse_put(&mut channel.tx, refusal).await?;
    }

    taken
}

/// Takes content from its first byte on, in the sender's turn, and makes it durable. Nothing is
/// kept of what does not arrive whole.
///
/// # Errors
/// If it did not arrive whole, or the disk refuses.
pub async fn receive_whole(
    store: &BlobStore,
    source: &mut impl ContentSource,
    blob: BlobRef,
    turn: &Arriving,
) -> Result<(), LinkError> {
    let part = store.part_path(&turn.arrival);
    let _ = tokio::fs::remove_file(&part).await;
    let incoming = Incoming::resume(part.clone(), blob.size).await?;
    let received = async {
        store
            .keep_async(incoming.receive(source, &blob).await?, blob)
            .await
    };

    let received = received.await;
    if received.is_err() {
        let _ = tokio::fs::remove_file(part).await;
    }
    received
}

/// Tells the sender of content that it is here, verified and durable.
///
/// # Errors
/// If the connection is gone.
pub async fn answer_stored(mut channel: Channel) -> Result<(), LinkError> {
    channel.tx.send_last(&PutReply::Stored).await
}

/// Takes a blob, and makes it durable.
async fn take(
    store: &BlobStore,
    channel: &mut Channel,
    blob: BlobRef,
    part: PathBuf,
) -> Result<(), LinkError> {
    let incoming = Incoming::resume(part, blob.size).await?;
    channel.tx.send(&PutReply::Resume(incoming.have)).await?;
    let part = incoming.receive(&mut channel.rx, &blob).await?;
    store.keep_async(part, blob).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_content_is_found_under_its_hash() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::open(dir.path()).unwrap();
        let blob = store.add_reader(&b"hello"[..]).unwrap();
        assert_eq!(blob, hash_bytes(b"hello"));
        assert!(store.has(&blob) && !store.has(&BlobRef { size: 4, ..blob }));
        assert_eq!(fs::read(store.path_of(&blob.hash)).unwrap(), b"hello");
        assert_eq!(
            store
                .list()
                .unwrap()
                .iter()
                .map(|(b, _)| *b)
                .collect::<Vec<_>>(),
            [blob]
        );

        store.remove(&blob.hash).unwrap();
        store.remove(&blob.hash).unwrap();
        assert!(!store.has(&blob));
        assert_eq!(
            fs::read_dir(dir.path().join("incoming")).unwrap().count(),
            0
        );
    }

    #[test]
    fn a_part_has_a_name_that_a_disk_takes_and_no_other_file_has() {
        let blob = hash_bytes(b"hello");
        let part = |name: &str| part_of(Path::new("d").join(name).as_path(), &blob);
        let short = PathBuf::from(format!("d/out.{}.part", blob.hash));
        assert_eq!(part("out"), short);

        let long = "x".repeat(254);
        let parts = [part(&(long.clone() + "a")), part(&(long + "b"))];
        assert!(parts[0] != parts[1] && parts[0].parent() == short.parent());
        let fits = |part: &PathBuf| part.file_name().unwrap().len() <= LONGEST_FILE_NAME;
        assert!(parts.iter().all(fits), "{parts:?}");
    }

    #[test]
    fn a_passing_copy_is_found_and_takes_the_place_of_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::open(dir.path()).unwrap();
        let blob = store.add_passing(&b"hello"[..]).unwrap();
        assert!(store.has(&blob) && blob == hash_bytes(b"hello"));

        let durable = store.add_reader(&b"other"[..]).unwrap();
        #[cfg(unix)]
        let file = |blob: &BlobRef| {
            std::os::unix::fs::MetadataExt::ino(&fs::metadata(store.path_of(&blob.hash)).unwrap())
        };

        // Wherever a file has no number that can be asked for, another one was made at another
        // time.
        #[cfg(windows)]
        let file = |blob: &BlobRef| {
            fs::metadata(store.path_of(&blob.hash))
                .unwrap()
                .created()
                .unwrap()
        };
        let before = file(&durable);
        assert_eq!(
            (store.add_passing(&b"other"[..]).unwrap(), file(&durable)),
            (durable, before)
        );
        assert_eq!(
            fs::read_dir(dir.path().join("incoming")).unwrap().count(),
            0
        );
    }

    #[test]
    fn a_directory_among_unfinished_blobs_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join("incoming/odd")).unwrap();
        assert_eq!(store.drop_parts(Duration::ZERO).unwrap(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_may_not_be_read_is_left_alone_if_it_is_of_no_blobs() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::open(dir.path()).unwrap();
        let blob = store.add_reader(&b"hello"[..]).unwrap();
        // Root may read it, and then would find this.
        let locked = dir.path().join("abc");
        fs::create_dir(&locked).unwrap();
        fs::write(locked.join("0".repeat(61)), "").unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o0)).unwrap();
        let listed = store.list().unwrap().into_iter().map(|(blob, _)| blob);
        assert_eq!(listed.collect::<Vec<_>>(), [blob]);
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn a_blob_that_cannot_be_read_is_not_called_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let store = BlobStore::open(dir.path()).unwrap();
        let blob = store.add_reader(&b"hello"[..]).unwrap();
        let path = store.path_of(&blob.hash);
        assert!(store.verify(&blob).unwrap());

        fs::write(&path, b"hullo").unwrap();
        assert!(!store.verify(&blob).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!store.verify(&blob).unwrap());

        // What stands in its place cannot be read as a file.
        fs::create_dir(&path).unwrap();
        assert!(store.verify(&blob).is_err());
    }
}
