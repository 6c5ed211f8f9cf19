//! Processor time, memory and medians. Reads `/proc`; has no opinion on what is measured.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// What one run cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Time on the clock.
    pub(crate) wall_s: f64,
    /// Processor time of every process that took part.
    pub(crate) cpu_s: f64,
}

/// Several measurements of one thing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The middle one, with the smallest and the largest.
    pub(crate) fn summary(&self) -> Option<(f64, f64, f64)> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Some((
            *sorted.get(sorted.len() / 2)?,
            *sorted.first()?,
            *sorted.last()?,
        ))
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// Runs `action` and says what that cost, `servers` (with all below them) and this process's ended
/// children included.
pub(crate) fn cost<T>(servers: &[u32], action: impl FnOnce() -> T) -> (T, Cost) {
    let spent = || Snapshot::take().spent(servers);
    let before = spent();
    let start = Instant::now();
    let value = action();
    let wall = start.elapsed();
    (
        value,
        Cost {
            wall_s: wall.as_secs_f64(),
            cpu_s: (spent() - before) as f64 / ticks_per_second(),
        },
    )
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .unwrap_or("0");
    line.split_whitespace()
        .next()
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// Waits until a process's memory has been the same for a while, so that late work is over.
pub(crate) fn settled_resident(pid: u32) -> u64 {
    let mut last = resident(pid);
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(200));
        let now = resident(pid);
        if now.abs_diff(last) < 256 * 1024 {
            return now;
        }
        last = now;
    }
    last
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Parent and processor ticks of every process, with those of its ended children.
struct Snapshot(BTreeMap<u32, (u32, u64, u64)>);

impl Snapshot {
    fn take() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        Self(pids.filter_map(|pid| Some((pid, stat(pid)?))).collect())
    }

    fn spent(&self, servers: &[u32]) -> u64 {
        let below = |pid: u32| {
            let mut line = std::iter::successors(Some(pid), |pid| {
                self.0.get(pid).map(|(parent, _, _)| *parent)
            });
            line.any(|pid| servers.contains(&pid))
        };

        let own = self
            .0
            .get(&std::process::id())
            .map_or(0, |(_, own, ended)| own + ended);
        own + self
            .0
            .iter()
            .filter(|(pid, _)| below(**pid))
            .map(|(_, (_, own, ended))| own + ended)
            .sum::<u64>()
    }
}

fn stat(pid: u32) -> Option<(u32, u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; what follows it is numbers.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((
        u32::try_from(number(1)?).ok()?,
        number(11)? + number(12)?,
        number(13)? + number(14)?,
    ))
}
