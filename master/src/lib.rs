//! The live shell around the scheduler: QUIC sessions, the durable store, staging, HTTP, metrics,
//! the only clock, and one thread that owns the scheduler.
//!
//! The rules of scheduling live in `scheduler`, and the running of tasks in `worker`.

mod authority;
mod away;
mod clock;
mod compare;
mod config;
mod content_place;
mod core;
mod database;
mod duty;
pub mod engine;
mod http;
mod laws;
mod limits;
mod numbers;
pub mod operations;
mod room;
mod run;
mod sessions;
mod sources;
mod standby;
mod store;
mod sweep;
mod tails;
mod transfer;
mod trusting;
mod uploads;
mod whole;

pub use config::{Accept, Config};
pub use content_place::{BucketError, BucketFault, ContentFault, S3Settings};
pub use laws::SafetyRules;
pub use limits::Limits;
pub use numbers::{METRICS, Metric, MetricKind};
pub use run::{rotate_ca, run};
pub use store::{DatabaseHealth, DatabaseSight, PgError, StoreError, StoreResult};
pub use transfer::{Moved, StoreMove, transfer};
pub use whole::Lost;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The reason why a master does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum MasterError {
    /// The configuration is invalid.
    #[error("bad configuration: {0}")]
    Config(String),
    /// A file of settings cannot be read.
    #[error("cannot read the settings in {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The certificate or the key for HTTP cannot be read, or they do not belong together: they may
    /// be being renewed.
    #[error("cannot use {} for HTTP: {why}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The store is not where the command looks for it, or cannot go where it is to be.
    #[error("{why}")]
    Place {
        /// The place, and what is there.
        why: String,
        /// The remedy, shown to the admin.
        hint: &'static str,
    },
    /// Another master runs on the same directory.
    #[error("another master runs in {dir}", dir = dir.display())]
    Running {
        /// The state directory of both.
        dir: PathBuf,
    },
    /// The store does not open or fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file, a socket or an identity failed.
    #[error(transparent)]
    Link(#[from] link::LinkError),
    /// The certificate authority failed.
    #[error("the certificate authority failed: {0}")]
    Authority(String),
    /// The store is not the one that the master left.
    #[error("{0}. Nothing was changed")]
    Lost(Lost),
    /// A directory or bucket is not the one in which the grid's content lies.
    #[error("{fault}: {place}. Nothing was changed")]
    Content {
        /// The directory or bucket.
        place: String,
        /// The reason.
        fault: ContentFault,
    },
    /// The bucket for content cannot be used.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The clock is before a time at which the master was up.
    #[error(
        "this machine's clock reads {now}, but the master was up at {up} already: the clock is {behind} behind"
    )]
    Clock {
        /// The time of the clock.
        now: String,
        /// The time at which the master was last up.
        up: String,
        /// The difference.
        behind: String,
    },
    /// The thread that owns the scheduler ended.
    #[error("the master's core stopped: {0}")]
    Core(String),
}

/// Locks something that no panic leaves half changed: a thread that has panicked does not keep the
/// others from it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
