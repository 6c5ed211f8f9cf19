//! Uploads a plan's files and submits it. The job is submitted only after the master has every
//! file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::content::{BlobHash, BlobRef};
use common::wire::client::{Reply, Request, Submission};
use common::{JobSpec, RequestId, SubmitOptions};
use link::Client;
use link::client::unexpected;
use serde::Serialize;

use super::SubmitPlan;
use crate::failure::{Exit, Failure};
use crate::parallel;

/// The size limit of a spec that travels inside the request, in bytes.
const MAX_INLINE_SPEC: usize = 128 * 1024;

/// The master's answer to a submission: `Submitted` or `NotPromised`.
pub(crate) use common::wire::client::Reply as Answer;

/// Uploads the blobs that the master does not have, and submits (or, in a dry run, only asks for
/// the forecast).
///
/// # Errors
/// If a file changed or cannot be read, or the master refuses; then nothing was submitted.
pub(crate) async fn send(
    client: &Client,
    plan: &SubmitPlan,
    id: RequestId,
    dry_run: bool,
) -> Result<Answer, Failure> {
    let spec = if dry_run {
        plan.spec_without_files()
    } else {
        with_files(client, plan).await?
    };
    let spec = submission(client, spec, plan.asked()).await?;
    let request = Request::Submit {
        id,
        spec,
        disclosed: plan.disclosed,
        dry_run,
    };

    match client.ask(&request).await?.pop() {
        Some(reply @ (Reply::Submitted { .. } | Reply::NotPromised(_))) => Ok(reply),
        other => Err(unexpected(other.as_ref()).into()),
    }
}

/// Uploads each file, and fills its blob into the spec.
async fn with_files(client: &Client, plan: &SubmitPlan) -> Result<JobSpec, Failure> {
    let one = |path: PathBuf| {
        let client = client.clone();
        async move { Ok((path.clone(), client.put_file(&path).await?)) }
    };
    let blobs: BTreeMap<_, _> = parallel::each(plan.files(), one)
        .await?
        .into_iter()
        .collect();
    let missing = BlobRef {
        hash: BlobHash([0; 32]),
        size: 0,
    };

    Ok(plan.spec(|path: &Path| blobs.get(path).copied().unwrap_or(missing)))
}

async fn submission(
    client: &Client,
    spec: JobSpec,
    asked: &SubmitOptions,
) -> Result<Submission, Failure> {
    Ok(match content(client, &(&spec, asked)).await? {
        Some(blob) => Submission::Blob(blob),
        None => Submission::Inline(Box::new(spec), asked.clone()),
    })
}

/// Uploads `what` as a blob if it is too long for a request.
pub(crate) async fn content<T: Serialize>(
    client: &Client,
    what: &T,
) -> Result<Option<BlobRef>, Failure> {
    let bytes = postcard::to_stdvec(what).map_err(|e| {
        Failure::new(Exit::Error, "internal", "the job cannot be encoded", "").because(e)
    })?;
    Ok(if bytes.len() <= MAX_INLINE_SPEC {
        None
    } else {
        Some(client.put_bytes(&bytes).await?)
    })
}
