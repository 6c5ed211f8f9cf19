//! New programs are offered to workers whose version knows of them, and their content given to those alone.

use common::update::{
    ProgramVersion, RolloutPace, UpdateAnswer, UpdateOrder, UpdateStanding, UpdateStatement,
    UpdatesView,
};
use common::wire::UPDATE_VERSION;
use link::signing::UpdateSigner;

use super::*;

async fn order(admin: &Client, order: UpdateOrder) -> UpdatesView {
    let replies = within(admin.ask(&Request::Update(Box::new(order)))).await;
    match replies.unwrap().pop() {
        Some(Reply::Updates(views)) => *views,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_an_earlier_version_is_offered_no_program() {
    let master = Master::start().await;
    let old = master.enrol(Role::Worker, "old").await;
    let new = master.enrol(Role::Worker, "new").await;
    let admin = master.admin().await;
    let signer = UpdateSigner::read(&UpdateSigner::make().unwrap()).unwrap();
    let views = order(&admin, UpdateOrder::Trust(signer.key())).await;
    assert_eq!(views.key, Some(signer.key()));

    let mut hello_of_old = hello(Vec::new());
    let mut platform = String::new();
    if let ToMaster::Hello {
        versions, facts, ..
    } = &mut hello_of_old
    {
        versions.max = UPDATE_VERSION - 1;
        platform = facts.platform.name();
    }
    let mut of_old = master.worker_with(&old, &hello_of_old).await;
    let mut of_new = master.worker(&new, Vec::new()).await;

    let blob = within(admin.put_bytes(b"a program")).await.unwrap();
    let statement = UpdateStatement {
        platform: platform.parse().unwrap(),
        version: ProgramVersion(9, 0, 0),
        blob,
        downgrade: None,
    };
    let start = UpdateOrder::Start {
        update: signer.sign(&statement),
        pace: RolloutPace {
            settle: Span::ZERO,
            settle_tasks: 0,
            patience: Span::from_secs(60),
        },
        dry_run: false,
    };
    order(&admin, start).await;

    let offered = loop {
        if let ToWorker::Update(update) = of_new.next().await {
            break update;
        }
    };
    assert_eq!(offered.statement, statement.text());
    let standing = UpdateStanding::Runs;
    let hash = blob.hash;
    let answer = ToMaster::Update(UpdateAnswer { hash, standing });
    of_new.control.tx.send(&answer).await.unwrap();

    // It is done without the old one, which works on.
    loop {
        let views = order(&admin, UpdateOrder::Show).await;
        let rollout = &views.rollouts[0];
        let hosts: Vec<&str> = rollout.hosts.iter().map(|host| &*host.host).collect();
        assert_eq!((hosts, rollout.untold), (vec!["new"], 0));
        if rollout.state == "done" {
            break;
        }
    }
    submit(&admin, 1, &noops(2)).await.unwrap();
    assert_eq!(of_old.assignments(1).await.len(), 1);
}
