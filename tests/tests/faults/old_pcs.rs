//! Old and small PCs: a spinning disk, 2 GiB of memory, two processors. The worker stays connected however
//! long its disk takes, and offers no more than there is. The machine is made small by control groups of
//! version 1: where there are none, nothing of this is tried, which is said. That a task stays within what
//! its owner lends is asked elsewhere, and what an idle worker takes is measured (`BENCHMARKS.md`).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::disk::Disk;
use super::{skip, worker};
use tests::{Grid, eventually};

const MEMORY: u64 = 2 << 30;

/// A control group of version 1 with so much memory for all in it, removed when it is dropped.
struct SmallMemory(PathBuf);

impl SmallMemory {
    fn make() -> Option<Self> {
        let dir = PathBuf::from(format!(
            "/sys/fs/cgroup/memory/deskgrid-test-{}",
            std::process::id()
        ));
        let made = fs::create_dir(&dir)
            .and_then(|()| fs::write(dir.join("memory.limit_in_bytes"), MEMORY.to_string()));
        if let Err(error) = made {
            skip(&format!("no group for memory: {}: {error}", dir.display()));
            return None;
        }
        Some(Self(dir))
    }

    /// The words that start something in it, on two processors.
    fn words(&self) -> [OsString; 6] {
        let procs = self.0.join("cgroup.procs");
        let script = format!("echo $$ > {} && exec \"$@\"", procs.display());
        ["taskset", "0x3", "sh", "-c", &script, "small"].map(OsString::from)
    }
}

impl Drop for SmallMemory {
    fn drop(&mut self) {
        // Whoever was in it has ended, or ends with the grid.
        let procs = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for process in procs.lines() {
            let _ = fs::write("/sys/fs/cgroup/memory/cgroup.procs", process);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn an_old_pc_offers_what_it_has_and_stays_connected_however_slow_its_disk_is() {
    let Some(memory) = SmallMemory::make() else {
        return;
    };
    let Some(mut disk) = Disk::new(768) else {
        return;
    };
    if !disk.spin() {
        return;
    }

    // A host is doubted after 2 s of silence: several of the waits for the disk below.
    let mut grid = Grid::start();
    disk.take_in(&grid.state("old"));
    grid.wrap("old", [memory.words().to_vec(), disk.words()].concat());
    worker(&mut grid, "old", 2).start();

    let host = grid.json(["host", "info", "old"]);
    let offered = host["memory_mib"].as_u64().expect("a number");
    assert!((1..=MEMORY >> 20).contains(&offered), "{host}");

    // 40 MB of output from each task: half a second of the disk, five times (task, spool, and their syncs).
    let write = "head -c 40000000 /dev/zero > out; sync out";
    let job = grid.submit([
        "--array",
        "1-4",
        "--output-file",
        "out",
        "--",
        "sh",
        "-c",
        write,
    ]);
    let mut states = BTreeSet::new();
    eventually("all are finished", Duration::from_secs(120), || {
        let host = grid.json(["host", "info", "old"]);
        states.insert(host["state"].as_str().expect("a word").to_owned());
        let tasks = &grid.job(&job)["tasks"];
        (tasks["finished"] == 4).then_some(())
    });

    for index in 1..=4 {
        let tried = grid.attempts(&format!("{job}.{index}"));
        assert_eq!(tried.len(), 1, "task {index}: {tried:?}");
    }
    assert!(
        states
            .iter()
            .all(|state| state == "ready" || state == "busy"),
        "the host was always there: {states:?}"
    );
}
