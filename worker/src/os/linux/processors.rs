//! The processors that the worker may use, by core: the kernel's answers, nothing chosen.

use rustix::thread::{CpuSet, sched_getaffinity};

/// Returns the processors that this process may use, those of one core together, in order; none
/// where the kernel does not say.
pub(crate) fn cores() -> Vec<Vec<u32>> {
    let Ok(ours) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let mut cores: Vec<Vec<u32>> = Vec::new();

    for processor in (0..CpuSet::MAX_CPU).filter(|number| ours.is_set(*number)) {
        let number = processor as u32;
        if cores.iter().any(|core| core.contains(&number)) {
            continue;
        }
        let file = format!("/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list");
        let siblings = std::fs::read_to_string(file).unwrap_or_default();
        let core = parse(&siblings)
            .into_iter()
            .filter(|sibling| *sibling != number && ours.is_set(*sibling as usize));
        cores.push([number].into_iter().chain(core).collect());
    }

    cores
}

/// Parses a list such as `0,4-6`; what makes no sense in it is left out.
fn parse(list: &str) -> Vec<u32> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    });
    ranges
        .flatten()
        .take_while(|number| (*number as usize) < CpuSet::MAX_CPU)
        .collect()
}

/// Returns the set of these processors; `None` if there are none.
pub(super) fn set_of(processors: &[u32]) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    let known = processors
        .iter()
        .filter(|number| (**number as usize) < CpuSet::MAX_CPU);
    known.for_each(|number| set.set(*number as usize));
    (set.count() > 0).then_some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_siblings_are_read() {
        assert_eq!(parse("0,4\n"), [0, 4]);
        assert_eq!(parse("2-3\n"), [2, 3]);
        assert_eq!(parse(""), [0; 0]);
    }

    #[test]
    fn every_processor_of_this_process_is_in_one_core() {
        let ours = sched_getaffinity(None).unwrap();
        let all: Vec<u32> = cores().concat();
        assert_eq!(all.len() as u32, ours.count());
        assert_eq!(set_of(&all), Some(ours));
    }
}
