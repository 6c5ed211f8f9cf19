//! The file with the settings from the master: `site.json` in the worker's directory, replaced as a
//! whole and synced. One that cannot be read is begun anew: the owner's own settings hold, and the
//! master sends its own again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use common::Time;
use common::site::{SiteAnswer, SiteChange, SiteRefusal, SiteSettings, SiteText};
use common::time::iso;
use serde::{Deserialize, Serialize};

use crate::json_file;

/// The file in the worker's directory.
const FILE: &str = "site.json";
/// The most changes that are kept.
const CHANGES: usize = 50;

/// The content of the file.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptSite {
    /// Counts the changes of this run, so that an older one never replaces a newer one.
    #[serde(skip)]
    version: u64,
    /// The texts that hold.
    pub(super) texts: Vec<SiteText>,
    /// Their settings.
    pub(super) settings: Vec<KeptSetting>,
    /// The changes, the oldest first.
    pub(super) changes: Vec<SiteChange>,
    /// The last answer to the master.
    pub(super) answered: Option<SiteAnswer>,
    /// The refusal, if that was the answer.
    pub(super) refused: Option<SiteRefusal>,
}

/// A setting in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptSetting {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) scope: String,
    /// The time at which this value came.
    pub(super) since: String,
}

/// The content of the file at one time.
#[derive(Debug)]
pub(crate) struct SiteRecord(KeptSite);

/// The place of the file.
#[derive(Debug, Clone)]
pub(crate) struct SiteFile {
    path: PathBuf,
    /// The version that was written last.
    written: Arc<Mutex<u64>>,
}

impl KeptSite {
    /// Replaces the settings (key, value, scope) and returns what has changed.
    pub(super) fn replace(
        &mut self,
        new: SiteSettings,
        settings: Vec<(String, String, String)>,
        now: Time,
    ) -> Vec<SiteChange> {
        let at = iso(now);
        let mut before = std::mem::take(&mut self.settings);
        let mut changes = Vec::new();
        for (key, value, scope) in settings {
            let place = before
                .iter()
                .position(|old| old.key == key && old.scope == scope);
            let old = place.map(|place| before.swap_remove(place));
            let since = match old {
                Some(old) if old.value == value => old.since,
                old => {
                    changes.push(SiteChange {
                        at: at.clone(),
                        key: key.clone(),
                        scope: scope.clone(),
                        was: old.map(|old| old.value),
                        is: Some(value.clone()),
                    });
                    at.clone()
                }
            };
            self.settings.push(KeptSetting {
                key,
                value,
                scope,
                since,
            });
        }

        let withdrawn = before.into_iter().map(|old| SiteChange {
            at: at.clone(),
            key: old.key,
            scope: old.scope,
            was: Some(old.value),
            is: None,
        });
        changes.extend(withdrawn);
        self.changes.extend(changes.iter().cloned());
        let old = self.changes.len().saturating_sub(CHANGES);
        self.changes.drain(..old);
        self.texts = new.texts;
        changes
    }

    /// Notes the answer to the master's settings of this number.
    pub(super) fn answer(&mut self, digest: u64, why: Option<String>, now: Time) -> SiteAnswer {
        let answer = SiteAnswer {
            digest,
            refused: why,
        }
        .sound();
        self.refused = answer
            .refused
            .clone()
            .map(|why| SiteRefusal { at: iso(now), why });
        self.version += 1;
        self.answered = Some(answer.clone());
        answer
    }

    pub(super) fn record(&self) -> SiteRecord {
        SiteRecord(self.clone())
    }

    /// Returns the number of changes so far in this run.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the texts, as the master sent them.
    pub(super) fn sent(&self) -> SiteSettings {
        SiteSettings {
            digest: 0,
            texts: self.texts.clone(),
        }
    }
}

impl SiteFile {
    /// The file in this directory of a worker.
    pub(crate) fn below(dir: &Path) -> Self {
        Self {
            path: dir.join(FILE),
            written: Arc::default(),
        }
    }

    /// Reads what an earlier run kept.
    pub(super) fn read(&self) -> KeptSite {
        let kept = json_file::read(&self.path).unwrap_or_else(|error| {
            tracing::warn!(%error, path = %self.path.display(), "settings from the master are unknown until it says them again");
            None
        });
        kept.unwrap_or_default()
    }

    /// Replaces the content of the file, unless a newer one is there already. May wait for a disk.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, record: &SiteRecord) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if record.0.version <= *written {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(&record.0)?;
        link::files::write_whole(&self.path, &text, 0o600)?;
        *written = record.0.version;
        Ok(())
    }
}
