//! The processor time that has passed, was used, and was used by this worker and its descendants.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::tree;
use crate::share::ProcessorTimes;

/// The number of looks after which every process is looked at again, also those that are not the
/// worker's.
const AGAIN: u32 = 12;

/// The use of the processors, read again and again. It remembers which processes are not the
/// worker's, since reading all of them each time would cost too much.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    foreign: BTreeSet<u32>,
    looks: u32,
}

impl Accounts {
    /// Reads the load now; `None` if the system does not report it.
    pub(crate) fn look(&mut self) -> Option<ProcessorTimes> {
        // Ours first: what is used in between would else be taken for nobody's.
        let ours = self.ours();
        processors(&fs::read_to_string("/proc/stat").ok()?)
            .map(|load| ProcessorTimes { ours, ..load })
    }

    /// Used by this process and everything below it, living or ended: what has ended is counted
    /// with whoever waited for it, and that is one of ours, since each attempt's init waits for all
    /// of its tree. Whatever a process below this one does, it stays below; one that is elsewhere
    /// never comes here, but its number may.
    fn ours(&mut self) -> u64 {
        self.looks = self.looks.wrapping_add(1);
        let known = if self.looks.is_multiple_of(AGAIN) {
            BTreeSet::new()
        } else {
            std::mem::take(&mut self.foreign)
        };

        let mut children: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            if known.contains(&pid) {
                self.foreign.insert(pid);
                continue;
            }
            if let Some((parent, used)) = process_at(&format!("/proc/{pid}/stat")) {
                children.entry(parent).or_default().push((pid, used));
            }
        }

        let own = process_at("/proc/self/stat");
        let mut sum = own.map_or(0, |(_, used)| used);
        let mut parents = vec![std::process::id()];

        while let Some(parent) = parents.pop() {
            for (child, used) in children.remove(&parent).unwrap_or_default() {
                sum += used;
                parents.push(child);
            }
        }

        self.foreign.extend(
            children
                .into_values()
                .flatten()
                .map(|(pid, _)| pid)
                .filter(|pid| *pid != std::process::id()),
        );

        sum
    }
}

/// All and used time of all processors together, from the first line: user, nice, system, idle,
/// waiting for a disk, interrupts (two), stolen; what follows is counted among the first two
/// already. How many processors, by their lines.
fn processors(stat: &str) -> Option<ProcessorTimes> {
    let fields = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace();
    let fields: Vec<u64> = fields
        .take(8)
        .map_while(|field| field.parse().ok())
        .collect();
    let total: u64 = fields.iter().sum();
    let idle = fields.get(3)? + fields.get(4).copied().unwrap_or(0);
    let stolen = fields.get(7).copied().unwrap_or(0);
    let numbered = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let processors = stat.lines().skip(1).take_while(numbered).count().max(1) as u32;

    Some(ProcessorTimes {
        processors,
        total,
        used: total - idle - stolen,
        stolen,
        ours: 0,
    })
}

/// Reads a process's parent, and the time that it and the children that it waited for have used.
fn process_at(stat: &str) -> Option<(u32, u64)> {
    process(&fs::read(stat).ok()?)
}

fn process(stat: &[u8]) -> Option<(u32, u64)> {
    let fields = tree::fields(stat)?;
    let used = fields
        .get(11..15)?
        .iter()
        .map(|field| field.parse().unwrap_or(0u64))
        .sum();
    Some((fields.get(1)?.parse().ok()?, used))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn lines_of_the_system_are_read_as_its_manual_says() {
        let load = ProcessorTimes {
            processors: 2,
            total: 531,
            used: 73,
            stolen: 8,
            ours: 0,
        };
        assert_eq!(
            processors("cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1\ncpu1 1\nintr 1\n"),
            Some(load)
        );
        assert_eq!(processors("intr 1 2\n"), None);

        let stat = b"42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 100";
        assert_eq!(process(stat), Some((7, 110)));
        assert_eq!(process(b"42 (sh) S"), None);
    }

    #[test]
    fn a_process_whose_name_is_cut_within_a_character_is_ours() {
        let script = "printf 'fourteen-bytes\\303\\251' > /proc/$$/comm; echo named; read -r word";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut said).unwrap();

        let stat = format!("/proc/{}/stat", child.id());
        let name_is_cut = fs::read_to_string(&stat).is_err();
        let found = process_at(&stat);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said == "named\n" && name_is_cut);
        assert_eq!(found.unwrap().0, std::process::id());
    }

    #[test]
    fn cached_process_owners_equal_fresh_ones() {
        let mut accounts = Accounts::default();
        let first = accounts.ours();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();

        assert!(!accounts.foreign.is_empty() && !accounts.foreign.contains(&std::process::id()));
        for _ in 0..2 * AGAIN {
            let before = Accounts::default().ours();
            let now = accounts.ours();
            let after = Accounts::default().ours();
            assert!(
                first <= before && before <= now && now <= after,
                "{first} {before} {now} {after}"
            );
            assert!(
                !accounts.foreign.contains(&child.id()),
                "a new process of ours is not taken for another's"
            );
        }

        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn own_processor_time_counts_as_ours() {
        let mut accounts = Accounts::default();
        let before = accounts.look().unwrap();
        let mut number = 1u64;
        let after = loop {
            number = (0..10_000_000).fold(number, |n, i| {
                std::hint::black_box(n.wrapping_mul(6_364_136_223_846_793_005) + i)
            });
            let now = accounts.look().unwrap();
            if now.ours >= before.ours + 5 {
                break now;
            }
        };

        assert!(
            after.total > before.total && after.used > before.used,
            "{before:?} {after:?}"
        );
    }
}
