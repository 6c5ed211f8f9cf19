//! Runs work on many files concurrently, up to `AT_A_TIME`.

use std::future::Future;

use tokio::task::{JoinError, JoinSet};

use crate::failure::Failure;

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
    let mut left = items.into_iter().collect::<Vec<_>>().into_iter();
    let mut running = JoinSet::new();
    let mut done = Vec::new();
    loop {
        while running.len() < AT_A_TIME
            && let Some(item) = left.next()
        {
            running.spawn(work(item));
        }
        let Some(result) = running.join_next().await else {
            return Ok(done);
        };

        match result.map_err(|error| interrupted(&error)).flatten() {
            Ok(one) => done.push(one),
            Err(failure) => {
                running.shutdown().await;
                return Err(failure);
            }
        }
    }
}

/// The failure of work that was cancelled or panicked.
pub(crate) fn interrupted(error: &JoinError) -> Failure {
    Failure::error("internal", "work on a file was interrupted", "").because(error)
}
