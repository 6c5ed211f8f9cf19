//! The mark: a small file beside the store with the number of commits that the store has reached. A
//! store with fewer commits is not the one that the master left. The mark is written after the
//! commit is durable, so a crash leaves it behind the store, not ahead of it.
//!
//! The file has two places that are written in turn, each a sector of its own with a checksum. If
//! one of them is torn by a power failure, the other is still readable. [`crate::whole`] decides
//! what follows from the mark.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use link::files;
use uuid::Uuid;

const FILE: &str = "mark";
const PLACE: usize = 512;

/// The content of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marked {
    /// The grid to which the store belongs.
    pub(crate) grid: Uuid,
    /// The number of transactions that were committed, at least.
    pub(crate) commits: u64,
    /// BLAKE3 of the store's file, if it was closed in order and not opened since.
    pub(crate) whole: Option<[u8; 32]>,
}

/// An open mark file that [`Mark::note`] keeps up to date.
pub(crate) struct Mark {
    file: File,
    marked: Marked,
    /// The number of writes so far. Its parity selects the place.
    turn: u64,
    /// Whether a failed write was logged already.
    told: bool,
}

impl Marked {
    /// Formats the mark for one place: a line of text with a checksum, padded with blanks.
    fn to_place(self, turn: u64) -> [u8; PLACE] {
        let Self {
            grid,
            commits,
            whole,
        } = self;
        let whole = whole.map_or_else(
            || "open".to_owned(),
            |hash| blake3::Hash::from(hash).to_string(),
        );
        let text = format!("deskgrid mark {turn} {grid} {commits} {whole}");
        let line = format!("{text} {}\n", sum(&text));
        let mut place = [b' '; PLACE];
        place[..line.len()].copy_from_slice(line.as_bytes());

        place
    }

    fn of_place(place: &[u8]) -> Option<(u64, Self)> {
        let line = std::str::from_utf8(place).ok()?.trim_end();
        let (text, found) = line.rsplit_once(' ')?;
        if found != sum(text) {
            return None;
        }

        let mut words = text.strip_prefix("deskgrid mark ")?.split(' ');
        let turn = words.next()?.parse().ok()?;
        let grid = words.next()?.parse().ok()?;
        let commits = words.next()?.parse().ok()?;
        let whole = match words.next()? {
            "open" => None,
            hash => Some(*blake3::Hash::from_hex(hash).ok()?.as_bytes()),
        };

        Some((
            turn,
            Self {
                grid,
                commits,
                whole,
            },
        ))
    }
}

fn sum(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

fn newest(file: &File) -> io::Result<Option<(u64, Marked)>> {
    let mut bytes = [0; 2 * PLACE];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    let places = bytes[..filled].chunks(PLACE);
    Ok(places
        .filter_map(Marked::of_place)
        .max_by_key(|(turn, _)| *turn))
}

impl Mark {
    /// Reads the mark in `home`. Returns `None` if there is none, or none that can be read.
    pub(crate) fn read(home: &Path) -> io::Result<Option<Marked>> {
        match files::unless_gone(File::open(home.join(FILE)))? {
            Some(file) => Ok(newest(&file)?.map(|(_, marked)| marked)),
            None => Ok(None),
        }
    }

    /// Writes the mark in `home` and syncs it.
    pub(crate) fn write(home: &Path, marked: Marked) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(home.join(FILE))?;
        let turn = newest(&file)?.map_or(0, |(turn, _)| turn);
        let mut mark = Self {
            file,
            marked,
            turn,
            told: false,
        };
        mark.put()?;
        mark.file.sync_all()?;
        files::sync_dir(home)?;

        Ok(mark)
    }

    /// Writes down that `commits` transactions are durable. This write is not synced, so after a
    /// power failure the mark may have a lower number. A failure is logged once.
    pub(crate) fn note(&mut self, commits: u64) {
        self.marked.commits = commits;
        if let Err(error) = self.put()
            && !std::mem::replace(&mut self.told, true)
        {
            tracing::warn!(%error, "it cannot be noted beside the store how far it got");
        }
    }

    fn put(&mut self) -> io::Result<()> {
        self.turn += 1;
        let at = if self.turn.is_multiple_of(2) {
            0
        } else {
            PLACE as u64
        };
        self.file.write_all_at(&self.marked.to_place(self.turn), at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKED: Marked = Marked {
        grid: Uuid::nil(),
        commits: 7,
        whole: Some([9; 32]),
    };

    #[test]
    fn the_newest_word_is_read_and_a_torn_one_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Mark::read(dir.path()).unwrap(), None);

        let mut mark = Mark::write(dir.path(), MARKED).unwrap();
        assert_eq!(Mark::read(dir.path()).unwrap(), Some(MARKED));
        for commits in 8..20 {
            mark.note(commits);
            assert_eq!(
                Mark::read(dir.path()).unwrap(),
                Some(Marked { commits, ..MARKED })
            );
        }

        let path = dir.path().join(FILE);
        let bytes = std::fs::read(&path).unwrap();
        for at in [0, PLACE] {
            let mut torn = bytes.clone();
            torn[at + 20..at + 40].fill(b'x');
            std::fs::write(&path, torn).unwrap();
            let left = Mark::read(dir.path()).unwrap().unwrap().commits;
            assert!((18..=19).contains(&left), "{left}");
        }

        std::fs::write(&path, [0; PLACE]).unwrap();
        assert_eq!(Mark::read(dir.path()).unwrap(), None);

        let open = Marked {
            whole: None,
            ..MARKED
        };
        Mark::write(dir.path(), open).unwrap();
        assert_eq!(
            Mark::read(dir.path()).unwrap(),
            Some(open),
            "what cannot be read is written anew"
        );
    }
}
