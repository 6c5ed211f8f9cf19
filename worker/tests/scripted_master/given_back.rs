//! The attempts that a worker gives back while no master hears it.

use super::*;

pub(super) async fn a_worker_that_shuts_down_says_so_over_the_next_connection() {
    let mut master = Master::new();
    let (stop, run) = master.start_as(Config {
        grace: ConfigDuration::from_secs(60),
        ..config()
    });
    let mut worker = master.welcome(vec![]).await;
    let runs = master.dir.path().join("runs");
    let go = master.dir.path().join("go");
    let script = format!(
        "trap '' TERM; echo $$ > {}; while [ ! -e {} ]; do sleep 0.01; done",
        runs.display(),
        go.display()
    );
    worker.assign(vec![sh(1, &script)]).await;
    pid(&runs).await;

    let closing = |message: ToMaster| (message == ToMaster::Closing).then_some(());
    drop(stop);
    worker.until(closing).await;
    worker.connection.close(0u32.into(), b"broken");
    let mut worker = master.welcome(vec![]).await;
    worker.until(closing).await;

    fs::write(&go, "").unwrap();
    assert_eq!(worker.returned().await, [id(1)]);
    within(run).await.unwrap().unwrap();
}

pub(super) async fn what_a_worker_gives_back_as_it_ends_unheard_is_said_by_its_next_run() {
    let mut master = Master::new();
    let (stop, run) = master.start();
    let mut worker = master.welcome(vec![]).await;
    let place = master.dir.path().join("pid");
    let script = format!("echo $$ > {}; sleep 600", place.display());
    worker.assign(vec![sh(1, &script)]).await;
    pid(&place).await;

    worker.connection.close(0u32.into(), b"broken");
    let _unanswered = master.greeted().await;
    drop(stop);
    within(run).await.unwrap().unwrap();
    let kept = master.home().join("given-back.json");
    assert!(kept.exists());

    let (_stop, _run) = master.start();
    let mut worker = master.welcome(vec![]).await;
    assert!(
        !kept.exists(),
        "one run says it, not every one from then on"
    );
    let held: Vec<_> = worker.held.iter().map(|h| (h.attempt, h.phase)).collect();
    assert_eq!(held, [(id(1), Phase::Ended)]);
    assert_eq!(worker.returned().await, [id(1)]);
    let spent = worker.until(|message| match message {
        ToMaster::Spent(spent) => Some(spent),
        _ => None,
    });
    let spent = spent.await;
    assert!(
        spent.attempt == id(1) && spent.ran > Span::ZERO,
        "{spent:?}"
    );
}
