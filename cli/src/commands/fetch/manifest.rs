//! Writes the list of the files that were fetched (`--manifest`). It replaces no file but the list of
//! an earlier fetch of the job.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use common::view::TaskView;
use serde::Serialize;

use super::FetchedFile;
use super::earlier::EarlierFiles;
use crate::failure::{Exit, Failure};
use crate::files;

/// A line of the list.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    file: &'a FetchedFile,
    item: Option<&'a str>,
}

/// Checks that the list can be written to this path: no output is fetched to it, and nothing else is
/// there, or only an earlier list that nobody has changed, or it may be replaced with `force`.
pub(super) fn check(
    to: &Path,
    files: &[FetchedFile],
    force: bool,
    earlier: &EarlierFiles,
) -> Result<(), Failure> {
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

    let is_free = match std::fs::metadata(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            let what = format!("cannot look at {}", to.display());
            return Err(Failure::io(what, &error));
        }
        // A pipe, or standard output, wherever that goes.
        Ok(there) if !there.is_file() && !there.is_dir() || to.starts_with("/dev") => true,
        Ok(there) if there.is_file() => force || earlier.has(to, &link::content::hash_file(to)?),
        Ok(_) => false,
    };
    if is_free {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Error,
        "exists",
        format!(
            "{} is there already, and is no list that a fetch of this job has written",
            to.display()
        ),
        "name another file after --manifest, or use --force",
    ))
}

/// Writes a line of JSON for each file, with the item of its task, and stores that a later fetch may
/// replace the list.
pub(super) fn write(
    to: &Path,
    files: &[FetchedFile],
    tasks: &[TaskView],
    earlier: &mut EarlierFiles,
) -> Result<(), Failure> {
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
        _ => write_whole(to, &lines),
    };
    written.map_err(|error| Failure::io(format!("cannot write {}", to.display()), &error))?;
    earlier.remove(to);
    earlier.add(to, link::content::hash_bytes(lines.as_bytes()));
    earlier.save();
    Ok(())
}

/// Writes a file that is there whole, or not at all.
fn write_whole(to: &Path, text: &str) -> io::Result<()> {
    let parent = to.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut whole = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
    whole.write_all(text.as_bytes())?;
    whole.persist(to)?;
    files::permit(to, false)
}
