//! Short memory: what fills it ends as a failure of its task, what is beside that stays or is given back.

use std::path::Path;

use worker::owner::rules::{MemoryRule, OwnerRules};
use worker::owner::sensors::SensorsConfig;

use super::*;

/// The memory that is lent to all tasks, and what the larger one takes, in MiB.
const LENT: u64 = 32;
const TAKEN: u64 = 64;

/// Writes how much of its memory the host has left, in per cent, as its kernel would.
fn leave(proc: &Path, available: u32) {
    let told = format!("MemTotal: 100000 kB\nMemAvailable: {available}000 kB\n");
    fs::write(proc.join("meminfo"), told).unwrap();
}

/// A worker that heeds the memory which it finds below `proc`, and lends a little of the host's, in MiB.
fn heeding(proc: &Path, memory_mib: u64) -> Config {
    let memory = MemoryRule {
        free_after: ConfigDuration::from_millis(100),
        evict_after: ConfigDuration::from_secs(3),
        ..MemoryRule::default()
    };
    Config {
        owner: OwnerRules {
            memory,
            // Half a MiB, lest it be rounded down.
            memory_share_idle: (LENT as f64 + 0.5) / memory_mib as f64,
            ..OwnerRules::dedicated()
        },
        sensors: SensorsConfig {
            proc_dir: proc.to_owned(),
            memory_every: ConfigDuration::from_millis(20),
            ..SensorsConfig::default()
        },
        ..config()
    }
}

pub(super) async fn a_task_that_fills_the_memory_fails_and_the_one_beside_it_goes_on() {
    let mut master = Master::new();
    let (stop, run) = master.start();
    let first = master.welcome(vec![]).await;
    drop(stop);
    within(run).await.unwrap().unwrap();

    let proc = tempfile::tempdir().unwrap();
    leave(proc.path(), 50);
    let (_stop, _run) = master.start_as(heeding(proc.path(), first.facts.memory_mib));
    let mut worker = master.welcome(vec![]).await;
    assert_eq!(u64::from(worker.facts.lends.memory_mib), LENT);
    let places = [1, 2].map(|n| master.dir.path().join(format!("pid{n}")));
    let waits = |place: &Path| format!("echo $$ > {}; sleep 600", place.display());
    let small = waits(&places[0]);
    let taken = TAKEN << 20;
    let large = format!(
        "x=$(head -c {taken} /dev/zero | tr '\\0' x); {}",
        waits(&places[1])
    );
    worker.assign(vec![sh(1, &small), sh(2, &large)]).await;
    for place in &places {
        pid(place).await;
    }

    leave(proc.path(), 1);
    let done = worker.delivered().await.remove(0);
    let Outcome::OverLimit(why) = &done.outcome else {
        panic!("{done:?}")
    };
    assert!(
        done.attempt == id(2) && why.contains("32 MiB are lent") && why.contains("mem=1G"),
        "{done:?}"
    );
    let acknowledged = ToWorker::Acknowledged(vec![id(2)]);
    worker.control.tx.send(&acknowledged).await.unwrap();
    let suspended = Phase::Suspended(YieldReason::LowMemory);
    worker.holds(&[(id(1), suspended)]).await;

    leave(proc.path(), 50);
    worker.holds(&[(id(1), Phase::Running)]).await;

    // It holds little: nobody fails for it.
    leave(proc.path(), 1);
    let returned = worker.until(|message| match message {
        ToMaster::Returned { attempts, .. } => Some(attempts),
        _ => None,
    });
    assert_eq!(returned.await, [id(1)]);
}
