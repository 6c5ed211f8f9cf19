//! The disk of the host: what tasks that the owner freezes have on it, what waits for it, and what
//! earlier tasks have left there.

use std::time::Duration;

use rustix::fs::{CWD, IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, mkdirat, openat};
use tokio::sync::oneshot;

use super::*;

/// The most that a task may write here, in bytes.
const LIMIT: u64 = 1 << 20;
/// Longer than the first pauses between two looks at a directory.
const LOOKS: Duration = Duration::from_secs(4);
/// The threads on which a worker can write files whose disk is made to stall.
const WRITERS: usize = 4;

pub(super) async fn the_disk_of_a_frozen_task_is_looked_at_once_it_goes_on() {
    let (master, _stop, mut worker) = welcomed_as(Config {
        disk_limit_bytes: LIMIT,
        ..config()
    })
    .await;
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

pub(super) async fn a_task_has_ended_although_the_disk_has_not_taken_its_output() {
    let mut master = Master::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(WRITERS)
        .enable_all()
        .build()
        .unwrap();
    let disk = runtime.handle().clone();
    let one_slot = Config {
        slots: 1,
        ..config()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let identity = door::clone(&master.identity);
    let run = worker::run(master.home(), one_slot, identity, async {
        drop(stopped.await);
    });
    let run = std::thread::spawn(move || runtime.block_on(Box::pin(run)));

    let mut worker = master.welcome(vec![]).await;
    let go = master.dir.path().join("go");
    let places = [1, 2].map(|n| master.dir.path().join(format!("pid{n}")));
    let first = format!(
        "echo $$ > {}; while [ ! -e {} ]; do sleep 0.01; done; head -c 50000 /dev/zero",
        places[0].display(),
        go.display()
    );
    let second = format!("echo $$ > {}; sleep 600", places[1].display());
    // One by one: of two that wait for a slot, the one whose directory is made first starts first.
    worker.assign(vec![sh(1, &first)]).await;
    pid(&places[0]).await;
    worker.assign(vec![sh(2, &second)]).await;

    // No file is written until these are let go.
    let stalls = (0..WRITERS).map(|_| std::sync::mpsc::channel::<()>());
    let (stall, stalled): (Vec<_>, Vec<_>) = stalls.unzip();
    for stalled in stalled {
        drop(disk.spawn_blocking(move || stalled.recv()));
    }
    fs::write(&go, "").unwrap();

    // Its slot is free for the next one, and it is not given back with that.
    pid(&places[1]).await;
    drop(stop);
    assert_eq!(worker.returned().await, [id(2)]);

    drop(stall);
    let done = worker.delivered().await.remove(0);
    assert_eq!((done.attempt, done.outcome), (id(1), Outcome::Succeeded));
    let kept = done.stdout.content.blob();
    assert_eq!(kept.map(|blob| blob.size), Some(50_000));
    let run = tokio::task::spawn_blocking(move || run.join());
    within(run).await.unwrap().unwrap().unwrap();
}

pub(super) async fn a_worker_starts_whatever_its_earlier_tasks_have_left() {
    let mut master = Master::new();
    let attempts = master.home().join("attempts");
    let left = attempts.join("9.9-1-0");
    fs::create_dir_all(&left).unwrap();
    // More directories in each other than a process may usually have open.
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, &left, flags, Mode::empty()).unwrap();
    for _ in 0..3_000 {
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = openat(&at, "d", flags, Mode::empty()).unwrap();
    }

    // Where this test may do that, a file that not even root can remove.
    let file = fs::File::create(left.join("stays")).unwrap();
    let before = ioctl_getflags(&file);
    let stays = before.is_ok_and(|flags| ioctl_setflags(&file, flags | IFlags::IMMUTABLE).is_ok());
    let (_stop, _) = master.start();
    let ran = tokio::time::timeout(PATIENCE, async {
        let mut worker = master.welcome(vec![]).await;
        worker.assign(vec![sh(1, "true")]).await;
        worker.delivered().await.remove(0).outcome
    });
    let ran = ran.await;
    let lies = left.join("stays").exists();
    if let (true, Ok(flags)) = (stays, before) {
        ioctl_setflags(&file, flags).unwrap();
    }

    assert_eq!(ran.unwrap(), Outcome::Succeeded);
    assert_eq!(lies, stays);
    assert!(!left.join("d").exists(), "what can be removed is");
}
