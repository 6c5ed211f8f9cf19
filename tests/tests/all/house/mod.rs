//! House rules: what the architecture, the style and the supply of libraries promise, checked over
//! the sources.

mod arrows;
mod claims;
mod configs;
mod golden;
mod openapi;
mod pages;
mod policies;
mod source;
mod statements;
mod style;
mod supply;

use std::path::{Path, PathBuf};

/// The top of the source tree.
pub(super) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The text of a file, named from the top of the source tree.
pub(super) fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every file below `room` that has one of these extensions, named from the top of the source tree,
/// in order.
fn files(room: &str, extension: &str) -> Vec<PathBuf> {
    walkdir::WalkDir::new(root().join(room))
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| entry.file_name() != "target")
        .map(|entry| entry.expect("the source tree can be read").into_path())
        .filter(|path| path.is_file() && path.extension().is_some_and(|found| found == extension))
        .map(|path| path.strip_prefix(root()).expect("below the top").to_owned())
        .collect()
}

/// Where Rust lies that is in no room: the fuzz targets, a workspace of their own.
const OUTSIDE: [&str; 1] = ["fuzz"];

/// The rooms that hold Rust.
const ROOMS: [&str; 15] = [
    "common",
    "scheduler",
    "simulator",
    "link",
    "api",
    "dashboard",
    "master",
    "worker",
    "gateway",
    "bridge",
    "cli",
    "papers",
    "packaging",
    "tests",
    "examples",
];
