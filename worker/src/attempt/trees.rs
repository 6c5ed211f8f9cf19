//! The trees of an attempt: directories of the worker's cache that the command sees at their paths
//! and cannot write to. From `namespace` on each is mounted read-only there; at the levels below a
//! symbolic link leads to it, and the command's account or Landlock keep it from writing. Where
//! neither can be, the command gets a copy.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use common::Outcome;
use common::path::{PortablePath, is_inside};
use common::wire::worker::{StagedInput, StagedKind};
use walkdir::WalkDir;

use super::fault;
use crate::blocking::yielding;
use crate::cache::PinnedTree;
use crate::os::{Confines, TreeSharing, files};

/// A tree at its path in an attempt's directory. It stays in the cache while this value exists.
#[derive(Debug)]
pub(super) struct PlacedTree {
    path: PortablePath,
    tree: PinnedTree,
    sharing: TreeSharing,
}

/// Takes the trees out of the inputs.
///
/// # Errors
/// If an input would lie in a tree: the reason for people.
pub(super) fn take_from(inputs: &mut Vec<StagedInput>) -> Result<Vec<StagedInput>, String> {
    for tree in inputs.iter().filter(|input| input.kind == StagedKind::Tree) {
        let of_tree = |other: &&StagedInput| is_inside(other.path.as_str(), tree.path.as_str());
        if let Some(other) = inputs.iter().find(of_tree) {
            return Err(format!(
                "its input `{}` would lie in the tree `{}`, which nothing can be added to",
                other.path, tree.path
            ));
        }
    }
    let trees = inputs.extract_if(.., |input| input.kind == StagedKind::Tree);
    Ok(trees.collect())
}

impl PlacedTree {
    /// Places a tree below the attempt's directory `dir`.
    pub(super) async fn place(
        path: PortablePath,
        tree: PinnedTree,
        sharing: TreeSharing,
        dir: &Path,
    ) -> Result<Self, Outcome> {
        let (from, to) = (tree.path().to_owned(), dir.join(&path));
        let top = dir.to_owned();
        let work = move || {
            fs::create_dir_all(to.parent().unwrap_or(&top))?;
            match sharing {
                TreeSharing::Mount => fs::create_dir(&to),
                TreeSharing::Link => files::make_link(&from.to_string_lossy(), &to),
                TreeSharing::Copy => copy(&from, &to),
            }
        };

        match yielding(work).await.flatten() {
            Ok(()) => Ok(Self {
                path,
                tree,
                sharing,
            }),
            Err(error) => {
                let why = format!("its tree `{path}` cannot be placed: {error}");
                Err(fault(link::is_full(&error), why, Outcome::NotStarted))
            }
        }
    }

    /// Lets the command see the tree, by its [`Confines`].
    pub(super) fn show(&self, confines: &mut Confines) {
        let from = self.tree.path();
        match self.sharing {
            TreeSharing::Mount => {
                let shown: (OsString, String) = (from.into(), self.path.as_str().to_owned());
                confines.shown.push(shown);
            }
            TreeSharing::Link => confines.readable.push(from.to_string_lossy().into_owned()),
            TreeSharing::Copy => {}
        }
    }

    /// Returns the path of the link that leads to the tree, which is no output of the command's;
    /// `None` if the tree is not linked.
    pub(super) fn link(&self) -> Option<(PathBuf, PathBuf)> {
        let at = PathBuf::from(self.path.as_str());
        (self.sharing == TreeSharing::Link).then(|| (at, self.tree.path().to_owned()))
    }
}

/// Copies a tree ([`TreeSharing::Copy`]); the command may write to the copy.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in WalkDir::new(from) {
        let entry = entry?;
        let at = to.join(entry.path().strip_prefix(from).unwrap_or(entry.path()));

        if entry.file_type().is_dir() {
            fs::create_dir(&at)?;
        } else if entry.file_type().is_symlink() {
            files::make_link(&fs::read_link(entry.path())?.to_string_lossy(), &at)?;
        } else {
            let meta = entry.metadata()?;
            let mut file = files::create_private(&at, files::is_executable(&meta))?;
            io::copy(&mut File::open(entry.path())?, &mut file)?;
            file.set_modified(meta.modified()?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use common::BlobRef;
    use common::content::BlobHash;

    use super::*;

    fn input(path: &str, kind: StagedKind) -> StagedInput {
        let blob = BlobRef {
            hash: BlobHash([1; 32]),
            size: 1,
        };
        StagedInput {
            path: path.parse().unwrap(),
            blob,
            kind,
        }
    }

    #[test]
    fn nothing_is_placed_in_a_tree() {
        use StagedKind::{File, Tree};
        let mut good = vec![
            input("env", Tree),
            input("environment/x", File),
            input("d/other", Tree),
        ];
        assert_eq!(take_from(&mut good).map(|trees| trees.len()), Ok(2));
        assert_eq!(good, [input("environment/x", File)]);

        for (path, kind) in [("env/x", File), ("ENV/x/y", Tree)] {
            let mut bad = vec![input(path, kind), input("env", Tree)];
            let why = take_from(&mut bad).expect_err("it would be written into the cache");
            assert!(why.contains(path) && why.contains("`env`"), "{why}");
        }
    }

    #[test]
    fn a_copied_tree_is_the_same_and_may_be_written_to() {
        let top = tempfile::tempdir().unwrap();
        let (from, to) = (top.path().join("from"), top.path().join("to"));
        fs::create_dir_all(from.join("d/empty")).unwrap();
        fs::write(from.join("d/x"), "text").unwrap();
        let file = File::open(from.join("d/x")).unwrap();
        files::seal(&file, true).unwrap();
        copy(&from, &to).unwrap();

        let meta = fs::metadata(to.join("d/x")).unwrap();
        assert_eq!(
            meta.modified().unwrap(),
            file.metadata().unwrap().modified().unwrap()
        );
        assert!(to.join("d/empty").is_dir() && (cfg!(windows) || files::is_executable(&meta)));
        fs::write(to.join("d/x"), "other").unwrap();
        assert_eq!(fs::read(from.join("d/x")).unwrap(), b"text");
    }
}
