//! A hostile client: it tries each way in that is closed, against a real master, and is refused in
//! the words that `docs/identity.md` has. What is refused stands in the master's audit log.
//!
//! It knows the protocol as well as the program does, and where that helps, even the CA's key.

mod forge;
mod peers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::selector::Selector;
use common::token::{JoinToken, Role};
use common::wire::client::{Reply, Request};
use common::wire::stream::Open;
use common::wire::{ALPN_CLIENT, ALPN_ENROL, ALPN_WORKER};
use common::{IdSet, JobId};
use link::{Client, Connection, Identity, LinkError, Purpose, tls};
use quinn::crypto::rustls::QuicClientConfig;
use serde_json::Value;
use tests::{Grid, eventually};

use forge::Forger;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A grid and somebody who means it ill.
pub(crate) struct Hostile {
    pub(crate) grid: Grid,
    runtime: tokio::runtime::Runtime,
}

impl Hostile {
    fn new() -> Self {
        Self::of(Grid::start())
    }

    pub(crate) fn of(grid: Grid) -> Self {
        Self {
            grid,
            runtime: tokio::runtime::Runtime::new().expect("a runtime"),
        }
    }

    pub(crate) fn now<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, what)
                .await
                .expect("nothing happened in time")
        })
    }

    pub(crate) fn enrol(&self, role: &str, name: &str) -> Identity {
        let token: JoinToken = self.grid.token(role).parse().expect("a token");
        self.now(link::enrol(self.grid.listen(), &token, name))
            .expect("lets in who has a good token")
    }

    pub(crate) fn client(&self, identity: &Identity) -> Client {
        self.now(Client::connect(identity))
            .expect("lets in whom it knows")
    }

    /// What the master answers to a connection of this identity.
    fn turned_away(&self, identity: &Identity, purpose: Purpose) -> String {
        self.now(async {
            match link::connect(identity, purpose).await {
                Ok(connection) => connection.closed().await.to_string(),
                Err(error) => error.to_string(),
            }
        })
    }

    fn ca(&self) -> Forger {
        let home = self.grid.state("admin").join("master");
        Forger::with_key_of(&home.join("ca.der"), &home.join("ca.key.der"))
    }

    pub(crate) fn admin<const N: usize>(&self, args: [&str; N]) -> Value {
        let done = self
            .grid
            .admin(["--output", "json"].into_iter().chain(args))
            .expect_code(0);
        done.json()
    }

    /// Waits until the audit log has this refusal.
    #[track_caller]
    pub(crate) fn audited(&self, who: &str, what: &str, words: &str) {
        eventually(
            &format!("`{words}` of {who} is in the audit log"),
            PATIENCE,
            || {
                let log = self.admin(["audit", "--last", "1000"]);
                let fits = |entry: &Value| {
                    let why = entry["why"].as_str().unwrap_or_default();
                    entry["who"] == who
                        && entry["what"] == what
                        && entry["allowed"] == false
                        && why.contains(words)
                };
                log["entries"]
                    .as_array()
                    .is_some_and(|entries| entries.iter().any(fits))
                    .then_some(())
            },
        );
    }
}

pub(crate) const HERE: &str = "127.0.0.1";

#[test]
fn certificates_that_are_missing_foreign_forged_expired_or_for_another_purpose_open_nothing() {
    let hostile = Hostile::new();
    let pc = hostile.enrol("worker", "pc");
    let ann = hostile.enrol("client", "ann");

    // Expected: the words that the peer reads, and those in the audit log where they are others.
    let foreign = Forger::new().identity(&pc, forge::Kind::Good);
    let ours = hostile.ca();
    let expired = ours.identity(&pc, forge::Kind::Expired);
    let wrong_purpose = ours.identity(&pc, forge::Kind::ForServers);
    let another_key = ours.identity(&pc, forge::Kind::Good);
    let stranger = ours.identity(&pc, forge::Kind::Stranger);
    let other_grid = ours.identity(&pc, forge::Kind::OtherGrid);
    let table = [
        (
            "foreign",
            &foreign,
            Purpose::Worker,
            "of another grid",
            "UnknownIssuer",
        ),
        (
            "expired",
            &expired,
            Purpose::Worker,
            "has expired",
            "xpired",
        ),
        (
            "for servers",
            &wrong_purpose,
            Purpose::Client,
            "does not accept",
            "key usage",
        ),
        (
            "of a known host, with another key",
            &another_key,
            Purpose::Worker,
            "not known here",
            "not known here",
        ),
        (
            "of nobody",
            &stranger,
            Purpose::Worker,
            "not known here",
            "not known here",
        ),
        (
            "of another grid, by our CA",
            &other_grid,
            Purpose::Worker,
            "of another grid",
            "of another grid",
        ),
    ];
    for (what, identity, purpose, words, logged) in table {
        let answer = hostile.turned_away(identity, purpose);
        assert!(answer.contains(words), "{what}: {answer}");
        hostile.audited(HERE, "connect", logged);
    }

    let as_client = hostile.turned_away(&pc, Purpose::Client);
    assert!(
        as_client.contains("an identity of role worker may not do this"),
        "{as_client}"
    );
    hostile.audited("pc", "connect", "role worker may not");

    let as_worker = hostile.turned_away(&ann, Purpose::Worker);
    assert!(
        as_worker.contains("an identity of role client may not do this"),
        "{as_worker}"
    );
    hostile.audited("ann", "connect", "role client may not");

    let hash = link::identity::key_hash(&pc.ca).expect("a CA");
    for alpn in [ALPN_WORKER, ALPN_CLIENT] {
        let naked = tls::joiner_config(hash, alpn, tls::TrustedEnds::Masters).expect("settings");
        let answer = hostile.now(closed(&dial(naked, hostile.grid.listen()).connected()));
        assert!(
            answer.contains("a certificate of the grid is needed"),
            "{answer}"
        );
    }

    hostile.audited(HERE, "connect", "a certificate of the grid is needed");
    let unknown = tls::joiner_config(hash, b"h3", tls::TrustedEnds::Masters).expect("settings");
    let error = hostile
        .now(dial(unknown, hostile.grid.listen()).try_connect())
        .expect_err("speaks nothing of ours");
    assert!(
        error.contains("120") || error.contains("protocol"),
        "{error}"
    );

    // After all of that, who may come in does.
    hostile.client(&ann);
}

/// A connection that is to be made with settings of one's own.
pub(crate) struct Dial {
    endpoint: quinn::Endpoint,
    config: quinn::ClientConfig,
    to: SocketAddr,
}

pub(crate) fn dial(config: rustls::ClientConfig, to: &str) -> Dial {
    let crypto = QuicClientConfig::try_from(config).expect("settings for QUIC");
    let to = to.parse().expect("an address");
    Dial {
        endpoint: endpoint(),
        config: quinn::ClientConfig::new(Arc::new(crypto)),
        to,
    }
}

fn endpoint() -> quinn::Endpoint {
    // Needs a runtime: made inside of one.
    let handle = RUNTIME.handle().clone();
    let _inside = handle.enter();
    quinn::Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a socket")
}

/// For endpoints of the hostile client's own.
pub(crate) static RUNTIME: std::sync::LazyLock<tokio::runtime::Runtime> =
    std::sync::LazyLock::new(|| tokio::runtime::Runtime::new().expect("a runtime"));

impl Dial {
    pub(crate) async fn try_connect(&self) -> Result<quinn::Connection, String> {
        let connecting = self
            .endpoint
            .connect_with(self.config.clone(), self.to, tls::MASTER_NAME);
        connecting
            .expect("can be tried")
            .await
            .map_err(|e| e.to_string())
    }

    /// The connection, as far as the client can tell.
    fn connected(self) -> quinn::Connection {
        RUNTIME
            .block_on(self.try_connect())
            .expect("the handshake is done before the master looks")
    }
}

async fn closed(connection: &quinn::Connection) -> String {
    connection.closed().await.to_string()
}

#[test]
fn no_session_is_resumed_and_nothing_is_taken_before_the_handshake_is_done() {
    let hostile = Hostile::new();
    let ann = hostile.enrol("client", "ann");
    let mut config =
        tls::client_config(&ann, ALPN_CLIENT, tls::TrustedEnds::Masters).expect("settings");
    config.resumption = rustls::client::Resumption::in_memory_sessions(16);
    config.enable_early_data = true;

    let dial = dial(config, hostile.grid.listen());
    for round in 0..3 {
        let connecting = {
            let _inside = RUNTIME.enter();
            let connecting =
                dial.endpoint
                    .connect_with(dial.config.clone(), dial.to, tls::MASTER_NAME);
            connecting.expect("can be tried").into_0rtt()
        };
        let Err(connecting) = connecting else {
            panic!("round {round}: early data could be sent")
        };
        let connection = hostile.now(connecting).expect("a full handshake");

        // Whatever the master would send after the handshake has had its time once a request is
        // answered.
        let answer = hostile.now(async {
            let (tx, rx) = connection.open_bi().await.expect("a stream");
            let mut channel = link::Channel::new(tx, rx);
            channel.tx.push(&Open::Request).expect("short");
            channel
                .tx
                .send(&Request::Hello(common::wire::Versions::ours()))
                .await
                .expect("sent");
            channel.rx.expect::<Reply>().await
        });
        assert!(matches!(answer, Ok(Reply::Welcome { .. })), "{answer:?}");
        connection.close(0u32.into(), b"again");
    }
}

#[test]
fn tokens_that_are_used_up_expired_revoked_guessed_or_of_another_ca_let_nobody_in() {
    let hostile = Hostile::new();
    let join = |token: &JoinToken| {
        let error = hostile
            .now(link::enrol(hostile.grid.listen(), token, "eve"))
            .err();
        error.map(|e| e.to_string()).unwrap_or_default()
    };

    let used: JoinToken = hostile.grid.token("client").parse().expect("a token");
    assert_eq!(join(&used), "");
    assert_eq!(join(&used), "the join token has been used up");

    let short = hostile.admin(["token", "create", "--role", "admin", "--ttl", "1ms"]);
    let short: JoinToken = short["token"]
        .as_str()
        .expect("a token")
        .parse()
        .expect("a token");
    eventually("the token expires", PATIENCE, || {
        (join(&short) == "the join token has expired").then_some(())
    });

    let revoked: JoinToken = hostile.grid.token("worker").parse().expect("a token");
    hostile.admin(["token", "revoke", &revoked.id.to_string()]);
    assert_eq!(join(&revoked), "the join token was revoked");

    let good: JoinToken = hostile.grid.token("worker").parse().expect("a token");
    let elsewhere = JoinToken {
        ca_key_hash: [7; 32],
        ..good.clone()
    };
    assert!(join(&elsewhere).contains("is not the master that this identity or token belongs to"));

    let answers: Vec<String> = (0..8)
        .map(|n| {
            join(&JoinToken {
                secret: [n; 16],
                ..good.clone()
            })
        })
        .collect();
    assert!(
        answers[..5]
            .iter()
            .all(|answer| answer == "there is no such join token"),
        "{answers:?}"
    );

    assert!(
        answers[5..]
            .iter()
            .all(|answer| answer == "too many wrong join tokens came from this address"),
        "{answers:?}"
    );

    for words in [
        "used up",
        "has expired",
        "was revoked",
        "no such join token",
        "too many wrong",
    ] {
        hostile.audited(HERE, "enrol", words);
    }
}

#[test]
fn a_user_reaches_no_other_users_job_and_nothing_of_an_admins() {
    let hostile = Hostile::new();
    let bag: u32 = hostile
        .grid
        .submit(["--", "true"])
        .parse()
        .expect("a number");
    let eve = hostile.client(&hostile.enrol("client", "eve"));
    let one = Selector::Ids(IdSet::from_range(bag, bag));
    let job = JobId(bag);
    let hidden = [
        Request::Jobs {
            jobs: one.clone(),
            states: Vec::new(),
        },
        Request::Tasks {
            job,
            tasks: Selector::All,
            states: Vec::new(),
        },
        Request::Outputs {
            job,
            tasks: Selector::All,
        },
        Request::Explain { job },
        Request::Cancel {
            jobs: one.clone(),
            tasks: None,
        },
        Request::Retry {
            job,
            tasks: Selector::All,
            only_failed: false,
        },
        Request::Recompute {
            job,
            tasks: Selector::All,
        },
        Request::Forget { jobs: one.clone() },
        Request::Share {
            jobs: one,
            user: "eve".into(),
            on: true,
        },
    ];
    for request in hidden {
        let answer = hostile
            .now(eve.ask(&request))
            .expect_err("another user's job");
        assert_eq!(
            answer.to_string(),
            format!("there is no job {bag}"),
            "{request:?}"
        );
    }

    hostile.audited("eve", "job", "it is another user's");
    let name = || "user".to_owned();
    let forbidden = [
        Request::TokenList,
        Request::TokenCreate {
            role: Role::Admin,
            ttl: common::Span::from_secs(60),
            uses: 1,
            name: name(),
            approval: false,
            speaks_for: None,
        },
        Request::TokenCreate {
            role: Role::Admin,
            ttl: common::Span::from_secs(60),
            uses: 1,
            name: name(),
            approval: true,
            speaks_for: None,
        },
        Request::TokenRevoke { id: 1 },
        Request::Identities { names: Vec::new() },
        Request::Approve { name: name() },
        Request::Revoke { name: name() },
        Request::Audit { most: 10 },
        Request::Drain { host: name() },
        Request::Undrain { host: name() },
        Request::HostForget { host: name() },
        Request::Availability {
            hosts: Vec::new(),
            since: common::Time(0),
            until: common::Time(1),
        },
    ];
    for request in forbidden {
        let answer = hostile.now(eve.ask(&request)).expect_err("an admin's");
        assert!(
            answer
                .to_string()
                .contains("needs the role admin, not client"),
            "{request:?}: {answer}"
        );
    }

    hostile.audited("eve", "request", "needs the role admin");
}

#[test]
fn a_revoked_user_is_out_within_two_seconds_and_stays_out() {
    let hostile = Hostile::new();
    let eve = hostile.enrol("client", "eve");
    let inside = hostile.client(&eve);

    hostile.admin(["identity", "revoke", "eve"]);
    let out = hostile.now(inside.connection().closed());
    assert!(
        matches!(&out, LinkError::NotAccepted(why) if why == "this identity was revoked"),
        "{out:?}"
    );
    assert!(
        hostile
            .turned_away(&eve, Purpose::Client)
            .contains("this identity was revoked")
    );
    hostile.audited("eve", "connect", "this identity was revoked");
}

#[test]
fn an_older_copy_of_a_renewed_identity_is_refused_and_noticed() {
    let hostile = Hostile::new();
    let pc = hostile.enrol("worker", "pc");
    let connection = hostile
        .now(link::connect(&pc, Purpose::Worker))
        .expect("lets in");
    let renewed = hostile
        .now(link::renewal::renew(&connection, &pc))
        .expect("renews");
    let connection = hostile
        .now(link::connect(&renewed, Purpose::Worker))
        .expect("lets in");
    hostile
        .now(link::renewal::renew(&connection, &renewed))
        .expect("the new one is in use");

    let answer = hostile.turned_away(&pc, Purpose::Worker);
    assert!(
        answer.contains("this identity was renewed elsewhere since"),
        "{answer}"
    );
    hostile.audited("pc", "connect", "renewed elsewhere");
}

/// Bytes that are no message, on a stream of their own.
async fn garbage(connection: &Connection, bytes: &[u8]) {
    let mut channel = connection.open_bare().await.expect("a stream");
    // The master may stop reading before the end.
    let _ = channel.tx.raw().write_all(bytes).await;
    channel.tx.finish();
    let answer = channel.rx.recv::<Reply>().await;
    assert!(
        !matches!(answer, Ok(Some(_))),
        "{answer:?} to {} bytes of garbage",
        bytes.len()
    );
}

#[test]
fn broken_messages_and_the_messages_of_others_end_their_stream_and_nothing_else() {
    let hostile = Hostile::new();
    let ann = hostile.enrol("client", "ann");
    let pc = hostile.enrol("worker", "pc");
    let client = hostile.client(&ann);
    let request = common::wire::encode(&Open::Request).expect("short");
    let mut trailing = request.clone();
    trailing[0] += 1;
    trailing.push(0);

    let noise: Vec<u8> = (0..5_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let broken = [
        u32::MAX.to_le_bytes().to_vec(),
        trailing,
        request[..3].to_vec(),
        noise,
        Vec::new(),
        common::wire::encode(&Open::Control).expect("short"),
    ];
    for bytes in &broken {
        hostile.now(garbage(client.connection(), bytes));
        hostile
            .now(client.ask(&Request::Jobs {
                jobs: Selector::All,
                states: Vec::new(),
            }))
            .expect("goes on");
    }

    // A worker that asks as a client does, and a joiner that says something else.
    let worker = hostile
        .now(link::connect(&pc, Purpose::Worker))
        .expect("lets in");
    let mut question = request;
    question.extend(common::wire::encode(&Request::TokenList).expect("short"));
    hostile.now(garbage(&worker, &question));

    let hash = link::identity::key_hash(&pc.ca).expect("a CA");
    let joiner = dial(
        tls::joiner_config(hash, ALPN_ENROL, tls::TrustedEnds::Masters).expect("settings"),
        hostile.grid.listen(),
    )
    .connected();
    let answer = hostile.now(async {
        let (tx, rx) = joiner.open_bi().await.expect("a stream");
        let mut channel = link::Channel::new(tx, rx);
        let _ = channel.tx.raw().write_all(&question).await;
        channel.tx.finish();
        channel.rx.recv::<Reply>().await
    });
    assert!(!matches!(answer, Ok(Some(_))), "{answer:?}");
    hostile
        .now(client.ask(&Request::Jobs {
            jobs: Selector::All,
            states: Vec::new(),
        }))
        .expect("goes on");
}

#[test]
fn a_ca_key_that_others_may_read_keeps_the_master_from_starting() {
    use std::os::unix::fs::PermissionsExt;
    let mut grid = Grid::start();
    grid.kill_master();
    let key: PathBuf = grid.state("admin").join("master/ca.key.der");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("can be set");
    let refused = grid.second_master().expect_code(1);
    assert!(
        refused.stderr.contains("others may read the CA's key")
            && refused.stderr.contains("chmod 600"),
        "{refused:?}"
    );
}
