//! Trees: directories, or archives of them, that all tasks of a host share. A tree becomes a list
//! (its [`Manifest`]) and parts, which hold its files one after the other: thousands of small files
//! are sent in a few large pieces.

mod archive;

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use common::BlobRef;
use common::manifest::{BadManifest, ListedFile, ListedLink, MAX_ENTRIES, MAX_TREE_LIST, Manifest};
use common::path::{BadPath, PortablePath};
use common::text::legible;
use walkdir::WalkDir;

use super::inputs::executable;

/// The longest part, in bytes.
const LONGEST: usize = 8 << 20;
/// The shortest part of small files before another begins, in bytes. A file of at least half of that
/// has parts of its own, so that it is the same content in every tree.
const SHORTEST: usize = 2 << 20;
/// The number of files of which about one ends a part that is long enough. The choice depends on the
/// file alone: so most parts stay the same where a few files change.
const ENDS: u8 = 16;
/// The bytes that are read at a time.
const PIECE: usize = 256 * 1024;

/// The reason why a directory or archive cannot be a tree (`--input-tree`).
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadTree {
    /// It, or something in it, cannot be read.
    #[error("{path} cannot be read", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is neither a directory nor an archive.
    #[error("{path} is neither a directory nor an archive that is known here", path = .0.display())]
    Kind(PathBuf),
    /// There is nothing in it.
    #[error("{path} is empty", path = .0.display())]
    Empty(PathBuf),
    /// A name that no task could find.
    #[error("a name in {path} cannot be used on every system: {why}", path = path.display())]
    Name {
        /// The directory or archive.
        path: PathBuf,
        /// The flaw.
        why: String,
    },
    /// Something other than a file, directory or symbolic link.
    #[error("{path} holds `{name}`, {what}: a tree has files, directories and symbolic links", path = path.display())]
    Entry {
        /// The directory or archive.
        path: PathBuf,
        /// The entry.
        name: String,
        /// The kind of entry.
        what: &'static str,
    },
    /// A file that changed meanwhile.
    #[error("{path} changed while it was read", path = .0.display())]
    Changed(PathBuf),
    /// The whole is no tree.
    #[error("{path} cannot be a tree: {why}", path = path.display())]
    Whole {
        /// The directory or archive.
        path: PathBuf,
        /// The flaw.
        why: BadManifest,
    },
    /// The names are too long together.
    #[error("the names in {path} take {bytes} bytes together", path = path.display())]
    List {
        /// The directory or archive.
        path: PathBuf,
        /// The length of the list.
        bytes: usize,
    },
    /// An archive that is damaged, or of a form that is not known here.
    #[error("{path} cannot be unpacked: {why}", path = path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// The flaw.
        why: String,
    },
}

impl BadTree {
    fn unreadable(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        BadTree::Read { path, source }
    }

    /// Returns the cause of the error, if it is another's.
    pub(super) fn because(&self) -> Option<String> {
        match self {
            BadTree::Read { source, .. } => Some(source.to_string()),
            _ => None,
        }
    }

    /// Returns the advice for the user.
    pub(super) fn hint(&self) -> String {
        let many = format!(
            "the most are {MAX_ENTRIES} entries and {MAX_TREE_LIST} bytes of names: give a part of it, or one file (tar) with --input"
        );

        match self {
            BadTree::Read { .. } => "check the name and your rights; relative names start from the directory where you run deskgrid".to_owned(),
            BadTree::Kind(_) => "give a directory, or a .tar, .tar.gz, .tgz or .zip; a file by itself goes with --input".to_owned(),
            BadTree::Empty(_) => "give a directory with something in it".to_owned(),
            BadTree::Name { .. } | BadTree::Whole { why: BadManifest::Collision(_) | BadManifest::NoDirectory(_), .. } => {
                "rename it, leave it out, or send the whole as one file (tar) with --input, which tasks unpack".to_owned()
            }
            BadTree::Entry { .. } => "leave it out".to_owned(),
            BadTree::Changed(_) => "submit again once nobody writes there".to_owned(),
            BadTree::Whole { why: BadManifest::Link { .. }, .. } => {
                "links may lead within the tree only: copy with `cp -rL`, or make a Python environment with `--copies`".to_owned()
            }
            BadTree::Whole { .. } | BadTree::List { .. } => many,
            BadTree::Archive { .. } => "look at it with `tar -tvf` or `unzip -l`; a directory works, too".to_owned(),
        }
    }
}

/// Returns the name of an archive without its ending; other names as they are.
pub(super) fn unpacked_name(name: &str) -> &str {
    archive::ArchiveForm::of(Path::new(name)).map_or(name, |form| form.without_ending(name))
}

/// Whether this can be a tree by its kind and name: what is in it is looked at later.
pub(super) fn look_at(path: &Path) -> Result<(), BadTree> {
    let unreadable = |source| BadTree::unreadable(path, source);
    let meta = fs::metadata(path).map_err(unreadable)?;
    if meta.is_dir() {
        fs::read_dir(path).map_err(unreadable)?;
        return Ok(());
    }

    if !meta.is_file() || archive::ArchiveForm::of(path).is_none() {
        return Err(BadTree::Kind(path.to_owned()));
    }
    File::open(path).map(drop).map_err(unreadable)
}

/// Reads a directory or archive to its end and gives each part to `part` as soon as it is complete.
/// Returns the list.
pub(super) fn pack(
    path: &Path,
    mut part: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> Result<Manifest, BadTree> {
    let mut packer = Packer::new(path, &mut part);
    match archive::ArchiveForm::of(path) {
        Some(form) if !path.is_dir() => archive::read(form, path, &mut packer)?,
        _ => read_dir(path, &mut packer)?,
    }
    packer.end()
}

/// Encodes the [`Manifest`] of a tree.
pub(super) fn encoded(path: &Path, manifest: &Manifest) -> Result<Vec<u8>, BadTree> {
    match manifest.to_bytes() {
        Ok(bytes) if bytes.len() as u64 <= MAX_TREE_LIST => Ok(bytes),
        Ok(bytes) => Err(BadTree::List {
            path: path.to_owned(),
            bytes: bytes.len(),
        }),
        Err(error) => Err(BadTree::unreadable(path, io::Error::other(error))),
    }
}

/// Gathers the entries of a tree into a [`Manifest`].
struct Packer<'a> {
    /// The directory or archive, for messages.
    whole: &'a Path,
    manifest: Manifest,
    /// The part that is being filled.
    part: Vec<u8>,
    /// The receiver of complete parts.
    send: &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>,
}

impl<'a> Packer<'a> {
    fn new(whole: &'a Path, send: &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>) -> Self {
        Self {
            whole,
            manifest: Manifest::default(),
            part: Vec::new(),
            send,
        }
    }

    /// Checks a name, with slashes between its parts.
    fn name(&self, name: &[u8]) -> Result<PortablePath, BadTree> {
        let wrong = |why: String| BadTree::Name {
            path: self.whole.to_owned(),
            why,
        };
        let Ok(text) = std::str::from_utf8(name) else {
            let shown = String::from_utf8_lossy(name);
            let shown = legible(&shown, usize::MAX);
            return Err(wrong(format!("`{shown}` is not UTF-8")));
        };
        text.parse().map_err(|bad: BadPath| wrong(bad.to_string()))
    }

    /// Adds a file with all that `content` gives. Returns its length.
    fn file(
        &mut self,
        path: PortablePath,
        (executable, modified): (bool, Option<u64>),
        (content, size): (&mut dyn Read, u64),
    ) -> Result<u64, BadTree> {
        self.room()?;
        let large = size >= (SHORTEST / 2) as u64;
        if large {
            self.flush()?;
        }

        let mut hasher = blake3::Hasher::new();
        let mut length = 0;
        loop {
            let begin = self.part.len();
            self.part.reserve(PIECE.min(LONGEST));
            let room = (LONGEST - begin).min(PIECE) as u64;
            let read = content.take(room).read_to_end(&mut self.part);
            let read = read.map_err(|source| self.unreadable(path.as_str(), source))?;
            hasher.update(&self.part[begin..]);
            length += read as u64;
            if read == 0 {
                break;
            }
            if self.part.len() >= LONGEST {
                self.flush()?;
            }
        }

        let hash = common::content::BlobHash(*hasher.finalize().as_bytes());
        let ends = self.part.len() >= SHORTEST && hash.0[0].is_multiple_of(ENDS);
        if large || ends {
            self.flush()?;
        }
        let blob = BlobRef { hash, size: length };
        self.manifest.files.push(ListedFile {
            path,
            blob,
            executable,
            modified,
        });
        Ok(length)
    }

    fn link(&mut self, path: PortablePath, target: &[u8]) -> Result<(), BadTree> {
        self.room()?;
        let Ok(target) = String::from_utf8(target.to_vec()) else {
            return Err(BadTree::Name {
                path: self.whole.to_owned(),
                why: format!("the symbolic link `{path}` leads to a name that is not UTF-8"),
            });
        };
        self.manifest.links.push(ListedLink { path, target });
        Ok(())
    }

    fn empty_dir(&mut self, path: PortablePath) -> Result<(), BadTree> {
        self.room()?;
        self.manifest.empty.push(path);
        Ok(())
    }

    /// Refuses more entries than there may be, before all are read.
    fn room(&self) -> Result<(), BadTree> {
        if self.manifest.entries() < MAX_ENTRIES {
            return Ok(());
        }
        Err(self.bad(BadManifest::TooMany))
    }

    fn flush(&mut self) -> Result<(), BadTree> {
        if self.part.is_empty() {
            return Ok(());
        }
        let part = std::mem::take(&mut self.part);
        self.manifest.parts.push(link::content::hash_bytes(&part));
        (self.send)(part).map_err(|source| self.unreadable("", source))
    }

    fn end(mut self) -> Result<Manifest, BadTree> {
        self.flush()?;
        if self.manifest.entries() == 0 {
            return Err(BadTree::Empty(self.whole.to_owned()));
        }
        match self.manifest.check() {
            Ok(()) => Ok(self.manifest),
            Err(why) => Err(self.bad(why)),
        }
    }

    fn bad(&self, why: BadManifest) -> BadTree {
        let path = self.whole.to_owned();
        BadTree::Whole { path, why }
    }

    fn unreadable(&self, name: &str, source: io::Error) -> BadTree {
        BadTree::unreadable(&self.whole.join(name), source)
    }
}

/// Adds all that lies in a directory to the [`Packer`].
fn read_dir(dir: &Path, packer: &mut Packer<'_>) -> Result<(), BadTree> {
    for entry in WalkDir::new(dir).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(dir).to_owned();
            BadTree::unreadable(&path, error.into())
        })?;
        let unreadable = |source| BadTree::unreadable(entry.path(), source);
        let relative = entry.path().strip_prefix(dir).unwrap_or(entry.path());
        let name = packer.name(&slashed(relative))?;
        let kind = entry.file_type();

        if kind.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(unreadable)?;
            packer.link(name, &slashed(&target))?;
        } else if kind.is_dir() {
            let mut inside = fs::read_dir(entry.path()).map_err(unreadable)?;
            if inside.next().is_none() {
                packer.empty_dir(name)?;
            }
        } else if kind.is_file() {
            let mut file = File::open(entry.path()).map_err(unreadable)?;
            let before = file.metadata().map_err(unreadable)?;
            let marks = (executable(entry.path(), &before), modified(&before));
            let read = packer.file(name, marks, (&mut file, before.len()))?;
            let after = file.metadata().map_err(unreadable)?;
            let time = |meta: &Metadata| meta.modified().ok();
            if read != before.len() || after.len() != read || time(&before) != time(&after) {
                return Err(BadTree::Changed(entry.into_path()));
            }
        } else {
            return Err(BadTree::Entry {
                path: dir.to_owned(),
                name: name.to_string(),
                what: "a device, pipe or socket",
            });
        }
    }
    Ok(())
}

/// The bytes of a path, with slashes.
fn slashed(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_encoded_bytes();
    let slash = |byte: &u8| {
        if cfg!(windows) && *byte == b'\\' {
            b'/'
        } else {
            *byte
        }
    };
    bytes.iter().map(slash).collect()
}

fn modified(meta: &Metadata) -> Option<u64> {
    let time = meta.modified().ok()?;
    Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests;
