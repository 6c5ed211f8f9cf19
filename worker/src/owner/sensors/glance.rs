//! A sensor that looks, waits, and looks again.

use std::thread;
use std::time::Duration;

use common::settings::ConfigDuration;

use super::Sensor;
use crate::owner::sight::{Sight, Topic};

/// A sensor that is polled.
pub(super) struct Glance {
    name: &'static str,
    topic: Topic,
    every: Duration,
    look: Box<dyn FnMut() -> Sight + Send>,
}

impl Glance {
    /// Makes a sensor that looks once in `every` at most.
    pub(super) fn new(
        name: &'static str,
        topic: Topic,
        every: ConfigDuration,
        look: impl FnMut() -> Sight + Send + 'static,
    ) -> Self {
        Self {
            name,
            topic,
            every: every.0,
            look: Box::new(look),
        }
    }
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
