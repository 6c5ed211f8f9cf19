//! Unpacks what a task left that could not be files by themselves everywhere: symbolic links, empty
//! directories, odd names, and what was too much for a list. The archive comes from another machine:
//! nothing is made outside its directory, and no link leads out of it.

#[cfg(unix)]
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The outcome of [`unpack`].
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    /// The number of files, links and directories made, or there already.
    pub(super) made: usize,
    /// The reasons why the others were not; the archive is removed if there is none.
    pub(super) left: Vec<String>,
}

/// Leaves the archive as it is: this system does not know all names that may be in it.
#[cfg(not(unix))]
pub(super) fn unpack(_archive: &Path, _force: bool) -> io::Result<Unpacked> {
    Ok(Unpacked {
        made: 0,
        left: vec![
            "this system does not have all of the names in it; tar -xf gives back the others"
                .to_owned(),
        ],
    })
}

/// Unpacks an archive into its directory. What is there already and differs is overwritten only with
/// `force`.
///
/// # Errors
/// If the archive cannot be read, or something cannot be written.
#[cfg(unix)]
pub(super) fn unpack(archive: &Path, force: bool) -> io::Result<Unpacked> {
    let parent = archive.parent().unwrap_or(Path::new("."));
    let place = unix::UnpackDir {
        base: parent.canonicalize()?,
        force,
    };
    let mut unpacked = Unpacked::default();
    let mut links = BTreeMap::new();

    let mut tar = tar::Archive::new(io::BufReader::new(std::fs::File::open(archive)?));
    for entry in tar.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let made = match place.path_of(&name)? {
            Err(why) => Err(why),
            Ok(path) => match entry.header().entry_type() {
                tar::EntryType::Directory => unix::make_dir(&path)?,
                tar::EntryType::Regular => place.write(&path, &mut entry)?,
                tar::EntryType::Symlink => {
                    links.insert(path, entry.link_name()?.unwrap_or_default().into_owned());
                    continue;
                }
                _ => Err("it is neither a file, nor a directory, nor a link"),
            },
        };
        unpacked.note(&name, made);
    }

    // After all files: so no file is written through a link.
    for (path, target) in &links {
        let made = place.link(path, target)?;
        unpacked.note(path.strip_prefix(&place.base).unwrap_or(path), made);
    }
    if unpacked.left.is_empty() {
        std::fs::remove_file(archive)?;
    }
    Ok(unpacked)
}

#[cfg(unix)]
impl Unpacked {
    fn note(&mut self, name: &Path, made: Result<(), &str>) {
        match made {
            Ok(()) => self.made += 1,
            Err(why) => self.left.push(format!("`{}`: {why}", name.display())),
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

    use crate::files;

    const DIFFERS: &str = "there is something else already; use --force, or another directory";
    const OUTSIDE: &str = "it would lie outside its directory";
    const LEADS_OUT: &str = "it is a link that leads out of its directory, or in a circle";

    /// The directory into which is unpacked.
    pub(super) struct UnpackDir {
        /// Its path without links.
        pub(super) base: PathBuf,
        /// Whether what differs is overwritten.
        pub(super) force: bool,
    }

    impl UnpackDir {
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

        /// Writes a file; one that differs is overwritten only with `force`.
        pub(super) fn write(
            &self,
            path: &Path,
            entry: &mut tar::Entry<'_, impl Read>,
        ) -> io::Result<Result<(), &'static str>> {
            let mode = entry.header().mode().unwrap_or(0o644);
            let parent = path.parent().unwrap_or(&self.base);
            let mut new = tempfile::NamedTempFile::new_in(parent)?;
            io::copy(entry, &mut new)?;

            if let Ok(meta) = fs::symlink_metadata(path) {
                let same = meta.is_file() && hash_of(path)? == hash_of(new.path())?;
                if !same && (!self.force || meta.is_dir()) {
                    return Ok(Err(DIFFERS));
                }
            }
            new.persist(path).map_err(|error| error.error)?;
            files::permit(path, mode & 0o100 != 0)?;
            Ok(Ok(()))
        }

        /// Makes a link, unless it leads out of `base`.
        pub(super) fn link(
            &self,
            path: &Path,
            target: &Path,
        ) -> io::Result<Result<(), &'static str>> {
            if !self.holds(path, target) {
                return Ok(Err(LEADS_OUT));
            }
            if let Ok(meta) = fs::symlink_metadata(path) {
                if meta.is_symlink() && fs::read_link(path)? == target {
                    return Ok(Ok(()));
                }
                if !self.force || meta.is_dir() {
                    return Ok(Err(DIFFERS));
                }
                fs::remove_file(path)?;
            }

            symlink(target, path)?;
            match fs::canonicalize(path) {
                Ok(real) if real.starts_with(&self.base) => Ok(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(())),
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

    fn hash_of(path: &Path) -> io::Result<BlobRef> {
        link::content::hash_file(path).map_err(io::Error::other)
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
