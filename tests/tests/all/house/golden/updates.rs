//! Values of the messages about new programs for workers.

use common::content::BlobHash;
use common::token::Role;
use common::update::{
    HostUpdateView, ProgramVersion, RolloutPace, RolloutView, SignedUpdate, UpdateAnswer,
    UpdateKey, UpdateOrder, UpdateStanding, UpdateStatement, UpdatesView,
};
use common::wire::client::{Reply, Request};
use common::wire::enrol::EnrolReply;
use common::wire::worker::{ToMaster, ToWorker};
use common::{BlobRef, Span, Time};

fn statement() -> UpdateStatement {
    UpdateStatement {
        platform: "linux-x86_64".parse().expect("a platform"),
        version: ProgramVersion(1, 2, 3),
        blob: BlobRef {
            hash: BlobHash([9; 32]),
            size: 70_000,
        },
        downgrade: None,
    }
}

fn update() -> SignedUpdate {
    SignedUpdate {
        statement: statement().text(),
        signature: vec![7; 64],
    }
}

pub(super) fn to_worker() -> ToWorker {
    ToWorker::Update(Box::new(update()))
}

pub(super) fn to_master() -> ToMaster {
    ToMaster::Update(UpdateAnswer {
        hash: BlobHash([9; 32]),
        standing: UpdateStanding::RolledBack("it ended".to_owned()),
    })
}

pub(super) fn order() -> Request {
    Request::Update(Box::new(UpdateOrder::Start {
        update: update(),
        pace: RolloutPace {
            settle: Span::from_secs(1_800),
            settle_tasks: 20,
            patience: Span::from_secs(900),
        },
        dry_run: true,
    }))
}

pub(super) fn reply() -> Reply {
    let host = HostUpdateView {
        host: "office-12".to_owned(),
        state: "failed".to_owned(),
        since: Time(1_700_000_000_000_001),
        why: "it ended".to_owned(),
    };
    let rollout = RolloutView {
        platform: statement().platform,
        version: statement().version,
        blake3: statement().blob.hash.to_string(),
        by: "ann".to_owned(),
        at: Time(1_700_000_000_000_000),
        percent: 10,
        state: "stopped".to_owned(),
        why: "it failed on a host".to_owned(),
        hosts: vec![host],
        untold: 3,
    };
    Reply::Updates(Box::new(UpdatesView {
        key: Some(UpdateKey([3; 32])),
        rollouts: vec![rollout],
    }))
}

pub(super) fn enrolled() -> EnrolReply {
    EnrolReply::EnrolledWithKey {
        certificate: vec![1, 2],
        ca: vec![3],
        role: Role::Worker,
        name: "office-12".into(),
        update_key: UpdateKey([3; 32]),
    }
}

pub(super) fn running(attempt: common::AttemptId) -> Reply {
    Reply::Running(vec![common::view::RunningView {
        attempt,
        host: "office-12".into(),
        silent: Some(Span::from_secs(3)),
        gone: 0.8,
        copied_in: Some(Span::from_millis(500)),
    }])
}
