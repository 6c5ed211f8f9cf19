//! What the host is: asked and measured once, when the worker starts.

use std::hint::black_box;
use std::time::Duration;

use common::Speed;
use common::host::{Confinement, HostFacts};
use common::units::REFERENCE_MHZ;

use crate::os;
#[cfg(windows)]
use crate::os::clock_and_memory;

/// Repetitions of the kernel, of which the quickest counts: what else the processor does can only
/// slow it down.
const RUNS: usize = 5;
/// Steps of the integer part, and the processor cycles that each takes on the reference host: a
/// xorshift generator (Marsaglia 2003) is three shifts and three exclusive ors, none of which can
/// begin before the one before it is done.
const INTEGER_STEPS: u32 = 3_750_000;
const INTEGER_CYCLES: u32 = 6;
/// Steps of the floating-point part, and the cycles of each: a multiplication and an addition, four
/// cycles each, that wait for one another.
const FLOAT_STEPS: u32 = 2_812_500;
const FLOAT_CYCLES: u32 = 8;
/// What the reference host, a dedicated processor at 1,500 MHz, takes for one repetition: 30 ms,
/// half of it integers.
const REFERENCE_S: f64 = (INTEGER_STEPS as f64 * INTEGER_CYCLES as f64
    + FLOAT_STEPS as f64 * FLOAT_CYCLES as f64)
    / (REFERENCE_MHZ * 1e6);

/// Everything about this host but how it confines tasks. `name` is what its identity calls it.
/// Takes about a tenth of a second.
pub(crate) fn measure(name: &str, slots: u32) -> HostFacts {
    let (clock_mhz, memory_mib) = clock_and_memory();
    let name = match (name, hostname::get()) {
        ("", Ok(system)) => system.to_string_lossy().into_owned(),
        (name, _) => name.to_owned(),
    };
    HostFacts {
        name: shorten(name),
        slots,
        speed: speed(),
        clock_mhz: u32::try_from(clock_mhz).unwrap_or(u32::MAX),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        memory_mib,
        os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        confinement: Confinement::Process,
        confinement_most: Confinement::Process,
        network: true,
    }
}

/// How large the disk is on which this directory lies, in bytes, where the system says.
pub(crate) fn disk_bytes(dir: &std::path::Path) -> Option<u64> {
    #[cfg(unix)]
    return rustix::fs::statvfs(dir)
        .ok()
        .map(|disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    #[cfg(not(unix))]
    return Some(dir).and(None);
}

/// The highest clock of a processor, in MHz, and the memory, in MiB; zero where the system does not
/// say.
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

/// How much faster than the reference host one slot does a fixed piece of work, half of it with
/// integers and half with floating-point numbers. A lowered clock shows in it; caches and vector
/// units do not, nor do other programs on the host: processor time counts, and what others take of
/// it is said with every heartbeat.
fn speed() -> Speed {
    let quickest = (0..RUNS).map(|_| repetition()).min().unwrap_or_default();
    Speed::new(REFERENCE_S / quickest.as_secs_f64()).unwrap_or(Speed::REFERENCE)
}

/// The kernel, once.
fn repetition() -> Duration {
    let start = os::thread_cpu();
    black_box(integers(black_box(0x9E37_79B9_7F4A_7C15)));
    black_box(floats(black_box(0.5)));
    os::thread_cpu().saturating_sub(start)
}

fn integers(mut state: u64) -> u64 {
    for _ in 0..INTEGER_STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

/// Comes to rest near one, so that no step is slower for an odd number.
fn floats(mut state: f64) -> f64 {
    let factor = black_box(0.999);
    let rest = black_box(0.001);
    for _ in 0..FLOAT_STEPS {
        state = state * factor + rest;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_computes_what_it_says() {
        assert!((floats(0.5) - 1.0).abs() < 1e-9);
        let mut seen = std::collections::BTreeSet::new();
        assert!(
            (1..100).all(|seed| seen.insert(integers(seed))),
            "a xorshift loses nothing"
        );
        assert!((REFERENCE_S - 0.030).abs() < 1e-12);
    }

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
