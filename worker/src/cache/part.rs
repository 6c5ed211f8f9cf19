//! The parts of files whose fetch has not ended. They count in the cache, are kept as long as somebody
//! fetches the file, and then go as the rest of the cache does.

use std::fs;
use std::sync::Arc;

use common::BlobRef;

use super::Cache;
use super::index::CacheKey;

/// A file that somebody fetches: what has come of it stays while this exists.
#[derive(Debug)]
pub(super) struct FetchedPart {
    cache: Arc<Cache>,
    blob: BlobRef,
}

impl Cache {
    /// Makes room for a file that is to be fetched; its [`FetchedPart`] counts as if it were here.
    pub(super) fn expect(self: &Arc<Self>, blob: BlobRef) -> FetchedPart {
        let key = CacheKey::Part(blob.hash);
        let mut books = self.lock();
        books.enter(key, blob.size, 1);
        books.resize(key, blob.size);
        drop(books);

        self.evict();
        FetchedPart {
            cache: Arc::clone(self),
            blob,
        }
    }
}

impl Drop for FetchedPart {
    fn drop(&mut self) {
        let hash = self.blob.hash;
        let mut books = self.cache.lock();
        // Under the lock: whoever goes on with it is counted first.
        let came = fs::metadata(self.cache.store.fetched_part(&hash));
        books.let_go_part(CacheKey::Part(hash), came.map_or(0, |meta| meta.len()));
        drop(books);

        self.cache.evict();
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::super::tests::{cache, put, until};
    use super::*;

    /// Has these bytes as what has come of a file.
    fn begun(dir: &Path, blob: BlobRef, bytes: &[u8]) -> PathBuf {
        let incoming = dir.join("incoming");
        fs::create_dir_all(&incoming).unwrap();
        let part = incoming.join(format!("master.{}.part", blob.hash));
        fs::write(&part, bytes).unwrap();
        part
    }

    #[test]
    fn what_an_earlier_run_has_begun_counts_and_goes_where_room_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let whole = link::content::hash_bytes(b"0123456789");
        let part = begun(dir.path(), whole, b"01234");
        let (cache, _tx) = cache(dir.path(), 100);
        assert_eq!((part.exists(), cache.lock().total), (true, 5));
        put(&cache, &[7; 95]);
        assert!(part.exists(), "there is room for both");
        put(&cache, &[8; 10]);
        assert_eq!((part.exists(), cache.lock().total), (false, 10));
    }

    #[tokio::test]
    async fn what_has_come_stays_while_the_file_is_fetched_and_is_there_for_another_fetch() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 100);
        let whole = link::content::hash_bytes(&[1; 60]);
        let first = cache.expect(whole);
        let other = cache.expect(whole);
        let part = begun(dir.path(), whole, b"01234");
        drop(first);
        drop(put(&cache, &[2; 50]));
        until(|| cache.lock().total == 60).await;
        assert!(part.exists(), "somebody goes on with it");

        drop(other);
        drop(put(&cache, &[3; 50]));
        assert_eq!((part.exists(), cache.lock().total), (true, 55));
        let _again = cache.expect(whole);
        until(|| cache.lock().total == 60).await;
        assert!(part.exists(), "what is not needed goes first");

        let whole = cache.store.add_reader(&[1; 60][..]).unwrap();
        fs::remove_file(part).unwrap();
        let _pinned = cache.pin(whole).unwrap();
        assert_eq!(cache.lock().total, 60, "counted once");
    }

    #[tokio::test]
    async fn of_a_fetch_that_ends_on_a_full_disk_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _tx) = cache(dir.path(), 100);
        let [one, other] = [b"one", b"two"].map(|text| link::content::hash_bytes(text));
        let held = [one, other].map(|blob| (cache.expect(blob), begun(dir.path(), blob, b"o")));
        assert!(!cache.make_room().await, "both are fetched");
        let [(one, part), (other, beside)] = held;
        drop(one);
        until(|| !part.exists()).await;
        assert!(beside.exists(), "somebody goes on with it");
        drop(other);
        until(|| !beside.exists()).await;
        assert_eq!(cache.lock().total, 0);
    }
}
