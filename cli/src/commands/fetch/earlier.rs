//! Remembers which files a fetch brought of tasks that had not finished, in the state directory. A later
//! fetch of the job replaces them where nobody has changed them since: a retry has left others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::content::BlobRef;
use common::view::JobView;
use serde::{Deserialize, Serialize};

use crate::state::StateDir;

/// The files that were fetched of a job's unfinished tasks, by their absolute paths.
#[derive(Debug, Default)]
pub(super) struct EarlierFiles {
    place: PathBuf,
    files: BTreeMap<PathBuf, BlobRef>,
}

/// A file in the record, which has a line for each.
#[derive(Serialize, Deserialize)]
struct RecordedFile {
    path: PathBuf,
    content: BlobRef,
}

impl EarlierFiles {
    /// Reads the record of a job; what cannot be read is not known.
    pub(super) fn of(state: &StateDir, job: &JobView) -> Self {
        // Jobs of other grids have the same numbers.
        let name = format!("{}-{}.jsonl", job.job, job.submitted.0);
        let place = state.client().join("fetched").join(name);
        let text = std::fs::read_to_string(&place).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<RecordedFile>(line).ok());
        Self {
            files: lines.map(|line| (line.path, line.content)).collect(),
            place,
        }
    }

    /// Whether this is the content that was fetched to this path.
    pub(super) fn has(&self, path: &Path, content: &BlobRef) -> bool {
        let path = std::path::absolute(path).ok();
        path.and_then(|path| self.files.get(&path)) == Some(content)
    }

    /// Adds a file that is about to be fetched.
    pub(super) fn add(&mut self, path: &Path, content: BlobRef) {
        self.files
            .extend(std::path::absolute(path).map(|path| (path, content)));
    }

    /// Takes out a file whose task has finished.
    pub(super) fn remove(&mut self, path: &Path) {
        if let Ok(path) = std::path::absolute(path) {
            self.files.remove(&path);
        }
    }

    /// Writes the record, if there is anything in it. Where that fails, the user is asked for `--force` later.
    pub(super) fn save(&self) {
        if self.files.is_empty() {
            let _ = std::fs::remove_file(&self.place);
            return;
        }
        let line = |(path, content): (&PathBuf, &BlobRef)| {
            let line = RecordedFile {
                path: path.clone(),
                content: *content,
            };
            Some(serde_json::to_string(&line).ok()? + "\n")
        };

        let text: String = self.files.iter().filter_map(line).collect();
        if let Some(dir) = self.place.parent() {
            let _ = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&self.place, text));
        }
    }
}
