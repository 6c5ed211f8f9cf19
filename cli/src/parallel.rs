//! Runs work on many files concurrently, up to `AT_A_TIME`.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use crate::failure::{Exit, Failure};

/// The number of items that are worked on at a time.
const AT_A_TIME: usize = 8;

/// Runs `work` on each item and returns the results in the order in which they were ready.
///
/// # Errors
/// The first error that occurs; the remaining work is given up.
pub(crate) async fn each<I, T, W>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> W,
) -> Result<Vec<T>, Failure>
where
    W: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Send + 'static,
{
    let mut running = JoinSet::new();
    let gate = Arc::new(Semaphore::new(AT_A_TIME));
    for item in items {
        let gate = gate.clone();
        let work = work(item);
        running.spawn(async move {
            let _turn = gate.acquire_owned().await;
            work.await
        });
    }

    let mut done = Vec::new();
    while let Some(result) = running.join_next().await {
        match result.map_err(|error| interrupted(&error)).flatten() {
            Ok(one) => done.push(one),
            Err(failure) => {
                running.shutdown().await;
                return Err(failure);
            }
        }
    }

    Ok(done)
}

/// The failure of work that was cancelled or panicked.
pub(crate) fn interrupted(error: &JoinError) -> Failure {
    Failure::new(
        Exit::Error,
        "internal",
        "work on a file was interrupted",
        "",
    )
    .because(error)
}
