//! What an owner can set about sensors. What follows from what they see is set elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::owner::rules::InputRule;

/// Input is looked at no more often than this, in milliseconds.
const OFTEN_MS: u64 = 500;

/// Whether a sensor looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Where there is something to look at.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What a session counts as whose input no sensor can see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unseen {
    /// As not known, which is taken for use.
    #[default]
    Present,
    /// As nothing.
    Ignore,
}

/// The sensors' settings: the table `[sensors]` of a worker's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SensorsConfig {
    /// Keyboards, mice and other input devices of this host.
    pub evdev: Use,
    /// Sessions of people, here and over the network, as the system's login manager knows them.
    pub logind: Use,
    /// Displays of the X Window System.
    pub x11: Use,
    /// Processor time of programs that are not the grid's.
    pub load: Use,
    /// Memory that is left, and programs that wait for it.
    pub memory: Use,
    /// Mains and batteries.
    pub power: Use,
    /// Names of programs that are to have the host for themselves, such as `blender`.
    pub programs: Vec<String>,
    /// X displays to look at, such as `:0`; none: all that there are.
    pub displays: Vec<String>,
    /// A file with keys to X displays, beside the usual ones; empty: none.
    pub xauthority: PathBuf,
    /// What a session counts as whose input nothing sees: a remote desktop, or a remote session
    /// without a terminal.
    pub unseen_sessions: Unseen,
    /// How often input is looked at while nothing tells of any, in milliseconds.
    pub input_every_ms: u64,
    /// How often, and over what time, load is measured, in milliseconds.
    pub load_every_ms: u64,
    /// How often memory is looked at, in milliseconds; a shortage tells by itself where the system
    /// can.
    pub memory_every_ms: u64,
    /// How often mains and batteries are looked at, in milliseconds.
    pub power_every_ms: u64,
    /// How often running programs are looked at, in milliseconds.
    pub programs_every_ms: u64,
    /// A sensor that takes longer than this to look is taken not to know, in milliseconds.
    pub patience_ms: u64,
    /// Where input devices are.
    pub input_dir: PathBuf,
    /// Where the sockets of X displays are.
    pub x11_dir: PathBuf,
    /// Where the system tells of its devices.
    pub sys_dir: PathBuf,
    /// Where the system tells of processes and memory.
    pub proc_dir: PathBuf,
    /// The address of the system's message bus; empty: the usual one.
    pub system_bus: String,
}

impl Default for SensorsConfig {
    fn default() -> Self {
        Self {
            evdev: Use::Auto,
            logind: Use::Auto,
            x11: Use::Auto,
            load: Use::Auto,
            memory: Use::Auto,
            power: Use::Auto,
            programs: Vec::new(),
            displays: Vec::new(),
            xauthority: PathBuf::new(),
            unseen_sessions: Unseen::Present,
            input_every_ms: 5_000,
            load_every_ms: 5_000,
            memory_every_ms: 5_000,
            power_every_ms: 10_000,
            programs_every_ms: 5_000,
            patience_ms: 5_000,
            input_dir: "/dev/input".into(),
            x11_dir: "/tmp/.X11-unix".into(),
            sys_dir: "/sys".into(),
            proc_dir: "/proc".into(),
            system_bus: String::new(),
        }
    }
}

impl SensorsConfig {
    /// How long a sensor may take to look.
    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms.max(1))
    }

    /// The same for a rule about input: twice or more often within the time without input after
    /// which tasks run. Only the first touch after a pause is told at once, so whoever types on
    /// must be looked at before that time is over.
    #[must_use]
    pub fn heeding(&self, rule: &InputRule) -> Self {
        let half_ms = (rule.idle_s.min(rule.resume_s) * 500.0) as u64;
        Self {
            input_every_ms: self.input_every_ms.min(half_ms.max(OFTEN_MS)),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_is_looked_at_before_the_time_without_it_is_over() {
        let every = |idle_s, resume_s| {
            SensorsConfig::default()
                .heeding(&InputRule {
                    heed: true,
                    idle_s,
                    resume_s,
                })
                .input_every_ms
        };
        assert_eq!(
            (
                every(180.0, 180.0),
                every(180.0, 4.0),
                every(2.0, 2.0),
                every(0.0, 0.0)
            ),
            (5_000, 2_000, 1_000, 500)
        );
    }

    #[test]
    fn what_is_left_out_is_as_by_default_and_what_is_unknown_is_refused() {
        assert_eq!(
            toml::from_str::<SensorsConfig>("").unwrap(),
            SensorsConfig::default()
        );

        let off: SensorsConfig =
            toml::from_str("evdev = \"off\"\nprograms = [\"blender\"]").unwrap();
        assert_eq!(
            (off.evdev, off.logind, &*off.programs),
            (Use::Off, Use::Auto, &["blender".to_owned()][..])
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
