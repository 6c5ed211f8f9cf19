//! The cache of inputs: files by their content, each fetched once and verified, and trees, each
//! unpacked once. They are kept for the next attempts while there is room.
//!
//! The least recently used is evicted first; a file or tree that an attempt uses stays.

mod index;
mod part;
mod tree;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use common::BlobRef;
use common::content::BlobHash;
use common::manifest::{MAX_TREE_LIST, Manifest};
use common::units::Bytes;
use common::wire::peer::LEAST_SHARED;
use link::files::unless_gone;
use link::{BlobStore, Connection, LinkError};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::blocking::{behind, off, yielded, yielding};
use crate::os::{self, stamp_of};
use crate::peers::InputPeers;
use index::{CacheIndex, CacheKey};
use tree::{TreeLook, Trees, UnpackedTree};

/// The pause before fetching again over a connection that is still there.
const RETRY: Duration = Duration::from_millis(500);

/// The number of times that content may arrive damaged before the fetch fails: it is then damaged
/// at the other end, too.
const DAMAGED: u32 = 3;

/// The number of parts of a tree that are fetched at a time.
const PARTS: usize = 8;

/// The time for which the part of a file whose fetch was given up is kept over a start of the worker.
const PART_LIFE: Duration = Duration::from_hours(24);

/// The directory of files that have left the cache and are to be removed.
const GONE: &str = "gone";

/// The number of times that a tree is unpacked before that fails.
const UNPACKED: u32 = 3;

/// The cache of inputs.
#[derive(Debug)]
pub(crate) struct Cache {
    store: BlobStore,
    /// The number of files so far that have left the cache, and of entries that were removed.
    gone: AtomicU64,
    removed: AtomicU64,
    /// Whether the disk was full, and nothing could be removed, when somebody last needed room.
    full: AtomicBool,
    /// Held by whoever evicts while attempts run.
    removing: Mutex<()>,
    trees: Trees,
    /// The trees that are being unpacked, each by one attempt.
    unpacking: Mutex<BTreeMap<BlobHash, Arc<tokio::sync::Mutex<()>>>>,
    limit: u64,
    books: Mutex<CacheIndex>,
    master: watch::Receiver<Option<Connection>>,
    peers: Arc<InputPeers>,
}

/// A cached file that is not evicted while this value exists.
#[derive(Debug)]
pub(crate) struct Pinned {
    cache: Arc<Cache>,
    blob: BlobRef,
}

/// An unpacked tree that is not evicted while this value exists.
#[derive(Debug)]
pub(crate) struct PinnedTree {
    cache: Arc<Cache>,
    hash: BlobHash,
    tree: Arc<UnpackedTree>,
}

/// The reason why a tree cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoTree {
    /// Its list or its content cannot be fetched.
    #[error("cannot be fetched: {0}")]
    Fetch(#[from] LinkError),
    /// It cannot be unpacked.
    #[error("cannot be unpacked: {0}")]
    Unpack(#[from] io::Error),
    /// Its list is none of a tree.
    #[error("cannot be used: {0}")]
    List(String),
    /// It is damaged, time and again.
    #[error("is damaged on this host, time and again: see its disk")]
    Damaged,
}

impl NoTree {
    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            NoTree::Fetch(error) => error.is_full(),
            NoTree::Unpack(error) => link::is_full(error),
            NoTree::List(_) | NoTree::Damaged => false,
        }
    }
}

impl Cache {
    /// Opens the cache of files in `dir` and of trees in `trees`, bounded to `limit` bytes.
    /// `master` is the connection, while there is one; large content may come from `peers`.
    pub(crate) fn open(
        (dir, trees): (&Path, &Path),
        limit: u64,
        master: watch::Receiver<Option<Connection>>,
        peers: Arc<InputPeers>,
    ) -> Result<Self, LinkError> {
        let store = BlobStore::open(dir)?;
        let gone = dir.join(GONE);
        let emptied = os::remove_tree(&gone).and_then(|()| store.drop_parts(PART_LIFE).map(drop));
        if let Err(error) = emptied {
            tracing::warn!(dir = %dir.display(), %error, "what left the cache of inputs cannot be removed");
        }
        link::files::private_dir(&gone).map_err(LinkError::file("cannot make", &gone))?;
        let mut books = CacheIndex::of(&store).map_err(LinkError::file("cannot list", dir))?;
        let (trees, unpacked) = Trees::open(trees).map_err(LinkError::file("cannot use", trees))?;
        for (hash, space, tree) in unpacked {
            books.enter(CacheKey::Tree(hash), space, 0).tree = Some(Arc::new(tree));
        }

        let cache = Self {
            store,
            gone: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            full: AtomicBool::new(false),
            removing: Mutex::default(),
            trees,
            unpacking: Mutex::default(),
            limit,
            books: Mutex::new(books),
            master,
            peers,
        };
        cache.evict_to(limit);

        Ok(cache)
    }

    /// Returns the content, and fetches it first if it is not here, however long the master is
    /// away. The error is for people, and final.
    pub(crate) async fn fetch(self: &Arc<Self>, blob: BlobRef) -> Result<Pinned, LinkError> {
        let mut master = self.master.clone();
        let mut damaged = 0;
        let mut part = None;
        loop {
            if let Some(pinned) = self.pin(blob) {
                return Ok(pinned);
            }

            part.get_or_insert_with(|| self.expect(blob));
            let connection = match master.wait_for(Option::is_some).await {
                Ok(connection) => connection.clone(),
                Err(_) => return Err(LinkError::Closed("the worker ends".to_owned())),
            };
            let Some(connection) = connection else {
                continue;
            };
            match self.bring(&connection, blob).await {
                Ok(()) => self.full.store(false, Ordering::Relaxed),
                Err(error) if error.is_full() => {
                    if !self.make_room().await {
                        return Err(error);
                    }
                }
                Err(error @ LinkError::Damaged { .. }) if damaged >= DAMAGED => return Err(error),
                Err(error) if error.passing() => {
                    damaged += u32::from(matches!(error, LinkError::Damaged { .. }));
                    tracing::debug!(hash = %blob.hash, %error, "fetching an input again");
                    let _ = tokio::time::timeout(RETRY, master.changed()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Brings the content here over this connection, or from another host.
    async fn bring(&self, master: &Connection, blob: BlobRef) -> Result<(), LinkError> {
        if blob.size < LEAST_SHARED {
            return link::content::get(master, &self.store, blob).await;
        }
        match self.store.fetching(blob).await {
            Some(fetching) => self.peers.fetch(master, fetching).await,
            None => Ok(()),
        }
    }

    /// Returns the content if it is here and intact.
    pub(crate) async fn whole(self: &Arc<Self>, blob: BlobRef) -> Option<Pinned> {
        let pinned = self.pin(blob)?;
        let look = move || pinned.is_whole().map(|whole| whole.then_some(pinned));
        off(look).await.ok()?.ok()?
    }

    /// Returns the contents of this size and more, those that were used last, at most so many.
    pub(crate) fn large(&self, least: u64, most: usize) -> Vec<BlobHash> {
        let books = self.lock();
        let mut large: Vec<_> = books
            .entries
            .iter()
            .filter(|(_, entry)| entry.size >= least)
            .filter_map(|(key, entry)| match key {
                CacheKey::File(hash) => Some((entry.used, *hash)),
                CacheKey::Tree(_) | CacheKey::Part(_) => None,
            })
            .collect();

        large.sort_unstable();
        large
            .into_iter()
            .rev()
            .take(most)
            .map(|(_, hash)| hash)
            .collect()
    }

    /// Removes content that was found damaged; a later `fetch` brings it again.
    pub(crate) fn discard(&self, hash: &BlobHash) {
        tracing::error!(%hash, "a cached input was damaged: it is fetched again; see this host's disk");
        // The entry stays: somebody may hold the content, and it comes back with the same size.
        let gone = {
            let _books = self.lock();
            self.take_file(&self.store.path_of(hash))
        };
        if let Some(path) = gone {
            behind(move || tree::remove(&path));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CacheIndex> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pins the content, if it is here.
    fn pin(self: &Arc<Self>, blob: BlobRef) -> Option<Pinned> {
        // Under the lock, so that it is not evicted between the check and the entry.
        let mut books = self.lock();
        if !self.store.has(&blob) {
            return None;
        }
        books.resize(CacheKey::Part(blob.hash), 0);
        books.enter(CacheKey::File(blob.hash), blob.size, 1);
        drop(books);

        self.evict();
        Some(Pinned {
            cache: Arc::clone(self),
            blob,
        })
    }

    /// Removes everything that no attempt uses, for a disk that is full before the cache has reached
    /// its limit. Returns whether anything of it was removed, by whomever. If not, what is let go of is removed, too, until
    /// there is room again: of a fetch that ends for want of it nothing is to keep the disk full.
    async fn make_room(self: &Arc<Self>) -> bool {
        let before = self.removed.load(Ordering::Relaxed);
        let cache = Arc::clone(self);
        let removed = off(move || {
            let _turn = cache.removing.lock();
            cache.evict_to(0);
            let made = cache.removed.load(Ordering::Relaxed) > before;
            cache.full.store(!made, Ordering::Relaxed);
            made
        });
        removed.await.unwrap_or(false)
    }

    /// Evicts down to the limit where that is exceeded; nobody waits for it.
    fn evict(self: &Arc<Self>) {
        if !self.lock().exceeds(self.bound()) {
            return;
        }
        let cache = Arc::clone(self);
        behind(move || {
            // Somebody else who evicts goes on as long as there is something. What came just before he let go is looked
            // for once more.
            while cache.lock().exceeds(cache.bound()) {
                let turn = cache.removing.try_lock();
                if matches!(turn, Err(TryLockError::WouldBlock)) {
                    break;
                }
                cache.evict_to(cache.bound());
            }
        });
    }

    /// Returns the bytes that the cache may have now beside what is in use: none while it is `full`.
    fn bound(&self) -> u64 {
        if self.full.load(Ordering::Relaxed) {
            0
        } else {
            self.limit
        }
    }

    /// Evicts down to `limit` bytes, the oldest use first. May take a while: the lock of the books is free between any
    /// two entries, and while one is removed.
    fn evict_to(&self, limit: u64) {
        while let Some(gone) = self.take_out(limit) {
            if let Some(path) = gone {
                tree::remove(&path);
                self.removed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes the oldest entry that no attempt uses out of the cache if that has more than `limit` bytes. Returns what is
    /// to be removed then, if anything.
    fn take_out(&self, limit: u64) -> Option<Option<PathBuf>> {
        let mut books = self.lock();
        if !books.exceeds(limit) {
            return None;
        }

        let (key, entry) = books.take_oldest()?;
        Some(match key {
            CacheKey::File(hash) => self.take_file(&self.store.path_of(&hash)),
            CacheKey::Part(hash) => self.take_file(&self.store.fetched_part(&hash)),
            // Whoever looks at it just now removes it.
            CacheKey::Tree(_) => entry.tree.and_then(|tree| {
                tree.doom();
                Arc::into_inner(tree).map(UnpackedTree::take_out)
            }),
        })
    }

    fn take_file(&self, path: &Path) -> Option<PathBuf> {
        let number = self.gone.fetch_add(1, Ordering::Relaxed);
        let to = self.store.root().join(GONE).join(number.to_string());
        // A directory may have no room for another name.
        let gone =
            unless_gone(fs::rename(path, &to)).or_else(|_| unless_gone(fs::remove_file(path)));
        gone.inspect_err(|error: &io::Error| {
            tracing::warn!(path = %path.display(), %error, "a cached input cannot be removed");
        })
        .ok()?
        .map(|()| to)
    }
}

impl Pinned {
    /// Returns the path of the content.
    pub(crate) fn path(&self) -> PathBuf {
        self.cache.store.path_of(&self.blob.hash)
    }

    /// Removes the content from the cache because it is damaged.
    pub(crate) fn discard(&self) {
        self.cache.discard(&self.blob.hash);
    }

    /// Whether the content is intact, which is looked at again once its file has changed. Damaged
    /// content is removed from the cache.
    ///
    /// # Errors
    /// If the content cannot be read.
    pub(crate) fn is_whole(&self) -> io::Result<bool> {
        let path = self.path();
        // What is gone another attempt has found damaged, and removed.
        let Some(meta) = unless_gone(fs::metadata(&path))? else {
            return Ok(false);
        };
        let stamp = stamp_of(&meta);
        let key = CacheKey::File(self.blob.hash);
        let entry = |index: &CacheIndex| index.entries.get(&key)?.whole;
        if entry(&self.cache.lock()) == Some(stamp) {
            return Ok(true);
        }

        // A thread of its own is for what is read: most content has not changed.
        let hash = || link::content::copy_hashing(&mut File::open(&path)?, &mut io::sink());
        let found = yielded(hash)?;
        if found != self.blob {
            self.discard();
            return Ok(false);
        }
        if let Some(entry) = self.cache.lock().entries.get_mut(&key) {
            entry.whole = Some(stamp);
        }
        Ok(true)
    }

    /// Reads the content as a list of files; `None` if it is damaged, and removed from the cache then.
    fn list(&self) -> io::Result<Option<Result<Manifest, String>>> {
        let Some(bytes) = unless_gone(fs::read(self.path()))? else {
            return Ok(None);
        };
        if link::content::hash_bytes(&bytes) != self.blob {
            self.discard();
            return Ok(None);
        }
        Ok(Some(
            Manifest::from_bytes(&bytes).map_err(|bad| bad.to_string()),
        ))
    }

    /// Copies the content to `to`, a new file, and returns whether it is intact. Damaged content is
    /// removed from the cache.
    ///
    /// If `to` cannot be written, or the content cannot be read.
    pub(crate) fn copy_to(&self, to: &mut File) -> io::Result<bool> {
        let Some(mut from) = unless_gone(File::open(self.path()))? else {
            return Ok(false);
        };
        let whole = link::content::copy_hashing(&mut from, to)? == self.blob;
        if !whole {
            self.discard();
        }
        Ok(whole)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.cache.lock().let_go(CacheKey::File(self.blob.hash));
        self.cache.evict();
    }
}

impl Cache {
    /// Returns the unpacked tree of this list, and unpacks it first if it is not here whole, however
    /// long the master is away. The error is for people, and final.
    pub(crate) async fn tree(self: &Arc<Self>, list: BlobRef) -> Result<PinnedTree, NoTree> {
        if list.size > MAX_TREE_LIST {
            let size = Bytes(list.size);
            return Err(NoTree::List(format!("its list of files has {size}")));
        }
        if let Some((tree, TreeLook::Whole)) = self.look(list.hash).await {
            return Ok(tree);
        }

        let _turn = self.turn(list.hash).lock_owned().await;
        for _ in 0..UNPACKED {
            let here = self.look(list.hash).await;
            if let Some((tree, TreeLook::Whole)) = here {
                return Ok(tree);
            }

            let manifest = Arc::new(self.list_of(list).await?);
            if let Some((tree, look)) = here {
                let check = (Arc::clone(&tree.tree), Arc::clone(&manifest));
                let whole = move || look == TreeLook::Unknown && check.0.verify(&check.1);
                if yielding(whole).await? {
                    return Ok(tree);
                }
                tracing::error!(list = %list.hash, "a cached tree was damaged: it is unpacked anew; see this host's disk");
                tree.tree.doom();
            }
            match self.unpack(list.hash, manifest).await {
                Ok(Some(tree)) => return Ok(tree),
                Ok(None) => {}
                Err(error) => {
                    if !error.is_full() || !self.make_room().await {
                        return Err(error);
                    }
                }
            }
        }
        Err(NoTree::Damaged)
    }

    /// Pins the tree and looks at it, if it is here.
    async fn look(self: &Arc<Self>, hash: BlobHash) -> Option<(PinnedTree, TreeLook)> {
        let tree = {
            let mut books = self.lock();
            let key = CacheKey::Tree(hash);
            let entry = books.entries.get(&key)?;
            let size = entry.size;
            let tree = entry.tree.clone()?;
            books.enter(key, size, 1);
            tree
        };
        let (cache, shown) = (Arc::clone(self), Arc::clone(&tree));
        let pinned = PinnedTree { cache, hash, tree };
        let look = off(move || shown.look()).await.unwrap_or(TreeLook::Changed);
        Some((pinned, look))
    }

    /// Returns the lock of those who unpack this tree.
    fn turn(&self, hash: BlobHash) -> Arc<tokio::sync::Mutex<()>> {
        let mut unpacking = self
            .unpacking
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        unpacking.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(unpacking.entry(hash).or_default())
    }

    /// Reads the [`Manifest`] of a tree, which is fetched again if it is damaged here.
    async fn list_of(self: &Arc<Self>, list: BlobRef) -> Result<Manifest, NoTree> {
        for _ in 0..UNPACKED {
            let pinned = self.fetch(list).await?;
            if let Some(read) = off(move || pinned.list()).await?? {
                return read.map_err(NoTree::List);
            }
        }
        Err(NoTree::Damaged)
    }

    /// Fetches the content of a tree and unpacks it; `None` if some of it was damaged here.
    async fn unpack(
        self: &Arc<Self>,
        hash: BlobHash,
        manifest: Arc<Manifest>,
    ) -> Result<Option<PinnedTree>, NoTree> {
        let parts = self.parts(&manifest).await?;
        let cache = Arc::clone(self);
        // Goes on to its end, and the tree is in the books then, whether anybody waits or not.
        off(move || cache.unpack_here(hash, &manifest, &parts)).await?
    }

    fn unpack_here(
        self: &Arc<Self>,
        hash: BlobHash,
        manifest: &Manifest,
        parts: &[Pinned],
    ) -> Result<Option<PinnedTree>, NoTree> {
        let paths: Vec<_> = parts.iter().map(Pinned::path).collect();
        // The books are kept at the usual priority: others wait for them.
        let unpacked = yielded(|| self.trees.unpack(&hash, manifest, &paths))?;
        let Some((tree, space)) = unpacked else {
            for part in parts {
                // Removes it if it is not what its name says.
                part.is_whole()?;
            }
            return Ok(None);
        };

        let tree = Arc::new(tree);
        let mut books = self.lock();
        // The tree holds it all: nobody needs its parts soon.
        for part in parts {
            books.age(CacheKey::File(part.blob.hash));
        }
        let entry = books.enter(CacheKey::Tree(hash), space, 1);
        // Of two that were unpacked at once, as where nobody waited for the first, one goes.
        if let Some(other) = entry.tree.replace(Arc::clone(&tree)) {
            other.doom();
        }
        drop(books);

        self.evict();
        let cache = Arc::clone(self);
        Ok(Some(PinnedTree { cache, hash, tree }))
    }

    /// Brings the content of a tree here, in its order, several parts at a time.
    async fn parts(self: &Arc<Self>, manifest: &Manifest) -> Result<Vec<Pinned>, NoTree> {
        let files = manifest.files.iter().map(|file| file.blob);
        let parts: Vec<BlobRef> = if manifest.parts.is_empty() {
            files.collect()
        } else {
            manifest.parts.clone()
        };
        let gate = Arc::new(Semaphore::new(PARTS));
        let mut fetches = JoinSet::new();
        for (at, blob) in parts.into_iter().enumerate() {
            let (cache, gate) = (Arc::clone(self), Arc::clone(&gate));
            fetches.spawn(async move {
                let _turn = gate.acquire_owned().await;
                (at, cache.fetch(blob).await)
            });
        }

        let mut here = BTreeMap::new();
        while let Some(fetched) = fetches.join_next().await {
            let (at, pinned) = fetched.map_err(io::Error::other)?;
            here.insert(at, pinned?);
        }
        Ok(here.into_values().collect())
    }
}

impl PinnedTree {
    /// Returns the directory of the tree.
    pub(crate) fn path(&self) -> &Path {
        self.tree.path()
    }
}

impl Drop for PinnedTree {
    fn drop(&mut self) {
        self.cache.lock().let_go(CacheKey::Tree(self.hash));
        self.cache.evict();
    }
}

#[cfg(test)]
mod tests {
    use common::manifest::{ListedFile, ListedLink};

    use super::*;

    pub(super) fn cache(dir: &Path, limit: u64) -> (Arc<Cache>, watch::Sender<Option<Connection>>) {
        let (tx, master) = watch::channel(None);
        (
            Arc::new(
                Cache::open(
                    (dir, &dir.join("trees")),
                    limit,
                    master,
                    Arc::new(InputPeers::new(&crate::Config::default())),
                )
                .unwrap(),
            ),
            tx,
        )
    }

    pub(super) fn put(cache: &Arc<Cache>, bytes: &[u8]) -> Pinned {
        cache.pin(cache.store.add_reader(bytes).unwrap()).unwrap()
    }

    /// Waits for what is done behind.
    pub(super) async fn until(mut happened: impl FnMut() -> bool) {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while !happened() {
            assert!(std::time::Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[test]
    fn the_cache_evicts_the_least_recently_used_and_keeps_pinned_content() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 20);
        let used = put(&cache, b"0123456789");
        let first = put(&cache, b"abcdefghij").path();
        assert!(first.exists());
        let second = put(&cache, b"ABCDEFGHIJ").path();
        assert!(!first.exists() && second.exists() && used.path().exists());
        let kept = used.path();
        drop(used);
        let third = put(&cache, b"0987654321").path();
        assert!(!kept.exists() && second.exists() && third.exists());
    }

    #[test]
    fn the_limit_holds_over_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = put(&cache(dir.path(), 100).0, b"0123456789").path();
        let (_again, _tx) = cache(dir.path(), 100);
        assert!(path.exists());
        let (_smaller, _tx) = cache(dir.path(), 5);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_was_removed_for_a_full_disk_is_gone_when_the_fetch_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 1 << 20);
        let list = tree_in(&cache);
        let tree = cache.tree(list).await.unwrap();
        let held = put(&cache, b"held");
        drop(tree);

        assert!(cache.make_room().await);
        assert_eq!(trees(dir.path()), [""; 0]);
        let files = walkdir::WalkDir::new(dir.path()).into_iter().flatten();
        let files = files.filter(|entry| entry.file_type().is_file());
        let files: Vec<_> = files.map(walkdir::DirEntry::into_path).collect();
        assert_eq!(files, [held.path()]);
        assert!(!cache.make_room().await);
    }

    #[tokio::test]
    async fn two_fetches_that_find_the_disk_full_at_once_both_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 1 << 20);
        drop(put(&cache, b"idle"));
        let mut one = Box::pin(cache.make_room());
        let mut other = Box::pin(cache.make_room());
        {
            // Both have asked before anything goes.
            let _turn = cache.removing.lock().unwrap();
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(one.as_mut().poll(&mut context).is_pending());
            assert!(other.as_mut().poll(&mut context).is_pending());
        }
        assert!(one.await && other.await);
    }

    #[test]
    fn what_a_crash_left_of_evicted_files_and_of_fetches_given_up_goes_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        drop(cache(dir.path(), 100));
        let part = |name: &str, age| {
            let path = dir.path().join("incoming").join(name);
            let file = File::create(&path).unwrap();
            file.set_modified(std::time::SystemTime::now() - age)
                .unwrap();
            path
        };
        let (new, old) = (part("new", Duration::ZERO), part("old", PART_LIFE));
        let evicted = dir.path().join(GONE).join("7");
        fs::write(&evicted, "evicted").unwrap();

        drop(cache(dir.path(), 100));
        assert!(new.exists() && !old.exists() && !evicted.exists());
    }

    #[test]
    fn damaged_cache_content_is_dropped_instead_of_copied() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 100);
        let one = put(&cache, b"0123456789");
        let other = put(&cache, b"0123456789");

        fs::write(one.path(), b"0123456780").unwrap();
        let copy = |pinned: &Pinned| pinned.copy_to(&mut tempfile::tempfile().unwrap()).unwrap();
        assert_eq!(
            (copy(&one), copy(&other), one.path().exists()),
            (false, false, false)
        );

        let again = put(&cache, b"0123456789");
        drop((one, other));
        assert!(copy(&again) && cache.lock().total == 10);
        put(&cache, &[7; 95]);
        assert!(
            again.path().exists(),
            "it is held, whoever let go of what was damaged"
        );
    }

    /// A tree of two small files, a link and an empty directory, in the cache with its content.
    fn tree_in(cache: &Arc<Cache>) -> BlobRef {
        let file = |path: &str, text: &[u8]| ListedFile {
            executable: path == "bin/run",
            modified: Some(1_700_000_000),
            ..ListedFile::new(path.parse().unwrap(), link::content::hash_bytes(text))
        };
        let manifest = Manifest {
            files: vec![file("bin/run", b"one"), file("lib/data", b"and two")],
            parts: [&b"onean"[..], b"d two"]
                .map(|part| cache.store.add_reader(part).unwrap())
                .into(),
            links: vec![ListedLink {
                path: "again".parse().unwrap(),
                target: "lib/data".to_owned(),
            }],
            empty: vec!["none".parse().unwrap()],
        };
        cache
            .store
            .add_reader(&manifest.to_bytes().unwrap()[..])
            .unwrap()
    }

    fn trees(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir.join("trees")).unwrap();
        let mut names: Vec<_> = names
            .map(|n| n.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_tree_is_unpacked_once_with_rights_times_links_and_empty_directories() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 1 << 20);
        let list = tree_in(&cache);
        let all = (0..8).map(|_| {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move { cache.tree(list).await.unwrap() })
        });
        let mut held = Vec::new();
        for one in all.collect::<Vec<_>>() {
            held.push(one.await.unwrap());
        }

        assert_eq!(
            trees(dir.path()),
            [format!("{}.1", list.hash)],
            "one for all"
        );
        let path = held[0].path();
        assert!(held.iter().all(|other| other.path() == path));
        assert_eq!(fs::read(path.join("again")).unwrap(), b"and two");
        assert!(path.join("none").is_dir());
        let run = fs::metadata(path.join("bin/run")).unwrap();
        let time = run
            .modified()
            .unwrap()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        assert_eq!(time.as_secs(), 1_700_000_000);
        if cfg!(unix) {
            assert!(run.permissions().readonly());
            let data = fs::metadata(path.join("lib/data")).unwrap();
            let executes = [&run, &data].map(crate::os::files::is_executable);
            assert_eq!(executes, [true, false]);
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_damaged_tree_is_unpacked_anew_and_the_old_one_stays_while_it_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 1 << 20);
        let list = tree_in(&cache);
        let old = cache.tree(list).await.unwrap();
        let data = old.path().join("lib/data");
        let open = |path: &Path| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(path, mode).unwrap();
        };
        open(&data);
        fs::write(&data, b"and TWO").unwrap();

        let new = cache.tree(list).await.unwrap();
        assert_ne!(old.path(), new.path());
        assert_eq!(fs::read(new.path().join("lib/data")).unwrap(), b"and two");
        assert_eq!(fs::read(&data).unwrap(), b"and TWO", "somebody uses it");
        drop(old);
        // Another file in it, or one less, is damage too.
        open(&new.path().join("bin"));
        fs::write(new.path().join("bin/more"), "x").unwrap();
        let third = cache.tree(list).await.unwrap();
        assert!(!third.path().join("bin/more").exists());

        // Content that was damaged in the cache itself is not unpacked.
        drop((new, third));
        assert!(cache.make_room().await);
        let list = tree_in(&cache);
        let part = link::content::hash_bytes(b"d two");
        fs::write(cache.store.path_of(&part.hash), b"D TWO").unwrap();
        let only_gone = || trees(dir.path()).iter().all(|n| n.starts_with("gone"));
        tokio::select! {
            _ = cache.tree(list) => panic!("it waits for a master that has the part"),
            () = until(|| !cache.store.has(&part) && only_gone()) => {}
        }
    }

    #[tokio::test]
    async fn a_tree_is_looked_at_after_a_restart_and_half_of_one_is_never_used() {
        let dir = tempfile::tempdir().unwrap();
        let list = {
            let (cache, _tx) = cache(dir.path(), 1 << 20);
            let list = tree_in(&cache);
            cache.tree(list).await.unwrap();
            list
        };
        let whole = format!("{}.1", list.hash);
        let half = dir.path().join("trees/part.2");
        fs::create_dir_all(half.join("bin")).unwrap();
        fs::create_dir_all(dir.path().join("trees").join(format!("gone.{whole}"))).unwrap();

        let (again, _tx) = cache(dir.path(), 1 << 20);
        assert_eq!(trees(dir.path()), std::slice::from_ref(&whole));
        assert_eq!(again.look(list.hash).await.unwrap().1, TreeLook::Unknown);
        assert!(again.tree(list).await.unwrap().path().ends_with(&whole));
        assert_eq!(again.look(list.hash).await.unwrap().1, TreeLook::Whole);

        // A file whose content never came to the disk has the length and times of the right one.
        let data = dir.path().join("trees").join(&whole).join("lib/data");
        fs::remove_file(&data).unwrap_or_else(|_| {
            crate::os::files::open_up(data.parent().unwrap());
            fs::remove_file(&data).unwrap();
        });
        fs::write(&data, [0; 7]).unwrap();
        let (third, _tx) = cache(dir.path(), 1 << 20);
        let tree = third.tree(list).await.unwrap();
        assert_eq!(fs::read(tree.path().join("lib/data")).unwrap(), b"and two");
    }

    #[tokio::test]
    async fn a_cache_opens_whatever_else_lies_among_its_trees() {
        let dir = tempfile::tempdir().unwrap();
        let strays = dir.path().join("trees");
        fs::create_dir_all(strays.join("lost+found")).unwrap();
        fs::write(strays.join("stray"), "x").unwrap();
        cache(dir.path(), 1 << 20);
        assert_eq!(trees(dir.path()), [""; 0]);
    }

    #[tokio::test]
    async fn a_tree_counts_and_is_evicted_unless_it_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 40_000);
        let tree = cache.tree(tree_in(&cache)).await.unwrap();
        let path = tree.path().to_owned();
        let counted = cache.lock().total;
        assert!(counted > 7 * 4_096, "{counted}: its entries take blocks");

        put(&cache, &[1; 35_000]);
        assert!(path.exists(), "it is held");
        drop(tree);
        put(&cache, &[2; 35_000]);
        until(|| !path.exists() && cache.lock().total <= 40_000).await;
    }

    #[tokio::test]
    async fn of_a_tree_that_was_unpacked_twice_at_once_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 1 << 20);
        let list = tree_in(&cache);
        let manifest = Arc::new(cache.list_of(list).await.unwrap());
        let both = (
            cache.unpack(list.hash, Arc::clone(&manifest)),
            cache.unpack(list.hash, manifest),
        );
        let (one, other) = tokio::join!(both.0, both.1);
        let counted = cache.lock().total;
        drop((one.unwrap(), other.unwrap()));

        until(|| trees(dir.path()).len() == 1).await;
        cache.tree(list).await.unwrap();
        assert_eq!(cache.lock().total, counted, "and counted once");
    }

    #[tokio::test]
    async fn a_list_that_leads_out_of_its_tree_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 1 << 20);
        let manifest = Manifest {
            links: vec![ListedLink {
                path: "out".parse().unwrap(),
                target: "../../identity".to_owned(),
            }],
            ..Manifest::default()
        };
        let list = cache
            .store
            .add_reader(&manifest.to_bytes().unwrap()[..])
            .unwrap();
        let refused = cache
            .tree(list)
            .await
            .expect_err("it leads out")
            .to_string();
        assert!(
            refused.contains("`out` leads to") && refused.contains("outside"),
            "{refused}"
        );
        assert_eq!(trees(dir.path()), [""; 0]);
    }

    #[tokio::test]
    async fn cached_content_is_found_without_a_master() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 100);
        let blob = cache.store.add_reader(&b"here"[..]).unwrap();
        let pinned = cache.fetch(blob).await.unwrap();
        assert_eq!(fs::read(pinned.path()).unwrap(), b"here");
    }
}
