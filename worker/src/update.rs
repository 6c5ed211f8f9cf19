//! New programs for this worker from its master: what is taken, and which program a start is to run.
//!
//! The installed program is never replaced: a new one lies in the worker's directory, below `program`, and
//! the installed one starts it as its child ([`keeper`]). A new one is on trial until it has reached the
//! master. Where it ends twice before, or is too late twice, the one before it runs again, and that content is not tried any more.
//! Everything is decided from one file (`TakenPrograms`), which is replaced as a whole and synced, so that a worker that is
//! killed at any moment starts again.

pub mod keeper;
mod kept;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::OnceLock;

use common::BlobRef;
use common::content::BlobHash;
use common::time::iso;
use common::update::{
    ProgramVersion, SignedUpdate, UpdateEvent, UpdateKey, UpdateReport, UpdateStatement,
};
use link::content::hash_file;
use link::signing::verified;
use serde::{Deserialize, Serialize};

use crate::config::Config;
pub(crate) use kept::ProgramDir;
use link::wall_clock;

/// The most times that a program on trial may end before it has reached the master.
const ENDS: u32 = 2;
/// The most starts of a program on trial, those included that somebody else ended, such as a power cut.
const STARTS: u32 = 6;
/// The most times that a program on trial may be too late at the master: the master may be what was away.
const LATE: usize = 2;
/// The most times in a row that a program that has come up may break within [`keeper::SOON`] of its start.
const BREAKS: u32 = 3;
/// The most failed programs, and the most events, that are kept.
const KEPT: usize = 50;

/// The reason of a worker whose owner says `updates = false`.
const NOT_TAKEN: &str = "the owner of this PC takes no new programs from the master (updates = false in its worker.toml)";
/// The reason of a worker without an [`UpdateKey`].
const NO_KEY: &str = "this PC knows no key for updates: it joined before there was one. Its worker.toml can name it: update_key = \"du1.…\"";
/// The reason of a worker on a system without this.
const NOT_HERE: &str =
    "workers on Windows take no programs from the master: install the newer package";

/// A program that was taken, with the signed words that say so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TakenProgram {
    pub(crate) signed: SignedUpdate,
    /// The version of the installed program when it was taken.
    pub(crate) installed: ProgramVersion,
}

/// A program that did not come up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedProgram {
    pub(crate) hash: BlobHash,
    pub(crate) why: String,
    /// Whether it was only too late at the master.
    #[serde(default)]
    pub(crate) late: bool,
}

/// The new programs of a worker, as its file has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TakenPrograms {
    /// The one that runs in place of the installed one.
    pub(crate) current: Option<TakenProgram>,
    /// The one that is tried from the next start on.
    pub(crate) trial: Option<TakenProgram>,
    /// The starts of `trial` so far, and how many of them it ended by itself.
    pub(crate) starts: u32,
    pub(crate) ends: u32,
    /// How many times in a row `current` has broken soon after its start.
    pub(crate) breaks: u32,
    /// Those that are not tried again as `trial`, the oldest first.
    pub(crate) failed: Vec<FailedProgram>,
    /// The events, the oldest first.
    pub(crate) events: Vec<UpdateEvent>,
}

/// The program that a start is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgramChoice {
    /// The installed one.
    Installed,
    /// This one, which has come up before.
    Current(UpdateStatement),
    /// This one, for the first or second time.
    Trial(UpdateStatement),
}

/// The version of the program that runs.
pub(crate) fn running() -> ProgramVersion {
    let version = common::update::program_version().parse();
    version.unwrap_or(ProgramVersion(0, 0, 0))
}

/// Says why a program of the version that runs is not that program. `None`: it is, as far as this can be told.
pub(crate) fn other_content(of: &UpdateStatement) -> Option<String> {
    static RUNS: OnceLock<Option<BlobRef>> = OnceLock::new();
    let runs = RUNS.get_or_init(|| {
        // The file may have been replaced by a package meanwhile.
        let here = match cfg!(target_os = "linux") {
            true => PathBuf::from("/proc/self/exe"),
            false => std::env::current_exe().ok()?,
        };
        hash_file(&here).ok()
    });
    runs.is_some_and(|runs| runs != of.blob).then(|| {
        format!(
            "version {} runs here already, with other content: give each program a version of its own",
            of.version
        )
    })
}

/// Returns the platform of this program, as an [`UpdateStatement`] names it.
pub(crate) fn platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Returns the key that updates are checked with: the owner's own word, or the one learned when joining.
pub(crate) fn key_of(config: &Config, learned: Option<UpdateKey>) -> Result<UpdateKey, String> {
    if config.update_key.is_empty() {
        return learned.ok_or_else(|| NO_KEY.to_owned());
    }
    let named = config.update_key.parse();
    named.map_err(|bad: common::update::BadUpdate| format!("update_key in worker.toml: {bad}"))
}

/// Decides whether an update may be taken over the program of `running`, from the words about it alone.
///
/// # Errors
/// With the reason against it.
pub(crate) fn admit(
    update: &SignedUpdate,
    config: &Config,
    learned: Option<UpdateKey>,
    running: ProgramVersion,
) -> Result<UpdateStatement, String> {
    if !config.updates {
        return Err(NOT_TAKEN.to_owned());
    }
    if cfg!(windows) {
        return Err(NOT_HERE.to_owned());
    }

    let statement = verified(update, &key_of(config, learned)?)?;
    let here = platform();
    if statement.platform.as_str() != here {
        let of = statement.platform.as_str();
        return Err(format!("it is for {of}, and this PC is {here}"));
    }
    match statement.refused_over(running) {
        Some(why) => Err(why),
        None => Ok(statement),
    }
}

impl TakenPrograms {
    /// Notes what happened.
    pub(crate) fn note(&mut self, version: ProgramVersion, what: impl Into<String>) {
        let what = what.into();
        tracing::info!(%version, what, "the worker's program");
        self.events.push(UpdateEvent {
            at: iso(wall_clock()),
            version: version.to_string(),
            what,
        });
        let old = self.events.len().saturating_sub(KEPT);
        self.events.drain(..old);
    }

    /// Makes a program that is here and checked the `trial`.
    pub(crate) fn try_next(
        &mut self,
        signed: SignedUpdate,
        of: &UpdateStatement,
        installed: ProgramVersion,
    ) {
        self.trial = Some(TakenProgram { signed, installed });
        (self.starts, self.ends) = (0, 0);
        self.note(
            of.version,
            "came from the master, signed, and is tried at the next start",
        );
    }

    /// The `trial` has reached the master.
    pub(crate) fn confirm(&mut self, of: &UpdateStatement) {
        self.current = self.trial.take();
        (self.starts, self.ends, self.breaks) = (0, 0, 0);
        self.note(of.version, "runs, and has reached the master");
    }

    /// The `trial` did not come up, or was only `late`.
    pub(crate) fn fail(&mut self, of: &UpdateStatement, why: &str, late: bool) {
        self.trial = None;
        (self.starts, self.ends) = (0, 0);
        self.failed.push(FailedProgram {
            hash: of.blob.hash,
            why: why.to_owned(),
            late,
        });
        let old = self.failed.len().saturating_sub(KEPT);
        self.failed.drain(..old);
        self.note(of.version, format!("was given up: {why}"));
    }

    /// `current` broke soon after its start. Returns whether it runs no more.
    pub(crate) fn broke(&mut self, of: &UpdateStatement, how: &str) -> bool {
        self.breaks += 1;
        if self.breaks < BREAKS {
            return false;
        }
        self.current = None;
        let why = format!("it broke {BREAKS} times in a row soon after its start ({how})");
        self.fail(of, &why, false);
        true
    }

    /// `current` has run for long: the times that it broke before are no longer in a row with the next. Returns
    /// whether there were any.
    pub(crate) fn lasted(&mut self) -> bool {
        self.trial.is_none() && std::mem::take(&mut self.breaks) > 0
    }

    /// Returns why this content is not tried again, if it failed before. One that was only late is
    /// tried again once.
    pub(crate) fn failed(&self, hash: &BlobHash) -> Option<&str> {
        let failed = || self.failed.iter().filter(|failed| failed.hash == *hash);
        let last = failed().next_back()?;
        let lasting = failed().any(|failed| !failed.late) || failed().count() >= LATE;
        lasting.then_some(last.why.as_str())
    }

    /// Chooses the program of a start of the installed one. `sound` says whether a program is there, whole.
    /// What may not run any more is dropped.
    pub(crate) fn choose(
        &mut self,
        installed: ProgramVersion,
        admit: impl Fn(&SignedUpdate) -> Result<UpdateStatement, String>,
        sound: impl Fn(&BlobRef) -> Result<(), String>,
    ) -> ProgramChoice {
        let looked = |taken: &TakenProgram| {
            let of = admit(&taken.signed)?;
            // The package's word is the newer one.
            let overtaken = installed >= of.version
                && !(of.downgrade.is_some() && installed == taken.installed);
            if overtaken {
                return Err(format!("version {installed} was installed"));
            }
            sound(&of.blob).map(|()| of)
        };

        if let Some(taken) = self.trial.clone() {
            match looked(&taken) {
                Ok(of) if self.starts < STARTS => {
                    self.starts += 1;
                    return ProgramChoice::Trial(of);
                }
                Ok(of) => {
                    let why =
                        format!("{STARTS} starts of it ended before it had reached the master");
                    self.fail(&of, &why, false);
                }
                Err(why) => {
                    self.trial = None;
                    self.note(
                        installed,
                        format!("runs on, and no newer one is tried: {why}"),
                    );
                }
            }
        }

        match self.current.as_ref().map(looked) {
            Some(Ok(of)) => ProgramChoice::Current(of),
            Some(Err(why)) => {
                self.current = None;
                self.note(installed, format!("runs again, as it was installed: {why}"));
                ProgramChoice::Installed
            }
            None => ProgramChoice::Installed,
        }
    }

    /// Returns the content of the programs that may be needed again.
    fn needed(&self) -> Vec<BlobHash> {
        let taken = self.current.iter().chain(&self.trial);
        let read = taken.filter_map(|taken| UpdateStatement::read(&taken.signed.statement).ok());
        read.map(|of| of.blob.hash).collect()
    }

    /// Reports to the owner.
    pub(crate) fn report(&self, takes: bool, has_key: bool) -> UpdateReport {
        UpdateReport {
            takes,
            has_key,
            instead_of: keeper::installed().map(|version| version.to_string()),
            events: self.events.clone(),
        }
    }
}
