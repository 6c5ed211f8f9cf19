//! Uploads a plan's files and submits it. Nothing is submitted before every file is with the master.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::content::{BlobHash, BlobRef};
use common::wire::client::{Reply, Request, Submission};
use common::{JobSpec, RequestId};
use link::Client;
use link::client::unexpected;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Plan;
use crate::failure::{Exit, Failure};

/// How many files are hashed and uploaded at a time.
const PARALLEL: usize = 8;
/// The longest spec that travels inside the request, in bytes.
const MAX_INLINE_SPEC: usize = 128 * 1024;

/// The master's answer to a submission.
pub(crate) use common::wire::client::Reply as Answer;

/// Uploads what the master does not have, and submits (or, as a dry run, only asks what would happen).
///
/// # Errors
/// If a file changed or cannot be read, or the master refuses; then nothing was submitted.
pub(crate) async fn send(client: &Client, plan: Plan, id: RequestId, dry_run: bool) -> Result<Answer, Failure> {
    let blobs = contents(client, plan.files(), dry_run).await?;
    let missing = BlobRef { hash: BlobHash([0; 32]), size: 0 };
    let spec = plan.spec(|path: &Path| blobs.get(path).copied().unwrap_or(missing));
    let request = Request::Submit { id, spec: submission(client, spec).await?, dry_run };
    match client.ask(&request).await?.pop() {
        Some(reply @ Reply::Submitted { .. }) => Ok(reply),
        other => Err(unexpected(other.as_ref()).into()),
    }
}

/// The content of each file: with the master too, unless it is a dry run.
async fn contents(client: &Client, files: Vec<PathBuf>, dry_run: bool) -> Result<BTreeMap<PathBuf, BlobRef>, Failure> {
    let (mut work, gate) = (JoinSet::new(), Arc::new(Semaphore::new(PARALLEL)));
    for path in files {
        let (client, gate) = (client.clone(), gate.clone());
        work.spawn(async move {
            let _turn = gate.acquire_owned().await;
            let blob = if dry_run { hashed(&path).await } else { client.put_file(&path).await.map_err(Failure::from) };
            blob.map(|blob| (path, blob))
        });
    }
    let mut blobs = BTreeMap::new();
    while let Some(done) = work.join_next().await {
        let (path, blob) = done.map_err(|e| interrupted(&e))??;
        blobs.insert(path, blob);
    }
    Ok(blobs)
}

async fn hashed(path: &Path) -> Result<BlobRef, Failure> {
    let path = path.to_owned();
    let hashing = tokio::task::spawn_blocking(move || link::content::hash_file(&path));
    Ok(hashing.await.map_err(|e| interrupted(&e))??)
}

async fn submission(client: &Client, spec: JobSpec) -> Result<Submission, Failure> {
    let bytes = postcard::to_stdvec(&spec)
        .map_err(|e| Failure::new(Exit::Error, "internal", "the job cannot be encoded", "").because(e))?;
    if bytes.len() <= MAX_INLINE_SPEC {
        return Ok(Submission::Inline(Box::new(spec)));
    }
    Ok(Submission::Blob(client.put_bytes(&bytes).await?))
}

fn interrupted(error: &tokio::task::JoinError) -> Failure {
    Failure::new(Exit::Error, "internal", "work on a file was interrupted", "").because(error)
}
