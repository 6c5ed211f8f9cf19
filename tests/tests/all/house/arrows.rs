//! Which room may depend on which, and which libraries no room of a kind may reach.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use super::source::code;
use super::{ROOMS, files, root, text};

/// What each room may use of the others. `tests` and `examples` are not listed: they may use
/// anything.
const MAY_USE: [(&str, &[&str]); 13] = [
    ("common", &[]),
    ("scheduler", &["common"]),
    ("simulator", &["scheduler", "common"]),
    ("link", &["common"]),
    ("api", &["common"]),
    ("dashboard", &["api", "common"]),
    (
        "master",
        &["scheduler", "link", "api", "dashboard", "common"],
    ),
    ("worker", &["link", "common"]),
    ("gateway", &["link", "common"]),
    ("bridge", &["worker", "link", "common"]),
    (
        "cli",
        &[
            "simulator",
            "api",
            "dashboard",
            "master",
            "worker",
            "gateway",
            "bridge",
            "scheduler",
            "link",
            "common",
        ],
    ),
    ("papers", &["cli", "simulator", "scheduler", "common"]),
    ("packaging", &["cli"]),
];

/// What the rooms without IO, clock and chance may depend on, and nothing else.
const PURE: [(&str, &[&str]); 3] = [
    (
        "common",
        &["humantime", "postcard", "serde", "thiserror", "uuid"],
    ),
    (
        "scheduler",
        &[
            "common",
            "rand_chacha",
            "serde",
            "smallvec",
            "statrs",
            "thiserror",
            "tracing",
        ],
    ),
    (
        "simulator",
        &[
            "common",
            "plotters",
            "rand_chacha",
            "scheduler",
            "serde",
            "serde_json",
            "smallvec",
            "thiserror",
            "tracing",
        ],
    ),
];

/// Libraries that a pure room must not reach over any number of arrows.
const IMPURE: [&str; 16] = [
    "async-std",
    "axum",
    "chrono",
    "clap",
    "getrandom",
    "hyper",
    "jiff",
    "mio",
    "quinn",
    "quinn-proto",
    "rusqlite",
    "rustls",
    "smol",
    "socket2",
    "time",
    "tokio",
];

/// Arrows that only the tests' own libraries ask for (proptest wants an operating system's
/// randomness of `rand_core`): the metadata has one set of features for everything, a build of a
/// room alone does not.
const OF_TESTS: [(&str, &str); 1] = [("rand_core", "getrandom")];

fn metadata() -> Metadata {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .other_options(["--offline", "--locked", "--filter-platform", &target].map(str::to_owned))
        .exec()
        .expect("cargo metadata works offline once the tests are built")
}

/// Direct dependencies that are part of the program, not of its tests.
fn arrows(metadata: &Metadata) -> BTreeMap<String, BTreeSet<String>> {
    let normal = |p: &cargo_metadata::Package| {
        p.dependencies
            .iter()
            .filter(|d| d.kind == DependencyKind::Normal)
            .map(|d| d.name.clone())
            .collect()
    };
    metadata
        .workspace_packages()
        .iter()
        .map(|p| (p.name.to_string(), normal(p)))
        .collect()
}

#[test]
fn rooms_use_only_the_rooms_below_them() {
    let arrows = arrows(&metadata());
    assert_eq!(
        arrows.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        BTreeSet::from(ROOMS),
        "the rooms"
    );
    for (room, allowed) in MAY_USE {
        let used: Vec<_> = arrows[room]
            .iter()
            .filter(|d| ROOMS.contains(&d.as_str()))
            .collect();
        for other in used {
            assert!(
                allowed.contains(&other.as_str()),
                "{room} -> {other} is an arrow that ARCHITECTURE.md forbids"
            );
        }
    }
}

#[test]
fn pure_crates_use_only_listed_dependencies() {
    let arrows = arrows(&metadata());
    for (room, allowed) in PURE {
        for library in &arrows[room] {
            assert!(
                allowed.contains(&library.as_str()),
                "{room} -> {library}: {room} may use only {allowed:?}"
            );
        }
    }
}

#[test]
fn pure_rooms_reach_no_clock_no_network_and_no_chance() {
    let metadata = metadata();
    let nodes = &metadata.resolve.as_ref().expect("resolved").nodes;
    let by_id: BTreeMap<_, _> = nodes.iter().map(|node| (&node.id, node)).collect();
    let name = |id: &cargo_metadata::PackageId| metadata[id].name.to_string();

    for (room, _) in PURE {
        let start = metadata
            .workspace_packages()
            .iter()
            .find(|p| p.name == room)
            .expect("a room")
            .id
            .clone();

        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(id) = open.pop() {
            let normal = |d: &&cargo_metadata::NodeDep| {
                d.dep_kinds.iter().any(|k| k.kind == DependencyKind::Normal)
            };
            let of_tests =
                |to: &cargo_metadata::PackageId| OF_TESTS.contains(&(&*name(&id), &*name(to)));
            let next = by_id[&id].deps.iter().filter(normal).map(|d| d.pkg.clone());
            open.extend(next.filter(|d| !reached.contains(d) && !of_tests(d)));
            reached.insert(id);
        }

        for library in reached.iter().map(name) {
            assert!(
                !IMPURE.contains(&library.as_str()),
                "{room} reaches {library}"
            );
        }
    }
}

/// The rooms inside the scheduler, from the ground up, each with what it may use.
const SCHEDULER: [(&str, &[&str]); 13] = [
    ("collections", &[]),
    ("prediction", &["collections"]),
    ("protocol", &["prediction"]),
    ("policy", &["prediction", "protocol"]),
    (
        "state",
        &["collections", "prediction", "protocol", "policy"],
    ),
    ("forecast", &["prediction", "policy", "state"]),
    ("handlers", &["prediction", "protocol", "policy", "state"]),
    ("deadline", &["prediction", "protocol", "policy", "state"]),
    ("disclosed", &["protocol", "policy", "state"]),
    (
        "gang",
        &["prediction", "protocol", "policy", "state", "forecast"],
    ),
    ("windows", &["prediction", "protocol", "policy", "state"]),
    (
        "faults",
        &["protocol", "policy", "state", "forecast", "handlers"],
    ),
    (
        "views",
        &[
            "prediction",
            "protocol",
            "policy",
            "state",
            "gang",
            "faults",
        ],
    ),
];

#[test]
fn inside_the_scheduler_arrows_go_down_only() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files("scheduler/src", "rs") {
        let Some(room) = room_in(&path) else { continue };
        let used = crate_paths(&code(&text(&path)));
        let others = used.into_iter().filter(|other| *other != room);
        found.entry(room.clone()).or_default().extend(others);
    }

    let drawn: BTreeMap<String, BTreeSet<String>> = SCHEDULER
        .iter()
        .map(|(room, used)| {
            let used = used.iter().map(|other| (*other).to_owned()).collect();
            ((*room).to_owned(), used)
        })
        .collect();
    assert_eq!(found, drawn, "the drawing in this file is what is there");

    for (at, (room, used)) in SCHEDULER.iter().enumerate() {
        let below: Vec<&str> = SCHEDULER[..at].iter().map(|(room, _)| *room).collect();
        for other in *used {
            assert!(
                below.contains(other),
                "{room} uses {other}, which is not below it"
            );
        }
    }
}

/// The room of a file of the scheduler; none for `lib.rs`.
fn room_in(path: &Path) -> Option<String> {
    let inside = path.strip_prefix("scheduler/src").ok()?;
    let first = inside.iter().next()?.to_string_lossy().into_owned();
    (inside.iter().count() > 1).then_some(first)
}

/// The first names of all paths that begin with `crate::`.
fn crate_paths(code: &str) -> BTreeSet<String> {
    let after = code.split("crate::").skip(1);
    after
        .map(|rest| {
            rest.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect::<String>()
        })
        .filter(|name| !name.is_empty())
        .collect()
}
