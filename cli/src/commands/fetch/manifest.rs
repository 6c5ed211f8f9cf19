//! Writes the list of the files that were fetched (`--manifest`). It replaces no file but the list of
//! an earlier fetch, of whatever job: what is read of the file itself says that it is one. `-` is
//! standard output, which the list has for itself then.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use common::content::BlobRef;
use common::view::TaskView;
use serde::Serialize;

use super::FetchedFile;
use super::apart::UnpackedEntries;
use crate::args::OutputMode;
use crate::failure::Failure;
use crate::files;
use crate::output::{OutputForm, unless_unread};

/// The fields that each line of a list has.
const LISTED: [&str; 5] = ["task", "state", "path", "bytes", "kept"];
/// The names of standard output: programs, and some systems, take them for it.
const STDOUT: [&str; 2] = ["-", "/dev/stdout"];
/// The longest line that may be one, in bytes.
const LONGEST: u64 = 4 << 20;

/// A line of the list.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    file: &'a FetchedFile,
    item: Option<&'a str>,
}

/// Whether this list goes to standard output.
pub(super) fn is_stdout(to: &Path) -> bool {
    STDOUT.map(Path::new).contains(&to)
}

/// Checks that a list does not come between the lines of what is printed in this form.
pub(super) fn check_form(to: &Path, mode: OutputMode) -> Result<(), Failure> {
    if mode != OutputMode::Json || !is_stdout(to) {
        return Ok(());
    }
    Err(Failure::usage(
        "--output json and the list of --manifest would both go to standard output",
        "name a file after --manifest, or leave out --output json: each line of the list is JSON",
    ))
}

/// Returns the files that a fetch leaves: what came of an archive (`parts`, by its path) in its place, or beside it
/// where it stays. Directories are no files.
pub(super) fn listed(
    files: &[FetchedFile],
    parts: &BTreeMap<PathBuf, UnpackedEntries>,
) -> Vec<FetchedFile> {
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        all.extend(file.unpacked.is_none().then(|| file.clone()));
        let Some(entries) = parts.get(&file.path) else {
            continue;
        };

        let dir = file.path.parent().unwrap_or(Path::new(""));
        let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let contents = entries
            .iter()
            .filter_map(|(path, content)| Some((path, (*content)?)));
        all.extend(contents.map(|(path, content)| {
            // Entries have paths without links; those of the other files begin as the user named the directory.
            let shown = path.strip_prefix(&real).map(|name| dir.join(name));
            part(file, path, shown.unwrap_or_else(|_| path.clone()), content)
        }));
    }

    all
}

/// Returns a file or link that came of an archive.
fn part(archive: &FetchedFile, path: &Path, shown: PathBuf, content: BlobRef) -> FetchedFile {
    let link = std::fs::read_link(path).ok();
    FetchedFile {
        path: shown,
        // What stands for the content of a link is no file.
        bytes: link.as_ref().map_or(content.size, |_| 0),
        unpacked: None,
        link: link.map(|target| target.to_string_lossy().into_owned()),
        ..archive.clone()
    }
}

/// Checks that the list can be written to this path: no output is fetched to it, and nothing else is
/// there, or only a list of another fetch, or it may be replaced with `force`.
pub(super) fn check(to: &Path, files: &[FetchedFile], force: bool) -> Result<(), Failure> {
    if is_stdout(to) {
        return Ok(());
    }
    let place = std::path::absolute(to).ok();
    let same = |file: &&FetchedFile| std::path::absolute(&file.path).ok() == place;
    if let Some(file) = files.iter().find(same) {
        return Err(Failure::error(
            "same-name",
            format!(
                "{} is the place of an output of task {}, and of the list",
                to.display(),
                file.task
            ),
            "name another file after --manifest",
        ));
    }

    let cannot = |error| Failure::cannot("look at", to, &error);
    let is_free = match std::fs::metadata(to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            check_parent(to, files)?;
            true
        }
        Err(error) => return Err(cannot(error)),
        // A pipe, or what is open already, wherever that goes.
        Ok(there) if !there.is_file() && !there.is_dir() || is_open(to) => true,
        Ok(there) if there.is_dir() => return Err(is_directory(to)),
        Ok(_) => force || is_list(to).map_err(cannot)?,
    };
    if is_free {
        return Ok(());
    }
    Err(Failure::error(
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

    Err(Failure::error(
        "io",
        format!(
            "cannot write the list {}: its directory is not there",
            to.display()
        ),
        "make that directory first, or name another file after --manifest",
    ))
}

fn is_directory(to: &Path) -> Failure {
    Failure::error(
        "exists",
        format!("{} is a directory, and the list is a file", to.display()),
        "name a file after --manifest, such as one in that directory",
    )
}

/// Whether the path stands for a file that this program has open.
fn is_open(path: &Path) -> bool {
    path == Path::new("/dev/stderr") || path.starts_with("/dev/fd")
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
pub(super) fn write(
    to: &Path,
    files: &[FetchedFile],
    tasks: &[TaskView],
    out: &OutputForm,
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

    if is_stdout(to) {
        return unless_unread(out.bytes(lines.as_bytes()));
    }
    let written = match std::fs::symlink_metadata(to) {
        Ok(there) if !there.is_file() => std::fs::write(to, &lines),
        Ok(there) => write_whole(to, &lines, Some(there.permissions())),
        Err(_) => write_whole(to, &lines, None),
    };
    written.map_err(|error| Failure::cannot("write", to, &error))
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

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test's panic is its message")]

    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn file(path: PathBuf, unpacked: Option<usize>) -> FetchedFile {
        FetchedFile {
            task: "7.1".to_owned(),
            state: "finished".to_owned(),
            path,
            bytes: 10_240,
            kept: false,
            unpacked,
            link: None,
        }
    }

    #[test]
    fn the_parts_of_an_archive_take_its_place_in_a_list_and_stand_beside_one_that_stays() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("into")).unwrap();
        std::os::unix::fs::symlink("into", real.join("named")).unwrap();
        std::fs::write(real.join("into/a:b"), "odd").unwrap();
        std::os::unix::fs::symlink("a:b", real.join("into/latest")).unwrap();
        std::fs::create_dir(real.join("into/empty")).unwrap();

        let content = Some(link::content::hash_bytes(b"odd"));
        let entries = [("a:b", content), ("empty", None), ("latest", content)];
        let entries = entries.map(|(name, content)| (real.join("into").join(name), content));
        let archive = real.join("named/deskgrid-apart.tar");
        let parts = BTreeMap::from([(archive.clone(), UnpackedEntries::from(entries))]);
        let names = |unpacked| {
            let files = [
                file(real.join("named/x"), None),
                file(archive.clone(), unpacked),
            ];
            let files = listed(&files, &parts).into_iter();
            let line = |file: FetchedFile| {
                let name = file.path.strip_prefix(real.join("named")).unwrap();
                (name.to_str().unwrap().to_owned(), file.bytes, file.link)
            };
            files.map(line).collect::<Vec<_>>()
        };

        let line = |name: &str, bytes, link: Option<&str>| {
            (name.to_owned(), bytes, link.map(str::to_owned))
        };
        let mut expected = vec![
            line("x", 10_240, None),
            line("a:b", 3, None),
            line("latest", 0, Some("a:b")),
        ];
        assert_eq!(names(Some(3)), expected);
        expected.insert(1, line("deskgrid-apart.tar", 10_240, None));
        assert_eq!(names(None), expected);
    }

    #[test]
    fn a_path_that_is_no_text_stands_in_a_list_with_its_bytes() {
        let odd = PathBuf::from(OsString::from_vec(b"caf\xe9\x01".to_vec()));
        let json = |path| serde_json::to_value(file(path, None)).unwrap();
        let line = json(odd.clone());
        assert_eq!(line["path"], "caf\u{fffd}\u{1}");
        assert_eq!(line["path_bytes"], serde_json::json!(b"caf\xe9\x01"));

        let line = json("tab\there".into());
        assert_eq!(line["path"], "tab\there");
        assert!(line.get("path_bytes").is_none(), "{line}");
    }
}
