//! The load by other programs: all processor time, without that of this worker and its tasks.

use std::thread;
use std::time::Duration;

use super::SensorsConfig;
use super::glance::Glance;
use crate::os::Accounts;
use crate::owner::sight::{Reading, Sight, Topic};
use crate::share::ProcessorTimes;

/// The length of the first look, which needs two moments.
const FIRST: Duration = Duration::from_millis(500);

/// Makes the sensor of processor load.
pub(super) fn sensor(config: &SensorsConfig) -> Glance {
    let mut accounts = Accounts::default();
    let mut last: Option<ProcessorTimes> = None;
    let look = move || {
        let before = last
            .take()
            .or_else(|| accounts.look().inspect(|_| thread::sleep(FIRST)));
        last = accounts.look();
        match (before, last) {
            (Some(before), Some(now)) => {
                // Time that a hypervisor took for its other guests is not load of this host's
                // programs.
                let used = now.others_since(before).map_or(0.0, |others| others.used);
                Sight::Seen(Reading::Load(f64::from(now.processors) * used))
            }
            _ => Sight::Unknown("the system does not tell how busy its processors are".to_owned()),
        }
    };

    Glance::new("load", Topic::Load, config.load_every, look)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::sensors::Sensor;

    #[test]
    fn this_host_says() {
        let mut sensor = sensor(&SensorsConfig::default());
        let Sight::Seen(Reading::Load(load)) = sensor.sense() else {
            panic!("not seen")
        };
        assert!(
            load >= 0.0 && load <= f64::from(Accounts::default().look().unwrap().processors) + 0.01,
            "{load}"
        );
    }
}
