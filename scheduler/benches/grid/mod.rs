//! Hosts for benchmarks.

use common::host::OwnerState;
use common::{HostId, Incarnation, Speed, Time};
use scheduler::{Event, Scheduler, Settings};

/// A scheduler with so many hosts of one slot each, from 1 on, of different speeds and with nobody
/// at them.
pub(crate) fn of_hosts(hosts: u32, settings: Settings) -> Scheduler {
    let mut scheduler = Scheduler::new(settings, Incarnation(1));
    let mut fx = Vec::new();
    for host in 1..=hosts {
        let speed =
            Speed::new(0.3 + f64::from(host * 7_919 % 1_000) / 400.0).expect("a positive number");
        let status = OwnerState::Away.into();
        let joined = Event::HostJoined {
            host: HostId(host),
            slots: 1,
            speed,
            status,
            held: Vec::new(),
        };
        scheduler.step(Time(0), joined, &mut fx);
    }

    scheduler
}
