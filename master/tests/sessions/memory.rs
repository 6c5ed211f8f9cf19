//! Attempts that a worker gives back since memory is short.

use common::host::YieldReason;
use common::needs::Capacity;

use super::super::*;

const GIB: u64 = 1 << 30;

impl Worker {
    /// Memory is short: gives these attempts back, each with what it held, until there is enough again.
    async fn is_crowded(&mut self, attempts: &[AttemptId], bytes: Option<u64>) {
        let short = OwnerState::Present(YieldReason::LowMemory);
        self.tell(ToMaster::Owner(short)).await;
        for attempt in attempts.iter().copied() {
            self.tell(ToMaster::Weighed { attempt, bytes }).await;
            self.tell(ToMaster::Returned {
                attempts: vec![attempt],
                why: "memory".into(),
            })
            .await;
        }
        self.tell(ToMaster::Owner(OwnerState::Away)).await;
    }
}

/// A master with a worker that lends 4 GiB to all tasks, and the job that it runs both tasks of.
async fn running(max_losses: u32) -> (Master, Worker, Client, JobId, Vec<AttemptId>) {
    let master = Master::start().await;
    let pc = master.enrol(Role::Worker, "pc").await;
    let lends = Capacity {
        cores: 2,
        memory_mib: 4_096,
        gpus: 0,
    };
    let facts = HostFacts {
        lends,
        memory_mib: 4_096,
        task_memory_mib: 4_096,
        ..facts()
    };
    let hello = greeting(Versions::ours(), facts, Vec::new());
    let mut worker = master.worker_with(&pc, &hello).await;

    let client = master.admin().await;
    let rules = Rules {
        policy: "FCFS".to_owned(),
        max_losses,
        ..Rules::default()
    };
    let spec = JobSpec { rules, ..noops(2) };
    let (job, _) = submit(&client, 1, &spec).await.unwrap();
    let assigned = worker.assignments(2).await;
    let attempts = assigned.iter().map(|one| one.attempt).collect();
    (master, worker, client, job, attempts)
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_filled_a_pc_together_run_one_after_the_other_and_it_is_said_why() {
    let (_master, mut worker, client, job, attempts) = running(10).await;
    worker.is_crowded(&attempts, Some(3 * GIB)).await;
    let first = worker.assignments(1).await.remove(0).attempt;

    let waiting = explain(&client, job).await.waiting;
    let why = "its attempts held 3 GiB when memory was short";
    assert!(
        waiting.iter().any(|(said, _)| said.contains(why)),
        "{waiting:?}"
    );

    worker.deliver(first).await;
    let second = worker.assignments(1).await.remove(0).attempt;
    assert_ne!(first.task, second.task);
    worker.finish(second).await;
    assert_eq!(state(&client, job).await, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_unmeasured_too_often_fails_and_says_what_to_ask_for() {
    let (_master, mut worker, client, job, attempts) = running(1).await;
    worker.is_crowded(&attempts, None).await;
    let again = worker.assignments(2).await;
    let attempts: Vec<AttemptId> = again.iter().map(|one| one.attempt).collect();
    worker.is_crowded(&attempts, None).await;

    eventually(async || state(&client, job).await == JobState::Failed).await;
    let failed = task(&client, job).await;
    let why = failed.reason.unwrap_or_default();
    assert!(
        why.contains("gave it back 2 times") && why.contains("--needs mem=SIZE"),
        "{why}"
    );
}
