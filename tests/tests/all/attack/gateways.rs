//! Attacks on a gateway, by somebody in the network and by a worker that means it ill.

use std::sync::Arc;
use std::time::Duration;

use common::BlobRef;
use common::content::BlobHash;
use common::host::{HostFacts, OwnerState};
use common::token::JoinToken;
use common::wire::enrol::{Enrol, EnrolReply, WantedRole};
use common::wire::stream::{Open, PutReply};
use common::wire::worker::{ToMaster, ToWorker};
use common::wire::{ALPN_ENROL, Versions};
use link::{Channel, Connection, Identity, LinkError, Purpose, tls};
use tests::{Grid, WorkerGateway, eventually};
use tokio::task::JoinSet;

use crate::hostile::{Hostile, RUNTIME, dial};

const PATIENCE: Duration = Duration::from_secs(60);

/// A grid with a gateway.
fn prepared() -> (Hostile, WorkerGateway) {
    let hostile = Hostile::of(Grid::start());
    let gateway = WorkerGateway::start(&hostile.grid, "gw1");
    (hostile, gateway)
}

/// A worker's identity, towards the gateway.
fn towards(gateway: &WorkerGateway, mut pc: Identity) -> Identity {
    pc.link.master.clone_from(&gateway.address);
    pc
}

async fn connected(pc: &Identity) -> Connection {
    link::connect(pc, Purpose::Worker)
        .await
        .expect("who has a certificate is let in")
}

#[test]
fn silent_joiners_at_a_gateway_keep_no_other_joiner_out() {
    let (hostile, gateway) = prepared();
    let ann = hostile.enrol("client", "ann");
    let hash = link::identity::key_hash(&ann.ca).expect("a CA");
    let ends = tls::TrustedEnds::MastersAndGateways;
    let settings = tls::joiner_config(hash, ALPN_ENROL, ends).expect("settings");
    let dial = Arc::new(dial(settings, &gateway.address));
    // All at once: each says nothing for five seconds, within which the others must have come.
    let mut dialling = JoinSet::new();
    for _ in 0..100 {
        let dial = dial.clone();
        dialling.spawn_on(async move { dial.try_connect().await }, RUNTIME.handle());
    }
    let silent = hostile.now(dialling.join_all());

    let token = hostile.grid.token("worker").parse().expect("a token");
    let key = link::JoiningKey::make().expect("a key");
    hostile
        .now(link::enrol_as(
            &gateway.address,
            &token,
            &key,
            "pc",
            WantedRole::Worker,
        ))
        .expect("lets in who has a good token");

    let ends = silent.iter().map(|connection| {
        let connection = connection.as_ref().expect("an older one goes");
        hostile.now(connection.closed()).to_string()
    });
    let (ousted, expired): (Vec<_>, Vec<_>) =
        ends.partition(|why| why.contains("others came after"));
    assert!(ousted.len() >= 100 - 64, "{} of 100 went", ousted.len());
    let said = |why: &String| why.contains("did not say within five seconds");
    assert!(
        !expired.is_empty() && expired.iter().all(said),
        "{expired:?}"
    );
}

#[test]
fn a_joiner_that_has_its_answer_does_not_keep_its_place() {
    let (hostile, gateway) = prepared();
    let ann = hostile.enrol("client", "ann");
    let hash = link::identity::key_hash(&ann.ca).expect("a CA");
    let ends = tls::TrustedEnds::MastersAndGateways;
    let settings = tls::joiner_config(hash, ALPN_ENROL, ends).expect("settings");
    let dial = dial(settings, &gateway.address);
    let asked = async {
        let connection = dial.try_connect().await.expect("it is let in");
        let (tx, rx) = connection.open_bi().await.expect("a stream");
        let mut joiner = Channel::new(tx, rx);
        let token: JoinToken = hostile.grid.token("worker").parse().expect("a token");
        let who = Enrol {
            versions: Versions::ours(),
            token: token.id,
            secret: token.secret,
            csr: Vec::new(),
            name: String::new(),
            wanted: WantedRole::Any,
        };
        joiner.tx.send(&who).await.expect("it is asked");
        let answer = joiner.rx.expect::<EnrolReply>().await.expect("an answer");
        assert!(matches!(answer, EnrolReply::Here { .. }), "{answer:?}");
        connection.closed().await.to_string()
    };
    let why = hostile.now(asked);
    assert!(why.contains("that was all"), "{why}");
}

#[test]
fn connections_that_the_master_has_not_answered_push_no_worker_off_its_gateway() {
    let (hostile, gateway) = prepared();
    let pc = towards(&gateway, hostile.enrol("worker", "pc"));
    let honest = hostile.now(async {
        let connection = connected(&pc).await;
        let mut control = connection.open(&Open::Control).await.expect("a stream");
        let hello = ToMaster::Hello {
            versions: Versions::ours(),
            facts: Box::new(HostFacts {
                slots: 1,
                ..HostFacts::unknown("pc".to_owned())
            }),
            status: OwnerState::Away.into(),
            held: Vec::new(),
        };
        control.tx.send(&hello).await.expect("it greets");
        let welcome = control.rx.expect::<ToWorker>().await.expect("an answer");
        assert!(matches!(welcome, ToWorker::Welcome { .. }), "{welcome:?}");
        (connection, control)
    });

    // Who has found an old certificate of it can do no more than connect.
    let others: Vec<Connection> = (0..5).map(|_| hostile.now(connected(&pc))).collect();
    for other in &others[..2] {
        let why = hostile.now(other.closed()).to_string();
        assert!(
            why.contains("too many connections of one identity"),
            "{why}"
        );
    }
    assert!(honest.0.quic().close_reason().is_none());
}

#[test]
fn a_worker_has_four_connections_at_a_gateway_and_needs_a_control_stream_on_each() {
    let (hostile, gateway) = prepared();
    let pc = towards(&gateway, hostile.enrol("worker", "pc"));
    let mut open = Vec::new();
    for _ in 0..6 {
        open.push(hostile.now(connected(&pc)));
    }

    for older in &open[..2] {
        let why = hostile.now(older.closed()).to_string();
        assert!(
            why.contains("too many connections of one identity"),
            "{why}"
        );
    }
    for silent in &open[2..] {
        let closed = eventually("it is closed", PATIENCE, || silent.quic().close_reason());
        assert!(
            LinkError::from(closed)
                .to_string()
                .contains("no control stream"),
            "each of the others was let in"
        );
    }
}

#[test]
fn an_upload_that_the_master_has_not_asked_for_waits_at_the_worker() {
    let (hostile, gateway) = prepared();
    let pc = towards(&gateway, hostile.enrol("worker", "pc"));
    let hash = BlobHash([7; 32]);
    let blob = BlobRef {
        hash,
        size: 1 << 30,
    };
    hostile.now(async {
        let connection = connected(&pc).await;
        // The same content comes once: the master takes the second one when it has the first.
        let mut first = connection.open(&Open::Put(blob)).await.expect("a stream");
        let asked = first.rx.expect::<PutReply>().await.expect("an answer");
        assert!(matches!(asked, PutReply::Resume(0)), "{asked:?}");

        let mut second = connection.open(&Open::Put(blob)).await.expect("a stream");
        let mut taken = 0;
        let flood = async {
            while let Ok(bytes) = second.tx.raw().write(&[0; 65_536]).await {
                taken += bytes;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(3), flood).await;
        // What a stream may have on its way, and no more: it is all here, or at the gateway.
        assert!(taken <= 3 << 19, "{taken} bytes");
    });
}
