//! The processor time that has passed, was used, and was used by this worker and its tasks, in milliseconds.

use std::collections::BTreeMap;
use std::time::Instant;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::group;
use crate::share::ProcessorTimes;

/// The use of the processors, read again and again: the system tells the part since the look before.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    system: Option<System>,
    last: Option<(Instant, ProcessorTimes)>,
}

impl Accounts {
    /// Reads the load now; `None` if the system does not report it.
    pub(crate) fn look(&mut self) -> Option<ProcessorTimes> {
        if self.system.is_none() {
            self.system = System::new().ok();
        }
        let system = self.system.as_mut()?;
        let ours = ours(system);
        system.refresh_cpu_usage();

        let now = Instant::now();
        let (then, before) = self.last.unwrap_or((now, NONE));
        let processors = u32::try_from(system.cpus().len()).ok()?.max(1);
        let passed = (now - then).as_secs_f64() * 1_000.0 * f64::from(processors);
        let used = passed * f64::from(system.global_cpu_usage() / 100.0).clamp(0.0, 1.0);
        let times = ProcessorTimes {
            processors,
            total: before.total + passed as u64,
            used: before.used + used as u64,
            stolen: 0,
            ours,
        };
        self.last = Some((now, times));
        Some(times)
    }
}

const NONE: ProcessorTimes = ProcessorTimes {
    processors: 1,
    total: 0,
    used: 0,
    stolen: 0,
    ours: 0,
};

/// Used by this process, by the commands that have ended, and by every living process below it. One that left its
/// parent (a double fork) counts as another program's.
fn ours(system: &mut System) -> u64 {
    let wanted = ProcessRefreshKind::nothing().with_cpu();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, wanted);

    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for (pid, process) in system.processes() {
        if let Some(parent) = process.parent() {
            children.entry(parent).or_default().push(*pid);
        }
    }

    let mut sum = u64::try_from(group::used_so_far().as_millis()).unwrap_or(0);
    let mut parents = vec![Pid::from_u32(std::process::id())];
    while let Some(parent) = parents.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            let process = system.process(child);
            sum += process.map_or(0, sysinfo::Process::accumulated_cpu_time);
            parents.push(child);
        }
    }
    sum
}
