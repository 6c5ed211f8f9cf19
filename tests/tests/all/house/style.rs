//! Names that must not occur, how files open, how long they are, and where `unsafe` is allowed.

use std::collections::BTreeSet;
use std::path::Path;

use super::source::{code, literals};
use super::{OUTSIDE, ROOMS, files, text};

/// The longest file, in lines of code: neither blank nor only a comment.
const MAX_LINES: usize = 800;
/// The same of a file of tests.
const MAX_TEST_LINES: usize = 1_200;

/// What must not occur in code anywhere.
const UNFINISHED: [&str; 3] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("db", "g!"),
];

/// What must not occur anywhere, prose included.
const PROMISES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Names of modules that say nothing.
const EMPTY_NAMES: [&str; 5] = ["utils", "util", "helpers", "manager", "misc"];

/// The files that may change the `umask`, each with why: what other threads make meanwhile has other permissions.
const UMASK: [(&str, &str); 3] = [
    (
        "cli/src/commands/dashboard.rs",
        "a socket that is private from its first moment on: others only get less",
    ),
    (
        "cli/src/files.rs",
        "read before there are threads, for files that are private while they are written",
    ),
    (
        "worker/src/os/linux/spawner.rs",
        "a process of its own, with one thread",
    ),
];

/// The files that may hold `unsafe`, each with why.
const UNSAFE: [(&str, &str); 17] = [
    (
        "link/src/files/windows.rs",
        "the free space of a disk: std does not ask for it",
    ),
    (
        "tests/src/chaos/vfs.rs",
        "SQLite asks for its files through C: simulated disks must answer so",
    ),
    (
        "worker/src/os/linux/birth.rs",
        "a vfork-like clone, and what its child gives up before it becomes the program: only system calls are allowed there",
    ),
    (
        "worker/src/os/linux/sys.rs",
        "fork, waiting with resource usage and signal masks: rustix has no safe form of them",
    ),
    (
        "worker/src/os/macos/sense.rs",
        "input and power: the objc2 crates have only the bare calls",
    ),
    (
        "worker/src/os/unix/group.rs",
        "a step between fork and exec, and wait4 with resource usage: neither std nor rustix has a safe form",
    ),
    (
        "worker/src/os/windows/arguments.rs",
        "a test asks the system how it splits a command line",
    ),
    (
        "worker/src/os/windows/container.rs",
        "AppContainers and rules of access lists: windows-sys has only the bare calls",
    ),
    (
        "worker/src/os/windows/events.rs",
        "events in the system's log: windows-sys has only the bare calls",
    ),
    (
        "worker/src/os/windows/job.rs",
        "Job Objects: windows-sys has only the bare calls",
    ),
    (
        "worker/src/os/windows/sessions.rs",
        "sessions, rights to a pipe and to a process, and who is at the other end of a pipe: windows-sys has only the bare calls",
    ),
    (
        "worker/src/os/windows/spawn.rs",
        "a process with attributes, and the wait for its end: std has no stable form of the first",
    ),
    (
        "worker/src/os/windows/sys.rs",
        "suspension of processes, clocks, input, power, memory and directory changes: windows-sys has only the bare calls",
    ),
    (
        "worker/src/os/windows/token.rs",
        "privileges and rank of a command: windows-sys has only the bare calls",
    ),
    (
        "tests/tests/faults/disk.rs",
        "ext4's shutdown ioctl, for power loss: rustix has only the bare call",
    ),
    (
        "worker/tests/hostile/acts.rs",
        "a hostile task makes the system calls that a task is not to make",
    ),
    (
        "worker/tests/hostile/kernels.rs",
        "what the kernel shares by number: rustix has no calls of System V",
    ),
];

/// Parts of sentences over which a new user has stumbled: no help text, message or page says them again.
const STUMBLED_OVER: [&str; 18] = [
    "a date to come",
    "a file that is there goes on",
    "flags go before it",
    "flags given here go before",
    "for how long it works",
    "hosts that confine tasks so well",
    "how often it works",
    "is unsettled",
    "makes no sense: ",
    "no host that is known will do",
    "nothing can be said yet",
    "of before work no more",
    "takes none because",
    "tasks waiting again",
    "waiting timed out",
    "what will be, from what is known",
    "what is alike becomes",
    "would like to be called",
];

fn each_file(rooms: &[&str], mut check: impl FnMut(&Path, &str)) {
    let outside: &[&str] = if rooms.len() == ROOMS.len() {
        &OUTSIDE
    } else {
        &[]
    };
    let found: Vec<_> = rooms
        .iter()
        .chain(outside)
        .flat_map(|room| files(room, "rs"))
        .collect();
    assert!(
        found.len() >= rooms.len(),
        "only {} source files found",
        found.len()
    );
    for path in found {
        check(&path, &text(&path));
    }
}

/// The lines of `code` in which `name` occurs as a whole name (or path of names).
fn lines_with(code: &str, name: &str) -> Vec<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let whole = |line: &str| {
        line.match_indices(name).any(|(at, _)| {
            let before = &line[..at];
            let after = &line[at + name.len()..];
            !before.ends_with(part) && (name.ends_with('!') || !after.starts_with(part))
        })
    };
    code.lines()
        .enumerate()
        .filter(|(_, line)| whole(line))
        .map(|(n, _)| n + 1)
        .collect()
}

#[test]
fn the_code_has_no_unfinished_parts() {
    each_file(&ROOMS, |path, source| {
        for name in UNFINISHED {
            assert_eq!(
                lines_with(&code(source), name),
                [0; 0],
                "{}: `{name}`",
                path.display()
            );
        }

        for word in PROMISES {
            assert_eq!(
                lines_with(source, word),
                [0; 0],
                "{}: `{word}`",
                path.display()
            );
        }
    });
}

#[test]
fn names_say_something() {
    each_file(&ROOMS, |path, source| {
        let stem = path.file_stem().expect("a file").to_string_lossy();
        assert!(
            !EMPTY_NAMES.contains(&&*stem),
            "{}: a module needs a name of what it does",
            path.display()
        );

        let code = code(source);
        for name in EMPTY_NAMES {
            assert_eq!(
                lines_with(&code, &format!("mod {name}")),
                [0; 0],
                "{}: `mod {name}`",
                path.display()
            );
        }

        let gets = code.lines().position(|line| line.contains("fn get_"));
        assert_eq!(gets, None, "{}: drop the `get_`", path.display());
    });
}

#[test]
fn sentences_that_cost_a_second_reading_do_not_come_back() {
    let check = |path: &Path, said: &str| {
        let said = said.to_lowercase();
        for phrase in STUMBLED_OVER {
            assert!(!said.contains(phrase), "{}: `{phrase}`", path.display());
        }
    };

    each_file(&ROOMS, |path, source| {
        if path.starts_with("tests") {
            return;
        }
        for literal in literals(source) {
            check(path, literal);
        }
        // Clap makes help texts of these comments.
        if path.starts_with("cli/src/args") {
            check(path, source);
        }
    });
    for page in files("docs", "md") {
        check(&page, &text(&page));
    }
    check(Path::new("README.md"), &text("README.md"));
}

#[test]
fn every_file_opens_with_its_purpose() {
    each_file(&ROOMS, |path, source| {
        assert!(
            source.starts_with("//! "),
            "{} does not open with `//! ` and what it is",
            path.display()
        );
    });
}

#[test]
fn no_file_is_too_long() {
    each_file(&ROOMS, |path, source| {
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        let lines = source.lines().filter(is_code).count();
        let of_tests = path
            .iter()
            .any(|part| part == "tests" || part == "tests.rs");
        let most = if of_tests { MAX_TEST_LINES } else { MAX_LINES };
        assert!(
            lines <= most,
            "{} has {lines} lines of code, and may have {most}: split it",
            path.display()
        );
    });
}

#[test]
fn unsafe_code_is_only_where_the_table_says_why() {
    let mut found = BTreeSet::new();
    each_file(&ROOMS, |path, source| {
        if !lines_with(&code(source), "unsafe").is_empty() {
            found.insert(path.to_string_lossy().into_owned());
            assert!(
                source.contains("// SAFETY:"),
                "{} has `unsafe` without a SAFETY comment",
                path.display()
            );
        }
    });

    assert_eq!(
        found,
        UNSAFE.iter().map(|(path, _)| (*path).to_owned()).collect(),
        "files with `unsafe` and the table"
    );
}

#[test]
fn the_umask_is_changed_only_where_the_table_says_why() {
    let mut found = BTreeSet::new();
    each_file(&ROOMS, |path, source| {
        if !lines_with(&code(source), "umask").is_empty() {
            found.insert(path.to_string_lossy().into_owned());
        }
    });

    assert_eq!(
        found,
        UMASK.iter().map(|(path, _)| (*path).to_owned()).collect(),
        "files that change the umask, which all threads of a process share, and the table"
    );
}

#[test]
fn whole_names_are_distinguished_from_parts() {
    assert_eq!(
        lines_with("let a: Instantly;\nuse std::time::Instant;", "Instant"),
        [2]
    );
    assert_eq!(lines_with("unsafe_code\nunsafe {}", "unsafe"), [2]);
}
