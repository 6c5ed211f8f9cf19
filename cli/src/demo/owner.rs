//! Pretends that the owner of one of the demo's hosts comes back, when a fifth of the bag is done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::JobId;
use common::selector::Selector;
use common::view::{AttemptState, HostState, JobView, TaskState};
use common::wire::client::Request;
use tokio::sync::watch::Receiver;

use crate::session::Session;

/// The number of visits to hosts with nothing to freeze before the owner gives up.
const TRIES: u32 = 50;

/// Waits for the right moment, then comes back to a working host and stays. Writes the host's name
/// into `visited`; its reaction is in the master's records.
pub(super) async fn visit(
    session: &Session,
    root: PathBuf,
    hosts: u32,
    mut jobs: Receiver<Option<JobView>>,
    visited: &mut Option<String>,
) {
    if hosts < 2 {
        return;
    }

    let moment = jobs
        .wait_for(|job| job.as_ref().is_some_and(right_moment))
        .await;
    let Some(job) = moment.ok().and_then(|job| job.as_ref().map(|job| job.job)) else {
        return;
    };
    for _ in 0..TRIES {
        let Some(host) = working(session, job).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let switch = switch(&root, &host);
        if std::fs::write(&switch, "the demo's owner is back\n").is_err() {
            return;
        }

        if froze_a_task(session, &host).await {
            *visited = Some(host);
            return;
        }

        // The host was between two tasks: there is nothing to see.
        let _ = std::fs::remove_file(&switch);
    }
}

/// Returns whether a fifth of the bag is done; or, of a small bag, whether every task has been
/// assigned.
fn right_moment(job: &JobView) -> bool {
    let tasks = &job.tasks;
    !job.state.settled()
        && (tasks.settled() * 5 >= tasks.total || tasks.running > 0 && tasks.waiting == 0)
}

/// Returns the path of the worker's `PAUSE_FILE`: while the file exists, the owner has paused the
/// worker.
fn switch(root: &Path, host: &str) -> PathBuf {
    root.join(host).join("worker").join(worker::PAUSE_FILE)
}

/// Returns one of the hosts that run an attempt of the job now.
async fn working(session: &Session, job: JobId) -> Option<String> {
    let tasks = session
        .tasks(job, Selector::All, vec![TaskState::Running])
        .await
        .ok()?;
    let attempts = tasks.iter().flat_map(|task| &task.attempts);
    let mut hosts: Vec<&str> = attempts
        .filter(|attempt| attempt.state == AttemptState::Running)
        .map(|attempt| attempt.host.as_str())
        .collect();
    hosts.sort_unstable();
    hosts.get(hosts.len() / 2).map(|host| (*host).to_owned())
}

/// Waits until the host has noticed its owner, and returns whether it has frozen an attempt.
async fn froze_a_task(session: &Session, name: &str) -> bool {
    for _ in 0..100 {
        let hosts = session
            .hosts(&Request::Hosts {
                names: vec![name.to_owned()],
            })
            .await;
        match hosts.ok().and_then(|mut hosts| hosts.pop()) {
            Some(host) if host.state == HostState::Suspended => return !host.attempts.is_empty(),
            Some(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            None => return false,
        }
    }

    false
}
