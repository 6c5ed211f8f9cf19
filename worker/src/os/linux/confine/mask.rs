//! The way to an attempt's directory for an account that may not pass where the worker's directory
//! lies: a view of the file system in which whatever bars the way is covered by an empty one, with
//! nothing in it but the attempt's directory and what the owner lets tasks read. Made by a worker
//! that runs as root, and seen by that attempt alone.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The mode bit that lets accounts pass that are neither a file's owner nor in its group.
const OTHERS_PASS: u32 = 0o001;

/// The changes that a new process makes to its view of the file system.
#[derive(Debug)]
pub(in super::super) struct Mask {
    /// The directory that is covered.
    pub over: CString,
    /// The paths that stay visible at their own places; at most [`MOST`].
    pub shown: Vec<CString>,
    /// The places that are made below the cover for them, in this order.
    pub places: Vec<Place>,
}

/// The most paths in [`Mask::shown`].
pub(in super::super) const MOST: usize = 64;

/// Something empty at which something can be shown.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Place {
    Dir(CString),
    File(CString),
}

impl Mask {
    /// For an attempt in `dir`, which may read `readable` too.
    pub(super) fn prepare(dir: &Path, readable: &[String]) -> io::Result<Self> {
        let over = barrier(dir);
        let mut mask = Mask {
            over: c_string(&over)?,
            shown: Vec::new(),
            places: Vec::new(),
        };
        mask.show(dir, &over)?;

        let below = readable
            .iter()
            .map(Path::new)
            .filter(|path| path.starts_with(&over) && path.exists());
        for path in below.take(MOST - 1) {
            mask.show(path, &over)?;
        }

        Ok(mask)
    }

    /// Adds a path.
    fn show(&mut self, path: &Path, over: &Path) -> io::Result<()> {
        let ways: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|way| *way != over)
            .collect();
        for way in ways.into_iter().rev() {
            self.places.push(Place::Dir(c_string(way)?));
        }

        let place = c_string(path)?;
        self.shown.push(place.clone());
        self.places.push(if path.is_dir() {
            Place::Dir(place)
        } else {
            Place::File(place)
        });

        Ok(())
    }
}

/// The first directory on the way that others may not pass, else the one that the attempt's lies
/// in: what it holds belongs to other attempts.
fn barrier(dir: &Path) -> PathBuf {
    let parent = dir.parent().unwrap_or(dir);
    let mut ways: Vec<&Path> = parent.ancestors().collect();
    ways.reverse();
    let passes = |way: &Path| {
        fs::metadata(way).is_ok_and(|meta| meta.permissions().mode() & OTHERS_PASS != 0)
    };
    ways.into_iter()
        .find(|way| !passes(way))
        .unwrap_or(parent)
        .to_owned()
}

fn c_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_covers_the_barrier_and_shows_the_attempt_and_readable_paths() {
        let top = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let (home, dir) = (
            top.path().join("home"),
            top.path().join("home/worker/attempts/1"),
        );
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir(home.join("tools")).unwrap();

        for path in [
            top.path(),
            &home,
            &home.join("worker"),
            &home.join("worker/attempts"),
        ] {
            open(path, 0o755);
        }

        assert_eq!(barrier(&dir), home.join("worker/attempts"));
        open(&home, 0o700);
        assert_eq!(barrier(&dir), home);

        let readable = [home.join("tools"), home.join("absent"), "/usr".into()]
            .map(|p| p.to_str().unwrap().to_owned());
        let mask = Mask::prepare(&dir, &readable).unwrap();
        let shown = [dir, home.join("tools")].map(|path| c_string(&path).unwrap());
        assert_eq!(mask.shown, shown);

        let places = ["worker", "worker/attempts", "worker/attempts/1", "tools"];
        assert_eq!(
            mask.places,
            places.map(|place| Place::Dir(c_string(&home.join(place)).unwrap()))
        );
    }
}
