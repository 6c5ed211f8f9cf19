//! Sensors of the owner's use of a Windows host: the last input of this session, processors,
//! memory, power. A process cannot see input in other sessions. The load by other programs is in
//! `load`.

use std::thread;
use std::time::Duration;

use common::Span;

use super::load::OthersLoad;
use super::{Sensor, SensorUse, SensorsConfig};
use crate::os::windows::sense;
use crate::owner::sight::{Reading, Sight, Topic};

/// A sensor that is polled.
struct Glance {
    name: &'static str,
    topic: Topic,
    /// The shortest interval between looks; zero: the common one.
    every: Duration,
    look: fn() -> Sight,
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

/// Returns every sensor that the owner did not switch off. `evdev` is the switch for the last
/// input.
pub(super) fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    let glances: [(SensorUse, &'static str, Topic, Duration, fn() -> Sight); 3] = [
        (config.evdev, "input", Topic::Input, Duration::ZERO, input),
        (
            config.memory,
            "memory",
            Topic::Memory,
            config.memory_every.0,
            memory,
        ),
        (
            config.power,
            "power",
            Topic::Power,
            config.power_every.0,
            power,
        ),
    ];
    let wanted = glances
        .into_iter()
        .filter(|(switch, ..)| *switch == SensorUse::Auto);
    let glances = wanted.map(|(_, name, topic, every, look)| {
        Box::new(Glance {
            name,
            topic,
            every,
            look,
        }) as _
    });

    let load = (config.load == SensorUse::Auto)
        .then(|| Box::new(OthersLoad::new(config)) as Box<dyn Sensor>);
    glances.chain(load).collect()
}

fn input() -> Sight {
    match sense::idle() {
        Some(idle) => Sight::Seen(Reading::Idle(Span::from(idle))),
        None => Sight::Unknown(
            "a service sees no keyboard and no mouse; run the worker in the user's session"
                .to_owned(),
        ),
    }
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
            .all(|s| s.name() != "input")
        );
    }
}
