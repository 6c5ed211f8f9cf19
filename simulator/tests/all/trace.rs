//! Traces in directories: what is written is read, and what cannot be is refused with its line.

use std::path::PathBuf;

use simulator::trace::Trace;

/// Where a shared day is, if it is there.
pub(crate) fn shared(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/availability").join(name)
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
