//! Archives from other machines, good and hostile.

#![allow(clippy::unwrap_used, reason = "a test's panic is its message")]

use std::fs;
use std::path::{Path, PathBuf};

use tar::{EntryType, Header};

use super::*;

/// An entry of an archive: its name, its kind, and its content or target.
type Entry<'a> = (&'a [u8], EntryType, &'a str);

/// Unpacks an archive, over everything if `force`.
fn unpacked(path: &Path, force: bool) -> Unpacked {
    unpack(path, &|_, _| force).unwrap()
}

/// A directory with an archive of these entries in it.
fn archive(entries: &[Entry<'_>]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("into")).unwrap();
    let path = dir.path().join("into/deskgrid-apart.tar");
    let mut tar = tar::Builder::new(fs::File::create(&path).unwrap());
    for (name, kind, text) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        // As it stands: a usual writer of archives refuses bad names.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        let content = if *kind == EntryType::Regular {
            text.as_bytes()
        } else {
            header.as_mut_bytes()[157..157 + text.len()].copy_from_slice(text.as_bytes());
            &[]
        };
        header.set_size(content.len() as u64);
        header.set_cksum();
        tar.append(&header, content).unwrap();
    }
    tar.finish().unwrap();
    (dir, path)
}

fn paths_below(dir: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(dir).min_depth(1).sort_by_file_name();
    let paths = entries.into_iter().map(|entry| entry.unwrap().into_path());
    paths
        .map(|path| path.strip_prefix(dir).unwrap().to_owned())
        .collect()
}

const FILE: EntryType = EntryType::Regular;
const LINK: EntryType = EntryType::Symlink;
const DIR: EntryType = EntryType::Directory;

#[test]
fn files_links_and_directories_come_back_and_the_archive_goes() {
    let entries: [Entry<'_>; 6] = [
        (b"out/run_12:30.log", FILE, "odd"),
        (b"out/latest", LINK, "run_12:30.log"),
        (b"out/up", LINK, "../x"),
        (b"out/empty/", DIR, ""),
        (b"caf\xe9", FILE, "latin"),
        (b"x", FILE, "x"),
    ];
    let (_dir, path) = archive(&entries);
    let into = path.parent().unwrap().to_owned();
    let unpacked = unpacked(&path, false);
    assert!(
        unpacked.is_whole() && unpacked.made.len() == 6,
        "{unpacked:?}"
    );
    assert_eq!(
        paths_below(&into).len(),
        7,
        "with `out`, without the archive"
    );
    assert_eq!(fs::read_to_string(into.join("out/latest")).unwrap(), "odd");
    assert_eq!(fs::read_to_string(into.join("out/up")).unwrap(), "x");
    assert!(into.join("out/empty").is_dir());

    // Once more: what is there already is the same.
    let (_dir, again) = archive(&entries);
    fs::copy(&again, &path).unwrap();
    assert_eq!(unpack(&path, &|_, _| false).unwrap().made, unpacked.made);
}

#[test]
fn nothing_is_made_outside_and_the_archive_stays() {
    for bad in [
        (&b"../evil"[..], FILE, "x"),
        (b"/tmp/deskgrid-evil", FILE, "x"),
        (b"a/../../evil", FILE, "x"),
        (b"l", LINK, "/etc"),
        (b"l", LINK, "../outside"),
        (b"a/l", LINK, "x/../../.."),
        (b"l", LINK, "l"),
        (b"pipe", EntryType::Fifo, ""),
        (b"hard", EntryType::Link, "/etc/passwd"),
    ] {
        let (dir, path) = archive(&[bad, (b"good", FILE, "good")]);
        let unpacked = unpacked(&path, true);
        assert_eq!(
            (unpacked.made.len(), unpacked.left.len()),
            (1, 1),
            "{bad:?}: {unpacked:?}"
        );
        let there: Vec<PathBuf> = paths_below(dir.path())
            .into_iter()
            .filter(|path| !path.ends_with("a"))
            .collect();
        assert_eq!(
            there,
            ["into", "into/deskgrid-apart.tar", "into/good"].map(PathBuf::from),
            "{bad:?}"
        );
    }
}

#[test]
fn a_link_that_leads_out_through_another_one_is_not_made() {
    let (_dir, path) = archive(&[
        (b"1/2/3/x", FILE, "x"),
        (b"e/x", FILE, "x"),
        (b"1/2/3/up", LINK, "../../../e"),
        (b"l", LINK, "1/2/3/up/../.."),
    ]);
    let unpacked = unpacked(&path, false);
    assert_eq!(
        (unpacked.made.len(), unpacked.left.len()),
        (3, 1),
        "{unpacked:?}"
    );
    assert!(fs::symlink_metadata(path.with_file_name("l")).is_err());
}

#[test]
fn nothing_is_written_through_a_link_that_is_there() {
    let (dir, path) = archive(&[(b"l/evil", FILE, "x")]);
    let into = path.parent().unwrap();
    std::os::unix::fs::symlink(dir.path(), into.join("l")).unwrap();
    let unpacked = unpacked(&path, true);
    assert_eq!((unpacked.made.len(), unpacked.differ.len()), (0, 1));
    assert!(!dir.path().join("evil").exists());
}

#[test]
fn what_differs_is_overwritten_only_if_it_may_be() {
    let (_dir, path) = archive(&[(b"a:b", FILE, "new")]);
    let file = path.with_file_name("a:b");
    fs::write(&file, "mine").unwrap();
    assert_eq!(unpacked(&path, false).differ.len(), 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(unpacked(&path, true).made.len(), 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    assert!(!path.exists());
}
