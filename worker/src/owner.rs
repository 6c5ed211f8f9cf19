//! What the owner of the host wants: sensors look, each from a thread of its own, so that a slow one holds up neither the
//! others nor the worker; [`policy`] decides what tasks may do, by the owner's [`rules`].

pub(crate) mod hour;
pub mod pause;
pub mod policy;
pub mod rules;
pub mod sight;

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use pause::{PAUSE_FILE, PauseFile};
use rules::Rules;
use sight::{Sight, Topic};

/// Something that looks at one side of the owner's use of the host.
pub trait Sensor: Send + 'static {
    /// What it is called: `evdev`, `logind`, `x11`.
    fn name(&self) -> &'static str;
    /// What it looks at.
    fn topic(&self) -> Topic;
    /// Looks now. May take its time. What it cannot see is [`Sight::Unknown`], never the owner's absence.
    fn sense(&mut self) -> Sight;
    /// Waits until it is worth to look again: for this long, or until something tells.
    fn wait(&mut self, pause: Duration) {
        thread::sleep(pause);
    }
}

/// What one sensor sees, whenever that has changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sighted {
    /// Which sensor.
    pub sensor: usize,
    /// What it sees.
    pub sight: Sight,
}

/// The owner's switches, for a worker in `dir`: first its own.
pub(crate) fn switches(rules: &Rules, dir: &Path) -> Vec<Box<dyn Sensor>> {
    let files = std::iter::once(dir.join(PAUSE_FILE)).chain(rules.pause_files.iter().cloned());
    files.map(|file| Box::new(PauseFile::new(file)) as Box<dyn Sensor>).collect()
}

/// Has each sensor look, then again every `interval`, or when something tells it, and tell what it sees first and
/// whenever that has changed.
pub(crate) fn watch<T: From<Sighted> + Send + 'static>(
    sensors: Vec<Box<dyn Sensor>>,
    interval: Duration,
    tell: &UnboundedSender<T>,
) -> io::Result<()> {
    for (sensor, mut eyes) in sensors.into_iter().enumerate() {
        let tell = tell.clone();
        let watch = move || {
            let mut before = None;
            while !tell.is_closed() {
                let sight = eyes.sense();
                if before.as_ref() != Some(&sight) {
                    before = Some(sight.clone());
                    tracing::debug!(sensor = eyes.name(), ?sight);
                    let _ = tell.send(Sighted { sensor, sight }.into());
                }
                eyes.wait(interval);
            }
        };
        thread::Builder::new().name(format!("sensor-{sensor}")).stack_size(128 * 1024).spawn(watch)?;
    }
    Ok(())
}
