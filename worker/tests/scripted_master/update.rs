//! A new program from the master, and an order to end that comes while the worker leaves for it.

use common::update::{ProgramVersion, UpdateStanding, UpdateStatement};
use link::signing::UpdateSigner;
use worker::WorkerEnd;

use super::*;

pub(super) async fn an_order_to_end_counts_while_the_worker_leaves_for_a_new_program() {
    let mut master = Master::new();
    let signer = UpdateSigner::read(&UpdateSigner::make().unwrap()).unwrap();
    let (stop, run) = master.start_as(Config {
        update_key: signer.key().to_string(),
        update_wait: ConfigDuration::from_millis(0),
        grace: ConfigDuration::from_secs(60),
        ..config()
    });
    let mut worker = master.welcome(vec![]).await;
    let place = |name: &str| master.dir.path().join(name);
    let (told, go) = (place("told"), place("go"));
    let script = format!(
        "trap 'echo $$ > {}' TERM; echo $$ > {}; while [ ! -e {} ]; do sleep 0.01; done",
        told.display(),
        place("runs").display(),
        go.display()
    );
    worker.assign(vec![sh(1, &script)]).await;
    pid(&place("runs")).await;

    let program = master
        .blobs
        .add_reader(&b"#!/bin/sh\necho deskgrid 99.0.0\n"[..]);
    let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let update = signer.sign(&UpdateStatement {
        platform: platform.parse().unwrap(),
        version: ProgramVersion(99, 0, 0),
        blob: program.unwrap(),
        downgrade: None,
    });
    let update = ToWorker::Update(Box::new(update));
    worker.control.tx.send(&update).await.unwrap();
    let standing = worker.until(|message| match message {
        ToMaster::Update(answer) => Some(answer.standing),
        _ => None,
    });
    assert_eq!(standing.await, UpdateStanding::Ready);

    // Its task has been asked to make way.
    pid(&told).await;
    drop(stop);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    fs::write(&go, "").unwrap();
    assert_eq!(within(run).await.unwrap().unwrap(), WorkerEnd::Asked);
}
