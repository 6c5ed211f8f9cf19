//! The available memory and the time that programs wait for it. Polled; where the system can report
//! a shortage itself, it is seen at once.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Sensor, SensorsConfig};
use crate::owner::sight::{Reading, Sight, Topic};

/// Asks to be told when some program waits for memory for more than 200 ms of two seconds: the
/// shortest window that the system grants to everybody.
const SHORTAGE: &[u8] = b"some 200000 2000000\0";

/// The sensor of memory.
#[derive(Debug)]
pub(super) struct MemorySensor {
    proc: PathBuf,
    every: Duration,
    /// The descriptor on which the kernel reports a shortage (`SHORTAGE`).
    bell: Option<OwnedFd>,
}

impl MemorySensor {
    pub(super) fn new(config: &SensorsConfig) -> Self {
        let bell = OpenOptions::new()
            .read(true)
            .write(true)
            .open(config.proc_dir.join("pressure/memory"));
        let bell = bell
            .and_then(|mut file| file.write_all(SHORTAGE).map(|()| file.into()))
            .ok();

        Self {
            proc: config.proc_dir.clone(),
            every: config.memory_every.0,
            bell,
        }
    }
}

impl Sensor for MemorySensor {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn topic(&self) -> Topic {
        Topic::Memory
    }

    fn sense(&mut self) -> Sight {
        let file = self.proc.join("meminfo");
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                return Sight::Unknown(format!("cannot read {}: {error}", file.display()));
            }
        };
        let Some(available) = available(&text) else {
            return Sight::Unknown(format!(
                "{} does not say how much memory is available",
                file.display()
            ));
        };

        // A kernel without pressure information still says how much is left.
        let pressure = fs::read_to_string(self.proc.join("pressure/memory")).ok();
        let pressure = pressure.as_deref().and_then(waiting).unwrap_or(0.0);
        Sight::Seen(Reading::Memory {
            available,
            pressure,
        })
    }

    fn wait(&mut self, pause: Duration) {
        let pause = self.every.max(pause);
        let (Some(bell), Ok(timeout)) = (&self.bell, Timespec::try_from(pause)) else {
            return thread::sleep(pause);
        };
        match poll(&mut [PollFd::new(bell, PollFlags::PRI)], Some(&timeout)) {
            Ok(0) => {}
            // The bell rings at most once in its window, so that this cannot spin.
            Ok(_) if self.rings() => {}
            Ok(_) | Err(_) => thread::sleep(pause),
        }
    }
}

impl MemorySensor {
    /// Whether it was the bell, and not its end.
    fn rings(&mut self) -> bool {
        let Some(bell) = &self.bell else { return false };
        let mut fds = [PollFd::new(bell, PollFlags::PRI)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let broken =
            poll(&mut fds, Some(&now)).is_err() || fds[0].revents().contains(PollFlags::ERR);
        if broken {
            self.bell = None;
        }
        !broken
    }
}

/// The part of all memory that programs could have without swapping.
fn available(meminfo: &str) -> Option<f64> {
    let value = |name: &str| {
        let line = meminfo
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    Some((value("MemAvailable")? / value("MemTotal").filter(|total| *total > 0.0)?).clamp(0.0, 1.0))
}

/// The part of the last ten seconds in which some program waited for memory.
fn waiting(pressure: &str) -> Option<f64> {
    let some = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    let percent: f64 = some
        .split_whitespace()
        .find_map(|field| field.strip_prefix("avg10="))?
        .parse()
        .ok()?;
    Some((percent / 100.0).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(meminfo: &str, pressure: Option<&str>) -> Sight {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("pressure")).unwrap();
        fs::write(proc.path().join("meminfo"), meminfo).unwrap();
        if let Some(text) = pressure {
            fs::write(proc.path().join("pressure/memory"), text).unwrap();
        }

        // Not the constructor's bell: a file of a test does not ring.
        MemorySensor {
            proc: proc.path().into(),
            every: Duration::ZERO,
            bell: None,
        }
        .sense()
    }

    const MEMINFO: &str =
        "MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    2000000 kB\n";

    #[test]
    fn available_memory_counts_instead_of_free_memory() {
        let pressure = "some avg10=12.50 avg60=0.03 avg300=0.10 total=869799\nfull avg10=9.00 avg60=0 avg300=0 total=1\n";
        assert_eq!(
            host(MEMINFO, Some(pressure)),
            Sight::Seen(Reading::Memory {
                available: 0.25,
                pressure: 0.125
            })
        );

        assert_eq!(
            host(MEMINFO, None),
            Sight::Seen(Reading::Memory {
                available: 0.25,
                pressure: 0.0
            })
        );
    }

    #[test]
    fn an_unreported_amount_of_memory_is_unknown() {
        assert!(
            matches!(host("MemTotal: 8000000 kB\n", None), Sight::Unknown(why) if why.contains("meminfo"))
        );
    }

    #[test]
    fn this_host_says() {
        let mut memory = MemorySensor::new(&SensorsConfig::default());
        let Sight::Seen(Reading::Memory {
            available,
            pressure,
        }) = memory.sense()
        else {
            panic!("not seen")
        };
        assert!(available > 0.0 && available <= 1.0 && (0.0..=1.0).contains(&pressure));
    }
}
