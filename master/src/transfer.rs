//! Moves the store of a grid from its file into a PostgreSQL database, or back, while no master runs.
//! The rows are copied by [`crate::store`]; what makes the copy the grid's store is here: it is
//! compared first, then named in the directory, and the old one is put where no master takes it up.

use std::fs;
use std::path::{Path, PathBuf};

use link::LinkError;

use crate::clock::Clock;
use crate::store::{self, Database, Mark, Marked, Reader, StoreError, StoreFacts, Writer};
use crate::{Accept, MasterError, authority, database, run, whole};

/// The extent of a move by `transfer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The rows that were copied, all of which were compared.
    pub rows: u64,
    /// The place of the store now, in words.
    pub to: String,
    /// The place of the old one, which nothing needs any more.
    pub left: String,
}

/// Moves the store of the master in the state directory `dir`: with `to`, from its file into the
/// database with that address; with `from`, from that database into a file. Content and keys stay in the
/// directory.
///
/// # Errors
/// If a master runs, the store is not the one that the master left, the target has one already, or
/// the copy does not compare. Then the old store is the grid's as before.
pub fn transfer(dir: &Path, direction: StoreMove<'_>) -> Result<Moved, MasterError> {
    let home = dir.join("master");
    if !home.is_dir() {
        let why = format!("there is no master's state in {}", dir.display());
        let hint = "name the master's state directory: --dir DIR";
        return Err(MasterError::Place { why, hint });
    }

    let _lock = run::lock(&home)?;
    let clock = Clock::start();
    match direction {
        StoreMove::IntoDatabase(address) => into_database(&home, &parse(address)?, clock),
        StoreMove::IntoFile(address) => into_file(&home, &parse(address)?, clock),
    }
}

/// The direction of a move, with the address of the database.
#[derive(Debug, Clone, Copy)]
pub enum StoreMove<'a> {
    /// From `store.sqlite` into this database.
    IntoDatabase(&'a str),
    /// From this database into `store.sqlite`.
    IntoFile(&'a str),
}

fn parse(address: &str) -> Result<Database, MasterError> {
    Ok(Database::parse(address).map_err(StoreError::from)?)
}

fn into_database(home: &Path, place: &Database, clock: Clock) -> Result<Moved, MasterError> {
    let file = home.join(whole::STORE);
    if !file.exists() {
        return Err(no_file(home, &file));
    }
    if has_another(home, place)? {
        let why = format!("there is the store of a grid in {} already", place.name());
        let hint = "name a database without one; if that store is this grid's: deskgrid master move --from postgres://...";
        return Err(MasterError::Place { why, hint });
    }

    let from = whole::open(home, clock, Accept::default())?;
    let mut to = database::take_now(home, place, clock, true)?;
    let rows = store::copy_store(from.db(), &mut to)?;
    let (grid, commits) = facts(&to)?;
    to.finish()?;
    drop((from, to));

    // Whatever breaks off from here on, one of the two can be started, and no more than one.
    let left = put_aside(&file)?;
    database::name_it(home, place)?;
    note(home, grid, commits)?;
    Ok(Moved {
        rows,
        to: place.name(),
        left: left.display().to_string(),
    })
}

fn into_file(home: &Path, place: &Database, clock: Clock) -> Result<Moved, MasterError> {
    let file = home.join(whole::STORE);
    if file.exists() {
        let why = format!("there is a store in {} already", file.display());
        let hint = match database::named(home) {
            Some(_) => {
                "move that file away if nobody needs it: this grid has its store in a database"
            }
            None => "this grid has its store in that file: deskgrid master start, without --store",
        };
        return Err(MasterError::Place { why, hint });
    }

    // Under another name until it is whole.
    let part = home.join("store.part");
    if part.exists() {
        fs::remove_dir_all(&part).map_err(LinkError::file("cannot remove", &part))?;
    }
    link::files::private_dir(&part).map_err(LinkError::file("cannot make", &part))?;
    let moved = out_of(place, home, (&part, &file), clock);
    // Of a copy that broke off nothing is left.
    let _ = fs::remove_dir_all(&part);
    moved
}

/// Copies the store out of the database into a file in the directory `part`, which becomes `file`.
fn out_of(
    place: &Database,
    home: &Path,
    (part, file): (&Path, &Path),
    clock: Clock,
) -> Result<Moved, MasterError> {
    let mut from = database::take_now(home, place, clock, false)?;
    let mut to = Writer::open(part)?;
    let rows = store::copy_store(from.db(), &mut to)?;
    let (grid, commits) = facts(&to)?;
    to.finish()?;
    drop(to);

    // A master that stands by must not take the store before it has its other name.
    from.hold()?;
    database::forget(home)?;
    let whole = part.join(whole::STORE);
    fs::rename(&whole, file).map_err(LinkError::file("cannot rename", &whole))?;
    note(home, grid, commits)?;
    let left = store::put_aside(&from, clock.now())?;
    Ok(Moved {
        rows,
        to: file.display().to_string(),
        left: format!("the schema {left} of {}", place.name()),
    })
}

/// The error of a `StoreMove::IntoDatabase` whose file is not there.
fn no_file(home: &Path, file: &Path) -> MasterError {
    let missing = format!("there is no store in {}", file.display());
    match database::named(home) {
        Some(name) => MasterError::Place {
            why: format!("{missing}: it is in PostgreSQL, at {name}, already"),
            hint: "start the master with that address: deskgrid master start --store postgres://...",
        },
        None => MasterError::Place {
            why: missing,
            hint: "name the state directory of the grid: --dir DIR; a new grid begins in the database by: deskgrid master start --store postgres://...",
        },
    }
}

/// Whether the database has the store of a grid, beside a copy of this one that was broken off.
fn has_another(home: &Path, place: &Database) -> Result<bool, MasterError> {
    let found = StoreFacts::in_database(&Reader::of(place.clone()))?;
    let Some(grid) = found.and_then(|found| found.grid) else {
        return Ok(false);
    };
    let broken_off = database::named(home).is_none() && authority::grid_of(home)? == Some(grid);
    Ok(!broken_off)
}

/// The grid of a store, and how far it got.
fn facts(store: &Writer) -> Result<(uuid::Uuid, u64), MasterError> {
    let note = store.note("grid")?;
    let grid = note.and_then(|bytes| uuid::Uuid::from_slice(&bytes).ok());
    let none = || StoreError::Content("the store has no note of its grid".to_owned());
    Ok((grid.ok_or_else(none)?, store.commits()))
}

/// Writes the `Mark` of the store that is the grid's from now on.
fn note(home: &Path, grid: uuid::Uuid, commits: u64) -> Result<(), MasterError> {
    let marked = Marked {
        grid,
        commits,
        whole: None,
    };
    let written = Mark::write(home, marked).map(drop);
    Ok(written.map_err(LinkError::file("cannot write", home.join("mark")))?)
}

/// Gives a store's file the name `store.sqlite.moved`, by which no master takes it up.
fn put_aside(file: &Path) -> Result<PathBuf, MasterError> {
    let aside = file.with_extension("sqlite.moved");
    for end in ["", "-wal", "-shm"] {
        let named = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        if named(file).exists() {
            fs::rename(named(file), named(&aside))
                .map_err(LinkError::file("cannot rename", named(file)))?;
        }
    }
    Ok(aside)
}
