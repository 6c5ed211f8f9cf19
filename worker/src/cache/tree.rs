//! Trees: directories that jobs name as inputs, each unpacked once from its list and its content and
//! then shared by every attempt that wants it. Here they are made, looked at and removed; when that
//! happens is the [cache](super)'s decision.
//!
//! A tree is made under another name and renamed once it is whole, so that a crash leaves none that
//! is half there. It is not synced: the first use after a worker's start looks at every byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use common::content::BlobHash;
use common::manifest::{ListedFile, ListedLink, Manifest};
use link::files::unless_gone;
use walkdir::WalkDir;

use crate::blocking::behind;
use crate::os::{self, files};

/// The space that an entry of a tree counts for beside its content, and the unit of that, in bytes.
const BLOCK: u64 = 4_096;
/// The beginnings of the names of trees that are not there yet, and not there any more.
const PART: &str = "part";
const GONE: &str = "gone";

/// The directory of `trees`.
#[derive(Debug)]
pub(super) struct Trees {
    root: PathBuf,
    serial: AtomicU64,
}

/// A tree that an earlier worker of the directory has left: its list's hash, the space that it takes, and
/// the tree.
pub(super) type FoundTree = (BlobHash, u64, UnpackedTree);

/// A tree on the disk. It is removed with the last holder of this value once it is
/// [doomed](Self::doom).
#[derive(Debug)]
pub(super) struct UnpackedTree {
    path: PathBuf,
    /// The entries as they were when the tree was last found whole; `None` if nobody has looked
    /// since the worker's start.
    marks: Mutex<Option<Marks>>,
    doomed: AtomicBool,
}

/// The names, kinds, lengths, rights and times of all entries, hashed.
type Marks = [u8; 32];

/// The answer of a quick look at a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeLook {
    /// Nothing has changed since it was found whole.
    Whole,
    /// Something has changed.
    Changed,
    /// Nobody has looked at its content yet.
    Unknown,
}

impl Trees {
    /// Opens the directory, and removes what is no whole tree, as far as it can. Returns the trees with the space that
    /// they take.
    pub(super) fn open(root: &Path) -> io::Result<(Self, Vec<FoundTree>)> {
        link::files::private_dir(root)?;
        if os::is_root() {
            // Tasks that have another account pass to the tree that they may read.
            files::let_through(root)?;
        } else {
            files::keep_private(root)?;
        }

        let mut found = BTreeMap::new();
        let mut serial = 0;
        for entry in fs::read_dir(root)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let parsed = name.split_once('.').and_then(|(hash, number)| {
                Some((hash.parse::<BlobHash>().ok()?, number.parse::<u64>().ok()?))
            });
            match parsed {
                Some((hash, number)) if !found.contains_key(&hash) => {
                    serial = serial.max(number);
                    found.insert(hash, path);
                }
                _ => remove(&path),
            }
        }

        let trees = found.into_iter().map(|(hash, path)| {
            let space = space_of(&path);
            (hash, space, UnpackedTree::new(path, None))
        });
        let trees = trees.collect();
        let trees_dir = Self {
            root: root.to_owned(),
            serial: AtomicU64::new(serial + 1),
        };
        Ok((trees_dir, trees))
    }

    /// Makes the tree from its content, the parts in their order. Returns it with the space that it
    /// takes, or nothing if some of the content is not what the list says.
    pub(super) fn unpack(
        &self,
        hash: &BlobHash,
        manifest: &Manifest,
        parts: &[PathBuf],
    ) -> io::Result<Option<(UnpackedTree, u64)>> {
        let number = self.serial.fetch_add(1, Ordering::Relaxed);
        let part = self.root.join(format!("{PART}.{number}"));
        let made = fill(&part, manifest, parts);
        if !matches!(made, Ok(true)) {
            os::remove_tree(&part)?;
            // A part that is gone another attempt has found damaged, and removed.
            return unless_gone(made).map(|_| None);
        }

        let path = self.root.join(format!("{hash}.{number}"));
        fs::rename(&part, &path)?;
        // The last moment at which nobody else knows the tree.
        let (marks, space) = (survey(&path)?, space_of(&path));
        Ok(Some((UnpackedTree::new(path, Some(marks)), space)))
    }
}

impl UnpackedTree {
    fn new(path: PathBuf, marks: Option<Marks>) -> Self {
        Self {
            path,
            marks: Mutex::new(marks),
            doomed: AtomicBool::new(false),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Has the tree removed once nobody holds it.
    pub(super) fn doom(&self) {
        self.doomed.store(true, Ordering::Relaxed);
    }

    /// Takes the tree from its place. Returns what is to be removed.
    pub(super) fn take_out(mut self) -> PathBuf {
        *self.doomed.get_mut() = false;
        self.rename()
    }

    /// Gives the tree a name under which it is removed at the next start, if not now. Returns its path.
    fn rename(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let gone = self.path.with_file_name(format!("{GONE}.{name}"));
        match fs::rename(&self.path, &gone) {
            Ok(()) => gone,
            Err(_) => self.path.clone(),
        }
    }

    /// Looks whether any entry has changed since the tree was found whole.
    pub(super) fn look(&self) -> TreeLook {
        let before = *self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        match (before, survey(&self.path)) {
            (None, _) => TreeLook::Unknown,
            (Some(before), Ok(now)) if before == now => TreeLook::Whole,
            _ => TreeLook::Changed,
        }
    }

    /// Whether every byte is what the [`Manifest`] says; remembers that it is.
    pub(super) fn verify(&self, manifest: &Manifest) -> bool {
        let marks = survey(&self.path);
        let Ok(marks) =
            marks.and_then(|marks| Ok(is_whole(&self.path, manifest)?.then_some(marks)))
        else {
            return false;
        };
        *self.marks.lock().unwrap_or_else(PoisonError::into_inner) = marks;
        marks.is_some()
    }
}

impl Drop for UnpackedTree {
    fn drop(&mut self) {
        if self.doomed.load(Ordering::Relaxed) {
            let path = self.rename();
            behind(move || remove(&path));
        }
    }
}

/// Removes a tree or file that is not, or no longer, in the cache.
pub(super) fn remove(path: &Path) {
    if let Err(error) = os::remove_tree(path) {
        tracing::warn!(path = %path.display(), %error, "this is of no use to the cache of inputs, and cannot be removed: remove it by hand");
    }
}

/// The parts of a [`Manifest`], read one after the other.
struct PartsReader<'a> {
    rest: std::slice::Iter<'a, PathBuf>,
    open: Option<File>,
}

impl Read for PartsReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(file) = &mut self.open else {
                let Some(path) = self.rest.next() else {
                    return Ok(0);
                };
                self.open = Some(File::open(path)?);
                continue;
            };

            match file.read(to)? {
                0 if !to.is_empty() => self.open = None,
                n => return Ok(n),
            }
        }
    }
}

/// Makes the entries of a [`Manifest`] in a new directory. False if the content is not what it says.
fn fill(dir: &Path, manifest: &Manifest, parts: &[PathBuf]) -> io::Result<bool> {
    let mut dirs = BTreeSet::from([dir.to_owned()]);
    files::make_private_dir(dir)?;
    let mut make_dirs = |path: &Path| {
        let mut missing = Vec::new();
        let mut at = Some(path);
        while let Some(way) = at.filter(|way| !dirs.contains(*way)) {
            missing.push(way.to_owned());
            at = way.parent();
        }
        for way in missing.into_iter().rev() {
            files::make_private_dir(&way)?;
            dirs.insert(way);
        }
        io::Result::Ok(())
    };

    let mut content = PartsReader {
        rest: parts.iter(),
        open: None,
    };
    for file in &manifest.files {
        let to = dir.join(&file.path);
        make_dirs(to.parent().unwrap_or(dir))?;
        if !fill_file(&to, file, &mut content)? {
            return Ok(false);
        }
    }
    for empty in &manifest.empty {
        make_dirs(&dir.join(empty))?;
    }
    for link in &manifest.links {
        let at = dir.join(&link.path);
        make_dirs(at.parent().unwrap_or(dir))?;
        files::make_link(&link.target, &at)?;
    }

    // Those within others first.
    dirs.iter().rev().try_for_each(|dir| files::seal_dir(dir))?;
    Ok(true)
}

fn fill_file(to: &Path, file: &ListedFile, content: &mut impl Read) -> io::Result<bool> {
    let mut made = files::create_private(to, file.executable)?;
    let found = link::content::copy_hashing(&mut content.take(file.blob.size), &mut made)?;
    if found != file.blob {
        return Ok(false);
    }
    let time = file
        .modified
        .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));

    if let Some(time) = time {
        // Compilers and interpreters compare it. Not every file system has every time.
        let _ = made.set_modified(time);
    }
    files::seal(&made, file.executable)?;
    Ok(true)
}

/// Hashes what the system says of each entry ([`files::marks_of`]), without its content.
fn survey(dir: &Path) -> io::Result<Marks> {
    let mut hasher = blake3::Hasher::new();
    for entry in WalkDir::new(dir).sort_by_file_name() {
        let entry = entry?;
        let meta = entry.metadata()?;
        let name = entry.path().strip_prefix(dir).unwrap_or(entry.path());
        hasher.update(name.as_os_str().as_encoded_bytes());
        hasher.update(&[0]);
        for mark in files::marks_of(&meta) {
            hasher.update(&mark.to_le_bytes());
        }
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Whether the directory has exactly the entries of the [`Manifest`], and every byte of them.
fn is_whole(dir: &Path, manifest: &Manifest) -> io::Result<bool> {
    let listed = manifest.files.iter().map(|file| (file.path.as_str(), file));
    let mut listed: BTreeMap<&str, &ListedFile> = listed.collect();
    let links: BTreeSet<&str> = manifest
        .links
        .iter()
        .map(|link| link.path.as_str())
        .collect();
    for entry in WalkDir::new(dir).min_depth(1) {
        let entry = entry?;
        let name = entry.path().strip_prefix(dir).ok().and_then(os::slashed);
        let Some(name) = name else {
            return Ok(false);
        };
        if entry.file_type().is_dir() {
            continue;
        }
        if links.contains(&*name) {
            continue;
        }
        let Some(file) = listed.remove(&*name) else {
            return Ok(false);
        };
        let meta = entry.metadata()?;
        let executes = cfg!(windows) || files::is_executable(&meta) == file.executable;
        if !meta.is_file() || !executes || meta.len() != file.blob.size {
            return Ok(false);
        }
        let found = link::content::copy_hashing(&mut File::open(entry.path())?, &mut io::sink())?;
        if found != file.blob {
            return Ok(false);
        }
    }

    let linked = |link: &ListedLink| {
        let at = dir.join(&link.path);
        if cfg!(windows) {
            return at.exists();
        }
        fs::read_link(at).is_ok_and(|there| there == Path::new(&link.target))
    };
    let all = listed.is_empty()
        && manifest.links.iter().all(linked)
        && manifest.empty.iter().all(|empty| dir.join(empty).is_dir());
    Ok(all)
}

/// The space that a tree takes: its files in whole blocks of [`BLOCK`] bytes, and one for each entry.
fn space_of(dir: &Path) -> u64 {
    let entries = WalkDir::new(dir).into_iter().flatten();
    let space = |entry: walkdir::DirEntry| {
        let files = entry.metadata().ok().filter(std::fs::Metadata::is_file);
        BLOCK + files.map_or(0, |meta| meta.len().next_multiple_of(BLOCK))
    };
    entries.map(space).sum()
}
