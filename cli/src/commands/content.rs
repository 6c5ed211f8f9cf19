//! Executes `deskgrid content send`: sends what jobs that are submitted over the API will name.

use std::path::PathBuf;

use common::content::BlobRef;
use serde::Serialize;

use super::Context;
use crate::args::OutputMode;
use crate::args::content::SendArgs;
use crate::failure::{Exit, Failure};
use crate::output::table::Rows;
use crate::parallel;
use crate::session::Session;
use crate::submit::send::send_content;
use crate::transfer::ShownTransfer;

/// The content that was sent, in the order of the arguments.
#[derive(Debug, Serialize)]
struct SentAnswer {
    content: Vec<SentJson>,
}

/// A file or tree that was sent.
#[derive(Debug, Serialize)]
struct SentJson {
    path: String,
    #[serde(flatten)]
    blob: BlobJson,
    /// The content that the list of a tree names; absent for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<BlobJson>>,
}

/// Some content.
#[derive(Debug, Serialize)]
struct BlobJson {
    blake3: String,
    bytes: u64,
}

impl From<BlobRef> for BlobJson {
    fn from(blob: BlobRef) -> Self {
        Self {
            blake3: blob.hash.to_string(),
            bytes: blob.size,
        }
    }
}

/// Sends each path and prints its hash.
pub(super) async fn send(context: &Context, args: SendArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let one = |(at, path): (usize, PathBuf)| {
        let client = session.client().clone();
        async move {
            let (blob, parts) = send_content(&client, &path, args.tree).await?;
            let sent = SentJson {
                path: path.to_string_lossy().into_owned(),
                blob: blob.into(),
                parts: parts.map(|parts| parts.into_iter().map(BlobJson::from).collect()),
            };
            Ok((at, sent))
        }
    };
    let transfer = ShownTransfer {
        verb: "sent",
        total: None,
        shown: context.out.mode() == OutputMode::Cli,
        left: "nothing refers to it yet",
    };
    let sending = parallel::each(args.paths.into_iter().enumerate(), one);
    let mut sent = transfer.run(session.client(), sending).await?;
    sent.sort_by_key(|(at, _)| *at);

    let content = sent.into_iter().map(|(_, sent)| sent).collect();
    let answer = SentAnswer { content };
    let text = || {
        let mut rows = Rows::new(&["BLAKE3", "BYTES", "PATH"], context.out.color());
        for SentJson { path, blob, .. } in &answer.content {
            rows.add([blob.blake3.clone(), blob.bytes.to_string(), path.clone()]);
        }
        rows.text("")
    };
    let hashes = || {
        let hashes = answer.content.iter().map(|sent| sent.blob.blake3.clone());
        hashes.collect()
    };
    context.show(&answer, text, hashes)
}
