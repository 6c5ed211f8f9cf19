//! `deskgrid master backup`, `check`, `restore` and `move`: the files of a master, beside it. What is not
//! here: what is done to them (that is `master::operations`).

use std::io::IsTerminal;
use std::path::Path;

use common::units::Bytes;
use master::operations::{self, BreakOff, Fault, OperationError};
use master::{Config, MasterError, PgError, StoreError, StoreMove};
use serde::Serialize;

use super::{Context, hung_up, interrupted};
use crate::args::serve::PlaceArgs;
use crate::failure::{Exit, Failure};
use crate::output::{note, when};

#[derive(Serialize)]
struct BackupAnswer<'a> {
    to: String,
    taken: String,
    store_bytes: u64,
    content_files: u64,
    content_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_elsewhere: Option<&'a str>,
    faults: &'a [String],
    notes: &'a [String],
}

#[derive(Serialize)]
struct CheckAnswer<'a> {
    sound: bool,
    faults: Vec<Found<'a>>,
    notes: &'a [String],
    backup_of: Option<String>,
    jobs: u64,
    attempts: u64,
    content_files: u64,
    content_bytes: u64,
}

#[derive(Serialize)]
struct Found<'a> {
    what: &'a str,
    hint: &'a str,
}

#[derive(Serialize)]
struct RestoreAnswer<'a> {
    dir: String,
    content_files: u64,
    bytes: u64,
    faults: &'a [String],
    notes: &'a [String],
}

#[derive(Serialize)]
struct MoveAnswer<'a> {
    rows: u64,
    to: &'a str,
    left: &'a str,
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        let error = match error {
            OperationError::Master(error) => return error.into(),
            OperationError::File(error) => return error.into(),
            OperationError::Store(error @ StoreError::Postgres(_)) => {
                return MasterError::from(error).into();
            }
            OperationError::Interrupted => {
                let hint = "run the same command again";
                return Failure::error("interrupted", error.to_string(), hint);
            }
            other => other,
        };
        let hint = match &error {
            OperationError::NoMaster { .. } => "name the master's state directory: --dir DIR",
            OperationError::Exists { .. } => {
                "name another place, or remove what is there if nobody needs it"
            }
            OperationError::Space { .. } => "make room, or name another place",
            OperationError::NoBackup { .. } => {
                "take another backup; `deskgrid master check` says more of a directory"
            }
            OperationError::NotVerified { .. } => "nothing was kept: try another disk",
            OperationError::Store(StoreError::Full { .. }) => {
                "make room on that disk, then try again"
            }
            OperationError::Store(_) => "deskgrid master check says more",
            // They have their own, above.
            OperationError::File(_) | OperationError::Master(_) | OperationError::Interrupted => "",
        };

        Failure::error("operation", error.to_string(), hint).caused(&error)
    }
}

fn well(faults: usize) -> Exit {
    if faults == 0 { Exit::Well } else { Exit::Error }
}

fn listed(faults: &[String]) -> String {
    faults
        .iter()
        .map(|fault| format!("wrong: {fault}\n"))
        .collect()
}

fn noted(notes: &[String]) -> String {
    notes.iter().map(|note| format!("note: {note}\n")).collect()
}

/// Returns the settings of a master in a file, or the defaults.
pub(super) fn config(file: Option<&Path>) -> Result<Config, Failure> {
    Ok(file.map(Config::load).transpose()?.unwrap_or_default())
}

/// The settings that say where store and content are.
fn settings(places: PlaceArgs) -> Result<Config, Failure> {
    let config = config(places.config.as_deref())?;
    Ok(Config {
        store: places.store.or(config.store),
        content: places.content.or(config.content),
        ..config
    })
}

/// Returns when the program is to end. A terminal that is gone says so only to what has written there: with `nohup` it goes
/// on.
async fn told_to_end() {
    tokio::select! {
        () = interrupted() => {}
        () = hung_up(), if std::io::stderr().is_terminal() => {}
    }
}

/// Runs what writes much beside the thread of signals. When the program is to end, it breaks off, and its files go first.
/// Some steps cannot be broken off: at a second signal the program ends, and the next run replaces what it has left.
async fn breaking_off<T: Send + 'static>(
    work: impl FnOnce(&BreakOff) -> Result<T, OperationError> + Send + 'static,
) -> Result<T, Failure> {
    let told = told_to_end();
    tokio::pin!(told);
    // From here on a signal ends nothing by itself.
    tokio::select! {
        biased;
        () = &mut told => return Err(OperationError::Interrupted.into()),
        () = std::future::ready(()) => {}
    }

    let end = BreakOff::default();
    let seen = end.clone();
    let mut working = tokio::task::spawn_blocking(move || work(&seen));
    let done = tokio::select! {
        done = &mut working => done,
        () = &mut told => {
            note("breaking off as soon as it can; a second signal ends it at once");
            end.say();
            tokio::select! {
                done = &mut working => done,
                () = told_to_end() => {
                    note("ended: what it has left is replaced when the command is run again");
                    std::process::exit(Exit::Error as i32);
                }
            }
        }
    };
    match done {
        Ok(done) => Ok(done?),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(OperationError::Interrupted.into()),
        },
    }
}

/// Copies what there is of a master.
pub(super) async fn backup(
    context: &Context,
    to: &Path,
    places: PlaceArgs,
) -> Result<Exit, Failure> {
    let config = settings(places)?;
    let dir = context.state.root().to_owned();
    let target = to.to_owned();
    let work = move |end: &BreakOff| operations::backup(&dir, &target, &config, end);
    let done = breaking_off(work).await?;
    let answer = BackupAnswer {
        to: to.display().to_string(),
        taken: when::iso(done.taken),
        store_bytes: done.store_bytes,
        content_files: done.content_files,
        content_bytes: done.content_bytes,
        content_elsewhere: done.elsewhere.as_deref(),
        faults: &done.faults,
        notes: &done.notes,
    };

    let text = || {
        let BackupAnswer {
            to,
            taken,
            store_bytes,
            content_files,
            content_bytes,
            content_elsewhere,
            faults,
            notes,
        } = &answer;
        let elsewhere = content_elsewhere.map_or_else(String::new, |place| {
            format!("The content stays in {place}: it is not in the backup.\n")
        });

        format!(
            "{to} holds the master as of {taken}: a store of {store_bytes} bytes, {content_files} files of content with \
             {content_bytes} bytes, and its keys. It was read back.\n{elsewhere}{}{}",
            listed(faults),
            noted(notes)
        )
    };
    context.show(&answer, text, || vec![answer.to.clone()])?;

    Ok(well(done.faults.len()))
}

/// Looks at what there is of a master.
pub(super) fn check(
    context: &Context,
    places: PlaceArgs,
    read_content: bool,
) -> Result<Exit, Failure> {
    let found = operations::check(context.state.root(), &settings(places)?, read_content)?;
    let faults = &found.faults;
    let shown = faults.iter().map(|fault| Found {
        what: &fault.what,
        hint: &fault.hint,
    });
    let answer = CheckAnswer {
        sound: faults.is_empty(),
        faults: shown.collect(),
        notes: &found.notes,
        backup_of: found.copied.map(when::iso),
        jobs: found.jobs,
        attempts: found.attempts,
        content_files: found.content_files,
        content_bytes: found.content_bytes,
    };

    let text = || {
        let mut text: String = faults
            .iter()
            .map(|Fault { what, hint }| format!("wrong: {what}\ntry: {hint}\n"))
            .collect();
        text += &noted(&found.notes);
        text.extend(
            answer
                .backup_of
                .iter()
                .map(|taken| format!("this is a backup, taken {taken}\n")),
        );

        let verdict = if faults.is_empty() {
            "all is well"
        } else {
            "not all is well"
        };

        let read = if read_content {
            "read and compared"
        } else {
            "there"
        };
        text + &format!(
            "{verdict}: {} jobs, {} attempts, {} files of content with {} {read}\n",
            found.jobs,
            found.attempts,
            found.content_files,
            Bytes(found.content_bytes)
        )
    };
    context.show(&answer, text, || {
        faults.iter().map(|fault| fault.what.clone()).collect()
    })?;

    Ok(well(faults.len()))
}

/// Puts a backup in place.
pub(super) async fn restore(context: &Context, from: &Path) -> Result<Exit, Failure> {
    let backup = from.to_owned();
    let state = context.state.root().to_owned();
    let work = move |end: &BreakOff| operations::restore(&backup, &state, end);
    let done = breaking_off(work).await?;
    let dir = context.state.root().display().to_string();
    let answer = RestoreAnswer {
        dir,
        content_files: done.content_files,
        bytes: done.bytes,
        faults: &done.faults,
        notes: &done.notes,
    };

    let text = || {
        let RestoreAnswer {
            dir,
            content_files,
            bytes,
            faults,
            notes,
        } = &answer;
        format!(
            "{dir} holds a master again: {content_files} files of content, {bytes} bytes in all. Start it at the address \
             that workers and users know.\n{}{}",
            listed(faults),
            noted(notes)
        )
    };
    context.show(&answer, text, || vec![answer.dir.clone()])?;

    Ok(well(done.faults.len()))
}

/// Gives the errors of `master move`, which also a start can have, its own remedies.
fn not_moved(error: MasterError) -> Failure {
    let hint = match &error {
        MasterError::Running { .. } => {
            "stop that master first: a store is moved while nobody uses it"
        }
        MasterError::Store(StoreError::Postgres(PgError::Address(_))) => {
            "name the database as in --to postgres://deskgrid@db.example.org/grid; nothing was moved"
        }
        MasterError::Store(StoreError::Postgres(_)) => {
            "see to the database, or to its address (--to or --from); the store is where it was"
        }
        _ => return error.into(),
    };

    Failure {
        hint: hint.to_owned(),
        ..error.into()
    }
}

/// Moves the store of a master into a database, or out of one.
pub(super) fn transfer(
    context: &Context,
    to: Option<&str>,
    from: Option<&str>,
) -> Result<Exit, Failure> {
    let direction = match (to, from) {
        (Some(to), _) => StoreMove::IntoDatabase(to),
        (None, Some(from)) => StoreMove::IntoFile(from),
        (None, None) => {
            let hint = "name the database: --to postgres://…, or --from postgres://…";
            return Err(Failure::usage("it is not said where to move it", hint));
        }
    };
    let moved = master::transfer(context.state.root(), direction).map_err(not_moved)?;
    let master::Moved { rows, to, left } = &moved;
    let answer = MoveAnswer {
        rows: *rows,
        to,
        left,
    };

    let next = match direction {
        StoreMove::IntoDatabase(_) => "deskgrid master start --store with the same address",
        StoreMove::IntoFile(_) => "deskgrid master start, without --store",
    };
    let text = || {
        format!(
            "the store is in {to} now: {rows} rows were copied and compared\nnext: {next}\nnothing needs {left} any more\n"
        )
    };
    context.show(&answer, text, Vec::new)
}
