//! What looks for the owner: each sensor looks at one thing, from a thread of its own (`watch`),
//! and says what it saw. What is not here: what follows from what was seen, which is the policy's.

mod config;
#[cfg(target_os = "linux")]
mod evdev;
mod load;
#[cfg(target_os = "linux")]
mod logind;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod power;
#[cfg(target_os = "linux")]
mod programs;
mod watch;
#[cfg(windows)]
mod windows;
mod words;
#[cfg(target_os = "linux")]
mod x11;

use std::thread;
use std::time::Duration;

pub use config::{SensorsConfig, Unseen, Use};
#[cfg(target_os = "linux")]
pub(crate) use evdev::{ARG as INPUT_ARG, watcher_main};
pub(crate) use watch::{Sighted, Timeouts, watch};
pub use watch::{View, look};
pub use words::words;

use super::sight::{Sight, Topic};

/// Something that looks for the owner.
pub trait Sensor: Send + 'static {
    /// What it is called in logs and settings.
    fn name(&self) -> &'static str;
    /// What it looks at.
    fn topic(&self) -> Topic;
    /// Looks now. May take its time.
    fn sense(&mut self) -> Sight;
    /// Waits until it is worth to look again: for about this long, or as long as the sensor itself
    /// wants, or until something tells.
    fn wait(&mut self, pause: Duration) {
        thread::sleep(pause);
    }
}

/// Every sensor that the owner did not switch off. Nothing is looked at yet.
#[cfg(target_os = "linux")]
pub fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    let mut sensors: Vec<Box<dyn Sensor>> = Vec::new();
    if config.evdev == Use::Auto {
        sensors.push(Box::new(evdev::Evdev::new(config)));
    }
    if config.logind == Use::Auto {
        sensors.push(Box::new(logind::Logind::new(config)));
    }
    if config.x11 == Use::Auto {
        sensors.push(Box::new(x11::X11::new(config)));
    }
    if config.load == Use::Auto {
        sensors.push(Box::new(load::OthersLoad::new(config)));
    }
    if config.memory == Use::Auto {
        sensors.push(Box::new(memory::Memory::new(config)));
    }

    if config.power == Use::Auto {
        sensors.push(Box::new(power::Power::new(config)));
    }
    if !config.programs.is_empty() {
        sensors.push(Box::new(programs::Programs::new(config)));
    }

    sensors
}

/// Every sensor that the owner did not switch off. Nothing is looked at yet.
#[cfg(windows)]
pub fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    windows::all(config)
}
