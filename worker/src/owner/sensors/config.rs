//! The settings of the sensors. The reactions to what they see are set in `Rules`.

use std::path::PathBuf;
use std::time::Duration;

use common::settings::ConfigDuration;
use serde::{Deserialize, Serialize};

use crate::owner::rules::InputRule;

/// The shortest interval between looks at input that `heeding` sets.
const OFTEN: Duration = Duration::from_millis(500);

/// Whether a sensor is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SensorUse {
    /// It is used where there is something to look at.
    #[default]
    Auto,
    /// It is never used.
    Off,
}

/// The meaning of a session whose input no sensor can see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unseen {
    /// The sight is unknown, which counts as use.
    #[default]
    Present,
    /// The session is ignored.
    Ignore,
}

/// The sensors' settings: the table `[sensors]` of a worker's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SensorsConfig {
    /// The sensor of keyboards, mice and other input devices of this host.
    pub evdev: SensorUse,
    /// The sensor of people's sessions, here and over the network, as the system's login manager
    /// lists them.
    pub logind: SensorUse,
    /// The sensor of displays of the X Window System.
    pub x11: SensorUse,
    /// The sensor of processor time of programs that are not the grid's.
    pub load: SensorUse,
    /// The sensor of available memory, and of programs that wait for it.
    pub memory: SensorUse,
    /// The sensor of mains and batteries.
    pub power: SensorUse,
    /// Names of programs that are to have the host for themselves, such as `blender`.
    pub programs: Vec<String>,
    /// X displays to look at, such as `:0`; none: all that exist.
    pub displays: Vec<String>,
    /// A file with keys to X displays, beside the usual ones; empty: none.
    pub xauthority: PathBuf,
    /// The meaning of a session whose input no sensor sees: a remote desktop, or a remote session
    /// without a terminal.
    pub unseen_sessions: Unseen,
    /// The interval between looks at input while no event tells of any.
    pub input_every: ConfigDuration,
    /// The interval over which load is measured.
    pub load_every: ConfigDuration,
    /// The interval between looks at memory; the system reports a shortage at once
    /// where it can.
    pub memory_every: ConfigDuration,
    /// The interval between looks at mains and batteries.
    pub power_every: ConfigDuration,
    /// The interval between looks at running programs.
    pub programs_every: ConfigDuration,
    /// The longest look of a sensor; after that its sight is unknown.
    pub patience: ConfigDuration,
    /// The directory of the input devices.
    pub input_dir: PathBuf,
    /// The directory of the sockets of X displays.
    pub x11_dir: PathBuf,
    /// The mount point of sysfs, which lists devices.
    pub sys_dir: PathBuf,
    /// The mount point of procfs, which lists processes and memory.
    pub proc_dir: PathBuf,
    /// The address of the system's message bus; empty: the usual one.
    pub system_bus: String,
}

impl Default for SensorsConfig {
    fn default() -> Self {
        Self {
            evdev: SensorUse::Auto,
            logind: SensorUse::Auto,
            x11: SensorUse::Auto,
            load: SensorUse::Auto,
            memory: SensorUse::Auto,
            power: SensorUse::Auto,
            programs: Vec::new(),
            displays: Vec::new(),
            xauthority: PathBuf::new(),
            unseen_sessions: Unseen::Present,
            input_every: ConfigDuration::from_secs(5),
            load_every: ConfigDuration::from_secs(5),
            memory_every: ConfigDuration::from_secs(5),
            power_every: ConfigDuration::from_secs(10),
            programs_every: ConfigDuration::from_secs(5),
            patience: ConfigDuration::from_secs(5),
            input_dir: "/dev/input".into(),
            x11_dir: "/tmp/.X11-unix".into(),
            sys_dir: "/sys".into(),
            proc_dir: "/proc".into(),
            system_bus: String::new(),
        }
    }
}

impl SensorsConfig {
    /// Returns the longest time that a sensor may take to look.
    pub fn patience(&self) -> Duration {
        self.patience.0.max(Duration::from_millis(1))
    }

    /// Returns the same settings adapted to a rule about input: it is looked at twice or more often
    /// within the time without input after which tasks run. Only the first touch after a pause is
    /// reported at once, so somebody who keeps typing must be seen before that time is over.
    #[must_use]
    pub fn heeding(&self, rule: &InputRule) -> Self {
        let half = rule.idle.min(rule.resume).0 / 2;
        Self {
            input_every: self.input_every.min(ConfigDuration(half.max(OFTEN))),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_sensors_are_those_that_the_documents_name() {
        let sensors = SensorsConfig::default();
        let every = [
            sensors.power_every,
            sensors.programs_every,
            sensors.memory_every,
            sensors.load_every,
        ];
        assert_eq!(every, [10, 5, 5, 5].map(ConfigDuration::from_secs));
    }

    #[test]
    fn input_is_looked_at_before_the_time_without_it_is_over() {
        let every = |idle, resume| {
            let rule = InputRule {
                heed: true,
                idle: ConfigDuration::from_secs(idle),
                resume: ConfigDuration::from_secs(resume),
            };
            let heeding = SensorsConfig::default().heeding(&rule);
            heeding.input_every.0.as_millis()
        };
        assert_eq!(
            (every(180, 180), every(180, 4), every(2, 2), every(0, 0)),
            (5_000, 2_000, 1_000, 500)
        );
    }

    #[test]
    fn omitted_keys_take_defaults_and_unknown_ones_are_refused() {
        assert_eq!(
            toml::from_str::<SensorsConfig>("").unwrap(),
            SensorsConfig::default()
        );

        let off: SensorsConfig =
            toml::from_str("evdev = \"off\"\nprograms = [\"blender\"]").unwrap();
        assert_eq!(
            (off.evdev, off.logind, &*off.programs),
            (SensorUse::Off, SensorUse::Auto, &["blender".to_owned()][..])
        );

        let error = toml::from_str::<SensorsConfig>("evdevs = \"off\"")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("evdevs") && error.contains("logind"),
            "{error}"
        );
    }
}
