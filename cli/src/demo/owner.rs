//! The pretended owner of one of the demo's hosts, who comes back when a fifth of the bag is done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::view::{HostState, HostView, JobView};
use common::wire::client::Request;
use tokio::sync::watch::Receiver;

use crate::session::Session;

/// How often the owner may come and find that nothing was running, before giving up.
const TRIES: u32 = 10;

/// What was done to a host. What it did then is in the master's records, not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Visit {
    /// Whose owner came.
    pub(super) host: String,
}

/// Waits for the right moment, then comes back to a host that is working and stays. Writes into `visit` where.
pub(super) async fn visit(
    session: &Session,
    root: PathBuf,
    hosts: u32,
    mut jobs: Receiver<Option<JobView>>,
    visit: &mut Option<Visit>,
) {
    if hosts < 2 {
        return;
    }
    if jobs.wait_for(|job| job.as_ref().is_some_and(right_moment)).await.is_err() {
        return;
    }
    for _ in 0..TRIES {
        let Some(host) = working(session).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let switch = switch(&root, &host.facts.name);
        if std::fs::write(&switch, "the demo's owner is back\n").is_err() {
            return;
        }
        if froze_a_task(session, &host.facts.name).await {
            *visit = Some(Visit { host: host.facts.name });
            return;
        }
        // It stood between two tasks just then: nothing would be seen.
        let _ = std::fs::remove_file(&switch);
    }
}

/// A fifth is done; or, of a small bag, every task has been given out.
fn right_moment(job: &JobView) -> bool {
    let tasks = &job.tasks;
    !job.state.settled() && (tasks.settled() * 5 >= tasks.total || tasks.running > 0 && tasks.waiting == 0)
}

/// The worker's owner switch: while the file is there, the owner has paused it.
fn switch(root: &Path, host: &str) -> PathBuf {
    root.join(host).join("worker").join(worker::PAUSE_FILE)
}

/// A host in the middle of the list that works on a task.
async fn working(session: &Session) -> Option<HostView> {
    let mut hosts = look(session, Vec::new()).await?;
    hosts.retain(|host| host.state == HostState::Busy && !host.attempts.is_empty());
    let middle = hosts.len() / 2;
    (!hosts.is_empty()).then(|| hosts.swap_remove(middle))
}

/// Waits until the host has noticed its owner, and says whether a task is frozen there.
async fn froze_a_task(session: &Session, name: &str) -> bool {
    for _ in 0..100 {
        let host = look(session, vec![name.to_owned()]).await.and_then(|mut hosts| hosts.pop());
        match host {
            Some(host) if host.state == HostState::Suspended => return !host.attempts.is_empty(),
            Some(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            None => return false,
        }
    }
    false
}

async fn look(session: &Session, names: Vec<String>) -> Option<Vec<HostView>> {
    session.hosts(&Request::Hosts { names }).await.ok()
}
