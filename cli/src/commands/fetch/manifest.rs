//! Writes the list of the files that were fetched (`--manifest`). It replaces no file but the list of
//! an earlier fetch, of whatever job: what is read of the file itself says that it is one.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use common::view::TaskView;
use serde::Serialize;

use super::FetchedFile;
use crate::failure::{Exit, Failure};
use crate::files;

/// The fields that each line of a list has.
const LISTED: [&str; 5] = ["task", "state", "path", "bytes", "kept"];
/// The longest line that may be one, in bytes.
const LONGEST: u64 = 4 << 20;

/// A line of the list.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    file: &'a FetchedFile,
    item: Option<&'a str>,
}

/// Checks that the list can be written to this path: no output is fetched to it, and nothing else is
/// there, or only a list of another fetch, or it may be replaced with `force`.
pub(super) fn check(to: &Path, files: &[FetchedFile], force: bool) -> Result<(), Failure> {
    let place = std::path::absolute(to).ok();
    let same = |file: &&FetchedFile| std::path::absolute(&file.path).ok() == place;
    if let Some(file) = files.iter().find(same) {
        return Err(Failure::new(
            Exit::Error,
            "same-name",
            format!(
                "{} is the place of an output of task {}, and of the list",
                to.display(),
                file.task
            ),
            "name another file after --manifest",
        ));
    }

    let cannot = |error| Failure::io(format!("cannot look at {}", to.display()), &error);
    let is_free = match std::fs::metadata(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            check_parent(to, files)?;
            true
        }
        Err(error) => return Err(cannot(error)),
        // A pipe, or standard output, wherever that goes.
        Ok(there) if !there.is_file() && !there.is_dir() || is_open(to) => true,
        Ok(there) if there.is_dir() => return Err(is_directory(to)),
        Ok(_) => force || is_list(to).map_err(cannot)?,
    };
    if is_free {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Error,
        "exists",
        format!(
            "{} is there already, and is no list that a fetch has written",
            to.display()
        ),
        "name another file after --manifest, or use --force",
    ))
}

/// Checks that the directory of a list that is not there yet is there, or that one of the files makes it.
fn check_parent(to: &Path, files: &[FetchedFile]) -> Result<(), Failure> {
    let place = std::path::absolute(to).ok();
    let Some(parent) = place.as_deref().and_then(Path::parent) else {
        return Ok(());
    };
    let is_below = |file: &FetchedFile| {
        std::path::absolute(&file.path).is_ok_and(|path| path.starts_with(parent))
    };
    if parent.is_dir() || files.iter().any(is_below) {
        return Ok(());
    }

    Err(Failure::new(
        Exit::Error,
        "io",
        format!(
            "cannot write the list {}: its directory is not there",
            to.display()
        ),
        "make that directory first, or name another file after --manifest",
    ))
}

fn is_directory(to: &Path) -> Failure {
    Failure::new(
        Exit::Error,
        "exists",
        format!("{} is a directory, and the list is a file", to.display()),
        "name a file after --manifest, such as one in that directory",
    )
}

/// Whether the path stands for a file that this program has open.
fn is_open(path: &Path) -> bool {
    let names = ["/dev/stdout", "/dev/stderr"].map(Path::new);
    names.contains(&path) || path.starts_with("/dev/fd")
}

/// Whether each line of the file could stand in a list. The first one that could not ends the reading.
fn is_list(path: &Path) -> io::Result<bool> {
    let mut file = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        Read::by_ref(&mut file)
            .take(LONGEST)
            .read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(true);
        }

        let read = serde_json::from_slice::<serde_json::Value>(&line);
        if !read.is_ok_and(|line| LISTED.iter().all(|field| line.get(*field).is_some())) {
            return Ok(false);
        }
    }
}

/// Writes a line of JSON for each file, with the item of its task.
pub(super) fn write(to: &Path, files: &[FetchedFile], tasks: &[TaskView]) -> Result<(), Failure> {
    let items: BTreeMap<String, &str> = tasks
        .iter()
        .filter_map(|task| Some((task.task.to_string(), task.item.as_deref()?)))
        .collect();
    let lines: String = files
        .iter()
        .map(|file| {
            let item = items.get(&file.task).copied();
            let line = serde_json::to_string(&Listed { file, item });
            line.expect("plain values always have a JSON form") + "\n"
        })
        .collect();

    let written = match std::fs::symlink_metadata(to) {
        Ok(there) if !there.is_file() => std::fs::write(to, &lines),
        Ok(there) => write_whole(to, &lines, Some(there.permissions())),
        Err(_) => write_whole(to, &lines, None),
    };
    written.map_err(|error| Failure::io(format!("cannot write {}", to.display()), &error))
}

/// Writes a file that is there whole, or not at all, with the permissions of the one before it.
fn write_whole(to: &Path, text: &str, before: Option<Permissions>) -> io::Result<()> {
    let parent = to.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut whole = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
    whole.write_all(text.as_bytes())?;
    whole.persist(to)?;
    match before {
        Some(before) => std::fs::set_permissions(to, before),
        None => files::permit(to, false),
    }
}
