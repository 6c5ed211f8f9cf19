//! Settings of workers that come from the master ([`SiteSettings`]), with what hosts say to them.
//! They are texts here: what they may say, and that they only ever restrict tasks further, is decided by each
//! worker.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::host::MAX_HOST_NAME;
use crate::needs::{Label, MAX_LABELS};
use crate::text::acts;
use crate::time::Time;

/// The longest text of settings, in bytes. Those of a host with as many labels as it can have fit
/// into one message.
pub const MAX_SITE_TEXT: usize = 3_000;
/// The most texts that hold for one host: for all, for it, and for each label from its owner and
/// from admins.
pub const MAX_SITE_TEXTS: usize = 2 + 2 * MAX_LABELS;
/// The most scopes that have settings at one master.
pub const MAX_SCOPES: usize = 500;
/// The longest reason for which a worker refuses settings, in bytes.
pub const MAX_REASON: usize = 500;

/// The hosts for which a text of settings holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SiteScope {
    /// Every host.
    All,
    /// The hosts with this label, from their owners or from admins.
    Label(Label),
    /// The host of this name.
    Host(String),
}

/// A text of settings, and the hosts for which it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteText {
    /// The hosts.
    pub scope: SiteScope,
    /// The settings, as TOML.
    pub text: String,
}

/// All settings from the master that hold for one host: the strictest value of each key counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteSettings {
    /// The master's number for exactly these texts; 0 for none.
    pub digest: u64,
    /// The texts.
    pub texts: Vec<SiteText>,
}

/// The answer of a worker to [`SiteSettings`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteAnswer {
    /// The number of the settings ([`SiteSettings::digest`]).
    pub digest: u64,
    /// The reason why they were refused; `None`: they hold.
    pub refused: Option<String>,
}

/// A text of settings as an admin sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTextView {
    /// The hosts for which it holds, as [`SiteScope`] prints them.
    pub scope: String,
    /// The settings, as TOML.
    pub text: String,
    /// The admin who stored it.
    pub by: String,
    /// The time at which it was stored.
    pub at: Time,
}

/// The settings of one host as an admin sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSiteView {
    /// The host's name.
    pub host: String,
    /// Whether the host has them.
    pub standing: SiteStanding,
    /// The time of its answer.
    pub answered: Option<Time>,
    /// The reason of a refusal.
    pub why: Option<String>,
}

/// Whether a host has taken the settings that hold for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteStanding {
    /// It has taken them.
    Taken,
    /// It has refused them, so that it works by its own settings and what it took before.
    Refused,
    /// It has not answered yet.
    Waiting,
    /// It has not answered, and is not connected.
    Away,
    /// Its worker is of a version that takes none.
    TooOld,
}

/// The settings of a worker from the master, as its owner sees them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteReport {
    /// Whether the owner's own file lets settings come from the master.
    pub takes: bool,
    /// The settings that hold, each with the time of its last change.
    pub settings: Vec<SiteSetting>,
    /// The changes, the oldest first.
    pub changes: Vec<SiteChange>,
    /// The refusal of the newest settings, if they were refused.
    pub refused: Option<SiteRefusal>,
}

/// A setting from the master, as in [`SiteReport::settings`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteSetting {
    /// The key, with its tables: `owner.input.idle`.
    pub key: String,
    /// The value from the master, as TOML.
    pub value: String,
    /// The value of the owner's own settings, as TOML.
    pub own: String,
    /// The hosts for which the master has it, as [`SiteScope`] prints them.
    pub scope: String,
    /// The time at which it came, in ISO 8601.
    pub since: String,
    /// Whether it counts already; limits count from the worker's next start.
    pub in_force: bool,
}

/// A change of the settings from the master, as in [`SiteReport::changes`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteChange {
    /// The time, in ISO 8601.
    pub at: String,
    /// The key.
    pub key: String,
    /// The hosts for which the master has it.
    pub scope: String,
    /// The value before; `None`: there was none.
    pub was: Option<String>,
    /// The value since; `None`: the setting was withdrawn.
    pub is: Option<String>,
}

/// A refusal of settings, as in [`SiteReport::refused`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteRefusal {
    /// The time, in ISO 8601.
    pub at: String,
    /// The reason.
    pub why: String,
}

/// The reason why texts cannot be settings, whatever they say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSiteText {
    /// It is longer than [`MAX_SITE_TEXT`].
    #[error("the settings are {0} bytes long, and {MAX_SITE_TEXT} at most are allowed")]
    TooLong(usize),
    /// It has a character that acts on a terminal.
    #[error("the settings have a control character in line {0}")]
    Control(usize),
    /// There are more than [`MAX_SITE_TEXTS`].
    #[error("there are {0} texts of settings, and {MAX_SITE_TEXTS} at most can hold for a host")]
    TooMany(usize),
    /// It is for a host whose name no host can have.
    #[error("the settings are for a host, and it names no host")]
    NoHost,
}

impl SiteSettings {
    /// Checks the number of texts, and each of them.
    ///
    /// # Errors
    /// If there are too many, or one is not sound.
    pub fn check(&self) -> Result<(), BadSiteText> {
        if self.texts.len() > MAX_SITE_TEXTS {
            return Err(BadSiteText::TooMany(self.texts.len()));
        }
        self.texts.iter().try_for_each(SiteText::check)
    }
}

impl SiteText {
    /// Checks the length and the characters of the text, and the name of its host.
    ///
    /// # Errors
    /// If it is too long, has a control character, or is for a host without a name.
    pub fn check(&self) -> Result<(), BadSiteText> {
        if self.text.len() > MAX_SITE_TEXT {
            return Err(BadSiteText::TooLong(self.text.len()));
        }
        if let SiteScope::Host(name) = &self.scope
            && (name.is_empty() || name.len() > MAX_HOST_NAME || name.contains(acts))
        {
            return Err(BadSiteText::NoHost);
        }

        let bad = |c: char| acts(c) && !matches!(c, '\t' | '\r');
        match self.text.split('\n').position(|line| line.contains(bad)) {
            Some(line) => Err(BadSiteText::Control(line + 1)),
            None => Ok(()),
        }
    }
}

impl SiteStanding {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Taken,
        Self::Refused,
        Self::Waiting,
        Self::Away,
        Self::TooOld,
    ];
}

impl SiteAnswer {
    /// Returns the answer with a reason that is fit to be stored and shown.
    #[must_use]
    pub fn sound(self) -> Self {
        Self {
            digest: self.digest,
            refused: self.refused.map(|why| plain(&why)),
        }
    }
}

/// Returns a reason that is fit to be stored and shown, of [`MAX_REASON`] bytes at most.
pub(crate) fn plain(why: &str) -> String {
    crate::text::sound(why, MAX_REASON)
}

impl fmt::Display for SiteScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SiteScope::All => f.write_str("all"),
            SiteScope::Label(label) => write!(f, "label {}", label.as_str()),
            SiteScope::Host(name) => write!(f, "host {name}"),
        }
    }
}

/// A text that is no [`SiteScope`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no hosts: it is `all`, `label LABEL` or `host NAME`")]
pub struct BadScope(pub String);

impl std::str::FromStr for SiteScope {
    type Err = BadScope;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadScope(text.to_owned());
        match text.split_once(' ') {
            None if text == "all" => Ok(SiteScope::All),
            Some(("label", label)) => label.parse().map(SiteScope::Label).map_err(|_| bad()),
            Some(("host", name)) if !name.is_empty() => Ok(SiteScope::Host(name.to_owned())),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for SiteStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SiteStanding::Taken => "taken",
            SiteStanding::Refused => "refused",
            SiteStanding::Waiting => "waiting",
            SiteStanding::Away => "away",
            SiteStanding::TooOld => "too-old",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_read_as_they_print() {
        let label = SiteScope::Label("lab3".parse().unwrap());
        for scope in [SiteScope::All, label, SiteScope::Host("pc 7".to_owned())] {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        for bad in ["", "every", "label", "label a b", "host ", "all hosts"] {
            assert_eq!(bad.parse::<SiteScope>(), Err(BadScope(bad.to_owned())));
        }
    }

    #[test]
    fn a_text_is_bounded_and_plain_and_a_reason_is_made_so() {
        let checked = |text: &str| {
            let scope = SiteScope::All;
            let text = text.to_owned();
            SiteText { scope, text }.check()
        };
        assert_eq!(checked("slots = 1\r\n\t# é\n"), Ok(()));
        assert_eq!(checked("a\nb\u{1b}[2J"), Err(BadSiteText::Control(2)));
        let named = |name: &str| {
            let scope = SiteScope::Host(name.to_owned());
            let text = String::new();
            SiteText { scope, text }.check()
        };
        assert_eq!(named("pc 7"), Ok(()));
        for name in ["", "pc\u{1b}", &"x".repeat(MAX_HOST_NAME + 1)] {
            assert_eq!(named(name), Err(BadSiteText::NoHost), "{name:?}");
        }
        let long = "#".repeat(MAX_SITE_TEXT + 1);
        assert_eq!(checked(&long), Err(BadSiteText::TooLong(long.len())));

        let answer = SiteAnswer {
            digest: 1,
            refused: Some("é\u{7}".repeat(MAX_REASON)),
        };
        let why = answer.sound().refused.unwrap();
        assert!(why.len() <= MAX_REASON && why.starts_with("é é "), "{why}");
    }
}
