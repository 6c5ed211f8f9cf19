//! Removes what nobody needs any more: jobs that were settled long ago where the admin wants that,
//! content of forgotten jobs or of submissions that never came, and what was recorded of hosts long
//! ago.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use common::BlobRef;
use tokio::time::MissedTickBehavior;

use crate::core::ask::{HostAsk, HostNames, UpkeepAsk};
use crate::operations::SweepHold;
use crate::run::SessionContext;

/// So many blobs are looked up in one turn of the core, so that nobody waits long.
const PORTION: usize = 1_000;

/// Sweeps as often as content may become old, from a while after the start until the core has
/// ended.
pub(crate) async fn serve(state: Arc<SessionContext>) {
    let grace = state.config.content_grace.0.max(Duration::from_secs(1));
    let mut turns = tokio::time::interval_at(tokio::time::Instant::now() + grace, grace);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);

    loop {
        turns.tick().await;
        // One host at a time, so that nobody waits long.
        let Ok(hosts) = state.core.ask::<HostNames>(HostAsk::Names).await else {
            return;
        };
        for (host, _) in hosts {
            let trim = HostAsk::TrimAvailability(host);
            if state.core.ask::<()>(trim).await.is_err() {
                return;
            }
        }

        loop {
            match state.core.ask(UpkeepAsk::Retire).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return,
            }
        }

        let _hold = match SweepHold::for_sweeping(&state.home) {
            Ok(Some(hold)) => hold,
            Ok(None) => {
                tracing::info!("content is not swept now: a backup counts on it");
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "content is not swept: its lock does not work");
                continue;
            }
        };

        let blobs = state.blobs.clone();
        let old = tokio::task::spawn_blocking(move || old(&blobs, grace)).await;
        let old = match old.map_err(std::io::Error::other).and_then(|listed| listed) {
            Ok(old) => old,
            Err(error) => {
                tracing::warn!(%error, "the content could not be listed");
                continue;
            }
        };

        let mut bytes = 0;
        for portion in old.chunks(PORTION).map(<[Old]>::to_vec) {
            match state.core.ask::<u64>(UpkeepAsk::Sweep(portion)).await {
                Ok(removed) => bytes += removed,
                Err(_) => return,
            }
        }

        let trim = UpkeepAsk::TrimContent(grace.into());
        if state.core.ask::<()>(trim).await.is_err() {
            return;
        }
        if bytes > 0 {
            tracing::info!(bytes, "content that no job needs was removed");
        }
    }
}

/// A blob with when somebody last counted on it.
type Old = (BlobRef, SystemTime);

/// Blobs that nobody has brought in, or counted on, for that long. Uploads that broke off that long
/// ago go at once.
fn old(blobs: &link::BlobStore, grace: Duration) -> std::io::Result<Vec<Old>> {
    let now = SystemTime::now();
    let is_old = |at: &SystemTime| now.duration_since(*at).is_ok_and(|age| age >= grace);
    blobs.drop_parts(grace)?;
    Ok(blobs
        .list()?
        .into_iter()
        .filter(|(_, at)| is_old(at))
        .collect())
}
