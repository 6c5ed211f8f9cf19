//! What Windows tells of the owner's use of the host: the last input of this session, processors, memory, power. What is
//! not here: input in other sessions, which a process does not see.

use std::thread;
use std::time::Duration;

use common::Span;

use super::{Sensor, SensorsConfig, Use};
use crate::os;
use crate::os::windows::sense;
use crate::owner::sight::{Reading, Sight, Topic};
use crate::share::Load;

/// How long the very first look at the processors takes, as it needs two moments.
const FIRST: Duration = Duration::from_millis(500);

/// Something that is looked at now and then.
struct Glance {
    name: &'static str,
    topic: Topic,
    /// How often at most; nothing for as often as everything else.
    every: Duration,
    look: Box<dyn FnMut() -> Sight + Send>,
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

/// Every sensor that the owner did not switch off. `evdev` is the switch for the last input.
pub(super) fn all(config: &SensorsConfig) -> Vec<Box<dyn Sensor>> {
    let ms = Duration::from_millis;
    let mut before = None;
    let glances: [(Use, &'static str, Topic, Duration, Box<dyn FnMut() -> Sight + Send>); 4] = [
        (config.evdev, "input", Topic::Input, Duration::ZERO, Box::new(input)),
        (config.load, "load", Topic::Load, ms(config.load_every_ms), Box::new(move || load(&mut before))),
        (config.memory, "memory", Topic::Memory, ms(config.memory_every_ms), Box::new(memory)),
        (config.power, "power", Topic::Power, ms(config.power_every_ms), Box::new(power)),
    ];
    let wanted = glances.into_iter().filter(|(switch, ..)| *switch == Use::Auto);
    wanted
        .map(|(_, name, topic, every, look)| Box::new(Glance { name, topic, every, look }) as Box<dyn Sensor>)
        .collect()
}

fn input() -> Sight {
    match sense::idle() {
        Some(idle) => Sight::Seen(Reading::Idle(Span::from(idle))),
        None => {
            Sight::Unknown("a service sees no keyboard and no mouse; run the worker in the user's session".to_owned())
        }
    }
}

fn load(before: &mut Option<Load>) -> Sight {
    let first = before.take().or_else(|| os::load().inspect(|_| thread::sleep(FIRST)));
    *before = os::load();
    let (Some(first), Some(now)) = (first, *before) else {
        return Sight::Unknown("the system does not tell how busy its processors are".to_owned());
    };
    let passed = now.total.saturating_sub(first.total).max(1);
    let ours = now.ours.saturating_sub(first.ours);
    let others = now.busy.saturating_sub(first.busy).saturating_sub(ours);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    Sight::Seen(Reading::Load(processors as f64 * others as f64 / passed as f64))
}

fn memory() -> Sight {
    match sense::memory() {
        // The system does not tell how hard programs wait for memory.
        Some(memory) if memory.total > 0 => {
            Sight::Seen(Reading::Memory { available: memory.available as f64 / memory.total as f64, pressure: 0.0 })
        }
        _ => Sight::Unknown("the system does not tell how much memory is available".to_owned()),
    }
}

fn power() -> Sight {
    match sense::power() {
        sense::Power::Mains => Sight::Seen(Reading::Battery(None)),
        // A battery of which nothing is known counts as an empty one.
        sense::Power::Battery(charge) => Sight::Seen(Reading::Battery(Some(charge.unwrap_or(0.0)))),
        sense::Power::Unknown => Sight::Unknown("the system does not tell what it runs on".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sensor_looks_and_none_takes_what_it_cannot_see_for_absence() {
        let sensors = all(&SensorsConfig::default());
        let mut seen = Vec::new();
        for mut sensor in sensors {
            let sight = sensor.sense();
            assert!(!matches!(sight, Sight::Absent(_)), "{}: {sight:?}", sensor.name());
            seen.push((sensor.name(), sensor.topic()));
        }
        let names =
            [("input", Topic::Input), ("load", Topic::Load), ("memory", Topic::Memory), ("power", Topic::Power)];
        assert_eq!(seen, names);
        assert!(
            all(&SensorsConfig { evdev: Use::Off, ..SensorsConfig::default() }).iter().all(|s| s.name() != "input")
        );
    }
}
