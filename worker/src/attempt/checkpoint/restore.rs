//! Places a checkpoint for an attempt that goes on from it. Every byte is verified as it is copied:
//! of a damaged checkpoint nothing is used, and its content can be fetched again.

use std::io;
use std::path::Path;
use std::sync::Arc;

use common::BlobRef;
use common::checkpoint::{MAX_MANIFEST, Saved};
use common::manifest::{ListedFile, Manifest};
use common::units::Bytes;
use link::files::unless_gone;

use super::Bounds;
use crate::blocking::{off, yielding};
use crate::cache::{Cache, Pinned};
use crate::os::{self, files};

/// The reason why a checkpoint is not placed, for people.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::attempt) enum NotRestored {
    /// The disk of this host is full: the checkpoint may be used elsewhere, or later.
    NoRoom(String),
    /// Some of it was damaged in the cache, and is not there any more: it can be fetched again.
    Damaged(String),
    /// It cannot be used here.
    Unusable(String),
}

impl NotRestored {
    fn of(disk_full: bool, why: String) -> Self {
        if disk_full {
            Self::NoRoom(why)
        } else {
            Self::Unusable(why)
        }
    }
}

impl From<String> for NotRestored {
    fn from(why: String) -> Self {
        Self::Unusable(why)
    }
}

/// The files of a checkpoint, on this host and not placed.
#[derive(Debug, Default)]
pub(in crate::attempt) struct FetchedState(Vec<(Pinned, ListedFile)>);

impl FetchedState {
    /// Brings the files of a checkpoint to this host. Writes nothing else, and may be dropped.
    pub(in crate::attempt) async fn fetch(
        cache: &Arc<Cache>,
        saved: &Saved,
        bounds: Bounds,
    ) -> Result<Self, NotRestored> {
        let list = fetch(cache, saved.manifest, "its list of files", MAX_MANIFEST).await?;
        let expected = saved.manifest;
        let manifest = off(move || read(&list, expected));
        let manifest = manifest.await.map_err(|panic| panic.to_string())??;
        bounds.object(manifest.files.len(), manifest.bytes())?;

        let mut here = Vec::with_capacity(manifest.files.len());
        for file in manifest.files {
            here.push((
                fetch(cache, file.blob, file.path.as_str(), bounds.bytes).await?,
                file,
            ));
        }
        Ok(Self(here))
    }

    /// Makes the directory `dir`, and places the checkpoint in it. If that fails, the directory is
    /// gone. It has to be awaited: dropped, it goes on to write, beside the directory's removal.
    pub(in crate::attempt) async fn place(self, dir: &Path) -> io::Result<Result<(), NotRestored>> {
        let dir = dir.to_owned();
        let work = move || {
            files::make_private_dir(&dir)?;
            let placed = (self.0.iter()).try_for_each(|(from, file)| place(from, file, &dir));
            if placed.is_err() {
                os::remove_tree(&dir)?;
            }
            Ok(placed)
        };
        yielding(work).await?
    }
}

async fn fetch(
    cache: &Arc<Cache>,
    blob: BlobRef,
    what: &str,
    most: u64,
) -> Result<Pinned, NotRestored> {
    if blob.size > most {
        return Err(format!("`{what}` has {}", Bytes(blob.size)).into());
    }
    cache.fetch(blob).await.map_err(|error| {
        let why = format!("`{what}` cannot be fetched: {error}");
        NotRestored::of(error.is_full(), why)
    })
}

fn read(list: &Pinned, expected: BlobRef) -> Result<Manifest, NotRestored> {
    let damaged = || NotRestored::Damaged("its list of files is damaged".to_owned());
    let bytes = unless_gone(std::fs::read(list.path()))
        .map_err(|error| format!("its list of files cannot be read: {error}"))?
        // Another attempt has found it damaged and removed it.
        .ok_or_else(damaged)?;

    if link::content::hash_bytes(&bytes) != expected {
        list.discard();
        return Err(damaged());
    }
    Manifest::of_state(&bytes).map_err(|bad| bad.to_string().into())
}

fn place(from: &Pinned, file: &ListedFile, dir: &Path) -> Result<(), NotRestored> {
    let to = dir.join(&file.path);
    let copied = || {
        std::fs::create_dir_all(to.parent().unwrap_or(dir))?;
        let mut place = files::create_private(&to, file.executable)?;
        from.copy_to(&mut place)
    };
    match copied() {
        Ok(true) => Ok(()),
        Ok(false) => Err(NotRestored::Damaged(format!("`{}` is damaged", file.path))),
        Err(error) => {
            let why = format!("`{}` cannot be placed: {error}", file.path);
            Err(NotRestored::of(link::is_full(&error), why))
        }
    }
}
