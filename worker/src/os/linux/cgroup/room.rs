//! The room of one attempt: its own control groups, at most one in each hierarchy, and operations
//! on all their processes at once.
//!
//! [`Room`] names the groups, [`OpenRoom`] holds their files: opened once, they serve attempt after
//! attempt, also a process that cannot reach them by name any more.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};
use rustix::process::{Pid, Signal, kill_process};

/// The time that a group may take to freeze before its processes are killed all the same.
const REST: Duration = Duration::from_millis(100);
/// The pause between two looks at a group that is being frozen.
const SETTLE: Duration = Duration::from_micros(300);
/// The word for no limit in a group of version 2.
const NO_LIMIT: &str = "max";
/// The bytes that are read at a time of a group's file.
const PIECE: usize = 4096;

/// The groups of one attempt. Making one does not make the groups: see [`super::Pool`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Room {
    pub(super) freezer: Option<ControlGroup>,
    pub(super) memory: Option<ControlGroup>,
    pub(super) processes: Option<ControlGroup>,
    /// The group for processor time, shared with all other attempts.
    pub(super) processor: Option<ControlGroup>,
}

/// The opened files of a [`Room`].
#[derive(Debug, Default)]
pub(in super::super) struct OpenRoom {
    doors: Vec<File>,
    freezer: Option<OpenFreezer>,
    /// The file that counts the processes killed for lack of memory.
    kills: Option<File>,
    usage: Option<MemoryUsage>,
    limits_memory: bool,
    limits_processes: bool,
}

/// The opened files of a group that tell how much memory its processes hold.
#[derive(Debug)]
struct MemoryUsage {
    version: u8,
    stat: File,
    /// The file that says how much of it is swapped out, which version 1 says in `stat`.
    swapped: Option<File>,
}

/// The opened files of a group that can be frozen.
#[derive(Debug)]
pub(super) struct OpenFreezer {
    version: u8,
    /// Says whether to freeze.
    state: File,
    /// Tells whether it is frozen.
    seen: File,
    /// Kills everybody, where the kernel can.
    kill: Option<File>,
    /// The group itself. The list of its members is opened for each look: version 1 shows one and the
    /// same opened file what it has shown it before.
    dir: File,
}

/// A control group of either version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ControlGroup {
    pub(super) version: u8,
    pub(super) dir: PathBuf,
}

/// Returns the content of a group's file.
fn read(file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; PIECE];
    loop {
        let count = file.read_at(&mut piece, bytes.len() as u64)?;
        if count == 0 {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// Returns the processes that a `cgroup.procs` lists, by their numbers in this process's namespace.
fn listed(text: &str) -> Vec<Pid> {
    // Those that this process cannot name are called 0.
    text.lines()
        .filter_map(|line| line.parse().ok())
        .filter(|pid| *pid > 0)
        .filter_map(Pid::from_raw)
        .collect()
}

impl ControlGroup {
    pub(super) fn of(version: u8, dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self { version, dir }
    }

    /// Overwrites one of its files.
    pub(super) fn set(&self, file: &str, value: &str) -> io::Result<()> {
        self.write(file)?.write_all(value.as_bytes())
    }

    fn write(&self, file: &str) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.dir.join(file))
    }

    fn read(&self, file: &str) -> io::Result<File> {
        File::open(self.dir.join(file))
    }

    /// Returns its processes, by their numbers in this process's namespace.
    pub(super) fn members(&self) -> Vec<Pid> {
        listed(&fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default())
    }

    fn open_freezer(&self) -> io::Result<OpenFreezer> {
        let (state, seen) = if self.version == 2 {
            ("cgroup.freeze", "cgroup.events")
        } else {
            ("freezer.state", "freezer.state")
        };
        let kill = (self.version == 2).then(|| self.write("cgroup.kill").ok());
        Ok(OpenFreezer {
            version: self.version,
            state: self.write(state)?,
            seen: self.read(seen)?,
            kill: kill.flatten(),
            dir: File::open(&self.dir)?,
        })
    }

    /// Kills every process in it, also if it is frozen.
    pub(super) fn kill(&self) {
        match self.open_freezer() {
            Ok(open) => open.kill(),
            // A group that only counts cannot be frozen.
            Err(_) => kill_all(&self.members()),
        }
    }
}

fn kill_all(members: &[Pid]) {
    for pid in members {
        let _ = kill_process(*pid, Signal::KILL);
    }
}

impl OpenFreezer {
    fn freeze(&self) -> io::Result<()> {
        let word = if self.version == 2 { "1" } else { "FROZEN" };
        self.state.write_all_at(word.as_bytes(), 0)
    }

    fn thaw(&self) -> io::Result<()> {
        let word = if self.version == 2 { "0" } else { "THAWED" };
        self.state.write_all_at(word.as_bytes(), 0)
    }

    fn is_frozen(&self) -> bool {
        let text = read(&self.seen).unwrap_or_default();
        match self.version {
            2 => text.lines().any(|line| line == "frozen 1"),
            _ => text.trim_end() == "FROZEN",
        }
    }

    fn members(&self) -> Vec<Pid> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let list = openat(&self.dir, "cgroup.procs", flags, Mode::empty());
        let text = list.ok().and_then(|list| read(&File::from(list)).ok());
        listed(&text.unwrap_or_default())
    }

    /// Kills every process in it, also if it is frozen.
    fn kill(&self) {
        let at_once = |file: &File| file.write_all_at(b"1", 0).is_ok();
        if self.kill.as_ref().is_some_and(at_once) {
            return;
        }

        // Nobody is born in a frozen group. In version 1 nobody dies in it either: they do when it
        // is thawed, before they execute anything.
        let deadline = Instant::now() + REST;
        if self.freeze().is_ok() {
            while !self.is_frozen() && Instant::now() < deadline {
                std::thread::sleep(SETTLE);
            }
        }

        kill_all(&self.members());
        let _ = self.thaw();
    }
}

impl Room {
    /// Sets the limits, lifts those that an earlier attempt left in a directory that is entered all
    /// the same, drops the groups of limits that are not wanted, and opens what is needed.
    pub(in super::super) fn open(
        mut self,
        memory: Option<u64>,
        processes: Option<u64>,
    ) -> io::Result<OpenRoom> {
        if let Some(group) = &self.memory {
            match memory {
                Some(bytes) => limit_memory(group, bytes)?,
                None if group.version == 2 => lift_memory(group)?,
                None => {}
            }
        }
        if let Some(group) = &self.processes {
            match processes {
                Some(most) => group.set("pids.max", &most.to_string())?,
                None if group.version == 2 => group.set("pids.max", NO_LIMIT)?,
                None => {}
            }
        }
        self.memory = self.memory.filter(|_| memory.is_some());
        self.processes = self.processes.filter(|_| processes.is_some());

        let freezer = self.freezer.as_ref().map(ControlGroup::open_freezer);
        // In version 2 the group for freezing may count memory without limiting it.
        let unified = self.freezer.as_ref().filter(|group| group.version == 2);
        let counts = self.memory.as_ref().or(unified);
        Ok(OpenRoom {
            doors: self.doors()?,
            freezer: freezer.transpose()?,
            kills: self.memory.as_ref().and_then(|group| {
                let file = if group.version == 2 {
                    "memory.events"
                } else {
                    "memory.oom_control"
                };
                group.read(file).ok()
            }),
            usage: counts.and_then(MemoryUsage::of),
            limits_memory: self.memory.is_some(),
            limits_processes: self.processes.is_some(),
        })
    }

    /// Opens the files (`cgroup.procs`) through which a process enters each of the groups, by
    /// writing a zero.
    fn doors(&self) -> io::Result<Vec<File>> {
        let groups = [
            &self.freezer,
            &self.memory,
            &self.processes,
            &self.processor,
        ];
        let mut dirs: Vec<&Path> = groups
            .into_iter()
            .flatten()
            .map(|group| group.dir.as_path())
            .collect();
        dirs.sort_unstable();
        dirs.dedup();

        dirs.into_iter()
            .map(|dir| {
                OpenOptions::new()
                    .write(true)
                    .open(dir.join("cgroup.procs"))
            })
            .collect()
    }

    /// Kills every process in its `freezer`, and leaves it thawed: nobody dies in a frozen group of version 1.
    pub(in super::super) fn clear(&self) {
        if let Some(open) = self.freezer.as_ref().and_then(|g| g.open_freezer().ok()) {
            open.kill();
            let _ = open.thaw();
        }
    }
}

impl OpenRoom {
    /// The files through which a process enters each of the groups, by writing a zero.
    pub(in super::super) fn doors(&self) -> &[File] {
        &self.doors
    }

    /// Whether there is a group that can be frozen.
    pub(in super::super) fn freezes(&self) -> bool {
        self.freezer.is_some()
    }

    /// Whether memory is limited here.
    pub(in super::super) fn limits_memory(&self) -> bool {
        self.limits_memory
    }

    /// Whether the number of processes is limited here.
    pub(in super::super) fn limits_processes(&self) -> bool {
        self.limits_processes
    }

    /// Returns the number of processes in the group that were ever killed for lack of memory.
    pub(in super::super) fn kills_for_memory(&self) -> u64 {
        let text = self.kills.as_ref().and_then(|file| read(file).ok());
        text.unwrap_or_default()
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Returns the bytes that the processes hold, without what the system could drop since it lies in files; `None` if no
    /// group counts them.
    pub(in super::super) fn memory_held(&self) -> Option<u64> {
        self.usage.as_ref().and_then(MemoryUsage::held)
    }

    /// Tells everybody in it to stop, and returns whether all have. Those that have not are to be told again: a group
    /// of version 1 that was not frozen at once may wait for that.
    pub(in super::super) fn freeze(&self) -> bool {
        self.freezer.as_ref().is_some_and(|freezer| {
            let _ = freezer.freeze();
            freezer.is_frozen()
        })
    }

    /// Thaws the processes.
    pub(in super::super) fn thaw(&self) {
        let _ = self.freezer.as_ref().map(OpenFreezer::thaw);
    }

    /// Sends a signal to every process in it.
    pub(in super::super) fn signal(&self, signal: Signal) {
        for pid in self.freezer.iter().flat_map(OpenFreezer::members) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills every process in it.
    pub(in super::super) fn kill(&self) {
        let _ = self.freezer.as_ref().map(OpenFreezer::kill);
    }
}

impl MemoryUsage {
    fn of(group: &ControlGroup) -> Option<Self> {
        Some(Self {
            version: group.version,
            stat: group.read("memory.stat").ok()?,
            swapped: group.read("memory.swap.current").ok(),
        })
    }

    /// Returns the bytes of processes and of files in memory (`tmpfs`), swapped out or not.
    fn held(&self) -> Option<u64> {
        let stat = read(&self.stat).ok()?;
        let counted = |name: &str| -> Option<u64> {
            let value = stat
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            value.trim().parse().ok()
        };

        if self.version == 2 {
            let swapped = self.swapped.as_ref().and_then(|file| read(file).ok());
            let swapped = swapped.and_then(|text| text.trim().parse().ok());
            return Some(counted("anon")? + counted("shmem")? + swapped.unwrap_or(0));
        }
        // What a kernel does not count, it does not list.
        let more = ["total_shmem", "total_swap"].map(|name| counted(name).unwrap_or(0));
        Some(counted("total_rss")? + more.iter().sum::<u64>())
    }
}

/// Lifts the limits of memory of a group of version 2, whose directory is also the one for freezing.
fn lift_memory(group: &ControlGroup) -> io::Result<()> {
    let _ = group.set("memory.swap.max", NO_LIMIT);
    group.set("memory.max", NO_LIMIT)
}

fn limit_memory(group: &ControlGroup, bytes: u64) -> io::Result<()> {
    let value = bytes.to_string();
    if group.version == 2 {
        // What cannot be in memory is not to fill the owner's swap space either, where the kernel
        // counts that.
        let _ = group.set("memory.swap.max", "0");
        return group.set("memory.max", &value);
    }

    // The limit of memory and swap together is never below that of memory: which one goes first
    // depends on what was.
    let _ = group.set("memory.memsw.limit_in_bytes", "-1");
    group.set("memory.limit_in_bytes", &value)?;

    let _ = group.set("memory.memsw.limit_in_bytes", &value);
    Ok(())
}

#[cfg(test)]
impl OpenRoom {
    /// Opens the files in this directory as if they were a group of version 2 that can be frozen.
    pub(in super::super) fn of_files(dir: &Path) -> Self {
        for file in ["cgroup.freeze", "cgroup.events"] {
            fs::write(dir.join(file), "").unwrap();
        }
        let group = ControlGroup::of(2, dir);
        Self {
            freezer: Some(group.open_freezer().unwrap()),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the files of a group of version 2, each with these words in it.
    fn write_all(dir: &Path, files: &[(&str, &str)]) {
        for (file, words) in files {
            fs::write(dir.join(file), words).unwrap();
        }
    }

    #[test]
    fn the_limits_of_one_attempt_are_lifted_for_the_next_in_its_room() {
        let dir = tempfile::tempdir().unwrap();
        write_all(
            dir.path(),
            &["cgroup.freeze", "cgroup.events", "cgroup.procs"].map(|file| (file, "")),
        );
        let group = Some(ControlGroup::of(2, dir.path()));
        let room = Room {
            freezer: group.clone(),
            memory: group.clone(),
            processes: group,
            processor: None,
        };
        let limits = ["memory.max", "memory.swap.max", "pids.max"];
        let set_in_turn = |memory, processes| {
            write_all(dir.path(), &limits.map(|file| (file, "")));
            room.clone().open(memory, processes).unwrap();
            limits.map(|file| fs::read_to_string(dir.path().join(file)).unwrap())
        };

        assert_eq!(
            set_in_turn(Some(512 << 20), Some(7)),
            ["536870912", "0", "7"]
        );
        assert_eq!(set_in_turn(None, None), ["max", "max", "max"]);
        assert_eq!(set_in_turn(None, Some(9)), ["max", "max", "9"]);
        assert_eq!(set_in_turn(Some(1), None), ["1", "0", "max"]);
    }

    #[test]
    fn a_group_tells_what_its_processes_hold_and_not_what_lies_in_files() {
        let dir = tempfile::tempdir().unwrap();
        let group = |version| ControlGroup::of(version, dir.path());
        let held = |version| MemoryUsage::of(&group(version)).and_then(|usage| usage.held());
        assert_eq!(held(2), None, "it counts nothing");

        let stat = "anon 1000\nfile 9000\nshmem 20\nanon_thp 7\n";
        write_all(dir.path(), &[("memory.stat", stat)]);
        assert_eq!(held(2), Some(1_020), "nothing is swapped out here");
        write_all(dir.path(), &[("memory.swap.current", "300\n")]);
        assert_eq!(held(2), Some(1_320));

        let stat =
            "rss 1\nshmem 1\ntotal_cache 9000\ntotal_rss 1000\ntotal_rss_huge 7\ntotal_shmem 20\n";
        write_all(dir.path(), &[("memory.stat", stat)]);
        assert_eq!(held(1), Some(1_020));
        let stat = format!("{stat}total_swap 300\n");
        write_all(dir.path(), &[("memory.stat", &stat)]);
        assert_eq!(held(1), Some(1_320));
    }
}
