//! New programs are offered to workers whose version knows of them, and their content given to those alone.

use common::content::BlobHash;
use common::update::{
    ProgramVersion, RolloutPace, RolloutView, SignedUpdate, UpdateAnswer, UpdateOrder,
    UpdateStanding, UpdateStatement, UpdatesView,
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

/// A program, signed by a key that the master names from now on.
async fn signed(admin: &Client) -> (SignedUpdate, BlobHash) {
    let signer = UpdateSigner::read(&UpdateSigner::make().unwrap()).unwrap();
    let views = order(admin, UpdateOrder::Trust(signer.key())).await;
    assert_eq!(views.key, Some(signer.key()));
    let blob = within(admin.put_bytes(b"a program")).await.unwrap();
    let statement = UpdateStatement {
        platform: facts().platform.name().parse().unwrap(),
        version: ProgramVersion(9, 0, 0),
        blob,
        downgrade: None,
    };
    (signer.sign(&statement), blob.hash)
}

fn start(update: SignedUpdate) -> UpdateOrder {
    UpdateOrder::Start {
        update,
        pace: RolloutPace {
            settle: Span::ZERO,
            settle_tasks: 0,
            patience: Span::from_secs(60),
        },
        dry_run: false,
    }
}

/// Waits until the rollout stands like this.
async fn until(admin: &Client, stands: impl Fn(&RolloutView) -> bool) {
    let looks = async {
        loop {
            let views = order(admin, UpdateOrder::Show).await;
            if stands(&views.rollouts[0]) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    within(looks).await;
}

impl Worker {
    /// The program that it is offered next.
    async fn program(&mut self) -> SignedUpdate {
        loop {
            if let ToWorker::Update(update) = self.next().await {
                return *update;
            }
        }
    }

    async fn says(&mut self, hash: BlobHash, standing: UpdateStanding) {
        let answer = UpdateAnswer { hash, standing };
        self.tell(ToMaster::Update(answer)).await;
    }

    /// Whether it is offered a program before its next word is answered.
    async fn is_offered_one(&mut self) -> bool {
        let came = self.before_next_beat().await;
        came.iter()
            .any(|message| matches!(message, ToWorker::Update(_)))
    }
}

/// A master whose only host was offered a program.
struct OfferedHost {
    master: Master,
    admin: Client,
    pc: Identity,
    worker: Worker,
    update: SignedUpdate,
    hash: BlobHash,
}

impl OfferedHost {
    async fn start() -> Self {
        let master = Master::start().await;
        let admin = master.admin().await;
        let (update, hash) = signed(&admin).await;
        let pc = master.enrol(Role::Worker, "pc").await;
        let mut worker = master.worker(&pc, Vec::new()).await;
        order(&admin, start(update.clone())).await;
        worker.program().await;

        Self {
            master,
            admin,
            pc,
            worker,
            update,
            hash,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_comes_when_a_rollout_is_done_is_offered_it_until_it_is_stopped() {
    let master = Master::start().await;
    let admin = master.admin().await;
    let (update, hash) = signed(&admin).await;
    let mut of_first = master.host("first").await;
    order(&admin, start(update.clone())).await;
    of_first.program().await;
    of_first.says(hash, UpdateStanding::Runs).await;
    until(&admin, |rollout| rollout.state == "done").await;

    let late = master.enrol(Role::Worker, "late").await;
    let mut of_late = master.worker(&late, Vec::new()).await;
    assert_eq!(of_late.program().await, update);
    of_late.says(hash, UpdateStanding::Ready).await;
    until(&admin, |rollout| {
        rollout.state == "done" && rollout.hosts.iter().any(|host| host.state == "ready")
    })
    .await;

    let platform = UpdateStatement::read(&update.statement).unwrap().platform;
    let views = order(&admin, UpdateOrder::Stop(platform)).await;
    assert_eq!(views.rollouts[0].state, "stopped");
    // It has the program, and is not sent it once more.
    let mut again = master.worker(&late, Vec::new()).await;
    assert!(!again.is_offered_one().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_connects_again_is_asked_whether_it_still_runs_the_program() {
    let OfferedHost {
        master,
        admin,
        pc,
        mut worker,
        update,
        hash,
    } = OfferedHost::start().await;
    worker.says(hash, UpdateStanding::Runs).await;
    until(&admin, |rollout| rollout.state == "done").await;

    let mut again = master.worker(&pc, Vec::new()).await;
    assert_eq!(again.program().await, update);
    let fell_back = UpdateStanding::RolledBack("it ended".to_owned());
    again.says(hash, fell_back).await;
    until(&admin, |rollout| rollout.hosts[0].state == "failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_switched_off_while_tasks_hold_it_is_offered_the_program_again() {
    let OfferedHost {
        master,
        admin,
        pc,
        mut worker,
        update,
        hash,
    } = OfferedHost::start().await;
    worker.says(hash, UpdateStanding::Ready).await;
    worker.tell(ToMaster::Closing).await;
    until(&admin, |rollout| rollout.hosts[0].state == "ready").await;

    within(worker.connection.close("switched off")).await;
    until(&admin, |rollout| rollout.hosts[0].state == "offered").await;
    let mut again = master.worker(&pc, Vec::new()).await;
    assert_eq!(again.program().await, update);
    again.says(hash, UpdateStanding::Runs).await;
    until(&admin, |rollout| rollout.state == "done").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_has_just_started_ends_no_rollout_before_hosts_could_come_back() {
    let OfferedHost {
        mut master,
        admin,
        pc,
        mut worker,
        hash,
        ..
    } = OfferedHost::start().await;
    worker.says(hash, UpdateStanding::Ready).await;
    until(&admin, |rollout| rollout.hosts[0].state == "ready").await;

    // It leaves to start the program; nobody has waited for it yet.
    drop(worker);
    master.restart().await;
    let admin = master.admin().await;
    until(&admin, |rollout| {
        rollout.state == "running" && rollout.why.contains("1 to start it")
    })
    .await;

    let mut worker = master.worker(&pc, Vec::new()).await;
    worker.program().await;
    worker.says(hash, UpdateStanding::Runs).await;
    until(&admin, |rollout| {
        rollout.state == "running" && rollout.why.contains("after the master's start")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_takes_its_word_back_does_not_fill_the_audit_log() {
    let OfferedHost {
        master,
        admin,
        mut worker,
        hash,
        ..
    } = OfferedHost::start().await;
    for number in 0..20 {
        let why = format!("reason {number}");
        worker.says(hash, UpdateStanding::Refused(why)).await;
        worker.says(hash, UpdateStanding::Ready).await;
    }
    worker.heard().await;
    let views = order(&admin, UpdateOrder::Show).await;
    let host = &views.rollouts[0].hosts[0];
    assert_eq!((&*host.state, &*host.why), ("refused", "reason 0"));

    let entries = super::super::identity::audit(&master).await.into_iter();
    let refused: Vec<_> = entries
        .filter(|of| of.what == "update" && !of.allowed)
        .collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stages_are_parts_of_the_hosts_that_were_there_before_the_master_started() {
    let mut master = Master::start().await;
    let mut first = None;
    for number in 0..11 {
        let pc = master.enrol(Role::Worker, &format!("pc-{number}")).await;
        master.worker(&pc, Vec::new()).await;
        first.get_or_insert(pc);
    }
    master.restart().await;

    let admin = master.admin().await;
    let (update, hash) = signed(&admin).await;
    let mut worker = master.worker(&first.unwrap(), Vec::new()).await;
    order(&admin, start(update)).await;
    worker.program().await;
    worker.says(hash, UpdateStanding::Runs).await;
    until(&admin, |rollout| {
        rollout.percent == 10 && rollout.why.contains("1 to be here that take it")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_an_earlier_version_is_offered_no_program() {
    let master = Master::start().await;
    let old = master.enrol(Role::Worker, "old").await;
    let new = master.enrol(Role::Worker, "new").await;
    let admin = master.admin().await;
    let (update, hash) = signed(&admin).await;
    let mut of_old = master
        .worker_with(&old, &hello_before(UPDATE_VERSION))
        .await;
    let mut of_new = master.worker(&new, Vec::new()).await;
    order(&admin, start(update.clone())).await;
    assert_eq!(of_new.program().await, update);
    of_new.says(hash, UpdateStanding::Runs).await;

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
