//! A grid whose store is in PostgreSQL: which database it is, and whether that is the store that the
//! master left. What a database must be like at all is known to [`crate::store`].

use std::fs;
use std::path::{Path, PathBuf};

use link::LinkError;
use uuid::Uuid;

use crate::clock::Clock;
use crate::content_place::{BucketPlace, ContentSetting};
use crate::operations::CONTENT;
use crate::store::{
    Database, LeaseContender, LeaseSeen, Mark, Marked, MasterMember, PgError, Reader, StoreError,
    StoreFacts, Writer,
};
use crate::{Accept, Config, MasterError, authority, content_place, whole};

/// The file in the master's directory that names the database of its store, for people and for
/// commands that work on files alone.
const FILE: &str = "database";

/// The database that the store is in, if it is in one.
pub(crate) fn place(config: &Config) -> Result<Option<Database>, MasterError> {
    let place = config.store.as_deref().map(Database::parse);
    let place = place.transpose().map_err(StoreError::from)?;
    Ok(place.map(|place| place.with_lease(config.takeover_after.span())))
}

/// The database that the master in `home` was started with, in words, if there is one.
pub(crate) fn named(home: &Path) -> Option<String> {
    let name = fs::read_to_string(home.join(FILE)).ok()?;
    Some(name.trim().to_owned())
}

/// Writes down which database the store is in.
pub(crate) fn name_it(home: &Path, place: &Database) -> Result<(), LinkError> {
    let name = format!("{}\n", place.name());
    let written = link::files::write_whole(&home.join(FILE), name.as_bytes(), 0o644);
    written.map_err(LinkError::file("cannot write", home.join(FILE)))
}

/// Removes what [`name_it`] wrote: the store is a file again.
pub(crate) fn forget(home: &Path) -> Result<(), LinkError> {
    fs::remove_file(home.join(FILE)).map_err(LinkError::file("cannot remove", home.join(FILE)))
}

/// Refuses, with this remedy, what a master does on a store in a file, where that of `home` is in a [`Database`].
pub(crate) fn in_a_file(home: &Path, hint: &'static str) -> Result<(), MasterError> {
    match named(home) {
        Some(name) => {
            let why = format!("the store of this grid is in PostgreSQL, at {name}");
            Err(MasterError::Place { why, hint })
        }
        None => Ok(()),
    }
}

/// Refuses to put the store into a database where the grid has it in a file.
pub(crate) fn not_in_a_file(home: &Path) -> Result<(), MasterError> {
    let file = home.join(whole::STORE);
    if file.exists() {
        let why = format!("the store of this grid is the file {}", file.display());
        let hint = "start without --store (and without `store` in the settings); or move it into the database first: deskgrid master move \
                    --to postgres://...";
        return Err(MasterError::Place { why, hint });
    }
    Ok(())
}

/// The number of the master's directory, by which other masters on the same database know it; made
/// at the first start.
pub(crate) fn member(home: &Path) -> Result<String, MasterError> {
    let path = home.join("member");
    if let Ok(text) = fs::read_to_string(&path)
        && let Ok(id) = text.trim().parse::<Uuid>()
    {
        return Ok(id.to_string());
    }
    let id = Uuid::from_bytes(rand::random()).to_string();
    let written = link::files::write_whole(&path, format!("{id}\n").as_bytes(), 0o644);
    written.map_err(LinkError::file("cannot write", path))?;
    Ok(id)
}

/// The place of the content of the master in `home`, as it was last started.
pub(crate) fn content_of(home: &Path) -> Result<ContentSetting, MasterError> {
    let bucket = BucketPlace::of_master(home)?.map(ContentSetting::Bucket);
    Ok(bucket.unwrap_or_else(|| ContentSetting::Directory(home.join(CONTENT))))
}

/// A store in a database, and what belongs to it on this machine.
#[derive(Debug, Clone)]
pub(crate) struct WantedStore {
    /// The master's directory.
    pub(crate) home: PathBuf,
    /// The place for content.
    pub(crate) content: ContentSetting,
    pub(crate) place: Database,
    pub(crate) clock: Clock,
    pub(crate) accept: Accept,
}

/// Returns all that a master that stands by needs to answer, from the store that another one has: its grid, and
/// the seed of its connections. `None` while that master has not begun the grid.
///
/// # Errors
/// If this master could never take the store over.
pub(crate) fn grid_beside(wanted: &WantedStore) -> Result<Option<(Uuid, [u8; 32])>, MasterError> {
    let reader = Reader::of(wanted.place.clone());
    let Some(found) = StoreFacts::in_database(&reader)? else {
        return Ok(None);
    };
    let (Some(grid), Some(seed)) = (found.grid, found.seed) else {
        return Ok(None);
    };

    difference(wanted, Some(&found), true, marked(&wanted.home))?;
    content_place::check(&wanted.content, Some(&found), wanted.accept)?;
    whole::compare_clock(found.up, wanted.clock, wanted.accept)?;
    Ok(Some((grid, seed)))
}

/// Takes the store in a database from the master that `seen` shows, if it is the one that this grid
/// had or an admin accepts it. `None` if that master lives, or another one was quicker.
pub(crate) fn take(
    wanted: &WantedStore,
    (contender, seen): (&mut LeaseContender, &LeaseSeen),
) -> Result<Option<Writer>, MasterError> {
    let clock = wanted.clock;
    let found = StoreFacts::in_database(&Reader::of(wanted.place.clone()))?;
    let up = found.as_ref().and_then(|found| found.up.clone());
    let missing = difference(wanted, found.as_ref(), false, marked(&wanted.home))?;
    content_place::check(&wanted.content, found.as_ref(), wanted.accept)?;
    whole::compare_clock(up, clock, wanted.accept)?;

    let Some(mut store) = contender.take(seen, clock.now())? else {
        return Ok(None);
    };
    name_it(&wanted.home, &wanted.place)?;
    if let Some(missing) = missing {
        tracing::warn!(
            missing,
            "groups of changes are missing in the database; it is taken as a copy"
        );
        store.is_a_copy(clock.now())?;
        store.commit()?;
    }
    Ok(Some(store))
}

/// Takes the store in a database, where nobody has it: another master that lives is an error. Unless it
/// `is_to_be` the grid's only, it is looked at as [`take`] does.
pub(crate) fn take_now(
    home: &Path,
    place: &Database,
    clock: Clock,
    is_to_be: bool,
) -> Result<Writer, MasterError> {
    let here = MasterMember::here(member(home)?, String::new());
    let mut contender = LeaseContender::new(place, here);
    let wanted = WantedStore {
        home: home.to_owned(),
        content: content_of(home)?,
        place: place.clone(),
        clock,
        accept: Accept::default(),
    };

    let taken = contender.once_left(|contender, seen| match is_to_be {
        true => Ok(contender.take(seen, clock.now())?),
        false => take(&wanted, (contender, seen)),
    })?;

    match taken {
        Some(store) => Ok(store),
        None => {
            let holder = contender.look()?.holder;
            let why = format!(
                "another master ({holder}) has the store in {}",
                place.name()
            );
            let hint = "end that master first, or name a database that nobody uses";
            Err(MasterError::Place { why, hint })
        }
    }
}

/// Compares the database with the mark and the keys of the master, as [`take`] does, and changes nothing. A master
/// may run meanwhile.
pub(crate) fn look(wanted: &WantedStore, reader: &Reader) -> Result<(), MasterError> {
    // Before the facts: it names what was durable at that moment.
    let mark = marked(&wanted.home);
    let found = StoreFacts::in_database(reader)?;
    let lives = found.as_ref().is_some_and(|found| found.held);
    difference(wanted, found.as_ref(), lives, mark)?;
    content_place::check(&wanted.content, found.as_ref(), wanted.accept)
}

/// The mark in `home`; one that cannot be read counts as none.
fn marked(home: &Path) -> Option<Marked> {
    Mark::read(home).ok().flatten()
}

/// Compares the database with the `Marked` and the keys in `home`. Returns the number of groups that are
/// missing in it, if an admin accepts that. What another master has at this moment (`lives`) is the
/// grid's store even where nothing here has a mark of it.
fn difference(
    wanted: &WantedStore,
    found: Option<&StoreFacts>,
    lives: bool,
    mark: Option<Marked>,
) -> Result<Option<u64>, MasterError> {
    let WantedStore {
        home,
        place,
        accept,
        ..
    } = wanted;
    let unfit = |why: String| {
        let place = place.name();
        Err(StoreError::from(PgError::Unfit { place, why }).into())
    };
    let keys = home.display();
    let ca = authority::exists(home)?;
    let grid = found.and_then(|found| found.grid);

    let (Some(found), Some(grid)) = (found, grid) else {
        return if ca {
            unfit(format!(
                "it has no store, though the keys of a grid are in {keys}. Name the database of this grid; or restore it there by \
                 PostgreSQL's own tools"
            ))
        } else {
            Ok(None)
        };
    };
    if !ca {
        return if found.peers || lives {
            unfit(format!(
                "it has the store of a grid, and the keys of that are not in {keys}. For another master of this grid copy ca.der and \
                 ca.key.der there from the first one's (after a rotation ca.toml and what it names, too); or start with the directory \
                 of that grid (--dir), or name another database for a new one"
            ))
        } else {
            Ok(None)
        };
    }
    if authority::grid_of(home)?.is_some_and(|of_ca| of_ca != grid) {
        return unfit(format!(
            "its store is that of another grid than the keys in {keys}. Name the database of this grid"
        ));
    }

    let reached = mark
        .filter(|mark| mark.grid == grid)
        .map(|mark| mark.commits);
    let missing = reached.map_or(u64::from(!found.copied && !lives), |reached| {
        reached.saturating_sub(found.commits)
    });
    match (missing, accept.store, reached) {
        (0, _, _) => Ok(None),
        (missing, true, _) => Ok(Some(missing)),
        (_, false, None) => unfit(format!(
            "the file `mark` in {keys}, in which the master notes how far its store got, is missing: this store may be an older one. \
             To go on with it as with a backup: deskgrid master start --accept-store"
        )),
        (missing, false, Some(_)) => unfit(format!(
            "it lacks the last {missing} groups of changes that the master made durable: it was restored from an older state, or a \
             replica that was behind took over. Restore the newer state; or, to go on without what is missing: deskgrid \
             master start --accept-store"
        )),
    }
}
