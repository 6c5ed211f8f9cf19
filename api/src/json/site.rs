//! The JSON of the settings that admins keep for workers.

use common::site::{HostSiteView, SiteStanding, SiteTextView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Word, all, form};

/// The settings that admins keep for workers, as `host settings show` prints them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SiteJson {
    /// The settings.
    pub settings: Vec<SiteTextJson>,
    /// The hosts for which any hold.
    pub hosts: Vec<HostSiteJson>,
}

form! {
    /// Settings for some hosts.
    pub struct SiteTextJson of SiteTextView as view {
        /// The hosts for which they hold: `all`, `label LABEL` or `host NAME`.
        pub scope: String = view.scope.clone(),
        /// The settings, as TOML.
        pub text: String = view.text.clone(),
        /// The admin who stored them.
        pub by: String = view.by.clone(),
        /// The time at which they were stored.
        pub stored: IsoTime = IsoTime(view.at),
    }
}

form! {
    /// Whether a host has taken the settings that hold for it.
    pub struct HostSiteJson of HostSiteView as view {
        /// Its name.
        pub host: String = view.host.clone(),
        /// Whether it has them.
        pub standing: Word<SiteStanding> = Word(view.standing),
        /// The time of its answer; `null` where there is none.
        pub answered: Option<IsoTime> = view.answered.map(IsoTime),
        /// The reason of a refusal; `null` where there is none.
        pub why: Option<String> = view.why.clone(),
    }
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
