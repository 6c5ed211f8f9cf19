//! The sensors that watch for the owner: each looks at one thing, on its own thread (`watch`), and
//! returns a [`Sight`]. The policy decides what follows from it.

mod config;
#[cfg(target_os = "linux")]
mod evdev;
#[cfg(any(windows, target_os = "macos"))]
mod glance;
mod load;
#[cfg(target_os = "linux")]
mod logind;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod power;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(any(target_os = "macos", test))]
mod registry;
#[cfg(any(windows, test))]
pub(crate) mod sessions;
mod watch;
#[cfg(windows)]
mod windows;
mod words;
#[cfg(target_os = "linux")]
mod x11;

use std::thread;
use std::time::Duration;

pub use config::{SensorUse, SensorsConfig, Unseen};
#[cfg(target_os = "linux")]
pub(crate) use evdev::{ARG as INPUT_ARG, watcher_main};
pub use watch::{SensorSight, look};
pub(crate) use watch::{SensorStop, Sighted, Timeouts, watch};
pub use words::words;

use super::sight::{Sight, Topic};

/// A sensor that watches for the owner.
pub trait Sensor: Send + 'static {
    /// Returns its name in logs and settings.
    fn name(&self) -> &'static str;
    /// Returns the topic that it looks at.
    fn topic(&self) -> Topic;
    /// Looks now. May take some time.
    fn sense(&mut self) -> Sight;
    /// Waits until the next look: for about `pause`, or as long as the sensor itself wants, or
    /// until an event.
    fn wait(&mut self, pause: Duration) {
        thread::sleep(pause);
    }
}

/// Returns every sensor that the owner did not switch off. None has looked yet.
#[cfg(target_os = "linux")]
pub fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    let mut sensors: Vec<Box<dyn Sensor>> = Vec::new();
    if config.evdev == SensorUse::Auto {
        sensors.push(Box::new(evdev::Evdev::new(config)));
    }
    if config.logind == SensorUse::Auto {
        sensors.push(Box::new(logind::Logind::new(config)));
    }
    if config.x11 == SensorUse::Auto {
        sensors.push(Box::new(x11::X11::new(config)));
    }
    if config.load == SensorUse::Auto {
        sensors.push(Box::new(load::OthersLoad::new(config)));
    }
    if config.memory == SensorUse::Auto {
        sensors.push(Box::new(memory::MemorySensor::new(config)));
    }

    if config.power == SensorUse::Auto {
        sensors.push(Box::new(power::PowerSensor::new(config)));
    }
    if !config.programs.is_empty() {
        sensors.push(Box::new(programs::Programs::new(config)));
    }

    sensors
}

/// Returns every sensor that the owner did not switch off. None has looked yet.
#[cfg(windows)]
pub fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    windows::all(config)
}

/// Returns every sensor that the owner did not switch off. None has looked yet.
#[cfg(target_os = "macos")]
pub fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    macos::all(config)
}
