//! A bridge between two grids: a worker of the one that is a user of the other. Each attempt that it is given
//! is submitted in the other grid as a job of one task; what comes of it is reported as a worker reports.
//!
//! Neither grid knows of it. Whatever breaks off is found again: an attempt has one request id in the other
//! grid, so that it becomes one job there however often it is submitted, and its result waits here until the
//! first grid has it.

mod errand;
mod error;
mod journal;
mod offer;
mod order;
mod other;
mod verdict;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::AttemptId;
use common::host::HostFacts;
use common::needs::Label;
use common::platform::HostPlatform;
use common::wire::worker::Assignment;
use link::identity::read_certificate;
use link::{Identity, LinkError, files};
use tokio::sync::watch;
use worker::delegate::{Delegate, Executor};

use errand::{CarriedAttempt, Shared};
pub use error::BridgeError;
use journal::{Journal, JournalEntry, LeftEntry};
use order::Grids;
use other::{OtherGridWay, Standings};

/// The time that the other grid has to say what it offers before what it offered last is said again.
const OFFERS: Duration = Duration::from_secs(5);
/// The pause before hosts are asked for again where there are none.
const NO_HOSTS: Duration = Duration::from_secs(5);

/// The settings of a bridge.
#[derive(Debug, Clone)]
pub struct BridgeConfig {
    /// The most attempts in the other grid at a time.
    pub slots: u32,
    /// The most bytes of inputs that are kept.
    pub cache_bytes: u64,
    /// The directory of the identity of the user in the other grid.
    pub user: PathBuf,
}

/// Runs a bridge in `dir` as the worker of this identity until `shutdown` resolves.
///
/// # Errors
/// If another bridge runs there, the directory is unusable, or there is no user's identity of another grid.
pub async fn run(
    dir: PathBuf,
    config: BridgeConfig,
    identity: Identity,
    shutdown: impl Future<Output = ()>,
) -> Result<(), BridgeError> {
    files::private_dir(&dir).map_err(LinkError::file("cannot make", &dir))?;
    let user = Identity::load(&config.user)?;
    let grids = Grids {
        from: read_certificate(&identity.certificate)?.0.grid,
        to: read_certificate(&user.certificate)?.0.grid,
    };
    if grids.from == grids.to {
        return Err(BridgeError::SameGrid);
    }

    let name = identity.link.name.clone();
    let (delegate, desk) = Delegate::open(&dir, identity, config.cache_bytes).await?;
    let unusable = |source: io::Error| BridgeError::Journal {
        dir: dir.clone(),
        source,
    };
    let incoming = emptied(dir.join("incoming")).map_err(unusable)?;
    let (journal, left) = Journal::open(&dir).map_err(unusable)?;

    let label = label(&grids);
    let (up, way) = watch::channel(None);
    let standings = Standings::default();
    let keeping = other::keep(
        config.user.clone(),
        label.clone(),
        up,
        standings.clone(),
        desk.clone(),
    );
    let keeping = tokio::spawn(keeping);

    tokio::pin!(shutdown);
    let facts = tokio::select! {
        facts = offered(&dir, &name, config.slots, way.clone()) => facts,
        () = &mut shutdown => return Ok(()),
    };
    tracing::info!(name, slots = facts.slots, platform = %facts.platform, speed = %facts.speed, "what the other grid offers");

    let begun = left
        .iter()
        .map(|(entry, _)| entry.assignment.clone())
        .collect();
    let shared = Arc::new(Shared {
        desk,
        journal,
        way,
        standings,
        label,
        grids,
        incoming,
        sending: Mutex::default(),
    });
    let carrier = BridgeExecutor {
        shared,
        platform: facts.platform.clone(),
        left: left
            .into_iter()
            .map(|left| (left.0.assignment.attempt, left))
            .collect(),
        running: BTreeMap::new(),
    };
    let ran = delegate.run(facts, begun, carrier, shutdown).await;
    keeping.abort();
    Ok(ran?)
}

/// Returns the label by which the jobs of a bridge from this grid are found in the other one.
fn label(grids: &Grids) -> Label {
    let text = format!("bridge-{}", grids.from.simple());
    text.parse().expect("letters, digits and a dash")
}

/// Makes a directory, and removes the files that a crash left in it.
fn emptied(dir: PathBuf) -> io::Result<PathBuf> {
    files::private_dir(&dir)?;
    for left in std::fs::read_dir(&dir)? {
        let path = left?.path();
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "this is not the bridge's, and cannot be removed: remove it by hand");
        }
    }
    Ok(dir)
}

/// Returns the [`HostFacts`] that the other grid offers, or offered last if it is away. Waits for it if it was never reached.
async fn offered(dir: &Path, name: &str, slots: u32, mut way: OtherGridWay) -> HostFacts {
    let kept = offer::kept(dir, name, slots);
    loop {
        let asked = async {
            let client = way.wait_for(Option::is_some).await.ok()?.clone()?;
            let hosts = other::hosts(&client).await;
            hosts
                .inspect_err(|error| tracing::warn!(%error, "the other grid does not say which hosts it has"))
                .ok()
        };
        let hosts = match &kept {
            Some(kept) => match tokio::time::timeout(OFFERS, asked).await {
                Ok(hosts) => hosts,
                Err(_) => return kept.clone(),
            },
            None => asked.await,
        };

        let facts = hosts.and_then(|hosts| offer::facts(name, slots, &hosts));
        match (facts, &kept) {
            (Some(facts), _) => {
                offer::keep(dir, &facts);
                return facts;
            }
            (None, Some(kept)) => return kept.clone(),
            (None, None) => {
                tracing::warn!("the other grid has no hosts; waiting for some");
                tokio::time::sleep(NO_HOSTS).await;
            }
        }
    }
}

/// The [`Executor`] that carries attempts to the other grid.
struct BridgeExecutor {
    shared: Arc<Shared>,
    platform: HostPlatform,
    /// The attempts that an earlier run began.
    left: BTreeMap<AttemptId, LeftEntry>,
    /// The order to end of each attempt that is being carried.
    running: BTreeMap<AttemptId, watch::Sender<bool>>,
}

impl Executor for BridgeExecutor {
    fn begin(&mut self, assignment: Assignment) {
        let attempt = assignment.attempt;
        let left = self.left.remove(&attempt);
        let noted = left.is_some();
        let (entry, job) = left.unwrap_or_else(|| {
            let entry = JournalEntry {
                assignment,
                platform: self.platform.clone(),
                parts: BTreeMap::new(),
            };
            (entry, None)
        });

        let (order, end) = watch::channel(false);
        self.running.insert(attempt, order);
        let errand = CarriedAttempt {
            shared: Arc::clone(&self.shared),
            entry,
            noted,
            job,
            end,
            started: false,
            come: Vec::new(),
        };
        tokio::spawn(errand.run());
    }

    fn end(&mut self, attempt: AttemptId) {
        if let Some(order) = self.running.get(&attempt) {
            order.send_replace(true);
        }
    }

    fn forget(&mut self, attempt: AttemptId) {
        self.running.remove(&attempt);
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || shared.journal.remove(attempt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_among_what_a_crash_left_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("content");
        std::fs::create_dir_all(place.join("odd")).unwrap();
        std::fs::write(place.join("left"), "").unwrap();
        emptied(place.clone()).unwrap();
        assert!(place.join("odd").exists() && !place.join("left").exists());
    }
}
