//! The room of one attempt: its own control groups, at most one in each hierarchy, and operations
//! on all their processes at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The time that a group may take to freeze before its processes are killed all the same.
const REST: Duration = Duration::from_millis(100);
/// The pause between two looks at a group that is being frozen.
const SETTLE: Duration = Duration::from_micros(300);

/// The groups of one attempt. Making one does not make the groups: see [`super::Pool`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Room {
    pub(super) freezer: Option<ControlGroup>,
    pub(super) memory: Option<ControlGroup>,
    pub(super) processes: Option<ControlGroup>,
    /// The group for processor time, shared with all other attempts.
    pub(super) processor: Option<ControlGroup>,
}

/// A control group of either version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ControlGroup {
    pub(super) version: u8,
    pub(super) dir: PathBuf,
}

impl ControlGroup {
    /// Overwrites one of its files.
    pub(super) fn set(&self, file: &str, value: &str) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .open(self.dir.join(file))?
            .write_all(value.as_bytes())
    }

    fn get(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(file)).ok()
    }

    /// Returns its processes, by their numbers in this process's namespace.
    pub(super) fn members(&self) -> Vec<Pid> {
        let text = self.get("cgroup.procs").unwrap_or_default();
        // Those that this process cannot name are called 0.
        text.lines()
            .filter_map(|line| line.parse().ok())
            .filter(|pid| *pid > 0)
            .filter_map(Pid::from_raw)
            .collect()
    }

    fn freeze(&self) -> io::Result<()> {
        if self.version == 2 {
            self.set("cgroup.freeze", "1")
        } else {
            self.set("freezer.state", "FROZEN")
        }
    }

    fn thaw(&self) -> io::Result<()> {
        if self.version == 2 {
            self.set("cgroup.freeze", "0")
        } else {
            self.set("freezer.state", "THAWED")
        }
    }

    fn is_frozen(&self) -> bool {
        match self.version {
            2 => self
                .get("cgroup.events")
                .is_some_and(|text| text.lines().any(|line| line == "frozen 1")),
            _ => self
                .get("freezer.state")
                .is_some_and(|text| text.trim_end() == "FROZEN"),
        }
    }

    /// Kills every process in it, also if it is frozen.
    pub(super) fn kill(&self) {
        if self.version == 2 && self.set("cgroup.kill", "1").is_ok() {
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

        for pid in self.members() {
            let _ = kill_process(pid, Signal::KILL);
        }

        let _ = self.thaw();
    }
}

impl Room {
    /// Whether there is a group that can be frozen.
    pub(in super::super) fn freezes(&self) -> bool {
        self.freezer.is_some()
    }

    /// Opens the files (`cgroup.procs`) through which a process enters each of the groups, by
    /// writing a zero.
    pub(in super::super) fn doors(&self) -> io::Result<Vec<File>> {
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

    /// Drops the groups whose limits are not wanted, and sets the limits of the others.
    pub(in super::super) fn limit(
        &mut self,
        memory: Option<u64>,
        processes: Option<u64>,
    ) -> io::Result<()> {
        match memory {
            None => self.memory = None,
            Some(bytes) => self
                .memory
                .iter()
                .try_for_each(|group| limit_memory(group, bytes))?,
        }

        match processes {
            None => self.processes = None,
            Some(most) => self
                .processes
                .iter()
                .try_for_each(|group| group.set("pids.max", &most.to_string()))?,
        }

        Ok(())
    }

    /// Whether memory is limited here.
    pub(in super::super) fn limits_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// Whether the number of processes is limited here.
    pub(in super::super) fn limits_processes(&self) -> bool {
        self.processes.is_some()
    }

    /// Returns the number of processes in the group that were ever killed for lack of memory.
    pub(in super::super) fn kills_for_memory(&self) -> u64 {
        let Some(group) = &self.memory else { return 0 };
        let file = if group.version == 2 {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        let text = group.get(file).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Begins to stop everybody in it; [`Room::is_frozen`] says when that is done.
    pub(in super::super) fn freeze(&self) {
        let _ = self.freezer.as_ref().map(ControlGroup::freeze);
    }

    /// Thaws the processes.
    pub(in super::super) fn thaw(&self) {
        let _ = self.freezer.as_ref().map(ControlGroup::thaw);
    }

    /// Whether every process in it is frozen.
    pub(in super::super) fn is_frozen(&self) -> bool {
        self.freezer.as_ref().is_some_and(ControlGroup::is_frozen)
    }

    /// Sends a signal to every process in it.
    pub(in super::super) fn signal(&self, signal: Signal) {
        for pid in self.freezer.iter().flat_map(ControlGroup::members) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills every process in it.
    pub(in super::super) fn kill(&self) {
        let _ = self.freezer.as_ref().map(ControlGroup::kill);
    }
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
