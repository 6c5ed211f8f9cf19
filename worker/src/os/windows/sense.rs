//! The owner's use of the host as Windows reports it, in plain values.

use std::time::Duration;

use super::sys;

/// The power supply of the host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PowerSupply {
    /// Mains, or there is no battery.
    Mains,
    /// A battery with this charge, between 0 and 1, where that is known.
    Battery(Option<f64>),
    /// The system does not know.
    Unknown,
}

/// The host's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostMemory {
    /// The whole memory.
    pub total: u64,
    /// The memory that is available to programs.
    pub available: u64,
}

/// Returns the time without keyboard or mouse input in the session of this process. `None` if that
/// session has no desktop of a user's: a service cannot see anybody's input, which does not mean
/// that nobody is there.
pub fn idle() -> Option<Duration> {
    if sys::session() == Some(0) {
        return None;
    }
    let (last, now) = sys::last_input()?;
    Some(between(last, now))
}

/// Returns the time between two readings of the system's 32-bit count of milliseconds. The count
/// begins anew every 49.7 days. The time of the last input may lie a little ahead of now: a
/// difference of more than half a round is taken for that.
fn between(last: u32, now: u32) -> Duration {
    match now.wrapping_sub(last) {
        passed if passed > 1 << 31 => Duration::ZERO,
        passed => Duration::from_millis(passed.into()),
    }
}

/// Returns the power supply of the host.
pub fn power() -> PowerSupply {
    sys::power().map_or(PowerSupply::Unknown, |(line, flags, percent)| {
        told(line, flags, percent)
    })
}

/// Interprets the three bytes of the system's power status.
fn told(line: u8, flags: u8, percent: u8) -> PowerSupply {
    const NO_BATTERY: u8 = 128;
    const UNKNOWN: u8 = 255;
    match line {
        1 => PowerSupply::Mains,
        _ if flags != UNKNOWN && flags & NO_BATTERY != 0 => PowerSupply::Mains,
        0 => PowerSupply::Battery((percent <= 100).then(|| f64::from(percent) / 100.0)),
        _ => PowerSupply::Unknown,
    }
}

/// Returns the host's memory, if the system reports it.
pub fn memory() -> Option<HostMemory> {
    sys::memory().map(|(total, available)| HostMemory { total, available })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_may_begin_anew_and_the_last_input_may_lie_ahead() {
        let ms = Duration::from_millis;
        assert_eq!(between(1_000, 4_000), ms(3_000));
        assert_eq!(
            between(u32::MAX - 99, 400),
            ms(500),
            "the count began anew in between"
        );
        assert_eq!(between(4_001, 4_000), ms(0), "not monotonic");
        assert_eq!(between(5, 5 + (1 << 31)), ms(1 << 31));
        assert_eq!(between(4, 5 + (1 << 31)), ms(0));
    }

    #[test]
    fn unknown_power_is_neither_mains_nor_battery() {
        assert_eq!(told(1, 8, 50), PowerSupply::Mains);
        assert_eq!(told(0, 2, 30), PowerSupply::Battery(Some(0.3)));
        assert_eq!(told(0, 255, 255), PowerSupply::Battery(None));
        assert_eq!(told(255, 128, 255), PowerSupply::Mains, "no battery at all");
        assert_eq!(told(255, 255, 255), PowerSupply::Unknown);
    }

    #[test]
    fn the_host_has_memory_and_processors() {
        let memory = memory().unwrap();
        assert!(
            memory.available > 0 && memory.available <= memory.total,
            "{memory:?}"
        );
        let (total, busy) = sys::processors().unwrap();
        assert!(total > 0 && busy <= total, "{busy} of {total}");
    }

    #[test]
    fn idle_time_counts_up_and_input_resets_it() {
        let Some(first) = idle() else {
            println!("skipped: this session has no desktop, so it has no input");
            return;
        };

        let until = |wanted: &dyn Fn(Duration) -> bool| {
            let start = std::time::Instant::now();
            while !wanted(idle().unwrap()) {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "idle for {:?}",
                    idle()
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        until(&|now| now >= first + Duration::from_millis(800));

        let before = idle().unwrap();
        sys::nudge_mouse();
        until(&|now| now < before);
    }
}
