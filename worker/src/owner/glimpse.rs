//! The simplest rule that makes sensors count: whoever touched something a moment ago wants the host. What is not here:
//! load, power, programs and memory, thresholds and hysteresis, which are a policy's.

use std::io;
use std::path::Path;

use common::Span;
use common::host::{OwnerState, YieldReason};
use tokio::sync::mpsc::UnboundedSender;

use super::sensors::{self, Sighted, Timeouts};
use super::sight::{Reading, Sight, Topic};
use crate::config::Config;

/// What the sensors of input saw last.
#[derive(Debug)]
pub(crate) struct Glimpse {
    topics: Vec<Topic>,
    sights: Vec<Sight>,
    idle: Span,
}

impl Glimpse {
    /// Starts the sensors that the owner wants.
    pub(crate) fn start<T: From<Sighted> + Send + 'static>(
        config: &Config,
        dir: &Path,
        tell: &UnboundedSender<T>,
    ) -> io::Result<Self> {
        let all = sensors::all(&config.sensors, dir);
        let topics = all.iter().map(|sensor| sensor.topic()).collect();
        let timeouts = Timeouts { pause: config.owner_poll(), patience: config.sensors.patience() };
        let sights = sensors::watch(all, timeouts, tell)?;
        Ok(Self { topics, sights, idle: Span::from_millis(config.idle_ms) })
    }

    /// Takes what a sensor saw.
    pub(crate) fn note(&mut self, Sighted { sensor, sight }: Sighted) {
        self.sights[sensor] = sight;
    }

    /// Whether somebody is there.
    pub(crate) fn owner(&self) -> OwnerState {
        let input = self.topics.iter().zip(&self.sights).filter(|(topic, _)| **topic == Topic::Input);
        let there = input.map(|(_, sight)| sight).any(|sight| match sight {
            Sight::Seen(Reading::Idle(idle)) => *idle < self.idle,
            Sight::Seen(_) | Sight::Absent(_) => false,
            Sight::Unknown(_) => true,
        });
        if there { OwnerState::Present(YieldReason::InUse) } else { OwnerState::Away }
    }
}
