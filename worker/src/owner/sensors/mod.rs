//! The sensors that watch for the owner: each looks at one thing, on its own thread (`watch`), and
//! returns a [`Sight`]. The policy decides what follows from it.

mod config;
#[cfg(target_os = "linux")]
mod evdev;
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

/// Makes a sensor, if it is wanted.
fn when<S: Sensor>(wanted: bool, make: impl FnOnce() -> S) -> Option<Box<dyn Sensor>> {
    wanted.then(|| Box::new(make()) as Box<dyn Sensor>)
}

/// Returns every sensor that the owner did not switch off. None has looked yet.
#[cfg(target_os = "linux")]
pub fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    let auto = |switch: SensorUse| switch == SensorUse::Auto;
    let sensors = [
        when(auto(config.evdev), || evdev::Evdev::new(config)),
        when(auto(config.logind), || logind::Logind::new(config)),
        when(auto(config.x11), || x11::X11::new(config)),
        when(auto(config.load), || load::sensor(config)),
        when(auto(config.memory), || memory::MemorySensor::new(config)),
        when(auto(config.power), || power::sensor(config)),
        when(!config.programs.is_empty(), || programs::sensor(config)),
    ];

    sensors.into_iter().flatten().collect()
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
