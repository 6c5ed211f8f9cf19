//! A sensor that looks, waits, and looks again.

use std::thread;
use std::time::Duration;

use super::Sensor;
use crate::owner::sight::{Sight, Topic};

/// A sensor that is polled.
pub(super) struct Glance {
    /// Its name.
    pub name: &'static str,
    /// Its topic.
    pub topic: Topic,
    /// The shortest interval between looks.
    pub every: Duration,
    /// Looks once.
    pub look: Box<dyn FnMut() -> Sight + Send>,
}

impl Sensor for Glance {
    fn name(&self) -> &'static str {
        self.name
    }

    fn topic(&self) -> Topic {
        self.topic
    }

    fn sense(&mut self) -> Sight {
        (self.look)()
    }

    fn wait(&mut self, pause: Duration) {
        thread::sleep(self.every.max(pause));
    }
}
