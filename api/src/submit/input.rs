//! The inputs of a job as programs name them: by the hashes of content that was sent before.

use std::collections::{BTreeMap, BTreeSet};

use common::BlobRef;
use common::content::BlobHash;
use common::job::{Input, InputKind, InputSource};
use common::platform::PlatformName;
use common::template::Template;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Fields, read, wrong};
use crate::problem::Problem;

/// A file or tree that tasks find in their directory. Its content was sent before.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct InputBody {
    /// Its name below the task's directory, such as `sim`.
    pub(super) name: String,
    /// The hash of the content that all tasks read, with `bytes`.
    blake3: Option<String>,
    /// The length of that content.
    bytes: Option<u64>,
    /// Instead of `blake3`: one content for each task, in the order of the tasks.
    per_task: Option<Vec<Fields<BlobBody>>>,
    /// Instead of `blake3`: one content for each platform, such as `linux-x86_64`.
    per_platform: Option<BTreeMap<String, Fields<BlobBody>>>,
    /// Whether it is a program.
    #[serde(default)]
    executable: bool,
    /// Of a tree, the content that its list names: `deskgrid content send --tree` prints both.
    parts: Option<Vec<Fields<BlobBody>>>,
}

/// Some content.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BlobBody {
    /// Its hash.
    blake3: String,
    /// Its length.
    bytes: u64,
}

impl BlobBody {
    fn blob(&self) -> Result<BlobRef, Problem> {
        let hash: BlobHash = read("input", &self.blake3)?;
        let size = self.bytes;
        Ok(BlobRef { hash, size })
    }
}

impl InputBody {
    /// Makes the input of a job, whose `name` was read already.
    pub(super) fn input(&self, name: Template) -> Result<Input, Problem> {
        Ok(Input {
            name,
            kind: self.kind()?,
            source: self.source()?,
        })
    }

    fn kind(&self) -> Result<InputKind, Problem> {
        match &self.parts {
            None => Ok(InputKind::file(self.executable)),
            Some(_) if self.executable => Err(wrong(
                "input",
                &"a tree has programs of its own, and is none",
            )),
            Some(parts) => {
                let parts: BTreeSet<BlobRef> = blobs(parts)?.into_iter().collect();
                let parts = parts.into_iter().collect();
                Ok(InputKind::Tree { parts })
            }
        }
    }

    fn source(&self) -> Result<InputSource, Problem> {
        let shared = (&self.blake3, self.bytes);
        match (shared, &self.per_task, &self.per_platform) {
            ((Some(hash), Some(size)), None, None) => Ok(InputSource::Shared(BlobRef {
                hash: read("input", hash)?,
                size,
            })),
            ((None, None), Some(each), None) => blobs(each).map(InputSource::PerTask),
            ((None, None), None, Some(builds)) => {
                let build = |(platform, Fields(blob)): (&String, &Fields<BlobBody>)| {
                    let platform: PlatformName = read("per-platform", platform)?;
                    Ok((platform, blob.blob()?))
                };
                let builds = builds.iter().map(build).collect::<Result<_, Problem>>();
                builds.map(InputSource::PerPlatform)
            }
            _ => Err(wrong(
                "input",
                &"give either `blake3` and `bytes`, or `per-task`, or `per-platform`",
            )),
        }
    }
}

fn blobs(given: &[Fields<BlobBody>]) -> Result<Vec<BlobRef>, Problem> {
    given.iter().map(|blob| blob.0.blob()).collect()
}
