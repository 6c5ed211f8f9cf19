//! The entries of a service in the registry: its watcher among the programs that start at each
//! logon, and the source of its events in the system's log. `reg` writes and removes them.

use std::process::{Command, ExitStatus, Stdio};

use super::{AS_ADMIN, ScmPaths, WATCHER};
use crate::failure::Failure;
use crate::logs::events::source_of;

/// The programs that the system starts at each logon.
const AT_LOGON: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Run";
/// The sources of events in the system's log of applications.
const SOURCES: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application";
/// A file of the system's whose messages, of the numbers 1 to 1000, are the words that an event is
/// given.
const MESSAGES: &str = r"%SystemRoot%\System32\EventCreate.exe";
/// The kinds of events that a source has: errors, warnings and information.
const KINDS: &str = "7";

/// Returns what the entries of an installation do, in words.
pub(super) fn steps(places: &ScmPaths, watched: bool) -> [String; 2] {
    let watcher = if watched {
        format!(
            "start {WATCHER} at each logon, as {} of {AT_LOGON}",
            places.entry()
        )
    } else {
        format!(
            "no watcher: there is no {WATCHER} beside this program, so a user who is logged on counts as using the PC"
        )
    };

    let source = source_of(&places.service);
    [
        watcher,
        format!("write what an admin must see to the system's event log, as {source} of {SOURCES}"),
    ]
}

/// Returns what a removal does to the entries, in words.
pub(super) fn removals(places: &ScmPaths) -> [String; 2] {
    let entry = places.entry();
    let source = source_of(&places.service);
    [
        format!("remove {entry} of {AT_LOGON}, which ends the watchers"),
        format!("remove {source} of {SOURCES}"),
    ]
}

/// Has the system start the watcher in each session when its user logs on.
pub(super) fn add_watcher(places: &ScmPaths) -> Result<(), Failure> {
    let line = format!("\"{}\"", places.watcher().display());
    let entry = places.entry();
    must(
        "make the watcher's entry",
        &[
            "add", AT_LOGON, "/v", &entry, "/t", "REG_SZ", "/d", &line, "/f",
        ],
    )
}

/// Takes that back; succeeds if there is no such entry.
pub(super) fn remove_watcher(places: &ScmPaths) -> Result<(), Failure> {
    let what = "remove the watcher's entry";
    remove(what, &[AT_LOGON, "/v", &places.entry()])
}

/// Registers the source of the service's events.
pub(super) fn add_source(places: &ScmPaths) -> Result<(), Failure> {
    let key = source_key(places);
    for (name, kind, value) in [
        ("EventMessageFile", "REG_EXPAND_SZ", MESSAGES),
        ("TypesSupported", "REG_DWORD", KINDS),
    ] {
        let words = ["add", &key, "/v", name, "/t", kind, "/d", value, "/f"];
        must("register the source of events", &words)?;
    }
    Ok(())
}

/// Takes that back; succeeds if there is no such source.
pub(super) fn remove_source(places: &ScmPaths) -> Result<(), Failure> {
    remove("remove the source of events", &[&source_key(places)])
}

fn source_key(places: &ScmPaths) -> String {
    format!(r"{SOURCES}\{}", source_of(&places.service))
}

/// Removes an entry, if it is there.
fn remove(what: &str, entry: &[&str]) -> Result<(), Failure> {
    let (there, _) = reg(&[&["query"], entry].concat())?;
    if !there {
        return Ok(());
    }
    must(what, &[&["delete"], entry, &["/f"]].concat())
}

/// Has `reg` do something.
fn must(what: &str, words: &[&str]) -> Result<(), Failure> {
    let (done, status) = reg(words)?;
    if done {
        return Ok(());
    }
    let what = format!("reg could not {what} ({status})");
    Err(Failure::error("service", what, AS_ADMIN))
}

/// Runs `reg`, which changes the registry; returns whether it succeeded, and its status.
fn reg(words: &[&str]) -> Result<(bool, ExitStatus), Failure> {
    let mut command = Command::new("reg");
    command.args(words).stdout(Stdio::null());
    let status = command.stderr(Stdio::null()).status();
    let status = status.map_err(|e| Failure::io("reg cannot be run", &e))?;
    Ok((status.success(), status))
}
