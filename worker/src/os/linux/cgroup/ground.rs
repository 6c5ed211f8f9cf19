//! The grounds, directories in which a worker may make control groups, and the rooms that it makes
//! there.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use rustix::process::Pid;

use super::find::Own;
use super::room::{ControlGroup, Room};
use crate::os::Freezer;

/// The prefix of the names of the worker's grounds in every hierarchy.
const PREFIX: &str = "deskgrid-";
/// The group that a worker alone in its group moves into, so that limits can be handed down beside
/// it.
const ASIDE: &str = "deskgrid-worker";
/// The time that the processes left by a killed worker may take to end.
const DYING: Duration = Duration::from_secs(2);
const DYING_PAUSE: Duration = Duration::from_millis(5);

/// The period over which processor time is limited, in microseconds (`cpu.max`).
const PERIOD_US: u64 = 100_000;

/// The powers of a group of a ground, each with its name on a command line and its version.
const POWERS: [(&str, u8, GroupPower); 7] = [
    ("freeze2", 2, GroupPower::Freeze),
    ("freeze1", 1, GroupPower::Freeze),
    ("memory2", 2, GroupPower::Memory),
    ("memory1", 1, GroupPower::Memory),
    ("processes2", 2, GroupPower::Processes),
    ("processes1", 1, GroupPower::Processes),
    ("processor1", 1, GroupPower::Processor),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupPower {
    Freeze,
    Memory,
    Processes,
    Processor,
}

/// The worker's ground for each `GroupPower` of control groups; none where there is no such group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grounds(Room);

/// The control groups that are available, and the reasons for missing ones.
#[derive(Debug)]
pub struct Survey {
    /// A group of version 2, which can be frozen.
    pub unified: Result<PathBuf, String>,
    /// A group of version 1 that can be frozen.
    pub freezer: Result<PathBuf, String>,
    memory: Result<ControlGroup, String>,
    processes: Result<ControlGroup, String>,
    /// A group of version 1 that gets only the processor time that nobody else wants. In version 2
    /// `unified` serves for that.
    processor: Result<ControlGroup, String>,
}

impl Survey {
    /// Finds out which groups named after `key` may be made, and makes them. What an earlier worker
    /// left in them is ended.
    pub fn make(key: &str) -> Self {
        let mut own = Own::read();
        own.unified = own
            .unified
            .map(|at| if at.ends_with(ASIDE) { parent(&at) } else { at });

        let unified = own
            .unified
            .ok_or_else(|| "no control groups of version 2 are mounted".to_owned());
        let unified = unified.and_then(|own| make_unified(&own, key));
        let old = |controller: &str| {
            let missing = || format!("no `{controller}` control groups of version 1 are mounted");
            own.controllers
                .get(controller)
                .ok_or_else(missing)
                .and_then(|own| make_base(own, key))
        };
        let freezer = old("freezer");
        let memory = old("memory");
        let processes = old("pids");

        let limited = |controller, old: Result<PathBuf, String>| {
            match &unified {
            Ok(base) if has_word(&base.join("cgroup.subtree_control"), controller) => {
                Ok(ControlGroup::of(2, base))
            }
            _ => old.map(|dir| ControlGroup::of(1, dir)).map_err(|old| {
                format!("the `{controller}` controller is not delegated to this worker in version 2, and {old}")
            }),
        }
        };
        let memory = limited("memory", memory);
        let processes = limited("pids", processes);
        let processor = old("cpu").map(|dir| ControlGroup::of(1, dir));
        processor.iter().for_each(yield_to_all);

        Self {
            unified,
            freezer,
            memory,
            processes,
            processor,
        }
    }

    /// Returns the reason why memory cannot be limited for all processes of an attempt together;
    /// `None` if it can.
    pub fn why_no_memory(&self) -> Option<String> {
        self.memory.as_ref().err().cloned()
    }

    /// Returns the reason why processes of an attempt cannot be counted; `None` if they can.
    pub fn why_no_processes(&self) -> Option<String> {
        self.processes.as_ref().err().cloned()
    }

    /// Returns the reason why tasks cannot be given just the processor time that their neighbours
    /// leave; `None` if they can.
    pub fn why_no_processor(&self) -> Option<String> {
        let handed_down = self
            .unified
            .as_ref()
            .is_ok_and(|base| base.join("cpu.weight").exists());
        let old = self.processor.as_ref().err().filter(|_| !handed_down)?;
        Some(format!(
            "the `cpu` controller is not delegated to this worker in version 2, and {old}"
        ))
    }

    /// Lets all tasks together have at most this part (above 0, at most 1) of the host's
    /// processors.
    ///
    /// # Errors
    /// If there is no group in which processor time can be limited; says why.
    pub fn throttle(&self, part: f64) -> Result<(), String> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let quota = (part < 1.0).then(|| (part * processors * PERIOD_US as f64).ceil() as u64);
        let unified = self.unified.as_ref().map(|dir| {
            let quota = quota.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
            ControlGroup::of(2, dir).set("cpu.max", &format!("{quota} {PERIOD_US}"))
        });

        let old = self.processor.as_ref().map(|group| {
            let quota = quota.map_or_else(|| "-1".to_owned(), |quota| quota.to_string());
            group.set("cpu.cfs_period_us", &PERIOD_US.to_string())?;
            group.set("cpu.cfs_quota_us", &quota)
        });
        match (unified, old) {
            (Ok(Ok(())), _) | (_, Ok(Ok(()))) => Ok(()),
            (_, Ok(Err(error))) => Err(format!(
                "this kernel does not limit the time of a `cpu` group: {error}"
            )),
            _ => Err(self
                .why_no_processor()
                .unwrap_or_else(|| "the `cpu` controller takes no limit".to_owned())),
        }
    }

    /// Returns the grounds for attempts that are frozen with this [`Freezer`], with limits where
    /// they are available.
    ///
    /// # Errors
    /// If this host cannot freeze in that way; says why.
    pub fn grounds(&self, freezer: Freezer) -> Result<Grounds, String> {
        let group = |version, dir: &Result<PathBuf, String>| -> Result<_, String> {
            Ok(Some(ControlGroup::of(version, dir.clone()?)))
        };
        let freezer = match freezer {
            Freezer::Cgroup2 => group(2, &self.unified),
            Freezer::Cgroup1 => group(1, &self.freezer),
            Freezer::Signals => Ok(None),
        };
        Ok(Grounds(Room {
            freezer: freezer?,
            memory: self.memory.as_ref().ok().cloned(),
            processes: self.processes.as_ref().ok().cloned(),
            processor: self.processor.as_ref().ok().cloned(),
        }))
    }

    /// Returns the directories that were made.
    fn dirs(&self) -> BTreeSet<PathBuf> {
        let paths = [&self.unified, &self.freezer]
            .into_iter()
            .flatten()
            .cloned();
        let groups = [&self.memory, &self.processes, &self.processor]
            .into_iter()
            .flatten()
            .map(|group| group.dir.clone());
        paths.chain(groups).collect()
    }

    /// Ends what an earlier worker of the same directory left in groups that this one does not use,
    /// and writes down which ones this one uses, in the file `record`.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn replace(&self, record: &Path) -> io::Result<()> {
        let ours = self.dirs();
        let earlier = fs::read_to_string(record).unwrap_or_default();
        for dir in earlier
            .lines()
            .map(PathBuf::from)
            .filter(|dir| !ours.contains(dir) && is_ground(dir))
        {
            empty(&dir);
            let _ = fs::remove_dir(&dir);
        }

        let lines: Vec<String> = ours
            .iter()
            .map(|dir| format!("{}\n", dir.display()))
            .collect();
        fs::write(record, lines.concat())
    }

    /// Removes the directories that these grounds do not need.
    pub fn narrow(&self, grounds: &Grounds) {
        let used: BTreeSet<&Path> = grounds
            .groups()
            .map(|(_, group)| group.dir.as_path())
            .collect();
        for dir in self
            .dirs()
            .iter()
            .filter(|dir| !used.contains(dir.as_path()))
        {
            let _ = fs::remove_dir(dir);
        }
    }

    /// Removes the directories that were made, if no process is in them.
    pub fn remove(&self) {
        for dir in self.dirs() {
            empty(&dir);
            let _ = fs::remove_dir(dir);
        }
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(path).to_owned()
}

fn is_ground(dir: &Path) -> bool {
    dir.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
        && dir.join("cgroup.procs").exists()
}

fn has_word(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|w| w == word))
}

/// A ground in version 2, with the limits handed down to it that can be.
fn make_unified(own: &Path, key: &str) -> Result<PathBuf, String> {
    let base = make_base(own, key)?;
    if !base.join("cgroup.freeze").exists() {
        return Err(
            "this kernel cannot freeze control groups of version 2 (Linux 5.2 can)".to_owned(),
        );
    }

    // To enter a group one must be able to change the one above both, too.
    if let Err(error) = access(own.join("cgroup.procs"), Access::WRITE_OK) {
        return Err(format!(
            "processes may not be moved below {}: {error}",
            own.display()
        ));
    }

    step_aside(own);
    for controller in ["cpu", "memory", "pids"] {
        for dir in [own, &base] {
            let group = ControlGroup::of(2, dir);
            let _ = group.set("cgroup.subtree_control", &format!("+{controller}"));
        }
    }

    yield_to_all(&ControlGroup::of(2, &base));
    Ok(base)
}

/// Gives the processes of a group only what processor time their neighbours leave, as far as the
/// group's kernel and version can. The priority of a process counts against others in its group
/// alone.
fn yield_to_all(group: &ControlGroup) {
    let weight = if group.version == 2 {
        ("cpu.weight", "1")
    } else {
        ("cpu.shares", "2")
    };
    for (file, value) in [weight, ("cpu.idle", "1")] {
        let _ = group.set(file, value);
    }
}

/// Groups with processes in them hand no limits down. A worker that is alone in its group, as a
/// service is, moves into one below.
fn step_aside(own: &Path) {
    let group = ControlGroup::of(2, own);
    let mut ours = vec![rustix::process::getpid()];
    // The installed program, where this one runs in its place, has nothing else to do there either.
    ours.extend(crate::update::keeper::keeper().and_then(|pid| Pid::from_raw(pid.cast_signed())));
    if !group.members().is_empty()
        && group.members().iter().all(|member| ours.contains(member))
        && has_word(&own.join("cgroup.controllers"), "memory")
    {
        let aside = ControlGroup::of(2, own.join(ASIDE));
        let _ = fs::create_dir(&aside.dir);
        for process in group.members() {
            let _ = aside.set("cgroup.procs", &process.as_raw_nonzero().to_string());
        }
    }
}

fn make_base(own: &Path, key: &str) -> Result<PathBuf, String> {
    let base = own.join(format!("{PREFIX}{key}"));
    match fs::create_dir(&base) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => empty(&base),
        Err(error) => {
            return Err(format!(
                "no control group may be made in {}: {error}",
                own.display()
            ));
        }
        Ok(()) => {}
    }

    access(base.join("cgroup.procs"), Access::WRITE_OK)
        .map_err(|error| format!("no process may be moved into {}: {error}", base.display()))?;
    Ok(base)
}

/// Kills every process in the groups of a ground, and removes them.
fn empty(base: &Path) {
    let version = if base.join("cgroup.controllers").exists() {
        2
    } else {
        1
    };

    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let deadline = Instant::now() + DYING;
    for dir in entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
    {
        let group = ControlGroup::of(version, dir);
        while fs::remove_dir(&group.dir).is_err() && Instant::now() < deadline {
            group.kill();
            std::thread::sleep(DYING_PAUSE);
        }
    }
}

impl Grounds {
    /// Returns the [`Freezer`] of attempts on them.
    pub fn freezer(&self) -> Freezer {
        match &self.0.freezer {
            Some(group) if group.version == 2 => Freezer::Cgroup2,
            Some(_) => Freezer::Cgroup1,
            None => Freezer::Signals,
        }
    }

    fn groups(&self) -> impl Iterator<Item = (GroupPower, &ControlGroup)> {
        let Room {
            freezer,
            memory,
            processes,
            processor,
        } = &self.0;

        let limits = [
            (GroupPower::Memory, memory),
            (GroupPower::Processes, processes),
            (GroupPower::Processor, processor),
        ];
        let groups = [(GroupPower::Freeze, freezer)].into_iter().chain(limits);

        groups.filter_map(|(power, group)| Some((power, group.as_ref()?)))
    }

    /// Encodes the grounds as arguments of the spawner.
    pub(in super::super) fn to_args(&self) -> Vec<OsString> {
        let name = |power, group: &ControlGroup| {
            POWERS
                .iter()
                .find(|(_, v, p)| (*v, *p) == (group.version, power))
        };
        let known = self
            .groups()
            .filter_map(|(power, group)| Some((name(power, group)?.0, group)));
        known
            .flat_map(|(name, group)| [name.into(), group.dir.clone().into_os_string()])
            .collect()
    }

    /// Parses a room from command-line arguments.
    pub(in super::super) fn from_args(args: impl IntoIterator<Item = OsString>) -> Self {
        let mut room = Room::default();
        let mut args = args.into_iter();
        while let (Some(name), Some(dir)) = (args.next(), args.next()) {
            let Some((_, version, power)) = POWERS.iter().find(|(known, _, _)| name == *known)
            else {
                continue;
            };
            let place = match power {
                GroupPower::Freeze => &mut room.freezer,
                GroupPower::Memory => &mut room.memory,
                GroupPower::Processes => &mut room.processes,
                GroupPower::Processor => &mut room.processor,
            };
            *place = Some(ControlGroup::of(*version, dir));
        }

        Self(room)
    }

    /// Returns the room of this name.
    fn room(&self, name: &str) -> Room {
        let of = |group: &Option<ControlGroup>| {
            let group = group.as_ref();
            group.map(|group| ControlGroup::of(group.version, group.dir.join(name)))
        };

        let Room {
            freezer,
            memory,
            processes,
            processor,
        } = &self.0;

        // All attempts yield to others together: they are in one group.
        Room {
            freezer: of(freezer),
            memory: of(memory),
            processes: of(processes),
            processor: processor.clone(),
        }
    }
}

/// The rooms that one spawner made. A room goes from attempt to attempt: to make and remove one
/// costs more than to enter it.
#[derive(Debug)]
pub(in super::super) struct Pool {
    grounds: Grounds,
    /// The prefix number of its rooms' names: an earlier spawner may have left attempts in rooms of
    /// its own.
    series: u32,
    free: BTreeSet<u32>,
    made: u32,
}

impl Pool {
    /// No rooms yet. `series` must be this process's alone.
    pub(in super::super) fn new(grounds: Grounds, series: u32) -> Self {
        Self {
            grounds,
            series,
            free: BTreeSet::new(),
            made: 0,
        }
    }

    /// Takes an empty room; `None` if none can be made.
    pub(in super::super) fn take(&mut self) -> Option<(u32, Room)> {
        if let Some(number) = self.free.pop_first() {
            return Some((number, self.room(number)));
        }
        let room = self.room(self.made);
        for (_, group) in Grounds(room.clone()).groups() {
            // A spawner before this one may have removed the ground, too.
            fs::create_dir_all(&group.dir).ok()?;
        }
        self.made += 1;
        Some((self.made - 1, room))
    }

    /// Returns the room of this number.
    pub(in super::super) fn room(&self, number: u32) -> Room {
        self.grounds.room(&format!("{}.{number}", self.series))
    }

    /// Takes back a room that is thawed and in which nobody is any more.
    pub(in super::super) fn give_back(&mut self, number: u32) {
        self.free.insert(number);
    }

    /// Removes all rooms, at the end, and the grounds unless some process is in them.
    pub(in super::super) fn remove(&self) {
        let rooms = (0..self.made).map(|number| Grounds(self.room(number)));
        for grounds in rooms.chain([self.grounds.clone()]) {
            for (_, group) in grounds.groups() {
                let _ = fs::remove_dir(&group.dir);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grounds_survive_a_command_line() {
        let group = |version, dir: &str| Some(ControlGroup::of(version, dir));
        for room in [
            Room::default(),
            Room {
                freezer: group(2, "/a b"),
                memory: group(1, "/m"),
                processes: group(2, "/a b"),
                processor: None,
            },
            Room {
                freezer: group(1, "/f"),
                memory: None,
                processes: group(1, "/p=q"),
                processor: group(1, "/c"),
            },
        ] {
            let grounds = Grounds(room);
            assert_eq!(Grounds::from_args(grounds.to_args()), grounds);
        }
    }

    #[test]
    fn rooms_are_used_again_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let group = Some(ControlGroup::of(2, dir.path()));
        let mut pool = Pool::new(
            Grounds(Room {
                freezer: group,
                ..Room::default()
            }),
            7,
        );
        let ((first, _), (second, room)) = (pool.take().unwrap(), pool.take().unwrap());
        assert_ne!(first, second);
        assert_eq!(room.freezer.unwrap().dir, dir.path().join("7.1"));

        pool.give_back(first);
        assert_eq!(pool.take().unwrap().0, first);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        fs::create_dir(dir.path().join("another's")).unwrap();
        pool.remove();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::remove_dir(dir.path().join("another's")).unwrap();
        pool.remove();

        assert!(!dir.path().exists());
    }
}
