//! What tells whether the owner wants the host. Each sensor looks from a thread of its own, so that a slow one holds up
//! neither the others nor the worker.

mod glimpse;
pub mod sensors;
pub mod sight;

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use common::host::{OwnerState, YieldReason};
use tokio::sync::mpsc::UnboundedSender;

pub(crate) use self::glimpse::Glimpse;
use crate::os::DirWatch;

/// Something that can be asked whether the owner wants the host.
pub trait Sensor: Send + 'static {
    /// What it is called in logs.
    fn name(&self) -> &'static str;
    /// Looks now. May take its time; what it cannot tell, it must not call [`OwnerState::Away`].
    fn sense(&mut self) -> OwnerState;
    /// Waits until it is worth to look again: for this long, or until something tells.
    fn wait(&mut self, pause: Duration) {
        thread::sleep(pause);
    }
}

/// The owner's switch: a file. While it is there, the owner wants the host.
#[derive(Debug)]
pub struct PauseFile {
    file: PathBuf,
    dir: DirWatch,
}

impl PauseFile {
    /// The file of that name in `dir`.
    pub fn new(dir: &Path, name: &str) -> Self {
        Self { file: dir.join(name), dir: DirWatch::new(dir) }
    }
}

impl Sensor for PauseFile {
    fn name(&self) -> &'static str {
        "pause file"
    }

    fn sense(&mut self) -> OwnerState {
        // What cannot be looked at is not known to be absent.
        match self.file.try_exists() {
            Ok(false) => OwnerState::Away,
            Ok(true) | Err(_) => OwnerState::Present(YieldReason::PausedByOwner),
        }
    }

    fn wait(&mut self, pause: Duration) {
        self.dir.wait(pause);
    }
}

/// What one sensor says, when it says something new.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sensed {
    /// Which sensor.
    pub sensor: usize,
    /// What it says.
    pub state: OwnerState,
}

/// Has each sensor look now and then every `interval`, or when something tells it, and tell when what it sees has changed. Returns what they
/// see now.
pub(crate) fn watch<T: From<Sensed> + Send + 'static>(
    sensors: Vec<Box<dyn Sensor>>,
    interval: Duration,
    tell: &UnboundedSender<T>,
) -> io::Result<Vec<OwnerState>> {
    let mut states = Vec::new();
    for (sensor, mut eyes) in sensors.into_iter().enumerate() {
        let tell = tell.clone();
        let mut before = eyes.sense();
        states.push(before);
        let watch = move || {
            while !tell.is_closed() {
                eyes.wait(interval);
                let state = eyes.sense();
                if state != before {
                    before = state;
                    tracing::info!(sensor = eyes.name(), ?state, "the owner's wish has changed");
                    let _ = tell.send(Sensed { sensor, state }.into());
                }
            }
        };
        thread::Builder::new().name(format!("sensor-{sensor}")).stack_size(128 * 1024).spawn(watch)?;
    }
    Ok(states)
}

/// What all sensors say together: the first that sees the owner has the word.
pub(crate) fn together(states: &[OwnerState]) -> OwnerState {
    states.iter().copied().find(|state| *state != OwnerState::Away).unwrap_or(OwnerState::Away)
}
