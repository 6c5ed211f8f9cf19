//! The limits of disk space of tasks that the owner freezes.

use std::time::Duration;

use super::*;

/// The most that a task may write here, in bytes.
const LIMIT: u64 = 1 << 20;
/// Longer than the first pauses between two looks at a directory.
const LOOKS: Duration = Duration::from_secs(4);

pub(super) async fn the_disk_of_a_frozen_task_is_looked_at_once_it_goes_on() {
    let mut master = Master::new();
    let (_stop, _run) = master.start_as(Config {
        disk_limit_bytes: LIMIT,
        ..config()
    });
    let mut worker = master.welcome(vec![]).await;
    let place = master.dir.path().join("place");
    let script = format!(
        "{SAVE} save 1; pwd > {}; while :; do sleep 0.01; done",
        place.display()
    );
    worker.assign(vec![saving(1, &script, SELDOM, None)]).await;
    until(|| fs::read_to_string(&place).is_ok_and(|dir| dir.ends_with('\n'))).await;
    let dir = PathBuf::from(fs::read_to_string(&place).unwrap().trim());
    let pause = master.home().join(worker::PAUSE_FILE);
    fs::write(&pause, "").unwrap();
    // Its state is saved as soon as it is frozen.
    worker.checkpoint().await;

    // Nobody but this test writes there now, so whoever looks finds too much.
    fs::write(dir.join("large"), vec![1; 2 * LIMIT as usize]).unwrap();
    let ended = tokio::time::timeout(LOOKS, async {
        worker
            .until(|message| matches!(message, ToMaster::Delivered(_)).then_some(()))
            .await;
    });
    assert!(ended.await.is_err(), "it was looked at while it was frozen");

    fs::remove_file(&pause).unwrap();
    let outcome = worker.delivered().await.remove(0).outcome;
    assert!(matches!(outcome, Outcome::OverLimit(_)), "{outcome:?}");
}
