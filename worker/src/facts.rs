//! The host's properties ([`HostFacts`]): read and measured once, when the worker starts.

use std::time::Duration;

use common::host::HostFacts;
use common::{Speed, kernel};

use crate::config::Config;
use crate::os;
#[cfg(windows)]
use crate::os::clock_and_memory;
use crate::owner::rules::HostSize;
use crate::platform;

/// The number of repetitions of the kernel. The fastest one counts, because other work of the
/// processor can only slow it down.
const RUNS: usize = 5;
/// Measures this host, and returns its facts and the [`HostSize`] that the owner's rules count with.
pub(crate) async fn of_host(name: &str, config: &Config) -> (HostFacts, HostSize) {
    let name = name.to_owned();
    let slots = config.slots_here();
    let measuring =
        tokio::task::spawn_blocking(move || (measure(&name, slots), clock_and_memory().1));
    let (mut facts, whole_mib) = measuring.await.expect("measuring does not panic");
    facts.speed = config.speed_said().unwrap_or(facts.speed);

    let room = HostSize {
        slots,
        cores: facts.cores,
        memory: whole_mib << 20,
        memory_bound: facts.memory_mib << 20,
        memory_per_task: config.memory_limit_bytes,
    };
    facts.slots = config.owner.slots_idle(&room);
    config.say_of(&mut facts, &room);
    if facts.slots < slots {
        tracing::warn!(
            asked = slots,
            given = facts.slots,
            "fewer slots than asked for: cpu_limit, or memory_share_idle with memory_limit_bytes, allows no more"
        );
    }
    (facts, room)
}

/// Measures everything about this host except its confinement and what its owner lends. `name` is the name of its identity;
/// the system's host name replaces an empty one. Takes about a tenth of a second.
pub(crate) fn measure(name: &str, slots: u32) -> HostFacts {
    let (clock_mhz, whole_mib) = clock_and_memory();
    let name = match (name, hostname::get()) {
        ("", Ok(system)) => system.to_string_lossy().into_owned(),
        (name, _) => name.to_owned(),
    };
    HostFacts {
        slots,
        speed: speed(),
        clock_mhz: u32::try_from(clock_mhz).unwrap_or(u32::MAX),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        memory_mib: whole_mib.min(bound_mib()),
        platform: platform::platform(),
        gpus: platform::gpus(),
        network: true,
        ..HostFacts::unknown(shorten(name))
    }
}

/// Returns the size of the disk that holds this directory, in bytes, if the system reports it.
pub(crate) fn disk_bytes(dir: &std::path::Path) -> Option<u64> {
    #[cfg(unix)]
    return rustix::fs::statvfs(dir)
        .ok()
        .map(|disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    #[cfg(not(unix))]
    return Some(dir).and(None);
}

/// Returns the most memory that the groups of this process leave it, in MiB: in a container, or a
/// group of a service, most of the machine's may belong to others.
fn bound_mib() -> u64 {
    #[cfg(not(windows))]
    return os::memory_bound().map_or(u64::MAX, |bytes| bytes >> 20);
    #[cfg(windows)]
    return u64::MAX;
}

/// Returns the highest clock rate of a processor, in MHz, and the memory of the machine, in MiB;
/// zero if unknown.
#[cfg(not(windows))]
fn clock_and_memory() -> (u64, u64) {
    sysinfo::System::new().map_or((0, 0), |mut system| {
        system.refresh_memory();
        system.refresh_cpu_frequency();
        let clock_mhz = system
            .cpus()
            .iter()
            .map(sysinfo::Cpu::frequency)
            .max()
            .unwrap_or(0);

        (clock_mhz, system.total_memory() >> 20)
    })
}

fn shorten(mut name: String) -> String {
    while name.len() > common::host::MAX_HOST_NAME {
        name.pop();
    }
    name
}

/// Measures the speed of one slot against the reference host with a fixed piece of work, half of it
/// with integers and half with floating-point numbers. A lowered clock shows in it; caches and
/// vector units do not. Neither do other programs on the host: processor time counts, and the part
/// that others take is reported with every heartbeat.
fn speed() -> Speed {
    let quickest = (0..RUNS).map(|_| repetition()).min().unwrap_or_default();
    Speed::new(kernel::REFERENCE_S / quickest.as_secs_f64()).unwrap_or(Speed::REFERENCE)
}

/// Runs the kernel once and returns its processor time.
fn repetition() -> Duration {
    let start = os::thread_cpu();
    kernel::run();
    os::thread_cpu().saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_make_sense() {
        let facts = measure("", 2);
        assert!(
            !facts.name.is_empty() && facts.cores > 0 && facts.memory_mib > 0,
            "{facts:?}"
        );
        assert!((0.01..50.0).contains(&facts.speed.factor()), "{facts:?}");
    }
}
