//! The file of the [`Diary`]: replaced as a whole, seldom, and never synced, since it is not worth
//! waking the disk of a PC for. Only the worker's account may read it: it tells when somebody was at
//! the PC. A file that cannot be read is begun anew.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use common::Time;

use super::Diary;
use crate::json_file;

/// The file in the worker's directory.
const FILE: &str = "today.json";

/// The place of the file.
#[derive(Debug, Clone)]
pub(crate) struct DiaryFile(PathBuf);

impl DiaryFile {
    /// The file in this directory of a worker.
    pub(crate) fn below(dir: &Path) -> Self {
        Self(dir.join(FILE))
    }

    /// Reads what an earlier run left, which ran until `alive` at least.
    pub(crate) fn read(&self, alive: Time) -> Diary {
        let kept = json_file::read::<Diary>(&self.0).unwrap_or_else(|error| {
            tracing::warn!(%error, path = %self.0.display(), "today's use is counted anew");
            None
        });
        kept.map_or_else(Diary::default, |diary| diary.resumed(alive))
    }

    /// Replaces the content of the file.
    pub(crate) fn write(&self, text: &[u8]) {
        let aside = self.0.with_extension("new");
        let replace = || {
            let _ = fs::remove_file(&aside);
            link::files::create_private(&aside)?.write_all(text)?;
            fs::rename(&aside, &self.0)
        };
        if let Err(error) = replace() {
            tracing::warn!(%error, path = %self.0.display(), "today's use cannot be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use common::Span;

    use super::*;

    #[test]
    fn a_damaged_file_is_begun_anew_and_a_whole_one_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let file = DiaryFile::below(dir.path());
        let mut diary = file.read(Time(0));
        diary.rule(Time(7), None, 3);
        diary.rule(Time(9), None, 2);
        file.write(&serde_json::to_vec(&diary).unwrap());
        assert!(link::files::is_private(&dir.path().join(FILE)).unwrap());
        let read = file.read(Time(0) + Span::from_secs(1));
        assert_eq!(read.rules.len(), 2);

        file.write(b"{\"sums\": 3}");
        assert!(file.read(Time(0)).rules.is_empty());
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 1, "nothing else stays there");
    }
}
