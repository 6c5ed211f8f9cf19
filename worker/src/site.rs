//! Settings that come from the master (`SiteState`): taken whole or refused with a reason, kept in the
//! worker's directory so that they hold while the master is away, and told to the owner with
//! what each one was before. They can only restrict tasks further (`bounds`).
//!
//! A text is data. Of the keys in a worker's file only those in `rules` can come from the master: none names a file, a
//! program, an account or an address.

mod bounds;
mod kept;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;

use common::Time;
use common::site::{MAX_REASON, SiteAnswer, SiteReport, SiteSetting, SiteSettings};
use common::text::printable;

use crate::admin;
use crate::config::Config;
use crate::owner::rules::OwnerRules;
use kept::{KeptSetting, KeptSite};
pub(crate) use kept::{SiteFile, SiteRecord};
use rules::{KEYS, SiteRules};

/// The answer of a worker whose owner takes no settings from the master.
const NOT_TAKEN: &str = "the owner of this PC takes no settings from the master (settings_from_master = false in its \
                         worker.toml)";

/// The longest reason against one text, in bytes: the name of its hosts has room behind it.
const MAX_WHY: usize = MAX_REASON - 100;

/// The settings from the master, as this worker has them.
#[derive(Debug)]
pub(crate) struct SiteState {
    /// The owner's own settings.
    own: Config,
    kept: KeptSite,
    rules: Vec<SiteRules>,
    /// The settings at the start of the worker, when limits began to count.
    started: Vec<KeptSetting>,
}

/// Checks a text of settings as a worker does.
///
/// # Errors
/// With the reason, which names the key.
pub fn check(text: &str) -> Result<(), String> {
    read(text).map(drop)
}

/// The settings of some texts, with each key, its value and the hosts for which it holds.
type ReadTexts = (Vec<SiteRules>, Vec<(String, String, String)>);

/// Reads all texts that hold for this host.
fn read_all(new: &SiteSettings) -> Result<ReadTexts, String> {
    new.check().map_err(|bad| bad.to_string())?;

    let mut rules = Vec::new();
    let mut settings = Vec::new();
    for text in &new.texts {
        let scope = text.scope.to_string();
        let (read, keys) =
            read(&text.text).map_err(|why| format!("{why} (settings of {scope})"))?;
        rules.push(read);
        settings.extend(
            keys.into_iter()
                .map(|(key, value)| (key, value, scope.clone())),
        );
    }
    Ok((rules, settings))
}

/// Reads one text: its settings, and each key with its value. The reason of a refusal is short and
/// plain, whatever the text has.
fn read(text: &str) -> Result<(SiteRules, Vec<(String, String)>), String> {
    parsed(text).map_err(|why| {
        let mut why = printable(&why);
        why.truncate(why.floor_char_boundary(MAX_WHY));
        why
    })
}

fn parsed(text: &str) -> Result<(SiteRules, Vec<(String, String)>), String> {
    let table: toml::Table = text.parse().map_err(|bad: toml::de::Error| plain(&bad))?;
    let keys = flat(&table);
    let there = every_key_of(&Config::default());
    for (key, _) in &keys {
        if KEYS.contains(&key.as_str()) {
            continue;
        }
        if KEYS.iter().any(|low| is_below(low, key)) {
            return Err(format!("`{key}` is a table of settings, and has none here"));
        }
        let known = there.contains(key) || there.iter().any(|other| is_below(key, other));
        return Err(if known {
            format!(
                "`{key}` cannot come from the master: only the PC's own worker.toml can say it. What can come from the master \
                 is in configs/site.toml"
            )
        } else {
            format!(
                "there is no setting `{key}`; what can come from the master is in configs/site.toml"
            )
        });
    }

    let rules: SiteRules = toml::from_str(text).map_err(|bad| plain(&bad))?;
    rules.check()?;
    Ok((rules, keys))
}

/// Returns what TOML has against a text, on one line, with the line of the text unless that is long.
fn plain(bad: &toml::de::Error) -> String {
    let text = bad.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let whole = lines.collect::<Vec<_>>().join(" ");
    if whole.len() <= MAX_WHY {
        return whole;
    }
    let place = text.lines().next().unwrap_or_default();
    format!("{place}: {}", bad.message())
}

/// Whether `key` is a table above `other`, or the other way round.
fn is_below(key: &str, other: &str) -> bool {
    let below = |low: &str, high: &str| {
        low.strip_prefix(high)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    below(key, other) || below(other, key)
}

fn every_key_of(config: &Config) -> BTreeSet<String> {
    own_values(config).into_iter().map(|(key, _)| key).collect()
}

/// Returns each key of a worker's file with its value, as TOML.
fn own_values(config: &Config) -> Vec<(String, String)> {
    toml::Table::try_from(config).map_or_else(|_| Vec::new(), |table| flat(&table))
}

/// Returns each key of a table with its value; keys of tables below it stand behind the table's
/// name.
fn flat(table: &toml::Table) -> Vec<(String, String)> {
    let below = |(key, value): (&String, &toml::Value)| match value {
        toml::Value::Table(table) if !table.is_empty() => flat(table)
            .into_iter()
            .map(|(low, value)| (format!("{key}.{low}"), value))
            .collect(),
        value => vec![(key.clone(), value.to_string())],
    };
    table.iter().flat_map(below).collect()
}

impl SiteState {
    /// Reads the settings that an earlier run kept, for a worker with these settings of its owner.
    pub(crate) fn open(dir: &Path, own: &Config, now: Time) -> Self {
        let mut kept = kept::SiteFile::below(dir).read();
        let read = match own.settings_from_master {
            true => read_all(&kept.sent()),
            false => Err(NOT_TAKEN.to_owned()),
        };
        let unread = |why: String| {
            if !kept.texts.is_empty() {
                tracing::warn!(target: admin::SETTINGS, why, "settings from the master are not used");
            }
            kept.replace(SiteSettings::default(), Vec::new(), now);
            // Those that held do not any more.
            kept.answered.take_if(|answer| answer.refused.is_none());
            Vec::new()
        };
        let rules = read.map_or_else(unread, |(rules, _)| rules);

        Self {
            own: own.clone(),
            started: kept.settings.clone(),
            kept,
            rules,
        }
    }

    /// Returns the owner's own settings.
    pub(crate) fn own(&self) -> &Config {
        &self.own
    }

    /// Takes settings from the master instead of those before, or refuses them: then those before
    /// hold on.
    pub(crate) fn take(&mut self, new: SiteSettings, now: Time) -> SiteAnswer {
        let digest = new.digest;
        let outcome = self.admit(new, now);
        if let Err(why) = &outcome {
            tracing::warn!(target: admin::SETTINGS, why, "settings from the master are refused");
        }
        self.kept.answer(digest, outcome.err(), now)
    }

    fn admit(&mut self, new: SiteSettings, now: Time) -> Result<(), String> {
        if !self.own.settings_from_master && !new.texts.is_empty() {
            return Err(NOT_TAKEN.to_owned());
        }

        let (rules, settings) = read_all(&new)?;
        for change in self.kept.replace(new, settings, now) {
            let was = change.was.as_deref().unwrap_or("none");
            let is = change.is.as_deref().unwrap_or("none");
            tracing::info!(key = change.key, was, is, scope = %change.scope, "a setting from the master");
        }
        self.rules = rules;
        Ok(())
    }

    /// Returns the last answer to the master; `None` before the first settings.
    pub(crate) fn answer(&self) -> Option<SiteAnswer> {
        self.kept.answered.clone()
    }

    /// Returns the number of changes so far in this run.
    pub(crate) fn version(&self) -> u64 {
        self.kept.version()
    }

    /// Returns what is to be kept in the worker's directory.
    pub(crate) fn record(&self) -> SiteRecord {
        self.kept.record()
    }

    /// Returns the owner's rules with the settings added; `None` where there are no settings.
    pub(crate) fn strictest(&self, cores: u32) -> Option<OwnerRules> {
        let own = OwnerRules {
            // The owner's own policy has watched, or does.
            first_watch: common::settings::ConfigDuration::ZERO,
            ..self.own.owner.clone()
        };
        let strictest = |rules, site: &SiteRules| site.strictest(rules, cores);
        (!self.rules.is_empty()).then(|| self.rules.iter().fold(own, strictest))
    }

    /// Bounds what the worker lends from its start on.
    pub(crate) fn bound(&self, config: &mut Config) {
        for rules in &self.rules {
            rules.bound(config);
        }
    }

    /// Reports the settings to the owner.
    pub(crate) fn report(&self) -> SiteReport {
        let own = own_values(&self.own);
        let own_of = |key: &str| own.iter().find(|(own, _)| own == key);
        let settings = self.kept.settings.iter().map(|setting| SiteSetting {
            key: setting.key.clone(),
            value: setting.value.clone(),
            own: own_of(&setting.key).map_or_else(String::new, |(_, value)| value.clone()),
            scope: setting.scope.clone(),
            since: setting.since.clone(),
            in_force: setting.key.starts_with("owner.") || self.started.contains(setting),
        });
        SiteReport {
            takes: self.own.settings_from_master,
            settings: settings.collect(),
            changes: self.kept.changes.clone(),
            refused: self.kept.refused.clone(),
        }
    }
}
