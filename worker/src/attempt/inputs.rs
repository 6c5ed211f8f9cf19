//! The input files of an attempt, placed in its directory. Small ones are copied, since the command may
//! write to them. Large ones share the content of the worker's cache where the file system can, or
//! where the task cannot write to the cache's own file: docs/confinement.md has the rules.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use common::Outcome;
use common::path::{PortablePath, plain};
use common::wire::worker::{Command, StagedInput, StagedKind};

use super::fault;
use crate::blocking::{off, yielded};
use crate::cache::Pinned;
use crate::os::{FileStamp, Sharing, files, stamp_of};

/// The size from which an input is shared, in bytes: to copy less costs less than a process.
const LARGE: u64 = 16 << 20;

/// The rules by which the inputs of one attempt are placed.
#[derive(Debug, Clone)]
pub(super) struct Placing {
    sharing: Sharing,
    /// The paths of inputs that are read or collected as files of the attempt's own.
    own: BTreeSet<String>,
}

/// An input in the attempt's directory.
#[derive(Debug)]
pub(super) struct PlacedInput {
    pub path: PortablePath,
    /// The file as it was placed.
    pub stamp: FileStamp,
    /// The worker's file that the task is to see at the path; it stays while this value exists.
    shown: Option<Pinned>,
    /// Whether its content on the disk is that of the worker's file.
    shares: bool,
}

impl Placing {
    /// Takes the rules for a command that is confined so.
    pub(super) fn of(command: &Command, sharing: Sharing) -> Self {
        let stdin = command.stdin.iter().map(|path| path.as_str().to_owned());
        Self {
            sharing,
            own: (command.outputs.iter())
                .filter_map(|pattern| plain(pattern))
                .chain(stdin)
                .collect(),
        }
    }

    /// Places the inputs below `dir`. Returns them, and those that must be fetched again because
    /// what the cache had was damaged.
    pub(super) async fn place(
        &self,
        inputs: Vec<(Pinned, StagedInput)>,
        dir: &Path,
    ) -> Result<(Vec<PlacedInput>, Vec<StagedInput>), Outcome> {
        if inputs.is_empty() {
            return Ok(Default::default());
        }

        let rules = self.clone();
        let dir = dir.to_owned();
        let placed = off(move || rules.place_all(inputs, &dir)).await;
        placed.unwrap_or_else(|error| {
            let why = format!("its inputs cannot be placed: {error}");
            Err(Outcome::NotStarted(why))
        })
    }

    fn place_all(
        &self,
        inputs: Vec<(Pinned, StagedInput)>,
        dir: &Path,
    ) -> Result<(Vec<PlacedInput>, Vec<StagedInput>), Outcome> {
        let mut placed = Vec::with_capacity(inputs.len());
        let mut damaged = Vec::new();

        for (from, input) in inputs {
            match self.place_one(from, &input, dir) {
                Ok(Some(input)) => placed.push(input),
                Ok(None) => damaged.push(input),
                Err(error) => {
                    let why = format!("its input `{}` cannot be placed: {error}", input.path);
                    return Err(fault(link::is_full(&error), why, Outcome::NotStarted));
                }
            }
        }
        Ok((placed, damaged))
    }

    /// Places one input; `None` if it is damaged.
    fn place_one(
        &self,
        from: Pinned,
        input: &StagedInput,
        dir: &Path,
    ) -> io::Result<Option<PlacedInput>> {
        let to = dir.join(&input.path);
        fs::create_dir_all(to.parent().unwrap_or(dir))?;
        let executable = input.kind == StagedKind::Program;
        let mut file = files::create_private(&to, executable)?;
        let large = input.blob.size >= LARGE;
        // The mode is the file's, and other attempts may have the same file without.
        let shared = large && !executable && !self.own.contains(input.path.as_str());

        let mut shown = None;
        let mut whole = true;
        let mut shares = false;
        if large && share(&from, &file, &mut whole)? {
            shares = true;
        } else if whole && shared && self.sharing == Sharing::Mount {
            shown = Some(from);
        } else if whole && shared && self.sharing == Sharing::Link && link(&from, &to) {
            shares = true;
        } else if whole {
            whole = yielded(|| from.copy_to(&mut file))?;
        }

        drop(file);
        if !whole {
            fs::remove_file(&to)?;
            return Ok(None);
        }
        Ok(Some(PlacedInput {
            path: input.path.clone(),
            stamp: stamp_of(&fs::symlink_metadata(&to)?),
            shown,
            shares,
        }))
    }
}

/// Gives the new file the cached content without a copy, and returns whether the system can. Says
/// whether the content is `whole`: what is shared is not hashed each time.
fn share(from: &Pinned, to: &File, whole: &mut bool) -> io::Result<bool> {
    *whole = from.is_whole()?;
    Ok(*whole && files::share(&File::open(from.path())?, to).is_ok())
}

/// Puts a second name of the cached file in the place of the new one, and returns whether that
/// worked. Other accounts can read it then and not write to it.
fn link(from: &Pinned, to: &Path) -> bool {
    // No input has this name: it is not portable.
    let beside = to.with_file_name("|");
    let linked = files::let_read(&from.path()).and_then(|()| fs::hard_link(from.path(), &beside));
    if linked.is_err() {
        return false;
    }

    let renamed = fs::rename(&beside, to);
    if renamed.is_err() {
        let _ = fs::remove_file(beside);
    }
    renamed.is_ok()
}

impl PlacedInput {
    /// Takes an input that was copied.
    #[cfg(test)]
    pub(super) fn of(path: &str, meta: &fs::Metadata) -> Self {
        Self {
            path: path.parse().unwrap(),
            stamp: stamp_of(meta),
            shown: None,
            shares: false,
        }
    }

    /// Returns the stamp of an input whose content on the disk is that of the worker's file.
    pub(super) fn shared(&self) -> Option<FileStamp> {
        self.shares.then_some(self.stamp)
    }

    /// Returns the worker's file that the task is to see in this input's place, if there is one.
    pub(super) fn shown(&self) -> Option<(OsString, String)> {
        let from = self.shown.as_ref()?.path().into_os_string();
        Some((from, self.path.as_str().to_owned()))
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
