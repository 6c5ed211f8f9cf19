//! Which files are taken, and what is said of the others.

use std::fs::{self, File};
#[cfg(unix)]
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

#[cfg(unix)]
use rustix::fs::{CWD, Mode};

use super::*;
use common::path::escaped;

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

/// Collects a file of two megabytes, and returns whether the spool has the very file.
#[cfg(target_os = "linux")]
fn is_moved(place: &Place, prepare: impl FnOnce(&Path)) -> (bool, Collected) {
    use std::os::unix::fs::MetadataExt;

    let path = place.path("d/large");
    place.write("d/large", &"two megabytes ".repeat(150_000));
    let inode = fs::metadata(&path).unwrap().ino();
    prepare(&path);
    let wanted = ExpectedOutputs::new(vec!["**".to_owned()]).unwrap();
    let collected = wanted.collect(place.dir.path(), &place.blobs, 10 << 20, true);
    assert_eq!(collected.problem, None);
    let kept = |file: &OutputFile| place.blobs.path_of(&file.blob);
    for file in &collected.files {
        assert_eq!(link::content::hash_file(&kept(file)).unwrap(), file.blob);
        assert_eq!(
            fs::metadata(kept(file)).unwrap().mode() & 0o7777 & !0o644,
            0
        );
    }
    let moved = |file| fs::metadata(kept(file)).unwrap().ino() == inode;
    (collected.files.iter().any(moved), collected)
}

#[cfg(target_os = "linux")]
#[test]
fn a_large_output_is_moved_into_the_spool_with_its_executability() {
    let place = Place::new();
    let (moved, collected) = is_moved(&place, |path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o4777)).unwrap();
    });
    assert!(moved && collected.files[0].executable);
    assert!(!place.path("d/large").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_somebody_may_still_write_to_is_copied() {
    use std::io::Write;

    let place = Place::new();
    let mut writer = None;
    let (moved, collected) = is_moved(&place, |path| {
        writer = Some(File::options().append(true).open(path).unwrap());
    });
    assert!(!moved);
    writer.unwrap().write_all(b"too late").unwrap();
    let [file] = &collected.files[..] else {
        panic!("{collected:?}")
    };
    let kept = place.blobs.path_of(&file.blob);
    assert_eq!(link::content::hash_file(&kept).unwrap(), file.blob);
}

#[cfg(target_os = "linux")]
#[test]
fn outputs_of_several_names_or_of_the_same_content_are_each_kept() {
    let linked = Place::new();
    let (moved, collected) = is_moved(&linked, |path| {
        fs::hard_link(path, path.with_file_name("other")).unwrap();
    });
    assert!(!moved && collected.files.len() == 2, "{collected:?}");

    let twice = Place::new();
    let (_, collected) = is_moved(&twice, |path| {
        fs::copy(path, path.with_file_name("other")).unwrap();
    });
    let [one, other] = &collected.files[..] else {
        panic!("{collected:?}")
    };
    assert_eq!(one.blob, other.blob);
}

#[test]
fn what_a_pattern_has_in_brackets_is_part_of_a_name() {
    let place = Place::new();
    for name in ["a[1].png", "a1.png", "d{e}/f", "d{e}/[", "!g,h"] {
        place.write(name, name);
    }
    let found = |patterns: &[&str]| place.collect(patterns, true);

    let file = escaped("a[1]") + ".png";
    assert_eq!(found(&[&file]), (vec!["a[1].png".to_owned()], None));
    let tree = escaped("d{e}");
    assert_eq!(found(&[&tree]).0, ["d{e}/[", "d{e}/f"]);
    assert_eq!(found(&[&(tree.clone() + "/")]).0, ["d{e}/[", "d{e}/f"]);
    assert_eq!(found(&[&(tree + "/?")]).0, ["d{e}/[", "d{e}/f"]);
    assert_eq!(found(&[&escaped("!g,h")]).0, ["!g,h"]);

    for missing in ["a[b", "a]b", "a{b", "a}b"] {
        let wanted = Some(Outcome::MissingOutput(format!("{missing}*")));
        assert_eq!(found(&[&(escaped(missing) + "*")]).1, wanted);
    }
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

#[test]
fn whoever_misses_an_output_is_told_what_else_the_task_left() {
    let place = Place::new();
    let told = |patterns: &[&str], succeeded: bool| {
        let patterns = patterns.iter().map(|&pattern| pattern.to_owned());
        let wanted = ExpectedOutputs::new(patterns.collect()).unwrap();
        let collected = wanted.collect(place.dir.path(), &place.blobs, 1_000, succeeded);
        collected.warnings
    };
    let none = "beside its outputs the task left no files";
    assert_eq!(told(&["out"], true), [none]);

    for name in ["f", "a", "d/b", "c", "e", "log", PROGRESS_FILE] {
        place.write(name, "");
    }
    let some = "beside its outputs the task left `a`, `c`, `d/b`, `e` and 1 more, which no \
                --output-file names";
    assert_eq!(told(&["out", "log"], true), [some]);
    assert!(told(&["out", "log"], false).is_empty());
    assert!(told(&["log"], true).is_empty());
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

/// Collects with these patterns, and lists the archive of what was kept apart by `tar`.
#[cfg(unix)]
fn apart(place: &Place, patterns: &[&str]) -> (Vec<String>, Vec<String>, String) {
    let patterns = patterns.iter().map(|p| (*p).to_owned()).collect();
    let wanted = ExpectedOutputs::new(patterns).unwrap();
    let collected = wanted.collect(place.dir.path(), &place.blobs, 1 << 20, true);
    assert_eq!(collected.problem, None);

    let mut listed = Vec::new();
    if let Some(archive) = collected
        .files
        .iter()
        .find(|f| f.path.as_str() == APART_ARCHIVE)
    {
        let listing = std::process::Command::new("tar")
            .args(["--quoting-style=escape", "-tf"])
            .arg(place.blobs.path_of(&archive.blob))
            .output()
            .unwrap();
        assert!(listing.status.success(), "{listing:?}");
        let names = String::from_utf8(listing.stdout).unwrap();
        listed.extend(names.lines().map(str::to_owned));
    }
    let files = collected.files.iter().map(|f| f.path.to_string());
    let files = files.filter(|path| path != APART_ARCHIVE).collect();
    (files, listed, collected.warnings.join("; "))
}

#[cfg(unix)]
#[test]
fn odd_outputs_are_kept_apart_without_loss_beside_the_good_ones() {
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    let long = format!("{}/run_12:30.log", ["d"; 60].join("/"));
    for name in ["good.txt", "run_12:30.log", "x", "X", &long] {
        place.write(name, name);
    }
    let foreign = std::ffi::OsStr::from_bytes(b"caf\xe9");
    fs::write(place.dir.path().join(foreign), "latin").unwrap();
    symlink("good.txt", place.path("latest")).unwrap();

    let (files, listed, warnings) = apart(&place, &["**"]);
    assert_eq!(files, ["X", "good.txt"]);
    assert_eq!(
        listed,
        ["caf\\351", &long, "latest", "run_12:30.log", "x"].map(str::to_owned)
    );
    assert!(
        warnings.contains("5 of its outputs lie in `deskgrid-apart.tar`")
            && warnings.contains("is not UTF-8")
            && warnings.contains("symbolic link"),
        "{warnings}"
    );
}

#[cfg(unix)]
#[test]
fn the_archive_of_odd_outputs_gives_them_back_as_they_were() {
    let place = Place::new();
    place.write("a:b", "some text");
    symlink("a:b", place.path("latest")).unwrap();
    let wanted = ExpectedOutputs::new(vec!["*".to_owned()]).unwrap();
    let collected = wanted.collect(place.dir.path(), &place.blobs, 1 << 20, true);
    let [archive] = &collected.files[..] else {
        panic!("{collected:?}")
    };

    let back = tempfile::tempdir().unwrap();
    let tar = std::process::Command::new("tar")
        .arg("-xf")
        .arg(place.blobs.path_of(&archive.blob))
        .current_dir(&back)
        .status();
    assert!(tar.unwrap().success());
    let text = fs::read_to_string(back.path().join("latest")).unwrap();
    assert_eq!(text, "some text");
    assert!(
        fs::symlink_metadata(back.path().join("latest"))
            .unwrap()
            .is_symlink()
    );
}

#[cfg(unix)]
#[test]
fn empty_directories_of_a_directory_that_is_an_output_are_kept() {
    let place = Place::new();
    place.write("out/file", "");
    for dir in ["out/empty", "out/deep/empty", "elsewhere/empty"] {
        fs::create_dir_all(place.path(dir)).unwrap();
    }
    let (files, listed, warnings) = apart(&place, &["out/"]);
    assert_eq!(files, ["out/file"]);
    assert_eq!(listed, ["out/deep/empty/", "out/empty/"]);
    assert!(warnings.contains(EMPTY), "{warnings}");

    // A pattern is about files.
    let (files, listed, _) = apart(&place, &["out/**"]);
    assert_eq!((files.len(), listed.len()), (1, 0));
}

#[cfg(unix)]
#[test]
fn thousands_of_outputs_are_all_kept() {
    let place = Place::new();
    for number in 0..3_000 {
        place.write(&format!("frames/frame-{number:08}.txt"), "x");
    }
    let (files, listed, warnings) = apart(&place, &["frames/"]);
    assert!(files.len() > 1_000, "{}", files.len());
    assert_eq!(files.len() + listed.len(), 3_000);
    assert!(warnings.contains(TOO_MANY), "{warnings}");
}

#[cfg(unix)]
#[test]
fn what_has_no_content_is_a_warning_unless_it_was_promised() {
    let place = Place::new();
    place.write("good", "");
    rustix::fs::mkfifoat(CWD, place.path("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    let (files, _, warnings) = apart(&place, &["*"]);
    assert_eq!(files, ["good"]);
    assert_eq!(
        warnings,
        "`pipe` is a named pipe, not a regular file: it was not kept"
    );

    let (files, problem) = place.collect(&["pipe", "*"], true);
    assert_eq!(files, ["good"]);
    assert!(matches!(problem, Some(Outcome::BadOutput(why)) if why.contains("pipe")));
}

#[test]
fn a_directory_as_an_output_stands_for_all_that_lies_in_it() {
    let place = Place::new();
    place.write("out/file", "");
    place.write("out/deep/file", "");
    fs::create_dir(place.path("empty")).unwrap();
    for name in ["out", "out/"] {
        assert_eq!(
            place.collect(&[name, "empty/"], true),
            (
                vec!["out/deep/file".to_owned(), "out/file".to_owned()],
                None
            )
        );
    }
    assert_eq!(
        place.collect(&["gone/"], true).1,
        Some(Outcome::MissingOutput("gone/".to_owned()))
    );
}

#[test]
fn an_input_is_an_output_only_if_it_was_changed_or_named() {
    let place = Place::new();
    let placed = |name: &str| {
        place.write(name, "given");
        let meta = fs::metadata(place.path(name)).unwrap();
        (PathBuf::from(name), PlacedInput::of(name, &meta))
    };
    let mut wanted = ExpectedOutputs::new(vec!["**".to_owned(), "named".to_owned()]).unwrap();
    wanted.inputs = ["same", "changed", "named"].map(placed).into();
    place.write("changed", "it has other text");
    place.write("new", "");

    let collected = wanted.collect(place.dir.path(), &place.blobs, 1_000, true);
    let paths: Vec<_> = collected.files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(
        (paths, collected.problem),
        (vec!["changed", "named", "new"], None)
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

#[cfg(unix)]
#[test]
fn what_is_said_of_long_names_is_short() {
    let place = Place::new();
    let deep = vec!["ü".repeat(100); 15].join("/");
    fs::create_dir_all(place.path(&deep)).unwrap();
    for number in 0..20 {
        let pipe = place.path(&format!("{deep}/{number}"));
        rustix::fs::mknodat(CWD, pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    }
    symlink("nowhere", place.path(&format!("{deep}/link"))).unwrap();

    let wanted = ExpectedOutputs::new(vec!["**".to_owned()]).unwrap();
    let collected = wanted.collect(place.dir.path(), &place.blobs, 1_000, true);
    let long = |text: &&String| text.len() > 500;
    assert!(collected.warnings.iter().filter(long).count() >= 10);
    for warning in &collected.warnings {
        assert!(warning.len() < 1_100, "{warning}");
    }

    let promised = format!("{deep}/0");
    assert!(place.why_bad(&[&promised]).len() < 1_100);
}
