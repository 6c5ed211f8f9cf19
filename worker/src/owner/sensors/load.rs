//! How much of the processors programs of others use: all that was used, without what this worker and its tasks used.

use std::thread;
use std::time::Duration;

use super::{Sensor, SensorsConfig};
use crate::os::{Accounts, Times};
use crate::owner::sight::{Reading, Sight, Topic};

/// How long the very first look takes, as it needs two moments.
const FIRST: Duration = Duration::from_millis(500);

/// Looks at the processors.
#[derive(Debug)]
pub(super) struct OthersLoad {
    every: Duration,
    accounts: Accounts,
    before: Option<Times>,
}

impl OthersLoad {
    pub(super) fn new(config: &SensorsConfig) -> Self {
        Self { every: Duration::from_millis(config.load_every_ms), accounts: Accounts::default(), before: None }
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
        let before = self.before.take().or_else(|| self.accounts.times().inspect(|_| thread::sleep(FIRST)));
        self.before = self.accounts.times();
        match (before, self.before) {
            (Some(before), Some(now)) => Sight::Seen(Reading::Load(others(&before, &now))),
            _ => Sight::Unknown("the system does not tell how busy its processors are".to_owned()),
        }
    }

    fn wait(&mut self, pause: Duration) {
        thread::sleep(self.every.max(pause));
    }
}

/// Processors that others kept busy between two moments. What a hypervisor took for its other guests is nobody's here.
fn others(before: &Times, now: &Times) -> f64 {
    let passed = now.total.saturating_sub(before.total);
    if passed == 0 {
        return 0.0;
    }
    let ours = now.ours.saturating_sub(before.ours);
    let others = now.used.saturating_sub(before.used).saturating_sub(ours);
    f64::from(now.processors) * others as f64 / passed as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_is_not_load() {
        let at = |total, used, ours| Times { processors: 4, total, used, stolen: 0, ours };
        for (used, ours, expected) in [(0, 0, 0.0), (100, 0, 1.0), (300, 100, 2.0), (50, 60, 0.0), (400, 0, 4.0)] {
            let load = others(&at(1_000, 500, 70), &at(1_400, 500 + used, 70 + ours));
            assert!((load - expected).abs() < 1e-9, "{used} {ours}: {load}");
        }
        assert!(others(&at(5, 5, 5), &at(5, 5, 5)).abs() < 1e-9, "no time has passed");
    }

    #[test]
    fn this_host_says() {
        let mut sensor = OthersLoad::new(&SensorsConfig::default());
        let Sight::Seen(Reading::Load(load)) = sensor.sense() else { panic!("not seen") };
        assert!(load >= 0.0 && load <= f64::from(Accounts::default().times().unwrap().processors) + 0.01, "{load}");
    }
}
