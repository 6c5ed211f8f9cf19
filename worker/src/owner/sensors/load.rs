//! The load by other programs: all processor time, without that of this worker and its tasks.

use std::thread;
use std::time::Duration;

use super::{Sensor, SensorsConfig};
use crate::os::Accounts;
use crate::owner::sight::{Reading, Sight, Topic};
use crate::share::ProcessorTimes;

/// The length of the first look, which needs two moments.
const FIRST: Duration = Duration::from_millis(500);

/// The sensor of processor load.
#[derive(Debug)]
pub(super) struct OthersLoad {
    every: Duration,
    accounts: Accounts,
    before: Option<ProcessorTimes>,
}

impl OthersLoad {
    pub(super) fn new(config: &SensorsConfig) -> Self {
        Self {
            every: config.load_every.0,
            accounts: Accounts::default(),
            before: None,
        }
    }
}

impl Sensor for OthersLoad {
    fn name(&self) -> &'static str {
        "load"
    }

    fn topic(&self) -> Topic {
        Topic::Load
    }

    fn sense(&mut self) -> Sight {
        let before = self
            .before
            .take()
            .or_else(|| self.accounts.look().inspect(|_| thread::sleep(FIRST)));
        self.before = self.accounts.look();
        match (before, self.before) {
            (Some(before), Some(now)) => {
                // Time that a hypervisor took for its other guests is not load of this host's
                // programs.
                let used = now.others_since(before).map_or(0.0, |others| others.used);
                Sight::Seen(Reading::Load(f64::from(now.processors) * used))
            }
            _ => Sight::Unknown("the system does not tell how busy its processors are".to_owned()),
        }
    }

    fn wait(&mut self, pause: Duration) {
        thread::sleep(self.every.max(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_says() {
        let mut sensor = OthersLoad::new(&SensorsConfig::default());
        let Sight::Seen(Reading::Load(load)) = sensor.sense() else {
            panic!("not seen")
        };
        assert!(
            load >= 0.0 && load <= f64::from(Accounts::default().look().unwrap().processors) + 0.01,
            "{load}"
        );
    }
}
