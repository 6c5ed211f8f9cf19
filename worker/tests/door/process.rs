//! The door of tests with a command's process tree alone: waiting for it, bounded, and how it
//! ended.

use std::future::Future;
use std::time::{Duration, Instant};

use worker::os::{Process, ProcessStatus, WatcherReport};

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

/// Waits until a process that was told to freeze stands still. Beside busy processors it may say before that it takes long.
pub(crate) async fn frozen(process: &mut Process) {
    let report = loop {
        match within(process.report()).await {
            WatcherReport::Restless => {}
            report => break report,
        }
    };
    assert_eq!(report, WatcherReport::Frozen);
}

/// What comes of it in the end.
pub(crate) async fn end(process: &mut Process) -> WatcherReport {
    loop {
        match within(process.report()).await {
            WatcherReport::Frozen | WatcherReport::Restless => {}
            report => return report,
        }
    }
}

pub(crate) async fn status(process: &mut Process) -> ProcessStatus {
    match end(process).await {
        WatcherReport::Ended { status, .. } => status,
        other => panic!("{other:?}"),
    }
}
