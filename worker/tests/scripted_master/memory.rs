//! Short memory: what fills it ends as a failure of its task, what is beside that stays or is given back.

use std::path::Path;

use common::Completion;
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

/// Has the worker run two tasks, of which the second one takes more than is lent, until both wait.
async fn fill(worker: &mut Worker, dir: &Path, tasks: [u32; 2]) {
    let places = tasks.map(|n| dir.join(format!("pid{n}")));
    let waits = |place: &Path| format!("echo $$ > {}; sleep 600", place.display());
    let taken = TAKEN << 20;
    let large = format!(
        "x=$(head -c {taken} /dev/zero | tr '\\0' x); {}",
        waits(&places[1])
    );

    let work = vec![sh(tasks[0], &waits(&places[0])), sh(tasks[1], &large)];
    worker.assign(work).await;
    for place in &places {
        pid(place).await;
    }
}

/// The completion of the attempt; `None` if it is given back.
async fn failed(worker: &mut Worker, attempt: AttemptId) -> Option<Completion> {
    worker
        .until(|message| match message {
            ToMaster::Delivered(all) => all
                .into_iter()
                .map(|delivery| Some(delivery.completion))
                .find(|done| done.as_ref().is_some_and(|done| done.attempt == attempt)),
            ToMaster::Returned { attempts, .. } => attempts.contains(&attempt).then_some(None),
            _ => None,
        })
        .await
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

    let mut small = 1;
    let done = loop {
        let large = small + 1;
        fill(&mut worker, master.dir.path(), [small, large]).await;
        leave(proc.path(), 1);
        if let Some(done) = failed(&mut worker, id(large)).await {
            break done;
        }

        // On a loaded machine the look took longer than it may: both were given back.
        assert!(large < 20, "nothing fails for the memory that it holds");
        leave(proc.path(), 50);
        worker.holds(&[]).await;
        small += 2;
    };
    let large = id(small + 1);
    let small = id(small);
    let Outcome::OverLimit(why) = &done.outcome else {
        panic!("{done:?}")
    };
    assert!(
        done.attempt == large && why.contains("32 MiB are lent") && why.contains("mem=1G"),
        "{done:?}"
    );
    worker.acknowledge(vec![large]).await;
    let suspended = Phase::Suspended(YieldReason::LowMemory);
    worker.holds(&[(small, suspended)]).await;

    leave(proc.path(), 50);
    worker.holds(&[(small, Phase::Running)]).await;

    // It holds little: nobody fails for it.
    leave(proc.path(), 1);
    let mut weighed = Vec::new();
    let returned = worker.until(|message| match message {
        ToMaster::Weighed { attempt, bytes } => {
            weighed.push((attempt, bytes));
            None
        }
        ToMaster::Returned { attempts, .. } => Some(attempts),
        _ => None,
    });
    assert_eq!(returned.await, [small]);

    // Before that it is told what it held, if the look was not too slow.
    let [(attempt, bytes)] = weighed[..] else {
        panic!("{weighed:?}")
    };
    assert_eq!(attempt, small);
    assert!(
        bytes.is_none_or(|bytes| (1..LENT << 20).contains(&bytes)),
        "{bytes:?}"
    );
}
