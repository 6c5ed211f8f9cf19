//! Sensors of the owner's use of a Windows host: input and full screens in the sessions of its
//! users, processors, memory, power. How a service learns of sessions is in `watchers`, the load by
//! other programs in `load`.

mod watchers;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use self::watchers::Watchers;
use super::glance::Glance;
use super::sessions::SessionSights;
use super::{Sensor, SensorUse, SensorsConfig, load, when};
use crate::os::windows::sense;
use crate::owner::sight::{Reading, Sight, Topic};

/// The interval of looks at what watchers say: at news of one the look is at once.
const HEAR: Duration = Duration::from_secs(1);

/// A sensor of one thing in the users' sessions.
struct InSessions {
    name: &'static str,
    topic: Topic,
    watchers: Arc<Watchers>,
    of: fn(SessionSights) -> Sight,
}

impl Sensor for InSessions {
    fn name(&self) -> &'static str {
        self.name
    }

    fn topic(&self) -> Topic {
        self.topic
    }

    fn sense(&mut self) -> Sight {
        (self.of)(self.watchers.look())
    }

    fn wait(&mut self, pause: Duration) {
        match self.topic {
            // Nobody else tells of input in this worker's own session.
            Topic::Input if !self.watchers.hears() => thread::sleep(pause),
            Topic::Input => self.watchers.wait(HEAR.max(pause)),
            _ => thread::sleep(HEAR.max(pause)),
        }
    }
}

/// Returns the sensors of the users' sessions.
fn in_sessions(config: &SensorsConfig) -> [Box<dyn Sensor>; 2] {
    let watchers = Watchers::new(config.unseen_sessions);
    let sensor = |name, topic, of| {
        let watchers = Arc::clone(&watchers);
        Box::new(InSessions {
            name,
            topic,
            watchers,
            of,
        }) as _
    };

    [
        sensor("input", Topic::Input, |sights: SessionSights| sights.input),
        sensor("full-screen", Topic::Programs, |sights| sights.full_screen),
    ]
}

/// Returns every sensor that the owner did not switch off. `evdev` is the switch for the users'
/// sessions.
pub(super) fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    let auto = |switch: SensorUse| switch == SensorUse::Auto;
    let sessions = auto(config.evdev).then(|| in_sessions(config));
    let others = [
        when(auto(config.memory), || {
            Glance::new("memory", Topic::Memory, config.memory_every, memory)
        }),
        when(auto(config.power), || {
            Glance::new("power", Topic::Power, config.power_every, power)
        }),
        when(auto(config.load), || load::sensor(config)),
    ];

    let sessions = sessions.into_iter().flatten();
    sessions.chain(others.into_iter().flatten()).collect()
}

fn memory() -> Sight {
    match sense::memory() {
        // Windows does not report how hard programs wait for memory.
        Some(memory) if memory.total > 0 => Sight::Seen(Reading::Memory {
            available: memory.available as f64 / memory.total as f64,
            pressure: 0.0,
        }),
        _ => Sight::Unknown("the system does not tell how much memory is available".to_owned()),
    }
}

fn power() -> Sight {
    match sense::power() {
        sense::PowerSupply::Mains => Sight::Seen(Reading::Battery(None)),
        // A battery with an unknown charge counts as an empty one.
        sense::PowerSupply::Battery(charge) => {
            Sight::Seen(Reading::Battery(Some(charge.unwrap_or(0.0))))
        }
        sense::PowerSupply::Unknown => {
            Sight::Unknown("the system does not tell what it runs on".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sensor_reads_and_reports_failure_instead_of_absence() {
        let sensors = all(&SensorsConfig::default());
        let mut seen = Vec::new();
        for mut sensor in sensors {
            let sight = sensor.sense();
            assert!(
                !matches!(sight, Sight::Absent(_)),
                "{}: {sight:?}",
                sensor.name()
            );
            seen.push((sensor.name(), sensor.topic()));
        }

        let names = [
            ("input", Topic::Input),
            ("full-screen", Topic::Programs),
            ("memory", Topic::Memory),
            ("power", Topic::Power),
            ("load", Topic::Load),
        ];
        assert_eq!(seen, names);
        assert!(
            all(&SensorsConfig {
                evdev: SensorUse::Off,
                ..SensorsConfig::default()
            })
            .iter()
            .all(|s| s.topic() != Topic::Input && s.topic() != Topic::Programs)
        );
    }
}
