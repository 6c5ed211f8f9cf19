//! The directory of new programs, `program` in the worker's own: each under its hash, and the file that
//! says what they are ([`TakenPrograms`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use common::BlobRef;
use common::content::BlobHash;
use common::update::UpdateStatement;
use link::content::hash_file;

use super::TakenPrograms;
use crate::blocking::off;
use crate::json_file;

/// The directory, below the worker's.
const DIR: &str = "program";
/// The file in it, of [`TakenPrograms`].
const FILE: &str = "programs.json";

/// The place of new programs.
#[derive(Debug, Clone)]
pub(crate) struct ProgramDir(PathBuf);

impl ProgramDir {
    /// The one below this directory of a worker.
    pub(crate) fn below(dir: &Path) -> Self {
        Self(dir.join(DIR))
    }

    /// Reads the [`TakenPrograms`]. A file that cannot be read is begun anew: then the installed program runs.
    pub(crate) fn read(&self) -> TakenPrograms {
        let path = self.0.join(FILE);
        let kept = json_file::read(&path).unwrap_or_else(|error| {
            tracing::warn!(%error, path = %path.display(), "the installed program runs");
            None
        });
        kept.unwrap_or_default()
    }

    /// Replaces the file as a whole, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self, programs: &TakenPrograms) -> io::Result<()> {
        self.make()?;
        let text = serde_json::to_vec_pretty(programs)?;
        link::files::write_whole(&self.0.join(FILE), &text, 0o600)
    }

    /// Makes the directory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn make(&self) -> io::Result<()> {
        link::files::private_dir(&self.0)
    }

    /// Returns the path of the program with this content.
    pub(crate) fn path_of(&self, hash: &BlobHash) -> PathBuf {
        self.0.join(hash.to_string())
    }

    /// Whether the program with this content is here, whole.
    ///
    /// # Errors
    /// If it is not, with the reason.
    pub(crate) fn sound(&self, blob: &BlobRef) -> Result<(), String> {
        match hash_file(&self.path_of(&blob.hash)) {
            Ok(found) if found == *blob => Ok(()),
            Ok(_) => Err("its file was changed".to_owned()),
            Err(error) => Err(format!("its file is not here: {error}")),
        }
    }

    /// Removes programs that nobody needs any more, and what has come of others.
    pub(crate) fn tidy(&self, programs: &TakenPrograms) {
        let needed: Vec<String> = programs.needed().iter().map(BlobHash::to_string).collect();
        let Ok(entries) = fs::read_dir(&self.0) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name != FILE && !needed.iter().any(|kept| name == **kept) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Makes the file of this program executable, durably, and asks it for its version, which must be the
    /// one that was signed.
    ///
    /// # Errors
    /// With the reason why it cannot run here.
    pub(crate) async fn ready(&self, of: &UpdateStatement) -> Result<(), String> {
        let path = self.path_of(&of.blob.hash);
        let dir = self.clone();
        let file = path.clone();
        let kept = off(move || dir.sync(&file)).await.flatten();
        kept.map_err(|error| format!("its file cannot be kept: {error}"))?;

        let says = super::keeper::version_of(&path).await?;
        let version = of.version.to_string();
        if says.split_whitespace().next_back() == Some(&*version) {
            return Ok(());
        }
        let says: String = says.trim().chars().take(60).collect();
        Err(format!(
            "it is not the signed version {version}: it says `{says}`"
        ))
    }

    /// Makes the file of a program durable, as one that may be executed.
    fn sync(&self, path: &Path) -> io::Result<()> {
        #[cfg(unix)]
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        fs::File::open(path)?.sync_all()?;
        link::files::sync_dir(&self.0)
    }
}
