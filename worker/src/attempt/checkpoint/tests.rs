//! Copies of states: what is taken, what is refused, and what does not change meanwhile.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;

use super::*;

const BOUNDS: Bounds = Bounds {
    bytes: 1_000,
    files: 3,
};

/// An attempt's directory with these files in its checkpoint directory, and a content store.
struct Place {
    dir: tempfile::TempDir,
    blobs: Arc<Blobs>,
}

impl Place {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Arc::new(Blobs::open(&dir.path().join("blobs")).unwrap());
        let place = Self { dir, blobs };
        fs::create_dir_all(place.state()).unwrap();
        for (name, bytes) in files {
            fs::create_dir_all(place.state().join(name).parent().unwrap()).unwrap();
            fs::write(place.state().join(name), bytes).unwrap();
        }
        place
    }

    fn attempt(&self) -> PathBuf {
        self.dir.path().join("attempt")
    }

    fn state(&self) -> PathBuf {
        self.attempt().join(CHECKPOINT_DIR)
    }

    fn copy(&self, before: &[SeenFile]) -> Result<Option<Copy>, NoCopy> {
        copy(&self.attempt(), BOUNDS, &self.blobs, before)
    }

    fn refusal(&self) -> String {
        match self.copy(&[]) {
            Err(NoCopy::Refused(why)) => why,
            Err(NoCopy::Unsteady) => panic!("unsteady"),
            Ok(copy) => panic!("taken: {}", copy.is_some()),
        }
    }
}

#[test]
fn a_state_is_its_files_with_their_names_and_content() {
    let place = Place::new(&[("step", b"7"), ("deep/er/table", b"numbers")]);
    let copy = place.copy(&[]).unwrap().unwrap();
    let list =
        Manifest::from_bytes(&fs::read(place.blobs.path_of(&copy.manifest)).unwrap()).unwrap();
    let read = |file: &ListedFile| {
        (
            file.path.to_string(),
            fs::read(place.blobs.path_of(&file.blob)).unwrap(),
        )
    };
    let files: Vec<_> = list.files.iter().map(read).collect();
    assert_eq!(
        files,
        [
            ("deep/er/table".to_owned(), b"numbers".to_vec()),
            ("step".to_owned(), b"7".to_vec())
        ]
    );
}

#[test]
fn only_new_checkpoint_files_are_copied() {
    let place = Place::new(&[]);
    assert!(
        place.copy(&[]).unwrap().is_none(),
        "an empty directory is no state"
    );
    fs::write(place.state().join("step"), "1").unwrap();

    let first = place.copy(&[]).unwrap().unwrap();
    assert!(place.copy(&first.seen).unwrap().is_none());
    fs::write(place.state().join("aside"), "2").unwrap();
    fs::rename(place.state().join("aside"), place.state().join("step")).unwrap();
    assert!(
        place.copy(&first.seen).unwrap().is_some(),
        "renamed over it: another file of the same length"
    );
    fs::remove_dir_all(place.state()).unwrap();

    assert!(place.copy(&first.seen).unwrap().is_none());
}

#[test]
fn a_copy_that_nobody_holds_any_more_leaves_nothing() {
    let place = Place::new(&[("a", b"same"), ("b", b"same")]);
    let copy = place.copy(&[]).unwrap().unwrap();
    let blob = copy.blobs[0];
    assert!(place.blobs.has(&blob));
    drop(copy);
    assert!(!place.blobs.has(&blob));
}

#[test]
fn a_checkpoint_beyond_a_limit_is_refused_with_its_size() {
    let large = Place::new(&[("a", &[0; 600]), ("b", &[0; 600])]);
    assert!(
        large.refusal().contains("1200 bytes"),
        "{}",
        large.refusal()
    );
    let many = Place::new(&[("a", b""), ("b", b""), ("c", b""), ("d", b"")]);
    assert!(
        many.refusal().contains("more files than the 3"),
        "{}",
        many.refusal()
    );
}

#[cfg(unix)]
#[test]
fn links_in_a_checkpoint_are_refused() {
    let place = Place::new(&[]);
    fs::write(place.dir.path().join("secret"), "of the owner").unwrap();
    symlink(place.dir.path().join("secret"), place.state().join("link")).unwrap();
    assert!(
        place.refusal().contains("symbolic link"),
        "{}",
        place.refusal()
    );
    fs::remove_file(place.state().join("link")).unwrap();
    fs::hard_link(place.dir.path().join("secret"), place.state().join("link")).unwrap();

    assert!(place.refusal().contains("hard link"), "{}", place.refusal());
    fs::remove_dir_all(place.state()).unwrap();
    symlink(place.dir.path(), place.state()).unwrap();
    assert!(place.refusal().contains("replaced"), "{}", place.refusal());
}

#[cfg(unix)]
#[test]
fn names_that_other_systems_cannot_hold_are_refused() {
    for names in [&["nul.txt"][..], &["a", "A"]] {
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"x"[..])).collect();
        assert!(!Place::new(&files).refusal().is_empty());
    }
}

/// A disk with room for very little.
#[cfg(target_os = "linux")]
struct SmallDisk(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl SmallDisk {
    /// Makes one, where the system lets this account.
    fn mount() -> Option<Self> {
        let at = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "none"]);
        let mounted = mount.arg(at.path()).output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        mounted.then_some(Self(at))
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let mut umount = std::process::Command::new("umount");
        let _ = umount.arg(self.0.path()).output();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_state_for_which_the_disk_has_no_room_is_not_called_unusable() {
    use crate::cache::Cache;

    let Some(small) = SmallDisk::mount() else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let store = link::BlobStore::open(&dir.path().join("cache")).unwrap();
    let large = store.add_reader(&[7; 256 << 10][..]).unwrap();
    let list = vec![ListedFile::new("state".parse().unwrap(), large)];
    let list = Manifest::from(list).to_bytes().unwrap();
    let from = common::checkpoint::Saved {
        number: 1,
        sequence: 1,
        taken: common::Time(1),
        files: 1,
        bytes: large.size,
        manifest: store.add_reader(&list[..]).unwrap(),
    };

    let master = watch::channel(None).1;
    let peers = Arc::new(crate::peers::InputPeers::new(&crate::Config::default()));
    let trees = dir.path().join("trees");
    let cache = Cache::open((&dir.path().join("cache"), &trees), 1 << 20, master, peers);
    let cache = Arc::new(cache.unwrap());
    let bounds = Bounds {
        bytes: 1 << 20,
        files: 3,
    };
    let place = small.0.path().join(CHECKPOINT_DIR);
    let fetched = FetchedState::fetch(&cache, &from, bounds).await.unwrap();
    let restored = fetched.place(&place).await.unwrap();
    assert!(
        matches!(&restored, Err(NotRestored::NoRoom(why)) if why.contains("`state`")),
        "{restored:?}"
    );
    assert!(!place.exists());
}
