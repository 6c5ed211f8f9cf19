//! What the host is: asked and measured once, when the worker starts.

use std::hint::black_box;
use std::time::{Duration, Instant};

use common::Speed;
use common::host::{Confinement, HostFacts};
use common::units::REFERENCE_MHZ;

/// Measurements of which the middle one counts.
const RUNS: usize = 7;
/// How long each may take: all of them together are not noticed.
const RUN_TIME: Duration = Duration::from_millis(10);
/// Steps between two looks at the clock.
const STEPS: u32 = 50_000;
/// Operations in a step, each of which has to wait for the one before.
const CHAIN: u32 = 6;

/// Everything about this host. `name` is what its identity calls it. Takes about a tenth of a second.
pub(crate) fn measure(name: &str, slots: u32) -> HostFacts {
    let (clock_mhz, memory_mib) = sysinfo::System::new().map_or((0, 0), |mut system| {
        system.refresh_memory();
        system.refresh_cpu_frequency();
        let clock_mhz = system.cpus().iter().map(sysinfo::Cpu::frequency).max().unwrap_or(0);
        (clock_mhz, system.total_memory() >> 20)
    });
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
    }
}

fn shorten(mut name: String) -> String {
    while name.len() > common::host::MAX_HOST_NAME {
        name.pop();
    }
    name
}

/// Effective clock rate of one slot against the reference host's: how many dependent one-cycle operations it does in a
/// second. Other programs, a lowered clock and a virtual machine's share all show in it; caches and vector units do not.
fn speed() -> Speed {
    let mut rates: Vec<f64> = (0..RUNS).map(|_| rate()).collect();
    rates.sort_unstable_by(f64::total_cmp);
    Speed::new(rates[RUNS / 2] / (REFERENCE_MHZ * 1e6)).unwrap_or(Speed::REFERENCE)
}

/// Dependent operations per second.
fn rate() -> f64 {
    let start = Instant::now();
    let (mut state, mut steps) = (black_box(0x9E37_79B9_7F4A_7C15_u64), 0.0);
    loop {
        state = chain(state);
        steps += f64::from(STEPS);
        let elapsed = start.elapsed();
        if elapsed >= RUN_TIME {
            black_box(state);
            return steps * f64::from(CHAIN) / elapsed.as_secs_f64();
        }
    }
}

/// A xorshift generator (Marsaglia 2003): three shifts and three exclusive ors, none of which can begin before the one
/// before it is done.
fn chain(mut state: u64) -> u64 {
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_make_sense_and_are_measured_quickly() {
        let start = Instant::now();
        let facts = measure("", 2);
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(!facts.name.is_empty() && facts.cores > 0 && facts.memory_mib > 0, "{facts:?}");
        assert!((0.01..50.0).contains(&facts.speed.factor()), "{facts:?}");
    }
}
