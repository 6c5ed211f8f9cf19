//! What the owner of the host wants: sensors look, each from a thread of its own, so that a slow
//! one holds up neither the others nor the worker; [`policy`] decides what tasks may do, by the
//! owner's [`rules`].

pub(crate) mod hour;
pub mod pause;
pub mod policy;
pub mod rules;
pub mod sensors;
pub mod sight;

use std::path::Path;

use pause::{PAUSE_FILE, PauseFile};
use rules::Rules;
use sensors::Sensor;

use crate::config::Config;

/// The owner's switches, for a worker in `dir`: first its own.
fn switches(rules: &Rules, dir: &Path) -> Vec<Box<dyn Sensor>> {
    let files = std::iter::once(dir.join(PAUSE_FILE)).chain(rules.pause_files.iter().cloned());
    files
        .map(|file| Box::new(PauseFile::new(file)) as Box<dyn Sensor>)
        .collect()
}

/// What looks for the owner, for a worker in `dir`: the switches, and the sensors of what the rules
/// heed.
pub(crate) fn eyes(config: &Config, dir: &Path) -> Vec<Box<dyn Sensor>> {
    let sensors = config.sensors.heeding(&config.owner.input);
    let sensors = sensors::all(&sensors)
        .into_iter()
        .filter(|sensor| config.owner.heeds(sensor.topic()));
    switches(&config.owner, dir)
        .into_iter()
        .chain(sensors)
        .collect()
}
