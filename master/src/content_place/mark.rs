//! Whether a directory or bucket is the one in which the content of a grid lies. Masters that share a database are each
//! told where it is, and one with a wrong place would find nothing in it, or remove what is another grid's.
//!
//! The place has a file or object that names the grid and the place itself; the store notes the latter.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use link::files::unless_gone;
use link::{BlobStore, LinkError};
use uuid::Uuid;

use super::setting::{BucketPlace, ContentSetting};
use super::{BucketError, CONTENT, Objects, block};
use crate::store::{StoreFacts, Writer};
use crate::{Accept, MasterError};

/// The file in the directory, or the object: the grid's number and the place's, as text.
const FILE: &str = "grid";
/// The entry of the store's `meta` that has the place's number.
pub(crate) const NOTE: &str = "content";

/// The reason why a directory or bucket is not taken for a grid's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentFault {
    /// It is marked as that of another grid.
    OtherGrid,
    /// The grid's content is in another place.
    Elsewhere,
    /// It is not marked, and holds content, of which the store names none.
    Foreign,
    /// The store is a copy, and the place has the content of the master that it was made of.
    OfOriginal,
    /// The store is a copy, and its content is not there.
    LeftBehind,
}

impl fmt::Display for ContentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherGrid => "the place for content holds that of another grid",
            Self::Elsewhere => "the content of this grid lies in another place: its mark, `grid`, is not in the one given",
            Self::Foreign => "the place for content holds some that no job of this grid names, and would be removed",
            Self::OfOriginal => {
                "the store is a backup, and the place for content is that of the master that it was made of, which may still need it"
            }
            Self::LeftBehind => "the store is a backup, and the place for content has none of its content",
        })
    }
}

impl ContentFault {
    /// The remedy, shown to the admin.
    pub fn hint(self) -> &'static str {
        match self {
            Self::OtherGrid | Self::Foreign => {
                "name a directory or bucket for this grid alone: --content DIR, or s3://BUCKET/PREFIX"
            }
            Self::OfOriginal => {
                "end that master for good, then: deskgrid master start --accept-store. Content that came since the backup is removed \
                 then. For a trial beside that master, give this one a copy of the content"
            }
            Self::LeftBehind => {
                "`restore` has put it into `master/content` below the state directory: copy it from there (cp -a), or name that \
                 directory. To go on without it: deskgrid master start --accept-store"
            }
            Self::Elsewhere => {
                "see whether it is mounted, or name the right one (--content). To have the content of one directory in another from now \
                 on, end all masters and copy everything into it from where it is: cp -a FROM/. DIR/ (of a bucket: all objects, with \
                 `grid`, into the other)"
            }
        }
    }
}

/// The mark of a directory or bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentMark {
    pub(super) grid: Uuid,
    pub(super) place: Uuid,
}

impl ContentMark {
    /// Reads it from `dir`; `None` if there is none.
    fn read(dir: &Path) -> Result<Option<Self>, LinkError> {
        let path = dir.join(FILE);
        let text = unless_gone(fs::read_to_string(&path));
        let Some(text) = text.map_err(LinkError::file("cannot read", &path))? else {
            return Ok(None);
        };
        let mark = Self::parse(&text).map(Some);
        mark.map_err(LinkError::file("cannot use", path))
    }

    fn parse(text: &str) -> io::Result<Self> {
        let mut words = text.split_whitespace().map(Uuid::try_parse);
        match (words.next(), words.next()) {
            (Some(Ok(grid)), Some(Ok(place))) => Ok(Self { grid, place }),
            _ => Err(io::Error::other("it does not name a grid and a place")),
        }
    }

    fn text(self) -> String {
        format!("{} {}\n", self.grid, self.place)
    }

    fn write(self, dir: &Path) -> Result<(), LinkError> {
        let written = link::files::write_whole(&dir.join(FILE), self.text().as_bytes(), 0o600);
        written.map_err(LinkError::file("cannot write", dir.join(FILE)))
    }
}

/// Refuses a directory or bucket that is not the one of the store with these facts. Changes nothing. A
/// bucket that is away, and that the store has content in, is not refused.
///
/// # Errors
/// If it is another grid's, or lacks the mark that the store notes; a new bucket cannot be used; or the
/// store is a copy, and the place that of its original or without its content, and no admin accepts that.
pub(crate) fn check(
    setting: &ContentSetting,
    facts: Option<&StoreFacts>,
    accept: Accept,
) -> Result<(), MasterError> {
    let copy = facts.filter(|facts| facts.copied && !accept.store);
    let fault = match setting {
        ContentSetting::Directory(dir) => {
            let mark = ContentMark::read(dir)?;
            let is_empty = || Ok::<_, MasterError>(is_without_content(dir)?);
            match copy {
                Some(copy) if mark.is_some_and(|mark| Some(mark.grid) == copy.grid) => {
                    Some(ContentFault::OfOriginal)
                }
                Some(copy) if mark.is_none() && copy.names_content && is_empty()? => {
                    Some(ContentFault::LeftBehind)
                }
                _ => fault_of(mark, facts, is_empty)?,
            }
        }
        ContentSetting::Bucket(_) if copy.is_some() => Some(ContentFault::OfOriginal),
        ContentSetting::Bucket(place) => match bucket_fault(place, facts) {
            Err(MasterError::Bucket(error)) if is_away(&error, facts) => {
                tracing::warn!(%error, "the bucket is not looked at");
                None
            }
            looked => looked?,
        },
    };

    let place = setting.to_string();
    fault.map_or(Ok(()), |fault| Err(MasterError::Content { place, fault }))
}

/// Does what [`check`] does, for a master with its store in a file of `home`. The directory for content
/// is a part of `home` then, and needs no [`ContentMark`], which no backup has: it is refused only where
/// the content lies in a bucket.
pub(crate) fn check_in_home(
    home: &Path,
    setting: &ContentSetting,
    facts: Option<&StoreFacts>,
    accept: Accept,
) -> Result<(), MasterError> {
    let is_own = matches!(setting, ContentSetting::Directory(_));
    if is_own && BucketPlace::of_master(home)?.is_none() {
        return Ok(());
    }
    check(setting, facts, accept)
}

/// Whether the bucket in which the grid's content lies is away, and may come back by itself.
fn is_away(error: &BucketError, facts: Option<&StoreFacts>) -> bool {
    error.fault.passes() && facts.is_some_and(|facts| facts.content.is_some())
}

/// Looks at a bucket (by [`block`]: the caller may be asynchronous).
fn bucket_fault(
    place: &BucketPlace,
    facts: Option<&StoreFacts>,
) -> Result<Option<ContentFault>, MasterError> {
    let objects = Objects::open(place)?;
    let looked = block(async {
        let mark = in_bucket(&objects).await?;
        // Only storage that has the bucket can say that there is nothing in it.
        let is_empty = objects.list(CONTENT, 1).await?.is_empty();
        Ok::<_, BucketError>((mark, is_empty))
    });
    let (mark, is_empty) = looked?;
    fault_of(mark, facts, || Ok(is_empty))
}

/// Compares the [`ContentMark`] of a place with the [`StoreFacts`].
fn fault_of<E>(
    mark: Option<ContentMark>,
    facts: Option<&StoreFacts>,
    is_empty: impl FnOnce() -> Result<bool, E>,
) -> Result<Option<ContentFault>, E> {
    let grid = facts.and_then(|facts| facts.grid);
    let noted = facts.and_then(|facts| facts.content);

    Ok(match (mark, noted) {
        (Some(mark), _) if Some(mark.grid) != grid => Some(ContentFault::OtherGrid),
        (Some(mark), Some(noted)) if mark.place == noted => None,
        (_, Some(_)) => Some(ContentFault::Elsewhere),
        (Some(_), None) => None,
        // Neither knows of marks: both are new, or from before there were any.
        (None, None) => {
            let names = facts.is_some_and(|facts| facts.names_content);
            match names || is_empty()? {
                true => None,
                false => Some(ContentFault::Foreign),
            }
        }
    })
}

/// Reads the [`ContentMark`] of a bucket; `None` if it has none.
pub(super) async fn in_bucket(objects: &Objects) -> Result<Option<ContentMark>, BucketError> {
    let read = objects.read(FILE).await?;
    // What cannot be read is no mark of this grid, and is not overwritten either.
    let unknown = ContentMark {
        grid: Uuid::nil(),
        place: Uuid::nil(),
    };
    Ok(read.map(|bytes| {
        let text = String::from_utf8_lossy(&bytes);
        ContentMark::parse(&text).unwrap_or(unknown)
    }))
}

fn is_without_content(dir: &Path) -> Result<bool, LinkError> {
    let entries = unless_gone(fs::read_dir(dir)).map_err(LinkError::file("cannot read", dir))?;
    let mut entries = entries.into_iter().flatten();
    // Content lies in directories named by the first byte of its hashes.
    Ok(!entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().len() == 2)))
}

/// Opens the directory for the grid, and marks it as the one that the store notes. Other accounts cannot read in it
/// from then on.
pub(super) fn open(dir: &Path, grid: Uuid, store: &mut Writer) -> Result<BlobStore, MasterError> {
    let blobs = BlobStore::open(dir)?;
    let marked = ContentMark::read(dir)?;
    let mark = mark_for(grid, known(store)?, marked);
    if marked != Some(mark) {
        mark.write(dir)?;
    }
    note(mark, store)?;

    if let Err(error) = link::files::private_dir(dir) {
        tracing::warn!(%error, dir = %dir.display(), "other accounts of this machine may be able to read users' files");
    }
    Ok(blobs)
}

/// The number of the place that the store notes.
fn known(store: &Writer) -> Result<Option<Uuid>, MasterError> {
    let noted = store.note(NOTE)?;
    Ok(noted.and_then(|bytes| Uuid::from_slice(&bytes).ok()))
}

/// The mark for the place that the store notes; else that which it has, or a new one.
fn mark_for(grid: Uuid, known: Option<Uuid>, marked: Option<ContentMark>) -> ContentMark {
    let place = known.or(marked.map(|mark| mark.place));
    let place = place.unwrap_or_else(|| Uuid::from_bytes(rand::random()));
    ContentMark { grid, place }
}

/// Has the store note the place of this mark. The place has it by now: one that cannot be marked is not noted, and can be
/// named again once it can.
fn note(mark: ContentMark, store: &mut Writer) -> Result<(), MasterError> {
    store.meta(NOTE, || *mark.place.as_bytes())?;
    store.commit()?;
    Ok(())
}

/// Marks a bucket as the one that the store notes, and returns the mark's number. If it is away, it has
/// the mark already.
pub(super) async fn mark_bucket(
    objects: &Objects,
    grid: Uuid,
    store: &mut Writer,
) -> Result<Uuid, MasterError> {
    let known = known(store)?;
    let marked = match in_bucket(objects).await {
        Err(error)
            if let Some(place) = known
                && error.fault.passes() =>
        {
            tracing::warn!(%error, hint = error.fault.hint(), "files of tasks wait for the storage");
            return Ok(place);
        }
        marked => marked?,
    };

    let mark = mark_for(grid, known, marked);
    if marked != Some(mark) {
        objects.create(FILE, mark.text().into_bytes()).await?;
        if in_bucket(objects).await? != Some(mark) {
            // Another grid was quicker.
            return Err(MasterError::Content {
                place: objects.place().to_string(),
                fault: ContentFault::OtherGrid,
            });
        }
    }
    note(mark, store)?;
    Ok(mark.place)
}

/// Tries a bucket out: it is listed, a short object is written, read and deleted.
pub(crate) async fn try_out(objects: &Objects) -> Result<(), BucketError> {
    const TRIAL: &str = "trial";
    objects.list(CONTENT, 1).await?;
    objects.create(TRIAL, b"deskgrid doctor\n".to_vec()).await?;
    objects.read(TRIAL).await?;
    objects.delete(TRIAL).await
}

/// Whether the directory still is the one that [`open`] marked for the grid: what is mounted there can go.
pub(crate) fn is_there(dir: &Path, grid: Uuid) -> bool {
    matches!(ContentMark::read(dir), Ok(Some(mark)) if mark.grid == grid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_dir(dir: &Path) -> ContentSetting {
        ContentSetting::Directory(dir.to_owned())
    }

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
            match check(&in_dir(dir), Some(&self.facts()), Accept::default()) {
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
        assert!(check(&in_dir(&first.content()), None, Accept::default()).is_err());
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
        let accept = Accept::default();
        assert!(check(&in_dir(&place.content()), Some(&before_marks), accept).is_ok());
    }

    #[test]
    fn a_copied_store_has_neither_the_directory_of_its_original_nor_an_empty_one() {
        let mut place = Place::new(1);
        let blobs = place.open(&place.content());
        blobs.add_reader(&b"a result"[..]).unwrap();
        let copied = StoreFacts {
            copied: true,
            content: None,
            names_content: true,
            ..place.facts()
        };
        let fault = |dir: &Path, accept| match check(&in_dir(dir), Some(&copied), accept) {
            Ok(()) => None,
            Err(MasterError::Content { fault, .. }) => Some(fault),
            Err(other) => panic!("{other}"),
        };
        let empty = place.dir.path().join("empty");
        let own = place.dir.path().join("own");
        BlobStore::open(&own)
            .unwrap()
            .add_reader(&b"a result"[..])
            .unwrap();

        let asked = Accept::default();
        let original = Some(ContentFault::OfOriginal);
        assert_eq!(fault(&place.content(), asked), original);
        assert_eq!(fault(&empty, asked), Some(ContentFault::LeftBehind));
        assert_eq!(fault(&own, asked), None);
        let accepted = Accept {
            store: true,
            ..Accept::default()
        };
        for dir in [&place.content(), &empty, &own] {
            assert_eq!(fault(dir, accepted), None);
        }
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
        let checked = check(
            &in_dir(empty.path()),
            Some(&place.facts()),
            Accept::default(),
        );
        let error = checked.unwrap_err();
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
