//! What a worker gives back while no master hears it.

use common::{HostId, Incarnation};

use super::*;

impl Worker {
    /// Answers the greeting of a worker that was only listened to.
    async fn welcomed(&mut self) {
        let welcome = ToWorker::Welcome {
            version: common::wire::WIRE_VERSION,
            host: HostId(1),
            name: "w".to_owned(),
            incarnation: Incarnation(1),
            heartbeat: Span::from_millis(50),
            abandon: Vec::new(),
        };
        self.control.tx.send(&welcome).await.unwrap();
    }

    /// What it gives back next.
    async fn returned(&mut self) -> Vec<AttemptId> {
        self.until(|message| match message {
            ToMaster::Returned { attempts, .. } => Some(attempts),
            _ => None,
        })
        .await
    }
}

pub(super) async fn what_is_given_back_before_the_welcome_is_said_after_it() {
    let mut master = Master::new();
    let (_stop, _run) = master.start();
    let mut worker = master.welcome(vec![]).await;
    let places = [1, 2].map(|n| master.dir.path().join(format!("pid{n}")));
    let script = |n: usize| format!("echo $$ > {}; while :; do :; done", places[n].display());
    worker
        .assign(vec![sh(1, &script(0)), sh(2, &script(1))])
        .await;
    let pids = [pid(&places[0]).await, pid(&places[1]).await];
    worker.assign(vec![sh(3, "true")]).await;
    let held = [
        (id(1), Phase::Running),
        (id(2), Phase::Running),
        (id(3), Phase::Staging),
    ];
    worker.holds(&held).await;

    // The owner comes while nobody listens.
    worker.connection.close(0u32.into(), b"broken");
    let mut worker = master.greeted().await;
    let greeted = worker.held.iter().map(|held| held.attempt);
    assert!(greeted.collect::<Vec<_>>().contains(&id(3)));
    fs::write(master.home().join(worker::PAUSE_FILE), "").unwrap();
    until(|| {
        pids.iter()
            .all(|pid| state(*pid).is_some_and(|state| state != 'R'))
    })
    .await;

    worker.welcomed().await;
    assert_eq!(worker.returned().await, [id(3)]);
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

    let (_stop, _run) = master.start();
    let mut worker = master.welcome(vec![]).await;
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
