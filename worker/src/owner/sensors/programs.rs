//! Programs that the owner wants to have the host for themselves: whether one of a list of names
//! runs.
//!
//! A process is looked at when it is new, a few times more while it is young (it may still become
//! another program), and then seldom: the whole of `/proc` would cost too much to read again and
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use super::SensorsConfig;
use super::glance::Glance;
use crate::owner::sight::{Reading, Sight, Topic};

/// The number of looks after its first one for which a process may still change its name.
const YOUNG: u32 = 4;
/// Every so many looks everything is looked at again.
const AGAIN: u32 = 20;
/// The number of walks from a process to its ancestors: a parent that ends meanwhile breaks one off.
const WALKS: u32 = 3;

/// Looks for programs.
#[derive(Debug)]
struct Programs {
    proc: PathBuf,
    names: Vec<String>,
    looks: u32,
    /// Processes that were none of these: at which look each was first seen.
    others: BTreeMap<u32, u32>,
}

/// Makes the sensor of the programs that the owner has listed.
pub(super) fn sensor(config: &SensorsConfig) -> Glance {
    let mut programs = Programs::new(config);
    let look = move || programs.look();
    Glance::new("programs", Topic::Programs, config.programs_every, look)
}

impl Programs {
    fn new(config: &SensorsConfig) -> Self {
        Self {
            proc: config.proc_dir.clone(),
            names: config.programs.clone(),
            looks: 0,
            others: BTreeMap::new(),
        }
    }

    /// The name of the list that this process has: the system's short name, the program's file, or
    /// how it was called.
    fn name_of(&self, pid: u32) -> Option<&String> {
        let dir = self.proc.join(pid.to_string());
        let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let short = fs::read_to_string(dir.join("comm"))
            .ok()
            .map(|name| name.trim_end().to_owned());
        let file = || {
            fs::read_link(dir.join("exe"))
                .ok()
                .map(|path| base(path.to_string_lossy().trim_end_matches(" (deleted)")))
        };
        let called = || {
            let line = fs::read(dir.join("cmdline")).ok()?;
            Some(base(&String::from_utf8_lossy(
                line.split(|b| *b == 0).next()?,
            )))
        };

        let find = |name: Option<String>| {
            self.names
                .iter()
                .find(|wanted| name.as_ref() == Some(wanted))
        };
        find(short)
            .or_else(|| find(file()))
            .or_else(|| find(called()))
    }

    fn parent_of(&self, pid: u32) -> Option<u32> {
        let status = fs::read(self.proc.join(pid.to_string()).join("status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        parent?.trim().parse().ok()
    }

    /// Returns the number of this worker. It is not the one that the system call tells: `/proc` may be that of other processes.
    fn own(&self) -> Option<u32> {
        let own = fs::read_link(self.proc.join("self")).ok()?;
        own.to_str()?.parse().ok()
    }

    /// Whether a process is below one of `ours`, which are this worker's: a task's, and not the owner's program. Adds those
    /// on the way to it, so that each is passed once in a look.
    fn is_ours(&self, pid: u32, ours: &mut BTreeSet<u32>) -> bool {
        (0..WALKS).any(|_| {
            let mut passed = Vec::new();
            let mut up = Some(pid);
            while let Some(pid) = up.filter(|pid| !ours.contains(pid)) {
                passed.push(pid);
                up = self.parent_of(pid);
            }

            let found = up.is_some();
            if found {
                ours.extend(passed);
            }
            found
        })
    }

    fn look(&mut self) -> Sight {
        let entries = match fs::read_dir(&self.proc) {
            Ok(entries) => entries,
            Err(error) => {
                return Sight::Unknown(format!("cannot list {}: {error}", self.proc.display()));
            }
        };

        self.looks = self.looks.wrapping_add(1);
        let known = if self.looks.is_multiple_of(AGAIN) {
            BTreeMap::new()
        } else {
            std::mem::take(&mut self.others)
        };

        let mut found = None;
        let mut ours: BTreeSet<u32> = self.own().into_iter().collect();
        for pid in entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        {
            let first = known.get(&pid).copied().unwrap_or(self.looks);
            let old = known.contains_key(&pid) && self.looks.wrapping_sub(first) >= YOUNG;
            let name = if old { None } else { self.name_of(pid) };
            match name.filter(|_| !self.is_ours(pid, &mut ours)) {
                Some(name) => found = found.or_else(|| Some(name.clone())),
                None => drop(self.others.insert(pid, first)),
            }
        }

        Sight::Seen(Reading::Program(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host(tempfile::TempDir);

    impl Host {
        fn process(&self, pid: u32, comm: &str, exe: &str, cmdline: &[u8]) {
            let dir = self.0.path().join(pid.to_string());
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("comm"), format!("{comm}\n")).unwrap();
            fs::write(dir.join("cmdline"), cmdline).unwrap();
            let _ = fs::remove_file(dir.join("exe"));
            std::os::unix::fs::symlink(exe, dir.join("exe")).unwrap();
        }

        fn parent(&self, pid: u32, parent: u32) {
            let status = self.0.path().join(format!("{pid}/status"));
            // The system cuts names, which may leave a part of a character.
            let text = format!("\nUmask:\t0022\nPid:\t{pid}\nPPid:\t{parent}\n");
            fs::write(status, [&b"Name:\tx\xc3"[..], text.as_bytes()].concat()).unwrap();
        }

        fn sensor(&self) -> Programs {
            let programs = ["blender", "a-program-with-a-long-name", "game.sh"]
                .map(str::to_owned)
                .to_vec();
            Programs::new(&SensorsConfig {
                proc_dir: self.0.path().into(),
                programs,
                ..SensorsConfig::default()
            })
        }
    }

    fn runs(sensor: &mut Programs) -> Option<String> {
        let Sight::Seen(Reading::Program(name)) = sensor.look() else {
            panic!("not seen")
        };
        name
    }

    #[test]
    fn programs_are_known_by_each_of_their_names() {
        let host = Host(tempfile::tempdir().unwrap());
        host.process(7, "bash", "/bin/bash", b"-bash\0");
        assert_eq!(runs(&mut host.sensor()), None);
        host.process(
            8,
            "a-program-with-",
            "/opt/x/a-program-with-a-long-name",
            b"",
        );

        assert_eq!(
            runs(&mut host.sensor()).as_deref(),
            Some("a-program-with-a-long-name"),
            "the short name is cut"
        );
        fs::remove_dir_all(host.0.path().join("8")).unwrap();
        host.process(9, "bash", "/bin/bash", b"/home/o/game.sh\0--fast\0");
        assert_eq!(runs(&mut host.sensor()).as_deref(), Some("game.sh"));
    }

    #[test]
    fn a_process_that_becomes_a_program_of_the_list_is_noticed_and_so_is_its_end() {
        let host = Host(tempfile::tempdir().unwrap());
        host.process(7, "sh", "/bin/sh", b"sh\0");
        let mut sensor = host.sensor();
        assert_eq!(runs(&mut sensor), None);
        host.process(7, "blender", "/usr/bin/blender", b"blender\0");
        for _ in 0..2 * AGAIN {
            assert_eq!(runs(&mut sensor).as_deref(), Some("blender"));
        }
        fs::remove_dir_all(host.0.path().join("7")).unwrap();
        assert_eq!(runs(&mut sensor), None);
    }

    #[test]
    fn tasks_that_are_called_like_a_program_of_the_list_do_not_count() {
        let host = Host(tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink("5", host.0.path().join("self")).unwrap();
        for (pid, parent, name) in [
            (1, 0, "systemd"),
            (5, 1, "deskgrid"),
            (6, 5, "deskgrid"),
            (7, 6, "sh"),
            (8, 7, "blender"),
        ] {
            host.process(pid, name, "/bin/x", b"x\0");
            host.parent(pid, parent);
        }
        let mut sensor = host.sensor();
        assert_eq!(runs(&mut sensor), None);

        host.process(9, "blender", "/usr/bin/blender", b"blender\0");
        assert_eq!(
            runs(&mut sensor).as_deref(),
            Some("blender"),
            "one whose parents are not told is the owner's"
        );
        host.parent(9, 1);
        assert_eq!(runs(&mut sensor).as_deref(), Some("blender"));
        fs::remove_dir_all(host.0.path().join("9")).unwrap();
        assert_eq!(runs(&mut sensor), None);
    }

    #[test]
    fn an_old_process_that_becomes_one_is_noticed_at_last() {
        let host = Host(tempfile::tempdir().unwrap());
        host.process(7, "sh", "/bin/sh", b"sh\0");
        let mut sensor = host.sensor();
        assert!((0..AGAIN - 1).all(|_| runs(&mut sensor).is_none()));
        host.process(7, "blender", "/usr/bin/blender", b"blender\0");
        let looks = (0..=AGAIN).position(|_| runs(&mut sensor).is_some());
        assert!(looks.is_some(), "never noticed");
    }
}
