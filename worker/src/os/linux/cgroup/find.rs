//! Finds this process's own control groups in the file system. Reads what the kernel reports;
//! changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// This process's own group in each hierarchy that is mounted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// The group in version 2.
    pub unified: Option<PathBuf>,
    /// The groups in version 1, by controller.
    pub controllers: BTreeMap<String, PathBuf>,
}

impl Own {
    /// Reads the kernel's present answer in `/proc/self`.
    pub(super) fn read() -> Self {
        Self::parse(&text("/proc/self/mountinfo"), &text("/proc/self/cgroup"))
    }

    /// Parses the texts of `mountinfo` and `cgroup` in `/proc/self`.
    fn parse(mounts: &str, groups: &str) -> Self {
        let mut own = Self::default();
        for mount in mounts.lines().filter_map(Mount::parse) {
            for line in groups.lines() {
                let mut fields = line.splitn(3, ':').skip(1);
                let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
                    continue;
                };
                let Some(at) = mount.place(path) else {
                    continue;
                };

                if mount.version == 2 && controllers.is_empty() {
                    own.unified.get_or_insert(at);
                } else if mount.version == 1 && !controllers.is_empty() && mount.has(controllers) {
                    for controller in controllers.split(',') {
                        own.controllers
                            .entry(controller.to_owned())
                            .or_insert_with(|| at.clone());
                    }
                }
            }
        }

        own
    }

    /// Returns the least memory that these groups and those above them leave to all their processes
    /// together, in bytes; `None` where none of them has a limit.
    pub(super) fn memory_bound(&self) -> Option<u64> {
        let old = self.controllers.get("memory");
        let unified = bounds(self.unified.as_deref(), "memory.max");
        unified
            .chain(bounds(old.map(PathBuf::as_path), "memory.limit_in_bytes"))
            .min()
    }
}

/// Reads a file with paths. Some of them, such as that of a stick with an old file system, may be no
/// UTF-8.
fn text(path: impl AsRef<Path>) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the numbers in this file of a group and of those above it, as far as they can be seen.
fn bounds(group: Option<&Path>, file: &'static str) -> impl Iterator<Item = u64> {
    let groups = group.into_iter().flat_map(Path::ancestors);
    groups.filter_map(move |dir| {
        let text = std::fs::read_to_string(dir.join(file)).ok()?;
        text.trim().parse().ok()
    })
}

/// A hierarchy as it is mounted.
struct Mount<'a> {
    version: u8,
    /// The group that the mount point shows.
    root: PathBuf,
    at: PathBuf,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let version = match kind.next()? {
            "cgroup2" => 2,
            "cgroup" => 1,
            _ => return None,
        };

        let options = kind.nth(1)?;
        let mut place = place.split(' ').skip(3);
        Some(Self {
            version,
            root: unescape(place.next()?),
            at: unescape(place.next()?),
            options,
        })
    }

    /// Whether it holds exactly these controllers, however they are ordered.
    fn has(&self, controllers: &str) -> bool {
        controllers
            .split(',')
            .all(|controller| self.options.split(',').any(|option| option == controller))
    }

    /// Returns the directory of the group `path`, if this mount shows it.
    fn place(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        // A group outside what is visible here is named with dots.
        let visible = below
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        visible.then(|| {
            if below.as_os_str().is_empty() {
                self.at.clone()
            } else {
                self.at.join(below)
            }
        })
    }
}

/// Decodes a path in which the kernel wrote spaces and the like as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok())
        {
            Some(byte) => {
                path.push(char::from(byte));
                path.push_str(&part[3..]);
            }
            None => {
                path.push('\\');
                path.push_str(part);
            }
        }
    }

    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_in_every_arrangement_of_mounts() {
        let pure =
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

        let own = Own::parse(pure, "0::/user.slice/a b.service\n");
        assert_eq!(
            own.unified,
            Some("/sys/fs/cgroup/user.slice/a b.service".into())
        );
        assert!(own.controllers.is_empty());

        let hybrid = "31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n\
                      32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpuacct,cpu\n\
                      33 30 0:29 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                      34 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                      35 30 0:31 / /home/x rw - ext4 /dev/sda rw,freezer\n";
        let own = Own::parse(
            hybrid,
            "3:freezer:/\n2:cpu,cpuacct:/box\n1:name=systemd:/init\n0::/\n",
        );
        assert_eq!(own.unified, Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(
            own.controllers["freezer"],
            Path::new("/sys/fs/cgroup/freezer")
        );
        assert_eq!(
            own.controllers["cpu"],
            Path::new("/sys/fs/cgroup/cpu,cpuacct/box")
        );
    }

    #[test]
    fn a_mount_whose_name_is_no_utf_8_hides_no_group() {
        let dir = tempfile::tempdir().expect("a directory");
        let mounts = dir.path().join("mountinfo");
        let lines = b"29 24 0:25 / /media/B\xfccher rw - vfat /dev/sdb rw\n\
                      30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        std::fs::write(&mounts, lines).expect("a file");
        let own = Own::parse(&text(mounts), "0::/here\n");
        assert_eq!(own.unified, Some("/sys/fs/cgroup/here".into()));
    }

    #[test]
    fn the_least_memory_of_all_groups_above_counts() {
        let root = tempfile::tempdir().expect("a directory");
        let group = |name: &str, file: &str, text: &str| {
            let dir = root.path().join(name);
            std::fs::create_dir_all(&dir).expect("a directory");
            std::fs::write(dir.join(file), text).expect("a file");
            dir
        };

        group("new", "memory.max", "3000\n");
        let own = Own {
            unified: Some(group("new/slice/worker", "memory.max", "max\n")),
            ..Own::default()
        };
        assert_eq!(own.memory_bound(), Some(3_000));

        let limited = group("old/worker", "memory.limit_in_bytes", "2000\n");
        let both = Own {
            controllers: BTreeMap::from([("memory".to_owned(), limited)]),
            ..own
        };
        assert_eq!(both.memory_bound(), Some(2_000));
        assert_eq!(Own::default().memory_bound(), None);
    }

    #[test]
    fn a_mount_that_shows_only_a_part_is_understood() {
        let inside = "30 24 0:26 /docker/one /sys/fs/cgroup\\040here ro - cgroup2 cgroup2 rw\n";
        let own = |groups| Own::parse(inside, groups).unified;
        assert_eq!(
            own("0::/docker/one/task\n"),
            Some("/sys/fs/cgroup here/task".into())
        );
        assert_eq!(own("0::/docker/one\n"), Some("/sys/fs/cgroup here".into()));
        assert_eq!(own("0::/docker/two\n"), None);
        let spaced = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(Own::parse(spaced, "0::/../outside\n").unified, None);
        assert_eq!(Own::parse("", "0::/\n"), Own::default());
    }
}
