//! The JSON of the settings that admins keep for workers.

use common::site::{HostSiteView, SiteStanding, SiteTextView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Object, Word, all};

/// The settings that admins keep for workers, as `host settings show` prints them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SiteJson {
    /// The settings.
    pub settings: Vec<SiteTextJson>,
    /// The hosts for which any hold.
    pub hosts: Vec<HostSiteJson>,
}

/// Settings for some hosts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SiteTextJson {
    /// The hosts for which they hold: `all`, `label LABEL` or `host NAME`.
    pub scope: String,
    /// The settings, as TOML.
    pub text: String,
    /// The admin who stored them.
    pub by: String,
    /// The time at which they were stored.
    pub stored: IsoTime,
}

/// Whether a host has taken the settings that hold for it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostSiteJson {
    /// Its name.
    pub host: String,
    /// Whether it has them.
    pub standing: Word<SiteStanding>,
    /// The time of its answer; `null` where there is none.
    pub answered: Option<IsoTime>,
    /// The reason of a refusal; `null` where there is none.
    pub why: Option<String>,
}

impl SiteJson {
    /// Returns the form of these settings, with these hosts.
    pub fn new(settings: &[SiteTextView], hosts: &[HostSiteView]) -> Self {
        Self {
            settings: all(settings),
            hosts: all(hosts),
        }
    }
}

impl Object for SiteTextView {
    type Json = SiteTextJson;

    fn json(&self) -> SiteTextJson {
        SiteTextJson {
            scope: self.scope.clone(),
            text: self.text.clone(),
            by: self.by.clone(),
            stored: IsoTime(self.at),
        }
    }
}

impl Object for HostSiteView {
    type Json = HostSiteJson;

    fn json(&self) -> HostSiteJson {
        HostSiteJson {
            host: self.host.clone(),
            standing: Word(self.standing),
            answered: self.answered.map(IsoTime),
            why: self.why.clone(),
        }
    }
}
