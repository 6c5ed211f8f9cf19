//! A new program from the master: one that does not come at once, and an order to end that comes while the worker leaves
//! for it.

use std::sync::atomic::Ordering;

use common::update::{ProgramVersion, UpdateStanding, UpdateStatement};
use link::signing::UpdateSigner;
use worker::WorkerEnd;

use super::*;

impl Master {
    /// The offer of a program that is here.
    fn offer(&self, signer: &UpdateSigner) -> ToWorker {
        let program = self
            .blobs
            .add_reader(&b"#!/bin/sh\necho deskgrid 99.0.0\n"[..]);
        let platform = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
        let update = signer.sign(&UpdateStatement {
            platform: platform.parse().unwrap(),
            version: ProgramVersion(99, 0, 0),
            blob: program.unwrap(),
            downgrade: None,
        });
        ToWorker::Update(Box::new(update))
    }
}

impl Worker {
    /// The first answer to an offer.
    async fn answer_to(&mut self, offer: ToWorker) -> UpdateStanding {
        self.tell(offer).await;
        self.until(|message| match message {
            ToMaster::Update(answer) => Some(answer.standing),
            _ => None,
        })
        .await
    }
}

pub(super) async fn a_program_that_the_master_cannot_give_for_a_while_is_fetched_once_it_can() {
    let mut master = Master::new();
    let signer = UpdateSigner::read(&UpdateSigner::make().unwrap()).unwrap();
    let (_stop, run) = master.start_as(Config {
        update_key: signer.key().to_string(),
        ..config()
    });
    let mut worker = master.welcome(vec![]).await;

    master.away.store(2, Ordering::SeqCst);
    let offer = master.offer(&signer);
    assert_eq!(worker.answer_to(offer).await, UpdateStanding::Ready);
    assert_eq!(master.away.load(Ordering::SeqCst), 0);
    // It holds no task, and leaves for the program.
    assert!(within(run).await.unwrap().is_ok());
}

pub(super) async fn a_worker_that_leaves_for_a_new_program_says_that_it_is_ready_as_its_last_word()
{
    for told_to_end in [false, true] {
        let mut master = Master::new();
        let signer = UpdateSigner::read(&UpdateSigner::make().unwrap()).unwrap();
        let (stop, run) = master.start_as(Config {
            update_key: signer.key().to_string(),
            ..config()
        });
        let mut worker = master.welcome(vec![]).await;
        let runs = master.dir.path().join("runs");
        if told_to_end {
            let script = format!("echo $$ > {}; exec sleep 600", runs.display());
            worker.assign(vec![sh(1, &script)]).await;
            pid(&runs).await;
        }

        let offer = master.offer(&signer);
        assert_eq!(worker.answer_to(offer).await, UpdateStanding::Ready);
        if told_to_end {
            // Its task holds it when its PC is switched off.
            drop(stop);
        }
        let mut is_last = true;
        let leaves = worker.until(|message| {
            match message {
                ToMaster::Update(answer) => is_last = answer.standing == UpdateStanding::Ready,
                ToMaster::Closing => is_last = false,
                ToMaster::Leaving => return Some(is_last),
                _ => {}
            }
            None
        });
        assert_eq!(leaves.await, !told_to_end);
        drop(worker);
        assert!(within(run).await.unwrap().is_ok());
    }
}

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

    let offer = master.offer(&signer);
    assert_eq!(worker.answer_to(offer).await, UpdateStanding::Ready);

    // Its task has been asked to make way.
    pid(&told).await;
    drop(stop);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    fs::write(&go, "").unwrap();
    assert_eq!(within(run).await.unwrap().unwrap(), WorkerEnd::Asked);
}
