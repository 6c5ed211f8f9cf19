//! Content that was put and that no message names yet ([`UnnamedPuts`]). The other end takes what
//! nobody has counted on for a while for left over: so it is announced again from time to time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::BlobRef;
use common::wire::stream::{Open, PutReply};
use tokio::task::{JoinHandle, JoinSet};

use crate::endpoint::Connection;
use crate::error::LinkError;

/// The time after which content is announced again: less than a third of the default of
/// `content_grace`, after which a master takes it for left over.
const AGAIN: Duration = Duration::from_secs(10 * 60);
/// The number of announcements under way at a time.
const AT_A_TIME: usize = 8;

/// The content that was put over a connection for one message. It is announced again every ten
/// minutes until this value is dropped, which has to be after the message was answered or sent.
#[derive(Debug)]
pub struct UnnamedPuts {
    put: Arc<Mutex<BTreeSet<BlobRef>>>,
    announcing: JoinHandle<()>,
}

impl UnnamedPuts {
    /// Begins with no content.
    pub fn over(connection: &Connection) -> Self {
        Self::announced_every(connection, AGAIN)
    }

    /// Begins with no content, and with another interval.
    pub fn announced_every(connection: &Connection, interval: Duration) -> Self {
        let put = Arc::<Mutex<BTreeSet<BlobRef>>>::default();
        let announcing = tokio::spawn(announce_again(
            connection.clone(),
            Arc::clone(&put),
            interval,
        ));
        Self { put, announcing }
    }

    /// Adds content that the other end has stored.
    pub fn add(&self, blob: BlobRef) {
        lock(&self.put).insert(blob);
    }
}

impl Drop for UnnamedPuts {
    fn drop(&mut self) {
        self.announcing.abort();
    }
}

async fn announce_again(
    connection: Connection,
    put: Arc<Mutex<BTreeSet<BlobRef>>>,
    interval: Duration,
) {
    loop {
        tokio::time::sleep(interval).await;
        let mut waiting = lock(&put).clone().into_iter();
        let mut running = JoinSet::new();

        loop {
            let free = AT_A_TIME - running.len();
            for blob in waiting.by_ref().take(free) {
                let connection = connection.clone();
                running.spawn(async move { announce(&connection, blob).await });
            }
            match running.join_next().await {
                Some(Ok(Ok(()))) => {}
                // The answer to the message says what is missing.
                Some(Ok(Err(error))) => {
                    tracing::debug!(%error, "content that was put is not announced again");
                }
                Some(Err(_)) | None => break,
            }
        }
    }
}

/// Says that somebody counts on content that the other end has.
async fn announce(connection: &Connection, blob: BlobRef) -> Result<(), LinkError> {
    let mut channel = connection.open(&Open::Put(blob)).await?;
    match channel.rx.expect().await? {
        PutReply::Stored => Ok(()),
        PutReply::Resume(_) => Err(LinkError::Closed("the other end removed it".to_owned())),
        PutReply::Refused(refusal) => Err(refusal.into()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
