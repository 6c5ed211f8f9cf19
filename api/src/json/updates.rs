//! The JSON of new programs for workers, as `host update status` prints it.

use common::update::{HostUpdateView, RolloutView, UpdatesView};
use schemars::JsonSchema;
use serde::Serialize;

use super::{IsoTime, Object, all};

/// The programs that are rolled out to workers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UpdatesJson {
    /// The key that hosts learn as they join; `null`: they learn none, and take no programs.
    pub key: Option<String>,
    /// The rollouts, one for each platform at most.
    pub rollouts: Vec<RolloutJson>,
}

/// A program on its way to the hosts of a platform.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RolloutJson {
    /// The platform, such as `linux-x86_64`.
    pub platform: String,
    /// The version of the program.
    pub version: String,
    /// The BLAKE3 hash of the program.
    pub blake3: String,
    /// The admin who began it.
    pub by: String,
    /// The time at which it began.
    pub at: IsoTime,
    /// The part of the hosts that get it in this stage, in hundredths.
    pub percent: u32,
    /// `running`, `stopped` or `done`.
    pub state: String,
    /// The reason why it is stopped, or what it waits for.
    pub why: String,
    /// The hosts that were offered it, those that need a look first.
    pub hosts: Vec<HostUpdateJson>,
    /// The number of connected hosts of this platform that are not offered it yet.
    pub untold: u64,
}

/// The state of a program on a host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostUpdateJson {
    /// Its name.
    pub host: String,
    /// `offered`, `ready`, `runs`, `refused` or `failed`.
    pub state: String,
    /// The time since which that is so.
    pub since: IsoTime,
    /// The reason of a refusal or failure.
    pub why: String,
}

impl Object for UpdatesView {
    type Json = UpdatesJson;

    fn json(&self) -> UpdatesJson {
        UpdatesJson {
            key: self.key.map(|key| key.to_string()),
            rollouts: all(&self.rollouts),
        }
    }
}

impl Object for RolloutView {
    type Json = RolloutJson;

    fn json(&self) -> RolloutJson {
        RolloutJson {
            platform: self.platform.as_str().to_owned(),
            version: self.version.to_string(),
            blake3: self.blake3.clone(),
            by: self.by.clone(),
            at: IsoTime(self.at),
            percent: self.percent,
            state: self.state.clone(),
            why: self.why.clone(),
            hosts: all(&self.hosts),
            untold: self.untold,
        }
    }
}

impl Object for HostUpdateView {
    type Json = HostUpdateJson;

    fn json(&self) -> HostUpdateJson {
        HostUpdateJson {
            host: self.host.clone(),
            state: self.state.clone(),
            since: IsoTime(self.since),
            why: self.why.clone(),
        }
    }
}
