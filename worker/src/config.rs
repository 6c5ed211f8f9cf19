//! The settings of a worker ([`Config`]), each with its unit and default. They are parsed once, and
//! values left out are filled in.

use std::path::Path;
use std::time::Duration;

use common::Speed;
use common::host::{Confinement, HostFacts};
use common::needs::{Capacity, Demand, Label, MAX_LABELS};
use common::platform::{HostPlatform, PlatformName};
use common::settings::ConfigDuration;
use serde::{Deserialize, Serialize};

use crate::confinement::{Choice, NetworkRule};
use crate::error::WorkerError;
use crate::os::{AttemptLimits, Freezer, Means, TASK_PATH};
use crate::owner::notices::NoticeKind;
use crate::owner::rules::{HostSize, OwnerRules};
use crate::owner::sensors::SensorsConfig;
use crate::session::Again;

/// The keys by which the keeper of a program from the master decides.
const KEEPER_KEYS: [&str; 3] = ["updates", "update_key", "update_trial"];

/// A worker's settings. `configs/worker.toml` holds all of them with their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The number of tasks that run at a time; 0: as many as the host has logical processors.
    pub slots: u32,
    /// The speed of one slot against a dedicated 1.5 GHz PC; 0: as measured at start.
    pub speed: f64,
    /// The labels that jobs can ask for.
    pub labels: Vec<Label>,
    /// The platform whose programs this host runs; empty: that of its system.
    pub platform: String,
    /// Whether tasks that ask for graphics processors get them.
    pub lend_gpus: bool,
    /// The time from asking a task to end (SIGTERM) until it is killed.
    pub grace: ConfigDuration,
    /// The interval between looks at each of the owner's switches, where the system does not report
    /// changes.
    pub owner_poll: ConfigDuration,
    /// The interval at which the load of the processors is read and the host's availability is
    /// recorded.
    pub look_every: ConfigDuration,
    /// The number of availability intervals that are kept here until the master has them; 0:
    /// nothing is recorded.
    pub record_limit: u32,
    /// The environment variable `PATH` of the tasks.
    pub path: String,
    /// The environment variable `LANG` of the tasks.
    pub lang: String,
    /// The bytes kept of a task's standard output, and as many of its standard error.
    pub stream_limit_bytes: u64,
    /// The largest sum of the collected output files of one task, in bytes.
    pub output_limit_bytes: u64,
    /// The largest checkpoint of a task, in bytes; a larger one is not kept.
    pub checkpoint_limit_bytes: u64,
    /// The most files in a checkpoint of a task; one with more is not kept.
    pub checkpoint_files_limit: u32,
    /// The disk space of the cache of input files and trees, in bytes, with what has come of files that are not
    /// whole. Files that running tasks need stay in any case.
    pub cache_limit_bytes: u64,
    /// Whether inputs in the cache are passed on to hosts of the same network that the master sends.
    pub share_inputs: bool,
    /// The UDP port on which such hosts are served; 0: any that is free.
    pub share_port: u16,
    /// The most bytes a second that are sent to such hosts, all together; 0: no limit.
    pub share_bytes_per_s: u64,
    /// The level at which tasks are kept away from the owner's things.
    pub confinement: Choice<Confinement>,
    /// The tasks that may use the network, from confinement `landlock` on.
    pub network: NetworkRule,
    /// Files and directories that tasks may read and execute beside those of the system.
    pub readable_paths: Vec<String>,
    /// Whether settings from the master are taken. They can only be stricter than these.
    pub settings_from_master: bool,
    /// Whether new programs from the master are taken.
    pub updates: bool,
    /// The key that new programs must be signed with; empty: the one learned when joining.
    pub update_key: String,
    /// The longest time that a new program waits for running tasks to end. After it they are given back, as
    /// when the worker is stopped.
    pub update_wait: ConfigDuration,
    /// The time within which a new program must reach the master. If it does not, the one before runs again.
    pub update_trial: ConfigDuration,
    /// The account of tasks where the worker runs as root, by name or number; empty: that of
    /// `nobody`.
    pub account: String,
    /// The mechanism that freezes tasks.
    pub freezer: Choice<Freezer>,
    /// The memory of a task, all its processes together, in bytes. On a host without control groups
    /// for that, it bounds the address space of each process. 0: no limit.
    pub memory_limit_bytes: u64,
    /// The processes and threads that a task may have at a time, where the host can count them; 0:
    /// no limit.
    pub processes_limit: u64,
    /// The disk space of a task's directory, in bytes; 0: no limit.
    pub disk_limit_bytes: u64,
    /// The files and directories that a task may have in its directory; 0: no limit.
    pub disk_files_limit: u64,
    /// The length of each file that a task writes, in bytes; 0: no limit.
    pub file_limit_bytes: u64,
    /// The files that each process of a task may have open; 0: no limit beyond the system's.
    pub open_files_limit: u64,
    /// The bound of the first wait before a reconnection. Each wait is drawn evenly from zero to a
    /// bound that doubles from here.
    pub reconnect_base: ConfigDuration,
    /// The largest such bound. If the master is up and refuses this worker, `reconnect_base` and
    /// `reconnect_cap` are twenty times as long.
    pub reconnect_cap: ConfigDuration,
    /// The interval at which a worker that reaches its master over TCP tries whether UDP gets
    /// through.
    pub udp_retry: ConfigDuration,
    /// The notices that the owner sees on the desktop.
    pub notify: Vec<NoticeKind>,
    /// The owner's rules: the times at which tasks may run, and the part of the host they may use.
    pub owner: OwnerRules,
    /// The settings of the sensors that watch for the owner.
    pub sensors: SensorsConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            slots: 0,
            speed: 0.0,
            labels: Vec::new(),
            platform: String::new(),
            lend_gpus: true,
            grace: ConfigDuration::from_secs(5),
            owner_poll: ConfigDuration::from_millis(100),
            look_every: ConfigDuration::from_secs(10),
            record_limit: 10_000,
            path: TASK_PATH.to_owned(),
            lang: "C.UTF-8".to_owned(),
            stream_limit_bytes: 16 << 20,
            output_limit_bytes: 4 << 30,
            checkpoint_limit_bytes: 64 << 20,
            checkpoint_files_limit: 1_000,
            cache_limit_bytes: 10 << 30,
            share_inputs: true,
            share_port: 0,
            share_bytes_per_s: 62_500_000,
            confinement: Choice::Auto,
            network: NetworkRule::Asked,
            readable_paths: Vec::new(),
            settings_from_master: true,
            updates: true,
            update_key: String::new(),
            update_wait: ConfigDuration::from_secs(3_600),
            update_trial: ConfigDuration::from_secs(300),
            account: String::new(),
            freezer: Choice::Auto,
            memory_limit_bytes: 0,
            processes_limit: 1_000,
            disk_limit_bytes: 16 << 30,
            disk_files_limit: 100_000,
            file_limit_bytes: 0,
            open_files_limit: 0,
            reconnect_base: ConfigDuration::from_millis(100),
            reconnect_cap: ConfigDuration::from_secs(30),
            udp_retry: ConfigDuration::from_secs(600),
            notify: Vec::new(),
            owner: OwnerRules::default(),
            sensors: SensorsConfig::default(),
        }
    }
}

impl Config {
    /// Reads the settings from a file; keys that it leaves out have their defaults.
    ///
    /// # Errors
    /// If the file cannot be read, is not TOML, or has a key that does not exist.
    pub fn load(path: &Path) -> Result<Self, WorkerError> {
        Self::parsed(path, &text_of(path)?, str::parse)
    }

    /// Returns the text of a file of settings, for a copy of it, after a check that a worker accepts it. The file is read
    /// once: it may be a pipe.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn checked_text(path: &Path) -> Result<String, WorkerError> {
        let text = text_of(path)?;
        Self::parsed(path, &text, str::parse)?;
        Ok(text)
    }

    /// Reads what the keeper of another program needs of the settings, of which that program may know
    /// keys that this one does not; the rest has its defaults.
    ///
    /// # Errors
    /// If the file cannot be read or is not TOML, or one of the keeper's own keys makes no sense.
    pub fn load_for_keeper(path: &Path) -> Result<Self, WorkerError> {
        Self::parsed(path, &text_of(path)?, Self::for_keeper)
    }

    fn for_keeper(text: &str) -> Result<Self, toml::de::Error> {
        let table: toml::Table = text.parse()?;
        let own = |(key, _): &(String, toml::Value)| KEEPER_KEYS.contains(&key.as_str());
        let own: toml::Table = table.into_iter().filter(own).collect();
        toml::Value::Table(own).try_into()
    }

    fn parsed(
        path: &Path,
        text: &str,
        parse: impl FnOnce(&str) -> Result<Self, toml::de::Error>,
    ) -> Result<Self, WorkerError> {
        parse(text).map_err(|source| WorkerError::Config {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    /// Returns the number of slots on this host: `slots`, or the number of logical processors where
    /// that is 0.
    pub(crate) fn slots_here(&self) -> u32 {
        match self.slots {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            n => n,
        }
    }

    /// Returns the speed that the owner has set, if any.
    pub(crate) fn speed_said(&self) -> Option<Speed> {
        Speed::new(self.speed).ok()
    }

    /// Adds to the facts what the owner says of the host, which is of this size, and lends of it.
    pub(crate) fn say_of(&self, facts: &mut HostFacts, room: &HostSize) {
        if let Ok(name) = self.platform.parse::<PlatformName>() {
            facts.platform = HostPlatform::new(name.os(), name.arch(), "");
        }
        facts.labels = self.labels.iter().cloned().collect();

        let memory = room.lent_memory(self.owner.memory_share_idle);
        let cores = (self.owner.cpu_limit * f64::from(facts.cores)) as u32;
        let gpus = if self.lend_gpus { facts.gpus.len() } else { 0 };
        facts.lends = Capacity {
            cores: cores.max(facts.slots),
            memory_mib: mebibytes(memory),
            gpus: gpus as u32,
        };
        facts.task_memory_mib = mebibytes(self.memory_limit_bytes);
    }

    /// Returns the settings that the confinement of tasks depends on.
    pub fn means(&self) -> Means {
        Means {
            account: self.account.clone(),
            readable: self.readable_paths.clone(),
            root_at_process: self.confinement == Choice::This(Confinement::Process),
        }
    }

    /// Returns the limits of an attempt that takes this much: the memory that it asks for is the
    /// most that it gets.
    pub(crate) fn limits_for(&self, takes: Demand) -> AttemptLimits {
        let limits = self.limits();
        let asked = u64::from(takes.memory_mib) << 20;
        let memory = [limits.memory, Some(asked).filter(|asked| *asked > 0)];
        AttemptLimits {
            memory: memory.into_iter().flatten().min(),
            ..limits
        }
    }

    fn limits(&self) -> AttemptLimits {
        AttemptLimits {
            memory: some(self.memory_limit_bytes),
            processes: some(self.processes_limit),
            file: some(self.file_limit_bytes),
            open_files: some(self.open_files_limit),
        }
    }

    /// Returns the limits of each task's directory, in bytes and in files; `None`: no limit.
    pub(crate) fn disk_limits(&self) -> (Option<u64>, Option<u64>) {
        (some(self.disk_limit_bytes), some(self.disk_files_limit))
    }

    pub(crate) fn owner_poll(&self) -> Duration {
        self.owner_poll.0.max(Duration::from_millis(1))
    }

    pub(crate) fn look_every(&self) -> Duration {
        self.look_every.0.max(Duration::from_millis(10))
    }

    pub(crate) fn again(&self) -> Again {
        let udp_every = self.udp_retry.0.max(Duration::from_secs(1));
        Again::new(self.reconnect_base.0, self.reconnect_cap.0, udp_every)
    }
}

/// Returns a limit of a file, where 0 is none.
fn some(limit: u64) -> Option<u64> {
    Some(limit).filter(|limit| *limit != 0)
}

fn text_of(path: &Path) -> Result<String, WorkerError> {
    std::fs::read_to_string(path).map_err(|source| WorkerError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

impl std::str::FromStr for Config {
    type Err = toml::de::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let config: Config = toml::from_str(text)?;
        if config.speed != 0.0 && Speed::new(config.speed).is_err() {
            return Err(serde::de::Error::custom(
                "speed must be from 0.000001 to 1000000, or 0 for what is measured",
            ));
        }

        if config.labels.len() > MAX_LABELS {
            let why = format!("labels: {MAX_LABELS} at most");
            return Err(serde::de::Error::custom(why));
        }
        if !config.platform.is_empty() {
            let name: Result<PlatformName, _> = config.platform.parse();
            name.map_err(|bad| serde::de::Error::custom(format!("platform: {bad}")))?;
        }
        config.owner.check().map_err(serde::de::Error::custom)?;
        if let Some(path) = config
            .readable_paths
            .iter()
            .find(|path| !Path::new(path).is_absolute())
        {
            let why = format!("readable_paths: `{path}` must begin with a slash");
            return Err(serde::de::Error::custom(why));
        }
        Ok(config)
    }
}

/// Returns a limit in MiB, rounded down; 0 bytes are no limit.
pub(crate) fn mebibytes(bytes: u64) -> u32 {
    match bytes {
        0 => u32::MAX,
        bytes => u32::try_from(bytes >> 20).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_names_every_key_with_its_default() {
        let text = include_str!("../../configs/worker.toml");
        // It shows the `PATH` of Linux, and says the other.
        let path = if cfg!(windows) {
            text.parse::<Config>().unwrap().path
        } else {
            TASK_PATH.to_owned()
        };
        assert_eq!(
            text.parse::<Config>().unwrap(),
            Config {
                path,
                ..Config::default()
            }
        );

        assert!(text.contains(TASK_PATH));
        let shipped: toml::Table = text.parse().unwrap();
        let known = toml::Table::try_from(Config::default()).unwrap();
        assert_eq!(keys("", &shipped), keys("", &known));
    }

    #[test]
    fn a_keeper_reads_its_own_keys_among_those_of_a_newer_program() {
        let text = "newer_key = 1\nslots = \"half\"\nupdates = false\nupdate_trial = \"2s\"\n[newer]\nmore = 2\n";
        assert!(text.parse::<Config>().is_err());
        let expected = Config {
            updates: false,
            update_trial: ConfigDuration::from_secs(2),
            ..Config::default()
        };
        assert_eq!(Config::for_keeper(text).unwrap(), expected);

        for wrong in ["updates = \"no\"", "update_trial = 2", "updates"] {
            assert!(Config::for_keeper(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_service_with_a_limit_lends_the_owners_share_of_the_pc_as_far_as_the_limit_allows() {
        let room = HostSize {
            slots: 4,
            cores: 4,
            memory: 16 << 30,
            memory_bound: 12 << 30,
            memory_per_task: 0,
        };
        let mut facts = HostFacts::unknown("pc".to_owned());
        for (text, lent_mib) in [
            ("", 11_520),
            ("[owner]\nmemory_share_idle = 0.5", 8_192),
            ("[owner]\nmemory_share_idle = 0.9", 11_520),
        ] {
            text.parse::<Config>().unwrap().say_of(&mut facts, &room);
            assert_eq!(facts.lends.memory_mib, lent_mib, "{text}");
        }
    }

    /// Every key, those of tables below behind the table's name.
    fn keys(prefix: &str, table: &toml::Table) -> std::collections::BTreeSet<String> {
        let below = |(key, value): (&String, &toml::Value)| match value {
            toml::Value::Table(table) => keys(&format!("{prefix}{key}."), table),
            _ => [format!("{prefix}{key}")].into(),
        };
        table.iter().flat_map(below).collect()
    }

    #[test]
    fn an_owners_rules_are_refused_by_key_where_they_contradict_themselves() {
        let refused = |text: &str| text.parse::<Config>().unwrap_err().to_string();
        assert!(refused("[owner.input]\nidle = \"1m\"").contains("owner.input.resume is 3m,"));
        assert!(refused("[owner]\nhours = [\"mon 9-17\"]").contains("`9` is no time of day"));
        assert!(refused("[owner.load]\nof = \"core\"").contains("core"));
        assert!(refused("[owner]\nslots_when_activ = 1").contains("slots_when_activ"));
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let error = "slotz = 3".parse::<Config>().unwrap_err().to_string();
        assert!(
            "speed = -1.0".parse::<Config>().is_err() && "speed = nan".parse::<Config>().is_err()
        );
        assert!(
            error.contains("slotz") && error.contains("slots"),
            "{error}"
        );
    }
}
