//! How much processor time has passed, was used, and was used by this worker with all that is below it.

use std::collections::BTreeMap;
use std::fs;

use crate::share::Load;

/// Looks now; takes some milliseconds. Nothing where the system does not say.
pub(crate) fn load() -> Option<Load> {
    // Ours first: what is used in between would else be taken for nobody's.
    let ours = ours();
    let (total, busy) = processors(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(Load { total, busy, ours })
}

/// All and used time of all processors together, from the first line: user, nice, system, idle, waiting for a disk,
/// interrupts (two), stolen; what follows is counted among the first two already.
fn processors(stat: &str) -> Option<(u64, u64)> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let fields: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
    let total: u64 = fields.iter().sum();
    let idle = fields.get(3)? + fields.get(4).copied().unwrap_or(0);
    Some((total, total - idle))
}

/// Used by this process and everything below it, living or ended: what has ended is counted with whoever waited for it,
/// and that is one of ours, since each attempt's init waits for all of its tree.
fn ours() -> u64 {
    let mut children: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some((parent, used)) = fs::read_to_string(format!("/proc/{pid}/stat")).ok().as_deref().and_then(process)
        {
            children.entry(parent).or_default().push((pid, used));
        }
    }
    let own = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(process);
    let (mut sum, mut parents) = (own.map_or(0, |(_, used)| used), vec![std::process::id()]);
    while let Some(parent) = parents.pop() {
        for (child, used) in children.remove(&parent).unwrap_or_default() {
            sum += used;
            parents.push(child);
        }
    }
    sum
}

/// A process's parent, and the time that it and the children that it waited for have used.
fn process(stat: &str) -> Option<(u32, u64)> {
    // The name in parentheses may hold anything; the fields are counted from behind it.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    let used = fields.get(11..15)?.iter().map(|field| field.parse().unwrap_or(0u64)).sum();
    Some((fields.get(1)?.parse().ok()?, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_system_are_read_as_its_manual_says() {
        assert_eq!(processors("cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1\n"), Some((531, 81)));
        assert_eq!(processors("intr 1 2\n"), None);
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 100";
        assert_eq!(process(stat), Some((7, 110)));
        assert_eq!(process("42 (sh) S"), None);
    }

    #[test]
    fn what_this_process_computes_is_ours_and_passes() {
        let before = load().unwrap();
        let mut number = 1u64;
        let after = loop {
            number = (0..10_000_000)
                .fold(number, |n, i| std::hint::black_box(n.wrapping_mul(6_364_136_223_846_793_005) + i));
            let now = load().unwrap();
            if now.ours >= before.ours + 5 {
                break now;
            }
        };
        assert!(after.total > before.total && after.busy > before.busy, "{before:?} {after:?}");
    }
}
