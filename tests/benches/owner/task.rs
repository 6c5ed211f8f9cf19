//! What runs as the tasks: this program itself. A task is three busy processes: one, a child of it,
//! and one that went away into a session of its own.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use rustix::time::{ClockId, clock_gettime};

/// The first argument of a task, and of each of its processes beside the first.
pub(super) const TASK: &str = "internal-busy-task";
pub(super) const SPIN: &str = "internal-busy-process";

/// How many processes a task has.
pub(super) const PROCESSES: usize = 3;

/// If this process is one of a task's, is that, and comes back only when it cannot be.
pub(super) fn is_asked(args: &[String]) -> bool {
    match args.get(1).map(String::as_str) {
        Some(TASK) => {
            let me = std::env::current_exe().expect("this program has a path");
            let child = Command::new(&me).args([SPIN, "child"]).spawn();
            let away = Command::new("setsid")
                .arg("--fork")
                .arg(&me)
                .args([SPIN, "grandchild"])
                .spawn();
            assert!(child.is_ok() && away.is_ok(), "{child:?} {away:?}");
            spin()
        }
        Some(SPIN) => spin(),
        _ => false,
    }
}

/// Steps between two notes of the time: some microseconds.
const STEPS: u32 = 5_000;

/// Computes, and notes again and again when it did so last.
fn spin() -> ! {
    let note = File::create(format!("last-{}", std::process::id()))
        .expect("a task may write in its directory");
    let mut number = 1u64;
    loop {
        for _ in 0..STEPS {
            number = std::hint::black_box(
                number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            );
        }
        note.write_all_at(&monotonic_ns().to_le_bytes(), 0)
            .expect("a task may write in its directory");
    }
}

/// A clock that all processes read alike, in nanoseconds.
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// One process of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process(u32);

impl Process {
    /// All that run now below the grid whose programs have `mark` in their paths.
    pub(super) fn all(mark: &str) -> Vec<Self> {
        let pids = fs::read_dir("/proc").expect("procfs").flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.map(Process)
            .filter(|process| process.is_busy(mark))
            .collect()
    }

    fn is_busy(self, mark: &str) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        let cwd = fs::read_link(format!("/proc/{}/cwd", self.0)).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
        let busy = words
            .get(1)
            .is_some_and(|word| *word == TASK.as_bytes() || *word == SPIN.as_bytes());
        busy && cwd.to_string_lossy().contains(mark)
    }

    /// Whether it can execute nothing: stopped by a signal, or its control group is frozen.
    pub(super) fn at_rest(self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        let stopped = stat
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with(['T', 't']));
        stopped || self.group_frozen()
    }

    fn group_frozen(self) -> bool {
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", self.0)).unwrap_or_default();
        groups.lines().any(|line| {
            let mut parts = line.splitn(3, ':');
            let _ = parts.next();
            let kind = parts.next().unwrap_or_default();
            let path = parts.next().unwrap_or_default();
            let read = |file: String| fs::read_to_string(file).unwrap_or_default();
            let v2 = || {
                ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
                    .iter()
                    .any(|root| read(format!("{root}{path}/cgroup.events")).contains("frozen 1"))
            };

            match kind {
                "" => v2(),
                "freezer" => {
                    read(format!("/sys/fs/cgroup/freezer{path}/freezer.state")).trim() == "FROZEN"
                }
                _ => false,
            }
        })
    }

    /// When a process of the same task noted the time last, by [`monotonic_ns`].
    pub(super) fn noted_ns(self) -> u64 {
        let notes = fs::read_dir(format!("/proc/{}/cwd", self.0))
            .into_iter()
            .flatten()
            .flatten();
        let notes = notes.filter(|entry| entry.file_name().to_string_lossy().starts_with("last-"));
        let read = |file: fs::DirEntry| {
            Some(u64::from_le_bytes(
                fs::read(file.path()).ok()?.try_into().ok()?,
            ))
        };
        notes.filter_map(read).max().unwrap_or(0)
    }

    /// Processor time that it has used, in the system's ticks.
    pub(super) fn ticks(self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        let fields: Vec<&str> = stat
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        fields
            .get(11..13)
            .unwrap_or_default()
            .iter()
            .filter_map(|field| field.parse::<u64>().ok())
            .sum()
    }
}
