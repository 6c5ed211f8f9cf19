//! Traces in directories: what is written is read, and what cannot be is refused with its line.

use std::path::{Path, PathBuf};

use simulator::trace::Trace;

/// Where a shared day lies: beside the project, or where `DESKGRID_SHARED` says.
pub(crate) fn shared(name: &str) -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("DESKGRID_SHARED").map_or_else(beside, PathBuf::from);
    shared.join("data/availability").join(name)
}

/// A shared day.
pub(crate) fn shared_day(name: &str) -> Option<Trace> {
    let dir = shared(name);
    if !dir.is_dir() {
        eprintln!("skipped: no {}", dir.display());
        return None;
    }
    Some(Trace::read(&dir).expect("a shared day"))
}
