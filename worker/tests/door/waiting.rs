//! Waiting, bounded, for what a test expects.
#![allow(dead_code)] // Not every program uses all of it.

use std::fs;
use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

/// A test fails if what it waits for has not come by then. Long, because tasks get no processor
/// that others want.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what)
        .await
        .expect("nothing happened for a minute")
}

pub(crate) async fn until(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(
            Instant::now() < deadline,
            "what was waited for did not happen"
        );
        tokio::time::sleep(PAUSE).await;
    }
}

/// The number that a script wrote into this file, once it is there whole.
pub(crate) async fn pid(path: &Path) -> i32 {
    let read = || {
        fs::read_to_string(path)
            .ok()
            .filter(|text| text.ends_with('\n'))
    };
    until(|| read().is_some()).await;
    read().unwrap().trim().parse().unwrap()
}
