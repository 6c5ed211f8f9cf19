//! The JSON of new programs for workers, as `host update status` prints it.

use common::update::{HostUpdateView, RolloutView, UpdatesView};

use super::{IsoTime, all, form};

form! {
    /// The programs that are rolled out to workers.
    pub struct UpdatesJson of UpdatesView as view {
        /// The key that hosts learn as they join; `null`: they learn none, and take no programs.
        pub key: Option<String> = view.key.map(|key| key.to_string()),
        /// The rollouts, one for each platform at most.
        pub rollouts: Vec<RolloutJson> = all(&view.rollouts),
    }
}

form! {
    /// A program on its way to the hosts of a platform.
    pub struct RolloutJson of RolloutView as view {
        /// The platform, such as `linux-x86_64`.
        pub platform: String = view.platform.as_str().to_owned(),
        /// The version of the program.
        pub version: String = view.version.to_string(),
        /// The BLAKE3 hash of the program.
        pub blake3: String = view.blake3.clone(),
        /// The admin who began it.
        pub by: String = view.by.clone(),
        /// The time at which it began.
        pub at: IsoTime = IsoTime(view.at),
        /// The part of the hosts that get it in this stage, in hundredths.
        pub percent: u32 = view.percent,
        /// `running`, `stopped` or `done`.
        pub state: String = view.state.clone(),
        /// The reason why it is stopped, or what it waits for.
        pub why: String = view.why.clone(),
        /// The hosts that were offered it, those that need a look first.
        pub hosts: Vec<HostUpdateJson> = all(&view.hosts),
        /// The number of connected hosts of this platform that are not offered it yet.
        pub untold: u64 = view.untold,
    }
}

form! {
    /// The state of a program on a host.
    pub struct HostUpdateJson of HostUpdateView as view {
        /// Its name.
        pub host: String = view.host.clone(),
        /// `offered`, `ready`, `runs`, `refused` or `failed`.
        pub state: String = view.state.clone(),
        /// The time since which that is so.
        pub since: IsoTime = IsoTime(view.since),
        /// The reason of a refusal or failure.
        pub why: String = view.why.clone(),
    }
}
