//! Whether a directory is the one in which the content of a grid lies. Masters that share a database are each told
//! where it is mounted, and one with a wrong directory would find nothing in it, or remove what is another grid's.
//!
//! The directory has a file that names the grid and the directory itself; the store notes the latter.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use link::{BlobStore, LinkError};
use uuid::Uuid;

use crate::MasterError;
use crate::store::{StoreFacts, Writer};

/// The file in the directory: the grid's number and the directory's, as text.
const FILE: &str = "grid";
/// The entry of the store's `meta` that has the directory's number.
pub(crate) const NOTE: &str = "content";

/// The reason why a directory is not taken for a grid's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentFault {
    /// It is marked as that of another grid.
    OtherGrid,
    /// The grid's content is in another directory.
    Elsewhere,
    /// It is not marked, and holds content, of which the store names none.
    Foreign,
}

impl fmt::Display for ContentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherGrid => "the directory for content holds that of another grid",
            Self::Elsewhere => "the content of this grid lies in another directory: its mark, the file `grid`, is not in the one given",
            Self::Foreign => "the directory for content holds some that no job of this grid names, and would be removed",
        })
    }
}

impl ContentFault {
    /// The remedy, shown to the admin.
    pub fn hint(self) -> &'static str {
        match self {
            Self::OtherGrid | Self::Foreign => {
                "name a directory for this grid alone: --content DIR"
            }
            Self::Elsewhere => {
                "see whether it is mounted, or name the right one (--content DIR). To have the content in this directory from now on, end \
                 all masters and copy everything into it from where it is: cp -a FROM/. DIR/"
            }
        }
    }
}

/// The mark of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ContentMark {
    grid: Uuid,
    place: Uuid,
}

impl ContentMark {
    /// Reads it from `dir`; `None` if there is none.
    fn read(dir: &Path) -> Result<Option<Self>, LinkError> {
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LinkError::file("cannot read", path)(error)),
        };
        let mut words = text.split_whitespace().map(Uuid::try_parse);
        match (words.next(), words.next()) {
            (Some(Ok(grid)), Some(Ok(place))) => Ok(Some(Self { grid, place })),
            _ => {
                let error = io::Error::other("it does not name a grid and a directory");
                Err(LinkError::file("cannot use", path)(error))
            }
        }
    }

    fn write(self, dir: &Path) -> Result<(), LinkError> {
        let text = format!("{} {}\n", self.grid, self.place);
        let written = link::files::write_whole(&dir.join(FILE), text.as_bytes(), 0o600);
        written.map_err(LinkError::file("cannot write", dir.join(FILE)))
    }
}

/// Refuses a directory that is not the one of the store with these facts. Changes nothing.
///
/// # Errors
/// If it is another grid's, or lacks the mark that the store notes.
pub(crate) fn check(dir: &Path, facts: Option<&StoreFacts>) -> Result<(), MasterError> {
    let grid = facts.and_then(|facts| facts.grid);
    let noted = facts.and_then(|facts| facts.content);
    let refused = |fault| {
        let dir = dir.to_owned();
        Err(MasterError::Content { dir, fault })
    };
    match (ContentMark::read(dir)?, noted) {
        (Some(mark), _) if Some(mark.grid) != grid => refused(ContentFault::OtherGrid),
        (Some(mark), Some(noted)) if mark.place == noted => Ok(()),
        (_, Some(_)) => refused(ContentFault::Elsewhere),
        (Some(_), None) => Ok(()),
        // Neither knows of marks: both are new, or from before there were any.
        (None, None) => {
            let names = facts.is_some_and(|facts| facts.names_content);
            match names || is_without_content(dir)? {
                true => Ok(()),
                false => refused(ContentFault::Foreign),
            }
        }
    }
}

fn is_without_content(dir: &Path) -> Result<bool, LinkError> {
    let failed = LinkError::file("cannot read", dir);
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(failed(error)),
        // Content lies in directories named by the first byte of its hashes.
        Ok(mut entries) => {
            Ok(!entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().len() == 2)))
        }
    }
}

/// Opens the directory for the grid, and marks it as the one that the store notes. Other accounts cannot read in it
/// from then on.
pub(crate) fn open(dir: &Path, grid: Uuid, store: &mut Writer) -> Result<BlobStore, MasterError> {
    let blobs = BlobStore::open(dir)?;
    let marked = ContentMark::read(dir)?;
    let place = marked.map_or_else(rand::random, |mark| *mark.place.as_bytes());
    let place = Uuid::from_bytes(store.meta(NOTE, || place)?);
    store.commit()?;

    let mark = ContentMark { grid, place };
    if marked != Some(mark) {
        mark.write(dir)?;
    }
    if let Err(error) = link::files::private_dir(dir) {
        tracing::warn!(%error, dir = %dir.display(), "other accounts of this machine may be able to read users' files");
    }
    Ok(blobs)
}

/// Whether the directory still is the one that [`open`] marked for the grid: what is mounted there can go.
pub(crate) fn is_there(dir: &Path, grid: Uuid) -> bool {
    matches!(ContentMark::read(dir), Ok(Some(mark)) if mark.grid == grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with its directory for content, as a master leaves them.
    struct Place {
        dir: tempfile::TempDir,
        store: Writer,
        grid: Uuid,
    }

    impl Place {
        fn new(grid: u128) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let mut store = Writer::open(dir.path()).unwrap();
            let grid = Uuid::from_u128(grid);
            store.meta("grid", || *grid.as_bytes()).unwrap();
            store.commit().unwrap();
            Self { dir, store, grid }
        }

        fn facts(&self) -> StoreFacts {
            StoreFacts::of(self.store.db()).unwrap()
        }

        fn content(&self) -> std::path::PathBuf {
            self.dir.path().join("content")
        }

        fn open(&mut self, dir: &Path) -> BlobStore {
            open(dir, self.grid, &mut self.store).unwrap()
        }

        fn fault_in(&self, dir: &Path) -> Option<ContentFault> {
            match check(dir, Some(&self.facts())) {
                Ok(()) => None,
                Err(MasterError::Content { fault, .. }) => Some(fault),
                Err(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn a_directory_with_the_content_of_another_grid_is_refused() {
        let mut first = Place::new(1);
        let mut second = Place::new(2);
        let blobs = first.open(&first.content());
        blobs.add_reader(&b"a result"[..]).unwrap();

        // A grid that is new, one that has begun, and one before its first commit.
        let refused = Some(ContentFault::OtherGrid);
        assert_eq!(second.fault_in(&first.content()), refused);
        second.open(&second.content());
        assert_eq!(second.fault_in(&first.content()), refused);
        assert!(check(&first.content(), None).is_err());
        assert!(is_there(&first.content(), first.grid));
        assert!(!is_there(&first.content(), second.grid));
        assert_eq!(first.fault_in(&first.content()), None);
    }

    #[test]
    fn content_without_a_mark_is_refused_by_a_store_that_names_none() {
        let place = Place::new(1);
        let blobs = BlobStore::open(&place.content()).unwrap();
        assert_eq!(place.fault_in(&place.content()), None, "it is empty");
        blobs.add_reader(&b"whose is this?"[..]).unwrap();
        assert_eq!(
            place.fault_in(&place.content()),
            Some(ContentFault::Foreign)
        );

        let before_marks = StoreFacts {
            names_content: true,
            ..place.facts()
        };
        assert!(check(&place.content(), Some(&before_marks)).is_ok());
    }

    #[test]
    fn another_directory_is_refused_until_everything_was_copied_there() {
        let mut place = Place::new(1);
        place.open(&place.content());
        let missing = place.dir.path().join("not mounted");
        let empty = tempfile::tempdir().unwrap();
        let refused = Some(ContentFault::Elsewhere);
        assert_eq!(place.fault_in(&missing), refused);
        assert_eq!(place.fault_in(empty.path()), refused);
        assert!(!missing.exists(), "nothing was made");

        fs::copy(place.content().join(FILE), empty.path().join(FILE)).unwrap();
        assert_eq!(place.fault_in(empty.path()), None);

        fs::write(empty.path().join(FILE), "what is this?").unwrap();
        let error = check(empty.path(), Some(&place.facts())).unwrap_err();
        assert!(
            error.to_string().contains("does not name a grid"),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn other_accounts_cannot_read_in_the_directory() {
        use std::os::unix::fs::PermissionsExt;
        let mut place = Place::new(1);
        fs::create_dir(place.content()).unwrap();
        fs::set_permissions(place.content(), fs::Permissions::from_mode(0o755)).unwrap();
        place.open(&place.content());
        let mode = fs::metadata(place.content()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
