//! The output files of an attempt: found by globs below its directory, checked, and copied into the
//! spool.
//!
//! The process tree has ended before. Only regular files of the attempt's own are collected: a
//! symbolic link or a hard link could stand for a file of the owner's.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use common::attempt::OutputFile;
use common::path::{PortablePath, collision};
use common::{Outcome, content};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use walkdir::WalkDir;

use super::PROGRESS_FILE;
use super::checkpoint::CHECKPOINT_DIR;
use super::inputs::PlacedInput;
use crate::os;
use crate::os::files::{self, FileId};
use crate::spool::blobs::Blobs;

/// The space that the list of outputs may take in a completion, in bytes.
const MAX_LIST: usize = 128 * 1024;
/// The largest size of an entry of that list without its path.
const ENTRY: usize = size_of::<content::BlobRef>() + 8;

/// The expected outputs of an attempt.
#[derive(Debug)]
pub(super) struct ExpectedOutputs {
    patterns: Vec<String>,
    set: GlobSet,
    /// The inputs, which are no outputs while they are as they were placed, but where a pattern is
    /// the very path of one.
    pub inputs: BTreeMap<PathBuf, PlacedInput>,
}

/// The collected files.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub files: Vec<OutputFile>,
    /// The outcome that replaces the success of the command, if something is wrong.
    pub problem: Option<Outcome>,
}

impl ExpectedOutputs {
    /// Parses the patterns: `*` and `?` do not match a slash, `**` does.
    pub(super) fn new(patterns: Vec<String>) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for pattern in &patterns {
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            set.add(glob.map_err(|error| format!("its output pattern makes no sense: {error}"))?);
        }
        let set = set
            .build()
            .map_err(|error| format!("its output patterns make no sense: {error}"))?;
        Ok(Self {
            patterns,
            set,
            inputs: BTreeMap::new(),
        })
    }

    /// Whether no output is expected.
    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Copies the matching files into `blobs`. A failed attempt has no problem, whatever is
    /// missing.
    pub(super) fn collect(
        &self,
        dir: &Path,
        blobs: &Blobs,
        limit: u64,
        succeeded: bool,
    ) -> Collected {
        let mut collected = Collected::default();
        let mut matched = vec![false; self.patterns.len()];

        // The attempt may have removed the worker's access rights together with its own.
        files::open_up(dir);
        let problem = match self.survey(dir, limit, &mut matched) {
            Ok(found) => found
                .into_iter()
                .find_map(|file| match file.store(dir, blobs) {
                    Ok(output) => {
                        collected.files.push(output);
                        None
                    }
                    Err(why) => Some(why),
                }),
            Err(why) => Some(Outcome::BadOutput(why)),
        };

        let missing = || {
            matched
                .iter()
                .position(|m| !m)
                .map(|at| Outcome::MissingOutput(self.patterns[at].clone()))
        };
        if succeeded {
            collected.problem = problem.or_else(missing);
        } else if let Some(why) = problem {
            tracing::info!(%why, "an output of a failed attempt was not collected");
        }

        collected
    }

    /// Lists the files to collect.
    fn survey(
        &self,
        dir: &Path,
        limit: u64,
        matched: &mut [bool],
    ) -> Result<Vec<FoundFile>, String> {
        let mut found = Vec::new();
        let mut links = BTreeMap::<FileId, u64>::new();
        for entry in WalkDir::new(dir).min_depth(1).sort_by_file_name() {
            let entry = entry
                .map_err(|error| format!("the attempt's directory cannot be read: {error}"))?;
            let relative = entry.path().strip_prefix(dir).unwrap_or(entry.path());
            let meta = entry
                .metadata()
                .map_err(|error| format!("`{}`: {error}", relative.display()))?;
            if meta.is_file() && files::names_of(&meta) > 1 {
                *links.entry(files::id_of(&meta)).or_default() += 1;
            }

            let hits = self.set.matches(relative);
            // These files are not results, and are handled elsewhere.
            let ours = relative == Path::new(PROGRESS_FILE) || relative.starts_with(CHECKPOINT_DIR);
            if hits.is_empty() || ours {
                continue;
            }

            if meta.is_dir() {
                // A directory itself is not collected, only the files in it that a pattern matches.
                // A pattern that names just the directory is a mistake worth a message.
                let shown = os::slashed(relative).unwrap_or_default();
                if let Some(at) = hits.iter().find(|at| self.patterns[**at].as_str() == shown) {
                    let name = &self.patterns[*at];
                    return Err(format!(
                        "`{name}` is a directory: to collect what lies in it, say `{name}/**`"
                    ));
                }
                continue;
            }

            let literal = |at: &usize| os::slashed(relative).as_ref() == Some(&self.patterns[*at]);
            if self.is_input(relative, &meta) && !hits.iter().any(literal) {
                continue;
            }

            hits.into_iter().for_each(|at| matched[at] = true);
            found.push(FoundFile::check(relative, meta)?);
        }

        // An input that the task gave another name is the worker's file.
        for input in self.inputs.values() {
            links.insert(input.stamp.0, u64::MAX);
        }
        check_together(&found, &links, limit)?;
        Ok(found)
    }

    /// Whether the file is an input that the task left as it was.
    fn is_input(&self, relative: &Path, meta: &Metadata) -> bool {
        let stamp = self.inputs.get(relative).map(|input| input.stamp);
        stamp.is_some_and(|stamp| stamp == files::stamp_of(meta))
    }
}

/// Checks the conditions on all files together.
fn check_together(
    found: &[FoundFile],
    links: &BTreeMap<FileId, u64>,
    limit: u64,
) -> Result<(), String> {
    let foreign = |file: &&FoundFile| {
        let here = links.get(&files::id_of(&file.meta)).copied().unwrap_or(1);
        here < files::names_of(&file.meta)
    };
    if let Some(file) = found.iter().find(foreign) {
        return Err(format!(
            "`{}` is a hard link to a file outside the attempt's directory",
            file.path
        ));
    }

    if let Some(path) = collision(found.iter().map(|file| &file.path)) {
        return Err(format!(
            "`{path}` differs from another output only in upper and lower case"
        ));
    }

    let size: u64 = found.iter().map(|file| file.meta.len()).sum();
    if size > limit {
        return Err(format!(
            "the outputs have {size} bytes together; this worker takes at most {limit}"
        ));
    }

    let list: usize = found
        .iter()
        .map(|file| file.path.as_str().len() + ENTRY)
        .sum();
    if list > MAX_LIST {
        return Err(format!(
            "{} output files are too many for one task: pack them into an archive",
            found.len()
        ));
    }

    Ok(())
}

/// A file to collect.
#[derive(Debug)]
struct FoundFile {
    path: PortablePath,
    meta: Metadata,
}

impl FoundFile {
    fn check(relative: &Path, meta: Metadata) -> Result<Self, String> {
        let Some(name) = os::slashed(relative) else {
            return Err(format!("the name {relative:?} is not UTF-8"));
        };
        let path: PortablePath = name.parse().map_err(|error| format!("{error}"))?;
        if !meta.is_file() {
            return Err(format!(
                "`{path}` is {}, not a regular file",
                files::kind_of(&meta)
            ));
        }
        Ok(Self { path, meta })
    }

    fn store(&self, dir: &Path, blobs: &Blobs) -> Result<OutputFile, Outcome> {
        let stored = || {
            let mut file = files::open_below(dir, Path::new(self.path.as_str()))?;
            let meta = file.metadata()?;
            if files::id_of(&meta) != files::id_of(&self.meta) || !meta.is_file() {
                return Err(io::Error::other("it was exchanged while it was collected"));
            }
            blobs.add(&mut file)
        };
        let blob = stored().map_err(|error| {
            let why = format!("`{}` could not be copied: {error}", self.path);
            super::fault(link::is_full(&error), why, Outcome::BadOutput)
        })?;

        let executable = files::is_executable(&self.meta);
        Ok(OutputFile {
            path: self.path.clone(),
            blob,
            executable,
        })
    }
}

#[cfg(test)]
mod tests;
