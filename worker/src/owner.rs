//! The owner of the host: [`sensors`] look, each on its own thread, so that a slow one delays
//! neither the others nor the worker; [`policy`] decides what tasks may do, by the owner's
//! [`rules`]; [`notices`] tell the owner of it, if the owner wants that.

pub mod guard;
pub(crate) mod hour;
pub mod notices;
pub mod pause;
pub mod policy;
pub mod rules;
pub mod sensors;
pub mod sight;
#[cfg(windows)]
pub mod watcher;

use std::path::Path;

use pause::{PAUSE_FILE, PauseFile};
use policy::Watched;
use rules::OwnerRules;
use sensors::Sensor;

use crate::config::Config;

/// Returns the sensors of the owner's switches, for a worker in `dir`: first its own `PAUSE_FILE`,
/// then `OwnerRules::pause_files`.
fn switches(rules: &OwnerRules, dir: &Path) -> Vec<Box<dyn Sensor>> {
    let files = std::iter::once(dir.join(PAUSE_FILE)).chain(rules.pause_files.iter().cloned());
    files
        .map(|file| Box::new(PauseFile::new(file)) as Box<dyn Sensor>)
        .collect()
}

/// Returns the sensors whose topic the rules heed.
pub fn heeded(config: &Config) -> Vec<Box<dyn Sensor>> {
    let sensors = config.sensors.heeding(&config.owner.input);
    let all = sensors::all(&sensors).into_iter();
    all.filter(|sensor| config.owner.heeds(sensor.topic()))
        .collect()
}

/// Returns the sensors that watch for the owner, for a worker in `dir`: the switches, and the
/// sensors whose topic the rules heed.
pub(crate) fn eyes(config: &Config, dir: &Path) -> Vec<Box<dyn Sensor>> {
    switches(&config.owner, dir)
        .into_iter()
        .chain(heeded(config))
        .collect()
}

/// Returns the sensors whose topic these stricter rules heed, and none of those that are there looks
/// at.
pub(crate) fn more_eyes(
    config: &Config,
    rules: &OwnerRules,
    there: &[Watched],
) -> Vec<Box<dyn Sensor>> {
    let sensors = config.sensors.heeding(&rules.input);
    sensors::all(&sensors)
        .into_iter()
        .filter(|sensor| rules.heeds(sensor.topic()))
        .filter(|sensor| there.iter().all(|seen| seen.topic != sensor.topic()))
        .collect()
}
