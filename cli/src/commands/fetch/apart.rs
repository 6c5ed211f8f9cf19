//! Unpacks what a task left that could not be files by themselves everywhere: symbolic links, empty
//! directories, odd names, and what was too much for a list. The archive comes from another machine:
//! nothing is made outside its directory, and no link leads out of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use common::content::BlobRef;
use common::text::printable;

use super::MOST_NOTES;
use crate::output::note;

/// The files, links and directories that came of an archive, by path. What stands for their content is that of
/// [`found`].
pub(super) type UnpackedEntries = BTreeMap<PathBuf, Option<BlobRef>>;

/// The outcome of [`unpack`].
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    /// The entries that were made, or there already.
    pub(super) made: UnpackedEntries,
    /// The reasons why others were not.
    pub(super) left: Vec<String>,
    /// The paths of those in whose places something else is. The archive is removed if all was made.
    pub(super) differ: Vec<PathBuf>,
}

impl Unpacked {
    /// Whether every entry is in `made`.
    pub(super) fn is_whole(&self) -> bool {
        self.left.is_empty() && self.differ.is_empty()
    }
}

/// The unpacked archives of a fetch.
pub(super) struct UnpackedArchives {
    /// The entries that were made of each archive, by its path.
    pub(super) parts: BTreeMap<PathBuf, UnpackedEntries>,
    /// The archives that stay, with the reasons why entries of them were not made.
    pub(super) left: Vec<(PathBuf, Vec<String>)>,
}

impl UnpackedArchives {
    /// Adds what came of one archive.
    pub(super) fn add(&mut self, archive: PathBuf, unpacked: Unpacked) {
        if !unpacked.left.is_empty() {
            self.left.push((archive.clone(), unpacked.left));
        }
        self.parts.insert(archive, unpacked.made);
    }

    /// Prints which archives stay: of many tasks there may be many, so one stands for all.
    pub(super) fn tell_left(&self) {
        let Some((archive, why)) = self.left.first() else {
            return;
        };
        let kept = match self.left.len() {
            1 => format!("{} is kept", archive.display()),
            n => format!("{n} archives are kept, such as {}", archive.display()),
        };
        let shown = why.iter().take(MOST_NOTES).map(|why| printable(why));
        note(&format!("{kept}: {}", shown.collect::<Vec<_>>().join("; ")));
    }
}

/// Returns what is at this path: the content of a file, what stands for the target of a link, and `None` for
/// everything else, such as a directory. Nothing is there where there is no answer.
///
/// # Errors
/// If it cannot be looked at.
pub(super) fn found(path: &Path) -> io::Result<Option<Option<BlobRef>>> {
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        meta => meta?.file_type(),
    };
    Ok(Some(if kind.is_symlink() {
        Some(link_content(&fs::read_link(path)?))
    } else if kind.is_file() {
        Some(link::content::hash_file(path).map_err(io::Error::other)?)
    } else {
        None
    }))
}

/// Returns what stands for the content of a link.
fn link_content(target: &Path) -> BlobRef {
    let target = target.as_os_str().as_encoded_bytes();
    link::content::hash_bytes(&[b"link to ", target].concat())
}

/// Leaves the archive as it is: this system does not know all names that may be in it.
#[cfg(not(unix))]
pub(super) fn unpack(
    _archive: &Path,
    _may_replace: &dyn Fn(&Path, &BlobRef) -> bool,
) -> io::Result<Unpacked> {
    Ok(Unpacked {
        left: vec![
            "this system does not have all of the names in it; tar -xf gives back the others"
                .to_owned(),
        ],
        ..Unpacked::default()
    })
}

/// Unpacks an archive into its directory. A file or link that is there already and differs is overwritten only
/// if it may be replaced.
///
/// # Errors
/// If the archive cannot be read, or something cannot be written.
#[cfg(unix)]
pub(super) fn unpack(
    archive: &Path,
    may_replace: &dyn Fn(&Path, &BlobRef) -> bool,
) -> io::Result<Unpacked> {
    let parent = archive.parent().unwrap_or(Path::new("."));
    let place = unix::UnpackDir {
        base: parent.canonicalize()?,
        may_replace,
    };
    let mut unpacked = Unpacked::default();
    let mut links = BTreeMap::new();

    let mut tar = tar::Archive::new(io::BufReader::new(fs::File::open(archive)?));
    for entry in tar.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let path = place.base.join(&name);
        let made = match place.path_of(&name)? {
            Err(why) => Err(why),
            Ok(path) => match entry.header().entry_type() {
                tar::EntryType::Directory => unix::make_dir(&path)?.map(|()| None),
                tar::EntryType::Regular => place.write(&path, &mut entry)?.map(Some),
                tar::EntryType::Symlink => {
                    links.insert(path, entry.link_name()?.unwrap_or_default().into_owned());
                    continue;
                }
                _ => Err("it is neither a file, nor a directory, nor a link"),
            },
        };
        unpacked.note(&place.base, path, made);
    }

    // After all files: so no file is written through a link.
    for (path, target) in links {
        let made = place.link(&path, &target)?;
        unpacked.note(&place.base, path, made.map(Some));
    }
    if unpacked.is_whole() {
        fs::remove_file(archive)?;
    }
    Ok(unpacked)
}

#[cfg(unix)]
impl Unpacked {
    fn note(&mut self, base: &Path, path: PathBuf, made: Result<Option<BlobRef>, &str>) {
        match made {
            Ok(content) => {
                self.made.insert(path, content);
            }
            Err(unix::DIFFERS) => self.differ.push(path),
            Err(why) => {
                let name = path.strip_prefix(base).unwrap_or(&path);
                self.left.push(format!("`{}`: {why}", name.display()));
            }
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::io::{self, Read};
    use std::os::unix::fs::symlink;
    use std::path::{Component, Path, PathBuf};

    use common::content::BlobRef;

    use super::{found, link_content};
    use crate::files;

    /// Of an entry in whose place something else is.
    pub(super) const DIFFERS: &str = "there is something else already";
    const OTHER_CASE: &str = "this disk takes its name for that of another file";
    const OUTSIDE: &str = "it would lie outside its directory";
    const LEADS_OUT: &str = "it is a link that leads out of its directory, or in a circle";

    /// The directory into which is unpacked.
    pub(super) struct UnpackDir<'a> {
        /// Its path without links.
        pub(super) base: PathBuf,
        /// Whether what is at a path, and differs, is overwritten.
        pub(super) may_replace: &'a dyn Fn(&Path, &BlobRef) -> bool,
    }

    impl UnpackDir<'_> {
        /// Returns the path of an entry below `base`. Its directories are made, and are no links.
        pub(super) fn path_of(&self, name: &Path) -> io::Result<Result<PathBuf, &'static str>> {
            let mut path = self.base.clone();
            let mut names = name.components().peekable();
            if names.peek().is_none() {
                return Ok(Err(OUTSIDE));
            }
            while let Some(name) = names.next() {
                let Component::Normal(name) = name else {
                    return Ok(Err(OUTSIDE));
                };
                path.push(name);
                if names.peek().is_some()
                    && let Err(why) = make_dir(&path)?
                {
                    return Ok(Err(why));
                }
            }

            Ok(Ok(path))
        }

        /// Whether there is room for this content at a path: nothing is there, or the same, or what may be
        /// replaced.
        fn has_room(&self, path: &Path, content: BlobRef) -> io::Result<Result<(), &'static str>> {
            match found(path)? {
                None => Ok(Ok(())),
                Some(Some(there)) if there == content => Ok(Ok(())),
                Some(Some(_)) if is_of_other_case(path)? => Ok(Err(OTHER_CASE)),
                Some(Some(there)) if (self.may_replace)(path, &there) => Ok(Ok(())),
                Some(_) => Ok(Err(DIFFERS)),
            }
        }

        /// Writes a file, where there is room for it, and returns its content.
        pub(super) fn write(
            &self,
            path: &Path,
            entry: &mut tar::Entry<'_, impl Read>,
        ) -> io::Result<Result<BlobRef, &'static str>> {
            let mode = entry.header().mode().unwrap_or(0o644);
            let parent = path.parent().unwrap_or(&self.base);
            let mut new = tempfile::NamedTempFile::new_in(parent)?;
            let content = link::content::copy_hashing(entry, &mut new)?;

            if let Err(why) = self.has_room(path, content)? {
                return Ok(Err(why));
            }
            new.persist(path).map_err(|error| error.error)?;
            files::permit(path, mode & 0o100 != 0)?;
            Ok(Ok(content))
        }

        /// Makes a link, unless it leads out of `base`, and returns what stands for its content.
        pub(super) fn link(
            &self,
            path: &Path,
            target: &Path,
        ) -> io::Result<Result<BlobRef, &'static str>> {
            if !self.holds(path, target) {
                return Ok(Err(LEADS_OUT));
            }
            let content = link_content(target);
            if let Err(why) = self.has_room(path, content)? {
                return Ok(Err(why));
            }
            if fs::symlink_metadata(path).is_ok() {
                fs::remove_file(path)?;
            }

            symlink(target, path)?;
            match fs::canonicalize(path) {
                Ok(real) if real.starts_with(&self.base) => Ok(Ok(content)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(content)),
                _ => {
                    fs::remove_file(path)?;
                    Ok(Err(LEADS_OUT))
                }
            }
        }

        /// Whether a link's target is inside by its names alone. Below other links none goes up
        /// again: where that leads is not in its names.
        fn holds(&self, path: &Path, target: &Path) -> bool {
            let mut at = path.parent().unwrap_or(&self.base).to_owned();
            let mut down = false;
            target.components().all(|name| match name {
                Component::CurDir => true,
                Component::Normal(name) => {
                    at.push(name);
                    down = true;
                    true
                }
                Component::ParentDir => !down && at.pop() && at.starts_with(&self.base),
                Component::RootDir | Component::Prefix(_) => false,
            })
        }
    }

    /// Whether the file at a path has another name, on a disk to which large and small letters are the same.
    fn is_of_other_case(path: &Path) -> io::Result<bool> {
        let is_file = fs::symlink_metadata(path)?.is_file();
        Ok(is_file && path.canonicalize()?.file_name() != path.file_name())
    }

    /// Makes a directory where there is none.
    pub(super) fn make_dir(path: &Path) -> io::Result<Result<(), &'static str>> {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(Ok(())),
            Ok(_) => Ok(Err(DIFFERS)),
            Err(_) => fs::create_dir(path).map(Ok),
        }
    }
}

#[cfg(all(test, unix))]
mod tests;
