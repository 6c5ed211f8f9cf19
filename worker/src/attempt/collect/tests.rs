//! Which files are taken, and what is said of the others.

use std::fs::{self, File};
#[cfg(unix)]
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

#[cfg(unix)]
use rustix::fs::{CWD, Mode};

use super::*;

struct Place {
    dir: tempfile::TempDir,
    blobs: Blobs,
    #[cfg_attr(windows, expect(dead_code, reason = "kept, since the blobs lie in it"))]
    outside: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "the owner's").unwrap();
        let blobs = Blobs::open(&outside.path().join("blobs")).unwrap();
        Self {
            dir: tempfile::tempdir().unwrap(),
            blobs,
            outside,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn collect(&self, patterns: &[&str], succeeded: bool) -> (Vec<String>, Option<Outcome>) {
        let wanted =
            ExpectedOutputs::new(patterns.iter().map(|p| (*p).to_owned()).collect()).unwrap();
        let collected = wanted.collect(self.dir.path(), &self.blobs, 1_000, succeeded);
        (
            collected.files.iter().map(|f| f.path.to_string()).collect(),
            collected.problem,
        )
    }

    fn why_bad(&self, patterns: &[&str]) -> String {
        match self.collect(patterns, true).1 {
            Some(Outcome::BadOutput(why)) => why,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn globs_stay_between_slashes_and_take_each_file_once() {
    let place = Place::new();
    for name in [
        "a.txt",
        "b.txt",
        "c.log",
        "d/e.txt",
        "d/f/g.txt",
        PROGRESS_FILE,
    ] {
        place.write(name, name);
    }

    assert_eq!(
        place.collect(&["*.txt"], true),
        (vec!["a.txt".to_owned(), "b.txt".to_owned()], None)
    );
    assert_eq!(
        place.collect(&["d/**", "d/e.*"], true).0,
        ["d/e.txt", "d/f/g.txt"]
    );
    assert!(
        !place
            .collect(&["**"], true)
            .0
            .contains(&PROGRESS_FILE.to_owned())
    );
}

#[cfg(unix)]
#[test]
fn content_and_executability_come_along() {
    let place = Place::new();
    place.write("tool", "#!/bin/sh\n");
    fs::set_permissions(place.path("tool"), fs::Permissions::from_mode(0o755)).unwrap();

    let wanted = ExpectedOutputs::new(vec!["tool".to_owned()]).unwrap();
    let collected = wanted.collect(place.dir.path(), &place.blobs, 1_000, true);
    let [file] = &collected.files[..] else {
        panic!("{collected:?}")
    };
    assert!(file.executable);
    assert_eq!(
        fs::read_to_string(place.blobs.path_of(&file.blob)).unwrap(),
        "#!/bin/sh\n"
    );
}

#[test]
fn a_missing_output_is_named_unless_the_command_failed() {
    let place = Place::new();
    place.write("here", "");
    let missing = Some(Outcome::MissingOutput("*.gone".to_owned()));
    assert_eq!(
        place.collect(&["here", "*.gone"], true),
        (vec!["here".to_owned()], missing)
    );
    assert_eq!(
        place.collect(&["here", "*.gone"], false),
        (vec!["here".to_owned()], None)
    );
}

#[cfg(unix)]
#[test]
fn links_pipes_and_foreign_hard_links_are_refused_by_name() {
    let place = Place::new();
    symlink(place.outside.path().join("secret"), place.path("link")).unwrap();
    assert_eq!(
        place.why_bad(&["link"]),
        "`link` is a symbolic link, not a regular file"
    );
    rustix::fs::mkfifoat(CWD, place.path("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(
        place.why_bad(&["pipe"]),
        "`pipe` is a named pipe, not a regular file"
    );
    fs::hard_link(place.outside.path().join("secret"), place.path("hard")).unwrap();

    assert_eq!(
        place.why_bad(&["hard"]),
        "`hard` is a hard link to a file outside the attempt's directory"
    );

    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    assert_eq!(
        place.why_bad(&["socket"]),
        "`socket` is a socket, not a regular file"
    );
}

#[test]
fn the_attempts_own_hard_links_are_two_files() {
    let place = Place::new();
    place.write("a", "same");
    fs::hard_link(place.path("a"), place.path("b")).unwrap();
    assert_eq!(
        place.collect(&["a", "b"], true),
        (vec!["a".to_owned(), "b".to_owned()], None)
    );
}

#[cfg(unix)]
#[test]
fn a_linked_directory_is_not_entered() {
    let place = Place::new();
    symlink(place.outside.path(), place.path("d")).unwrap();
    assert_eq!(
        place.collect(&["d/secret"], true).1,
        Some(Outcome::MissingOutput("d/secret".to_owned()))
    );
    assert!(
        files::open_below(place.dir.path(), Path::new("d/secret")).is_err(),
        "also if it is exchanged meanwhile"
    );
    assert!(files::open_below(place.dir.path(), Path::new("d")).is_err());
}

#[cfg(unix)]
#[test]
fn names_that_other_systems_do_not_know_are_refused() {
    let place = Place::new();
    place.write("a:b", "");
    assert!(
        place
            .why_bad(&["a*"])
            .contains("`a:b` is not a portable path"),
        "{}",
        place.why_bad(&["a*"])
    );

    fs::remove_file(place.path("a:b")).unwrap();
    place.write("x", "");
    place.write("X", "");
    assert!(place.why_bad(&["?"]).contains("upper and lower case"));
}

#[test]
fn a_directory_as_an_output_suggests_its_pattern() {
    let place = Place::new();
    place.write("out/file", "");
    assert_eq!(
        place.why_bad(&["out"]),
        "`out` is a directory: to collect what lies in it, say `out/**`"
    );
}

#[test]
fn too_much_is_refused_before_it_is_copied() {
    let place = Place::new();
    // Where a hole takes disk, a smaller one has to do.
    let size = if cfg!(unix) { 1 << 40 } else { 10_000 };
    File::create(place.path("sparse"))
        .unwrap()
        .set_len(size)
        .unwrap();
    assert!(place.why_bad(&["sparse"]).contains("takes at most 1000"));
}

#[test]
fn a_pattern_without_sense_is_named() {
    let error = ExpectedOutputs::new(vec!["a[".to_owned()]).unwrap_err();
    assert!(error.contains("a["), "{error}");
}

#[cfg(unix)]
#[test]
fn a_tree_without_rights_is_removed() {
    let place = Place::new();
    place.write("a/b/c", "");
    for dir in ["a/b", "a"] {
        fs::set_permissions(place.path(dir), fs::Permissions::from_mode(0o000)).unwrap();
    }
    os::remove_tree(&place.path("a")).unwrap();
    assert!(!place.path("a").exists());
    os::remove_tree(&place.path("a")).unwrap();
}
