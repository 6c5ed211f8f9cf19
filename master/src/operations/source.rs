//! Selects the files of a master that go into a backup, with their names there, and the names that
//! may come out of one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::content::BlobHash;
use common::path::PortablePath;
use link::LinkError;

use super::{CONTENT, HOME, OperationError, STORE, archive};

/// The files of a master that belong to its process, or that it makes anew.
const NOT_TAKEN: [&str; 8] = [
    "database",
    "lock",
    "sweep-lock",
    "address",
    "http-address",
    "reserve",
    "mark",
    "member",
];

/// The most names that [`left_out`] says.
const SAID: usize = 10;

/// A file that goes into the backup.
#[derive(Debug)]
pub(super) struct Item {
    /// Its name in the backup.
    pub(super) name: String,
    /// The file's present path.
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) mode: u32,
    /// The hash of its bytes, if its name states one.
    pub(super) hash: Option<BlobHash>,
}

/// The kind of file that a name in a backup stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The store.
    Store,
    /// A blob.
    Content(BlobHash),
    /// Another file of the master, such as the CA's key.
    Other,
}

/// All files but the store and its content: keys and certificates. Beside them the names of those
/// that are none of a master's ([`is_stray`]), and are not taken.
pub(super) fn others(home: &Path) -> Result<(Vec<Item>, Vec<String>), OperationError> {
    let mut items = Vec::new();
    let mut stray = Vec::new();
    for entry in fs::read_dir(home).map_err(LinkError::file("cannot read", home))? {
        let entry = entry.map_err(LinkError::file("cannot read", home))?;
        let path = entry.path();
        let named = entry.file_name();
        let name = named.to_string_lossy();
        let meta = entry
            .metadata()
            .map_err(LinkError::file("cannot read", &path))?;
        if !meta.is_file() || stays(&name) || name.ends_with(".new") {
            continue;
        }

        let in_backup = format!("{HOME}/{name}");
        if named.to_str().is_none() || is_stray(&in_backup) {
            stray.push(name.into_owned());
            continue;
        }

        let mode = if name.ends_with(".key.der") {
            0o600
        } else {
            mode(&meta)
        };
        items.push(Item {
            name: in_backup,
            path,
            size: meta.len(),
            mode,
            hash: None,
        });
    }

    items.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    stray.sort_unstable();
    Ok((items, stray))
}

/// Says in one line which files are left out as [strays](is_stray); `None` if there are none.
pub(super) fn left_out(names: &[String]) -> Option<String> {
    if names.is_empty() {
        return None;
    }

    let said: Vec<String> = names
        .iter()
        .take(SAID)
        .map(|name| format!("{name:?}"))
        .collect();
    let more = match names.len() - said.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "left out, since no file of a master has such a name: {}{more}",
        said.join(", ")
    ))
}

/// The files of content in `dir` that a store names, and the hashes of the missing ones.
pub(super) fn content(dir: &Path, named: &BTreeSet<BlobHash>) -> (Vec<Item>, Vec<BlobHash>) {
    let mut items = Vec::new();
    let mut missing = Vec::new();
    for hash in named {
        let short = path_of(hash);
        let path = dir.join(&short);
        match fs::metadata(&path) {
            Ok(meta) if meta.is_file() => {
                let name = format!("{HOME}/{CONTENT}/{short}");
                items.push(Item {
                    name,
                    path,
                    size: meta.len(),
                    mode: 0o600,
                    hash: Some(*hash),
                });
            }
            _ => missing.push(*hash),
        }
    }

    (items, missing)
}

/// The path of a blob within the directory `CONTENT`.
pub(super) fn path_of(hash: &BlobHash) -> String {
    let name = hash.to_string();
    format!("{}/{}", &name[..2], &name[2..])
}

/// Whether a file of this name in a master's directory belongs to the store, or in no backup.
fn stays(name: &str) -> bool {
    NOT_TAKEN.contains(&name) || name.starts_with(STORE)
}

/// Whether a file of this name lies directly among those of a master without being one: it has no
/// [`meaning`].
pub(super) fn is_stray(name: &str) -> bool {
    name.split_once('/').is_some_and(|(home, rest)| {
        home == HOME && !rest.contains('/') && !stays(rest) && meaning(name).is_none()
    })
}

/// The meaning of a name; `None` for a name that no backup has.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    let portable: PortablePath = name.parse().ok()?;
    let parts: Vec<&str> = portable.as_str().split('/').collect();
    match parts[..] {
        [HOME, STORE] => Some(Meaning::Store),
        [HOME, CONTENT, start, rest] if start.len() == 2 => {
            format!("{start}{rest}").parse().ok().map(Meaning::Content)
        }
        [HOME, other] if !stays(other) && name.len() < archive::NAME => Some(Meaning::Other),
        _ => None,
    }
}

#[cfg(unix)]
fn mode(meta: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o777
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_backup_has_mean_something() {
        let hash = BlobHash([0xAB; 32]);
        assert_eq!(meaning("master/store.sqlite"), Some(Meaning::Store));
        assert_eq!(
            meaning(&format!("master/content/{}", path_of(&hash))),
            Some(Meaning::Content(hash))
        );
        assert_eq!(meaning("master/ca.key.der"), Some(Meaning::Other));

        let bad = [
            "master",
            "master/lock",
            "master/store.sqlite-wal",
            "/master/ca.der",
            "master/../x",
            "master/notes: read me",
            "x/ca.der",
        ];
        let bad = bad
            .into_iter()
            .chain(["master/content/ab/cd", "master/content/x", "master/a/b"]);
        bad.for_each(|name| assert_eq!(meaning(name), None, "{name}"));
    }

    #[test]
    fn a_stray_is_named_and_a_file_of_the_process_is_not() {
        let long = format!("master/{}", "n".repeat(archive::NAME));
        for name in ["master/notes: read me", &long] {
            assert!(is_stray(name), "{name}");
        }
        for name in ["master/ca.der", "master/lock", "master/store.sqlite-wal"] {
            assert!(!is_stray(name), "{name}");
        }
        assert!(!is_stray("master/cache/x: y") && !is_stray("x: y"));

        let names: Vec<String> = (0..12).map(|n| format!("{n}\n")).collect();
        assert_eq!(left_out(&[]), None);
        let said = left_out(&names).expect("there are some");
        assert!(
            said.contains(r#""9\n" and 2 more"#) && said.lines().count() == 1,
            "{said}"
        );
    }
}
