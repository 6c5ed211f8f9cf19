//! New programs for workers: what an admin signs ([`UpdateStatement`]), and what hosts say to it. The key
//! lies with the admin and not at the master; each worker checks the signature with the public half that it
//! learned when it joined.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::content::{BlobHash, BlobRef};
use crate::owner::iso;
use crate::platform::PlatformName;
use crate::site::plain;
use crate::time::{Span, Time};

/// The mark before this program's version in its own file, so that the version of a program can be read
/// without running it.
pub const MARK: &str = "deskgrid-program-version=";
/// The largest `blob` of an [`UpdateStatement`], in bytes.
pub const MAX_PROGRAM: u64 = 512 << 20;
/// The longest text of an [`UpdateStatement`], in bytes.
pub const MAX_STATEMENT: usize = 500;
/// The most hosts of a rollout that are shown, those that need a look first.
pub const MOST_HOSTS: usize = 500;
/// The first line of each [`UpdateStatement::text`].
const HEAD: &str = "deskgrid update 1";
/// The prefix of an [`UpdateKey`] as text.
const KEY_PREFIX: &str = "du1.";

/// This program's version behind [`MARK`], as it stands in the program's file.
#[used]
static MARKED: [u8; MARKED_TEXT.len()] = {
    let mut bytes = [0; MARKED_TEXT.len()];
    bytes.copy_from_slice(MARKED_TEXT.as_bytes());
    bytes
};
const MARKED_TEXT: &str = concat!("deskgrid-program-version=", env!("CARGO_PKG_VERSION"), ";");

/// Returns this program's version, as it stands behind [`MARK`] in its file.
pub fn program_version() -> &'static str {
    // Not known to the compiler, so that what is read is what others find in the file.
    let marked: &'static [u8] = std::hint::black_box(&MARKED);
    let text = std::str::from_utf8(marked).unwrap_or_default();
    text.strip_prefix(MARK)
        .and_then(|rest| rest.strip_suffix(';'))
        .unwrap_or(env!("CARGO_PKG_VERSION"))
}

/// The version of a program: three numbers, as in `1.2.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProgramVersion(pub u32, pub u32, pub u32);

/// Ed25519's public half of the key that updates are signed with: `du1.` and its digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UpdateKey(pub [u8; 32]);

/// A text that is no version, key or statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUpdate {
    /// Not three numbers.
    #[error("`{0}` is no version of a program, such as 1.2.3")]
    Version(String),
    /// Not a public key.
    #[error("`{0}` is no key for updates: it is `du1.` and 64 hexadecimal digits")]
    Key(String),
    /// A line of the statement is missing or wrong.
    #[error("the statement of the update is not sound: {0}")]
    Statement(&'static str),
}

/// The signed words about a program. They are signed as [`UpdateStatement::text`] writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateStatement {
    /// The platform that it is for, such as `linux-x86_64`.
    pub platform: PlatformName,
    /// Its version.
    pub version: ProgramVersion,
    /// Its content.
    pub blob: BlobRef,
    /// The newer version whose place it may take, and of no other.
    pub downgrade: Option<ProgramVersion>,
}

/// A statement with its signature, as they travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedUpdate {
    /// The statement, as [`UpdateStatement::text`] writes it.
    pub statement: String,
    /// The signature over `statement` by Ed25519.
    pub signature: Vec<u8>,
}

/// The answer of a worker to a [`SignedUpdate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateAnswer {
    /// The content of the program, as in [`UpdateStatement::blob`].
    pub hash: BlobHash,
    /// What has become of it there.
    pub standing: UpdateStanding,
}

/// What has become of a [`SignedUpdate`] on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateStanding {
    /// It is there and checked; the worker starts it once its tasks let it. Said once more by a worker that leaves for it now:
    /// then no `ToMaster::Closing` follows.
    Ready,
    /// It runs, and has reached the master.
    Runs,
    /// The worker has fetched it and does not take it, for this reason. Nothing has changed there.
    Refused(String),
    /// It was started and did not come up, for this reason: the program before it runs again.
    RolledBack(String),
    /// The worker does not take it, for this reason, which is no fault of the program: it was not fetched.
    Unwanted(String),
}

/// The shape of a rollout, as an admin asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutPace {
    /// The time for which each host of a stage must have run it before the next stage begins.
    pub settle: Span,
    /// The attempts that a host may have finished instead of waiting for `settle`.
    pub settle_tasks: u64,
    /// The time within which a host must be back once it has the program and leaves.
    pub patience: Span,
}

/// An order about updates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateOrder {
    /// Hosts that join from now on learn this [`UpdateKey`].
    Trust(UpdateKey),
    /// Begins a rollout of a [`SignedUpdate`]; the content is at the master.
    Start {
        /// The update.
        update: SignedUpdate,
        /// How it goes on.
        pace: RolloutPace,
        /// Whether nothing is to be done.
        dry_run: bool,
    },
    /// Stops the rollout for this platform: no more hosts get it.
    Stop(PlatformName),
    /// Only shows how things stand.
    Show,
}

/// How a rollout stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutView {
    /// The platform.
    pub platform: PlatformName,
    /// The version of the program.
    pub version: ProgramVersion,
    /// Its content: the BLAKE3 hash.
    pub blake3: String,
    /// The admin who began it.
    pub by: String,
    /// The time at which it began.
    #[serde(with = "iso")]
    pub at: Time,
    /// The part of the hosts that get it in this stage, in hundredths.
    pub percent: u32,
    /// `running`, `stopped` or `done`.
    pub state: String,
    /// Why it is stopped, or what it waits for.
    pub why: String,
    /// Hosts that were offered it, those that need a look first.
    pub hosts: Vec<HostUpdateView>,
    /// The number of connected hosts of this platform that are not offered it yet.
    pub untold: u64,
}

/// How an update stands on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUpdateView {
    /// The host's name.
    pub host: String,
    /// `offered`, `ready`, `runs`, `refused` or `failed`.
    pub state: String,
    /// The time since which that is so.
    #[serde(with = "iso")]
    pub since: Time,
    /// The reason of a refusal or failure.
    pub why: String,
}

/// All that the master knows of updates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdatesView {
    /// The key that joining hosts learn.
    pub key: Option<UpdateKey>,
    /// The rollouts, one for each platform at most.
    pub rollouts: Vec<RolloutView>,
}

/// What a worker tells its owner of updates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateReport {
    /// Whether the owner lets the program be replaced (`updates`).
    pub takes: bool,
    /// Whether the worker knows an [`UpdateKey`].
    pub has_key: bool,
    /// The version of the installed program, if another one runs in its place.
    pub instead_of: Option<String>,
    /// The events, the oldest first.
    pub events: Vec<UpdateEvent>,
}

/// Something that happened with an update on this PC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateEvent {
    /// The time, in ISO 8601.
    pub at: String,
    /// The version of the program.
    pub version: String,
    /// What happened, in words.
    pub what: String,
}

impl UpdateStatement {
    /// Returns the text that is signed.
    pub fn text(&self) -> String {
        let downgrade = self
            .downgrade
            .map_or_else(|| "no".to_owned(), |version| format!("from {version}"));
        format!(
            "{HEAD}\nplatform {}\nversion {}\nblake3 {}\nbytes {}\ndowngrade {downgrade}\n",
            self.platform.as_str(),
            self.version,
            self.blob.hash,
            self.blob.size
        )
    }

    /// Reads a statement. Only the text that [`UpdateStatement::text`] writes is one.
    ///
    /// # Errors
    /// Names what is wrong.
    pub fn read(text: &str) -> Result<Self, BadUpdate> {
        let bad = BadUpdate::Statement;
        if text.len() > MAX_STATEMENT {
            return Err(bad("it is too long"));
        }
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(bad("it is of another kind or version"));
        }

        let mut value = |key: &str| {
            let line = lines.next().unwrap_or_default();
            line.strip_prefix(key)
                .and_then(|rest| rest.strip_prefix(' '))
        };
        let platform = value("platform").and_then(|word| word.parse().ok());
        let version = value("version").and_then(|word| word.parse().ok());
        let hash = value("blake3").and_then(|word| word.parse().ok());
        let size = value("bytes").and_then(|word| word.parse().ok());
        let downgrade = match value("downgrade") {
            Some("no") => Some(None),
            Some(from) => from
                .strip_prefix("from ")
                .and_then(|version| version.parse().ok())
                .map(Some),
            None => None,
        };
        let read = Self {
            platform: platform.ok_or(bad("it names no platform"))?,
            version: version.ok_or(bad("it names no version"))?,
            blob: BlobRef {
                hash: hash.ok_or(bad("it names no content"))?,
                size: size.ok_or(bad("it names no size"))?,
            },
            downgrade: downgrade.ok_or(bad("it does not say whether it is a downgrade"))?,
        };
        if read.text() != text {
            return Err(bad("it has something besides"));
        }
        if read.blob.size > MAX_PROGRAM {
            return Err(bad("the program is too large"));
        }
        Ok(read)
    }

    /// Returns why this update may not take the place of the program of `running`, if so.
    pub fn refused_over(&self, running: ProgramVersion) -> Option<String> {
        let older = self.version < running && self.downgrade != Some(running);
        older.then(|| {
            format!(
                "version {} is older than {running}, which is here, and its signature does not allow that",
                self.version
            )
        })
    }
}

impl UpdateAnswer {
    /// Returns the answer with a reason that is fit to be stored and shown.
    #[must_use]
    pub fn sound(self) -> Self {
        let standing = match self.standing {
            UpdateStanding::Refused(why) => UpdateStanding::Refused(plain(&why)),
            UpdateStanding::Unwanted(why) => UpdateStanding::Unwanted(plain(&why)),
            UpdateStanding::RolledBack(why) => UpdateStanding::RolledBack(plain(&why)),
            standing => standing,
        };
        Self {
            hash: self.hash,
            standing,
        }
    }
}

impl FromStr for ProgramVersion {
    type Err = BadUpdate;
    fn from_str(text: &str) -> Result<Self, BadUpdate> {
        let bad = || BadUpdate::Version(text.chars().take(40).collect());
        let parts: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        match parts.as_deref() {
            Some(&[major, minor, patch]) => Ok(Self(major, minor, patch)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl FromStr for UpdateKey {
    type Err = BadUpdate;
    fn from_str(text: &str) -> Result<Self, BadUpdate> {
        let bad = || BadUpdate::Key(text.chars().take(80).collect());
        let digits = text.trim().strip_prefix(KEY_PREFIX).ok_or_else(bad)?;
        // A hash has as many bytes.
        let bytes: BlobHash = digits.parse().map_err(|_| bad())?;
        Ok(Self(bytes.0))
    }
}

impl fmt::Display for UpdateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY_PREFIX}{}", BlobHash(self.0))
    }
}

impl TryFrom<String> for ProgramVersion {
    type Error = BadUpdate;
    fn try_from(text: String) -> Result<Self, BadUpdate> {
        text.parse()
    }
}

impl TryFrom<String> for UpdateKey {
    type Error = BadUpdate;
    fn try_from(text: String) -> Result<Self, BadUpdate> {
        text.parse()
    }
}

impl From<ProgramVersion> for String {
    fn from(version: ProgramVersion) -> Self {
        version.to_string()
    }
}

impl From<UpdateKey> for String {
    fn from(key: UpdateKey) -> Self {
        key.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> UpdateStatement {
        UpdateStatement {
            platform: "linux-x86_64".parse().unwrap(),
            version: ProgramVersion(0, 10, 2),
            blob: BlobRef {
                hash: BlobHash([7; 32]),
                size: 12,
            },
            downgrade: None,
        }
    }

    #[test]
    fn a_statement_reads_as_it_is_signed_and_nothing_else_is_one() {
        let text = statement().text();
        assert_eq!(UpdateStatement::read(&text), Ok(statement()));
        let back = UpdateStatement {
            downgrade: Some(ProgramVersion(1, 2, 3)),
            ..statement()
        };
        assert_eq!(UpdateStatement::read(&back.text()), Ok(back));
        for bad in [
            String::new(),
            format!("{text}x 1\n"),
            text.replace("bytes 12", "bytes 012"),
            text.replace("update 1", "update 2"),
            text.replace("downgrade no", "downgrade maybe"),
            text.replace("bytes 12", &format!("bytes {}", MAX_PROGRAM + 1)),
            text.replace('\n', "\r\n"),
        ] {
            assert!(UpdateStatement::read(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_older_version_needs_a_word_for_it_in_what_is_signed() {
        let over = |running: &str, downgrade| {
            let statement = UpdateStatement {
                downgrade,
                ..statement()
            };
            statement.refused_over(running.parse().unwrap()).is_some()
        };
        assert!(!over("0.9.9", None) && !over("0.10.2", None));
        assert!(over("0.10.3", None) && over("1.0.0", None));

        // It names the version whose place it may take, so that it is of no use against later ones.
        let from = Some(ProgramVersion(1, 0, 0));
        assert!(!over("1.0.0", from) && over("1.0.1", from) && over("0.10.3", from));
    }

    #[test]
    fn versions_and_keys_read_as_they_print() {
        assert_eq!("1.2.3".parse(), Ok(ProgramVersion(1, 2, 3)));
        for bad in ["1.2", "1.2.3.4", "1.2.x", "", "-1.0.0"] {
            assert!(bad.parse::<ProgramVersion>().is_err(), "{bad}");
        }
        let key = UpdateKey([0xab; 32]);
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!("du1.00".parse::<UpdateKey>().is_err());
        assert_eq!(program_version(), env!("CARGO_PKG_VERSION"));
    }
}
