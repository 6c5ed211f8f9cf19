//! Uploads a plan's files and submits it. The job is submitted only after the master has every
//! file.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::content::BlobRef;
use common::wire::client::{Reply, Request, Submission};
use common::{JobSpec, RequestId, SubmitOptions};
use link::client::unexpected;
use link::{Client, LinkError, UnnamedPuts};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet, spawn_blocking};

use super::inputs::{Local, LocalContent};
use super::{BuildError, SubmitPlan, inputs, tree};
use crate::commands::interruptible;
use crate::failure::Failure;
use crate::parallel::{self, interrupted};
use crate::transfer::ShownTransfer;

/// The size limit of a spec that travels inside the request, in bytes.
const MAX_INLINE_SPEC: usize = 128 * 1024;

/// The number of parts of a tree that are sent at a time.
const PARTS: usize = 4;

/// The part of a [`SubmitPlan`] that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// Only the question for the forecast: a dry run.
    Question,
    /// The job with its files. People may be shown how far these are.
    Job { shown: bool },
}

/// Uploads the blobs that the master does not have, and submits (or only asks for the forecast). Returns the master's
/// answer: `Submitted` or `NotPromised`.
///
/// # Errors
/// If a file changed or cannot be read, the upload is interrupted, or the master refuses: then nothing was submitted. If the
/// master's answer does not come, or is not waited for: then it may have been.
pub(crate) async fn send(
    client: &Client,
    plan: &SubmitPlan,
    id: RequestId,
    sending: SendMode,
) -> Result<Reply, Failure> {
    let unnamed = Arc::new(UnnamedPuts::over(client.connection()));
    let spec = match sending {
        SendMode::Question => {
            check_trees(plan).await?;
            plan.spec_without_files()
        }
        SendMode::Job { shown } => {
            let transfer = ShownTransfer {
                verb: "sent",
                total: size(plan),
                shown,
                left: "nothing was submitted",
            };
            transfer
                .run(client, with_files(client, plan, &unnamed))
                .await?
        }
    };

    let asking = async {
        let spec = submission(client, spec, plan.asked()).await?;
        let request = Request::Submit {
            id,
            spec,
            disclosed: plan.disclosed,
            dry_run: sending == SendMode::Question,
        };
        Ok(client.ask(&request).await?)
    };
    match interruptible(asking, || unanswered(sending)).await?.pop() {
        Some(reply @ (Reply::Submitted { .. } | Reply::NotPromised(_))) => Ok(reply),
        other => Err(unexpected(other.as_ref()).into()),
    }
}

/// The failure of a question to the master whose answer was not waited for.
fn unanswered(sending: SendMode) -> Failure {
    let (code, what) = match sending {
        SendMode::Question => ("interrupted", "interrupted; nothing was submitted"),
        SendMode::Job { .. } => (
            "unanswered",
            "interrupted while the master was asked; the job may have been submitted",
        ),
    };
    Failure::error(code, what, "")
}

/// Returns the size of all files in bytes; `None` where one cannot be seen, or there are trees, which are read only as they
/// are sent.
fn size(plan: &SubmitPlan) -> Option<u64> {
    let of = |local| match local {
        Local::File(path) => Some(std::fs::metadata(path).ok()?.len()),
        Local::Tree(_) => None,
    };
    plan.locals().into_iter().map(of).sum()
}

/// Uploads each file and tree, and fills their content into the spec.
async fn with_files(
    client: &Client,
    plan: &SubmitPlan,
    unnamed: &Arc<UnnamedPuts>,
) -> Result<JobSpec, Failure> {
    let one = |local: Local<PathBuf>| {
        let client = client.clone();
        let unnamed = Arc::clone(unnamed);
        async move {
            let content = match &local {
                Local::File(path) => LocalContent {
                    blob: (client.put_file(path).await).map_err(|error| not_sent(path, error))?,
                    parts: Vec::new(),
                },
                Local::Tree(path) => put_tree(&client, path, &unnamed).await?,
            };
            unnamed.add(content.blob);
            Ok((local, content))
        }
    };
    let sent: BTreeMap<_, _> = parallel::each(plan.locals(), one)
        .await?
        .into_iter()
        .collect();

    Ok(plan.spec(|local: Local<&Path>| {
        let owned = match local {
            Local::File(path) => Local::File(path.to_owned()),
            Local::Tree(path) => Local::Tree(path.to_owned()),
        };
        sent.get(&owned).cloned().unwrap_or(LocalContent::UNKNOWN)
    }))
}

/// Names the file that changed between the two times at which it was read: for its hash, and to be sent.
fn not_sent(path: &Path, error: LinkError) -> Failure {
    match error {
        // A user who has sent too much is refused with the same code.
        LinkError::Refused(refusal) if refusal.message.contains("damaged") => Failure::error(
            "changed",
            format!(
                "{} changed while it was sent; nothing was submitted",
                path.display()
            ),
            "submit again once nothing writes to it",
        ),
        error => error.into(),
    }
}

/// Uploads a file, or a tree with the parts that its list names.
///
/// # Errors
/// If it cannot be read, or the master refuses.
pub(crate) async fn send_content(
    client: &Client,
    path: &Path,
    is_tree: bool,
) -> Result<(BlobRef, Option<Vec<BlobRef>>), Failure> {
    if is_tree {
        tree::look_at(path).map_err(BuildError::from)?;
        let unnamed = UnnamedPuts::over(client.connection());
        let LocalContent { blob, parts } = put_tree(client, path, &unnamed).await?;
        Ok((blob, Some(parts)))
    } else {
        inputs::look_at(std::slice::from_ref(&path.to_owned()))?;
        Ok((client.put_file(path).await?, None))
    }
}

/// Uploads the parts of a tree while it is read, then its list.
async fn put_tree(
    client: &Client,
    path: &Path,
    unnamed: &UnnamedPuts,
) -> Result<LocalContent, Failure> {
    let (complete, mut parts) = mpsc::channel::<Vec<u8>>(1);
    let whole = path.to_owned();
    let packing = spawn_blocking(move || {
        tree::pack(&whole, |part| {
            complete
                .blocking_send(part)
                .map_err(|_| io::ErrorKind::BrokenPipe.into())
        })
    });

    let mut puts = JoinSet::new();
    while let Some(part) = parts.recv().await {
        if puts.len() >= PARTS {
            put(puts.join_next().await, unnamed)?;
        }
        let client = client.clone();
        puts.spawn(async move { client.put_bytes(&part).await });
    }
    while !puts.is_empty() {
        put(puts.join_next().await, unnamed)?;
    }

    let packed = packing.await.map_err(|error| interrupted(&error))?;
    let manifest = packed.map_err(BuildError::from)?;
    let list = tree::encoded(path, &manifest).map_err(BuildError::from)?;
    let blob = client.put_bytes(&list).await?;
    let parts = manifest.parts;
    Ok(LocalContent { blob, parts })
}

/// Takes the result of one of the uploads of `put_tree` that has ended.
fn put(
    ended: Option<Result<Result<BlobRef, LinkError>, JoinError>>,
    unnamed: &UnnamedPuts,
) -> Result<(), Failure> {
    if let Some(ended) = ended {
        unnamed.add(ended.map_err(|error| interrupted(&error))??);
    }
    Ok(())
}

/// Reads each tree to its end and sends nothing.
async fn check_trees(plan: &SubmitPlan) -> Result<(), Failure> {
    let one = |local: Local<PathBuf>| async move {
        let Local::Tree(path) = local else {
            return Ok(());
        };
        let check = move || {
            let manifest = tree::pack(&path, |_| Ok(()))?;
            tree::encoded(&path, &manifest).map(drop)
        };
        let checked = spawn_blocking(check).await;
        let checked = checked.map_err(|error| interrupted(&error))?;
        Ok(checked.map_err(BuildError::from)?)
    };

    parallel::each(plan.locals(), one).await.map(drop)
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
    let bytes = postcard::to_stdvec(what)
        .map_err(|e| Failure::error("internal", "the job cannot be encoded", "").because(e))?;
    if bytes.len() <= MAX_INLINE_SPEC {
        return Ok(None);
    }
    Ok(Some(client.put_bytes(&bytes).await?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::wire::{Refusal, RefusalCode};

    #[test]
    fn a_file_that_changed_while_it_was_sent_is_named() {
        let damaged = LinkError::Damaged {
            expected: "a".to_owned(),
            found: "b".to_owned(),
        };
        let refusal = link::content::refusal_of(&damaged).unwrap();
        let failure = not_sent(Path::new("a.dat"), refusal.into());
        assert_eq!(
            failure.what,
            "a.dat changed while it was sent; nothing was submitted"
        );

        let other = Refusal::new(RefusalCode::Invalid, "too large", "");
        assert_eq!(not_sent(Path::new("a.dat"), other.into()).what, "too large");
    }

    #[test]
    fn a_file_for_which_its_user_has_no_room_is_refused_for_that_reason() {
        let no_room = Refusal::new(RefusalCode::Conflict, "there is room for 1 KiB", "wait");
        let failure = not_sent(Path::new("a.dat"), no_room.into());
        assert_eq!(failure.code, "conflict");
        assert_eq!(failure.what, "there is room for 1 KiB");
        assert_eq!(failure.hint, "wait");
    }
}
