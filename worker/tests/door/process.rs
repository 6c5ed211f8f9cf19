//! The door of tests with a command's process tree alone: waiting for it, bounded, and how it
//! ended.
#![allow(dead_code)] // Not every program uses all of it.

use tokio::io::AsyncReadExt;
use worker::os::{Process, ProcessOrder, ProcessStatus, WatcherReport};

#[path = "waiting.rs"]
mod waiting;

pub(crate) use waiting::*;

/// Freezes a process, and waits until it stands still. Beside busy processors it may say before that it takes long.
pub(crate) async fn freeze(process: &mut Process) {
    process.order(ProcessOrder::Freeze);
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

/// Reads what a process prints, to its end.
pub(crate) async fn printed(process: &mut Process) -> (String, String) {
    let mut out = String::new();
    let mut err = String::new();
    within(process.stdout.take().unwrap().read_to_string(&mut out))
        .await
        .unwrap();
    within(process.stderr.take().unwrap().read_to_string(&mut err))
        .await
        .unwrap();
    (out, err)
}

/// Kills a process, which then has ended so.
pub(crate) async fn kill(process: &mut Process) {
    process.order(ProcessOrder::Kill);
    assert_eq!(status(process).await, ProcessStatus::Signalled(9));
}

pub(crate) async fn status(process: &mut Process) -> ProcessStatus {
    match end(process).await {
        WatcherReport::Ended { status, .. } => status,
        other => panic!("{other:?}"),
    }
}
